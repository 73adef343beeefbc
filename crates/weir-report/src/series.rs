//! Traffic and queues over time, in bounded memory: a second and a day both fit.
//!
//! The driver calls [`SeriesRecorder::observe`] with the link's running counters now and then; what
//! passed since the call before is spread evenly over the sampling periods in between, so a late
//! call makes no false peak. When the buffer is full, neighbouring samples are merged in pairs and
//! the period doubles. Sums stay exact, and the extremes of the queue and the busiest base period
//! survive every merge.

use std::collections::VecDeque;

use weir_core::Nanos;
use weir_core::stats::{DropReason, LinkCounters, MarkReason};

/// A quantity within a sample: its extremes, and its mean over the base periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Least value.
    pub min: u64,
    /// Greatest value.
    pub max: u64,
    /// Sum of the observations in the open base period; of the base periods' means once it is
    /// closed.
    sum: u64,
    count: u64,
}

impl Range {
    /// The mean over the sample's base periods, each of which counts the same.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { self.min as f64 } else { self.sum as f64 / self.count as f64 }
    }

    /// A quantity that stays at `value` until it is observed again.
    fn held(value: u64) -> Self {
        Self { min: value, max: value, sum: 0, count: 0 }
    }

    fn include(&mut self, value: u64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum = self.sum.saturating_add(value);
        self.count += 1;
    }

    /// As one base period of a longer sample: however often it was observed, it weighs the same as
    /// the others.
    fn closed(self) -> Self {
        Self { sum: self.mean().round() as u64, count: 1, ..self }
    }

    fn merged(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            sum: self.sum.saturating_add(other.sum),
            count: self.count + other.count,
        }
    }
}

/// What happened within one sampling period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Beginning of the period, ns since the start of the run.
    pub t_ns: u64,
    /// Packets submitted.
    pub packets_in: u64,
    /// Bytes submitted.
    pub bytes_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Bytes that left.
    pub bytes_out: u64,
    /// Bytes that left in the busiest base period within this sample.
    pub bytes_out_peak: u64,
    /// Drops by reason, in the order of [`DropReason::ALL`].
    pub drops: [u64; DropReason::ALL.len()],
    /// Marks by reason, in the order of [`MarkReason::ALL`].
    pub marks: [u64; MarkReason::ALL.len()],
    /// Packets waiting in the queues.
    pub queue_packets: Range,
    /// Bytes waiting in the queues.
    pub queue_bytes: Range,
}

/// A recorded series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// Samples in the order of time, without gaps.
    pub samples: Vec<Sample>,
    /// Length of a sample, ns. The last one may be cut short by the end of the run.
    pub period_ns: u64,
    /// Length of the period that [`Sample::bytes_out_peak`] speaks of, ns.
    pub base_ns: u64,
    /// When recording ended, ns since the start of the run.
    pub end_ns: u64,
    busy_ns: u64,
    peak_second: Option<(u64, u64)>,
}

impl Series {
    /// Time during which packets left, ns: from the first to the last departure, without pauses
    /// longer than two seconds.
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    /// Most bytes that left within any full second; `None` when less than a second was recorded.
    pub fn peak_second_out(&self) -> Option<u64> {
        self.peak_second.map(|p| p.1)
    }

    /// The same series in periods of at least `period_ns`, as a whole multiple of its own. Extremes
    /// survive.
    pub fn coarser(&self, period_ns: u64) -> Self {
        let group =
            usize::try_from(period_ns.div_ceil(self.period_ns.max(1)).max(1)).unwrap_or(usize::MAX);
        let samples =
            self.samples.chunks(group).map(|c| c[1..].iter().fold(c[0], merged)).collect();
        let period_ns = self.period_ns.saturating_mul(group as u64);
        Self { samples, period_ns, base_ns: self.base_ns, end_ns: self.end_ns, ..*self }
    }

    /// Length of sample `i`, ns: the period, or what the end of the run left of it.
    pub fn span_ns(&self, i: usize) -> u64 {
        let rest = self.samples.get(i).map_or(0, |s| self.end_ns.saturating_sub(s.t_ns));
        rest.min(self.period_ns)
    }
}

