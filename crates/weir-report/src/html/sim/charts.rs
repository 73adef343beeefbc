//! The plots of a scenario: rates, queues and delays of flows and links, over one run or as bands
//! over several.

use weir_measure::distribution::Distribution;
use weir_measure::scenario::{Outcome, RunSeries};
use weir_measure::series::{Envelope, FlowPeriod, LinkPeriod};

use super::super::charts::{Chart, micro, seconds, variant};
use crate::format;
use crate::plot::{Axis, Curve, Plot, Shape, Unit};
use crate::sim::{Results, merged_delay, merged_queue};

/// Selects the links that have plots: those with the most queueing, drops and traffic. Returns
/// their indices in the order of the scenario.
pub(super) fn busiest_links(results: &Results) -> Vec<usize> {
    let Some(first) = results.runs.first() else { return Vec::new() };
    let weight = |n: usize| -> u128 {
        let of_run = |run: &Outcome| {
            run.links.get(n).map_or(0, |l| {
                l.queue_ns.sum
                    + u128::from(l.counters.total_drops()) * 1_000_000
                    + u128::from(l.counters.bytes_out)
            })
        };
        results.runs.iter().map(of_run).sum()
    };
    let mut all: Vec<usize> = (0..first.links.len()).filter(|&n| weight(n) > 0).collect();
    all.sort_by_key(|&n| (std::cmp::Reverse(weight(n)), n));
    all.truncate(MAX_LINKS);
    all.sort_unstable();
    all
}

/// The plots that show several flows together. If there are too many flows for one plot, they show
/// the flows with the most traffic.
pub(super) fn of_flows(results: &Results) -> Vec<Chart> {
    let Some(first) = results.runs.first() else { return Vec::new() };
    let weight = |n: usize| {
        results
            .runs
            .iter()
            .filter_map(|run| run.flows.get(n))
            .map(|f| f.received_bytes)
            .sum::<u64>()
    };
    let mut shown: Vec<usize> = (0..first.flows.len()).filter(|&n| weight(n) > 0).collect();
    let all = shown.len();
    shown.sort_by_key(|&n| (std::cmp::Reverse(weight(n)), n));
    shown.truncate(COLOURS.len());
    shown.sort_unstable();
    if shown.is_empty() {
        return Vec::new();
    }
    let remark = if all > shown.len() {
        format!("The {} flows with the most traffic of {all}.", shown.len())
    } else {
        String::new()
    };
    let mut charts = Vec::new();
    if !first.series.is_empty() {
        charts.push(flow_rates(results, first, &shown, &remark));
        charts.push(flow_delays(results, first, &shown, &remark));
    }
    let merged: Vec<Distribution> = shown.iter().map(|&n| merged_delay(results, n)).collect();
    let named: Vec<_> = shown
        .iter()
        .zip(&merged)
        .zip(COLOURS)
        .map(|((&n, d), colour)| (first.flows[n].name.as_str(), colour, d))
        .collect();
    charts.push(cumulative("One-way delay, cumulative", "delay", &named, None, remark));
    charts
}

pub(super) fn of_link(results: &Results, n: usize) -> Vec<Chart> {
    let Some(first) = results.runs.first() else { return Vec::new() };
    let mut charts = Vec::new();
    if !first.series.is_empty() {
        charts.push(link_rate(results, first, n));
        charts.push(queue(results, first, n));
    }
    let queue = merged_queue(results, n);
    if queue.count > 0 {
        let total = merged_total(results, n);
        let link = &first.links[n];
        let name = if link.delay_varies { "configured mean delay" } else { "configured delay" };
        let curves = vec![("in queue", 5, &queue), ("total", 0, &total)];
        charts.push(cumulative(
            "Delay, cumulative",
            "delay",
            &curves,
            (link.delay_ns > 0).then_some((name, link.delay_ns)),
            String::new(),
        ));
    }
    let drops_and_marks: u64 = results
        .runs
        .iter()
        .filter_map(|run| run.links.get(n))
        .map(|l| l.counters.total_drops() + l.counters.total_marks())
        .sum();
    if !first.series.is_empty() && drops_and_marks > 0 {
        charts.push(losses(results, first, n));
    }
    charts
}

