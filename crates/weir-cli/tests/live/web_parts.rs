//! Tests parts of the web page over real sockets: the trace of a packet agrees with what real
//! packets do, a plan runs without a tab, and a report is one bounded file.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::common::{Lab, Need, trial};
use crate::daemon::{Daemon, Wire};
use crate::web::Site;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "the_page_traces_packets_as_the_rules_lead_them",
            &[Need::Root, Need::Program("ip"), Need::Program("ping")],
            traces,
        ),
        trial("a_plan_of_the_page_runs_without_a_tab", &[], plans),
        trial("a_report_of_the_page_is_one_file", &[Need::Program("ping")], reports),
    ]
}

fn traces(lab: &Lab) {
    let wire = Wire::new();
    let mut daemon = Daemon::start(lab, &["--web", "127.0.0.1:0"]);
    let site = Site::of(&mut daemon.running);
    let cookie = site.login(&site.full);
    let script = "pipe 1 config delay 5ms mask src-ip 0xffffffff\n\
                  add 100 check-state\n\
                  add 110 pipe 1 icmp from 10.77.0.1 to any in keep-state\n\
                  add 120 deny icmp from any to any in";
    let done = site.post("/v1/change", &cookie, &json!({"words": script}));
    assert_eq!(done.status, 200, "{done:?}");
    let look = site.login(&site.read);
    let lanes = site.get("/v1/objects", &look).json();
    let lane = |from: &str| {
        let lanes = lanes["objects"].as_array().into_iter().flatten();
        let mut lanes = lanes.filter(|one| one["kind"] == "lane" && one["from"] == from);
        lanes.next().and_then(|one| one["name"].as_str()).expect("a lane").to_owned()
    };
    let trace = |from: &str, packet: &str| {
        let path = format!("/v1/trace?lane={}&packet={}", lane(from), packet.replace(' ', "+"));
        let reply = site.get(&path, &look);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    };
    // An answer without a request is dropped. The token that permits reading only is enough for a
    // trace.
    let answer = "icmp 10.77.0.2 10.77.0.1 type 0";
    let before = trace("sr", answer);
    assert_eq!(
        (&before["end"], &before["legs"][0]["rules"][2]["number"]),
        (&json!("denied"), &json!(120)),
        "{before}"
    );
    let forth = trace("sl", "icmp 10.77.0.1 10.77.0.2");
    assert_eq!(forth["legs"][0]["enters"][0]["instance"], "10.77.0.1 → *", "{forth}");
    assert_eq!(site.get("/v1/rules", &look).json()[1]["counters"]["packets"], 0);
    // Real packets take the same path, and leave a dynamic rule that the next trace finds. The rule
    // of an ICMP flow lives for five seconds, so a slow machine pings again.
    let deadline = Instant::now() + LIMIT;
    let after = loop {
        wire.ping(true);
        let after = trace("sr", answer);
        if after["end"] == "sent" {
            break after;
        }
        assert!(Instant::now() < deadline, "{after}");
    };
    assert_eq!(after["legs"][0]["enters"][0]["object"], "pipe:1");
    let what = after["legs"][0]["rules"][0]["what"].as_str().unwrap_or_default();
    assert!(what.contains("dynamic rules of rule 110"), "{after}");
    // The counters that a client gets may be slightly old.
    let counted =
        || site.get("/v1/rules", &look).json()[1]["counters"]["packets"].as_u64().unwrap_or(0);
    while counted() < 2 {
        assert!(Instant::now() < deadline, "{}", counted());
        std::thread::sleep(Duration::from_millis(50));
    }
    let wrong = site.get("/v1/trace?packet=tcp+10.0.0.1+10.0.0.2:80", &look);
    assert_eq!((wrong.status, &wrong.json()["start"]), (422, &json!(4)), "{wrong:?}");
    nix::sys::signal::kill(daemon.pid(), nix::sys::signal::Signal::SIGTERM).expect("it runs");
    daemon.finish();
}

