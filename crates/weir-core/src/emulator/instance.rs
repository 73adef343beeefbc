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
    limit: QueueLimit,
    bytes: u64,
    packets: u32,
    link: u32,
    loss: Option<Box<LossProcess>>,
    pub(super) drops: u64,
    /// The queue (flowset) it was made from and the masked key it was made for; `None` for a pipe's own.
    queue: Option<Box<(u16, FlowKey)>>,
}

const _: () = assert!(size_of::<Flow>() <= 64, "a flow fills one cache line");

impl Flow {
    fn new(seed: u64, link: u32, queue: Option<(u16, FlowKey)>, flowset: &Flowset, path: u64) -> Self {
        let loss = LossProcess::configure(None, flowset.config.loss, || Stream::new(seed, path, Purpose::LossBeforeQueue));
        Self { limit: flowset.limit, bytes: 0, packets: 0, link, loss, drops: 0, queue: queue.map(Box::new) }
    }

    /// Whether the packet may enter: loss before the queue, then the queue's limit. An empty queue takes any packet.
    pub(super) fn admit(&mut self, packet: &Packet) -> Result<(), DropReason> {
        if self.loss.as_mut().is_some_and(|l| l.next_is_lost()) {
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

    fn configure(&mut self, seed: u64, path: u64, flowset: &Flowset) {
        self.limit = flowset.limit;
        let stream = || Stream::new(seed, path, Purpose::LossBeforeQueue);
        self.loss = LossProcess::configure(self.loss.take(), flowset.config.loss, stream);
    }

    fn is_of(&self, link: u32, masked: &FlowKey) -> bool {
        self.link == link && self.queue.as_ref().is_some_and(|q| q.1 == *masked)
    }
}

/// A scheduler instance with its link. The fields that every packet touches come first.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Link {
    /// Masked key that it was made for.
    key: FlowKey,
    wire: Option<OnWire>,
    /// When the next step of the schedule is due.
    schedule_due: Nanos,
    pub(super) last_used: Nanos,
    scheduler: AnyScheduler,
    serializer: Serializer,
    line: DelayLine,
    delay: Nanos,
    /// Latest due time in the delay line of a packet that keeps its place.
    last_due: Nanos,
    overhead: Overhead,
    pub(super) template: u16,
    /// No longer found by new packets: its mask is gone. Freed when empty.
    orphan: bool,
    /// Nothing can happen to a packet after it has started: it may go into the delay line at once.
    plain: bool,
    /// A pipe's only flow, or [`NO_FLOW`].
    flow: u32,
    flows: u32,
    loss: Option<Box<LossProcess>>,
    impairments: Option<Box<Impairments>>,
    profile_stream: Stream,
    /// When the schedule began, and its next step.
    schedule_origin: Nanos,
    schedule_step: u64,
}

/// The packet that is being serialised.
#[derive(Clone, Copy, Debug)]
struct OnWire {
    packet: PacketId,
    done: Nanos,
    /// The profile loses it at the end of its air-time.
    lost: bool,
    /// It is in the delay line already.
    in_line: bool,
}

/// No flow.
const NO_FLOW: u32 = u32::MAX;

impl Link {
    fn new(seed: u64, now: Nanos, template: &Template, key: FlowKey) -> Self {
        let config = &template.link;
        let path = path(template.id, &key);
        let stream = |purpose| Stream::new(seed, path, purpose);
        let mut link = Self {
            key,
            wire: None,
            schedule_due: Nanos::MAX,
            last_used: now,
            scheduler: template.kind.build(),
            serializer: Serializer::new(now, config.capacity.clone(), config.burst),
            line: DelayLine::default(),
            delay: config.delay,
            last_due: Nanos::ZERO,
            overhead: config.overhead,
            template: template.id,
            orphan: false,
            plain: false,
            flow: NO_FLOW,
            flows: 0,
            loss: LossProcess::configure(None, config.loss, || stream(Purpose::Loss)),
            impairments: Impairments::new(config, seed, path),
            profile_stream: stream(Purpose::Profile),
            schedule_origin: now,
            schedule_step: 0,
        };
        link.next_step(config);
        link.plain = link.is_plain(config);
        link
    }

    pub(super) fn enqueue(&mut self, now: Nanos, pool: &mut Pool, packet: PacketId) {
        self.scheduler.enqueue(now, pool, packet);
    }

