//! Conformance cases: what arrives at a queue, when packets are taken from it, and what is expected
//! to be dropped and marked.
//!
//! A case is a text file of its own, so that another implementation can run the same ones;
//! `docs/conformance.md` describes the format. [`Case::read`] reads it, [`Case::run`] plays it for
//! each of its seeds and compares.

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
