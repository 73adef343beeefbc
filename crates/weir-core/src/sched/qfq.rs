//! QFQ: quick fair queueing.
//!
//! # Model
//! A fluid server gives every flow with packets its share at every moment, and each packet has a
//! start and a finish in the fluid. Like WF2Q+, QFQ considers the packets that have started in the
//! fluid, and serves the one that the fluid finishes first. QFQ, however, compares rounded times.
//! Flows form a group if their largest packets take a similar time at the flows' shares. Times
//! within a group are rounded to multiples of about this time. So few different times remain that
//! the bits of a machine word give their order, and no search is needed.
//!
//! # Reference
//! Checconi, Rizzo and Valente, "QFQ: Efficient Packet Scheduling With Tight Guarantees", IEEE/ACM
//! Transactions on Networking 21(3), 2013. `groups/mod.rs` in the source describes the
//! implementation.
//!
//! # Parameters
//! `weight` 1..65536, default 1. `lmax` 64..65536 bytes, default 1500: the flow's largest packet. A
//! longer packet raises `lmax`, up to 2 MiB. Until the longer packet arrives, the flow's times are
//! rounded more finely, so that the flow is served sooner.
//!
//! # Complexity
//! O(1) for each packet, regardless of the number of flows: a few operations on machine words. A
//! packet that is enqueued behind other packets of its flow does not change the schedule. Changing
//! or removing a flow visits its packets and inspects up to 32 groups.
//!
//! # Guarantees
//! Let `φ = w / W` be a flow's share, with `W` the largest value of the sum of weights, `L_k` the
//! flow's `lmax`, `ℓ_k` its shortest packet, `L` the largest packet of all flows, and `σ` the unit
//! of the flow's times, with `L_k ≤ w σ < 2 L_k` in bytes. While the flow has packets, its bytes
//! are never behind its share of all bytes by more than
//! `3 w σ + max((1 − φ) L_k − ℓ_k + φ L, 2 φ L − ℓ_k)`: less than seven packets of its own plus
//! twice its share of the largest packet. The form that is usually quoted, `3 w σ + 2 φ L`, holds
//! for packets of one length; with mixed lengths some arrivals exceed it.
//!
//! # Differences from Linux/FreeBSD
//! Here `W` is the sum of the weights of the flows that have packets or that the fluid still
//! serves. In FreeBSD `W` is a constant; in Linux it counts all existing classes. In both systems,
//! the capacity of idle flows is shared in the order of starts alone, and a heavy flow among many
//! light flows gets its share in bursts. Here weights go up to 65536 (in Linux up to 1024, and
//! 65536 in total). `1 / w` has 32 bits of fraction and `1 / W` has 48; in Linux both have 30.
//! Times of flows that lag stay in order for any packet lengths. Flows with equal rounded starts
//! are served first-in first-out, not last-in first-out. When no packet waits, all times restart.
//!
//! # Validation
//! Tests check that packets leave in the same order as in a model that inspects every flow with
//! wide integers, over random operations, with weights and lengths at their limits, and with times
//! that are about to wrap around.

use alloc::vec::Vec;

use super::batch::{self, Batched, Foresight};
use super::groups::{self, Groups, Place, Stamped, Stamps};
use super::{
    Discipline, FlowSlot, FlowSpec, LMAX, MAX_PACKET, MAX_WEIGHT, MIN_PACKET, Row, Scheduler,
    Traits, WEIGHT,
};
use crate::packet::{PacketId, PacketList, Store};
use crate::prefetch;
use crate::slab::Lines;
use crate::units::Nanos;

/// The QFQ scheduler.
#[derive(Debug)]
pub struct Qfq {
    flows: Lines<Flow>,
    groups: Groups,
    /// The only flow with packets while it is in none of the groups; otherwise [`NONE`].
    lone: u32,
    foresight: Foresight,
    len: u32,
    backlog: u64,
}

/// A flow: its packets and its timestamps. A weight of 0 marks an unused slot.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Flow {
    stamps: Stamps,
    /// The era in which the flow's last packet left; see [`Groups::join`].
    era: u64,
    list: PacketList,
    weight: u32,
    max_packet: u32,
    /// The flow to prefetch after this one; see [`batch`].
    ahead: u32,
}

impl Stamped for Flow {
    #[inline]
    fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    #[inline]
    fn stamps_mut(&mut self) -> &mut Stamps {
        &mut self.stamps
    }
}

