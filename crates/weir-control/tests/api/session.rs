//! The control socket of a session, over a real socket with links that only record their changes.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;
use weir_control::api::{
    ChangeReply, ChangeRequest, LinkReading, Readings, SessionKind, SessionLink, SessionView,
};
use weir_control::client::ClientError;
use weir_control::directory::Directory;
use weir_control::server::{
    Access, GRACE, MetricsFormat, Server, session_metrics, session_openapi,
};
use weir_control::session::{Session, SessionError};
use weir_control::session_client::SessionClient;

use super::Scratch;

#[test]
fn a_session_shows_changes_and_ends() {
    let lab = SessionLab::new();
    let mut client = lab.client();
    assert_eq!(client.view().unwrap().name, "curl");
    // The server reports PID 1, as from another PID namespace; the client replaces it.
    assert_eq!(client.view().unwrap().pid, Some(std::process::id()));
    let words = |words: &str| ChangeRequest { words: words.into(), ..ChangeRequest::default() };
    let reply = client.change(Some("down"), &words("delay 80ms")).unwrap();
    assert!(reply.applied && reply.links.len() == 1, "{reply:?}");
    assert_eq!(client.change(None, &words("loss 2%")).unwrap().links.len(), 2);
    let refused = client.change(None, &words("wrong")).unwrap();
    assert!(!refused.applied && refused.rendered.contains("wrong"), "{refused:?}");
    assert_eq!(client.reset(Some("up")).unwrap().links[0].name, "up");
    assert_eq!(client.reset(None).unwrap().links.len(), 2);
    assert_eq!(client.results().unwrap(), "{}\n");
    let readings = client.readings().unwrap();
    assert_eq!((readings.at_ns, readings.links[1].name.as_str()), (7, "down"));
    let changes = lab.links.changes.lock().unwrap().clone();
    assert_eq!(changes, ["down: delay 80ms", "*: loss 2%", "*: wrong", "up: reset", "*: reset"]);
    client.stop().unwrap();
    assert_eq!(lab.links.stops.load(Ordering::Relaxed), 1);
}

#[test]
fn an_unknown_link_is_refused_with_the_links_that_there_are() {
    let lab = SessionLab::new();
    for name in ["side", "../up", "up/down", "reset", "", "ü"] {
        let request = ChangeRequest { words: "loss 0".into(), ..ChangeRequest::default() };
        let error = lab.client().change(Some(name), &request).unwrap_err();
        assert!(
            matches!(&error, ClientError::Refused { status: 404 | 405, .. }),
            "{name:?}: {error:?}"
        );
        let names = error.to_string().contains("up, down");
        assert!(names || name.is_empty(), "{name:?}: {error}");
    }
    assert!(lab.links.changes.lock().unwrap().is_empty());
}

#[test]
fn a_session_has_metrics_of_its_links() {
    let lab = SessionLab::new();
    let get = |accept: &str| {
        lab.raw(&format!(
            "GET /metrics HTTP/1.1\r\nHost: weir\r\nConnection: close\r\nAccept: {accept}\r\n\r\n"
        ))
    };
    let (open, classic) = (get("*/*"), get("text/plain"));
    assert!(open.contains("application/openmetrics-text") && open.ends_with("# EOF\n"), "{open}");
    assert!(classic.contains("text/plain; version=0.0.4"), "{classic}");
    for link in ["up", "down"] {
        let series = format!(
            "weir_session_link_packets_total{{session=\"curl\",link=\"{link}\",path=\"false\",\
             direction=\"in\"}} "
        );
        assert!(open.contains(&series) && classic.contains(&series), "{series}{open}");
    }
    assert!(classic.contains("weir_session_uptime_seconds{session=\"curl\",kind=\"run\"} "));
}

#[test]
fn names_of_links_cannot_end_their_label() {
    let name = "a\"b\\c\nd".to_owned();
    let readings = Readings {
        links: vec![LinkReading { name: name.clone(), ..LinkReading::default() }],
        ..Readings::default()
    };
    let view = SessionLab::new().client().view().unwrap();
    let text = session_metrics(&[(view, readings)], MetricsFormat::OpenMetrics);
    assert!(text.contains("link=\"a\\\"b\\\\c\\nd\""), "{text}");
}

