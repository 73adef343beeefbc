//! QFQ+: quick fair queueing of small groups of flows.
//!
//! # Model
//! Flows of equal weight and equal `lmax` form *aggregates* of at most `m`. Aggregates are scheduled by QFQ (see there), each as a flow
//! with the sum of its flows' weights, and flows within one take turns as in deficit round robin. An aggregate is moved in the
//! schedule once for about `m` packets instead of for every one or two, which is most of the work of QFQ.
//!
//! Only flows with packets count: an aggregate in which three of eight flows have some weighs three times a flow.
//!
//! # Reference
//! Valente, "Reducing the Execution Time of Fair-Queueing Schedulers", Computer Communications 47, 2014; in Linux since 3.8 as `qfq`.
//!
//! # Parameters
//! `m` 1..16, default 8: flows of an aggregate at most. With 1 it is QFQ, to the packet. Eight leaves little of QFQ's cost; more would delay
//! flows for little gain. `weight` 1..65536, default 1. `lmax` 64..65536 bytes, default 1500: a longer packet raises it, up to 2 MiB.
//!
//! # Complexity
//! O(1) for each packet; for a change or removal of a flow, a look at 32 groups and the logarithm of the number of aggregates.
//!
//! # Guarantees
//! With `m` 1 what QFQ guarantees holds. What is published for more, when the weight of an aggregate never changes: a packet is sent at
//! most the time of three packets of `lmax`, at the flow's own share, later than QFQ guarantees. Here the weight follows the flows
//! that have packets, and that does not hold where companions of a flow come and go: there are arrivals that go beyond it.
//!
//! # Differences from Linux/FreeBSD
//! Linux counts all flows of an aggregate in its weight, those without packets among them, so that a flow whose companions are idle gets
//! their shares too; and it charges whole budgets, where here each packet is charged as it leaves, which makes `m 1` the same as
//! QFQ. Linux takes `m` from the queue length of the interface, `min(length + 1, 8)`. What holds for QFQ holds here: the sum
//! of weights, their range, and flows that take turns where their starts are equal.
//!
//! # Validation
//! With `m 1` the same order of packets as QFQ over random operations, changes of flows among them. Shares at the limits of weights.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::batch::{self, Batched, Foresight};
use super::groups::{self, Groups, Place, Stamped, Stamps};
use super::qfq::{limits, longest};
use super::{Discipline, Domain, FlowSlot, FlowSpec, LMAX, Parameter, Row, Scheduler, Scope, WEIGHT};
use crate::packet::{PacketId, PacketList, Store};
use crate::slab::Lines;
use crate::units::Nanos;

/// Quick fair queueing of aggregates.
#[derive(Debug)]
pub struct QfqPlus {
    flows: Lines<Flow>,
    aggregates: Lines<Aggregate>,
    groups: Groups,
    /// Aggregates with room for another flow: weight, `lmax`, number.
    open: BTreeSet<(u32, u32, u32)>,
    /// Flows of an aggregate at most.
    most: u32,
    foresight: Foresight,
    len: u32,
    backlog: u64,
}

/// A flow: its packets, and its part in its aggregate. Not in use when the weight is 0.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Flow {
    /// When it had its last packet taken, and where the fluid is done with it; see [`Groups::join`].
    era: u64,
    finish: u64,
    list: PacketList,
    /// Bytes that it may still send in its turn.
    credit: u32,
    weight: u32,
    max_packet: u32,
    aggregate: u32,
    /// See [`batch`].
    ahead: u32,
    /// Which of the aggregate's flows it is.
    place: u8,
}

/// Flows that are scheduled as one.
#[derive(Debug)]
#[repr(align(64))]
struct Aggregate {
    stamps: Stamps,
    /// When it had its last packet taken.
    era: u64,
    /// The flow whose turn it is. It has credit for its first packet.
    current: u32,
    /// How many of its flows have packets.
    busy: u16,
    /// Which of its places are taken, and which of those flows have packets.
    taken: u16,
    active: u16,
    /// `1 / w` of each flow.
    inverse: u64,
    flows: [u32; MOST],
}

impl Stamped for Aggregate {
    #[inline]
    fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    #[inline]
    fn stamps_mut(&mut self) -> &mut Stamps {
        &mut self.stamps
    }
}

impl Aggregate {
    /// Counts a flow as one that has packets.
    #[inline]
    fn join(&mut self, place: u8) {
        self.active |= 1 << place;
        self.busy += 1;
        self.share();
    }

