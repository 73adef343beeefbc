//! Errors of commands that do not fit the configuration, and warnings about accepted commands.

use core::fmt;

use thiserror::Error;

use crate::command::ObjectKind;
use crate::parsed::MOST_MEMORY;
use crate::rule::Name;

/// Why a command cannot be applied to this configuration. The configuration remains unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// The pipe, queue or scheduler to delete does not exist.
    #[error("there is no {} {number}; `{} list` shows what there is", kind.word(), kind.word())]
    NoObject {
        /// The kind of object.
        kind: ObjectKind,
        /// The number of the object.
        number: u16,
    },
    /// The scheduler cannot be deleted because other schedulers are flows of it.
    #[error("sched {child} is a flow of {number}; delete it too: `sched delete {number} {child}`")]
    ParentInUse {
        /// The scheduler to delete.
        number: u16,
        /// A scheduler that is a flow of it.
        child: u16,
    },
    /// A scheduler would be a flow of itself.
    #[error("sched {number} cannot be a flow of {parent}: it would be a flow of itself")]
    Circle {
        /// The scheduler.
        number: u16,
        /// The intended parent.
        parent: u16,
    },
    /// Too many levels of schedulers.
    #[error("sched {number} would make more than {LEVELS} schedulers within each other; at most \
             {LEVELS} are allowed", LEVELS = super::MOST_LEVELS)]
    TooDeep {
        /// The scheduler.
        number: u16,
    },
    /// A queue or an inner scheduler has a setting that the scheduler above it does not support.
    #[error("{} {number}: {misfit}", kind.word())]
    Misfit {
        /// The kind of object: a queue or a scheduler.
        kind: ObjectKind,
        /// The number of the object.
        number: u16,
        /// The reason.
        misfit: weir_core::sched::Misfit,
    },
    /// The number is reserved for pipes of `netconfig`.
    #[error("pipe {number} is reserved for `netconfig`; other numbers are free")]
    Reserved {
        /// The number.
        number: u16,
    },
    /// The command selects no rule with this number: there is none, it is in another set, or it
    /// belongs to `netconfig`.
    #[error("there is no rule {number}; `list` shows what there is")]
    NoRule {
        /// The first number of the range in which no rule was found.
        number: u16,
    },
    /// There are too many rules.
    #[error("there are {MAX} rules already; delete some first, or merge rules with lists and \
             tables of addresses", MAX = super::MAX_RULES)]
    TooManyRules,
    /// The default rule can be neither created nor deleted.
    #[error("rule 65535 always exists: it can be neither created nor deleted")]
    DefaultRule,
    /// Set 31 cannot be turned off.
    #[error("set 31 cannot be turned off: it contains the rules that `flush` does not delete")]
    KeptSet,
    /// No table has this name.
    #[error("there is no table {name}; `table {name} create` makes it")]
    NoTable {
        /// The name.
        name: Name,
    },
    /// A table of this name already exists.
    #[error("there is a table {name} already; `table {name} create … missing` is content with it")]
    TableExists {
        /// The name.
        name: Name,
    },
    /// The table has keys of another type than the command.
    #[error("table {name} has keys of type {has}, not {given}")]
    TableKind {
        /// The table.
        name: Name,
        /// The type of the table's keys.
        has: &'static str,
        /// The type of the key or table that the command gives.
        given: &'static str,
    },
    /// The table cannot be deleted because rules use it.
    #[error("rule {rule} uses table {name}; delete the rule first")]
    TableInUse {
        /// The table.
        name: Name,
        /// A rule that uses the table.
        rule: u16,
    },
    /// The table is locked.
    #[error("table {name} is locked; `table {name} unlock` allows changes")]
    TableLocked {
        /// The table.
        name: Name,
    },
    /// The command would exceed the table's maximum number of entries.
    #[error("table {name} holds at most {limit} entries, and this would make it {wanted}")]
    TableFull {
        /// The table.
        name: Name,
        /// The maximum number of entries.
        limit: u32,
        /// The resulting number of entries.
        wanted: usize,
    },
    /// The entry already exists.
    #[error("table {name} has {key} already; `-q` gives it the new value")]
    EntryExists {
        /// The table.
        name: Name,
        /// The key of the entry.
        key: String,
    },
    /// The entry does not exist.
    #[error("table {name} has no entry {key}")]
    NoEntry {
        /// The table.
        name: Name,
        /// The key of the entry.
        key: String,
    },
    /// The values that pipes, schedulers and `netconfig` links have from files take too much
    /// memory.
    #[error("the tables and traces of all pipes would take {} MiB in memory; at most {} MiB are \
             allowed", mib, MOST_MEMORY >> 20)]
    TooMuchMemory {
        /// The memory in MiB, rounded up.
        mib: usize,
    },
    /// No `netconfig` link has this mode and these ports.
    #[error("there is no such netconfig; `netconfig list` shows what there is")]
    NoNetConfig,
    /// There are too many `netconfig` links.
    #[error("there are {MAX} netconfigs already; delete one first", MAX = super::MAX_NETCONFIGS)]
    TooManyNetConfigs,
}

