//! A daemon with a loop that does not answer, and a client of a daemon that does not answer.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

use weir_control::api::{BridgeView, CommandRequest, EventQuery, HealthStatus};
use weir_control::client::{Client, ClientError};
use weir_control::server::GRACE;

use super::{Lab, Scratch, send};

#[test]
fn questions_time_out_and_health_answers_while_the_loop_does_not() {
    let mut lab = Lab::new();
    send(&lab.client(), "pipe 1 config bw 1Mbit/s");
    lab.plane.stuck.store(true, Ordering::Relaxed);
    // More queries than the server has threads.
    let questions: Vec<_> =
        (0..20).flat_map(|_| ["/v1/pipes", "/v1/lengths"]).map(|path| ask(&lab, path)).collect();
    for _ in 0..3 {
        let health = answer(&ask(&lab, "/v1/health"));
        assert!(health.starts_with("HTTP/1.1 200") && health.contains("stalled"), "{health}");
    }
    assert!(answer(&ask(&lab, "/v1/configuration")).starts_with("HTTP/1.1"), "an answer");
    for question in &questions {
        let refusal = answer(question);
        assert!(refusal.starts_with("HTTP/1.1 503"), "{refusal:?}");
        assert!(refusal.contains("did not answer within"), "{refusal}");
    }
    let server = lab.server.take().unwrap();
    let (ended, end) = channel();
    std::thread::spawn(move || {
        server.stop();
        ended.send(())
    });
    end.recv_timeout(2 * GRACE).expect("the server ends");
    lab.plane.stuck.store(false, Ordering::Relaxed);
}

#[test]
fn health_names_the_interfaces_that_do_not_work() {
    let lab = Lab::new();
    let good = BridgeView {
        interfaces: ["eth1".to_owned(), "eth2".to_owned()],
        attached: [true; 2],
        up: [true; 2],
        ..BridgeView::default()
    };
    let judge = |bridge: BridgeView| {
        *lab.plane.bridges.lock().unwrap() = vec![bridge];
        let health = lab.client().health().unwrap();
        (health.status, health.problems.join("\n"))
    };
    assert_eq!(judge(good.clone()), (HealthStatus::Ok, String::new()));
    for (bridge, word) in [
        (BridgeView { up: [true, false], ..good.clone() }, "eth2 is down"),
        (BridgeView { attached: [false, true], ..good.clone() }, "eth1 is missing"),
        (BridgeView { failed: [Some("EIO".to_owned()), None], ..good.clone() }, "eth1 has failed"),
    ] {
        let (status, problems) = judge(bridge);
        assert!(status == HealthStatus::Degraded && problems.contains(word), "{problems}");
        assert_eq!(problems.lines().count(), 1, "{problems}");
        let metrics = lab.client().metrics().unwrap();
        let faulty = [
            "interface_up{interface=\"eth2\",netns=\"\"} 0",
            "interface_attached{interface=\"eth1\",netns=\"\"} 0",
            "interface_failed{interface=\"eth1\",netns=\"\"} 1",
        ];
        assert_eq!(faulty.iter().filter(|line| metrics.contains(**line)).count(), 1, "{metrics}");
    }
}

#[test]
fn a_client_does_not_wait_for_ever() {
    let scratch = Scratch::new();
    let path = scratch.0.join("mute.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let client = Client::new(&path).time_out(Duration::from_millis(200));
    let (done, results) = channel();
    std::thread::spawn(move || {
        let request = CommandRequest { script: "pipe show".into(), ..CommandRequest::default() };
        let events = EventQuery { period: Some(50), count: None };
        let errors = [
            client.health().err(),
            client.commands(&request).err(),
            client.keep().unwrap().lengths().err(),
            client.events(events, |_| std::ops::ControlFlow::Continue(())).err(),
        ];
        assert!(done.send(errors).is_ok(), "the test waits for them");
    });
    // Connections are accepted and never answered.
    let held: Vec<_> = (0..4).map(|_| listener.accept().unwrap().0).collect();
    let errors = results.recv_timeout(Duration::from_secs(20)).expect("every request returns");
    for (error, change) in errors.into_iter().zip([false, true, false, false]) {
        let error = error.expect("no answer");
        assert!(matches!(error, ClientError::NoAnswer { .. }), "{error}");
        assert_eq!(error.to_string().contains("may or may not be in force"), change, "{error}");
    }
    drop(held);
}

fn ask(lab: &Lab, path: &str) -> UnixStream {
    let mut stream = UnixStream::connect(lab.socket()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

/// The answer; empty if there is none within 20 s.
fn answer(mut stream: &UnixStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut text = String::new();
    // After a time-out, `text` contains what has arrived.
    let _ = stream.read_to_string(&mut text);
    text
}
