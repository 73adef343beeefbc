//! The results document of a scenario: one JSON object with a fixed order of keys.
//!
//! Keys that end in `_s` are in seconds, keys that end in `_ns` in nanoseconds. Rates are in bit/s
//! and count network-layer bytes; goodput counts payload bytes. With several runs, counts and rates
//! are means over the runs, distributions contain the packets of all runs, `runs` has the metrics
//! of each run, and `ci95` is the half width of the confidence interval of each mean. With a single
//! run, `batches` has the means over twentieths of the run, by which [`super::compare()`] judges
//! differences. Keys may be added, but are not removed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use weir_measure::document::{Document, Kind, Number};
use weir_measure::estimate::Estimate;
use weir_measure::latency::Latency;
use weir_measure::means::{LinkMeans, ReasonMeans};
use weir_measure::scenario::{ClassOutcome, FlowOutcome, LinkOutcome, Outcome, RunSeries};
use weir_measure::series::{FlowPeriod, LinkPeriod};

use super::metrics::{Metric, estimate, merged, metrics_of_flow, metrics_of_link};
use super::{NodeOutcome, Results};

/// The summary as pretty-printed JSON with a final newline. Equal runs give equal bytes.
pub fn to_json(results: &Results) -> String {
    to_json_with(results, None)
}

/// The summary with `cpu_s`, the processor time of the measurement. It is the only key that differs
/// between equal runs.
pub fn to_json_with(results: &Results, cpu_s: Option<f64>) -> String {
    Document::new(Kind::Scenario, Scenario::of(results, cpu_s)).to_json()
}

/// The results of the points of a sweep, each with the settings of the point.
pub fn sweep_to_json(points: &[(&[(String, String)], Results)], cpu_s: Option<f64>) -> String {
    let outcomes = || points.iter().flat_map(|(_, results)| &results.runs);
    let body = Sweep {
        seed: outcomes().next().map_or(0, |outcome| outcome.seed),
        simulated_s: seconds(outcomes().map(|outcome| outcome.end_ns).sum()),
        cpu_s,
        events: outcomes().map(|outcome| outcome.events).sum(),
        flows: [],
        links: [],
        sweep: points
            .iter()
            .map(|(settings, results)| Point {
                set: settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
                scenario: Scenario::of(results, None),
            })
            .collect(),
    };
    Document::new(Kind::Sweep, body).to_json()
}

/// The body of a document of the kind `sweep`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Sweep<'a> {
    /// The seed of the first run.
    seed: u64,
    /// Simulated time of all runs in total, s.
    simulated_s: Number,
    /// Processor time of the measurement, s.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_s: Option<f64>,
    /// Events handled in all runs.
    events: u64,
    /// Always empty: each point of the sweep has its own flows.
    flows: [(); 0],
    /// Always empty: each point of the sweep has its own links.
    links: [(); 0],
    /// The points of the sweep.
    sweep: Vec<Point<'a>>,
}

/// A point of a sweep.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "SweepPoint")]
struct Point<'a> {
    /// The keys of the scenario that the point sets, with their values.
    set: BTreeMap<&'a str, &'a str>,
    #[serde(flatten)]
    scenario: Scenario<'a>,
}

/// The body of a document of the kind `scenario`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Scenario<'a> {
    /// The seed of the first run.
    seed: u64,
    /// Simulated time of a run including the warm-up, s.
    simulated_s: Number,
    /// Processor time of the measurement, s. The only key that differs between equal runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_s: Option<f64>,
    /// Events handled in all runs.
    events: u64,
    /// The flows and groups of flows.
    flows: Vec<Flow<'a>>,
    /// The directions of all links.
    links: Vec<Link<'a>>,
    /// The scenario's name.
    scenario: &'a str,
    /// The program that ran the scenario: `sim` or `live`.
    source: &'a str,
    /// The end of the warm-up, when counting starts, s.
    warmup_s: Number,
    /// Jain's index over the goodput of the flows of one kind, for each kind with several flows.
    fairness: BTreeMap<&'a str, Number>,
    /// The metrics of each run.
    runs: Vec<Run<'a>>,
    /// Means over twentieths of the run; present for a single run only.
    #[serde(skip_serializing_if = "Option::is_none")]
    batches: Option<Batches<'a>>,
}

