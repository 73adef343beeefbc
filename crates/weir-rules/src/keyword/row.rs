//! The row of a keyword in the table of keywords.

use super::draft::Object;
use super::reader::Subject;
use super::value::Value;

/// A keyword of the link language.
///
/// The parser, the canonical form, the diagnostics and the reference in `docs/link-spec.md` are
/// derived from its row.
#[derive(Clone, Debug)]
pub struct Keyword {
    /// The word, unique among the keywords of an object.
    pub name: &'static str,
    /// Other words with the same meaning.
    pub aliases: &'static [&'static str],
    /// The heading of the reference under which the keyword is described.
    pub group: Group,
    /// The objects that accept the keyword.
    pub objects: &'static [Object],
    /// The part of the canonical form that contains the keyword.
    pub part: Part,
    /// The syntax of the argument.
    pub argument: &'static str,
    /// Fixed words of the argument.
    pub choices: &'static [Choice],
    /// The bounds of the value, how it is read, where it is stored, and how it is printed.
    pub(crate) value: Value,
    /// A remark that follows the allowed range, for what the range does not express.
    pub note: &'static str,
    /// The value if the keyword is not given.
    pub default: &'static str,
    /// The effect of the keyword.
    pub meaning: &'static str,
    /// A specification that uses the keyword.
    pub example: &'static str,
    /// How FreeBSD's dummynet differs; empty if it does not.
    pub dummynet: &'static str,
}

impl Keyword {
    /// A row without content. Rows take from it the fields that they omit.
    pub(super) const EMPTY: Self = Self {
        name: "",
        aliases: &[],
        group: Group::Queue,
        objects: &[],
        part: Part::Link,
        argument: "",
        choices: &[],
        value: Value::DropTail,
        note: "",
        default: "",
        meaning: "",
        example: "",
        dummynet: "",
    };

    /// Whether `word` is the keyword or an alias of it.
    pub fn is(&self, word: &str) -> bool {
        self.name == word || self.aliases.contains(&word)
    }

    /// The allowed values in words: `0 to 1 hour`. Empty for a keyword without an argument.
    pub fn range(&self) -> String {
        self.value.range() + self.note
    }

    /// How messages refer to this keyword.
    pub(crate) fn subject(&self) -> Subject {
        Subject {
            name: self.name,
            argument: self.argument,
            choices: self.choices.iter().map(|choice| choice.name).collect(),
            range: self.range(),
            example: self.example,
        }
    }
}

/// Headings of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// The rate at which a link transmits packets.
    Rate,
    /// The delay of packets on the link.
    Delay,
    /// Loss, duplication and corruption.
    Impairment,
    /// The queue before the link.
    Queue,
    /// Properties of a scheduler's flow.
    Flow,
    /// Treatment of frames.
    Frames,
    /// Active queue management.
    Aqm,
    /// The device between queue and wire.
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

/// A part of the canonical form. The parts are printed in this order; the keywords within a part
/// have the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The link.
    Link,
    /// The device.
    Device,
    /// The queue's limit.
    Limit,
    /// Other settings of the queue.
    Queue,
    /// Settings of a scheduler's flow.
    Flow,
    /// The AQM or scheduler. Its settings follow it directly, so no keyword of a queue comes after
    /// it.
    Aqm,
    /// Treatment of frames.
    Frames,
}

/// A fixed word of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The word.
    pub name: &'static str,
    /// The effect of the word.
    pub meaning: &'static str,
}

pub(super) const fn choice(name: &'static str, meaning: &'static str) -> Choice {
    Choice { name, meaning }
}
