//! The summary of a scenario for programs: one JSON object with a fixed order of keys.
//!
//! Flows and links have the keys of `weir sim --json` ([`weir_sim::summary`]) and more behind them. `figures` has the numbers of each run,
//! from which intervals and comparisons are made. Of a single run, `batches` has its means over twentieths of the time, by which
//! [`super::compare()`] judges differences. Times in keys that end in `_s` are seconds, others nanoseconds. Keys are only ever added.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use weir_sim::measure::{ClassOutcome, FlowOutcome, LinkOutcome, Outcome, Series};
use weir_sim::summary::{self, Delays};

use super::Results;
use super::figures::{Figure, figures_of_flow, figures_of_link, merged};

/// The summary as pretty-printed JSON with a final newline. The same runs give the same bytes.
pub fn to_json(results: &Results) -> String {
    let mut text = serde_json::to_string_pretty(&Summary::of(results)).expect("plain data with text keys always serialises");
    text.push('\n');
    text
}

#[derive(Serialize)]
struct Summary<'a> {
    seed: u64,
    simulated_s: Number,
    events: u64,
    flows: Vec<Flow<'a>>,
    links: Vec<Link<'a>>,
    scenario: &'a str,
    source: &'a str,
    warmup_s: Number,
    /// Jain's index over the flows of each kind.
    fairness: BTreeMap<&'a str, Number>,
    figures: Vec<Run<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batches: Option<Batches<'a>>,
}

#[derive(Serialize)]
struct Flow<'a> {
    #[serde(flatten)]
    common: summary::Flow,
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
    opened: Number,
    balanced: bool,
}

#[derive(Serialize)]
struct Link<'a> {
    #[serde(flatten)]
    common: summary::Link,
    carried: Number,
    classes: Vec<Class<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inversions: Option<Value>,
}

#[derive(Serialize)]
struct Class<'a> {
    class: u16,
    packets: Number,
    bytes: Number,
    drops: BTreeMap<&'a str, Number>,
    marks: BTreeMap<&'a str, Number>,
    sojourn_ns: Delays,
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
    fn of(results: &'a Results) -> Self {
        let runs = &results.runs;
        let first = runs.first();
        let mut fairness = BTreeMap::new();
        for kind in first.iter().flat_map(|run| run.fairness.keys()) {
            fairness.insert(kind.as_str(), mean(runs, |run| run.fairness.get(kind).copied().unwrap_or(0.0)));
        }
        Self {
            seed: first.map_or(0, |run| run.seed),
            simulated_s: rounded(runs.iter().map(|run| run.end_ns as f64).sum::<f64>() / 1e9),
            events: runs.iter().map(|run| run.events).sum(),
            flows: summary::flows(runs).into_iter().enumerate().map(|(n, common)| Flow::of(common, runs, n)).collect(),
            links: summary::links(runs).into_iter().enumerate().map(|(n, common)| Link::of(common, runs, n)).collect(),
            scenario: first.map_or("", |run| &run.scenario),
            source: &results.source,
            warmup_s: first.map_or(Number(0.0), |run| rounded(run.warmup_ns as f64 / 1e9)),
            fairness,
            figures: runs.iter().map(Run::of).collect(),
            batches: first.filter(|_| runs.len() == 1).and_then(Batches::of),
        }
    }
}

impl<'a> Flow<'a> {
    fn of(common: summary::Flow, runs: &'a [Outcome], n: usize) -> Self {
        let all: Vec<&'a FlowOutcome> = runs.iter().filter_map(|run| run.flows.get(n)).collect();
        let of = |f: fn(&FlowOutcome) -> u64| mean(&all, |flow| f(flow) as f64);
        Self {
            common,
            from: all.first().map_or("", |flow| &flow.from),
            to: all.first().map_or("", |flow| &flow.to),
            throughput_bps: mean(runs, |run| run.flows.get(n).map_or(0.0, |flow| run.bps(flow.received_bytes))),
            sent_bytes: of(|f| f.sent_bytes),
            received_bytes: of(|f| f.received_bytes),
            goodput_bytes: of(|f| f.goodput_bytes),
            carried: of(|f| f.carried),
            duplicated: of(|f| f.duplicated),
            inside: of(|f| f.inside),
            drops: reasons(all.iter().map(|f| &f.drops)),
            marks: reasons(all.iter().map(|f| &f.marks)),
            opened: of(|f| f.opened),
            balanced: all.iter().all(|f| f.balanced()),
        }
    }
}

impl<'a> Link<'a> {
    fn of(common: summary::Link, runs: &'a [Outcome], n: usize) -> Self {
        let all: Vec<&'a LinkOutcome> = runs.iter().filter_map(|run| run.links.get(n)).collect();
        let part = |i: usize| mean(&all, |l| l.inversions.map_or(0.0, |parts| parts[i] as f64));
        let counted = all.iter().any(|l| l.inversions.is_some());
        let classes = all.first().map_or(0, |link| link.classes.len());
        Self {
            common,
            carried: mean(&all, |l| l.carried as f64),
            classes: (0..classes).map(|class| Class::of(&all, class)).collect(),
            inversions: counted.then(|| json!({ "pairs": part(0), "services": part(1), "unpifoness": part(2) })),
        }
    }
}

