//! The signals that this process takes for its programs, and the switch that ends a wait from
//! another thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use crate::sys;

/// The signals that end or concern a session, read from a descriptor instead of interrupting.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
}

/// A signal that this process was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// Whether a terminal sent it, and so to every process of the foreground group.
    pub from_terminal: bool,
}

impl Signals {
    /// Takes INT, TERM, HUP, QUIT, USR1 and USR2. Call it first in `main`: signals would still kill
    /// threads that exist already.
    ///
    /// # Errors
    /// When the kernel has no descriptor left.
    pub fn take() -> io::Result<Signals> {
        Ok(Signals { fd: sys::process::signal_descriptor(&TAKEN)? })
    }

    /// The next pending signal.
    ///
    /// # Errors
    /// When the descriptor cannot be read.
    pub fn next(&self) -> io::Result<Option<Signal>> {
        let info = sys::process::read_signal(self.fd.as_fd())?;
        Ok(info.map(|info| Signal { number: info.number, from_terminal: info.from_kernel }))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Ends [`crate::topology::Session::wait`] from any thread. Once used it stays used.
#[derive(Clone, Debug)]
pub struct Stopper {
    event: Arc<OwnedFd>,
}

impl Stopper {
    /// A stopper that was not used yet.
    ///
    /// # Errors
    /// When the kernel has no descriptor left.
    pub fn new() -> io::Result<Stopper> {
        Ok(Stopper { event: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?) })
    }

    /// Ends the wait.
    pub fn stop(&self) {
        // The counter refuses only when it would overflow, and then it is not zero.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}

impl AsFd for Stopper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Signals by which a user or a supervisor ends the program, or tells it something.
const TAKEN: [i32; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];
