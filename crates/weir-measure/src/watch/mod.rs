//! Readings and measurements of a watch of queues, in the kernel or in Weir.
//!
//! A source of readings reports to a [`Sink`]: queues, runs of equal readings, events and counters.
//! A [`Tally`] is the sink that keeps statistics, in memory that does not grow with time. A
//! [`Summary`] is the tally's content as a results document.

mod envelope;
mod gaps;
mod model;
mod pace;
mod queue;
mod summary;
mod tally;
mod tee;

pub use envelope::{QueuePeriod, Recent};
pub use gaps::Gaps;
pub use model::{
    Counters, Event, EventKind, Handle, PacketEvent, PacketEventKind, Queue, QueueId, Run, Sink,
    Transmission,
};
pub use pace::{Method, Pace};
pub use queue::{EventCounts, Measured};
pub use summary::{
    Above, DeviceSummary, EventSummary, GapSummary, QueueSummary, Spread, Summary,
    TransmissionSummary, VarianceSummary,
};
pub use tally::{Remark, Ring, Tally};
pub use tee::Tee;

#[cfg(test)]
mod tests;
