//! Instances: a scheduler with its link made from a template, and a flow made from a flowset; and how a packet goes through.

use alloc::boxed::Box;

use super::tables::Flowset;
use super::{Action, Departure, Emulator, Fate, Rejected, Template};
use crate::config::{LinkConfig, QueueLimit, SchedulerConfig};
use crate::key::{FlowKey, stable_hash};
use crate::link::{DelayLine, INTACT, Impairments, LossProcess, Overhead, Serializer, UnderWay};
use crate::packet::{Packet, PacketId, Pool};
use crate::rng::{Purpose, Stream};
use crate::sched::{AnyScheduler, Scheduler};
use crate::stats::DropReason;
use crate::units::Nanos;

/// One queue of a flowset in one scheduler instance.
#[derive(Debug)]
pub(super) struct Flow {
    link: u32,
    /// The queue (flowset) it was made from; `None` for a pipe's own.
    queue: Option<u16>,
    key: FlowKey,
    limit: QueueLimit,
    loss: LossProcess,
    packets: u32,
    bytes: u64,
    pub(super) drops: u64,
}

impl Flow {
    fn new(seed: u64, link: u32, queue: Option<u16>, flowset: &Flowset, key: FlowKey, path: u64) -> Self {
        let loss = LossProcess::new(flowset.config.loss, Stream::new(seed, path, Purpose::LossBeforeQueue));
        Self { link, queue, key, limit: flowset.limit, loss, packets: 0, bytes: 0, drops: 0 }
    }

    /// Whether the packet may enter: loss before the queue, then the queue's limit. An empty queue takes any packet.
    pub(super) fn admit(&mut self, packet: &Packet) -> Result<(), DropReason> {
        if self.loss.next_is_lost() {
            return Err(DropReason::LossBeforeQueue);
        }
        let full = match self.limit {
            QueueLimit::Packets(limit) => self.packets >= limit,
            QueueLimit::Bytes(limit) => self.packets > 0 && self.bytes + u64::from(packet.len) > limit,
        };
        if full { Err(DropReason::QueueFull) } else { Ok(()) }
    }

    pub(super) fn enqueued(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.len);
    }

    fn dequeued(&mut self, packet: &Packet) {
        self.packets -= 1;
        self.bytes -= u64::from(packet.len);
    }

    fn configure(&mut self, flowset: &Flowset) {
        self.limit = flowset.limit;
        self.loss.set_model(flowset.config.loss);
    }
}

/// A scheduler instance with its link.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) template: u16,
    /// Masked key that it was made for.
    key: FlowKey,
    /// No longer found by new packets: its mask is gone. Freed when empty.
    orphan: bool,
    scheduler: AnyScheduler,
    serializer: Serializer,
    overhead: Overhead,
    delay: Nanos,
    loss: LossProcess,
    profile_stream: Stream,
    impairments: Option<Box<Impairments>>,
    wire: Option<OnWire>,
    line: DelayLine,
    /// Latest due time in the delay line of a packet that keeps its place.
    last_due: Nanos,
    /// When the schedule began, its next step, and when that is due.
    schedule_origin: Nanos,
    schedule_step: u64,
    schedule_due: Nanos,
    /// A pipe's only flow.
    flow: Option<u32>,
    flows: u32,
    pub(super) last_used: Nanos,
}

/// The packet that is being serialised.
#[derive(Clone, Copy, Debug)]
struct OnWire {
    packet: PacketId,
    done: Nanos,
    /// The profile loses it at the end of its air-time.
    lost: bool,
}

impl Link {
    fn new(seed: u64, now: Nanos, template: &Template, key: FlowKey) -> Self {
        let config = &template.link;
        let path = path(template.id, &key);
        let stream = |purpose| Stream::new(seed, path, purpose);
        let mut link = Self {
            template: template.id,
            key,
            orphan: false,
            scheduler: template.kind.build(),
            serializer: Serializer::new(now, config.capacity.clone(), config.burst),
            overhead: config.overhead,
            delay: config.delay,
            loss: LossProcess::new(config.loss, stream(Purpose::Loss)),
            profile_stream: stream(Purpose::Profile),
            impairments: Impairments::new(config, seed, path),
            wire: None,
            line: DelayLine::default(),
            last_due: Nanos::ZERO,
            schedule_origin: now,
            schedule_step: 0,
            schedule_due: Nanos::MAX,
            flow: None,
            flows: 0,
            last_used: now,
        };
        link.next_step(config);
        link
    }

    pub(super) fn enqueue(&mut self, now: Nanos, pool: &mut Pool, packet: PacketId) {
        self.scheduler.enqueue(now, pool, packet);
    }

