//! `Prague`: DCTCP for the public Internet, with pacing and accurate feedback. Flows with a short
//! round-trip time are no more aggressive than flows with a longer one.
//!
//! # Model
//! Packets are ECT(1), so that a dual queue puts them into its low-latency queue. Counters in the
//! acknowledgements report how many packets were marked. The moving average of the share of marks
//! determines the reduction of the window, as in DCTCP. The reduction takes place at once and not
//! over a round trip. The window does not stop growing: every acknowledged byte without a mark
//! counts.
//! Flows with a short round-trip time would grow more often than other flows and take a larger
//! share. Some rounds after slow start, they therefore begin to grow, average and reduce as if
//! their round trip took 25 ms. Losses halve the window as in Reno, regardless of the marks.
//!
//! # Equations
//! With `R` the smoothed round-trip time, `V = max(R, target)`, `F` the share of marked bytes, `a`
//! acknowledged bytes without mark:
//!
//! ```text
//! every V:   alpha = (1 - g) · alpha + g · F
//! marks:     w = w · (1 - alpha / 2),  at most once in V
//! growth:    w += a · mss / w · (R / V)²
//! loss:      w = w / 2
//! pacing:    w / R,  twice that while w is below half of the threshold
//! ```
//!
//! # Reference
//! draft-briscoe-iccrg-prague-congestion-control-04; RFC 9331 and 9332; Briscoe and De Schepper,
//! "Resolving Tensions between Congestion Control Scaling Requirements", 2017.
//!
//! # Parameters
//! `g` and `alpha` as for DCTCP. `target` 0..100ms, default 25ms: the virtual round-trip time of
//! flows with a shorter real one; 0 disables it. `transition` 0..10000, default 500: rounds after
//! slow start before the virtual round-trip time applies; flows that end earlier never use it.
//!
//! # Complexity
//! O(1) for each acknowledgement, with two divisions.
//!
//! # Differences from Linux/FreeBSD
//! The window is in bytes and may contain fractions of a segment. With classic feedback, a sender
//! reacts as Reno does, because all bytes that a round acknowledges then count as marked. Queues
//! with classic ECN are not detected; Linux can detect them, but disables the detection by default.
//!
//! # Validation
//! In this file's tests: growth at short and at long round trips, one reduction per virtual round
//! trip, losses during reductions, and a flow at a step of marks. In `tests/it/controls.rs`: Prague
//! and CUBIC in a dual queue, where their shares differ by at most a factor of two, at rates of 20
//! to 100 Mbit/s and round trips of 10 to 40 ms. At 12 Mbit/s the queue's step of 1 ms is one
//! packet, and Prague gets a smaller share.

use super::additive::{Additive, ONE};
use super::alpha::Alpha;
use super::dctcp::{ALPHA, G};
use super::newreno::{restarted, restarted_threshold};
use super::{Choice, Control, Feedback, Path, Row, Sample, Setup, Signal, Traits};
use weir_core::Nanos;
use weir_core::settings;
use weir_core::settings::{Fraction, Number, Time};

/// `Prague` for one connection.
#[derive(Debug)]
pub struct Prague {
    /// The window and its threshold.
    additive: Additive,
    alpha: Alpha,
    target: Nanos,
    transition: u64,
    /// Whether a mark was seen, which shows that an AQM on the path marks packets.
    marked: bool,
    /// The round ends when this byte is acknowledged.
    end: u64,
    /// Number of rounds since slow start.
    rounds: u64,
    /// When the average was last updated.
    averaged: Nanos,
    /// Time of the last reduction for marks, and the byte that was sent next.
    reduced: Option<(Nanos, u64)>,
    /// The repair of a loss ends when this byte is acknowledged; `None` if no loss is being
    /// repaired.
    repair_end: Option<u64>,
    /// The pacing rate in bits/s; `None` before the first round-trip time.
    rate: Option<u64>,
    initial: u64,
    /// The window before the last loss.
    before: Additive,
}

settings! {
    /// Settings of Prague.
    struct Settings {
        g: Fraction = G,
        alpha: Fraction = ALPHA,
        target: Nanos = Time::new(
            0,
            100_000_000,
            25_000_000,
            "virtual round-trip time of flows with a shorter one",
        ),
        transition: u64 = Number::new(
            0,
            10_000,
            "rounds",
            500,
            "rounds after slow start before the virtual round-trip time applies",
        ),
    }
}

impl Prague {
    /// A control at its initial window.
    pub fn new(choice: &Choice, setup: &Setup) -> Self {
        let settings = Settings::of(choice);
        let additive = Additive::new(setup);
        Self {
            additive,
            alpha: Alpha::new(settings.alpha.0, settings.g.0),
            target: settings.target,
            transition: settings.transition,
            marked: false,
            end: 0,
            rounds: 0,
            averaged: Nanos::ZERO,
            reduced: None,
            repair_end: None,
            rate: None,
            initial: setup.initial_window,
            before: additive,
        }
    }

