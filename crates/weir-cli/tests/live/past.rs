//! Tests that the stored history of the objects on the web page (pipes, lanes) survives a restart
//! of a real daemon, whether the daemon was stopped or killed.

use std::fs;

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use crate::common::{Lab, Need, must, trial, until};
use crate::daemon::{Daemon, OTHER_USER, Wire};
use crate::web::Site;

pub(crate) fn tests() -> Vec<Trial> {
    let needs = &[Need::Root, Need::Program("ip"), Need::Program("ping")];
    vec![
        trial("the_past_of_the_page_survives_restarts_and_kills", needs, survives),
        trial("a_damaged_past_of_the_page_stops_no_daemon", needs, damaged),
    ]
}

const WORDS: &[&str] = &["--web", "127.0.0.1:18935"];

/// The points of an object in the last two hours.
fn points(site: &Site, object: &str) -> Vec<Value> {
    let cookie = site.login(&site.full);
    let now = site.get("/v1/page", &cookie).json()["now_ms"].as_i64().expect("a time");
    let from = now - 7_200_000;
    let path = format!("/v1/history?object={object}&from_ms={from}&to_ms={now}&points=2000");
    let past = site.get(&path, &cookie).json();
    past["points"].as_array().expect("points").clone()
}

fn time(point: &Value) -> f64 {
    point[0].as_f64().expect("a time in ms")
}

/// The number of packets that arrived in the time of a point.
fn packets(point: &Value) -> f64 {
    point[6].as_f64().expect("a rate") * point[1].as_f64().expect("a span") / 1e3
}

fn survives(lab: &Lab) {
    let wire = Wire::new();
    let user = OTHER_USER.to_string();
    let words = [WORDS, &["--user", &user]].concat();
    let mut daemon = Daemon::start(lab, &words);
    let site = Site::of(&mut daemon.running);
    daemon.send(
        "pipe 1 config bw 8Mbit/s\npipe 2 config bw 1Mbit/s\nadd 100 pipe 1 ip from any to any",
    );
    wire.ping(true);
    until("the pipe has a past", || points(&site, "pipe:1").iter().any(|one| packets(one) > 0.0));
    let before = points(&site, "pipe:1");
    let (last, sum) = (time(&before[before.len() - 1]), before.iter().map(packets).sum::<f64>());
    daemon.send("pipe 2 delete");
    kill(daemon.pid(), Signal::SIGTERM).expect("it runs");
    daemon.finish();

    let daemon = Daemon::start(lab, &words);
    assert!(!daemon.running.stderr().contains("past of the page"));
    until("there are new points", || {
        let all = points(&site, "pipe:1");
        all.iter().any(|point| time(point) > last + 1000.0)
    });
    let after = points(&site, "pipe:1");
    let old = |points: &[Value]| {
        points.iter().filter(|one| time(one) <= last + 1000.0).map(packets).sum::<f64>()
    };
    // Rates are rounded.
    assert!(old(&after) >= sum - 0.5, "{sum} before, then {after:?}");
    let begin = |point: &Value| time(point) - point[1].as_f64().expect("a span");
    let gaps = |all: &[Value]| all.windows(2).filter(|w| begin(&w[1]) > time(&w[0]) + 1.0).count();
    assert_eq!(gaps(&after), 1, "nothing is known about the time between: {after:?}");
    assert_eq!(points(&site, "pipe:2"), Vec::<Value>::new(), "it was deleted");
    // A page that is opened now begins with the past.
    let cookie = site.login(&site.full);
    let mut stream = site.stream(&cookie).expect("a stream");
    stream.send(&json!({"op": "subscribe", "id": 1, "what": "object", "object": "pipe:1",
        "history_s": 86_400}));
    let first = stream.points(1);
    assert!(old(&first) >= sum - 0.5, "{first:?}");
    drop(stream);

    // A point that spans ten seconds survives a kill once it is in the file `10s`.
    let written = || fs::metadata(lab.path("state/web-history/10s")).map_or(0, |file| file.len());
    let known = written();
    until("more is written", || written() > known);
    let before = points(&site, "lane:sl-sr");
    daemon.kill();
    let daemon = Daemon::start(lab, &words);
    assert!(!daemon.running.stderr().contains("past of the page"));
    let after = points(&site, "lane:sl-sr");
    let oldest = |points: &[Value]| points.first().map(begin).expect("points");
    // Each daemon rounds the date of the page clock's zero to a millisecond, so two daemons may
    // date a point 1 ms apart.
    assert!((oldest(&before) - oldest(&after)).abs() <= 1.0, "{before:?} {after:?}");
    let end = before.last().map(time).expect("points");
    let is_of_the_killed = |point: &Value| time(point) > last + 1000.0 && time(point) <= end;
    assert!(after.iter().any(is_of_the_killed), "{after:?}");
    // Another user takes the state over, with the past.
    kill(daemon.pid(), Signal::SIGTERM).expect("it runs");
    daemon.finish();
    let user = (OTHER_USER - 1).to_string();
    let mut daemon = Daemon::start(lab, &[WORDS, &["--user", &user]].concat());
    let site = Site::of(&mut daemon.running);
    assert!(!daemon.running.stderr().contains("past of the page"));
    assert!(!points(&site, "lane:sl-sr").is_empty());
    kill(daemon.pid(), Signal::SIGTERM).expect("it runs");
    daemon.finish();
}

fn damaged(lab: &Lab) {
    let _wire = Wire::new();
    let history = lab.path("state/web-history").display().to_string();
    let faults = [
        ("echo rubbish > H/10s", "no history of this version"),
        ("truncate -s 1T H/60s", "longer than"),
        ("rm -r H && ln -s /etc H", "cannot be kept"),
        ("rm -r H && mkfifo H", "cannot be kept"),
        ("rm -r H && mkdir H && mkfifo H/10s", "it is no file"),
        // The disk is full.
        (
            "rm -r H && mkdir H && mount -t tmpfs -o size=4k,mode=777 full H && head -c 4096 \
             /dev/zero > H/full; true",
            "cannot be kept",
        ),
    ];
    for (command, said) in faults {
        must(&format!("mkdir -p {history} && {}", command.replace('H', &history)));
        let mut daemon = Daemon::start(lab, WORDS);
        let site = Site::of(&mut daemon.running);
        until(command, || daemon.running.stderr().contains(said));
        until("the page works", || !points(&site, "lane:sl-sr").is_empty());
        kill(daemon.pid(), Signal::SIGTERM).expect("it runs");
        let done = daemon.finish();
        assert_eq!(done.code, 0, "{command}: {done:?}");
        // A lasting fault is reported once.
        let times = done.stderr.matches("cannot be kept").count();
        assert!(times <= 1, "{command}: {done:?}");
        assert!(!fs::exists("/etc/10s").expect("a look"), "a link is not followed");
        must(&format!("umount {history} 2>/dev/null; rm -rf {history}"));
    }
}
