//! Tests the API over a real socket: a server with the real owner and store, and a plane that moves
//! no packets.

mod amounts;
#[path = "../../../weir-measure/tests/check/mod.rs"]
mod check;
mod connections;
mod metrics;
mod page;
mod session;
mod stalled;
mod state;
mod uploads;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_control::api::{
    BridgeView, CommandReply, CommandRequest, EventQuery, HealthStatus, InstancePage, LaneView,
    LengthView, LinkSample, OutcomeKind, PipeView, QueueView, SchedView, SeverityView,
};
use weir_control::api::{EventSample, LaneTimes, Lengths, LengthsView, Snapshot, Times};
use weir_control::client::{Client, ClientError};
use weir_control::owner::{Onto, Owner, Resumed};
use weir_control::plane::{NoAnswer, Plane};
use weir_control::server::{Access, ControlSocket, Endpoints, Server, Token};
use weir_control::store::{KEPT_REVISIONS, Store};
use weir_measure::document::{Kind, Schemas};
use weir_measure::histogram::Histogram;
use weir_rules::command::ObjectKind;
use weir_rules::ruleset::Ruleset;
use weir_rules::show::{Answer, DynamicView, FlowCount};

#[test]
fn commands_are_executed_saved_and_visible() {
    let lab = Lab::new();
    let client = lab.client();
    let reply =
        send(&client, "pipe 1 config bw 4Mbit/s delay 20ms\nadd 100 pipe 1 ip from any to any\n");
    assert!(reply.applied, "{reply:?}");
    assert_eq!((reply.outcomes.len(), reply.outcomes[1].rule), (2, Some(100)));
    assert_eq!(reply.outcomes[0].result, OutcomeKind::Changed);
    let pipes = client.pipes().unwrap();
    assert_eq!(
        (pipes[0].number, pipes[0].rate_bps, pipes[0].delay_ns),
        (1, Some(4_000_000), 20_000_000)
    );
    assert_eq!(
        pipes[0].state.counters.packets_in, 17,
        "the view of a pipe contains the plane's counters"
    );
    let rules = client.rules().unwrap();
    assert_eq!(rules.iter().map(|rule| rule.number).collect::<Vec<_>>(), [100, 65_535]);
    let view = client.configuration().unwrap();
    assert_eq!((view.revision, view.pipes.as_slice()), (reply.revision, &[1][..]));
    let saved = std::fs::read_to_string(lab.state().join("config.weir")).unwrap();
    assert!(saved.ends_with(&view.script), "{saved}");
    assert_eq!(lab.plane.applied.lock().unwrap().last().unwrap().pipes.len(), 1);
}

#[test]
fn a_panic_of_the_configurations_thread_is_noticed() {
    let lab = Lab::new();
    lab.plane.panics.store(true, Ordering::Relaxed);
    let request =
        CommandRequest { script: "pipe 1 config bw 1Mbit/s".into(), ..CommandRequest::default() };
    assert!(!lab.owner.has_panicked());
    let answer = lab.owner.submit(lab.owner.prepare(&request), Onto::Current);
    assert!(answer.unwrap().wait().is_err(), "the change is not acknowledged");
    let deadline = Instant::now() + Duration::from_secs(10);
    while !lab.owner.has_panicked() {
        assert!(Instant::now() < deadline, "the panic is not noticed");
        std::thread::yield_now();
    }
    assert!(!lab.server.as_ref().unwrap().has_panicked());
}

#[test]
fn a_script_is_all_or_nothing() {
    let lab = Lab::new();
    let client = lab.client();
    send(&client, "pipe 1 config bw 4Mbit/s");
    let before = client.configuration().unwrap();
    for script in [
        "pipe 2 config bw 1Mbit/s\npipe 7 delete\n",
        "pipe 2 config bw 1Mbit/s\npipe 3 config bw fast\n",
    ] {
        let reply = send(&client, script);
        assert!(!reply.applied);
        let error =
            reply.diagnostics.iter().find(|d| d.severity == SeverityView::Error).expect("an error");
        assert_eq!(error.line, 2, "{error:?}");
        assert!(error.text.starts_with("pipe"), "{error:?}");
        assert_eq!(client.configuration().unwrap(), before);
    }
    let check = CommandRequest {
        script: "pipe 9 config bw 1Mbit/s".into(),
        check_only: true,
        ..CommandRequest::default()
    };
    let reply = client.commands(&check).unwrap();
    assert!(
        !reply.applied && reply.diagnostics.is_empty() && reply.outcomes.len() == 1,
        "{reply:?}"
    );
    assert_eq!(client.configuration().unwrap(), before);
}

