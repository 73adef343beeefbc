//! A scheduler instance with its link: state, next event, and configuration.
//!
//! On a *plain* link (without loss, impairments, profile, schedule or device) the departure of a
//! packet is known when its transmission starts. The packet then enters the delay line at once, and
//! the wire needs an event only while other packets wait.

use alloc::boxed::Box;

use super::context::Context;
use super::flow::{NO_FLOW, path};
use super::tables::Template;
use super::totals::Freed;
use crate::config::{Capacity, LinkConfig};
use crate::device::{self, Device};
use crate::key::{FlowKey, FlowMask};
use crate::link::{DelayLine, Impairments, LossProcess, Serializer, Step};
use crate::lookup::{CompactKey, LookupKey};
use crate::packet::{PacketId, Pool};
use crate::rng::{Purpose, Stream};
use crate::sched::{AnyScheduler, Scheduler};
use crate::units::Nanos;

/// A scheduler instance with its link. The fields that every packet uses fill the first three cache
/// lines: the link's own state, the delay line with the scheduler, and the serialiser's clock.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Link {
    /// The short form of [`Self::key`].
    compact: CompactKey,
    /// The packet on the wire. On a plain link without waiting packets, its transmission may
    /// already have ended.
    pub(super) wire: Option<OnWire>,
    /// The latest time at which the link accepted or delivered a packet.
    pub(super) last_used: Nanos,
    /// The value of [`Self::next_event`] in the event queue.
    pub(super) announced: Nanos,
    /// The latest due time in the delay line among packets that keep their order.
    pub(super) last_due: Nanos,
    pub(super) template: u16,
    /// Whether the template has another mask or parent now. New packets do not find such a link,
    /// and it is freed when it is empty.
    pub(super) orphan: bool,
    pub(super) effects: Effects,
    /// The flow of packets that are sent to the pipe or scheduler directly, or [`NO_FLOW`].
    pub(super) flow: u32,
    pub(super) line: DelayLine,
    pub(super) scheduler: AnyScheduler,
    pub(super) serializer: Serializer,
    /// The masked key of the link's packets.
    pub(super) key: FlowKey,
    /// The current delay. A plain link uses the delay of its template, which is already in the
    /// cache.
    pub(super) delay: Nanos,
    /// The delay of the packet on the wire, if [`OnWire::keeps_delay`].
    wire_delay: Nanos,
    /// The time of the next step of the schedule.
    next_step_due: Nanos,
    /// The newest flow, which is the head of the list of all flows, or [`NO_FLOW`].
    pub(super) flows: u32,
    pub(super) loss: Option<Box<LossProcess>>,
    pub(super) impairments: Option<Box<Impairments>>,
    pub(super) device: Option<Box<Device>>,
    pub(super) profile_stream: Stream,
    schedule_origin: Nanos,
    /// The number of the schedule's next step.
    schedule_step: u64,
    /// Distinguishes the link from later links with the same number.
    pub(super) serial: u64,
    pub(super) freed: Freed,
}

const _: () = assert!(
    core::mem::offset_of!(Link, line) == 64 && core::mem::offset_of!(Link, serializer) == 128
);

/// How a link treats a packet after it leaves the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effects {
    /// The link has none of the following, so a packet may enter the delay line at once.
    Plain,
    /// Loss, impairments or a profile apply, or a schedule has ended.
    Fixed,
    /// A schedule has further steps; the effects of `Fixed` may apply.
    Scheduled,
    /// Packets pass a device; the effects of `Fixed` and `Scheduled` may apply.
    Device,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct OnWire {
    pub(super) packet: PacketId,
    pub(super) done: Nanos,
    /// Whether the profile drops the packet at the end of its air-time.
    pub(super) lost: bool,
    pub(super) in_delay_line: bool,
    /// Whether the link changed during the transmission. A packet in the delay line then has the
    /// delay of [`Link::wire_delay`], with which it started.
    pub(super) keeps_delay: bool,
}

impl OnWire {
    /// The packet on a plain link, which is already in the delay line.
    #[inline]
    pub(super) fn in_delay_line(packet: PacketId, done: Nanos) -> Self {
        Self { packet, done, lost: false, in_delay_line: true, keeps_delay: false }
    }
}