/// The times from arrival at a link to delivery at its other end, over all runs.
fn merged_total(results: &Results, n: usize) -> Distribution {
    let mut all = Distribution::default();
    results.runs.iter().filter_map(|run| run.links.get(n)).for_each(|l| all.merge(&l.total_ns));
    all
}

fn flow_rates(results: &Results, first: &Outcome, shown: &[usize], remark: &str) -> Chart {
    let period = Periods::whole(&first.series, RATE_POINTS);
    let mut curves = Vec::new();
    for (&n, colour) in shown.iter().zip(COLOURS) {
        let bps = |run: &Outcome| {
            period.flow(run, n, |samples, span| {
                samples.iter().map(|s| s.received_bytes).sum::<u64>() as f64 * 8e9 / span
            })
        };
        period.curves(
            results,
            &first.flows[n].name,
            colour,
            shown.len() <= MAX_BANDS,
            bps,
            &mut curves,
        );
    }
    let description = "Rate of what arrives of each flow over time.".to_owned();
    let remark = format!("{remark} Means over {}.", period.words()).trim().to_owned();
    period.chart(
        "Throughput of flows",
        description,
        Axis::linear("rate", Unit::BitsPerSecond),
        curves,
        remark,
    )
}

fn flow_delays(results: &Results, first: &Outcome, shown: &[usize], remark: &str) -> Chart {
    let period = Periods::whole(&first.series, RATE_POINTS);
    let mut curves = Vec::new();
    for (&n, colour) in shown.iter().zip(COLOURS) {
        let mean = |samples: &[FlowPeriod], _| {
            let received: u64 = samples.iter().map(|s| s.received).sum();
            if received == 0 {
                f64::NAN
            } else {
                samples.iter().map(|s| s.delay_sum_ns as f64).sum::<f64>() / received as f64
            }
        };
        let delays = |run: &Outcome| held(period.flow(run, n, mean));
        period.curves(
            results,
            &first.flows[n].name,
            colour,
            shown.len() <= MAX_BANDS,
            delays,
            &mut curves,
        );
    }
    let description = "Mean one-way delay of what arrives of each flow over time.".to_owned();
    let remark = format!("{remark} Means over {}.", period.words()).trim().to_owned();
    period.chart(
        "One-way delay of flows",
        description,
        Axis::linear("delay", Unit::Nanoseconds),
        curves,
        remark,
    )
}

fn link_rate(results: &Results, first: &Outcome, n: usize) -> Chart {
    let period = Periods::whole(&first.series, RATE_POINTS);
    let link = &first.links[n];
    let mut curves = Vec::new();
    let rate = |run: &Outcome, bytes: fn(&LinkPeriod) -> u64| {
        period.link(run, n, |samples, span| {
            samples.iter().map(bytes).sum::<u64>() as f64 * 8e9 / span
        })
    };
    period.curves(results, "in", 1, false, |run| rate(run, |s| s.bytes_in), &mut curves);
    period.curves(results, "out", 0, true, |run| rate(run, |s| s.bytes_out), &mut curves);
    if let Some(bps) = link.rate_bps {
        let name = if link.rate_varies { "configured mean" } else { "configured" };
        curves.push(Curve::new(name, 4, Shape::Level(bps as f64)));
    }
    let description = format!("Rate into and out of link {} over time.", link.name);
    let remark = format!("Means over {}.", period.words());
    period.chart(
        "Throughput",
        description,
        Axis::linear("rate", Unit::BitsPerSecond),
        curves,
        remark,
    )
}