#[test]
fn a_killed_daemon_restores_the_acknowledged_configuration() {
    let mut lab = Lab::new();
    let reply = send(&lab.client(), "pipe 1 config bw 4Mbit/s\npipe 2 config bw 8Mbit/s");
    let before = lab.client().configuration().unwrap();
    lab.restart();
    let after = lab.client().configuration().unwrap();
    assert_eq!(after, before);
    assert_eq!(after.revision, reply.revision);
    assert_eq!(
        lab.plane.applied.lock().unwrap().len(),
        1,
        "the plane is given what was saved, once"
    );
}

#[test]
fn a_damaged_configuration_is_an_error_and_not_an_empty_one() {
    let scratch = Scratch::new();
    drop(Store::open(&scratch.0).unwrap());
    std::fs::write(scratch.0.join("config.weir"), "pipe 1 config bw 4Mbit/s\nnonsense here\n")
        .unwrap();
    let error = Resumed::new(Store::open(&scratch.0).unwrap()).unwrap_err().to_string();
    assert!(error.contains("config.weir") && error.contains("line 2"), "{error}");
}

#[test]
fn files_of_commands_are_stored_and_removed_after_use() {
    let mut lab = Lab::new();
    let trace = |mbit: u32| CommandRequest {
        script: "pipe 1 config trace up.csv".into(),
        files: [("up.csv".to_owned(), format!("time,rate\n0,{mbit}M\n1,1M\n"))].into(),
        ..CommandRequest::default()
    };
    let reply = lab.client().commands(&trace(3)).unwrap();
    assert!(reply.applied, "{reply:?}");
    let kept = |lab: &Lab| std::fs::read_dir(lab.state().join("files")).unwrap().count();
    assert_eq!(kept(&lab), 1);
    let before = lab.client().configuration().unwrap();
    assert!(
        before.script.contains(" files/") && before.script.contains("-up.csv"),
        "{}",
        before.script
    );
    lab.restart();
    assert_eq!(lab.client().configuration().unwrap(), before);
    // A client can send back the configuration that it reads.
    let again = CommandRequest { script: before.script.clone(), ..CommandRequest::default() };
    assert!(lab.client().commands(&again).unwrap().applied);
    assert!(lab.client().commands(&trace(5)).unwrap().applied);
    assert_eq!(kept(&lab), 2, "a kept revision names the first content");
    for n in 0..KEPT_REVISIONS as u32 + 2 {
        assert!(lab.client().commands(&trace(5 + n % 2)).unwrap().applied);
    }
    assert_eq!(kept(&lab), 2, "no revision names the first content any more");
    let missing = CommandRequest {
        script: "pipe 1 config trace /etc/hostname".into(),
        ..CommandRequest::default()
    };
    assert!(
        !lab.client().commands(&missing).unwrap().applied,
        "the daemon reads no files of its own"
    );
}

