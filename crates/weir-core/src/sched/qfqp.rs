//! QFQ+: quick fair queueing of small groups of flows.
//!
//! # Model
//! Flows of equal weight and equal `lmax` form *aggregates* of at most `m` flows. QFQ (see there)
//! schedules the aggregates, and the flows of an aggregate take turns as in deficit round robin. A
//! turn consists of the packets that start in the aggregate's slot of virtual time, about one
//! packet of `lmax`; bytes sent beyond the slot are subtracted from the next turn. The aggregate
//! moves in the schedule once per round, in which each of its flows with packets has one turn. This
//! saves much of the work of QFQ.
//!
//! Each flow has its own virtual time, so that flows without packets do not count. A flow that
//! becomes busy after the other flows of its aggregate have had their turn starts with their next
//! turn.
//!
//! # Reference
//! Valente, "Reducing the Execution Time of Fair-Queueing Schedulers", Computer Communications 47,
//! 2014; in Linux since 3.8 as `qfq`.
//!
//! # Parameters
//! `m` 1..16, default 8: the largest number of flows in an aggregate. With 1, the order of packets
//! is exactly that of QFQ. Eight saves most of the work that aggregates can save. `weight`
//! 1..65536, default 1. `lmax` 64..65536 bytes, default 1500: the flow's largest packet; a longer
//! packet raises it, up to 2 MiB.
//!
//! # Complexity
//! O(1) for each packet. Changing or removing a flow inspects 32 groups and takes a search that is
//! logarithmic in the number of aggregates.
//!
//! # Guarantees
//! Those of QFQ, for any `m` and for any changes of the other flows in an aggregate. A flow that
//! has to wait for the next turn of its aggregate waits no longer than a flow of QFQ that has just
//! been served.
//!
//! # Differences from Linux/FreeBSD
//! In Linux and in the publication, an aggregate has one virtual time for all its flows and
//! advances by whole budgets of `m` times `lmax`, and all its flows count in its weight, including
//! flows without packets. A flow therefore also gets the shares of the idle flows in its aggregate,
//! and a packet may leave up to three packets later than with QFQ. Here each flow has its own
//! virtual time, shares follow the weights regardless of idle flows, and `m 1` is the same as QFQ.
//! Linux sets `m` by the queue length of the interface, `min(length + 1, 8)`. The differences of
//! QFQ also apply: the sum of weights, their range, and the order of flows with equal starts.
//!
//! # Validation
//! With random arrivals, tests check that each served packet is one that QFQ may serve next, by a
//! model that inspects every flow with wide integers. With `m 1`, the order of packets is the same
//! as with QFQ over random operations, including changes of flows. Tests also check shares with
//! weights at their limits.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::aggregate::{Aggregate, MOST, SLOTS};
use super::batch::{self, Batched, Foresight};
use super::groups::{self, Groups, Place, Stamps};
use super::qfq::{limits, longest};
use super::{Discipline, FlowSlot, FlowSpec, LMAX, Row, Scheduler, Traits, WEIGHT};
use crate::packet::{PacketId, PacketList, Store};
use crate::settings;
use crate::settings::Count;
use crate::slab::Lines;
use crate::units::Nanos;

/// The QFQ+ scheduler.
#[derive(Debug)]
pub struct QfqPlus {
    flows: Lines<Flow>,
    aggregates: Lines<Aggregate>,
    groups: Groups,
    /// The aggregates with room for another flow, as weight, `lmax` and number.
    open: BTreeSet<(u32, u32, u32)>,
    /// The slot of the flow to serve next, or [`NONE`] if it is not known, and the place of its
    /// aggregate.
    current: u32,
    serving: Place,
    /// The largest number of flows in an aggregate, `m`.
    most: u32,
    foresight: Foresight,
    len: u32,
    backlog: u64,
}

/// A flow: its packets and its start. A weight of 0 marks an unused slot.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Flow {
    /// `S` of the first packet; for a flow without packets, the finish of the last packet.
    start: u64,
    /// `1 / w`.
    inverse: u64,
    /// The era in which the flow's last packet left; see [`Groups::join`].
    era: u64,
    list: PacketList,
    weight: u32,
    max_packet: u32,
    aggregate: u32,
    /// The flow to prefetch after this one; see [`batch`].
    ahead: u32,
    /// The flow's place in its aggregate.
    place: u8,
}

settings! {
    /// Settings of QFQ+.
    struct Settings {
        m: u32 = Count::new(
            1,
            MOST as u32,
            "",
            8,
            "largest number of flows that are scheduled as one; 1 is plain QFQ",
        ),
    }
}

