//! A scheduler instance with its link, and the way of a packet through it.
//!
//! ```text
//! submit → scheduler → [device] → wire → loss → duplication → corruption → delay line → ready
//! ```
//! A *plain* link (no loss, impairment, profile or schedule) knows everything about a packet when
//! it starts: the packet goes into the delay line at once, and the wire needs an event of its own
//! only while others wait for it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::flow::{Flow, NO_FLOW, path};
use super::tables::Template;
use super::view::Gone;
use super::{Arrival, Departure, Fate, Rejected};
use crate::aqm::{Seen, Verdict};
use crate::config::{Capacity, LinkConfig};
use crate::device::{self, Device};
use crate::key::{CompactKey, FlowKey, stable_hash};
use crate::link::{DelayLine, Impairments, LossProcess, Serializer};
use crate::packet::{Crossed, Header, INTACT, Packet, PacketId, PacketList, Pool, Store};
use crate::rng::{Purpose, Stream};
use crate::sched::{AnyScheduler, Discipline, FlowSlot, Scheduler};
use crate::slab::Slab;
use crate::stats::DropReason;
use crate::units::Nanos;

/// What a link works with besides itself.
pub(super) struct Surroundings<'a> {
    pub(super) seed: u64,
    pub(super) template: &'a mut Template,
    pub(super) flows: &'a mut Slab<Flow>,
    pub(super) pool: &'a mut Pool,
    pub(super) ready: &'a mut Vec<Departure>,
}

/// A scheduler instance with its link. What every packet touches stands in the first three cache
/// lines: the link's own state, queue and delay line, and the serialiser's clock.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Link {
    /// Masked key that it was made for, in short.
    compact: CompactKey,
    pub(super) wire: Option<OnWire>,
    pub(super) last_used: Nanos,
    /// What the event queue knows of [`Self::next_event`].
    pub(super) announced: Nanos,
    /// Latest due time in the delay line of a packet that keeps its place.
    last_due: Nanos,
    pub(super) template: u16,
    /// No longer found by new packets: its mask is gone. Freed when empty.
    pub(super) orphan: bool,
    course: Course,
    /// A pipe's only flow, or [`NO_FLOW`].
    pub(super) flow: u32,
    line: DelayLine,
    pub(super) scheduler: AnyScheduler,
    serializer: Serializer,
    /// Masked key that it was made for.
    pub(super) key: FlowKey,
    /// The delay now. A plain link has its template's, where a packet finds it without another
    /// cache line.
    delay: Nanos,
    /// When the next step of the schedule is due.
    next_step_due: Nanos,
    /// The flow made last, the first of the list of all flows, or [`NO_FLOW`].
    pub(super) flows: u32,
    loss: Option<Box<LossProcess>>,
    impairments: Option<Box<Impairments>>,
    /// What holds packets between the scheduler and the wire.
    pub(super) device: Option<Box<Device>>,
    profile_stream: Stream,
    /// When the schedule began, and its next step.
    schedule_origin: Nanos,
    schedule_step: u64,
    /// Tells it from others that had its number.
    pub(super) serial: u64,
    /// What flows that are gone have counted.
    pub(super) gone: Gone,
}

const _: () = assert!(
    core::mem::offset_of!(Link, line) == 64 && core::mem::offset_of!(Link, serializer) == 128
);

/// What can happen to a packet after it has left the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Course {
    /// Nothing: it may go into the delay line at once.
    Plain,
    /// Loss, impairments or a profile.
    Fixed,
    /// The same, and steps of a schedule that are to come.
    Scheduled,
    /// All of that, behind a device.
    Device,
}

/// The packet that is being serialised.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnWire {
    packet: PacketId,
    pub(super) done: Nanos,
    /// The profile loses it at the end of its air-time.
    lost: bool,
    /// It is in the delay line already.
    pub(super) in_line: bool,
}

