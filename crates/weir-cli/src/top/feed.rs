//! Queries sessions and the daemon, each on its own thread. A source that does not answer delays
//! neither the other sources nor the view.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_control::api::{
    ChangeRequest, CommandReply, CommandRequest, ConfigurationView, Health, InstancePage, KeyView,
    LengthsView, PipeView, QueueView, Readings, SchedView, SessionView, SeverityView,
};
use weir_control::client::{Client, ClientError, Connection, find_socket};
use weir_control::directory::Found;
use weir_control::server::is_listening;
use weir_control::session_client::SessionClient;

use super::activity::{Kind, of_daemon, of_session};
use super::board::{About, Detail, Id, Key, News};
use crate::sessions::{failure, has_ended, sockets};

/// A request to a source, in addition to its regular readings.
#[derive(Clone, Debug)]
pub(super) enum Request {
    /// Changes a link. A session with rules and the daemon execute `words` as a command instead.
    Change { link: Option<String>, words: String, files: BTreeMap<String, String> },
    /// Resets a link to its specification at the start of the session.
    Reset { link: String },
    /// Adds details of this object of the daemon to each reading; `None` ends the details. Sessions
    /// have no details.
    Focus(Option<(Kind, String)>),
}

/// The threads that query the sources.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) news: Receiver<News>,
    requests: Arc<Requests>,
}

type Requests = Mutex<HashMap<Id, Sender<Request>>>;

impl Feed {
    /// Starts to query the daemon and every session of this user, or only the session with this
    /// name.
    pub(super) fn start(period: Duration, only: Option<String>) -> Self {
        let (sender, news) = sync_channel(QUEUED);
        let requests = Arc::<Requests>::default();
        let scout = Scout { period, only, news: sender, requests: Arc::clone(&requests) };
        std::thread::spawn(move || scout.look());
        Self { news, requests }
    }

    /// Sends a request to a source. A source that has ended gets none.
    pub(super) fn ask(&self, source: &Id, request: Request) {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = requests.get(source) {
            // The thread may just have ended.
            let _ = sender.send(request);
        }
    }

    /// Requests details of the chosen object, and of no other.
    pub(super) fn focus(&self, key: Option<&Key>) {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, sender) in requests.iter() {
            let focus = key.filter(|key| key.source == *id);
            let _ = sender.send(Request::Focus(focus.map(|key| (key.kind, key.name.clone()))));
        }
    }
}

/// Looks for sessions and the daemon, and starts a thread for each.
struct Scout {
    period: Duration,
    /// The name of the only session to query; `None` for all.
    only: Option<String>,
    news: SyncSender<News>,
    requests: Arc<Requests>,
}

impl Scout {
    fn look(self) {
        let wanted = |name: &str| self.only.as_deref().is_none_or(|only| only == name);
        loop {
            let found: Vec<Found> =
                sockets().into_iter().filter(|found| wanted(found.name.as_str())).collect();
            let mut ids: Vec<Id> = Vec::new();
            for Found { name, path } in found.into_iter().take(MOST_SOURCES) {
                let id: Id = path.to_string_lossy().into();
                ids.push(Arc::clone(&id));
                self.follow(id, |poll| poll.session(name.as_str(), &path));
            }
            let daemon = find_socket();
            if wanted(DAEMON) && is_listening(&daemon) {
                let id: Id = daemon.to_string_lossy().into();
                ids.push(Arc::clone(&id));
                self.follow(id, |poll| poll.daemon());
            }
            if self.news.send(News::Found(ids)).is_err() {
                return;
            }
            std::thread::sleep(self.period.max(LOOK));
        }
    }

    /// Starts a thread for a source that has none.
    fn follow(&self, id: Id, start: impl FnOnce(Poll) -> Box<dyn FnOnce() + Send>) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.contains_key(&id) {
            return;
        }
        let (sender, receiver) = channel();
        requests.insert(Arc::clone(&id), sender);
        let poll = Poll {
            id: Arc::clone(&id),
            period: self.period,
            news: self.news.clone(),
            requests: receiver,
            focus: None,
        };
        let (work, all) = (start(poll), Arc::clone(&self.requests));
        std::thread::spawn(move || {
            work();
            all.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        });
    }
}

/// The state of the thread that queries a source.
struct Poll {
    id: Id,
    period: Duration,
    news: SyncSender<News>,
    requests: Receiver<Request>,
    /// The object of which details are reported.
    focus: Option<(Kind, String)>,
}

/// The reason why the thread of a source ends: the view has ended.
struct Over;

impl Poll {
    fn session(self, name: &str, path: &std::path::Path) -> Box<dyn FnOnce() + Send> {
        let (name, path) = (name.to_owned(), path.to_owned());
        Box::new(move || {
            let _ = self.follow_session(&name, &path);
        })
    }

