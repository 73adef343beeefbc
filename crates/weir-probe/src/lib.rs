//! Reads the queues of the Linux kernel: the length of every queueing discipline of a device,
//! millions of times a second, or every enqueue and dequeue. It works on a stock kernel, without a
//! module.
//!
//! A [`Plan`] selects devices and a rate. [`open`] chooses a [`Method`] and returns a [`Source`].
//! Each turn of a source reports readings to a [`Sink`]. A turn is short, so that the caller can
//! stop. A source may move the calling thread into the namespaces that it watches, so it needs its
//! own thread.
//! The readings, and the sinks that store them, are in [`weir_measure::watch`]. The types compile
//! on every system; reading requires Linux.

#[cfg(target_os = "linux")]
mod catalogue;
#[cfg(target_os = "linux")]
mod choose;
#[cfg(target_os = "linux")]
mod discipline;
mod error;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod fuzzing;
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
#[cfg(target_os = "linux")]
pub use discipline::discipline;
pub use error::ProbeError;
pub use source::{Opened, Plan, Source};
pub use target::{Namespace, Target};
pub use weir_measure::watch as measure;
pub use weir_measure::watch::{
    Counters, Event, EventKind, Gaps, Handle, Measured, Method, Pace, PacketEvent, PacketEventKind,
    Queue, QueueId, Run, Sink, Summary, Tally, Tee, Transmission,
};
