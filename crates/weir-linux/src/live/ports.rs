//! All ports of a worker, and the wait for one of them to become readable.
//!
//! A session may have two thousand ports, of which few have anything to do in one turn. The worker
//! keeps lists of these few ports, so that a turn takes time only for the ports that it uses.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use weir_core::Nanos;

use super::item::Item;
use super::live_port::LivePort;
use super::packets::Packets;
use super::watch::{Watch, Woken};
use crate::port::{AnyPort, Fault, Ingress, Losses};

#[derive(Debug)]
pub(super) struct Ports {
    ports: Vec<LivePort>,
    /// Ports that may have frames.
    ready: Indices,
    /// Ports with queued items.
    queued: Indices,
    /// Ports at which a fault may have begun or ended since it was last reported.
    suspect: Indices,
    watch: Watch,
    questions: Questions,
    /// Ports in an answer of the kernel. Empty between two answers; a field only to reuse the
    /// memory.
    found: Vec<usize>,
}

impl Ports {
    /// Takes the ports. The first turn receives from each of them.
    ///
    /// # Errors
    /// The system has no descriptor or memory left.
    pub(super) fn new(ports: Vec<AnyPort>) -> Result<Self, Errno> {
        let ports: Vec<LivePort> = ports.into_iter().map(LivePort::new).collect();
        let watch = Watch::new(ports.len())?;
        for (index, port) in ports.iter().enumerate() {
            watch.add(index, port.own_descriptor())?;
        }
        let mut ready = Indices::below(ports.len());
        (0..ports.len()).for_each(|index| ready.insert(index));
        Ok(Self {
            ready,
            queued: Indices::below(ports.len()),
            suspect: Indices::below(ports.len()),
            watch,
            questions: Questions::default(),
            found: Vec::new(),
            ports,
        })
    }

