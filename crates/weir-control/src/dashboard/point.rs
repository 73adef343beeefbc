//! What an object did in an interval: rates, lengths, times, drops.
//!
//! Points of neighbouring intervals merge into one: counts add up, means are weighted by time, and
//! the least and greatest values stay. A client that is slow, or looks at hours, therefore still
//! sees every peak.

use std::fmt::Write as _;

use weir_measure::histogram::Histogram;
use weir_measure::stats::Reasons;

use super::{Count, CountTimes};

/// The names of the values of a point, in the order in which [`Point::write`] writes them.
pub const FIELDS: &[&str] = &[
    "t_ms",
    "span_ms",
    "in_bps",
    "in_bps_max",
    "out_bps",
    "out_bps_max",
    "in_pps",
    "out_pps",
    "queue_packets_min",
    "queue_packets_mean",
    "queue_packets_max",
    "queue_bytes_min",
    "queue_bytes_mean",
    "queue_bytes_max",
    "wait_p50_ns",
    "wait_p99_ns",
    "wait_max_ns",
    "total_p50_ns",
    "total_p99_ns",
    "total_max_ns",
    "late_p50_ns",
    "late_p99_ns",
    "late_max_ns",
    "drops",
    "marks",
    "reasons",
    "rate_bps",
];

/// What an object did in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// The end of the interval in ns: on the monotonic clock when a [`Builder`] makes the point,
    /// and on the page's clock in the page's server.
    pub at_ns: u64,
    /// Its length, in ns.
    pub span_ns: u64,
    /// Packets that arrived.
    pub packets_in: u64,
    /// Bytes of these packets.
    pub bytes_in: u64,
    /// Packets that departed.
    pub packets_out: u64,
    /// Bytes of these packets.
    pub bytes_out: u64,
    /// The greatest rate of arrivals in a part of the interval, bit/s.
    pub in_bps_max: f64,
    /// The greatest rate of departures in a part of the interval, bit/s.
    pub out_bps_max: f64,
    /// Waiting packets.
    pub queue_packets: Range,
    /// Bytes of waiting packets, where they are counted.
    pub queue_bytes: Option<Range>,
    /// Queueing delay of the packets that departed; none without such packets.
    pub wait: Option<Quantiles>,
    /// Time from arrival to due time of these packets.
    pub total: Option<Quantiles>,
    /// Lateness of these packets.
    pub late: Option<Quantiles>,
    /// Drops and marks in the interval; none without any.
    pub reasons: Option<Box<Reasons>>,
    /// The configured rate at the end, bit/s.
    pub rate_bps: Option<u64>,
}

/// The least, the mean and the greatest value of a length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    /// The least value.
    pub min: u64,
    /// The mean over time.
    pub mean: f64,
    /// The greatest value.
    pub max: u64,
}

/// Quantiles of times, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The greatest time.
    pub max: u64,
    /// Number of times.
    pub count: u64,
}

impl Range {
    fn one(value: u64) -> Self {
        Self { min: value, mean: value as f64, max: value }
    }

    /// `span` and `other_span` are the lengths of the two intervals.
    fn merge(self, span: f64, other: Self, other_span: f64) -> Self {
        let total = span + other_span;
        let mean = if total > 0.0 {
            (self.mean * span + other.mean * other_span) / total
        } else {
            other.mean
        };
        Self { min: self.min.min(other.min), mean, max: self.max.max(other.max) }
    }
}

impl Quantiles {
    /// Quantiles of the times in `now` that were not in `before`.
    fn between(before: &Histogram, now: &Histogram) -> Option<Self> {
        let mut old = before.bins().peekable();
        let fresh = now.bins().filter_map(|mut bin| {
            while old.next_if(|other| other.low < bin.low).is_some() {}
            let known = old.next_if(|other| other.low == bin.low).map_or(0, |other| other.count);
            bin.count = bin.count.saturating_sub(known);
            (bin.count > 0).then_some(bin)
        });
        let bins: Vec<_> = fresh.collect();
        let count: u64 = bins.iter().map(|bin| bin.count).sum();
        let last = bins.last()?;
        // The greatest time of all is known exactly, all other times to within their bin.
        let max = if now.max() > before.max() { now.max() } else { last.high.min(now.max()) };
        let at = |q: f64| {
            let rank = ((q * count as f64) as u64).min(count - 1);
            let mut seen = 0;
            let bin = bins.iter().find(|bin| {
                seen += bin.count;
                seen > rank
            });
            bin.map_or(max, |bin| (bin.low + (bin.high - bin.low) / 2).min(max))
        };
        Some(Self { p50: at(0.5), p99: at(0.99), max, count })
    }

