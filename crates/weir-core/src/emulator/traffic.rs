//! The types that a driver and the engine exchange: arrivals with their actions, refusals and
//! departures, and the bounds that the driver sets.

use crate::packet::Ecn;
use crate::stats::{DropReason, MarkReason};
use crate::units::Nanos;

/// The classifier's decision on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send it through pipe N.
    Pipe(u16),
    /// Send it into queue (flowset) N.
    Queue(u16),
}

/// A packet that arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The driver's handle of the frame; the departure returns it.
    pub frame: u32,
    /// Bytes from the network-layer header on.
    pub len: u32,
    /// Bytes of the link-layer header in front of it.
    pub link_header: u8,
    /// Number of wire packets that it stands for; 1 unless an offload train is kept whole.
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

/// A packet that leaves the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The driver's handle of the frame. A duplicate has the handle of its original.
    pub frame: u32,
    /// The pipe or scheduler that it passed.
    pub link: u16,
    /// Whether it is delivered or dropped.
    pub fate: Fate,
    /// When it was submitted.
    pub arrived: Nanos,
    /// When it left its queue.
    pub dequeued: Nanos,
    /// When the wire began with it, which is later than `dequeued` only behind a device. For a
    /// dropped packet, the time of the drop.
    pub started: Nanos,
    /// When it is due to leave; at or before the `now` of the poll that returns it.
    pub due: Nanos,
}

/// The outcome of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It leaves towards its destination.
    Deliver {
        /// Mark the packet with congestion experienced, for this reason.
        mark: Option<MarkReason>,
        /// Invert the bit with this number, modulo the number of bits from the network-layer header
        /// on.
        corrupt: Option<u32>,
        /// It is a duplicate: the original departs too, and the frame must live until both have
        /// left.
        duplicate: bool,
    },
    /// It was dropped inside.
    Drop(DropReason),
}

/// Bounds on what the engine holds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Packets inside at once.
    pub packets: u32,
    /// Links made on demand, and half the flows made on demand, over all pipes, schedulers and
    /// queues. A packet that would need another is refused with [`DropReason::TooManyFlows`];
    /// existing ones go on.
    pub instances: u32,
    /// How long an idle link made on demand is kept. An idle flow made on demand is kept for once
    /// to twice as long.
    pub idle: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Self { packets: 4_000_000, instances: 65_536, idle: Nanos::from_secs(60) }
    }
}
