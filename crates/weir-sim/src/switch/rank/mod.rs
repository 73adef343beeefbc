//! Rank programs: the rank that a switch computes for each arriving packet, and the label that the
//! packet carries on.
//!
//! A family of programs is one file and its rows in [`TABLE`]. A program selects one of the
//! engine's ranks ([`weir_core::sched::Ranking`]), by which the traffic manager sorts. If the rank
//! depends on earlier waits of a packet or on tokens, a [`Labeller`] writes it into the packet's
//! label. If it depends on the state of a flow, the traffic manager computes it, and the program
//! only selects it.

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
    /// Its name.
    pub name: &'static str,
    /// The allowed values.
    pub domain: Domain,
    /// The default value.
    pub default: u64,
    /// Its effect.
    pub summary: &'static str,
}

/// A program of the table.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// Its effect.
    pub summary: &'static str,
    /// Its source.
    pub source: &'static str,
    /// The rank by which the traffic manager sorts.
    pub ranking: Ranking,
    /// Whether the rank depends on the traffic manager's state of a flow, which requires it to tell
    /// flows apart.
    pub knows_flows: bool,
    /// Settings.
    pub settings: &'static [Setting],
    /// Creates the labeller from the values of the settings.
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
    /// The rank by which the traffic manager sorts.
    pub fn ranking(&self) -> Ranking {
        self.program.ranking
    }

    /// Whether the traffic manager must tell flows apart.
    pub fn knows_flows(&self) -> bool {
        self.program.knows_flows
    }

    /// The labeller for one output, if the program writes labels.
    pub fn labeller(&self) -> Option<Box<dyn Labeller>> {
        (self.program.make)(&self.values)
    }
}

/// Parses a program: its name, then pairs of a setting and its value.
///
/// # Errors
/// A message that names the unknown word and the allowed ones.
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

/// The constructor of programs without labels.
fn no_labels(_values: &[u64]) -> Option<Box<dyn Labeller>> {
    None
}

/// A duration as a setting.
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

/// Maximum duration, ns: eleven days.
const LONGEST: u64 = 1_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_in_range_and_names_are_unique() {
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
            // Ranks from the traffic manager's state need no labels, and vice versa.
            assert!(!(choice.knows_flows() && choice.labeller().is_some()), "{}", program.name);
        }
    }

    #[test]
    fn errors_name_the_unknown_word_and_the_allowed_ones() {
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
