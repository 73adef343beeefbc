//! What the web page shows and changes: the interface between a running Weir and the server of the
//! page, which is the same for the daemon and for the sessions of other commands.
//!
//! * [`Source`]: reads counters of single objects and makes changes;
//! * [`Point`]: what an object did in an interval; points merge without losing a peak;
//! * [`Kept`]: the points of the last minutes at full resolution, and of the last day merged;
//! * [`Studies`]: computations beside the links, such as a simulated scenario;
//! * [`History`]: merged points on disk, for the time after a restart.

mod clock;
mod history;
mod kept;
mod log;
mod plan;
mod point;
mod ruled;
mod span;
mod studies;
mod trace;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_measure::histogram::Histogram;
use weir_measure::stats::Reasons;
use weir_rules::command::ObjectKind;

use crate::api::{AqmView, DiagnosticView, RuleView, SessionLink};
use crate::plane::NoAnswer;

pub use clock::{now_ns, on_page};
pub use history::{Fresh, History, MOST_BYTES};
pub use kept::{Kept, RECENT_NS, thinned};
pub use log::Log;
pub use plan::{
    LONGEST_PLAN, MOST_PLAN_TEXT, MOST_STEPS, PlanError, PlanState, PlanStep, PlanView, Planner,
    StepView, views as step_views,
};
pub use point::{Builder, FIELDS, Point, Quantiles, Range};
pub use ruled::{differences, has_ruled, link_rate, rule_views, ruled_objects, ruled_rate};
pub use span::{Span, Watched};
pub use studies::{
    CurveAlgorithm, CurveChoice, Example, KernelPoint, KernelQueue, KernelView, NewStudy, Studies,
    StudyError, StudyLimits, StudyPart, StudyState, StudyView,
};
pub use trace::{TraceError, TraceQuestion, Traced, TracedLeg, TracedObject, TracedRule};

/// Something with counters: a link, a path, a direction of a bridge, a pipe, a scheduler or a
/// queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// A link that a session names.
    Link(Arc<str>),
    /// A path over several links, from one host of a scenario to another.
    Path(Arc<str>),
    /// A direction of a bridge. Rules classify its packets.
    Lane(Arc<str>),
    /// A pipe of the rules.
    Pipe(u16),
    /// A scheduler of the rules.
    Sched(u16),
    /// A queue of the rules.
    Queue(u16),
}

impl Object {
    /// The kind, as in the text of the object.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Link(_) => "link",
            Self::Path(_) => "path",
            Self::Lane(_) => "lane",
            Self::Pipe(_) => "pipe",
            Self::Sched(_) => "sched",
            Self::Queue(_) => "queue",
        }
    }

    /// The name for people.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Link(name) | Self::Path(name) | Self::Lane(name) => name.to_string(),
            Self::Pipe(number) => format!("pipe {number}"),
            Self::Sched(number) => format!("sched {number}"),
            Self::Queue(number) => format!("queue {number}"),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(name) | Self::Path(name) | Self::Lane(name) => {
                write!(f, "{}:{name}", self.kind())
            }
            Self::Pipe(number) | Self::Sched(number) | Self::Queue(number) => {
                write!(f, "{}:{number}", self.kind())
            }
        }
    }
}

/// The text does not name an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an object is link:NAME, path:NAME, lane:NAME, pipe:N, sched:N or queue:N")]
pub struct NoObject;

impl FromStr for Object {
    type Err = NoObject;

    fn from_str(text: &str) -> Result<Self, NoObject> {
        let (kind, name) = text.split_once(':').ok_or(NoObject)?;
        let number = || name.parse().map_err(|_| NoObject);
        match kind {
            "link" => Ok(Self::Link(name.into())),
            "path" => Ok(Self::Path(name.into())),
            "lane" => Ok(Self::Lane(name.into())),
            "pipe" => number().map(Self::Pipe),
            "sched" => number().map(Self::Sched),
            "queue" => number().map(Self::Queue),
            _ => Err(NoObject),
        }
    }
}

/// An object with its configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ObjectView {
    /// The text of the [`Object`].
    pub object: String,
    /// The kind of object.
    pub kind: &'static str,
    /// The name for people.
    pub name: String,
    /// The name of the end that the object's packets come from; `None` if it has none.
    pub from: Option<String>,
    /// The name of the end that the object's packets go to; `None` if it has none.
    pub to: Option<String>,
    /// The object that serves this one.
    pub parent: Option<String>,
    /// The name for both directions together, if this is one direction of a link.
    pub whole: Option<String>,
    /// The configuration in the command language; empty for a perfect link.
    pub spec: String,
    /// The configured rate in bit/s; none if unlimited. The mean if it changes over time.
    pub rate_bps: Option<u64>,
    /// The configured delay in ns. The mean if it changes over time.
    pub delay_ns: u64,
    /// The scheduler's algorithm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// A queue's weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// The AQM of the object's queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aqm: Option<AqmView>,
    /// Whether a mask divides the object into instances.
    pub masked: bool,
}