    /// When something happens on this link by itself; [`Nanos::MAX`] for never.
    fn next_event(&self) -> Nanos {
        let wire = match &self.wire {
            Some(wire) => wire.done,
            None => self.scheduler.next_event().unwrap_or(Nanos::MAX),
        };
        // Steps of a schedule do not wake an idle link: they are caught up with when the next packet comes.
        let schedule = if self.is_empty() { Nanos::MAX } else { self.schedule_due };
        wire.min(self.line.next_due()).min(schedule)
    }

    fn is_empty(&self) -> bool {
        self.wire.is_none() && self.line.is_empty() && self.scheduler.is_empty()
    }

    fn set_capacity(&mut self, now: Nanos, capacity: &crate::config::Capacity) {
        let done = self.serializer.set_capacity(now, capacity, self.wire.is_some());
        if let (Some(wire), Some(done)) = (&mut self.wire, done) {
            wire.done = done;
        }
    }

    /// Applies the steps of the schedule that are due.
    fn run_schedule(&mut self, now: Nanos, config: &LinkConfig) {
        if let (None, Some(schedule)) = (&self.wire, &config.schedule) {
            let behind = now.since(self.schedule_origin);
            self.schedule_step = self.schedule_step.max(schedule.step_to_resume_at(behind));
        }
        while self.schedule_due <= now {
            let due = self.schedule_due;
            let Some((_, step)) = config.schedule.as_ref().and_then(|s| s.step(self.schedule_step)) else { return };
            if let Some(capacity) = &step.capacity {
                self.set_capacity(due, capacity);
            }
            self.delay = step.delay.unwrap_or(self.delay);
            if let Some(loss) = step.loss {
                self.loss.set_model(loss);
            }
            self.schedule_step += 1;
            self.next_step(config);
        }
    }

    fn next_step(&mut self, config: &LinkConfig) {
        let step = config.schedule.as_ref().and_then(|s| s.step(self.schedule_step));
        self.schedule_due = step.map_or(Nanos::MAX, |(at, _)| self.schedule_origin.saturating_add(at));
    }

    /// Takes over another configuration at `now`, without losing a packet or its place.
    fn configure(&mut self, now: Nanos, seed: u64, config: &LinkConfig, old: &LinkConfig) {
        if config.schedule != old.schedule {
            (self.schedule_origin, self.schedule_step) = (now, 0);
            self.next_step(config);
        }
        self.set_capacity(now, &config.capacity);
        self.serializer.set_burst(config.burst);
        self.overhead = config.overhead;
        self.delay = config.delay;
        self.loss.set_model(config.loss);
        self.impairments = Impairments::reconfigure(self.impairments.take(), config, seed, path(self.template, &self.key));
    }
}

/// The name of an instance's random streams: the same whenever and in whatever order instances are made.
fn path(template: u16, key: &FlowKey) -> u64 {
    stable_hash(key) ^ u64::from(template).rotate_left(48)
}

// How packets go through.
impl Emulator {
    /// Handles every event until `now`, in order.
    pub(super) fn run(&mut self, now: Nanos) {
        while let Some((time, link)) = self.events.first() {
            if time > now {
                break;
            }
            // Stay on this link while no other has an event before its next: most of the time one step of the heap for several
            // events. At equal times the heap decides, so that the order of links holds.
            let others = self.events.second_time();
            let mut at = time;
            loop {
                self.step(at, link);
                let next = self.links.at_mut(link).next_event();
                if next > now || next >= others {
                    self.events.set(link, next);
                    break;
                }
                at = next;
            }
        }
        self.expire(now);
    }

    /// Handles the events of one link at one time.
    fn step(&mut self, at: Nanos, link: u32) {
        let state = self.links.at_mut(link);
        if state.schedule_due <= at
            && let Some(template) = self.templates[usize::from(state.template)].as_ref()
        {
            state.run_schedule(at, &template.link);
        }
        let wire_due = state.wire.is_none_or(|w| w.done <= at);
        if wire_due {
            self.finish_wire(at, link);
            self.serve(at, link);
        }
        self.release_due(at, link);
    }

    /// Lets out of the delay line what is due.
    pub(super) fn release_due(&mut self, at: Nanos, link: u32) {
        while self.links.at_mut(link).line.next_due() <= at {
            self.release(link);
        }
    }

