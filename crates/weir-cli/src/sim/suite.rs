//! `weir sim --suite`: runs many experiments, each with every queue, and shows them side by side on
//! one page.

use std::path::Path;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use weir_experiments::{Options, rfc7928};
use weir_measure::document::{Document, Kind};
use weir_report::finding::Finding;
use weir_report::{finding_to_html, write_atomic};
use weir_rules::manager::Manager;

use super::SimArgs;
use crate::output::{Failure, USAGE, print, say};
use crate::table::Table;

pub(super) fn suite(args: &SimArgs) -> Result<ExitCode, Failure> {
    let managers = managers(args.aqm.as_deref())?;
    let options = Options {
        quick: args.quick,
        seed: args.seed.unwrap_or(1),
        threads: args.threads.unwrap_or(0),
    };
    let bar = bar(args.quiet);
    let finding = rfc7928::run(&managers, &options, &|done, all| {
        if let Some(bar) = &bar {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    if !args.quiet && !to_stdout {
        print(&tables(&finding))?;
    }
    if let Some(path) = &args.json {
        let json = Document::new(Kind::Suite, &finding).to_json();
        if to_stdout {
            print(&json).map(|_| ())?;
        } else {
            write_file(path, json.as_bytes(), args.quiet)?;
        }
    }
    if let Some(path) = &args.report {
        write_file(path, finding_to_html(&finding).as_bytes(), args.quiet)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The queues to compare: those of a comma-separated list, or the default ones.
fn managers(list: Option<&str>) -> Result<Vec<Manager>, Failure> {
    let names: Vec<&str> = list
        .map_or_else(|| rfc7928::DEFAULT.to_vec(), |list| list.split(',').map(str::trim).collect());
    names
        .into_iter()
        .map(|name| {
            Manager::parse(name).map_err(|error| Failure::new(USAGE, format!("--aqm: {error}")))
        })
        .collect()
}

fn tables(finding: &Finding) -> String {
    let mut text = format!("{}\n", finding.title);
    for found in &finding.tables {
        let mut table = Table::new(found.columns.iter().map(String::as_str));
        for row in &found.rows {
            table.add_row(row.iter().map(|cell| cell.text()).collect());
        }
        text += &format!("\n{}\n{}", found.title, table.text_within(WIDTH));
    }
    text
}

fn write_file(path: &Path, bytes: &[u8], quiet: bool) -> Result<(), Failure> {
    write_atomic(path, bytes).map_err(Failure::of_weir)?;
    if !quiet {
        say(format_args!("written: {}\n", path.display()));
    }
    Ok(())
}

/// A progress bar, on a terminal.
fn bar(quiet: bool) -> Option<ProgressBar> {
    use std::io::IsTerminal as _;
    if quiet || !std::io::stderr().is_terminal() {
        return None;
    }
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos} of {len} runs, {eta} left") {
        bar.set_style(style);
    }
    Some(bar)
}

/// The width of the tables in characters. Few terminals are narrower.
const WIDTH: usize = 80;
