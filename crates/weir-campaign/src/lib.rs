//! Campaigns: up to ten million runs, which follow from scenarios, axes and seeds, and a store that
//! keeps the result of each run under a hash of everything that decides the result.
//!
//! A run is carried out by the simulator or, on real frames, by `weir live` ([`live`]).
//!
//! A simulated run is a function of its scenario, the files that the scenario names, its seed and
//! the version of the engine. [`key::Key`] is the hash of these. A [`store::Store`] is a directory
//! that many processes on many hosts may write at the same time: each run appears whole, under its
//! key, or not at all. A [`plan::Plan`] lists the runs of a campaign without holding them in
//! memory. To resume a campaign is to carry out the runs that the store does not have.
//!
//! The command `weir sweep` and the Python package use this one implementation. Simulated runs with
//! the same key give the same bytes in both: none of their files contains a clock time, the name of
//! a host or the speed of a processor.

mod canonical;
pub mod check;
pub mod export;
pub mod figure;
pub mod file;
mod inputs;
pub mod key;
pub mod live;
pub mod plan;
pub mod pool;
pub mod store;
pub mod work;

/// The version of the engine: the version of Weir, and a fingerprint of the sources that decide
/// results.
#[must_use]
pub fn engine() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), "+", env!("WEIR_ENGINE"))
}
