//! QFQ+: quick fair queueing of aggregates of classes.
//!
//! # Model
//! Classes (flows) of equal weight `w` and equal `lmax` form *aggregates* of at most `M` classes.
//! QFQ (see `qfq`) schedules the aggregates, each as one flow with the weight `n w`, where `n` is
//! the number of its classes, and with one pair of times. The times follow from the aggregate's
//! *budget*, `n` times `lmax`, and not from the packets at the heads of its queues: the finish is
//! the start plus the time of the budget, which is `lmax / w`. When QFQ selects an aggregate, the
//! aggregate sends until its next packet exceeds the rest of the budget, or no class has packets.
//! The start then moves by the bytes that were sent. Within the aggregate, the classes take turns
//! as in deficit round robin, with `lmax` as the quantum.
//!
//! The work of QFQ is thus divided among the packets of a whole budget. In return, a class may wait
//! for the budgets of whole aggregates, and gets the shares of the idle classes in its aggregate.
//!
//! # Reference
//! Valente, "Reducing the Execution Time of Fair-Queueing Schedulers", Computer Communications 47,
//! 2014, and the patch "QFQ Plus: fair-queueing service at DRR cost" of 2012; in Linux since 3.8 as
//! `qfq`. The mechanism follows the patch's description and the behaviour of Linux. Of the paper,
//! only the abstract was available, and the guarantee that the patch quotes.
//!
//! # Parameters
//! `m` 0..16, default 0: `M`, the largest number of classes in an aggregate. With 0, `M` is
//! `min(tx_queue_len + 1, 8)`, as in Linux. In Linux, `tx_queue_len` is the queue length of the
//! interface and also the limit of each class's queue. Here, it is the limit of the flow's queue in
//! packets; a limit in bytes counts as that many packets of `lmax`. A queue of 7 packets or more
//! thus gives 8, and so does every queue without a configured limit. Flows with different `M` do
//! not share an aggregate. With `m` 1, each class is scheduled alone by QFQ itself, with times for
//! each packet, so that the order of packets is exactly that of `qfq`. `weight` 1..65536,
//! default 1. `lmax` 64..65536 bytes, default 1500: the flow's largest packet; a longer packet
//! raises it.
//!
//! # Complexity
//! O(1) for each packet. Adding, changing or removing a flow visits its packets, inspects 32 groups
//! and takes a search that is logarithmic in the number of aggregates.
//!
//! # Guarantees
//! Let `φ = w / W` be the share of a class in the sum of all weights, `σ` the unit of QFQ for the
//! class, and `B` the largest budget of all aggregates. The bytes of a class with packets are never
//! behind its share by more than `4 w σ + 2 (1 − 1/n) lmax + 2 φ B`. `docs/guarantees.md` derives
//! this bound, and shows arrivals that exceed the published bound: the completion under QFQ, plus
//! the time of three packets of `lmax` at the class's share.
//!
//! # Differences from Linux/FreeBSD
//! With `m` 1, Linux still computes times from the budget, and serves several short packets of a
//! class in succession. The sum of weights counts the aggregates with packets, and those that the
//! fluid still serves, as in `qfq`; Linux counts all classes. In Linux the aggregate that becomes
//! busy first is in service at once; here the first dequeue chooses among all aggregates that are
//! busy at its time. Aggregates with equal rounded starts are served first-in first-out, not
//! last-in first-out. Here `m` can be set, up to 16. A class that changes or leaves ends the
//! current service. When no packet waits, all times restart; in Linux they continue.
//!
//! # Validation
//! Tests check that packets leave in the same order as in a model that inspects every aggregate and
//! class with wide integers, over random operations, with changes of flows. Other tests check the
//! budgets of services, the bound under an adversary, shares with weights at their limits, and the
//! published unfairness: a class of weight 16 among 15 of weight 1 is 5.10 packets behind, and 1.48
//! with `m` 1, exactly as in a model with integers. `docs/guarantees.md` says why exact times give
//! 4.87. With `m` 1, the order of packets is that of `qfq` over random operations.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::aggregate::{Aggregate, Kind, MOST, NONE};
use super::batch::{self, Batched, Foresight};
use super::groups::{self, Groups, Place, Stamps, Step};
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
    classes: Lines<Class>,
    /// The front class in the ring of the served aggregate; [`NONE`] if no aggregate is served or
    /// none of its classes has packets.
    front: u32,
    /// The last class in the ring of the served aggregate; [`NONE`] as for `front`.
    last: u32,
    len: u32,
    /// The rest of the budget of the served aggregate in bytes.
    left: u64,
    /// The value of `left` when `V` was last advanced.
    marked: u64,
    /// The bytes inside, plus the bytes that the served aggregate has sent in this service.
    backlog: u64,
    /// The place of the served aggregate, which stays first in its group, or [`Place::NONE`].
    serving: Place,
    /// The slot in which [`Self::change_service`] last found `serving`, and the slot after it.
    step: Step,
    foresight: Foresight,
    aggregates: Lines<Aggregate>,
    groups: Groups,
    /// The aggregates with room for another class.
    open: BTreeSet<(Kind, u32)>,
    /// The setting `m`; 0 for the automatic choice.
    most: u32,
}

