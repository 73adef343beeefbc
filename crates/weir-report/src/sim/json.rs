//! The summary of a scenario for programs: one JSON object with a fixed order of keys.
//!
//! Times in keys that end in `_s` are seconds, others integers in nanoseconds; rates are in bit/s
//! and count network-layer bytes, goodput payload bytes. Of several runs, counts and rates are
//! means over runs, distributions are of all their packets together, `runs` has every run's
//! figures, and `ci95` how far the true mean may lie from the one given. Of a single run, `batches`
//! has its means over twentieths of the time, by which [`super::compare()`] judges differences.
//! Keys are only ever added.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use weir_measure::distribution::Distribution;
use weir_measure::scenario::{ClassOutcome, FlowOutcome, LinkOutcome, Outcome, RunSeries};
use weir_measure::series::{FlowPeriod, LinkPeriod};
use weir_measure::stats::{DropCounts, MarkCounts, Reasons};

use super::Results;
use super::figures::{Figure, estimate, figures_of_flow, figures_of_link, merged};

/// The summary as pretty-printed JSON with a final newline. The same runs give the same bytes.
pub fn to_json(results: &Results) -> String {
    to_json_with(results, None)
}

/// The same with `cpu_s`, the time that processors worked for it: the one key that differs each
/// time.
pub fn to_json_with(results: &Results, cpu_s: Option<f64>) -> String {
    let mut text = serde_json::to_string_pretty(&Summary::of(results, cpu_s))
        .expect("plain data with text keys always serialises");
    text.push('\n');
    text
}

#[derive(Serialize)]
struct Summary<'a> {
    seed: u64,
    simulated_s: Number,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_s: Option<f64>,
    events: u64,
    flows: Vec<Flow<'a>>,
    links: Vec<Link<'a>>,
    scenario: &'a str,
    source: &'a str,
    warmup_s: Number,
    fairness: BTreeMap<&'a str, Number>,
    runs: Vec<Run<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batches: Option<Batches<'a>>,
}

#[derive(Serialize)]
struct Flow<'a> {
    name: &'a str,
    kind: &'a str,
    goodput_bps: Number,
    delay_ns: Latency,
    sent: Number,
    received: Number,
    lost: Number,
    retransmitted: Number,
    from: &'a str,
    to: &'a str,
    throughput_bps: Number,
    sent_bytes: Number,
    received_bytes: Number,
    goodput_bytes: Number,
    carried: Number,
    duplicated: Number,
    inside: Number,
    drops: BTreeMap<&'a str, Number>,
    marks: BTreeMap<&'a str, Number>,
    marked: Number,
    jitter_ns: Number,
    opened: Number,
    completed: Number,
    completion_ns: Latency,
    balanced: bool,
    ci95: Map<String, Value>,
}

#[derive(Serialize)]
struct Link<'a> {
    name: &'a str,
    from: &'a str,
    to: &'a str,
    rate_bps: Option<u64>,
    delay_ns: u64,
    packets_in: Number,
    packets_out: Number,
    bytes_in: Number,
    bytes_out: Number,
    backlog_packets: Number,
    duplicated: Number,
    drops: BTreeMap<&'a str, Number>,
    marks: BTreeMap<&'a str, Number>,
    /// The sojourn time.
    queue_ns: Latency,
    total_ns: Latency,
    /// Without a clock nothing is late; as of a live link.
    lateness_ns: Lateness,
    spec: &'a str,
    loss: Option<Number>,
    corrupted: Number,
    reordered: Number,
    peak_queue_packets: Number,
    mean_out_bps: Number,
    /// The busiest second; `None` when the series has no whole ones.
    peak_out_bps: Option<Number>,
    late_fraction: Option<Number>,
    balanced: bool,
    utilisation: Option<Number>,
    carried: Number,
    sojourn_ns: Latency,
    classes: Vec<Class<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inversions: Option<Value>,
    ci95: Map<String, Value>,
}

#[derive(Serialize)]
struct Class<'a> {
    class: u16,
    packets: Number,
    bytes: Number,
    drops: BTreeMap<&'a str, Number>,
    marks: BTreeMap<&'a str, Number>,
    sojourn_ns: Latency,
}

#[derive(Default, Serialize)]
struct Lateness {
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

#[derive(Serialize)]
struct Latency {
    mean: u64,
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
    min: u64,
    count: u64,
}

#[derive(Serialize)]
struct Run<'a> {
    seed: u64,
    events: u64,
    flows: Vec<Figures<'a>>,
    links: Vec<Figures<'a>>,
}

#[derive(Serialize)]
struct Figures<'a> {
    name: &'a str,
    #[serde(flatten)]
    figures: Map<String, Value>,
}

#[derive(Serialize)]
struct Batches<'a> {
    /// How long a batch is.
    length_s: Number,
    flows: Vec<Batch<'a>>,
    links: Vec<Batch<'a>>,
}