/// The plot of the queue's least, mean and greatest length. With several runs, least and greatest
/// are those of all runs.
fn queue(results: &Results, first: &Outcome, n: usize) -> Chart {
    let period = Periods::new(&first.series, QUEUE_POINTS);
    let link = &first.links[n];
    let one = |name: &str, unit: Unit, envelope: fn(&LinkPeriod) -> Envelope| {
        let low = |run: &Outcome| {
            period.link(run, n, |samples, _| {
                samples.iter().map(|s| envelope(s).min()).min().unwrap_or(0) as f64
            })
        };
        let high = |run: &Outcome| {
            period.link(run, n, |samples, _| {
                samples.iter().map(|s| envelope(s).max()).max().unwrap_or(0) as f64
            })
        };
        let mean = |run: &Outcome| {
            period.link(run, n, |samples, _| {
                let mut all = Envelope::default();
                samples.iter().for_each(|s| all.merge(&envelope(s)));
                all.sum() / all.weight().max(1) as f64
            })
        };
        let highs = fold(results.runs.iter().map(high), f64::max);
        let band = period.band(&fold(results.runs.iter().map(low), f64::min), &highs);
        let mut curves = vec![Curve::new("least to most", 5, Shape::Band(band))];
        period.curves(results, "mean", 4, false, mean, &mut curves);
        let most = format::count(highs.into_iter().fold(0.0, f64::max) as u64);
        let description = format!(
            "Least, mean and most {name} waiting in link {} over time; at most {most}.",
            link.name
        );
        variant(
            name,
            "time",
            period.plot("Queue length", description, Axis::linear(name, unit), curves),
        )
    };
    let remark = format!(
        "The band spans the extremes of each {}; the most packets are exact.",
        period.words()
    );
    Chart {
        variants: vec![
            one("packets", Unit::Count, |s| s.queue_packets),
            one("bytes", Unit::Bytes, |s| s.queue_bytes),
        ],
        remark,
    }
}

type Losses = fn(&LinkPeriod) -> u64;

/// The plot of drops and marks in each period, as means over runs.
fn losses(results: &Results, first: &Outcome, n: usize) -> Chart {
    let period = Periods::new(&first.series, LOSS_POINTS);
    let counts = |f: Losses| {
        let of = |run: &Outcome| {
            period.link(run, n, |samples, _| samples.iter().map(f).sum::<u64>() as f64)
        };
        fold(results.runs.iter().map(of), |a, b| a + b)
            .into_iter()
            .map(|sum| sum / results.runs.len() as f64)
            .collect::<Vec<f64>>()
    };
    let mut floor = vec![0.0; period.len()];
    let mut curves = Vec::new();
    let all: [(&str, u8, Losses); 2] =
        [("dropped", 1, |s| s.drops()), ("marked", 2, |s| s.marks())];
    for (name, colour, f) in all {
        let mut bars = Vec::new();
        for (i, value) in counts(f).into_iter().enumerate().filter(|(_, value)| *value > 0.0) {
            let (from, to) = period.span(i);
            bars.push([from, to, floor[i], floor[i] + value]);
            floor[i] += value;
        }
        if !bars.is_empty() {
            curves.push(Curve::new(name, colour, Shape::Bars(bars)));
        }
    }
    let description =
        format!("Packets dropped and marked in link {} over time.", first.links[n].name);
    let remark = format!("Packets in each {}.", period.words());
    period.chart(
        "Drops and marks",
        description,
        Axis::linear("packets", Unit::Count),
        curves,
        remark,
    )
}