/// A class: its packets and its credit. A quantum of 0 marks an unused slot.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Class {
    list: PacketList,
    /// The bytes that the class may still send in its turn after its first packet. The quantum is
    /// added only when this number would become negative, so that it never exceeds the quantum.
    spare: u32,
    /// `lmax`.
    quantum: u32,
    /// `lmax` plus one byte, or 0 while the class has no packets: a shorter packet is appended to
    /// the list without any other work. With the largest `lmax`, 2^32 − 1 bytes, the value is
    /// always 0.
    appended: u32,
    /// The next class in the ring of the aggregate's classes with packets.
    next: u32,
    /// The number of the class's aggregate.
    aggregate: u32,
    /// The class to prefetch after this one; see [`batch`].
    ahead: u32,
}

settings! {
    /// Settings of QFQ+.
    struct Settings {
        m: u32 = Count::new(
            0,
            MOST,
            "",
            0,
            "largest number of flows that are scheduled as one; 0 is min(queue limit + 1, 8), 1 \
             is QFQ",
        ),
    }
}

/// Whether each class is scheduled alone, so that QFQ itself is the scheduler.
pub(super) fn is_single(discipline: &Discipline) -> bool {
    discipline.kind() == super::Kind::QfqPlus && Settings::of(discipline).m == 1
}

