//! Tail loss probes with an unknown outcome, and evidence from retransmitted segments that a
//! reduction of the window was unnecessary.

use weir_core::Nanos;

/// A tail loss probe with an unknown outcome.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// End of all data sent so far when the probe was sent, including the probe itself if it was
    /// new data.
    pub(super) end: u64,
    pub(super) is_retransmission: bool,
}

/// State that detects an unnecessary reduction.
#[derive(Debug, Default)]
pub(super) struct Undo {
    /// The left edge at the beginning of a reduction that can be undone.
    marker: Option<u64>,
    /// Time of the first retransmission.
    first: Option<Nanos>,
    /// Number of retransmissions for which no duplicate was reported.
    pending: u32,
}

impl Undo {
    pub(super) fn begin(&mut self, una: u64) {
        *self = Self { marker: Some(una), first: None, pending: 0 };
    }

    #[inline]
    pub(super) fn resent(&mut self, now: Nanos) {
        self.first.get_or_insert(now);
        self.pending += 1;
    }

    /// Records that the receiver got the bytes from `start` on twice.
    pub(super) fn duplicate(&mut self, start: u64) {
        if self.marker.is_some_and(|marker| start >= marker) {
            self.pending = self.pending.saturating_sub(1);
        }
    }

    /// Whether the originals of all retransmitted segments have arrived.
    pub(super) fn all_originals_arrived(&self) -> bool {
        self.marker.is_some() && self.first.is_some() && self.pending == 0
    }

    /// Whether the segment that moved the left edge was sent before any retransmission.
    pub(super) fn is_original(&self, stamp: Nanos) -> bool {
        self.marker.is_some() && self.first.is_some_and(|first| stamp < first)
    }
}
