//! Quantities as text: rates, times, sizes, probabilities and fractions with their units. Settings,
//! links, scripts, scenarios and traces are parsed with these functions.

pub mod decimal;

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::config::Loss;
use crate::units::{Nanos, Probability, Rate};

use decimal::{Decimal, DecimalError, write};

/// Why a text is not a valid quantity of the expected kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not begin with a number.
    #[error("not a number")]
    NotANumber,
    /// The number is negative.
    #[error("negative")]
    Negative,
    /// The unit after the number is not a unit of the quantity.
    #[error("not a unit of it")]
    Unit,
    /// A bare number that may be meant in two units.
    #[error("a number without a unit")]
    Bare,
    /// The quantity is out of range.
    #[error("out of range")]
    OutOfRange,
}

impl From<DecimalError> for QuantityError {
    fn from(error: DecimalError) -> Self {
        match error {
            DecimalError::NotANumber => Self::NotANumber,
            DecimalError::Negative => Self::Negative,
        }
    }
}

/// A rate such as `1.5Mbit/s`, `256K` or `125KByte/s`; `None` for `0` and `unlimited`.
///
/// A bare number is in bit/s. `K`, `M`, `G`, `T` are powers of 1000 in upper or lower case, `Ki`,
/// `Mi`, `Gi`, `Ti` of 1024. `b` is a bit, `B` a byte.
///
/// # Errors
/// Not a rate, or above 400 Gbit/s, or above zero but below half a bit per second.
pub fn rate(text: &str) -> Result<Option<Rate>, QuantityError> {
    if text == "unlimited" {
        return Ok(None);
    }
    let (number, unit) = Decimal::prefix(text)?;
    let unit = rate_unit(unit).ok_or(QuantityError::Unit)?;
    rate_of(number, unit)
}

/// A rate from a number and the factor of its unit, as in [`rate`].
///
/// # Errors
/// The rate is out of range.
pub fn rate_of(number: Decimal, unit: u64) -> Result<Option<Rate>, QuantityError> {
    if number.is_zero() {
        return Ok(None);
    }
    number.scaled(unit).and_then(Rate::new).map(Some).ok_or(QuantityError::OutOfRange)
}

/// The number of bits per second in a unit of rate; the empty unit is bit/s.
pub fn rate_unit(unit: &str) -> Option<u64> {
    let (factor, rest) = multiplier(unit);
    let bits = match rest {
        "" | "b" | "b/s" => 1,
        "B" | "B/s" | "Bps" => 8,
        _ => match rest.to_ascii_lowercase().as_str() {
            "bit" | "bits" | "bit/s" | "bits/s" | "bps" => 1,
            "byte" | "bytes" | "byte/s" | "bytes/s" => 8,
            _ => return None,
        },
    };
    Some(factor * bits)
}

/// A time such as `20ms`, `0.5s`, `250us` or `100ns`, up to `most`; a bare number is in
/// milliseconds.
///
/// # Errors
/// Not a time, or above `most`.
pub fn time(text: &str, most: Nanos) -> Result<Nanos, QuantityError> {
    let (number, unit) = Decimal::prefix(text)?;
    let unit =
        if unit.is_empty() { 1_000_000 } else { time_unit(unit).ok_or(QuantityError::Unit)? };
    number.scaled(unit).map(Nanos).filter(|&t| t <= most).ok_or(QuantityError::OutOfRange)
}

/// A time as in [`time`], but a bare number other than 0 is refused: it may be meant in
/// milliseconds or in seconds.
///
/// # Errors
/// Not a time with a unit, or above `most`.
pub fn time_with_unit(text: &str, most: Nanos) -> Result<Nanos, QuantityError> {
    match Decimal::prefix(text)? {
        (number, "") if !number.is_zero() => Err(QuantityError::Bare),
        _ => time(text, most),
    }
}

/// A time in ns, in the syntax of [`time`]. The number has no exponent. The time must be a whole
/// number of nanoseconds, because settings are never rounded.
pub fn exact_time(text: &str) -> Option<u64> {
    let (number, unit) = plain(text)?;
    let unit = match unit.trim_start() {
        "" => 1_000_000,
        unit => time_unit(unit)?,
    };
    number.exact(unit)
}

