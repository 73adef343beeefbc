//! Deficit round robin.
//!
//! # Model
//! Flows with packets stand in a ring. The one in front gets a quantum of credit, sends packets as long as the credit lasts,
//! and goes to the end; what it has not used it keeps while it has packets. So each flow sends bytes in proportion to its
//! weight, whatever the sizes of its packets.
//!
//! # Reference
//! Shreedhar and Varghese, "Efficient Fair Queuing Using Deficit Round-Robin", IEEE/ACM Transactions on Networking 4(3), 1996.
//!
//! # Parameters
//! `weight` 1..65536, default 1. `lmax` in bytes, default 1500: the largest of all flows' is the quantum of the flow of least
//! weight. Less would need several rounds to send one packet, more would let each flow hold up the others for longer.
//!
//! # Complexity
//! O(1) for each packet up to `lmax`, and one round more for each further `lmax` bytes of a larger one. A flow that comes or
//! goes, or changes, costs the logarithm of the number of different weights.
//!
//! # Guarantees
//! In units where `w` is the flow's weight over the least weight and `Q` the quantum of weight 1: over any time in which two
//! flows always have packets, their bytes divided by `w` differ by less than `2 Q` and one largest packet of each. Delay is
//! that of a round: it grows with the number of flows and their weights.
//!
//! # Differences from Linux/FreeBSD
//! dummynet's quantum is the weight times the flow's own `lmax`, which gives a flow of small packets fewer bytes of the same
//! weight. Here all flows of an instance have one base. Credit counts in bytes times the least weight, so that quanta need no
//! rounding and a set of weights 100, 200 sends in turns as short as 1, 2.
//!
//! # Validation
//! Shares against exact proportions, and the bound above, in the property tests over the table.

use alloc::collections::BTreeMap;

use super::{Discipline, FlowSlot, FlowSpec, LMAX, MAX_PACKET, MAX_WEIGHT, MIN_PACKET, Row, Scheduler, WEIGHT};
use crate::packet::{PacketId, PacketList, Store};
use crate::slab::Slab;
use crate::units::Nanos;

/// Deficit round robin.
#[derive(Debug)]
pub struct RoundRobin {
    flows: Slab<Flow>,
    /// The flow whose turn it is, or [`NONE`].
    front: u32,
    /// The flow in front has had its quantum for this turn.
    turn_begun: bool,
    len: usize,
    backlog: u64,
    /// Least weight of all flows, and their largest `lmax`.
    least_weight: u64,
    base: u64,
    weights: BTreeMap<u32, u32>,
    sizes: BTreeMap<u32, u32>,
}

/// A flow: its packets, its credit and its neighbours in the ring.
#[derive(Debug)]
struct Flow {
    list: PacketList,
    /// Bytes times the least weight.
    credit: u64,
    weight: u32,
    max_packet: u32,
    next: u32,
    previous: u32,
}

impl Default for RoundRobin {
    fn default() -> Self {
        Self {
            flows: Slab::default(),
            front: NONE,
            turn_begun: false,
            len: 0,
            backlog: 0,
            least_weight: 1,
            base: 1,
            weights: BTreeMap::new(),
            sizes: BTreeMap::new(),
        }
    }
}

impl RoundRobin {
    /// An empty one.
    pub fn new(_discipline: &Discipline) -> Self {
        Self::default()
    }

    /// Puts a flow at the end of the ring, which is before its front.
    fn link(&mut self, slot: u32) {
        let front = self.front;
        if front == NONE {
            let flow = self.flows.at_mut(slot);
            (flow.next, flow.previous) = (slot, slot);
            (self.front, self.turn_begun) = (slot, false);
            return;
        }
        let last = core::mem::replace(&mut self.flows.at_mut(front).previous, slot);
        self.flows.at_mut(last).next = slot;
        let flow = self.flows.at_mut(slot);
        (flow.next, flow.previous) = (front, last);
    }

    /// Takes a flow out of the ring. It keeps no credit.
    fn unlink(&mut self, slot: u32) {
        let flow = self.flows.at_mut(slot);
        let (next, previous) = (flow.next, flow.previous);
        flow.credit = 0;
        if next == slot {
            (self.front, self.turn_begun) = (NONE, false);
            return;
        }
        self.flows.at_mut(previous).next = next;
        self.flows.at_mut(next).previous = previous;
        if self.front == slot {
            (self.front, self.turn_begun) = (next, false);
        }
    }

