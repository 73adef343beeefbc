//! Weir's engine. It takes each packet with the classifier's action, and passes it through queues,
//! schedulers, AQMs and links until it departs.
//!
//! The engine is sans-IO: it has no clock, no threads and no files. The driver tells it the current
//! time ([`Emulator::submit`], [`Emulator::poll`]) and queries the time of the next event
//! ([`Emulator::next_event`]). Live traffic, simulation and the scheduler rig are different drivers
//! of the same code.
#![no_std]

extern crate alloc;

pub mod aqm;
pub mod config;
pub mod descriptor;
pub mod device;
pub mod dist;
mod emulator;
mod fingerprint;
pub mod gate;
mod heap;
pub mod key;
pub mod link;
mod lookup;
pub mod packet;
pub mod plain;
mod prefetch;
pub mod quantity;
pub mod rng;
pub mod sched;
pub mod settings;
mod siphash;
mod slab;
pub mod stamped;
pub mod units;
mod wheel;

/// Latencies and counters, in the types that all of Weir's results use.
pub use weir_measure::{histogram, stats};

pub use emulator::{
    Action, Arrival, Departure, EVENTS_PER_POLL, Emulator, Fate, FlowView, InstanceView, Limits,
    Rejected, STEPS_PER_POLL, Totals,
};
pub use lookup::LookupKey;
pub use units::{Bytes, Nanos, Probability, Rate};