/// A fraction or a factor such as `0.002`, `1/8` or `12.5%`, multiplied by `unit`. A decimal or
/// percentage is refused if the product is not a whole number; a quotient is rounded down.
pub fn exact_fraction(text: &str, unit: u64) -> Option<u64> {
    if let Some((above, below)) = text.split_once('/') {
        let (above, below) = (above.parse::<u64>().ok()?, below.parse::<u64>().ok()?);
        return above.checked_mul(unit)?.checked_div(below);
    }
    match plain(text)? {
        (number, "") => number.exact(unit),
        (number, "%") => number.percent().exact(unit),
        _ => None,
    }
}

/// The number at the beginning of `text`, which must have no exponent, and the rest of `text`.
fn plain(text: &str) -> Option<(Decimal, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    match Decimal::prefix(&text[..end]).ok()? {
        (number, "") => Some((number, &text[end..])),
        _ => None,
    }
}

/// The number of nanoseconds in a unit of time.
pub fn time_unit(unit: &str) -> Option<u64> {
    Some(match unit {
        "s" | "sec" | "secs" => 1_000_000_000,
        "ms" | "msec" | "msecs" => 1_000_000,
        "us" | "usec" | "usecs" | "µs" | "μs" => 1_000,
        "ns" | "nsec" | "nsecs" => 1,
        _ => return None,
    })
}

/// A size such as `64KB`, `1500` or `1.5MiB`, up to [`MAX_SIZE`]; a bare number is in bytes.
///
/// # Errors
/// Not a size, or too large.
pub fn size(text: &str) -> Result<u64, QuantityError> {
    let (number, unit) = Decimal::prefix(text)?;
    let unit = size_unit(unit).ok_or(QuantityError::Unit)?;
    number.scaled(unit).filter(|&n| n <= MAX_SIZE).ok_or(QuantityError::OutOfRange)
}

/// A whole number up to `most`.
///
/// # Errors
/// Not a whole number, or too large.
pub fn count(text: &str, most: u32) -> Result<u32, QuantityError> {
    let (number, rest) = Decimal::prefix(text)?;
    if !rest.is_empty() {
        return Err(QuantityError::Unit);
    }
    if text.contains(['.', '-']) {
        return Err(QuantityError::NotANumber);
    }
    number
        .scaled(1)
        .and_then(|n| u32::try_from(n).ok())
        .filter(|&n| n <= most)
        .ok_or(QuantityError::OutOfRange)
}

/// A probability as a fraction (`0.01`) or in percent (`1%`).
///
/// # Errors
/// Not a probability, or outside 0 to 1.
pub fn probability(text: &str) -> Result<Probability, QuantityError> {
    let (number, unit) = Decimal::prefix(text)?;
    let number = match unit {
        "" => number,
        "%" => number.percent(),
        _ => return Err(QuantityError::Unit),
    };
    Probability::new(number.as_f64()).ok_or(QuantityError::OutOfRange)
}

/// A probability as in [`probability`], but certainty is written in percent (`100%`): a bare `1`
/// may be meant as 1 %.
///
/// # Errors
/// Not a probability, a bare 1, or outside 0 to 1.
pub fn share(text: &str) -> Result<Probability, QuantityError> {
    let bare = Decimal::prefix(text).is_ok_and(|(_, unit)| unit.is_empty());
    match probability(text) {
        Ok(Probability::ONE) if bare => Err(QuantityError::Bare),
        read => read,
    }
}

/// Random loss: one probability as in [`share`], or the four parameters of Gilbert-Elliott as
/// `K,p,H,r`.
///
/// # Errors
/// The text is neither one probability nor four, or it is a bare 1.
pub fn loss(text: &str) -> Result<Loss, QuantityError> {
    loss_with(text, share)
}