    fn daemon(self) -> Box<dyn FnOnce() + Send> {
        Box::new(move || {
            let _ = self.follow_daemon();
        })
    }

    fn tell(&self, news: News) -> Result<(), Over> {
        self.news.send(news).map_err(|_| Over)
    }

    fn silent(&self, name: &str, error: &ClientError) -> Result<(), Over> {
        let (name, why) = (name.to_owned(), failure(name, error).to_string());
        self.tell(News::Silent { source: Arc::clone(&self.id), name, why })
    }

    /// Waits until `due`, and handles requests. Returns earlier after a change, or if details of
    /// another object are requested, so that the next reading shows them at once.
    fn wait(
        &mut self,
        due: Instant,
        mut change: impl FnMut(Request) -> Result<String, String>,
    ) -> Result<(), Over> {
        loop {
            match self.requests.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(Over),
                Ok(Request::Focus(focus)) => {
                    let anew = self.focus != focus && focus.is_some();
                    self.focus = focus;
                    if anew {
                        return Ok(());
                    }
                }
                Ok(request) => {
                    let words = match &request {
                        Request::Change { words, .. } => words.clone(),
                        _ => "reset".to_owned(),
                    };
                    self.tell(News::Changed { words, answer: change(request) })?;
                    return Ok(());
                }
            }
        }
    }

    fn follow_session(mut self, name: &str, path: &std::path::Path) -> Result<(), Over> {
        let mut client = match SessionClient::new(path, WITHIN) {
            Ok(client) => client,
            Err(error) => return self.silent(name, &error),
        };
        let mut before: Option<Readings> = None;
        loop {
            let asked = Instant::now();
            let read = client.view().and_then(|view| Ok((view, client.readings()?)));
            match read {
                Ok((view, now)) => {
                    let activity = before.as_ref().map(|before| of_session(before, &now, false));
                    let source = Arc::clone(&self.id);
                    self.tell(News::Sample { source, about: of_view(&view), activity })?;
                    let first = before.is_none();
                    before = Some(now);
                    let due = asked + if first { self.period.min(FIRST) } else { self.period };
                    self.wait(due, |request| of_session_change(&mut client, name, request))?;
                }
                Err(error) if has_ended(&error) => {
                    return self.tell(News::Ended { source: Arc::clone(&self.id) });
                }
                Err(error) => {
                    self.silent(name, &error)?;
                    before = None;
                    self.wait(asked + self.period.max(LOOK), |_| Err(NO_ANSWER.to_owned()))?;
                }
            }
        }
    }

    /// Follows the daemon, even across its restarts.
    fn follow_daemon(mut self) -> Result<(), Over> {
        let mut connected: Option<Daemon> = None;
        loop {
            let asked = Instant::now();
            let known = match connected.take() {
                Some(daemon) => Ok(daemon),
                None => Daemon::connect(),
            };
            let read = known.and_then(|mut daemon| Ok((daemon.read()?, daemon)));
            let (Sampled { about, activity }, daemon) = match read {
                Ok(read) => read,
                Err(error) => {
                    self.silent(DAEMON, &error)?;
                    self.wait(asked + self.period.max(LOOK), |_| Err(NO_ANSWER.to_owned()))?;
                    continue;
                }
            };
            let daemon = connected.insert(daemon);
            let first = activity.is_none();
            self.tell(News::Sample { source: Arc::clone(&self.id), about, activity })?;
            if let Some((kind, name)) = self.focus.clone()
                && let Some(detail) = daemon.detail(kind, &name)
            {
                self.tell(News::Detail { source: Arc::clone(&self.id), kind, name, detail })?;
            }
            let due = asked + if first { self.period.min(FIRST) } else { self.period };
            self.wait(due, |request| daemon.change(request))?;
        }
    }
}

pub(super) fn of_view(view: &SessionView) -> About {
    let specs = view.links.iter().map(|link| (link.name.clone(), link.spec.clone()));
    About {
        name: view.name.clone(),
        kind: view.kind.to_string(),
        program: view.program.clone(),
        pid: view.pid.unwrap_or(0),
        rules: view.rules,
        daemon: false,
        specs: Arc::new(specs.collect()),
        problems: view.problems.clone(),
    }
}

