//! Experiments, most of which reproduce a publication. Each results in a
//! [`Finding`](weir_report::finding::Finding).
//!
//! Most experiments run in the simulator, where the same [`Options`] give the same finding on every
//! machine, with any number of threads. A [`Measured`] describes measurements for the rig and
//! evaluates them. [`emulation_cost`] and [`accuracy`] measure the machine; [`queue_sampler`] and
//! [`end_host`] run on the kernel's own queues; [`ring_live`] sends real frames over a live link.
//! [`rfc7928`] is a suite that compares queues with each other.
//!
//! # A new experiment
//! An experiment is a file with an [`Experiment`] (or a [`Measured`]) and a row in [`EXPERIMENTS`]
//! (or [`MEASURED`]). Its [`Finding`](weir_report::finding::Finding) follows these rules:
//!
//! - **Provenance.** Every value that we did not measure is a
//!   [`Cell::reference`](weir_report::finding::Cell::reference) or
//!   [`Cell::quoted`](weir_report::finding::Cell::quoted), and every curve of such values a
//!   [`Series`](weir_report::finding::Series) with a
//!   [`Provenance`](weir_report::finding::Provenance). The kinds are: *published* (document and
//!   place), *measured* by us with another program (name, version, date), *inferred* (from what),
//!   and *calibrated*: published, but a parameter was chosen to reproduce the value (which
//!   parameter, and which other values were not used for the choice). `sources` has the documents.
//! - **Seeds.** An experiment with random draws runs with
//!   [`Options::seeds`] seeds: `parallel::over_seeds` returns the results of each case by seed. A
//!   [`Quantity`](weir_report::finding::Quantity) has one value for each seed
//!   (`Quantity::of_runs`; `Quantity::ratio` for two systems with the same seeds) and Student's
//!   95 % interval. A quantity without random draws is `Quantity::exact`.
//! - **Claims.** A [`Claim`](weir_report::finding::Claim) has words, a provenance and conditions:
//!   `Claim::new(words, provenance).expect("what, unit", quantity, Range::below(0.5))`. The verdict
//!   follows from the intervals: *holds* if each is inside its range, *differs* if one is outside,
//!   *cannot be judged* otherwise. A published claim is stated as published. A weaker claim that
//!   holds may be added, but does not replace it.
//! - **Notes.** `Finding::notes` has what a reader must know to judge the finding, for example
//!   which conditions the document does not state.

pub mod accuracy;
mod dcf_anomaly;
pub mod dql_ring;
pub mod emulation_cost;
pub mod end_host;
mod experiment;
mod fifo_plus;
mod live_bed;
mod measured;
mod namespaces;
mod parallel;
mod pifo;
mod priority_drop;
mod qfq_plus;
mod qfq_talk;
pub mod queue_sampler;
mod queues;
pub mod rfc7928;
mod ring_bed;
mod ring_factors;
pub mod ring_live;
pub mod s10;
mod sources;
mod sp_pifo;
mod testbed;

pub use experiment::{Experiment, Options, Progress};
pub use measured::{Measured, Measurement, Metric, Row};
pub use parallel::parallel;

/// The experiments that the rig measures, in the order of the list.
pub const MEASURED: &[Measured] = &[qfq_talk::EXPERIMENT, qfq_plus::EXPERIMENT];

/// The experiments of the simulator, in the order of the list.
pub const EXPERIMENTS: &[Experiment] = &[
    queues::QUEUES,
    fifo_plus::PATH,
    fifo_plus::TABLE,
    fifo_plus::FAIR,
    fifo_plus::ORDER,
    fifo_plus::ALONE,
    priority_drop::EXPERIMENT,
    pifo::EXACT,
    sp_pifo::SP_PIFO,
    dql_ring::EXPERIMENT,
    ring_factors::EXPERIMENT,
    dcf_anomaly::EXPERIMENT,
    s10::EXPERIMENT,
];