    /// Counts a flow no more.
    #[inline]
    fn leave(&mut self, place: u8) {
        self.active &= !(1 << place);
        self.busy -= 1;
        self.share();
    }

    /// Works out the aggregate's `1 / w`, rounded up.
    #[inline]
    fn share(&mut self) {
        self.stamps.inverse = (self.inverse * PARTS[usize::from(self.busy) % PARTS.len()]).div_ceil(1 << PART_BITS);
    }

    /// The next flow with packets after the one at `place`, in turn; itself if there is no other.
    #[inline]
    fn after(&self, place: u8) -> u32 {
        let later = u32::from(self.active) & (u32::MAX - 1) << place;
        let next = if later == 0 { u32::from(self.active) } else { later };
        self.flows[next.trailing_zeros() as usize % MOST]
    }
}

impl QfqPlus {
    /// An empty one.
    pub fn new(discipline: &Discipline) -> Self {
        Self {
            flows: Lines::default(),
            aggregates: Lines::default(),
            groups: Groups::new(discipline.epoch()),
            open: BTreeSet::new(),
            most: (discipline.get(M.name) as u32).clamp(1, MOST as u32),
            foresight: Foresight::default(),
            len: 0,
            backlog: 0,
        }
    }

    /// Makes it a flow's turn within its aggregate.
    #[inline]
    fn begin_turn(&mut self, aggregate: u32, flow: u32) {
        self.aggregates.at_mut(aggregate).current = flow;
        let flow = self.flows.at_mut(flow);
        flow.credit += flow.max_packet;
    }

    /// Counts a flow that has packets, in an aggregate where it has none yet. `start` is where it starts when it is the only one.
    #[inline]
    fn activate(&mut self, slot: u32, start: u64) {
        let Flow { aggregate: number, place, .. } = *self.flows.at(slot);
        let aggregate = self.aggregates.at_mut(number);
        let alone = aggregate.active == 0;
        aggregate.join(place);
        if alone {
            aggregate.stamps.start = start;
            self.begin_turn(number, slot);
            self.groups.insert(&mut self.aggregates, number);
        }
    }

    /// The opposite, for a flow that leaves although it has packets.
    fn deactivate(&mut self, slot: u32) {
        let flow = self.flows.at_mut(slot);
        flow.credit = 0;
        let (number, place) = (flow.aggregate, flow.place);
        let aggregate = self.aggregates.at_mut(number);
        aggregate.leave(place);
        if aggregate.active == 0 {
            self.groups.take_out(&mut self.aggregates, number);
        } else if aggregate.current == slot {
            let next = aggregate.after(place);
            self.begin_turn(number, next);
        }
    }

    /// Gives a flow a place in an aggregate of its kind; whether that is new.
    fn attach(&mut self, slot: u32, weight: u32, max_packet: u32) -> bool {
        let kind = (weight, max_packet, 0)..=(weight, max_packet, u32::MAX);
        let found = self.open.range(kind).next().map(|open| open.2);
        let number = found.unwrap_or_else(|| {
            let inverse = groups::inverse(u64::from(weight));
            let stamps = Stamps::new(inverse, groups::group_of(max_packet, inverse));
            let era = groups::FORGOTTEN;
            self.aggregates.insert(Aggregate { stamps, era, current: 0, busy: 0, taken: 0, active: 0, inverse, flows: [0; MOST] })
        });
        let aggregate = self.aggregates.at_mut(number);
        let place = aggregate.taken.trailing_ones();
        aggregate.taken |= 1 << place;
        aggregate.flows[place as usize % MOST] = slot;
        if aggregate.taken.count_ones() < self.most {
            self.open.insert((weight, max_packet, number));
        } else {
            self.open.remove(&(weight, max_packet, number));
        }
        let flow = self.flows.at_mut(slot);
        (flow.aggregate, flow.place, flow.weight, flow.max_packet) = (number, place as u8, weight, max_packet);
        found.is_none()
    }

    /// Takes a flow without packets, or deactivated, out of its aggregate.
    fn detach(&mut self, slot: u32) {
        let Flow { aggregate: number, place, weight, max_packet, .. } = *self.flows.at(slot);
        let aggregate = self.aggregates.at_mut(number);
        aggregate.taken &= !(1 << place);
        if aggregate.taken == 0 {
            self.open.remove(&(weight, max_packet, number));
            self.aggregates.release(number);
        } else {
            self.open.insert((weight, max_packet, number));
        }
    }