fn of_session_change(
    client: &mut SessionClient,
    name: &str,
    request: Request,
) -> Result<String, String> {
    let reply = match request {
        Request::Change { link, words, files } => {
            client.change(link.as_deref(), &ChangeRequest { words, files })
        }
        Request::Reset { link } => client.reset(Some(&link)),
        Request::Focus(_) => return Ok(String::new()),
    };
    let reply = reply.map_err(|error| failure(name, &error).to_string())?;
    if !reply.applied {
        return Err(reply.rendered);
    }
    let links = reply.links.iter().map(|link| format!("{} {}", link.name, link.spec));
    Ok(links.collect::<Vec<_>>().join("; "))
}

/// The daemon, with its last readings.
struct Daemon {
    connection: Connection,
    /// The client that reads the lanes of bridges; `None` unless the user is root or the daemon's
    /// user.
    session: Option<SessionClient>,
    /// The last readings of objects and of lanes.
    before: Option<(LengthsView, Option<Readings>)>,
    /// The revision of the configuration that `specs` describes.
    revision: Option<u64>,
    specs: Arc<BTreeMap<String, String>>,
    client: Client,
}

/// A reading of the daemon. The first reading has no activity.
struct Sampled {
    about: About,
    activity: Option<Vec<super::activity::Activity>>,
}

impl Daemon {
    fn connect() -> Result<Self, ClientError> {
        let path = find_socket();
        let client = Client::new(&path).time_out(WITHIN);
        Ok(Self {
            connection: client.keep()?,
            session: SessionClient::of_daemon(&path, WITHIN).ok(),
            before: None,
            revision: None,
            specs: Arc::default(),
            client,
        })
    }

    fn read(&mut self) -> Result<Sampled, ClientError> {
        let health: Health = self.connection.get("/v1/health")?;
        if self.revision != Some(health.revision) {
            let view: ConfigurationView = self.connection.get("/v1/configuration")?;
            self.specs = Arc::new(specs(&view.script));
            self.revision = Some(view.revision);
        }
        let lengths = self.connection.lengths()?;
        let lanes = self.session.as_mut().map(SessionClient::readings);
        let lanes = match lanes {
            Some(Ok(lanes)) => Some(lanes),
            Some(Err(ClientError::Refused { status: 403 | 404, .. })) => {
                self.session = None;
                None
            }
            Some(Err(error)) => return Err(error),
            None => None,
        };
        let activity = self.before.as_ref().map(|(before, lanes_before)| {
            let mut all = match (lanes_before, &lanes) {
                (Some(before), Some(now)) => of_session(before, now, true),
                _ => Vec::new(),
            };
            all.extend(of_daemon(before, &lengths));
            all
        });
        self.before = Some((lengths, lanes));
        let interfaces = health.bridges.iter().map(|bridge| bridge.interfaces.join(","));
        let about = About {
            name: DAEMON.to_owned(),
            kind: DAEMON.to_owned(),
            program: interfaces.collect::<Vec<_>>().join(" "),
            pid: 0,
            rules: true,
            daemon: true,
            specs: Arc::clone(&self.specs),
            problems: health.problems,
        };
        Ok(Sampled { about, activity })
    }

    /// The daemon's details of one object; `None` if they cannot be read, for example because the
    /// object has just been deleted.
    fn detail(&mut self, kind: Kind, name: &str) -> Option<Detail> {
        let list = kind.list()?;
        let path = format!("/v1/{list}/{name}");
        let mut detail = match kind {
            Kind::Pipe => {
                let view: PipeView = self.connection.get(&path).ok()?;
                let delay = Some(view.state.queue_ns).filter(|queue| queue.count > 0);
                let aqm = view.aqm.map(|aqm| ("AQM".to_owned(), aqm.algorithm));
                let reasons = view.state.counters.drop_counts().in_words().collect();
                Detail { lines: aqm.into_iter().collect(), delay, reasons, ..Detail::default() }
            }
            Kind::Sched => {
                let view: SchedView = self.connection.get(&path).ok()?;
                let delay = Some(view.state.queue_ns).filter(|queue| queue.count > 0);
                let lines = vec![("algorithm".to_owned(), view.algorithm)];
                let reasons = view.state.counters.drop_counts().in_words().collect();
                Detail { lines, delay, reasons, ..Detail::default() }
            }
            _ => {
                let view: QueueView = self.connection.get(&path).ok()?;
                let lines = vec![
                    ("scheduler".to_owned(), view.scheduler.to_string()),
                    ("weight".to_owned(), view.weight.to_string()),
                ];
                let reasons = view.state.reasons.drop_counts().in_words().collect();
                Detail { lines, reasons, ..Detail::default() }
            }
        };
        let page: InstancePage =
            self.connection.get(&format!("{path}/instances?limit={INSTANCES}")).ok()?;
        detail.total = page.total;
        detail.instances = page
            .instances
            .iter()
            .map(|one| {
                let drops = one.reasons.total_drops();
                (key_words(&one.key), one.queue_packets, one.bytes_in, drops)
            })
            .collect();
        Some(detail)
    }