    /// The virtual round-trip time of the flow; `None` as long as the real one applies.
    fn virtual_rtt(&self, path: &Path) -> Option<Nanos> {
        let is_old = !self.additive.in_slow_start() && self.rounds >= self.transition;
        (is_old && path.srtt > Nanos::ZERO && path.srtt < self.target).then_some(self.target)
    }

    fn end_round(&mut self, path: &Path) {
        if path.una < self.end
            || self.virtual_rtt(path).is_some_and(|round| path.now.since(self.averaged) < round)
        {
            return;
        }
        if self.marked {
            self.alpha.end_round();
        } else {
            self.alpha.skip_round();
        }
        self.averaged = path.now;
        self.end = path.next;
        if !self.additive.in_slow_start() {
            self.rounds += 1;
        }
    }

    fn grow(&mut self, path: &Path, sample: &Sample) {
        let part = match self.virtual_rtt(path) {
            None => ONE,
            Some(round) => {
                let ratio = (u128::from(path.srtt.0) << 32) / u128::from(round.0);
                ((ratio * ratio) >> 32) as u64
            }
        };
        self.additive.grow(sample.acked.saturating_sub(sample.ce), path.mss, part);
    }

    /// Reduces the window for marks, at most once per real or virtual round trip.
    fn answer(&mut self, path: &Path) {
        self.marked = true;
        if let Some((last, end)) = self.reduced
            && (path.una < end
                || self.virtual_rtt(path).is_some_and(|round| path.now.since(last) < round))
        {
            return;
        }
        self.reduced = Some((path.now, path.next));
        self.additive.shrink(self.alpha.reduced(self.additive.window), path);
    }

    /// Halves the window for a loss.
    fn lose(&mut self, path: &Path) {
        self.before = self.additive;
        self.additive.shrink(self.additive.window / 2, path);
        self.repair_end = Some(path.next);
    }

    fn pace(&mut self, path: &Path) {
        let bits = u128::from(self.additive.window.max(path.in_flight)) * 8 * 1_000_000_000;
        let Some(rate) = bits.checked_div(path.srtt.0.into()) else { return };
        let rate = u64::try_from(rate).unwrap_or(u64::MAX / 2);
        self.rate =
            Some(if self.additive.window < self.additive.threshold / 2 { rate * 2 } else { rate });
    }
}

impl Control for Prague {
    #[inline]
    fn acked(&mut self, path: &Path, sample: &Sample) {
        self.repair_end = self.repair_end.filter(|&end| path.una < end);
        if sample.lost > 0 && self.repair_end.is_none() {
            // The loss was found during a reduction for marks, so the sender does not call `reduce`
            // for it.
            self.lose(path);
        }
        if sample.ce > 0 && self.repair_end.is_none() {
            // Handling marks in `reduce` is not enough: the sender calls it at most once per real
            // round trip, so the virtual round trip would be rounded up to a multiple of the real
            // one.
            self.answer(path);
        }
        self.alpha.count(sample.acked, sample.ce);
        if self.repair_end.is_none() && sample.window_limited {
            self.grow(path, sample);
        }
        self.end_round(path);
        self.pace(path);
    }

    fn reduce(&mut self, path: &Path, signal: Signal) {
        match signal {
            Signal::Loss if self.repair_end.is_none_or(|end| path.una >= end) => self.lose(path),
            Signal::Loss => {}
            Signal::Marks => self.answer(path),
        }
    }

    fn timeout(&mut self, path: &Path, first: bool) {
        if first {
            self.before = self.additive;
        }
        self.additive.collapse(path, first);
        self.repair_end = None;
    }

    fn undo(&mut self, _path: &Path) {
        self.additive.window = self.additive.window.max(self.before.window);
        self.additive.threshold = self.additive.threshold.max(self.before.threshold);
        self.repair_end = None;
    }

    fn resume(&mut self, _path: &Path, idle: Nanos, timeout: Nanos) {
        self.additive.threshold =
            restarted_threshold(self.additive.threshold, self.additive.window, idle, timeout);
        self.additive.window = restarted(self.additive.window, self.initial, idle, timeout);
    }

    fn window(&self) -> u64 {
        self.additive.window
    }

    fn threshold(&self) -> u64 {
        self.additive.threshold
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.rate
    }

    fn owns_window(&self, signal: Signal) -> bool {
        signal == Signal::Marks
    }

    fn metrics(&self) -> Vec<(&'static str, u64)> {
        vec![("alpha_billionths", self.alpha.value()), ("rounds", self.rounds)]
    }
}

pub(super) const ROW: Row = Row {
    name: "prague",
    aliases: &[],
    summary: "reductions in proportion to marks, independent of the round-trip time",
    source: "draft-briscoe-iccrg-prague-congestion-control-04",
    parameters: Settings::PARAMETERS,
    traits: Traits { feedback: Feedback::Scalable, ecn: true, paces: true },
};

#[cfg(test)]
mod tests {
    use super::super::model::{Model, setup};
    use super::super::{AnyControl, Kind};
    use super::*;
    use weir_core::settings::UNIT;

    const MSS: u64 = 1000;