/// The results of a flow, or of a group of flows. Counts and rates are means over runs;
/// distributions contain the packets of all runs.
#[derive(Debug, JsonSchema, Serialize)]
struct Flow<'a> {
    /// The name in the scenario.
    name: &'a str,
    /// The kind of traffic.
    kind: &'a str,
    /// Rate of payload that reached the application, each byte counted once, bit/s.
    goodput_bps: Number,
    /// One-way delay of the packets that arrived.
    delay_ns: Latency,
    /// Packets sent into the network.
    sent: Number,
    /// Packets that arrived.
    received: Number,
    /// Packets lost in the network.
    lost: Number,
    /// Segments that were retransmitted.
    retransmitted: Number,
    /// The sending host.
    from: &'a str,
    /// The receiving host.
    to: &'a str,
    /// Rate of network-layer bytes that arrived, bit/s.
    throughput_bps: Number,
    /// Network-layer bytes of the packets sent.
    sent_bytes: Number,
    /// Network-layer bytes of the packets that arrived.
    received_bytes: Number,
    /// Payload bytes that reached the application, each counted once.
    goodput_bytes: Number,
    /// Packets that were in the network when counting started.
    carried: Number,
    /// Duplicates that links made.
    duplicated: Number,
    /// Packets that were in the network when the run ended.
    inside: Number,
    #[serde(flatten)]
    reasons: ReasonMeans,
    /// Packets that arrived with congestion experienced.
    marked: Number,
    /// Mean difference between the delays of consecutive arrivals, ns.
    jitter_ns: Number,
    /// Flows that started.
    opened: Number,
    /// Flows that ended.
    completed: Number,
    /// Time from start to end of the flows that ended.
    completion_ns: Latency,
    /// Time in the traffic managers of the switches on the path, for the packets that arrived;
    /// present if the path has switches with rank programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    switches_ns: Option<Latency>,
    /// Whether every packet is accounted for.
    balanced: bool,
    /// Half width of the 95 % confidence interval of each metric; empty for a single run.
    ci95: Map<String, Value>,
    /// Mean of each metric over the runs: the centre of the interval of `ci95`; empty for a single
    /// run. Each run counts once. In distributions, each packet of all runs counts once.
    means: Map<String, Value>,
}

/// The results of one direction of a link. Counts and rates are means over runs; distributions
/// contain the packets of all runs.
#[derive(Debug, JsonSchema, Serialize)]
struct Link<'a> {
    /// The name of this direction.
    name: &'a str,
    /// The node that sends packets into the link.
    from: &'a str,
    /// The node to which the link delivers packets.
    to: &'a str,
    /// Configured rate, bit/s; null when unlimited, even for a part of the time. If it changes, its
    /// mean while packets are counted.
    rate_bps: Option<u64>,
    /// Configured propagation delay, ns. If it changes, its mean while packets are counted.
    delay_ns: u64,
    #[serde(flatten)]
    counters: LinkMeans,
    /// Queueing delay.
    queue_ns: Latency,
    /// Time from arrival to delivery at the other end.
    total_ns: Latency,
    /// Always 0: the lateness of a live run is that of all links together, in `runs`.
    lateness_ns: Latency,
    /// The configuration in the command language.
    spec: &'a str,
    /// Configured random loss as a fraction; null without random loss. If it changes, its mean over
    /// time.
    loss: Option<Number>,
    /// Mean rate of departures, bit/s.
    mean_out_bps: Number,
    /// Highest rate of departures over any second of the series after the warm-up, bit/s; null when
    /// there is no such second, or a second is not a multiple of the series' interval.
    peak_out_bps: Option<Number>,
    /// Always null: the late packets of a live run are counted for all links together, in `runs`.
    late_fraction: Option<Number>,
    /// Whether every packet is accounted for.
    balanced: bool,
    /// Fraction of the configured rate that was used; null when unlimited.
    utilisation: Option<Number>,
    /// The queues of a port with one queue per class; empty for other ports.
    classes: Vec<Class>,
    /// Rank inversions, where the scenario requests them.
    #[serde(skip_serializing_if = "Option::is_none")]
    inversions: Option<Inversions>,
    /// Half width of the 95 % confidence interval of each metric; empty for a single run.
    ci95: Map<String, Value>,
    /// Mean of each metric over the runs: the centre of the interval of `ci95`; empty for a single
    /// run. Each run counts once. In distributions, each packet of all runs counts once.
    means: Map<String, Value>,
}