    /// When something happens on this link by itself; [`Nanos::MAX`] for never.
    fn next_event(&self) -> Nanos {
        let wire = match &self.wire {
            // Only a packet that waits needs to know when the wire is free.
            Some(wire) if wire.in_line && self.scheduler.is_empty() => Nanos::MAX,
            Some(wire) => wire.done,
            None => self.scheduler.next_event().unwrap_or(Nanos::MAX),
        };
        // Steps of a schedule do not wake an idle link: they are caught up with when the next packet comes.
        let schedule = if self.schedule_due == Nanos::MAX || self.is_empty() { Nanos::MAX } else { self.schedule_due };
        wire.min(self.line.next_due()).min(schedule)
    }

    fn is_empty(&self) -> bool {
        self.wire.is_none_or(|w| w.in_line) && self.line.is_empty() && self.scheduler.is_empty()
    }

    fn is_plain(&self, config: &LinkConfig) -> bool {
        self.loss.is_none() && self.impairments.is_none() && config.profile.is_none() && config.schedule.is_none()
    }

    fn set_capacity(&mut self, now: Nanos, capacity: &crate::config::Capacity) {
        // A wire that was free before now is not busy, even when nobody has looked since.
        if self.wire.is_some_and(|w| w.in_line && w.done <= now) {
            self.wire = None;
        }
        let done = self.serializer.set_capacity(now, capacity, self.wire.is_some());
        if let (Some(wire), Some(done)) = (&mut self.wire, done) {
            if wire.in_line {
                let due = Nanos(self.last_due.0 - wire.done.0 + done.0);
                self.last_due = self.line.retime_last(due).unwrap_or(due);
            }
            wire.done = done;
        }
    }