impl Link {
    pub(super) fn new(
        seed: u64,
        now: Nanos,
        template: &Template,
        key: FlowKey,
        serial: u64,
    ) -> Self {
        let config = &template.link;
        let path = path(template.id, &key);
        let stream = |purpose| Stream::new(seed, path, purpose);
        let mut link = Self {
            compact: CompactKey::new(&key),
            wire: None,
            last_used: now,
            announced: Nanos::MAX,
            last_due: Nanos::ZERO,
            template: template.id,
            orphan: false,
            course: Course::Fixed,
            flow: NO_FLOW,
            line: DelayLine::default(),
            scheduler: AnyScheduler::new(&template.discipline.seeded(seed ^ path)),
            serializer: Serializer::new(now, config.capacity.clone(), config.burst),
            key,
            delay: config.delay,
            next_step_due: Nanos::MAX,
            flows: NO_FLOW,
            loss: LossProcess::configure(None, config.loss, || stream(Purpose::Loss)),
            impairments: Impairments::new(config, seed, path),
            device: device::make(now, config.device.as_ref()),
            profile_stream: stream(Purpose::Profile),
            schedule_origin: now,
            schedule_step: 0,
            serial,
            gone: Gone::default(),
        };
        link.next_step(config);
        link.set_course(config);
        link
    }

    /// When something happens on this link by itself; [`Nanos::MAX`] for never.
    #[inline(always)]
    pub(super) fn next_event(&self) -> Nanos {
        if self.course >= Course::Scheduled {
            return self.next_event_beside();
        }
        self.wire_event().min(self.line.next_due())
    }

    /// When the wire is free for a packet that waits.
    #[inline(always)]
    fn wire_event(&self) -> Nanos {
        match &self.wire {
            // Only a packet that waits needs to know when the wire is free.
            Some(wire) if wire.in_line && self.scheduler.is_empty() => Nanos::MAX,
            Some(wire) => wire.done,
            None => self.scheduler.next_event().unwrap_or(Nanos::MAX),
        }
    }

    /// [`Self::next_event`] of a link with a schedule or a device.
    #[inline(never)]
    fn next_event_beside(&self) -> Nanos {
        let wire =
            if self.course == Course::Device { self.device_event() } else { self.wire_event() };
        // Steps of a schedule do not wake an idle link: they are caught up with when the next
        // packet comes.
        let schedule = if self.is_empty() { Nanos::MAX } else { self.next_step_due };
        wire.min(self.line.next_due()).min(schedule)
    }

    /// When the next step of the schedule is due.
    #[inline]
    fn schedule_due(&self) -> Nanos {
        if self.course >= Course::Scheduled { self.next_step_due } else { Nanos::MAX }
    }

    /// Whether it was made for the key `masked`, whose short form is `compact`.
    #[inline]
    pub(super) fn is_for(&self, compact: CompactKey, masked: &FlowKey) -> bool {
        self.compact == compact && (!compact.is_wide() || self.key == *masked)
    }

    /// The hash by which its template finds it.
    #[inline]
    pub(super) fn table_hash(&self) -> u64 {
        self.compact.hash()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        let waits = !self.scheduler.is_empty()
            || self.device.as_ref().is_some_and(|device| !device.is_empty());
        self.wire.is_none_or(|w| w.in_line) && self.line.is_empty() && !waits
    }

    pub(super) fn set_course(&mut self, config: &LinkConfig) {
        if self.device.is_some() {
            self.course = Course::Device;
            return;
        }
        let plain = self.loss.is_none()
            && self.impairments.is_none()
            && config.profile.is_none()
            && config.schedule.is_none();
        self.course = match (plain, self.next_step_due) {
            (true, _) => Course::Plain,
            (false, Nanos::MAX) => Course::Fixed,
            (false, _) => Course::Scheduled,
        };
    }

    fn set_capacity(&mut self, now: Nanos, capacity: &Capacity, pool: &mut Pool) {
        // A wire that was free before now is not busy, even when nobody has looked since.
        if self.wire.is_some_and(|w| w.in_line && w.done <= now) {
            self.wire = None;
        }
        let done = self.serializer.set_capacity(now, capacity, self.wire.is_some());
        if let (Some(wire), Some(done)) = (&mut self.wire, done) {
            if wire.in_line {
                let due = Nanos(self.last_due.0 - wire.done.0 + done.0);
                self.last_due = self.line.retime_last(pool, due).unwrap_or(due);
            }
            wire.done = done;
        }
    }

