//! A command in the machine's own network, with everything that it starts.
//!
//! The command runs in a PID namespace of its own, so that all its processes end with it, and with
//! this process. The command shares the terminal and the process group of this process.

use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use super::{Program, ProgramSpec, Signals, SpawnError, Stopper, Terminal, Wake, wait_any};

/// A running command. Dropping this value kills the command and everything that it started.
#[derive(Debug)]
pub struct Job {
    program: Option<Program>,
    terminal: Option<Terminal>,
    /// The time at which the command is killed, after a signal that asks it to end.
    deadline: Option<Instant>,
    /// The time that the command has after such a signal.
    grace: Duration,
}

/// The reason why a wait for a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEvent {
    /// The command has ended with this exit code; 128 + n when signal n ended it.
    Ended(u8),
    /// [`Stopper::stop`] was called.
    Stopped,
    /// The time `until` of [`Job::wait`] was reached.
    Time,
}

impl Job {
    /// Starts a command. A signal that asks the command to end gives it the time `grace`.
    ///
    /// # Errors
    /// The command cannot be executed, or its namespace cannot be created.
    pub fn start(command: &[OsString], grace: Duration) -> Result<Job, SpawnError> {
        if command.is_empty() {
            return Err(SpawnError::Empty);
        }
        let terminal = Terminal::in_foreground();
        let mut spec = ProgramSpec::new(command);
        spec.keep_capabilities = true;
        let (program, _) = Program::start(&spec, None)?;
        Ok(Job { program: Some(program), terminal, deadline: None, grace })
    }

    /// Waits until the command ends, `stopper` is used, or the time `until` is reached. Forwards
    /// signals that are sent to this process alone. The command itself receives the terminal's
    /// signals.
    ///
    /// # Errors
    /// Waiting itself fails.
    pub fn wait(
        &mut self,
        signals: &Signals,
        stopper: Option<&Stopper>,
        until: Option<Instant>,
    ) -> io::Result<JobEvent> {
        loop {
            let Some(program) = &mut self.program else { return Ok(JobEvent::Ended(KILLED)) };
            if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(JobEvent::Ended(self.kill()));
            }
            let next = [until, self.deadline].into_iter().flatten().min();
            match wait_any(&[&*program], Some(signals), stopper, next)? {
                Wake::Program(_) => {
                    if let Some(report) = program.report() {
                        self.close();
                        return Ok(JobEvent::Ended(report.code));
                    }
                }
                Wake::Signal(signal) if signal.from_terminal => {}
                Wake::Signal(signal) => {
                    program.signal(signal.number);
                    if signal.number != libc::SIGUSR1 && signal.number != libc::SIGUSR2 {
                        self.ask_to_end();
                    }
                }
                Wake::Stopped => return Ok(JobEvent::Stopped),
                Wake::Timeout if until.is_some_and(|until| until <= Instant::now()) => {
                    return Ok(JobEvent::Time);
                }
                Wake::Timeout => {}
            }
        }
    }

    /// Asks the command to end, with SIGTERM. [`Self::wait`] kills it after the grace period.
    pub fn terminate(&mut self) {
        if let Some(program) = &self.program {
            program.signal(libc::SIGTERM);
        }
        self.ask_to_end();
    }

    /// Starts the grace period. A second request shortens it.
    fn ask_to_end(&mut self) {
        let now = Instant::now();
        self.deadline = Some(match self.deadline {
            None => now + self.grace,
            Some(deadline) => deadline.min(now + HASTE),
        });
    }

    fn kill(&mut self) -> u8 {
        if let Some(program) = self.program.take() {
            program.kill();
        }
        self.close();
        KILLED
    }

    fn close(&mut self) {
        self.program = None;
        if let Some(terminal) = self.terminal.take() {
            terminal.take_back();
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The most time that a command has after a second signal.
const HASTE: Duration = Duration::from_secs(5);
/// The exit code that a shell gives for a process ended by SIGKILL.
const KILLED: u8 = 128 + 9;
