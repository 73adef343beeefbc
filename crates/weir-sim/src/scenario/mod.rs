//! Scenario files: a network, its traffic, what is measured, and for how long.
//!
//! A file is TOML. It is read in two steps: [`raw`] holds the value of each key, with its place;
//! [`check`] builds a [`Scenario`] from it, in which names are numbers and links are configurations
//! of the engine, and which can be run. Errors are diagnostics that point at the line. [`edit`]
//! changes keys before that, for settings on the command line and for sweeps.

mod check;
mod edit;

mod links;
mod print;

mod raw;
mod read;
mod traffic;

use weir_core::Nanos;
use weir_core::config::{FlowsetConfig, SchedulerConfig};
use weir_rules::{Diagnostics, Files, LinkSpec};

use crate::switch::SwitchConfig;

pub use edit::{EditError, Edited};
pub use print::summary;
pub use traffic::Traffic;

/// A scenario that can be run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// Simulated time from start to end, the warm-up included.
    pub duration: Nanos,
    /// Time at the start that is not measured; shorter than `duration`.
    pub warmup: Nanos,
    /// Seed of the first run; further runs have the next ones.
    pub seed: u64,
    /// Runs with different seeds, at least 1.
    pub runs: u32,
    /// Nodes, in the order of the file.
    pub nodes: Vec<Node>,
    /// Links, in the order of the file.
    pub links: Vec<Link>,
    /// Routes of the file, with all nodes from source to destination.
    pub routes: Vec<Route>,
    /// Traffic, in the order of the file.
    pub traffic: Vec<Traffic>,
    /// What is measured besides totals.
    pub measure: Measure,
    /// Keys with the values that they take in turn. Each point of a sweep is a separate scenario.
    pub sweep: Vec<Axis>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: NodeKind,
}

/// The kind of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Sends and receives, but does not forward.
    Host,
    /// Forwards without delay.
    Router,
    /// Forwards through queues that are programmed.
    Switch(Box<SwitchConfig>),
}

impl NodeKind {
    /// The name of the kind in files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Router => "router",
            Self::Switch(_) => "switch",
        }
    }
}

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Numbers of its two nodes.
    pub ends: [usize; 2],
    /// From the first to the second, and back.
    pub directions: [Direction; 2],
}

/// One direction of a link: a port.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// Name in results, different from all others.
    pub name: String,
    /// Link and its queue.
    pub spec: LinkSpec,
    /// The scheduler that shares the link; without one it is a pipe.
    pub scheduler: Option<SchedulerConfig>,
    /// Queues of the scheduler by traffic class; without any it has one, with the settings of
    /// `spec`.
    pub queues: Vec<FlowsetConfig>,
}

/// A route of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Numbers of all nodes from source to destination.
    pub nodes: Vec<usize>,
}

/// What is measured besides totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Distance of the points of time series.
    pub interval: Nanos,
    /// Whether every packet's path is recorded.
    pub trace: bool,
    /// Whether inversions are counted: packets that left a port while one of lower rank waited
    /// there.
    pub inversions: bool,
}

impl Default for Measure {
    fn default() -> Self {
        Self { interval: Nanos::from_millis(100), trace: false, inversions: false }
    }
}

/// A key and the values that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The key, such as `traffic.f1.rate`.
    pub key: String,
    /// Its values, as TOML.
    pub values: Vec<String>,
}

/// The result of parsing a text.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The scenario; `None` when there are errors.
    pub scenario: Option<Scenario>,
    /// Errors, warnings and notes.
    pub diagnostics: Diagnostics,
}

/// Parses a scenario. `name` is the name of its file, for diagnostics; `files` holds the files that
/// link specifications and traffic name.
pub fn parse(text: &str, name: &str, files: &dyn Files) -> Checked {
    let mut said = read::Say::new(text, name);
    let scenario =
        read::document(&mut said).and_then(|document| check::check(document, files, &mut said));
    let diagnostics = said.into_diagnostics();
    Checked { scenario: scenario.filter(|_| !diagnostics.has_errors()), diagnostics }
}

/// Parses a scenario with changed keys: diagnostics have the lines of the text before the changes,
/// and `origin` in place of the file's name where a change added the line.
pub fn parse_edited(edited: &Edited, name: &str, origin: &str, files: &dyn Files) -> Checked {
    let Checked { scenario, diagnostics } = parse(&edited.text, name, files);
    let mut restored = Diagnostics::default();
    restored.append(diagnostics, |diagnostic| edited.restore(diagnostic, name, origin));
    Checked { scenario, diagnostics: restored }
}

/// A point of a sweep, or the scenario itself without a sweep.
#[derive(Clone, Debug)]
pub struct Point {
    /// Keys that the sweep sets here, and their values as TOML.
    pub settings: Vec<(String, String)>,
    /// The scenario with these settings.
    pub scenario: Scenario,
    /// Its text.
    pub text: String,
}

/// The points of a scenario's sweep, the last key changing fastest; one without settings when there
/// is no sweep.
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
            // Parsing the scenario has checked that each key can be set.
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

/// Most nodes.
pub const MAX_NODES: usize = 60_000;
/// Most ports, two for each link; and most queues in front of schedulers.
pub const MAX_PORTS: usize = 60_000;
/// Most flows.
pub const MAX_FLOWS: u64 = 1_000_000;
/// Longest duration: a year.
pub const MAX_DURATION: Nanos = Nanos::from_secs(366 * 86_400);
/// Most runs of one scenario.
pub const MAX_RUNS: i64 = 100_000;
/// Most points of a sweep.
pub const MAX_POINTS: usize = 100_000;
/// Expected packets of a run above which there is a warning.
pub const MANY_PACKETS: u64 = 10_000_000_000;