    /// Applies the steps of the schedule that are due.
    #[cold]
    #[inline(never)]
    fn run_schedule(&mut self, now: Nanos, around: &mut Surroundings<'_>) {
        let Surroundings { seed, pool, .. } = around;
        let config = &around.template.link;
        if let (None, Some(schedule)) = (&self.wire, &config.schedule) {
            let behind = now.since(self.schedule_origin);
            self.schedule_step = self.schedule_step.max(schedule.step_to_resume_at(behind));
        }
        while self.schedule_due() <= now {
            let due = self.next_step_due;
            let Some((_, step)) = config.schedule.as_ref().and_then(|s| s.step(self.schedule_step))
            else {
                return;
            };
            if let Some(capacity) = &step.capacity {
                self.set_capacity(due, capacity, pool);
            }
            self.delay = step.delay.unwrap_or(self.delay);
            if let Some(model) = step.loss {
                let path = path(self.template, &self.key);
                self.loss = LossProcess::configure(self.loss.take(), model, || {
                    Stream::new(*seed, path, Purpose::Loss)
                });
            }
            self.schedule_step += 1;
            self.next_step(config);
        }
        self.set_course(config);
    }

    fn next_step(&mut self, config: &LinkConfig) {
        let step = config.schedule.as_ref().and_then(|s| s.step(self.schedule_step));
        self.next_step_due =
            step.map_or(Nanos::MAX, |(at, _)| self.schedule_origin.saturating_add(at));
    }

    /// Takes over another configuration at `now`, without losing a packet or its place.
    pub(super) fn configure(
        &mut self,
        now: Nanos,
        seed: u64,
        pool: &mut Pool,
        config: &LinkConfig,
        old: &LinkConfig,
    ) {
        let path = path(self.template, &self.key);
        if config.schedule != old.schedule {
            (self.schedule_origin, self.schedule_step) = (now, 0);
            self.next_step(config);
        }
        self.set_capacity(now, &config.capacity, pool);
        self.serializer.set_burst(config.burst);
        self.delay = config.delay;
        self.loss = LossProcess::configure(self.loss.take(), config.loss, || {
            Stream::new(seed, path, Purpose::Loss)
        });
        self.impairments = Impairments::reconfigure(self.impairments.take(), config, seed, path);
        self.configure_device(now, pool, config);
        self.set_course(config);
    }
}

// Changes of the scheduler.
impl Link {
    /// Replaces the scheduler by another. What waits goes over in the order in which it would have
    /// left, so that every flow keeps its own. While something waits in flows that are leaving,
    /// whose traffic has others already, all that waits goes before what comes; so it does before a
    /// scheduler that tells flows apart by itself.
    pub(super) fn change_discipline(
        &mut self,
        now: Nanos,
        discipline: &Discipline,
        around: &mut Surroundings<'_>,
    ) {
        self.replace_scheduler(now, discipline, around);
        self.serve_free_wire(now, around);
    }

    /// Serves what the old scheduler held back and the new one does not: the wire may be free, and
    /// nothing else would wake it.
    pub(super) fn serve_free_wire(&mut self, now: Nanos, around: &mut Surroundings<'_>) {
        self.serve_next(now, around);
        self.release_due(now, around);
    }

    fn replace_scheduler(
        &mut self,
        now: Nanos,
        discipline: &Discipline,
        around: &mut Surroundings<'_>,
    ) {
        let Surroundings { flows, pool, .. } = around;
        let pool = &mut **pool;
        if self.scheduler.tree().is_some() {
            self.scheduler.settle(pool);
            if let Some(tree) = self.scheduler.tree() {
                tree.replace_root(now, discipline);
            }
            self.refuse_others(now, around);
            return;
        }
        let mut old = core::mem::replace(&mut self.scheduler, AnyScheduler::new(discipline));
        let mut leaving = false;
        let mut number = self.flows;
        while let Some(flow) = flows.get_mut(number) {
            flow.slot = self.scheduler.add_flow(now, &flow.cold.spec);
            leaving |= flow.cold.orphan && flow.gate.packets() > 0;
            number = flow.cold.older;
        }
        // What came while nobody looked at headers does not say to which flow it belongs.
        if leaving || discipline.row().traits.classifies {
            return self.scheduler.put_behind(&mut old, pool);
        }
        let mut waiting = PacketList::default();
        let mut gone = Vec::new();
        while let Some(packet) = old.dequeue(Nanos::MAX, pool) {
            waiting.push_back(pool, packet);
        }
        while let Some(packet) = waiting.pop_front(pool) {
            let slot = flows.at(pool.get(packet).flow).slot;
            if let Some(refused) = self.scheduler.enqueue(now, pool, slot, packet) {
                gone.push(refused);
            }
        }
        gone.into_iter().for_each(|packet| around.refuse(now, packet, DropReason::Scheduler));
        self.refuse_others(now, around);
    }
}