impl QfqPlus {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        Self {
            classes: Lines::default(),
            front: NONE,
            last: NONE,
            len: 0,
            left: 0,
            marked: 0,
            backlog: 0,
            serving: Place::NONE,
            step: Step::at(Place::NONE),
            foresight: Foresight::default(),
            aggregates: Lines::default(),
            groups: Groups::new(discipline.epoch()),
            open: BTreeSet::new(),
            most: Settings::of(discipline).m,
        }
    }

    /// The kind of a class, including its `M`.
    fn kind(&self, spec: &FlowSpec) -> Kind {
        let (weight, lmax) = limits(spec);
        let automatic = spec.limit.saturating_add(1).min(AUTOMATIC);
        Kind { weight, lmax, most: if self.most == 0 { automatic } else { self.most } }
    }

    /// Adds a class to an aggregate of its kind. A new aggregate starts at `start`, if given.
    fn attach(&mut self, slot: u32, kind: Kind, start: Option<u64>) {
        let found = self.open.range((kind, 0)..=(kind, u32::MAX)).next().map(|open| open.1);
        let number = found.unwrap_or_else(|| self.aggregates.insert(Aggregate::new(kind)));
        self.settle(number);
        let class = self.classes.at_mut(slot);
        (class.aggregate, class.quantum) = (number, kind.lmax);
        let aggregate = self.aggregates.at(number);
        if let Some(start) = start.filter(|_| aggregate.classes() == 0) {
            let start = self.groups.within(start, aggregate.stamps.group);
            self.groups.reweigh(0, kind.weight);
            let aggregate = self.aggregates.at_mut(number);
            aggregate.resize(1);
            self.leave(number, start);
        } else {
            let classes = aggregate.classes() + 1;
            self.resize(number, classes);
        }
        if self.aggregates.at(number).is_full() {
            self.open.remove(&(kind, number));
        } else {
            self.open.insert((kind, number));
        }
    }

    /// Removes a class without packets from its aggregate, which has other classes.
    fn detach(&mut self, number: u32) {
        let aggregate = self.aggregates.at(number);
        self.open.insert((aggregate.kind(), number));
        self.resize(number, aggregate.classes() - 1);
    }

    /// Removes an aggregate when its only class is removed or moves to another aggregate.
    fn dissolve(&mut self, number: u32) {
        self.open.remove(&(self.aggregates.at(number).kind(), number));
        self.aggregates.release(number);
    }

    /// Sets the number of classes of an aggregate that is not served, and the sum of weights.
    fn resize(&mut self, number: u32, classes: u32) {
        let aggregate = self.aggregates.at_mut(number);
        let (old, group) = (aggregate.weight(), aggregate.stamps.group);
        let idle = aggregate.is_idle();
        if old == 0 {
            return aggregate.resize(classes);
        }
        if idle {
            aggregate.stamps.start =
                self.groups.join(aggregate.era, aggregate.stamps.start, old, group);
        }
        aggregate.resize(classes);
        self.groups.reweigh(old, aggregate.weight());
        if idle {
            let start = aggregate.stamps.start;
            self.leave(number, start);
        }
    }

    /// Records that an aggregate has no packets and finishes at `finish`. Its weight counts until
    /// then.
    fn leave(&mut self, number: u32, finish: u64) {
        let aggregate = self.aggregates.at_mut(number);
        aggregate.stamps.start = finish;
        aggregate.era = self.groups.leave(finish, aggregate.weight(), aggregate.stamps.group);
    }

    /// Moves a class to an aggregate of another kind. A new aggregate starts when the old aggregate
    /// would have started, so that a class gains nothing by changes.
    #[cold]
    #[inline(never)]
    fn set(&mut self, slot: u32, kind: Kind) {
        let Class { aggregate: number, list, .. } = *self.classes.at(slot);
        self.settle(number);
        if !list.is_empty() {
            self.deactivate(slot);
        }
        let aggregate = self.aggregates.at(number);
        let (weight, group, mut start) =
            (aggregate.weight(), aggregate.stamps.group, aggregate.stamps.start);
        if aggregate.is_idle() {
            start = self.groups.join(aggregate.era, start, weight, group);
            if aggregate.classes() == 1 {
                self.groups.reweigh(weight, 0);
                self.dissolve(number);
            } else {
                self.leave(number, start);
                self.detach(number);
            }
        } else {
            self.detach(number);
        }
        self.attach(slot, kind, Some(start));
        if !list.is_empty() {
            self.activate(slot);
        }
    }

    /// Appends a class with packets to the ring of its aggregate.
    #[inline(always)] // One of its callers is called for each packet that finds its class empty.
    fn activate(&mut self, slot: u32) {
        let class = self.classes.at_mut(slot);
        class.spare = class.quantum - class.list.front_len();
        class.appended = class.quantum.wrapping_add(1);
        class.next = slot;
        let number = class.aggregate;
        let served = self.serving.id == number;
        let end = if served { &mut self.last } else { &mut self.aggregates.at_mut(number).last };
        let last = core::mem::replace(end, slot);
        if let Some(last) = self.classes.get_mut(last) {
            let next = core::mem::replace(&mut last.next, slot);
            self.classes.at_mut(slot).next = next;
        } else if served {
            self.front = slot;
        } else {
            self.schedule(number);
        }
    }

    /// Schedules an aggregate that has packets again.
    #[inline(never)]
    fn schedule(&mut self, number: u32) {
        self.advance();
        let aggregate = self.aggregates.at_mut(number);
        let (weight, group) = (aggregate.weight(), aggregate.stamps.group);
        aggregate.stamps.start =
            self.groups.join(aggregate.era, aggregate.stamps.start, weight, group);
        self.groups.insert(&mut self.aggregates, number);
    }

    /// Removes a class with packets from the ring of its aggregate, which must not be served.
    fn deactivate(&mut self, slot: u32) {
        let Class { aggregate: number, next, .. } = *self.classes.at(slot);
        let last = self.aggregates.at(number).last;
        let mut before = last;
        while self.classes.at(before).next != slot {
            before = self.classes.at(before).next;
        }
        self.classes.at_mut(before).next = next;
        if next == slot {
            self.aggregates.at_mut(number).last = NONE;
            self.groups.take_out(&mut self.aggregates, number);
            let start = self.aggregates.at(number).stamps.start;
            self.leave(number, start);
        } else if last == slot {
            self.aggregates.at_mut(number).last = before;
        }
    }

    /// Brings virtual time up to date, and ends the service of aggregate `number` if it is served.
    fn settle(&mut self, number: u32) {
        if self.serving.id == number {
            self.end_service();
        }
        self.advance();
    }
}

