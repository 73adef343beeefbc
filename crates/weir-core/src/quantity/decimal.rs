//! Decimal numbers without floating point: `1.5`, `.25`, `3e-2`.
//!
//! Rates and times are converted from decimal numbers to whole bits per second and nanoseconds. A
//! value between two whole numbers is rounded to the nearest one, halves upwards. Digits after the
//! 24th significant digit are ignored.

use alloc::format;
use alloc::string::{String, ToString};

/// A number that is not negative: `mantissa × 10^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    mantissa: u128,
    exponent: i32,
}

/// Why a text does not begin with a valid number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// The text does not begin with a number.
    #[error("no number")]
    NotANumber,
    /// The number is negative.
    #[error("a negative number")]
    Negative,
}

impl Decimal {
    /// The number at the beginning of `text`, and the rest of `text`.
    ///
    /// # Errors
    /// The text does not begin with a number, or the number is negative.
    pub fn prefix(text: &str) -> Result<(Self, &str), DecimalError> {
        if let Some(positive) = text.strip_prefix('-') {
            return Err(
                Self::prefix(positive).map_or(DecimalError::NotANumber, |_| DecimalError::Negative)
            );
        }
        let (whole, rest) = digits(text);
        let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(DecimalError::NotANumber);
        }
        let (shift, rest) = exponent(rest);
        let (mut mantissa, mut count, mut dropped) = (0u128, 0, 0i32);
        for digit in whole.bytes().chain(fraction.bytes()) {
            if count < SIGNIFICANT {
                mantissa = mantissa * 10 + u128::from(digit - b'0');
                count += usize::from(mantissa != 0);
            } else {
                dropped = dropped.saturating_add(1);
            }
        }
        let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
        Ok((
            Self { mantissa, exponent: dropped.saturating_sub(places).saturating_add(shift) },
            rest,
        ))
    }

    /// Whether the number is zero.
    pub const fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    /// A hundredth of the number.
    #[must_use]
    pub const fn percent(self) -> Self {
        Self { mantissa: self.mantissa, exponent: self.exponent.saturating_sub(2) }
    }

    /// `self × unit`, rounded to the nearest whole number, halves upwards; `None` if the result
    /// does not fit 64 bits.
    ///
    /// `unit` is at most 2^43 (a tebibyte in bits).
    pub fn scaled(self, unit: u64) -> Option<u64> {
        self.times(unit).map(|(value, _)| value)
    }

    /// `self × unit`; `None` if the product is not a whole number or does not fit 64 bits. `unit`
    /// is limited as in [`Self::scaled`].
    pub fn exact(self, unit: u64) -> Option<u64> {
        self.times(unit).filter(|&(_, exact)| exact).map(|(value, _)| value)
    }

    /// `self × unit` rounded to the nearest whole number, and whether the product is exact.
    fn times(self, unit: u64) -> Option<(u64, bool)> {
        debug_assert!(unit <= 1 << 43, "10^24 times a larger unit may not fit in 128 bits");
        let product = self.mantissa * u128::from(unit);
        let power = 10u128.checked_pow(self.exponent.unsigned_abs());
        let (value, rest) = match (self.exponent, power) {
            _ if product == 0 => (0, 0),
            (0.., power) => (product.checked_mul(power?)?, 0),
            (_, None) => (0, product),
            (_, Some(power)) => {
                let rest = product % power;
                (product / power + u128::from(rest >= power.div_ceil(2)), rest)
            }
        };
        Some((u64::try_from(value).ok()?, rest == 0))
    }

    /// The nearest `f64`; infinite if the number is too large.
    pub fn as_f64(self) -> f64 {
        format!("{}e{}", self.mantissa, self.exponent).parse().unwrap_or(f64::INFINITY)
    }
}