/// Records a [`Series`] for one link.
#[derive(Clone, Debug)]
pub struct SeriesRecorder {
    start: Nanos,
    base_ns: u64,
    capacity: usize,
    /// Until when everything is recorded, ns since the start.
    last: u64,
    seen: Totals,
    /// Queue at the last observation: packets, bytes.
    level: (u64, u64),
    peak_seen: u64,
    /// The base period being filled.
    bin: Sample,
    /// Finished base periods since the start.
    bins: u64,
    /// The sample being filled, and how many base periods it has.
    pending: Sample,
    pending_bins: u64,
    /// Base periods per sample.
    merge: u64,
    samples: Vec<Sample>,
    /// Bytes in and out of the base periods within the last second.
    window: VecDeque<(u64, u64)>,
    window_sum: (u64, u64),
    peak_second: Option<(u64, u64)>,
    busy_bins: u64,
    last_busy: Option<u64>,
}

impl SeriesRecorder {
    /// A recorder that starts at `start` with the default period and capacity (10 ms; 4,096
    /// samples, about 0.8 MB).
    pub fn new(start: Nanos) -> Self {
        Self::with_period(start, DEFAULT_PERIOD_NS, DEFAULT_CAPACITY)
    }

    /// A recorder with a base period in ns (at least 1) and room for `capacity` samples (rounded up
    /// to an even number, at least 2). The peak over a second is exact when the period divides one
    /// second.
    pub fn with_period(start: Nanos, period_ns: u64, capacity: usize) -> Self {
        let queue = Range::default();
        let bin = Sample { queue_packets: queue, queue_bytes: queue, ..Sample::default() };
        Self {
            start,
            base_ns: period_ns.max(1),
            capacity: capacity.max(2).next_multiple_of(2),
            last: 0,
            seen: Totals::default(),
            level: (0, 0),
            peak_seen: 0,
            bin,
            bins: 0,
            pending: bin,
            pending_bins: 0,
            merge: 1,
            samples: Vec::new(),
            window: VecDeque::new(),
            window_sum: (0, 0),
            peak_second: None,
            busy_bins: 0,
            last_busy: None,
        }
    }

    /// How often [`Self::observe`] is worth calling, ns.
    pub fn period_ns(&self) -> u64 {
        self.base_ns
    }

    /// Takes the link's running counters at `now`, with the packets and bytes waiting in its
    /// queues. Calls go forward in time; one that does not is taken as the time of the call before.
    pub fn observe(&mut self, now: Nanos, counters: &LinkCounters, queue: (u64, u64)) {
        let now = now.0.saturating_sub(self.start.0).max(self.last);
        let totals = Totals::of(counters);
        let delta = totals.since(&self.seen);
        self.spread(&delta, now);
        // A peak between two calls is known to have happened, though not when exactly.
        let peak = if counters.peak_queue_packets > self.peak_seen {
            counters.peak_queue_packets
        } else {
            queue.0
        };
        self.peak_seen = self.peak_seen.max(counters.peak_queue_packets);
        self.bin.queue_packets.include(queue.0);
        self.bin.queue_packets.max = self.bin.queue_packets.max.max(peak);
        self.bin.queue_bytes.include(queue.1);
        self.level = queue;
        self.seen = totals;
        self.last = now;
    }

    /// The series up to the last observation. The recorder can go on.
    pub fn series(&self) -> Series {
        let mut rest = self.clone();
        if rest.last > rest.bins * rest.base_ns || rest.bin_is_used() {
            rest.close_bin();
        }
        if rest.pending_bins > 0 {
            rest.samples.push(rest.pending);
        }
        Series {
            samples: rest.samples,
            period_ns: rest.base_ns * rest.merge,
            base_ns: rest.base_ns,
            end_ns: self.last,
            busy_ns: rest.busy_bins.saturating_mul(rest.base_ns).min(self.last),
            peak_second: self.peak_second,
        }
    }

    /// Spreads what passed in `(last, now]` over the base periods in proportion to time, closing
    /// those that end.
    fn spread(&mut self, delta: &Totals, now: u64) {
        let (from, span) = (self.last, now - self.last);
        let mut given = Totals::default();
        // Nothing ends while no time passes, so the span divided by below is not 0.
        while span > 0 && (self.bins + 1) * self.base_ns <= now {
            let end = (self.bins + 1) * self.base_ns;
            let upto = delta.share(end.saturating_sub(from), span);
            self.bin.add(&upto.since(&given));
            given = upto;
            self.close_bin();
        }
        // What ends exactly with a period belongs to it, so a rest only goes to the open period
        // when there is one.
        self.bin.add(&delta.since(&given));
    }

    fn bin_is_used(&self) -> bool {
        self.bin.packets_in + self.bin.packets_out + self.bin.drops.iter().sum::<u64>() > 0
    }

