//! Measurements: what a run is asked for, and the plain data that comes out of it.
//!
//! Counters and delays are kept where packets pass, in [`crate::network::FlowCount`] and the
//! engine's statistics; a [`Meter`] looks at them in intervals. [`Plan::gather`] gathers all of it
//! when a run is over, and [`Estimate`] says what several runs are worth. Files are written
//! elsewhere.

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
