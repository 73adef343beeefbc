//! Powers and factors in fixed point, for the equations of AQMs: the decay of an average while no
//! packet arrives, and a drop probability that is exponential in a price.
//!
//! A [`Factor`] or a [`Slope`] is computed once, when the AQM is created. Only this computation
//! uses floating point, with functions that give the same result on every machine. Applying a
//! factor takes one multiplication and one shift.

use super::Setup;
use crate::settings::{Fraction, UNIT};
use crate::units::{NANOS_PER_SEC, Nanos};

/// A nonnegative factor, `mantissa / 2^shift`, that is applied to a `u64`. It has at least 53
/// significant bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factor {
    mantissa: u64,
    shift: u32,
}

impl Factor {
    /// `numerator / denominator`, rounded up in the 63rd significant bit. The denominator must be
    /// at least 1 and less than 2^63.
    pub(super) fn ratio(numerator: u64, denominator: u64) -> Self {
        if numerator == 0 {
            return Self { mantissa: 0, shift: 0 };
        }
        let up = u128::from(numerator).leading_zeros() - 1;
        let wide = u128::from(numerator) << up;
        let quotient = wide.div_ceil(u128::from(denominator.max(1)));
        let down = 65 - quotient.leading_zeros();
        let mantissa = (quotient >> down) as u64 + u64::from(quotient & ((1 << down) - 1) != 0);
        Self { mantissa, shift: up - down }
    }

    /// The factor `x`, which must be less than 2^62. The factor is 0 unless `x` is positive.
    pub(super) fn of(x: f64) -> Self {
        if x.is_nan() || x <= 0.0 {
            return Self { mantissa: 0, shift: 0 };
        }
        let (fraction, exponent) = libm::frexp(x);
        let mantissa = libm::ldexp(fraction, 63) as u64;
        Self { mantissa, shift: (63 - exponent).max(0) as u32 }
    }

    /// The product, rounded down; saturates at the largest number.
    #[inline]
    pub(super) fn times(self, x: u64) -> u64 {
        if self.shift >= 128 {
            return 0;
        }
        let product = (u128::from(self.mantissa) * u128::from(x)) >> self.shift;
        u64::try_from(product).unwrap_or(u64::MAX)
    }
}

/// A factor from 0 to 1 that is applied to signed numbers of up to 95 bits. It has 32 significant
/// bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slope {
    mantissa: u32,
    shift: u32,
}

impl Slope {
    /// The factor `x`, limited to the range from 0 to 1.
    pub(super) fn of(x: f64) -> Self {
        let (fraction, exponent) = libm::frexp(x.clamp(0.0, 1.0));
        let mantissa = libm::round(libm::ldexp(fraction, 32)).min(f64::from(u32::MAX)) as u32;
        Self { mantissa, shift: (32 - exponent).clamp(0, 127) as u32 }
    }

    /// The product, rounded down. `x` must fit in 95 bits.
    #[inline]
    pub(super) fn times(self, x: i128) -> i128 {
        // `x` nearly always fits in 64 bits, so that one multiplication is enough.
        match i64::try_from(x) {
            Ok(x) if self.shift < 64 => {
                (i128::from(x) * i128::from(self.mantissa)) >> (self.shift & 63)
            }
            _ => (x * i128::from(self.mantissa)) >> self.shift,
        }
    }
}

/// `2^-x`; `x` and the result are in parts of 2^32. The error is below 2^-31.
#[inline]
pub(super) fn exp2_neg(x: u64) -> u64 {
    let whole = x >> 32;
    if whole > 32 { 0 } else { exp2_neg_fraction(x as u32) >> (28 + whole) }
}

/// `value × 2^-x`, for `x` in parts of 2^32; `value` must be below 2^95. The relative error is
/// below 2^-31, apart from the rounding of the result.
#[inline]
pub(super) fn times_exp2_neg(value: u128, x: u64) -> u128 {
    let whole = x >> 32;
    if whole > 95 {
        return 0;
    }
    ((value * u128::from(exp2_neg_fraction(x as u32) >> 28)) >> 32) >> whole
}

/// `2^-(x / 2^32)` in parts of 2^60: a table covers the upper four bits of `x`, and the series of
/// the exponential function covers the lower bits.
fn exp2_neg_fraction(x: u32) -> u64 {
    let rest = u64::from(x & 0x0fff_ffff);
    let t = ((u128::from(rest) * u128::from(LN_2)) >> 32) as u64;
    let mut sum = ONE;
    for term in [5, 4, 3, 2, 1] {
        sum = ONE - product(t, sum) / term;
    }
    product(SIXTEENTHS[(x >> 28) as usize], sum)
}

/// The product of two numbers in parts of 2^60.
#[inline]
fn product(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 60) as u64
}

/// A fraction in Q32 format: in parts of 2^32.
pub(super) fn q32(fraction: Fraction) -> u64 {
    ((u128::from(fraction.0) << 32) / u128::from(UNIT)) as u64
}

/// A fraction as a floating-point number.
pub(super) fn as_f64(fraction: Fraction) -> f64 {
    fraction.0 as f64 / UNIT as f64
}