impl Scheduler for QfqPlus {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let kind = self.kind(spec);
        let slot = self.classes.insert(Class {
            list: PacketList::default(),
            spare: 0,
            quantum: 0,
            appended: 0,
            next: NONE,
            aggregate: NONE,
            ahead: 0,
        });
        self.attach(slot, kind, None);
        FlowSlot(slot)
    }

    fn change_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        let class = self.classes.at(slot.0);
        let kind = self.kind(spec);
        let kind = Kind { lmax: longest(&class.list, store).max(kind.lmax), ..kind };
        if self.aggregates.at(class.aggregate).kind() != kind {
            self.set(slot.0, kind);
        }
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        _flow: u32,
    ) -> PacketList {
        let Some(class) = self.classes.get_mut(slot.0).filter(|class| class.quantum != 0) else {
            return PacketList::default();
        };
        class.quantum = 0;
        let (number, list) = (class.aggregate, core::mem::take(&mut class.list));
        self.settle(number);
        if !list.is_empty() {
            self.deactivate(slot.0);
            let (packets, bytes) = list.measure(store);
            self.len -= packets as u32;
            self.backlog -= bytes;
        }
        // The weight of the last class counts until the fluid has finished the aggregate.
        if self.aggregates.at(number).classes() == 1 {
            self.dissolve(number);
        } else {
            self.detach(number);
        }
        if self.len == 0 {
            self.rest();
        }
        self.classes.release(slot.0);
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
        let class = self.classes.at_mut(slot.0);
        if len < class.appended {
            class.list.push_behind(store, packet, len);
        } else {
            self.enqueue_first(store, slot.0, packet, len);
        }
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, _now: Nanos, store: &mut P) -> Option<PacketId> {
        self.serve_front(store, |_, packet| packet)
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
        self.backlog - self.used()
    }
}

impl batch::Flow for Class {
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
    type Flow = Class;

    #[inline]
    fn flows(&mut self) -> (&mut Lines<Class>, &mut Foresight) {
        (&mut self.classes, &mut self.foresight)
    }

    #[inline(always)] // As in the other schedulers with batches.
    fn serve<P: Store>(&mut self, store: &mut P) -> Option<(u32, PacketId)> {
        self.serve_front(store, |class, packet| (class, packet))
    }
}

impl QfqPlus {
    /// Enqueues the first packet of a class, or a packet longer than `lmax`.
    #[inline(never)]
    fn enqueue_first<P: Store>(&mut self, store: &mut P, slot: u32, packet: PacketId, len: u32) {
        let class = self.classes.at_mut(slot);
        if len >= class.quantum.wrapping_add(1) {
            return self.enqueue_long(store, slot, packet, len);
        }
        class.list = PacketList::of(packet, len);
        self.activate(slot);
    }

    /// Enqueues a packet longer than `lmax`, which is raised to the packet's length, or a packet of
    /// a class with the largest `lmax`.
    #[cold]
    #[inline(never)]
    fn enqueue_long<P: Store>(&mut self, store: &mut P, slot: u32, packet: PacketId, len: u32) {
        let class = self.classes.at(slot);
        if len > class.quantum {
            let kind = self.aggregates.at(class.aggregate).kind();
            self.set(slot, Kind { lmax: len, ..kind });
        }
        let class = self.classes.at_mut(slot);
        let was_empty = class.list.is_empty();
        class.list.push_back_of(store, packet, len);
        if was_empty {
            self.activate(slot);
        }
    }

    /// Serves the class in front. `give` makes the result from the class's slot and its packet.
    ///
    /// Other functions do the rare work and return little or nothing, so that neither they nor
    /// their caller need many registers.
    #[inline(always)] // Its few callers are loops over packets.
    fn serve_front<P: Store, R>(
        &mut self,
        store: &mut P,
        give: impl Fn(u32, PacketId) -> R,
    ) -> Option<R> {
        loop {
            let slot = self.front;
            let Some(class) = self.classes.get_mut(slot) else {
                if self.begin_service() {
                    continue;
                }
                return None;
            };
            let Some(left) = self.left.checked_sub(class.list.front_len().into()) else {
                self.change_service();
                continue;
            };
            self.left = left;
            self.len -= 1;
            if class.list.is_single() {
                let packet = class.list.take_only();
                class.appended = 0;
                let next = class.next;
                if next == slot {
                    return Some(give(slot, self.become_idle(packet)));
                }
                self.front = next;
                self.classes.at_mut(self.last).next = next;
                return Some(give(slot, packet));
            }
            let packet = class.list.take_one(store);
            let (spare, turn_ends) = class.spare.overflowing_sub(class.list.front_len());
            if turn_ends {
                class.spare = spare.wrapping_add(class.quantum);
                (self.front, self.last) = (class.next, slot);
            } else {
                class.spare = spare;
            }
            return Some(give(slot, packet));
        }
    }

    /// Records that the served aggregate has no more packets. Returns `packet`, the last packet.
    #[inline(never)]
    fn become_idle(&mut self, packet: PacketId) -> PacketId {
        (self.front, self.last) = (NONE, NONE);
        if self.len == 0 {
            self.rest();
        }
        packet
    }

