//! Scenario files: no text makes the parser or a change of a key panic, and a small scenario that
//! can be built runs to its end.

use weir_core::Nanos;
use weir_sim::build::{Built, build};
use weir_sim::run::{self, Job, Progress};
use weir_sim::scenario::{self, Edited, Scenario, parse, parse_edited};

use super::parts;

/// The bytes are a scenario, a key and its value, and the content of the files `f`, `f.csv` and
/// `f.dist`.
pub fn run(data: &[u8]) {
    let Some(([text, key, value, content], _)) = parts::split(data) else { return };
    let files = parts::files(content);
    let checked = parse(text, "f.toml", &files);
    let _ = checked.diagnostics.render(false);
    let mut edited = Edited::new(text);
    if edited.set(key, value).is_ok() {
        let _ = parse_edited(&edited, "f.toml", "--set", &files).diagnostics.render(false);
    }
    let Some(scenario) = checked.scenario else { return };
    let _ = scenario::summary(&scenario);
    if is_small(&scenario) {
        let ran = run::run(Job { scenario: &scenario, seed: 1 }, &Progress::default(), &|_| None);
        assert!(matches!(ran, Ok(Some(_))), "{ran:?}");
    }
}

/// Whether the scenario can be built and has few events. This bounds the time that an input takes.
fn is_small(scenario: &Scenario) -> bool {
    let flows: u64 = scenario.traffic.iter().map(|traffic| traffic.flows()).sum();
    if flows > 100 || scenario.links.len() > 100 || scenario.duration > LONGEST {
        return false;
    }
    let Ok(Built { mut world, .. }) = build(scenario, 1) else { return false };
    (1..=PIECES).all(|piece| {
        world.run(Nanos(scenario.duration.0 * piece / PIECES));
        world.events() < MOST_EVENTS
    })
}

/// The longest duration of a small scenario.
const LONGEST: Nanos = Nanos::from_millis(10);
/// The number of equal pieces of a run. The events are counted after each piece.
const PIECES: u64 = 100;
/// A scenario with fewer events is small.
const MOST_EVENTS: u64 = 20_000;
