//! Fractions of integers. All comparisons are exact; decimal numbers appear only in output.

use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Sub};

/// A fraction. Measured values have numerators of up to 100 bits. Sums and products are meant for
/// the bounds, which have small terms.
#[derive(Clone, Copy, Debug)]
pub struct Exact {
    numerator: i128,
    /// Always positive.
    denominator: i128,
}

impl Exact {
    /// Zero.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };

    /// One.
    pub const ONE: Self = Self { numerator: 1, denominator: 1 };

    /// `numerator / denominator`, in lowest terms.
    ///
    /// # Panics
    /// When the denominator is 0.
    pub fn new(numerator: i128, denominator: i128) -> Self {
        assert!(denominator != 0, "a fraction has a denominator");
        let divisor = gcd(numerator.unsigned_abs(), denominator.unsigned_abs()) as i128
            * denominator.signum();
        Self { numerator: numerator / divisor, denominator: denominator / divisor }
    }

    /// An integer.
    pub fn whole(number: impl Into<i128>) -> Self {
        Self { numerator: number.into(), denominator: 1 }
    }

    /// The value as a floating-point number, for output.
    pub fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// The fraction in millionths, rounded down and limited to the range of `i64`.
    pub fn millionths(self) -> i64 {
        let whole = self.numerator.div_euclid(self.denominator);
        let rest = self.numerator.rem_euclid(self.denominator);
        let parts = whole
            .saturating_mul(1_000_000)
            .saturating_add(rest.saturating_mul(1_000_000) / self.denominator);
        parts.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

impl Ord for Exact {
    /// Compares the integer parts first, then the remainders, so that the products do not overflow.
    fn cmp(&self, other: &Self) -> Ordering {
        let parts = |x: &Self| {
            (x.numerator.div_euclid(x.denominator), x.numerator.rem_euclid(x.denominator) as u128)
        };
        let ((a, a_rest), (b, b_rest)) = (parts(self), parts(other));
        a.cmp(&b).then_with(|| {
            (a_rest * other.denominator as u128).cmp(&(b_rest * self.denominator as u128))
        })
    }
}

impl PartialOrd for Exact {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Exact {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Exact {}

impl Add for Exact {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let numerator = self.numerator * other.denominator + other.numerator * self.denominator;
        Self::new(numerator, self.denominator * other.denominator)
    }
}

impl Sub for Exact {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + Self { numerator: -other.numerator, ..other }
    }
}

impl Mul for Exact {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let (a, b) = (
            Self::new(self.numerator, other.denominator),
            Self::new(other.numerator, self.denominator),
        );
        Self::new(a.numerator * b.numerator, a.denominator * b.denominator)
    }
}

impl Div for Exact {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let inverse = Self::new(other.denominator, other.numerator);
        self.mul(inverse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_compare_and_calculate_exactly() {
        let third = Exact::new(1, 3);
        assert_eq!(third + third + third, Exact::whole(1));
        assert_eq!(Exact::new(2, -4), Exact::new(-1, 2));
        assert_eq!(third * Exact::whole(6) / Exact::whole(4) - Exact::new(1, 2), Exact::ZERO);
        assert!(Exact::new(-1, 3) < Exact::new(-1, 4) && Exact::new(7, 3) > Exact::new(9, 4));
        assert_eq!(
            (Exact::new(-1, 3).millionths(), Exact::new(7, 2).millionths()),
            (-333_334, 3_500_000)
        );
    }

    #[test]
    fn the_largest_fractions_compare_without_overflow() {
        let (a, b) =
            (Exact::new(i128::MAX, (1 << 49) + 1), Exact::new(i128::MAX - 1, (1 << 49) + 1));
        assert!(a > b);
        assert!(Exact::new((5 << 64) - 1, 1 << 64) > Exact::new((5 << 64) - 3, 1 << 64));
    }
}
