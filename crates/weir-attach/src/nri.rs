//! The Node Resource Interface (NRI) of containerd and CRI-O: a plugin that follows pods.
//!
//! The plugin connects to the runtime's socket and registers. The runtime then lists its pods, and
//! reports each pod that starts or ends. The plugin asks for nothing else and changes nothing. The
//! runtime reports a new pod after the setup of the pod's network and before the start of its first
//! container.
//!
//! Messages are encoded in protobuf ([`wire`]), and ttrpc carries them in the frames of a
//! multiplexer ([`frames`]). The plugin uses eight methods of the protocol, which these modules
//! implement in a few hundred lines. Every length is bounded. The libraries for the protocol would
//! bring an asynchronous runtime and generated code.

mod frames;
mod wire;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use self::frames::{Connection, Kind, Trunk};
use self::wire::{Fields, Malformed, Value};
use crate::engine::{Labels, MOST_CONTAINERS, MOST_LABELS, shorten};

/// A pod with annotations of Weir.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// The runtime's identifier of the pod.
    pub id: String,
    /// The pod's name, after its namespace and a slash.
    pub name: String,
    /// The annotations that begin with `weir/`, bounded like the labels of a container.
    pub annotations: Labels,
    /// The pod's network namespace; `None` if the pod uses the machine's network.
    pub network: Option<PathBuf>,
}

/// An event that an [`Nri`] reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodSeen {
    /// The runtime with this name and version answers, and every pod with annotations of Weir was
    /// reported.
    Answers(String),
    /// The runtime does not answer, for this reason. The plugin keeps trying to connect. The
    /// earlier reports remain valid.
    Silent(String),
    /// A pod runs. If the pod is new, the runtime starts its containers only after the report
    /// function has returned.
    Started {
        /// The pod.
        pod: Pod,
        /// Whether the pod has just been set up. A pod in the runtime's list is not new.
        is_new: bool,
    },
    /// The pod with this identifier, which was reported, has ended.
    Ended(String),
}

/// A plugin: a thread that reports pods. Dropping it ends the thread.
pub struct Nri {
    stop: Arc<AtomicBool>,
}

impl Nri {
    /// The runtimes' usual socket.
    pub const SOCKET: &'static str = "/var/run/nri/nri.sock";

    /// Follows the pods of the runtime that listens on this socket. The plugin's thread calls
    /// `report`. If a call for a new pod takes longer than two seconds, the runtime ends the
    /// connection.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(socket: PathBuf, report: impl FnMut(PodSeen) + Send + 'static) -> io::Result<Nri> {
        let stop = Arc::<AtomicBool>::default();
        let plugin = Plugin {
            report: Box::new(report),
            known: BTreeSet::new(),
            listed: BTreeSet::new(),
            runtime: String::new(),
            stop: Arc::clone(&stop),
        };
        std::thread::Builder::new()
            .name("weir-nri".to_owned())
            .spawn(move || plugin.follow(&socket))?;
        Ok(Nri { stop })
    }
}

impl Drop for Nri {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for Nri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nri").finish_non_exhaustive()
    }
}

struct Plugin {
    report: Box<dyn FnMut(PodSeen) + Send>,
    /// The identifiers of the reported pods that run.
    known: BTreeSet<String>,
    /// The identifiers in the list of pods, while the runtime sends the list in parts.
    listed: BTreeSet<String>,
    runtime: String,
    stop: Arc<AtomicBool>,
}

