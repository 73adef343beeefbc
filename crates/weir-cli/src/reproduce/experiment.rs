//! An experiment of `weir reproduce`, its options and its result.

use weir_report::finding::Finding;
use weir_report::plot::Plot;
use weir_rig::report::Run;

use crate::output::Failure;

pub(super) struct Experiment {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    /// The publication, or the origin of the reference values.
    pub(super) source: &'static str,
    pub(super) run: How,
}

/// How an experiment runs.
pub(super) enum How {
    /// The rig measures it.
    Measured(&'static weir_experiments::Measured),
    /// The experiment measures this machine. It may need privileges or programs that are missing.
    Machine(fn(&Settings) -> Result<Outcome, Failure>),
    /// The simulator runs it.
    Simulated(&'static weir_experiments::Experiment),
}

/// The options of an experiment.
pub(super) struct Settings {
    /// Whether to use fewer packets and seeds.
    pub(super) quick: bool,
    /// Whether each method of `queue-sampler` reads for as long as in the publication.
    pub(super) full: bool,
    pub(super) show_progress: bool,
    /// How long each method of `queue-sampler` reads, if given.
    pub(super) seconds: Option<f64>,
    /// The numbers of clients in `queue-sampler`, if given.
    pub(super) clients: Option<Vec<u16>>,
}

/// The result of an experiment.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) finding: Finding,
    /// Measurements of the rig.
    pub(super) runs: Vec<Run>,
    /// Plots of the rig, in addition to those of the finding, each with the suffix of its file
    /// name.
    pub(super) plots: Vec<(String, Plot)>,
}

impl From<Finding> for Outcome {
    fn from(finding: Finding) -> Self {
        Self { finding, ..Self::default() }
    }
}