    /// Merges the quantiles of two intervals. The median is the mean of both medians, weighted by
    /// number. The 99th percentile is the greater of both, which is an upper bound of the true one.
    fn merge(self, other: Self) -> Self {
        let count = self.count + other.count;
        let sum = u128::from(self.p50) * u128::from(self.count)
            + u128::from(other.p50) * u128::from(other.count);
        let p50 = u64::try_from(sum / u128::from(count.max(1))).unwrap_or(u64::MAX);
        Self { p50, p99: self.p99.max(other.p99), max: self.max.max(other.max), count }
    }
}

impl Point {
    /// Adds the interval that follows.
    #[must_use]
    pub fn merge(mut self, next: &Self) -> Self {
        let (span, next_span) = (self.span_ns as f64, next.span_ns as f64);
        let both = |a: Option<Quantiles>, b: Option<Quantiles>| match (a, b) {
            (Some(a), Some(b)) => Some(a.merge(b)),
            (a, b) => a.or(b),
        };
        self.queue_packets = self.queue_packets.merge(span, next.queue_packets, next_span);
        self.queue_bytes = match (self.queue_bytes, next.queue_bytes) {
            (Some(a), Some(b)) => Some(a.merge(span, b, next_span)),
            (a, b) => a.or(b),
        };
        self.reasons = match (self.reasons, &next.reasons) {
            (Some(mut own), Some(more)) => {
                own.merge(more);
                Some(own)
            }
            (own, more) => own.or_else(|| more.clone()),
        };
        Self {
            at_ns: next.at_ns,
            span_ns: self.span_ns + next.span_ns,
            packets_in: self.packets_in + next.packets_in,
            bytes_in: self.bytes_in + next.bytes_in,
            packets_out: self.packets_out + next.packets_out,
            bytes_out: self.bytes_out + next.bytes_out,
            in_bps_max: self.in_bps_max.max(next.in_bps_max),
            out_bps_max: self.out_bps_max.max(next.out_bps_max),
            wait: both(self.wait, next.wait),
            total: both(self.total, next.total),
            late: both(self.late, next.late),
            rate_bps: next.rate_bps,
            ..self
        }
    }

    /// The mean rate of arrivals, bit/s.
    #[must_use]
    pub fn in_bps(&self) -> f64 {
        rate(self.bytes_in, self.span_ns) * 8.0
    }

    /// The mean rate of departures, bit/s.
    #[must_use]
    pub fn out_bps(&self) -> f64 {
        rate(self.bytes_out, self.span_ns) * 8.0
    }

    /// Dropped packets.
    #[must_use]
    pub fn drops(&self) -> u64 {
        self.reasons.as_ref().map_or(0, |reasons| reasons.total_drops())
    }

    /// The greatest number of waiting packets.
    #[must_use]
    pub fn most_waiting(&self) -> u64 {
        self.queue_packets.max
    }

    /// Writes the values as a JSON array in the order of [`FIELDS`]. `base_ms` is the time in
    /// ms since 1970 at which the clock of `at_ns` is 0.
    pub fn write(&self, base_ms: i64, out: &mut String) {
        let mut row = Row { out, first: true };
        row.out.push('[');
        row.whole(u64::try_from(base_ms + (self.at_ns / 1_000_000) as i64).unwrap_or(0));
        row.whole((self.span_ns + 500_000) / 1_000_000);
        row.number(self.in_bps());
        row.number(self.in_bps_max.max(self.in_bps()));
        row.number(self.out_bps());
        row.number(self.out_bps_max.max(self.out_bps()));
        row.number(rate(self.packets_in, self.span_ns));
        row.number(rate(self.packets_out, self.span_ns));
        row.range(Some(self.queue_packets));
        row.range(self.queue_bytes);
        for times in [self.wait, self.total, self.late] {
            row.maybe(times.map(|times| times.p50));
            row.maybe(times.map(|times| times.p99));
            row.maybe(times.map(|times| times.max));
        }
        row.whole(self.drops());
        row.whole(self.reasons.as_ref().map_or(0, |reasons| reasons.total_marks()));
        row.reasons(self.reasons.as_deref());
        row.maybe(self.rate_bps);
        row.out.push(']');
    }
}

/// A JSON array that is being written.
struct Row<'a> {
    out: &'a mut String,
    /// Whether no value has been written yet.
    first: bool,
}

