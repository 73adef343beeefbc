//! An experiment of the simulator as a row of the list, and how it is run.

use weir_report::finding::Finding;

/// How an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Shorter and fewer runs: a rougher picture in about a tenth of the time.
    pub quick: bool,
    /// What every draw follows from.
    pub seed: u64,
    /// Threads for runs that do not depend on each other; 0 for as many as there are processors. No
    /// result depends on it.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { quick: false, seed: 1, threads: 0 }
    }
}

/// An experiment of the list.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// One line that says what it shows.
    pub summary: &'static str,
    /// The publication.
    pub source: &'static str,
    /// Runs it.
    pub run: fn(&Options) -> Finding,
}
