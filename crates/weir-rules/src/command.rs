//! Commands: a command is one checked line of a script.
//!
//! The parser creates commands, [`crate::ruleset`] applies them to a configuration, and the printer
//! writes them.

use weir_core::config::{FlowsetConfig, SchedulerConfig};

use crate::diagnostic::Span;
use crate::link::LinkSpec;
use crate::rule::{Name, Rule};
use crate::table::{TableKey, TableKind};

/// A command with its place in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Spanned {
    /// The command.
    pub command: Command,
    /// Its place, in bytes.
    pub span: Span,
    /// The line number, from 1.
    pub line: usize,
}

/// A request that one line of a script makes.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// `pipe N config …`.
    ConfigPipe(u16, Box<LinkSpec>),
    /// `sched N config …`: the scheduler, its link, and the settings of its own queue.
    ConfigSched(u16, Box<SchedSpec>),
    /// `queue N config …`.
    ConfigQueue(u16, Box<QueueSpec>),
    /// `pipe|queue|sched delete N…`.
    DeleteObjects(ObjectKind, Vec<Numbers>),
    /// `pipe|queue|sched flush`.
    FlushObjects(ObjectKind),
    /// `pipe|queue|sched list|show [N…]`.
    ShowObjects(ObjectKind, Vec<Numbers>),
    /// `add …`.
    Add(Box<Rule>),
    /// `delete N…`, optionally within one set, and `delete set S`.
    DeleteRules(RuleSelection),
    /// `list|show [N…]`; `show` and `-a` print counters.
    ListRules {
        /// The rules to print; an empty list means all.
        which: Vec<Numbers>,
        /// Whether to print counters.
        counters: bool,
    },
    /// `zero|resetlog [N…]`.
    Zero(Vec<Numbers>),
    /// `flush`: all rules except those of set 31.
    FlushRules,
    /// `set …`.
    Set(SetCommand),
    /// `table NAME …`.
    Table(Name, TableCommand),
    /// `table all …`.
    AllTables(AllTablesCommand),
    /// `enable|disable one_pass`, `sysctl net.inet.ip.fw.one_pass=…`.
    OnePass(bool),
    /// `netconfig …`.
    NetConfig(NetConfigCommand),
    /// A line that is accepted and changes nothing in Weir, such as a `sysctl` of the kernel's
    /// clock.
    Nothing,
}

/// Pipes, queues or schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// Pipes.
    Pipe,
    /// Queues (flowsets).
    Queue,
    /// Schedulers.
    Sched,
}

/// A range of numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The first number.
    pub first: u16,
    /// The last number.
    pub last: u16,
}

/// A scheduler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedSpec {
    /// The algorithm and the mask.
    pub scheduler: SchedulerConfig,
    /// The link. The queue settings in `link` apply to packets that are sent to the scheduler's own
    /// FIFO.
    pub link: LinkSpec,
}

/// A queue in front of a scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueSpec {
    /// The scheduler or pipe that the queue feeds.
    pub scheduler: u16,
    /// The settings of the queue.
    pub flowset: FlowsetConfig,
}

/// The rules that `delete` deletes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleSelection {
    /// Rules by number, in one set or, without a set, in every set.
    Numbers(Vec<Numbers>, Option<u8>),
    /// All rules of a set.
    Set(u8),
}

/// `set …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetCommand {
    /// Enables and disables sets; bit n is set n.
    Switch {
        /// The sets to enable.
        enable: u32,
        /// The sets to disable.
        disable: u32,
    },
    /// Moves the rules with one number to another set.
    MoveRule {
        /// The number of the rules.
        rule: u16,
        /// The set to which the rules move.
        to: u8,
    },
    /// Moves all rules of a set to another set.
    MoveSet {
        /// The set from which the rules move.
        from: u8,
        /// The set to which the rules move.
        to: u8,
    },
    /// Exchanges the rules of two sets.
    Swap(u8, u8),
    /// Shows which sets are enabled.
    Show,
}

/// `table NAME …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableCommand {
    /// Creates the table.
    Create {
        /// The type of keys.
        kind: TableKind,
        /// Maximum number of entries.
        limit: Option<u32>,
        /// Whether `missing` is given, so that an existing table of the same type is accepted.
        missing_only: bool,
    },
    /// Removes the table.
    Destroy,
    /// Adds entries.
    Add {
        /// The entries: keys with their values.
        entries: Vec<(TableKey, u32)>,
        /// Whether to add either all entries or none.
        atomic: bool,
        /// Whether `-q` is given, so that an existing entry gets the new value without a message.
        update: bool,
    },
    /// Removes entries.
    Delete(Vec<TableKey>),
    /// Removes all entries.
    Flush,
    /// Exchanges the entries with another table of the same type.
    Swap(Name),
    /// Locks or unlocks the table. A locked table refuses changes.
    Lock(bool),
    /// Prints the entries.
    List,
    /// Prints the type, size and state of the table.
    Info,
    /// Looks up a key.
    Lookup(TableKey),
}

/// `table all …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllTablesCommand {
    /// Removes all entries of all tables.
    Flush,
    /// Removes all tables.
    Destroy,
    /// Prints all tables.
    List,
    /// Prints the type, size and state of all tables.
    Info,
}

/// `netconfig …`: configures both directions of a link and the rules for it in one line.
#[derive(Clone, Debug, PartialEq)]
pub enum NetConfigCommand {
    /// Creates or changes a link.
    Config(Box<NetConfig>),
    /// Prints all links.
    List,
    /// Deletes the links with this mode and these ports.
    Delete(NetConfigMode, Vec<crate::rule::Span16>),
    /// Deletes all links.
    Flush,
}

/// The content of one `netconfig config` line.
#[derive(Clone, Debug, PartialEq)]
pub struct NetConfig {
    /// The role of this machine.
    pub mode: NetConfigMode,
    /// The ports of the service.
    pub ports: Vec<crate::rule::Span16>,
    /// The addresses of the other side; an empty list means any.
    pub peers: Vec<crate::rule::Address>,
    /// The direction towards this machine.
    pub inbound: LinkSpec,
    /// The direction away from this machine.
    pub outbound: LinkSpec,
    /// The lifetime of the link in seconds; `None` for unlimited.
    pub expires_s: Option<u32>,
}

/// The role of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NetConfigMode {
    /// The clients run on this machine, and the service runs elsewhere.
    Client,
    /// The service runs on this machine.
    Server,
    /// Both roles: the ports are those of the service, on either machine.
    Service,
}
