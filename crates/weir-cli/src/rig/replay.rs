//! `weir rig --replay`: replays a recording of `weir watch --record` with other disciplines.

use std::path::Path;
use std::process::ExitCode;

use weir_core::config::QueueLimit;
use weir_measure::document::{Document, Kind};
use weir_measure::packets::Head;
use weir_report::format::{bytes, count, duration, elapsed, percent, rate};
use weir_report::{OPEN_LOOP, replay_gaps, replay_to_html, write_atomic};
use weir_rig::Manager;
use weir_rig::replay::{Link, Recording, Replay, ReplayError, Row, replay as play};
use weir_rules::quantity;

use super::aqm;
use super::args::RigArgs;
use super::config::usage;
use crate::output::{Failure, check_files, print, say};
use crate::table::Table;

/// Replays the recording at `path` and writes the requested results.
pub(super) fn replay(args: &RigArgs, path: &Path) -> Result<ExitCode, Failure> {
    check_files(
        &[("--json", args.json.as_deref()), ("--html", args.html.as_deref())],
        &["--json"],
    )?;
    let options = Options::new(args)?;
    let recording = Recording::File(path.to_owned());
    let result = play(&recording, &options.managers, args.seed, |head| options.link(head, path))
        .map_err(|Fault(failure)| failure)?;
    if args.json.as_deref().is_none_or(|json| json.as_os_str() != "-") {
        print(&words(&result))?;
    }
    if !args.quiet {
        for gap in replay_gaps(&result.content) {
            say(format_args!("weir: warning: {gap}\n"));
        }
    }
    if let Some(json) = &args.json {
        let text = Document::new(Kind::Replay, &result).to_json();
        if json.as_os_str() == "-" {
            print(&text)?;
        } else {
            write_atomic(json, text.as_bytes()).map_err(Failure::of_weir)?;
        }
    }
    if let Some(html) = &args.html {
        let page = replay_to_html(&result, env!("CARGO_PKG_VERSION"));
        write_atomic(html, page.as_bytes()).map_err(Failure::of_weir)?;
        if !args.quiet {
            say(format_args!("page: {}\n", html.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A failure of the command, into which the library converts its own errors.
struct Fault(Failure);

impl From<ReplayError> for Fault {
    fn from(error: ReplayError) -> Self {
        Self(usage("--replay", error))
    }
}

/// The validated options. A setting of the link is `None` if the recording's setting applies.
struct Options {
    managers: Vec<Manager>,
    /// Bit/s.
    rate: Option<u64>,
    /// Bytes.
    burst: Option<u64>,
    limit: Option<QueueLimit>,
}

impl Options {
    fn new(args: &RigArgs) -> Result<Self, Failure> {
        let rate = args.rate.as_deref().map(parse_rate).transpose()?;
        let burst = args.burst.as_deref().map(quantity::size).transpose();
        let burst = burst.map_err(|error| usage("--burst", format!("{error}; such as 10KB")))?;
        let limit = args.limit.as_deref().map(parse_limit).transpose()?;
        Ok(Self { managers: managers(args)?, rate, burst, limit })
    }

    /// The link with the settings of the command line; the recording provides the others.
    fn link(&self, head: &Head, path: &Path) -> Result<Link, Fault> {
        let kernel = &head.discipline;
        let rate = self.rate.or(kernel.rate_bps.filter(|rate| *rate >= MIN_RATE));
        let rate = rate.ok_or_else(|| {
            let reason = format!(
                "{} does not say which rate the link had: the discipline of {} was {}, and only \
                 tbf and cake report one; add --rate, such as --rate 20Mbit/s",
                path.display(),
                head.device,
                kernel.kind
            );
            Fault(usage("--replay", reason))
        })?;
        let recorded = match (kernel.limit_packets, kernel.limit_bytes) {
            (Some(packets), _) => QueueLimit::Packets(packets),
            (None, Some(bytes)) => QueueLimit::Bytes(bytes),
            (None, None) => QueueLimit::Packets(DEFAULT_LIMIT),
        };
        let burst = self.burst.or(kernel.burst_bytes).unwrap_or(0);
        Ok(Link::new(rate, burst, self.limit.unwrap_or(recorded)))
    }
}

/// The disciplines of --alg and --aqm or, without either option, [`DEFAULT_SCHEDULERS`].
fn managers(args: &RigArgs) -> Result<Vec<Manager>, Failure> {
    let mut managers = Vec::new();
    let schedulers = match (args.alg.as_str(), &args.aqm) {
        ("all", None) => DEFAULT_SCHEDULERS,
        ("all", Some(_)) => "",
        (list, _) => list,
    };
    for word in schedulers.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        managers.push(match word {
            "none" => Manager::None,
            word => Manager::parse_scheduler(word).map_err(|error| usage("--alg", error))?,
        });
    }
    if let Some(list) = &args.aqm {
        managers.extend(aqm::managers(list)?);
    }
    let mut seen = Vec::new();
    managers.retain(|manager| !seen.contains(manager) && (seen.push(*manager), true).1);
    Ok(managers)
}

fn parse_rate(text: &str) -> Result<u64, Failure> {
    let wrong = |reason: String| usage("--rate", format!("`{text}`: {reason}; such as 20Mbit/s"));
    let rate = quantity::rate(text).map_err(|error| wrong(error.to_string()))?;
    rate.map(|rate| rate.bps())
        .filter(|rate| *rate >= MIN_RATE)
        .ok_or_else(|| wrong("at least 1kbit/s is needed".to_owned()))
}

/// Parses a limit: a number of packets, or a number of bytes if it has a unit.
fn parse_limit(text: &str) -> Result<QueueLimit, Failure> {
    let wrong = |reason: String| {
        usage("--limit", format!("`{text}`: {reason}; such as 100 (packets) or 64KB"))
    };
    let limit = if text.bytes().all(|byte| byte.is_ascii_digit()) {
        quantity::count(text, MAX_PACKETS).map(QueueLimit::Packets)
    } else {
        quantity::size(text).map(QueueLimit::Bytes)
    };
    limit.map_err(|error| wrong(error.to_string()))
}

fn words(result: &Replay) -> String {
    let Replay { recording, content, link, .. } = result;
    let limit = match (link.limit_bytes, link.limit_packets) {
        (Some(limit), _) => bytes(limit as f64),
        (None, packets) => format!("{} packets", count(packets.unwrap_or(0).into())),
    };
    let mut table = Table::new([
        "discipline",
        "p50",
        "p99",
        "max",
        "dropped",
        "",
        "marked",
        "throughput",
        "queue",
        "max",
        "fairness",
        "least",
        "flow p50",
    ]);
    result.rows.iter().for_each(|row| table.add_row(cells(row)));
    format!(
        "{}: {}, {} packets of {} flows; link {}, burst {}, limit {limit}\n\n{}\n{OPEN_LOOP}\n",
        recording.device,
        elapsed(content.duration_ns),
        count(content.packets),
        count(content.flows),
        rate(link.rate_bps as f64),
        bytes(link.burst_bytes as f64),
        table.text(),
    )
}

fn cells(row: &Row) -> Vec<String> {
    let time = |ns: u64| duration(ns as f64);
    let arrived = row.delivered + row.dropped + row.left + row.unknown;
    vec![
        row.name.clone(),
        time(row.delay_ns.p50),
        time(row.delay_ns.p99),
        time(row.delay_ns.max),
        count(row.dropped),
        percent(row.dropped as f64 / arrived.max(1) as f64),
        count(row.marked),
        rate(row.throughput_bps.value()),
        format!("{:.1}", row.queue_packets.mean.value()),
        count(row.queue_packets.max),
        format!("{:.3}", row.fairness.index.value()),
        percent(row.fairness.least_share.value()),
        time(row.fairness.flow_delay_p50_ns),
    ]
}

const DEFAULT_SCHEDULERS: &str = "fifo,fq_codel,cake";
/// The limit of a queue in packets if the recording has none: the kernel's default for Ethernet
/// interfaces.
const DEFAULT_LIMIT: u32 = 1000;
/// Maximum of --limit in packets.
const MAX_PACKETS: u32 = 1_000_000;
/// Minimum rate of the link in bit/s. At a lower rate, a packet of 1500 bytes would take more than
/// 12 s.
const MIN_RATE: u64 = 1000;
