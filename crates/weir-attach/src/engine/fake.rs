//! An engine for tests: it listens on a socket and answers as the test says.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::kind::Engine;
use super::watch::{Seen, Watch};

/// Answers a request, given by its path, on the connection.
type Answer = Box<dyn FnMut(&str, &mut UnixStream) + Send>;

/// A fake engine, with its socket in a temporary directory. Dropping it removes the directory.
pub(super) struct Fake {
    directory: PathBuf,
    answer: Arc<Mutex<Answer>>,
}

impl Fake {
    /// An engine that does not listen yet.
    pub(super) fn new(answer: impl FnMut(&str, &mut UnixStream) + Send + 'static) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-fake-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory");
        Self { directory, answer: Arc::new(Mutex::new(Box::new(answer))) }
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join("engine.sock")
    }

    /// Listens from now on. Each connection has one request.
    pub(super) fn listen(&self) {
        let listener = UnixListener::bind(self.socket()).expect("a free name");
        let answer = Arc::clone(&self.answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(mut stream), answer) = (stream, Arc::clone(&answer)) else { return };
                std::thread::spawn(move || {
                    let path = path_of(&mut stream);
                    let mut answer = answer.lock().expect("no answer panics");
                    (*answer)(&path, &mut stream);
                });
            }
        });
    }

    /// Follows the containers with a label of Weir.
    pub(super) fn watch(&self) -> (Watch, Receiver<Seen>) {
        let (sender, seen) = channel();
        let watch = Watch::start(
            Engine::Docker,
            Some(self.socket()),
            |_, labels| labels.keys().any(|name| name.starts_with("weir.")),
            move |seen| drop(sender.send(seen)),
        );
        (watch.expect("a thread"), seen)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn path_of(stream: &mut UnixStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).split(' ').nth(1).unwrap_or_default().to_owned()
}

/// Writes a whole answer. The other end may already be closed.
pub(super) fn reply(stream: &mut UnixStream, body: &str) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}

/// Writes the beginning of an answer without an end, and keeps its connection open.
pub(super) fn stream(stream: &mut UnixStream) -> UnixStream {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    stream.try_clone().expect("a descriptor")
}

/// A container in the list, and its description. The process 0 means that the container has
/// stopped.
pub(super) fn container(id: &str, pid: u32, labels: &str) -> (String, String) {
    let state = if pid == 0 { "exited" } else { "running" };
    let listed =
        format!(r#"{{"Id":"{id}","Names":["/name-{id}"],"State":"{state}","Labels":{labels}}}"#);
    let running = pid != 0;
    let inspected = format!(
        r#"{{"Id":"{id}","Name":"/name-{id}","State":{{"Running":{running},"Pid":{pid},
        "StartedAt":"t"}},"HostConfig":{{"NetworkMode":"bridge"}},"Config":{{"Labels":{labels}}}}}"#
    );
    (listed, inspected)
}

pub(super) fn next(seen: &Receiver<Seen>) -> Seen {
    match seen.recv_timeout(Duration::from_secs(60)) {
        Ok(seen) => seen,
        Err(RecvTimeoutError::Timeout) => panic!("there is no report"),
        Err(RecvTimeoutError::Disconnected) => panic!("the watch has ended"),
    }
}

/// The containers of a [`Fake`], which the test changes.
pub(super) struct World {
    /// The identifier, the first process and the labels of each container.
    pub(super) containers: Arc<Mutex<Vec<(String, u32, String)>>>,
    events: Receiver<UnixStream>,
}

impl World {
    pub(super) fn new(containers: &[(&str, u32, &str)]) -> (Self, Fake) {
        let owned =
            |(id, pid, labels): &(&str, u32, &str)| (id.to_string(), *pid, labels.to_string());
        let shared = Arc::new(Mutex::new(containers.iter().map(owned).collect::<Vec<_>>()));
        let (sender, events): (Sender<UnixStream>, _) = channel();
        let of_answers = Arc::clone(&shared);
        let fake = Fake::new(move |path, connection| {
            let containers = of_answers.lock().expect("no holder panics");
            let both = |(id, pid, labels): &(String, u32, String)| container(id, *pid, labels);
            if path.starts_with("/events") {
                drop(sender.send(stream(connection)));
            } else if path.starts_with("/containers/json") {
                let items: Vec<String> = containers.iter().map(|one| both(one).0).collect();
                reply(connection, &format!("[{}]", items.join(",")));
            } else {
                let found = containers.iter().find(|(id, ..)| path.contains(id.as_str()));
                match found {
                    Some(one) => reply(connection, &both(one).1),
                    None => drop(connection.write_all(b"HTTP/1.1 404 Not Found\r\n\r\n")),
                }
            }
        });
        (Self { containers: shared, events }, fake)
    }

    /// Changes the process of a container, and writes an event about it.
    pub(super) fn set(&self, events: &mut UnixStream, id: &str, pid: u32) {
        let mut containers = self.containers.lock().expect("no holder panics");
        let found = containers.iter_mut().find(|(other, ..)| other == id);
        found.expect("it exists").1 = pid;
        let line = format!(
            "{{\"Type\":\"container\",\"Action\":\"start\",\"Actor\":{{\"ID\":\"{id}\"}}}}\n"
        );
        events.write_all(line.as_bytes()).expect("the watch reads");
    }

    /// The stream of events that the watch has opened.
    pub(super) fn events(&self) -> UnixStream {
        self.events.recv_timeout(Duration::from_secs(60)).expect("the watch asks for events")
    }
}