    /// Handles a link's schedule and wire until `now`, so that its queue is what it is at `now`.
    pub(super) fn run_wire(&mut self, now: Nanos, link: u32) {
        loop {
            let state = self.links.at_mut(link);
            let wire = state.wire.map_or(Nanos::MAX, |w| w.done);
            let at = wire.min(state.schedule_due);
            if at > now {
                return;
            }
            if state.schedule_due <= at
                && let Some(template) = self.templates[usize::from(state.template)].as_ref()
            {
                state.run_schedule(at, &template.link);
            }
            if state.wire.is_some_and(|w| w.done <= at) {
                self.finish_wire(at, link);
                self.serve(at, link);
            }
        }
    }

    /// Hands packets to a free wire. What needs no time on it goes straight into the delay line.
    pub(super) fn serve(&mut self, now: Nanos, link: u32) {
        while let Some(wire) = self.start_next(now, link) {
            if wire.done > now {
                self.links.at_mut(link).wire = Some(wire);
                return;
            }
            self.cross(now, link, wire);
        }
    }

    /// Starts the scheduler's next packet when the wire is free.
    fn start_next(&mut self, now: Nanos, link: u32) -> Option<OnWire> {
        let Self { links, flows, templates, pool, .. } = self;
        let state = links.at_mut(link);
        if state.wire.is_some() {
            return None;
        }
        let id = state.scheduler.dequeue(now, pool)?;
        let template = templates[usize::from(state.template)].as_mut()?;
        let packet = pool.get_mut(id);
        packet.dequeued = now;
        template.dequeued(packet.len);
        template.stats.queue_ns.record(now.since(packet.arrived).0);
        if let Some(flow) = flows.get_mut(packet.flow) {
            flow.dequeued(packet);
        }
        let (extra, lost) = match &template.link.profile {
            Some(profile) => profile.draw(state.profile_stream.bits32()),
            None => (Nanos::ZERO, false),
        };
        let bytes = state.overhead.wire_bytes(packet.len, packet.segments);
        let done = state.serializer.start(now, bytes, extra);
        Some(OnWire { packet: id, done, lost })
    }

    fn finish_wire(&mut self, at: Nanos, link: u32) {
        if let Some(wire) = self.links.at_mut(link).wire.take() {
            self.cross(at, link, wire);
        }
    }

    /// A packet has left the wire: loss, duplication, corruption, and into the delay line.
    fn cross(&mut self, at: Nanos, link: u32, wire: OnWire) {
        let Self { links, templates, pool, normal, .. } = self;
        let state = links.at_mut(link);
        let Some(template) = templates[usize::from(state.template)].as_mut() else { return };
        let lost = if wire.lost { Some(DropReason::Profile) } else { state.loss.next_is_lost().then_some(DropReason::LossOnLink) };
        if let Some(reason) = lost {
            return self.drop_inside(at, link, wire.packet, reason);
        }
        let counters = &mut template.stats.counters;
        let Some(impairments) = state.impairments.as_mut() else {
            let due = at.saturating_add(state.delay).max(state.last_due);
            state.last_due = due;
            state.line.push(UnderWay { due, packet: wire.packet, corrupt: INTACT, duplicate: false });
            return;
        };
        let copy = impairments.next_is_duplicated().then(|| pool.insert(*pool.get(wire.packet)).ok()).flatten();
        if copy.is_some() {
            counters.duplicated += 1;
            counters.backlog_packets += 1;
        }
        let crossing = impairments.next_crossing(state.delay, normal);
        counters.reordered += u64::from(crossing.reordered);
        let mut due = at.saturating_add(crossing.delay);
        if !crossing.may_overtake {
            due = due.max(state.last_due);
            state.last_due = due;
        }
        for (packet, duplicate) in [(Some(wire.packet), false), (copy, true)] {
            let Some(packet) = packet else { continue };
            let corrupt = impairments.next_corruption().unwrap_or(INTACT);
            state.line.push(UnderWay { due, packet, corrupt, duplicate });
        }
    }

    /// The next packet of the delay line leaves.
    fn release(&mut self, link: u32) {
        let Self { links, templates, pool, ready, .. } = self;
        let state = links.at_mut(link);
        let Some(UnderWay { due, packet, corrupt, duplicate }) = state.line.pop() else { return };
        state.last_used = state.last_used.max(due);
        let packet = pool.remove(packet);
        let Some(template) = templates[usize::from(state.template)].as_mut() else { return };
        let counters = &mut template.stats.counters;
        counters.backlog_packets -= 1;
        counters.packets_out += 1;
        counters.bytes_out += u64::from(packet.len);
        let corrupt = (corrupt != INTACT).then_some(corrupt);
        counters.corrupted += u64::from(corrupt.is_some());
        template.stats.total_ns.record(due.since(packet.arrived).0);
        let fate = Fate::Deliver { mark: false, corrupt, duplicate };
        let Packet { frame, arrived, dequeued, .. } = packet;
        ready.push(Departure { frame, link: state.template, fate, arrived, dequeued, due });
    }

