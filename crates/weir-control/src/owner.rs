//! The thread that owns the configuration.
//!
//! Commands from all clients are handled one after another: executed on a copy, saved, applied, and
//! acknowledged. So an acknowledged change is on disk (or its reply says that the disk did not
//! confirm this), and everything on disk was accepted. A daemon that is killed between two of these
//! steps starts again with the last acknowledged configuration, or with one that was about to be
//! acknowledged.
//!
//! **Group commit.** Syncing a disk takes milliseconds. Commands that wait during one save are
//! executed together and share the next save; each gets its own answer.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;
use weir_rules::Budget;
use weir_rules::command::ObjectKind;
use weir_rules::ruleset::{Query, Ruleset};
use weir_rules::show;

use crate::api::{CommandReply, CommandRequest, OutcomeKind, Snapshot};
use crate::plane::{NoAnswer, Plane};
use crate::store::{Durability, Store, StoreError};

mod request;
mod saved;

pub(crate) use request::MOST_SCRIPT;
pub use request::Prepared;
pub use saved::{Candidate, Choice, ResumeError, candidates};

/// Why valid commands were not executed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OwnerError {
    /// Too many changes are waiting.
    #[error("{WAITING} changes are waiting already; try again later")]
    Busy,
    /// The daemon is ending.
    #[error("the daemon is ending")]
    Ended,
    /// The queries could not be answered; nothing was changed.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// The configuration would be too long; nothing was changed.
    #[error("the configuration would have {bytes} bytes as commands, and {} MiB are allowed; \
             nothing was changed", MOST_CONFIGURATION >> 20)]
    TooLong {
        /// The length of the configuration.
        bytes: usize,
    },
    /// The configuration could not be saved.
    #[error("{message}")]
    NotSaved {
        /// The reason, and the configuration that is in force.
        message: String,
        /// Whether the disk is full.
        full: bool,
    },
}

impl From<StoreError> for OwnerError {
    fn from(error: StoreError) -> Self {
        Self::NotSaved { message: error.to_string(), full: error.is_full() }
    }
}

/// The configuration that is in force.
#[derive(Clone, Debug)]
pub struct Current {
    /// The revision of the configuration.
    pub revision: u64,
    /// Whether the disk has confirmed that the configuration survives a crash.
    pub durable: bool,
    /// The rules, pipes, queues and schedulers.
    pub ruleset: Arc<Ruleset>,
}

/// A configuration with the store that holds it, before it is applied to packets.
#[derive(Debug)]
pub struct Resumed {
    store: Store,
    current: Current,
    saved: bool,
    notice: Option<String>,
}

impl Resumed {
    /// Reads the configuration that was saved last; if none was saved, takes the empty
    /// configuration. If the last saved configuration is damaged, the last good one takes its
    /// place, and [`Self::notice`] says so.
    ///
    /// # Errors
    /// No saved configuration is valid, or the state directory cannot be used. The daemon must not
    /// replace the configuration by an empty one.
    pub fn new(store: Store) -> Result<Self, ResumeError> {
        let loaded = saved::resume(&store)?;
        Ok(Self::from_loaded(store, loaded))
    }

    /// Takes the configuration that the user chose, and saves it as the newest one.
    ///
    /// # Errors
    /// The configuration cannot be read or saved.
    pub fn recover(store: Store, choice: Choice) -> Result<Self, ResumeError> {
        let loaded = saved::recover(&store, choice)?;
        Ok(Self::from_loaded(store, loaded))
    }

    fn from_loaded(store: Store, loaded: saved::Loaded) -> Self {
        let saved::Loaded { revision, ruleset, saved, durable, notice } = loaded;
        let current = Current { revision, durable, ruleset: Arc::new(ruleset) };
        Self { store, current, saved, notice }
    }

    /// A remark for the user after a recovery; `None` otherwise.
    #[must_use]
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Whether the store has a saved configuration.
    #[must_use]
    pub fn was_saved(&self) -> bool {
        self.saved
    }

    /// The configuration.
    #[must_use]
    pub fn current(&self) -> &Current {
        &self.current
    }

