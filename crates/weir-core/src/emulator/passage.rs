//! The passage of packets through a link.
//!
//! ```text
//! submit → scheduler → [device] → wire → loss → duplication → corruption → delay line → ready
//! ```

use alloc::vec::Vec;

use super::context::{Context, drop_inside};
use super::flow::path;
use super::link::{Effects, Link, OnWire};
use super::traffic::{Arrival, Departure, Fate};
use crate::packet::{Corruption, Crossed, LabelThenStart, Packet, PacketId, PacketList, Store};
use crate::sched::{AnyScheduler, Discipline, FlowSlot, Scheduler};
use crate::stats::DropReason;
use crate::units::Nanos;

impl Link {
    /// Whether a packet that arrives now starts on the wire at once and then only has to pass the
    /// delay line.
    #[inline]
    pub(super) fn passes_at_once(&self) -> bool {
        self.effects == Effects::Plain && self.wire.is_none() && self.scheduler.may_bypass()
    }

    /// Whether packets that arrive now only have to wait: the wire is busy, there is no device, and
    /// the scheduler accepts every packet.
    #[inline]
    pub(super) fn only_queues(&self) -> bool {
        self.wire.is_some() && self.scheduler.accepts_all() && self.effects != Effects::Device
    }

    /// Accepts an admitted packet.
    #[inline(always)] // Measured: see the emulator's module.
    pub(super) fn take(
        &mut self,
        now: Nanos,
        packet: PacketId,
        flow: u32,
        arrival: Arrival,
        context: &mut Context<'_>,
    ) {
        if self.passes_at_once() && !context.flows.at(flow).is_managed() {
            self.pass(now, packet, arrival.len, arrival.segments, context);
        } else {
            let slot = context.enters_queue(flow, arrival.len);
            self.enqueue(now, packet, slot, context);
        }
    }

    /// Accepts admitted packets; [`Self::only_queues`] must hold.
    pub(super) fn enqueue_batch(
        &mut self,
        now: Nanos,
        packets: &[(FlowSlot, PacketId)],
        context: &mut Context<'_>,
    ) {
        if packets.is_empty() {
            return;
        }
        self.last_used = now;
        let mut refused = Vec::new();
        self.scheduler.enqueue_batch(now, context.pool, packets, &mut refused);
        debug_assert!(
            refused.is_empty(),
            "a scheduler that accepts every packet refused {}",
            refused.len()
        );
        self.release_due(now, context);
    }

    /// Accepts an admitted packet without passing it through the queue, with the same effect as
    /// [`Self::enqueue`]. [`Self::passes_at_once`] must hold.
    #[inline(always)] // Measured: see the emulator's module.
    pub(super) fn pass(
        &mut self,
        now: Nanos,
        packet: PacketId,
        len: u32,
        segments: u16,
        context: &mut Context<'_>,
    ) {
        self.last_used = now;
        context.template.bypassed(len);
        context.template.stats.queue_ns.record(0);
        context.pool.get_mut(packet).label_then_start = LabelThenStart::started(now);
        let done = self.start_plain(now, packet, len, segments, context);
        if done > now {
            self.wire = Some(OnWire::in_delay_line(packet, done));
        }
        self.release_due(now, context);
    }

    /// Accepts an admitted packet of the flow that has slot `slot` in the scheduler.
    pub(super) fn enqueue(
        &mut self,
        now: Nanos,
        packet: PacketId,
        slot: FlowSlot,
        context: &mut Context<'_>,
    ) {
        self.last_used = now;
        if let Some(refused) = self.scheduler.enqueue(now, context.pool, slot, packet) {
            context.refuse(now, refused, DropReason::Scheduler);
        }
        self.drop_refused(now, context);
        self.serve_next(now, context);
        self.release_due(now, context);
    }

    /// Handles all events of the link at time `at`.
    #[inline(always)] // Measured: see the emulator's module.
    pub(super) fn step(&mut self, at: Nanos, context: &mut Context<'_>) {
        if self.effects >= Effects::Scheduled {
            self.advance_general(at, context);
        } else {
            self.advance_wire(at, context);
        }
        self.release_until(at, context);
    }