#[test]
fn the_memory_of_files_is_bounded_and_a_full_configuration_starts_again() {
    let mut lab = Lab::new();
    // A profile takes 8 MB in memory, whatever the length of its file.
    let profiles = |pipes: std::ops::Range<u32>| CommandRequest {
        script: pipes.clone().map(|n| format!("pipe {n} config profile {n}\n")).collect(),
        files: pipes
            .map(|n| (n.to_string(), format!("samples 1000000\nprob delay\n0 0\n1 1{n}\n")))
            .collect(),
        ..CommandRequest::default()
    };
    assert!(lab.client().commands(&profiles(100..120)).unwrap().applied);
    // Other pipes with the same files take no memory.
    let mut again = profiles(100..120);
    again.script = again.script.replace("pipe 1", "pipe 2");
    assert!(lab.client().commands(&again).unwrap().applied);
    let before = lab.client().configuration().unwrap();
    let refused = lab.client().commands(&profiles(120..140)).unwrap();
    assert!(!refused.applied && refused.diagnostics[0].line == 20, "{refused:?}");
    assert!(refused.diagnostics[0].message.contains("MiB"), "{refused:?}");
    assert_eq!(lab.client().configuration().unwrap(), before);
    lab.restart();
    assert_eq!(lab.client().configuration().unwrap(), before);
}

#[test]
fn waiting_commands_share_a_save_and_get_their_own_answers() {
    let lab = Lab::new();
    let client = lab.client();
    let threads: Vec<_> = (1..=40u16)
        .map(|n| {
            let client = client.clone();
            std::thread::spawn(move || send(&client, &format!("pipe {n} config bw {n}Mbit/s")))
        })
        .collect();
    let mut revisions: Vec<u64> =
        threads.into_iter().map(|thread| thread.join().unwrap().revision).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, (1..=40).collect::<Vec<u64>>(), "each change has a number of its own");
    assert_eq!(client.configuration().unwrap().pipes, (1..=40).collect::<Vec<u16>>());
    assert!(lab.plane.applied.lock().unwrap().len() <= 41);
}

#[test]
fn replacing_starts_from_the_empty_configuration() {
    let lab = Lab::new();
    send(&lab.client(), "pipe 1 config bw 4Mbit/s");
    let request =
        CommandRequest { script: "pipe 2 config bw 1Mbit/s".into(), ..CommandRequest::default() };
    let reply = lab.owner.submit(lab.owner.prepare(&request), Onto::Empty).unwrap().wait().unwrap();
    assert!(reply.applied);
    assert_eq!(lab.client().configuration().unwrap().pipes, [2]);
}

#[test]
fn one_connection_serves_repeated_requests_for_lengths() {
    let lab = Lab::new();
    let mut daemon = lab.client().keep().unwrap();
    assert!(daemon.lengths().unwrap().pipes.is_empty());
    send(&lab.client(), "pipe 3 config bw 4Mbit/s\nsched 4 config type wf2q+\n");
    lab.plane.links.store(1, Ordering::Relaxed);
    for _ in 0..3 {
        let now = daemon.lengths().unwrap();
        assert_eq!((now.at_ns, now.pipes[&3].packets, now.pipes[&1000].packets), (99, 3, 1000));
    }
    assert_eq!(lab.client().lengths().unwrap(), daemon.lengths().unwrap());
}

#[test]
fn a_persistent_connection_survives_a_restart() {
    let mut lab = Lab::new();
    let mut daemon = lab.client().keep().unwrap();
    daemon.lengths().unwrap();
    lab.restart();
    daemon.lengths().unwrap();
}

#[test]
fn zero_resets_the_plane_and_keeps_the_revision() {
    let lab = Lab::new();
    let first = send(&lab.client(), "pipe 1 config bw 4Mbit/s\nadd 100 pipe 1 ip from any to any");
    let reply = send(&lab.client(), "zero");
    assert_eq!((reply.outcomes[0].result, reply.revision), (OutcomeKind::Zeroed, first.revision));
    assert_eq!(lab.plane.zeroed.load(Ordering::Relaxed), 1);
}

#[test]
fn the_answer_contains_the_result_of_a_query() {
    let lab = Lab::new();
    let reply = send(
        &lab.client(),
        "pipe 1 config bw 4Mbit/s\npipe show\nadd 100 pipe 1 ip from any to any\nshow",
    );
    let answers: Vec<_> = reply.outcomes.iter().map(|outcome| outcome.answer.as_ref()).collect();
    let [None, Some(Answer::Objects(objects)), None, Some(Answer::Rules { rules, .. })] =
        answers.as_slice()
    else {
        panic!("{reply:?}")
    };
    assert_eq!((objects.len(), rules.len()), (1, 2));
    assert_eq!(lab.client().configuration().unwrap().revision, reply.revision);
}

