//! The agent: it shapes containers and pods as their labels and annotations say.
//!
//! [`Watch`] and [`Nri`] report from their own threads which containers and pods start and end. One
//! thread, which calls [`Agent::run`], reads labels and attaches. Each container then has its own
//! session and live loop, so that a busy container does not delay the others. A keeper thread holds
//! the session until the container ends. One control socket shows and changes all sessions.

mod board;
mod wish;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use weir_attach::{AttachError, Container, Engine, Nri, Pod, PodSeen, Seen, Site, Watch};
use weir_linux::process::Signals;
use weir_rules::canonical;

use self::board::{Board, Remote};
use self::wish::{Wish, one_line};
use crate::changes::Changes;
use crate::remote::{About, Reserved, Served};
use crate::session::held::{HeldSite, HoldEnd};
use crate::session::{LiveSession, Observation, SessionConfig, Tuning};

/// The container engines that an agent follows, and how its links run.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The container engines, each with its socket if it does not use the usual socket.
    pub engines: Vec<(Engine, Option<PathBuf>)>,
    /// The socket of the Node Resource Interface; `None` if the agent does not use this interface.
    pub nri: Option<PathBuf>,
    /// Whether an engine or runtime that has never answered is a problem; `false` if the user named
    /// none.
    pub all_required: bool,
    /// How each container's loop uses the machine.
    pub tuning: Tuning,
    /// The seed of all random draws. The seed of each container is derived from it.
    pub seed: u64,
}

/// An event for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// A container engine or runtime answers, and the agent has looked at all its containers.
    Answers {
        /// The engine, or `nri`.
        source: &'static str,
        /// Name and version, where they are known.
        version: String,
    },
    /// A container engine or runtime does not answer.
    Silent {
        /// The engine, or `nri`.
        source: &'static str,
        /// The reason.
        reason: String,
    },
    /// A container is shaped from now on.
    Shaped {
        /// The container.
        who: Who,
        /// The container's links with their specifications.
        links: Vec<(String, String)>,
    },
    /// A container is not shaped.
    Refused {
        /// The container.
        who: Who,
        /// The reason.
        reason: String,
    },
    /// A container has ended.
    Ended(Who),
}

/// A container or pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The engine, or `nri`.
    pub source: &'static str,
    /// The engine's identifier.
    pub id: String,
    /// The name; unique among the containers that engines and runtimes have described.
    pub name: String,
}

/// Shapes containers and pods that carry labels. Once the agent is dropped, all packets pass
/// unshaped.
pub struct Agent {
    /// Receives the reports of other threads.
    inbox: Receiver<Message>,
    /// The sending end of `inbox`, of which each keeper gets a clone.
    outbox: SyncSender<Message>,
    _watches: Vec<Watch>,
    _nri: Option<Nri>,
    board: Board,
    entries: BTreeMap<Key, Entry>,
    /// The engines and runtimes that have answered.
    answered: BTreeSet<&'static str>,
    /// For each engine or runtime that does not answer, the last reason.
    silent: BTreeMap<&'static str, String>,
    config: AgentConfig,
    began: Instant,
    /// Number of the last attempt to start a session.
    runs: u64,
}

