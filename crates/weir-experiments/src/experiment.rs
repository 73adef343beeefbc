//! An experiment of the simulator as a row of the list, and its options.

use weir_report::finding::Finding;

/// The options of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Shorter and fewer runs: a rougher picture in about a tenth of the time.
    pub quick: bool,
    /// Seed of all random draws.
    pub seed: u64,
    /// Threads for independent runs; 0 for as many as there are processors. No result depends on
    /// it.
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