#[derive(Serialize)]
struct Batch<'a> {
    name: &'a str,
    #[serde(flatten)]
    means: BTreeMap<&'static str, Vec<Number>>,
}

impl<'a> Summary<'a> {
    fn of(results: &'a Results, cpu_s: Option<f64>) -> Self {
        let runs = &results.runs;
        let first = runs.first();
        let count = |f: fn(&'a Outcome) -> usize| first.map_or(0, f);
        let mut fairness = BTreeMap::new();
        for kind in first.iter().flat_map(|run| run.fairness.keys()) {
            fairness.insert(
                kind.as_str(),
                mean(runs, |run| run.fairness.get(kind).copied().unwrap_or(0.0)),
            );
        }
        Self {
            seed: first.map_or(0, |run| run.seed),
            simulated_s: first.map_or(Number(0.0), |run| seconds(run.end_ns)),
            cpu_s,
            events: runs.iter().map(|run| run.events).sum(),
            flows: (0..count(|run| run.flows.len())).filter_map(|n| Flow::of(runs, n)).collect(),
            links: (0..count(|run| run.links.len())).filter_map(|n| Link::of(runs, n)).collect(),
            scenario: first.map_or("", |run| &run.scenario),
            source: &results.source,
            warmup_s: first.map_or(Number(0.0), |run| seconds(run.warmup_ns)),
            fairness,
            runs: runs.iter().map(Run::of).collect(),
            batches: first.filter(|_| runs.len() == 1).and_then(Batches::of),
        }
    }
}

impl<'a> Flow<'a> {
    fn of(runs: &'a [Outcome], n: usize) -> Option<Self> {
        let all: Vec<&'a FlowOutcome> = runs.iter().filter_map(|run| run.flows.get(n)).collect();
        let first = *all.first()?;
        let of = |f: fn(&FlowOutcome) -> u64| mean(&all, |flow| f(flow) as f64);
        let figures: Vec<_> =
            runs.iter().filter_map(|run| Some(figures_of_flow(run, run.flows.get(n)?))).collect();
        let bps = |name| estimate(&figures, name).map_or(Number(0.0), |e| rounded(e.mean));
        Some(Self {
            name: &first.name,
            kind: &first.kind,
            goodput_bps: bps("goodput_bps"),
            delay_ns: Latency::of(&merged(all.iter().map(|f| &f.delay_ns))),
            sent: of(|f| f.sent),
            received: of(|f| f.received),
            lost: of(|f| f.lost),
            retransmitted: of(|f| f.retransmitted),
            from: &first.from,
            to: &first.to,
            throughput_bps: bps("throughput_bps"),
            sent_bytes: of(|f| f.sent_bytes),
            received_bytes: of(|f| f.received_bytes),
            goodput_bytes: of(|f| f.goodput_bytes),
            carried: of(|f| f.carried),
            duplicated: of(|f| f.duplicated),
            inside: of(|f| f.inside),
            drops: drops(all.iter().map(|f| &f.reasons)),
            marks: marks(all.iter().map(|f| &f.reasons)),
            marked: of(|f| f.marked),
            jitter_ns: bps("jitter_ns"),
            opened: of(|f| f.opened),
            completed: of(|f| f.completed),
            completion_ns: Latency::of(&merged(all.iter().map(|f| &f.completion_ns))),
            balanced: all.iter().all(|f| f.balanced()),
            ci95: intervals(&figures),
        })
    }
}

impl<'a> Link<'a> {
    fn of(runs: &'a [Outcome], n: usize) -> Option<Self> {
        let all: Vec<&'a LinkOutcome> = runs.iter().filter_map(|run| run.links.get(n)).collect();
        let first = *all.first()?;
        let of = |f: fn(&LinkOutcome) -> u64| mean(&all, |link| f(link) as f64);
        let figures: Vec<_> =
            runs.iter().filter_map(|run| Some(figures_of_link(run, run.links.get(n)?))).collect();
        let queue = merged(all.iter().map(|l| &l.queue_ns));
        let inversions = first.inversions.map(|_| {
            let part = |i: usize| mean(&all, |l| l.inversions.map_or(0.0, |parts| parts[i] as f64));
            json!({ "pairs": part(0), "services": part(1), "unpifoness": part(2) })
        });
        Some(Self {
            name: &first.name,
            from: &first.from,
            to: &first.to,
            rate_bps: first.rate_bps,
            delay_ns: first.delay_ns,
            packets_in: of(|l| l.counters.packets_in),
            packets_out: of(|l| l.counters.packets_out),
            bytes_in: of(|l| l.counters.bytes_in),
            bytes_out: of(|l| l.counters.bytes_out),
            backlog_packets: of(|l| l.counters.backlog_packets),
            duplicated: of(|l| l.counters.duplicated),
            drops: drops(all.iter().map(|l| l.counters.reasons())),
            marks: marks(all.iter().map(|l| l.counters.reasons())),
            queue_ns: Latency::of(&queue),
            total_ns: Latency::of(&merged(all.iter().map(|l| &l.total_ns))),
            lateness_ns: Lateness::default(),
            spec: &first.spec,
            loss: first.loss.map(rounded),
            corrupted: of(|l| l.counters.corrupted),
            reordered: of(|l| l.counters.reordered),
            peak_queue_packets: of(|l| l.counters.peak_queue_packets),
            mean_out_bps: estimate(&figures, "throughput_bps")
                .map_or(Number(0.0), |e| rounded(e.mean)),
            peak_out_bps: busiest_second(runs, n).map(rounded),
            late_fraction: None,
            balanced: all.iter().all(|l| l.counters.balanced()),
            utilisation: estimate(&figures, "utilisation").map(|e| rounded(e.mean)),
            carried: of(|l| l.counters.carried),
            sojourn_ns: Latency::of(&queue),
            classes: (0..first.classes.len()).map(|class| Class::of(&all, class)).collect(),
            inversions,
            ci95: intervals(&figures),
        })
    }
}

impl<'a> Class<'a> {
    fn of(links: &[&'a LinkOutcome], n: usize) -> Self {
        let all: Vec<&'a ClassOutcome> =
            links.iter().filter_map(|link| link.classes.get(n)).collect();
        Self {
            class: all.first().map_or(0, |class| class.class),
            packets: mean(&all, |class| class.packets as f64),
            bytes: mean(&all, |class| class.bytes as f64),
            drops: drops(all.iter().map(|class| &class.reasons)),
            marks: marks(all.iter().map(|class| &class.reasons)),
            sojourn_ns: Latency::of(&merged(all.iter().map(|class| &class.queue_ns))),
        }
    }
}

impl Latency {
    fn of(d: &Distribution) -> Self {
        let Distribution { count, min, max, .. } = *d;
        Self {
            mean: d.mean().round() as u64,
            p50: d.quantile(0.5),
            p99: d.quantile(0.99),
            p999: d.quantile(0.999),
            max,
            min,
            count,
        }
    }
}

impl<'a> Run<'a> {
    fn of(run: &'a Outcome) -> Self {
        let flow = |f: &'a FlowOutcome| Figures {
            name: &f.name,
            figures: numbers(&figures_of_flow(run, f)),
        };
        let link = |l: &'a LinkOutcome| Figures {
            name: &l.name,
            figures: numbers(&figures_of_link(run, l)),
        };
        let (flows, links) =
            (run.flows.iter().map(flow).collect(), run.links.iter().map(link).collect());
        Self { seed: run.seed, events: run.events, flows, links }
    }
}