    /// Handles the events of schedule, wire and device at time `at`.
    #[inline(never)]
    fn advance_general(&mut self, at: Nanos, context: &mut Context<'_>) {
        if self.schedule_due() <= at {
            self.run_schedule(at, context);
        }
        if self.effects == Effects::Device {
            self.advance_device(at, context);
        } else {
            self.advance_wire(at, context);
        }
    }

    /// Handles the events of schedule, wire and device until `now`. The queue is then up to date.
    #[inline(always)] // Measured: see the emulator's module.
    pub(super) fn run_wire(&mut self, now: Nanos, context: &mut Context<'_>) {
        if self.effects >= Effects::Scheduled {
            return self.run_wire_general(now, context);
        }
        loop {
            let at = self.wire_due();
            if at > now {
                return;
            }
            self.advance_wire(at, context);
        }
    }

    /// The time at which a busy wire becomes free, or at which the scheduler releases a packet to a
    /// free wire.
    #[inline(always)] // Measured: see the emulator's module.
    fn wire_due(&self) -> Nanos {
        match self.wire {
            Some(wire) => wire.done,
            // Packets wait in front of a free wire only in a shaping scheduler, which provides the
            // time of the next release.
            None if !self.scheduler.is_empty() => self.scheduler.next_event().unwrap_or(Nanos::MAX),
            None => Nanos::MAX,
        }
    }

    /// [`Self::run_wire`] of a link with a schedule or a device.
    #[inline(never)]
    fn run_wire_general(&mut self, now: Nanos, context: &mut Context<'_>) {
        loop {
            let wire =
                if self.effects == Effects::Device { self.device_event() } else { self.wire_due() };
            let at = wire.min(self.schedule_due());
            if at > now {
                return;
            }
            self.advance_general(at, context);
        }
    }

    /// Finishes the packet on the wire if its transmission has ended, and starts the next packet.
    #[inline]
    fn advance_wire(&mut self, at: Nanos, context: &mut Context<'_>) {
        match self.wire {
            Some(wire) if wire.done > at => return,
            Some(wire) => {
                self.wire = None;
                if !wire.in_delay_line {
                    self.cross(at, wire, context);
                }
            }
            None => {}
        }
        if !self.scheduler.is_empty() {
            self.serve(at, context);
        }
    }

    /// Moves packets from the scheduler to the device or to the free wire.
    #[inline]
    pub(super) fn serve_next(&mut self, now: Nanos, context: &mut Context<'_>) {
        if self.effects == Effects::Device {
            self.serve_device(now, context);
        } else {
            self.serve(now, context);
        }
    }

    /// Moves packets to a free wire. A packet without transmission time passes the wire at once.
    pub(super) fn serve(&mut self, now: Nanos, context: &mut Context<'_>) {
        while self.wire.is_none() && !self.scheduler.is_empty() {
            let packet = self.scheduler.dequeue(now, context.pool);
            self.drop_refused(now, context);
            let Some(packet) = packet else { return };
            if let Some(reason) = context.leaves_queue(now, packet) {
                context.pool.get_mut(packet).dequeued = now;
                drop_inside(now, packet, reason, context);
                continue;
            }
            let wire = self.start(now, packet, context);
            if wire.done > now {
                self.wire = Some(wire);
            } else if !wire.in_delay_line {
                self.cross(now, wire, context);
            }
        }
    }

    /// Drops the packets that the scheduler has refused since the last call
    /// ([`Scheduler::pop_refused`]).
    #[inline]
    pub(super) fn drop_refused(&mut self, now: Nanos, context: &mut Context<'_>) {
        while let Some((refused, reason)) = self.scheduler.pop_refused(context.pool) {
            context.refuse(now, refused, reason);
        }
    }

    /// Records the departure of a packet from its queue, and starts the packet on the wire.
    fn start(&mut self, now: Nanos, id: PacketId, context: &mut Context<'_>) -> OnWire {
        let packet = context.pool.get_mut(id);
        packet.dequeued = now;
        packet.label_then_start = LabelThenStart::started(now);
        let Packet { len, segments, arrived, .. } = *packet;
        context.template.stats.queue_ns.record(now.since(arrived).0);
        self.launch(now, id, len, segments, context)
    }

