//! Checks and simulates a scenario, in the process of a study.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_control::api::DiagnosticView;
use weir_rules::{Diagnostics, Files};
use weir_sim::run::{Progress, Ran, run_points};
use weir_sim::scenario::{self, Checked, EditError, Edited, Point, Scenario};

use super::messages::{self, PROGRESS, REPORT, RESULTS, TABLES};
use crate::sim;

/// A scenario to simulate, as the client sends it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Wanted {
    pub(super) text: String,
    /// The number of runs, in place of the scenario's.
    pub(super) runs: Option<u32>,
    /// The seed, in place of the scenario's.
    pub(super) seed: Option<u64>,
}

/// The progress of a simulation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct StudyProgress {
    pub(super) name: String,
    /// The part of the simulated time that is done, from 0 to 1.
    pub(super) part: f64,
    pub(super) events: u64,
    /// Number of runs that have ended.
    pub(super) finished: u64,
    /// Number of all runs.
    pub(super) runs: u64,
    /// Whether the scenario is no sweep, so that its results can be compared with those of another
    /// study.
    pub(super) comparable: bool,
}

/// Maximum number of runs of all points together.
pub(super) const MOST_RUNS: u64 = 200;

/// Sends the summary and the diagnostics of a scenario. For a scenario without errors that is not
/// simulated here, also sends the reason.
pub(super) fn check(request: &[Vec<u8>], stream: &UnixStream) -> Result<(), String> {
    let text = request.first().map(Vec::as_slice).unwrap_or_default();
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let edited = Edited::new(text);
    let Checked { scenario, mut diagnostics } = parsed(&edited);
    let runs = scenario.as_ref().map_or(0, all_runs);
    let mut refusal = scenario.as_ref().and_then(not_here);
    if let Some(scenario) = scenario.as_ref().filter(|_| refusal.is_none())
        && let Err(errors) = scenario::points(&edited, scenario, NAME, &Nowhere)
    {
        diagnostics.append(errors, |_| {});
    }
    if diagnostics.has_errors() {
        refusal = None;
    }
    let answer = json!({
        "summary": scenario.as_ref().map(scenario::summary),
        "name": scenario.as_ref().map(name_of),
        "runs": runs,
        "refusal": refusal,
        "diagnostics": views(&diagnostics),
    });
    messages::send(stream, RESULTS, answer.to_string().as_bytes()).map_err(|e| e.to_string())
}

/// Simulates a scenario and reports the progress, then sends the report, results and tables.
pub(super) fn simulate(request: &[Vec<u8>], stream: &UnixStream) -> Result<(), String> {
    let wanted = request.first().map(Vec::as_slice).unwrap_or_default();
    let wanted: Wanted = serde_json::from_slice(wanted).map_err(|error| error.to_string())?;
    let points = points(&wanted)?;
    let runs = points.iter().map(|point| u64::from(point.scenario.runs)).sum();
    let total_ns: u64 = points
        .iter()
        .map(|point| point.scenario.duration.0.saturating_mul(point.scenario.runs.into()))
        .fold(0, u64::saturating_add);
    let study = StudyProgress {
        name: points.first().map(|point| point.scenario.name.clone()).unwrap_or_default(),
        runs,
        comparable: matches!(points.as_slice(), [only] if only.settings.is_empty()),
        ..StudyProgress::default()
    };
    let all = run(points, (study, total_ns), stream)?;
    for (kind, text) in
        [(REPORT, sim::page(&all)), (RESULTS, sim::json(&all, None)), (TABLES, sim::tables(&all))]
    {
        messages::send(stream, kind, text.as_bytes()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The points of a scenario, or the reason why the scenario is not simulated here.
fn points(wanted: &Wanted) -> Result<Vec<Point>, String> {
    let mut edited = Edited::new(&wanted.text);
    let runs = wanted.runs.map(|runs| ("runs", runs.to_string()));
    let seed = wanted.seed.map(|seed| ("seed", seed.to_string()));
    for (key, value) in runs.into_iter().chain(seed) {
        match edited.set(key, &value) {
            // The parser reports errors in the text.
            Ok(()) | Err(EditError::Text) => {}
            Err(error) => return Err(format!("{key}: {error}")),
        }
    }
    let Checked { scenario, diagnostics } = parsed(&edited);
    let Some(mut scenario) = scenario else { return Err(diagnostics.render(false)) };
    if let Some(why) = not_here(&scenario) {
        return Err(why);
    }
    scenario.name = name_of(&scenario);
    let points = scenario::points(&edited, &scenario, NAME, &Nowhere);
    let mut points = points.map_err(|diagnostics| diagnostics.render(false))?;
    for point in &mut points {
        point.scenario.name.clone_from(&scenario.name);
        // The page has no place for a trace; `weir sim --out` writes one.
        point.scenario.measure.trace = false;
    }
    Ok(points)
}

/// Carries out the runs on this thread, while another thread reports their progress. `total_ns` is
/// the simulated time of all runs together.
fn run(
    points: Vec<Point>,
    (mut study, total_ns): (StudyProgress, u64),
    stream: &UnixStream,
) -> Result<Vec<Ran>, String> {
    let (progress, over) = (Progress::default(), AtomicBool::new(false));
    let mut tell = || {
        let simulated = progress.simulated_ns.load(Ordering::Relaxed);
        study.part = (simulated as f64 / total_ns.max(1) as f64).min(1.0);
        study.events = progress.events.load(Ordering::Relaxed);
        study.finished = progress.finished.load(Ordering::Relaxed) as u64;
        let text = serde_json::to_vec(&study).unwrap_or_default();
        // If the client is gone, this process ends anyway.
        let _ = messages::send(stream, PROGRESS, &text);
    };
    let ran = std::thread::scope(|scope| {
        let (over, progress) = (&over, &progress);
        let teller = scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                tell();
                std::thread::park_timeout(TELL_EVERY);
            }
            tell();
        });
        let ran = run_points(points, 1, progress, &|_, _, _| None);
        over.store(true, Ordering::Relaxed);
        teller.thread().unpark();
        ran
    });
    let ran = ran.map_err(|error| error.to_string())?;
    ran.ok_or_else(|| "the runs were stopped".to_owned())
}

