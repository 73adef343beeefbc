//! Commands: one line of a script each, checked.
//!
//! The parser creates them, [`crate::ruleset`] applies them to a configuration, and the printer
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
    /// Line, from 1.
    pub line: usize,
}

/// What one line asks for.
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
        /// The rules; empty means all.
        which: Vec<Numbers>,
        /// Whether counters are printed.
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
    /// A line that is accepted and changes nothing here, such as a `sysctl` of the kernel's clock.
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
    /// First.
    pub first: u16,
    /// Last.
    pub last: u16,
}

/// A scheduler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedSpec {
    /// Algorithm and mask.
    pub scheduler: SchedulerConfig,
    /// The link. Its own queue settings are those of packets sent to the scheduler's FIFO.
    pub link: LinkSpec,
}

/// A queue in front of a scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueSpec {
    /// The scheduler or pipe it feeds.
    pub scheduler: u16,
    /// Its settings.
    pub flowset: FlowsetConfig,
}

/// The rules that `delete` removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleSelection {
    /// By number, in every set or in one.
    Numbers(Vec<Numbers>, Option<u8>),
    /// A whole set.
    Set(u8),
}

/// `set …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetCommand {
    /// Turns sets on and off; bit n is set n.
    Switch {
        /// Sets to turn on.
        enable: u32,
        /// Sets to turn off.
        disable: u32,
    },
    /// Moves the rules with one number to a set.
    MoveRule {
        /// The rules.
        rule: u16,
        /// The set.
        to: u8,
    },
    /// Moves all rules of a set.
    MoveSet {
        /// From.
        from: u8,
        /// To.
        to: u8,
    },
    /// Exchanges two sets.
    Swap(u8, u8),
    /// Shows which sets are on.
    Show,
}

/// `table NAME …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableCommand {
    /// Creates it.
    Create {
        /// Kind of keys.
        kind: TableKind,
        /// Most entries.
        limit: Option<u32>,
        /// `missing`: an existing table of the same kind is accepted.
        missing_only: bool,
    },
    /// Removes it.
    Destroy,
    /// Adds entries; `atomic` adds all or none.
    Add {
        /// Entries.
        entries: Vec<(TableKey, u32)>,
        /// All or none.
        atomic: bool,
        /// `-q`: an existing entry gets the new value without a message.
        update: bool,
    },
    /// Removes entries.
    Delete(Vec<TableKey>),
    /// Removes all entries.
    Flush,
    /// Exchanges the entries with another table of the same kind.
    Swap(Name),
    /// Refuses or allows changes.
    Lock(bool),
    /// Prints entries.
    List,
    /// Prints kind, size, state.
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
    /// Prints all.
    List,
    /// Prints kind, size and state of all.
    Info,
}

/// `netconfig …`: both directions and the classifier in one line.
#[derive(Clone, Debug, PartialEq)]
pub enum NetConfigCommand {
    /// Creates or changes a link.
    Config(Box<NetConfig>),
    /// Prints all.
    List,
    /// Deletes one.
    Delete(NetConfigMode, Vec<crate::rule::Span16>),
    /// Deletes all.
    Flush,
}

/// One line of `netconfig config`.
#[derive(Clone, Debug, PartialEq)]
pub struct NetConfig {
    /// The role of this side.
    pub mode: NetConfigMode,
    /// Ports of the service.
    pub ports: Vec<crate::rule::Span16>,
    /// Addresses of the other side; empty means any.
    pub peers: Vec<crate::rule::Address>,
    /// Towards this machine.
    pub inbound: LinkSpec,
    /// Away from it.
    pub outbound: LinkSpec,
    /// Seconds after which the link deletes itself; `None` for never.
    pub expires_s: Option<u32>,
}

/// The role of this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NetConfigMode {
    /// Local clients of a service elsewhere.
    Client,
    /// A local service.
    Server,
    /// Both: the ports are the service's, wherever it runs.
    Service,
}