    /// Starts a packet on the wire. The caller has recorded its departure from the queue.
    #[inline(always)] // Measured: see the emulator's module.
    pub(super) fn launch(
        &mut self,
        now: Nanos,
        id: PacketId,
        len: u32,
        segments: u16,
        context: &mut Context<'_>,
    ) -> OnWire {
        if self.effects == Effects::Plain {
            let done = self.start_plain(now, id, len, segments, context);
            return OnWire::in_delay_line(id, done);
        }
        let (extra, lost) = match &context.template.link.profile {
            Some(profile) => profile.draw(self.profile_stream.bits32()),
            None => (Nanos::ZERO, false),
        };
        let done = self.serializer.start(
            now,
            context.template.link.overhead.wire_bytes(len, segments),
            extra,
        );
        OnWire { packet: id, done, lost, in_delay_line: false, keeps_delay: false }
    }

    /// Starts a packet on a plain link and adds it to the delay line. Returns the time at which the
    /// wire becomes free again.
    #[inline(always)] // Measured: see the emulator's module.
    fn start_plain(
        &mut self,
        now: Nanos,
        id: PacketId,
        len: u32,
        segments: u16,
        context: &mut Context<'_>,
    ) -> Nanos {
        let bytes = context.template.link.overhead.wire_bytes(len, segments);
        let done = self.serializer.start(now, bytes, Nanos::ZERO);
        self.last_due = done.saturating_add(context.template.link.delay).max(self.last_due);
        self.line.push(
            context.pool,
            id,
            Crossed { due: self.last_due, corruption: Corruption::NONE, duplicate: false },
        );
        done
    }

    /// Passes a packet from the end of the wire through loss, duplication and corruption into the
    /// delay line.
    pub(super) fn cross(&mut self, at: Nanos, wire: OnWire, context: &mut Context<'_>) {
        if wire.lost {
            return drop_inside(at, wire.packet, DropReason::Profile, context);
        }
        if let Some(loss) = self.loss.as_mut() {
            context.template.stats.counters.loss_draws += 1;
            if loss.next_is_lost() {
                return drop_inside(at, wire.packet, DropReason::LossOnLink, context);
            }
        }
        let pool = &mut *context.pool;
        let Some(impairments) = self.impairments.as_mut() else {
            self.last_due = at.saturating_add(self.delay).max(self.last_due);
            return self.line.push(
                pool,
                wire.packet,
                Crossed { due: self.last_due, corruption: Corruption::NONE, duplicate: false },
            );
        };
        let counters = &mut context.template.stats.counters;
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
        let crossing = impairments.next_crossing(self.delay, context.template.normal.as_deref());
        counters.reordered += u64::from(crossing.reordered);
        let mut due = at.saturating_add(crossing.delay);
        if !crossing.may_overtake {
            due = due.max(self.last_due);
            self.last_due = due;
        }
        for (packet, duplicate) in [(Some(wire.packet), false), (copy, true)] {
            let Some(packet) = packet else { continue };
            let corruption = impairments.next_corruption();
            self.line.push(pool, packet, Crossed { due, corruption, duplicate });
        }
    }

    /// After a packet has entered, releases the packets of the delay line that are due. There are
    /// such packets if the link has no delay, or if the driver has not polled since they became
    /// due.
    #[inline(always)] // Measured: see the emulator's module.
    fn release_due(&mut self, at: Nanos, context: &mut Context<'_>) {
        if self.line.next_due() <= at {
            self.release_some(at, context);
        }
    }

    /// [`Self::release_until`], not inlined.
    #[inline(never)]
    fn release_some(&mut self, at: Nanos, context: &mut Context<'_>) {
        self.release_until(at, context);
    }

    /// Releases the packets of the delay line that are due until `at`.
    #[inline(always)] // Measured: see the emulator's module.
    fn release_until(&mut self, at: Nanos, context: &mut Context<'_>) {
        while self.line.next_due() <= at {
            let Some(packet) = self.line.pop(context.pool) else { return };
            self.release(packet, context);
        }
    }

