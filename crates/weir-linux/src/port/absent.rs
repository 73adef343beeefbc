//! A port without an interface. Receiving and sending fail with
//! [`Fault::Vanished`](super::Fault::Vanished); the live loop counts the frames that it could not
//! send as dropped.

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
    /// A port in place of the interface `name`, which does not exist.
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
