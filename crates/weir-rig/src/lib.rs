//! Weir's rig: runs schedulers and AQMs alone, on generated or recorded packets.
//!
//! A [`flows::FlowSet`] describes the flows in one word (`500:w1,250:w2,250:w4`). The rig measures
//! the cost and the service of the same code that shapes live traffic, but in computed time and
//! without ports. A [`trace::Trace`] holds arrivals to replay, such as those that the [`adversary`]
//! finds. [`replay`] serves arrivals that were recorded at a queue of the kernel.

pub mod adversary;
pub mod algorithm;
pub mod aqm_cost;
pub mod conformance;
mod controller;
pub mod cost;
pub mod dcf;
pub mod flows;
mod generator;
pub mod instructions;
mod lengths;
mod managed;
pub mod memory;
pub mod plan;
pub mod replay;
pub mod report;
pub mod service;
pub mod step;
pub mod trace;

pub use algorithm::Algorithm;
pub use controller::Counts;
pub use lengths::Lengths;
pub use plan::{Order, Plan};
pub use report::Report;
pub use weir_rules::manager::Manager;