    pub(super) fn port(&self, index: usize) -> &LivePort {
        &self.ports[index]
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut LivePort> {
        self.ports.iter_mut()
    }

    /// Frames lost before they were received, by port.
    pub(super) fn losses(&mut self) -> Vec<Losses> {
        self.ports.iter_mut().map(LivePort::losses).collect()
    }

    /// Replaces a port by another one, which sends the queued frames.
    pub(super) fn replace(&mut self, index: usize, with: AnyPort) {
        let port = &mut self.ports[index];
        self.watch.remove(port.own_descriptor());
        port.replace(with);
        if let Err(errno) = self.watch.add(index, port.own_descriptor()) {
            port.fail(Fault::System(errno));
        }
        self.ready.insert(index);
        self.suspect.insert(index);
    }

    pub(super) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// Receives a batch from the port that has been ready for longest. Returns its index.
    pub(super) fn receive_next(
        &mut self,
        packets: &mut Packets,
        out: &mut Vec<Ingress>,
    ) -> Option<usize> {
        let index = self.ready.pop()?;
        let port = &mut self.ports[index];
        port.receive(packets, out);
        if port.is_ready() {
            self.ready.insert(index);
        }
        if port.fault_has_changed() {
            self.suspect.insert(index);
        }
        Some(index)
    }

    /// Appends an item to the queue of its lane's port.
    pub(super) fn enqueue(&mut self, item: Item, packets: &mut Packets) {
        let index = packets.lane(item.lane).config().to;
        self.ports[index].enqueue(item, packets);
        // A port that has just failed has no queued item. It is inserted, too, so that the next
        // flush notes the fault.
        self.queued.insert(index);
    }

    /// Sends the queued items of all ports.
    pub(super) fn flush(&mut self, packets: &mut Packets) {
        for _ in 0..self.queued.len() {
            let Some(index) = self.queued.pop() else { return };
            let port = &mut self.ports[index];
            port.flush(packets);
            if port.has_queued() {
                self.queued.insert(index);
            }
            if port.fault_has_changed() {
                self.suspect.insert(index);
            }
        }
    }

    /// The next port with a new fault, and that fault.
    pub(super) fn next_fault(&mut self) -> Option<(usize, Fault)> {
        loop {
            let index = self.suspect.pop()?;
            if let Some(fault) = self.ports[index].new_fault() {
                return Some((index, fault));
            }
        }
    }

    pub(super) fn any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether some port waits until the kernel accepts frames again.
    pub(super) fn any_blocked(&self) -> bool {
        self.queued.iter().any(|index| self.ports[index].is_blocked())
    }

    /// Asks the kernel, without waiting, about the ports that are not known to be ready. Makes no
    /// system call if all ports are ready, or if one is ready and the last question is recent.
    ///
    /// # Errors
    /// The system call failed, which does not happen on a working system.
    pub(super) fn check_readiness(&mut self, now: Nanos) -> Result<(), Errno> {
        if self.ready.len() == self.ports.len() || !self.questions.is_due(now, self.any_ready()) {
            return Ok(());
        }
        match self.watch.look(&self.ports, &mut self.found) {
            Ok(()) => self.note_found(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    /// Sleeps until a port is ready, `own` is readable, or `timeout` has passed.
    ///
    /// # Errors
    /// The system call failed, which does not happen on a working system.
    pub(super) fn sleep(&mut self, own: BorrowedFd<'_>, timeout: Nanos) -> Result<Woken, Errno> {
        match self.watch.sleep(&self.ports, own, timeout, &mut self.found) {
            Ok(woken) => {
                self.note_found();
                Ok(woken)
            }
            Err(Errno::INTR) => Ok(Woken::Port),
            Err(errno) => Err(errno),
        }
    }

    fn note_found(&mut self) {
        for index in self.found.drain(..) {
            let port = &mut self.ports[index];
            if port.works() {
                port.set_ready();
                self.ready.insert(index);
            } else {
                // The kernel would report the port's fault again at every question.
                self.watch.remove(port.own_descriptor());
            }
        }
    }
}

/// A set of indices in the order of their insertion.
#[derive(Debug)]
struct Indices {
    list: VecDeque<usize>,
    is_in: Vec<bool>,
}

impl Indices {
    /// An empty set for indices below `count`.
    fn below(count: usize) -> Self {
        Self { list: VecDeque::with_capacity(count), is_in: vec![false; count] }
    }

    fn insert(&mut self, index: usize) {
        if !std::mem::replace(&mut self.is_in[index], true) {
            self.list.push_back(index);
        }
    }

    fn pop(&mut self) -> Option<usize> {
        let index = self.list.pop_front()?;
        self.is_in[index] = false;
        Some(index)
    }

    fn len(&self) -> usize {
        self.list.len()
    }

    fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        self.list.iter().copied()
    }
}

/// Decides when the loop asks the kernel about idle ports.
#[derive(Debug, Default)]
struct Questions {
    last: Nanos,
}

impl Questions {
    /// Whether to ask at `now`: always if no port is ready, and otherwise every [`ASK_EVERY`].
    fn is_due(&mut self, now: Nanos, any_ready: bool) -> bool {
        let due = !any_ready || now.since(self.last) >= ASK_EVERY;
        if due {
            self.last = now;
        }
        due
    }
}

/// Minimum time between two questions about the idle ports of a busy loop. A question costs about
/// as much as a frame. The kernel records the arrival time of each frame, so a later answer makes
/// no packet late if the link delays the packet by more than this time.
const ASK_EVERY: Nanos = Nanos::from_micros(20);

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;
    use crate::port::AbsentPort;

    #[test]
    fn a_busy_loop_asks_about_idle_ports_once_in_a_while_and_an_idle_loop_always() {
        let mut questions = Questions::default();
        let mut asked = |us, any_ready| questions.is_due(Nanos::from_micros(us), any_ready);
        let busy: Vec<bool> = (100..150).step_by(5).map(|us| asked(us, true)).collect();
        assert_eq!(busy.iter().filter(|&&asked| asked).count(), 3, "{busy:?}");
        assert!(busy[0] && busy[4] && busy[8], "{busy:?}");
        assert!((150..160).all(|us| asked(us, false)), "an idle loop must know");
        assert!(!asked(160, true), "that was a question, too");
    }

    #[test]
    fn indices_are_taken_in_the_order_of_their_first_insertion() {
        let mut set = Indices::below(4);
        [2, 0, 2, 3].into_iter().for_each(|index| set.insert(index));
        assert_eq!((set.len(), set.pop()), (3, Some(2)));
        set.insert(2);
        assert_eq!([set.pop(), set.pop(), set.pop(), set.pop()], [Some(0), Some(3), Some(2), None]);
        assert!(set.is_empty());
    }

    /// Tests few ports and many ports, which are watched by different methods.
    #[test]
    fn the_worker_is_woken_by_its_own_descriptor_and_by_time() {
        for count in [2, 40] {
            let absent = || AnyPort::Absent(AbsentPort::new("gone").expect("a descriptor"));
            let mut ports =
                Ports::new((0..count).map(|_| absent()).collect()).expect("descriptors");
            while ports.ready.pop().is_some() {}
            let own = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
            let mut sleep = || ports.sleep(own.as_fd(), Nanos::from_millis(1));
            assert_eq!(sleep(), Ok(Woken::Timeout), "{count} ports");
            rustix::io::write(&own, &1u64.to_ne_bytes()).expect("an event");
            assert_eq!(sleep(), Ok(Woken::OwnDescriptor), "{count} ports");
            assert!(!ports.any_ready(), "{count} ports");
        }
    }
}
