//! Published experiments, run again: each is a function from its options to a [`Finding`](weir_report::finding::Finding).
//!
//! Most run in the simulator, where the same [`Options`] give the same finding on every machine,
//! with any number of threads. [`queue_sampler`] runs on the kernel's own queues. [`rfc7928`] is a
//! suite that compares queues with each other.

pub mod dql_ring;
mod experiment;
mod fifo_plus;
mod parallel;
mod pifo;
pub mod queue_sampler;
mod queues;
pub mod rfc7928;
pub mod s10;
mod sp_pifo;
mod testbed;

pub use experiment::{Experiment, Options};
pub use parallel::parallel;

/// All experiments of this crate, in the order of the list.
pub const EXPERIMENTS: &[Experiment] = &[
    queues::QUEUES,
    fifo_plus::PATH,
    fifo_plus::TABLE,
    fifo_plus::FAIR,
    pifo::EXACT,
    sp_pifo::SP_PIFO,
    dql_ring::EXPERIMENT,
    s10::EXPERIMENT,
];
