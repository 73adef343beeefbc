//! Settings of algorithms: parameters with the values that they may have, and an algorithm of a
//! table with its settings chosen.
//!
//! A value is one `u64` whatever it stands for, so that a choice of algorithm and settings is
//! small, can be copied and compared, and holds nothing that the algorithm could not honour.

use alloc::string::{String, ToString};
use core::fmt;

use crate::units::Nanos;

/// A parameter of an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Keyword.
    pub name: &'static str,
    /// What it is a parameter of.
    pub scope: Scope,
    /// Allowed values.
    pub domain: Domain,
    /// Default; of a choice, its place.
    pub default: u64,
    /// What it does.
    pub summary: &'static str,
}

impl PartialEq for Parameter {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Parameter {}

/// What a parameter belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A flow: it is given to a `queue`.
    Flow,
    /// The scheduler: it is given to a `sched`.
    Scheduler,
    /// The AQM: it is given behind its name.
    Aqm,
    /// The congestion control of a simulated sender: it is given with its name.
    Congestion,
}

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
    /// One of several words; its value is the place among them.
    Choice(&'static [&'static str]),
    /// A span of time; its value is in ns. A bare number is in ms.
    Time {
        /// Least value in ns.
        least: u64,
        /// Largest value in ns.
        most: u64,
    },
    /// A fraction or a factor, as `0.125`, `1/8` or `12.5%`; its value is in billionths.
    Fraction {
        /// Least value in billionths.
        least: u64,
        /// Largest value in billionths.
        most: u64,
    },
}

/// A switch that is off or on; its value is 0 or 1.
pub const SWITCH: Domain = Domain::Choice(&["off", "on"]);

/// What [`Domain::Fraction`] counts for 1.
pub const UNIT: u64 = 1_000_000_000;

impl Domain {
    /// The value that a word stands for; `None` when it is not allowed.
    pub fn parse(&self, text: &str) -> Option<u64> {
        match *self {
            Self::Number { least, most, .. } => {
                text.parse().ok().filter(|value| (least..=most).contains(value))
            }
            Self::Choice(words) => words
                .iter()
                .position(|word| word.eq_ignore_ascii_case(text))
                .map(|place| place as u64),
            Self::Time { least, most } => {
                parse_time(text).filter(|value| (least..=most).contains(value))
            }
            Self::Fraction { least, most } => {
                parse_fraction(text).filter(|value| (least..=most).contains(value))
            }
        }
    }

    /// A value as it is written.
    pub fn write(&self, value: u64) -> String {
        match *self {
            Self::Number { .. } => value.to_string(),
            Self::Choice(words) => words.get(value as usize).copied().unwrap_or_default().into(),
            Self::Time { .. } => write_time(value),
            Self::Fraction { .. } => write_fraction(value),
        }
    }
}

/// The allowed values, for people: `1..65536 bytes`, `stfq|edf`, `1us..10s`.
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
        }
    }
}

/// `5ms`, `1.5 us`, `2` (ms) in ns; what is below 1 ns is refused.
fn parse_time(text: &str) -> Option<u64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let unit = match &text[end..] {
        "" | "ms" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "us" => 1_000,
        "ns" => 1,
        _ => return None,
    };
    parse_scaled(text[..end].trim_end(), unit)
}

/// `0.002`, `1/8`, `12.5%` in billionths; smaller parts of a decimal are refused, those of a
/// quotient are cut.
fn parse_fraction(text: &str) -> Option<u64> {
    if let Some(number) = text.strip_suffix('%') {
        return parse_scaled(number, UNIT / 100);
    }
    match text.split_once('/') {
        None => parse_scaled(text, UNIT),
        Some((above, below)) => {
            let (above, below) = (above.parse::<u64>().ok()?, below.parse::<u64>().ok()?);
            above.checked_mul(UNIT)?.checked_div(below)
        }
    }
}

/// The decimal number `text` times `scale`, a power of ten; `None` when that is not whole or does
/// not fit.
fn parse_scaled(text: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    let (mut sum, mut place) = (whole.checked_mul(scale)?, scale);
    for digit in fraction.trim_end_matches('0').bytes() {
        if place % 10 != 0 {
            return None;
        }
        place /= 10;
        sum = sum.checked_add(u64::from(digit - b'0') * place)?;
    }
    Some(sum)
}

