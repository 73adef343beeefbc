//! The types that a driver and the engine exchange: arrivals with their actions, refusals,
//! departures, and the limits that the driver sets.

use crate::packet::Ecn;
use crate::stats::{DropReason, MarkReason};
use crate::units::Nanos;

/// The classifier's decision on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send the packet through this pipe.
    Pipe(u16),
    /// Send the packet into this queue (flowset).
    Queue(u16),
}

/// A packet that arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The driver's handle of the frame. The departure has the same handle.
    pub frame: u32,
    /// Bytes from the network-layer header on.
    pub len: u32,
    /// Bytes of the link-layer header in front of the network layer.
    pub link_header: u8,
    /// Number of wire packets that the packet represents; 1 unless an offload train is kept whole.
    pub segments: u16,
    /// ECN field.
    pub ecn: Ecn,
    /// The label for schedulers that rank packets (see [`crate::packet::LabelThenStart`]); 0 for
    /// none.
    pub label: u64,
}

/// A refused packet. The driver keeps the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The drop reason.
    pub reason: DropReason,
}

/// A packet that leaves the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The driver's handle of the frame. A duplicate has the handle of its original.
    pub frame: u32,
    /// The pipe or scheduler that the packet passed.
    pub link: u16,
    /// Whether the packet is delivered or dropped.
    pub fate: Fate,
    /// Time of submission.
    pub arrived: Nanos,
    /// Time at which the packet left its queue; the time of submission if it was dropped in the
    /// scheduler.
    pub dequeued: Nanos,
    /// Time at which the transmission began, which differs from `dequeued` only behind a device.
    /// For a dropped packet, the time of the drop.
    pub started: Nanos,
    /// The due time, at or before the `now` of the poll that returns the departure.
    pub due: Nanos,
}

/// The outcome of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet leaves towards its destination.
    Deliver {
        /// The reason for which the driver must mark the packet with congestion experienced; `None`
        /// for no mark.
        mark: Option<MarkReason>,
        /// The number of the bit that the driver must invert, modulo the number of bits from the
        /// network-layer header on; `None` for no corruption.
        corrupt: Option<u32>,
        /// Whether this is a duplicate. The original departs too, and the frame must live until
        /// both have left.
        duplicate: bool,
    },
    /// The packet was dropped in the engine.
    Drop(DropReason),
}

/// Limits of the engine.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of packets inside at one time.
    pub packets: u32,
    /// Number of links, over all pipes and schedulers, at which masks create no more links. At
    /// twice as many flows, masks create no more flows. A packet that needs another link or flow is
    /// refused with [`DropReason::TooManyFlows`]; existing links and flows are not affected.
    pub instances: u32,
    /// Time for which an idle link or flow that a mask created is kept. It is kept for at least
    /// this time and, if the driver polls, at most twice this time.
    pub idle: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Self { packets: 4_000_000, instances: 65_536, idle: Nanos::from_secs(60) }
    }
}