#[test]
fn one_object_is_as_in_the_list() {
    let lab = Lab::new();
    let client = lab.client();
    send(&client, "pipe 1 config bw 4Mbit/s\nsched 2 config type wf2q+\nqueue 3 config sched 2");
    let (pipe, sched, queue): (PipeView, SchedView, QueueView) = (
        client.get("/v1/pipes/1").unwrap(),
        client.get("/v1/scheds/2").unwrap(),
        client.get("/v1/queues/3").unwrap(),
    );
    assert_eq!(client.pipes().unwrap(), [pipe]);
    assert_eq!(client.scheds().unwrap(), [sched]);
    assert_eq!(client.queues().unwrap(), [queue]);
}

#[test]
fn an_invalid_request_is_refused_with_a_message() {
    let lab = Lab::new();
    let post = |kind: &str, body: &str| {
        let head = format!(
            "POST /v1/commands HTTP/1.1\r\nHost: weir\r\nContent-Type: {kind}\r\nContent-Length: \
             {}\r\n",
            body.len()
        );
        lab.raw(&format!("{head}Connection: close\r\n\r\n{body}"))
    };
    let get = |path: &str| {
        lab.raw(&format!("GET {path} HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n"))
    };
    for (answer, status, word) in [
        (post("text/plain", "{}"), "415", "application/json"),
        (post("application/json", "{"), "400", "error"),
        (post("application/json", r#"{"script": "", "scirpt": ""}"#), "400", "scirpt"),
        (post("application/json", "[]"), "400", "error"),
        (get("/v2/pipes"), "404", "openapi.json"),
        (get("/v1/pipes/1"), "404", "no pipe 1"),
        (get("/v1/queues/x"), "400", "error"),
        (get("/v1/pipes/1/instances"), "404", "no pipe 1"),
        (get("/v1/pipes/70000/instances"), "400", "error"),
        (get("/v1/tables/t?limit=0"), "400", "limit"),
        (get("/v1/tables/t?limt=4"), "400", "limt"),
        (get("/v1/events?period=1"), "400", "period"),
        (get("/v1/commands"), "405", "error"),
        ("POST /v1/commands HTTP/1.1\r\n".to_owned(), "POST", "HTTP"),
    ] {
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) || status == "POST", "{answer}");
        assert!(answer.contains(word), "{answer}");
    }
    let huge = "POST /v1/commands HTTP/1.1\r\nHost: weir\r\nContent-Type: \
                application/json\r\nContent-Length: 99999999999\r\n\r\n";
    assert!(lab.raw_head(huge).starts_with("HTTP/1.1 413"));
    assert_eq!(lab.client().health().unwrap().status, HealthStatus::Ok);
}