/// The engine and the identifier of a container.
type Key = (&'static str, String);

/// A container or pod with labels for Weir.
struct Entry {
    name: String,
    place: Place,
    /// The links; `None` if the labels are wrong.
    wish: Option<Wish>,
    /// The session, while the container is shaped.
    held: Option<Held>,
    /// The time of the next attempt to attach; `None` while none is planned.
    retry: Option<Instant>,
    /// The pause before the next attempt.
    pause: Duration,
    /// The last reason why the container is not shaped.
    reason: Option<String>,
}

/// A container or a pod, as its engine or runtime described it.
enum Place {
    Container(Container),
    Pod(Pod),
}

/// A session with its keeper.
struct Held {
    /// The number of the session.
    run: u64,
    /// Set when the session has to end.
    over: Arc<AtomicBool>,
    changes: Changes,
    keeper: JoinHandle<()>,
}

/// A report of another thread to the agent.
enum Message {
    Seen(Engine, Seen),
    /// The sender is dropped when the agent has looked at the pod.
    Pod(PodSeen, Sender<()>),
    /// The session with this number has ended, for this reason.
    Held(Key, u64, HoldEnd),
}

impl Agent {
    /// Starts to follow the engines. Nothing is shaped until [`Agent::run`].
    ///
    /// # Errors
    /// The address of an engine is no Unix socket, or the system has no thread left.
    pub fn start(config: AgentConfig) -> Result<Agent, AttachError> {
        allow_files();
        let (outbox, inbox) = sync_channel(MOST_WAITING);
        let mut watches = Vec::new();
        for (engine, socket) in config.engines.clone() {
            let outbox = outbox.clone();
            let select = |_: &str, labels: &weir_attach::Labels| {
                labels.keys().any(|name| wish::is_ours(name))
            };
            // If the agent has ended, the report is not needed.
            let report = move |seen| drop(outbox.send(Message::Seen(engine, seen)));
            watches.push(Watch::start(engine, socket, select, report)?);
        }
        let nri = match config.nri.clone() {
            None => None,
            Some(socket) => {
                let outbox = outbox.clone();
                Some(Nri::start(socket, move |seen| report_pod(&outbox, seen))?)
            }
        };
        Ok(Agent {
            inbox,
            outbox,
            _watches: watches,
            _nri: nri,
            board: Board::default(),
            entries: BTreeMap::new(),
            answered: BTreeSet::new(),
            silent: BTreeMap::new(),
            config,
            began: Instant::now(),
            runs: 0,
        })
    }

    /// Answers on a control socket from now on. `stop` ends the agent as SIGTERM does.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub fn serve(
        &self,
        reserved: Reserved,
        about: About,
        stop: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Served> {
        let (board, began) = (self.board.clone(), self.began);
        reserved
            .serve_as(|name| Arc::new(Remote { board, name, about, began, stop: Box::new(stop) }))
    }

    /// Shapes containers and pods that carry labels until a signal other than SIGUSR1 and SIGUSR2
    /// arrives. `report` receives each event. Afterwards all packets pass unshaped.
    ///
    /// # Errors
    /// Signals cannot be read.
    pub fn run(
        &mut self,
        signals: &Signals,
        mut report: impl FnMut(&AgentEvent),
    ) -> io::Result<()> {
        let ended = loop {
            match signals.next() {
                Ok(Some(signal)) if IGNORED.contains(&signal.number) => {}
                Ok(Some(_)) => break Ok(()),
                Ok(None) => {}
                Err(error) => break Err(error),
            }
            match self.inbox.recv_timeout(TICK) {
                Ok(message) => self.take(message, &mut report),
                Err(RecvTimeoutError::Timeout) => {}
                // This cannot happen, because the agent itself holds a sender.
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
            }
            self.retry(&mut report);
        };
        self.release();
        ended
    }

    fn take(&mut self, message: Message, report: &mut dyn FnMut(&AgentEvent)) {
        match message {
            Message::Seen(engine, seen) => {
                let source = source_of(engine);
                match seen {
                    Seen::Answers => self.answers(source, String::new(), report),
                    Seen::Silent(reason) => self.silent(source, &reason, report),
                    Seen::Started(container) => {
                        let (id, name) = (container.id.clone(), container.name.clone());
                        let wish = wish::read(&container.labels);
                        self.started(
                            &(source, id),
                            &name,
                            Place::Container(container),
                            wish,
                            report,
                        );
                    }
                    Seen::Ended(id) => self.ended(&(source, id), report),
                    Seen::Unclear { id, name, reason } => {
                        let who = Who { source, id, name: display(&name) };
                        let reason = one_line(&reason);
                        report(&AgentEvent::Refused { who, reason });
                    }
                }
            }
            Message::Pod(seen, _looked_at) => match seen {
                PodSeen::Answers(version) => self.answers(NRI, one_line(&version), report),
                PodSeen::Silent(reason) => self.silent(NRI, &reason, report),
                PodSeen::Started { pod, .. } => {
                    let (id, name) = (pod.id.clone(), pod.name.clone());
                    let wish = wish::read(&pod.annotations);
                    self.started(&(NRI, id), &name, Place::Pod(pod), wish, report);
                }
                PodSeen::Ended(id) => self.ended(&(NRI, id), report),
            },
            Message::Held(key, run, end) => self.session_ended(&key, run, end, report),
        }
    }

    /// Records that an engine or runtime answers.
    fn answers(
        &mut self,
        source: &'static str,
        version: String,
        report: &mut dyn FnMut(&AgentEvent),
    ) {
        self.answered.insert(source);
        self.silent.remove(source);
        self.board.rows().problems.remove(source);
        report(&AgentEvent::Answers { source, version });
    }

    /// Records that an engine or runtime does not answer.
    fn silent(&mut self, source: &'static str, reason: &str, report: &mut dyn FnMut(&AgentEvent)) {
        let is_problem = self.config.all_required || self.answered.contains(source);
        let reason = one_line(reason);
        if self.silent.get(source) == Some(&reason) {
            return;
        }
        self.silent.insert(source, reason.clone());
        if is_problem {
            self.board.rows().problems.insert(source.to_owned(), reason.clone());
        }
        report(&AgentEvent::Silent { source, reason });
    }

    /// Handles the start of a container: attaches to it if its labels are right.
    fn started(
        &mut self,
        key: &Key,
        name: &str,
        place: Place,
        wish: Result<Wish, String>,
        report: &mut dyn FnMut(&AgentEvent),
    ) {
        self.forget(key);
        let name = self.unique(name);
        let (wish, wrong) = match wish {
            Ok(wish) => (Some(wish), None),
            Err(why) => (None, Some(why)),
        };
        let entry =
            Entry { name, place, wish, held: None, retry: None, pause: PAUSE, reason: None };
        self.entries.insert(key.clone(), entry);
        match wrong {
            Some(why) => self.refused(key, why, report),
            None => self.attach(key, report),
        }
    }

    /// Attaches to a container, or sets the time of the next attempt.
    fn attach(&mut self, key: &Key, report: &mut dyn FnMut(&AgentEvent)) {
        let run = self.runs + 1;
        self.runs = run;
        let Some(entry) = self.entries.get_mut(key) else { return };
        let Some(wish) = &entry.wish else { return };
        entry.retry = None;
        let session = begin(&entry.place, &entry.name, wish, &self.config);
        let outbox = self.outbox.clone();
        let held = session.and_then(|session| {
            let changes = Changes::new(session.control());
            let over = Arc::<AtomicBool>::default();
            let keeper = keep(session, &over, key.clone(), run, outbox);
            let keeper = keeper.map_err(|error| format!("no thread could be started: {error}"))?;
            Ok(Held { run, over, changes, keeper })
        });
        match held {
            Ok(held) => {
                let links = held.changes.links();
                let texts = |link: crate::session::Link| (link.name, canonical(&link.spec));
                let links = links.into_iter().map(texts).collect();
                let mut rows = self.board.rows();
                rows.problems.remove(&entry.name);
                rows.shaped.insert(entry.name.clone(), held.changes.clone());
                drop(rows);
                (entry.held, entry.reason, entry.pause) = (Some(held), None, PAUSE);
                report(&AgentEvent::Shaped { who: who(key, entry), links });
            }
            Err(reason) => {
                entry.retry = Some(Instant::now() + entry.pause);
                entry.pause = (entry.pause * 2).min(LONGEST_PAUSE);
                self.refused(key, one_line(&reason), report);
            }
        }
    }

    /// Notes why a container is not shaped.
    fn refused(&mut self, key: &Key, reason: String, report: &mut dyn FnMut(&AgentEvent)) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if entry.reason.as_ref() == Some(&reason) {
            return;
        }
        entry.reason = Some(reason.clone());
        self.board.rows().problems.insert(entry.name.clone(), reason.clone());
        report(&AgentEvent::Refused { who: who(key, entry), reason });
    }

    fn ended(&mut self, key: &Key, report: &mut dyn FnMut(&AgentEvent)) {
        let Some(entry) = self.entries.get(key) else { return };
        let who = who(key, entry);
        self.forget(key);
        report(&AgentEvent::Ended(who));
    }

    /// Removes a container from the agent's lists, and ends its session, if it has one, without
    /// waiting for the end.
    fn forget(&mut self, key: &Key) {
        let Some(entry) = self.entries.remove(key) else { return };
        let mut rows = self.board.rows();
        rows.shaped.remove(&entry.name);
        rows.problems.remove(&entry.name);
        drop(rows);
        if let Some(held) = entry.held {
            held.end();
        }
    }

    /// Handles the end of a session: attaches again, or sets the time of the next attempt.
    fn session_ended(
        &mut self,
        key: &Key,
        run: u64,
        end: HoldEnd,
        report: &mut dyn FnMut(&AgentEvent),
    ) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        // If this thread has ended the session, the container may already have a new session.
        let Some(held) = entry.held.take_if(|held| held.run == run) else { return };
        self.board.rows().shaped.remove(&entry.name);
        let now = Instant::now();
        match end {
            HoldEnd::Changed => {
                // Changes that users made stay in force.
                if let Some(wish) = current(&held.changes) {
                    entry.wish = Some(wish);
                }
                self.attach(key, report);
            }
            HoldEnd::Gone => {
                // The engine soon reports the end of the container or its new process.
                entry.retry = Some(now + entry.pause);
            }
            HoldEnd::Asked | HoldEnd::Failed => {
                entry.retry = Some(now + entry.pause);
                self.refused(key, "its live loop has ended".to_owned(), report);
            }
        }
    }

    /// Makes another attempt to attach to a container, if one is due.
    fn retry(&mut self, report: &mut dyn FnMut(&AgentEvent)) {
        let now = Instant::now();
        let is_due = |(_, entry): &(&Key, &Entry)| entry.retry.is_some_and(|at| at <= now);
        // Attach to only one container at a time, so that messages do not wait long.
        let due = self.entries.iter().find(is_due).map(|(key, _)| key.clone());
        if let Some(key) = due {
            self.attach(&key, report);
        }
    }

    /// Ends all sessions, and waits for them.
    fn release(&mut self) {
        let held: Vec<Held> =
            self.entries.values_mut().filter_map(|entry| entry.held.take()).collect();
        held.iter().for_each(Held::signal);
        // The keepers send their last messages to the inbox, which must not be full.
        while held.iter().any(|held| !held.keeper.is_finished()) {
            let _ = self.inbox.recv_timeout(TICK);
        }
        self.entries.clear();
        *self.board.rows() = board::Rows::default();
    }

    /// A name that no other container has.
    fn unique(&self, name: &str) -> String {
        let name = display(name);
        let is_free = |name: &String| self.entries.values().all(|entry| entry.name != *name);
        let numbered = (2u64..).map(|n| format!("{name}-{n}"));
        std::iter::once(name.clone()).chain(numbered).find(is_free).unwrap_or_default()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.release();
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Held {
    fn signal(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.keeper.thread().unpark();
    }

    fn end(self) {
        self.signal();
    }
}

/// Raises the limit of open files to the permitted maximum. A container takes about 18 descriptors.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, containers beyond the limit are refused with the kernel's reason.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Reports a pod. For a new pod, waits for at most [`POD_SHAPED_WITHIN`] until the agent has looked
/// at it, because the runtime starts the pod's containers when this function returns.
fn report_pod(outbox: &SyncSender<Message>, seen: PodSeen) {
    let is_new = matches!(seen, PodSeen::Started { is_new: true, .. });
    let (looked_at, wait) = channel();
    // If the agent has ended, the report is not needed.
    let sent = outbox.send(Message::Pod(seen, looked_at));
    if is_new && sent.is_ok() {
        let _ = wait.recv_timeout(POD_SHAPED_WITHIN);
    }
}

/// Attaches to a container, and starts its links.
fn begin(
    place: &Place,
    name: &str,
    wish: &Wish,
    config: &AgentConfig,
) -> Result<LiveSession<HeldSite>, String> {
    let site = match place {
        Place::Container(container) => Site::of_container(container),
        Place::Pod(pod) => match &pod.network {
            Some(path) => Site::of_namespace(name, path),
            None => return Err(ON_HOST.to_owned()),
        },
    };
    let site = site.map_err(|error| error.to_string())?;
    if site.is_on_host() {
        return Err(ON_HOST.to_owned());
    }
    let held = HeldSite::open(site, name).map_err(|error| error.to_string())?;
    let emulation = held.links(&wish.up, &wish.down);
    let config = SessionConfig::new(held, emulation)
        .seed(config.seed.wrapping_add(hash(name)))
        .tuning(config.tuning)
        .observation(Observation::Nothing)
        .outlives_ports();
    let prepared = LiveSession::build(config).map_err(|error| error.to_string())?;
    prepared.start().map_err(|error| error.to_string())
}

/// Holds a session on a separate thread.
fn keep(
    mut session: LiveSession<HeldSite>,
    over: &Arc<AtomicBool>,
    key: Key,
    run: u64,
    outbox: SyncSender<Message>,
) -> io::Result<JoinHandle<()>> {
    let over = Arc::clone(over);
    // The runtime starts a pod's containers when the agent answers. Their first packets must be
    // shaped even if the thread does not run yet.
    session.shape();
    std::thread::Builder::new().name("weir-keeper".to_owned()).spawn(move || {
        let end = session.hold(&over);
        // The packets already pass unshaped, so an error at the end of the loop no longer matters.
        let _ = session.stop();
        let _ = outbox.send(Message::Held(key, run, end));
    })
}

/// The specifications that are now in force for the two links of a session.
fn current(changes: &Changes) -> Option<Wish> {
    let links = changes.links();
    let of = |end: &str| links.iter().find(|link| link.name.ends_with(end));
    Some(Wish { up: of(".up")?.spec.clone(), down: of(".down")?.spec.clone() })
}

fn who(key: &Key, entry: &Entry) -> Who {
    Who { source: key.0, id: key.1.clone(), name: entry.name.clone() }
}

fn source_of(engine: Engine) -> &'static str {
    match engine {
        Engine::Docker => "docker",
        Engine::Podman => "podman",
    }
}

