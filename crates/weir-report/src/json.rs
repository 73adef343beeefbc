//! Results for programs: one JSON object with a fixed order of keys.
//!
//! Times are integers in nanoseconds, rates integers in bit/s, fractions numbers from 0 to 1. New
//! keys are added only after the existing ones.

use serde::Serialize;
use weir_measure::histogram::Histogram;
use weir_measure::stats::{DropCounts, MarkCounts};

use crate::model::{LinkResult, PipeResult, RuleResult, RunResult};

/// The result as pretty-printed JSON with a final newline.
pub fn to_json(run: &RunResult) -> String {
    let mut text = serde_json::to_string_pretty(&Run::of(run))
        .expect("plain data with text keys always serialises");
    text.push('\n');
    text
}

#[derive(Serialize)]
struct Run<'a> {
    version: &'a str,
    command: &'a [String],
    exit_code: Option<i32>,
    duration_ns: u64,
    links: Vec<Link<'a>>,
    seed: u64,
    started: &'a str,
    warnings: &'a [String],
    notes: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<Rule<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pipes: Vec<Pipe>,
}

#[derive(Serialize)]
struct Rule<'a> {
    number: u16,
    packets: u64,
    bytes: u64,
    text: &'a str,
}

#[derive(Serialize)]
struct Pipe {
    number: u16,
    packets_in: u64,
    packets_out: u64,
    bytes_in: u64,
    bytes_out: u64,
    backlog_packets: u64,
    duplicated: u64,
    drops: DropCounts,
    queue_ns: Latency,
    total_ns: Latency,
    balanced: bool,
    marks: MarkCounts,
}

#[derive(Serialize)]
struct Link<'a> {
    name: &'a str,
    from: &'a str,
    to: &'a str,
    rate_bps: Option<u64>,
    delay_ns: u64,
    packets_in: u64,
    packets_out: u64,
    bytes_in: u64,
    bytes_out: u64,
    backlog_packets: u64,
    duplicated: u64,
    drops: &'a DropCounts,
    marks: &'a MarkCounts,
    queue_ns: Latency,
    total_ns: Latency,
    lateness_ns: Lateness,
    spec: &'a str,
    loss: Option<f64>,
    corrupted: u64,
    reordered: u64,
    peak_queue_packets: u64,
    mean_out_bps: u64,
    peak_out_bps: Option<u64>,
    late_fraction: Option<f64>,
    balanced: bool,
}

#[derive(Serialize)]
struct Latency {
    mean: u64,
    p50: u64,
    p99: u64,
    max: u64,
}

#[derive(Serialize)]
struct Lateness {
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
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

impl Pipe {
    fn of(pipe: &PipeResult) -> Self {
        let c = &pipe.stats.counters;
        Self {
            number: pipe.number,
            packets_in: c.packets_in,
            packets_out: c.packets_out,
            bytes_in: c.bytes_in,
            bytes_out: c.bytes_out,
            backlog_packets: c.backlog_packets,
            duplicated: c.duplicated,
            drops: *c.drop_counts(),
            queue_ns: Latency::of(&pipe.stats.queue_ns),
            total_ns: Latency::of(&pipe.stats.total_ns),
            balanced: c.balanced(),
            marks: *c.mark_counts(),
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
            packets_in: l.counters.packets_in,
            packets_out: l.counters.packets_out,
            bytes_in: l.counters.bytes_in,
            bytes_out: l.counters.bytes_out,
            backlog_packets: l.counters.backlog_packets,
            duplicated: l.counters.duplicated,
            drops: l.counters.drop_counts(),
            marks: l.counters.mark_counts(),
            queue_ns: Latency::of(&l.queue_ns),
            total_ns: Latency::of(&l.total_ns),
            lateness_ns: Lateness::of(&l.lateness_ns),
            spec: &l.spec,
            loss: l.loss,
            corrupted: l.counters.corrupted,
            reordered: l.counters.reordered,
            peak_queue_packets: l.counters.peak_queue_packets,
            mean_out_bps: l.mean_out_bps(duration_ns).round() as u64,
            peak_out_bps: l.peak_out_bps(),
            late_fraction: l.late_fraction(),
            balanced: l.counters.balanced(),
        }
    }
}

impl Latency {
    fn of(h: &Histogram) -> Self {
        Self {
            mean: h.mean().round() as u64,
            p50: h.quantile(0.5),
            p99: h.quantile(0.99),
            max: h.max(),
        }
    }
}

impl Lateness {
    fn of(h: &Histogram) -> Self {
        Self { p50: h.quantile(0.5), p99: h.quantile(0.99), p999: h.quantile(0.999), max: h.max() }
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