/// The objects of a source.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Objects {
    /// The revision of the configuration.
    pub revision: u64,
    /// The number of all objects.
    pub total: u64,
    /// The first objects: links, then paths; or lanes, then pipes, schedulers and queues.
    pub objects: Vec<ObjectView>,
}

/// The counters of an object at one moment.
#[derive(Clone, Debug, Default)]
pub struct Count {
    /// The moment on the machine's monotonic clock, in ns.
    pub at_ns: u64,
    /// Packets that arrived.
    pub packets_in: u64,
    /// Bytes of these packets.
    pub bytes_in: u64,
    /// Packets that departed.
    pub packets_out: u64,
    /// Bytes of these packets.
    pub bytes_out: u64,
    /// Packets that wait now; for a path or lane, packets inside.
    pub queue_packets: u64,
    /// Bytes of these packets, where they are counted.
    pub queue_bytes: Option<u64>,
    /// The most packets that waited at one time since the last reading, where that is known.
    pub peak_packets: u64,
    /// The most bytes that waited at one time since the last reading, where that is known.
    pub peak_bytes: u64,
    /// Drops and marks.
    pub reasons: Reasons,
    /// The configured rate in bit/s.
    pub rate_bps: Option<u64>,
    /// Times of packets; none in a short reading, and for objects whose times are not measured.
    pub times: Option<Box<CountTimes>>,
}

/// Distributions of the times of packets in ns, counted since the start.
#[derive(Clone, Debug, Default)]
pub struct CountTimes {
    /// Queueing delay.
    pub wait: Histogram,
    /// Time from arrival to due time.
    pub total: Histogram,
    /// Lateness; none for an object inside a path, because packets leave at the end of the path.
    pub late: Option<Histogram>,
}

/// How much of the counters a reading copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Counters and lengths: cheap enough for a hundred readings a second.
    Short,
    /// Times as well.
    Full,
}

/// An instance of a mask, or an object in a list of all objects of its kind, with its counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Member {
    /// Identifies the member in its list from one reading to the next.
    pub id: u64,
    /// The name for people.
    pub name: String,
    /// The addresses in its key.
    pub addresses: Vec<std::net::IpAddr>,
    /// The object that the member is; `None` for an instance of a mask.
    pub object: Option<Object>,
    /// Packets that arrived.
    pub packets_in: u64,
    /// Bytes of these packets.
    pub bytes_in: u64,
    /// Dropped packets.
    pub drops: u64,
    /// Packets that wait now.
    pub queue_packets: u64,
    /// Bytes of these packets.
    pub queue_bytes: u64,
}

/// A list of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// The instances of the mask of a pipe, queue or scheduler.
    Instances(Kind, u16),
    /// All objects of a kind.
    All(Kind),
}

/// The kinds of objects in rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Pipes.
    Pipe,
    /// Queues.
    Queue,
    /// Schedulers.
    Sched,
}

impl From<Kind> for ObjectKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Pipe => Self::Pipe,
            Kind::Queue => Self::Queue,
            Kind::Sched => Self::Sched,
        }
    }
}

impl FromStr for Group {
    type Err = NoObject;

    fn from_str(text: &str) -> Result<Self, NoObject> {
        match text {
            "pipes" => Ok(Self::All(Kind::Pipe)),
            "queues" => Ok(Self::All(Kind::Queue)),
            "scheds" => Ok(Self::All(Kind::Sched)),
            text => match text.parse()? {
                Object::Pipe(number) => Ok(Self::Instances(Kind::Pipe, number)),
                Object::Queue(number) => Ok(Self::Instances(Kind::Queue, number)),
                Object::Sched(number) => Ok(Self::Instances(Kind::Sched, number)),
                _ => Err(NoObject),
            },
        }
    }
}

/// Whether the links work, and how the loop that forwards packets runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// `ok`, `degraded` when an interface does not work, or `stalled` when the loop does not
    /// answer.
    pub status: &'static str,
    /// The problems, a sentence each.
    pub problems: Vec<String>,
    /// Whether the loop has real-time priority.
    pub realtime: bool,
    /// The number of threads that forward.
    pub workers: usize,
}

/// The language of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// Words of a link specification, for links with names.
    Links,
    /// Commands of the rules' language.
    Commands,
}

