//! Scenario files: no text makes the parser or a change of a key panic, an accepted scenario can be
//! built, and a small one can be run.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use weir_sim::build::build;
use weir_sim::run::{Job, Progress, run};
use weir_sim::scenario::{self, Edited, parse, parse_edited};

fuzz_target!(|data: (&str, &str, &str, &str)| {
    let (text, key, value, content) = data;
    let files: BTreeMap<String, String> = ["f", "f.csv", "f.dist"]
        .iter()
        .map(|name| ((*name).to_owned(), content.to_owned()))
        .collect();
    let checked = parse(text, "f.toml", &files);
    let _ = checked.diagnostics.render(false);
    let mut edited = Edited::new(text);
    if edited.set(key, value).is_ok() {
        let _ = parse_edited(&edited, "f.toml", "--set", &files).diagnostics.render(false);
    }
    let Some(scenario) = checked.scenario else { return };
    let _ = scenario::summary(&scenario);
    let flows: u64 = scenario.traffic.iter().map(|traffic| traffic.flows()).sum();
    let packets: u64 = scenario
        .traffic
        .iter()
        .map(|traffic| traffic.expected_packets(scenario.duration))
        .fold(0, u64::saturating_add);
    if flows > 100 || scenario.links.len() > 100 || build(&scenario, 1).is_err() {
        return;
    }
    // Only short scenarios are run: the world has its own tests.
    if packets < 1000
        && scenario.duration.0 < 1_000_000
        && scenario.traffic.iter().all(|traffic| traffic.spec.kind() == "cbr")
    {
        let _ = run(Job { scenario: &scenario, seed: 1 }, &Progress::default(), &|_| None);
    }
});