    fn change(&mut self, request: Request) -> Result<String, String> {
        let Request::Change { words, files, .. } = request else {
            return Err("the daemon has no start to go back to".to_owned());
        };
        let request = CommandRequest { script: words, files, ..CommandRequest::default() };
        let reply = self.client.commands(&request).map_err(|error| error.to_string())?;
        answer(&reply)
    }
}

fn answer(reply: &CommandReply) -> Result<String, String> {
    if !reply.applied {
        let errors = reply
            .diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.severity == SeverityView::Error)
            .map(|diagnostic| diagnostic.message.clone());
        return Err(errors.collect::<Vec<_>>().join("; "));
    }
    let commands = reply.outcomes.iter().map(|outcome| outcome.command.clone());
    Ok(commands.chain(reply.notices.iter().cloned()).collect::<Vec<_>>().join("; "))
}

/// The specifications of pipes, schedulers and queues in a configuration, by kind and number.
pub(super) fn specs(script: &str) -> BTreeMap<String, String> {
    let mut specs = BTreeMap::new();
    for line in script.lines() {
        if let Some((object, spec)) = line.split_once(" config")
            && ["pipe ", "sched ", "queue "].iter().any(|kind| object.starts_with(kind))
        {
            specs.insert(object.to_owned(), spec.trim().to_owned());
        }
    }
    specs
}

/// The fields of a mask's key that are set, in words.
fn key_words(key: &KeyView) -> String {
    let mut words = Vec::new();
    let port = |port: u16| if port == 0 { String::new() } else { format!(":{port}") };
    if key.proto != 0 {
        words.push(format!("proto {}", key.proto));
    }
    if key.src_ip.is_some() || key.src_port != 0 {
        let address = key.src_ip.map(|address| address.to_string()).unwrap_or_default();
        words.push(format!("from {address}{}", port(key.src_port)));
    }
    if key.dst_ip.is_some() || key.dst_port != 0 {
        let address = key.dst_ip.map(|address| address.to_string()).unwrap_or_default();
        words.push(format!("to {address}{}", port(key.dst_port)));
    }
    for (name, value) in [
        ("src-mac", key.src_mac),
        ("dst-mac", key.dst_mac),
        ("flow", key.flow_id.into()),
        ("vlan", key.vlan.into()),
        ("dscp", key.dscp.into()),
    ] {
        if value != 0 {
            let hex = name.ends_with("mac");
            words.push(if hex {
                format!("{name} {value:012x}")
            } else {
                format!("{name} {value}")
            });
        }
    }
    if words.is_empty() { "all packets".to_owned() } else { words.join(" ") }
}

/// The name of the daemon among the sessions.
pub(super) const DAEMON: &str = "serve";
/// The longest wait for an answer. A session itself waits at most five seconds for its links.
const WITHIN: Duration = Duration::from_secs(8);
/// The shortest time between two searches for sessions.
const LOOK: Duration = Duration::from_secs(1);
/// The longest time between the first two readings.
const FIRST: Duration = Duration::from_millis(500);
/// Maximum number of messages that wait for the view. A source that sends a further message waits.
const QUEUED: usize = 64;
/// Maximum number of sessions that are shown.
const MOST_SOURCES: usize = 256;
/// Maximum number of instances in the details of an object.
const INSTANCES: usize = 20;
const NO_ANSWER: &str = "it does not answer";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_come_from_the_configuration() {
        let script = "pipe 1 config bw 4Mbit/s delay 20ms\nsched 2 config type wf2q+\n\
                      queue 3 config sched 2 weight 5\npipe 9 config\nadd 100 pipe 1 ip from any to any";
        let specs = specs(script);
        let of = |object: &str| specs.get(object).map(String::as_str);
        assert_eq!(of("pipe 1"), Some("bw 4Mbit/s delay 20ms"));
        assert_eq!((of("sched 2"), of("queue 3")), (Some("type wf2q+"), Some("sched 2 weight 5")));
        assert_eq!((of("pipe 9"), specs.len()), (Some(""), 4));
    }

    #[test]
    fn keys_name_only_the_fields_of_their_mask() {
        assert_eq!(key_words(&KeyView::default()), "all packets");
        let key = KeyView {
            dst_ip: Some("10.0.0.7".parse().unwrap()),
            dst_port: 443,
            proto: 6,
            ..KeyView::default()
        };
        assert_eq!(key_words(&key), "proto 6 to 10.0.0.7:443");
        assert_eq!(key_words(&KeyView { vlan: 5, ..KeyView::default() }), "vlan 5");
    }
}