    /// Starts the owner. It applies every change to `plane`, starting from the empty configuration.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(self, plane: Arc<dyn Plane>) -> Result<Owner, ResumeError> {
        let Self { store, current, .. } = self;
        // No client waits for these notices; the health resource reports missing interfaces.
        let _ = plane.apply(&Ruleset::default(), &current.ruleset);
        let store = Arc::new(store);
        let shared = Arc::new(RwLock::new(current));
        let (jobs, inbox) = sync_channel(WAITING);
        let work = Work { store: Arc::clone(&store), plane, shared: Arc::clone(&shared), inbox };
        let thread = std::thread::Builder::new()
            .name("weir-config".to_owned())
            .spawn(move || work.run())
            .map_err(ResumeError::Thread)?;
        let budget = Arc::default();
        Ok(Owner { jobs, store, shared, budget, thread: Arc::new(thread) })
    }
}

/// A handle on the owner, which can be cloned and shared between threads. The owner ends with its
/// last handle.
#[derive(Clone, Debug)]
pub struct Owner {
    jobs: SyncSender<Job>,
    store: Arc<Store>,
    /// The configuration in force, which the owner's thread replaces.
    shared: Arc<RwLock<Current>>,
    /// The memory for values from files of requests that have not been executed.
    budget: Arc<Budget>,
    thread: Arc<JoinHandle<()>>,
}

impl Owner {
    /// Whether the owner's thread has ended. While a handle exists, only a panic ends the thread.
    /// No change is possible then.
    #[must_use]
    pub fn has_panicked(&self) -> bool {
        self.thread.is_finished()
    }

    /// Parses a request. This takes time in proportion to the text, but only on the caller's
    /// thread.
    #[must_use]
    pub fn prepare(&self, request: &CommandRequest) -> Prepared {
        if request.script.len() > MOST_SCRIPT {
            return Prepared::too_long(request);
        }
        Prepared::new(request, self.store.files(), &self.budget)
    }

    /// Submits commands. The answer arrives when they are saved and in force, or refused.
    ///
    /// # Errors
    /// Too many changes are waiting, or the daemon is ending.
    pub fn submit(&self, prepared: Prepared, onto: Onto) -> Result<Answer, OwnerError> {
        self.send(
            prepared,
            match onto {
                Onto::Current => Start::Current,
                Onto::Empty => Start::Empty,
            },
        )
    }

    fn send(&self, prepared: Prepared, start: Start) -> Result<Answer, OwnerError> {
        let (reply, answer) = oneshot::channel();
        match self.jobs.try_send(Job { prepared, start, reply }) {
            Ok(()) => Ok(Answer(answer)),
            Err(TrySendError::Full(_)) => Err(OwnerError::Busy),
            Err(TrySendError::Disconnected(_)) => Err(OwnerError::Ended),
        }
    }

    /// Puts an earlier configuration in force again. Unchanged rules keep their counters, and
    /// unchanged pipes their packets. The files that the configuration names must still be stored.
    ///
    /// # Errors
    /// Too many changes are waiting, or the daemon is ending.
    pub fn restore(&self, ruleset: Arc<Ruleset>) -> Result<Answer, OwnerError> {
        let prepared = self.prepare(&CommandRequest::default());
        self.send(prepared, Start::Of(ruleset))
    }

