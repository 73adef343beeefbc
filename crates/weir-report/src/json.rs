//! Results for programs: one JSON object with a fixed order of keys.
//!
//! Times are integers in nanoseconds, rates integers in bit/s, fractions numbers from 0 to 1. New
//! keys are added only after the existing ones.

use schemars::JsonSchema;
use serde::Serialize;
use weir_measure::document::{Document, Kind};
use weir_measure::latency::Latency;
use weir_measure::stats::LinkCounters;

use crate::model::{LinkResult, PipeResult, RuleResult, RunResult};

/// The result as pretty-printed JSON with a final newline.
pub fn to_json(run: &RunResult) -> String {
    Document::new(Kind::Run, Run::of(run)).to_json()
}

/// The body of a `run`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Run<'a> {
    /// Version of the program that measured.
    version: &'a str,
    /// The command that ran, as words; empty when none did.
    command: &'a [String],
    /// The command's exit code; null when there was no command or a signal ended it.
    exit_code: Option<i32>,
    /// How long the run took, ns.
    duration_ns: u64,
    /// Each direction of the link.
    links: Vec<Link<'a>>,
    /// The seed that every random draw followed from.
    seed: u64,
    /// When the run began, RFC 3339.
    started: &'a str,
    /// What the reader must know before trusting the numbers.
    warnings: &'a [String],
    /// What is useful to know and changes nothing.
    notes: &'a [String],
    /// The rules in their order, where there were any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<Rule<'a>>,
    /// The pipes and schedulers of the rules, by number, where there were any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pipes: Vec<Pipe<'a>>,
}

/// What a rule matched.
#[derive(Debug, JsonSchema, Serialize)]
struct Rule<'a> {
    /// Its number.
    number: u16,
    /// Packets that matched.
    packets: u64,
    /// Their network-layer bytes.
    bytes: u64,
    /// Its text in the command language, without the number.
    text: &'a str,
}

/// What a pipe or scheduler did, over all its instances.
#[derive(Debug, JsonSchema, Serialize)]
struct Pipe<'a> {
    /// Its number.
    number: u16,
    #[serde(flatten)]
    counters: &'a LinkCounters,
    /// Time in the queue.
    queue_ns: Latency,
    /// Time from submission to intended release.
    total_ns: Latency,
    /// Whether every packet is accounted for.
    balanced: bool,
}

/// One direction of a link.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "RunLink")]
struct Link<'a> {
    /// Short name, such as `up`.
    name: &'a str,
    /// Where its packets come from.
    from: &'a str,
    /// Where its packets go to.
    to: &'a str,
    /// Configured rate, bit/s; null when unlimited; of a trace the mean.
    rate_bps: Option<u64>,
    /// Configured propagation delay, ns.
    delay_ns: u64,
    #[serde(flatten)]
    counters: &'a LinkCounters,
    /// Time in the queue.
    queue_ns: Latency,
    /// Time from submission to intended release.
    total_ns: Latency,
    /// Actual less intended release.
    lateness_ns: Latency,
    /// The configuration in the command language.
    spec: &'a str,
    /// Configured random loss as a fraction; null when there is none.
    loss: Option<f64>,
    /// Mean rate of departures while the link was busy, bit/s.
    mean_out_bps: u64,
    /// Highest rate of departures over any full second, bit/s; null when no full second was recorded.
    peak_out_bps: Option<u64>,
    /// Fraction of packets that left more than 1 ms late; null where lateness was not measured.
    late_fraction: Option<f64>,
    /// Whether every packet is accounted for.
    balanced: bool,
}

impl<'a> Run<'a> {
    fn of(run: &'a RunResult) -> Self {
        let info = run.info();
        Self {
            version: &info.version,
            command: &info.command,
            exit_code: info.exit_code,
            duration_ns: info.duration_ns,
            links: run.links().iter().map(|l| Link::of(l, info.duration_ns)).collect(),
            seed: info.seed,
            started: &info.started,
            warnings: &info.warnings,
            notes: &info.notes,
            rules: run.rules().iter().map(Rule::of).collect(),
            pipes: run.pipes().iter().map(Pipe::of).collect(),
        }
    }
}

impl<'a> Rule<'a> {
    fn of(rule: &'a RuleResult) -> Self {
        Self { number: rule.number, packets: rule.packets, bytes: rule.bytes, text: &rule.text }
    }
}

impl<'a> Pipe<'a> {
    fn of(pipe: &'a PipeResult) -> Self {
        Self {
            number: pipe.number,
            counters: &pipe.stats.counters,
            queue_ns: Latency::from(&pipe.stats.queue_ns),
            total_ns: Latency::from(&pipe.stats.total_ns),
            balanced: pipe.stats.counters.balanced(),
        }
    }
}

impl<'a> Link<'a> {
    fn of(l: &'a LinkResult, duration_ns: u64) -> Self {
        Self {
            name: &l.name,
            from: &l.from,
            to: &l.to,
            rate_bps: l.rate_bps,
            delay_ns: l.delay_ns,
            counters: &l.counters,
            queue_ns: Latency::from(&l.queue_ns),
            total_ns: Latency::from(&l.total_ns),
            lateness_ns: Latency::from(&l.lateness_ns),
            spec: &l.spec,
            loss: l.loss,
            mean_out_bps: l.mean_out_bps(duration_ns).round() as u64,
            peak_out_bps: l.peak_out_bps(),
            late_fraction: l.late_fraction(),
            balanced: l.counters.accounts().is_some_and(|(came, went)| came == went),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_measure::stats::{DropReason, LinkCounters};

    use super::*;
    use crate::model::RunInfo;

    #[test]
    fn the_document_is_as_published() {
        let mut link = LinkResult {
            name: "down".into(),
            from: "network".into(),
            to: "program".into(),
            spec: "bw 4Mbit/s delay 20ms".into(),
            rate_bps: Some(4_000_000),
            delay_ns: 20_000_000,
            counters: LinkCounters {
                packets_in: 5,
                packets_out: 4,
                bytes_in: 7500,
                bytes_out: 6000,
                ..LinkCounters::default()
            },
            ..LinkResult::default()
        };
        link.counters.count_drop(DropReason::QueueFull);
        [0, 1_000_000, 2_000_000].into_iter().for_each(|v| link.queue_ns.record(v));
        let info = RunInfo {
            version: "0.1.0".into(),
            command: vec!["curl".into(), "\"quoted\"".into()],
            exit_code: Some(0),
            started: "2026-01-02T03:04:05Z".into(),
            duration_ns: 1_500_000_000,
            seed: 7,
            ..RunInfo::default()
        };
        let unlimited = LinkResult { name: "up".into(), ..LinkResult::default() };
        insta::assert_snapshot!(to_json(&RunResult::new(info, vec![link, unlimited])));
    }
}
