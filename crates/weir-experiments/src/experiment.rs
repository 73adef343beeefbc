//! An experiment in the simulator, as a row of the list, and its options.

use weir_report::finding::Finding;

/// The options of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether to make fewer and shorter runs: less exact results in about a tenth of the time.
    pub quick: bool,
    /// Seed of all random draws.
    pub seed: u64,
    /// Number of threads for independent runs; 0 for one per processor. No result depends on this
    /// number.
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
    /// One line that says what the experiment shows.
    pub summary: &'static str,
    /// The publication.
    pub source: &'static str,
    /// Runs the experiment.
    pub run: fn(&Options) -> Finding,
}
