//! The activity of a link, or of a group of flows, in a period.

use alloc::boxed::Box;

use serde::Serialize;

use super::periods::{Envelope, Period, Periods};
use crate::stats::{DropCounts, LinkCounters, MarkCounts, Reasons};

/// The activity of a link in a period.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LinkPeriod {
    /// Packets submitted.
    pub packets_in: u64,
    /// Network-layer bytes of the submitted packets.
    pub bytes_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Network-layer bytes of the packets that left.
    pub bytes_out: u64,
    /// Bytes that left in the busiest base period (see [`LinkSeries::base_ns`]) among the base
    /// periods merged into this period.
    pub bytes_out_peak: u64,
    /// Packets that waited in the queues.
    pub queue_packets: Envelope,
    /// Bytes that waited in the queues.
    pub queue_bytes: Envelope,
    /// Drops and marks by reason; `None` if there were none, as in most periods.
    reasons: Option<Box<Reasons>>,
}

impl LinkPeriod {
    /// The running totals of a link as a single period, without queue lengths.
    pub fn totals(counters: &LinkCounters) -> Self {
        Self {
            packets_in: counters.packets_in,
            bytes_in: counters.bytes_in,
            packets_out: counters.packets_out,
            bytes_out: counters.bytes_out,
            reasons: boxed(*counters.reasons()),
            ..Self::default()
        }
    }

    /// A period that begins with this many packets and bytes in the queue.
    pub(super) fn holding((packets, bytes): (u64, u64)) -> Self {
        let (queue_packets, queue_bytes) = (Envelope::of(packets, 0), Envelope::of(bytes, 0));
        Self { queue_packets, queue_bytes, ..Self::default() }
    }

    /// The difference from earlier totals, without queue lengths. A counter below its earlier value
    /// was reset, so its current value is the difference.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        Self {
            packets_in: since(self.packets_in, earlier.packets_in),
            bytes_in: since(self.bytes_in, earlier.bytes_in),
            packets_out: since(self.packets_out, earlier.packets_out),
            bytes_out: since(self.bytes_out, earlier.bytes_out),
            // In most periods both are `None`.
            reasons: match (&self.reasons, &earlier.reasons) {
                (None, None) => None,
                _ => boxed(self.reasons().map_both(&earlier.reasons(), since)),
            },
            ..Self::default()
        }
    }

    /// Whether nothing was counted. The queue lengths do not matter.
    pub(super) fn is_quiet(&self) -> bool {
        let counts = [self.packets_in, self.bytes_in, self.packets_out, self.bytes_out];
        counts == [0; 4] && self.reasons.is_none()
    }

    /// The fraction `part / whole` of every count, rounded down, without queue lengths.
    #[must_use]
    pub(super) fn share(&self, part: u64, whole: u64) -> Self {
        let share = |n: u64, _| match n.checked_mul(part) {
            Some(product) => product / whole,
            // The result is at most `n`, so it fits.
            None => (u128::from(n) * u128::from(part) / u128::from(whole)) as u64,
        };
        Self {
            packets_in: share(self.packets_in, 0),
            bytes_in: share(self.bytes_in, 0),
            packets_out: share(self.packets_out, 0),
            bytes_out: share(self.bytes_out, 0),
            reasons: self
                .reasons
                .as_ref()
                .and_then(|reasons| boxed(reasons.map_both(&Reasons::default(), share))),
            ..Self::default()
        }
    }

    /// Adds the counts of another part of the same period. Of the queue lengths, only the maximum
    /// in packets is included.
    pub fn add(&mut self, other: &Self) {
        self.packets_in += other.packets_in;
        self.bytes_in += other.bytes_in;
        self.packets_out += other.packets_out;
        self.bytes_out += other.bytes_out;
        self.queue_packets.peak(other.queue_packets.max());
        if let Some(reasons) = &other.reasons {
            self.reasons.get_or_insert_default().merge(reasons);
        }
    }

    /// Drops for all reasons.
    pub fn drops(&self) -> u64 {
        self.reasons.as_ref().map_or(0, |reasons| reasons.total_drops())
    }

    /// Marks for all reasons.
    pub fn marks(&self) -> u64 {
        self.reasons.as_ref().map_or(0, |reasons| reasons.total_marks())
    }

    /// Drops by reason.
    pub fn drop_counts(&self) -> DropCounts {
        *self.reasons().drop_counts()
    }

    /// Marks by reason.
    pub fn mark_counts(&self) -> MarkCounts {
        *self.reasons().mark_counts()
    }

    fn reasons(&self) -> Reasons {
        self.reasons.as_deref().copied().unwrap_or_default()
    }
}

