//! The unit of sending and of accounting: packets queued for a port, and packets that were lost.

use weir_core::Nanos;
use weir_core::stats::{DropReason, MarkReason};

/// Packets to send as one frame: one packet, or consecutive segments of a train.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// The slot of the frame in the arena.
    pub(super) slot: u32,
    /// The first segment.
    pub(super) first: u16,
    /// The number of segments.
    pub(super) count: u16,
    pub(super) lane: u16,
    /// Number of wire packets.
    pub(super) packets: u16,
    /// Network-layer bytes of these packets.
    pub(super) bytes: u32,
    /// When the packets should leave.
    pub(super) due: Nanos,
    pub(super) arrived: Nanos,
    /// When the packets left their queue in the engine.
    pub(super) dequeued: Nanos,
    /// The start of the port's attempts to send: the time at which the loop prepared the item, or
    /// the due time of an item that has completed the passes of rules.
    pub(super) ready: Nanos,
    /// The mark reason, if the packet is marked with congestion experienced.
    pub(super) mark: Option<MarkReason>,
    /// The position of the inverted bit, if the packet is corrupted.
    pub(super) corrupted: Option<u32>,
    /// Whether the packet is an additional copy that the link made.
    pub(super) duplicate: bool,
}

impl Item {
    /// Whether `next` continues the train of this item, so that both can be sent as one frame.
    pub(super) fn is_continued_by(&self, next: &Self) -> bool {
        self.slot == next.slot
            && self.first + self.count == next.first
            && self.mark == next.mark
            && !next.duplicate
            && !self.duplicate
    }

    /// Adds the packets of an item that continues this one.
    pub(super) fn extend(&mut self, next: &Self) {
        self.count += next.count;
        self.packets += next.packets;
        self.bytes += next.bytes;
    }
}

/// The loss of a packet, with its drop reason and times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) reason: DropReason,
    /// When the packet was lost.
    pub(super) at: Nanos,
    pub(super) due: Nanos,
    pub(super) arrived: Nanos,
    pub(super) dequeued: Nanos,
}

impl Lost {
    /// The loss of a packet that arrives at `at` and is dropped at once.
    pub(super) fn on_arrival(reason: DropReason, at: Nanos) -> Self {
        Self { reason, at, due: at, arrived: at, dequeued: at }
    }
}
