//! The program that runs during a watch. Unlike the programs of `weir run`, it runs in the
//! namespaces of this process.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::libc;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use weir_linux::process::Signal;
use weir_linux::sys::process::{signal_process, unblock_signals};

use crate::output::Failure;

/// A running program. Dropping it kills the program.
#[derive(Debug)]
pub(super) struct Program {
    child: Child,
    descriptor: OwnedFd,
    /// When to kill the program; `None` until the program has been asked to end.
    deadline: Option<Instant>,
}

impl Program {
    /// Starts the program with the standard streams of this process.
    ///
    /// # Errors
    /// The error has the exit code of a shell: 127 if there is no such command, 126 if it cannot be
    /// executed. It has 125 if the end of the program cannot be awaited.
    pub(super) fn start(words: &[OsString]) -> Result<Self, Failure> {
        let name = words[0].to_string_lossy();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        unblock_signals(&mut command);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::new(
                127,
                format!("{name}: there is no such command; check its spelling and PATH"),
            ),
            _ => Failure::new(
                126,
                format!(
                    "{name}: cannot be executed ({error}); 'chmod +x' makes a script executable"
                ),
            ),
        })?;
        let pid = Pid::from_raw(child.id().cast_signed());
        match pid
            .ok_or(rustix::io::Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
        {
            Ok(descriptor) => Ok(Self { child, descriptor, deadline: None }),
            Err(errno) => {
                // The program has just started; its result is not needed.
                let _ = child.kill().and_then(|()| child.wait());
                Err(Failure::of_weir(format!("cannot wait for {name}: {errno}")))
            }
        }
    }

    /// The program's exit code if it has ended, as a shell reports it: 128 + n after signal n.
    pub(super) fn code(&mut self) -> Option<u8> {
        let status = self.child.try_wait().ok()??;
        let code =
            status.code().or_else(|| status.signal().map(|number| 128 + number)).unwrap_or(255);
        Some(u8::try_from(code).unwrap_or(255))
    }

    /// Forwards a signal to the program, unless the terminal sent it: the terminal sends its
    /// signals to the program directly. SIGUSR1 and SIGUSR2 are only forwarded. Every other
    /// forwarded signal asks the program to end and starts a grace period; a second one kills the
    /// program.
    pub(super) fn forward(&mut self, signal: Signal) {
        if signal.from_terminal {
            return;
        }
        signal_process(self.child.id().cast_signed(), signal.number);
        let grace = match signal.number {
            libc::SIGUSR1 | libc::SIGUSR2 => return,
            _ if self.deadline.is_some() => Duration::ZERO,
            libc::SIGINT => INTERRUPT_GRACE,
            _ => GRACE,
        };
        self.deadline = Some(Instant::now() + grace);
    }

    /// Asks the program to end.
    pub(super) fn end(&mut self) {
        if self.deadline.is_none() {
            signal_process(self.child.id().cast_signed(), libc::SIGTERM);
            self.deadline = Some(Instant::now() + GRACE);
        }
    }

    /// Kills the program if its deadline has passed.
    pub(super) fn enforce(&mut self) {
        if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            // The program may have ended already.
            let _ = self.child.kill();
        }
    }
}

impl AsFd for Program {
    /// A descriptor that becomes readable when the program ends.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // The program may have ended already.
            let _ = self.child.kill().and_then(|()| self.child.wait());
        }
    }
}

/// Time between SIGTERM, or another signal except SIGINT, and SIGKILL.
const GRACE: Duration = Duration::from_secs(3);
/// Time between SIGINT and SIGKILL. It is longer, because many programs handle SIGINT slowly.
const INTERRUPT_GRACE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &[&str]) -> Result<u8, Failure> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let mut program = Program::start(&words)?;
        loop {
            if let Some(code) = program.code() {
                return Ok(code);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!(run(&["sh", "-c", "exit 7"]).expect("it runs"), 7);
        assert_eq!(run(&["sh", "-c", "kill -9 $$"]).expect("it runs"), 137);
        assert!(run(&["no-such-program-anywhere"]).is_err() && run(&["/"]).is_err());
    }

    #[test]
    fn a_program_that_is_told_to_end_ends() {
        let mut program = Program::start(&["sleep".into(), "60".into()]).expect("it runs");
        program.end();
        while program.code().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(program.code(), Some(128 + 15));
    }
}