impl Period for LinkPeriod {
    fn merge(&mut self, next: &Self) {
        self.add(next);
        self.bytes_out_peak = self.bytes_out_peak.max(next.bytes_out_peak);
        self.queue_packets.merge(&next.queue_packets);
        self.queue_bytes.merge(&next.queue_bytes);
    }
}

/// `None` if there were no drops and marks.
fn boxed(reasons: Reasons) -> Option<Box<Reasons>> {
    (reasons != Reasons::default()).then(|| Box::new(reasons))
}

/// The activity of a group of flows in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlowPeriod {
    /// Packets sent.
    pub sent: u64,
    /// Network-layer bytes of the packets in `sent`.
    pub sent_bytes: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Network-layer bytes of the packets in `received`.
    pub received_bytes: u64,
    /// Payload bytes that reached the application.
    pub goodput_bytes: u64,
    /// Packets lost.
    pub lost: u64,
    /// Packets that arrived marked.
    pub marked: u64,
    /// Sum of the one-way delays of the packets that arrived, ns.
    pub delay_sum_ns: u64,
}

impl FlowPeriod {
    /// The difference from an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
            received: self.received.saturating_sub(before.received),
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
            goodput_bytes: self.goodput_bytes.saturating_sub(before.goodput_bytes),
            lost: self.lost.saturating_sub(before.lost),
            marked: self.marked.saturating_sub(before.marked),
            delay_sum_ns: self.delay_sum_ns.saturating_sub(before.delay_sum_ns),
        }
    }

    /// Adds counts.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.goodput_bytes += other.goodput_bytes;
        self.lost += other.lost;
        self.marked += other.marked;
        self.delay_sum_ns += other.delay_sum_ns;
    }
}

/// A link's activity over time, recorded by a [`LinkRecorder`](crate::series::LinkRecorder).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkSeries {
    pub(super) periods: Periods<LinkPeriod>,
    /// Width of the periods to which [`LinkPeriod::bytes_out_peak`] refers, ns.
    pub base_ns: u64,
    /// End of the recording, ns since the start of the run.
    pub end_ns: u64,
    /// See [`Self::busy_ns`].
    pub(super) busy_ns: u64,
    /// The most bytes submitted and the most bytes that left, each within one second.
    pub(super) peak_second: Option<(u64, u64)>,
}

impl LinkSeries {
    /// The periods in order and without gaps, each with its start time in ns since the start of the
    /// run.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &LinkPeriod)> + ExactSizeIterator {
        self.periods.iter()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.periods.as_slice().is_empty()
    }

    /// Width of a period, ns. The last period is shorter if the run ends within it.
    pub fn period_ns(&self) -> u64 {
        self.periods.width_ns()
    }

    /// Time from the first to the last departure, without pauses longer than two seconds, ns.
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    /// The largest number of bytes submitted within one second; `None` if less than a second was
    /// recorded.
    pub fn peak_second_in(&self) -> Option<u64> {
        self.peak_second.map(|p| p.0)
    }

    /// The largest number of bytes that left within one second; `None` if less than a second was
    /// recorded.
    pub fn peak_second_out(&self) -> Option<u64> {
        self.peak_second.map(|p| p.1)
    }

    /// The same series with periods of at least `period_ns`; the new width is a whole multiple of
    /// the old one. Extremes are preserved.
    #[must_use]
    pub fn coarser(&self, period_ns: u64) -> Self {
        let group = period_ns.div_ceil(self.period_ns().max(1)).max(1);
        let group = usize::try_from(group).unwrap_or(usize::MAX);
        Self { periods: self.periods.grouped(group), ..*self }
    }

    /// Length of the period that begins at `t_ns`, ns: the width, or less if the run ended within
    /// the period.
    pub fn span_ns(&self, t_ns: u64) -> u64 {
        self.end_ns.saturating_sub(t_ns).min(self.period_ns())
    }
}
