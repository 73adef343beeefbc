//! The wire types of the API: requests, replies, and views of the configuration and its counters.
//!
//! Requests and replies are JSON, described in the OpenAPI document that the daemon serves.
//! Requests refuse unknown fields; readers of replies should accept them, because later versions
//! add fields. Times are in nanoseconds unless a field says otherwise, rates in bit/s, lengths in
//! network-layer bytes.

mod counters;
mod readings;
mod session;
mod snapshot;
mod view;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_rules::show::Answer;
use weir_rules::{Diagnostic, Severity};

pub use counters::{
    EventSample, InstancePage, InstanceView, KeyView, LaneView, LengthView, LengthsView,
    LinkSample, QueueCounters, RuleCounters,
};
pub use readings::{Interval, LinkInterval, LinkReading, Readings, TimeCounts};
pub use session::{
    ChangeReply, ChangeRequest, NodeKind, NodeState, SessionKind, SessionLink, SessionNode,
    SessionView,
};
pub use snapshot::{LaneTimes, Lengths, Snapshot, Times};
pub use view::{
    AqmView, BridgeView, ConfigurationView, NetConfigView, PipeView, QueueView, RuleView,
    SchedView, TableEntryView, TablePage, TableView,
};
pub(crate) use view::{
    configuration, delay, lengths, netconfigs, pipe, pipes, queue, queues, rate, rules, sched,
    scheds, table_page, tables,
};

/// Commands to execute: all of them, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandRequest {
    /// The commands, one per line, in the language of `ipfw` and `dnctl`.
    #[schema(example = "pipe 1 config bw 4Mbit/s delay 20ms\nadd 100 pipe 1 ip from any to any")]
    pub script: String,
    /// The name of the script in messages, such as its file name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The contents of the files that the commands name (profiles, traces, schedules, jitter
    /// tables), by those names. The daemon reads no other file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Only check the commands; change nothing.
    #[serde(default)]
    pub check_only: bool,
}

/// The result of a request's commands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CommandReply {
    /// Whether the commands were executed. An applied change is on disk, unless one of the
    /// `notices` says that the disk did not confirm this.
    pub applied: bool,
    /// The revision of the configuration. It grows by at least one with every applied change.
    pub revision: u64,
    /// One outcome per command, in order. For a refused script, the outcomes of the commands before
    /// the refused one.
    pub outcomes: Vec<CommandOutcome>,
    /// Errors, warnings and notes about the script.
    pub diagnostics: Vec<DiagnosticView>,
    /// Other information for the user, such as a missing interface.
    pub notices: Vec<String>,
}

/// The outcome of one command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CommandOutcome {
    /// The line of the command, counted from 1.
    pub line: usize,
    /// The command in canonical form.
    pub command: String,
    /// The kind of outcome.
    pub result: OutcomeKind,
    /// The number that was assigned to a new rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<u16>,
    /// The answer to a query: `show`, `list`, `table … list`, and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub answer: Option<Answer>,
    /// Warnings about effects that the command appears to have but does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The kinds of outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// The configuration changed.
    Changed,
    /// Rule counters were reset to zero.
    Zeroed,
    /// The command was accepted but had no effect.
    Nothing,
    /// The command was a query and changed nothing.
    Query,
}

/// An error, warning or note about a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiagnosticView {
    /// The severity.
    pub severity: SeverityView,
    /// The stable name of the diagnostic.
    #[schema(example = "unknown-keyword")]
    pub code: String,
    /// The problem, in one sentence.
    pub message: String,
    /// Name of the file that the diagnostic is about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line, counted from 1.
    pub line: usize,
    /// The text of the line.
    pub text: String,
    /// Start of the marked part within the line, in bytes.
    pub start: usize,
    /// End of the marked part, in bytes.
    pub end: usize,
    /// A label for the marked part: what it is, or what is expected there.
    pub label: String,
    /// The allowed alternatives, and advice.
    pub help: Vec<String>,
}

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeverityView {
    /// The script is refused.
    Error,
    /// The script is accepted, but a part of it does not have its apparent effect.
    Warning,
    /// Additional information.
    Note,
}

