//! The files of a watch: every reading while it lasts, a summary and a report at its end.

use std::path::Path;
use std::time::SystemTime;

use weir_probe::measure::Tally;
use weir_report::watch::{About, Format, html};
use weir_report::write_atomic;
use weir_watch::Files;

use super::args::WatchArgs;
use super::show;
use crate::live::wall_time;
use crate::output::{Failure, print, say};

/// Creates the files of readings that were asked for.
///
/// # Errors
/// A file that cannot be made.
pub(super) fn files(args: &WatchArgs) -> Result<Files, Failure> {
    let wanted: Vec<(&Path, Format)> = [
        (&args.jsonl, Format::JsonLines),
        (&args.csv, Format::Csv),
        (&args.parquet, Format::Parquet),
    ]
    .into_iter()
    .filter_map(|(path, format)| Some((path.as_deref()?, format)))
    .map(|(path, format)| {
        (if path.as_os_str() == "-" { Path::new("/dev/stdout") } else { path }, format)
    })
    .collect();
    Files::create(&wanted, env!("CARGO_PKG_VERSION")).map_err(Failure::own)
}

/// Writes the summary and the report of a watch that started at a time and took so many seconds;
/// returns what failed. One file that fails does not keep the other from being written.
pub(super) fn write_results(
    args: &WatchArgs,
    tally: &Tally,
    sources: &[show::SourceOf],
    (started, seconds): (SystemTime, f64),
) -> Vec<String> {
    let mut failures = Vec::new();
    let summary = show::summary(tally, sources, seconds, args.threshold);
    if let Some(path) = &args.json {
        let text = summary.to_json();
        let written = if path.as_os_str() == "-" {
            print(&text).map(|_| ()).map_err(|failure| failure.to_string())
        } else {
            write_atomic(path, text.as_bytes()).map_err(|error| error.to_string())
        };
        failures.extend(written.err());
    }
    if let Some(path) = &args.report {
        let command = args
            .program()
            .unwrap_or_default()
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let about = About {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: wall_time(started),
            command,
        };
        match write_atomic(path, html(tally, &summary, &about).as_bytes()) {
            Ok(()) if !args.quiet => say(format_args!("report: {}\n", path.display())),
            Ok(()) => {}
            Err(error) => failures.push(error.to_string()),
        }
    }
    failures
}
