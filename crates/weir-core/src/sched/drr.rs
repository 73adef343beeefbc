//! Deficit round robin.
//!
//! # Model
//! Flows with packets form a ring. The flow in front gets a quantum of credit, sends packets while
//! the credit lasts, and moves to the end of the ring. It keeps unused credit while it has packets.
//! Each flow therefore sends bytes in proportion to its weight, regardless of packet sizes.
//!
//! # Reference
//! Shreedhar and Varghese, "Efficient Fair Queuing Using Deficit Round-Robin", IEEE/ACM
//! Transactions on Networking 4(3), 1996.
//!
//! # Parameters
//! `weight` 1..65536, default 1. `lmax` in bytes, default 1500: the flow's largest packet. The
//! largest `lmax` of all flows is the quantum of the flow with the least weight. A smaller quantum
//! would need several rounds to send one packet; a larger quantum would let each flow delay other
//! flows for longer. `variant` `published` or `linux`, default `published`: the time at which a
//! flow without enough credit moves to the end of the ring. With `published` the flow moves at
//! once, so that another flow that becomes busy before the next departure is behind it. With
//! `linux` the flow gets its quantum and moves at the next departure, so that the other flow is in
//! front of it.
//!
//! # Complexity
//! O(1) for each packet up to `lmax`, and one more round for each further `lmax` bytes of a larger
//! packet. Adding, removing or changing a flow takes time logarithmic in the number of different
//! weights and sizes; a change of the least weight visits all flows.
//!
//! # Guarantees
//! Let `w` be a flow's weight divided by the least weight, and `Q` the quantum of the least weight.
//! Over any time in which two flows always have packets, their bytes divided by `w` differ by less
//! than `2 Q` plus one largest packet of each. A packet may wait for a whole round, which grows
//! with the number of flows and their weights.
//!
//! # Differences from Linux/FreeBSD
//! dummynet's quantum is the weight times the flow's own `lmax`, so that a flow with a small `lmax`
//! sends fewer bytes than other flows of the same weight. Here the largest `lmax` applies to all
//! flows of an instance. Credit counts in bytes times the least weight, so that quanta need no
//! rounding and weights of 100 and 200 give the same turns as weights of 1 and 2. With `variant
//! linux`, decisions are those of Linux's `drr` for the same quanta. In Linux the user sets each
//! class's quantum; quanta of 1500 and 4500 bytes are weights of 1 and 3 here.
//!
//! # Validation
//! The property tests over the table compare shares with exact proportions, and check the bound
//! above.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::batch::{self, Batched, Foresight};
use super::qfq::limits;
use super::{Discipline, FlowSlot, FlowSpec, LMAX, Row, Scheduler, Traits, WEIGHT};
use crate::packet::{PacketId, PacketList, Store};
use crate::slab::Lines;
use crate::units::Nanos;
use crate::{choice, settings};

choice! {
    /// The time at which a flow without enough credit moves to the end of the ring.
    enum Variant {
        Published = "published",
        Linux = "linux",
    }
}

settings! {
    /// Settings of deficit round robin.
    struct Settings {
        variant: Variant = Variant::setting(
            Variant::Published,
            "whether a flow that has used its credit moves to the end at once or at the next \
             departure",
        ),
    }
}

/// The deficit round robin scheduler.
#[derive(Debug)]
pub struct RoundRobin {
    flows: Lines<Flow>,
    front: u32,
    /// Whether a flow gets its first quantum when it enters the ring, and another when it has too
    /// little credit at the front and moves to the end. Otherwise it gets a quantum each time it
    /// comes to the front.
    credits_ahead: bool,
    foresight: Foresight,
    len: u32,
    backlog: u64,
    /// The least weight of all flows.
    least_weight: u64,
    /// The largest `lmax` of all flows.
    base: u64,
    /// The number of flows with each weight.
    weights: BTreeMap<u32, u32>,
    /// The number of flows with each `lmax`.
    sizes: BTreeMap<u32, u32>,
}

