//! What Weir measures, and the one form that results have.
//!
//! The engine counts packets and latencies in these types while packets pass; the live loop, the
//! simulator, the sampler and the daemon add them up; reports and documents show them. Nothing is
//! copied into types of another crate on the way, so a new counter or drop reason is a row here and
//! the place that counts it.
//!
//! - [`stats`]: counters of a link, with a typed reason for every drop and mark.
//! - [`histogram`]: latencies, to within 3.1 %. Two other histograms have their reasons: `tally` for
//!   the delays of flows, to within 0.1 %, and `exact` for the lengths of queues. All are read as
//!   bins of low, high and count, and a `distribution` holds what any of them has counted.
//! - `series`: quantities over time in bounded memory.
//! - `scenario`, `watch`: what a run of a scenario and a watch of queues measured.
//!
//! The crate needs neither `std` nor a clock. The engine uses the first two modules; the feature
//! `serde` reads and writes their types, and `document` adds the rest.
#![no_std]

extern crate alloc;

#[cfg(feature = "document")]
pub mod distribution;
#[cfg(feature = "document")]
pub mod estimate;
#[cfg(feature = "document")]
pub mod exact;
pub mod histogram;
pub mod latency;
#[cfg(feature = "openapi")]
mod openapi;
#[cfg(feature = "document")]
pub mod scenario;
#[cfg(feature = "document")]
pub mod series;
pub mod stats;
#[cfg(feature = "document")]
pub mod tally;
#[cfg(feature = "document")]
pub mod watch;
