//! An experiment in the simulator, as a row of the list, and its options.

use weir_report::finding::Finding;

/// The options of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether to make fewer and shorter runs: less exact results in about a tenth of the time.
    pub quick: bool,
    /// The first seed. The runs have consecutive seeds from this one on.
    pub seed: u64,
    /// Number of threads for independent runs; 0 for one per processor. No result depends on this
    /// number.
    pub threads: usize,
}

impl Options {
    /// Number of seeds of an experiment with random draws.
    pub const fn seeds(&self) -> u64 {
        if self.quick { QUICK_SEEDS } else { SEEDS }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { quick: false, seed: 1, threads: 0 }
    }
}

/// Called after every run with the number of finished runs and the number of all runs. An
/// experiment of several parts counts the runs of each part separately.
pub type Progress<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// An experiment of the list.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// One line that says what the experiment shows.
    pub summary: &'static str,
    /// The publication, or the origin of the values that are compared.
    pub source: &'static str,
    /// Runs the experiment.
    pub run: fn(&Options, &Progress<'_>) -> Finding,
}

/// Number of seeds. With 10 seeds, a 95 % interval extends 2.3 standard errors to each side; with
/// very many seeds, 2.0.
const SEEDS: u64 = 10;
/// Number of seeds of a quick run. With 3 seeds, a 95 % interval extends 4.3 standard errors to
/// each side; with 2 seeds, 12.7.
const QUICK_SEEDS: u64 = 3;
