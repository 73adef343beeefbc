//! Conformance cases: what arrives at a queue, when packets are taken from it, and what is expected
//! to be dropped and marked.
//!
//! A case is a text file of its own, so that another implementation can run the same ones;
//! `docs/conformance.md` describes the format. [`Case::read`] reads it, [`Case::run`] plays it for
//! each of its seeds and compares.

mod compare;
mod play;
mod read;
mod table;

pub use compare::{Bound, Column, Counter, Expectation, Finding, Wanted};
pub use play::{Counts, Event, Play, Snapshot};
pub use read::CaseError;

use std::ops::RangeInclusive;

use serde::Serialize;
use weir_core::config::QueueLimit;
use weir_core::packet::Header;

use weir_rules::manager::Manager;

/// A case, validated.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it shows, in a line.
    pub about: String,
    /// Where the expectations are from.
    pub source: String,
    /// What drops and marks.
    pub manager: Manager,
    /// The queue's limit.
    pub limit: QueueLimit,
    /// The link's rate in bit/s that an AQM is told; 0 for none.
    pub rate: u64,
    /// Seeds of the draws; the case is played for each.
    pub seeds: RangeInclusive<u64>,
    /// Packets by time.
    pub arrivals: Vec<Arrival>,
    /// When packets leave.
    pub service: Service,
    /// How far times may be off, in ns.
    pub within: u64,
    /// What is expected.
    pub expected: Vec<Expectation>,
}

/// A packet that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When, in ns.
    pub at: u64,
    /// Length in bytes.
    pub len: u32,
    /// Its flow, for counts.
    pub flow: u32,
    /// ECN field, DSCP, and hash of its flow.
    pub header: Header,
}

/// When packets leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// One at each of these times in ns, if there is one.
    Times(Vec<u64>),
    /// As a link sends them.
    Link {
        /// bit/s.
        rate: u64,
        /// Bytes that an idle link may owe.
        burst: u64,
        /// When it begins to send, in ns.
        from: u64,
        /// When it stops, in ns.
        until: u64,
    },
}

/// What came of a case.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// As in the case.
    pub about: String,
    /// The algorithm, with settings that are not at their defaults.
    pub algorithm: String,
    /// Whether every expectation holds.
    pub passed: bool,
    /// Expectations, each with what was found.
    pub expectations: Vec<Finding>,
    /// The play with the first seed.
    pub play: Play,
    /// What it counted with each seed.
    pub counts: Vec<(u64, Counts)>,
}

impl Case {
    /// Plays the case with each of its seeds.
    pub fn run(&self) -> Outcome {
        let mut findings: Vec<Finding> = self.expected.iter().map(Finding::new).collect();
        let (mut first, mut counts) = (None, Vec::new());
        for seed in self.seeds.clone() {
            let play = play::play(self, seed);
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
