//! The files of a watch: readings during the watch, a summary and a report at its end.

use std::path::Path;
use std::time::SystemTime;

use weir_report::watch::{About, Format, html};
use weir_report::write_atomic;
use weir_watch::Watched;

use super::args::WatchArgs;
use crate::live::wall_time;
use crate::output::{print, say};

/// The requested files of readings, with their formats.
pub(super) fn files(args: &WatchArgs) -> Vec<(&Path, Format)> {
    [(&args.jsonl, Format::JsonLines), (&args.csv, Format::Csv), (&args.parquet, Format::Parquet)]
        .into_iter()
        .filter_map(|(path, format)| Some((path.as_deref()?, format)))
        .map(|(path, format)| {
            (if path.as_os_str() == "-" { Path::new("/dev/stdout") } else { path }, format)
        })
        .collect()
}

/// Writes the summary and the report of a watch that started at `started` and took `seconds`.
/// Returns the failures. A failure of one file does not prevent the other.
pub(super) fn write_results(
    args: &WatchArgs,
    watched: &Watched,
    (started, seconds): (SystemTime, f64),
) -> Vec<String> {
    let mut failures = Vec::new();
    let summary = watched.summary(seconds, args.threshold);
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
        match write_atomic(path, html(&watched.tally, &summary, &about).as_bytes()) {
            Ok(()) if !args.quiet => say(format_args!("report: {}\n", path.display())),
            Ok(()) => {}
            Err(error) => failures.push(error.to_string()),
        }
    }
    failures
}