/// The first command of a script that could not be applied, and the reason. If the values from
/// files take too much memory, the command is the last one that names such values. No command of
/// the script has been applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {error}")]
pub struct ScriptError {
    /// The index of the command, from 0.
    pub index: usize,
    /// The line of the command, from 1.
    pub line: usize,
    /// The reason.
    pub error: ApplyError,
}

/// A warning about an accepted command that probably has another effect than intended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A queue feeds a scheduler or pipe that does not exist: its packets are dropped.
    NoScheduler {
        /// The queue.
        queue: u16,
        /// The scheduler.
        scheduler: u16,
    },
    /// A rule sends packets to an object that does not exist: they are dropped.
    NoTarget {
        /// The rule.
        rule: u16,
        /// The kind of object: a pipe or a queue.
        kind: ObjectKind,
        /// The number of the object.
        number: u16,
    },
    /// A rule looks up a table that does not exist: the look-up finds nothing.
    NoTable {
        /// The rule.
        rule: u16,
        /// The table.
        name: Name,
    },
    /// A scheduler is a flow of a scheduler that does not exist: its packets are dropped.
    NoParent {
        /// The scheduler.
        sched: u16,
        /// The missing parent.
        parent: u16,
    },
    /// A rule sends packets to a scheduler without a link of its own: the packets are dropped.
    Inner {
        /// The rule.
        rule: u16,
        /// The scheduler.
        sched: u16,
    },
    /// A setting has no effect: it belongs to a queue or an inner scheduler, and the scheduler
    /// above ignores it.
    Unused {
        /// The kind of object: a queue or a scheduler.
        kind: ObjectKind,
        /// The number of the object.
        number: u16,
        /// The setting.
        setting: &'static str,
        /// The type of the scheduler above.
        scheduler: &'static str,
        /// The setting that the scheduler uses instead, if any.
        instead: Option<&'static str>,
    },
    /// Some entries already exist in the table and keep their values.
    EntriesKept {
        /// The table.
        name: Name,
        /// The number of these entries.
        count: usize,
    },
    /// Some entries to delete do not exist.
    EntriesMissing {
        /// The table.
        name: Name,
        /// The number of these entries.
        count: usize,
    },
    /// The command deletes or empties all tables, but not this one.
    TableKept {
        /// The table.
        name: Name,
        /// The reason.
        reason: ApplyError,
    },
    /// The table did not exist, and its first entry created it.
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
                    "queue {queue} feeds pipe or sched {scheduler}, which is not configured: its \
                     packets are dropped"
                )
            }
            Self::NoTarget { rule, kind, number } => {
                let kind = kind.word();
                write!(
                    f,
                    "rule {rule} sends packets to {kind} {number}, which is not configured: they \
                     are dropped (no_such_pipe)"
                )
            }
            Self::NoTable { rule, name } => write!(
                f,
                "rule {rule} looks up table {name}, which does not exist: the look-up finds nothing"
            ),
            Self::NoParent { sched, parent } => {
                write!(
                    f,
                    "sched {sched} is a flow of pipe or sched {parent}, which is not configured: \
                     its packets are dropped"
                )
            }
            Self::Inner { rule, sched } => {
                write!(
                    f,
                    "rule {rule} sends packets to sched {sched}, which has a parent and takes \
                     them from queues only: they are dropped"
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
                "table {name}: {count} of the entries already exist and keep their values"
            ),
            Self::EntriesMissing { name, count } => {
                write!(f, "table {name}: {count} of the entries did not exist")
            }
            Self::TableKept { name, reason } => write!(f, "table {name} remains: {reason}"),
            Self::TableMade { name } => write!(f, "table {name} did not exist and was created"),
        }
    }
}

impl ObjectKind {
    /// The word for the kind in the language.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Queue => "queue",
            Self::Sched => "sched",
        }
    }
}
