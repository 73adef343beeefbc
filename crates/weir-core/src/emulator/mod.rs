//! The emulator: takes each packet from submission to departure in the order of time, without a
//! clock.
//!
//! The object model is dummynet's: a *flowset* splits traffic into flows (queues); flows feed a
//! *scheduler*, which has one instance for each value of its mask; each instance has a *link*. A
//! *pipe* is a flowset, a FIFO and a link in one.
//!
//! The path of a packet: [`Emulator::submit`] → loss before the queue → queue limit → scheduler →
//! device → wire → loss on the link → duplication → corruption → delay line → [`Emulator::poll`].
//!
//! **Order.** Events happen at their ideal times, no matter when the driver calls: a late `poll`
//! does not delay a later release. Events at the same time happen in the order of link numbers, and
//! on one link in the order schedule, wire, device, delay line.
//!
//! # Inlining
//! Functions that every packet calls are `inline(always)`, here and in the link, the pool and the
//! event queue. Rare work is `inline(never)`, so that it takes no registers. With plain `inline` a
//! packet through one link takes 782 instructions instead of 756, with loss and jitter 1,108
//! instead of 1,058, and in an offload train 708 instead of 621 (`engine_cost 1`, `1 impaired` and
//! `1 batch=40 train` under callgrind, without link-time optimisation).

mod change;
mod context;
mod device;
mod drive;
mod engine;
mod flow;
mod instance;
mod link;
mod passage;
mod tables;
mod totals;
mod traffic;
mod view;

pub use engine::Emulator;
pub use totals::Totals;
pub use traffic::{Action, Arrival, Departure, Fate, Limits, Rejected};
pub use view::{FlowView, InstanceView};
