//! Published experiments, reproduced. Each is a function from its options to a
//! [`Finding`](weir_report::finding::Finding).
//!
//! Most experiments run in the simulator, where the same [`Options`] give the same finding on every
//! machine, with any number of threads. Others ([`Measured`]) describe measurements for the rig and
//! evaluate them. [`queue_sampler`] runs on the kernel's own queues. [`rfc7928`] is a suite that
//! compares queues with each other.

pub mod dql_ring;
mod experiment;
mod fifo_plus;
mod measured;
mod parallel;
mod pifo;
mod qfq_plus;
mod qfq_talk;
pub mod queue_sampler;
mod queues;
pub mod rfc7928;
pub mod s10;
mod sp_pifo;
mod testbed;

pub use experiment::{Experiment, Options};
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
    pifo::EXACT,
    sp_pifo::SP_PIFO,
    dql_ring::EXPERIMENT,
    s10::EXPERIMENT,
];
