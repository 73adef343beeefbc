//! Scenario files: a network, its traffic, what is measured, and for how long.
//!
//! A file is TOML and is read in two steps. [`raw`] holds the value of each key with its place in
//! the file. [`check`] builds a [`Scenario`] that can be run, in which names are indices and links
//! are configurations of the engine. Errors are diagnostics that point at the line. Before both
//! steps, [`edit`] can change keys, for settings on the command line and for sweeps.

mod check;
mod collector;
mod edit;
mod host_program;
mod lab;
mod links;
mod model;
mod names;
mod print;

mod raw;
mod read;
mod traffic;

use weir_rules::{Diagnostics, Files, ParsedFiles, SharedFiles};

pub use edit::{EditError, Edited};
pub use host_program::{After, EngineName, Health, HostProgram, Root, Volume, Words};
pub use model::{
    Axis, Direction, Link, MANY_PACKETS, MAX_DURATION, MAX_FLOWS, MAX_NODES, MAX_POINTS, MAX_PORTS,
    MAX_RUNS, Measure, Node, NodeKind, Route, Scenario, Traffic,
};
pub use print::summary;

/// The result of parsing a text.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The scenario; `None` if there are errors.
    pub scenario: Option<Scenario>,
    /// Errors, warnings and notes.
    pub diagnostics: Diagnostics,
}

/// Parses a scenario. `name` is the name of its file, for diagnostics. `files` opens the files that
/// link specifications and traffic name. All links that name a file share the value that was read
/// from it.
pub fn parse(text: &str, name: &str, files: &dyn Files) -> Checked {
    let values = ParsedFiles::default();
    let files = &SharedFiles::new(files, &values);
    let mut collector = collector::Collector::new(text, name);
    let scenario = read::document(&mut collector)
        .and_then(|document| check::check(document, files, &mut collector));
    let diagnostics = collector.into_diagnostics();
    Checked { scenario: scenario.filter(|_| !diagnostics.has_errors()), diagnostics }
}

/// Parses a scenario with changed keys. Diagnostics have the line numbers before the changes. A
/// diagnostic about an added line has `origin` in place of the file's name.
pub fn parse_edited(edited: &Edited, name: &str, origin: &str, files: &dyn Files) -> Checked {
    let Checked { scenario, diagnostics } = parse(&edited.text, name, files);
    let mut restored = Diagnostics::default();
    restored.append(diagnostics, |diagnostic| edited.restore(diagnostic, name, origin));
    Checked { scenario, diagnostics: restored }
}

/// A point of a sweep. A scenario without a sweep has one point.
#[derive(Clone, Debug)]
pub struct Point {
    /// The keys that the sweep sets at this point, and their values as TOML.
    pub settings: Vec<(String, String)>,
    /// The scenario with these settings.
    pub scenario: Scenario,
    /// The text of the scenario with these settings.
    pub text: String,
}

/// The points of a scenario's sweep; the last key changes fastest. Without a sweep, there is one
/// point without settings.
///
/// # Errors
/// The errors of the first point that cannot be run.
pub fn points(
    edited: &Edited,
    scenario: &Scenario,
    name: &str,
    files: &dyn Files,
) -> Result<Vec<Point>, Diagnostics> {
    if scenario.sweep.is_empty() {
        return Ok(vec![Point {
            settings: Vec::new(),
            scenario: scenario.clone(),
            text: edited.text.clone(),
        }]);
    }
    let values = ParsedFiles::up_to(MOST_MEMORY_OF_SWEEP);
    let files = &SharedFiles::new(files, &values);
    let count: usize = scenario.sweep.iter().map(|axis| axis.values.len()).product();
    let mut points = Vec::with_capacity(count);
    for number in 0..count {
        let (mut rest, mut settings) = (number, Vec::new());
        for axis in scenario.sweep.iter().rev() {
            settings.push((axis.key.clone(), axis.values[rest % axis.values.len()].clone()));
            rest /= axis.values.len();
        }
        settings.reverse();
        let mut point = edited.clone();
        for (key, value) in &settings {
            // Parsing the scenario has already checked that each key can be set.
            let _ = point.set(key, value);
        }
        let words: Vec<String> =
            settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        let checked = parse_edited(&point, name, &format!("sweep {}", words.join(", ")), files);
        points.push(Point {
            settings,
            scenario: checked.scenario.ok_or(checked.diagnostics)?,
            text: point.text,
        });
    }
    Ok(points)
}

/// The JSON schema of scenario files, with a final newline.
pub fn schema() -> String {
    let schema = schemars::schema_for!(raw::File);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain data");
    text.push('\n');
    text
}

/// The memory in bytes that the files of all points of a sweep may take: 1 GiB. One point may take
/// [`weir_rules::MOST_MEMORY`].
const MOST_MEMORY_OF_SWEEP: usize = 1 << 30;
