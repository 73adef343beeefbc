//! Plays a case with each of its seeds and collects the findings.

use schemars::JsonSchema;
use serde::Serialize;

use super::case::Case;
use super::compare::Finding;
use super::play::{Counts, Play, play};

/// The outcome of a case.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "CaseOutcome")]
pub struct Outcome {
    /// The case's own description.
    pub about: String,
    /// The algorithm, with settings that are not at their defaults.
    pub algorithm: String,
    /// Whether every expectation holds.
    pub passed: bool,
    /// Each expectation with the value found.
    pub expectations: Vec<Finding>,
    /// The play with the first seed.
    pub play: Play,
    /// The counts with each seed, as pairs of seed and counts.
    pub counts: Vec<(u64, Counts)>,
}

impl Case {
    /// Plays the case with each of its seeds.
    pub fn run(&self) -> Outcome {
        let mut findings: Vec<Finding> = self.expected.iter().map(Finding::new).collect();
        let (mut first, mut counts) = (None, Vec::new());
        for seed in self.seeds.clone() {
            let play = play(self, seed);
            for (expected, finding) in self.expected.iter().zip(&mut findings) {
                finding.compare(expected, &play, self.within);
            }
            counts.push((seed, play.counts));
            first.get_or_insert(play);
        }
        for (expected, finding) in self.expected.iter().zip(&mut findings) {
            finding.conclude(expected, counts.len());
        }
        Outcome {
            about: self.about.clone(),
            algorithm: self.manager.to_string(),
            passed: findings.iter().all(|finding| finding.passed),
            expectations: findings,
            play: first.unwrap_or_default(),
            counts,
        }
    }
}