impl Row<'_> {
    fn comma(&mut self) {
        if !std::mem::take(&mut self.first) {
            self.out.push(',');
        }
    }

    fn whole(&mut self, value: u64) {
        self.comma();
        // Writing to a string cannot fail.
        let _ = write!(self.out, "{value}");
    }

    fn maybe(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.whole(value),
            None => {
                self.comma();
                self.out.push_str("null");
            }
        }
    }

    /// Writes two digits after the point for values between 0 and 100, and none for 0 and for
    /// larger values.
    fn number(&mut self, value: f64) {
        self.comma();
        let digits = if value >= 100.0 || value == 0.0 { 0 } else { 2 };
        let _ = write!(self.out, "{value:.digits$}");
    }

    fn range(&mut self, range: Option<Range>) {
        self.maybe(range.map(|range| range.min));
        match range {
            Some(range) => self.number(range.mean),
            None => self.maybe(None),
        }
        self.maybe(range.map(|range| range.max));
    }

    fn reasons(&mut self, reasons: Option<&Reasons>) {
        self.comma();
        match reasons.map(serde_json::to_string) {
            // Numbers under string keys always serialise.
            Some(Ok(text)) => self.out.push_str(&text),
            _ => self.out.push_str("null"),
        }
    }
}

fn rate(count: u64, span_ns: u64) -> f64 {
    if span_ns == 0 { 0.0 } else { count as f64 * 1e9 / span_ns as f64 }
}

/// Makes points from readings.
#[derive(Debug, Default)]
pub struct Builder {
    /// The reading at the end of the last point.
    last: Option<Count>,
    /// The last reading of any depth.
    latest: Option<Moment>,
    /// The extremes and means of the readings since the last point.
    parts: Option<Parts>,
}

/// The few counters that a short reading compares.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at_ns: u64,
    bytes_in: u64,
    bytes_out: u64,
}

/// The extremes and means of several readings.
#[derive(Clone, Copy, Debug)]
struct Parts {
    span_ns: f64,
    in_bps_max: f64,
    out_bps_max: f64,
    /// Waiting packets.
    packets: Range,
    /// Bytes of waiting packets, where they are counted.
    bytes: Option<Range>,
}

impl Builder {
    /// Takes a short reading.
    pub fn glance(&mut self, count: &Count) {
        let packets = Range {
            max: count.queue_packets.max(count.peak_packets),
            ..Range::one(count.queue_packets)
        };
        let bytes = count
            .queue_bytes
            .map(|now| Range { max: now.max(count.peak_bytes), ..Range::one(now) });
        let Moment { at_ns, bytes_in, bytes_out } = self.latest.unwrap_or(Moment::of(count));
        let span_ns = count.at_ns.saturating_sub(at_ns);
        let bps = |now: u64, then: u64| rate(now.saturating_sub(then), span_ns) * 8.0;
        let new = Parts {
            span_ns: span_ns as f64,
            in_bps_max: bps(count.bytes_in, bytes_in),
            out_bps_max: bps(count.bytes_out, bytes_out),
            packets,
            bytes,
        };
        self.latest = Some(Moment::of(count));
        self.parts = Some(match self.parts {
            None => new,
            Some(old) => Parts {
                span_ns: old.span_ns + new.span_ns,
                in_bps_max: old.in_bps_max.max(new.in_bps_max),
                out_bps_max: old.out_bps_max.max(new.out_bps_max),
                packets: old.packets.merge(old.span_ns, new.packets, new.span_ns),
                bytes: match (old.bytes, new.bytes) {
                    (Some(a), Some(b)) => Some(a.merge(old.span_ns, b, new.span_ns)),
                    (a, b) => a.or(b),
                },
            },
        });
    }

    /// Takes a full reading, which ends a point. The first reading gives no point.
    pub fn take(&mut self, count: Count) -> Option<Point> {
        self.glance(&count);
        let parts = self.parts.take()?;
        let before = self.last.replace(count)?;
        let now = self.last.as_ref()?;
        // The counters begin again when an object is deleted and created again, and at the end of a
        // scenario's warm-up.
        let nothing = Count { at_ns: before.at_ns, ..Count::default() };
        let before = if now.packets_in < before.packets_in { nothing } else { before };
        let span_ns = now.at_ns.saturating_sub(before.at_ns);
        if span_ns == 0 {
            return None;
        }
        let none = CountTimes::default();
        let old = before.times.as_deref().unwrap_or(&none);
        let new = now.times.as_deref();
        let times = |which: fn(&CountTimes) -> &Histogram| {
            new.and_then(|new| Quantiles::between(which(old), which(new)))
        };
        let late = new.and_then(|new| {
            let first = Histogram::default();
            Quantiles::between(old.late.as_ref().unwrap_or(&first), new.late.as_ref()?)
        });
        let reasons = now.reasons.map_both(&before.reasons, u64::saturating_sub);
        Some(Point {
            at_ns: now.at_ns,
            span_ns,
            packets_in: now.packets_in.saturating_sub(before.packets_in),
            bytes_in: now.bytes_in.saturating_sub(before.bytes_in),
            packets_out: now.packets_out.saturating_sub(before.packets_out),
            bytes_out: now.bytes_out.saturating_sub(before.bytes_out),
            in_bps_max: parts.in_bps_max,
            out_bps_max: parts.out_bps_max,
            queue_packets: parts.packets,
            queue_bytes: parts.bytes,
            wait: times(|times| &times.wait),
            total: times(|times| &times.total),
            late,
            reasons: (reasons != Reasons::default()).then(|| Box::new(reasons)),
            rate_bps: now.rate_bps,
        })
    }
}

