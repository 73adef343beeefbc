//! Sums over the flows of an instance, including freed flows.

use alloc::boxed::Box;

use super::flow::Flow;
use crate::stats::Reasons;

/// Sums over the flows of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Arrivals, including dropped packets.
    pub packets: u64,
    /// Network-layer bytes of the arrivals, including dropped packets.
    pub bytes: u64,
    /// Packets dropped before they entered the queue or while they were in it.
    pub drops: u64,
    /// Packets that left their queue with a mark.
    pub marks: u64,
    /// Drops and marks by reason.
    pub reasons: Reasons,
    /// Packets that wait now.
    pub queued_packets: u64,
    /// Network-layer bytes of the packets that wait now.
    pub queued_bytes: u64,
}

/// Counters of freed flows. None of their packets wait any more.
#[derive(Debug, Default)]
pub(super) struct Freed {
    packets: u64,
    bytes: u64,
    /// `None` until the first drop or mark.
    reasons: Option<Box<Reasons>>,
}

impl Freed {
    pub(super) fn add(&mut self, flow: &Flow) {
        self.packets += flow.packets_seen;
        self.bytes += flow.bytes_seen;
        if let Some(reasons) = &flow.cold.reasons {
            self.reasons.get_or_insert_default().merge(reasons);
        }
    }

    pub(super) fn totals(&self) -> Totals {
        let Self { packets, bytes, reasons } = self;
        let mut totals = Totals { packets: *packets, bytes: *bytes, ..Totals::default() };
        totals.count(reasons.as_deref());
        totals
    }
}

impl Totals {
    pub(super) fn add(&mut self, flow: &Flow) {
        self.packets += flow.packets_seen;
        self.bytes += flow.bytes_seen;
        self.queued_packets += u64::from(flow.gate.packets());
        self.queued_bytes += flow.gate.bytes();
        self.count(flow.cold.reasons.as_deref());
    }

    fn count(&mut self, reasons: Option<&Reasons>) {
        let Some(reasons) = reasons else { return };
        self.drops += reasons.total_drops();
        self.marks += reasons.total_marks();
        self.reasons.merge(reasons);
    }
}
