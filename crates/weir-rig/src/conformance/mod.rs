//! Conformance cases: arrivals at a queue, the service of the queue, and the expected outcome.
//!
//! A case is a text file, so that another implementation can run the same cases;
//! `docs/conformance.md` describes the format. [`Case::read`] reads a case; [`Case::run`] plays it
//! for each of its seeds and compares.

mod case;
mod compare;
mod expectation;
mod flows;
mod pipe;
mod play;
mod read;
mod record;
mod run;
mod table;
mod wanted;

pub use case::{Arrival, Case, Class, Flow, Recording, Service, Subject};
pub use compare::Finding;
pub use expectation::{Bound, Column, Counter, Expectation, Wanted};
pub use record::{Counts, Event, Play, Snapshot};
pub use run::Outcome;
pub use table::CaseError;
