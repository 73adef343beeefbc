//! The emulator: it passes each packet from submission to departure in the order of time, without a
//! clock.
//!
//! The object model is dummynet's: a *flowset* divides traffic into flows (queues); flows feed a
//! *scheduler*, which has one instance for each value of its mask; each instance has a *link*. A
//! *pipe* is a flowset, a scheduler (by default a FIFO) and a link in one.
//!
//! The path of a packet: [`Emulator::submit`] → loss before the queue → AQM and queue limit →
//! scheduler → device → wire → loss on the link → duplication → corruption → delay line
//! → [`Emulator::poll`].
//!
//! **Order.** Events happen at their ideal times, regardless of the times of the driver's calls: a
//! late `poll` does not delay a later release. Events at the same time happen in the order of link
//! numbers, and on one link in the order schedule, wire, device, delay line.
//!
//! **Bounded work.** A poll handles at most [`EVENTS_PER_POLL`] events. Between two polls, the
//! schedules of all links together apply at most [`STEPS_PER_POLL`] steps one by one; schedules
//! that are further behind skip to the values in force now.
//!
//! # Inlining
//! Most functions that every packet calls are `inline(always)`, here and in the link, the pool and
//! the event queue. Rarely used functions are `inline(never)`, so that they occupy no registers.
//! With plain `inline`, a packet takes 782 instructions instead of 756 on one link, 1,108 instead
//! of 1,058 with loss and jitter, and 708 instead of 621 in an offload train (`engine_cost 1`,
//! `1 impaired` and `1 batch=40 train` under callgrind, without link-time optimisation).

mod budget;
mod change;
mod context;
mod device;
mod drive;
mod engine;
mod flow;
mod instance;
mod link;
mod passage;
mod pending;
mod tables;
mod together;
mod totals;
mod traffic;
mod view;

pub use budget::{EVENTS_PER_POLL, STEPS_PER_POLL};
pub use engine::Emulator;
pub use totals::Totals;
pub use traffic::{Action, Arrival, Departure, Fate, Limits, Rejected};
pub use view::{FlowView, InstanceView};