#[test]
fn events_follow_their_period_and_end_after_the_count() {
    let lab = Lab::new();
    send(&lab.client(), "pipe 1 config bw 4Mbit/s");
    let mut samples = Vec::new();
    let query = EventQuery { period: Some(50), count: Some(4) };
    lab.client()
        .events(query, |sample| {
            samples.push(sample);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(samples.len(), 4);
    assert!(samples.windows(2).all(|pair| pair[1].at_ns > pair[0].at_ns));
    assert_eq!((samples[3].revision, samples[3].links[&1].counters.packets_in), (1, 17));
    let mut seen = 0;
    lab.client()
        .events(EventQuery { period: Some(50), count: None }, |_| {
            seen += 1;
            if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(seen, 2);
}

#[test]
fn samples_and_lengths_follow_the_schema_of_results() {
    let lab = Lab::new();
    send(&lab.client(), "pipe 1 config bw 4Mbit/s\nadd 100 pipe 1 ip from any to any");
    let schema = Schemas::new()
        .with::<EventSample>(Kind::Sample)
        .with::<LengthsView>(Kind::Lengths)
        .finish();
    let lengths: serde_json::Value = lab.client().get("/v1/lengths").unwrap();
    assert_eq!(lengths["kind"], "lengths");
    check::assert_follows(&schema, &lengths);
    let mut stream = UnixStream::connect(lab.socket()).unwrap();
    let request = "GET /v1/events?count=1 HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let sample = answer.lines().find_map(|line| line.strip_prefix("data: ")).expect("a sample");
    let sample: serde_json::Value = serde_json::from_str(sample).unwrap();
    assert_eq!(sample["links"]["1"]["counters"]["packets_in"], 17, "{sample:#}");
    check::assert_follows(&schema, &sample);
}

#[test]
fn a_reader_that_never_reads_does_not_delay_others() {
    let lab = Lab::new();
    lab.plane.links.store(2_000, Ordering::Relaxed);
    let mut silent = UnixStream::connect(lab.socket()).unwrap();
    silent.write_all(b"GET /v1/events?period=50 HTTP/1.1\r\nHost: weir\r\n\r\n").unwrap();
    // A sample is larger than the socket's buffer, so the second one is already blocked.
    let deadline = Instant::now() + Duration::from_secs(20);
    let stalled = loop {
        let metrics = lab.client().metrics().unwrap();
        let line = metrics
            .lines()
            .find(|line| line.starts_with("weir_clients_stalled_total"))
            .expect("it is counted")
            .to_owned();
        if !line.ends_with(" 0") || Instant::now() > deadline {
            break line;
        }
        assert!(
            send(&lab.client(), "pipe 1 config bw 1Mbit/s").applied,
            "others are served meanwhile"
        );
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(stalled.ends_with(" 1"), "{stalled}");
    let mut rest = Vec::new();
    // The server closes the connection, so `read_to_end` returns.
    silent.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let end = silent.read_to_end(&mut rest);
    assert!(end.is_ok() || end.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset));
}

#[test]
fn metrics_are_openmetrics_and_balance() {
    let lab = Lab::new();
    send(&lab.client(), "pipe 1 config bw 4Mbit/s\nadd 100 pipe 1 ip from any to any");
    let text = lab.client().metrics().unwrap();
    assert!(text.ends_with("# EOF\n"), "{text}");
    let value = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name} is missing in {text}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    assert_eq!(value("weir_link_packets_total{link=\"1\",direction=\"in\"}"), 17.0);
    assert_eq!(value("weir_link_drops_total{link=\"1\",reason=\"queue_full\"}"), 2.0);
    assert_eq!(value("weir_configuration_revision"), 1.0);
    assert!(text.contains("weir_rule_packets_total{rule=\"100\""));
}

#[test]
fn the_openapi_document_lists_exactly_the_resources() {
    let lab = Lab::new();
    let document: serde_json::Value = lab.client().get("/v1/openapi.json").unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 16, "{:?}", paths.keys());
    for (path, methods) in paths {
        let path = path.replace("{number}", "1").replace("{name}", "t");
        for method in methods.as_object().unwrap().keys().filter(|method| *method == "get") {
            let request = format!(
                "{} {path}{} HTTP/1.1\r\nHost: weir\r\n\r\n",
                method.to_uppercase(),
                if path.ends_with("events") { "?count=1" } else { "" }
            );
            let head = lab.raw_head(&request);
            let known = head.starts_with("HTTP/1.1 200")
                || head.contains("there is no pipe")
                || head.contains("there is no queue");
            assert!(
                known || head.contains("there is no sched") || head.contains("there is no table"),
                "{path}: {head}"
            );
        }
    }
    // All references resolve.
    let text = document.to_string();
    for reference in text.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(document["components"]["schemas"][name].is_object(), "{name} is not described");
    }
}

#[test]
fn tcp_clients_need_the_token() {
    let lab = Lab::on_tcp();
    let address = lab.server.as_ref().unwrap().address().unwrap();
    let get = |header: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "GET /v1/health HTTP/1.1\r\nHost: weir\r\n{header}Connection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get("Authorization: Bearer correct-horse-battery\r\n").starts_with("HTTP/1.1 200"));
    for header in [
        "",
        "Authorization: Bearer wrong-horse-battery\r\n",
        "Authorization: Basic correct-horse-battery\r\n",
    ] {
        let answer = get(header);
        assert!(
            answer.starts_with("HTTP/1.1 401")
                && answer.to_lowercase().contains("www-authenticate: bearer"),
            "{answer}"
        );
    }
}

#[test]
fn the_server_removes_the_name_of_its_socket() {
    let mut lab = Lab::new();
    let client = lab.client();
    assert_eq!(client.health().unwrap().revision, 0);
    lab.server.take().unwrap().stop();
    assert!(!lab.socket().exists());
    assert!(matches!(client.health(), Err(ClientError::NoDaemon { .. })));
}

fn send(client: &Client, script: &str) -> CommandReply {
    client
        .commands(&CommandRequest { script: script.to_owned(), ..CommandRequest::default() })
        .unwrap()
}

/// A plane that records its configurations and reports the same counters for every pipe.
#[derive(Default)]
struct Memory {
    /// The configurations, in the order in which they were applied.
    applied: Mutex<Vec<Arc<Ruleset>>>,
    /// How often counters were reset.
    zeroed: AtomicUsize,
    /// Number of invented pipes in its counters.
    links: AtomicUsize,
    /// While this is true, a change panics.
    panics: AtomicBool,
    /// While this is true, the plane does not answer queries.
    stuck: AtomicBool,
    bridges: Mutex<Vec<BridgeView>>,
}

impl Memory {
    fn wait_while_stuck(&self) {
        while self.stuck.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Plane for Memory {
    fn apply(&self, _old: &Ruleset, new: &Arc<Ruleset>) -> Vec<String> {
        assert!(!self.panics.load(Ordering::Relaxed), "this test makes the change panic");
        self.applied.lock().unwrap().push(Arc::clone(new));
        Vec::new()
    }

    fn zero(&self, _rules: Option<&[u32]>) -> Result<(), NoAnswer> {
        self.zeroed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn snapshot(&self) -> Result<Snapshot, NoAnswer> {
        self.wait_while_stuck();
        let mut sample = LinkSample::default();
        (sample.counters.packets_in, sample.counters.packets_out) = (17, 15);
        (0..2).for_each(|_| sample.counters.count_drop(weir_core::stats::DropReason::QueueFull));
        let applied = self.applied.lock().unwrap();
        let real = applied
            .last()
            .map(|ruleset| ruleset.pipes.keys().copied().collect::<Vec<_>>())
            .unwrap_or_default();
        let made_up = 1000..1000 + self.links.load(Ordering::Relaxed) as u16;
        let mut queue_ns = Histogram::default();
        queue_ns.record_many(3_000_000, 15);
        let times = Times { queue_ns, total_ns: Histogram::default() };
        Ok(Snapshot {
            lanes: vec![LaneView {
                name: "a-b".to_owned(),
                from: "a".to_owned(),
                to: "b".to_owned(),
                ..LaneView::default()
            }],
            lane_times: vec![LaneTimes::default()],
            link_times: real.iter().map(|&number| (number, times.clone())).collect(),
            links: real.into_iter().chain(made_up).map(|number| (number, sample.clone())).collect(),
            ..Snapshot::default()
        })
    }

    fn lengths(&self) -> Result<Lengths, NoAnswer> {
        let length = |&number: &u16| {
            (number, LengthView { packets: number.into(), ..LengthView::default() })
        };
        Ok(Lengths {
            at_ns: 99,
            links: self.snapshot()?.links.keys().map(length).collect(),
            ..Lengths::default()
        })
    }

    fn instances(
        &self,
        _kind: ObjectKind,
        _number: u16,
        _after: Option<u64>,
        _limit: usize,
    ) -> Result<InstancePage, NoAnswer> {
        Ok(InstancePage::default())
    }

    fn flows(
        &self,
        _kind: ObjectKind,
        number: u16,
        _most: usize,
    ) -> Result<(Vec<FlowCount>, u64), NoAnswer> {
        Ok((vec![FlowCount { packets: u64::from(number), ..FlowCount::default() }], 1))
    }

    fn dynamic(&self) -> Result<Vec<DynamicView>, NoAnswer> {
        Ok(Vec::new())
    }

    fn lanes(&self) -> Result<Vec<LaneView>, NoAnswer> {
        self.wait_while_stuck();
        Ok(Vec::new())
    }

    fn bridges(&self) -> Vec<BridgeView> {
        self.bridges.lock().unwrap().clone()
    }
}

/// A server with its state directory.
struct Lab {
    scratch: Scratch,
    plane: Arc<Memory>,
    owner: Owner,
    server: Option<Server>,
}

impl Lab {
    fn new() -> Self {
        Self::with_token(None)
    }

    fn with_token(token: Option<Token>) -> Self {
        Self::with(token, own_access())
    }

    fn with(token: Option<Token>, access: Access) -> Self {
        let scratch = Scratch::new();
        let (plane, owner, server) = start_for(&scratch.0, token, access);
        Self { scratch, plane, owner, server: Some(server) }
    }

    /// A server that also listens on TCP, with the token [`TOKEN`].
    fn on_tcp() -> Self {
        let scratch = Scratch::new();
        let file = scratch.0.join("token");
        std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        Self::with_token(Some(Token::read(&file).unwrap()))
    }

    /// Stops everything and restarts from the saved state.
    fn restart(&mut self) {
        drop(self.server.take());
        let spare = Scratch::new();
        // Dropping the last handle of the old owner ends its thread, which releases the lock.
        self.owner = start(&spare.0, None).1;
        drop(opened(&self.state()));
        let (plane, owner, server) = start(&self.scratch.0, None);
        (self.plane, self.owner, self.server) = (plane, owner, Some(server));
    }

    fn state(&self) -> PathBuf {
        self.scratch.0.join("state")
    }

    fn socket(&self) -> PathBuf {
        self.scratch.0.join("weir.sock")
    }

    fn client(&self) -> Client {
        Client::new(self.socket())
    }

    /// Sends bytes and reads until the server closes the connection.
    fn raw(&self, request: &str) -> String {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        if !request.contains("\r\n\r\n") {
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if answer.is_empty() { "HTTP/1.1 closed".to_owned() } else { answer }
    }

    /// Sends bytes and reads the first part of the answer.
    fn raw_head(&self, request: &str) -> String {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut bytes = [0; 4096];
        let n = stream.read(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    }
}

/// The access of the test's own user.
fn own_access() -> Access {
    Access { uid: rustix::process::geteuid().as_raw(), gid: None, groups_of: no_groups }
}

/// Opens a state directory as soon as the thread of a dropped owner has released it.
fn opened(directory: &Path) -> Store {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match Store::open(directory) {
            Ok(store) => return store,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn start(directory: &Path, token: Option<Token>) -> (Arc<Memory>, Owner, Server) {
    start_for(directory, token, own_access())
}

fn start_for(
    directory: &Path,
    token: Option<Token>,
    access: Access,
) -> (Arc<Memory>, Owner, Server) {
    let plane = Arc::new(Memory::default());
    let store = Store::open(&directory.join("state")).unwrap();
    let owner = Resumed::new(store).unwrap().start(Arc::clone(&plane) as Arc<dyn Plane>).unwrap();
    let endpoints = Endpoints {
        socket: (ControlSocket::bind(&directory.join("weir.sock"), None).unwrap(), access),
        http: token.map(|token| (TcpListener::bind("127.0.0.1:0").unwrap(), token)),
    };
    let session = Arc::new(session::Recorded::default());
    let server = Server::start_with_session(
        endpoints,
        owner.clone(),
        Arc::clone(&plane) as Arc<dyn Plane>,
        session,
        None,
    );
    (plane, owner, server.unwrap())
}

fn no_groups(_socket: BorrowedFd<'_>) -> std::io::Result<Vec<u32>> {
    Ok(Vec::new())
}

/// The token of a server on TCP.
const TOKEN: &str = "correct-horse-battery";

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let n = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-api-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that remains in /tmp is not a failure of the code under test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
