//! Algorithms that end slow start before a loss: Linux's `HyStart`, and `HyStart++` of RFC 9406.
//!
//! `cubic.rs` describes both.

use weir_core::{Nanos, choice};

use super::{Path, Sample};

choice! {
    /// The algorithm that ends slow start.
    pub(super) enum Mode {
        /// Slow start ends at the first congestion.
        Off = "off",
        /// `HyStart` as in Linux and ns-3.
        Classic = "on",
        /// `HyStart++` as in RFC 9406.
        Plus = "plus",
    }
}

/// The effect of an acknowledgement on slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Go,
    /// The window grows at a quarter of the usual speed.
    Slow,
    Stop,
}

/// The present and the previous round of slow start.
#[derive(Debug)]
pub(super) struct Hystart {
    mode: Mode,
    /// The round ends when this byte is acknowledged; `None` before the first round.
    end: Option<u64>,
    /// When this round began.
    began: Nanos,
    /// Time of the last acknowledgement of the train.
    last: Nanos,
    /// Smallest round-trip time of this round.
    least: Nanos,
    /// Smallest round-trip time of the previous round.
    before: Nanos,
    /// Number of round-trip times measured in this round.
    samples: u32,
    /// Number of rounds in conservative slow start (RFC 9406), and the smallest round-trip time
    /// when it began.
    conservative: Option<(u32, Nanos)>,
}

impl Hystart {
    pub(super) fn new(mode: Mode) -> Self {
        let (began, last) = (Nanos::ZERO, Nanos::ZERO);
        Self {
            mode,
            end: None,
            began,
            last,
            least: Nanos::MAX,
            before: Nanos::MAX,
            samples: 0,
            conservative: None,
        }
    }

    /// Begins slow start again.
    pub(super) fn restart(&mut self) {
        *self = Self::new(self.mode);
    }

    #[inline]
    pub(super) fn acked(&mut self, path: &Path, sample: &Sample, window: u64) -> Step {
        if self.mode == Mode::Off {
            return Step::Go;
        }
        self.evaluate(path, sample, window)
    }

    fn evaluate(&mut self, path: &Path, sample: &Sample, window: u64) -> Step {
        if self.end.is_none_or(|end| path.una > end) {
            self.end = Some(path.next);
            (self.began, self.last) = (path.now, path.now);
            self.before = self.least;
            self.least = Nanos::MAX;
            self.samples = 0;
            if let Some((rounds, _)) = &mut self.conservative {
                *rounds += 1;
            }
        }
        if let Some(rtt) = sample.rtt {
            self.least = self.least.min(rtt);
            self.samples += 1;
        }
        match self.mode {
            Mode::Plus => self.plus(),
            _ if window < LOW_WINDOW * u64::from(path.mss) => Step::Go,
            _ => self.classic(path),
        }
    }

    fn classic(&mut self, path: &Path) -> Step {
        let min_rtt = path.min_rtt;
        if min_rtt == Nanos::MAX {
            return Step::Go;
        }
        if path.now.since(self.last) <= TRAIN_GAP {
            self.last = path.now;
            if path.now.since(self.began).0 > min_rtt.0 / 2 {
                return Step::Stop;
            }
        }
        if self.samples > SAMPLES && self.least > min_rtt.saturating_add(threshold(min_rtt)) {
            Step::Stop
        } else {
            Step::Go
        }
    }

    fn plus(&mut self) -> Step {
        let enough = self.samples >= SAMPLES;
        match self.conservative {
            None => {
                let risen = self.before != Nanos::MAX
                    && self.least >= self.before.saturating_add(threshold(self.before));
                if !enough || !risen {
                    return Step::Go;
                }
                self.conservative = Some((0, self.least));
                Step::Slow
            }
            Some((_, base)) if enough && self.least < base => {
                self.conservative = None;
                Step::Go
            }
            Some((CONSERVATIVE.., _)) => Step::Stop,
            Some(_) => Step::Slow,
        }
    }
}

/// The increase of the round-trip time that ends slow start, or slows it down in RFC 9406.
fn threshold(rtt: Nanos) -> Nanos {
    Nanos((rtt.0 / 8).clamp(4_000_000, 16_000_000))
}

/// Segments in the smallest window at which the classic form acts.
const LOW_WINDOW: u64 = 16;

/// Number of samples in a round before the smallest round-trip time of the round is used.
const SAMPLES: u32 = 8;

/// The largest gap between acknowledgements of a train.
const TRAIN_GAP: Nanos = Nanos::from_millis(2);

/// Number of conservative rounds before slow start ends.
const CONSERVATIVE: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn round(
        hystart: &mut Hystart,
        number: u64,
        rtts: impl Iterator<Item = u64>,
        gap: Nanos,
    ) -> Step {
        let mut step = Step::Go;
        for (n, rtt) in rtts.enumerate() {
            let now = Nanos(number * 1_000_000_000 + n as u64 * gap.0);
            let path = Path {
                now,
                mss: 1,
                una: number * 100 + 1,
                next: number * 100 + 100,
                min_rtt: Nanos::from_millis(40),
                ..Path::default()
            };
            let sample = Sample { rtt: Some(Nanos::from_millis(rtt)), ..Sample::default() };
            step = hystart.acked(&path, &sample, 100);
            if step == Step::Stop {
                break;
            }
        }
        step
    }

    #[test]
    fn a_train_longer_than_half_a_round_trip_ends_slow_start() {
        let ms = Nanos::from_millis(1);
        let mut hystart = Hystart::new(Mode::Classic);
        assert_eq!(round(&mut hystart, 0, std::iter::repeat_n(40, 21), ms), Step::Go);
        assert_eq!(round(&mut hystart, 1, std::iter::repeat_n(40, 22), ms), Step::Stop);
        // Acknowledgements with larger gaps are not a train.
        let mut hystart = Hystart::new(Mode::Classic);
        assert_eq!(
            round(&mut hystart, 0, std::iter::repeat_n(40, 50), Nanos::from_millis(3)),
            Step::Go
        );
    }

    #[test]
    fn a_delay_that_rises_by_an_eighth_ends_slow_start() {
        let mut hystart = Hystart::new(Mode::Classic);
        assert_eq!(
            round(&mut hystart, 0, std::iter::repeat_n(45, 9), Nanos::from_millis(3)),
            Step::Go
        );
        assert_eq!(
            round(&mut hystart, 1, std::iter::repeat_n(46, 9), Nanos::from_millis(3)),
            Step::Stop
        );
        assert_eq!(
            round(
                &mut Hystart::new(Mode::Classic),
                1,
                std::iter::repeat_n(46, 8),
                Nanos::from_millis(3)
            ),
            Step::Go
        );
    }

    #[test]
    fn plus_is_conservative_for_five_rounds_and_turns_back_when_the_delay_falls() {
        let gap = Nanos::from_millis(3);
        let mut hystart = Hystart::new(Mode::Plus);
        let mut go = |number, rtt| round(&mut hystart, number, std::iter::repeat_n(rtt, 10), gap);
        assert_eq!(go(0, 40), Step::Go);
        assert_eq!(go(1, 44), Step::Go);
        assert_eq!(go(2, 50), Step::Slow);
        assert_eq!(go(3, 44), Step::Go);
        assert_eq!(go(4, 50), Step::Slow);
        for number in 5..9 {
            assert_eq!(go(number, 55), Step::Slow);
        }
        assert_eq!(go(9, 55), Step::Stop);
    }
}