/// Rank inversions at a port.
#[derive(Debug, JsonSchema, Serialize)]
struct Inversions {
    /// Pairs of a served packet and a waiting packet of lower rank.
    pairs: Number,
    /// Served packets with at least one such pair.
    services: Number,
    /// Sum over the pairs of the difference of the ranks.
    unpifoness: Number,
}

/// The results of the queue of one class.
#[derive(Debug, JsonSchema, Serialize)]
struct Class {
    /// The class.
    class: u16,
    /// Packets that departed from the queue.
    packets: Number,
    /// Network-layer bytes of the packets that departed from the queue.
    bytes: Number,
    #[serde(flatten)]
    reasons: ReasonMeans,
    /// Queueing delay.
    queue_ns: Latency,
}

/// The metrics of one run.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "ScenarioRun")]
struct Run<'a> {
    /// The run's seed.
    seed: u64,
    /// Events handled.
    events: u64,
    /// The metrics of the flows.
    flows: Vec<RunMetrics<'a>>,
    /// The metrics of the directions of links.
    links: Vec<RunMetrics<'a>>,
    /// The hosts that ran programs or containers.
    #[serde(skip_serializing_if = "<[NodeOutcome]>::is_empty")]
    nodes: &'a [NodeOutcome],
    /// Packets that departed more than 1 ms late, of all links; only in live runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    late_packets: Option<u64>,
    /// Lateness of the packets of all links over the whole run; only in live runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    lateness_ns: Option<Latency>,
}

/// The metrics of a flow or link in one run. Each key is a metric's name, which ends in its unit;
/// null where the run has no value.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "RunNumbers")]
struct RunMetrics<'a> {
    /// The name of the flow or link.
    name: &'a str,
    #[serde(flatten)]
    metrics: Map<String, Value>,
}

/// Means over parts of a run.
#[derive(Debug, JsonSchema, Serialize)]
struct Batches<'a> {
    /// Duration of a part, s.
    length_s: Number,
    /// The means of the flows.
    flows: Vec<Batch<'a>>,
    /// The means of the directions of links.
    links: Vec<Batch<'a>>,
}

/// The means of a flow or link over the parts of a run, in order. Each key is a metric's name,
/// which ends in its unit.
#[derive(Debug, JsonSchema, Serialize)]
struct Batch<'a> {
    /// The name of the flow or link.
    name: &'a str,
    #[serde(flatten)]
    means: BTreeMap<&'static str, Vec<Number>>,
}

impl<'a> Scenario<'a> {
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
            simulated_s: first.map_or(Number::default(), |run| seconds(run.end_ns)),
            cpu_s,
            events: runs.iter().map(|run| run.events).sum(),
            flows: (0..count(|run| run.flows.len())).filter_map(|n| Flow::of(runs, n)).collect(),
            links: (0..count(|run| run.links.len())).filter_map(|n| Link::of(runs, n)).collect(),
            scenario: first.map_or("", |run| &run.scenario),
            source: &results.source,
            warmup_s: first.map_or(Number::default(), |run| seconds(run.warmup_ns)),
            fairness,
            runs: (0..)
                .zip(runs)
                .map(|(n, run)| Run::of(run, results.nodes.get(n).map_or(&[], Vec::as_slice)))
                .collect(),
            batches: first.filter(|_| runs.len() == 1).and_then(Batches::of),
        }
    }
}