impl QfqPlus {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        Self {
            flows: Lines::default(),
            aggregates: Lines::default(),
            groups: Groups::new(discipline.epoch()),
            open: BTreeSet::new(),
            current: NONE,
            serving: Place::NONE,
            most: Settings::of(discipline).m,
            foresight: Foresight::default(),
            len: 0,
            backlog: 0,
        }
    }

    /// Gives a turn to a flow that starts later than the last slot of its aggregate.
    #[cold]
    #[inline(never)]
    fn activate_late(&mut self, slot: u32) {
        let flow = self.flows.at_mut(slot);
        let aggregate = self.aggregates.at_mut(flow.aggregate);
        flow.start = self.groups.no_later(flow.start, aggregate.stamps.group);
        aggregate.join(flow.place, aggregate.stamps.slots_to(flow.start) as u64);
    }

    /// Adds a flow with packets to the schedule, for any start.
    fn activate_anywhere(&mut self, slot: u32) {
        self.current = NONE;
        let Flow { aggregate: number, place, .. } = *self.flows.at(slot);
        if !self.aggregates.at(number).is_idle() {
            self.groups.take_out(&mut self.aggregates, number);
        }
        let aggregate = self.aggregates.at_mut(number);
        let flow = self.flows.at_mut(slot);
        flow.start = self.groups.no_later(flow.start, aggregate.stamps.group);
        aggregate.join(place, 0);
        self.line_up(number);
        self.groups.reinsert(&mut self.aggregates, number);
    }

    /// Removes a flow with packets from the schedule.
    fn deactivate(&mut self, slot: u32) {
        self.current = NONE;
        let Flow { aggregate: number, place, .. } = *self.flows.at(slot);
        self.groups.take_out(&mut self.aggregates, number);
        let aggregate = self.aggregates.at_mut(number);
        aggregate.leave(place);
        if !aggregate.is_idle() {
            self.line_up(number);
            self.groups.reinsert(&mut self.aggregates, number);
        }
    }

    /// Sorts the flows of an aggregate into slots by their starts. The aggregate itself must be in
    /// no slot; it gets the earliest of these starts.
    #[cold]
    #[inline(never)]
    fn line_up(&mut self, number: u32) {
        let aggregate = self.aggregates.at_mut(number);
        let (active, members) = (aggregate.active(), aggregate.flows);
        let flows = || {
            (0..MOST as u8)
                .filter(|place| active >> place & 1 == 1)
                .map(|place| self.flows.at(members[usize::from(place)]))
        };
        let earlier = |one, other| if groups::after(one, other) { other } else { one };
        let Some(first) = flows().map(|flow| flow.start).reduce(earlier) else { return };
        aggregate.begin_anew(first);
        for flow in flows() {
            aggregate.join(flow.place, aggregate.stamps.slots_to(flow.start).max(0) as u64);
        }
    }

    /// Adds a flow to an aggregate for its weight and largest packet.
    fn attach(&mut self, slot: u32, weight: u32, max_packet: u32) {
        let kind = (weight, max_packet, 0)..=(weight, max_packet, u32::MAX);
        let found = self.open.range(kind).next().map(|open| open.2);
        let number = found.unwrap_or_else(|| {
            let inverse = groups::inverse(u64::from(weight));
            let stamps = Stamps::new(inverse, groups::group_of(max_packet, inverse));
            self.aggregates.insert(Aggregate::new(stamps))
        });
        let aggregate = self.aggregates.at_mut(number);
        let place = aggregate.take_in(slot);
        if aggregate.taken.count_ones() < self.most {
            self.open.insert((weight, max_packet, number));
        } else {
            self.open.remove(&(weight, max_packet, number));
        }
        let flow = self.flows.at_mut(slot);
        (flow.aggregate, flow.place, flow.weight, flow.max_packet) =
            (number, place, weight, max_packet);
        flow.inverse = aggregate.stamps.inverse;
    }

    /// Removes a flow from its aggregate. The flow must have no packets or be deactivated.
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

    /// Changes a flow's weight and largest packet, and moves it to an aggregate for them.
    #[cold]
    #[inline(never)]
    fn set(&mut self, slot: u32, weight: u32, max_packet: u32) {
        let Flow { start, era, list, weight: old, aggregate: number, .. } = *self.flows.at(slot);
        let aggregate = self.aggregates.at(number);
        let (old_group, busy) = (aggregate.stamps.group, !list.is_empty());
        let group = groups::group_of(max_packet, groups::inverse(u64::from(weight)));
        let kind = (weight, max_packet, 0)..=(weight, max_packet, u32::MAX);
        if busy
            && group == old_group
            && aggregate.taken.is_power_of_two()
            && self.open.range(kind).next().is_none()
        {
            return self.set_alone(slot, weight, max_packet);
        }
        let start = if busy { start } else { self.groups.join(era, start, old, old_group) };
        if busy {
            self.deactivate(slot);
        }
        self.detach(slot);
        self.groups.reweigh(old, weight);
        self.attach(slot, weight, max_packet);
        let start = if group == old_group { start } else { self.groups.within(start, group) };
        let era = if busy { era } else { self.groups.leave(start, weight, group) };
        let flow = self.flows.at_mut(slot);
        (flow.start, flow.era) = (start, era);
        if busy {
            self.activate_anywhere(slot);
        }
    }

    /// Changes the weight and largest packet of the only flow of an aggregate, which keeps its
    /// position in the schedule.
    fn set_alone(&mut self, slot: u32, weight: u32, max_packet: u32) {
        let flow = self.flows.at_mut(slot);
        let (number, old) = (flow.aggregate, (flow.weight, flow.max_packet));
        (flow.weight, flow.max_packet, flow.inverse) =
            (weight, max_packet, groups::inverse(u64::from(weight)));
        self.aggregates.at_mut(number).stamps.inverse = flow.inverse;
        self.groups.reweigh(old.0, weight);
        if self.open.remove(&(old.0, old.1, number)) {
            self.open.insert((weight, max_packet, number));
        }
    }
}

