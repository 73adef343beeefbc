//! Measurements: what a run is asked for, and the plain data that comes out of it.
//!
//! Counters and delays are kept where packets pass, in [`crate::network::FlowCount`] and the
//! engine's statistics; a [`Meter`] looks at them in intervals. [`Outcome::of`] gathers all of it
//! when a run is over, and [`Estimate`] says what several runs are worth. Files are written
//! elsewhere.

mod meter;
mod outcome;
mod recorder;
mod student;
mod tally;

pub(crate) use meter::Meter;
pub use meter::{Envelope, FlowSample, LinkSample, Series, Settings};
pub use outcome::{
    ClassOutcome, FlowName, FlowOutcome, LinkName, LinkOutcome, Names, Outcome, Plan,
    fairness_by_kind,
};
pub use recorder::{Event, Record, Recorder, Sink};
pub use student::{Estimate, cumulative, fairness, quantile};
pub use tally::{Bucket, Distribution, Tally};
