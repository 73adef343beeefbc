//! CUBIC: the window is a cubic function of the time since the last congestion.
//!
//! # Model
//! After a reduction the window rises fast, slows down near the window of the last congestion, and
//! then rises ever faster until the next congestion. Growth does not depend on the round-trip time.
//! Where `NewReno` would be faster, CUBIC grows like `NewReno`.
//!
//! # Equations
//! In segments, with `t` the time in seconds since the curve began (at the first acknowledgement
//! after a reduction), `cwnd_epoch` the window at that time, and `β` the part of the window that
//! remains after a reduction:
//!
//! ```text
//! W(t)     = C (t − K)³ + W_max          K = ∛((W_max − cwnd_epoch) / C)
//! target   = W(t + srtt), at least cwnd and at most 1.5 cwnd
//! cwnd    += (target − cwnd) / cwnd                     for each segment that is acknowledged
//! W_est   += 3 (1 − β) / (1 + β) / cwnd                 likewise, and 1 / cwnd once W_est ≥ the window before the reduction
//! cwnd     = W_est                                      where W(t) < W_est
//! reduced: W_max = cwnd (or (1 + β) / 2 · cwnd where cwnd is below the last W_max: fast convergence), cwnd = β cwnd
//! ```
//!
//! # Fixed point
//! ```text
//! t, K      ns, u64                              t − K    in 2^-20 s
//! (t − K)³  2^-60 s³, of which 128 bits hold the cube of up to twelve days
//! windows   bytes (`variant linux`: segments)    C        in billionths of a segment/s³
//! K³        2^-60 s³, u128, so its root is in 2^-20 s
//! ```
//!
//! # Slow start
//! `hystart on` is the algorithm of Linux and ns-3. Slow start ends when acknowledgements have
//! arrived in a train (gaps up to 2 ms) for longer than half of the smallest round-trip time. It
//! also ends when, after 8 samples of a round, the smallest round-trip time of the round exceeds
//! that of the connection by an eighth, limited to between 4 and 16 ms. Both conditions apply from
//! 16 segments on. `hystart plus` is RFC 9406: the delay is compared with that of the previous
//! round. When it has risen, slow start continues at a quarter of its speed for five rounds and
//! then ends. If the delay falls during these rounds, slow start returns to full speed.
//!
//! # Reference
//! RFC 9438; Ha and Rhee, "Taming the elephants: new TCP slow start", Computer Networks 55, 2011;
//! RFC 9406.
//!
//! # Parameters
//! `beta` 0.1..0.95, default 0.7. `beta_ecn`, default 0.7; RFC 8511 proposes 0.85. `c` 0.001..10,
//! default 0.4. `fast_convergence`, default on. `friendly`, default on: CUBIC is as fast as
//! `NewReno` where `NewReno` is faster. `hystart` `off`, `on` or `plus`, default `on`. `variant`
//! `rfc` or `linux`, default `rfc`: `cubic_linux.rs` describes the growth of Linux, which
//! `weir live` uses.
//!
//! # Complexity
//! O(1) for each acknowledgement: the target is computed at most once per 32nd of a round-trip
//! time.
//!
//! # Differences from Linux
//! With `variant rfc`: W_est grows by a segment per window once it reaches the window before the
//! reduction. In Linux it keeps its slower growth (as in RFC 8312), so that a Linux sender has
//! about a fifth fewer losses where it is as fast as `NewReno`. The target is at most 1.5 times the
//! window, as in the RFC. The curve does not advance while the application is the limit. Linux
//! counts whole segments; this implementation counts bytes.
//!
//! With both variants, β is exactly 0.7, not 717/1024, and C is exactly 0.4, not 410/1024.
//!
//! # Validation
//! In the tests of this file, of `curve.rs` and of `hystart.rs`: points of `W(t)` against a closed
//! form in floating point, the friendly region against its additive increase, and both algorithms
//! that end slow start.
//! `bench/agree` compares `variant linux` with the kernel's CUBIC.

use weir_core::Nanos;
use weir_core::settings::{Fraction, Part, Switch, UNIT};
use weir_core::{choice, settings};

use super::cubic_linux::Growth;
use super::curve::{point, time_to_plateau};
use super::hystart::{Hystart, Mode, Step};
use super::newreno::{BETA, BETA_ECN, restarted, restarted_threshold, scaled};
use super::{Choice, Control, Feedback, Path, Row, Sample, Setup, Signal, Traits};

