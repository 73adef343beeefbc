//! `weir rig --case`: plays a conformance case, prints the fate of each packet, and compares it
//! with the expectations.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use weir_measure::document::{Document, Kind};
use weir_report::format::count;
use weir_report::write_atomic;
use weir_rig::conformance::{Case, Event, Outcome, Subject};

use crate::output::{Failure, USAGE, print, say};
use crate::table::Table;

/// Plays the case in a file, and fails if an expectation does not hold.
pub(super) fn case(path: &Path, json: Option<&Path>) -> Result<ExitCode, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(USAGE, format!("--case: cannot read {shown}: {error}")))?;
    let case = Case::read(&text).map_err(|error| {
        let line = text.lines().nth(error.line - 1).unwrap_or_default();
        Failure::new(USAGE, format!("--case: {shown}, {error}\n  {} | {line}", error.line))
    })?;
    if let Subject::Missing(cause) = &case.subject {
        return Err(Failure::new(USAGE, format!("--case: {shown} cannot be played: {cause}")));
    }
    let outcome = case.run();
    if json.is_none_or(|json| json.as_os_str() != "-") {
        print(&words(&outcome))?;
    }
    if let Some(json) = json {
        let text = Document::new(Kind::Case, &outcome).to_json();
        if json.as_os_str() == "-" {
            print(&text)?;
        } else {
            write_atomic(json, text.as_bytes()).map_err(Failure::of_weir)?;
        }
    }
    if !outcome.passed {
        let failed = outcome.expectations.iter().filter(|finding| !finding.passed).count();
        say(format_args!(
            "{shown}: {failed} of {} expectations do not hold\n",
            outcome.expectations.len()
        ));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn words(outcome: &Outcome) -> String {
    let mut text = format!("{}\n{}\n", outcome.about, outcome.algorithm);
    if let Some(cause) = &outcome.differs {
        let _ = writeln!(text, "known difference: {cause}");
    }
    text.push('\n');
    let mut events = Table::new(["time", "", "packet", "flow", "bytes", "waited", "reason"]);
    outcome.play.events.iter().for_each(|event| events.add_row(row(event)));
    text += &events.text();
    let counts = &outcome.play.counts;
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\n{} arrived, {} delivered ({} marked), {} dropped, {} still queued",
        count(counts.arrived),
        count(counts.delivered),
        count(counts.marked()),
        count(counts.dropped()),
        count(counts.remaining())
    );
    text += &if outcome.counts.len() > 1 {
        format!("; seed {}, the first of {}\n", outcome.play.seed, outcome.counts.len())
    } else {
        "\n".to_owned()
    };
    if outcome.expectations.is_empty() {
        return text + "\nNothing is expected.\n";
    }
    text.push('\n');
    for finding in &outcome.expectations {
        let _ = match finding.passed {
            true => writeln!(
                text,
                "  ok      {} (line {}): {}",
                finding.name, finding.line, finding.expected
            ),
            false => writeln!(
                text,
                "  FAILED  {} (line {}):\n          expected {}\n          found    {}",
                finding.name, finding.line, finding.expected, finding.found
            ),
        };
    }
    text
}

fn row(event: &Event) -> Vec<String> {
    let time = |ns: u64| format!("{}.{:06} ms", ns / 1_000_000, ns % 1_000_000);
    if event.what == "empty" {
        return vec![time(event.at_ns), event.what.to_owned()];
    }
    let what = match event.what {
        "dequeue" if event.reason.is_some() => "dequeue, marked",
        what => what,
    };
    let numbers = [event.packet, event.flow, event.bytes].map(|number| number.to_string());
    let mut words = vec![time(event.at_ns), what.to_owned()];
    words.extend(numbers);
    words.extend([time(event.waited_ns), event.reason.unwrap_or_default().to_owned()]);
    words
}