    fn close_bin(&mut self) {
        let mut bin = self.bin;
        bin.bytes_out_peak = bin.bytes_out;
        bin.queue_packets = bin.queue_packets.closed();
        bin.queue_bytes = bin.queue_bytes.closed();
        self.count_busy(&bin);
        self.slide_window(&bin);
        self.pending = if self.pending_bins == 0 { bin } else { merged(self.pending, &bin) };
        self.pending_bins += 1;
        if self.pending_bins == self.merge {
            self.push_sample();
        }
        self.bins += 1;
        self.bin = Sample {
            t_ns: self.bins * self.base_ns,
            queue_packets: Range::held(self.level.0),
            queue_bytes: Range::held(self.level.1),
            ..Sample::default()
        };
    }

    fn push_sample(&mut self) {
        self.samples.push(self.pending);
        self.pending_bins = 0;
        if self.samples.len() == self.capacity {
            self.samples = self.samples.chunks(2).map(|pair| merged(pair[0], &pair[1])).collect();
            self.merge *= 2;
        }
    }

    fn count_busy(&mut self, bin: &Sample) {
        if bin.packets_out == 0 {
            return;
        }
        let since = self.last_busy.map_or(1, |last| self.bins - last);
        self.busy_bins +=
            if since.saturating_mul(self.base_ns) <= LONGEST_PAUSE_NS { since } else { 1 };
        self.last_busy = Some(self.bins);
    }

    fn slide_window(&mut self, bin: &Sample) {
        let full = usize::try_from(SECOND_NS.div_ceil(self.base_ns)).unwrap_or(usize::MAX);
        self.window.push_back((bin.bytes_in, bin.bytes_out));
        self.window_sum.0 += bin.bytes_in;
        self.window_sum.1 += bin.bytes_out;
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

/// The counters that a sample splits.
#[derive(Clone, Copy, Debug, Default)]
struct Totals([u64; COUNTERS]);

impl Totals {
    fn of(c: &LinkCounters) -> Self {
        let mut all = [0; COUNTERS];
        all[..4].copy_from_slice(&[c.packets_in, c.bytes_in, c.packets_out, c.bytes_out]);
        for (slot, reason) in all[4..].iter_mut().zip(DropReason::ALL) {
            *slot = c.drops(reason);
        }
        for (slot, reason) in all[MARKS..].iter_mut().zip(MarkReason::ALL) {
            *slot = c.marks(reason);
        }
        Self(all)
    }

    /// What was added since `earlier`; counters that went back (a reset) count from zero.
    fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].checked_sub(earlier.0[i]).unwrap_or(self.0[i])))
    }

    fn share(&self, part: u64, whole: u64) -> Self {
        // At most the value itself, so it fits.
        Self(self.0.map(|v| (u128::from(v) * u128::from(part) / u128::from(whole)) as u64))
    }
}

impl Sample {
    fn add(&mut self, t: &Totals) {
        self.packets_in += t.0[0];
        self.bytes_in += t.0[1];
        self.packets_out += t.0[2];
        self.bytes_out += t.0[3];
        for (drops, n) in self.drops.iter_mut().zip(&t.0[4..]) {
            *drops += n;
        }
        for (marks, n) in self.marks.iter_mut().zip(&t.0[MARKS..]) {
            *marks += n;
        }
    }
}

/// Two neighbouring samples as one.
fn merged(a: Sample, b: &Sample) -> Sample {
    Sample {
        t_ns: a.t_ns,
        packets_in: a.packets_in + b.packets_in,
        bytes_in: a.bytes_in + b.bytes_in,
        packets_out: a.packets_out + b.packets_out,
        bytes_out: a.bytes_out + b.bytes_out,
        bytes_out_peak: a.bytes_out_peak.max(b.bytes_out_peak),
        drops: std::array::from_fn(|i| a.drops[i] + b.drops[i]),
        marks: std::array::from_fn(|i| a.marks[i] + b.marks[i]),
        queue_packets: a.queue_packets.merged(b.queue_packets),
        queue_bytes: a.queue_bytes.merged(b.queue_bytes),
    }
}

