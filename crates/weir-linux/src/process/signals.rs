//! The signals that this process receives on behalf of its programs, and a switch that ends a wait
//! from another thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use crate::sys;

/// The signals that this process reads from a descriptor. They do not interrupt the process.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
}

/// A signal that this process received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// The signal's number.
    pub number: i32,
    /// Whether a terminal sent the signal. A terminal sends a signal to its whole foreground group,
    /// so the program has received it as well.
    pub from_terminal: bool,
}

impl Signals {
    /// Takes INT, TERM, HUP, QUIT, USR1 and USR2. Call it first in `main`, because a thread that
    /// already exists does not block these signals, which would then end the process.
    ///
    /// # Errors
    /// The kernel has no descriptor left.
    pub fn take() -> io::Result<Signals> {
        Ok(Signals { fd: sys::process::signal_descriptor(&TAKEN)? })
    }

    /// The next pending signal, if there is one.
    ///
    /// # Errors
    /// The descriptor cannot be read.
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

/// Ends a wait, for example [`crate::topology::Session::wait`] or [`super::Job::wait`], from any
/// thread. After the first use, every further wait ends at once.
#[derive(Clone, Debug)]
pub struct Stopper {
    event: Arc<OwnedFd>,
}

impl Stopper {
    /// An unused stopper.
    ///
    /// # Errors
    /// The kernel has no descriptor left.
    pub fn new() -> io::Result<Stopper> {
        Ok(Stopper { event: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?) })
    }

    /// Ends the wait.
    pub fn stop(&self) {
        // Writing fails only if the counter would overflow; in this case the counter is not zero,
        // as required.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}

impl AsFd for Stopper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Signals with which a user or a service manager ends or notifies the program.
const TAKEN: [i32; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];
