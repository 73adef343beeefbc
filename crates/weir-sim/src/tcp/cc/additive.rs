//! The window of several controls: slow start, and above the threshold a segment, or a part of one,
//! per round trip.

use super::{Path, Setup};

/// A window that grows as that of Reno.
#[derive(Clone, Copy, Debug)]
pub(super) struct Additive {
    /// Bytes.
    pub(super) window: u64,
    /// Bytes.
    pub(super) threshold: u64,
    /// Parts of a byte that the window has grown by, in 2^-32.
    carry: u64,
}

impl Additive {
    pub(super) fn new(setup: &Setup) -> Self {
        Self { window: setup.initial_window, threshold: u64::MAX, carry: 0 }
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Grows for `acked` bytes; above the threshold by `part` (in 2^-32) of a segment for each
    /// window.
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

    /// Sets window and threshold to the rest after a reduction, at least two segments.
    pub(super) fn shrink(&mut self, to: u64, path: &Path) {
        self.window = to.max(2 * u64::from(path.mss));
        self.threshold = self.window;
    }

    /// A timeout: one segment, and slow start up to half of the window.
    pub(super) fn collapse(&mut self, path: &Path, first: bool) {
        if first {
            self.shrink(self.window / 2, path);
        }
        self.window = path.mss.into();
    }
}

/// A whole, for [`Additive::grow`].
pub(super) const ONE: u64 = 1 << 32;
