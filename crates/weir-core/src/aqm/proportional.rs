//! Common parts of the PI family: probabilities and gains in fixed point, the count of ended
//! periods, and the controller of a delay.
//!
//! # Fixed point
//! ```text
//! probability   parts of 2^56; ONE is certain
//! gain in 1/s   parts of 2^80 by which a probability changes for an error of 1 ns
//! time          ns
//! ```
//! A draw compares 56 random bits with a probability, so that 0 and 1 are exact. Products have 128
//! bits and saturate, so that no time, gain or queue length causes an overflow.
//!
//! The product of two numbers of 64 bits always fits, and a division by a power of two is a shift.
//! With these two short cuts, PIE adds 361 instead of 438 instructions to a packet's path
//! (`weir rig --aqm pie --metric instr`).

use crate::settings::{Fraction, UNIT};
use crate::units::Nanos;

/// The probability 1.
pub(crate) const ONE: u64 = 1 << 56;

/// Converts a fraction to a probability.
pub(crate) fn probability(fraction: Fraction) -> u64 {
    ((u128::from(fraction.0.min(UNIT)) << 56) / u128::from(UNIT)) as u64
}

/// Whether an event of probability `p` happens; `bits` are 64 random bits.
#[inline]
pub(crate) fn happens(p: u64, bits: u64) -> bool {
    bits >> 8 < p
}

/// Converts a probability to parts of 2^32.
pub(crate) fn coarse(p: u64) -> u64 {
    p >> 24
}

/// `p` changed by `change`, within 0 and `most`.
#[inline]
pub(crate) fn moved(p: u64, change: i128, most: u64) -> u64 {
    i128::from(p).saturating_add(change).clamp(0, i128::from(most)) as u64
}

/// A gain: the change of a probability per error in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gain(i64);

impl Gain {
    /// A gain in 1/s.
    pub(crate) fn per_second(gain: Fraction) -> Self {
        let parts = (u128::from(gain.0) << 80) / 1_000_000_000_000_000_000;
        Self(i64::try_from(parts).unwrap_or(i64::MAX))
    }

    /// The change of the probability for an error in ns.
    #[inline]
    pub(crate) fn times(self, error: i128) -> i128 {
        narrow(self.raw(error))
    }

    /// The change of the probability for an error in ns, in parts of 2^80.
    #[inline]
    fn raw(self, error: i128) -> i128 {
        let gain = i128::from(self.0);
        match i64::try_from(error) {
            Ok(error) => gain * i128::from(error),
            Err(_) => gain.saturating_mul(error),
        }
    }
}

/// `change` divided by 2 to the power of `bits`, rounded towards 0; `bits` is at most 126.
#[inline]
pub(crate) fn reduced(change: i128, bits: u32) -> i128 {
    let below_one = (1 << bits) - 1;
    (change + if change < 0 { below_one } else { 0 }) >> bits
}

/// Converts parts of 2^80 to parts of 2^56, rounded towards 0.
#[inline]
fn narrow(change: i128) -> i128 {
    reduced(change, 24)
}

/// Periods since the first packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Periods {
    /// The time at which the current period ends, in ns.
    next: u64,
    /// Whether the first period has begun.
    begun: bool,
}

impl Periods {
    /// The time at which the current period ends.
    #[inline]
    pub(crate) fn next(&self) -> Nanos {
        Nanos(self.next)
    }

    /// The number of periods that have ended since the last call; the first call begins the first
    /// period.
    #[inline]
    pub(crate) fn ended(&mut self, now: Nanos, period: u64) -> u64 {
        if now.0 < self.next { 0 } else { self.count(now, period) }
    }

    /// As [`Periods::ended`], when the current period has ended or none has begun.
    #[cold]
    #[inline(never)]
    fn count(&mut self, now: Nanos, period: u64) -> u64 {
        if !self.begun {
            (self.begun, self.next) = (true, now.0.saturating_add(period));
            return 0;
        }
        let ended = (now.0 - self.next) / period + 1;
        self.next = self.next.saturating_add(ended.saturating_mul(period));
        ended
    }
}

/// A PI controller of a delay `d`: each period, `p' ← p' + α (d − target) + β (d − d_old)`, within
/// 0 and `most`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Controller {
    /// `p'`.
    pub(crate) p: u64,
    alpha: Gain,
    beta: Gain,
    target: i128,
    /// The largest value of `p'`.
    most: u64,
    /// `d_old`, in ns.
    old: i128,
}

impl Controller {
    /// A controller at rest. Gains are in 1/s.
    pub(crate) fn new(alpha: Fraction, beta: Fraction, target: Nanos, most: u64) -> Self {
        let (alpha, beta) = (Gain::per_second(alpha), Gain::per_second(beta));
        Self { p: 0, alpha, beta, target: i128::from(target.0), most, old: 0 }
    }

    /// Computes one period, at the end of which the delay is `delay`.
    pub(crate) fn update(&mut self, delay: Nanos) {
        let delay = i128::from(delay.0);
        let change =
            self.alpha.raw(delay - self.target).saturating_add(self.beta.raw(delay - self.old));
        self.p = moved(self.p, narrow(change), self.most);
        self.old = delay;
    }

    /// Computes `periods` periods with the same delay at the end of each. All periods but the first
    /// change `p'` by the same amount, so that they become one step.
    pub(crate) fn hold(&mut self, delay: Nanos, periods: u64) {
        let Some(more) = periods.checked_sub(1) else { return };
        self.update(delay);
        let change = self.alpha.times(self.old - self.target);
        self.p = moved(self.p, change.saturating_mul(i128::from(more)), self.most);
    }