/// Writes `value / unit` exactly, without trailing zeros; `unit` is a power of ten.
pub fn write(value: u64, unit: u64) -> String {
    let (whole, mut fraction) = (value / unit, value % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let mut places = unit.ilog10() as usize;
    while fraction.is_multiple_of(10) {
        fraction /= 10;
        places -= 1;
    }
    format!("{whole}.{fraction:0places$}")
}

/// The decimal digits at the beginning of a text, and the rest of the text.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// The exponent `e±N` at the beginning of a text (0 if there is none), and the rest of the text.
fn exponent(text: &str) -> (i32, &str) {
    let Some(after) = text.strip_prefix(['e', 'E']) else { return (0, text) };
    let (sign, unsigned) = match after.strip_prefix('-') {
        Some(unsigned) => (-1, unsigned),
        None => (1, after.strip_prefix('+').unwrap_or(after)),
    };
    let (number, rest) = digits(unsigned);
    if number.is_empty() {
        return (0, text);
    }
    (sign * number.parse().unwrap_or(LARGEST_EXPONENT).min(LARGEST_EXPONENT), rest)
}

/// Number of digits that count. 10^24 times the largest unit fits 128 bits.
const SIGNIFICANT: usize = 24;
/// Larger exponents are replaced by this one.
const LARGEST_EXPONENT: i32 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(text: &str, unit: u64) -> Option<u64> {
        Decimal::prefix(text).ok()?.0.scaled(unit)
    }

    #[test]
    fn decimals_scale_exactly() {
        assert_eq!(scaled("1.5", 1_000_000), Some(1_500_000));
        assert_eq!(scaled(".1", 1_000), Some(100));
        assert_eq!(scaled("0.3", 1_000_000_000), Some(300_000_000));
        assert_eq!(scaled("3e-2", 100), Some(3));
        assert_eq!(scaled("18446744073709551615", 1), Some(u64::MAX));
        assert_eq!(scaled("18446744073709551616", 1), None);
        assert_eq!(scaled("1e999", 1), None);
        assert_eq!(scaled("1e-999", 1), Some(0));
        assert_eq!(scaled("0e99999999999", 1), Some(0));
        assert_eq!(scaled(&format!("{}1", "0".repeat(500)), 1), Some(1));
        assert_eq!(scaled(&format!("0.{}", "9".repeat(500)), 1), Some(1));
    }

    #[test]
    fn halves_round_upwards() {
        assert_eq!(
            [scaled("0.4999", 1), scaled("0.5", 1), scaled("2.5", 1), scaled("1.49", 1)],
            [0, 1, 3, 1].map(Some)
        );
    }

    #[test]
    fn exact_products_are_not_rounded() {
        let exact = |text: &str, unit| Decimal::prefix(text).unwrap().0.exact(unit);
        assert_eq!(
            [exact("1.5", 1_000), exact("0.50", 2), exact("3e2", 1)],
            [1500, 1, 300].map(Some)
        );
        assert_eq!([exact("1.5", 1), exact("1e-999", 1), exact("0.0001", 1_000)], [None; 3]);
    }

    #[test]
    fn text_that_is_not_a_number_is_refused() {
        assert_eq!(Decimal::prefix("NaN"), Err(DecimalError::NotANumber));
        assert_eq!(Decimal::prefix("."), Err(DecimalError::NotANumber));
        assert_eq!(Decimal::prefix("-1"), Err(DecimalError::Negative));
        assert_eq!(Decimal::prefix("-"), Err(DecimalError::NotANumber));
        assert_eq!(Decimal::prefix("1.5ms").map(|d| d.1), Ok("ms"));
        assert_eq!(Decimal::prefix("1em").map(|d| d.1), Ok("em"));
    }

    #[test]
    fn written_numbers_read_back() {
        for value in [0, 1, 10, 1_000, 1_234_567, 999_999_999, 1_000_000_001, u64::MAX] {
            for unit in [1, 1_000, 1_000_000_000] {
                assert_eq!(scaled(&write(value, unit), unit), Some(value));
            }
        }
        assert_eq!(write(1_500_000, 1_000_000), "1.5");
    }
}