    /// Ends the service of an aggregate when its next packet exceeds the rest of the budget, and
    /// begins the next service.
    ///
    /// In the common case, the slot of the aggregate stays the first slot of the first group:
    /// virtual time passes no event, and the aggregate stays in front or moves behind the
    /// aggregates of the next slot. In other cases, [`Self::begin_service`] does the same with all
    /// checks.
    #[inline(never)]
    fn change_service(&mut self) {
        if !self.step.is_at(self.serving) {
            self.step = Step::at(self.serving);
        }
        let (step, number) = (&self.step, self.serving.id);
        let members = self.aggregates.all_mut();
        let served = &mut members[number as usize];
        let mut budget = served.budget;
        let used = budget - self.left;
        if used > groups::LARGEST.into()
            || !self.groups.is_first(step)
            || !self.groups.try_transmit_bytes(self.marked - self.left)
        {
            self.begin_service();
            return;
        }
        let old = served.stamps.start;
        let start = step.start_after(old, used * served.stamps.inverse);
        if step.divides(old, start) {
            served.last = self.last;
            let Some(next) = self.groups.step(members, step, number, start) else {
                self.marked = self.left;
                self.begin_service();
                return;
            };
            let next_aggregate = &members[next as usize];
            (budget, self.last) = (next_aggregate.budget, next_aggregate.last);
            self.serving.id = next;
            self.front = self.classes.at(self.last).next;
        } else {
            served.stamps.start = start;
        }
        self.backlog -= used;
        (self.marked, self.left) = (budget, budget);
    }

    /// Ends the service of an aggregate, if one is served, and begins the next service; returns
    /// whether an aggregate has packets.
    #[inline(never)]
    fn begin_service(&mut self) -> bool {
        if self.serving.id != NONE {
            self.close_service();
        }
        let Some(place) = self.groups.first() else {
            self.serving = Place::NONE;
            return false;
        };
        let Aggregate { last, budget, .. } = *self.aggregates.at(place.id);
        self.serving = place;
        (self.marked, self.left) = (budget, budget);
        (self.front, self.last) = (self.classes.at(last).next, last);
        true
    }

    /// Ends the service of an aggregate, if one is served.
    #[inline(never)]
    fn end_service(&mut self) {
        if self.serving.id != NONE {
            self.close_service();
            self.serving = Place::NONE;
            (self.front, self.last) = (NONE, NONE);
        }
    }

    /// Charges the served aggregate with the bytes that it has sent, and moves it in the schedule.
    #[inline(always)] // One of its two callers runs for most packets.
    fn close_service(&mut self) {
        self.advance();
        let place = self.serving;
        let aggregate = self.aggregates.at_mut(place.id);
        aggregate.last = self.last;
        let used = aggregate.budget - self.left;
        self.backlog -= used;
        let changed = aggregate.charge(used);
        if aggregate.is_idle() {
            let Stamps { start, group, .. } = aggregate.stamps;
            aggregate.era = self.groups.leave(start, aggregate.weight(), group);
            self.groups.remove(&mut self.aggregates, place);
        } else if place.leaves_slot(changed) {
            self.groups.relocate(&mut self.aggregates, place);
        }
    }

    /// The bytes that the served aggregate has sent.
    fn used(&self) -> u64 {
        self.aggregates.get(self.serving.id).map_or(0, |aggregate| aggregate.budget - self.left)
    }

    /// Advances virtual time by the bytes sent since it was last advanced.
    #[inline]
    fn advance(&mut self) {
        let bytes = self.marked - self.left;
        self.marked = self.left;
        if bytes > u64::from(groups::LARGEST) {
            return self.advance_far(bytes);
        }
        self.groups.transmit(bytes as u32);
    }

    /// Advances virtual time by a service of more than [`groups::LARGEST`] bytes. Only packets that
    /// are longer than any on a real link cause such a service.
    #[cold]
    #[inline(never)]
    fn advance_far(&mut self, bytes: u64) {
        let largest = u64::from(groups::LARGEST);
        let classes = self.aggregates.get(self.serving.id).map_or(1, Aggregate::classes);
        let mut rest = bytes.min(largest * u64::from(classes));
        while rest != 0 {
            let some = rest.min(largest);
            self.groups.transmit(some as u32);
            rest -= some;
        }
    }

    /// Ends a busy period, in which an aggregate may still be served.
    #[inline]
    fn rest(&mut self) {
        self.end_service();
        self.groups.rest();
    }
}

/// The largest number of classes that the automatic choice allows in an aggregate.
const AUTOMATIC: u32 = 8;

pub(super) const ROW: Row = Row {
    name: "qfq+",
    aliases: &["qfqp"],
    summary: "quick fair queueing of aggregates of up to m flows: nearly the cost of round robin, \
              for a few packets of fairness",
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
