//! The live loop: it receives frames, submits them to the engine, and sends them when they are due.
//!
//! One thread serves the ports. It receives a bounded batch from each port that has something to
//! read, submits it, sends the packets that are due, and sleeps until shortly before the next
//! event. It spins for the remaining time, since the machine's timers are too inexact. A *lane*
//! leads from one port to another through the engine: through one pipe, or through the pipes that
//! rules select. A port feeds one lane, or several lanes. In the second case, the destination
//! address of a frame selects its lane.
//!
//! Several threads (*workers*) may share the work. The kernel distributes the flows among their
//! sockets. Each instance of a pipe or scheduler lives on one worker, to which the other workers
//! hand its packets over.
//!
//! The main files, in an order in which none uses a later one: `packets` (the frames inside and the
//! accounting of their `lane`s), `ports`, `entry` (the emulator, behind the rings of `exchange`),
//! `passes` (the rules), `emulation` (one step of all of these), `worker` (the loop), `team`
//! (several workers). An observer receives packets through `tap` and `monitor`, on its own thread.
//!
//! Every frame on a lane is a packet like all others, as on a real link: ARP, neighbour discovery
//! and multicast wait in the queue, occupy the link and may be lost. By default, the ends that
//! [`crate::topology`] sets up send no ARP, because they know each other's addresses. A frame that
//! no header parser understands passes as opaque bytes.
//!
//! **Invariant:** for each lane `packets_in + duplicated = packets_out + Σ drops + backlog`, where
//! a packet counts as *out* when the kernel has accepted it. The loop counts wire packets itself,
//! so a frame that the kernel refuses is a drop.

mod awake;
mod commands;
mod config;
mod describe;
mod effort;
mod emulation;
mod entry;
mod exchange;
mod faults;
mod forwarding;
mod intake;
mod item;
mod lane;
mod live_port;
mod mailbox;
mod monitor;
mod observe;
mod pace;
mod packets;
mod passes;
mod ports;
mod priority;
mod progress;
mod report;
mod rules;
mod secret;
mod shared;
mod tap;
mod team;
#[cfg(test)]
mod testing;
mod watch;
mod wire;
mod witness;
mod worker;

pub use awake::LatencyRequests;
pub use commands::{ANSWER_WITHIN, Change, LiveHandle, NoAnswer};
pub use config::{ConfigError, Gso, LaneConfig, LiveConfig, LiveError, Realtime, Spin};
pub use forwarding::{Forwarding, Strays};
pub use observe::{ArrivalEvent, DepartureEvent, Observer, Outcome, Sample};
pub use report::{LaneReport, LiveEvent, LiveReport, RuleCount, StopReason};
pub use team::Live;