/// Random loss as in [`loss`], but `1` is the loss of every packet, as dummynet defines it.
///
/// # Errors
/// The text is neither one probability nor four.
pub fn loss_fraction(text: &str) -> Result<Loss, QuantityError> {
    loss_with(text, probability)
}

/// Random loss; `single` reads the text of a single probability.
fn loss_with(
    text: &str,
    single: fn(&str) -> Result<Probability, QuantityError>,
) -> Result<Loss, QuantityError> {
    let parts: Vec<&str> = text.split(',').collect();
    match parts[..] {
        [one] => {
            Ok(Some(single(one)?).filter(|p| !p.is_zero()).map_or(Loss::None, Loss::Bernoulli))
        }
        [k, p, h, r] => Ok(Loss::GilbertElliott {
            loss_in_good: probability(k)?,
            good_to_bad: probability(p)?,
            loss_in_bad: probability(h)?,
            bad_to_good: probability(r)?,
        }),
        _ => Err(QuantityError::NotANumber),
    }
}

/// The exact text of a rate, in the syntax of [`rate`]: `4Mbit/s`.
pub fn write_rate(rate: Rate) -> String {
    let (unit, name) = match rate.bps() {
        1_000_000_000.. => (1_000_000_000, "Gbit/s"),
        1_000_000.. => (1_000_000, "Mbit/s"),
        1_000.. => (1_000, "Kbit/s"),
        _ => (1, "bit/s"),
    };
    write(rate.bps(), unit) + name
}

/// The exact text of a time, in the syntax of [`time`]: `1.5ms`.
pub fn write_time(time: Nanos) -> String {
    let (unit, name) = match time.0 {
        1_000_000_000.. => (1_000_000_000, "s"),
        1_000_000.. | 0 => (1_000_000, "ms"),
        1_000.. => (1_000, "us"),
        _ => (1, "ns"),
    };
    write(time.0, unit) + name
}

/// The exact text of a size, in the syntax of [`size`]: `64KB`.
pub fn write_size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        1_000_000_000.. => (1_000_000_000, "GB"),
        1_000_000.. => (1_000_000, "MB"),
        1_000.. => (1_000, "KB"),
        _ => (1, "B"),
    };
    write(bytes, unit) + name
}

/// The exact text of a probability as a fraction, in the syntax of [`probability`].
pub fn write_probability(p: Probability) -> String {
    p.as_f64().to_string()
}

/// The exact text of a probability, in the syntax of [`share`].
pub fn write_share(p: Probability) -> String {
    if p == Probability::ONE { "100%".to_owned() } else { write_probability(p) }
}

/// The exact text of a loss, in the syntax of [`loss_fraction`].
pub fn write_loss(loss: Loss) -> String {
    match loss {
        Loss::None => "0".to_owned(),
        Loss::Bernoulli(p) => write_probability(p),
        Loss::GilbertElliott { loss_in_good, good_to_bad, loss_in_bad, bad_to_good } => {
            [loss_in_good, good_to_bad, loss_in_bad, bad_to_good].map(write_probability).join(",")
        }
    }
}

/// The number of bytes in a unit of size; the empty unit is a byte.
fn size_unit(unit: &str) -> Option<u64> {
    let (factor, rest) = multiplier(unit);
    matches!(rest.to_ascii_lowercase().as_str(), "" | "b" | "byte" | "bytes").then_some(factor)
}

/// The factor at the beginning of a unit, and the rest of the unit.
fn multiplier(unit: &str) -> (u64, &str) {
    let mut chars = unit.chars();
    let power = match chars.next() {
        Some('k' | 'K') => 1,
        Some('m' | 'M') => 2,
        Some('g' | 'G') => 3,
        Some('t' | 'T') => 4,
        _ => return (1, unit),
    };
    let rest = chars.as_str();
    // `Ki` is 1024. The `i` of `Kib` also belongs to the factor, because no unit begins with `i`.
    rest.strip_prefix('i').map_or((1000u64.pow(power), rest), |rest| (1024u64.pow(power), rest))
}