/// The plot of the share of packets with at most each delay.
fn cumulative(
    title: &str,
    label: &str,
    curves: &[(&str, u8, &Distribution)],
    configured: Option<(&str, u64)>,
    remark: String,
) -> Chart {
    let filled = || curves.iter().map(|(_, _, d)| *d).filter(|d| d.count > 0);
    let low = filled().map(|d| d.min).min().unwrap_or(0);
    let bulk =
        filled().map(|d| d.quantile(0.005)).filter(|&ns| ns > 0).min().unwrap_or(1).max(1) as f64;
    let high =
        filled().map(|d| d.max).max().unwrap_or(1).max(configured.map_or(0, |(_, ns)| ns)) as f64;
    let x = if high > bulk * 20.0 {
        Axis::log(label, Unit::Nanoseconds).with_range(bulk * 0.9, high * 1.25)
    } else {
        let room = (high - low as f64).max(high * 0.02).max(1.0) * 0.06;
        Axis::linear(label, Unit::Nanoseconds).with_range((low as f64 - room).max(0.0), high + room)
    };
    let medians: Vec<String> = curves
        .iter()
        .map(|(name, _, d)| format!("{name} {}", micro(&format::duration(d.quantile(0.5) as f64))))
        .collect();
    let description =
        format!("Share of packets delayed at most this long. Medians: {}.", medians.join(", "));
    let mut all: Vec<Curve> = curves
        .iter()
        .filter(|(_, _, d)| d.count > 0)
        .map(|(name, colour, d)| Curve::new(name, *colour, shares(d)))
        .collect();
    all.extend(configured.map(|(name, ns)| Curve::new(name, 4, Shape::Mark(ns as f64))));
    let y = Axis::linear("packets", Unit::Fraction).with_range(0.0, 1.0);
    let plot = Plot { title: title.to_owned(), description, x, y, curves: all };
    Chart { variants: vec![variant("", "latency", plot)], remark }
}

/// The share of values up to each value, thinned without losing the ends.
fn shares(d: &Distribution) -> Shape {
    let mut points = vec![[d.min as f64, 0.0]];
    let (mut seen, mut shown) = (0, 0);
    for (i, bin) in d.bins.iter().enumerate() {
        seen += bin.count;
        // A point follows after 1/400 of the values, after about 1/100 of the bins, and at the end.
        if (seen - shown) * CDF_POINTS >= d.count
            || i % (d.bins.len() / 100).max(1) == 0
            || i + 1 == d.bins.len()
        {
            points.push([bin.high.clamp(d.min, d.max) as f64, seen as f64 / d.count as f64]);
            shown = seen;
        }
    }
    Shape::Line(points)
}

/// The time of a series, divided into periods of several intervals.
struct Periods<'a> {
    series: &'a RunSeries,
    /// The number of intervals in a period.
    each: usize,
    /// Whether to leave out a last period that the end of the run cuts short; its rates would jump.
    whole: bool,
}

impl<'a> Periods<'a> {
    fn new(series: &'a RunSeries, points: usize) -> Self {
        Self { series, each: series.len().div_ceil(points).max(1), whole: false }
    }

    /// Periods for rates and means.
    fn whole(series: &'a RunSeries, points: usize) -> Self {
        Self { whole: series.len() > points.min(2), ..Self::new(series, points) }
    }

    fn len(&self) -> usize {
        self.series.len().div_ceil(self.each)
    }

    /// Start and end of a period, s.
    fn span(&self, n: usize) -> (f64, f64) {
        let at = |n: usize| {
            seconds(((n * self.each) as u64 * self.series.interval_ns).min(self.series.end_ns))
        };
        (at(n), at(n + 1))
    }

    fn words(&self) -> String {
        micro(&format::exact_duration(self.each as u64 * self.series.interval_ns))
    }

    /// A value for each period of flow `n`. `value` receives the samples in the period and the
    /// length of the period in ns.
    fn flow(&self, run: &Outcome, n: usize, value: impl Fn(&[FlowPeriod], f64) -> f64) -> Vec<f64> {
        self.values(run.series.flows.get(n).map_or(&[][..], Vec::as_slice), value)
    }

    /// A value for each period of link `n`, as with [`Self::flow`].
    fn link(&self, run: &Outcome, n: usize, value: impl Fn(&[LinkPeriod], f64) -> f64) -> Vec<f64> {
        self.values(run.series.links.get(n).map_or(&[][..], Vec::as_slice), value)
    }

