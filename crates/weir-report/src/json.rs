//! The results document of a run: one JSON object with a fixed order of keys.
//!
//! Times are integers in nanoseconds, rates are integers in bit/s, fractions are numbers from 0 to
//! 1. New keys are added only after the existing ones.

use schemars::JsonSchema;
use serde::Serialize;
use weir_measure::document::{Document, Kind};
use weir_measure::latency::Latency;
use weir_measure::stats::{LateCauseCount, LinkCounters};

use crate::model::{Late, LinkResult, MeasuredLoss, PipeResult, RuleResult, RunResult};

/// The result as pretty-printed JSON with a final newline.
pub fn to_json(run: &RunResult) -> String {
    Document::new(Kind::Run, Run::of(run)).to_json()
}

/// The body of a document of the kind `run`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Run<'a> {
    /// Version of the program that made the measurement.
    version: &'a str,
    /// The command that ran, as words; empty without a command.
    command: &'a [String],
    /// The command's exit code; null when there was no command or a signal ended it.
    exit_code: Option<i32>,
    /// Duration of the run, ns.
    duration_ns: u64,
    /// The directions of the links; in a live scenario, also the paths of the packets.
    links: Vec<Link<'a>>,
    /// The seed of all random draws.
    seed: u64,
    /// Start of the run, RFC 3339.
    started: &'a str,
    /// Conditions that make the results less reliable.
    warnings: &'a [String],
    /// Information that does not affect the results.
    notes: &'a [String],
    /// The rules in their order; absent without rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<Rule<'a>>,
    /// The pipes and schedulers of the rules, ordered by number; absent without rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pipes: Vec<Pipe<'a>>,
    /// The causes of departures more than 1 ms late, the cause that took most time first; absent if
    /// no packet was that late, or if causes were not measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    late_causes: Vec<LateCauseEntry>,
    /// The total length of the periods with late packets, in which the causes were measured, ns;
    /// absent without such periods.
    #[serde(skip_serializing_if = "Option::is_none")]
    late_span_ns: Option<u64>,
}

/// A cause of lateness.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "LateCause")]
struct LateCauseEntry {
    /// `hypervisor` (time stolen from each processor), `group_limit` (a control group's limit of
    /// processor time), `realtime_limit` (the kernel's limit for real-time threads, or another
    /// real-time thread), `overload` (other programs had the processor while the loop was ready),
    /// `own_work` (the loop was busy), or `unknown`.
    cause: &'static str,
    /// The number of periods in which the cause took at least 1 ms.
    periods: u64,
    /// The time that the cause took in these periods, ns; for `unknown`, the length of the periods.
    time_ns: u64,
}

/// The counters of a rule.
#[derive(Debug, JsonSchema, Serialize)]
struct Rule<'a> {
    /// The rule's number.
    number: u16,
    /// Packets that matched.
    packets: u64,
    /// Network-layer bytes of the packets that matched.
    bytes: u64,
    /// The rule's text in the command language, without the number.
    text: &'a str,
}

/// The results of a pipe or scheduler, over all its instances.
#[derive(Debug, JsonSchema, Serialize)]
struct Pipe<'a> {
    /// The number of the pipe or scheduler.
    number: u16,
    #[serde(flatten)]
    counters: &'a LinkCounters,
    /// Queueing delay.
    queue_ns: Latency,
    /// Time from arrival to due time.
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
    /// The end that sends packets into the link.
    from: &'a str,
    /// The end to which the link delivers packets.
    to: &'a str,
    /// Configured rate, bit/s; null when unlimited, even for a part of the time. If it changes, its
    /// mean while packets are counted.
    rate_bps: Option<u64>,
    /// Configured propagation delay, ns. If it changes, its mean while packets are counted.
    delay_ns: u64,
    #[serde(flatten)]
    counters: &'a LinkCounters,
    /// Queueing delay.
    queue_ns: Latency,
    /// Time from arrival to due time.
    total_ns: Latency,
    /// Lateness: actual departure minus due time.
    lateness_ns: Latency,
    /// The configuration in the command language.
    spec: &'a str,
    /// Configured random loss as a fraction; null without random loss. If it changes, its mean over
    /// time.
    loss: Option<f64>,
    /// Mean rate of departures while the link was busy, or over the run if no series was recorded,
    /// bit/s; at most the peak.
    mean_out_bps: u64,
    /// Highest rate of departures over any full second, bit/s; null when no full second was
    /// recorded.
    peak_out_bps: Option<u64>,
    /// Fraction of packets that departed more than 1 ms late; null where lateness was not measured.
    late_fraction: Option<f64>,
    /// The number of packets that departed more than 1 ms late; null where lateness was not
    /// measured.
    late_packets: Option<u64>,
    /// Whether every packet is accounted for.
    balanced: bool,
    /// Packets lost by the random loss on the link, as a fraction of the packets that reached it;
    /// null if none did.
    measured_loss: Option<f64>,
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
            late_causes: run.late_causes().ranked().into_iter().map(LateCauseEntry::of).collect(),
            late_span_ns: Some(run.late_causes().span_ns()).filter(|&span| span > 0),
        }
    }
}

impl LateCauseEntry {
    fn of(count: LateCauseCount) -> Self {
        let LateCauseCount { cause, periods, time_ns } = count;
        Self { cause: cause.name(), periods, time_ns }
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
            late_fraction: l.late().map(Late::fraction),
            late_packets: l.late().map(|late| late.packets),
            balanced: l
                .counters
                .accounts()
                .is_some_and(|(arrived, accounted)| arrived == accounted),
            measured_loss: l.measured_loss().map(MeasuredLoss::fraction),
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
