//! Measurements: the settings of a run, and the plain data of its results.
//!
//! Counters and delays are updated as packets pass, in [`crate::network::FlowCount`] and the
//! engine's statistics. A [`Meter`] reads them at intervals. [`Plan::gather`] collects everything
//! at the end of a run, and [`Estimate`] gives the precision over several runs. Other crates write
//! the files.

mod meter;
mod outcome;
mod recorder;

pub(crate) use meter::Meter;
pub use meter::Settings;
pub use outcome::Plan;
pub use recorder::{Event, Record, Recorder, Sink};
pub use weir_measure::distribution::Distribution;
pub use weir_measure::estimate::{Estimate, cumulative, fairness, quantile};
pub use weir_measure::scenario::{
    ClassOutcome, FlowName, FlowOutcome, LinkName, LinkOutcome, Names, Outcome, RunSeries,
    fairness_by_kind,
};
pub use weir_measure::series::{FlowPeriod, LinkPeriod};
pub use weir_measure::tally::Tally;
