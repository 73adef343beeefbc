//! What can be wrong with a command that is right by itself, and what is worth a word though it is
//! accepted.

use core::fmt;

use thiserror::Error;

use crate::command::ObjectKind;
use crate::rule::Name;

/// Why a command cannot be carried out on this configuration. Nothing has been changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// A pipe, queue or scheduler to be deleted is not there.
    #[error("there is no {} {number}; `{} list` shows what there is", kind.word(), kind.word())]
    NoObject {
        /// What was looked for.
        kind: ObjectKind,
        /// Its number.
        number: u16,
    },
    /// A scheduler that others are flows of.
    #[error("sched {child} is a flow of {number}; delete it too: `sched delete {number} {child}`")]
    ParentInUse {
        /// The scheduler to be deleted.
        number: u16,
        /// One that is a flow of it.
        child: u16,
    },
    /// A scheduler would be a flow of itself.
    #[error("sched {number} cannot be a flow of {parent}, which is a flow of {number} itself")]
    Circle {
        /// The scheduler.
        number: u16,
        /// Its parent to be.
        parent: u16,
    },
    /// Too many schedulers within each other.
    #[error("sched {number} would make more than {LEVELS} schedulers within each other; at most {LEVELS} are allowed", LEVELS = super::objects::MOST_LEVELS)]
    TooDeep {
        /// The scheduler.
        number: u16,
    },
    /// Pipes with these numbers belong to `netconfig`.
    #[error("pipe {number} is reserved for `netconfig`; other numbers are free")]
    Reserved {
        /// The number.
        number: u16,
    },
    /// No rule has this number.
    #[error("there is no rule {number}; `list` shows what there is")]
    NoRule {
        /// The first number that was looked for.
        number: u16,
    },
    /// The last rule is always there.
    #[error("rule 65535 is always there: it can be neither made nor deleted")]
    DefaultRule,
    /// The set that stays on.
    #[error("set 31 cannot be turned off: it holds the rules that `flush` leaves alone")]
    KeptSet,
    /// No table of this name.
    #[error("there is no table {name}; `table {name} create` makes it")]
    NoTable {
        /// The name.
        name: Name,
    },
    /// A table of this name is there already.
    #[error("there is a table {name} already; `table {name} create … missing` is content with it")]
    TableExists {
        /// The name.
        name: Name,
    },
    /// A table has other keys than the command.
    #[error("table {name} has keys of type {has}, not {given}")]
    TableKind {
        /// The table.
        name: Name,
        /// Its type.
        has: &'static str,
        /// The type of what was given.
        given: &'static str,
    },
    /// A table that rules name.
    #[error("rule {rule} uses table {name}; delete the rule first")]
    TableInUse {
        /// The table.
        name: Name,
        /// A rule that uses it.
        rule: u16,
    },
    /// A table that is locked.
    #[error("table {name} is locked; `table {name} unlock` allows changes")]
    TableLocked {
        /// The table.
        name: Name,
    },
    /// A table that would have too many entries.
    #[error("table {name} holds at most {limit} entries, and this would make it {wanted}")]
    TableFull {
        /// The table.
        name: Name,
        /// Its limit.
        limit: u32,
        /// The entries it would have.
        wanted: usize,
    },
    /// An entry is there already.
    #[error("table {name} has {key} already; `-q` gives it the new value")]
    EntryExists {
        /// The table.
        name: Name,
        /// The entry's key.
        key: String,
    },
    /// An entry is not there.
    #[error("table {name} has no entry {key}")]
    NoEntry {
        /// The table.
        name: Name,
        /// The entry's key.
        key: String,
    },
    /// No `netconfig` with this mode and these ports.
    #[error("there is no such netconfig; `netconfig list` shows what there is")]
    NoNetConfig,
    /// Too many of them.
    #[error("there are {MAX} netconfigs already; delete one first", MAX = super::MAX_NETCONFIGS)]
    TooManyNetConfigs,
}