    /// Delivers a packet from the end of the delay line: counts it, and adds it to the departures.
    #[inline(always)] // Measured: see the emulator's module.
    fn release(&mut self, packet: PacketId, context: &mut Context<'_>) {
        let (
            Packet { frame, len, arrived, dequeued, label_then_start, .. },
            Crossed { due, corruption, duplicate },
            mark,
        ) = context.pool.depart(packet);
        self.last_used = self.last_used.max(due);
        let corrupt = corruption.bit();
        let stats = &mut context.template.stats;
        stats.counters.backlog_packets -= 1;
        stats.counters.packets_out += 1;
        stats.counters.bytes_out += u64::from(len);
        stats.counters.corrupted += u64::from(corrupt.is_some());
        stats.total_ns.record(due.since(arrived).0);
        let fate = Fate::Deliver { mark, corrupt, duplicate };
        context.ready.push(Departure {
            frame,
            link: self.template,
            fate,
            arrived,
            dequeued,
            started: label_then_start.start(),
            due,
        });
    }

    pub(super) fn drain(&mut self, now: Nanos, context: &mut Context<'_>) {
        if let Some(wire) = self.wire.take().filter(|w| !w.in_delay_line) {
            drop_inside(now, wire.packet, DropReason::NoSuchPipe, context);
        }
        while let Some(packet) = self.line.pop(context.pool) {
            drop_inside(now, packet, DropReason::NoSuchPipe, context);
        }
        self.drop_device_packets(now, context);
        while let Some(packet) = self.scheduler.dequeue(Nanos::MAX, context.pool) {
            context.template.dequeued(context.pool.get(packet).len);
            drop_inside(now, packet, DropReason::NoSuchPipe, context);
        }
        self.drop_refused(now, context);
    }
}

// Changes of the scheduler.
impl Link {
    /// Replaces the scheduler. Waiting packets move in the order in which they would have left, so
    /// that every flow keeps its order. All waiting packets leave before later ones in three cases:
    /// some of them belong to retired flows, the new scheduler classifies packets, or the scheduler
    /// is a tree of nested schedulers.
    pub(super) fn change_discipline(
        &mut self,
        now: Nanos,
        discipline: &Discipline,
        context: &mut Context<'_>,
    ) {
        self.replace_scheduler(now, discipline, context);
        self.serve_free_wire(now, context);
    }

    /// Serves the wire, if it is free, after a change that may let waiting packets start. No event
    /// is scheduled for these packets.
    pub(super) fn serve_free_wire(&mut self, now: Nanos, context: &mut Context<'_>) {
        self.serve_next(now, context);
        self.release_due(now, context);
    }

    /// Does the work of [`Self::change_discipline`] without serving the wire.
    fn replace_scheduler(
        &mut self,
        now: Nanos,
        discipline: &Discipline,
        context: &mut Context<'_>,
    ) {
        let Context { seed, flows, pool, .. } = context;
        let pool = &mut **pool;
        let discipline = &discipline.seeded(*seed ^ path(self.template, &self.key));
        if self.scheduler.tree().is_some() {
            self.scheduler.settle(pool);
            if let Some(tree) = self.scheduler.tree() {
                tree.replace_root(now, discipline);
            }
            self.drop_refused(now, context);
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
        // Packets have no flow hash if they arrived while neither a scheduler nor an AQM classified
        // packets.
        if leaving || discipline.row().traits.classifies {
            return self.scheduler.put_behind(&mut old, pool);
        }
        let mut waiting = PacketList::default();
        let mut refused_packets = Vec::new();
        while let Some(packet) = old.dequeue(Nanos::MAX, pool) {
            waiting.push_back(pool, packet);
        }
        while let Some(packet) = waiting.pop_front(pool) {
            let slot = flows.at(pool.get(packet).flow).slot;
            if let Some(refused) = self.scheduler.enqueue(now, pool, slot, packet) {
                refused_packets.push(refused);
            }
        }
        refused_packets
            .into_iter()
            .for_each(|packet| context.refuse(now, packet, DropReason::Scheduler));
        self.drop_refused(now, context);
    }
}
