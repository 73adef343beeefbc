//! `weir compare`: compares two directories of results and tests their differences for
//! significance.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use weir_measure::document::{Document, Kind};
use weir_report::format::{count, duration, percent, rate};
use weir_report::sim::{
    Agreement, Comparison, Difference, Significance, Summary, Tolerance, compare,
};
use weir_report::write_atomic;
use weir_rules::quantity;

use crate::output::{Failure, USAGE, print};
use crate::table::Table;

/// Options of `weir compare`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// A directory from `--out` of `weir sim` or `weir live`.
    #[arg(value_name = "DIR1")]
    pub(crate) left: PathBuf,
    /// Another directory; flows and links are matched by name.
    #[arg(value_name = "DIR2")]
    pub(crate) right: PathBuf,
    /// Show every metric, not only the main ones.
    #[arg(long)]
    pub(crate) all: bool,
    /// Judge whether a metric agrees within a tolerance: a part of the left mean (`2%`) or an
    /// absolute value (`0.5ms` or a number); of `10%/0.5ms` the larger counts. May be given
    /// several times. Exit with 1 unless every judged metric agrees.
    #[arg(long, value_name = "METRIC=TOLERANCE", value_parser = parse_tolerance)]
    pub(crate) within: Vec<Tolerance>,
    /// Write every metric as JSON (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// `weir compare`.
pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let read = |dir: &Path| Summary::read(dir).map_err(|error| Failure::new(USAGE, error));
    let mut comparison = compare(&read(&args.left)?, &read(&args.right)?);
    if let Some(metric) = comparison.judge(&args.within).first() {
        return Err(Failure::new(
            USAGE,
            format!("--within {metric}: the two results have no such metric; --all shows all"),
        ));
    }
    let agree =
        comparison.differences.iter().all(|d| d.verdict.is_none_or(|v| v == Agreement::Agrees));
    if let Some(path) = &args.json {
        let json = Document::new(Kind::Comparison, &comparison).to_json();
        if path.as_os_str() == "-" {
            return print(&json).map(|printed| code(agree, printed));
        }
        write_atomic(path, json.as_bytes()).map_err(Failure::of_weir)?;
    }
    print(&text(&comparison, args.all)).map(|printed| code(agree, printed))
}

/// The exit code: 1 if a judged metric does not agree, otherwise the exit code of printing.
fn code(agree: bool, printed: ExitCode) -> ExitCode {
    if agree { printed } else { ExitCode::from(DISAGREE) }
}

/// Parses a metric and its tolerance: a part, an absolute value, or both.
fn parse_tolerance(text: &str) -> Result<Tolerance, String> {
    const FORM: &str = "write METRIC=TOLERANCE, such as goodput_bps=2% or queue_p50_ns=10%/0.5ms";
    let (metric, words) = text.split_once('=').ok_or(FORM)?;
    let mut tolerance = Tolerance { metric: metric.trim().to_owned(), part: 0.0, absolute: 0.0 };
    let mut given = [false; 2];
    for word in words.split('/').map(str::trim) {
        let number = |text: &str| {
            text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0).ok_or(FORM)
        };
        let (index, value) = match word.strip_suffix('%') {
            Some(percent) => (0, number(percent)? / 100.0),
            None if metric.ends_with("_ns") && word.ends_with('s') => {
                (1, quantity::exact_time(word).ok_or(FORM)? as f64)
            }
            None => (1, number(word)?),
        };
        if std::mem::replace(&mut given[index], true) {
            return Err(FORM.to_owned());
        }
        *[&mut tolerance.part, &mut tolerance.absolute][index] = value;
    }
    Ok(tolerance)
}

/// The two sides in words: scenario, program and number of runs.
pub(crate) fn heads(comparison: &Comparison) -> [String; 2] {
    [&comparison.left, &comparison.right].map(|side| {
        let runs = if side.runs == 1 { "1 run".to_owned() } else { format!("{} runs", side.runs) };
        format!("{} ({}, {runs})", side.scenario, side.source)
    })
}

/// The flows and links that both sides have. Each has a row for each main or judged metric or, with
/// `all`, for every metric.
pub(crate) fn blocks(comparison: &Comparison, all: bool) -> Vec<(String, Vec<Vec<String>>)> {
    let is_shown =
        |d: &&Difference| all || d.verdict.is_some() || MAIN.contains(&d.figure.as_str());
    let is_same_object =
        |a: &Difference, b: &Difference| (a.object, &a.name) == (b.object, &b.name);
    let block = |block: &[Difference]| {
        let name = block.first().map(|d| format!("{} {}", d.object, d.name)).unwrap_or_default();
        (name, block.iter().filter(is_shown).map(row).collect())
    };
    comparison.differences.chunk_by(is_same_object).map(block).collect()
}

