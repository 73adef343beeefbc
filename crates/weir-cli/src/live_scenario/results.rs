//! Writes the results of a live run in the same form as those of a simulated run.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use weir_report::format::{count, duration};
use weir_report::sim::{Contents, Draft, NodeOutcome, Results, check_place, to_json};
use weir_report::write_atomic;
use weir_sim::measure::Outcome;

use super::LiveArgs;
use super::load::Source;
use crate::output::{Failure, USAGE, check_files, print, say};
use crate::sim::outcome_tables;
use crate::table::Table;

/// Pairs of a name and a text.
type Texts = Vec<(String, Vec<u8>)>;

#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) outcomes: Vec<Outcome>,
    /// The hosts with programs, for each run.
    pub(super) nodes: Vec<Vec<NodeOutcome>>,
    /// The output of the flows' programs, by the names of the flows; with several runs, each name
    /// ends in the seed.
    pub(super) printed: Texts,
    /// The output of the hosts' programs, by the names of the hosts, in the same form.
    pub(super) logs: Texts,
}

/// Checks, before the run, that its results can be written.
pub(super) fn check(args: &LiveArgs) -> Result<(), Failure> {
    check_files(&[("--json", args.json.as_deref())], &["--json"])?;
    if let Some(path) = &args.out {
        check_place(path, args.force).map_err(|error| Failure::new(USAGE, error))?;
    }
    Ok(())
}

/// Writes the results to every requested destination.
pub(super) fn write(
    args: &LiveArgs,
    source: &Source,
    collected: Collected,
) -> Result<ExitCode, Failure> {
    let Collected { outcomes: runs, nodes, printed, logs } = collected;
    let results = Results { source: "live".to_owned(), scenario: source.text.clone(), runs, nodes };
    if let Some(path) = &args.out {
        let file = |end: &'static str| {
            move |(name, text): (String, Vec<u8>)| (format!("{name}.{end}"), text)
        };
        let files: Texts =
            printed.into_iter().map(file("txt")).chain(logs.into_iter().map(file("log"))).collect();
        directory(path, args.force, &results, &files)?;
    } else if !args.quiet {
        for (name, text) in printed.iter().filter(|(_, text)| !text.is_empty()) {
            show(name, text);
        }
        for (name, text) in logs.iter().filter(|(_, text)| !text.is_empty()) {
            show(name, last_part(text));
        }
    }
    match args.json.as_deref() {
        Some(path) if path.as_os_str() == "-" => return print(&to_json(&results)),
        Some(path) => write_atomic(path, to_json(&results).as_bytes()).map_err(Failure::of_weir)?,
        None => {}
    }
    if args.quiet {
        Ok(ExitCode::SUCCESS)
    } else {
        print(&format!(
            "{}, live\n{}{}",
            source.scenario.name,
            outcome_tables(&results.runs),
            hosts(&results)
        ))
    }
}

fn show(name: &str, text: &[u8]) {
    say(format_args!("\n{name}:\n{}\n", String::from_utf8_lossy(text).trim_end()));
}

/// The last lines of a log, for a terminal. With `--out`, the whole log is in a file instead.
fn last_part(text: &[u8]) -> &[u8] {
    let from = text.len().saturating_sub(MAX_SHOWN);
    let cut = &text[from..];
    match cut.iter().position(|&byte| byte == b'\n') {
        Some(end) if from > 0 => &cut[end + 1..],
        _ => cut,
    }
}

/// The table of the hosts with programs; empty without any.
fn hosts(results: &Results) -> String {
    let mut table = Table::new(["host", "started", "up", "ended", "exit code", "printed"]);
    let all = results.runs.iter().zip(&results.nodes);
    let several = results.runs.len() > 1;
    let mut any = false;
    for (run, node) in all.flat_map(|(run, nodes)| nodes.iter().map(move |node| (run, node))) {
        any = true;
        let at = |time: Option<u64>| time.map_or("-".to_owned(), |ns| duration(ns as f64));
        let code = match (node.exit_code, node.stopped) {
            (_, true) => "stopped".to_owned(),
            (Some(code), false) => code.to_string(),
            (None, false) => "-".to_owned(),
        };
        let name = &node.name;
        table.add_row(vec![
            if several { format!("{name}, seed {}", run.seed) } else { name.clone() },
            at(node.started_ns),
            at(node.up_ns),
            at(node.ended_ns),
            code,
            format!("{} B", count(node.log_bytes)),
        ]);
    }
    if any { format!("\n{}", table.text()) } else { String::new() }
}

/// Writes the directory under a temporary name in the same place, and renames it when it is
/// complete.
fn directory(path: &Path, replace: bool, results: &Results, files: &Texts) -> Result<(), Failure> {
    let draft = Draft::new(path, replace).map_err(Failure::of_weir)?;
    weir_report::sim::write(draft.path(), results, Contents::default())
        .map_err(Failure::of_weir)?;
    for (name, text) in files {
        fs::write(draft.path().join(name), text).map_err(|error| {
            Failure::of_weir(format!("cannot write {}: {error}", path.display()))
        })?;
    }
    draft.finish().map_err(Failure::of_weir)
}

/// Maximum number of bytes of a log that are shown without --out.
const MAX_SHOWN: usize = 4096;
