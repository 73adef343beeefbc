//! The metrics of a flow or link in one run.
//!
//! One list of names serves the runs of the summary, its confidence intervals, the tables of the
//! report and the comparisons.

use weir_measure::distribution::Distribution;
use weir_measure::estimate::Estimate;
use weir_measure::scenario::{FlowOutcome, LinkOutcome, Outcome};

use super::Results;

/// One number of a flow or link in one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Metric {
    /// The name, which ends in the unit.
    pub(crate) name: &'static str,
    /// The value; `None` where the run has none, such as a delay without packets.
    pub(crate) value: Option<f64>,
}

pub(crate) fn metrics_of_flow(run: &Outcome, f: &FlowOutcome) -> Vec<Metric> {
    let given = f.carried + f.sent + f.duplicated;
    let mut all = vec![
        some("goodput_bps", run.bps(f.goodput_bytes)),
        some("throughput_bps", run.bps(f.received_bytes)),
        some("sent", f.sent as f64),
        some("received", f.received as f64),
        some("lost", f.lost as f64),
        Metric { name: "loss", value: (given > 0).then(|| f.lost as f64 / given as f64) },
        some("retransmitted", f.retransmitted as f64),
        some("marked", f.marked as f64),
        Metric { name: "jitter_ns", value: (f.received > 1).then_some(f.jitter_ns) },
    ];
    latencies(&mut all, DELAY, &f.delay_ns);
    if f.completed > 0 {
        all.push(some("completed", f.completed as f64));
        latencies(&mut all, COMPLETION, &f.completion_ns);
    }
    if f.switches_ns.count > 0 {
        latencies(&mut all, SWITCHES, &f.switches_ns);
    }
    all
}

pub(crate) fn metrics_of_link(run: &Outcome, l: &LinkOutcome) -> Vec<Metric> {
    let arrived = l.counters.carried + l.counters.packets_in + l.counters.duplicated;
    let mut all = vec![
        some("throughput_bps", run.bps(l.counters.bytes_out)),
        Metric { name: "utilisation", value: run.utilisation(l) },
        some("packets_out", l.counters.packets_out as f64),
        some("drops", l.counters.total_drops() as f64),
        Metric {
            name: "drop_share",
            value: (arrived > 0).then(|| l.counters.total_drops() as f64 / arrived as f64),
        },
        some("marks", l.counters.total_marks() as f64),
        some("peak_queue_packets", l.counters.peak_queue_packets as f64),
    ];
    latencies(&mut all, QUEUE, &l.queue_ns);
    latencies(&mut all, TOTAL, &l.total_ns);
    if let Some([pairs, inverted, _]) = l.inversions {
        all.push(some("inversions", pairs as f64));
        all.push(some("inverted", inverted as f64));
    }
    all
}

/// A metric's estimate over all runs; `None` when no run has a value.
pub(crate) fn estimate(runs: &[Vec<Metric>], name: &str) -> Option<Estimate> {
    let of_run =
        |metrics: &Vec<Metric>| metrics.iter().find(|f| f.name == name).and_then(|f| f.value);
    let values: Vec<f64> = runs.iter().filter_map(of_run).collect();
    (!values.is_empty()).then(|| Estimate::of(&values))
}

/// The one-way delays of a flow over all runs.
pub(crate) fn merged_delay(results: &Results, flow: usize) -> Distribution {
    merged(results.runs.iter().filter_map(|run| run.flows.get(flow)).map(|f| &f.delay_ns))
}

/// The queueing delays of a link over all runs.
pub(crate) fn merged_queue(results: &Results, link: usize) -> Distribution {
    merged(results.runs.iter().filter_map(|run| run.links.get(link)).map(|l| &l.queue_ns))
}

pub(crate) fn merged<'a>(parts: impl Iterator<Item = &'a Distribution>) -> Distribution {
    let mut all = Distribution::default();
    parts.for_each(|part| all.merge(part));
    all
}

fn latencies(all: &mut Vec<Metric>, names: [&'static str; 5], distribution: &Distribution) {
    let at = |q: f64| distribution.quantile(q) as f64;
    let values = [distribution.mean(), at(0.5), at(0.99), at(0.999), at(1.0)];
    let known = distribution.count > 0;
    all.extend(
        names
            .into_iter()
            .zip(values)
            .map(|(name, value)| Metric { name, value: known.then_some(value) }),
    );
}

fn some(name: &'static str, value: f64) -> Metric {
    Metric { name, value: Some(value) }
}

const DELAY: [&str; 5] =
    ["delay_mean_ns", "delay_p50_ns", "delay_p99_ns", "delay_p999_ns", "delay_max_ns"];
const COMPLETION: [&str; 5] = [
    "completion_mean_ns",
    "completion_p50_ns",
    "completion_p99_ns",
    "completion_p999_ns",
    "completion_max_ns",
];
const SWITCHES: [&str; 5] = [
    "switches_mean_ns",
    "switches_p50_ns",
    "switches_p99_ns",
    "switches_p999_ns",
    "switches_max_ns",
];
const QUEUE: [&str; 5] =
    ["queue_mean_ns", "queue_p50_ns", "queue_p99_ns", "queue_p999_ns", "queue_max_ns"];
const TOTAL: [&str; 5] =
    ["total_mean_ns", "total_p50_ns", "total_p99_ns", "total_p999_ns", "total_max_ns"];
