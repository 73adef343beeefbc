//! The table of keywords. A row contains everything about a keyword: its names, its bounds, where
//! its value is stored, how it is read and printed, and its documentation.

mod aqm;
mod delay;
mod device;
pub(crate) mod draft;
mod flow;
mod impairment;
mod queue;
mod rate;
pub(crate) mod reader;
mod row;
mod value;

pub(crate) use aqm::AQM;
pub(crate) use delay::{DELAY, JITTER, REORDER};
pub(crate) use device::{CPU, RING};
pub use draft::Object;
pub(crate) use impairment::LOSS;
pub(crate) use queue::{DROPTAIL, LIMIT, SCHED};
pub(crate) use rate::{BURST, BW, PROFILE, SCHEDULE, TRACE};
pub use row::{Choice, Group, Keyword, Part};
pub(crate) use value::Value;

/// All keywords, in the order in which messages list them.
pub static TABLE: [&Keyword; COUNT] = {
    let (mut table, mut at, mut group) = ([&BW; COUNT], 0, 0);
    while group < ROWS.len() {
        let mut row = 0;
        while row < ROWS[group].len() {
            table[at] = ROWS[group][row];
            (at, row) = (at + 1, row + 1);
        }
        group += 1;
    }
    table
};

const ROWS: [&[&Keyword]; 7] =
    [rate::ROWS, delay::ROWS, impairment::ROWS, queue::ROWS, flow::ROWS, aqm::ROWS, device::ROWS];

const COUNT: usize = {
    let (mut count, mut group) = (0, 0);
    while group < ROWS.len() {
        count += ROWS[group].len();
        group += 1;
    }
    count
};

/// The keyword with this name or alias.
pub fn lookup(word: &str) -> Option<&'static Keyword> {
    TABLE.iter().copied().find(|row| row.is(word))
}

/// All words that are keywords.
pub fn words() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|row| std::iter::once(row.name).chain(row.aliases.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::NoFiles;
    use crate::spec::check_spec;

    #[test]
    fn no_word_means_two_things() {
        for object in [Object::Link, Object::Queue, Object::InnerScheduler] {
            let rows = TABLE.iter().filter(|row| row.objects.contains(&object));
            let all: Vec<_> =
                rows.flat_map(|row| row.aliases.iter().chain(std::iter::once(&row.name))).collect();
            let different: std::collections::BTreeSet<_> = all.iter().collect();
            assert_eq!(all.len(), different.len(), "{object:?}");
        }
    }

    #[test]
    fn no_choice_is_a_keyword_except_reorder_of_jitter() {
        let both: Vec<_> = TABLE
            .iter()
            .flat_map(|row| row.choices)
            .filter(|c| lookup(c.name).is_some())
            .map(|c| c.name)
            .collect();
        assert_eq!(both, ["reorder"]);
    }

    #[test]
    fn documented_defaults_are_those_of_a_link() {
        let of_link = TABLE.iter().filter(|row| row.objects.contains(&Object::Link));
        for row in of_link.filter(|row| !row.argument.is_empty() && !row.default.is_empty()) {
            let checked = check_spec(&format!("{} {}", row.name, row.default), &NoFiles);
            if let Some(spec) = checked.spec {
                assert_eq!(row.value.print(&spec, str::to_owned), None, "{}", row.name);
            }
        }
    }
}
