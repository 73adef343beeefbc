//! Reads the queues of the Linux kernel: what waits in every queueing discipline of a device,
//! millions of times a second, or every packet that goes in and out, on a stock kernel and without
//! a module.
//!
//! A [`Plan`] says which devices and how often. [`open`] chooses a [`Method`] and gives a
//! [`Source`]; each of its turns lasts some milliseconds at most and tells a [`Sink`] what was
//! seen. A source moves the thread that calls it into the namespaces it watches, so it belongs on a
//! thread of its own. A [`Tally`] is a sink that keeps figures; a [`Summary`] of it is what
//! programs read. What is seen and measured compiles on every system; reading is for Linux.

#[cfg(target_os = "linux")]
mod beat;
#[cfg(target_os = "linux")]
mod catalogue;
#[cfg(target_os = "linux")]
mod choose;
mod error;
mod gaps;
#[cfg(target_os = "linux")]
mod group;
#[cfg(all(feature = "bpf", target_os = "linux"))]
mod kernel;
pub mod measure;
mod model;
#[cfg(target_os = "linux")]
mod netlink;
mod source;
mod target;
#[cfg(target_os = "linux")]
mod tc;
#[cfg(target_os = "linux")]
mod transmission;

#[cfg(target_os = "linux")]
pub use choose::open;
pub use error::ProbeError;
pub use gaps::Gaps;
pub use measure::{Measured, Summary, Tally, Tee};
pub use model::{Counters, Event, EventKind, Handle, Queue, QueueId, Run, Sink, Transmission};
pub use source::{Method, Opened, Pace, Plan, Source};
pub use target::{Namespace, Target};