    /// Takes over which weights and sizes there are. Credit is counted anew in the least weight.
    fn rescale(&mut self) {
        self.base = self.sizes.last_key_value().map_or(1, |(&size, _)| u64::from(size));
        let least = self.weights.first_key_value().map_or(1, |(&weight, _)| u64::from(weight));
        if least == self.least_weight {
            return;
        }
        let old = core::mem::replace(&mut self.least_weight, least);
        for slot in 0..self.flows.bound() {
            if let Some(flow) = self.flows.get_mut(slot) {
                flow.credit = flow.credit * least / old;
            }
        }
    }
}

impl Scheduler for RoundRobin {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let (weight, max_packet) = limits(spec);
        *self.weights.entry(weight).or_default() += 1;
        *self.sizes.entry(max_packet).or_default() += 1;
        self.rescale();
        let list = PacketList::default();
        FlowSlot(self.flows.insert(Flow { list, credit: 0, weight, max_packet, next: NONE, previous: NONE }))
    }

    fn change_flow<P: Store>(&mut self, _now: Nanos, _pool: &mut P, slot: FlowSlot, spec: &FlowSpec) {
        let (weight, max_packet) = limits(spec);
        let flow = self.flows.at_mut(slot.0);
        let old = (core::mem::replace(&mut flow.weight, weight), core::mem::replace(&mut flow.max_packet, max_packet));
        if old == (weight, max_packet) {
            return;
        }
        *self.weights.entry(weight).or_default() += 1;
        *self.sizes.entry(max_packet).or_default() += 1;
        forget(&mut self.weights, old.0);
        forget(&mut self.sizes, old.1);
        self.rescale();
    }

    fn remove_flow<P: Store>(&mut self, _now: Nanos, pool: &mut P, slot: FlowSlot, _flow: u32) -> PacketList {
        let Some(flow) = self.flows.get(slot.0) else { return PacketList::default() };
        let (list, weight, max_packet) = (flow.list, flow.weight, flow.max_packet);
        if !list.is_empty() {
            self.unlink(slot.0);
        }
        self.flows.remove(slot.0);
        forget(&mut self.weights, weight);
        forget(&mut self.sizes, max_packet);
        self.rescale();
        let (packets, bytes) = list.measure(pool);
        self.len -= packets;
        self.backlog -= bytes;
        list
    }

    #[inline]
    fn enqueue<P: Store>(&mut self, _now: Nanos, pool: &mut P, slot: FlowSlot, packet: PacketId) -> Option<PacketId> {
        self.len += 1;
        self.backlog += u64::from(pool.len(packet));
        let flow = self.flows.at_mut(slot.0);
        let was_empty = flow.list.is_empty();
        flow.list.push_back(pool, packet);
        if was_empty {
            self.link(slot.0);
        }
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, _now: Nanos, pool: &mut P) -> Option<PacketId> {
        loop {
            let slot = self.front;
            let flow = self.flows.get_mut(slot)?;
            let len = u64::from(flow.list.front_len());
            if !self.turn_begun {
                flow.credit += self.base * u64::from(flow.weight);
                self.turn_begun = true;
            }
            let cost = len * self.least_weight;
            if cost > flow.credit {
                (self.front, self.turn_begun) = (flow.next, false);
                continue;
            }
            flow.credit -= cost;
            let packet = flow.list.pop_front(pool);
            if flow.list.is_empty() {
                self.unlink(slot);
            }
            self.len -= 1;
            self.backlog -= len;
            return packet;
        }
    }

    #[inline]
    fn may_bypass(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }
}

/// A flow's weight and largest packet, within their ranges.
fn limits(spec: &FlowSpec) -> (u32, u32) {
    (spec.weight.clamp(1, MAX_WEIGHT), spec.max_packet.clamp(MIN_PACKET, MAX_PACKET))
}

/// Counts one fewer of `key`.
fn forget(counts: &mut BTreeMap<u32, u32>, key: u32) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

/// No flow.
const NONE: u32 = u32::MAX;

pub(super) const ROW: Row = Row {
    name: "rr",
    aliases: &["drr"],
    summary: "deficit round robin: flows take turns, each sends bytes by its weight",
    source: "Shreedhar and Varghese 1996",
    complexity: "O(1)",
    weighted: true,
    work_conserving: true,
    parameters: &[WEIGHT, LMAX],
};
