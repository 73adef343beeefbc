//! `DCTCP`: a window reduced in proportion to the share of packets that were marked.
//!
//! # Model
//! The receiver reports for each packet whether it was marked. The sender averages the share of
//! marked bytes over windows of data. On marks, at most once for a window of data, it reduces its
//! window by half of this average share. A queue that marks everything above a small threshold then
//! stays at that threshold: the window varies by a few segments instead of by half.
//!
//! # Equations
//! With `F` the share of marked bytes among those acknowledged in a window of data, and `w` the
//! window:
//!
//! ```text
//! each window:       alpha = (1 - g) · alpha + g · F
//! marks:             w = w · (1 - alpha / 2),  threshold = w,  once for a window of data
//! loss:              w = w / 2
//! growth:            as NewReno
//! ```
//!
//! # Reference
//! RFC 8257; Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010.
//!
//! # Parameters
//! `g` 1/1024..1, default 1/16: weight of a new window in the average. `alpha` 0..1, default 1: the
//! initial average; with 1, the first mark counts like a loss.
//!
//! # Complexity
//! O(1) for each acknowledgement, with one division.
//!
//! # Differences from Linux/FreeBSD
//! As in Linux, the reduction is spread over a round trip in which the window does not grow. The
//! average is in billionths; in Linux it is in 1/1024 and falls to 0 below 1/64. DCTCP here counts
//! bytes and not packets, which is the same for full segments.
//!
//! # Validation
//! The average against its closed form, in `alpha.rs`. In this file's tests: the reduction, one
//! step of the average for each window of data, and a flow at a step of marks. In
//! `tests/it/controls.rs`: throughput and delay of a single flow at a marking queue.

use super::additive::{Additive, ONE};
use super::alpha::Alpha;
use super::newreno::{restarted, restarted_threshold};
use super::{Choice, Control, Feedback, Path, Row, Sample, Setup, Signal, Traits};
use weir_core::Nanos;
use weir_core::settings;
use weir_core::settings::{Fraction, Part, UNIT};

/// `DCTCP` for one connection.
#[derive(Debug)]
pub struct Dctcp {
    /// The window and its threshold.
    additive: Additive,
    alpha: Alpha,
    /// The present window of data ends when this byte is acknowledged.
    end: u64,
    initial: u64,
    /// The window before the last reduction.
    before: Additive,
}

settings! {
    /// Settings of DCTCP.
    struct Settings {
        g: Fraction = G,
        alpha: Fraction = ALPHA,
    }
}

impl Dctcp {
    /// A control at its initial window.
    pub fn new(choice: &Choice, setup: &Setup) -> Self {
        let settings = Settings::of(choice);
        let additive = Additive::new(setup);
        Self {
            additive,
            alpha: Alpha::new(settings.alpha.0, settings.g.0),
            end: 0,
            initial: setup.initial_window,
            before: additive,
        }
    }
}

impl Control for Dctcp {
    #[inline]
    fn acked(&mut self, path: &Path, sample: &Sample) {
        self.alpha.count(sample.acked, sample.ce);
        if path.una >= self.end {
            self.end = path.next;
            self.alpha.end_round();
        }
        if !sample.reducing && sample.window_limited {
            self.additive.grow(sample.acked, path.mss, ONE);
        }
    }

    fn reduce(&mut self, path: &Path, signal: Signal) {
        self.before = self.additive;
        let left = match signal {
            Signal::Marks => self.alpha.reduced(self.additive.window),
            Signal::Loss => self.additive.window / 2,
        };
        self.additive.shrink(left, path);
    }

    fn timeout(&mut self, path: &Path, first: bool) {
        if first {
            self.before = self.additive;
        }
        self.additive.collapse(path, first);
    }

    fn undo(&mut self, _path: &Path) {
        self.additive.window = self.additive.window.max(self.before.window);
        self.additive.threshold = self.additive.threshold.max(self.before.threshold);
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

    fn metrics(&self) -> Vec<(&'static str, u64)> {
        vec![("alpha_billionths", self.alpha.value())]
    }
}

pub(super) const G: Part =
    Part::new(UNIT / 1024, UNIT, UNIT / 16, "weight of a new round in the average share of marks");
pub(super) const ALPHA: Part = Part::new(0, UNIT, UNIT, "initial average share of marks");

pub(super) const ROW: Row = Row {
    name: "dctcp",
    aliases: &[],
    summary: "a window reduced in proportion to the share of marks",
    source: "RFC 8257",
    parameters: Settings::PARAMETERS,
    traits: Traits { feedback: Feedback::Exact, ecn: true, paces: false },
};

#[cfg(test)]
mod tests {
    use super::super::model::{Model, setup};
    use super::super::{AnyControl, Kind};
    use super::*;

    const MSS: u64 = 1000;

    fn fresh() -> Dctcp {
        Dctcp::new(&Choice::new(Kind::Dctcp), &setup(MSS))
    }

    fn path(una: u64, next: u64) -> Path {
        Path { mss: MSS as u32, una, next, ..Path::default() }
    }

    #[test]
    fn a_mark_takes_half_of_the_average_share_and_a_loss_half_of_the_window() {
        let mut control = fresh();
        control.additive.window = 100 * MSS;
        control.reduce(&path(0, 0), Signal::Marks);
        assert_eq!(control.window(), 50 * MSS, "the first mark counts like a loss");
        control.alpha = Alpha::new(UNIT / 10, UNIT / 16);
        control.reduce(&path(0, 0), Signal::Marks);
        assert_eq!((control.window(), control.threshold()), (47_500, 47_500));
        control.reduce(&path(0, 0), Signal::Loss);
        assert_eq!(control.window(), 23_750);
        control.undo(&path(0, 0));
        assert_eq!(control.window(), 47_500);
    }

    #[test]
    fn the_average_moves_once_for_a_window_of_data() {
        let mut control = fresh();
        // The first acknowledgement ends the empty window. After it, ten segments are outstanding.
        control.acked(&path(1000, 11_000), &Sample { acked: 1000, ..Sample::default() });
        let first = control.alpha.value();
        assert_eq!(first, UNIT / 16 * 15);
        for segment in 2..=10 {
            control
                .acked(&path(segment * MSS, 20_000), &Sample { acked: MSS, ..Sample::default() });
            assert_eq!(control.alpha.value(), first);
        }
        control
            .acked(&path(11 * MSS, 21_000), &Sample { acked: MSS, ce: MSS, ..Sample::default() });
        // One of ten segments was marked.
        assert_eq!(control.alpha.value(), first / 16 * 15 + UNIT / 160);
    }

    #[test]
    fn a_step_of_marks_keeps_a_short_queue_and_a_full_link() {
        // 100 Mbit/s and 10 ms give a window of 125 segments. The queue marks above 20 segments.
        let mut model = Model::new(
            AnyControl::new(&Choice::new(Kind::Dctcp), &setup(MSS)),
            100_000_000,
            Nanos::from_millis(10),
        );
        model.mark_above = 20 * MSS;
        model.run(Nanos::from_secs(2));
        let queue = model.forget();
        model.run(Nanos::from_secs(6));
        let share = model.utilisation();
        assert!(share > 0.99, "{share} of the link is used");
        assert!(
            model.longest_queue() < 40 * MSS,
            "the queue reaches {} bytes, {queue} in the beginning",
            model.longest_queue()
        );
    }
}
