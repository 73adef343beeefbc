//! Rows of the table of schedulers: names, sources, and parameters with their ranges.

use alloc::string::String;
use core::fmt;

/// A scheduler's row in [`super::TABLE`].
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name in the command language.
    pub name: &'static str,
    /// Other names that are understood.
    pub aliases: &'static [&'static str],
    /// One line that says what it does.
    pub summary: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// Cost of a packet.
    pub complexity: &'static str,
    /// Flows that always have packets get bytes by their weights.
    pub weighted: bool,
    /// It gives a packet whenever it has one.
    pub work_conserving: bool,
    /// Parameters.
    pub parameters: &'static [Parameter],
}

impl Row {
    /// Parameters of the scheduler itself, as [`super::Discipline`] holds them.
    pub fn settings(&self) -> impl Iterator<Item = &'static Parameter> {
        self.parameters.iter().filter(|p| p.scope == Scope::Scheduler)
    }

    /// The parameter of this name.
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|p| p.name.eq_ignore_ascii_case(name))
    }
}

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

/// What a parameter belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A flow: it is given to a `queue`.
    Flow,
    /// The scheduler: it is given to a `sched`.
    Scheduler,
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
}

impl Domain {
    /// The value that a word stands for; `None` when it is not allowed.
    pub fn parse(&self, text: &str) -> Option<u64> {
        match *self {
            Self::Number { least, most, .. } => text.parse().ok().filter(|value| (least..=most).contains(value)),
            Self::Choice(words) => words.iter().position(|word| word.eq_ignore_ascii_case(text)).map(|place| place as u64),
        }
    }

    /// A value as it is written.
    pub fn write(&self, value: u64) -> String {
        match *self {
            Self::Number { .. } => alloc::format!("{value}"),
            Self::Choice(words) => words.get(value as usize).copied().unwrap_or_default().into(),
        }
    }
}

/// The allowed values, for people: `1..65536 bytes`, or `stfq|edf`.
impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Number { least, most, unit } => write!(f, "{least}..{most}{}{unit}", if unit.is_empty() { "" } else { " " }),
            Self::Choice(words) => words.iter().enumerate().try_for_each(|(n, word)| {
                let bar = if n == 0 { "" } else { "|" };
                write!(f, "{bar}{word}")
            }),
        }
    }
}