    fn values<T>(&self, samples: &[T], value: impl Fn(&[T], f64) -> f64) -> Vec<f64> {
        let length = |n: usize| {
            let (from, to) = self.span(n);
            ((to - from) * 1e9).max(1.0)
        };
        let full = |chunk: &&[T]| !self.whole || chunk.len() == self.each;
        samples
            .chunks(self.each)
            .filter(full)
            .enumerate()
            .map(|(n, chunk)| value(chunk, length(n)))
            .collect()
    }

    /// Adds the mean over runs to `curves`, as steps. With `band` and several runs, also adds a
    /// band from the least to the greatest value.
    fn curves(
        &self,
        results: &Results,
        name: &str,
        colour: u8,
        band: bool,
        of: impl Fn(&Outcome) -> Vec<f64>,
        curves: &mut Vec<Curve>,
    ) {
        let runs: Vec<Vec<f64>> = results.runs.iter().map(of).collect();
        if band && runs.len() > 1 {
            let (low, high) =
                (fold(runs.iter().cloned(), f64::min), fold(runs.iter().cloned(), f64::max));
            curves.push(Curve::new("", colour, Shape::Band(self.band(&low, &high))));
        }
        let count = runs.len() as f64;
        let means: Vec<f64> =
            fold(runs.into_iter(), |a, b| a + b).into_iter().map(|sum| sum / count).collect();
        let mut points: Vec<[f64; 2]> =
            means.iter().enumerate().map(|(n, &y)| [self.span(n).0, y]).collect();
        points.extend(points.last().map(|&[_, y]| [seconds(self.series.end_ns), y]));
        points.retain(|point| point[1].is_finite());
        curves.push(Curve::new(name, colour, Shape::Steps(points)));
    }

    fn band(&self, low: &[f64], high: &[f64]) -> Vec<[f64; 3]> {
        let mut band: Vec<[f64; 3]> = low
            .iter()
            .zip(high)
            .enumerate()
            .map(|(n, (&low, &high))| [self.span(n).0, low, high])
            .collect();
        band.extend(band.last().map(|&[_, low, high]| [seconds(self.series.end_ns), low, high]));
        band.retain(|point| point[1].is_finite() && point[2].is_finite());
        band
    }

    fn plot(&self, title: &str, description: String, y: Axis, curves: Vec<Curve>) -> Plot {
        let x =
            Axis::linear("time", Unit::Seconds).with_range(0.0, seconds(self.series.end_ns.max(1)));
        Plot { title: title.to_owned(), description, x, y, curves }
    }

    fn chart(
        &self,
        title: &str,
        description: String,
        y: Axis,
        curves: Vec<Curve>,
        remark: String,
    ) -> Chart {
        Chart {
            variants: vec![variant("", "time", self.plot(title, description, y, curves))],
            remark,
        }
    }
}

/// Combines the values of all runs, period by period.
fn fold(mut runs: impl Iterator<Item = Vec<f64>>, together: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let first = runs.next().unwrap_or_default();
    runs.fold(first, |all, run| all.into_iter().zip(run).map(|(a, b)| together(a, b)).collect())
}

/// Gives each period without a value the value of the period before it.
fn held(values: Vec<f64>) -> Vec<f64> {
    let mut last = f64::NAN;
    let keep = |value: f64| {
        last = if value.is_finite() { value } else { last };
        last
    };
    values.into_iter().map(keep).collect()
}

/// Maximum number of links with plots.
pub(super) const MAX_LINKS: usize = 12;
/// Maximum number of flows in one plot with bands: more would hide each other.
const MAX_BANDS: usize = 3;
/// Palette of flows, in an order that makes adjacent colours differ most.
const COLOURS: [u8; 6] = [0, 1, 2, 3, 5, 6];
/// Maximum number of points, for each kind of plot.
const RATE_POINTS: usize = 150;
const QUEUE_POINTS: usize = 300;
const LOSS_POINTS: usize = 100;
/// The values are divided into this many equal parts; a cumulative plot gets a point after each.
const CDF_POINTS: u64 = 400;
