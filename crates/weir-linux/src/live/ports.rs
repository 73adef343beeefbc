//! All ports of a worker, and the wait for one of them to become readable.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use weir_core::Nanos;

use super::item::Item;
use super::live_port::LivePort;
use super::packets::Packets;
use crate::port::{AnyPort, Losses};
use crate::sys::poll::PollSet;

/// The ports in the order of their indices.
#[derive(Debug)]
pub(super) struct Ports {
    ports: Vec<LivePort>,
    /// The readiness of all ports and, last, of the worker's own descriptor.
    poll: PollSet,
}

/// The event that ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// The timeout.
    Timeout,
    /// A port became ready, or a signal arrived.
    Port,
    /// The worker's own descriptor became readable; a port may be ready as well.
    OwnDescriptor,
}

impl Ports {
    pub(super) fn new(ports: Vec<AnyPort>) -> Self {
        Self { ports: ports.into_iter().map(LivePort::new).collect(), poll: PollSet::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.ports.len()
    }

    pub(super) fn port(&self, index: usize) -> &LivePort {
        &self.ports[index]
    }

    pub(super) fn port_mut(&mut self, index: usize) -> &mut LivePort {
        &mut self.ports[index]
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut LivePort> {
        self.ports.iter_mut()
    }

    /// Frames lost before they were received, by port.
    pub(super) fn losses(&mut self) -> Vec<Losses> {
        self.ports.iter_mut().map(LivePort::losses).collect()
    }

    /// Appends an item to the queue of its lane's port.
    pub(super) fn enqueue(&mut self, item: Item, packets: &mut Packets) {
        let port = packets.lane(item.lane).config().to;
        self.ports[port].enqueue(item, packets);
    }

    /// Sends the queued items of all ports.
    pub(super) fn flush(&mut self, packets: &mut Packets) {
        for port in &mut self.ports {
            port.flush(packets);
        }
    }

    /// Whether frames may be waiting at some port.
    pub(super) fn any_ready(&self) -> bool {
        self.ports.iter().any(LivePort::is_ready)
    }

    /// Whether the kernel accepted no frame on some port at the last attempt.
    pub(super) fn any_blocked(&self) -> bool {
        self.ports.iter().any(LivePort::is_blocked)
    }

    /// Asks the kernel, without waiting, about the ports that are not known to be ready. Makes no
    /// system call if all ports are ready.
    ///
    /// # Errors
    /// The system call failed, which does not happen on a working system.
    pub(super) fn check_readiness(&mut self) -> Result<(), Errno> {
        let asked = |port: &LivePort| !port.is_ready() && port.descriptor().is_some();
        if !self.ports.iter().any(asked) {
            return Ok(());
        }
        let Self { ports, poll } = self;
        let descriptors = ports.iter().map(|port| port.descriptor().filter(|_| !port.is_ready()));
        match poll.wait(descriptors, Nanos::ZERO) {
            Ok(0) | Err(Errno::INTR) => Ok(()),
            Ok(_) => {
                self.note_ready();
                Ok(())
            }
            Err(errno) => Err(errno),
        }
    }

    /// Sleeps until a port is ready, `own` is readable, or `timeout` has passed.
    ///
    /// # Errors
    /// The system call failed, which does not happen on a working system.
    pub(super) fn sleep(&mut self, own: BorrowedFd<'_>, timeout: Nanos) -> Result<Woken, Errno> {
        let Self { ports, poll } = self;
        let descriptors = ports.iter().map(LivePort::descriptor).chain(std::iter::once(Some(own)));
        match poll.wait(descriptors, timeout) {
            Ok(0) => Ok(Woken::Timeout),
            Ok(_) => {
                self.note_ready();
                let called = self.poll.is_ready(self.ports.len());
                Ok(if called { Woken::OwnDescriptor } else { Woken::Port })
            }
            Err(Errno::INTR) => Ok(Woken::Port),
            Err(errno) => Err(errno),
        }
    }

    fn note_ready(&mut self) {
        for (index, port) in self.ports.iter_mut().enumerate() {
            if self.poll.is_ready(index) {
                port.set_ready();
            }
        }
    }
}
