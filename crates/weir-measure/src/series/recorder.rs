//! Records a link's activity over time from its running counters.
//!
//! The driver calls [`LinkRecorder::observe`] with the link's counters at intervals. The increments
//! since the previous call are spread evenly over the base periods in between, so that a late call
//! does not create a false peak. A *base period* is a period of the initial width, before any
//! periods are merged. The caller passes the peaks of the queue since the previous call, so that a
//! queue that grows and empties between two calls is recorded too.

use alloc::collections::VecDeque;

use super::link::{LinkPeriod, LinkSeries};
use super::periods::{Period as _, Periods};
use crate::stats::LinkCounters;

/// The queue of a link at an observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Packets that wait now.
    pub packets: u64,
    /// Network-layer bytes of the packets that wait now.
    pub bytes: u64,
    /// The most packets that waited at once since the previous observation.
    pub peak_packets: u64,
    /// The most network-layer bytes that waited at once since the previous observation.
    pub peak_bytes: u64,
}

/// Records a [`LinkSeries`]. Times are in ns on the driver's clock.
#[derive(Clone, Debug)]
pub struct LinkRecorder {
    start_ns: u64,
    base_ns: u64,
    /// Time of the last observation, ns since the start.
    last: u64,
    /// Totals at the last observation.
    seen: LinkPeriod,
    /// Length of the queue at the last observation: packets, bytes.
    level: (u64, u64),
    /// The current base period, which has not ended.
    open: LinkPeriod,
    /// Number of finished base periods since the start.
    closed: u64,
    periods: Periods<LinkPeriod>,
    /// Bytes in and bytes out of each base period within the last second.
    window: VecDeque<(u64, u64)>,
    window_sum: (u64, u64),
    /// Most bytes in and most bytes out within a second.
    peak_second: Option<(u64, u64)>,
    /// Number of base periods from the first to the last departure, without long pauses.
    busy: u64,
    /// Number of the last base period with a departure.
    last_busy: Option<u64>,
}

impl LinkRecorder {
    /// A recorder that starts at `start_ns` with the default period and capacity (10 ms; 4,096
    /// periods, about 0.5 MB).
    pub fn new(start_ns: u64) -> Self {
        Self::with_period(start_ns, DEFAULT_PERIOD_NS, DEFAULT_CAPACITY)
    }

    /// A recorder with a base period in ns (at least 1) and a capacity in periods (at least 2). The
    /// peak over a second is exact if the base period divides one second.
    pub fn with_period(start_ns: u64, period_ns: u64, capacity: usize) -> Self {
        Self {
            start_ns,
            base_ns: period_ns.max(1),
            last: 0,
            seen: LinkPeriod::default(),
            level: (0, 0),
            open: LinkPeriod::holding((0, 0)),
            closed: 0,
            periods: Periods::new(0, period_ns, capacity),
            window: VecDeque::new(),
            window_sum: (0, 0),
            peak_second: None,
            busy: 0,
            last_busy: None,
        }
    }

    /// The shortest useful interval between calls of [`Self::observe`], ns.
    pub fn period_ns(&self) -> u64 {
        self.base_ns
    }

    /// Records the link's running counters and its queue at `now_ns`. If `now_ns` is before the
    /// previous call, the time of the previous call is used.
    pub fn observe(&mut self, now_ns: u64, counters: &LinkCounters, queue: QueueState) {
        let now = now_ns.saturating_sub(self.start_ns).max(self.last);
        let totals = LinkPeriod::totals(counters);
        // The time of the peak since the previous call is unknown. The peak is counted in the base
        // period that was open at that call.
        self.open.queue_packets.peak(queue.peak_packets);
        self.open.queue_bytes.peak(queue.peak_bytes);
        self.spread(&totals.since(&self.seen), now);
        self.open.queue_packets.include(queue.packets, 1);
        self.open.queue_bytes.include(queue.bytes, 1);
        self.level = (queue.packets, queue.bytes);
        self.seen = totals;
        self.last = now;
    }

    /// The series up to the last observation. Recording can continue afterwards.
    pub fn series(&self) -> LinkSeries {
        let mut rest = self.clone();
        let used = rest.open.packets_in + rest.open.packets_out + rest.open.drops() > 0;
        if rest.last > rest.closed * rest.base_ns || used {
            rest.close();
        }
        LinkSeries {
            busy_ns: rest.busy.saturating_mul(rest.base_ns).min(self.last),
            periods: rest.periods,
            base_ns: rest.base_ns,
            end_ns: self.last,
            // The peak of `rest` includes the open period. A series without a full second of
            // closed periods has no peak.
            peak_second: self.peak_second.and(rest.peak_second),
        }
    }