/// The comparison as text.
pub(crate) fn text(comparison: &Comparison, all: bool) -> String {
    let [left, right] = heads(comparison);
    let mut text = format!("left : {left}\nright: {right}\n");
    for (name, rows) in blocks(comparison, all) {
        let _ = writeln!(text, "\n{name}");
        let mut table = Table::new(["", "left", "right", "difference", "relative", ""]);
        rows.into_iter().for_each(|row| table.add_row(row));
        text += &table.text();
    }
    for (side, names) in [("left", &comparison.only_left), ("right", &comparison.only_right)] {
        if !names.is_empty() {
            let _ = write!(text, "\nonly on the {side}: {}\n", names.join(", "));
        }
    }
    text.push('\n');
    text + &remark(comparison)
}

fn row(d: &Difference) -> Vec<String> {
    let words = |value: f64| in_words(&d.figure, value);
    let sign = if d.difference < 0.0 { "-" } else { "+" };
    let difference = if d.difference == 0.0 {
        "0".to_owned()
    } else {
        format!("{sign}{}", words(d.difference.abs()))
    };
    let relative = match d.relative {
        Some(part) if part != 0.0 => format!("{sign}{}", percent(part.abs())),
        _ => String::new(),
    };
    let judgement = d.verdict.map_or_else(|| significance(d), |verdict| agreement(d, verdict));
    vec![
        d.figure.trim_end_matches("_ns").trim_end_matches("_bps").replace('_', " "),
        words(d.left),
        words(d.right),
        difference,
        relative,
        judgement,
    ]
}

/// Whether the results agree within a tolerance, in words, with the half-width of the confidence
/// interval of the difference.
fn agreement(d: &Difference, verdict: Agreement) -> String {
    let verdict = match verdict {
        Agreement::Agrees => "agrees",
        Agreement::Differs => "differs",
        Agreement::Open => "open",
    };
    match (d.half_width, d.left) {
        (None, _) => format!("{verdict}: single runs"),
        (Some(half), left) if left != 0.0 => {
            format!("{verdict}, ± {}", percent(half / left.abs()))
        }
        (Some(half), _) => format!("{verdict}, ± {}", in_words(&d.figure, half)),
    }
}

fn significance(d: &Difference) -> String {
    match d.significance {
        Significance::Equal => "equal".to_owned(),
        Significance::SingleRun => "single runs: not known".to_owned(),
        Significance::Runs { p } | Significance::Parts { p } => {
            let p = if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") };
            if d.significance.significant() == Some(true) {
                format!("significant, {p}")
            } else {
                format!("not significant, {p}")
            }
        }
    }
}

/// A value with the unit that the metric's name implies.
fn in_words(metric: &str, value: f64) -> String {
    match metric {
        _ if metric.ends_with("_bps") => rate(value),
        _ if metric.ends_with("_ns") => duration(value),
        "loss" | "drop_share" | "utilisation" => percent(value),
        _ if value == value.trunc() => count(value as u64),
        _ => format!("{value:.1}"),
    }
}

/// The method by which differences are judged, in words.
pub(crate) fn remark(comparison: &Comparison) -> String {
    let any = |test: fn(&Significance) -> bool| {
        comparison.differences.iter().any(|d| test(&d.significance))
    };
    let mut text = String::new();
    if comparison.differences.iter().any(|d| d.verdict.is_some()) {
        text += "agrees: the 95 % confidence interval of the difference (±) is within the \
            tolerance; differs: outside; open: it includes the tolerance's bound, or there are too \
            few runs.\n";
    }
    if any(|s| matches!(s, Significance::Runs { .. })) {
        text += "p: the probability that chance alone makes the means differ by this much \
            (Welch's test); a difference is significant below 0.05.\n";
    }
    if any(|s| matches!(s, Significance::Parts { .. })) {
        text += "p: Welch's test over twentieths of single runs, as if these were independent; \
            runs with several seeds give a better answer.\n";
    }
    if any(|s| matches!(s, Significance::SingleRun)) {
        text += "With single runs, only metrics that are known over time can be tested: use \
            --runs on both sides.\n";
    }
    text
}

/// The exit code if a judged metric does not agree.
const DISAGREE: u8 = 1;
/// The metrics that are shown without --all.
const MAIN: [&str; 14] = [
    "goodput_bps",
    "loss",
    "retransmitted",
    "marked",
    "jitter_ns",
    "delay_mean_ns",
    "delay_p50_ns",
    "delay_p99_ns",
    "completion_mean_ns",
    "throughput_bps",
    "drop_share",
    "queue_mean_ns",
    "queue_p99_ns",
    "peak_queue_packets",
];

const EXAMPLES: &str = "Examples:
  weir compare before after
  weir compare simulated live --all
  weir compare simulated live --within goodput_bps=2% --within queue_p50_ns=10%/0.5ms
  weir compare before after --json differences.json";
