//! Evidence that a reduction was needless: probes, and segments sent again.

use weir_core::Nanos;

/// A tail loss probe that is not accounted for yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// What was sent when it was.
    pub(super) end: u64,
    /// It was a segment sent again.
    pub(super) again: bool,
}

/// What it takes to find out that a reduction was for nothing.
#[derive(Debug, Default)]
pub(super) struct Undo {
    /// There is something to undo: the left edge when it began.
    marker: Option<u64>,
    /// When the first segment was sent again.
    first: Option<Nanos>,
    /// Segments sent again that no duplicate was reported of.
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

    /// The receiver had the bytes from `start` on already.
    pub(super) fn duplicate(&mut self, start: u64) {
        if self.marker.is_some_and(|marker| start >= marker) {
            self.pending = self.pending.saturating_sub(1);
        }
    }

    /// Every segment that was sent again had arrived before.
    pub(super) fn all_needless(&self) -> bool {
        self.marker.is_some() && self.first.is_some() && self.pending == 0
    }

    /// What moved the left edge was sent before anything was sent again.
    pub(super) fn is_original(&self, stamp: Nanos) -> bool {
        self.marker.is_some() && self.first.is_some_and(|first| stamp < first)
    }
}
