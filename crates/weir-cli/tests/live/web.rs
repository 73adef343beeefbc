//! Tests the server of the web page over real sockets: who may use it, what it streams, and that a
//! change on the page changes the link.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::common::{Lab, Need, Running, trial};
use crate::daemon::{Daemon, Wire};

pub(crate) fn tests() -> Vec<Trial> {
    let ping = &[Need::Program("ping")];
    vec![
        trial("the_page_watches_and_changes_a_link", ping, watches),
        trial("the_page_refuses_strangers", &[], refuses),
        trial("fifty_tabs_and_a_slow_one_are_served", ping, tabs),
        trial(
            "the_page_of_a_daemon_survives_its_restart",
            &[Need::Root, Need::Program("ip"), Need::Program("ping")],
            daemon,
        ),
    ]
}

/// A session with a program that sends 100 packets a second over the links.
fn pinging(lab: &Lab) -> (Running, Site) {
    let mut session = lab.start([
        "pair",
        "--name",
        "page",
        "--web",
        "127.0.0.1:0",
        "--link",
        "bw 1Mbit/s delay 5ms",
        "--left",
        "sleep 600",
        "--right",
        "ping -q -i 0.01 left",
    ]);
    let site = Site::of(&mut session);
    (session, site)
}

fn watches(lab: &Lab) {
    let (session, site) = pinging(lab);
    let root = site.get("/", "");
    assert_eq!(root.status, 200, "{root:?}");
    let policy = root.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    assert_eq!(root.header("x-content-type-options"), "nosniff");
    let tag = root.header("etag").to_owned();
    assert_eq!(site.get("/", &format!("If-None-Match: {tag}\r\n")).status, 304);

    let cookie = site.login(&site.full);
    let page = site.get("/v1/page", &cookie).json();
    assert_eq!((&page["kind"], &page["language"]), (&json!("pair"), &json!("links")));
    assert_eq!(format!("\"{}\"", page["page_version"].as_str().unwrap()), tag);
    let objects = site.get("/v1/objects", &cookie).json();
    let names: Vec<&str> = objects["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| object["object"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["link:to-right", "link:to-left"]);

    let mut stream = site.stream(&cookie).expect("a stream");
    assert_eq!(stream.next()["type"], "hello");
    stream.send(&json!({"op": "subscribe", "id": 1, "what": "object", "object": "link:nowhere"}));
    assert_eq!(stream.next()["type"], "refused");
    stream.send(&json!({"op": "subscribe", "id": 2, "what": "object",
        "object": "link:to-left", "period_ms": 100, "history_s": 60}));
    let subscribed = stream.next();
    let at = |name: &str| {
        let fields = subscribed["fields"].as_array().unwrap();
        fields.iter().position(|field| field == name).unwrap_or_else(|| panic!("no {name}"))
    };
    let mut packets = 0.0;
    let mut span = 0.0;
    while span < 1_000.0 {
        for point in stream.points(2) {
            span += point[at("span_ms")].as_f64().unwrap();
            packets += point[at("out_pps")].as_f64().unwrap()
                * point[at("span_ms")].as_f64().unwrap()
                / 1e3;
            assert_eq!(point[at("rate_bps")], 1_000_000);
        }
    }
    assert!(packets > 0.0, "packets cross the link: {packets} in {span} ms");

    let check = site.post(
        "/v1/change",
        &cookie,
        &json!({"words": "bw 2Mbit/s loss 3",
        "link": "to-left", "check_only": true}),
    );
    assert_eq!(check.status, 422, "{check:?}");
    assert!(!check.json()["diagnostics"].as_array().unwrap().is_empty());
    let change = json!({"words": "bw 2Mbit/s", "link": "to-left", "check_only": true});
    let check = site.post("/v1/change", &cookie, &change);
    assert_eq!((check.status, &check.json()["applied"]), (200, &json!(false)), "{check:?}");
    assert_eq!(check.json()["links"][0]["spec"], "bw 2Mbit/s delay 5ms");
    let spec = || site.get("/v1/objects", &cookie).json()["objects"][1]["spec"].clone();
    assert_eq!(spec(), "bw 1Mbit/s delay 5ms", "a check changes nothing");
    let change = json!({"words": "bw 2Mbit/s", "link": "to-left"});
    let done = site.post("/v1/change", &cookie, &change);
    assert_eq!((done.status, &done.json()["change"]), (200, &json!(1)), "{done:?}");
    assert_eq!(spec(), "bw 2Mbit/s delay 5ms");
    let marker = stream.until(|message| message["type"] == "change");
    assert_eq!(marker["change"]["what"], "to-left became bw 2Mbit/s delay 5ms");
    let point =
        stream.until(|message| message["parts"][0]["points"][0][at("rate_bps")] == 2_000_000);
    assert!(point["now_ms"].as_i64() >= marker["change"]["t_ms"].as_i64());
    let undo = site.post("/v1/undo", &cookie, &json!({"change": 1}));
    assert_eq!(undo.status, 200, "{undo:?}");
    assert_eq!(spec(), "bw 1Mbit/s delay 5ms");
    assert_eq!(site.post("/v1/undo", &cookie, &json!({"change": 1})).status, 409);
    let changes = site.get("/v1/changes", &cookie).json();
    assert_eq!(changes["changes"][1]["undoes"], 1, "{changes}");
    let now = changes["changes"][1]["t_ms"].as_i64().unwrap();
    let past = site.get(
        &format!("/v1/history?object=link:to-left&from_ms={}&to_ms={now}", now - 60_000),
        &cookie,
    );
    assert!(!past.json()["points"].as_array().unwrap().is_empty(), "{past:?}");

    let pid = session.pid();
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it runs");
    assert_eq!(stream.until(|message| message["type"] == "bye")["type"], "bye");
    assert_eq!(stream.close_code(), Some(1001));
    session.finish();
}

fn refuses(lab: &Lab) {
    let mut session = lab.start([
        "pair",
        "--name",
        "strangers",
        "--web",
        "127.0.0.1:0",
        "--allowed-host",
        "lab.example",
        "--left",
        "sleep 600",
        "--right",
        "sleep 600",
    ]);
    let site = Site::of(&mut session);
    for path in ["/v1/page", "/v1/objects", "/v1/session", "/v1/readings", "/metrics", "/v1/x"] {
        assert_eq!(site.get(path, "").status, 401, "{path} without a token");
    }
    assert!(site.stream("").is_err(), "a stream without a token");
    let wrong = site.post("/v1/login", "", &json!({"token": "0123456789abcdef0123456789abcdef"}));
    assert_eq!(wrong.status, 401, "{wrong:?}");
    let many: Vec<u16> = (0..20)
        .map(|_| site.post("/v1/login", "", &json!({"token": "0123456789abcdefff"})).status)
        .collect();
    assert!(many.contains(&429), "{many:?}");
    let cookie = site.login(&site.full);
    assert!(cookie.starts_with("Cookie: weir-"), "{cookie}");

    // A name that leads to this server, but is none of its names: DNS rebinding.
    let rebound = |host: &str| site.ask("GET", "/v1/page", host, &cookie, "").status;
    assert_eq!(rebound("evil.example"), 403);
    assert_eq!(rebound(&format!("evil.example:{}", site.port)), 403);
    assert_eq!((rebound("lab.example"), rebound("localhost:1")), (200, 200));
    assert_eq!(site.ask("GET", "/", "evil.example", "", "").status, 403, "not even the page");

    let change = json!({"words": "delay 1ms"});
    let from = |origin: &str| {
        site.post("/v1/change", &format!("{cookie}Origin: {origin}\r\n"), &change).status
    };
    assert_eq!(from("http://evil.example"), 403);
    assert_eq!(from("http://127.0.0.1:1"), 403, "another server of this machine");
    assert_eq!(from("null"), 403);
    assert_eq!(from(&format!("http://127.0.0.1:{}", site.port)), 200);
    let foreign = format!("{cookie}Origin: http://evil.example\r\n");
    assert!(site.stream(&foreign).is_err(), "a stream for another page");
    // A form of another page can send this type without a preflight request, so it is refused.
    let form = format!("{cookie}Content-Type: text/plain\r\n");
    let body = change.to_string();
    assert_eq!(site.ask("POST", "/v1/change", &site.host(), &form, &body).status, 415);

    let look = site.login(&site.read);
    assert_eq!(site.get("/v1/page", &look).json()["access"], "read");
    assert!(site.stream(&look).is_ok());
    assert_eq!(site.post("/v1/change", &look, &change).status, 403);
    assert_eq!(site.post("/v1/stop", &look, &json!({})).status, 403);
    assert_eq!(site.post("/v1/undo", &look, &json!({"change": 1})).status, 403);

    // The server closes a stream with too many messages; the close code says why.
    let mut stream = site.stream(&cookie).expect("a stream");
    for _ in 0..60 {
        stream.send(&json!({"op": "unsubscribe", "id": 1}));
    }
    stream.drain();
    assert_eq!(stream.close_code(), Some(1008));
    // It also ends a stream with a message of more than 4096 bytes.
    let mut stream = site.stream(&cookie).expect("a stream");
    stream.send(&json!({"op": "subscribe", "id": 1, "what": "top", "search": "x".repeat(5000)}));
    stream.drain();

    assert_eq!(site.post("/v1/logout", &cookie, &json!({})).status, 204);
    assert_eq!(site.post("/v1/stop", &cookie, &json!({})).status, 202);
    session.finish();
    let open = lab.weir(["pair", "--web", "0.0.0.0:0", "--left", "true", "--right", "true"]);
    assert!(open.code != 0 && open.stderr.contains("--insecure"), "{open:?}");
}

fn tabs(lab: &Lab) {
    let (session, site) = pinging(lab);
    let cookie = site.login(&site.full);
    let open = || {
        let mut stream = site.stream(&cookie).expect("a stream");
        assert_eq!(stream.next()["type"], "hello");
        stream
    };
    let watch = json!({"op": "subscribe", "id": 1, "what": "object",
        "object": "link:to-left", "period_ms": 100});
    let mut streams: Vec<Stream> = (0..50).map(|_| open()).collect();
    for stream in &mut streams {
        stream.send(&watch);
        stream.send(&json!({"op": "subscribe", "id": 2, "what": "overview", "period_ms": 1000}));
    }
    for stream in &mut streams {
        stream.until(|message| message["type"] == "frame" && message["parts"][0]["id"] == 1);
    }
    let mut more: Vec<Stream> = (50..64).map(|_| open()).collect();
    let mut beyond = site.stream(&cookie).expect("an upgrade");
    beyond.drain();
    assert_eq!(beyond.close_code(), Some(1008), "the 65th tab is told");
    for n in 0..20 {
        more[0].send(&json!({"op": "subscribe", "id": 100 + n, "what": "object",
            "object": "link:to-left"}));
    }
    let refused = more[0].until(|message| message["type"] == "refused");
    assert!(refused["message"].as_str().unwrap().contains("at most 16"), "{refused}");
    // A tab that has read nothing for a while still gets the newest points.
    let mut slow = streams.pop().expect("a stream");
    std::thread::sleep(Duration::from_secs(2));
    let newest = |message: &Value| message["now_ms"].as_i64().unwrap_or(0);
    let now = newest(&streams[0].until(|message| message["type"] == "frame"));
    let last = slow.until(|message| newest(message) + 500 >= now);
    assert_eq!(last["type"], "frame");
    nix::sys::signal::kill(session.pid(), nix::sys::signal::Signal::SIGTERM).expect("it runs");
    session.finish();
}

fn daemon(lab: &Lab) {
    let wire = Wire::new();
    let words = ["--web", "127.0.0.1:18933"];
    let mut daemon = Daemon::start(lab, &words);
    let site = Site::of(&mut daemon.running);
    let cookie = site.login(&site.full);
    let page = site.get("/v1/page", &cookie).json();
    assert_eq!((&page["kind"], &page["language"]), (&json!("serve"), &json!("commands")));
    let script = "pipe 1 config bw 8Mbit/s delay 5ms mask src-ip 0xffffffff\n\
                  add 100 pipe 1 icmp from any to any";
    let done = site.post("/v1/change", &cookie, &json!({"words": script}));
    assert_eq!((done.status, &done.json()["applied"]), (200, &json!(true)), "{done:?}");
    wire.ping(true);
    let bad = site.post("/v1/change", &cookie, &json!({"words": "pipe 1 config bw fast"}));
    assert_eq!((bad.status, &bad.json()["diagnostics"][0]["line"]), (422, &json!(1)), "{bad:?}");

    let mut stream = site.stream(&cookie).expect("a stream");
    stream.send(&json!({"op": "subscribe", "id": 1, "what": "top", "of": "pipe:1", "n": 10}));
    stream.send(&json!({"op": "subscribe", "id": 2, "what": "rules"}));
    stream.send(&json!({"op": "subscribe", "id": 3, "what": "object", "object": "pipe:1"}));
    let part = |stream: &mut Stream, id: u64, wanted: &dyn Fn(&Value) -> bool| {
        let mut found = Value::Null;
        stream.until(|message| {
            let parts = message["parts"].as_array().into_iter().flatten();
            let part = parts.into_iter().find(|part| part["id"] == id && wanted(part));
            part.is_some_and(|part| {
                found = part.clone();
                true
            })
        });
        found
    };
    let top = part(&mut stream, 1, &|part| part["total"] == 2);
    assert_eq!(top["matched"], 2, "{top}");
    let keys: Vec<&str> =
        top["rows"].as_array().unwrap().iter().map(|row| row[0].as_str().unwrap()).collect();
    assert!(keys.contains(&"10.77.0.1 → *") && keys.contains(&"10.77.0.2 → *"), "{keys:?}");
    let rules = part(&mut stream, 2, &|part| part["rows"][0][1] == 100);
    // The rule counts a request and its answer. A packet that leaves a pipe passes no further rule.
    assert!(rules["rows"][0][2].as_u64() >= Some(2), "{rules}");
    part(&mut stream, 3, &|part| !part["points"].as_array().unwrap().is_empty());

    // Other clients change the daemon too, and the page learns of it.
    daemon.send("pipe 1 config bw 4Mbit/s");
    let marker = stream.until(|message| message["type"] == "change");
    assert!(marker["change"]["after"].as_str().unwrap().contains("4Mbit/s"), "{marker}");
    let number = marker["change"]["number"].clone();
    let undo = site.post("/v1/undo", &cookie, &json!({"change": number}));
    assert_eq!(undo.status, 200, "{undo:?}");
    let pipes = site.get("/v1/pipes", &cookie).json();
    assert_eq!(pipes[0]["rate_bps"], 8_000_000, "{pipes}");
    let rules = site.get("/v1/rules", &cookie).json();
    assert!(rules[0]["counters"]["packets"].as_u64() >= Some(2), "an undo keeps counters");

    // The cookie of an open page is valid after a restart.
    nix::sys::signal::kill(daemon.pid(), nix::sys::signal::Signal::SIGTERM).expect("it runs");
    daemon.finish();
    let daemon = Daemon::start(lab, &words);
    let again = site.get("/v1/configuration", &cookie);
    assert!(again.json()["script"].as_str().unwrap().contains("8Mbit/s"), "{again:?}");
    nix::sys::signal::kill(daemon.pid(), nix::sys::signal::Signal::SIGTERM).expect("it runs");
    daemon.finish();
}

/// A page's server, with the tokens that the command has printed.
pub(crate) struct Site {
    pub(crate) port: u16,
    /// The token that permits everything.
    pub(crate) full: String,
    /// The token that permits reading only.
    pub(crate) read: String,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Site {
    /// Waits until a command has printed the addresses with its tokens, and reads them.
    pub(crate) fn of(running: &mut Running) -> Self {
        let deadline = Instant::now() + LIMIT;
        loop {
            let text = running.stderr();
            let mut tokens = text.lines().filter_map(|line| {
                let (_, rest) = line.split_once("://")?;
                let (_, rest) = rest.split_once(':')?;
                let (port, token) = rest.split_once("/#token=")?;
                Some((port.parse::<u16>().ok()?, token.to_owned()))
            });
            if let (Some((port, full)), Some((_, read))) = (tokens.next(), tokens.next()) {
                return Self { port, full, read };
            }
            assert!(running.alive() && Instant::now() < deadline, "no page: {text}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        host: &str,
        headers: &str,
        body: &str,
    ) -> Reply {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("the page listens");
        socket.set_read_timeout(Some(LIMIT)).expect("a time limit");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        socket.write_all(request.as_bytes()).expect("the request is sent");
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).expect("an answer");
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Reply {
            status: status.expect("a status"),
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    pub(crate) fn get(&self, path: &str, headers: &str) -> Reply {
        self.ask("GET", path, &self.host(), headers, "")
    }

    pub(crate) fn post(&self, path: &str, headers: &str, body: &Value) -> Reply {
        let headers = format!("Content-Type: application/json\r\n{headers}");
        self.ask("POST", path, &self.host(), &headers, &body.to_string())
    }

    /// Exchanges a token for a cookie, and returns the header of a request with this cookie.
    pub(crate) fn login(&self, token: &str) -> String {
        let reply = self.post("/v1/login", "", &json!({"token": token}));
        assert_eq!(reply.status, 204, "{reply:?}");
        let cookie = reply.header("set-cookie");
        assert!(cookie.contains("httponly") && cookie.contains("samesite=strict"), "{cookie}");
        format!("Cookie: {}\r\n", cookie.split(';').next().unwrap_or_default())
    }

    pub(crate) fn stream(&self, headers: &str) -> Result<Stream, Reply> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("the page listens");
        socket.set_read_timeout(Some(LIMIT)).expect("a time limit");
        let request = format!(
            "GET /v1/stream HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             {headers}\r\n",
            self.host()
        );
        socket.write_all(request.as_bytes()).expect("the request is sent");
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            socket.read_exact(&mut byte).expect("a head");
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        if status == 101 {
            Ok(Stream { socket, closed: None })
        } else {
            Err(Reply { status, head, body: String::new() })
        }
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        let line = self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_default()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The client's end of a stream.
pub(crate) struct Stream {
    socket: TcpStream,
    /// The server's close code.
    closed: Option<u16>,
}

impl Stream {
    pub(crate) fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let mut frame = vec![0x81];
        match u8::try_from(text.len()) {
            Ok(short) if short < 126 => frame.push(0x80 | short),
            _ => {
                frame.push(0x80 | 126);
                frame.extend((text.len() as u16).to_be_bytes());
            }
        }
        // A mask of zeros leaves the text as it is.
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        // The server may have closed the stream.
        let _ = self.socket.write_all(&frame);
    }

    /// The next message; `None` after the end of the stream.
    fn receive(&mut self) -> Option<Value> {
        loop {
            let mut head = [0; 2];
            self.read(&mut head)?;
            let length = match head[1] & 0x7f {
                126 => {
                    let mut more = [0; 2];
                    self.read(&mut more)?;
                    usize::from(u16::from_be_bytes(more))
                }
                127 => {
                    let mut more = [0; 8];
                    self.read(&mut more)?;
                    usize::try_from(u64::from_be_bytes(more)).expect("a length")
                }
                short => usize::from(short),
            };
            let mut body = vec![0; length];
            self.read(&mut body)?;
            match head[0] & 0xf {
                1 => return Some(serde_json::from_slice(&body).expect("JSON")),
                8 => {
                    let code = body.get(..2).map(|code| u16::from_be_bytes([code[0], code[1]]));
                    self.closed = code.or(Some(1005));
                    return None;
                }
                _ => {}
            }
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> Option<()> {
        match self.socket.read_exact(bytes) {
            Ok(()) => Some(()),
            Err(error) => {
                let late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(!late, "no message within {LIMIT:?}");
                None
            }
        }
    }

    pub(crate) fn next(&mut self) -> Value {
        self.receive().unwrap_or_else(|| panic!("the stream ended: {:?}", self.closed))
    }

    pub(crate) fn until(&mut self, mut wanted: impl FnMut(&Value) -> bool) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            let message = self.next();
            if wanted(&message) {
                return message;
            }
            assert!(Instant::now() < deadline, "the message does not come; last: {message}");
        }
    }

    /// The points of a subscription in the next message that has some.
    pub(crate) fn points(&mut self, id: u64) -> Vec<Value> {
        let mut points = Vec::new();
        self.until(|message| {
            for part in message["parts"].as_array().into_iter().flatten() {
                if part["id"] == id {
                    points.extend(part["points"].as_array().into_iter().flatten().cloned());
                }
            }
            !points.is_empty()
        });
        points
    }

    /// Reads until the stream ends.
    fn drain(&mut self) {
        while self.receive().is_some() {}
    }

    fn close_code(&mut self) -> Option<u16> {
        if self.closed.is_none() {
            self.drain();
        }
        self.closed
    }
}

/// Time limit of a wait.
const LIMIT: Duration = Duration::from_secs(30);
