//! Rank programs: the rank that a switch computes for each packet that arrives, and the label that
//! the packet carries to the next switch.
//!
//! A family of programs is one file and its rows in [`TABLE`]. A program selects one of the
//! engine's ranks ([`weir_core::sched::Ranking`]), by which the traffic manager sorts. If the rank
//! depends on the packet's label or on tokens, a [`Labeller`] computes the rank, and also the label
//! for the next switch. If the rank depends on the state of a flow, the traffic manager computes
//! it, and the program only selects it.

mod bucket;
mod deadline;
mod flows;
mod remaining;

use weir_core::sched::Ranking;
use weir_core::settings::{self, Chosen, Entry};

use crate::network::Labeller;
use crate::random::Draws;

type Row = settings::Row<Traits>;

#[derive(Clone, Copy, Debug)]
pub(super) struct Traits {
    /// The rank by which the traffic manager sorts.
    pub(super) ranking: Ranking,
    /// Whether the traffic manager computes the rank, and therefore distinguishes flows.
    pub(super) knows_flows: bool,
    /// Creates the labeller for one output, if the program has one. The labeller uses the draws for
    /// the errors with which the output reads the time.
    make: fn(&Choice, Draws) -> Option<Box<dyn Labeller>>,
}

/// A program of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program(&'static Row);

/// A program with its settings.
pub(super) type Choice = Chosen<Program>;

const TABLE: &[Program] = &[
    Program(&remaining::FIFO_PLUS),
    Program(&remaining::LSTF),
    Program(&deadline::EDF),
    Program(&flows::STFQ),
    Program(&flows::SRPT),
    Program(&flows::SJF),
    Program(&flows::LAS),
    Program(&flows::PRIO),
    Program(&flows::ARRIVAL),
    Program(&bucket::TOKEN_BUCKET),
    Program(&bucket::MIN_RATE),
];

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Program {}

impl Entry for Program {
    type Traits = Traits;

    const NOUN: &'static str = "rank program";

    fn all() -> &'static [Self] {
        TABLE
    }

    fn row(self) -> &'static Row {
        self.0
    }
}

/// The labeller for one output, if the program has one.
pub(super) fn labeller(choice: &Choice, draws: Draws) -> Option<Box<dyn Labeller>> {
    (choice.row().traits.make)(choice, draws)
}

/// Longest time of a setting, ns: eleven days.
const LONGEST: u64 = 1_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_rules::named::read;

    #[test]
    fn defaults_are_in_range_and_names_are_unique() {
        for (n, &program) in TABLE.iter().enumerate() {
            let row = program.row();
            assert!(TABLE[..n].iter().all(|other| *other != program), "{}", row.name);
            for setting in row.parameters {
                assert_eq!(
                    setting.domain.parse(&setting.domain.write(setting.default)),
                    Some(setting.default),
                    "{}",
                    setting.name
                );
            }
            let choice: Choice = read(row.name).unwrap();
            assert_eq!(choice.kind(), program);
            // If the traffic manager computes the rank, the program has no labeller.
            assert!(
                !(row.traits.knows_flows && labeller(&choice, Draws::new(1, 1, 0)).is_some()),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn errors_name_the_unknown_word_and_the_allowed_ones() {
        let message = |text: &str| read::<Program>(text).unwrap_err().to_string();
        assert!(message("fifo-plus").contains("allowed: fifo+, lstf, edf"));
        assert!(read::<Program>("").is_err());
        assert!(message("edf slack 1ms").starts_with(
            "`slack` is no setting of `edf`: a setting of `lstf`; settings: deadline 1ns..1000000s"
        ));
        assert!(message("prio level 1").contains("`level` is no setting of `prio`: `prio` has no"));
        assert!(message("edf deadline").starts_with("`deadline` needs a value"));
        assert!(
            message("edf deadline soon")
                .starts_with("`soon` is no value for `deadline`: allowed: ")
        );
        for text in ["EDF deadline 20ms", "edf deadline=20ms", "edf:deadline=20ms"] {
            assert_eq!(read::<Program>(text).unwrap().number("deadline"), Some(20_000_000));
        }
    }
}