/// A name for users: at most [`LONGEST_NAME`] plain characters.
fn display(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let plain = |c: char| if is_plain(c) { c } else { '-' };
    let name: String = name.chars().take(LONGEST_NAME).map(plain).collect();
    if name.is_empty() { "container".to_owned() } else { name }
}

/// A number for a name (FNV-1a), so that the links of two containers lose different packets.
fn hash(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The reason why a container in the machine's network is not shaped.
const ON_HOST: &str = "it has no network of its own: it uses the machine's network";
/// The value of [`Who::source`] for pods.
const NRI: &str = "nri";
/// The signals that do not end the agent.
const IGNORED: [i32; 2] = [Signal::USR1.as_raw(), Signal::USR2.as_raw()];
/// The interval at which the agent checks for signals and for attempts that are due.
const TICK: Duration = Duration::from_millis(50);
/// The first pause before the next attempt to attach to a container. Each further pause is twice as
/// long, up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The longest wait for a new pod to be shaped. It is shorter than the runtime's own limit.
const POD_SHAPED_WITHIN: Duration = Duration::from_secs(1);
/// Maximum number of waiting reports. A thread that reports more waits for a free place.
const MOST_WAITING: usize = 256;
/// Maximum length of a name in characters.
const LONGEST_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_bounded() {
        assert_eq!(display("shop/web-1_a.b"), "shop/web-1_a.b");
        assert_eq!(display("a b\x1b[2J\u{202e}"), "a-b--2J-");
        assert_eq!(display(""), "container");
        assert_eq!(display(&"n".repeat(1000)).len(), LONGEST_NAME);
        assert_ne!(hash("a"), hash("b"));
    }
}
