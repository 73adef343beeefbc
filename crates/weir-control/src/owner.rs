//! The thread that owns the configuration.
//!
//! Commands come one after another, whoever sends them. Their way: read → carried out on a copy →
//! saved → put in force → acknowledged. So what is acknowledged is on disk, and what is on disk was
//! accepted; a daemon that is killed between two of these steps comes back with the last
//! acknowledged configuration, or with one that was on its way to be.
//!
//! **Group commit.** Syncing a disk takes milliseconds. Commands that wait while one save is under
//! way are carried out together and share the next one, each with an answer of its own.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;
use weir_rules::command::ObjectKind;
use weir_rules::ruleset::Ruleset;
use weir_rules::show;

use crate::api::{CommandReply, CommandRequest};
use crate::plane::{Plane, Snapshot};
use crate::store::{Store, StoreError};

mod request;

pub use request::Prepared;

/// Why commands were not carried out, although nothing is wrong with them.
#[derive(Debug, thiserror::Error)]
pub enum OwnerError {
    /// Too many wait already.
    #[error("{WAITING} changes wait already; try again when some are done")]
    Busy,
    /// The daemon is ending.
    #[error("the daemon is ending")]
    Ended,
    /// The configuration could not be saved.
    #[error("{message}")]
    NotSaved {
        /// Why, and what is in force.
        message: String,
        /// Whether for want of room.
        full: bool,
    },
}

/// Why a daemon cannot start from what is there.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The state directory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The saved configuration is not one.
    #[error("the saved configuration {} is damaged:\n{diagnostics}\nrepair it, or move it away to start with none", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        diagnostics: String,
    },
    /// No thread can be started.
    #[error("cannot start the configuration's thread: {0}")]
    Thread(std::io::Error),
}

/// The configuration that is in force.
#[derive(Clone, Debug, Default)]
pub struct Current {
    /// Its number.
    pub revision: u64,
    /// What it is.
    pub ruleset: Arc<Ruleset>,
}

/// A configuration with the store that it is saved in, before anything moves packets by it.
#[derive(Debug)]
pub struct Resumed {
    store: Store,
    current: Current,
    saved: bool,
}

impl Resumed {
    /// Reads what was saved last; without anything saved, the empty configuration.
    ///
    /// # Errors
    /// What is saved cannot be read: a daemon must not go on as if there had been nothing.
    pub fn new(store: Store) -> Result<Self, ResumeError> {
        let Some(saved) = store.load()? else {
            return Ok(Self { store, current: Current::default(), saved: false });
        };
        let mut ruleset = Ruleset::default();
        let request = CommandRequest {
            script: saved.script,
            name: Some(store.configuration().display().to_string()),
            ..Default::default()
        };
        let prepared = Prepared::new(&request, &store);
        let (reply, _) = prepared.carry_out(&mut ruleset);
        if !reply.applied {
            let lines = reply.diagnostics.iter().map(|d| format!("line {}: {}", d.line, d.message));
            let diagnostics = lines.collect::<Vec<_>>().join("\n");
            return Err(ResumeError::Damaged { path: store.configuration(), diagnostics });
        }
        let current = Current { revision: saved.revision, ruleset: Arc::new(ruleset) };
        Ok(Self { store, current, saved: true })
    }

    /// Whether there was a saved configuration.
    #[must_use]
    pub fn was_saved(&self) -> bool {
        self.saved
    }

    /// The configuration.
    #[must_use]
    pub fn current(&self) -> &Current {
        &self.current
    }

    /// Starts the owner; `plane` is told of every change from the empty configuration on.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(self, plane: Arc<dyn Plane>) -> Result<Owner, ResumeError> {
        let Self { store, current, .. } = self;
        // Nobody is there to be told; health says what is missing.
        let _ = plane.apply(&Ruleset::default(), &current.ruleset);
        let store = Arc::new(store);
        let shared = Arc::new(RwLock::new(current));
        let (jobs, inbox) = sync_channel(WAITING);
        let work = Work {
            store: Arc::clone(&store),
            plane,
            shared: Arc::clone(&shared),
            inbox,
            named: BTreeSet::new(),
        };
        std::thread::Builder::new()
            .name("weir-config".to_owned())
            .spawn(move || work.run())
            .map_err(ResumeError::Thread)?;
        Ok(Owner { jobs, store, shared })
    }
}

/// A handle on the owner; clones and threads are free to use it. The owner ends with its last
/// handle.
#[derive(Clone, Debug)]
pub struct Owner {
    jobs: SyncSender<Job>,
    store: Arc<Store>,
    shared: Arc<RwLock<Current>>,
}

impl Owner {
    /// Reads a request's text. That takes as long as the text is, and nobody waits for it but who
    /// sent it.
    #[must_use]
    pub fn prepare(&self, request: &CommandRequest) -> Prepared {
        Prepared::new(request, &self.store)
    }

    /// Hands commands over; the answer comes when they are saved and in force, or refused.
    ///
    /// # Errors
    /// Too many wait, or the daemon is ending.
    pub fn submit(&self, prepared: Prepared, onto: Onto) -> Result<Answer, OwnerError> {
        let (reply, answer) = oneshot::channel();
        match self.jobs.try_send(Job { prepared, onto, reply }) {
            Ok(()) => Ok(Answer(answer)),
            Err(TrySendError::Full(_)) => Err(OwnerError::Busy),
            Err(TrySendError::Disconnected(_)) => Err(OwnerError::Ended),
        }
    }