/// CUBIC for one connection.
#[derive(Debug)]
pub struct Cubic {
    window: u64,
    threshold: u64,
    /// Bytes acknowledged since the window last grew by a segment.
    counted: u64,
    /// Bytes to acknowledge before the window grows by a segment, from the last evaluation of the
    /// curve.
    per_segment: u64,
    initial: u64,
    /// The plateau of the next curve.
    w_max: u64,
    /// The window before the last reduction.
    w_prior: u64,
    /// The window that `NewReno` would have.
    w_est: u64,
    /// Bytes acknowledged since `w_est` last grew by a segment.
    est_counted: u64,
    /// When the curve began; `None` until the first acknowledgement after a reduction.
    epoch: Option<Nanos>,
    /// Time from the beginning of the curve to its plateau, ns.
    k: u64,
    /// The plateau of the present curve: `w_max`, or the window if that is larger.
    origin: u64,
    /// When the curve was last evaluated.
    evaluated: Nanos,
    hystart: Hystart,
    curve: Curve,
    /// With `variant linux`.
    linux: Option<Growth>,
    /// The window, the threshold and `w_max` before the last reduction.
    before: (u64, u64, u64),
}

settings! {
    /// Settings of CUBIC.
    struct Settings {
        beta: Fraction = BETA.or(UNIT / 10 * 7),
        beta_ecn: Fraction = BETA_ECN.or(UNIT / 10 * 7),
        c: Fraction =
            Part::new(UNIT / 1000, 10 * UNIT, UNIT / 10 * 4, "steepness of the curve, segments/s^3"),
        fast_convergence: bool = Switch::new(
            true,
            "a flow that meets congestion earlier than last time leaves more room",
        ),
        friendly: bool = Switch::new(true, "as fast as NewReno where that is faster"),
        hystart: Mode = Mode::setting(
            Mode::Classic,
            "slow start ends when the delay rises: as Linux and ns-3 do, or as RFC 9406",
        ),
        variant: Variant = Variant::setting(
            Variant::Rfc,
            "the window above the threshold grows and shrinks as in RFC 9438, or as in Linux",
        ),
    }
}

choice! {
    /// The arithmetic that the window follows above the threshold.
    enum Variant {
        Rfc = "rfc",
        Linux = "linux",
    }
}

/// Constants of the curve, from the settings.
#[derive(Debug)]
struct Curve {
    beta: u64,
    beta_ecn: u64,
    c: u64,
    fast_convergence: bool,
    friendly: bool,
    /// Bytes to acknowledge for growth by a segment as in `NewReno`, in billionths of the window:
    /// (1 + β) / (3 (1 − β)).
    friendly_share: u64,
}

impl Cubic {
    /// A control at its initial window.
    pub fn new(choice: &Choice, setup: &Setup) -> Self {
        let settings = Settings::of(choice);
        let beta = settings.beta.0;
        let curve = Curve {
            beta,
            beta_ecn: settings.beta_ecn.0,
            c: settings.c.0,
            fast_convergence: settings.fast_convergence,
            friendly: settings.friendly,
            friendly_share: (u128::from(UNIT + beta) * u128::from(UNIT)
                / u128::from(3 * (UNIT - beta))) as u64,
        };
        Self {
            window: setup.initial_window,
            threshold: u64::MAX,
            counted: 0,
            per_segment: u64::MAX,
            initial: setup.initial_window,
            w_max: 0,
            w_prior: 0,
            w_est: 0,
            est_counted: 0,
            epoch: None,
            k: 0,
            origin: 0,
            evaluated: Nanos::ZERO,
            hystart: Hystart::new(settings.hystart),
            curve,
            linux: (settings.variant == Variant::Linux)
                .then(|| Growth::new(settings.c.0, settings.friendly)),
            before: (setup.initial_window, u64::MAX, 0),
        }
    }

    /// Grows the window in slow start. Returns the acknowledged bytes that slow start does not use.
    fn slow_start(&mut self, path: &Path, sample: &Sample) -> u64 {
        let mut acked = sample.acked;
        match self.hystart.acked(path, sample, self.window) {
            Step::Go => {}
            Step::Slow => acked /= 4,
            Step::Stop => {
                self.threshold = self.window;
                return acked;
            }
        }
        if !sample.window_limited {
            return 0;
        }
        let grown = self.window.saturating_add(acked).min(self.threshold);
        acked -= grown - self.window;
        self.window = grown;
        acked
    }

    /// Begins a curve at the present window.
    fn begin(&mut self, path: &Path) {
        self.epoch = Some(path.now);
        self.w_est = self.window;
        self.est_counted = 0;
        (self.k, self.origin) = if self.window < self.w_max {
            (time_to_plateau(self.w_max - self.window, path.mss.into(), self.curve.c), self.w_max)
        } else {
            (0, self.window)
        };
    }

    /// Evaluates the curve to determine how many bytes must be acknowledged before the window grows
    /// by a segment.
    fn evaluate(&mut self, path: &Path, epoch: Nanos) {
        self.evaluated = path.now;
        let mss = u64::from(path.mss);
        let since = path.now.since(epoch).0 + path.srtt.0;
        let curve = point(since, self.k, self.origin, mss, self.curve.c);
        let target = curve.clamp(self.window, self.window / 2 * 3);
        // Where the curve is flat or below the window, a hundred windows must be acknowledged for
        // growth by a segment.
        let slowest = 100 * self.window;
        let rise = target - self.window;
        let share = (u128::from(self.window) * u128::from(mss)).checked_div(u128::from(rise));
        self.per_segment = share
            .map_or(slowest, |share| u64::try_from(share).unwrap_or(u64::MAX).min(slowest))
            .max(1);
    }

