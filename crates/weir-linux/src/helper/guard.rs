//! A process that runs commands when the main process has ended, even if it was killed.
//!
//! The guard runs in a separate terminal session and ignores signals. It receives its commands
//! before the main process starts what the commands undo, and keeps them in memory.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::role::{Role, command, ignore_signals};
use crate::process::{receive, send};
use crate::sys::process::signal_process;

/// The commands that a guard runs when the main process has ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Duty {
    /// The words of the command that undoes everything.
    undo: Vec<Vec<u8>>,
    /// The words of another command with the same effect, which runs if the first command fails.
    otherwise: Vec<Vec<u8>>,
    /// Whether the messages of the first command appear after an orderly end.
    shown: bool,
}

/// A message to the guard.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    /// The guard performs this duty at the end.
    Entrust(Duty),
    /// The main process stops the process with this number until [`Message::Release`].
    Hold(i32),
    /// The stopped process continues.
    Release,
    /// The main process ends in an orderly manner: none of its commands is still running.
    Finish,
}

/// A guard, as the main process sees it. Dropping it makes the guard perform its duty as after a
/// kill.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    /// The guard starts its work when this socket closes.
    lifeline: Option<UnixStream>,
}

impl Guard {
    /// Starts a guard that runs `undo` when this process has ended, and `otherwise` if `undo`
    /// fails. Call this before starting anything that the commands undo. If `shown`, the messages
    /// of `undo` appear on standard error after an orderly end.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(undo: &[OsString], otherwise: &[OsString], shown: bool) -> io::Result<Guard> {
        let (mut lifeline, helper_end) = UnixStream::pair()?;
        let mut command = command(Role::Guard, helper_end.as_raw_fd());
        let errors = io::stderr().as_fd().try_clone_to_owned()?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let child = command.spawn()?;
        drop(helper_end);
        let mut ready = [0];
        lifeline.read_exact(&mut ready)?;
        let words = |command: &[OsString]| command.iter().map(|w| w.as_bytes().to_vec()).collect();
        let duty = Duty { undo: words(undo), otherwise: words(otherwise), shown };
        send(&lifeline, &Message::Entrust(duty))?;
        Ok(Guard { child, lifeline: Some(lifeline) })
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

    /// Makes the guard perform its duty now, and waits for its end. Returns whether it succeeded.
    pub fn finish(mut self) -> bool {
        if let Some(lifeline) = &self.lifeline {
            // If the guard has been killed, its exit status shows it.
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
        // If the guard has been killed, only this can let the process continue.
        let _ = send(self.lifeline, &Message::Release);
    }
}

/// Runs as the guard.
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
    let mut duty = Duty::default();
    let mut is_orderly = false;
    let mut held = None;
    // Any end of this loop, even an error, means that the main process has ended.
    loop {
        match receive(&socket) {
            Ok(Message::Entrust(new)) => duty = new,
            Ok(Message::Hold(pid)) => held = Some(pid),
            Ok(Message::Release) => held = None,
            Ok(Message::Finish) => is_orderly = true,
            Err(_) => break,
        }
    }
    // A container whose first process is stopped cannot be removed.
    if let Some(pid) = held {
        signal_process(pid, libc::SIGCONT);
    }
    if is_orderly && execute(&duty.undo, duty.shown) {
        return ExitCode::SUCCESS;
    }
    // A request of a killed main process may take effect only after the first attempt, so the
    // commands run again after a pause.
    let mut done = undone(&duty);
    if !is_orderly {
        std::thread::sleep(SETTLES);
        done = undone(&duty);
    }
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the commands without messages: there may be no reader.
fn undone(duty: &Duty) -> bool {
    execute(&duty.undo, false) || execute(&duty.otherwise, false)
}

/// Runs a command. Returns whether it succeeded.
fn execute(words: &[Vec<u8>], shown: bool) -> bool {
    let words: Vec<OsString> = words.iter().cloned().map(OsString::from_vec).collect();
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
    let deadline = Instant::now() + LONGEST;
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

/// The longest time after which a request of a killed process takes effect.
const SETTLES: Duration = Duration::from_secs(1);
/// The longest time that a command may take.
const LONGEST: Duration = Duration::from_secs(120);
/// The interval at which the guard checks whether a command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
