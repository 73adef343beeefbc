//! The live loop: frames in, the engine, frames out, on time.
//!
//! One thread does everything for its ports. It receives a bounded batch from each port, submits
//! it, releases what is due, and sleeps until shortly before the next event; the rest it spins,
//! since no timer of the machine is as exact as a packet needs. A *lane* leads from one port to
//! another through the engine: through one pipe, or where rules say. A port feeds one lane, or
//! several among which the destination address decides.
//!
//! Several threads may share the work: the kernel deals out the flows among their sockets, and each
//! instance of a pipe or scheduler lives on one of them, to which the others hand its packets. They
//! share nothing else.
//!
//! Every frame on a lane is a packet like all others, as on a real link: ARP, neighbour discovery
//! and multicast wait in the queue, take their time on the link and may be lost. A frame that no
//! header parser understands passes as opaque bytes.
//!
//! **Invariant:** for each lane `packets_in + duplicated = packets_out + Σ drops + backlog`, where
//! a packet is *out* when the kernel has taken it. The loop counts this itself, in wire packets, so
//! that a frame the kernel refused is a drop.

mod awake;
mod commands;
mod config;
mod describe;
mod emulation;
mod entry;
mod exchange;
mod faults;
mod forwarding;
mod intake;
mod item;
mod lane;
mod live_port;
mod monitor;
mod observe;
mod pace;
mod packets;
mod passes;
mod ports;
mod priority;
mod report;
mod rules;
mod shared;
mod tap;
mod team;
mod wire;
mod worker;

pub use commands::{Change, Gone, LiveHandle};
pub use config::{ConfigError, Gso, LaneConfig, LiveConfig, LiveError, Realtime, Spin};
pub use forwarding::{Forwarding, Strays};
pub use observe::{ArrivalEvent, DepartureEvent, Observer, Outcome, Sample};
pub use report::{LaneReport, LiveEvent, LiveReport, RuleCount, StopReason};
pub use team::Live;
