//! The files of a watch when it is over.

use weir_probe::measure::Tally;
use weir_report::write_atomic;

use super::args::WatchArgs;
use super::reader::Progress;
use super::show;
use crate::output::print;

/// A source and the devices that it has told of.
pub(super) type SourceOf = (Progress, Vec<(String, Option<String>)>);

/// Writes the summary and the report. One file that fails does not keep the other from being written; what went wrong.
pub(super) fn write_results(args: &WatchArgs, tally: &Tally, sources: &[SourceOf], seconds: f64) -> Vec<String> {
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
    failures
}
