//! The measurements of one queue.

use super::envelope::{QueuePeriod, Recent};
use super::model::{Counters, Event, EventKind, Queue, QueueId, Run};
use crate::exact::Exact;
use crate::series::Periods;

/// One queue and its measurements. Times are `CLOCK_MONOTONIC`, in ns.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The queue's number. If several queues are counted as one, the number of the first.
    pub id: QueueId,
    /// The description of the queue.
    pub queue: Queue,
    /// Time at which the queue was first observed.
    pub since: u64,
    /// Time at which the queue vanished; `None` while it exists.
    pub until: Option<u64>,
    /// Number of consecutive queues at the same place that are counted as one: 1, unless a
    /// discipline is replaced continually.
    pub instances: u64,
    /// Number of readings of the queue.
    pub readings: u64,
    /// Enqueues and dequeues, if they were recorded.
    pub events: EventCounts,
    /// Lengths in packets and in bytes, weighted by readings.
    pub(super) read: [Exact; 2],
    /// Lengths in packets and in bytes, weighted by ns.
    pub(super) held: [Exact; 2],
    /// The absolute differences between consecutive readings, in packets.
    steps: Exact,
    last: Option<Level>,
    /// The first and the last reading of the counters since their last reset.
    counters: Option<(Counters, Counters)>,
    /// The increase of the counters before their last reset, and of the earlier queues at the same
    /// place.
    past: Counters,
    pub(super) periods: Periods<QueuePeriod>,
    recent: Recent,
}

/// The queue's length at the last observed moment. The statistics include the time before it.
#[derive(Clone, Copy, Debug)]
struct Level {
    time: u64,
    packets: u32,
    bytes: u32,
}

/// The counts of a record of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct EventCounts {
    /// Enqueued packets.
    pub enqueues: u64,
    /// Number of dequeues.
    pub dequeues: u64,
    /// Dequeued packets.
    pub dequeued_packets: u64,
    /// Dequeues that found no packet.
    pub empty_dequeues: u64,
    /// Events with a queue length that does not follow from the previous event, because a change
    /// was not recorded.
    pub gaps: u64,
}

impl EventCounts {
    /// The number of all recorded events.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        self.enqueues + self.dequeues
    }

    /// Adds the event counts of another queue.
    pub fn add(&mut self, other: &EventCounts) {
        self.enqueues += other.enqueues;
        self.dequeues += other.dequeues;
        self.dequeued_packets += other.dequeued_packets;
        self.empty_dequeues += other.empty_dequeues;
        self.gaps += other.gaps;
    }
}

impl Measured {
    pub(super) fn new(
        id: QueueId,
        queue: Queue,
        since: u64,
        periods: Periods<QueuePeriod>,
    ) -> Measured {
        Measured {
            id,
            queue,
            since,
            until: None,
            instances: 1,
            readings: 0,
            events: EventCounts::default(),
            read: Default::default(),
            held: Default::default(),
            steps: Exact::default(),
            last: None,
            counters: None,
            past: Counters::default(),
            periods,
            recent: Recent::default(),
        }
    }

