//! The report's plots of one link, and their values for the page's script.

use serde::Serialize;
use weir_measure::histogram::Histogram;
use weir_measure::series::{Envelope, LinkPeriod, LinkSeries};

use crate::format;
use crate::model::{LATE_NS, Late, LinkResult};
use crate::plot::{Axis, Curve, Plot, Scale, Shape, Unit};

/// A chart of the report: one plot, or several alternatives with a switch.
pub(super) struct Chart {
    pub(super) variants: Vec<Variant>,
    /// A sentence below the plot.
    pub(super) remark: String,
}

/// One alternative of a chart.
pub(super) struct Variant {
    /// The label on the switch.
    pub(super) name: String,
    pub(super) plot: Plot,
    pub(super) data: Data,
}

/// The values of a plot, which the page shows under the pointer.
#[derive(Serialize)]
pub(super) struct Data {
    /// The kind of the plot. All `time` plots of a page zoom together.
    kind: &'static str,
    /// The unit of the horizontal axis.
    x: &'static str,
    /// The unit of the vertical axis.
    y: &'static str,
    curves: Vec<Values>,
    /// Detailed data, which the page draws in place of the picture when a reader zooms in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<Detail>,
}

/// A quantity over time in periods of equal length, which are shorter than those of the picture.
#[derive(Serialize)]
pub(super) struct Detail {
    /// Start of the first period, s.
    pub(super) offset: f64,
    /// Length of a period, s.
    pub(super) period: f64,
    /// End of the last item, s.
    pub(super) end: f64,
    /// The items, in the script's encoding.
    pub(super) items: String,
}

#[derive(Serialize)]
struct Values {
    name: String,
    colour: u8,
    /// `step`: a value holds until the next. `line`: values are interpolated. `dot`: there is
    /// nothing between two values. `bar`: the points are `[from, to, value]`. `none`: there are no
    /// points.
    shape: &'static str,
    points: Vec<Vec<Number>>,
}

/// The plots of a link with at most about `points` points for each curve.
pub(super) fn charts(l: &LinkResult, points: usize) -> Vec<Chart> {
    let mut all = Vec::new();
    if !l.series.is_empty() {
        all.push(throughput(l, points));
        all.push(queue(l, points));
    }
    if l.total_ns.count() > 0 {
        all.push(delay_cdf(l, points));
        all.push(delay_histogram(l));
    }
    if !l.series.is_empty() && l.counters.total_drops() > 0 {
        all.push(drops(l, points));
    }
    if !l.series.is_empty() && l.counters.total_marks() > 0 {
        all.push(marks(l, points));
    }
    if l.lateness_ns.count() > 0 {
        all.push(lateness(l, points));
    }
    all
}

fn throughput(l: &LinkResult, points: usize) -> Chart {
    // With fewer than about ten packets per period the picture would show packets, not a rate.
    let ten_packets_ns = l.rate_bps.map_or(0, |bps| 120_000_000_000_000 / bps.max(1));
    let wanted = (l.series.end_ns / points as u64)
        .max((l.series.end_ns / 40).min(MIN_RATE_PERIOD_NS.max(ten_packets_ns)));
    let s = l.series.coarser(wanted);
    let curve = |bytes: fn(&LinkPeriod) -> u64| {
        steps(&s, |t_ns, period| {
            let span = s.span_ns(t_ns);
            if span == 0 { 0.0 } else { bytes(period) as f64 * 8e9 / span as f64 }
        })
    };
    let mut curves = vec![
        Curve::new("in", 1, curve(|x| x.bytes_in)),
        Curve::new("out", 0, curve(|x| x.bytes_out)),
    ];
    if let Some(bps) = l.rate_bps {
        let name = if l.rate_varies { "configured mean" } else { "configured" };
        curves.push(Curve::new(name, 4, Shape::Level(bps as f64)));
    }
    let description = format!(
        "Rate over time into and out of link {}, means over {}. Configured: {}.",
        l.name,
        format::duration(s.period_ns() as f64),
        l.configured_rate()
    );
    let remark = format!("Means over {}.", micro(&format::duration(s.period_ns() as f64)));
    let y = rate_axis(&s, l.rate_bps);
    let plot = over_time("Throughput", description, y, &s, curves);
    Chart { variants: vec![variant("", "time", plot)], remark }
}