#[test]
fn wrong_bodies_are_refused_and_change_nothing() {
    let lab = SessionLab::new();
    let patch = |kind: &str, length: usize, body: &str| {
        lab.raw(&format!(
            "PATCH /v1/links HTTP/1.1\r\nHost: weir\r\nConnection: close\r\nContent-Type: \
             {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    };
    let json = |body: &str| patch("application/json", body.len(), body);
    for (answer, status) in [
        (json("{"), "400"),
        (json("[]"), "400"),
        (json("{\"words\": \"loss 0\", \"surplus\": 1}"), "400"),
        (json("{\"words\": 7}"), "400"),
        (patch("text/plain", 2, "{}"), "415"),
        (patch("application/json", 40 << 20, ""), "413"),
        (lab.raw("PUT /v1/links HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n"), "405"),
        (lab.raw("GET /v1/pipes HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n"), "404"),
        (lab.raw("nonsense\r\n\r\n"), "400"),
        (lab.raw(&format!("GET /{} HTTP/1.1\r\nHost: weir\r\n\r\n", "x".repeat(70_000))), "414"),
    ] {
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{status}: {answer:?}");
    }
    assert!(lab.links.changes.lock().unwrap().is_empty());
    assert_eq!(lab.client().view().unwrap().name, "curl");
}

#[test]
fn the_number_of_connections_is_bounded_and_the_end_does_not_wait_for_them() {
    let _alone = super::connections::alone();
    let mut lab = SessionLab::new();
    let half = b"GET /v1/session HTTP/1.1\r\nHost: we";
    let mut held: Vec<UnixStream> = (0..MOST)
        .map(|_| {
            let mut stream = UnixStream::connect(lab.socket()).unwrap();
            stream.write_all(half).unwrap();
            stream
        })
        .collect();
    let error = lab.client().view().unwrap_err();
    assert!(
        matches!(&error, ClientError::Refused { status: 503, message } if message.contains("256")),
        "{error:?}"
    );
    held.truncate(MOST / 2);
    // The server notices the closed connections a moment later.
    let answers = (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        lab.client().view().is_ok()
    });
    assert!(answers, "half of the connections are free again");
    let server = lab.server.take().unwrap();
    let (ended, end) = channel();
    std::thread::spawn(move || {
        drop(server);
        ended.send(()).unwrap();
    });
    end.recv_timeout(GRACE).expect("half-sent heads do not delay the end");
    assert!(!lab.socket().exists(), "the end removes the socket");
}

#[test]
fn another_user_is_refused_even_if_the_socket_is_open_to_all() {
    if !geteuid().is_root() {
        return eprintln!("SKIPPED: needs root to be two users");
    }
    let lab = SessionLab::new();
    let path = lab.socket();
    let as_other = {
        let path = path.clone();
        move || {
            std::thread::spawn(move || {
                let other = Uid::from_raw(OTHER);
                set_thread_res_uid(other, other, other).unwrap();
                SessionClient::new(&path, PATIENCE).unwrap().view()
            })
            .join()
            .unwrap()
        }
    };
    let error = as_other.clone()().unwrap_err();
    assert!(matches!(error, ClientError::NotAllowed { .. }), "the directory is private: {error:?}");
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(path.parent().unwrap(), 0o755);
    assert!(matches!(as_other.clone()().unwrap_err(), ClientError::NotAllowed { .. }));
    open(&path, 0o666);
    let error = as_other().unwrap_err();
    assert!(matches!(&error, ClientError::Refused { status: 403, .. }), "{error:?}");
    assert!(error.to_string().contains("user 65534 may not use this socket"), "{error}");
    assert_eq!(lab.client().view().unwrap().name, "curl");
}

#[test]
fn the_description_lists_the_resources() {
    let document = serde_json::to_value(session_openapi()).unwrap();
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert_eq!(
        paths,
        [
            "/metrics",
            "/v1/links",
            "/v1/links/{name}",
            "/v1/links/{name}/reset",
            "/v1/openapi.json",
            "/v1/readings",
            "/v1/reset",
            "/v1/results",
            "/v1/session",
            "/v1/stop",
        ]
    );
}

/// A server of recorded links in a directory of its own.
struct SessionLab {
    _scratch: Scratch,
    path: PathBuf,
    links: Arc<Recorded>,
    server: Option<Server>,
}

impl SessionLab {
    fn new() -> Self {
        let scratch = Scratch::new();
        // All users may reach the directory `links`, but not enter it.
        std::fs::set_permissions(&scratch.0, std::fs::Permissions::from_mode(0o755)).unwrap();
        let directory = Directory::create(&scratch.0.join("links")).unwrap();
        let socket = directory.bind(&"curl".parse().unwrap()).unwrap();
        let path = socket.path().to_owned();
        let links = Arc::new(Recorded::default());
        let access = Access { uid: geteuid().as_raw(), gid: None, groups_of: |_| Ok(Vec::new()) };
        let server =
            Server::start_session(socket, access, Arc::clone(&links) as Arc<dyn Session>, None)
                .unwrap();
        Self { _scratch: scratch, path, links, server: Some(server) }
    }

    fn socket(&self) -> PathBuf {
        self.path.clone()
    }

    fn client(&self) -> SessionClient {
        SessionClient::new(&self.path, PATIENCE).unwrap()
    }

    fn raw(&self, request: &str) -> String {
        let mut stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The server may refuse before it has read everything.
        let _ = stream.write_all(request.as_bytes());
        if request.contains("Connection: close") {
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            return String::from_utf8(answer).unwrap();
        }
        let mut bytes = [0; 1024];
        let n = stream.read(&mut bytes).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    }
}

/// Links that record the requests.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    changes: Mutex<Vec<String>>,
    stops: AtomicUsize,
}

impl Recorded {
    fn record(&self, link: Option<&str>, words: &str) -> Result<ChangeReply, SessionError> {
        if let Some(name) = link.filter(|name| !["up", "down"].contains(name)) {
            return Err(SessionError::NoSuchLink {
                name: name.to_owned(),
                known: "there are up, down".to_owned(),
            });
        }
        self.changes.lock().unwrap().push(format!("{}: {words}", link.unwrap_or("*")));
        let links = links().into_iter().filter(|shown| link.is_none_or(|name| shown.name == name));
        Ok(ChangeReply {
            applied: words != "wrong",
            links: links.collect(),
            rendered: words.to_owned(),
            ..ChangeReply::default()
        })
    }
}

impl Session for Recorded {
    fn view(&self) -> SessionView {
        SessionView {
            name: "curl".into(),
            kind: SessionKind::Run,
            program: "curl".into(),
            pid: Some(1),
            since: "2026-01-02T03:04:05Z".into(),
            uptime_ns: 1,
            rules: false,
            links: links(),
            problems: Vec::new(),
            nodes: Vec::new(),
            version: "0".into(),
        }
    }

    fn change(
        &self,
        link: Option<&str>,
        request: &ChangeRequest,
    ) -> Result<ChangeReply, SessionError> {
        self.record(link, &request.words)
    }

    fn reset(&self, link: Option<&str>) -> Result<ChangeReply, SessionError> {
        self.record(link, "reset")
    }

    fn results(&self) -> Result<String, SessionError> {
        Ok("{}\n".to_owned())
    }

    fn readings(&self) -> Result<Readings, SessionError> {
        let link = |shown: SessionLink| LinkReading { name: shown.name, ..LinkReading::default() };
        Ok(Readings { at_ns: 7, links: links().into_iter().map(link).collect() })
    }

    fn stop(&self) {
        self.stops.fetch_add(1, Ordering::Relaxed);
    }
}

fn links() -> Vec<SessionLink> {
    ["up", "down"]
        .map(|name| SessionLink { name: name.into(), spec: String::new(), whole: None })
        .into()
}

/// Maximum number of connections of a socket.
const MOST: usize = 256;
/// A user other than root.
const OTHER: u32 = 65_534;
const PATIENCE: Duration = Duration::from_secs(5);