fn plans(lab: &Lab) {
    let mut session = lab.start([
        "pair",
        "--name",
        "plan",
        "--web",
        "127.0.0.1:0",
        "--link",
        "bw 4Mbit/s",
        "--left",
        "sleep 600",
        "--right",
        "sleep 600",
    ]);
    let site = Site::of(&mut session);
    let cookie = site.login(&site.full);
    let plan = |text: &str, check_only: bool| {
        let wish = json!({"text": text, "check_only": check_only});
        site.post("/v1/plan", &cookie, &wish)
    };
    let text = "100ms reset\n0s to-left bw 1Mbit/s\n50ms loss 2%\n3600s bw 9Mbit/s";
    let checked = plan(text, true);
    assert_eq!((checked.status, &checked.json()["state"]), (200, &json!("none")), "{checked:?}");
    assert_eq!(site.get("/v1/plan", &cookie).json()["state"], "none", "a check starts nothing");
    let wrong = plan("0s reset\n1s to-left loss 5", true);
    assert_eq!((wrong.status, &wrong.json()["line"]), (422, &json!(2)), "{wrong:?}");
    assert_eq!(plan(text, false).status, 200);
    assert_eq!(plan("0s reset", false).status, 409, "one plan at a time");
    let deadline = Instant::now() + LIMIT;
    let state = loop {
        let state = site.get("/v1/plan", &cookie).json();
        let steps = state["steps"].as_array().expect("steps");
        if steps.iter().filter(|step| !step["done_ms"].is_null()).count() == 3 {
            break state;
        }
        assert!(Instant::now() < deadline, "{state}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let lines: Vec<&Value> =
        state["steps"].as_array().into_iter().flatten().map(|step| &step["line"]).collect();
    assert_eq!(lines, [&json!(2), &json!(3), &json!(1), &json!(4)], "in the order of their times");
    let changes = site.get("/v1/changes", &cookie).json();
    assert_eq!(changes["changes"].as_array().map(Vec::len), Some(3), "{changes}");
    let objects = site.get("/v1/objects", &cookie).json();
    assert_eq!(objects["objects"][1]["spec"], "bw 4Mbit/s", "it was reset");
    let look = site.login(&site.read);
    assert_eq!(site.ask("DELETE", "/v1/plan", &site.host(), &look, "").status, 403);
    let stopped = site.ask("DELETE", "/v1/plan", &site.host(), &cookie, "");
    assert_eq!((stopped.status, &stopped.json()["state"]), (200, &json!("stopped")), "{stopped:?}");
    // A session ends at once, even if its plan has further steps.
    assert_eq!(plan("3600s reset", false).status, 200);
    nix::sys::signal::kill(session.pid(), nix::sys::signal::Signal::SIGTERM).expect("it runs");
    session.finish();
}

fn reports(lab: &Lab) {
    let mut session = lab.start([
        "pair",
        "--name",
        "report",
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
    let look = site.login(&site.read);
    let now = site.get("/v1/page", &look).json()["now_ms"].as_i64().expect("a clock");
    let ask = |objects: &str, from: i64, to: i64| {
        let path = format!("/v1/report?objects={objects}&from_ms={from}&to_ms={to}");
        site.get(&path, &look)
    };
    let both = "%5B%22link:to-left%22,%22link:to-right%22%5D";
    let deadline = Instant::now() + LIMIT;
    let report = loop {
        let report = ask(both, now - 60_000, now + 60_000);
        if report.status == 200 {
            break report;
        }
        assert!(report.status == 404 && Instant::now() < deadline, "{report:?}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let head = report.header("content-disposition");
    assert!(head.starts_with("attachment; filename=\"weir-report-"), "{head}");
    assert!(report.body.starts_with("<!DOCTYPE html>") && report.body.contains("to-left"));
    assert!(report.body.contains("Throughput") && report.body.len() < 8 << 20);
    let bounds = [
        ("%5B%5D", 1, 2, 400),
        ("%5B%22link:no%22%5D", 1, 2, 404),
        (both, 2, 2, 400),
        (both, 0, 86_400_001, 400),
        (both, 1000, 2000, 404),
    ];
    for (objects, from, to, status) in bounds {
        let reply = ask(objects, from, to);
        assert_eq!(reply.status, status, "{reply:?}");
    }
    nix::sys::signal::kill(session.pid(), nix::sys::signal::Signal::SIGTERM).expect("it runs");
    session.finish();
}

/// Time limit of a wait.
const LIMIT: Duration = Duration::from_secs(60);