    /// A control with 100 segments, long after slow start.
    fn settled() -> Prague {
        let mut control = Prague::new(&Choice::new(Kind::Prague), &setup(MSS));
        (control.additive.window, control.additive.threshold) = (100 * MSS, 100 * MSS);
        control.rounds = 1000;
        control
    }

    fn path(srtt: u64, now: u64) -> Path {
        Path {
            now: Nanos::from_millis(now),
            mss: MSS as u32,
            srtt: Nanos::from_millis(srtt),
            ..Path::default()
        }
    }

    fn window_after(control: &mut Prague, srtt: u64, segments: u64, ce: u64) -> u64 {
        for _ in 0..segments {
            let sample = Sample { acked: MSS, ce, window_limited: true, ..Sample::default() };
            control.acked(&Path { una: 0, next: 1, ..path(srtt, 0) }, &sample);
        }
        control.window()
    }

    #[test]
    fn growth_of_the_rate_does_not_depend_on_a_short_round_trip() {
        // One window is acknowledged per round trip. At 25 ms the window grows by a segment, at 5
        // ms by a 25th of a segment, so that the rate grows equally fast.
        for (srtt, growth) in [(50, 1000), (25, 1000), (5, 40), (1, 1)] {
            let mut control = settled();
            control.end = 1;
            let grown = window_after(&mut control, srtt, 100, 0) - 100 * MSS;
            assert!(grown.abs_diff(growth) <= 10, "{srtt} ms: {grown} bytes");
        }
    }

    #[test]
    fn before_the_transition_the_window_grows_by_a_segment_in_any_round_trip() {
        let mut control = settled();
        control.rounds = 0;
        control.end = 1;
        let grown = window_after(&mut control, 5, 100, 0) - 100 * MSS;
        assert!(grown.abs_diff(MSS) <= 10, "{grown}");
    }

    #[test]
    fn marked_bytes_do_not_grow_the_window() {
        let mut control = settled();
        control.alpha = Alpha::new(0, UNIT / 16);
        control.end = 1;
        assert_eq!(window_after(&mut control, 25, 100, MSS), 100 * MSS);
    }

    #[test]
    fn one_reduction_per_virtual_round_trip() {
        let mut control = settled();
        control.alpha = Alpha::new(UNIT / 5, UNIT / 16);
        for (now, window) in [(100, 90_000), (110, 90_000), (124, 90_000), (125, 81_000)] {
            let sample = Sample { acked: MSS, ce: MSS, ..Sample::default() };
            control.acked(&Path { una: now, next: now, ..path(5, now) }, &sample);
            assert_eq!(control.window(), window, "at {now} ms");
            control.alpha = Alpha::new(UNIT / 5, UNIT / 16);
        }
        control.reduce(&Path { una: 126, next: 126, ..path(30, 126) }, Signal::Marks);
        assert_eq!(control.window(), 72_900, "a round trip longer than the target is not replaced");
    }

    #[test]
    fn a_loss_within_a_reduction_for_marks_halves_the_window_once() {
        let mut control = settled();
        control.alpha = Alpha::new(0, UNIT / 16);
        control.reduce(&path(25, 1), Signal::Marks);
        assert_eq!(control.window(), 100 * MSS);
        for una in 0..3 {
            let sample = Sample {
                acked: MSS,
                lost: MSS,
                reducing: true,
                window_limited: true,
                ..Sample::default()
            };
            control.acked(&Path { una: una * MSS, next: 100 * MSS, ..path(25, 2) }, &sample);
            assert_eq!(control.window(), 50 * MSS);
        }
        let sample = Sample { acked: MSS, window_limited: true, ..Sample::default() };
        control.acked(&Path { una: 100 * MSS, next: 200 * MSS, ..path(25, 3) }, &sample);
        assert!(control.window() > 50 * MSS, "the window grows once the loss is repaired");
    }

    #[test]
    fn the_pacing_rate_is_a_window_per_round_trip_and_twice_that_in_slow_start() {
        let mut control = settled();
        control.acked(&path(25, 1), &Sample { acked: 1, ..Sample::default() });
        assert_eq!(control.pacing_rate(), Some(100_000 * 8 * 40));
        control.additive.threshold = u64::MAX;
        control.acked(&path(25, 1), &Sample { acked: 1, ..Sample::default() });
        assert_eq!(control.pacing_rate(), Some(100_000 * 8 * 40 * 2));
    }

    #[test]
    fn a_step_of_marks_keeps_a_short_queue_and_a_full_link() {
        // With round trips of 10 ms, before the transition and long after it, when they count as
        // 25 ms.
        for (from, to) in [(2, 5), (30, 60)] {
            let mut model = Model::new(
                AnyControl::new(&Choice::new(Kind::Prague), &setup(MSS)),
                100_000_000,
                Nanos::from_millis(10),
            );
            model.mark_above = 10 * MSS;
            model.run(Nanos::from_secs(from));
            model.forget();
            model.run(Nanos::from_secs(to));
            let share = model.utilisation();
            assert!(share > 0.97, "{share} of the link is used from {from} s on");
            assert!(
                model.longest_queue() < 25 * MSS,
                "the queue reaches {} bytes",
                model.longest_queue()
            );
        }
    }
}