impl Qfq {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        let groups = Groups::new(discipline.epoch());
        Self {
            flows: Lines::default(),
            groups,
            lone: NONE,
            foresight: Foresight::default(),
            len: 0,
            backlog: 0,
        }
    }

    /// Enqueues the first packet of a flow, or a packet longer than `max_packet`.
    #[inline(never)]
    fn enqueue_first<P: Store>(&mut self, store: &mut P, slot: u32, packet: PacketId, len: u32) {
        let flow = self.flows.at_mut(slot);
        if len > flow.max_packet {
            let weight = flow.weight;
            self.set(slot, weight, len);
        }
        let flow = self.flows.at_mut(slot);
        let was_empty = flow.list.is_empty();
        flow.list.push_back_of(store, packet, len);
        if was_empty {
            flow.stamps.start =
                self.groups.join(flow.era, flow.stamps.start, flow.weight, flow.stamps.group);
            if self.len == 1 {
                self.lone = slot;
                return;
            }
            self.settle();
            self.groups.insert(&mut self.flows, slot);
        }
    }

    /// Inserts the flow `lone`, if there is one, into the groups.
    #[inline]
    fn settle(&mut self) {
        if self.lone != NONE {
            self.groups.insert(&mut self.flows, self.lone);
            self.lone = NONE;
        }
    }

    /// Serves the first flow. `give` makes the result from the flow's slot and its packet.
    ///
    /// Tail calls of other functions do the rare work, so that the common case needs few registers.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    fn serve_first<P: Store, R>(
        &mut self,
        store: &mut P,
        give: impl Fn(u32, PacketId) -> R,
    ) -> Option<R> {
        let Some(place) = self.groups.ready() else { return self.serve_lone(store, give) };
        let flows = self.flows.all_mut();
        // The next flow in the slot is usually served next.
        prefetch::read(flows, flows[place.id as usize].stamps.next());
        let flow = &mut flows[place.id as usize];
        if flow.list.is_single() {
            return self.serve_last(store, give);
        }
        let len = flow.list.front_len();
        let packet = flow.list.take_one(store);
        if !self.groups.try_transmit(len) {
            return self.serve_at_event(packet, len, give);
        }
        self.len -= 1;
        self.backlog -= u64::from(len);
        if place.leaves_slot(flow.stamps.charge(len)) && !self.groups.rotate(flows, place) {
            return self.relocate(packet, give);
        }
        Some(give(place.id, packet))
    }

    /// Serves the last packet of the first flow.
    #[inline(never)]
    fn serve_last<P: Store, R>(
        &mut self,
        store: &mut P,
        give: impl Fn(u32, PacketId) -> R,
    ) -> Option<R> {
        let place = self.groups.ready()?;
        let flow = self.flows.at_mut(place.id);
        let len = flow.list.front_len();
        let (packet, _) = flow.list.take_first(store);
        flow.stamps.charge(len);
        self.count(len);
        self.groups.remove(&mut self.flows, place);
        self.leave(place.id);
        Some(give(place.id, packet))
    }

    /// Completes the service of the first flow's packet when a group becomes eligible or a weight
    /// leaves at the new virtual time.
    #[inline(never)]
    fn serve_at_event<R>(
        &mut self,
        packet: PacketId,
        len: u32,
        give: impl Fn(u32, PacketId) -> R,
    ) -> Option<R> {
        let place = self.groups.ready()?;
        let changed = self.flows.at_mut(place.id).stamps.charge(len);
        self.count(len);
        if place.leaves_slot(changed) && !self.groups.rotate(self.flows.all_mut(), place) {
            self.relocate_from(place);
        }
        Some(give(place.id, packet))
    }

    /// Moves the first flow, which is alone in its slot, after its start has left this slot. The
    /// flow's packet is already removed.
    #[inline(never)]
    fn relocate<R>(&mut self, packet: PacketId, give: impl Fn(u32, PacketId) -> R) -> Option<R> {
        let place = self.groups.ready()?;
        self.relocate_from(place);
        Some(give(place.id, packet))
    }

    /// Moves the flow at `place`, which is alone in its slot, to the slot of its new start, or out
    /// of the groups if it is the only flow.
    #[inline]
    fn relocate_from(&mut self, place: Place) {
        if self.groups.take_out_only(place) {
            self.lone = place.id;
        } else {
            self.groups.relocate_last(&mut self.flows, place);
        }
    }

    /// Serves a flow when no group is eligible: the only flow, or the first flow that becomes
    /// eligible.
    #[inline(never)]
    fn serve_lone<P: Store, R>(
        &mut self,
        store: &mut P,
        give: impl Fn(u32, PacketId) -> R,
    ) -> Option<R> {
        let id = self.lone;
        let Some(flow) = self.flows.get_mut(id) else {
            self.groups.first()?;
            return self.serve_first(store, give);
        };
        self.groups.reach(&flow.stamps);
        let len = flow.list.front_len();
        let (packet, more) = flow.list.take_first(store);
        flow.stamps.charge(len);
        self.count(len);
        if !more {
            self.lone = NONE;
            self.leave(id);
        }
        Some(give(id, packet))
    }

    /// Counts a packet that leaves, and advances virtual time.
    #[inline]
    fn count(&mut self, len: u32) {
        self.len -= 1;
        self.backlog -= u64::from(len);
        self.groups.transmit(len);
    }

    /// Removes the weight of a flow after its last packet has left.
    #[inline]
    fn leave(&mut self, slot: u32) {
        if self.len == 0 {
            return self.groups.rest();
        }
        let flow = self.flows.at_mut(slot);
        flow.era = self.groups.leave(flow.stamps.start, flow.weight, flow.stamps.group);
    }

    /// Changes a flow's weight and largest packet, and moves the flow to the group for the new
    /// values.
    #[cold]
    #[inline(never)]
    fn set(&mut self, slot: u32, weight: u32, max_packet: u32) {
        let inverse = groups::inverse(u64::from(weight));
        let group = groups::group_of(max_packet, inverse);
        let Flow { stamps, era, list, weight: old, .. } = self.flows.at(slot);
        let (old, old_group, finish, era, busy) =
            (*old, stamps.group, stamps.start, *era, !list.is_empty());
        let moves = group != old_group;
        if busy && moves {
            self.settle();
            self.groups.take_out(&mut self.flows, slot);
        }
        let start = if busy { finish } else { self.groups.join(era, finish, old, old_group) };
        self.groups.reweigh(old, weight);
        let start = if moves { self.groups.within(start, group) } else { start };
        let era = if busy { era } else { self.groups.leave(start, weight, group) };
        let flow = self.flows.at_mut(slot);
        (flow.weight, flow.max_packet, flow.era) = (weight, max_packet, era);
        (flow.stamps.inverse, flow.stamps.group, flow.stamps.start) = (inverse, group, start);
        if busy && moves {
            self.groups.insert(&mut self.flows, slot);
        }
    }
}

