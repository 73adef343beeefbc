//! A port without an interface: it receives nothing, and counts frames sent to it as lost.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// A port without an interface.
#[derive(Debug)]
pub struct AbsentPort {
    name: String,
    /// A descriptor that never becomes ready.
    event: OwnedFd,
}

impl AbsentPort {
    /// A port that replaces the interface called `name`.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(name: &str) -> Result<Self, Errno> {
        Ok(Self {
            name: name.to_owned(),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// The name of the missing interface.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl AsFd for AbsentPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