    /// Spreads the increments of the time `(last, now]` over the base periods in proportion to
    /// time, and closes the periods that end.
    fn spread(&mut self, delta: &LinkPeriod, now: u64) {
        let (from, span) = (self.last, now - self.last);
        if delta.is_quiet() {
            while (self.closed + 1) * self.base_ns <= now {
                self.close();
            }
            return;
        }
        let mut given = LinkPeriod::default();
        // `share` divides by the span.
        while span > 0 && (self.closed + 1) * self.base_ns <= now {
            let end = (self.closed + 1) * self.base_ns;
            let upto = delta.share(end.saturating_sub(from), span);
            self.open.add(&upto.since(&given));
            given = upto;
            self.close();
        }
        // The open period receives the remainder.
        self.open.add(&delta.since(&given));
    }

    fn close(&mut self) {
        let mut period = core::mem::replace(&mut self.open, LinkPeriod::holding(self.level));
        period.bytes_out_peak = period.bytes_out;
        // Every base period has the same weight, regardless of the number of its observations.
        period.queue_packets = period.queue_packets.weighing(1);
        period.queue_bytes = period.queue_bytes.weighing(1);
        self.count_busy(&period);
        self.slide_window(&period);
        self.periods.at(self.closed * self.base_ns).merge(&period);
        self.closed += 1;
    }

    /// Extends the busy time to this period if packets departed in it. A pause longer than
    /// [`LONGEST_PAUSE_NS`] is left out.
    fn count_busy(&mut self, period: &LinkPeriod) {
        if period.packets_out == 0 {
            return;
        }
        let since = self.last_busy.map_or(1, |last| self.closed - last);
        self.busy += if since.saturating_mul(self.base_ns) <= LONGEST_PAUSE_NS { since } else { 1 };
        self.last_busy = Some(self.closed);
    }

    fn slide_window(&mut self, period: &LinkPeriod) {
        let full = usize::try_from(SECOND_NS.div_ceil(self.base_ns)).unwrap_or(usize::MAX);
        self.window.push_back((period.bytes_in, period.bytes_out));
        self.window_sum.0 += period.bytes_in;
        self.window_sum.1 += period.bytes_out;
        if self.window.len() > full
            && let Some(old) = self.window.pop_front()
        {
            self.window_sum.0 -= old.0;
            self.window_sum.1 -= old.1;
        }
        if self.window.len() == full {
            let peak = self.peak_second.get_or_insert((0, 0));
            *peak = (peak.0.max(self.window_sum.0), peak.1.max(self.window_sum.1));
        }
    }
}

