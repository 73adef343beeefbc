//! Parameters of algorithms, and their domains: the allowed values as text and as numbers.

use alloc::string::{String, ToString};
use core::fmt;

use crate::quantity::{self, decimal};
use crate::units::NANOS_PER_SEC;

/// A parameter of an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The parameter's keyword.
    pub name: &'static str,
    /// Allowed values.
    pub domain: Domain,
    /// The default as a number of the domain; for a choice, the index of the word.
    pub default: u64,
    /// The effect of the parameter.
    pub summary: &'static str,
}

impl PartialEq for Parameter {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Parameter {}

/// Allowed values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Whole numbers from `least` to `most`.
    Number {
        /// Least value.
        least: u64,
        /// Largest value.
        most: u64,
        /// Unit; empty for a number without one.
        unit: &'static str,
    },
    /// One of several words; the value is the index of the word.
    Choice(&'static [&'static str]),
    /// A span of time; its value is in ns. A bare number is in ms.
    Time {
        /// Least value in ns.
        least: u64,
        /// Largest value in ns.
        most: u64,
    },
    /// A fraction or a factor, such as `0.125`, `1/8` or `12.5%`; its value is in billionths.
    Fraction {
        /// Least value in billionths.
        least: u64,
        /// Largest value in billionths.
        most: u64,
    },
    /// Four numbers, such as `2,2,3,7`, or one number for all four. The word `standard` leaves a
    /// number to the algorithm. A value has 16 bits for each number, with the first number in the
    /// lowest bits; the word is the number [`STANDARD`].
    Four {
        /// Least number.
        least: u16,
        /// Largest number, below [`STANDARD`].
        most: u16,
        /// Unit; empty for numbers without one.
        unit: &'static str,
    },
}

/// The number of [`Domain::Four`] for the word `standard`.
pub(super) const STANDARD: u16 = u16::MAX;
/// The value of [`Domain::Four`] for `standard` as each of the four numbers.
pub(super) const ALL_STANDARD: u64 = u64::MAX;

/// A switch that is off or on; its value is 0 or 1.
pub const SWITCH: Domain = Domain::Choice(&["off", "on"]);

/// The value of [`Domain::Fraction`] for the fraction 1.
pub const UNIT: u64 = 1_000_000_000;

impl Domain {
    /// The value of a text; `None` if it is not allowed.
    pub fn parse(&self, text: &str) -> Option<u64> {
        match *self {
            Self::Number { least, most, .. } => {
                text.parse().ok().filter(|value| (least..=most).contains(value))
            }
            Self::Choice(words) => words
                .iter()
                .position(|word| word.eq_ignore_ascii_case(text))
                .map(|index| index as u64),
            Self::Time { least, most } => {
                quantity::exact_time(text).filter(|value| (least..=most).contains(value))
            }
            Self::Fraction { least, most } => {
                quantity::exact_fraction(text, UNIT).filter(|value| (least..=most).contains(value))
            }
            Self::Four { least, most, .. } => {
                parse_four(text, |number| (least..=most).contains(&number))
            }
        }
    }

    /// The text of a value.
    pub fn write(&self, value: u64) -> String {
        match *self {
            Self::Number { .. } => value.to_string(),
            Self::Choice(words) => words.get(value as usize).copied().unwrap_or_default().into(),
            Self::Time { .. } => write_time(value),
            Self::Fraction { .. } => decimal::write(value, UNIT),
            Self::Four { .. } => write_four(value),
        }
    }
}

/// Formats the allowed values for messages: `1..65536 bytes`, `stfq|edf`, `1us..10s`.
impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Number { least, most, unit } => {
                write!(f, "{least}..{most}{}{unit}", if unit.is_empty() { "" } else { " " })
            }
            Self::Choice(words) => words.iter().enumerate().try_for_each(|(n, word)| {
                let bar = if n == 0 { "" } else { "|" };
                write!(f, "{bar}{word}")
            }),
            Self::Time { least, most } | Self::Fraction { least, most } => {
                write!(f, "{}..{}", self.write(least), self.write(most))
            }
            Self::Four { least, most, unit } => {
                let gap = if unit.is_empty() { "" } else { " " };
                write!(f, "{least}..{most}{gap}{unit} or {STANDARD_WORD}, once or four times")
            }
        }
    }
}