    /// Whether events were recorded. Lengths are then weighted by their duration, otherwise by
    /// readings.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.events.recorded() > 0
    }

    /// The queue's length in packets, weighted by ns if [events](Measured::is_exact) were recorded,
    /// otherwise by readings.
    #[must_use]
    pub fn packets(&self) -> &Exact {
        if self.is_exact() { &self.held[0] } else { &self.read[0] }
    }

    /// The queue's length in bytes, weighted like [`Self::packets`].
    #[must_use]
    pub fn bytes(&self) -> &Exact {
        if self.is_exact() { &self.held[1] } else { &self.read[1] }
    }

    /// The absolute difference between consecutive readings, in packets. The Fast Queue Sampler
    /// publication calls it variance.
    #[must_use]
    pub fn steps(&self) -> &Exact {
        &self.steps
    }

    /// The queue's current or last known length: packets, bytes.
    #[must_use]
    pub fn current(&self) -> Option<(u32, u32)> {
        self.last.map(|level| (level.packets, level.bytes))
    }

    /// The queue's counters since its creation, at the last reading.
    #[must_use]
    pub fn counters(&self) -> Option<Counters> {
        self.counters.map(|(_, last)| last)
    }

    /// The increase of the counters during the watch.
    #[must_use]
    pub fn counted(&self) -> Counters {
        let now = self.counters.map_or_else(Counters::default, |(first, last)| last.since(&first));
        self.past.plus(&now)
    }

    /// The queue's length over the whole watch.
    #[must_use]
    pub fn periods(&self) -> &Periods<QueuePeriod> {
        &self.periods
    }

    /// The queue's length over the last seconds.
    #[must_use]
    pub fn recent(&self) -> &Recent {
        &self.recent
    }

    pub(super) fn run(&mut self, run: &Run) {
        let count = u64::from(run.count);
        self.readings += count;
        self.read[0].record(run.qlen.into(), count);
        self.read[1].record(run.backlog.into(), count);
        if self.is_exact() {
            // Events determine the length. Events before this reading may not have been delivered
            // yet.
            return;
        }
        // Each reading except the first has a predecessor. Within a run the difference is 0.
        match self.last {
            Some(last) => {
                self.steps.record(last.packets.abs_diff(run.qlen).into(), 1);
                self.steps.record(0, count - 1);
            }
            None if count > 1 => self.steps.record(0, count - 1),
            None => {}
        }
        self.last = Some(Level { time: run.last, packets: run.qlen, bytes: run.backlog });
        self.hold((run.first, run.last), count, (run.qlen, run.backlog));
        self.recent.include(run.last, run.qlen, run.backlog, count);
    }

    /// Counts an event, and the previous length until the event.
    pub(super) fn event(&mut self, event: &Event) {
        self.hold_until(event.time);
        match event.kind {
            EventKind::Enqueue => self.events.enqueues += 1,
            EventKind::Dequeue => self.events.dequeues += 1,
        }
        if event.kind == EventKind::Dequeue {
            self.events.dequeued_packets += u64::from(event.packets);
            self.events.empty_dequeues += u64::from(event.packets == 0);
        }
        self.events.gaps += u64::from(event.after_gap);
        self.last = Some(Level { time: event.time, packets: event.qlen, bytes: event.backlog });
        // A length that lasted for 0 ns still occurred.
        self.held[0].record(event.qlen.into(), 0);
        self.held[1].record(event.backlog.into(), 0);
        self.hold((event.time, event.time), 0, (event.qlen, event.backlog));
        self.recent.include(event.time, event.qlen, event.backlog, 0);
    }

    /// Counts the current length until `time`, if events report every change.
    pub(super) fn hold_until(&mut self, time: u64) {
        let Some(Level { time: from, packets, bytes }) = self.last.filter(|_| self.is_exact())
        else {
            return;
        };
        let Some(held) = time.checked_sub(from).filter(|&held| held > 0) else { return };
        self.held[0].record(packets.into(), held);
        self.held[1].record(bytes.into(), held);
        self.hold((from, time - 1), held, (packets, bytes));
        self.recent.include(time, packets, bytes, held);
        self.last = Some(Level { time, packets, bytes });
    }

    /// Adds a length in packets and bytes that was held over a time span, both ends included.
    fn hold(&mut self, span: (u64, u64), weight: u64, (packets, bytes): (u32, u32)) {
        self.periods.spread(span, weight, |period, weight| period.include(packets, bytes, weight));
    }

    /// Records a reading of the counters, and counts the drops since the previous reading.
    pub(super) fn count(&mut self, time: u64, now: &Counters) {
        let Some((first, last)) = self.counters else {
            self.counters = Some((*now, *now));
            return;
        };
        let drops = now.since(&last).drops;
        if now.falls_below(&last) {
            // The counters were reset or have wrapped, so the increase until then is saved.
            self.past = self.past.plus(&last.since(&first)).plus(&now.since(&last));
            self.counters = Some((*now, *now));
        } else {
            self.counters = Some((first, *now));
        }
        if drops > 0 {
            self.periods.at(time).drops += drops;
            self.recent.count_drops(time, drops);
        }
    }

    pub(super) fn vanish(&mut self, time: u64) {
        self.hold_until(time);
        self.until = Some(time);
    }

    /// Continues with a new queue at the same place.
    pub(super) fn succeed(&mut self, queue: &Queue) {
        self.past = self.counted();
        (self.counters, self.last, self.until) = (None, None, None);
        self.queue = queue.clone();
        self.instances += 1;
    }
}

impl Counters {
    /// The increase since an earlier reading. A counter below its earlier value has wrapped at 32
    /// bits, if the earlier value was in the last quarter of the 32-bit range; otherwise it was
    /// reset.
    #[must_use]
    pub fn since(&self, earlier: &Counters) -> Counters {
        let since = |now: u64, before: u64| match now.checked_sub(before) {
            Some(more) => more,
            None if before <= u64::from(u32::MAX) && before > u64::from(u32::MAX / 4 * 3) => {
                now + (1 << 32) - before
            }
            None => now,
        };
        Counters {
            packets: since(self.packets, earlier.packets),
            bytes: since(self.bytes, earlier.bytes),
            drops: since(self.drops, earlier.drops),
            requeues: since(self.requeues, earlier.requeues),
            overlimits: since(self.overlimits, earlier.overlimits),
        }
    }

    /// Whether a counter was reset or has wrapped since an earlier reading.
    fn falls_below(&self, earlier: &Counters) -> bool {
        self.packets < earlier.packets
            || self.bytes < earlier.bytes
            || self.drops < earlier.drops
            || self.requeues < earlier.requeues
            || self.overlimits < earlier.overlimits
    }

    /// The sum of two readings.
    #[must_use]
    pub fn plus(&self, other: &Counters) -> Counters {
        Counters {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            drops: self.drops + other.drops,
            requeues: self.requeues + other.requeues,
            overlimits: self.overlimits + other.overlimits,
        }
    }
}
