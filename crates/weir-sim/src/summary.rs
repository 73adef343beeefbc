//! The results of runs for programs: one JSON object with a fixed order of keys.
//!
//! A flow and a link have the keys of one run. Of several runs, counts and rates are means, delays are those of all packets of all
//! runs, and `ci95` says how far the true mean may lie from the one that is given. Keys are only ever added, behind those that are
//! there. Everything but `cpu_s` follows from the scenario and the seed.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::measure::{Distribution, Estimate, FlowOutcome, LinkOutcome, Outcome};
use crate::run::Point;

/// What runs gave.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Seed of the first run.
    pub seed: u64,
    /// Simulated time of all runs together, s.
    pub simulated_s: f64,
    /// Processor time that they took, s; `None` where bytes must not depend on the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Events of all runs together.
    pub events: u64,
    /// Flows; of a sweep they stand at its points.
    pub flows: Vec<Flow>,
    /// Ports; of a sweep they stand at its points.
    pub links: Vec<Link>,
    /// Each run, where there are several and no sweep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Run>,
    /// Each point of a sweep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<SweepPoint>,
}

/// One of several runs.
#[derive(Debug, Serialize)]
pub struct Run {
    /// Its seed.
    pub seed: u64,
    /// Its events.
    pub events: u64,
    /// Its flows.
    pub flows: Vec<Flow>,
    /// Its ports.
    pub links: Vec<Link>,
}

/// A point of a sweep.
#[derive(Debug, Serialize)]
pub struct SweepPoint {
    /// Keys and their values, as TOML.
    pub set: BTreeMap<String, String>,
    /// Events of its runs together.
    pub events: u64,
    /// Flows.
    pub flows: Vec<Flow>,
    /// Ports.
    pub links: Vec<Link>,
    /// Each run, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Run>,
}

/// Figures of a flow.
#[derive(Debug, Serialize)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// What kind of traffic it is.
    pub kind: String,
    /// Payload that reached the application, each byte once.
    pub goodput_bps: f64,
    /// One-way delay.
    pub delay_ns: Delays,
    /// Packets sent.
    pub sent: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Packets lost in the network.
    pub lost: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Packets that arrived marked.
    pub marked: u64,
    /// Mean difference between the delays of successive arrivals.
    pub jitter_ns: f64,
    /// Flows of it that ended.
    pub completed: u64,
    /// From beginning to end of flows that ended; `None` when none did.
    pub completion_ns: Option<Delays>,
    /// How far true means may lie from those given, with 95 % confidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<FlowBounds>,
}

/// Half widths of a flow's intervals of confidence.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FlowBounds {
    /// Of the goodput.
    pub goodput_bps: f64,
    /// Of the mean delay.
    pub delay_mean_ns: f64,
    /// Of the lost share of packets.
    pub loss: f64,
}

/// A distribution of times, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Delays {
    /// Mean.
    pub mean: u64,
    /// Median.
    pub p50: u64,
    /// What 99 of 100 stay below.
    pub p99: u64,
    /// What 999 of 1000 stay below.
    pub p999: u64,
    /// Greatest.
    pub max: u64,
}

/// Figures of a port: the keys that `weir run` has for a link, and the sojourn.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "they are those of the live link's results")]
pub struct Link {
    pub name: String,
    pub from: String,
    pub to: String,
    pub rate_bps: Option<u64>,
    pub delay_ns: u64,
    pub packets_in: u64,
    pub packets_out: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub backlog_packets: u64,
    pub duplicated: u64,
    pub drops: BTreeMap<String, u64>,
    pub marks: BTreeMap<String, u64>,
    pub queue_ns: Latency,
    pub total_ns: Latency,
    /// Without a clock nothing is late.
    pub lateness_ns: Lateness,
    pub spec: String,
    pub loss: Option<f64>,
    pub corrupted: u64,
    pub reordered: u64,
    pub peak_queue_packets: u64,
    pub mean_out_bps: u64,
    pub peak_out_bps: Option<u64>,
    pub late_fraction: Option<f64>,
    pub balanced: bool,
    /// Time in the queue, with the tail.
    pub sojourn_ns: Delays,
    /// Share of the rate that was used, 0 to 1; `None` without a rate.
    pub utilisation: Option<f64>,
    /// How far true means may lie from those given, with 95 % confidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<LinkBounds>,
}