/// The text of a time: in seconds only if it is a whole number of seconds (`1500ms`, not `1.5s`),
/// otherwise in the largest unit below a second that is not longer than the time.
fn write_time(ns: u64) -> String {
    let (unit, name) = match ns {
        0 => (1_000_000, "ms"),
        _ if ns.is_multiple_of(NANOS_PER_SEC) => (NANOS_PER_SEC, "s"),
        1_000_000.. => (1_000_000, "ms"),
        1_000.. => (1_000, "us"),
        _ => (1, "ns"),
    };
    decimal::write(ns, unit) + name
}

/// The value of four numbers that are all `allowed`, or of one number for all four.
fn parse_four(text: &str, allowed: impl Fn(u16) -> bool) -> Option<u64> {
    let number = |text: &str| {
        if text.eq_ignore_ascii_case(STANDARD_WORD) {
            return Some(STANDARD);
        }
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|&number| digits && allowed(number))
    };
    if let Some(all) = number(text) {
        return Some(u64::from(all) * 0x0001_0001_0001_0001);
    }
    let mut parts = text.split(',');
    let mut value = 0;
    for index in 0..4 {
        value |= u64::from(number(parts.next()?)?) << (16 * index);
    }
    parts.next().is_none().then_some(value)
}

/// The four numbers of a value of [`Domain::Four`]; a number is `None` for `standard`.
pub(super) fn four(value: u64) -> [Option<u16>; 4] {
    core::array::from_fn(|index| {
        Some((value >> (16 * index)) as u16).filter(|&number| number != STANDARD)
    })
}

/// The text of four numbers; one number if all four are equal.
fn write_four(value: u64) -> String {
    let words = four(value)
        .map(|number| number.map_or_else(|| STANDARD_WORD.into(), |number| number.to_string()));
    if words.iter().all(|word| *word == words[0]) { words[0].clone() } else { words.join(",") }
}

/// The word for [`STANDARD`].
const STANDARD_WORD: &str = "standard";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units_and_written_in_short_form() {
        let domain = Domain::Time { least: 0, most: 10_000_000_000 };
        for (text, ns, written) in [
            ("5ms", 5_000_000, "5ms"),
            ("5", 5_000_000, "5ms"),
            ("1.5us", 1_500, "1.5us"),
            ("0.1ms", 100_000, "100us"),
            ("2s", 2_000_000_000, "2s"),
            ("7ns", 7, "7ns"),
            ("0", 0, "0ms"),
        ] {
            assert_eq!(domain.parse(text), Some(ns), "{text}");
            assert_eq!(domain.write(ns), written);
        }
        for text in ["", "ms", "5 parsec", "0.5ns", "11s", "-1ms", "1e3ms", "99999999999999999999s"]
        {
            assert_eq!(domain.parse(text), None, "{text}");
        }
    }

    #[test]
    fn fractions_are_exact() {
        let domain = Domain::Fraction { least: 1, most: 2 * UNIT };
        for (text, value, written) in [
            ("0.002", 2_000_000, "0.002"),
            ("1/8", 125_000_000, "0.125"),
            ("12.5%", 125_000_000, "0.125"),
            (".5", 500_000_000, "0.5"),
            ("1", UNIT, "1"),
            ("1.001", 1_001_000_000, "1.001"),
        ] {
            assert_eq!(domain.parse(text), Some(value), "{text}");
            assert_eq!(domain.write(value), written);
        }
        for text in ["", ".", "0", "3", "1/0", "0.0000000001", "0,5", "half"] {
            assert_eq!(domain.parse(text), None, "{text}");
        }
    }

    #[test]
    fn four_numbers_are_one_value() {
        let domain = Domain::Four { least: 1, most: 15, unit: "slots" };
        for (text, value, written) in [
            ("standard", ALL_STANDARD, "standard"),
            ("7", 0x0007_0007_0007_0007, "7"),
            ("2,2,3,7", 0x0007_0003_0002_0002, "2,2,3,7"),
            ("2,Standard,3,15", 0x000f_0003_ffff_0002, "2,standard,3,15"),
            ("4,4,4,4", 0x0004_0004_0004_0004, "4"),
        ] {
            assert_eq!(domain.parse(text), Some(value), "{text}");
            assert_eq!(domain.write(value), written);
        }
        assert_eq!(four(0x000f_0003_ffff_0002), [Some(2), None, Some(3), Some(15)]);
        for text in
            ["", "0", "16", "65535", "1,2,3", "1,2,3,4,5", "1,2,3,", "+1", "1,2,3,99", "1 2"]
        {
            assert_eq!(domain.parse(text), None, "{text}");
        }
        assert_eq!(domain.to_string(), "1..15 slots or standard, once or four times");
    }
}