/// The axis of rates. It is logarithmic if the measured rates would be too small to see beside the
/// configured rate, for example those of acknowledgements on a link of 1 Gbit/s.
fn rate_axis(s: &LinkSeries, configured: Option<u64>) -> Axis {
    let rates = s.iter().flat_map(|(t_ns, period)| {
        let span = s.span_ns(t_ns).max(1) as f64;
        [period.bytes_in, period.bytes_out].map(|bytes| bytes as f64 * 8e9 / span)
    });
    let (mut least, mut most) = (f64::INFINITY, 0.0f64);
    for rate in rates.filter(|rate| *rate > 0.0) {
        (least, most) = (least.min(rate), most.max(rate));
    }
    match configured.map(|bps| bps as f64) {
        Some(bps) if most > 0.0 && bps > most * MUCH => Axis::log("rate", Unit::BitsPerSecond)
            .with_range(least.max(most / MAX_LOG_SPAN) / 2.0, bps * 1.5),
        _ => Axis::linear("rate", Unit::BitsPerSecond),
    }
}

fn queue(l: &LinkResult, points: usize) -> Chart {
    let s = l.series.coarser(l.series.end_ns / points as u64);
    let one = |name: &str, unit: Unit, range: fn(&LinkPeriod) -> Envelope| {
        let mut band: Vec<[f64; 3]> = s
            .iter()
            .map(|(t_ns, x)| [seconds(t_ns), range(x).min() as f64, range(x).max() as f64])
            .collect();
        if let Some(&[_, low, high]) = band.last() {
            band.push([seconds(s.end_ns), low, high]);
        }
        let mean = steps(&s, |_, x| range(x).mean());
        let curves =
            vec![Curve::new("least to most", 5, Shape::Band(band)), Curve::new("mean", 4, mean)];
        let most = s.iter().map(|(_, x)| range(x).max()).max().unwrap_or(0);
        let description = format!(
            "Least and most {name} waiting in the queue of link {} over time; at most {}.",
            l.name,
            format::count(most)
        );
        let plot = over_time("Queue length", description, Axis::linear(name, unit), &s, curves);
        variant(name, "time", plot)
    };
    Chart {
        variants: vec![
            one("packets", Unit::Count, |x| x.queue_packets),
            one("bytes", Unit::Bytes, |x| x.queue_bytes),
        ],
        remark: "The band spans the extremes of each period, so short peaks stay visible."
            .to_owned(),
    }
}

fn delay_cdf(l: &LinkResult, points: usize) -> Chart {
    let axis = latency_axis("delay", &l.total_ns, l.delay_ns.min(l.queue_ns.min()), l.delay_ns);
    let mut curves = vec![
        Curve::new("in queue", 5, cumulative(&l.queue_ns, points)),
        Curve::new("total", 0, cumulative(&l.total_ns, points)),
    ];
    if l.delay_ns > 0 {
        let name = if l.delay_varies { "configured mean delay" } else { "configured delay" };
        curves.push(Curve::new(name, 4, Shape::Mark(l.delay_ns as f64)));
    }
    let plot = Plot {
        title: "Delay, cumulative".to_owned(),
        description: format!(
            "Share of packets of link {} delayed at most this long. Total: median {}, 99th \
             percentile {}.",
            l.name,
            micro(&format::duration(l.total_ns.quantile(0.5) as f64)),
            micro(&format::duration(l.total_ns.quantile(0.99) as f64))
        ),
        x: axis,
        y: Axis::linear("packets", Unit::Fraction).with_range(0.0, 1.0),
        curves,
    };
    Chart { variants: vec![variant("", "latency", plot)], remark: String::new() }
}

fn delay_histogram(l: &LinkResult) -> Chart {
    let axis = latency_axis("total delay", &l.total_ns, l.delay_ns, l.delay_ns);
    let mut curves = vec![Curve::new("total", 0, Shape::Bars(binned(&l.total_ns, &axis)))];
    if l.delay_ns > 0 {
        let name = if l.delay_varies { "configured mean delay" } else { "configured delay" };
        curves.push(Curve::new(name, 4, Shape::Mark(l.delay_ns as f64)));
    }
    let plot = Plot {
        title: "Delay, distribution".to_owned(),
        description: format!("Share of packets of link {} for each range of total delay.", l.name),
        x: axis,
        y: Axis::linear("packets", Unit::Fraction),
        curves,
    };
    Chart { variants: vec![variant("", "latency", plot)], remark: String::new() }
}

fn drops(l: &LinkResult, points: usize) -> Chart {
    let title = ("Drops", "packets dropped", l.counters.total_drops());
    by_reason(l, points, title, |period| {
        period.drop_counts().of_all().map(|(reason, n)| (reason.words(), n)).collect()
    })
}

fn marks(l: &LinkResult, points: usize) -> Chart {
    let title = ("Marks", "packets marked", l.counters.total_marks());
    by_reason(l, points, title, |period| {
        period.mark_counts().of_all().map(|(reason, n)| (reason.words(), n)).collect()
    })
}