    /// Applies the steps of the schedule that are due.
    fn run_schedule(&mut self, now: Nanos, seed: u64, config: &LinkConfig) {
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
            if let Some(model) = step.loss {
                let path = path(self.template, &self.key);
                self.loss = LossProcess::configure(self.loss.take(), model, || Stream::new(seed, path, Purpose::Loss));
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
        let path = path(self.template, &self.key);
        if config.schedule != old.schedule {
            (self.schedule_origin, self.schedule_step) = (now, 0);
            self.next_step(config);
        }
        self.set_capacity(now, &config.capacity);
        self.serializer.set_burst(config.burst);
        self.overhead = config.overhead;
        self.delay = config.delay;
        self.loss = LossProcess::configure(self.loss.take(), config.loss, || Stream::new(seed, path, Purpose::Loss));
        self.impairments = Impairments::reconfigure(self.impairments.take(), config, seed, path);
        self.plain = self.is_plain(config);
    }
}

/// The name of an instance's random streams: the same whenever and in whatever order instances are made.
fn path(template: u16, key: &FlowKey) -> u64 {
    stable_hash(key) ^ u64::from(template).rotate_left(48)
}

/// The same for a flow of a queue in it.
fn flow_path(template: u16, link: &FlowKey, queue: u16, masked: &FlowKey) -> u64 {
    path(template, link) ^ path(queue, masked).rotate_left(17)
}

fn flow_hash(link: u32, masked: &FlowKey) -> u64 {
    stable_hash(masked) ^ u64::from(link).wrapping_mul(0x9e37_79b9_7f4a_7c15)
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
            state.run_schedule(at, self.seed, &template.link);
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
                state.run_schedule(at, self.seed, &template.link);
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
            if wire.done > now || wire.in_line {
                if wire.done > now {
                    self.links.at_mut(link).wire = Some(wire);
                    return;
                }
                continue;
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
        if state.plain {
            let due = done.saturating_add(state.delay).max(state.last_due);
            state.last_due = due;
            state.line.push(UnderWay { due, packet: id, corrupt: INTACT, duplicate: false });
        }
        Some(OnWire { packet: id, done, lost, in_line: state.plain })
    }

    fn finish_wire(&mut self, at: Nanos, link: u32) {
        if let Some(wire) = self.links.at_mut(link).wire.take().filter(|w| !w.in_line) {
            self.cross(at, link, wire);
        }
    }

    /// A packet has left the wire: loss, duplication, corruption, and into the delay line.
    fn cross(&mut self, at: Nanos, link: u32, wire: OnWire) {
        let Self { links, templates, pool, .. } = self;
        let state = links.at_mut(link);
        let Some(template) = templates[usize::from(state.template)].as_mut() else { return };
        let lost = if wire.lost {
            Some(DropReason::Profile)
        } else {
            state.loss.as_mut().is_some_and(|l| l.next_is_lost()).then_some(DropReason::LossOnLink)
        };
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
        let crossing = impairments.next_crossing(state.delay, template.normal.as_deref());
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
        let found = match template.single {
            Some(single) => Some(single),
            None if template.instances.is_empty() => None,
            None => {
                let masked = template.mask.apply(key);
                let links = &self.links;
                let is_it = |&link: &u32| links.get(link).is_some_and(|l| l.key == masked);
                template.instances.find(stable_hash(&masked), is_it).copied()
            }
        };
        let link = match found {
            Some(link) => link,
            None => self.make_link(now, template_id, key, len)?,
        };
        let flow = match queue {
            None => Some(self.links.at_mut(link).flow).filter(|&flow| flow != NO_FLOW),
            Some(id) => super::slot(&mut self.queues, id).and_then(|queue| {
                let masked = queue.config.mask.apply(key);
                let flows = &self.flows;
                let is_it = |&flow: &u32| flows.get(flow).is_some_and(|f| f.is_of(link, &masked));
                queue.flows.find(flow_hash(link, &masked), is_it).copied()
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
            let links = &self.links;
            let hash_of = |&link: &u32| links.get(link).map_or(0, |l| stable_hash(&l.key));
            template.instances.insert_unique(stable_hash(&masked), link, hash_of);
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
            let flow = self.flows.insert(Flow::new(self.seed, link, None, &template.flowset, path));
            state.flow = flow;
            state.flows += 1;
            return Ok(Some(flow));
        };
        let Some(flowset) = super::slot(&mut self.queues, id) else { return Ok(None) };
        if full && !flowset.config.mask.is_empty() {
            return Err(refuse(template, DropReason::TooManyFlows, len));
        }
        let masked = flowset.config.mask.apply(key);
        let path = flow_path(template_id, &state.key, id, &masked);
        let flow = self.flows.insert(Flow::new(self.seed, link, Some((id, masked)), flowset, path));
        let flows = &self.flows;
        let hash_of = |&flow: &u32| flows.get(flow).map_or(0, |f| f.queue.as_ref().map_or(0, |q| flow_hash(f.link, &q.1)));
        flowset.flows.insert_unique(flow_hash(link, &masked), flow, hash_of);
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
            if let Ok(entry) = template.instances.find_entry(stable_hash(&state.key), |&l| l == link) {
                entry.remove();
            }
            template.single = template.single.filter(|&single| single != link);
        }
    }

    fn free_flows(&mut self, link: u32, state: &Link) {
        if state.flow != NO_FLOW {
            self.flows.remove(state.flow);
            if state.flows == 1 {
                return;
            }
        }
        for id in 0..self.flows.bound() {
            if self.flows.get(id).is_none_or(|f| f.link != link) {
                continue;
            }
            let Some((queue, masked)) = self.flows.remove(id).and_then(|f| f.queue).map(|q| *q) else { continue };
            if let Some(flowset) = super::slot(&mut self.queues, queue)
                && let Ok(entry) = flowset.flows.find_entry(flow_hash(link, &masked), |&f| f == id)
            {
                entry.remove();
            }
        }
    }

    /// Drops everything inside a link.
    pub(super) fn drain(&mut self, now: Nanos, link: u32) {
        loop {
            let state = self.links.at_mut(link);
            let on_the_way = state.wire.take().filter(|w| !w.in_line).map(|w| w.packet).or_else(|| state.line.pop().map(|e| e.packet));
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
        if template.normal.is_none() && Impairments::is_correlated(link) {
            template.normal = Some(alloc::sync::Arc::default());
        }
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
            let Some(flow) = self.flows.get_mut(id) else { continue };
            let Some(state) = self.links.get(flow.link) else { continue };
            let (flowset, path) = match (&flow.queue, queue) {
                (Some(own), Some(changed)) if own.0 == changed => {
                    let flowset = self.queues.get(usize::from(changed)).and_then(Option::as_ref);
                    (flowset, flow_path(state.template, &state.key, changed, &own.1))
                }
                (None, None) if state.template == template => {
                    let template = self.templates.get(usize::from(template)).and_then(Option::as_ref);
                    (template.map(|t| &t.flowset), path(state.template, &state.key))
                }
                _ => continue,
            };
            if let Some(flowset) = flowset {
                flow.configure(self.seed, path, flowset);
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
