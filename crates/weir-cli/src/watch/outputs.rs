//! The files of a watch: rows of every reading while it lasts, a summary and a report when it is
//! over.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use weir_probe::measure::Tally;
use weir_report::watch::{About, Format, Recorder, html};
use weir_report::write_atomic;

use super::args::WatchArgs;
use super::reader::{Progress, Seen};
use super::show;
use crate::live::wall_time;
use crate::output::{Failure, print, say};

/// The files that want every reading.
pub(super) struct Outputs {
    files: Vec<File>,
    flushed: Instant,
}

struct File {
    recorder: Recorder,
    /// Whether its failure has been told of.
    told: bool,
}

impl Outputs {
    /// Opens those that were asked for.
    ///
    /// # Errors
    /// For one that cannot be made.
    pub(super) fn open(args: &WatchArgs) -> Result<Self, Failure> {
        let mut files = Vec::new();
        for (path, format) in [
            (&args.jsonl, Format::JsonLines),
            (&args.csv, Format::Csv),
            (&args.parquet, Format::Parquet),
        ] {
            let Some(path) = path else { continue };
            let path = if path.as_os_str() == "-" { Path::new("/dev/stdout") } else { path };
            let recorder =
                Recorder::create(path, format, env!("CARGO_PKG_VERSION")).map_err(Failure::own)?;
            files.push(File { recorder, told: false });
        }
        Ok(Self { files, flushed: Instant::now() })
    }

    /// Writes down what was seen; what went wrong. A file that cannot be written is told of once
    /// and left as it is.
    pub(super) fn take(&mut self, seen: &[Seen]) -> Vec<String> {
        let flush = self.flushed.elapsed() >= FLUSH_EVERY;
        if flush {
            self.flushed = Instant::now();
        }
        let mut failures = Vec::new();
        for file in &mut self.files {
            seen.iter().for_each(|seen| seen.tell(&mut file.recorder));
            if flush {
                file.recorder.flush();
            }
            if let Some(error) = file.recorder.error().filter(|_| !file.told) {
                failures.push(error.to_string());
                file.told = true;
            }
        }
        failures
    }

    /// Completes all files; what went wrong.
    pub(super) fn finish(&mut self) -> Vec<String> {
        let end = |file: File| {
            let told = file.told;
            file.recorder.finish().err().filter(|_| !told).map(|error| error.to_string())
        };
        self.files.drain(..).filter_map(end).collect()
    }
}

impl Default for Outputs {
    fn default() -> Self {
        Self { files: Vec::new(), flushed: Instant::now() }
    }
}

/// A source and the devices that it has told of.
pub(super) type SourceOf = (Progress, Vec<(String, Option<String>)>);

/// Writes the summary and the report of a watch that began then. One file that fails does not keep
/// the other from being written; what went wrong.
pub(super) fn write_results(
    args: &WatchArgs,
    tally: &Tally,
    sources: &[SourceOf],
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

/// Time between two moments at which all that was seen is in the files.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