    /// The configuration in force.
    #[must_use]
    pub fn current(&self) -> Current {
        self.shared.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The configuration to which commands are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onto {
    /// The current configuration.
    Current,
    /// The empty configuration: the commands replace the current one.
    Empty,
}

/// The configuration from which a job starts.
#[derive(Debug)]
enum Start {
    Current,
    Empty,
    Of(Arc<Ruleset>),
}

/// A pending answer.
#[derive(Debug)]
pub struct Answer(oneshot::Receiver<Result<CommandReply, OwnerError>>);

impl Answer {
    /// Waits for the answer in a task.
    ///
    /// # Errors
    /// See [`OwnerError`]: for example, the configuration could not be saved.
    pub async fn get(self) -> Result<CommandReply, OwnerError> {
        self.0.await.unwrap_or(Err(OwnerError::Ended))
    }

    /// Waits for the answer in a thread.
    ///
    /// # Errors
    /// See [`OwnerError`]: for example, the configuration could not be saved.
    pub fn wait(self) -> Result<CommandReply, OwnerError> {
        self.0.blocking_recv().unwrap_or(Err(OwnerError::Ended))
    }
}

#[derive(Debug)]
struct Job {
    prepared: Prepared,
    start: Start,
    reply: oneshot::Sender<Result<CommandReply, OwnerError>>,
}

/// The state of the owner's thread.
struct Work {
    store: Arc<Store>,
    plane: Arc<dyn Plane>,
    shared: Arc<RwLock<Current>>,
    inbox: Receiver<Job>,
}

impl Work {
    /// Serves jobs until no handle exists.
    fn run(self) {
        self.store.forget_unnamed();
        loop {
            self.expire();
            match self.inbox.recv_timeout(EXPIRY_CHECK) {
                Ok(first) => {
                    let mut jobs = vec![first];
                    jobs.extend(self.inbox.try_iter().take(MOST_AT_ONCE - 1));
                    self.serve(jobs);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn current(&self) -> Current {
        self.shared.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Executes jobs on one copy and saves once. If that save fails, each job is tried separately,
    /// so that one job that is too large for the disk does not fail the others.
    fn serve(&self, jobs: Vec<Job>) {
        let before = self.current();
        let (mut trial, mut revision) = ((*before.ruleset).clone(), before.revision);
        let (mut answers, mut zero) = (Vec::new(), Vec::new());
        let mut files = Vec::new();
        for job in &jobs {
            let mut copy = match &job.start {
                Start::Current => trial.clone(),
                Start::Empty => Ruleset { next_id: trial.next_id, ..Ruleset::default() },
                // The identities of rules are never reused, because counters belong to identities.
                Start::Of(ruleset) => Ruleset { next_id: trial.next_id, ..(**ruleset).clone() },
            };
            let (mut reply, done) = job.prepared.execute(&mut copy);
            let replaces = !matches!(job.start, Start::Current);
            let changes = reply.applied && (done.changed || replaces);
            if changes {
                trial = copy;
                revision += 1;
                files.extend(job.prepared.files());
            }
            if reply.applied {
                zero.extend(done.zero);
            }
            reply.revision = revision;
            answers.push((reply, done.queries));
        }
        // The lifetime of new `netconfig` links starts here.
        trial.expire(now());
        let notices = match self.commit(&before, trial, revision, &files) {
            Ok(notices) => notices,
            Err(_) if jobs.len() > 1 => {
                for job in jobs {
                    self.serve(vec![job]);
                }
                return;
            }
            Err(error) => {
                for job in jobs {
                    // The client may have disconnected, so a failed reply is ignored.
                    let _ = job.reply.send(Err(error.clone()));
                }
                return;
            }
        };
        let zeroed = if zero.is_empty() { Ok(()) } else { self.plane.zero(Some(&zero)) };
        let mut counters = None;
        for (job, (mut reply, queries)) in jobs.into_iter().zip(answers) {
            if reply.applied {
                reply.notices.extend_from_slice(&notices);
            }
            let of = |kind| reply.outcomes.iter().any(|outcome| outcome.result == kind);
            let (zeroes, changes) = (of(OutcomeKind::Zeroed), of(OutcomeKind::Changed));
            if let (Err(error), true) = (zeroed, zeroes) {
                reply.notices.push(format!("the counters are not reset yet: {error}"));
            }
            let answered = self.answer(&mut reply, queries, &mut counters);
            let answer = match answered {
                // A change is in force, and the client must learn of it.
                Err(error) if changes || zeroes => {
                    reply.notices.push(format!("the queries are not answered: {error}"));
                    Ok(reply)
                }
                Err(error) => Err(error.into()),
                Ok(()) => Ok(reply),
            };
            let _ = job.reply.send(answer);
        }
    }

    /// Answers the queries of one job. All jobs of a save share `counters`, which the first query
    /// fills.
    fn answer(
        &self,
        reply: &mut CommandReply,
        queries: Vec<(usize, Query)>,
        counters: &mut Option<Result<Snapshot, NoAnswer>>,
    ) -> Result<(), NoAnswer> {
        let (mut rows, mut unanswered) = (0, 0);
        for (place, query) in queries {
            if rows > MOST_ROWS {
                unanswered += 1;
                continue;
            }
            let snapshot = counters.get_or_insert_with(|| self.plane.snapshot());
            let snapshot = snapshot.as_ref().map_err(|error| *error)?;
            let source = Counters { plane: &*self.plane, snapshot, failed: Cell::new(None) };
            let answer = show::answer(&query, &self.current().ruleset, &source);
            source.failed.get().map_or(Ok(()), Err)?;
            rows += answer.rows();
            reply.outcomes[place].answer = Some(answer);
        }
        if unanswered > 0 {
            reply.notices.push(format!(
                "{unanswered} queries are not answered, because the answers before them have more \
                 than {MOST_ROWS} rows: ask in another request"
            ));
        }
        Ok(())
    }

    /// Saves a configuration and applies it.
    fn commit(
        &self,
        before: &Current,
        next: Ruleset,
        revision: u64,
        files: &[(&str, &str)],
    ) -> Result<Vec<String>, OwnerError> {
        if revision == before.revision {
            return Ok(Vec::new());
        }
        let script = next.script();
        if script.len() > MOST_CONFIGURATION {
            return Err(OwnerError::TooLong { bytes: script.len() });
        }
        let saved = self.store.save(revision, &script, files)?;
        let next = Arc::new(next);
        let mut notices = self.plane.apply(&before.ruleset, &next);
        if let Durability::Unknown(error) = &saved {
            let directory = self.store.directory().display();
            notices.push(format!(
                "in force, but {directory} did not confirm that it is on disk: {error}. After a \
                 crash, revision {revision} or {} is found; the next change asks for the \
                 confirmation again",
                before.revision
            ));
        }
        *self.shared.write().unwrap_or_else(PoisonError::into_inner) =
            Current { revision, durable: matches!(saved, Durability::OnDisk), ruleset: next };
        Ok(notices)
    }

    /// Deletes the `netconfig` links with an expired lifetime.
    fn expire(&self) {
        let before = self.current();
        let mut next = (*before.ruleset).clone();
        if next.expire(now()) > 0 {
            // If the disk is full, the deletion is retried later, and the links exist longer than
            // configured.
            let _ = self.commit(&before, next, before.revision + 1, &[]);
        }
    }
}

/// The counters of a plane, in the form that `show` prints.
struct Counters<'a> {
    plane: &'a dyn Plane,
    snapshot: &'a Snapshot,
    /// The last error of the plane, if any. `show` cannot return it.
    failed: Cell<Option<NoAnswer>>,
}

impl Counters<'_> {
    /// The answer, or an empty value if there is none. Keeps the error in `failed`.
    fn or_failed<T: Default>(&self, answer: Result<T, NoAnswer>) -> T {
        answer.unwrap_or_else(|error| {
            self.failed.set(Some(error));
            T::default()
        })
    }
}

impl show::Source for Counters<'_> {
    fn rule(&self, id: u32) -> show::RuleCount {
        let counters = self.snapshot.rules.get(&id).copied().unwrap_or_default();
        show::RuleCount {
            packets: counters.packets,
            bytes: counters.bytes,
            last_s: counters.last_match_s,
        }
    }

    fn flows(&self, kind: ObjectKind, number: u16) -> (Vec<show::FlowCount>, u64) {
        self.or_failed(self.plane.flows(kind, number, MOST_SHOWN))
    }

    fn dynamic(&self) -> Vec<show::DynamicView> {
        self.or_failed(self.plane.dynamic())
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Maximum number of waiting requests.
const WAITING: usize = 1024;
/// Maximum number of requests that share one save.
const MOST_AT_ONCE: usize = 256;
/// Maximum number of instances that `show` lists; the API's lists have pages.
const MOST_SHOWN: usize = 1000;
/// When the answers to a request have more rows than this, its further queries are not answered.
const MOST_ROWS: usize = 200_000;
/// Maximum length of a configuration as commands, in bytes. A client's script has the same maximum.
const MOST_CONFIGURATION: usize = MOST_SCRIPT;
/// Interval between checks for expired lifetimes.
const EXPIRY_CHECK: Duration = Duration::from_millis(500);