impl Plugin {
    fn follow(mut self, socket: &Path) {
        while !self.stopped() {
            if let Err(reason) = self.connected(socket) {
                (self.report)(PodSeen::Silent(reason));
            }
            let until = Instant::now() + PAUSE;
            while Instant::now() < until && !self.stopped() {
                std::thread::sleep(TICK);
            }
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Serves the runtime until the connection breaks, or the plugin is dropped.
    fn connected(&mut self, socket: &Path) -> Result<(), String> {
        // The last connection may have ended before its list was complete.
        self.listed.clear();
        let place = socket.display();
        let stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("you may not use {place}, the socket of NRI: try sudo")
            }
            _ => format!(
                "no runtime listens on {place}; containerd (1.7 or newer) and CRI-O do if NRI is \
                 enabled"
            ),
        })?;
        let broken = |error: frames::Broken| format!("the runtime at {place}: {error}");
        let mut trunk = Trunk::new(stream, TICK).map_err(broken)?;
        let mut register = Vec::new();
        wire::put_text(&mut register, 1, NAME);
        wire::put_text(&mut register, 2, INDEX);
        let request = wire::request(RUNTIME_SERVICE, "RegisterPlugin", &register);
        trunk.send(Connection::ToRuntime, 1, Kind::Request, &request).map_err(broken)?;
        let (began, mut configured) = (Instant::now(), false);
        while !self.stopped() {
            if !configured && began.elapsed() > REGISTERED_WITHIN {
                let limit = REGISTERED_WITHIN.as_secs();
                return Err(format!("the runtime at {place} did not register within {limit} s"));
            }
            let Some((connection, message)) = trunk.next().map_err(broken)? else { continue };
            match (connection, message.kind) {
                (Connection::ToRuntime, Kind::Response) => {
                    if let Some(words) = wire::refusal(&message.payload) {
                        return Err(format!("the runtime at {place} refuses the plugin: {words}"));
                    }
                }
                (Connection::ToPlugin, Kind::Request) => {
                    let reply = self.answer(&message.payload);
                    configured = true;
                    trunk
                        .send(Connection::ToPlugin, message.stream, Kind::Response, &reply)
                        .map_err(broken)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn answer(&mut self, payload: &[u8]) -> Vec<u8> {
        let answered = wire::method(payload).and_then(|(method, body)| self.call(&method, body));
        match answered {
            Ok(Some(body)) => wire::response(&body),
            Ok(None) => wire::status(UNIMPLEMENTED, "Weir does not implement this method"),
            Err(Malformed) => wire::status(INVALID, "Weir does not understand the request"),
        }
    }

    /// The reply of a method; `None` if there is no such method.
    fn call(&mut self, method: &str, body: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
        let mut reply = Vec::new();
        match method {
            "Configure" => {
                let [_, name, version] = texts(body)?;
                self.runtime = format!("{name} {version}").trim().to_owned();
                wire::put_number(&mut reply, 2, EVENTS);
            }
            "Synchronize" => self.synchronize(body, &mut reply)?,
            "RunPodSandbox" => self.changed(RUN, body, 1)?,
            "StopPodSandbox" => self.changed(STOP, body, 1)?,
            "RemovePodSandbox" => self.changed(REMOVE, body, 1)?,
            // Runtimes before NRI 0.11 report these three events with one method.
            "StateChange" => {
                let mut event = 0;
                for field in Fields::new(body) {
                    if let (1, Value::Number(number)) = field? {
                        event = number;
                    }
                }
                self.changed(event, body, 2)?;
            }
            "Shutdown" => {}
            _ => return Ok(None),
        }
        Ok(Some(reply))
    }

    /// Compares the runtime's list of pods with the reported pods. The list may arrive in several
    /// parts.
    fn synchronize(&mut self, body: &[u8], reply: &mut Vec<u8>) -> Result<(), Malformed> {
        let mut more = false;
        for field in Fields::new(body) {
            match field? {
                (1, Value::Bytes(bytes)) => {
                    let pod = pod(bytes)?;
                    let id = pod.id.clone();
                    self.started(pod, false);
                    // Only followed pods enter `listed`, so its length is bounded.
                    if self.known.contains(&id) {
                        self.listed.insert(id);
                    }
                }
                (3, Value::Number(number)) => more = number != 0,
                _ => {}
            }
        }
        if more {
            // The field `more` of the reply confirms that the list continues.
            wire::put_number(reply, 2, 1);
            return Ok(());
        }
        let listed = std::mem::take(&mut self.listed);
        let gone: Vec<String> = self.known.difference(&listed).cloned().collect();
        gone.iter().for_each(|id| self.ended(id));
        (self.report)(PodSeen::Answers(self.runtime.clone()));
        Ok(())
    }

    /// Handles an event. Field `number` of the message holds the pod.
    fn changed(&mut self, event: u64, body: &[u8], number: u32) -> Result<(), Malformed> {
        for field in Fields::new(body) {
            let (field, Value::Bytes(bytes)) = field? else { continue };
            if field != number {
                continue;
            }
            let pod = pod(bytes)?;
            match event {
                RUN => self.started(pod, true),
                STOP | REMOVE => self.ended(&pod.id),
                _ => {}
            }
        }
        Ok(())
    }

    fn started(&mut self, pod: Pod, is_new: bool) {
        let is_ours = !pod.annotations.is_empty() && !pod.id.is_empty();
        if is_ours && self.known.len() < MOST_CONTAINERS && self.known.insert(pod.id.clone()) {
            (self.report)(PodSeen::Started { pod, is_new });
        }
    }

    fn ended(&mut self, id: &str) {
        if self.known.remove(id) {
            (self.report)(PodSeen::Ended(id.to_owned()));
        }
    }
}

/// The texts in the fields 1, 2 and 3 of a message.
fn texts(body: &[u8]) -> Result<[String; 3], Malformed> {
    let mut texts = [const { String::new() }; 3];
    for field in Fields::new(body) {
        if let (number @ 1..=3, Value::Bytes(bytes)) = field? {
            texts[number as usize - 1] = wire::text(bytes)?;
        }
    }
    Ok(texts)
}

fn pod(body: &[u8]) -> Result<Pod, Malformed> {
    let (mut pod, mut name, mut namespace) = (Pod::default(), String::new(), String::new());
    for field in Fields::new(body) {
        match field? {
            (1, Value::Bytes(bytes)) => pod.id = wire::text(bytes)?,
            (2, Value::Bytes(bytes)) => name = wire::text(bytes)?,
            (4, Value::Bytes(bytes)) => namespace = wire::text(bytes)?,
            (6, Value::Bytes(bytes)) if pod.annotations.len() < MOST_LABELS => {
                let [mut key, mut value, _] = texts(bytes)?;
                if key.starts_with(PREFIX) {
                    shorten(&mut key);
                    shorten(&mut value);
                    pod.annotations.insert(key, value);
                }
            }
            (8, Value::Bytes(bytes)) => pod.network = network(bytes)?,
            _ => {}
        }
    }
    pod.name = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
    Ok(pod)
}

/// The network namespace in the part of a pod's description that is specific to Linux.
fn network(body: &[u8]) -> Result<Option<PathBuf>, Malformed> {
    for field in Fields::new(body) {
        let (5, Value::Bytes(bytes)) = field? else { continue };
        let [kind, path, _] = texts(bytes)?;
        if kind == "network" && path.starts_with('/') {
            return Ok(Some(path.into()));
        }
    }
    Ok(None)
}

/// The plugin's name, and its index. The runtime calls plugins in the order of their indexes.
const NAME: &str = "weir";
const INDEX: &str = "90";
const RUNTIME_SERVICE: &str = "nri.pkg.api.v1alpha1.Runtime";
/// The events of pods, and the set of all three as bits.
const RUN: u64 = 1;
const STOP: u64 = 2;
const REMOVE: u64 = 3;
const EVENTS: u64 = 0b111;
/// The status codes with which the plugin refuses requests.
const INVALID: u64 = 3;
const UNIMPLEMENTED: u64 = 12;
/// The start of the names of Weir's annotations.
const PREFIX: &str = "weir/";
/// The interval at which the thread checks whether it should end.
const TICK: Duration = Duration::from_millis(100);
/// The pause before the plugin connects to a lost runtime again.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest wait for the runtime's first request.
const REGISTERED_WITHIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
