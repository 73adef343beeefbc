//! A process that runs commands when the main process asks for them, or has ended, even by a kill.
//!
//! The guard runs in a separate terminal session and ignores signals. It receives each command
//! before the main process takes the step that the command undoes, and keeps the command in memory.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::role::{Role, command, ignore_signals};
use crate::process::{receive, send};
use crate::sys::process::signal_process;

/// The commands that a guard runs when the main process calls [`Guard::finish`] or has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Duty {
    /// The words of the command that undoes everything.
    pub undo: Vec<OsString>,
    /// The words of another command with the same effect, which runs if the first command fails;
    /// empty if there is none.
    pub otherwise: Vec<OsString>,
    /// How often the commands run, one second apart, after the main process was killed. One attempt
    /// may not suffice, because a request of the killed process may take effect after the attempt.
    pub attempts: u32,
    /// The longest time that a command may take.
    pub within: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
enum Message {
    /// The guard also performs this duty when the main process has ended.
    Entrust(Duty),
    /// The main process stops the process with this number until [`Message::Release`].
    Hold(i32),
    /// The main process lets the stopped process continue.
    Release,
    /// The main process ends in an orderly manner: none of its commands is still running.
    Finish,
}

/// A guard, as the main process sees it. Dropping it makes the guard perform its duties as after a
/// kill.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    /// The guard starts its work when this socket closes.
    lifeline: Option<UnixStream>,
}

impl Guard {
    /// Starts a guard without duties. The guard is ready when this function returns. If `shown`,
    /// messages of [`Duty::undo`] appear on standard error after an orderly end.
    ///
    /// # Errors
    /// The system has no process or descriptor left.
    pub fn start(shown: bool) -> io::Result<Guard> {
        let (mut lifeline, helper_end) = UnixStream::pair()?;
        let mut command = command(Role::Guard, helper_end.as_raw_fd());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if shown {
            command.stderr(io::stderr().as_fd().try_clone_to_owned()?);
        }
        let child = command.spawn()?;
        drop(helper_end);
        lifeline.read_exact(&mut [0])?;
        Ok(Guard { child, lifeline: Some(lifeline) })
    }

    /// Adds a duty that the guard performs when this process has ended, after all earlier duties.
    /// Call this before starting anything that the commands undo.
    ///
    /// # Errors
    /// The guard has been killed.
    pub fn entrust(&self, duty: Duty) -> io::Result<()> {
        let lifeline = self.lifeline.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        send(lifeline, &Message::Entrust(duty))
    }

    /// Stops a process. It continues when the result is dropped or when this process is killed.
    ///
    /// # Errors
    /// The guard has been killed. The process is not stopped in this case.
    pub fn hold(&self, pid: u32) -> io::Result<Held<'_>> {
        let pid = i32::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let lifeline = self.lifeline.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        send(lifeline, &Message::Hold(pid))?;
        signal_process(pid, libc::SIGSTOP);
        Ok(Held { lifeline, pid })
    }

    /// Makes the guard perform its duties now, and waits until it has ended. Returns whether all
    /// duties succeeded.
    pub fn finish(mut self) -> bool {
        if let Some(lifeline) = &self.lifeline {
            // If the guard has been killed, its exit status shows that.
            let _ = send(lifeline, &Message::Finish);
        }
        drop(self.lifeline.take());
        self.child.wait().is_ok_and(|status| status.success())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        // After `finish` the child has been waited for, and this returns at once.
        let _ = self.child.wait();
    }
}

/// A process that is stopped until this value is dropped.
#[derive(Debug)]
pub struct Held<'a> {
    lifeline: &'a UnixStream,
    pid: i32,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        signal_process(self.pid, libc::SIGCONT);
        // Sending fails only if the guard has been killed.
        let _ = send(self.lifeline, &Message::Release);
    }
}

pub(super) fn run(socket: OwnedFd) -> ExitCode {
    ignore_signals();
    // The two calls are optional. A separate session protects the guard from signals to the group,
    // and a name shows it in process lists.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"weir-guard");
    let mut socket = UnixStream::from(socket);
    if socket.write_all(&[1]).is_err() {
        return ExitCode::FAILURE;
    }
    let mut duties = Vec::new();
    let mut is_orderly = false;
    let mut held = None;
    // An error means that the main process has closed its end of the socket or has ended.
    loop {
        match receive(&socket) {
            Ok(Message::Entrust(duty)) => duties.push(duty),
            Ok(Message::Hold(pid)) => held = Some(pid),
            Ok(Message::Release) => held = None,
            Ok(Message::Finish) => is_orderly = true,
            Err(_) => break,
        }
    }
    // A container with a stopped first process cannot be removed.
    if let Some(pid) = held {
        signal_process(pid, libc::SIGCONT);
    }
    let done = if is_orderly {
        // Each duty is done, even after one that failed.
        let undone = |duty: &Duty| execute(&duty.undo, duty.within, true) || undo(duty);
        duties.iter().filter(|duty| !undone(duty)).count() == 0
    } else {
        undo_repeatedly(&duties)
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Performs each duty as often as its [`Duty::attempts`] says. Returns whether the last attempt of
/// each duty succeeded.
fn undo_repeatedly(duties: &[Duty]) -> bool {
    let mut done = vec![false; duties.len()];
    for attempt in 0..duties.iter().map(|duty| duty.attempts).max().unwrap_or(0) {
        if attempt > 0 {
            std::thread::sleep(BETWEEN);
        }
        for (done, duty) in done.iter_mut().zip(duties) {
            if attempt < duty.attempts {
                *done = undo(duty);
            }
        }
    }
    done.iter().all(|done| *done)
}

/// Performs a duty without messages, because they may have no reader.
fn undo(duty: &Duty) -> bool {
    execute(&duty.undo, duty.within, false)
        || (!duty.otherwise.is_empty() && execute(&duty.otherwise, duty.within, false))
}

/// Runs a command. Returns whether it succeeded.
fn execute(words: &[OsString], within: Duration, shown: bool) -> bool {
    let Some((first, rest)) = words.split_first() else { return true };
    let mut command = Command::new(first);
    command.args(rest).stdin(Stdio::null()).stdout(Stdio::null());
    match io::stderr().as_fd().try_clone_to_owned() {
        Ok(errors) if shown => {
            command.stderr(errors);
        }
        _ => {
            command.stderr(Stdio::null());
        }
    }
    let Ok(mut child) = command.spawn() else { return false };
    let deadline = Instant::now() + within;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK_EVERY),
            _ => break,
        }
    }
    // Both calls fail only if the child has just ended.
    let _ = child.kill();
    let _ = child.wait();
    false
}

/// The time between two attempts after a kill.
const BETWEEN: Duration = Duration::from_secs(1);
/// The interval at which the guard checks whether a command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
