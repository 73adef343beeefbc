//! What goes over the wire: requests, replies, and the views of what is configured and counted.
//!
//! Every type is JSON, described in the OpenAPI document that the daemon serves. Requests refuse
//! fields they do not know; readers of replies should not, for fields are added over time. Times
//! are nanoseconds, rates bit/s, lengths network-layer bytes.

mod counters;
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
pub use view::{
    AqmView, BridgeView, ConfigurationView, NetConfigView, PipeView, QueueView, RuleView,
    SchedView, TableEntryView, TablePage, TableView,
};
pub(crate) use view::{
    configuration, lengths, netconfigs, pipes, queues, rules, scheds, table_page, tables,
};

/// Commands to carry out: all of them, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandRequest {
    /// The commands, one a line, in the language of `ipfw` and `dnctl`.
    #[schema(example = "pipe 1 config bw 4Mbit/s delay 20ms\nadd 100 pipe 1 ip from any to any")]
    pub script: String,
    /// What the script is called in messages, such as the name of its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The content of the files that the commands name (profiles, traces, schedules, jitter
    /// tables), by those names. The daemon reads no other file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Only check: nothing is changed.
    #[serde(default)]
    pub check_only: bool,
}

/// What became of a request's commands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CommandReply {
    /// Whether the commands were carried out. What is applied is on disk.
    pub applied: bool,
    /// The configuration's number: it grows by one or more with every change that was applied.
    pub revision: u64,
    /// One for each command, in order; of a refused script, those before the one that was refused.
    pub outcomes: Vec<CommandOutcome>,
    /// Errors, warnings and notes about the text.
    pub diagnostics: Vec<DiagnosticView>,
    /// What else the user should know, such as an interface that is not there now.
    pub notices: Vec<String>,
}

/// What one command did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CommandOutcome {
    /// Its line, from 1.
    pub line: usize,
    /// The command in canonical form.
    pub command: String,
    /// What came of it.
    pub result: OutcomeKind,
    /// The number that a new rule got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<u16>,
    /// What a command answers that asks for something: `show`, `list`, `table … list`, and the
    /// like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub answer: Option<Answer>,
    /// What it does not do although it seems to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What came of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// The configuration is another one.
    Changed,
    /// Counters of rules are zero again.
    Zeroed,
    /// Accepted, and nothing was to do.
    Nothing,
    /// It asked for something, and changed nothing.
    Query,
}

/// An error, warning or note about a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiagnosticView {
    /// How bad it is.
    pub severity: SeverityView,
    /// Its stable name.
    #[schema(example = "unknown-keyword")]
    pub code: String,
    /// What is wrong, in one sentence.
    pub message: String,
    /// Name of the file, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
    /// Where in the line it begins, in bytes.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// What stands there, or belongs there.
    pub label: String,
    /// What is allowed and what to do.
    pub help: Vec<String>,
}

/// How bad a diagnostic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeverityView {
    /// The text is refused.
    Error,
    /// Accepted, but something will not do what it seems to say.
    Warning,
    /// Worth knowing.
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

/// Why a request was not served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What is wrong and what to do.
    pub error: String,
}

/// How the daemon is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`, or `degraded` when a bridge lacks an interface.
    pub status: HealthStatus,
    /// Version of the daemon.
    pub version: String,
    /// The configuration's number.
    pub revision: u64,
    /// How long it has run, ns.
    pub uptime_ns: u64,
    /// What it forwards between.
    pub bridges: Vec<BridgeView>,
}

/// How the daemon is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// Everything works.
    Ok,
    /// An interface is missing.
    Degraded,
}

/// A part of a long list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// How many to leave out at the beginning.
    #[serde(default)]
    #[param(maximum = 2_147_483_647)]
    pub offset: u32,
    /// Most to return, 1 to 10,000; 100 unless given.
    #[serde(default)]
    #[param(minimum = 1, maximum = 10_000)]
    pub limit: Option<u32>,
}

/// A part of a list that changes while it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Cursor {
    /// What the part before said is next; without it, the list begins.
    #[serde(default)]
    #[param(minimum = 0, maximum = 9_223_372_036_854_775_807_u64)]
    pub after: Option<u64>,
    /// Most to return, 1 to 10,000; 100 unless given.
    #[serde(default)]
    #[param(minimum = 1, maximum = 10_000)]
    pub limit: Option<u32>,
}

impl Cursor {
    /// The same in numbers; `None` when there are none such.
    pub(crate) fn span(self) -> Option<(Option<u64>, usize)> {
        let limit = self.limit.unwrap_or(DEFAULT_PAGE);
        let known = self.after.is_none_or(|after| i64::try_from(after).is_ok());
        (known && (1..=MAX_PAGE).contains(&limit)).then_some((self.after, limit as usize))
    }
}

impl Page {
    /// The first one wanted, and how many; `None` when there are none such.
    pub(crate) fn span(self) -> Option<(usize, usize)> {
        let limit = self.limit.unwrap_or(DEFAULT_PAGE);
        (i32::try_from(self.offset).is_ok() && (1..=MAX_PAGE).contains(&limit))
            .then_some((self.offset as usize, limit as usize))
    }
}

/// What `GET /v1/events` is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    /// Milliseconds between two samples, 50 to 60,000; 1000 unless given.
    #[serde(default)]
    #[param(minimum = 50, maximum = 60_000)]
    pub period: Option<u32>,
    /// End after this many samples, 1 or more; without it the stream lasts.
    #[serde(default)]
    #[param(minimum = 1, maximum = 2_147_483_647)]
    pub count: Option<u32>,
}

/// Entries on a page unless more or fewer are asked for.
const DEFAULT_PAGE: u32 = 100;
/// Most entries on a page.
const MAX_PAGE: u32 = 10_000;