fn by_reason(
    l: &LinkResult,
    points: usize,
    (title, axis, total): (&str, &'static str, u64),
    counts: fn(&LinkPeriod) -> Vec<(&'static str, u64)>,
) -> Chart {
    let s = l.series.coarser(l.series.end_ns / (points as u64 / 4).max(1));
    let counted: Vec<_> = s.iter().map(|(t_ns, period)| (t_ns, counts(period))).collect();
    let reasons = counted.first().map_or(0, |(_, counts)| counts.len());
    let occurs = |&reason: &usize| counted.iter().any(|(_, counts)| counts[reason].1 > 0);
    let mut floor = vec![0.0; counted.len()];
    let mut curves = Vec::new();
    for (reason, colour) in (0..reasons).filter(occurs).zip(REASON_COLOURS.into_iter().cycle()) {
        let mut bars = Vec::new();
        for ((t_ns, counts), floor) in counted.iter().zip(&mut floor) {
            let (from, count) = (seconds(*t_ns), counts[reason].1 as f64);
            if count > 0.0 {
                bars.push([from, from + seconds(s.span_ns(*t_ns)), *floor, *floor + count]);
                *floor += count;
            }
        }
        curves.push(Curve::new(counted[0].1[reason].0, colour, Shape::Bars(bars)));
    }
    let period = micro(&format::duration(s.period_ns() as f64));
    let description =
        format!("{title} of link {} over time by reason, {} in all.", l.name, format::count(total));
    let remark = format!("Packets in each {period}.");
    let plot = over_time(title, description, Axis::linear(axis, Unit::Count), &s, curves);
    Chart { variants: vec![variant("", "time", plot)], remark }
}

fn lateness(l: &LinkResult, points: usize) -> Chart {
    let axis = latency_axis(
        "released later than intended by",
        &l.lateness_ns,
        l.lateness_ns.quantile(0.005),
        LATE_NS,
    );
    let plot = Plot {
        title: "Lateness of the machine".to_owned(),
        description: format!(
            "Share of packets of link {} released at most this long after their intended time. \
             Median {}, 99th percentile {}.",
            l.name,
            micro(&format::duration(l.lateness_ns.quantile(0.5) as f64)),
            micro(&format::duration(l.lateness_ns.quantile(0.99) as f64))
        ),
        x: axis,
        y: Axis::linear("packets", Unit::Fraction).with_range(0.0, 1.0),
        curves: vec![
            Curve::new("lateness", 2, cumulative(&l.lateness_ns, points)),
            Curve::new("1 ms", 1, Shape::Mark(LATE_NS as f64)),
        ],
    };
    let late = l.late().map_or(String::new(), Late::in_words);
    Chart {
        variants: vec![variant("", "latency", plot)],
        remark: format!("{late} left more than 1 ms late."),
    }
}

fn over_time(
    title: &str,
    description: String,
    y: Axis,
    s: &LinkSeries,
    curves: Vec<Curve>,
) -> Plot {
    let x = Axis::linear("time", Unit::Seconds).with_range(0.0, seconds(s.end_ns.max(1)));
    Plot { title: title.to_owned(), description, x, y, curves }
}

fn steps(s: &LinkSeries, value: impl Fn(u64, &LinkPeriod) -> f64) -> Shape {
    let mut points: Vec<[f64; 2]> =
        s.iter().map(|(t_ns, x)| [seconds(t_ns), value(t_ns, x)]).collect();
    if let Some(&[_, last]) = points.last() {
        points.push([seconds(s.end_ns), last]);
    }
    Shape::Steps(points)
}

/// An axis for the latencies in `h`, and for the times `least` and `most`, in ns. The axis is
/// logarithmic if its largest value is more than 20 times the 0.005 quantile of `h`, or more than
/// 20 times `most` if `most` is not 0.
fn latency_axis(label: &str, h: &Histogram, least: u64, most: u64) -> Axis {
    let bulk = h.quantile(0.005).max(1);
    let bulk = if most > 0 { bulk.min(most) } else { bulk } as f64;
    let low = h.min().min(least) as f64;
    let high = h.max().max(most) as f64;
    if high > bulk * 20.0 {
        Axis::log(label, Unit::Nanoseconds)
            .with_range((low.min(bulk) * 0.9).max(bulk / MAX_LOG_SPAN).max(1.0), high * 1.1)
    } else {
        let room = (high - low).max(high * 0.02).max(1.0) * 0.06;
        Axis::linear(label, Unit::Nanoseconds).with_range((low - room).max(0.0), high + room)
    }
}

/// The cumulative distribution of `h`, thinned to about `points` points without losing the ends.
fn cumulative(h: &Histogram, points: usize) -> Shape {
    let (total, mut seen) = (h.count().max(1) as f64, 0);
    let mut all = vec![[h.min() as f64, 0.0]];
    for bin in h.bins() {
        seen += bin.count;
        // No value is above the maximum.
        let end = bin.high.saturating_add(1).clamp(h.min(), h.max());
        all.push([end as f64, seen as f64 / total]);
    }
    let every = all.len().div_ceil(points).max(1);
    let last = all.len() - 1;
    Shape::Line(
        all.into_iter()
            .enumerate()
            .filter(|(i, _)| i % every == 0 || *i == last)
            .map(|(_, p)| p)
            .collect(),
    )
}

/// The histogram as bars of equal width on the axis.
fn binned(h: &Histogram, axis: &Axis) -> Vec<[f64; 4]> {
    let (low, high) = axis.range.unwrap_or((h.min() as f64, h.max() as f64));
    let log = axis.scale == Scale::Log;
    let ratio = (high / low).log2() / BARS as f64;
    let edge = |i: usize| {
        if log {
            low * (ratio * i as f64).exp2()
        } else {
            low + (high - low) * i as f64 / BARS as f64
        }
    };
    let mut shares = [0.0; BARS];
    for bin in h.bins() {
        // Spread each bin over the bars it covers; otherwise bars narrower than a bin would show a
        // comb.
        let end = bin.high.saturating_add(1);
        let (from, to) = (bin.low.max(h.min()) as f64, end.min(h.max()) as f64);
        let share = bin.count as f64 / h.count() as f64;
        let first = bar_of(from, &edge);
        let last = bar_of(to.max(from), &edge);
        for (i, slot) in shares.iter_mut().enumerate().take(last + 1).skip(first) {
            let covered = (edge(i + 1).min(to) - edge(i).max(from)).max(0.0);
            *slot += if first == last { share } else { share * covered / (to - from) };
        }
    }
    shares
        .into_iter()
        .enumerate()
        .filter(|(_, s)| *s > 0.0)
        .map(|(i, s)| [edge(i), edge(i + 1), 0.0, s])
        .collect()
}

/// The bar that contains a value; values outside all bars belong to the first or the last bar.
fn bar_of(value: f64, edge: &impl Fn(usize) -> f64) -> usize {
    (1..BARS).find(|&i| value < edge(i)).unwrap_or(BARS) - 1
}

pub(super) fn variant(name: &str, kind: &'static str, plot: Plot) -> Variant {
    let curves = plot.curves.iter().map(values).collect();
    let data =
        Data { kind, x: unit_name(plot.x.unit), y: unit_name(plot.y.unit), curves, detail: None };
    Variant { name: name.to_owned(), plot, data }
}

fn values(curve: &Curve) -> Values {
    let rows = |points: &[[f64; 2]]| points.iter().map(|p| p.map(Number).to_vec()).collect();
    let (shape, points) = match &curve.shape {
        Shape::Line(p) | Shape::Dashes(p) => ("line", rows(p)),
        Shape::Dots(p) => ("dot", rows(p)),
        Shape::Steps(p) => ("step", rows(p)),
        Shape::Band(p) => ("step", p.iter().map(|p| p.map(Number).to_vec()).collect()),
        Shape::Bars(p) => {
            ("bar", p.iter().map(|b| [b[0], b[1], b[3] - b[2]].map(Number).to_vec()).collect())
        }
        Shape::Level(_) | Shape::Mark(_) => ("none", Vec::new()),
    };
    Values { name: curve.name.clone(), colour: curve.colour, shape, points }
}

/// A number with five digits, or with all digits if it is whole: precise enough to read, short to
/// store.
#[derive(Clone, Copy)]
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 == self.0.trunc() && self.0.abs() < 1e15 {
            return serializer.serialize_i64(self.0 as i64);
        }
        // Formatting and parsing again gives the shortest text with these digits.
        serializer.serialize_f64(format!("{:.4e}", self.0).parse().unwrap_or(self.0))
    }
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::BitsPerSecond => "bps",
        Unit::Nanoseconds => "ns",
        Unit::Seconds => "s",
        Unit::Bytes => "bytes",
        Unit::Count => "count",
        Unit::Fraction => "fraction",
    }
}

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

pub(super) fn micro(text: &str) -> String {
    text.replace(" us", " µs")
}

/// Minimum period of the throughput plot, ns; in a run shorter than 40 such periods, a fortieth of
/// the run.
const MIN_RATE_PERIOD_NS: u64 = 100_000_000;
/// A logarithmic axis of latencies begins at most this factor below the smaller of the 0.005
/// quantile and the parameter `most` of [`latency_axis`]. A logarithmic axis of rates begins at
/// most twice this factor below the greatest measured rate. Smaller values are shown at the
/// beginning of the axis.
const MAX_LOG_SPAN: f64 = 100.0;
/// The axis of rates is logarithmic if the configured rate is more than this multiple of the
/// greatest measured rate.
const MUCH: f64 = 20.0;
/// Number of bars of a distribution.
const BARS: usize = 64;
/// Palette of reasons: adjacent colours also differ in lightness.
const REASON_COLOURS: [u8; 7] = [1, 6, 3, 5, 2, 4, 0];