impl<'a> Batches<'a> {
    /// Means over twentieths of what was counted; `None` when there are fewer intervals than that.
    fn of(run: &'a Outcome) -> Option<Self> {
        let series = &run.series;
        let from = run.warmup_ns.div_ceil(series.interval_ns.max(1)) as usize;
        // The last interval may be cut short: it is left out with what does not fill a batch.
        let whole = (series.end_ns / series.interval_ns.max(1)) as usize;
        let each = whole.saturating_sub(from) / BATCHES;
        let batches: Vec<_> =
            (0..BATCHES).map(|n| from + n * each..from + (n + 1) * each).collect();
        let flow =
            |(n, flow): (usize, &'a FlowOutcome)| Batch::of_flow(&flow.name, series, n, &batches);
        let link =
            |(n, link): (usize, &'a LinkOutcome)| Batch::of_link(&link.name, series, n, &batches);
        (each > 0).then(|| Self {
            length_s: seconds(each as u64 * series.interval_ns),
            flows: run.flows.iter().enumerate().map(flow).collect(),
            links: run.links.iter().enumerate().map(link).collect(),
        })
    }
}

impl<'a> Batch<'a> {
    fn of_flow(
        name: &'a str,
        series: &RunSeries,
        n: usize,
        batches: &[std::ops::Range<usize>],
    ) -> Self {
        let empty = Vec::new();
        let samples = series.flows.get(n).unwrap_or(&empty);
        let sum = |range: &std::ops::Range<usize>, f: fn(&FlowPeriod) -> u64| -> f64 {
            samples.get(range.clone()).unwrap_or_default().iter().map(|s| f(s) as f64).sum()
        };
        let bps = |f| {
            batches
                .iter()
                .map(|r| rounded(sum(r, f) * 8e9 / (r.len() as f64 * series.interval_ns as f64)))
                .collect()
        };
        let delay = |r| rounded(sum(r, |s| s.delay_sum_ns) / sum(r, |s| s.received).max(1.0));
        let mut means = BTreeMap::from([
            ("goodput_bps", bps(|s| s.goodput_bytes)),
            ("throughput_bps", bps(|s| s.received_bytes)),
        ]);
        if batches.iter().all(|r| sum(r, |s| s.received) > 0.0) {
            means.insert("delay_mean_ns", batches.iter().map(delay).collect());
        }
        Self { name, means }
    }

    fn of_link(
        name: &'a str,
        series: &RunSeries,
        n: usize,
        batches: &[std::ops::Range<usize>],
    ) -> Self {
        let empty = Vec::new();
        let samples = series.links.get(n).unwrap_or(&empty);
        let sum = |range: &std::ops::Range<usize>, f: fn(&LinkPeriod) -> u64| -> f64 {
            samples.get(range.clone()).unwrap_or_default().iter().map(|s| f(s) as f64).sum()
        };
        let bps = batches.iter().map(|r| {
            rounded(sum(r, |s| s.bytes_out) * 8e9 / (r.len() as f64 * series.interval_ns as f64))
        });
        let queue = |r| {
            rounded(
                sum(r, |s| s.queue_packets.sum() as u64)
                    / sum(r, |s| s.queue_packets.weight()).max(1.0),
            )
        };
        let queues = batches.iter().map(queue).collect();
        Self {
            name,
            means: BTreeMap::from([("throughput_bps", bps.collect()), ("queue_packets", queues)]),
        }
    }
}

/// The greatest rate over any second after the warm-up, in steps of the series; `None` when its
/// intervals do not make up seconds.
fn busiest_second(runs: &[Outcome], n: usize) -> Option<f64> {
    let of_run = |run: &Outcome| {
        let interval = run.series.interval_ns.max(1);
        let each = usize::try_from(1_000_000_000 / interval)
            .ok()
            .filter(|&each| each > 0 && 1_000_000_000u64.is_multiple_of(interval))?;
        let samples = run.series.links.get(n)?.get(run.warmup_ns.div_ceil(interval) as usize..)?;
        samples
            .windows(each)
            .map(|second| second.iter().map(|s| s.bytes_out).sum::<u64>() as f64 * 8.0)
            .reduce(f64::max)
    };
    runs.iter().filter_map(of_run).reduce(f64::max)
}

/// Names and values, as a JSON object; what a run says nothing of is `null`.
fn numbers(figures: &[Figure]) -> Map<String, Value> {
    figures
        .iter()
        .map(|f| (f.name.to_owned(), f.value.map_or(Value::Null, |v| json!(rounded(v)))))
        .collect()
}

/// Half the width of each figure's interval of confidence; empty of a single run.
fn intervals(runs: &[Vec<Figure>]) -> Map<String, Value> {
    let names = runs.first().into_iter().flatten().map(|f| f.name);
    let half =
        |name: &str| Some((name.to_owned(), json!(rounded(estimate(runs, name)?.half_width?))));
    names.filter_map(half).collect()
}

/// Means of drops by reason.
fn drops<'a>(runs: impl Iterator<Item = &'a Reasons>) -> BTreeMap<&'static str, Number> {
    let runs: Vec<&Reasons> = runs.collect();
    let mut all = DropCounts::default();
    runs.iter().for_each(|reasons| all.merge(reasons.drop_counts()));
    let share = |n: u64| rounded(n as f64 / runs.len() as f64);
    all.iter().map(|(reason, n)| (reason.name(), share(n))).collect()
}