impl Scheduler for QfqPlus {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let (weight, max_packet) = limits(spec);
        let (era, list) = (groups::FORGOTTEN, PacketList::default());
        let slot = self.flows.insert(Flow {
            start: 0,
            inverse: 0,
            era,
            list,
            weight,
            max_packet,
            aggregate: 0,
            ahead: 0,
            place: 0,
        });
        self.attach(slot, weight, max_packet);
        FlowSlot(slot)
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
        if !list.is_empty() {
            let Flow { start, weight, aggregate, .. } = *flow;
            self.deactivate(slot.0);
            self.groups.leave(start, weight, self.aggregates.at(aggregate).stamps.group);
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
        // No value is live across these calls, so that the common case saves no registers.
        match self.serve_next(store) {
            Served::Done(_, packet) => Some(packet),
            Served::SlotDone(_, packet) => self.end_slot(packet),
            Served::More(slot, packet, rest) => self.settle(slot, packet, rest),
            Served::NoneEligible => self.dequeue_later(store),
        }
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

impl Batched for QfqPlus {
    type Flow = Flow;

    #[inline]
    fn flows(&mut self) -> (&mut Lines<Flow>, &mut Foresight) {
        (&mut self.flows, &mut self.foresight)
    }

    #[inline(always)] // Measured: see the module of schedulers.
    fn serve<P: Store>(&mut self, store: &mut P) -> Option<(u32, PacketId)> {
        loop {
            match self.serve_next(store) {
                Served::Done(slot, packet) => return Some((slot, packet)),
                Served::SlotDone(slot, packet) => {
                    self.end_slot(packet);
                    return Some((slot, packet));
                }
                Served::More(slot, packet, rest) => {
                    self.settle(slot, packet, rest);
                    return Some((slot, packet));
                }
                Served::NoneEligible => {
                    self.groups.first()?;
                }
            }
        }
    }
}

/// The served flow, its packet and the remaining work.
enum Served {
    /// No work remains.
    Done(u32, PacketId),
    /// The aggregate has no more turns in its slot and must move.
    SlotDone(u32, PacketId),
    /// Less frequent work remains.
    More(u32, PacketId, Rest),
    /// No aggregate is eligible, and no packet was served.
    NoneEligible,
}

/// The remaining work for a packet that leaves.
#[derive(Clone, Copy)]
struct Rest {
    /// Whether the flow has more packets.
    more: bool,
    /// Whether the flow's turn is over.
    turn_over: bool,
    /// The bytes by which virtual time must still advance.
    owed: u32,
}

impl QfqPlus {
    /// Enqueues the first packet of a flow, or a packet longer than `max_packet`.
    #[inline(never)]
    fn enqueue_first<P: Store>(&mut self, store: &mut P, slot: u32, packet: PacketId, len: u32) {
        let flow = self.flows.at_mut(slot);
        if len > flow.max_packet {
            return self.enqueue_longer(store, slot, packet, len);
        }
        flow.list.push_back_of(store, packet, len);
        let aggregate = self.aggregates.at_mut(flow.aggregate);
        flow.start = self.groups.join(flow.era, flow.start, flow.weight, aggregate.stamps.group);
        if aggregate.is_idle() {
            flow.start = self.groups.no_later(flow.start, aggregate.stamps.group);
            aggregate.begin_anew(flow.start);
            aggregate.join(flow.place, 0);
            self.current = NONE;
            return self.groups.insert(&mut self.aggregates, flow.aggregate);
        }
        let mut slots = aggregate.stamps.slots_to(flow.start);
        if slots < 0 {
            // The aggregate has already advanced to the next slot.
            (slots, flow.start) = (0, aggregate.stamps.slot_start());
        }
        if slots >= SLOTS as i64 {
            return self.activate_late(slot);
        }
        aggregate.join(flow.place, slots as u64);
    }

    /// Enqueues a packet longer than `max_packet`.
    #[cold]
    #[inline(never)]
    fn enqueue_longer<P: Store>(&mut self, store: &mut P, slot: u32, packet: PacketId, len: u32) {
        self.set(slot, self.flows.at(slot).weight, len);
        let flow = self.flows.at_mut(slot);
        if flow.list.is_empty() {
            return self.enqueue_first(store, slot, packet, len);
        }
        flow.list.push_back_of(store, packet, len);
    }

    /// Serves the next flow.
    #[inline(always)] // Measured: see the module of schedulers.
    fn serve_next<P: Store>(&mut self, store: &mut P) -> Served {
        if self.current == NONE {
            let Some(place) = self.groups.ready() else { return Served::NoneEligible };
            self.serving = place;
            self.current = self.aggregates.at(place.id).current();
        }
        let slot = self.current;
        let flow = self.flows.at_mut(slot);
        let len = flow.list.front_len();
        let (packet, more) = flow.list.take_first(store);
        let turn_over = self.serving.is_left(groups::charge(&mut flow.start, len, flow.inverse));
        self.len -= 1;
        self.backlog -= u64::from(len);
        let quiet = self.groups.try_transmit(len);
        if !(quiet & more) {
            return Served::More(
                slot,
                packet,
                Rest { more, turn_over, owed: if quiet { 0 } else { len } },
            );
        }
        if turn_over {
            let aggregate = self.aggregates.at_mut(self.serving.id);
            aggregate.end_turn(flow.place);
            if !aggregate.has_turns() {
                return Served::SlotDone(slot, packet);
            }
            self.current = aggregate.current();
        }
        Served::Done(slot, packet)
    }

    /// Advances virtual time until an aggregate is eligible, and serves that aggregate.
    #[inline(never)]
    fn dequeue_later<P: Store>(&mut self, store: &mut P) -> Option<PacketId> {
        self.groups.first()?;
        self.dequeue(Nanos::ZERO, store)
    }

    /// Completes the work for a packet that leaves, and returns the packet.
    #[inline(never)]
    fn settle(&mut self, slot: u32, packet: PacketId, rest: Rest) -> Option<PacketId> {
        if rest.owed != 0 {
            self.groups.transmit(rest.owed);
        }
        self.current = NONE;
        let flow = self.flows.at_mut(slot);
        let aggregate = self.aggregates.at_mut(self.serving.id);
        if !rest.more {
            aggregate.leave(flow.place);
        } else if rest.turn_over {
            aggregate.end_turn(flow.place);
        }
        if !aggregate.has_turns() {
            self.move_on();
        }
        if !rest.more {
            self.leave(slot);
        }
        Some(packet)
    }

    /// Moves an aggregate after its last turn in a slot, and returns the packet that leaves.
    #[inline(never)]
    fn end_slot(&mut self, packet: PacketId) -> Option<PacketId> {
        self.move_on();
        Some(packet)
    }

    /// Moves the served aggregate in the schedule, because it has no more turns in its slot.
    #[inline(always)] // Measured: see the module of schedulers.
    fn move_on(&mut self) {
        let place = self.serving;
        let aggregate = self.aggregates.at_mut(place.id);
        let more = !aggregate.is_idle();
        if more {
            aggregate.move_on();
            if aggregate.has_later() {
                self.line_up(place.id);
            }
        }
        self.groups.relocate(&mut self.aggregates, place, more);
        self.current = NONE;
    }

    /// Removes the weight of a flow after its last packet has left.
    #[inline]
    fn leave(&mut self, slot: u32) {
        if self.len == 0 {
            return self.groups.rest();
        }
        let flow = self.flows.at_mut(slot);
        flow.era = self.groups.leave(
            flow.start,
            flow.weight,
            self.aggregates.at(flow.aggregate).stamps.group,
        );
    }
}

/// No flow.
const NONE: u32 = u32::MAX;

pub(super) const ROW: Row = Row {
    name: "qfq+",
    aliases: &["qfqp"],
    summary: "quick fair queueing of up to m flows at a time: nearly the shares of QFQ, nearly the cost of round robin",
    source: "Valente 2014",
    parameters: Settings::PARAMETERS,
    traits: Traits {
        complexity: "O(1)",
        weighted: true,
        work_conserving: true,
        classifies: false,
        flow: &[WEIGHT, LMAX],
    },
};