/// The command of a script that could not be carried out, and why. None of the script has been.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {error}")]
pub struct ScriptError {
    /// Which command, from 0.
    pub index: usize,
    /// Its line, from 1.
    pub line: usize,
    /// Why.
    pub error: ApplyError,
}

/// Something that is accepted and probably not what was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A queue feeds a scheduler or pipe that is not there: its packets are dropped until there is
    /// one.
    NoScheduler {
        /// The queue.
        queue: u16,
        /// The scheduler.
        scheduler: u16,
    },
    /// A rule sends packets to something that is not there: they are dropped.
    NoTarget {
        /// The rule.
        rule: u16,
        /// A pipe or a queue.
        kind: ObjectKind,
        /// Its number.
        number: u16,
    },
    /// A rule looks up a table that is not there: it does not match.
    NoTable {
        /// The rule.
        rule: u16,
        /// The table.
        name: Name,
    },
    /// A scheduler is a flow of one that is not there: its packets are dropped until there is one.
    NoParent {
        /// The scheduler.
        sched: u16,
        /// Its parent.
        parent: u16,
    },
    /// A rule sends packets to a scheduler that has no link of its own: they are dropped.
    Inner {
        /// The rule.
        rule: u16,
        /// The scheduler.
        sched: u16,
    },
    /// A setting of a queue, or of a scheduler that is a flow of another, that its scheduler does
    /// not look at.
    Unused {
        /// A queue or a scheduler.
        kind: ObjectKind,
        /// Its number.
        number: u16,
        /// The setting.
        setting: &'static str,
        /// The scheduler's type.
        scheduler: &'static str,
        /// What it looks at instead, if there is such a thing.
        instead: Option<&'static str>,
    },
    /// Some of the entries were in the table already and keep their values.
    EntriesKept {
        /// The table.
        name: Name,
        /// How many.
        count: usize,
    },
    /// Some of the entries to delete were not there.
    EntriesMissing {
        /// The table.
        name: Name,
        /// How many.
        count: usize,
    },
    /// A table that was to go with all others stays.
    TableKept {
        /// The table.
        name: Name,
        /// Why.
        reason: ApplyError,
    },
    /// A table was made by its first entry.
    TableMade {
        /// The table.
        name: Name,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoScheduler { queue, scheduler } => {
                write!(
                    f,
                    "queue {queue} feeds pipe or sched {scheduler}, which is not configured: its packets are dropped"
                )
            }
            Self::NoTarget { rule, kind, number } => {
                let kind = kind.word();
                write!(
                    f,
                    "rule {rule} sends packets to {kind} {number}, which is not configured: they are dropped (no_such_pipe)"
                )
            }
            Self::NoTable { rule, name } => write!(
                f,
                "rule {rule} looks up table {name}, which is not there: it does not match"
            ),
            Self::NoParent { sched, parent } => {
                write!(
                    f,
                    "sched {sched} is a flow of pipe or sched {parent}, which is not configured: its packets are dropped"
                )
            }
            Self::Inner { rule, sched } => {
                write!(
                    f,
                    "rule {rule} sends packets to sched {sched}, which has a parent and takes them from queues only: they are dropped"
                )
            }
            Self::Unused { kind, number, setting, scheduler, instead } => {
                write!(
                    f,
                    "{} {number}: `{setting}` has no effect under a scheduler of type {scheduler}",
                    kind.word()
                )?;
                instead.map_or(Ok(()), |instead| write!(f, "; it looks at `{instead}`"))
            }
            Self::EntriesKept { name, count } => write!(
                f,
                "table {name}: {count} of the entries were there already and keep their values"
            ),
            Self::EntriesMissing { name, count } => {
                write!(f, "table {name}: {count} of the entries were not there")
            }
            Self::TableKept { name, reason } => write!(f, "table {name} stays: {reason}"),
            Self::TableMade { name } => write!(f, "table {name} was not there and has been made"),
        }
    }
}

impl ObjectKind {
    /// Its word in the language.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Queue => "queue",
            Self::Sched => "sched",
        }
    }
}
