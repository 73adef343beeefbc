//! What Weir measures, and the one form that results have.
//!
//! The engine counts packets and latencies in these types while packets pass; the live loop, the
//! simulator, the probe and the daemon add them up; reports and documents show them. Nothing is
//! copied into types of another crate on the way, so a new counter or drop reason is a row here and
//! the place that counts it.
//!
//! - [`stats`]: counters of a link, with a typed reason for every drop and mark.
//! - [`histogram`]: latencies, to within 3.1 %.
//!
//! The crate needs neither `std` nor a clock. The feature `serde` reads and writes the types.
#![no_std]

extern crate alloc;

pub mod histogram;
pub mod stats;