impl<'a> Flow<'a> {
    fn of(runs: &'a [Outcome], n: usize) -> Option<Self> {
        let all: Vec<&'a FlowOutcome> = runs.iter().filter_map(|run| run.flows.get(n)).collect();
        let first = *all.first()?;
        let of = |f: fn(&FlowOutcome) -> u64| mean(&all, |flow| f(flow) as f64);
        let metrics: Vec<_> =
            runs.iter().filter_map(|run| Some(metrics_of_flow(run, run.flows.get(n)?))).collect();
        let mean_of =
            |name| estimate(&metrics, name).map_or(Number::default(), |e| rounded(e.mean));
        Some(Self {
            name: &first.name,
            kind: &first.kind,
            goodput_bps: mean_of("goodput_bps"),
            delay_ns: Latency::from(&merged(all.iter().map(|f| &f.delay_ns))),
            sent: of(|f| f.sent),
            received: of(|f| f.received),
            lost: of(|f| f.lost),
            retransmitted: of(|f| f.retransmitted),
            from: &first.from,
            to: &first.to,
            throughput_bps: mean_of("throughput_bps"),
            sent_bytes: of(|f| f.sent_bytes),
            received_bytes: of(|f| f.received_bytes),
            goodput_bytes: of(|f| f.goodput_bytes),
            carried: of(|f| f.carried),
            duplicated: of(|f| f.duplicated),
            inside: of(|f| f.inside),
            reasons: ReasonMeans::of(all.iter().map(|f| &f.reasons)),
            marked: of(|f| f.marked),
            jitter_ns: mean_of("jitter_ns"),
            opened: of(|f| f.opened),
            completed: of(|f| f.completed),
            completion_ns: Latency::from(&merged(all.iter().map(|f| &f.completion_ns))),
            switches_ns: {
                let all = merged(all.iter().map(|f| &f.switches_ns));
                (all.count > 0).then(|| Latency::from(&all))
            },
            balanced: all.iter().all(|f| f.balanced()),
            ci95: intervals(&metrics),
            means: means(&metrics),
        })
    }
}

impl<'a> Link<'a> {
    fn of(runs: &'a [Outcome], n: usize) -> Option<Self> {
        let all: Vec<&'a LinkOutcome> = runs.iter().filter_map(|run| run.links.get(n)).collect();
        let first = *all.first()?;
        let metrics: Vec<_> =
            runs.iter().filter_map(|run| Some(metrics_of_link(run, run.links.get(n)?))).collect();
        let queue = merged(all.iter().map(|l| &l.queue_ns));
        let inversions = first.inversions.map(|_| {
            let part = |i: usize| mean(&all, |l| l.inversions.map_or(0.0, |parts| parts[i] as f64));
            Inversions { pairs: part(0), services: part(1), unpifoness: part(2) }
        });
        Some(Self {
            name: &first.name,
            from: &first.from,
            to: &first.to,
            rate_bps: first.rate_bps,
            delay_ns: first.delay_ns,
            counters: LinkMeans::of(all.iter().map(|l| &l.counters)),
            queue_ns: Latency::from(&queue),
            total_ns: Latency::from(&merged(all.iter().map(|l| &l.total_ns))),
            lateness_ns: Latency::default(),
            spec: &first.spec,
            loss: first.loss.map(rounded),
            mean_out_bps: estimate(&metrics, "throughput_bps")
                .map_or(Number::default(), |e| rounded(e.mean)),
            peak_out_bps: busiest_second(runs, n).map(rounded),
            late_fraction: None,
            balanced: all.iter().all(|l| l.counters.balanced()),
            utilisation: estimate(&metrics, "utilisation").map(|e| rounded(e.mean)),
            classes: (0..first.classes.len()).map(|class| Class::of(&all, class)).collect(),
            inversions,
            ci95: intervals(&metrics),
            means: means(&metrics),
        })
    }
}

