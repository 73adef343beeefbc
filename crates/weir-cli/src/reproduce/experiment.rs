//! An experiment of `weir reproduce`, its options and its result.

use weir_report::plot::Plot;
use weir_rig::report::Run;

use crate::output::Failure;

/// An experiment from a publication.
pub(super) struct Experiment {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) source: &'static str,
    pub(super) run: How,
}

/// How an experiment runs.
pub(super) enum How {
    /// The rig measures it.
    Measured(&'static weir_experiments::Measured),
    /// The experiment creates networks in namespaces, which requires privileges that may be
    /// missing.
    Live(fn(&Settings) -> Result<Outcome, Failure>),
    /// The simulator runs it.
    Simulated(fn(&weir_experiments::Options) -> weir_report::finding::Finding),
}

/// The options of an experiment.
pub(super) struct Settings {
    pub(super) quick: bool,
    pub(super) show_progress: bool,
    /// The duration of an experiment in real time, if given.
    pub(super) seconds: Option<f64>,
    pub(super) clients: Option<Vec<u16>>,
}

/// The result of an experiment.
#[derive(Default)]
pub(super) struct Outcome {
    /// Tables that show published values next to measured ones.
    pub(super) text: String,
    pub(super) claims: Vec<Claim>,
    pub(super) runs: Vec<Run>,
    pub(super) plots: Vec<(String, Plot)>,
    /// The tables as data; null if there are `runs`.
    pub(super) tables: serde_json::Value,
    /// The result as an HTML page.
    pub(super) page: Option<String>,
}

/// A claim of a publication with its verdict.
pub(super) struct Claim {
    pub(super) words: String,
    /// The verdict and the measured values; `None` if the claim could not be tested.
    pub(super) seen: Option<(bool, String)>,
}