    /// Gives a flow another weight and largest packet, and the aggregate that follows from them.
    #[cold]
    #[inline(never)]
    fn set(&mut self, slot: u32, weight: u32, max_packet: u32) {
        let Flow { era, finish, list, weight: old, aggregate: number, .. } = *self.flows.at(slot);
        let aggregate = self.aggregates.at(number);
        let (old_group, busy) = (aggregate.stamps.group, !list.is_empty());
        let group = groups::group_of(max_packet, groups::inverse(u64::from(weight)));
        let kind = (weight, max_packet, 0)..=(weight, max_packet, u32::MAX);
        if busy && group == old_group && aggregate.taken.is_power_of_two() && self.open.range(kind).next().is_none() {
            return self.set_alone(slot, weight, max_packet);
        }
        let start = if busy { aggregate.stamps.start } else { self.groups.join(era, finish, old, old_group) };
        if busy {
            self.deactivate(slot);
        }
        self.detach(slot);
        self.groups.reweigh(old, weight);
        let new = self.attach(slot, weight, max_packet);
        let start = if group == old_group { start } else { self.groups.within(start, group) };
        if busy {
            let Aggregate { era, stamps, .. } = self.aggregates.at(self.flows.at(slot).aggregate);
            let start = if new { self.groups.within(start, group) } else { self.groups.resume(*era, stamps.start) };
            return self.activate(slot, start);
        }
        let era = self.groups.leave(start, weight, group);
        let flow = self.flows.at_mut(slot);
        (flow.era, flow.finish) = (era, start);
        if new {
            let aggregate = self.aggregates.at_mut(flow.aggregate);
            (aggregate.era, aggregate.stamps.start) = (era, start);
        }
    }

    /// The same for the only flow of an aggregate, which stays where it is in the schedule.
    fn set_alone(&mut self, slot: u32, weight: u32, max_packet: u32) {
        let flow = self.flows.at_mut(slot);
        let (number, old) = (flow.aggregate, (flow.weight, flow.max_packet));
        (flow.weight, flow.max_packet) = (weight, max_packet);
        // Its packets are within the new largest, but perhaps not within what is left of the old.
        flow.credit = max_packet;
        self.groups.reweigh(old.0, weight);
        let aggregate = self.aggregates.at_mut(number);
        aggregate.inverse = groups::inverse(u64::from(weight));
        aggregate.share();
        if self.open.remove(&(old.0, old.1, number)) {
            self.open.insert((weight, max_packet, number));
        }
    }
}

