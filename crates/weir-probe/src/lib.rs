//! Reads the queues of the Linux kernel: what waits in every queueing discipline of a device,
//! millions of times a second, or every packet that goes in and out, on a stock kernel and without
//! a module.
//!
//! A [`Plan`] says which devices and how often. [`open`] chooses a [`Method`] and gives a
//! [`Source`]; each of its turns lasts some milliseconds at most and tells a [`Sink`] what was
//! seen. A source moves the thread that calls it into the namespaces it watches, so it belongs on a
//! thread of its own. What was seen, and the sinks that keep it, are in [`weir_measure::watch`]. The
//! types compile on every system; reading is for Linux.

#[cfg(target_os = "linux")]
mod catalogue;
#[cfg(target_os = "linux")]
mod choose;
mod error;
#[cfg(target_os = "linux")]
mod group;
#[cfg(all(feature = "bpf", target_os = "linux"))]
mod kernel;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(target_os = "linux")]
mod pacer;
mod source;
mod target;
#[cfg(target_os = "linux")]
mod tc;
#[cfg(target_os = "linux")]
mod transmission;

#[cfg(target_os = "linux")]
pub use choose::open;
pub use error::ProbeError;
pub use source::{Opened, Plan, Source};
pub use target::{Namespace, Target};
pub use weir_measure::watch as measure;
pub use weir_measure::watch::{
    Counters, Event, EventKind, Gaps, Handle, Measured, Method, Pace, Queue, QueueId, Run, Sink,
    Summary, Tally, Tee, Transmission,
};