impl Class {
    fn of(links: &[&LinkOutcome], n: usize) -> Self {
        let all: Vec<&ClassOutcome> = links.iter().filter_map(|link| link.classes.get(n)).collect();
        Self {
            class: all.first().map_or(0, |class| class.class),
            packets: mean(&all, |class| class.packets as f64),
            bytes: mean(&all, |class| class.bytes as f64),
            reasons: ReasonMeans::of(all.iter().map(|class| &class.reasons)),
            queue_ns: Latency::from(&merged(all.iter().map(|class| &class.queue_ns))),
        }
    }
}

impl<'a> Run<'a> {
    fn of(run: &'a Outcome, nodes: &'a [NodeOutcome]) -> Self {
        let flow = |f: &'a FlowOutcome| RunMetrics {
            name: &f.name,
            metrics: numbers(&metrics_of_flow(run, f)),
        };
        let link = |l: &'a LinkOutcome| RunMetrics {
            name: &l.name,
            metrics: numbers(&metrics_of_link(run, l)),
        };
        let (flows, links) =
            (run.flows.iter().map(flow).collect(), run.links.iter().map(link).collect());
        Self {
            seed: run.seed,
            events: run.events,
            flows,
            links,
            nodes,
            late_packets: run.lateness.as_ref().map(|lateness| lateness.late),
            lateness_ns: run.lateness.as_ref().map(|lateness| Latency::from(&lateness.ns)),
        }
    }
}

impl<'a> Batches<'a> {
    /// The means over twentieths of the counted time; `None` when the series has too few intervals.
    fn of(run: &'a Outcome) -> Option<Self> {
        let series = &run.series;
        let from = run.warmup_ns.div_ceil(series.interval_ns.max(1)) as usize;
        // An incomplete last interval is left out. Complete intervals that remain after the last
        // part are left out too.
        let complete = (series.end_ns / series.interval_ns.max(1)) as usize;
        let each = complete.saturating_sub(from) / BATCHES;
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

/// The highest rate of link `n` over any second after the warm-up in any run, bit/s. The seconds
/// begin at intervals of the series. `None` if a second is not a multiple of the interval, or if no
/// full second was counted.
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

/// The metrics as a JSON object; `null` where the run has no value.
fn numbers(metrics: &[Metric]) -> Map<String, Value> {
    metrics
        .iter()
        .map(|f| (f.name.to_owned(), f.value.map_or(Value::Null, |v| json!(rounded(v)))))
        .collect()
}

/// Half the width of each metric's confidence interval; empty for a single run.
fn intervals(runs: &[Vec<Metric>]) -> Map<String, Value> {
    of_each(runs, |estimate| estimate.half_width)
}

/// The centres of the intervals.
fn means(runs: &[Vec<Metric>]) -> Map<String, Value> {
    of_each(runs, |estimate| estimate.half_width.map(|_| estimate.mean))
}

/// A value of the estimate of each metric, by the metric's name.
fn of_each(runs: &[Vec<Metric>], value: impl Fn(&Estimate) -> Option<f64>) -> Map<String, Value> {
    let names = runs.first().into_iter().flatten().map(|f| f.name);
    let of = |name: &str| Some((name.to_owned(), json!(rounded(value(&estimate(runs, name)?)?))));
    names.filter_map(of).collect()
}

fn mean<T>(runs: &[T], value: impl Fn(&T) -> f64) -> Number {
    rounded(runs.iter().map(value).sum::<f64>() / runs.len().max(1) as f64)
}

fn seconds(ns: u64) -> Number {
    rounded(ns as f64 / 1e9)
}

fn rounded(value: f64) -> Number {
    Number::new(value)
}

/// The number of parts into which a single run is divided.
const BATCHES: usize = 20;