impl Moment {
    fn of(count: &Count) -> Self {
        Self { at_ns: count.at_ns, bytes_in: count.bytes_in, bytes_out: count.bytes_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::stats::DropReason;

    const MS: u64 = 1_000_000;

    fn count(at_ms: u64, bytes: u64, waiting: u64) -> Count {
        Count {
            at_ns: at_ms * MS,
            packets_in: bytes / 1000,
            bytes_in: bytes,
            packets_out: bytes / 1000,
            bytes_out: bytes,
            queue_packets: waiting,
            ..Count::default()
        }
    }

    #[test]
    fn short_readings_keep_the_peaks_within_a_point() {
        let mut builder = Builder::default();
        assert_eq!(builder.take(count(0, 0, 0)), None);
        builder.glance(&count(20, 1000, 5));
        builder.glance(&Count { peak_packets: 90, ..count(40, 51_000, 7) });
        let point = builder.take(count(100, 61_000, 0)).unwrap();
        assert_eq!((point.packets_in, point.span_ns), (61, 100 * MS));
        assert_eq!(point.out_bps_max, 50_000.0 * 8.0 / 0.020);
        assert_eq!((point.queue_packets.min, point.queue_packets.max), (0, 90));
        assert!((point.queue_packets.mean - 2.4).abs() < 1e-9, "{:?}", point.queue_packets);
    }

    #[test]
    fn merged_points_have_all_packets_and_all_peaks() {
        let mut builder = Builder::default();
        builder.take(count(0, 0, 3));
        let mut points: Vec<Point> = Vec::new();
        for (n, waiting) in [(1u64, 0u64), (2, 80), (3, 1)] {
            let mut next = count(n * 100, n * 10_000, waiting);
            (0..n).for_each(|_| next.reasons.count_drop(DropReason::QueueFull));
            points.extend(builder.take(next));
        }
        let whole = points[0].clone().merge(&points[1]).merge(&points[2]);
        assert_eq!((whole.at_ns, whole.span_ns), (300 * MS, 300 * MS));
        assert_eq!((whole.bytes_in, whole.drops(), whole.most_waiting()), (30_000, 3, 80));
        assert_eq!(whole.in_bps(), points[0].in_bps());
        let mut text = String::new();
        whole.write(1_000, &mut text);
        let values: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(values.len(), FIELDS.len(), "{text}");
        let of = |name| &values[FIELDS.iter().position(|field| *field == name).unwrap()];
        assert_eq!((of("t_ms"), of("span_ms")), (&1300.into(), &300.into()));
        assert_eq!(of("reasons")["drops"]["queue_full"], 3);
        assert!(of("queue_bytes_min").is_null() && of("rate_bps").is_null());
    }

    #[test]
    fn times_are_those_of_the_interval() {
        let mut builder = Builder::default();
        let mut wait = Histogram::default();
        let mut with = |at_ms, time, n| {
            wait.record_many(time, n);
            let times = CountTimes { wait: wait.clone(), ..CountTimes::default() };
            builder.take(Count { times: Some(Box::new(times)), ..count(at_ms, at_ms * 10, 0) })
        };
        with(0, 90 * MS, 1000);
        let first = with(100, MS, 100).unwrap().wait.unwrap();
        assert!(first.p99.abs_diff(MS) < MS / 20 && first.max.abs_diff(MS) < MS / 20, "{first:?}");
        let second = with(200, 95 * MS + 7, 1).unwrap().wait.unwrap();
        assert_eq!((second.max, second.count), (95 * MS + 7, 1), "a new maximum is exact");
        assert_eq!(with(300, MS, 0).unwrap().wait, None);
    }

    #[test]
    fn counters_that_begin_again_count_from_zero() {
        let mut builder = Builder::default();
        builder.take(count(0, 90_000, 0));
        let point = builder.take(count(100, 2_000, 0)).unwrap();
        assert_eq!((point.packets_in, point.bytes_out), (2, 2_000));
    }
}