// How packets go through.
impl Link {
    /// Whether a packet that comes now starts on the wire at once and meets nothing but the delay
    /// line behind it.
    #[inline]
    pub(super) fn passes_at_once(&self) -> bool {
        self.course == Course::Plain && self.wire.is_none() && self.scheduler.may_bypass()
    }

    /// Whether packets that come now only queue: the wire is busy, and the scheduler has a place
    /// for each.
    #[inline]
    pub(super) fn only_queues(&self) -> bool {
        self.wire.is_some() && self.scheduler.takes_all() && self.course != Course::Device
    }

    /// Takes an admitted packet.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        now: Nanos,
        packet: PacketId,
        flow: u32,
        arrival: Arrival,
        around: &mut Surroundings<'_>,
    ) {
        if self.passes_at_once() && !around.flows.at(flow).is_managed() {
            self.pass(now, packet, arrival.len, arrival.segments, around);
        } else {
            let slot = around.enters_queue(flow, arrival.len);
            self.enqueue(now, packet, slot, around);
        }
    }

    /// Takes admitted packets where [`Self::only_queues`] holds.
    pub(super) fn enqueue_batch(
        &mut self,
        now: Nanos,
        packets: &[(FlowSlot, PacketId)],
        around: &mut Surroundings<'_>,
    ) {
        if packets.is_empty() {
            return;
        }
        self.last_used = now;
        let mut refused = Vec::new();
        self.scheduler.enqueue_batch(now, around.pool, packets, &mut refused);
        debug_assert!(
            refused.is_empty(),
            "a scheduler that takes all gave {} packets back",
            refused.len()
        );
        self.release_due(now, around);
    }

    /// Takes an admitted packet where [`Self::passes_at_once`] holds; the same as
    /// [`Self::enqueue`], without the queue.
    #[inline(always)]
    pub(super) fn pass(
        &mut self,
        now: Nanos,
        packet: PacketId,
        len: u32,
        segments: u16,
        around: &mut Surroundings<'_>,
    ) {
        self.last_used = now;
        around.template.bypassed();
        around.template.stats.queue_ns.record(0);
        around.pool.get_mut(packet).label = now.0;
        let done = self.start_plain(now, packet, len, segments, around);
        if done > now {
            self.wire = Some(OnWire { packet, done, lost: false, in_line: true });
        }
        self.release_due(now, around);
    }

    /// Takes an admitted packet of the flow that has place `slot` in the scheduler.
    pub(super) fn enqueue(
        &mut self,
        now: Nanos,
        packet: PacketId,
        slot: FlowSlot,
        around: &mut Surroundings<'_>,
    ) {
        self.last_used = now;
        if let Some(refused) = self.scheduler.enqueue(now, around.pool, slot, packet) {
            around.refuse(now, refused, DropReason::Scheduler);
        }
        self.refuse_others(now, around);
        self.serve_next(now, around);
        self.release_due(now, around);
    }

    /// Handles the events at one time.
    #[inline]
    pub(super) fn step(&mut self, at: Nanos, around: &mut Surroundings<'_>) {
        if self.course >= Course::Scheduled {
            self.advance_beside(at, around);
        } else {
            self.advance_wire(at, around);
        }
        self.release_due(at, around);
    }

    /// Handles schedule, wire and device at one time.
    #[inline(never)]
    fn advance_beside(&mut self, at: Nanos, around: &mut Surroundings<'_>) {
        if self.schedule_due() <= at {
            self.run_schedule(at, around);
        }
        if self.course == Course::Device {
            self.advance_device(at, around)
        } else {
            self.advance_wire(at, around)
        }
    }

    /// Handles schedule and wire until `now`, so that the queue is what it is at `now`.
    #[inline(always)]
    pub(super) fn run_wire(&mut self, now: Nanos, around: &mut Surroundings<'_>) {
        if self.course >= Course::Scheduled {
            return self.run_wire_beside(now, around);
        }
        loop {
            let at = self.wire_due();
            if at > now {
                return;
            }
            self.advance_wire(at, around);
        }
    }

    /// When the wire is free, or gets something from its scheduler.
    #[inline(always)]
    fn wire_due(&self) -> Nanos {
        match self.wire {
            Some(wire) => wire.done,
            // Packets that wait before a free wire do so because their scheduler says when.
            None if !self.scheduler.is_empty() => self.scheduler.next_event().unwrap_or(Nanos::MAX),
            None => Nanos::MAX,
        }
    }

    /// [`Self::run_wire`] of a link with a schedule or a device.
    #[inline(never)]
    fn run_wire_beside(&mut self, now: Nanos, around: &mut Surroundings<'_>) {
        loop {
            let wire =
                if self.course == Course::Device { self.device_event() } else { self.wire_due() };
            let at = wire.min(self.schedule_due());
            if at > now {
                return;
            }
            self.advance_beside(at, around);
        }
    }

    /// Finishes the packet on the wire if it is done, and starts the next.
    #[inline]
    fn advance_wire(&mut self, at: Nanos, around: &mut Surroundings<'_>) {
        match self.wire {
            Some(wire) if wire.done > at => return,
            Some(wire) => {
                self.wire = None;
                if !wire.in_line {
                    self.cross(at, wire, around);
                }
            }
            None => {}
        }
        if !self.scheduler.is_empty() {
            self.serve(at, around);
        }
    }

    /// Hands packets on to whatever is free behind the scheduler.
    #[inline]
    pub(super) fn serve_next(&mut self, now: Nanos, around: &mut Surroundings<'_>) {
        if self.course == Course::Device {
            self.serve_device(now, around)
        } else {
            self.serve(now, around)
        }
    }

    /// Hands packets to a free wire. What needs no time on it goes straight on.
    pub(super) fn serve(&mut self, now: Nanos, around: &mut Surroundings<'_>) {
        while self.wire.is_none() && !self.scheduler.is_empty() {
            let packet = self.scheduler.dequeue(now, around.pool);
            self.refuse_others(now, around);
            let Some(packet) = packet else { return };
            if let Some(reason) = around.leaves_queue(now, packet) {
                around.pool.get_mut(packet).dequeued = now;
                drop_inside(now, packet, reason, around);
                continue;
            }
            let wire = self.start(now, packet, around);
            if wire.done > now {
                self.wire = Some(wire);
            } else if !wire.in_line {
                self.cross(now, wire, around);
            }
        }
    }

    /// Drops what a scheduler of a tree had no place for when another handed it up.
    #[inline]
    pub(super) fn refuse_others(&mut self, now: Nanos, around: &mut Surroundings<'_>) {
        while let Some((refused, reason)) = self.scheduler.pop_refused(around.pool) {
            around.refuse(now, refused, reason);
        }
    }

    /// Starts a packet on the wire.
    fn start(&mut self, now: Nanos, id: PacketId, around: &mut Surroundings<'_>) -> OnWire {
        let packet = around.pool.get_mut(id);
        packet.dequeued = now;
        // What schedulers were told of it is of no use to anyone now.
        packet.label = now.0;
        let Packet { len, segments, arrived, .. } = *packet;
        around.template.stats.queue_ns.record(now.since(arrived).0);
        self.launch(now, id, len, segments, around)
    }

    /// Starts a packet on the wire that has been counted.
    #[inline(always)]
    pub(super) fn launch(
        &mut self,
        now: Nanos,
        id: PacketId,
        len: u32,
        segments: u16,
        around: &mut Surroundings<'_>,
    ) -> OnWire {
        if self.course == Course::Plain {
            let done = self.start_plain(now, id, len, segments, around);
            return OnWire { packet: id, done, lost: false, in_line: true };
        }
        let (extra, lost) = match &around.template.link.profile {
            Some(profile) => profile.draw(self.profile_stream.bits32()),
            None => (Nanos::ZERO, false),
        };
        let done = self.serializer.start(
            now,
            around.template.link.overhead.wire_bytes(len, segments),
            extra,
        );
        OnWire { packet: id, done, lost, in_line: false }
    }

    /// Starts a packet on a plain link: its whole way is known. Returns when the wire is free
    /// again.
    #[inline(always)]
    fn start_plain(
        &mut self,
        now: Nanos,
        id: PacketId,
        len: u32,
        segments: u16,
        around: &mut Surroundings<'_>,
    ) -> Nanos {
        let bytes = around.template.link.overhead.wire_bytes(len, segments);
        let done = self.serializer.start(now, bytes, Nanos::ZERO);
        self.last_due = done.saturating_add(around.template.link.delay).max(self.last_due);
        self.line.push(
            around.pool,
            id,
            Crossed { due: self.last_due, corrupt: INTACT, duplicate: false },
        );
        done
    }

    /// A packet has left the wire: loss, duplication, corruption, and into the delay line.
    pub(super) fn cross(&mut self, at: Nanos, wire: OnWire, around: &mut Surroundings<'_>) {
        if wire.lost {
            return drop_inside(at, wire.packet, DropReason::Profile, around);
        }
        if self.loss.as_mut().is_some_and(|l| l.next_is_lost()) {
            return drop_inside(at, wire.packet, DropReason::LossOnLink, around);
        }
        let pool = &mut *around.pool;
        let Some(impairments) = self.impairments.as_mut() else {
            self.last_due = at.saturating_add(self.delay).max(self.last_due);
            return self.line.push(
                pool,
                wire.packet,
                Crossed { due: self.last_due, corrupt: INTACT, duplicate: false },
            );
        };
        let counters = &mut around.template.stats.counters;
        let copy = impairments
            .next_is_duplicated()
            .then(|| pool.insert(*pool.get(wire.packet)).ok())
            .flatten();
        if let Some(copy) = copy {
            if let Some(reason) = pool.mark_of(wire.packet) {
                pool.mark(copy, reason);
            }
            counters.duplicated += 1;
            counters.backlog_packets += 1;
        }
        let crossing = impairments.next_crossing(self.delay, around.template.normal.as_deref());
        counters.reordered += u64::from(crossing.reordered);
        let mut due = at.saturating_add(crossing.delay);
        if !crossing.may_overtake {
            due = due.max(self.last_due);
            self.last_due = due;
        }
        for (packet, duplicate) in [(Some(wire.packet), false), (copy, true)] {
            let Some(packet) = packet else { continue };
            let corrupt = impairments.next_corruption().unwrap_or(INTACT);
            self.line.push(pool, packet, Crossed { due, corrupt, duplicate });
        }
    }

    /// Lets out of the delay line what is due.
    #[inline(always)]
    fn release_due(&mut self, at: Nanos, around: &mut Surroundings<'_>) {
        if self.line.next_due() <= at {
            self.release_until(at, around);
        }
    }

    fn release_until(&mut self, at: Nanos, around: &mut Surroundings<'_>) {
        while self.line.next_due() <= at {
            let Some(packet) = self.line.pop(around.pool) else { return };
            self.release(packet, around);
        }
    }

    #[inline]
    fn release(&mut self, packet: PacketId, around: &mut Surroundings<'_>) {
        let (
            Packet { frame, len, arrived, dequeued, label: started, .. },
            Crossed { due, corrupt, duplicate },
            mark,
        ) = around.pool.depart(packet);
        self.last_used = self.last_used.max(due);
        let corrupt = (corrupt != INTACT).then_some(corrupt);
        let stats = &mut around.template.stats;
        stats.counters.backlog_packets -= 1;
        stats.counters.packets_out += 1;
        stats.counters.bytes_out += u64::from(len);
        stats.counters.corrupted += u64::from(corrupt.is_some());
        stats.total_ns.record(due.since(arrived).0);
        let fate = Fate::Deliver { mark, corrupt, duplicate };
        around.ready.push(Departure {
            frame,
            link: self.template,
            fate,
            arrived,
            dequeued,
            started: Nanos(started),
            due,
        });
    }

    /// Drops everything inside.
    pub(super) fn drain(&mut self, now: Nanos, around: &mut Surroundings<'_>) {
        if let Some(wire) = self.wire.take().filter(|w| !w.in_line) {
            drop_inside(now, wire.packet, DropReason::NoSuchPipe, around);
        }
        while let Some(packet) = self.line.pop(around.pool) {
            drop_inside(now, packet, DropReason::NoSuchPipe, around);
        }
        self.drain_device(now, around);
        while let Some(packet) = self.scheduler.dequeue(Nanos::MAX, around.pool) {
            around.template.dequeued(around.pool.get(packet).len);
            drop_inside(now, packet, DropReason::NoSuchPipe, around);
        }
        self.refuse_others(now, around);
    }
}

