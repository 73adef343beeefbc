//! Any scheduler of the table, without a virtual call, and the change from one to another while packets wait.

use alloc::boxed::Box;

use super::{Fifo, FlowSlot, FlowSpec, Kind, Prio, RoundRobin, Scheduler, Wf2qPlus};
use crate::packet::{PacketId, PacketList, Pool};
use crate::units::Nanos;

/// Any scheduler of the table. The FIFO stands in place, since most links have nothing else; the others are behind a pointer.
#[derive(Debug)]
pub(crate) enum AnyScheduler {
    Fifo(Fifo),
    RoundRobin(Box<RoundRobin>),
    Wf2qPlus(Box<Wf2qPlus>),
    Prio(Box<Prio>),
    Behind(Box<Behind>),
}

/// A scheduler behind packets that go before all of its own.
#[derive(Debug)]
pub(crate) struct Behind {
    first: Fifo,
    then: AnyScheduler,
}

impl AnyScheduler {
    pub(crate) fn new(kind: Kind) -> Self {
        match kind {
            Kind::Fifo => Self::Fifo(Fifo::default()),
            Kind::RoundRobin => Self::RoundRobin(Box::default()),
            Kind::Wf2qPlus => Self::Wf2qPlus(Box::default()),
            Kind::Prio => Self::Prio(Box::default()),
        }
    }

    /// Lets what waits now leave in the order in which it would have, before every packet that comes later. Where a flow is
    /// given another place, this keeps its order. A FIFO does so by itself.
    pub(crate) fn settle(&mut self, pool: &mut Pool) {
        let settled = match self {
            Self::Fifo(_) => true,
            Self::Behind(b) => b.then.is_empty(),
            _ => self.is_empty(),
        };
        if settled {
            return;
        }
        let mut first = Fifo::default();
        first.take_all(self, pool);
        self.go_behind(first);
    }

    /// Goes behind what waits in `old`, which leaves in the order in which it would have.
    pub(crate) fn put_behind(&mut self, old: &mut Self, pool: &mut Pool) {
        let mut first = Fifo::default();
        first.take_all(old, pool);
        self.go_behind(first);
    }

    fn go_behind(&mut self, first: Fifo) {
        let then = core::mem::replace(self, Self::Fifo(Fifo::default()));
        *self = Self::Behind(Box::new(Behind { first, then }));
    }

    /// Takes the scheduler itself out of its place behind other packets, when these have left.
    #[cold]
    #[inline(never)]
    fn come_to_the_front(&mut self) {
        if let Self::Behind(b) = self {
            let then = core::mem::replace(&mut b.then, Self::Fifo(Fifo::default()));
            *self = then;
        }
    }
}

/// Calls the same method of whichever scheduler it is.
macro_rules! each {
    ($any:expr, $s:ident => $call:expr) => {
        match $any {
            Self::Fifo($s) => $call,
            Self::RoundRobin($s) => $call,
            Self::Wf2qPlus($s) => $call,
            Self::Prio($s) => $call,
            Self::Behind($s) => $call,
        }
    };
}

// A FIFO is asked first, and in place: it is what most links have, and a packet meets it several times.
impl Scheduler for AnyScheduler {
    fn add_flow(&mut self, now: Nanos, spec: &FlowSpec) -> FlowSlot {
        each!(self, s => s.add_flow(now, spec))
    }

    fn change_flow(&mut self, now: Nanos, pool: &mut Pool, slot: FlowSlot, spec: &FlowSpec) {
        each!(self, s => s.change_flow(now, pool, slot, spec));
    }

    fn remove_flow(&mut self, now: Nanos, pool: &mut Pool, slot: FlowSlot, flow: u32) -> PacketList {
        each!(self, s => s.remove_flow(now, pool, slot, flow))
    }

    #[inline]
    fn enqueue(&mut self, now: Nanos, pool: &mut Pool, slot: FlowSlot, packet: PacketId) {
        match self {
            Self::Fifo(s) => s.enqueue(now, pool, slot, packet),
            other => other.enqueue_other(now, pool, slot, packet),
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Nanos, pool: &mut Pool) -> Option<PacketId> {
        match self {
            Self::Fifo(s) => s.dequeue(now, pool),
            other => other.dequeue_other(now, pool),
        }
    }

    #[inline]
    fn next_event(&self) -> Option<Nanos> {
        match self {
            Self::Fifo(_) => None,
            other => other.next_event_of_other(),
        }
    }

    #[inline]
    fn may_bypass(&self) -> bool {
        match self {
            Self::Fifo(s) => s.may_bypass(),
            other => other.other_may_bypass(),
        }
    }

    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Fifo(s) => s.len(),
            other => other.len_of_other(),
        }
    }

    fn backlog(&self) -> u64 {
        each!(self, s => s.backlog())
    }
}

// The others, out of the way of the FIFO.
impl AnyScheduler {
    #[inline(never)]
    fn enqueue_other(&mut self, now: Nanos, pool: &mut Pool, slot: FlowSlot, packet: PacketId) {
        each!(self, s => s.enqueue(now, pool, slot, packet));
    }

    #[inline(never)]
    fn dequeue_other(&mut self, now: Nanos, pool: &mut Pool) -> Option<PacketId> {
        if let Self::Behind(b) = self
            && b.first.is_empty()
        {
            self.come_to_the_front();
        }
        each!(self, s => s.dequeue(now, pool))
    }

    #[inline(never)]
    fn next_event_of_other(&self) -> Option<Nanos> {
        each!(self, s => s.next_event())
    }

    #[inline(never)]
    fn other_may_bypass(&self) -> bool {
        each!(self, s => s.may_bypass())
    }

    #[inline(never)]
    fn len_of_other(&self) -> usize {
        each!(self, s => s.len())
    }
}

impl Scheduler for Behind {
    fn add_flow(&mut self, now: Nanos, spec: &FlowSpec) -> FlowSlot {
        self.then.add_flow(now, spec)
    }

    fn change_flow(&mut self, now: Nanos, pool: &mut Pool, slot: FlowSlot, spec: &FlowSpec) {
        self.then.change_flow(now, pool, slot, spec);
    }

    fn remove_flow(&mut self, now: Nanos, pool: &mut Pool, slot: FlowSlot, flow: u32) -> PacketList {
        let mut removed = self.first.remove_flow(now, pool, slot, flow);
        let mut later = self.then.remove_flow(now, pool, slot, flow);
        while let Some(packet) = later.pop_front(pool) {
            removed.push_back(pool, packet);
        }
        removed
    }

    fn enqueue(&mut self, now: Nanos, pool: &mut Pool, slot: FlowSlot, packet: PacketId) {
        self.then.enqueue(now, pool, slot, packet);
    }

    fn dequeue(&mut self, now: Nanos, pool: &mut Pool) -> Option<PacketId> {
        self.first.dequeue(now, pool).or_else(|| self.then.dequeue(now, pool))
    }

    fn next_event(&self) -> Option<Nanos> {
        if self.first.is_empty() { self.then.next_event() } else { None }
    }

    fn len(&self) -> usize {
        self.first.len() + self.then.len()
    }

    fn backlog(&self) -> u64 {
        self.first.backlog() + self.then.backlog()
    }
}
