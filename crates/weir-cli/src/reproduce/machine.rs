//! Experiments that measure this machine. The library runs them; this file starts valgrind and
//! shows progress.

use std::ffi::OsString;

use indicatif::ProgressBar;
use weir_experiments::emulation_cost::Case;
use weir_experiments::{Options, Progress, accuracy, emulation_cost, end_host, ring_live};
use weir_report::finding::Finding;
use weir_rig::instructions::Cache;

use super::experiment::{Experiment, How, Outcome, Settings};
use super::simulated::bar;
use crate::output::Failure;
use crate::rig::{cachegrind, has_valgrind};

/// The cost of a packet in classifier and engine.
pub(super) const COST: Experiment = Experiment {
    name: emulation_cost::NAME,
    summary: emulation_cost::SUMMARY,
    source: emulation_cost::SOURCE,
    run: How::Machine(cost),
};

/// The accuracy of live emulation.
pub(super) const ACCURACY: Experiment = Experiment {
    name: accuracy::NAME,
    summary: accuracy::SUMMARY,
    source: accuracy::SOURCE,
    run: How::Machine(accuracy),
};

/// The queues of the sending host.
pub(super) const END_HOST: Experiment = Experiment {
    name: end_host::NAME,
    summary: end_host::SUMMARY,
    source: end_host::SOURCE,
    run: How::Machine(end_host),
};

/// Rings under real frames.
pub(super) const RING_LIVE: Experiment = Experiment {
    name: ring_live::NAME,
    summary: ring_live::SUMMARY,
    source: ring_live::SOURCE,
    run: How::Machine(ring_live),
};

fn ring_live(settings: &Settings) -> Result<Outcome, Failure> {
    with_bar(ring_live::NAME, settings, |options, progress| Ok(ring_live::run(options, progress)))
}

fn accuracy(settings: &Settings) -> Result<Outcome, Failure> {
    with_bar(accuracy::NAME, settings, |options, progress| {
        accuracy::run(options, progress).map_err(Failure::of_weir)
    })
}

fn end_host(settings: &Settings) -> Result<Outcome, Failure> {
    with_bar(end_host::NAME, settings, |options, progress| Ok(end_host::run(options, progress)))
}

fn with_bar(
    name: &'static str,
    settings: &Settings,
    run: impl Fn(&Options, &Progress<'_>) -> Result<Finding, Failure>,
) -> Result<Outcome, Failure> {
    let bar = bar(name, settings.show_progress);
    let options = Options { quick: settings.quick, ..Options::default() };
    let finding = run(&options, &|done, all| step(&bar, done, all));
    bar.finish_and_clear();
    finding.map(Outcome::from)
}

fn step(bar: &ProgressBar, done: usize, all: usize) {
    bar.set_length(all as u64);
    bar.set_position(done as u64);
}

fn cost(settings: &Settings) -> Result<Outcome, Failure> {
    let bar = bar(emulation_cost::NAME, settings.show_progress);
    let has_valgrind = has_valgrind();
    let cache = Cache::second_level().unwrap_or_default();
    // Without valgrind, or where it fails, the finding has only times.
    let count = |case: &Case, packets: u64| {
        let own: [OsString; 3] = [
            "reproduce".into(),
            emulation_cost::NAME.into(),
            format!("--drive={case},{packets}").into(),
        ];
        let events = has_valgrind.then(|| cachegrind(&cache, Vec::from(own)).ok()).flatten()?;
        Some(events.instructions)
    };
    let finding = emulation_cost::run(settings.quick, &count, &|done, all| step(&bar, done, all));
    bar.finish_and_clear();
    Ok(finding.into())
}

/// Passes packets through the classifier and engine of a case, while another program counts
/// instructions. `words` are the case and a number of packets, as in `pipes:10,1000`.
pub(super) fn drive(words: &str) -> Result<(), Failure> {
    let (case, packets) = words
        .split_once(',')
        .and_then(|(case, packets)| Some((Case::parse(case)?, packets.parse().ok()?)))
        .ok_or_else(|| {
            Failure::of_weir(format!("`{words}` is no case with a number of packets"))
        })?;
    emulation_cost::drive(&case, packets);
    Ok(())
}