fn parsed(edited: &Edited) -> Checked {
    scenario::parse_edited(edited, NAME, "the fields", &Nowhere)
}

fn name_of(scenario: &Scenario) -> String {
    if scenario.name.is_empty() { NAME.to_owned() } else { scenario.name.clone() }
}

fn all_runs(scenario: &Scenario) -> u64 {
    let points = scenario.sweep.iter().map(|axis| axis.values.len() as u64);
    points.fold(u64::from(scenario.runs), u64::saturating_mul)
}

/// Why a scenario without errors is not simulated for a page; `None` if it is.
fn not_here(scenario: &Scenario) -> Option<String> {
    if let Some(name) = scenario.live_only() {
        return Some(format!(
            "`{name}` is or runs a program, which the simulator cannot run: use `weir live`"
        ));
    }
    let runs = all_runs(scenario);
    (runs > MOST_RUNS).then(|| {
        format!(
            "these are {runs} runs; here at most {MOST_RUNS} are carried out: lower `runs`, or use \
             `weir sim` or `weir sweep`"
        )
    })
}

fn views(diagnostics: &Diagnostics) -> Vec<DiagnosticView> {
    diagnostics.iter().take(MOST_DIAGNOSTICS).map(Into::into).collect()
}

/// The files beside a page's scenario: none, because the page sends only the scenario's text.
struct Nowhere;

impl Files for Nowhere {
    fn read(&self, _path: &str) -> io::Result<String> {
        let text = "a scenario on the page has no files; use `weir sim` for one that has";
        Err(io::Error::new(io::ErrorKind::NotFound, text))
    }
}

/// The name of a scenario that has no name of its own.
const NAME: &str = "scenario";
/// The time between two messages about the progress.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// Maximum number of diagnostics that are sent.
const MOST_DIAGNOSTICS: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn checked(text: &str) -> serde_json::Value {
        let (ours, theirs) = UnixStream::pair().unwrap();
        check(&[text.as_bytes().to_vec()], &theirs).unwrap();
        drop(theirs);
        let mut bytes = Vec::new();
        (&ours).read_to_end(&mut bytes).unwrap();
        serde_json::from_slice(&bytes[5..]).unwrap()
    }

    #[test]
    fn a_scenario_is_checked_without_files_and_with_a_bound() {
        let text = include_str!("../../../../experiments/busy-line.toml");
        let good = checked(text);
        assert_eq!((&good["runs"], &good["name"]), (&json!(1), &json!("busy-line")));
        assert!(good["refusal"].is_null() && good["diagnostics"] == json!([]), "{good}");
        let wrong = checked(&text.replace("bw 10Mbit/s", "bww 10Mbit/s"));
        let first = &wrong["diagnostics"][0];
        assert_eq!(first["severity"], "error");
        assert!(first["line"].as_u64() > Some(1), "{first}");
        assert!(first.to_string().contains("`bw`"), "it suggests the word: {first}");
        let many = checked(&text.replace("duration", "runs = 201\nduration"));
        assert!(many["refusal"].as_str().unwrap().contains("201 runs"), "{many}");
        let file = checked(&text.replace("delay 10ms", "delay 10ms trace \"/etc/passwd\""));
        assert!(!file.to_string().contains("root:"), "{file}");
        assert_eq!(file["diagnostics"][0]["severity"], "error", "{file}");
        assert!(checked("name = 'x'\nduration = ")["summary"].is_null());
    }
}