/// A link's rate, for conversion to packets of the mean length.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketRate {
    /// The rate in bit/s.
    pub(super) rate: u64,
    /// The mean length of a packet in bytes.
    pub(super) mean: u32,
}

impl PacketRate {
    /// The rate of the link in `setup`, or [`ASSUMED_RATE`] for a link without a rate.
    pub(super) fn of(setup: &Setup, mean: u32) -> Self {
        Self { rate: if setup.rate == 0 { ASSUMED_RATE } else { setup.rate }, mean }
    }

    /// Packets per second.
    pub(super) fn per_second(self) -> f64 {
        self.rate as f64 / (8.0 * f64::from(self.mean))
    }

    /// Packets per ns.
    pub(super) fn per_ns(self) -> Factor {
        Factor::ratio(self.rate, 8 * NANOS_PER_SEC * u64::from(self.mean))
    }
}

/// The number of periods that ended after `since` and not after `now`, and the time at which the
/// last of them ended; `since` if none ended.
pub(super) fn periods(now: Nanos, since: Nanos, period: u64) -> (u64, Nanos) {
    let elapsed = now.since(since).0;
    if elapsed < period {
        return (0, since);
    }
    let ended = elapsed / period;
    (ended, Nanos(since.0 + ended * period))
}

/// The rate in bit/s that equations use for a link without a rate: 10 Mbit/s.
const ASSUMED_RATE: u64 = 10_000_000;
/// 1 in parts of 2^60.
const ONE: u64 = 1 << 60;
/// The natural logarithm of 2, in parts of 2^60.
const LN_2: u64 = 799_144_290_325_165_979;
/// 2^(-n/16) in parts of 2^60.
const SIXTEENTHS: [u64; 16] = [
    1_152_921_504_606_846_976,
    1_104_041_415_199_452_355,
    1_057_233_681_222_091_667,
    1_012_410_441_603_304_977,
    969_487_560_292_816_559,
    928_384_468_332_857_358,
    889_024_012_625_145_262,
    851_332_311_109_649_260,
    815_238_614_083_298_888,
    780_675_171_398_325_420,
    747_577_105_290_957_711,
    715_882_288_601_764_123,
    685_531_228_159_052_439,
    656_466_953_106_431_027,
    628_634_907_964_915_054,
    601_982_850_228_848_561,
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The documented precision, 2^-31.
    const ERROR: f64 = 1.0 / 2_147_483_648.0;

    proptest! {
        #[test]
        fn powers_of_two_have_the_documented_precision(
            x in prop_oneof![0u64..40 << 32, any::<u64>()],
            value in 0u128..1 << 95,
        ) {
            let parts = 4_294_967_296.0;
            let exact = libm::exp2(-(x as f64 / parts));
            prop_assert!((exp2_neg(x) as f64 / parts - exact).abs() < ERROR, "{x}");
            let (got, expected) = (times_exp2_neg(value, x) as f64, value as f64 * exact);
            prop_assert!((got - expected).abs() <= 1.0 + expected * ERROR, "{value} {x}: {got}");
        }

        #[test]
        fn applying_a_ratio_multiplies_and_divides(
            x in 0u64..1 << 40,
            numerator in 0u64..1 << 40,
            denominator in 1u64..1 << 56,
        ) {
            let quotient = u128::from(x) * u128::from(numerator) / u128::from(denominator);
            let exact = u64::try_from(quotient).unwrap_or(u64::MAX);
            let got = Factor::ratio(numerator, denominator).times(x);
            prop_assert!(got == exact || got == exact + 1 && exact > 1 << 30, "{got} {exact}");
        }

        #[test]
        fn applying_a_slope_multiplies(x in -(1i128 << 90)..1i128 << 90, slope in 1e-12f64..1.0) {
            let exact = x as f64 * slope;
            let got = Slope::of(slope).times(x) as f64;
            prop_assert!((got - exact).abs() <= 1.0 + exact.abs() * ERROR, "{got} {exact}");
        }
    }

    #[test]
    fn results_at_the_limits_of_the_ranges_are_exact() {
        assert_eq!((exp2_neg(0), exp2_neg(1 << 32), exp2_neg(u64::MAX)), (1 << 32, 1 << 31, 0));
        assert_eq!(
            (Slope::of(1.0).times(77), Slope::of(0.5).times(-8), Slope::of(0.0).times(77)),
            (77, -4, 0)
        );
        assert_eq!(
            (Factor::of(3.0).times(5), Factor::of(-1.0).times(5), Factor::of(1e-300).times(5)),
            (15, 0, 0)
        );
        assert_eq!(Factor::of(1e15).times(u64::MAX), u64::MAX);
    }

    #[test]
    fn only_periods_that_have_ended_are_counted() {
        assert_eq!(periods(Nanos(99), Nanos(0), 100), (0, Nanos(0)));
        assert_eq!(periods(Nanos(100), Nanos(0), 100), (1, Nanos(100)));
        assert_eq!(periods(Nanos(399), Nanos(50), 100), (3, Nanos(350)));
    }
}
