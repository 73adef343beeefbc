//! `weir sweep status` and `weir sweep missing`: which runs of a campaign a store has.

use std::fmt::Write as _;
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use weir_campaign::engine;
use weir_measure::document::{Document, Kind};
use weir_report::format::count;

use super::args::CampaignArgs;
use super::read::{open, refused};
use crate::output::{Failure, print};

/// The body of a document of the kind `campaign`.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct Campaign {
    /// The version of the engine. Only runs of this version are counted.
    engine: &'static str,
    /// Number of points.
    points: u64,
    /// Number of runs.
    runs: u64,
    /// Number of runs that the store has.
    done: u64,
    /// Number of runs that the store does not have.
    missing: u64,
    /// Number of other runs in the store, which other campaigns or versions made.
    others: u64,
}

pub(super) fn status(which: &CampaignArgs, json: bool) -> Result<ExitCode, Failure> {
    let (plan, store) = open(which)?;
    let mut done = 0;
    for number in 0..plan.points() {
        let task = plan.point(number).map_err(refused)?.task;
        done += task.seeds.iter().filter(|&seed| store.has(task.key(seed))).count() as u64;
    }
    let all = store.keys().map_err(Failure::of_weir)?.count() as u64;
    let runs = plan.runs();
    let found = Campaign {
        engine: engine(),
        points: plan.points(),
        runs,
        done,
        missing: runs - done,
        others: all.saturating_sub(done),
    };
    if json {
        return print(&Document::new(Kind::Campaign, found).to_json());
    }
    print(&format!(
        "{} points, {} runs: {} done, {} missing\n{} other runs in the store; version {}\n",
        count(found.points),
        count(found.runs),
        count(found.done),
        count(found.missing),
        count(found.others),
        found.engine,
    ))
}

pub(super) fn missing(which: &CampaignArgs) -> Result<ExitCode, Failure> {
    let (plan, store) = open(which)?;
    for number in 0..plan.points() {
        let point = plan.point(number).map_err(refused)?;
        let mut text = String::new();
        for seed in point.task.seeds.iter() {
            let key = point.task.key(seed);
            if store.has(key) {
                continue;
            }
            let _ = write!(text, "{key} point={number} seed={seed}");
            for (name, value) in &point.settings {
                let _ = write!(text, " {name}={value}");
            }
            text.push('\n');
        }
        print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}
