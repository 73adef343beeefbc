//! The window of several congestion controls. Below the threshold it is in slow start. Above the
//! threshold it grows by a segment, or by a part of a segment, per round trip.

use super::{Path, Setup};

/// A window that grows as in Reno.
#[derive(Clone, Copy, Debug)]
pub(super) struct Additive {
    /// Bytes.
    pub(super) window: u64,
    /// Bytes.
    pub(super) threshold: u64,
    /// The fraction of a byte by which the window has grown, in 2^-32.
    carry: u64,
}

impl Additive {
    pub(super) fn new(setup: &Setup) -> Self {
        Self { window: setup.initial_window, threshold: u64::MAX, carry: 0 }
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Grows the window for `acked` bytes. Above the threshold it grows by `part` (in 2^-32) of a
    /// segment per acknowledged window.
    pub(super) fn grow(&mut self, mut acked: u64, mss: u32, part: u64) {
        if self.in_slow_start() {
            let grown = self.window.saturating_add(acked).min(self.threshold);
            acked -= grown - self.window;
            self.window = grown;
        }
        let grown = u128::from(acked) * u128::from(mss) * u128::from(part)
            / u128::from(self.window.max(1))
            + u128::from(self.carry);
        self.window = self.window.saturating_add((grown >> 32) as u64);
        self.carry = grown as u64 & (ONE - 1);
    }

    /// Sets window and threshold to `to`, but to at least two segments.
    pub(super) fn shrink(&mut self, to: u64, path: &Path) {
        self.window = to.max(2 * u64::from(path.mss));
        self.threshold = self.window;
    }

    /// Handles a timeout: the window becomes one segment. If `first`, slow start ends at half of
    /// the old window.
    pub(super) fn collapse(&mut self, path: &Path, first: bool) {
        if first {
            self.shrink(self.window / 2, path);
        }
        self.window = path.mss.into();
    }
}

/// One whole segment, as a `part` for [`Additive::grow`].
pub(super) const ONE: u64 = 1 << 32;
