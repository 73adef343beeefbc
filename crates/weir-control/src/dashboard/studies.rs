//! Studies: computations that the page starts beside the links, such as a simulated scenario. They
//! run in processes of their own, apart from the thread that moves packets.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A scenario to simulate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewStudy {
    /// The text of the scenario.
    pub text: String,
    /// The number of runs, in place of the scenario's.
    #[serde(default)]
    pub runs: Option<u32>,
    /// The seed of the first run, in place of the scenario's.
    #[serde(default)]
    pub seed: Option<u64>,
}

/// The state of a study.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StudyState {
    /// It is being computed.
    #[default]
    Running,
    /// It has a result.
    Done,
    /// It has ended without a result.
    Failed,
    /// A client has ended it.
    Cancelled,
}

/// A study, as clients see it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StudyView {
    /// Its number; later studies have greater ones.
    pub number: u64,
    /// The name of the scenario.
    pub name: String,
    /// Its state.
    pub state: StudyState,
    /// The part that is done, from 0 to 1.
    pub part: f64,
    /// Simulated events so far.
    pub events: u64,
    /// Finished runs.
    pub finished: u64,
    /// Runs in all.
    pub runs: u64,
    /// The time since the start of the study, or the time that the study took, in seconds.
    pub seconds: f64,
    /// Why the study has no result.
    pub error: Option<String>,
    /// The tables that `weir sim` prints.
    pub tables: Option<String>,
    /// Whether the study can be compared with another one: a sweep has no single result.
    pub comparable: bool,
}

/// A scenario to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// The limits of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StudyLimits {
    /// Bytes of a scenario's text.
    pub text_bytes: usize,
    /// Runs of all points together.
    pub runs: u64,
    /// Seconds of processor time.
    pub processor_s: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of a report, and of the results.
    pub result_bytes: usize,
    /// Studies that are kept.
    pub kept: usize,
}

/// A part of a finished study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudyPart {
    /// The report with plots, as one HTML page.
    Report,
    /// The results as JSON.
    Results,
}

/// One queue of the kernel during an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelQueue {
    /// Its number within one watch.
    pub id: u32,
    /// Its name for people: device, discipline and handle.
    pub label: String,
    /// Whether this is the root discipline of its device.
    pub root: bool,
    /// The fewest packets that waited.
    pub packets_min: u32,
    /// The mean number of packets that waited.
    pub packets_mean: f64,
    /// The most packets that waited.
    pub packets_max: u32,
    /// The mean number of bytes that waited.
    pub bytes_mean: f64,
    /// The most bytes that waited.
    pub bytes_max: u32,
    /// Packets that were sent during the interval.
    pub sent: u64,
    /// Packets that were dropped during the interval.
    pub drops: u64,
}

/// The queues of a device during an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KernelPoint {
    /// Its number; later points have greater ones.
    pub number: u64,
    /// The end of the interval on the monotonic clock, ns.
    #[serde(skip)]
    pub at_ns: u64,
    /// The end in ms since 1970, as the page's server sets it.
    pub t_ms: f64,
    /// The length of the interval, ms.
    pub span_ms: f64,
    /// The queues.
    pub queues: Vec<KernelQueue>,
}

/// The queues of a device, as they are read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KernelView {
    /// How the queues are read; empty before the first reading.
    pub method: String,
    /// Readings per second.
    pub rate: u64,
    /// Remarks for the user, such as why a better method is not available.
    pub remarks: Vec<String>,
    /// Why reading has ended.
    pub ended: Option<String>,
    /// The points after the point that the request named.
    pub points: Vec<KernelPoint>,
}

/// A scheduler for which curves can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CurveAlgorithm {
    /// Its name.
    pub name: &'static str,
    /// A description in one sentence.
    pub summary: &'static str,
}

/// The schedulers for which curves can be computed, and the limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CurveChoice {
    /// The schedulers.
    pub algorithms: Vec<CurveAlgorithm>,
    /// Maximum number of schedulers in a request.
    pub most_algorithms: usize,
    /// Maximum number of flows in a request.
    pub most_flows: u32,
    /// Maximum number of packets in a request.
    pub most_packets: u64,
}

/// Why a request about studies has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StudyError {
    /// There is no such study, or it has no such part.
    #[error("{0}")]
    Unknown(String),
    /// The request cannot be carried out now: another study runs, or too many devices are watched.
    #[error("{0}")]
    Busy(String),
    /// The request is wrong.
    #[error("{0}")]
    Wrong(String),
    /// The process that carries studies out has failed.
    #[error("{0}")]
    Failed(String),
}

/// Carries out studies. Calls come from several threads, and may wait for some seconds unless their
/// descriptions say otherwise. An answer of type `String` is JSON text.
pub trait Studies: Send + Sync + 'static {
    /// The scenarios to begin with. Does not wait.
    fn examples(&self) -> &'static [Example];

    /// The limits. Does not wait.
    fn limits(&self) -> StudyLimits;

    /// Checks a scenario: `{"summary", "runs", "diagnostics"}`.
    ///
    /// # Errors
    /// See [`StudyError`]. A wrong scenario is no error, but an answer with diagnostics.
    fn check(&self, text: &str) -> Result<String, StudyError>;

    /// Starts a study, and returns its number. Does not wait.
    ///
    /// # Errors
    /// See [`StudyError`].
    fn start(&self, study: NewStudy) -> Result<u64, StudyError>;

    /// The studies that are kept, oldest first. Does not wait.
    fn list(&self) -> Vec<StudyView>;

    /// Ends a study that runs, and forgets one that has ended. Does not wait.
    ///
    /// # Errors
    /// There is no such study.
    fn remove(&self, number: u64) -> Result<(), StudyError>;

    /// A part of the result of a study. Does not wait.
    ///
    /// # Errors
    /// There is no such study, or it has no result.
    fn part(&self, number: u64, part: StudyPart) -> Result<Arc<[u8]>, StudyError>;

    /// Compares two studies as `weir compare --json` does, and adds the text that it prints.
    ///
    /// # Errors
    /// See [`StudyError`].
    fn compare(&self, left: u64, right: u64) -> Result<String, StudyError>;

    /// The network devices of this machine: `{"devices", "more"}`.
    ///
    /// # Errors
    /// See [`StudyError`].
    fn devices(&self) -> Result<String, StudyError>;

    /// The points of a device's queues that follow the point with number `after`. The first call
    /// starts the watch of the device, which ends when no client asks any more. Does not wait.
    ///
    /// # Errors
    /// See [`StudyError`].
    fn kernel(&self, device: &str, after: u64) -> Result<KernelView, StudyError>;

    /// The schedulers for which curves can be computed. Does not wait.
    fn curve_choice(&self) -> CurveChoice;

    /// Service curves of schedulers: `{"times", "fluid", "flows", "algorithms"}`. `wanted` is a
    /// JSON object with the members `algorithms`, `flows`, `load`, `packets` and `seed`.
    ///
    /// # Errors
    /// See [`StudyError`].
    fn curves(&self, wanted: &str) -> Result<String, StudyError>;
}