    /// The configuration in force.
    #[must_use]
    pub fn current(&self) -> Current {
        self.shared.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What commands change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onto {
    /// The configuration as it is.
    Current,
    /// The empty one: what is configured now is replaced.
    Empty,
}

/// An answer under way.
#[derive(Debug)]
pub struct Answer(oneshot::Receiver<Result<CommandReply, OwnerError>>);

impl Answer {
    /// Waits for it in a task.
    ///
    /// # Errors
    /// The configuration could not be saved, or the daemon is ending.
    pub async fn get(self) -> Result<CommandReply, OwnerError> {
        self.0.await.unwrap_or(Err(OwnerError::Ended))
    }

    /// Waits for it in a thread.
    ///
    /// # Errors
    /// The configuration could not be saved, or the daemon is ending.
    pub fn wait(self) -> Result<CommandReply, OwnerError> {
        self.0.blocking_recv().unwrap_or(Err(OwnerError::Ended))
    }
}

#[derive(Debug)]
struct Job {
    prepared: Prepared,
    onto: Onto,
    reply: oneshot::Sender<Result<CommandReply, OwnerError>>,
}

/// The owner's thread.
struct Work {
    store: Arc<Store>,
    plane: Arc<dyn Plane>,
    shared: Arc<RwLock<Current>>,
    inbox: Receiver<Job>,
    /// The kept files that the saved configuration names.
    named: BTreeSet<PathBuf>,
}

impl Work {
    fn run(mut self) {
        let current = self.current();
        self.named = request::files_of(&current.ruleset);
        self.store.forget_others(&self.named);
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

    /// Carries jobs out on one copy and saves once. When that cannot be saved, each is tried by
    /// itself: one that is too large for the disk must not take the others with it.
    fn serve(&mut self, jobs: Vec<Job>) {
        let before = self.current();
        let (mut trial, mut revision) = ((*before.ruleset).clone(), before.revision);
        let (mut answers, mut zero) = (Vec::new(), Vec::new());
        let mut files = Vec::new();
        for job in &jobs {
            let mut copy = match job.onto {
                Onto::Current => trial.clone(),
                Onto::Empty => Ruleset { next_id: trial.next_id, ..Ruleset::default() },
            };
            let (mut reply, done) = job.prepared.carry_out(&mut copy);
            let changes = reply.applied && (done.changed || job.onto == Onto::Empty);
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
        // From here on, what lasts for a time does.
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
                    // Who asked may have gone.
                    let _ = job.reply.send(Err(OwnerError::NotSaved {
                        message: error.to_string(),
                        full: error.is_full(),
                    }));
                }
                return;
            }
        };
        if !zero.is_empty() {
            self.plane.zero(Some(&zero));
        }
        let mut counters = None;
        for (job, (mut reply, queries)) in jobs.into_iter().zip(answers) {
            for (place, query) in queries {
                let counters = counters.get_or_insert_with(|| Counters {
                    plane: &*self.plane,
                    snapshot: self.plane.snapshot(),
                });
                reply.outcomes[place].answer =
                    Some(show::answer(&query, &self.current().ruleset, counters));
            }
            if reply.applied {
                reply.notices.extend_from_slice(&notices);
            }
            let _ = job.reply.send(Ok(reply));
        }
    }

    /// Saves a configuration and puts it in force.
    fn commit(
        &mut self,
        before: &Current,
        next: Ruleset,
        revision: u64,
        files: &[(&PathBuf, &String)],
    ) -> Result<Vec<String>, StoreError> {
        if revision == before.revision {
            return Ok(Vec::new());
        }
        let named = request::files_of(&next);
        let mut kept = files.iter().filter(|(place, _)| named.contains(*place));
        let saved = kept.try_for_each(|(place, content)| self.store.keep(place, content));
        if let Err(error) = saved.and_then(|()| self.store.save(revision, &next.script())) {
            self.store.forget_others(&self.named);
            return Err(error);
        }
        if named != self.named {
            self.store.forget_others(&named);
            self.named = named;
        }
        let next = Arc::new(next);
        let notices = self.plane.apply(&before.ruleset, &next);
        *self.shared.write().unwrap_or_else(PoisonError::into_inner) =
            Current { revision, ruleset: next };
        Ok(notices)
    }

    /// Deletes what was to last until now.
    fn expire(&mut self) {
        let before = self.current();
        let mut next = (*before.ruleset).clone();
        if next.expire(now()) > 0 {
            // A full disk: it is tried again, and until then lasts longer than it should.
            let _ = self.commit(&before, next, before.revision + 1, &[]);
        }
    }
}

/// The counters of a plane, for what is shown.
struct Counters<'a> {
    plane: &'a dyn Plane,
    snapshot: Snapshot,
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
        self.plane.flows(kind, number, MOST_SHOWN)
    }

    fn dynamic(&self) -> Vec<show::DynamicView> {
        self.plane.dynamic()
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Requests that may wait.
const WAITING: usize = 1024;
/// Requests that share one save.
const MOST_AT_ONCE: usize = 256;
/// Instances of an object that are shown; the API's lists have pages.
const MOST_SHOWN: usize = 1000;
/// How late something may be deleted that was to last until a time.
const EXPIRY_CHECK: Duration = Duration::from_millis(500);