impl<'a> Class<'a> {
    fn of(links: &[&'a LinkOutcome], n: usize) -> Self {
        let all: Vec<&'a ClassOutcome> = links.iter().filter_map(|link| link.classes.get(n)).collect();
        Self {
            class: all.first().map_or(0, |class| class.class),
            packets: mean(&all, |class| class.packets as f64),
            bytes: mean(&all, |class| class.bytes as f64),
            drops: reasons(all.iter().map(|class| &class.drops)),
            marks: reasons(all.iter().map(|class| &class.marks)),
            sojourn_ns: Delays::of(&merged(all.iter().map(|class| &class.queue_ns))),
        }
    }
}

impl<'a> Run<'a> {
    fn of(run: &'a Outcome) -> Self {
        let flow = |f: &'a FlowOutcome| Figures { name: &f.name, figures: numbers(&figures_of_flow(run, f)) };
        let link = |l: &'a LinkOutcome| Figures { name: &l.name, figures: numbers(&figures_of_link(run, l)) };
        let (flows, links) = (run.flows.iter().map(flow).collect(), run.links.iter().map(link).collect());
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
        let batches: Vec<_> = (0..BATCHES).map(|n| from + n * each..from + (n + 1) * each).collect();
        let flow = |(n, flow): (usize, &'a FlowOutcome)| Batch::of_flow(&flow.name, series, n, &batches);
        let link = |(n, link): (usize, &'a LinkOutcome)| Batch::of_link(&link.name, series, n, &batches);
        (each > 0).then(|| Self {
            length_s: rounded((each as u64 * series.interval_ns) as f64 / 1e9),
            flows: run.flows.iter().enumerate().map(flow).collect(),
            links: run.links.iter().enumerate().map(link).collect(),
        })
    }
}

impl<'a> Batch<'a> {
    fn of_flow(name: &'a str, series: &Series, n: usize, batches: &[std::ops::Range<usize>]) -> Self {
        let empty = Vec::new();
        let samples = series.flows.get(n).unwrap_or(&empty);
        let sum = |range: &std::ops::Range<usize>, f: fn(&weir_sim::measure::FlowSample) -> u64| -> f64 {
            samples.get(range.clone()).unwrap_or_default().iter().map(|s| f(s) as f64).sum()
        };
        let bps = |f| batches.iter().map(|r| rounded(sum(r, f) * 8e9 / (r.len() as f64 * series.interval_ns as f64))).collect();
        let delay = |r| rounded(sum(r, |s| s.delay_sum_ns) / sum(r, |s| s.received).max(1.0));
        let mut means = BTreeMap::from([("goodput_bps", bps(|s| s.goodput_bytes)), ("throughput_bps", bps(|s| s.received_bytes))]);
        if batches.iter().all(|r| sum(r, |s| s.received) > 0.0) {
            means.insert("delay_mean_ns", batches.iter().map(delay).collect());
        }
        Self { name, means }
    }

    fn of_link(name: &'a str, series: &Series, n: usize, batches: &[std::ops::Range<usize>]) -> Self {
        let empty = Vec::new();
        let samples = series.links.get(n).unwrap_or(&empty);
        let sum = |range: &std::ops::Range<usize>, f: fn(&weir_sim::measure::LinkSample) -> u64| -> f64 {
            samples.get(range.clone()).unwrap_or_default().iter().map(|s| f(s) as f64).sum()
        };
        let bps = batches.iter().map(|r| rounded(sum(r, |s| s.bytes_out) * 8e9 / (r.len() as f64 * series.interval_ns as f64)));
        let queue = |r| rounded(sum(r, |s| s.queue_packets.sum) / sum(r, |s| s.queue_packets.looks).max(1.0));
        let queues = batches.iter().map(queue).collect();
        Self { name, means: BTreeMap::from([("throughput_bps", bps.collect()), ("queue_packets", queues)]) }
    }
}

/// Names and values, as a JSON object; what a run says nothing of is `null`.
fn numbers(figures: &[Figure]) -> Map<String, Value> {
    figures.iter().map(|f| (f.name.to_owned(), f.value.map_or(Value::Null, |v| json!(rounded(v))))).collect()
}

fn reasons<'a>(runs: impl Iterator<Item = &'a BTreeMap<String, u64>>) -> BTreeMap<&'a str, Number> {
    let (mut all, mut count) = (BTreeMap::<&str, f64>::new(), 0);
    for run in runs {
        count += 1;
        run.iter().for_each(|(reason, n)| *all.entry(reason).or_default() += *n as f64);
    }
    all.into_iter().map(|(reason, n)| (reason, rounded(n / f64::from(count)))).collect()
}

fn mean<T>(runs: &[T], value: impl Fn(&T) -> f64) -> Number {
    rounded(runs.iter().map(value).sum::<f64>() / runs.len().max(1) as f64)
}

/// Nine significant digits: more than any figure is worth, and the same text for the same runs.
fn rounded(value: f64) -> Number {
    if value == value.trunc() && value.abs() < 1e15 { Number(value) } else { Number(format!("{value:.8e}").parse().unwrap_or(value)) }
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