/// Half widths of a port's intervals of confidence.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LinkBounds {
    /// Of the rate of what left.
    pub mean_out_bps: f64,
    /// Of the mean time in the queue.
    pub sojourn_mean_ns: f64,
}

/// A distribution of times as live links have it, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "as in `Delays`")]
pub struct Latency {
    pub mean: u64,
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
}

/// Lateness as live links have it, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "as in `Delays`")]
pub struct Lateness {
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

impl Summary {
    /// The results of all points; one without settings is no sweep.
    pub fn of(points: &[Point], cpu_s: Option<f64>) -> Self {
        let outcomes = || points.iter().flat_map(|point| &point.outcomes);
        let is_sweep = points.iter().any(|point| !point.settings.is_empty());
        let whole = points.first().filter(|_| !is_sweep).map_or(&[][..], |point| point.outcomes.as_slice());
        Self {
            seed: outcomes().next().map_or(0, |outcome| outcome.seed),
            simulated_s: outcomes().map(|outcome| outcome.end_ns as f64).sum::<f64>() / 1e9,
            cpu_s,
            events: outcomes().map(|outcome| outcome.events).sum(),
            flows: flows(whole),
            links: links(whole),
            runs: runs(whole),
            sweep: points.iter().filter(|_| is_sweep).map(SweepPoint::of).collect(),
        }
    }

    /// As JSON with a final newline.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data with text keys always serialises");
        text.push('\n');
        text
    }
}

impl SweepPoint {
    fn of(point: &Point) -> Self {
        let outcomes = point.outcomes.as_slice();
        Self {
            set: point.settings.iter().cloned().collect(),
            events: outcomes.iter().map(|outcome| outcome.events).sum(),
            flows: flows(outcomes),
            links: links(outcomes),
            runs: runs(outcomes),
        }
    }
}

fn runs(outcomes: &[Outcome]) -> Vec<Run> {
    let one = |outcome: &Outcome| {
        let only = std::slice::from_ref(outcome);
        Run { seed: outcome.seed, events: outcome.events, flows: flows(only), links: links(only) }
    };
    if outcomes.len() < 2 { Vec::new() } else { outcomes.iter().map(one).collect() }
}

/// Flows over runs.
pub fn flows(outcomes: &[Outcome]) -> Vec<Flow> {
    let Some(first) = outcomes.first() else { return Vec::new() };
    let one = |number: usize| Flow::of(&outcomes.iter().filter_map(|o| Some((o, o.flows.get(number)?))).collect::<Vec<_>>());
    (0..first.flows.len()).filter_map(one).collect()
}

/// Ports over runs.
pub fn links(outcomes: &[Outcome]) -> Vec<Link> {
    let Some(first) = outcomes.first() else { return Vec::new() };
    let one = |number: usize| Link::of(&outcomes.iter().filter_map(|o| Some((o, o.links.get(number)?))).collect::<Vec<_>>());
    (0..first.links.len()).filter_map(one).collect()
}

/// A figure of each run.
fn estimate<T>(runs: &[(&Outcome, &T)], figure: impl Fn(&Outcome, &T) -> f64) -> Estimate {
    Estimate::of(&runs.iter().map(|(outcome, it)| figure(outcome, it)).collect::<Vec<_>>())
}

/// A count's mean over runs.
fn count<T>(runs: &[(&Outcome, &T)], figure: impl Fn(&T) -> u64) -> u64 {
    let sum: u128 = runs.iter().map(|(_, it)| u128::from(figure(it))).sum();
    let runs = runs.len().max(1) as u128;
    ((sum + runs / 2) / runs) as u64
}

/// All values of all runs.
fn merged<'a, T>(runs: &[(&'a Outcome, &'a T)], which: impl Fn(&'a T) -> &'a Distribution) -> Distribution {
    let mut all = Distribution::default();
    runs.iter().for_each(|(_, it)| all.merge(which(it)));
    all
}

