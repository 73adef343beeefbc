//! Strict priority.
//!
//! # Model
//! Each flow has a priority from 0 to 63. A packet leaves only when no packet with a lower priority
//! number waits. Within one priority packets leave in the order of arrival, regardless of their
//! flows.
//!
//! # Reference
//! Common practice in routers; the scheduler of this name in FreeBSD's dummynet.
//!
//! # Parameters
//! `pri` 0..63, default 0, which is served first. More priorities than the bits of a machine word
//! would need a search in two steps, and no use for them is known.
//!
//! # Complexity
//! O(1) for each packet: a machine word has one bit for each priority in use, and one instruction
//! finds the lowest bit. Changing or removing a flow visits the packets of its priority.
//!
//! # Guarantees
//! A packet waits for the packet in transmission, for earlier packets of its own priority, and for
//! all packets of lower priority numbers. There is no protection against starvation: a flow of
//! priority 0 that fills the link starves all other priorities. Packets of a flow stay in order
//! when its priority changes: its waiting packets move to the end of the new priority.
//!
//! # Differences from Linux/FreeBSD
//! dummynet takes the priority from `weight` and ignores `pri`; here `pri` is the priority. Linux's
//! `prio` has 2 to 16 bands, which it selects by a map of the type-of-service field.
//!
//! # Validation
//! The property tests over the table compare the order with a sorted list, and check the order
//! within a flow when its priority changes.

use super::{
    Discipline, Domain, FlowSlot, FlowSpec, MAX_PRIORITY, Parameter, Row, Scheduler, Traits,
};
use crate::packet::{PacketId, PacketList, Store};
use crate::slab::Slab;
use crate::units::Nanos;

/// Strict priority.
#[derive(Debug)]
pub struct Prio {
    /// The priorities with packets, one bit each.
    waiting: u64,
    len: usize,
    backlog: u64,
    lists: [PacketList; LEVELS],
    /// The priority of each flow.
    flows: Slab<u8>,
}

impl Default for Prio {
    fn default() -> Self {
        Self {
            waiting: 0,
            len: 0,
            backlog: 0,
            lists: [PacketList::default(); LEVELS],
            flows: Slab::default(),
        }
    }
}

impl Prio {
    /// An empty scheduler.
    pub fn new(_discipline: &Discipline) -> Self {
        Self::default()
    }

    /// Removes the packets of a flow from a priority, in order.
    fn take<P: Store>(&mut self, pool: &mut P, level: u8, flow: u32) -> PacketList {
        let list = &mut self.lists[usize::from(level)];
        let taken = list.take_flow(pool, flow);
        if list.is_empty() {
            self.waiting &= !(1 << level);
        }
        taken
    }
}

impl Scheduler for Prio {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        FlowSlot(self.flows.insert(level(spec)))
    }

    fn change_flow<P: Store>(
        &mut self,
        _now: Nanos,
        pool: &mut P,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        let new = level(spec);
        let old = core::mem::replace(self.flows.at_mut(slot.0), new);
        if old == new {
            return;
        }
        let mut moved = self.take(pool, old, spec.flow);
        while let Some(packet) = moved.pop_front(pool) {
            self.lists[usize::from(new)].push_back(pool, packet);
            self.waiting |= 1 << new;
        }
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        pool: &mut P,
        slot: FlowSlot,
        flow: u32,
    ) -> PacketList {
        let Some(level) = self.flows.remove(slot.0) else { return PacketList::default() };
        if self.waiting & 1 << level == 0 {
            return PacketList::default();
        }
        let removed = self.take(pool, level, flow);
        let (packets, bytes) = removed.measure(pool);
        self.len -= packets;
        self.backlog -= bytes;
        removed
    }

    #[inline]
    fn enqueue<P: Store>(
        &mut self,
        _now: Nanos,
        pool: &mut P,
        slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        let level = *self.flows.at(slot.0);
        self.len += 1;
        self.backlog += u64::from(pool.len(packet));
        self.waiting |= 1 << level;
        self.lists[usize::from(level)].push_back(pool, packet);
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, _now: Nanos, pool: &mut P) -> Option<PacketId> {
        let level = self.waiting.trailing_zeros();
        let list = self.lists.get_mut(level as usize)?;
        let packet = list.pop_front(pool)?;
        if list.is_empty() {
            self.waiting &= !(1 << level);
        }
        self.len -= 1;
        self.backlog -= u64::from(pool.len(packet));
        Some(packet)
    }

    #[inline]
    fn may_bypass(&self) -> bool {
        self.waiting == 0
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }
}

/// The priority of a flow, within its range.
fn level(spec: &FlowSpec) -> u8 {
    spec.priority.min(MAX_PRIORITY) as u8
}

/// The number of priorities, one for each bit of a machine word.
const LEVELS: usize = MAX_PRIORITY as usize + 1;

pub(super) const PRIORITY: Parameter = Parameter {
    name: "pri",
    domain: Domain::Number { least: 0, most: MAX_PRIORITY as u64, unit: "" },
    default: 0,
    summary: "priority of the flow; 0 is served first",
};

pub(super) const ROW: Row = Row {
    name: "prio",
    aliases: &["priority"],
    summary: "strict priority: a packet waits for every packet of a lower number",
    source: "practice of routers; dummynet, but with its pri keyword in effect",
    parameters: &[],
    traits: Traits {
        complexity: "O(1)",
        weighted: false,
        work_conserving: true,
        classifies: false,
        flow: &[PRIORITY],
    },
};
