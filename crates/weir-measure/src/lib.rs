//! The types of Weir's measurements, and the common format of all results.
//!
//! The engine counts packets and latencies in these types; the live loop, the simulator, the probe
//! and the daemon merge them; reports and documents present them. A new counter or drop reason
//! needs one row here and the code that counts it.
//!
//! - [`stats`]: counters of a link, with a typed reason for every drop and mark.
//! - [`histogram`]: latencies, to within 3.1 %. Two other histograms serve special purposes:
//!   `tally` holds the delays of flows, to within 0.1 %, and `exact` holds the lengths of queues.
//!   All histograms provide bins with a lowest value, a highest value and a count. A
//!   `distribution` holds the content of any histogram.
//! - `series`: quantities over time in bounded memory.
//! - `scenario`, `watch`: the results of a scenario's run and of a watch of queues.
//! - `packets`: recordings of the packets of a queue.
//! - `document`: the results documents and their JSON Schema.
//!
//! The crate needs neither `std` nor a clock. The engine uses `stats` and `histogram`. The feature
//! `serde` makes their types serializable; the feature `document` adds the other modules, and the
//! feature `openapi` describes types for an OpenAPI document.
#![no_std]

extern crate alloc;

#[cfg(feature = "document")]
pub mod distribution;
#[cfg(feature = "document")]
pub mod document;
#[cfg(feature = "document")]
pub mod estimate;
#[cfg(feature = "document")]
pub mod exact;
pub mod histogram;
pub mod latency;
#[cfg(feature = "document")]
pub mod means;
#[cfg(feature = "openapi")]
mod openapi;
#[cfg(feature = "document")]
pub mod packets;
#[cfg(feature = "document")]
pub mod scenario;
#[cfg(feature = "document")]
mod schema;
#[cfg(feature = "document")]
pub mod series;
pub mod stats;
#[cfg(feature = "document")]
pub mod tally;
#[cfg(feature = "document")]
pub mod watch;
