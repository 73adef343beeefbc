//! Removes the containers of a lab when the lab ends, even if the main process was killed.
//!
//! The sweeper is a process in a separate terminal session that ignores signals and waits until the
//! main process has ended. It receives the engine's command and the label of the containers before
//! the first container exists.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::role::{Role, command, ignore_signals};
use crate::process::{receive, send};

/// The sweeper, as the main process sees it. Dropping it removes the containers.
#[derive(Debug)]
pub struct Sweeper {
    child: Child,
    /// The sweeper starts its work when this socket closes.
    lifeline: Option<UnixStream>,
    /// Whether no command of the engine will be running when this is dropped.
    settled: bool,
}

/// A message to the sweeper.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Message {
    /// Remove the containers and images with this label from this engine.
    Remove { engine: String, label: String },
    /// No command of the engine is still running.
    Settled,
}

impl Sweeper {
    /// Starts the sweeper, which is ready when this returns.
    ///
    /// # Errors
    /// The system has no process or descriptor left.
    pub fn start() -> io::Result<Self> {
        let (mut lifeline, helper_end) = UnixStream::pair()?;
        let mut command = command(Role::Sweeper, helper_end.as_raw_fd());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        let child = command.spawn()?;
        drop(helper_end);
        lifeline.read_exact(&mut [0])?;
        Ok(Self { child, lifeline: Some(lifeline), settled: true })
    }

    /// Makes the sweeper remove the containers and images with this label (`key=value`) at the end.
    /// `engine` is the engine's command.
    ///
    /// # Errors
    /// The sweeper has ended.
    pub fn entrust(&self, engine: &str, label: &str) -> io::Result<()> {
        let message = Message::Remove { engine: engine.to_owned(), label: label.to_owned() };
        self.lifeline.as_ref().map_or(Ok(()), |lifeline| send(lifeline, &message))
    }

    /// Makes the sweeper repeat its work at the end, as after `kill -9`: the engine may still be
    /// creating containers then.
    pub fn repeat(&mut self) {
        self.settled = false;
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Some(lifeline) = self.lifeline.take()
            && self.settled
        {
            // If the sweeper has ended, the message has no receiver.
            let _ = send(&lifeline, &Message::Settled);
        }
        let deadline = Instant::now() + LONGEST_SWEEP;
        // An engine that does not answer must not keep this process from ending.
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Runs as the sweeper: waits until the main process has ended, then removes its containers.
pub(super) fn run(socket: OwnedFd) -> ExitCode {
    ignore_signals();
    // Both calls are optional, as in the janitor.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"weir-sweeper");
    let mut socket = UnixStream::from(socket);
    if socket.write_all(&[1]).is_err() {
        return ExitCode::FAILURE;
    }
    let (mut all, mut settled) = (Vec::new(), false);
    while let Ok(message) = receive::<Message>(&socket) {
        match message {
            Message::Remove { engine, label } => all.push((engine, label)),
            Message::Settled => settled = true,
        }
    }
    // After the main process was killed, the engine may still execute its commands.
    let rounds = if settled { 1 } else { ROUNDS };
    for round in 0..rounds {
        if round > 0 {
            std::thread::sleep(BETWEEN_ROUNDS);
        }
        for (engine, label) in &all {
            sweep(engine, label);
        }
    }
    ExitCode::SUCCESS
}

/// Removes the containers, then the images, with a label.
fn sweep(engine: &str, label: &str) {
    let filter = format!("label={label}");
    for (list, remove) in [
        (&["ps", "-aq", "--no-trunc"], &["rm", "-f", "-v"][..]),
        (&["images", "-q", "--no-trunc"], &["rmi", "-f"][..]),
    ] {
        let listed = Command::new(engine).args(list).args(["--filter", &filter]).output();
        let Ok(listed) = listed else { continue };
        let text = String::from_utf8_lossy(&listed.stdout);
        let found: Vec<&str> = text.split_whitespace().collect();
        if !found.is_empty() {
            // If the removal fails, the next round repeats it, and otherwise the user finds the
            // rest.
            let _ = Command::new(engine).args(remove).args(&found).output();
        }
    }
}

/// The number of sweeps after the main process was killed.
const ROUNDS: u32 = 4;
const BETWEEN_ROUNDS: Duration = Duration::from_millis(400);
/// The longest wait for the containers' removal at the end of a lab.
const LONGEST_SWEEP: Duration = Duration::from_secs(30);