/// A flow: its packets, its credit and its neighbours in the ring. A weight of 0 marks an unused
/// slot.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Flow {
    /// The credit, in bytes times the least weight.
    credit: u64,
    list: PacketList,
    weight: u32,
    max_packet: u32,
    next: u32,
    previous: u32,
    /// The flow to prefetch after this one; see [`batch`].
    ahead: u32,
}

impl RoundRobin {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        Self { credits_ahead: Settings::of(discipline).variant == Variant::Linux, ..Self::empty() }
    }

    /// An empty scheduler with `variant linux`.
    pub(super) fn of_linux() -> Self {
        Self { credits_ahead: true, ..Self::empty() }
    }

    fn empty() -> Self {
        Self {
            flows: Lines::default(),
            front: NONE,
            credits_ahead: false,
            foresight: Foresight::default(),
            len: 0,
            backlog: 0,
            least_weight: 1,
            base: 1,
            weights: BTreeMap::new(),
            sizes: BTreeMap::new(),
        }
    }

    /// Inserts a flow at the end of the ring, just before the front.
    #[inline(never)]
    fn link(&mut self, slot: u32) {
        let front = self.front;
        if front == NONE {
            let flow = self.flows.at_mut(slot);
            (flow.next, flow.previous) = (slot, slot);
            self.begin_turn(slot);
            return;
        }
        let last = core::mem::replace(&mut self.flows.at_mut(front).previous, slot);
        self.flows.at_mut(last).next = slot;
        let flow = self.flows.at_mut(slot);
        (flow.next, flow.previous) = (front, last);
        if self.credits_ahead {
            flow.credit = self.base * u64::from(flow.weight);
        }
    }

    /// Removes a flow from the ring, and discards its credit.
    #[inline(never)]
    fn unlink(&mut self, slot: u32) {
        let flow = self.flows.at_mut(slot);
        let (next, previous) = (flow.next, flow.previous);
        flow.credit = 0;
        if next == slot {
            self.front = NONE;
            return;
        }
        self.flows.at_mut(previous).next = next;
        self.flows.at_mut(next).previous = previous;
        if self.front == slot && self.credits_ahead {
            self.front = next;
        } else if self.front == slot {
            self.begin_turn(next);
        }
    }

    /// Moves a flow to the front and adds its quantum to its credit.
    #[inline]
    fn begin_turn(&mut self, slot: u32) {
        self.front = slot;
        self.add_quantum(slot);
    }

    #[inline]
    fn add_quantum(&mut self, slot: u32) {
        let flow = self.flows.at_mut(slot);
        flow.credit += self.base * u64::from(flow.weight);
    }

    /// Recomputes quanta from the current weights and sizes, and converts credit to the new least
    /// weight.
    fn rescale(&mut self) {
        self.base = self.sizes.last_key_value().map_or(1, |(&size, _)| u64::from(size));
        let least = self.weights.first_key_value().map_or(1, |(&weight, _)| u64::from(weight));
        if least == self.least_weight {
            return;
        }
        let old = core::mem::replace(&mut self.least_weight, least);
        for flow in self.flows.iter_mut() {
            flow.credit = flow.credit * least / old;
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
        FlowSlot(self.flows.insert(Flow {
            credit: 0,
            list,
            weight,
            max_packet,
            next: NONE,
            previous: NONE,
            ahead: NONE,
        }))
    }

    fn change_flow<P: Store>(
        &mut self,
        _now: Nanos,
        _store: &mut P,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        let (weight, max_packet) = limits(spec);
        let flow = self.flows.at_mut(slot.0);
        let old = (
            core::mem::replace(&mut flow.weight, weight),
            core::mem::replace(&mut flow.max_packet, max_packet),
        );
        if old == (weight, max_packet) {
            return;
        }
        *self.weights.entry(weight).or_default() += 1;
        *self.sizes.entry(max_packet).or_default() += 1;
        forget(&mut self.weights, old.0);
        forget(&mut self.sizes, old.1);
        self.rescale();
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        _flow: u32,
    ) -> PacketList {
        let Some(flow) = self.flows.get(slot.0).filter(|flow| flow.weight != 0) else {
            return PacketList::default();
        };
        let (list, weight, max_packet) = (flow.list, flow.weight, flow.max_packet);
        if !list.is_empty() {
            self.unlink(slot.0);
        }
        self.flows.at_mut(slot.0).weight = 0;
        self.flows.release(slot.0);
        forget(&mut self.weights, weight);
        forget(&mut self.sizes, max_packet);
        self.rescale();
        let (packets, bytes) = list.measure(store);
        self.len -= packets as u32;
        self.backlog -= bytes;
        list
    }

    #[inline]
    fn enqueue<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        let len = store.len(packet);
        self.len += 1;
        self.backlog += u64::from(len);
        let flow = self.flows.at_mut(slot.0);
        if flow.list.is_empty() {
            flow.list.push_back_of(store, packet, len);
            self.link(slot.0);
        } else {
            flow.list.push_back_of(store, packet, len);
        }
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, _now: Nanos, store: &mut P) -> Option<PacketId> {
        self.serve(store).map(|served| served.1)
    }

    fn enqueue_batch<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        packets: &[(FlowSlot, PacketId)],
        refused: &mut Vec<PacketId>,
    ) {
        batch::enqueue(self, now, store, packets, refused);
    }

    fn dequeue_batch<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        max: usize,
        out: &mut Vec<PacketId>,
    ) {
        batch::dequeue(self, store, max, out);
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

impl batch::Flow for Flow {
    #[inline]
    fn list(&self) -> &PacketList {
        &self.list
    }

    #[inline]
    fn ahead(&mut self) -> &mut u32 {
        &mut self.ahead
    }
}

impl Batched for RoundRobin {
    type Flow = Flow;

    #[inline]
    fn flows(&mut self) -> (&mut Lines<Flow>, &mut Foresight) {
        (&mut self.flows, &mut self.foresight)
    }

    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    fn serve<P: Store>(&mut self, store: &mut P) -> Option<(u32, PacketId)> {
        let slot = self.front;
        let flow = self.flows.get_mut(slot)?;
        let len = flow.list.front_len();
        let cost = u64::from(len) * self.least_weight;
        if cost > flow.credit {
            return self.serve_long(store);
        }
        flow.credit -= cost;
        let (packet, more) = flow.list.take_first(store);
        self.len -= 1;
        self.backlog -= u64::from(len);
        if !more {
            self.unlink(slot);
        } else if u64::from(flow.list.front_len()) * self.least_weight > flow.credit
            && !self.credits_ahead
        {
            let next = flow.next;
            self.begin_turn(next);
        }
        Some((slot, packet))
    }
}

impl RoundRobin {
    /// Advances the ring until the flow in front has credit for its packet, and serves this packet.
    /// This is necessary under `variant linux`, for a packet longer than the largest `lmax`, and
    /// after a quantum has become smaller.
    #[cold]
    #[inline(never)]
    fn serve_long<P: Store>(&mut self, store: &mut P) -> Option<(u32, PacketId)> {
        loop {
            let flow = self.flows.get(self.front)?;
            if u64::from(flow.list.front_len()) * self.least_weight <= flow.credit {
                return self.serve(store);
            }
            let next = flow.next;
            if self.credits_ahead {
                self.add_quantum(self.front);
                self.front = next;
            } else {
                self.begin_turn(next);
            }
        }
    }
}

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
    name: "drr",
    aliases: &["rr"],
    summary: "deficit round robin: flows take turns and send bytes in proportion to their weights",
    source: "Shreedhar and Varghese 1996",
    parameters: Settings::PARAMETERS,
    traits: Traits {
        complexity: "O(1)",
        weighted: true,
        work_conserving: true,
        classifies: false,
        flow: &[WEIGHT, LMAX],
    },
};
