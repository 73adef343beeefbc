//! The growth of CUBIC's window as in Linux, with `variant linux` of `cubic.rs`.
//!
//! # Model
//! Linux computes how many segments must be acknowledged before the window grows by one. The number
//! is computed when the window has changed, at most once per tick, and at the latest every eighth
//! tick. Where `NewReno` would be faster, the number is smaller. When the estimate of `NewReno`'s
//! window grows by a segment, the window therefore follows over the next round trip, not at once.
//!
//! # Equations
//! In whole segments, with times in ticks of 4 ms (`HZ` of 250):
//!
//! ```text
//! target = W(t + min_rtt)                       W and K as in cubic.rs
//! count  = cwnd / (target − cwnd)               where target > cwnd, else 100 cwnd; at most 20 without a W_max
//! W_est += 1 / (15/8 · cwnd)                    for each segment that is acknowledged
//! count  = min(count, cwnd / (W_est − cwnd))    where W_est > cwnd
//! cwnd  += 1                                    for each max(count, 2) segments that are acknowledged
//! ```
//!
//! W_est keeps this rate when it exceeds the window before the reduction, as in RFC 8312. In RFC
//! 9438 it then grows by one segment per window. A timeout forgets W_max.
//!
//! # Reference
//! The behaviour of Linux 6.18. The tests of `cubic.rs` check it, and `bench/agree` compares it
//! with the kernel's CUBIC.

use weir_core::Nanos;

use super::Path;
use super::curve::{point, time_to_plateau};

/// The growth of one connection's window.
#[derive(Debug)]
pub(super) struct Growth {
    /// Steepness of the curve, in billionths of a segment/s³.
    c: u64,
    /// Whether the window grows at least as fast as that of `NewReno`.
    friendly: bool,
    /// Segments to acknowledge before the window grows by one.
    count: u64,
    /// Bytes acknowledged since the window last grew.
    credit: u64,
    /// The window that `NewReno` would have, in segments, and the bytes acknowledged since it last
    /// grew.
    estimate: u64,
    estimate_credit: u64,
    /// Tick of the curve's beginning; `None` until the first acknowledgement after a reduction.
    epoch: Option<u64>,
    /// Time from the beginning of the curve to its plateau, ns.
    k: u64,
    /// The plateau in segments.
    origin: u64,
    /// Window and tick of the last evaluation.
    evaluated: (u64, u64),
}

impl Growth {
    pub(super) fn new(c: u64, friendly: bool) -> Self {
        Self {
            c,
            friendly,
            count: 0,
            credit: 0,
            estimate: 0,
            estimate_credit: 0,
            epoch: None,
            k: 0,
            origin: 0,
            evaluated: (0, 0),
        }
    }

    /// Begins a new curve with the next acknowledgement.
    pub(super) fn restart(&mut self) {
        self.epoch = None;
        self.credit = 0;
    }

    /// Shifts the curve by a pause of the application.
    pub(super) fn resume(&mut self, idle: Nanos) {
        self.epoch = self.epoch.map(|epoch| epoch + idle.0 / TICK);
    }

    /// The window after an acknowledgement of `acked` bytes. `window` and `w_max`, the window of
    /// the last congestion, are in bytes.
    pub(super) fn acked(&mut self, path: &Path, acked: u64, window: u64, w_max: u64) -> u64 {
        let mss = u64::from(path.mss);
        self.update(path, acked, window / mss, w_max / mss);
        let need = self.count * mss;
        let mut grown = 0;
        // The remainder of an earlier, larger count adds one segment at most.
        if self.credit >= need {
            self.credit = 0;
            grown = 1;
        }
        self.credit += acked;
        grown += self.credit / need;
        self.credit %= need;
        window + grown * mss
    }

    /// Time from the beginning of the curve to its plateau in ns, and the estimate in segments.
    pub(super) fn metrics(&self) -> (u64, u64) {
        (self.k, self.estimate)
    }

    fn update(&mut self, path: &Path, acked: u64, window: u64, w_max: u64) {
        self.estimate_credit += acked;
        let tick = path.now.0 / TICK;
        let (seen, last) = self.evaluated;
        if self.count > 0 && seen == window && tick.saturating_sub(last) <= PATIENCE {
            return;
        }
        if self.epoch.is_none() || tick != last {
            self.evaluated = (window, tick);
            self.evaluate(path, acked, window, w_max);
        }
        if self.friendly {
            self.estimate(path, window);
        }
        self.count = self.count.max(2);
    }

    fn evaluate(&mut self, path: &Path, acked: u64, window: u64, w_max: u64) {
        let tick = path.now.0 / TICK;
        let epoch = *self.epoch.get_or_insert_with(|| {
            self.estimate = window;
            self.estimate_credit = acked;
            (self.k, self.origin) = if window < w_max {
                (time_to_plateau(w_max - window, 1, self.c), w_max)
            } else {
                (0, window)
            };
            tick
        });
        let ahead = if path.min_rtt == Nanos::MAX { 0 } else { path.min_rtt.0.div_ceil(TICK) };
        let since = (tick.saturating_sub(epoch) + ahead) * TICK;
        let target = point(since, self.k, self.origin, 1, self.c);
        self.count = if target > window { window / (target - window) } else { 100 * window };
        if w_max == 0 {
            self.count = self.count.min(UNKNOWN);
        }
    }

    fn estimate(&mut self, path: &Path, window: u64) {
        let share = (window * 15 / 8 * u64::from(path.mss)).max(1);
        // Linux waits until more than `share` bytes have been acknowledged.
        let grown = self.estimate_credit.saturating_sub(1) / share;
        self.estimate += grown;
        self.estimate_credit -= grown * share;
        if self.estimate > window {
            self.count = self.count.min(window / (self.estimate - window));
        }
    }
}

/// A tick of the kernel's clock, ns.
const TICK: u64 = 4_000_000;
/// For this many ticks, the count is kept if the window has not changed.
const PATIENCE: u64 = 7;
/// The largest count while W_max is unknown: before the first congestion and after a timeout.
const UNKNOWN: u64 = 20;
