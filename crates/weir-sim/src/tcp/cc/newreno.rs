//! `NewReno`: additive increase, and half of the window after a loss.
//!
//! # Model
//! In slow start the window grows by the acknowledged bytes, so it doubles in a round trip. Above
//! the threshold it grows by a segment for each window that is acknowledged. Congestion sets window
//! and threshold to half of the window; a timeout sets the window to one segment.
//!
//! # Equations
//! With `w` the window and `a` the bytes that an acknowledgement reports:
//!
//! ```text
//! w < threshold:  w += a
//! else:           w += mss   for each w bytes that were acknowledged (appropriate byte counting)
//! loss:           threshold = max(beta · w, 2 mss),  w = threshold
//! ```
//!
//! # Reference
//! RFC 5681, RFC 6582, RFC 3465 (byte counting), RFC 8511 (`beta_ecn`).
//!
//! # Parameters
//! `beta` 0.1..0.95, default 0.5: the part of the window that remains after a loss. `beta_ecn`
//! 0.1..0.95, default 0.5: the part that remains after a mark; RFC 8511 proposes 0.8. `count`
//! `bytes` or `acks`, default `bytes`: whether an acknowledgement counts for all bytes that it
//! acknowledges, or for at most one segment as in RFC 5681, where delayed acknowledgements halve
//! the growth.
//!
//! # Complexity
//! O(1) for each acknowledgement, without a division.
//!
//! # Differences from Linux/FreeBSD
//! A loss halves the window, as in Linux's `reno`; RFC 5681, equation 4, halves the data in flight.
//! The window does not grow while the application leaves it unused, as in Linux. Windows are in
//! bytes.
//!
//! # Validation
//! In this file's tests: the equations one by one. In `tcp/tests/model.rs`: the mean window of the
//! saw-tooth against its closed form.

use weir_core::Nanos;
use weir_core::settings::{Fraction, Part, UNIT};
use weir_core::{choice, settings};

use super::{Choice, Control, Feedback, Path, Row, Sample, Setup, Signal, Traits};

/// `NewReno` for one connection.
#[derive(Debug)]
pub struct NewReno {
    window: u64,
    threshold: u64,
    /// Bytes acknowledged since the window last grew.
    counted: u64,
    initial: u64,
    beta: u64,
    beta_ecn: u64,
    /// Whether an acknowledgement counts for at most one segment.
    by_acks: bool,
    /// Window and threshold before the last reduction.
    before: (u64, u64),
}

settings! {
    /// Settings of `NewReno`.
    struct Settings {
        beta: Fraction = BETA,
        beta_ecn: Fraction = BETA_ECN,
        count: Count = Count::setting(
            Count::Bytes,
            "what an acknowledgement counts for: the bytes it acknowledges, or a segment at most",
        ),
    }
}

choice! {
    /// How many bytes an acknowledgement counts for.
    enum Count {
        Bytes = "bytes",
        Acks = "acks",
    }
}

impl NewReno {
    /// A control at its initial window.
    pub fn new(choice: &Choice, setup: &Setup) -> Self {
        let settings = Settings::of(choice);
        Self {
            window: setup.initial_window,
            threshold: u64::MAX,
            counted: 0,
            initial: setup.initial_window,
            beta: settings.beta.0,
            beta_ecn: settings.beta_ecn.0,
            by_acks: settings.count == Count::Acks,
            before: (setup.initial_window, u64::MAX),
        }
    }

    fn shrunk(&self, path: &Path, beta: u64) -> u64 {
        scaled(self.window, beta).max(2 * u64::from(path.mss))
    }
}

impl Control for NewReno {
    #[inline]
    fn acked(&mut self, path: &Path, sample: &Sample) {
        if sample.reducing || !sample.window_limited {
            return;
        }
        let mut acked = if self.by_acks { sample.acked.min(path.mss.into()) } else { sample.acked };
        if self.window < self.threshold {
            let grown = self.window.saturating_add(acked).min(self.threshold);
            acked -= grown - self.window;
            self.window = grown;
            if acked == 0 {
                return;
            }
        }
        self.counted += acked;
        while self.counted >= self.window {
            self.counted -= self.window;
            self.window += u64::from(path.mss);
        }
    }

    fn reduce(&mut self, path: &Path, signal: Signal) {
        self.before = (self.window, self.threshold);
        let beta = if signal == Signal::Marks { self.beta_ecn } else { self.beta };
        self.threshold = self.shrunk(path, beta);
        self.window = self.threshold;
        self.counted = 0;
    }

    fn timeout(&mut self, path: &Path, first: bool) {
        if first {
            self.before = (self.window, self.threshold);
            self.threshold = self.shrunk(path, self.beta);
        }
        self.window = path.mss.into();
        self.counted = 0;
    }

    fn undo(&mut self, _path: &Path) {
        self.window = self.window.max(self.before.0);
        self.threshold = self.threshold.max(self.before.1);
    }

