//! Reports which containers of an engine run, start and end.
//!
//! An event of the engine only tells the watch which container to look at. The watch relies on the
//! container's description and on the list of all containers. It reads the list at the start, after
//! a broken connection, after events that it left out, and every 30 seconds. A lost event therefore
//! delays a report but never falsifies it. While the engine does not answer, its containers count
//! as running: they may outlive the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;

use super::api::{self, Api, Fault};
use super::container::{
    Container, Inspected, LIST, Labels, Listed, MOST_CONTAINERS, inspect, is_identifier, plain_name,
};
use super::kind::Engine;
use crate::error::AttachError;

/// An event that a [`Watch`] reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The engine answers, and every running container that the watch follows was reported.
    Answers,
    /// The engine does not answer, for this reason. The watch keeps asking it. The earlier reports
    /// remain valid.
    Silent(String),
    /// A container runs.
    Started(Container),
    /// A container that was reported, given by its identifier, does not run any more.
    Ended(String),
    /// The engine gives no usable description of a container.
    Unclear {
        /// The container's identifier.
        id: String,
        /// The container's name, or its identifier if the watch does not know the name.
        name: String,
        /// The reason.
        reason: String,
    },
}

/// A thread that reports the containers of an engine. Dropping the watch ends the thread.
pub struct Watch {
    stop: Arc<AtomicBool>,
}