impl Link {
    pub(super) fn new(
        seed: u64,
        lookup: &LookupKey,
        now: Nanos,
        template: &Template,
        key: FlowKey,
        serial: u64,
    ) -> Self {
        let config = &template.link;
        let path = path(template.id, &key);
        let stream = |purpose| Stream::new(seed, path, purpose);
        let mut link = Self {
            compact: lookup.compact(&key),
            wire: None,
            last_used: now,
            announced: Nanos::MAX,
            last_due: Nanos::ZERO,
            template: template.id,
            orphan: false,
            effects: Effects::Fixed,
            flow: NO_FLOW,
            line: DelayLine::default(),
            scheduler: AnyScheduler::new(&template.discipline.seeded(seed ^ path)),
            serializer: Serializer::new(now, config.capacity.clone(), config.burst),
            key,
            delay: config.delay,
            wire_delay: Nanos::ZERO,
            next_step_due: Nanos::MAX,
            flows: NO_FLOW,
            loss: LossProcess::configure(None, config.loss, || stream(Purpose::Loss)),
            impairments: Impairments::new(config, seed, path),
            device: device::make(now, config.device.as_ref()),
            profile_stream: stream(Purpose::Profile),
            schedule_origin: now,
            schedule_step: 0,
            serial,
            freed: Freed::default(),
        };
        link.next_step(config);
        link.set_effects(config);
        link
    }

    /// The time of the link's next event; [`Nanos::MAX`] if there is none.
    #[inline(always)] // Measured: see the emulator's module.
    pub(super) fn next_event(&self) -> Nanos {
        if self.effects >= Effects::Scheduled {
            return self.next_event_general();
        }
        self.wire_event().min(self.line.next_due())
    }

    /// The time of the next event at the wire; [`Nanos::MAX`] if there is none.
    #[inline(always)] // Measured: see the emulator's module.
    pub(super) fn wire_event(&self) -> Nanos {
        match &self.wire {
            // The end of the transmission matters only if a packet waits.
            Some(wire) if wire.in_delay_line && self.scheduler.is_empty() => Nanos::MAX,
            Some(wire) => wire.done,
            None => self.scheduler.next_event().unwrap_or(Nanos::MAX),
        }
    }

    /// [`Self::next_event`] of a link with a schedule or a device.
    #[inline(never)]
    fn next_event_general(&self) -> Nanos {
        let wire =
            if self.effects == Effects::Device { self.device_event() } else { self.wire_event() };
        // The steps of a schedule do not wake an idle link; they are applied when the next packet
        // arrives.
        let schedule = if self.is_empty() { Nanos::MAX } else { self.next_step_due };
        wire.min(self.line.next_due()).min(schedule)
    }

    /// The time of the next step of the schedule.
    #[inline]
    pub(super) fn schedule_due(&self) -> Nanos {
        if self.effects >= Effects::Scheduled { self.next_step_due } else { Nanos::MAX }
    }

    /// Whether the link's key is `key` reduced to the bits of `mask`. `compact` is the short form
    /// of this masked key.
    #[inline]
    pub(super) fn is_for(&self, compact: CompactKey, mask: &FlowMask, key: &FlowKey) -> bool {
        self.compact == compact && (!compact.is_wide() || self.has_key(mask, key))
    }

    #[inline(never)]
    fn has_key(&self, mask: &FlowMask, key: &FlowKey) -> bool {
        self.key == mask.apply(key)
    }

    /// The hash of the link's entry in the template's table.
    #[inline]
    pub(super) fn table_hash(&self, lookup: &LookupKey) -> u64 {
        lookup.table(self.compact)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        let waits = !self.scheduler.is_empty()
            || self.device.as_ref().is_some_and(|device| !device.is_empty());
        self.wire.is_none_or(|w| w.in_delay_line) && self.line.is_empty() && !waits
    }

    /// Sets [`Self::effects`] according to the configuration and the steps that the schedule still
    /// has.
    pub(super) fn set_effects(&mut self, config: &LinkConfig) {
        if self.device.is_some() {
            self.effects = Effects::Device;
            return;
        }
        let plain = self.loss.is_none()
            && self.impairments.is_none()
            && config.profile.is_none()
            && config.schedule.is_none();
        self.effects = match (plain, self.next_step_due) {
            (true, _) => Effects::Plain,
            (false, Nanos::MAX) => Effects::Fixed,
            (false, _) => Effects::Scheduled,
        };
    }

    /// Changes the capacity at `now`, and thereby the end of the current transmission.
    fn set_capacity(&mut self, now: Nanos, capacity: &Capacity, pool: &mut Pool) {
        // A transmission that has ended by now no longer occupies the wire, even if its event has
        // not been handled.
        if self.wire.is_some_and(|w| w.in_delay_line && w.done <= now) {
            self.wire = None;
        }
        let done = self.serializer.set_capacity(now, capacity, self.wire.is_some());
        if let (Some(wire), Some(done)) = (&mut self.wire, done) {
            // The packet on the wire is already in the delay line only if it started on a plain
            // link. Such a link changes its capacity only after `configure` has set `wire_delay`.
            if wire.in_delay_line && wire.done != done {
                let due = done.saturating_add(self.wire_delay);
                self.last_due = self.line.retime(pool, wire.packet, due);
            }
            wire.done = done;
        }
    }