/// The default base period: short enough to show the bursts of a TCP window on a fast link, and
/// long enough to be cheap.
const DEFAULT_PERIOD_NS: u64 = 10_000_000;
/// The default maximum number of periods: more than twice the 1920 columns of a common screen.
const DEFAULT_CAPACITY: usize = 4096;
const SECOND_NS: u64 = 1_000_000_000;
/// The longest pause that counts as busy: longer than the second between two pings.
const LONGEST_PAUSE_NS: u64 = 2_000_000_000;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const MS: u64 = 1_000_000;

    fn counters(packets: u64) -> LinkCounters {
        let mut c = LinkCounters::default();
        (c.packets_in, c.bytes_in, c.packets_out, c.bytes_out) =
            (packets, packets * 100, packets, packets * 100);
        c
    }

    /// A queue of constant length since the previous observation.
    fn level(packets: u64, bytes: u64) -> QueueState {
        QueueState { packets, bytes, peak_packets: packets, peak_bytes: bytes }
    }

    #[test]
    fn a_burst_between_two_observations_is_the_maximum_of_its_period() {
        let mut r = LinkRecorder::with_period(0, 10 * MS, 1000);
        for t in 1..=10 {
            // A long burst in the third period, and a shorter one in the seventh.
            let (peak_packets, peak_bytes) = match t {
                3 => (12, 1200),
                7 => (5, 500),
                _ => (0, 0),
            };
            let queue = QueueState { peak_packets, peak_bytes, ..QueueState::default() };
            r.observe(t * 10 * MS, &counters(t), queue);
        }
        let series = r.series();
        let most: Vec<(u64, u64)> =
            series.iter().map(|(_, p)| (p.queue_packets.max(), p.queue_bytes.max())).collect();
        let none = (0, 0);
        assert_eq!(most, [none, none, (12, 1200), none, none, none, (5, 500), none, none, none]);
    }

    #[test]
    fn sums_are_exact_and_peaks_survive_any_merge() {
        for duration_ms in [50, 500, 5_000, 50_000] {
            let mut r = LinkRecorder::with_period(7, 10 * MS, 16);
            for t in 1..=duration_ms {
                let queue = if t == 33 { (99, 9900) } else { (t % 3, 100) };
                r.observe(7 + t * MS, &counters(t * 3), level(queue.0, queue.1));
            }
            let s = r.series();
            assert!(s.iter().len() <= 16);
            assert_eq!(s.iter().map(|(_, x)| x.packets_out).sum::<u64>(), duration_ms * 3);
            assert_eq!(s.iter().map(|(_, x)| x.queue_packets.max()).max(), Some(99));
            assert_eq!(s.end_ns, duration_ms * MS);
            assert!(s.iter().zip(s.iter().skip(1)).all(|(a, b)| b.0 - a.0 == s.period_ns()));
            assert!(
                s.iter().all(|(_, x)| x.bytes_out_peak <= 3000 + 300),
                "at most 11 calls fall into a period of 10 ms"
            );
        }
    }

    #[test]
    fn the_mean_of_the_queue_counts_time_not_observations() {
        let mut r = LinkRecorder::with_period(0, 10 * MS, 2);
        for t in 1..=10 {
            r.observe(t * MS, &counters(0), level(40, 0));
        }
        // There is no observation for 30 ms; then the queue is empty.
        r.observe(40 * MS, &counters(0), level(0, 0));
        r.observe(80 * MS, &counters(0), level(0, 0));
        let series = r.series();
        let means = series.iter().map(|(_, period)| period.queue_packets.mean());
        assert_eq!(means.sum::<f64>() / series.iter().len() as f64, 20.0);
    }

    #[test]
    fn a_late_observation_is_spread_and_makes_no_peak() {
        let mut r = LinkRecorder::with_period(0, 10 * MS, 1000);
        r.observe(1000 * MS, &counters(1000), level(0, 0));
        let s = r.series();
        assert_eq!(s.iter().len(), 100);
        assert!(s.iter().all(|(_, x)| x.packets_in == 10));
        assert_eq!(s.peak_second_out(), Some(100_000));
    }

    #[test]
    fn the_peak_second_is_exact_after_merging() {
        let mut r = LinkRecorder::with_period(0, 10 * MS, 4);
        let mut total = 0;
        for t in 1..=1000u64 {
            total += if (300..400).contains(&t) { 50 } else { 1 };
            r.observe(t * 10 * MS, &counters(total), level(0, 0));
        }
        assert_eq!(r.series().peak_second_out(), Some(100 * 50 * 100));
        assert!(r.series().period_ns() >= 1000 * MS);
    }

    #[test]
    fn busy_time_leaves_out_long_pauses_only() {
        let mut r = LinkRecorder::with_period(0, 10 * MS, 4096);
        r.observe(10 * MS, &counters(1), level(0, 0));
        r.observe(990 * MS, &counters(1), level(0, 0));
        r.observe(1000 * MS, &counters(2), level(0, 0));
        r.observe(9990 * MS, &counters(2), level(0, 0));
        r.observe(10_000 * MS, &counters(3), level(0, 0));
        assert_eq!(r.series().busy_ns(), 1010 * MS);
    }

    #[test]
    fn a_counter_reset_and_a_stopped_clock_do_no_harm() {
        let mut r = LinkRecorder::new(0);
        r.observe(5 * MS, &counters(10), level(1, 1));
        r.observe(5 * MS, &counters(12), level(1, 1));
        r.observe(4 * MS, &counters(3), level(1, 1));
        let s = r.series();
        assert_eq!(s.iter().map(|(_, x)| x.packets_in).sum::<u64>(), 15);
        assert_eq!((s.end_ns, s.iter().len()), (5 * MS, 1));
        assert_eq!(LinkRecorder::new(0).series().iter().len(), 0);
    }
}