/// Largest size, 1 TB.
pub const MAX_SIZE: u64 = 1_000_000_000_000;
/// Longest delay and jitter, one hour.
pub const MAX_DELAY: Nanos = Nanos::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_in_all_their_forms() {
        let forms = [
            ("4M", 4_000_000),
            ("1.5Mbit/s", 1_500_000),
            ("256k", 256_000),
            ("125KByte/s", 1_000_000),
            ("1MB/s", 8_000_000),
            ("1Mb/s", 1_000_000),
            ("10mbps", 10_000_000),
            ("1Kibit/s", 1024),
            ("300", 300),
            ("0.4T", 400_000_000_000),
            ("0.5", 1),
        ];
        for (text, bps) in forms {
            assert_eq!(rate(text), Ok(Rate::new(bps)), "{text}");
        }
        assert_eq!([rate("0"), rate("0Mbit/s"), rate("unlimited")], [Ok(None), Ok(None), Ok(None)]);
        for text in ["400.000000001G", "1e999", "0.4", "18446744073709551616"] {
            assert_eq!(rate(text), Err(QuantityError::OutOfRange), "{text}");
        }
        assert_eq!(rate("4Mfoo"), Err(QuantityError::Unit));
        assert_eq!(rate("-4M"), Err(QuantityError::Negative));
        assert_eq!(rate("NaN"), Err(QuantityError::NotANumber));
    }

    #[test]
    fn times_default_to_milliseconds() {
        for (text, ns) in [
            ("20", 20_000_000),
            ("0.5s", 500_000_000),
            ("1.5us", 1_500),
            ("7ns", 7),
            ("0.4ns", 0),
            ("3600s", 3_600_000_000_000),
        ] {
            assert_eq!(time(text, MAX_DELAY), Ok(Nanos(ns)), "{text}");
        }
        assert_eq!(time("3601s", MAX_DELAY), Err(QuantityError::OutOfRange));
        assert_eq!(time("5 m", MAX_DELAY), Err(QuantityError::Unit));
    }

    #[test]
    fn a_percentage_is_the_same_number_as_its_fraction() {
        for (percent, fraction) in
            [("1%", "0.01"), ("0.1%", "0.001"), ("100%", "1"), ("33.3%", "0.333")]
        {
            assert_eq!(probability(percent), probability(fraction));
        }
        for text in ["101%", "1.0001", "5", "1e999"] {
            assert_eq!(probability(text), Err(QuantityError::OutOfRange), "{text}");
        }
    }

    #[test]
    fn a_number_that_may_be_meant_in_two_units_is_refused() {
        for text in ["2", "0.5", "1e3"] {
            assert_eq!(time_with_unit(text, MAX_DELAY), Err(QuantityError::Bare), "{text}");
        }
        assert_eq!(time_with_unit("0", MAX_DELAY), Ok(Nanos::ZERO));
        assert_eq!(time_with_unit("2s", MAX_DELAY), Ok(Nanos::from_secs(2)));
        for text in ["1", "1.0", "1e0"] {
            assert_eq!(share(text), Err(QuantityError::Bare), "{text}");
            assert_eq!(loss(text), Err(QuantityError::Bare), "{text}");
        }
        assert_eq!(share("100%"), Ok(Probability::ONE));
        assert_eq!(loss("100%"), Ok(Loss::Bernoulli(Probability::ONE)));
        assert_eq!(
            (write_share(Probability::ONE), loss_fraction("1")),
            ("100%".into(), loss("100%"))
        );
        assert_eq!((share("0.1"), loss("0")), (probability("10%"), Ok(Loss::None)));
        // The four numbers of Gilbert-Elliott are fractions, so that a bare 1 is allowed.
        assert!(loss("0,0.01,1,0.25").is_ok());
    }

    #[test]
    fn sizes_are_powers_of_1000_or_1024() {
        for (text, bytes) in [
            ("64KB", 64_000),
            ("64KiB", 65_536),
            ("1.5MBytes", 1_500_000),
            ("1500", 1500),
            ("2K", 2000),
            ("9B", 9),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        assert_eq!(size("2TB"), Err(QuantityError::OutOfRange));
    }
}