fn write_time(ns: u64) -> String {
    match ns {
        0 => String::from("0ms"),
        // Of fractions only those that read well: `1.5ms`, not `0.0015s`.
        _ if ns.is_multiple_of(1_000_000_000) => alloc::format!("{}s", ns / 1_000_000_000),
        1_000_000.. => scaled(ns, 1_000_000, "ms"),
        1_000.. => scaled(ns, 1_000, "us"),
        _ => alloc::format!("{ns}ns"),
    }
}

fn write_fraction(value: u64) -> String {
    scaled(value, UNIT, "")
}

/// `value / scale` as a decimal without trailing zeros; `scale` is a power of ten.
fn scaled(value: u64, scale: u64, unit: &str) -> String {
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return alloc::format!("{whole}{unit}");
    }
    let width = scale.ilog10() as usize;
    let fraction = alloc::format!("{rest:0width$}");
    alloc::format!("{whole}.{}{unit}", fraction.trim_end_matches('0'))
}

/// A row's number in a table of algorithms, which knows the parameters of that row.
pub trait Entry: Copy + Eq {
    /// Parameters of the algorithm itself, in the order of their values.
    fn settings(self) -> impl Iterator<Item = &'static Parameter>;
}

/// An algorithm of a table and the values of its own parameters: what a user configures, validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chosen<K> {
    kind: K,
    /// By their place among the row's settings.
    values: [u64; MOST],
    epoch: u64,
    seed: u64,
}

/// Why a setting was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The algorithm has no parameter of this name.
    #[error("there is no such setting")]
    Unknown,
    /// The value is not allowed.
    #[error("allowed: {}", .0.domain)]
    Value(&'static Parameter),
}

impl<K: Entry> Chosen<K> {
    /// An algorithm with its defaults.
    pub fn new(kind: K) -> Self {
        let mut values = [0; MOST];
        for (value, parameter) in values.iter_mut().zip(kind.settings()) {
            *value = parameter.default;
        }
        Self { kind, values, epoch: 0, seed: 0 }
    }

    /// Which algorithm it is.
    pub fn kind(&self) -> K {
        self.kind
    }

    /// The value of the setting `name`; of a choice, its place. 0 when there is none of that name.
    pub fn get(&self, name: &str) -> u64 {
        self.kind
            .settings()
            .zip(self.values)
            .find(|(parameter, _)| parameter.name == name)
            .map_or(0, |(_, value)| value)
    }

    /// The value of the setting `name` as a span of time.
    pub fn time(&self, name: &str) -> Nanos {
        Nanos(self.get(name))
    }

    /// Whether the switch `name` is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) != 0
    }

    /// Sets a parameter from the words of the command language.
    ///
    /// # Errors
    /// [`SettingError`] when the algorithm has no such parameter of its own, or the value is not
    /// allowed.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SettingError> {
        let found =
            self.kind.settings().enumerate().find(|(_, p)| p.name.eq_ignore_ascii_case(name));
        let (place, parameter) = found.ok_or(SettingError::Unknown)?;
        self.values[place] = parameter.domain.parse(text).ok_or(SettingError::Value(parameter))?;
        Ok(())
    }

    /// Settings that are not at their defaults, with their values as they are written.
    pub fn changed(&self) -> impl Iterator<Item = (&'static Parameter, String)> + use<K> {
        self.settings()
            .filter(|(parameter, value)| *value != parameter.domain.write(parameter.default))
    }

    /// All settings, with their values as they are written.
    pub fn settings(&self) -> impl Iterator<Item = (&'static Parameter, String)> + use<K> {
        let pairs = self.kind.settings().zip(self.values);
        pairs.map(|(parameter, value)| (parameter, parameter.domain.write(value)))
    }

    /// Where virtual time begins, in the algorithm's own unit; for tests of its wrap-around.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The same, with virtual time beginning elsewhere. Algorithms without one do not care.
    #[must_use]
    pub fn starting_at(self, epoch: u64) -> Self {
        Self { epoch, ..self }
    }

    /// What the algorithm's draws follow from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The same, with other draws. Algorithms without chance do not care.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }
}

impl<K: Entry> From<K> for Chosen<K> {
    fn from(kind: K) -> Self {
        Self::new(kind)
    }
}

impl<K: Entry + Default> Default for Chosen<K> {
    fn default() -> Self {
        Self::new(K::default())
    }
}

/// Most settings of one algorithm.
pub const MOST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units_and_written_shortly() {
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
}