/// Counters in [`Totals`].
const COUNTERS: usize = MARKS + MarkReason::ALL.len();
/// Where marks begin among them.
const MARKS: usize = 4 + DropReason::ALL.len();
/// Fine enough to see a TCP window's burst on a fast link, coarse enough to cost nothing.
const DEFAULT_PERIOD_NS: u64 = 10_000_000;
/// More than twice as many as any screen has columns.
const DEFAULT_CAPACITY: usize = 4096;
const SECOND_NS: u64 = 1_000_000_000;
/// Longer than the second between two pings, shorter than a person's pause.
const LONGEST_PAUSE_NS: u64 = 2_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn counters(packets: u64) -> LinkCounters {
        let mut c = LinkCounters::default();
        (c.packets_in, c.bytes_in, c.packets_out, c.bytes_out) =
            (packets, packets * 100, packets, packets * 100);
        c
    }

    #[test]
    fn sums_are_exact_and_peaks_survive_whatever_is_merged() {
        for hours_of_ms in [50, 500, 5_000, 50_000] {
            let mut r = SeriesRecorder::with_period(Nanos(7), 10 * MS, 16);
            for t in 1..=hours_of_ms {
                let queue = if t == 33 { (99, 9900) } else { (t % 3, 100) };
                r.observe(Nanos(7 + t * MS), &counters(t * 3), queue);
            }
            let s = r.series();
            assert!(s.samples.len() <= 16);
            assert_eq!(s.samples.iter().map(|x| x.packets_out).sum::<u64>(), hours_of_ms * 3);
            assert_eq!(s.samples.iter().map(|x| x.queue_packets.max).max(), Some(99));
            assert_eq!(s.end_ns, hours_of_ms * MS);
            assert!(s.samples.windows(2).all(|w| w[1].t_ns - w[0].t_ns == s.period_ns));
            assert!(
                s.samples.iter().all(|x| x.bytes_out_peak <= 3000 + 300),
                "10 ms hold at most 11 calls"
            );
        }
    }

    #[test]
    fn the_mean_of_the_queue_counts_time_not_observations() {
        let mut r = SeriesRecorder::with_period(Nanos(0), 10 * MS, 2);
        for t in 1..=10 {
            r.observe(Nanos(t * MS), &counters(0), (40, 0));
        }
        // Nobody looks for 30 ms; then the queue turns out to be empty.
        r.observe(Nanos(40 * MS), &counters(0), (0, 0));
        r.observe(Nanos(80 * MS), &counters(0), (0, 0));
        let mean =
            |s: &[Sample]| s.iter().map(|x| x.queue_packets.mean()).sum::<f64>() / s.len() as f64;
        assert_eq!(mean(&r.series().samples), 20.0);
    }

    #[test]
    fn a_late_observation_is_spread_and_makes_no_peak() {
        let mut r = SeriesRecorder::with_period(Nanos(0), 10 * MS, 1000);
        r.observe(Nanos(1000 * MS), &counters(1000), (0, 0));
        let s = r.series();
        assert_eq!(s.samples.len(), 100);
        assert!(s.samples.iter().all(|x| x.packets_in == 10));
        assert_eq!(s.peak_second_out(), Some(100_000));
    }

    #[test]
    fn the_peak_second_is_found_after_merging_too() {
        let mut r = SeriesRecorder::with_period(Nanos(0), 10 * MS, 4);
        let mut total = 0;
        for t in 1..=1000u64 {
            total += if (300..400).contains(&t) { 50 } else { 1 };
            r.observe(Nanos(t * 10 * MS), &counters(total), (0, 0));
        }
        assert_eq!(r.series().peak_second_out(), Some(100 * 50 * 100));
        assert!(r.series().period_ns >= 1000 * MS);
    }

    #[test]
    fn busy_time_leaves_out_long_pauses_only() {
        let mut r = SeriesRecorder::with_period(Nanos(0), 10 * MS, 4096);
        r.observe(Nanos(10 * MS), &counters(1), (0, 0));
        r.observe(Nanos(990 * MS), &counters(1), (0, 0));
        r.observe(Nanos(1000 * MS), &counters(2), (0, 0));
        r.observe(Nanos(9990 * MS), &counters(2), (0, 0));
        r.observe(Nanos(10_000 * MS), &counters(3), (0, 0));
        assert_eq!(r.series().busy_ns(), 1010 * MS);
    }

    #[test]
    fn a_counter_reset_and_a_clock_that_stands_still_are_survived() {
        let mut r = SeriesRecorder::new(Nanos(0));
        r.observe(Nanos(5 * MS), &counters(10), (1, 1));
        r.observe(Nanos(5 * MS), &counters(12), (1, 1));
        r.observe(Nanos(4 * MS), &counters(3), (1, 1));
        let s = r.series();
        assert_eq!(s.samples.iter().map(|x| x.packets_in).sum::<u64>(), 15);
        assert_eq!((s.end_ns, s.samples.len()), (5 * MS, 1));
        assert_eq!(SeriesRecorder::new(Nanos(0)).series().samples.len(), 0);
    }
}
