//! How a worker learns which of its ports have frames.
//!
//! `ppoll` asks each port in turn, which is best for the two ports of most sessions. Its cost grows
//! with the number of ports. With many ports, the watch uses epoll, which keeps a list of ready
//! ports in the kernel. Each arriving frame then costs an entry in this list.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use weir_core::Nanos;

use super::live_port::LivePort;
use crate::sys::poll::PollSet;

#[derive(Debug)]
pub(super) struct Watch {
    poll: PollSet,
    /// The epoll descriptor with the descriptors and indices of all ports; `None` for few ports.
    list: Option<OwnedFd>,
}

/// The event that ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    Timeout,
    /// A port became ready, or a signal arrived.
    Port,
    /// The worker's own descriptor became readable; a port may be ready as well.
    OwnDescriptor,
}

impl Watch {
    /// A watch for `count` ports.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn new(count: usize) -> Result<Self, Errno> {
        let list = (count > FEW).then(|| epoll::create(CreateFlags::CLOEXEC)).transpose()?;
        Ok(Self { poll: PollSet::default(), list })
    }

    /// Watches the descriptor of a port, until it is removed.
    ///
    /// # Errors
    /// The system has no memory left.
    pub(super) fn add(&self, index: usize, port: BorrowedFd<'_>) -> Result<(), Errno> {
        let Some(list) = &self.list else { return Ok(()) };
        epoll::add(list, port, EventData::new_u64(index as u64), EventFlags::IN)
    }

    pub(super) fn remove(&self, port: BorrowedFd<'_>) {
        if let Some(list) = &self.list {
            // A descriptor that is not in the list was removed before.
            let _ = epoll::delete(list, port);
        }
    }

    /// Puts the indices of ports that have frames, or a fault, into `found`, without waiting. Ports
    /// that are known to be ready may be left out.
    ///
    /// # Errors
    /// `EINTR` when a signal arrived.
    pub(super) fn look(&mut self, ports: &[LivePort], found: &mut Vec<usize>) -> Result<(), Errno> {
        if self.list.is_some() {
            return self.read_list(found);
        }
        let descriptors = ports.iter().map(|port| port.descriptor().filter(|_| !port.is_ready()));
        self.poll.wait(descriptors, Nanos::ZERO)?;
        self.read_poll(ports, found);
        Ok(())
    }

    /// Waits until a port has frames, `own` is readable, or `timeout` has passed, and puts the
    /// indices of the ports into `found`.
    ///
    /// # Errors
    /// `EINTR` when a signal arrived.
    pub(super) fn sleep(
        &mut self,
        ports: &[LivePort],
        own: BorrowedFd<'_>,
        timeout: Nanos,
        found: &mut Vec<usize>,
    ) -> Result<Woken, Errno> {
        let (ready, own_index) = match &self.list {
            // The timeout of `ppoll` is finer than that of epoll in old kernels.
            Some(list) => {
                let both = [Some(list.as_fd()), Some(own)];
                (self.poll.wait(both.into_iter(), timeout)?, 1)
            }
            None => {
                let descriptors = ports.iter().map(LivePort::descriptor).chain([Some(own)]);
                (self.poll.wait(descriptors, timeout)?, ports.len())
            }
        };
        if ready == 0 {
            return Ok(Woken::Timeout);
        }
        let own_is_ready = self.poll.is_ready(own_index);
        match &self.list {
            Some(_) if self.poll.is_ready(0) => self.read_list(found)?,
            Some(_) => {}
            None => self.read_poll(ports, found),
        }
        Ok(if own_is_ready { Woken::OwnDescriptor } else { Woken::Port })
    }

    fn read_poll(&self, ports: &[LivePort], found: &mut Vec<usize>) {
        found.extend((0..ports.len()).filter(|&index| self.poll.is_ready(index)));
    }

    /// Reads one answer of epoll. The kernel moves the ports of the answer to the end of its list,
    /// so a port that does not fit into one answer is in a later answer.
    fn read_list(&self, found: &mut Vec<usize>) -> Result<(), Errno> {
        let Some(list) = &self.list else { return Ok(()) };
        let mut events = [const { MaybeUninit::<Event>::uninit() }; FOUND];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let (events, _) = epoll::wait(list, &mut events, Some(&at_once))?;
        found.extend(events.iter().map(|event| event.data.u64() as usize));
        Ok(())
    }
}

/// Up to this number of ports, the watch uses `ppoll`.
const FEW: usize = 16;
/// Maximum number of ports in one answer of epoll.
const FOUND: usize = 64;

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    fn event(count: u32) -> OwnedFd {
        eventfd(count, EventfdFlags::CLOEXEC).expect("a descriptor")
    }

    #[test]
    fn each_of_many_ready_ports_is_found_sooner_or_later() {
        let count = 3 * FOUND;
        let descriptors: Vec<OwnedFd> = (0..count).map(|n| event(u32::from(n % 2 == 0))).collect();
        let watch = Watch::new(count).expect("a descriptor");
        for (index, descriptor) in descriptors.iter().enumerate() {
            watch.add(index, descriptor.as_fd()).expect("memory");
        }
        let mut found = Vec::new();
        (0..3).for_each(|_| watch.read_list(&mut found).expect("an answer"));
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, (0..count).step_by(2).collect::<Vec<_>>());
        descriptors.iter().for_each(|descriptor| watch.remove(descriptor.as_fd()));
        found.clear();
        watch.read_list(&mut found).expect("an answer");
        assert!(found.is_empty(), "{found:?}");
    }
}