    /// Grows the estimate of `NewReno`'s window, and raises the window to it.
    fn estimate(&mut self, acked: u64, mss: u64) {
        self.est_counted += acked;
        // Above the window before the reduction, the estimate grows as fast as NewReno.
        let share = if self.w_est >= self.w_prior {
            self.window
        } else {
            scaled(self.window, self.curve.friendly_share)
        };
        let share = share.max(1);
        while self.est_counted >= share {
            self.est_counted -= share;
            self.w_est += mss;
        }
        self.window = self.window.max(self.w_est);
    }

    /// Grows the window above the threshold.
    fn avoid(&mut self, path: &Path, acked: u64) {
        if let Some(growth) = &mut self.linux {
            self.window = growth.acked(path, acked, self.window, self.w_max);
            return;
        }
        let mss = u64::from(path.mss);
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                self.begin(path);
                self.evaluate(path, path.now);
                path.now
            }
        };
        if path.now.since(self.evaluated).0 >= path.srtt.0 >> 5 {
            self.evaluate(path, epoch);
        }
        self.counted += acked;
        while self.counted >= self.per_segment {
            self.counted -= self.per_segment;
            self.window += mss;
        }
        if self.curve.friendly {
            self.estimate(acked, mss);
        }
    }

    /// Sets the plateau of the next curve after congestion.
    fn remember(&mut self) {
        self.before = (self.window, self.threshold, self.w_max);
        self.w_prior = self.window;
        self.w_max = if self.curve.fast_convergence && self.window < self.w_max {
            scaled(self.window, (UNIT + self.curve.beta) / 2)
        } else {
            self.window
        };
        self.epoch = None;
        self.counted = 0;
        if let Some(growth) = &mut self.linux {
            growth.restart();
        }
    }

    /// The window that remains after congestion, bytes.
    fn remainder(&self, path: &Path, beta: u64) -> u64 {
        let mss = u64::from(path.mss);
        let window = scaled(self.window, beta);
        // Linux counts whole segments.
        let window = if self.linux.is_some() { window / mss * mss } else { window };
        window.max(2 * mss)
    }
}

impl Control for Cubic {
    #[inline]
    fn acked(&mut self, path: &Path, sample: &Sample) {
        if sample.reducing {
            return;
        }
        let mut acked = sample.acked;
        if self.window < self.threshold {
            acked = self.slow_start(path, sample);
            if acked == 0 {
                return;
            }
        }
        if sample.window_limited {
            self.avoid(path, acked);
        } else if let Some(epoch) = self.epoch {
            // The curve does not advance while the window is not in use.
            self.epoch = Some(epoch.saturating_add(path.now.since(self.evaluated)).min(path.now));
            self.evaluated = path.now;
        }
    }

    fn reduce(&mut self, path: &Path, signal: Signal) {
        self.remember();
        let beta = if signal == Signal::Marks { self.curve.beta_ecn } else { self.curve.beta };
        self.threshold = self.remainder(path, beta);
        self.window = self.threshold;
    }

    fn timeout(&mut self, path: &Path, first: bool) {
        if first {
            self.remember();
            self.threshold = self.remainder(path, self.curve.beta);
        }
        if self.linux.is_some() {
            self.w_max = 0;
        }
        self.window = path.mss.into();
        self.epoch = None;
        self.counted = 0;
        self.hystart.restart();
    }

    fn undo(&mut self, _path: &Path) {
        let (window, threshold, w_max) = self.before;
        self.window = self.window.max(window);
        self.threshold = self.threshold.max(threshold);
        self.w_max = self.w_max.max(w_max);
        self.epoch = None;
        if let Some(growth) = &mut self.linux {
            growth.restart();
        }
    }

    fn resume(&mut self, path: &Path, idle: Nanos, timeout: Nanos) {
        self.threshold = restarted_threshold(self.threshold, self.window, idle, timeout);
        self.window = restarted(self.window, self.initial, idle, timeout);
        if let Some(epoch) = self.epoch {
            self.epoch = Some(epoch.saturating_add(idle).min(path.now));
        }
        if let Some(growth) = &mut self.linux {
            growth.resume(idle);
        }
        self.hystart.restart();
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn threshold(&self) -> u64 {
        self.threshold
    }

    fn metrics(&self) -> Vec<(&'static str, u64)> {
        let (k, w_est) =
            self.linux.as_ref().map_or((self.k, self.w_est), |growth| growth.metrics());
        [("w_max", self.w_max), ("k", k), ("w_est", w_est)].into()
    }
}

pub(super) const ROW: Row = Row {
    name: "cubic",
    aliases: &[],
    summary: "the window is a cubic function of the time since the last congestion",
    source: "RFC 9438",
    parameters: Settings::PARAMETERS,
    traits: Traits { feedback: Feedback::Classic, ecn: false, paces: false },
};

#[cfg(test)]
mod tests;