/// Counts by name, their means over runs.
fn by_name<'a, T>(runs: &[(&'a Outcome, &'a T)], which: impl Fn(&'a T) -> &'a BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (_, it) in runs {
        which(it).iter().for_each(|(name, n)| *sums.entry(name.clone()).or_default() += n);
    }
    let runs = runs.len().max(1) as u64;
    sums.values_mut().for_each(|sum| *sum = (*sum + runs / 2) / runs);
    sums
}

impl Flow {
    fn of(runs: &[(&Outcome, &FlowOutcome)]) -> Option<Self> {
        let (_, first) = runs.first()?;
        let goodput = estimate(runs, |outcome, flow| outcome.bps(flow.goodput_bytes));
        let delay = estimate(runs, |_, flow| flow.delay_ns.mean());
        let loss = estimate(runs, |_, flow| flow.lost as f64 / (flow.sent.max(1)) as f64);
        let bounds = |(goodput_bps, (delay_mean_ns, loss))| FlowBounds { goodput_bps, delay_mean_ns, loss };
        let completion = merged(runs, |flow| &flow.completion_ns);
        Some(Self {
            name: first.name.clone(),
            kind: first.kind.clone(),
            goodput_bps: goodput.mean,
            delay_ns: Delays::of(&merged(runs, |flow| &flow.delay_ns)),
            sent: count(runs, |flow| flow.sent),
            received: count(runs, |flow| flow.received),
            lost: count(runs, |flow| flow.lost),
            retransmitted: count(runs, |flow| flow.retransmitted),
            marked: count(runs, |flow| flow.marked),
            jitter_ns: estimate(runs, |_, flow| flow.jitter_ns).mean,
            completed: count(runs, |flow| flow.completed),
            completion_ns: (completion.count > 0).then(|| Delays::of(&completion)),
            ci95: goodput.half_width.zip(delay.half_width.zip(loss.half_width)).map(bounds),
        })
    }
}

impl Link {
    fn of(runs: &[(&Outcome, &LinkOutcome)]) -> Option<Self> {
        let (_, first) = runs.first()?;
        let out = estimate(runs, |outcome, link| outcome.bps(link.bytes_out));
        let sojourn = estimate(runs, |_, link| link.queue_ns.mean());
        let queue = merged(runs, |link| &link.queue_ns);
        let bounds = |(mean_out_bps, sojourn_mean_ns)| LinkBounds { mean_out_bps, sojourn_mean_ns };
        Some(Self {
            name: first.name.clone(),
            from: first.from.clone(),
            to: first.to.clone(),
            rate_bps: first.rate_bps,
            delay_ns: first.delay_ns,
            packets_in: count(runs, |link| link.packets_in),
            packets_out: count(runs, |link| link.packets_out),
            bytes_in: count(runs, |link| link.bytes_in),
            bytes_out: count(runs, |link| link.bytes_out),
            backlog_packets: count(runs, |link| link.backlog_packets),
            duplicated: count(runs, |link| link.duplicated),
            drops: by_name(runs, |link| &link.drops),
            marks: by_name(runs, |link| &link.marks),
            queue_ns: Latency::of(&queue),
            total_ns: Latency::of(&merged(runs, |link| &link.total_ns)),
            lateness_ns: Lateness::default(),
            spec: first.spec.clone(),
            loss: first.loss,
            corrupted: count(runs, |link| link.corrupted),
            reordered: count(runs, |link| link.reordered),
            peak_queue_packets: runs.iter().map(|(_, link)| link.peak_queue_packets).max().unwrap_or(0),
            mean_out_bps: out.mean.round() as u64,
            peak_out_bps: None,
            late_fraction: None,
            balanced: runs.iter().all(|(_, link)| link.balanced()),
            sojourn_ns: Delays::of(&queue),
            utilisation: first.rate_bps.map(|rate| out.mean / rate.max(1) as f64),
            ci95: out.half_width.zip(sojourn.half_width).map(bounds),
        })
    }
}

impl Delays {
    /// The figures of a distribution.
    pub fn of(all: &Distribution) -> Self {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| all.quantile(q));
        Self { mean: all.mean().round() as u64, p50, p99, p999, max: all.max }
    }
}

impl Latency {
    fn of(all: &Distribution) -> Self {
        let Delays { mean, p50, p99, max, .. } = Delays::of(all);
        Self { mean, p50, p99, max }
    }
}
