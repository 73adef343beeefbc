//! First in, first out.
//!
//! # Model
//! Packets leave in the order of their arrival, regardless of their flows.
//!
//! # Reference
//! None; the FIFO is the baseline of every comparison.
//!
//! # Parameters
//! None. The limit of each flow's queue still applies, because it is checked before the packet
//! reaches the scheduler.
//!
//! # Complexity
//! O(1) for each packet.
//!
//! # Guarantees
//! Packets of all flows leave in order. There is no isolation: a flow's delay grows with the
//! backlog of all other flows.
//!
//! # Differences from Linux/FreeBSD
//! None.
//!
//! # Validation
//! The tests of the emulator compare order and conservation with a plain deque.

use super::{Discipline, FlowSlot, FlowSpec, Row, Scheduler, Traits};
use crate::packet::{PacketId, PacketList, Store};
use crate::units::Nanos;

/// The FIFO scheduler.
#[derive(Debug, Default)]
pub struct Fifo {
    list: PacketList,
    len: u32,
    backlog: u64,
}

impl Fifo {
    /// An empty scheduler.
    pub fn new(_discipline: &Discipline) -> Self {
        Self::default()
    }

    /// Takes the waiting packets of another scheduler, in the order in which that scheduler would
    /// have served them.
    pub(super) fn take_all<P: Store>(&mut self, from: &mut impl Scheduler, pool: &mut P) {
        while let Some(packet) = from.dequeue(Nanos::MAX, pool) {
            let refused = self.enqueue(Nanos::MAX, pool, FlowSlot::default(), packet);
            debug_assert!(refused.is_none(), "a FIFO accepts every packet");
        }
    }
}

impl Scheduler for Fifo {
    fn add_flow(&mut self, _now: Nanos, _spec: &FlowSpec) -> FlowSlot {
        FlowSlot::default()
    }

    fn change_flow<P: Store>(
        &mut self,
        _now: Nanos,
        _pool: &mut P,
        _slot: FlowSlot,
        _spec: &FlowSpec,
    ) {
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        pool: &mut P,
        _slot: FlowSlot,
        flow: u32,
    ) -> PacketList {
        if self.len == 0 {
            return PacketList::default();
        }
        let removed = self.list.take_flow(pool, flow);
        let (packets, bytes) = removed.measure(pool);
        self.len -= packets as u32;
        self.backlog -= bytes;
        removed
    }

    #[inline]
    fn enqueue<P: Store>(
        &mut self,
        _now: Nanos,
        pool: &mut P,
        _slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        let len = pool.len(packet);
        self.len += 1;
        self.backlog += u64::from(len);
        self.list.push_back_of(pool, packet, len);
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, _now: Nanos, pool: &mut P) -> Option<PacketId> {
        let len = self.list.front_len();
        let packet = self.list.pop_front(pool)?;
        self.len -= 1;
        self.backlog -= u64::from(len);
        Some(packet)
    }

    #[inline]
    fn may_bypass(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn len(&self) -> usize {
        self.len as usize
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }
}

pub(super) const ROW: Row = Row {
    name: "fifo",
    aliases: &[],
    summary: "first in, first out: one queue for all flows",
    source: "the baseline",
    parameters: &[],
    traits: Traits {
        complexity: "O(1)",
        weighted: false,
        work_conserving: true,
        classifies: false,
        flow: &[],
    },
};