impl From<&Diagnostic> for DiagnosticView {
    fn from(d: &Diagnostic) -> Self {
        let severity = match d.code.severity() {
            Severity::Error => SeverityView::Error,
            Severity::Warning => SeverityView::Warning,
            Severity::Note => SeverityView::Note,
        };
        Self {
            severity,
            code: d.code.name().to_owned(),
            message: d.message.clone(),
            file: d.file.clone(),
            line: d.line,
            text: d.text.clone(),
            start: d.span.start,
            end: d.span.end,
            label: d.label.clone(),
            help: d.help.clone(),
        }
    }
}

/// The reason why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The problem, and what to do about it.
    pub error: String,
}

/// The state of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`, `degraded` when an interface of a bridge does not work, or `stalled` when the loop
    /// that forwards packets does not answer.
    pub status: HealthStatus,
    /// A sentence for each problem, with its remedy; empty if everything works.
    #[serde(default)]
    pub problems: Vec<String>,
    /// Version of the daemon.
    pub version: String,
    /// The revision of the configuration.
    pub revision: u64,
    /// Time since the daemon started, in ns.
    pub uptime_ns: u64,
    /// The bridges of the daemon.
    pub bridges: Vec<BridgeView>,
}

/// The state of the daemon in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// Everything works.
    Ok,
    /// An interface is missing, is down, or has failed.
    Degraded,
    /// The loop that forwards packets does not answer. The bridges have no lanes then.
    Stalled,
}

/// Selects a page of a long list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// The number of entries to skip at the beginning.
    #[serde(default)]
    #[param(maximum = 2_147_483_647)]
    pub offset: u32,
    /// The maximum number of entries to return, 1 to 10,000; the default is 100.
    #[serde(default)]
    #[param(minimum = 1, maximum = 10_000)]
    pub limit: Option<u32>,
}

/// Selects a page of a list that may change between requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Cursor {
    /// The continuation that the previous page returned; absent for the first page.
    #[serde(default)]
    #[param(minimum = 0, maximum = 9_223_372_036_854_775_807_u64)]
    pub after: Option<u64>,
    /// The maximum number of entries to return, 1 to 10,000; the default is 100.
    #[serde(default)]
    #[param(minimum = 1, maximum = 10_000)]
    pub limit: Option<u32>,
}

impl Cursor {
    /// The continuation and the maximum number of entries; `None` if they are out of range.
    pub(crate) fn span(self) -> Option<(Option<u64>, usize)> {
        let limit = self.limit.unwrap_or(DEFAULT_PAGE);
        let in_range = self.after.is_none_or(|after| i64::try_from(after).is_ok());
        (in_range && (1..=MAX_PAGE).contains(&limit)).then_some((self.after, limit as usize))
    }
}

impl Page {
    /// The first entry and the maximum number of entries; `None` if they are out of range.
    pub(crate) fn span(self) -> Option<(usize, usize)> {
        let limit = self.limit.unwrap_or(DEFAULT_PAGE);
        (i32::try_from(self.offset).is_ok() && (1..=MAX_PAGE).contains(&limit))
            .then_some((self.offset as usize, limit as usize))
    }
}

/// The parameters of `GET /v1/events`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    /// Milliseconds between two samples, 50 to 60,000; the default is 1000.
    #[serde(default)]
    #[param(minimum = 50, maximum = 60_000)]
    pub period: Option<u32>,
    /// The number of samples after which the stream ends, at least 1; unlimited by default.
    #[serde(default)]
    #[param(minimum = 1, maximum = 2_147_483_647)]
    pub count: Option<u32>,
}

/// Default number of entries on a page.
const DEFAULT_PAGE: u32 = 100;
/// Maximum number of entries on a page.
const MAX_PAGE: u32 = 10_000;
