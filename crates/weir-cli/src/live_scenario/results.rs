//! The results of a live run, written as those of a simulated one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use weir_report::format::{count, duration, percent, rate};
use weir_report::sim::{Contents, Results, to_json};
use weir_report::write_atomic;
use weir_sim::measure::Outcome;
use weir_sim::run::Point;
use weir_sim::summary::{Flow, Link, Summary};

use super::LiveArgs;
use super::refuse::Source;
use crate::output::{Failure, USAGE, print, say};
use crate::rig::Table;

/// What programs of a run printed, by the names of their flows.
pub(super) type Printed = Vec<(String, Vec<u8>)>;

/// Finds out before the run whether its results can be written.
pub(super) fn check(args: &LiveArgs) -> Result<(), Failure> {
    let json = args.json.as_deref().filter(|path| path.as_os_str() != "-");
    if let Some(path) = json.filter(|path| path.is_dir()) {
        return Err(Failure::new(USAGE, format!("{} is a directory; name a file", path.display())));
    }
    if let Some(path) = args.out.as_deref().filter(|path| path.exists() && !args.force) {
        let what = format!("{} is already there: name another directory, or replace it with --force", path.display());
        return Err(Failure::new(USAGE, what));
    }
    for path in [json, args.out.as_deref()].into_iter().flatten() {
        let parent = parent(path);
        if !parent.is_dir() {
            return Err(Failure::new(USAGE, format!("{}: there is no directory {}; make it first", path.display(), parent.display())));
        }
    }
    Ok(())
}

/// Writes what was asked for.
pub(super) fn write(args: &LiveArgs, source: &Source, outcome: Outcome, printed: &Printed) -> Result<ExitCode, Failure> {
    let point = Point { settings: Vec::new(), scenario: source.scenario.clone(), outcomes: vec![outcome.clone()] };
    let results = Results { source: "live".to_owned(), scenario: source.text.clone(), runs: vec![outcome] };
    if let Some(path) = &args.out {
        directory(path, args.force, &results, printed)?;
    } else {
        for (name, text) in printed.iter().filter(|(_, text)| !args.quiet && !text.is_empty()) {
            say(format_args!("\n{name}:\n{}\n", String::from_utf8_lossy(text).trim_end()));
        }
    }
    let summary = Summary::of(std::slice::from_ref(&point), None);
    match args.json.as_deref() {
        Some(path) if path.as_os_str() == "-" => return print(&to_json(&results)),
        Some(path) => write_atomic(path, to_json(&results).as_bytes()).map_err(Failure::own)?,
        None => {}
    }
    if args.quiet { Ok(ExitCode::SUCCESS) } else { print(&tables(&source.scenario.name, &summary)) }
}

/// Flows and links as tables.
fn tables(name: &str, summary: &Summary) -> String {
    let mut flows = Table::new(["flow", "kind", "goodput", "delay mean", "p50", "p99", "sent", "lost"]);
    let flow = |flow: &Flow| {
        let time = |ns: u64| if flow.received == 0 { "-".to_owned() } else { duration(ns as f64) };
        let delay = &flow.delay_ns;
        let (sent, lost) = (count(flow.sent), count(flow.lost));
        vec![flow.name.clone(), flow.kind.clone(), rate(flow.goodput_bps), time(delay.mean), time(delay.p50), time(delay.p99), sent, lost]
    };
    summary.flows.iter().for_each(|it| flows.row(flow(it)));
    let mut links = Table::new(["link", "used", "queued mean", "p99", "packets", "dropped", "marked"]);
    let link = |link: &Link| {
        let used = link.utilisation.map_or_else(|| "-".to_owned(), percent);
        let (mean, p99) = (duration(link.sojourn_ns.mean as f64), duration(link.sojourn_ns.p99 as f64));
        let (dropped, marked) = (count(link.drops.values().sum()), count(link.marks.values().sum()));
        vec![link.name.clone(), used, mean, p99, count(link.packets_in), dropped, marked]
    };
    summary.links.iter().filter(|it| it.packets_in > 0).for_each(|it| links.row(link(it)));
    format!("{name}, live\n\n{}\n{}", flows.text(), links.text())
}

/// Writes the directory under another name beside its own, which it gets when everything is in it.
fn directory(path: &Path, replace: bool, results: &Results, printed: &Printed) -> Result<(), Failure> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = parent(path).join(name);
    let failed = |error: std::io::Error| Failure::own(format!("cannot write {}: {error}", path.display()));
    let fill = || {
        fs::create_dir(&beside).map_err(failed)?;
        weir_report::sim::write(&beside, results, Contents::default()).map_err(Failure::own)?;
        for (name, text) in printed {
            fs::write(beside.join(format!("{name}.txt")), text).map_err(failed)?;
        }
        if replace && path.exists() {
            fs::remove_dir_all(path).map_err(failed)?;
        }
        fs::rename(&beside, path).map_err(failed)
    };
    let filled = fill();
    if filled.is_err() {
        // What failed is said; what is left of it is nobody's.
        let _ = fs::remove_dir_all(&beside);
    }
    filled
}

fn parent(path: &Path) -> PathBuf {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