impl Watch {
    /// Follows the containers with a name and labels that `select` accepts. `socket` replaces the
    /// engine's usual socket. The watch's thread calls `report`, so a slow `report` delays the next
    /// report.
    ///
    /// # Errors
    /// The address of the engine is no Unix socket, or the system has no thread left.
    pub fn start(
        engine: Engine,
        socket: Option<PathBuf>,
        select: impl Fn(&str, &Labels) -> bool + Send + 'static,
        report: impl FnMut(Seen) + Send + 'static,
    ) -> Result<Watch, AttachError> {
        let api = match socket {
            Some(socket) => Api::at(engine, socket),
            None => Api::of(engine)?,
        };
        let stop = Arc::<AtomicBool>::default();
        let follower = Follower {
            api,
            select: Box::new(select),
            report: Box::new(report),
            known: BTreeMap::new(),
            unclear: BTreeSet::new(),
            stop: Arc::clone(&stop),
        };
        std::thread::Builder::new()
            .name(format!("weir-{engine}"))
            .spawn(move || follower.follow())
            .map_err(AttachError::Io)?;
        Ok(Watch { stop })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The thread ends after its request, which takes a few seconds at most.
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

type Select = Box<dyn Fn(&str, &Labels) -> bool + Send>;

struct Follower {
    api: Api,
    select: Select,
    report: Box<dyn FnMut(Seen) + Send>,
    /// The first process and the start time of each reported container that runs, by identifier.
    known: BTreeMap<String, (u32, String)>,
    /// The containers that were reported as [`Seen::Unclear`].
    unclear: BTreeSet<String>,
    stop: Arc<AtomicBool>,
}

impl Follower {
    fn follow(mut self) {
        let runtime = match api::runtime() {
            Ok(runtime) => runtime,
            Err(error) => return (self.report)(Seen::Silent(error.to_string())),
        };
        runtime.block_on(async {
            let mut pause = FIRST_PAUSE;
            while !self.stopped() {
                let began = Instant::now();
                if let Err(fault) = self.connected().await {
                    (self.report)(Seen::Silent(fault.into_text()));
                }
                pause = if began.elapsed() > STEADY { FIRST_PAUSE } else { pause };
                let until = Instant::now() + pause;
                while Instant::now() < until && !self.stopped() {
                    tokio::time::sleep(TICK).await;
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        });
    }

    /// Follows the engine until the connection breaks, or the watch is dropped.
    async fn connected(&mut self) -> Result<(), Fault> {
        // The stream begins before the list is read, so that no event between the two is missed.
        let mut events = Events::new(self.api.events().await?);
        let mut answered = false;
        while !self.stopped() {
            self.list().await?;
            if !answered {
                (self.report)(Seen::Answers);
                answered = true;
            }
            let listed = Instant::now();
            while listed.elapsed() < LIST_EVERY && !self.stopped() {
                let touched = match tokio::time::timeout(TICK, events.next()).await {
                    Ok(touched) => touched.map_err(|why| self.api.failed(why))?,
                    Err(_) => continue,
                };
                for id in &touched {
                    self.look(id, None).await?;
                }
                if events.lost() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Compares the engine's list with the reported containers.
    async fn list(&mut self) -> Result<(), Fault> {
        let listed: Vec<Listed> = self.api.ask(LIST).await?;
        let of_ours = |item: &&Listed| {
            let none = Labels::new();
            is_identifier(&item.id)
                && (self.select)(item.name(), item.labels.as_ref().unwrap_or(&none))
        };
        let runs = |item: &&Listed| item.state.is_empty() || RUNS.contains(&&*item.state);
        let ids: Vec<(String, String)> = listed
            .iter()
            .filter(runs)
            .filter(of_ours)
            .take(MOST_CONTAINERS)
            .map(|item| (item.id.clone(), item.name().to_owned()))
            .collect();
        drop(listed);
        let gone: Vec<String> = self
            .known
            .keys()
            .filter(|known| !ids.iter().any(|(id, _)| id == *known))
            .cloned()
            .collect();
        for id in gone {
            self.ended(&id);
        }
        self.unclear.retain(|unclear| ids.iter().any(|(id, _)| id == unclear));
        for (id, name) in ids {
            self.look(&id, Some(&name)).await?;
        }
        Ok(())
    }

    /// Asks for the description of a container, and reports whether the container has started or
    /// ended. A container without a usable description is reported as [`Seen::Unclear`], and the
    /// watch still follows all other containers.
    async fn look(&mut self, id: &str, name: Option<&str>) -> Result<(), Fault> {
        let inspected: Inspected = match self.api.ask(&inspect(id)).await {
            Ok(inspected) => inspected,
            Err(Fault::Missing(_)) => {
                self.ended(id);
                return Ok(());
            }
            Err(Fault::Answer(reason)) => {
                if self.unclear.len() < MOST_CONTAINERS && self.unclear.insert(id.to_owned()) {
                    let name = name.unwrap_or(id).to_owned();
                    (self.report)(Seen::Unclear { id: id.to_owned(), name, reason });
                }
                return Ok(());
            }
            Err(fault) => return Err(fault),
        };
        self.unclear.remove(id);
        let none = Labels::new();
        let labels = inspected.config.labels.as_ref().unwrap_or(&none);
        let selected = (self.select)(plain_name(&inspected.name), labels);
        let Some(container) = inspected.running().filter(|_| selected) else {
            self.ended(id);
            return Ok(());
        };
        let run = (container.pid, container.started.clone());
        match self.known.get(id) {
            Some(known) if *known == run => return Ok(()),
            Some(_) => self.ended(id),
            None if self.known.len() >= MOST_CONTAINERS => return Ok(()),
            None => {}
        }
        self.known.insert(id.to_owned(), run);
        (self.report)(Seen::Started(Container { id: id.to_owned(), ..container }));
        Ok(())
    }

    fn ended(&mut self, id: &str) {
        if self.known.remove(id).is_some() {
            (self.report)(Seen::Ended(id.to_owned()));
        }
    }
}

/// The stream of an engine's events. It yields the identifiers of the containers concerned.
struct Events {
    body: Incoming,
    lines: Lines,
    /// Bytes that were read since the last pause.
    read: usize,
}

impl Events {
    fn new(body: Incoming) -> Self {
        Self { body, lines: Lines::default(), read: 0 }
    }

    fn lost(&mut self) -> bool {
        self.lines.lost()
    }

    /// The containers of the next events, without duplicates.
    async fn next(&mut self) -> Result<BTreeSet<String>, &'static str> {
        if self.read > MOST_AT_ONCE {
            tokio::time::sleep(TICK / 2).await;
            self.read = 0;
        }
        let mut touched = BTreeSet::new();
        let frame = match self.body.frame().await {
            Some(Ok(frame)) => frame,
            _ => return Err("it ended its stream of events"),
        };
        let Ok(data) = frame.into_data() else { return Ok(touched) };
        self.read += data.len();
        self.lines.take(&data, &mut touched)?;
        Ok(touched)
    }
}

/// The lines of a stream of events.
#[derive(Debug, Default)]
struct Lines {
    /// The bytes of an incomplete line.
    line: Vec<u8>,
    /// The number of skipped bytes of a line that is too long; 0 for any other line.
    skipped: usize,
    lost: bool,
}

impl Lines {
    /// Whether events were left out since the last call.
    fn lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    /// Splits data into lines, and adds the containers of their events to `touched`.
    fn take(&mut self, data: &[u8], touched: &mut BTreeSet<String>) -> Result<(), &'static str> {
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            let ends = part.ends_with(b"\n");
            if self.skipped > 0 || self.line.len() + part.len() > LONGEST_LINE {
                self.skipped += self.line.len() + part.len();
                self.line = Vec::new();
                self.lost = true;
                if self.skipped > LONGEST_SKIPPED {
                    return Err("one of its events does not end");
                }
            } else {
                self.line.extend_from_slice(part);
            }
            if !ends {
                continue;
            }
            if self.skipped == 0 && self.line.iter().any(|byte| !byte.is_ascii_whitespace()) {
                match touched_by(&self.line) {
                    Ok(Some(id)) if touched.len() < MOST_CONTAINERS => drop(touched.insert(id)),
                    Ok(Some(_)) => self.lost = true,
                    Ok(None) => {}
                    Err(()) => return Err("its events are not understood"),
                }
            }
            self.skipped = 0;
            self.line.clear();
        }
        Ok(())
    }
}

/// The container that an event is about, if it may have started or ended.
fn touched_by(line: &[u8]) -> Result<Option<String>, ()> {
    #[derive(Deserialize)]
    struct Event {
        #[serde(default, rename = "Type")]
        kind: String,
        #[serde(default, rename = "Action")]
        action: String,
        #[serde(default, rename = "Actor")]
        actor: Actor,
    }
    #[derive(Default, Deserialize)]
    struct Actor {
        #[serde(default, rename = "ID")]
        id: String,
    }
    let event: Event = serde_json::from_slice(line).map_err(|_| ())?;
    let may_start_or_end = STARTS_AND_ENDS.contains(&&*event.action);
    let is_ours = event.kind == "container" && may_start_or_end && is_identifier(&event.actor.id);
    Ok(is_ours.then_some(event.actor.id))
}

/// The listed states of containers that may have processes.
const RUNS: &[&str] = &["running", "paused", "restarting", "stopping"];
/// The actions after which a container may have started, ended or changed its name. Other actions
/// are ignored: some are frequent, such as health checks, and some occur while a container starts,
/// when the engine does not describe it.
const STARTS_AND_ENDS: &[&str] = &[
    "start", "restart", "unpause", "die", "died", "stop", "cleanup", "destroy", "remove", "rename",
];
/// The interval at which the thread checks whether it should end.
const TICK: Duration = Duration::from_millis(100);
/// The first and the longest pause before a lost engine is asked again. Each pause is twice as long
/// as the pause before it.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// After a connection that lasted longer than this, the next pause is [`FIRST_PAUSE`].
const STEADY: Duration = Duration::from_secs(5);
/// The interval at which the list is read in addition to the events.
const LIST_EVERY: Duration = Duration::from_secs(30);
/// Maximum length of an event in bytes. The engine puts all labels of a container into it.
const LONGEST_LINE: usize = 1 << 20;
/// Maximum length of a skipped event in bytes.
const LONGEST_SKIPPED: usize = 16 << 20;
/// The bytes of events after which the thread pauses, so that a flood does not occupy a processor.
const MOST_AT_ONCE: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::super::fake::{Fake, World, container, next, reply, stream};
    use super::*;

    const OURS: &str = r#"{"weir.up":"1M"}"#;

    fn started(seen: Seen) -> (String, u32) {
        match seen {
            Seen::Started(container) => (container.id, container.pid),
            seen => panic!("not a start: {seen:?}"),
        }
    }

    #[test]
    fn containers_are_followed_from_the_list_and_the_events() {
        let (world, fake) = World::new(&[("aa", 7, OURS), ("bb", 8, "{}"), ("cc", 0, OURS)]);
        let (_watch, seen) = fake.watch();
        assert!(matches!(next(&seen), Seen::Silent(_)), "no engine listens yet");
        fake.listen();
        let mut reports: Vec<Seen> = std::iter::repeat_with(|| next(&seen))
            .skip_while(|seen| matches!(seen, Seen::Silent(_)))
            .take(2)
            .collect();
        assert_eq!(reports.pop(), Some(Seen::Answers));
        assert_eq!(started(reports.remove(0)), ("aa".into(), 7));
        let mut events = world.events();
        // Neither an event without a change nor one of an unfollowed container is reported.
        world.set(&mut events, "aa", 7);
        world.set(&mut events, "bb", 9);
        world.set(&mut events, "cc", 10);
        assert_eq!(started(next(&seen)), ("cc".into(), 10));
        world.set(&mut events, "aa", 11);
        assert_eq!(next(&seen), Seen::Ended("aa".into()), "its old process has ended");
        assert_eq!(started(next(&seen)), ("aa".into(), 11));
        world.set(&mut events, "aa", 0);
        assert_eq!(next(&seen), Seen::Ended("aa".into()));
        // While the engine is away, one container starts and another one goes on.
        world.containers.lock().expect("no holder panics").push(("dd".into(), 12, OURS.into()));
        events.shutdown(std::net::Shutdown::Both).expect("it is open");
        assert!(matches!(next(&seen), Seen::Silent(_)));
        assert_eq!(started(next(&seen)), ("dd".into(), 12), "and cc is not reported again");
        assert_eq!(next(&seen), Seen::Answers);
    }

    #[test]
    fn a_container_without_a_usable_description_leaves_the_others_alone() {
        let fake = Fake::new(|path, connection| {
            let (aa, bb) = (container("aa", 7, OURS), container("bb", 8, OURS));
            match path {
                "/containers/json?all=1" => reply(connection, &format!("[{},{}]", aa.0, bb.0)),
                "/containers/aa/json" => reply(connection, "<html>&%\u{1b}[2J"),
                "/containers/bb/json" => reply(connection, &bb.1),
                _ => drop(stream(connection).write_all(b" ")),
            }
        });
        fake.listen();
        let (_watch, seen) = fake.watch();
        assert!(matches!(next(&seen), Seen::Unclear { name, .. } if name == "name-aa"));
        assert_eq!(started(next(&seen)), ("bb".into(), 8));
        assert_eq!(next(&seen), Seen::Answers);
    }

    /// The first report about an engine that answers each request with `answer`.
    fn first_of(
        answer: impl FnMut(&str, &mut std::os::unix::net::UnixStream) + Send + 'static,
    ) -> Seen {
        let fake = Fake::new(answer);
        fake.listen();
        let (_watch, seen) = fake.watch();
        next(&seen)
    }

    #[test]
    fn an_engine_that_answers_nonsense_counts_as_silent() {
        let silent = |seen: Seen, part: &str| match seen {
            Seen::Silent(text) => assert!(text.contains(part), "{text}"),
            seen => panic!("{seen:?}"),
        };
        silent(first_of(|_, connection| drop(connection.write_all(b"\0\xff"))), "docker at");
        silent(first_of(|_, connection| reply(connection, "no JSON")), "not understood");
        let refused = b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n";
        silent(first_of(|_, connection| drop(connection.write_all(refused))), "answers 500");
        // The engine never answers, and the connection stays open.
        let mut kept = Vec::new();
        let never = move |_: &str, connection: &mut std::os::unix::net::UnixStream| {
            kept.extend(connection.try_clone());
        };
        silent(first_of(never), "did not answer within");
        // A list without an end.
        silent(
            first_of(|path, connection| {
                let mut stream = stream(connection);
                let brackets = vec![b'['; 1 << 20];
                while !path.starts_with("/events") && stream.write_all(&brackets).is_ok() {}
            }),
            "length limit exceeded",
        );
        // A line without an end among the events.
        let endless = first_of(|path, connection| {
            if path.starts_with("/events") {
                let mut stream = stream(connection);
                let text = vec![b'x'; 1 << 20];
                std::thread::spawn(move || while stream.write_all(&text).is_ok() {});
            } else {
                reply(connection, "[]");
            }
        });
        assert_eq!(endless, Seen::Answers, "the list is read first");
    }

    #[test]
    fn events_are_split_into_lines_of_bounded_length() {
        let (id, mut touched) = ("0a".repeat(32), BTreeSet::new());
        let line = format!(
            "{{\"Type\":\"container\",\"Action\":\"start\",\"Actor\":{{\"ID\":\"{id}\"}}}}\n"
        );
        let mut lines = Lines::default();
        for part in line.as_bytes().chunks(7) {
            lines.take(part, &mut touched).expect("it is an event");
        }
        assert!(touched.contains(&id) && !lines.lost());
        // A line that is too long is skipped, and the line after it is read.
        let long = vec![b'x'; LONGEST_LINE + 1];
        touched.clear();
        lines.take(&long, &mut touched).expect("it is skipped");
        lines.take(b"\n", &mut touched).expect("it ends");
        assert!(lines.lost() && touched.is_empty());
        lines.take(line.as_bytes(), &mut touched).expect("it is an event");
        assert!(touched.contains(&id) && !lines.lost());
        // A line without an end is not read for ever.
        let mut endless = std::iter::repeat_with(|| lines.take(&long, &mut touched));
        assert!(
            endless.by_ref().take(1 + LONGEST_SKIPPED / LONGEST_LINE).any(|read| read.is_err())
        );
        assert!(Lines::default().take(b"no JSON\n", &mut touched).is_err());
    }

    #[test]
    fn only_containers_that_may_have_started_or_ended_are_looked_at() {
        let about = |kind: &str, action: &str, id: &str| {
            let text =
                format!(r#"{{"Type":"{kind}","Action":"{action}","Actor":{{"ID":"{id}"}}}}"#);
            touched_by(text.as_bytes()).expect("it is an event").is_some()
        };
        assert!(about("container", "start", "0a") && about("container", "died", "0a"));
        assert!(!about("network", "connect", "0a") && !about("container", "start", "../x"));
        assert!(!about("container", "exec_create: /bin/sh", "0a"));
        assert!(!about("container", "create", "0a"), "it does not run yet");
        assert!(!about("container", "health_status: healthy", "0a"));
        assert_eq!(touched_by(b"{}"), Ok(None));
    }
}