    /// Applies the steps of the schedule that are due. When the budget of steps is used up, the
    /// link skips to the values in force at the time of the driver's call; they apply from the
    /// first skipped step on.
    #[cold]
    #[inline(never)]
    pub(super) fn run_schedule(&mut self, now: Nanos, context: &mut Context<'_>) {
        let Context { seed, pool, steps, .. } = context;
        let config = &context.template.link;
        let Some(schedule) = &config.schedule else { return };
        let waits = !self.scheduler.is_empty()
            || self.device.as_ref().is_some_and(|device| !device.is_empty());
        if self.wire.is_none() && !waits {
            // Nothing uses the wire before the driver's call, so the periods until then are
            // skipped.
            let elapsed = steps.now().max(now).since(self.schedule_origin);
            self.schedule_step = self.schedule_step.max(schedule.step_to_resume_at(elapsed));
            self.next_step(config);
        }
        while self.schedule_due() <= now {
            let (due, next) = (self.next_step_due, self.schedule_step);
            let last = if steps.take() {
                next
            } else {
                let elapsed = steps.now().max(due).since(self.schedule_origin);
                schedule.last_step_until(elapsed).map_or(next, |last| last.max(next))
            };
            if last == next {
                let Some((_, step)) = schedule.step(next) else { return };
                self.apply_step(due, step, *seed, pool);
            } else {
                // The skipped values do not matter on an idle wire.
                if self.wire.is_some() {
                    steps.count_skipped(last - next);
                }
                self.apply_step(due, &schedule.in_force_after(last), *seed, pool);
            }
            self.schedule_step = last + 1;
            self.next_step(config);
        }
        self.set_effects(config);
    }

    /// Applies a step of the schedule that was due at `due`.
    fn apply_step(&mut self, due: Nanos, step: &Step, seed: u64, pool: &mut Pool) {
        if let Some(capacity) = &step.capacity {
            self.set_capacity(due, capacity, pool);
        }
        self.delay = step.delay.unwrap_or(self.delay);
        if let Some(model) = step.loss {
            let path = path(self.template, &self.key);
            self.loss = LossProcess::configure(self.loss.take(), model, || {
                Stream::new(seed, path, Purpose::Loss)
            });
        }
    }

    /// Sets the due time of step [`Self::schedule_step`].
    fn next_step(&mut self, config: &LinkConfig) {
        let step = config.schedule.as_ref().and_then(|s| s.step(self.schedule_step));
        self.next_step_due =
            step.map_or(Nanos::MAX, |(at, _)| self.schedule_origin.saturating_add(at));
    }

    /// Applies another configuration at `now`. No packet is lost or reordered. If the schedule
    /// stays the same, it continues, and its values stay in force, except values that the new
    /// configuration changes.
    pub(super) fn configure(
        &mut self,
        now: Nanos,
        seed: u64,
        pool: &mut Pool,
        config: &LinkConfig,
        old: &LinkConfig,
    ) {
        let path = path(self.template, &self.key);
        // A packet that is already in the delay line started on a plain link, which uses the delay
        // of its template.
        if let Some(wire) =
            self.wire.as_mut().filter(|wire| wire.in_delay_line && !wire.keeps_delay)
        {
            wire.keeps_delay = true;
            self.wire_delay = old.delay;
        }
        let restarts = config.schedule != old.schedule;
        if restarts {
            (self.schedule_origin, self.schedule_step) = (now, 0);
            self.next_step(config);
        }
        // A setting that does not change keeps the value that the schedule has given it.
        let capacity = if restarts || config.capacity != old.capacity {
            config.capacity.clone()
        } else {
            self.serializer.capacity().clone()
        };
        self.set_capacity(now, &capacity, pool);
        self.serializer.set_burst(config.burst);
        if restarts || config.delay != old.delay {
            self.delay = config.delay;
        }
        if restarts || config.loss != old.loss {
            self.loss = LossProcess::configure(self.loss.take(), config.loss, || {
                Stream::new(seed, path, Purpose::Loss)
            });
        }
        self.impairments = Impairments::reconfigure(self.impairments.take(), config, seed, path);
        self.configure_device(now, pool, config);
        self.set_effects(config);
    }
}