    fn drop_inside(&mut self, at: Nanos, link: u32, packet: PacketId, reason: DropReason) {
        let template_id = self.links.at_mut(link).template;
        let Packet { frame, arrived, dequeued, .. } = self.pool.remove(packet);
        if let Some(template) = self.templates[usize::from(template_id)].as_mut() {
            template.stats.counters.backlog_packets -= 1;
            template.stats.counters.count_drop(reason);
        }
        self.ready.push(Departure { frame, link: template_id, fate: Fate::Drop(reason), arrived, dequeued, due: at });
    }

    /// Puts the link's next event in its place.
    pub(super) fn reschedule(&mut self, link: u32) {
        let next = self.links.at_mut(link).next_event();
        self.events.set(link, next);
    }
}

// Which instance a packet goes to, and the life of instances.
impl Emulator {
    /// The link and the flow for a packet; made when they are not there. `None` when nothing is configured by that number.
    pub(super) fn locate(&mut self, now: Nanos, key: &FlowKey, action: Action, len: u32) -> Result<Option<(u32, u32)>, Rejected> {
        let (template_id, queue) = match action {
            Action::Pipe(id) => (id, None),
            Action::Queue(id) => match super::slot(&mut self.queues, id) {
                Some(queue) => (queue.scheduler, Some(id)),
                None => return Ok(None),
            },
        };
        let Some(template) = super::slot(&mut self.templates, template_id) else { return Ok(None) };
        let found = if let Some(single) = template.single {
            Some(single)
        } else if template.instances.is_empty() {
            None
        } else {
            template.instances.get(&template.mask.apply(key)).copied()
        };
        let link = match found {
            Some(link) => link,
            None => self.make_link(now, template_id, key, len)?,
        };
        let flow = match queue {
            None => self.links.at_mut(link).flow,
            Some(id) => super::slot(&mut self.queues, id).and_then(|q| {
                let masked = q.config.mask.apply(key);
                q.flows.get(&(link, masked)).copied()
            }),
        };
        match flow {
            Some(flow) => Ok(Some((link, flow))),
            None => self.make_flow(link, template_id, queue, key, len).map(|flow| flow.map(|flow| (link, flow))),
        }
    }

    fn make_link(&mut self, now: Nanos, template_id: u16, key: &FlowKey, len: u32) -> Result<u32, Rejected> {
        let full = self.links.len() >= self.limits.instances as usize;
        let Some(template) = super::slot(&mut self.templates, template_id) else {
            return Err(Rejected { reason: DropReason::NoSuchPipe });
        };
        if full && !template.mask.is_empty() {
            return Err(refuse(template, DropReason::TooManyFlows, len));
        }
        let masked = template.mask.apply(key);
        let link = self.links.insert(Link::new(self.seed, now, template, masked));
        if template.mask.is_empty() {
            template.single = Some(link);
        } else {
            template.instances.insert(masked, link);
            self.idle_check.push_back((now.saturating_add(self.limits.idle), link));
        }
        Ok(link)
    }

    fn make_flow(&mut self, link: u32, template_id: u16, queue: Option<u16>, key: &FlowKey, len: u32) -> Result<Option<u32>, Rejected> {
        let full = self.flows.len() >= self.limits.instances as usize * 2;
        let Some(template) = super::slot(&mut self.templates, template_id) else { return Ok(None) };
        let state = self.links.at_mut(link);
        let Some(id) = queue else {
            let path = path(template_id, &state.key);
            let flow = self.flows.insert(Flow::new(self.seed, link, None, &template.flowset, state.key, path));
            state.flow = Some(flow);
            state.flows += 1;
            return Ok(Some(flow));
        };
        let Some(flowset) = super::slot(&mut self.queues, id) else { return Ok(None) };
        if full && !flowset.config.mask.is_empty() {
            return Err(refuse(template, DropReason::TooManyFlows, len));
        }
        let masked = flowset.config.mask.apply(key);
        let path = path(template_id, &state.key) ^ path(id, &masked).rotate_left(17);
        let flow = self.flows.insert(Flow::new(self.seed, link, queue, flowset, masked, path));
        flowset.flows.insert((link, masked), flow);
        state.flows += 1;
        Ok(Some(flow))
    }