impl Scheduler for QfqPlus {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let (weight, max_packet) = limits(spec);
        let (era, list) = (groups::FORGOTTEN, PacketList::default());
        let slot = self.flows.insert(Flow { era, finish: 0, list, credit: 0, weight, max_packet, aggregate: 0, ahead: 0, place: 0 });
        self.attach(slot, weight, max_packet);
        FlowSlot(slot)
    }

    fn change_flow<P: Store>(&mut self, _now: Nanos, store: &mut P, slot: FlowSlot, spec: &FlowSpec) {
        let (weight, max_packet) = limits(spec);
        let flow = self.flows.at(slot.0);
        let longest = longest(&flow.list, store).max(max_packet);
        if (flow.weight, flow.max_packet) != (weight, longest) {
            self.set(slot.0, weight, longest);
        }
    }

    fn remove_flow<P: Store>(&mut self, _now: Nanos, store: &mut P, slot: FlowSlot, _flow: u32) -> PacketList {
        let Some(flow) = self.flows.get_mut(slot.0).filter(|flow| flow.weight != 0) else { return PacketList::default() };
        let (list, weight, number) = (core::mem::take(&mut flow.list), flow.weight, flow.aggregate);
        if !list.is_empty() {
            let Stamps { start, group, .. } = *self.aggregates.at(number).stamps();
            self.deactivate(slot.0);
            let era = self.groups.leave(start, weight, group);
            self.aggregates.at_mut(number).era = era;
            let (packets, bytes) = list.measure(store);
            self.len -= packets as u32;
            self.backlog -= bytes;
            if self.len == 0 {
                self.groups.rest();
            }
        }
        self.detach(slot.0);
        self.flows.at_mut(slot.0).weight = 0;
        self.flows.release(slot.0);
        list
    }

    #[inline]
    fn enqueue<P: Store>(&mut self, _now: Nanos, store: &mut P, slot: FlowSlot, packet: PacketId) -> Option<PacketId> {
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
        self.serve(store).map(|served| served.1)
    }

    fn enqueue_batch<P: Store>(&mut self, now: Nanos, store: &mut P, packets: &[(FlowSlot, PacketId)], refused: &mut Vec<PacketId>) {
        batch::enqueue(self, now, store, packets, refused);
    }

    fn dequeue_batch<P: Store>(&mut self, _now: Nanos, store: &mut P, max: usize, out: &mut Vec<PacketId>) {
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

impl Batched for QfqPlus {
    type Flow = Flow;

    #[inline]
    fn flows(&mut self) -> (&mut Lines<Flow>, &mut Foresight) {
        (&mut self.flows, &mut self.foresight)
    }

    #[inline(always)]
    fn serve<P: Store>(&mut self, store: &mut P) -> Option<(u32, PacketId)> {
        let place = self.groups.first()?;
        let aggregate = self.aggregates.at_mut(place.id);
        let slot = aggregate.current;
        let flow = self.flows.at_mut(slot);
        let len = flow.list.front_len();
        let (packet, more) = flow.list.take_first(store);
        let changed = aggregate.stamps.charge(len);
        flow.credit -= len;
        self.len -= 1;
        self.backlog -= u64::from(len);
        if !more {
            self.finish(place, len, changed, slot);
            return Some((slot, packet));
        }
        if flow.list.front_len() > flow.credit {
            let next = aggregate.after(flow.place);
            aggregate.current = next;
            let flow = self.flows.at_mut(next);
            flow.credit += flow.max_packet;
        }
        self.groups.transmit(len);
        if place.is_left(changed) {
            self.relocate(place, true);
        }
        Some((slot, packet))
    }
}

impl QfqPlus {
    /// A flow's first packet comes, or one that is longer than any before.
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
            let aggregate = self.aggregates.at_mut(flow.aggregate);
            self.groups.join(flow.era, flow.finish, flow.weight, aggregate.stamps.group);
            if aggregate.active != 0 {
                return aggregate.join(flow.place);
            }
            let start = self.groups.resume(aggregate.era, aggregate.stamps.start);
            self.activate(slot, start);
        }
    }

    /// Once for about `m` packets, so out of their way.
    #[inline(never)]
    fn relocate(&mut self, place: Place, more: bool) {
        self.groups.relocate(&mut self.aggregates, place, more);
    }

    /// A flow's last packet leaves.
    #[inline(never)]
    fn finish(&mut self, place: Place, len: u32, changed: u64, slot: u32) {
        let aggregate = self.aggregates.at_mut(place.id);
        let flow = self.flows.at_mut(slot);
        flow.credit = 0;
        aggregate.leave(flow.place);
        let more = aggregate.active != 0;
        if more {
            let next = aggregate.after(flow.place);
            self.begin_turn(place.id, next);
        }
        self.groups.transmit(len);
        if !more || place.is_left(changed) {
            self.relocate(place, more);
        }
        if self.len == 0 {
            return self.groups.rest();
        }
        let aggregate = self.aggregates.at_mut(place.id);
        let flow = self.flows.at_mut(slot);
        flow.finish = aggregate.stamps.start;
        flow.era = self.groups.leave(flow.finish, flow.weight, aggregate.stamps.group);
        aggregate.era = flow.era;
    }
}

/// Most flows of an aggregate.
const MOST: usize = 16;

/// `1 / n` for up to [`MOST`] flows, rounded up: multiplied with, since dividing takes longer.
const PARTS: [u64; 32] = {
    let mut parts = [1 << PART_BITS; 32];
    let mut n = 1;
    while n <= MOST {
        parts[n] = (1u64 << PART_BITS).div_ceil(n as u64);
        n += 1;
    }
    parts
};
/// Bits of fraction of [`PARTS`].
const PART_BITS: u32 = 31;

const M: Parameter = Parameter {
    name: "m",
    scope: Scope::Scheduler,
    domain: Domain::Number { least: 1, most: MOST as u64, unit: "" },
    default: 8,
    summary: "flows that are scheduled as one, at most; 1 is plain QFQ",
};

pub(super) const ROW: Row = Row {
    name: "qfq+",
    aliases: &["qfqp"],
    summary: "quick fair queueing of up to m flows at a time: nearly the shares of QFQ, nearly the cost of round robin",
    source: "Valente 2014",
    complexity: "O(1)",
    weighted: true,
    work_conserving: true,
    classifies: false,
    parameters: &[WEIGHT, LMAX, M],
};
