//! Packets that are queued for a port, and packets that were lost, as the accounting sees them.

use weir_core::Nanos;
use weir_core::stats::{DropReason, MarkReason};

/// Packets to send as one frame: one packet, or consecutive segments of a train.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) slot: u32,
    pub(super) first: u16,
    pub(super) count: u16,
    pub(super) lane: u16,
    /// Wire packets.
    pub(super) packets: u16,
    /// Their network-layer bytes.
    pub(super) bytes: u32,
    pub(super) due: Nanos,
    pub(super) arrived: Nanos,
    pub(super) dequeued: Nanos,
    /// When it was passed to the port.
    pub(super) ready: Nanos,
    /// Why it is marked with congestion experienced, if it is.
    pub(super) mark: Option<MarkReason>,
    /// The bit that was inverted.
    pub(super) corrupted: Option<u32>,
    pub(super) duplicate: bool,
}

impl Item {
    /// Whether `next` continues the train of this item, so that both leave as one frame.
    pub(super) fn is_continued_by(&self, next: &Self) -> bool {
        self.slot == next.slot
            && self.first + self.count == next.first
            && self.mark == next.mark
            && !next.duplicate
            && !self.duplicate
    }

    /// Takes over the packets of an item that continues this one.
    pub(super) fn extend(&mut self, next: &Self) {
        self.count += next.count;
        self.packets += next.packets;
        self.bytes += next.bytes;
    }
}

/// The loss of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) reason: DropReason,
    pub(super) at: Nanos,
    pub(super) due: Nanos,
    pub(super) arrived: Nanos,
    pub(super) dequeued: Nanos,
}

impl Lost {
    /// A packet that is lost at `at`, at its arrival.
    pub(super) fn on_arrival(reason: DropReason, at: Nanos) -> Self {
        Self { reason, at, due: at, arrived: at, dequeued: at }
    }
}