impl Scheduler for Qfq {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let (weight, max_packet) = limits(spec);
        let inverse = groups::inverse(u64::from(weight));
        let stamps = Stamps::new(inverse, groups::group_of(max_packet, inverse));
        FlowSlot(self.flows.insert(Flow {
            stamps,
            era: groups::FORGOTTEN,
            list: PacketList::default(),
            weight,
            max_packet,
            ahead: 0,
        }))
    }

    fn change_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        let (weight, max_packet) = limits(spec);
        let flow = self.flows.at(slot.0);
        let longest = longest(&flow.list, store).max(max_packet);
        if (flow.weight, flow.max_packet) != (weight, longest) {
            self.set(slot.0, weight, longest);
        }
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        _flow: u32,
    ) -> PacketList {
        let Some(flow) = self.flows.get_mut(slot.0).filter(|flow| flow.weight != 0) else {
            return PacketList::default();
        };
        let list = core::mem::take(&mut flow.list);
        let (weight, start, group) = (flow.weight, flow.stamps.start, flow.stamps.group);
        flow.weight = 0;
        if !list.is_empty() {
            self.settle();
            self.groups.take_out(&mut self.flows, slot.0);
            self.groups.leave(start, weight, group);
            let (packets, bytes) = list.measure(store);
            self.len -= packets as u32;
            self.backlog -= bytes;
            if self.len == 0 {
                self.groups.rest();
            }
        }
        self.flows.release(slot.0);
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
        if flow.list.is_empty() || len > flow.max_packet {
            self.enqueue_first(store, slot.0, packet, len);
        } else {
            flow.list.push_back_of(store, packet, len);
        }
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, _now: Nanos, store: &mut P) -> Option<PacketId> {
        self.serve_first(store, |_, packet| packet)
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

impl Batched for Qfq {
    type Flow = Flow;

    #[inline]
    fn flows(&mut self) -> (&mut Lines<Flow>, &mut Foresight) {
        (&mut self.flows, &mut self.foresight)
    }

    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    fn serve<P: Store>(&mut self, store: &mut P) -> Option<(u32, PacketId)> {
        self.serve_first(store, |flow, packet| (flow, packet))
    }
}

/// No flow.
const NONE: u32 = u32::MAX;

/// A flow's weight and largest packet, within their ranges.
pub(super) fn limits(spec: &FlowSpec) -> (u32, u32) {
    (spec.weight.clamp(1, MAX_WEIGHT), spec.max_packet.clamp(MIN_PACKET, MAX_PACKET))
}

/// The longest packet of a list in bytes.
pub(super) fn longest<P: Store>(list: &PacketList, store: &P) -> u32 {
    let (mut rest, mut longest) = (*list, 0);
    while let Some(id) = rest.pop_front(store) {
        longest = longest.max(store.len(id));
    }
    longest
}

pub(super) const ROW: Row = Row {
    name: "qfq",
    aliases: &[],
    summary: "quick fair queueing: shares within a few packets, at a cost that does not grow with \
              the number of flows",
    source: "Checconi, Rizzo and Valente 2013",
    parameters: &[],
    traits: Traits {
        complexity: "O(1)",
        weighted: true,
        work_conserving: true,
        classifies: false,
        flow: &[WEIGHT, LMAX],
    },
};
