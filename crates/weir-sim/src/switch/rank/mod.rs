//! Rank programs: what a switch computes for each packet as it comes, and what the packet carries
//! on.
//!
//! A family of programs is one file and its rows in [`TABLE`]. A program chooses one of the
//! engine's ranks ([`weir_core::sched::Ranking`]), by which the traffic manager sorts. Where the
//! rank is made of what a packet has met before, or of tokens, a [`Labeller`] writes it into the
//! packet's label; where it is made of what the traffic manager knows of a flow, that knows better
//! than a program in front of it, and the program only says so.

mod bucket;
mod deadline;
mod flows;
mod remaining;

use weir_core::Nanos;
use weir_core::sched::{Domain, Ranking};

use crate::network::Labeller;

/// A setting of a program.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its word.
    pub name: &'static str,
    /// Allowed values.
    pub domain: Domain,
    /// Default.
    pub default: u64,
    /// What it does.
    pub summary: &'static str,
}

/// A program of the table.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// What comes of it.
    pub summary: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// By what the traffic manager sorts.
    pub ranking: Ranking,
    /// The rank is made of what the traffic manager knows of a flow, so that it must tell flows
    /// apart.
    pub knows_flows: bool,
    /// Settings.
    pub settings: &'static [Setting],
    /// Makes what writes labels, from the values of the settings.
    make: fn(&[u64]) -> Option<Box<dyn Labeller>>,
}

/// All programs.
pub const TABLE: &[Program] = &[
    remaining::FIFO_PLUS,
    remaining::LSTF,
    deadline::EDF,
    flows::STFQ,
    flows::SRPT,
    flows::SJF,
    flows::LAS,
    flows::PRIO,
    flows::ARRIVAL,
    bucket::TOKEN_BUCKET,
    bucket::MIN_RATE,
];

/// A program with its settings.
#[derive(Clone, Debug)]
pub struct Choice {
    program: &'static Program,
    values: Vec<u64>,
}

impl Choice {
    /// By what the traffic manager sorts.
    pub fn ranking(&self) -> Ranking {
        self.program.ranking
    }

    /// Whether the traffic manager must tell flows apart.
    pub fn knows_flows(&self) -> bool {
        self.program.knows_flows
    }

    /// What writes labels, for one output.
    pub fn labeller(&self) -> Option<Box<dyn Labeller>> {
        (self.program.make)(&self.values)
    }
}

/// The program that words name, with its settings: a name, then pairs of a setting and its value.
///
/// # Errors
/// In words: what is not known, and what is allowed.
pub fn read(words: &str) -> Result<Choice, String> {
    let mut words = words.split_whitespace();
    let name = words.next().unwrap_or_default();
    let Some(program) = TABLE.iter().find(|program| program.name.eq_ignore_ascii_case(name)) else {
        let known: Vec<_> = TABLE.iter().map(|program| program.name).collect();
        return Err(format!("there is no program `{name}`: allowed are {}", known.join(", ")));
    };
    let mut values: Vec<u64> = program.settings.iter().map(|setting| setting.default).collect();
    while let Some(word) = words.next() {
        let Some(place) =
            program.settings.iter().position(|setting| setting.name.eq_ignore_ascii_case(word))
        else {
            let known: Vec<_> = program.settings.iter().map(|setting| setting.name).collect();
            let allowed = if known.is_empty() {
                "it has none".to_owned()
            } else {
                format!("allowed are {}", known.join(", "))
            };
            return Err(format!("`{name}` has no setting `{word}`: {allowed}"));
        };
        let value = words.next().ok_or_else(|| format!("`{word}` has no value"))?;
        let domain = program.settings[place].domain;
        values[place] =
            domain.parse(value).ok_or_else(|| format!("`{word} {value}`: allowed: {domain}"))?;
    }
    Ok(Choice { program, values })
}

/// No labels are written.
fn no_labels(_values: &[u64]) -> Option<Box<dyn Labeller>> {
    None
}

/// A span of time as a setting.
const fn time(name: &'static str, default: Nanos, summary: &'static str) -> Setting {
    Setting { name, domain: Domain::Time { least: 1, most: LONGEST }, default: default.0, summary }
}

/// A number as a setting.
const fn number(
    name: &'static str,
    most: u64,
    unit: &'static str,
    default: u64,
    summary: &'static str,
) -> Setting {
    Setting { name, domain: Domain::Number { least: 1, most, unit }, default, summary }
}

/// Eleven days.
const LONGEST: u64 = 1_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_their_ranges_and_names_are_told_apart() {
        for (n, program) in TABLE.iter().enumerate() {
            assert!(TABLE[..n].iter().all(|other| other.name != program.name), "{}", program.name);
            for setting in program.settings {
                assert_eq!(
                    setting.domain.parse(&setting.domain.write(setting.default)),
                    Some(setting.default),
                    "{}",
                    setting.name
                );
            }
            let choice = read(program.name).unwrap();
            assert_eq!(choice.ranking(), program.ranking);
            // What the traffic manager ranks by flows needs no labels, and the other way round.
            assert!(!(choice.knows_flows() && choice.labeller().is_some()), "{}", program.name);
        }
    }

    #[test]
    fn what_is_not_known_is_named_with_what_is_allowed() {
        assert!(read("fifo-plus").unwrap_err().contains("allowed are fifo+, lstf, edf"));
        assert!(read("").is_err());
        assert_eq!(
            read("edf slack 1ms").unwrap_err(),
            "`edf` has no setting `slack`: allowed are deadline"
        );
        assert_eq!(read("prio level 1").unwrap_err(), "`prio` has no setting `level`: it has none");
        assert_eq!(read("edf deadline").unwrap_err(), "`deadline` has no value");
        assert!(read("edf deadline soon").unwrap_err().starts_with("`deadline soon`: allowed: "));
        assert_eq!(read("EDF deadline 20ms").unwrap().values, [20_000_000]);
    }
}