    /// Computes `periods` periods during which one packet stays at the head: the delay is `first`
    /// at the end of the first period, and grows with time. The change of `p'` grows with each
    /// period, so that it may be negative at first and positive later. Two sums of an arithmetic
    /// series give the result.
    pub(crate) fn wait(&mut self, first: Nanos, period: u64, periods: u64) {
        let Some(more) = periods.checked_sub(1) else { return };
        self.update(first);
        let (more, period) = (i128::from(more), i128::from(period));
        let step = self.alpha.raw(period);
        let start = self.alpha.raw(self.old - self.target).saturating_add(self.beta.raw(period));
        let added = |nth: i128| start.saturating_add(step.saturating_mul(nth));
        let sum = |from: i128, to: i128| {
            (to - from + 1).saturating_mul(added(from).saturating_add(added(to)) / 2)
        };
        // The number of the last period with a negative change.
        let falls = match (start < 0, step > 0) {
            (false, _) => 0,
            (true, false) => more,
            (true, true) => ((-start - 1) / step).min(more),
        };
        if falls > 0 {
            self.p = moved(self.p, narrow(sum(1, falls)), self.most);
        }
        if falls < more {
            self.p = moved(self.p, narrow(sum(falls + 1, more)), self.most);
        }
        self.old += more * period;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn probabilities_zero_and_one_are_exact() {
        let part = |billionths| probability(Fraction(billionths));
        assert_eq!((part(0), part(UNIT), part(UNIT / 2)), (0, ONE, ONE / 2));
        assert!(!happens(0, 0) && happens(ONE, u64::MAX));
        assert_eq!(coarse(ONE), 1 << 32);
    }

    #[test]
    fn a_gain_beyond_its_range_is_the_largest_one() {
        let largest = Gain::per_second(Fraction(u64::MAX));
        assert_eq!(largest.0, i64::MAX);
        assert_eq!(largest.raw(i128::MAX), i128::MAX);
        assert_eq!(largest.raw(i128::MIN), i128::MIN);
    }

    #[test]
    fn periods_are_counted_from_the_first_packet_on() {
        let mut periods = Periods::default();
        let mut ended = |now| periods.ended(Nanos(now), 10);
        assert_eq!(
            [1005, 1014, 1015, 1024, 1056, 1064, 1065].map(&mut ended),
            [0, 0, 1, 0, 4, 0, 1]
        );
        assert_eq!(ended(u64::MAX / 2), (u64::MAX / 2 - 1075) / 10 + 1);
    }

    fn controllers() -> impl Strategy<Value = Controller> {
        let gains = (0u64..5_000_000_000, 0u64..50_000_000_000);
        (gains, 0u64..100_000_000, 0..=ONE, 0u64..200_000_000).prop_map(
            |((alpha, beta), target, p, old)| Controller {
                p,
                old: i128::from(old),
                ..Controller::new(Fraction(alpha), Fraction(beta), Nanos(target), ONE)
            },
        )
    }

    proptest! {
        #[test]
        fn a_shift_divides_as_a_division(change in any::<i128>(), bits in 0u32..64) {
            prop_assert_eq!(reduced(change, bits), change / (1 << bits));
        }

        #[test]
        fn products_of_short_and_long_factors_agree(gain in any::<u64>(), error in any::<i128>()) {
            let gain = Gain::per_second(Fraction(gain));
            for error in [error, error >> 63, error >> 64, error >> 65] {
                prop_assert_eq!(gain.raw(error), i128::from(gain.0).saturating_mul(error));
            }
        }

        #[test]
        fn the_equation_holds(c in controllers(), delay in 0u64..1_000_000_000) {
            let mut after = c;
            after.update(Nanos(delay));
            let hertz = |gain: Gain| gain.0 as f64 / (1u128 << 80) as f64 * 1e9;
            let errors =
                [(c.alpha, i128::from(delay) - c.target), (c.beta, i128::from(delay) - c.old)];
            let change: f64 =
                errors.iter().map(|&(gain, error)| hertz(gain) * error as f64 / 1e9).sum();
            let expected = (c.p as f64 / ONE as f64 + change).clamp(0.0, 1.0);
            prop_assert!((after.p as f64 / ONE as f64 - expected).abs() < 1e-12);
        }

        #[test]
        fn many_periods_in_one_step_equal_single_periods(
            c in controllers(),
            delay in 0u64..500_000_000,
            period in 1_000u64..50_000_000,
            periods in 0u64..300,
            waits in any::<bool>(),
        ) {
            let (mut at_once, mut stepped) = (c, c);
            if waits {
                at_once.wait(Nanos(delay), period, periods);
            } else {
                at_once.hold(Nanos(delay), periods);
            }
            for nth in 0..periods {
                stepped.update(Nanos(if waits { delay + nth * period } else { delay }));
            }
            // Each single step rounds towards 0.
            prop_assert!(at_once.p.abs_diff(stepped.p) <= periods, "{} {}", at_once.p, stepped.p);
            prop_assert_eq!(at_once.old, stepped.old);
        }

        #[test]
        fn nothing_overflows(
            c in controllers(),
            delay in any::<u64>(),
            period in 1u64..=u64::MAX / 2,
            periods in any::<u64>(),
        ) {
            let (mut a, mut b) = (c, c);
            a.hold(Nanos(delay), periods);
            b.wait(Nanos(delay), period, periods);
            prop_assert!(a.p <= ONE && b.p <= ONE);
        }
    }
}
