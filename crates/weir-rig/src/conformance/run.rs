//! Plays a case with each of its seeds and collects the findings.

use schemars::JsonSchema;
use serde::Serialize;

use super::case::{Case, Subject};
use super::compare::Finding;
use super::play::play;
use super::record::{Counts, Play};

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
    /// The known cause of a difference, if the case states one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub differs: Option<String>,
    /// Each expectation with the value found.
    pub expectations: Vec<Finding>,
    /// The play with the first seed.
    pub play: Play,
    /// The counts with each seed, as pairs of seed and counts.
    pub counts: Vec<(u64, Counts)>,
}

impl Case {
    /// Plays the case with each of its seeds. A case for a discipline that Weir does not have
    /// ([`Subject::Missing`](super::Subject::Missing)) plays nothing, and fails.
    pub fn run(&self) -> Outcome {
        let mut findings: Vec<Finding> = self.expected.iter().map(Finding::new).collect();
        let (mut first, mut counts) = (None, Vec::new());
        let playable = !matches!(self.subject, Subject::Missing(_));
        for seed in self.seeds.clone().filter(|_| playable) {
            let play = play(self, seed);
            for (expected, finding) in self.expected.iter().zip(&mut findings) {
                finding.compare(expected, &play, self.within);
            }
            counts.push((seed, play.counts));
            first.get_or_insert(play);
        }
        for (expected, finding) in self.expected.iter().zip(&mut findings) {
            finding.conclude(expected);
        }
        Outcome {
            about: self.about.clone(),
            algorithm: self.subject.to_string(),
            differs: self.differs.clone(),
            passed: playable && findings.iter().all(|finding| finding.passed),
            expectations: findings,
            play: first.unwrap_or_default(),
            counts,
        }
    }
}
