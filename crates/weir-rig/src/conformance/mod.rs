//! Conformance cases: arrivals at a queue, departures from it, and the expected drops and marks.
//!
//! A case is a text file, so that another implementation can run the same cases;
//! `docs/conformance.md` describes the format. [`Case::read`] reads a case; [`Case::run`] plays it
//! for each of its seeds and compares.

mod case;
mod compare;
mod expectation;
mod play;
mod read;
mod run;
mod table;

pub use case::{Arrival, Case, Service};
pub use compare::Finding;
pub use expectation::{Bound, Column, Counter, Expectation, Wanted};
pub use play::{Counts, Event, Play, Snapshot};
pub use run::Outcome;
pub use table::CaseError;
