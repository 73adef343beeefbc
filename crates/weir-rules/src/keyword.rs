//! The table of keywords. One row drives the parser, what diagnostics call allowed, the reference
//! and shell completion.

mod table;

pub use table::TABLE;

/// A keyword, by its place in [`TABLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Id {
    /// Rate.
    Bw,
    /// Rate trace.
    Trace,
    /// Changes over time.
    Schedule,
    /// Credit of an idle link.
    Burst,
    /// Framing.
    Overhead,
    /// Air-time profile.
    Profile,
    /// Propagation delay.
    Delay,
    /// Random delay.
    Jitter,
    /// Reordering.
    Reorder,
    /// Loss on the link.
    Loss,
    /// Loss before the queue.
    Plr,
    /// Duplication.
    Dup,
    /// Corruption.
    Corrupt,
    /// Queue size.
    Queue,
    /// Drop tail.
    Droptail,
    /// Flows.
    Mask,
    /// Bound on what the mask makes.
    MaxFlows,
    /// Share.
    Weight,
    /// Largest packet.
    Lmax,
    /// Priority.
    Pri,
    /// Promised rate.
    Rate,
    /// Bound on the rate.
    Ceil,
    /// Longest wait.
    Deadline,
    /// Hash size.
    Buckets,
    /// Silent drops.
    Noerror,
    /// Offload trains.
    Gso,
    /// RED.
    Red,
    /// Gentle RED.
    Gred,
    /// CoDel.
    Codel,
    /// PIE.
    Pie,
    /// Any AQM.
    Aqm,
    /// Transmission ring.
    Ring,
    /// Dynamic queue limits.
    Dql,
    /// Coalesced completions.
    Coalesce,
    /// Processor time.
    Cpu,
}

/// What a keyword is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// How fast packets leave.
    Rate,
    /// How long they travel.
    Delay,
    /// What happens to them.
    Impairment,
    /// Where they wait.
    Queue,
    /// What schedulers are told of a flow.
    Flow,
    /// How frames are taken.
    Frames,
    /// What keeps the queue short.
    Aqm,
    /// What stands between queue and wire.
    Device,
}

impl Group {
    /// Every group, in the order of the reference.
    pub const ALL: &'static [Self] = &[
        Self::Rate,
        Self::Delay,
        Self::Impairment,
        Self::Queue,
        Self::Aqm,
        Self::Flow,
        Self::Device,
        Self::Frames,
    ];

    /// Heading in the reference.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Rate => "Rate",
            Self::Delay => "Delay",
            Self::Impairment => "Loss and damage",
            Self::Queue => "Queue",
            Self::Flow => "Flows of a scheduler",
            Self::Frames => "Frames",
            Self::Aqm => "Queue management",
            Self::Device => "Network card",
        }
    }
}

/// A word that may follow a keyword, and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The word.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Keyword {
    /// Which one it is.
    pub id: Id,
    /// The word.
    pub name: &'static str,
    /// Other words for the same.
    pub aliases: &'static [&'static str],
    /// What it is about.
    pub group: Group,
    /// What follows it.
    pub argument: &'static str,
    /// Words that may stand in the argument.
    pub choices: &'static [Choice],
    /// Which values are allowed.
    pub range: &'static str,
    /// What holds without it.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// A specification that uses it.
    pub example: &'static str,
    /// How FreeBSD's dummynet differs, or empty.
    pub dummynet: &'static str,
}

/// The keyword that `word` is, by name or alias.
pub fn lookup(word: &str) -> Option<&'static Keyword> {
    TABLE.iter().find(|row| row.name == word || row.aliases.contains(&word))
}

/// All words that are keywords.
pub fn words() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|row| std::iter::once(row.name).chain(row.aliases.iter().copied()))
}

impl Id {
    /// The keyword's row.
    pub fn row(self) -> &'static Keyword {
        &TABLE[self as usize]
    }
}

impl Keyword {
    /// The words of [`Keyword::choices`] for a sentence: "`split` or `whole`".
    pub fn allowed(&self) -> String {
        let words: Vec<String> = self.choices.iter().map(|c| format!("`{}`", c.name)).collect();
        match words.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => self.argument.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_their_ids() {
        for (i, row) in TABLE.iter().enumerate() {
            assert_eq!(row.id as usize, i, "{}", row.name);
            assert_eq!(row.id.row().name, row.name);
        }
    }

    #[test]
    fn no_word_means_two_things() {
        let all: Vec<_> = words().collect();
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(all.len(), different.len());
    }

    #[test]
    fn a_choice_is_no_keyword_but_jitter_reorder() {
        let both: Vec<_> = TABLE
            .iter()
            .flat_map(|row| row.choices)
            .filter(|c| lookup(c.name).is_some())
            .map(|c| c.name)
            .collect();
        assert_eq!(both, ["reorder"]);
    }
}
