//! A port without an interface: it receives nothing, and what is sent to it is lost and counted.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// A port without an interface.
#[derive(Debug)]
pub struct AbsentPort {
    name: String,
    /// Never ready.
    event: OwnedFd,
}

impl AbsentPort {
    /// A port in place of the interface called `name`.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(name: &str) -> Result<Self, Errno> {
        Ok(Self {
            name: name.to_owned(),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl AsFd for AbsentPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
