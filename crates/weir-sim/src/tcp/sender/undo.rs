//! Evidence that a reduction was unnecessary: probes, and retransmitted segments.

use weir_core::Nanos;

/// A tail loss probe whose outcome is not known yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// The end of the data sent before the probe.
    pub(super) end: u64,
    /// The probe was a retransmission.
    pub(super) again: bool,
}

/// State to detect that a reduction was unnecessary.
#[derive(Debug, Default)]
pub(super) struct Undo {
    /// The left edge at the beginning of a reduction that can be undone.
    marker: Option<u64>,
    /// When the first segment was retransmitted.
    first: Option<Nanos>,
    /// Retransmitted segments without a report of a duplicate.
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

    /// The receiver already had the bytes from `start` on.
    pub(super) fn duplicate(&mut self, start: u64) {
        if self.marker.is_some_and(|marker| start >= marker) {
            self.pending = self.pending.saturating_sub(1);
        }
    }

    /// Every retransmitted segment had arrived before.
    pub(super) fn all_needless(&self) -> bool {
        self.marker.is_some() && self.first.is_some() && self.pending == 0
    }

    /// The segment that moved the left edge was sent before any retransmission.
    pub(super) fn is_original(&self, stamp: Nanos) -> bool {
        self.marker.is_some() && self.first.is_some_and(|first| stamp < first)
    }
}