    /// Frees links made on demand that have been idle.
    fn expire(&mut self, now: Nanos) {
        while let Some(&(time, link)) = self.idle_check.front() {
            if time > now {
                return;
            }
            self.idle_check.pop_front();
            let Some(state) = self.links.get(link) else { continue };
            let idle_at = state.last_used.saturating_add(self.limits.idle);
            if state.is_empty() && (idle_at <= now || state.orphan) {
                self.free_link(link);
            } else {
                // Also a link whose number was used again comes by here: it is only looked at once more.
                self.idle_check.push_back((idle_at.max(now + Nanos(1)), link));
            }
        }
    }

    /// Frees a link and its flows; it must be empty.
    pub(super) fn free_link(&mut self, link: u32) {
        self.events.set(link, Nanos::MAX);
        let Some(state) = self.links.remove(link) else { return };
        if state.flows > 0 {
            self.free_flows(link, &state);
        }
        if let Some(template) = super::slot(&mut self.templates, state.template)
            && !state.orphan
        {
            template.instances.remove(&state.key);
            if template.single == Some(link) {
                template.single = None;
            }
        }
    }

    fn free_flows(&mut self, link: u32, state: &Link) {
        if let Some(flow) = state.flow {
            self.flows.remove(flow);
            if state.flows == 1 {
                return;
            }
        }
        for id in 0..self.flows.bound() {
            let Some(flow) = self.flows.get(id).filter(|f| f.link == link) else { continue };
            if let Some(flowset) = flow.queue.and_then(|q| super::slot(&mut self.queues, q)) {
                flowset.flows.remove(&(link, flow.key));
            }
            self.flows.remove(id);
        }
    }

    /// Drops everything inside a link.
    pub(super) fn drain(&mut self, now: Nanos, link: u32) {
        loop {
            let state = self.links.at_mut(link);
            let on_the_way = state.wire.take().map(|w| w.packet).or_else(|| state.line.pop().map(|e| e.packet));
            if let Some(packet) = on_the_way {
                self.drop_inside(now, link, packet, DropReason::NoSuchPipe);
                continue;
            }
            let Some(packet) = state.scheduler.dequeue(Nanos::MAX, &mut self.pool) else { return };
            let len = self.pool.get(packet).len;
            if let Some(template) = self.templates[usize::from(state.template)].as_mut() {
                template.dequeued(len);
            }
            self.drop_inside(now, link, packet, DropReason::NoSuchPipe);
        }
    }

    /// Changes a scheduler that exists.
    pub(super) fn change_scheduler(&mut self, now: Nanos, id: u16, config: &SchedulerConfig, link: &LinkConfig) {
        let Some(template) = super::slot(&mut self.templates, id) else { return };
        let regroup = template.mask != config.mask || template.kind != config.kind;
        (template.kind, template.mask) = (config.kind, config.mask);
        let old = core::mem::replace(&mut template.link, link.clone());
        template.flowset.resolve_limit(link);
        if regroup {
            template.instances.clear();
            template.single = None;
        }
        for number in 0..self.links.bound() {
            let Some(state) = self.links.get_mut(number).filter(|l| l.template == id) else { continue };
            state.configure(now, self.seed, link, &old);
            if regroup {
                state.orphan = true;
                self.idle_check.push_front((now, number));
            }
            self.reschedule(number);
        }
    }

    /// Passes a changed flowset on to the flows that exist: of queue `queue`, or of pipe `template` itself.
    pub(super) fn refresh_flows(&mut self, template: u16, queue: Option<u16>) {
        for id in 0..self.flows.bound() {
            let Some(flow) = self.flows.get_mut(id).filter(|f| f.queue == queue) else { continue };
            let flowset = match queue {
                Some(q) => self.queues.get(usize::from(q)).and_then(Option::as_ref),
                None if self.links.get(flow.link).is_some_and(|l| l.template == template) => {
                    self.templates.get(usize::from(template)).and_then(Option::as_ref).map(|t| &t.flowset)
                }
                None => None,
            };
            if let Some(flowset) = flowset {
                flow.configure(flowset);
            }
        }
    }

    /// Sizes a queue that was not given a limit from the link it feeds.
    pub(super) fn resolve_queue_limit(&mut self, id: u16) {
        let Some(queue) = self.queues.get_mut(usize::from(id)).and_then(Option::as_mut) else { return };
        if let Some(template) = self.templates.get(usize::from(queue.scheduler)).and_then(Option::as_ref) {
            queue.resolve_limit(&template.link);
        }
    }
}

/// Counts a packet that never came to a queue.
fn refuse(template: &mut Template, reason: DropReason, len: u32) -> Rejected {
    let counters = &mut template.stats.counters;
    counters.packets_in += 1;
    counters.bytes_in += u64::from(len);
    counters.count_drop(reason);
    Rejected { reason }
}