    fn resume(&mut self, _path: &Path, idle: Nanos, timeout: Nanos) {
        self.threshold = restarted_threshold(self.threshold, self.window, idle, timeout);
        self.window = restarted(self.window, self.initial, idle, timeout);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn threshold(&self) -> u64 {
        self.threshold
    }
}

/// The window after a pause, as in RFC 2861 and Linux: halved for each timeout that has passed, but
/// not below the initial window.
pub(super) fn restarted(window: u64, initial: u64, idle: Nanos, timeout: Nanos) -> u64 {
    let halvings = idle.0.checked_div(timeout.0).unwrap_or(0).min(63);
    if halvings == 0 { window } else { (window >> halvings).max(initial.min(window)) }
}

/// The threshold after a pause: after `timeout` or more, at least three quarters of the window
/// before the pause.
pub(super) fn restarted_threshold(threshold: u64, window: u64, idle: Nanos, timeout: Nanos) -> u64 {
    if idle < timeout || threshold == u64::MAX { threshold } else { threshold.max(window / 4 * 3) }
}

/// `value` times a fraction in billionths.
pub(super) fn scaled(value: u64, fraction: u64) -> u64 {
    (u128::from(value) * u128::from(fraction) / u128::from(UNIT)) as u64
}

pub(super) const BETA: Part =
    Part::new(UNIT / 10, UNIT / 100 * 95, UNIT / 2, "what remains of the window after a loss");
pub(super) const BETA_ECN: Part = BETA.described("what remains of the window after a mark");

pub(super) const ROW: Row = Row {
    name: "newreno",
    aliases: &["reno"],
    summary: "additive increase, half of the window on congestion",
    source: "RFC 5681, RFC 6582",
    parameters: Settings::PARAMETERS,
    traits: Traits { feedback: Feedback::Classic, ecn: false, paces: false },
};

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::rng::{Purpose, Stream};

    const MSS: u64 = 1000;

    fn fresh() -> NewReno {
        let setup = Setup {
            mss: MSS as u32,
            initial_window: 10 * MSS,
            stream: Stream::new(1, 1, Purpose::Generator),
        };
        NewReno::new(&Choice::new(super::super::Kind::NewReno), &setup)
    }

    fn path() -> Path {
        Path { mss: MSS as u32, ..Path::default() }
    }

    fn ack(control: &mut NewReno, bytes: u64) {
        control.acked(&path(), &Sample { acked: bytes, window_limited: true, ..Sample::default() });
    }

    #[test]
    fn the_window_grows_half_as_fast_if_an_acknowledgement_of_two_segments_counts_as_one() {
        let mut choice = Choice::new(super::super::Kind::NewReno);
        choice.set("count", "acks").unwrap();
        let setup = Setup {
            mss: MSS as u32,
            initial_window: 10 * MSS,
            stream: Stream::new(1, 1, Purpose::Generator),
        };
        let mut control = NewReno::new(&choice, &setup);
        for _ in 0..5 {
            ack(&mut control, 2 * MSS);
        }
        assert_eq!(control.window(), 15 * MSS);
    }

    #[test]
    fn slow_start_doubles_in_a_round_trip() {
        let mut control = fresh();
        for round in 1..8 {
            for _ in 0..control.window() / MSS {
                ack(&mut control, MSS);
            }
            assert_eq!(control.window(), (10 << round) * MSS);
        }
    }

    #[test]
    fn above_the_threshold_the_window_grows_by_a_segment_in_a_round_trip() {
        let mut control = fresh();
        control.reduce(&path(), Signal::Loss);
        assert_eq!((control.window(), control.threshold()), (5 * MSS, 5 * MSS));
        for round in 0..100 {
            let window = control.window();
            assert_eq!(window, (5 + round) * MSS);
            for _ in 0..window / MSS {
                ack(&mut control, MSS);
            }
        }
    }

    #[test]
    fn bytes_that_slow_start_does_not_use_count_for_the_increase() {
        let mut control = fresh();
        control.timeout(&path(), true);
        assert_eq!((control.window(), control.threshold()), (MSS, 5 * MSS));
        ack(&mut control, 3 * MSS);
        ack(&mut control, 6 * MSS);
        // The first of the six segments ends slow start. The other five are a whole window.
        assert_eq!(control.window(), 6 * MSS);
    }

    #[test]
    fn a_second_timeout_keeps_the_threshold_and_undo_brings_the_window_back() {
        let mut control = fresh();
        control.timeout(&path(), true);
        control.timeout(&path(), false);
        assert_eq!((control.window(), control.threshold()), (MSS, 5 * MSS));
        control.undo(&path());
        assert_eq!((control.window(), control.threshold()), (10 * MSS, u64::MAX));
    }

    #[test]
    fn losses_never_shrink_the_window_below_two_segments() {
        let mut control = fresh();
        for _ in 0..10 {
            control.reduce(&path(), Signal::Loss);
        }
        assert_eq!(control.window(), 2 * MSS);
    }

    #[test]
    fn a_window_that_is_not_used_or_is_being_reduced_does_not_grow() {
        let mut control = fresh();
        control.acked(&path(), &Sample { acked: MSS, ..Sample::default() });
        control.acked(
            &path(),
            &Sample { acked: MSS, window_limited: true, reducing: true, ..Sample::default() },
        );
        assert_eq!(control.window(), 10 * MSS);
    }

    #[test]
    fn a_pause_halves_the_window_for_each_timeout() {
        let timeout = Nanos::from_millis(200);
        for (idle, window) in [(199, 80), (200, 40), (400, 20), (600, 10), (60_000, 10)] {
            assert_eq!(restarted(80, 10, Nanos::from_millis(idle), timeout), window, "{idle} ms");
        }
        assert_eq!(restarted(4, 10, Nanos::from_millis(900), timeout), 4);
        assert_eq!(restarted_threshold(20, 80, timeout, timeout), 60);
        assert_eq!(restarted_threshold(20, 80, Nanos(1), timeout), 20);
    }
}
