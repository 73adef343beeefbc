//! What a driver and the engine exchange: arrivals with their actions, refusals and departures; and
//! the bounds that the driver sets.

use crate::packet::Ecn;
use crate::stats::{DropReason, MarkReason};
use crate::units::Nanos;

/// What the classifier decided for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Through pipe N.
    Pipe(u16),
    /// Into queue (flowset) N.
    Queue(u16),
}

/// A packet that comes in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The driver's handle of the frame; comes back with the departure.
    pub frame: u32,
    /// Bytes from the network-layer header on.
    pub len: u32,
    /// Bytes of link-layer header in front of it.
    pub link_header: u8,
    /// Wire packets that this one stands for; 1 unless an offload train is kept whole.
    pub segments: u16,
    /// ECN field.
    pub ecn: Ecn,
    /// The label for schedulers that rank packets (see [`crate::packet::LabelThenStart`]); 0 for
    /// none.
    pub label: u64,
}

/// A packet that was refused; the driver keeps the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Why.
    pub reason: DropReason,
}

/// A packet that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The driver's handle of the frame. A duplicate has the handle of its original.
    pub frame: u32,
    /// The pipe or scheduler whose link it went through.
    pub link: u16,
    /// What became of it.
    pub fate: Fate,
    /// When it was submitted.
    pub arrived: Nanos,
    /// When it left its queue.
    pub dequeued: Nanos,
    /// When the wire began with it: later than it left its queue only where a device is in between.
    /// Of a packet that was lost, when that was.
    pub started: Nanos,
    /// When it is to leave; at or before the `now` of the poll that returns it.
    pub due: Nanos,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It leaves towards its destination.
    Deliver {
        /// Mark the packet with congestion experienced, for this reason.
        mark: Option<MarkReason>,
        /// Invert one bit: this number, modulo the number of bits from the network-layer header on.
        corrupt: Option<u32>,
        /// It is a duplicate: the original departs too, and the frame must live until both have.
        duplicate: bool,
    },
    /// It was lost inside.
    Drop(DropReason),
}

/// Bounds on what the engine holds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Packets inside at once.
    pub packets: u32,
    /// Links made on demand, and half the flows made on demand, over all pipes, schedulers and
    /// queues. Beyond it a packet that would need another is refused with
    /// [`DropReason::TooManyFlows`]; those that exist are served as ever.
    pub instances: u32,
    /// How long a link made on demand is kept without traffic. A flow made on demand is kept for
    /// once to twice as long.
    pub idle: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Self { packets: 4_000_000, instances: 65_536, idle: Nanos::from_secs(60) }
    }
}