/// A change, as a client asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Words of a link specification, or commands.
    pub words: String,
    /// The links that change, with commas between them; all links without it.
    #[serde(default)]
    pub link: Option<String>,
    /// Check the words and change nothing.
    #[serde(default)]
    pub check_only: bool,
    /// The contents of the files that the words name.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// The result of a change or check.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Edited {
    /// Whether the words are accepted.
    #[serde(skip)]
    pub accepted: bool,
    /// Whether the change is in force.
    pub applied: bool,
    /// The number of the change, once it is in force.
    pub change: Option<u64>,
    /// The revision of the configuration.
    pub revision: u64,
    /// The changed links, as they are, or as they would be if the change is only checked.
    pub links: Vec<SessionLink>,
    /// Errors, warnings and notes about the words.
    pub diagnostics: Vec<DiagnosticView>,
    /// The diagnostics as text.
    pub rendered: String,
    /// Other information for the user.
    pub notices: Vec<String>,
    /// The commands in canonical form.
    pub commands: Vec<String>,
}

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// There is no such link.
    #[error("{0}")]
    Unknown(String),
    /// The request cannot be carried out now.
    #[error("{0}")]
    Impossible(String),
    /// The configuration cannot be saved.
    #[error("{message}")]
    NotSaved {
        /// The reason.
        message: String,
        /// Whether the disk is full.
        full: bool,
    },
    /// The loop did not answer, or too many requests wait.
    #[error("{0}")]
    Busy(String),
}

/// A change that is in force, or was in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChangeView {
    /// Its number; later changes have greater ones.
    pub number: u64,
    /// The time of the change in ns, on the monotonic clock. The page's server converts it to the
    /// page's clock.
    #[serde(skip)]
    pub at_ns: u64,
    /// Its time, in ms since 1970, as the page's server sets it.
    pub t_ms: i64,
    /// What changed, in words.
    pub what: String,
    /// The configuration of the changed objects before the change.
    pub before: String,
    /// The configuration of the changed objects after the change.
    pub after: String,
    /// The number of the change that this one takes back.
    pub undoes: Option<u64>,
}

/// A running Weir, as the page sees it. Calls come from several threads. Calls that return
/// [`NoAnswer`] wait for the thread that moves packets, and give up after a while.
pub trait Source: Send + Sync + 'static {
    /// The language of changes.
    fn language(&self) -> Language;

    /// The revision of the configuration. It grows with every change.
    fn revision(&self) -> u64;

    /// The objects, at most `most` of them.
    fn objects(&self, most: usize) -> Objects;

    /// Whether there is such an object.
    fn has(&self, object: &Object) -> bool;

    /// The counters of these objects. Objects that do not exist are missing in the answer.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    fn read(&self, wanted: &[Object], depth: Depth) -> Result<Vec<(Object, Count)>, NoAnswer>;

    /// The members of a group.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    fn members(&self, group: Group) -> Result<Vec<Member>, NoAnswer>;

    /// The rules with their counters.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    fn rule_views(&self) -> Result<Vec<RuleView>, NoAnswer>;

    /// Whether the links work. The call gives up after a second.
    fn condition(&self) -> Condition;

    /// Checks or makes a change.
    ///
    /// # Errors
    /// See [`EditError`]. Wrong words are not an error: the answer is then not `accepted`.
    fn edit(&self, edit: &Edit) -> Result<Edited, EditError>;

    /// Takes back the newest change that has not been taken back yet. `number` must be that
    /// change's number.
    ///
    /// # Errors
    /// See [`EditError`].
    fn undo(&self, number: u64) -> Result<Edited, EditError>;

    /// The changes with numbers above `after`, oldest first, and the number of older changes that
    /// are no longer kept.
    fn changes(&self, after: u64) -> (Vec<ChangeView>, u64);

    /// Follows a packet through the rules. Nothing is counted or changed.
    ///
    /// # Errors
    /// See [`TraceError`].
    fn trace(&self, question: &TraceQuestion) -> Result<Traced, TraceError>;

    /// Reads a plan and checks its steps, without starting it.
    ///
    /// # Errors
    /// See [`PlanError`].
    fn check_plan(&self, text: &str) -> Result<PlanView, PlanError>;

    /// Starts a plan.
    ///
    /// # Errors
    /// See [`PlanError`].
    fn start_plan(&self, text: &str) -> Result<PlanView, PlanError>;

    /// Stops the plan that runs, if any. Changes that it has made stay.
    fn stop_plan(&self);

    /// The plan that runs, or the last one.
    fn plan(&self) -> PlanView;
}

/// Number of changes that a source keeps.
pub const KEPT_CHANGES: usize = 100;