impl Surroundings<'_> {
    /// Counts a packet that came, and gives it a place in the pool if its queue lets it in.
    #[inline(always)]
    pub(super) fn admit(
        &mut self,
        now: Nanos,
        flow: u32,
        arrival: Arrival,
        key: &FlowKey,
    ) -> Result<PacketId, Rejected> {
        let Arrival { frame, len, link_header, segments, ecn, label } = arrival;
        let counters = &mut self.template.stats.counters;
        counters.packets_in += 1;
        counters.bytes_in += u64::from(len);
        let hash = if self.template.classifies { transport_hash(key) } else { 0 };
        let header = Header { ecn, dscp: key.dscp, hash };
        let state = self.flows.at_mut(flow);
        let admitted = state
            .admit(now, len, header)
            .and_then(|mark| Ok((mark, self.pool.allocate().ok_or(DropReason::NoMemory)?)));
        match admitted {
            Ok((mark, id)) => {
                let packet = Packet {
                    frame,
                    len,
                    flow,
                    segments,
                    link_header,
                    ecn,
                    arrived: now,
                    dequeued: now,
                    label,
                };
                self.pool.fill(id, packet, header, mark);
                counters.backlog_packets += 1;
                Ok(id)
            }
            Err(reason) => {
                state.cold.count_drop(reason);
                counters.count_drop(reason);
                Err(Rejected { reason })
            }
        }
    }

    /// Counts a packet that goes to the scheduler, and says where its flow is there.
    #[inline(always)]
    pub(super) fn enters_queue(&mut self, flow: u32, len: u32) -> FlowSlot {
        let state = self.flows.at_mut(flow);
        state.gate.enter(len);
        self.template.enqueued(len);
        state.slot
    }

    /// Drops packets that a scheduler has no place for.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, now: Nanos, packet: PacketId, reason: DropReason) {
        let Packet { flow, len, .. } = *self.pool.get(packet);
        // A flow that is being deleted may be gone already.
        if let Some(flow) = self.flows.get_mut(flow) {
            flow.gate.leave(len);
            flow.cold.count_drop(reason);
        }
        self.template.dequeued(len);
        drop_inside(now, packet, reason, self);
    }

    /// Counts a packet whose turn to leave its queue has come, and asks the queue's AQM. Says why
    /// it is dropped, if it is.
    #[inline(always)]
    pub(super) fn leaves_queue(&mut self, now: Nanos, packet: PacketId) -> Option<DropReason> {
        let Self { template, flows, pool, .. } = self;
        let &Packet { len, flow, .. } = pool.get(packet);
        template.dequeued(len);
        if let Some(flow) = flows.get_mut(flow) {
            flow.gate.leave(len);
            match flow.leave(now, || Seen {
                len,
                arrived: pool.arrived(packet),
                header: pool.header(packet),
            }) {
                Verdict::Drop(reason) => {
                    flow.cold.count_drop(reason);
                    return Some(reason);
                }
                Verdict::Mark(reason) => pool.mark(packet, reason),
                Verdict::Pass | Verdict::Admit => {}
            }
            if let Some(reason) = pool.mark_of(packet) {
                flow.cold.count_mark(reason);
                template.stats.counters.count_mark(reason);
            }
        }
        None
    }

    /// Drops packets that waited in a scheduler.
    pub(super) fn drop_waiting(&mut self, now: Nanos, mut packets: PacketList, reason: DropReason) {
        while let Some(packet) = packets.pop_front(self.pool) {
            self.template.dequeued(self.pool.get(packet).len);
            drop_inside(now, packet, reason, self);
        }
    }
}

/// What tells flows apart where something classifies. Kept out of the way of packets where nothing
/// does.
#[inline(never)]
fn transport_hash(key: &FlowKey) -> u32 {
    stable_hash(&key.transport()) as u32
}

pub(super) fn drop_inside(
    at: Nanos,
    packet: PacketId,
    reason: DropReason,
    around: &mut Surroundings<'_>,
) {
    let Packet { frame, arrived, dequeued, .. } = around.pool.remove(packet);
    let counters = &mut around.template.stats.counters;
    counters.backlog_packets -= 1;
    counters.count_drop(reason);
    around.ready.push(Departure {
        frame,
        link: around.template.id,
        fate: Fate::Drop(reason),
        arrived,
        dequeued,
        started: at,
        due: at,
    });
}