/// Means of marks by reason.
fn marks<'a>(runs: impl Iterator<Item = &'a Reasons>) -> BTreeMap<&'static str, Number> {
    let runs: Vec<&Reasons> = runs.collect();
    let mut all = MarkCounts::default();
    runs.iter().for_each(|reasons| all.merge(reasons.mark_counts()));
    let share = |n: u64| rounded(n as f64 / runs.len() as f64);
    all.iter().map(|(reason, n)| (reason.name(), share(n))).collect()
}

fn mean<T>(runs: &[T], value: impl Fn(&T) -> f64) -> Number {
    rounded(runs.iter().map(value).sum::<f64>() / runs.len().max(1) as f64)
}

fn seconds(ns: u64) -> Number {
    rounded(ns as f64 / 1e9)
}

/// Nine significant digits: more than any figure is worth, and the same text for the same runs.
fn rounded(value: f64) -> Number {
    if value == value.trunc() && value.abs() < 1e15 {
        Number(value)
    } else {
        Number(format!("{value:.8e}").parse().unwrap_or(value))
    }
}

/// A number; a whole one without a fraction.
#[derive(Clone, Copy, Debug)]
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 == self.0.trunc() && self.0.abs() < 1e15 {
            return serializer.serialize_i64(self.0 as i64);
        }
        serializer.serialize_f64(self.0)
    }
}

/// Parts that a single run is cut into.
const BATCHES: usize = 20;
