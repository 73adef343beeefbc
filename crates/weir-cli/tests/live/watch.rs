//! Tests `weir watch`. It reports the same values as `tc` for a queue that does not change. It
//! writes its results however the watch ends. Its outputs agree with each other.

use std::fs;
use std::process::Command;

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::common::{Copies, Done, Lab, NOBODY, Need, load, must, number, output_of, trial, until};
use crate::daemon::{Daemon, Wire};
use crate::schema::document;

pub(crate) fn tests() -> Vec<Trial> {
    let needs: &[Need] = &[Need::Root, Need::Program("tc")];
    let as_user: &[Need] = &[Need::Root, Need::Program("tc"), Need::Program("setpriv")];
    let terminal: &[Need] = &[Need::Root, Need::Program("tc"), Need::Program("script")];
    vec![
        trial("a_full_queue_is_as_tc_says", needs, full_queue),
        trial("drops_are_counted_while_a_program_runs", needs, program),
        trial("a_watched_program_ends_with_its_own_exit_code", needs, exit_codes),
        trial("all_outputs_of_a_watch_agree", needs, outputs),
        trial("interrupted_a_watch_writes_everything", needs, interrupted),
        trial("without_rights_queues_are_read_over_netlink", as_user, without_rights),
        trial("a_device_that_is_deleted_ends_in_the_results", needs, deleted),
        trial("a_record_that_cannot_be_written_is_named_and_the_rest_kept", needs, full_disk),
        trial("a_disk_that_fills_up_keeps_whole_lines", needs, filling_disk),
        trial("what_cannot_be_watched_is_said_plainly", needs, refused),
        trial("a_queue_of_the_daemon_is_read_like_a_queue_of_the_kernel", needs, daemon_queues),
        trial("the_view_gives_the_terminal_back", terminal, view),
    ]
}

/// A veth pair with a queue at one end that releases almost nothing. It is deleted when this is
/// dropped.
struct Jam;

impl Jam {
    fn make() -> Self {
        must("ip link add qa type veth peer name qb");
        let jam = Self;
        // Otherwise the counters would include the kernel's own packets.
        must("for i in qa qb; do echo 1 > /proc/sys/net/ipv6/conf/$i/disable_ipv6; done");
        must("ip addr add 10.78.0.1/24 dev qa && ip link set qa up && ip link set qb up");
        must("ip neigh replace 10.78.0.2 lladdr 02:00:00:00:00:02 dev qa");
        // The first packets depart with the burst. At this rate, all later ones wait.
        must("tc qdisc replace dev qa root handle 7: tbf rate 8bit burst 1600 limit 6000");
        jam
    }

    /// Shell words that send more packets into the queue than it holds.
    fn send() -> String {
        format!("{} send --to 10.78.0.2:9 -4 --count 60 --pps 2000 --size 200 >/dev/null", load())
    }

    fn fill() -> Self {
        let jam = Self::make();
        must(&Self::send());
        jam
    }
}

impl Drop for Jam {
    fn drop(&mut self) {
        // A test may have deleted the veth pair.
        let _ = output_of("ip link del qa");
    }
}

/// The state of the queue with this handle according to `tc`.
fn tc(handle: &str) -> Value {
    let all: Value =
        serde_json::from_str(&output_of("tc -s -j qdisc show dev qa")).expect("tc prints JSON");
    let found = all.as_array().and_then(|all| all.iter().find(|qdisc| qdisc["handle"] == handle));
    found.unwrap_or_else(|| panic!("no {handle} in {all}")).clone()
}

/// The queue with this handle in a summary.
fn qdisc<'a>(summary: &'a Value, handle: &str) -> &'a Value {
    let all = summary["qdiscs"].as_array().unwrap_or_else(|| panic!("no queues in {summary}"));
    all.iter()
        .find(|qdisc| qdisc["handle"] == handle)
        .unwrap_or_else(|| panic!("no {handle} in {summary}"))
}

/// Runs `weir watch`, and returns the finished command and the summary that it wrote.
fn watch(lab: &Lab, words: &[&str]) -> (Done, Value) {
    let json = lab.path("watch.json").display().to_string();
    let done =
        lab.weir(["watch"].iter().chain(&words[..1]).chain(&["--json", &json]).chain(&words[1..]));
    assert!(lab.path("watch.json").exists(), "no summary: {done:?}");
    (done, lab.document("watch.json"))
}

fn full_queue(lab: &Lab) {
    let _jam = Jam::fill();
    for method in ["timer", "loop"] {
        let (done, summary) = watch(lab, &["qa", "--method", method, "--seconds", "0.3"]);
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(
            (&summary["method"], &summary["device"]),
            (&method.into(), &"qa".into()),
            "{summary}"
        );
        let (ours, theirs) = (qdisc(&summary, "7:"), tc("7:"));
        assert!(number(&theirs, "qlen") > 10, "the queue is not full: {theirs}");
        for statistic in ["p50", "p99", "max"] {
            assert_eq!(
                number(&ours["qlen"], statistic),
                number(&theirs, "qlen"),
                "{method} {statistic}"
            );
            assert_eq!(
                number(&ours["backlog_bytes"], statistic),
                number(&theirs, "backlog"),
                "{method} {statistic}"
            );
        }
        assert_eq!(number(ours, "drops"), 0, "none during the watch: {ours}");
        assert!(done.stderr.contains("gaps") && done.stderr.contains("asked"), "{}", done.stderr);
    }
}

fn program(lab: &Lab) {
    let _jam = Jam::make();
    let before = number(&tc("7:"), "drops");
    let (done, summary) =
        watch(lab, &["qa", "--threshold", "5", "--exec", &format!("{}; exit 7", Jam::send())]);
    assert_eq!(done.code, 7, "{done:?}");
    let (ours, theirs) = (qdisc(&summary, "7:"), tc("7:"));
    assert_eq!(number(ours, "drops"), number(&theirs, "drops") - before, "{ours} {theirs}");
    assert!(number(ours, "drops") > 0, "more was sent than fits: {ours}");
    assert_eq!(number(&ours["qlen"], "max"), number(&theirs, "qlen"));
    let share = ours["above"]["share"].as_f64().expect("a share");
    assert!(share > 0.0 && share < 1.0, "the queue was empty at first and full in the end: {ours}");
}

fn exit_codes(lab: &Lab) {
    let _jam = Jam::make();
    let code = |words: &[&str]| lab.weir(["watch", "qa"].iter().chain(words)).code;
    assert_eq!(code(&["--", "sh", "-c", "kill -TERM $$"]), 128 + 15);
    assert_eq!(code(&["--", "no-such-program-anywhere"]), 127);
    assert_eq!(code(&["--", "/"]), 126);
    assert_eq!(code(&["--seconds", "0.2", "--", "sleep", "60"]), 128 + 15);
    assert_eq!(code(&["--rate", "fast"]), 2);
    // A signal that only weir receives is forwarded to the program.
    let running = lab.start([
        "watch",
        "qa",
        "--",
        "sh",
        "-c",
        "trap 'exit 9' TERM; echo ready >&2; while :; do sleep 0.05; done",
    ]);
    until("the program runs", || running.stderr().contains("ready"));
    kill(running.pid(), Signal::SIGTERM).expect("it is alive");
    assert_eq!(running.finish().code, 9);
}

fn outputs(lab: &Lab) {
    let _jam = Jam::make();
    let path = |name: &str| lab.path(name).display().to_string();
    let (jsonl, csv, parquet, report) =
        (path("w.jsonl"), path("w.csv"), path("w.parquet"), path("w.html"));
    let words = [
        "qa",
        "--jsonl",
        &jsonl,
        "--csv",
        &csv,
        "--parquet",
        &parquet,
        "--report",
        &report,
        "--exec",
        &Jam::send(),
    ];
    let (done, summary) = watch(lab, &words);
    assert_eq!(done.code, 0, "{done:?}");
    let text = fs::read_to_string(&jsonl).expect("the lines");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    let samples = |id: &Value| {
        let own = lines.iter().filter(|line| line["type"] == "readings" && line["queue"] == *id);
        own.map(|line| number(line, "samples")).sum::<u64>()
    };
    let queues: Vec<&Value> = lines.iter().filter(|line| line["type"] == "queue").collect();
    assert!(queues.len() >= 2, "a tbf and what is below it: {text}");
    let mut sum = 0;
    for (queue, summed) in queues.iter().zip(summary["qdiscs"].as_array().expect("queues")) {
        assert_eq!((&queue["handle"], &queue["parent"]), (&summed["handle"], &summed["parent"]));
        assert_eq!(samples(&queue["id"]), number(summed, "samples"), "{queue}");
        sum += samples(&queue["id"]);
    }
    let table = fs::read_to_string(&csv).expect("the table");
    let mut rows = table.lines();
    let head: Vec<&str> = rows.next().expect("a head").split(',').collect();
    let column = head
        .iter()
        .position(|name| *name == "samples")
        .unwrap_or_else(|| panic!("no samples in {head:?}"));
    let counted: u64 = rows.filter_map(|row| row.split(',').nth(column)?.parse::<u64>().ok()).sum();
    assert_eq!(counted, sum, "the table has the readings of the lines");
    let parquet = fs::read(&parquet).expect("the Parquet table");
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"), "a whole Parquet file");
    let report = fs::read_to_string(&report).expect("the report");
    assert!(
        report.contains("</html>") && report.contains("tbf 7:"),
        "a whole report about this queue"
    );
}

fn interrupted(lab: &Lab) {
    let _jam = Jam::fill();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (json, csv) =
            (lab.path("i.json").display().to_string(), lab.path("i.csv").display().to_string());
        let running = lab.start(["watch", "qa", "--json", &json, "--csv", &csv]);
        until("the queue is reported", || running.stderr().contains("tbf 7:"));
        running.signal_group(signal);
        let done = running.finish();
        assert_eq!(done.code, 0, "{done:?}");
        assert!(number(qdisc(&lab.document("i.json"), "7:"), "samples") > 0);
        assert!(fs::read_to_string(&csv).expect("the table").lines().count() > 1);
    }
}

fn without_rights(lab: &Lab) {
    let _jam = Jam::fill();
    let copies = Copies::make(lab);
    let json = format!("{}/w.json", copies.home);
    let mut command = Command::new(NOBODY[0]);
    command.args(&NOBODY[1..]).args([
        &copies.weir,
        "watch",
        "qa",
        "--seconds",
        "0.3",
        "--json",
        &json,
    ]);
    let done = lab.launch(&mut command).finish();
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stderr.contains("netlink"), "the reason is reported: {done:?}");
    let summary = document(&fs::read(&json).expect("a summary"));
    assert_eq!(summary["method"], "netlink");
    assert_eq!(number(&qdisc(&summary, "7:")["qlen"], "max"), number(&tc("7:"), "qlen"));
    let mut command = Command::new(NOBODY[0]);
    command.args(&NOBODY[1..]).args([
        &copies.weir,
        "watch",
        "qa",
        "--rate",
        "max",
        "--method",
        "loop",
    ]);
    let done = lab.launch(&mut command).finish();
    assert!(
        done.code == 125 && done.stderr.contains("CAP_BPF"),
        "a method that was asked for is not replaced: {done:?}"
    );
}

fn deleted(lab: &Lab) {
    let _jam = Jam::fill();
    let json = lab.path("d.json").display().to_string();
    let running = lab.start(["watch", "q?", "--json", &json]);
    until("the queue is reported", || running.stderr().contains("tbf 7:"));
    must("ip link del qa");
    until("the end of the queue is reported", || {
        let message = running.stderr();
        message
            .lines()
            .last()
            .is_some_and(|line| line.starts_with("timer") && !line.contains("tbf 7:"))
    });
    running.signal_group(Signal::SIGINT);
    let done = running.finish();
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stderr.contains("qa is gone"), "{done:?}");
    let all = lab.document("d.json");
    let devices = all.as_array().expect("two devices");
    let of_qa = devices.iter().find(|device| device["device"] == "qa").expect("qa was there");
    assert!(qdisc(of_qa, "7:")["until_s"].is_f64(), "it ended: {of_qa}");
}

fn full_disk(lab: &Lab) {
    let _jam = Jam::fill();
    let (done, summary) = watch(lab, &["qa", "--csv", "/dev/full", "--seconds", "30"]);
    assert_eq!(done.code, 125, "{done:?}");
    assert!(done.stderr.contains("/dev/full") && done.stderr.contains("No space left"), "{done:?}");
    assert!(
        summary["seconds"].as_f64().expect("seconds") < 20.0,
        "without a program, the watch ends at the error: {summary}"
    );
    let (done, summary) =
        watch(lab, &["qa", "--csv", "/dev/full", "--", "sh", "-c", "sleep 2; exit 3"]);
    assert_eq!(done.code, 125, "{done:?}");
    assert!(
        summary["seconds"].as_f64().expect("seconds") >= 2.0,
        "the program is not disturbed: {summary}"
    );
}

fn filling_disk(lab: &Lab) {
    let _jam = Jam::make();
    // Every packet passes and produces two lines.
    must("tc qdisc replace dev qa root handle 8: tbf rate 1gbit burst 100000 limit 1000000");
    let small = lab.path("small").display().to_string();
    fs::create_dir(&small).expect("a mount point");
    must(&format!("mount -t tmpfs -o size=16k,mode=777 weir-test {small}"));
    let record = format!("{small}/w.jsonl");
    let send = format!("{s}; {s}; {s}; sleep 1; exit 3", s = Jam::send());
    let (done, summary) = watch(lab, &["qa", "--events", "--jsonl", &record, "--exec", &send]);
    let text = fs::read_to_string(&record).expect("the record");
    must(&format!("umount -l {small}"));
    assert_eq!(done.code, 125, "{done:?}");
    assert!(done.stderr.contains("w.jsonl") && done.stderr.contains("No space left"), "{done:?}");
    assert!(
        text.ends_with('\n')
            && text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "whole lines: {text}"
    );
    let lines = text.lines().count() as u64;
    assert!(
        lines > 10 && number(&summary, "samples") > lines,
        "the summary has what did not fit: {lines} lines, {summary}"
    );
}

fn refused(lab: &Lab) {
    let _jam = Jam::make();
    let message = |words: &[&str]| {
        let done = lab.weir(["watch"].iter().chain(words).chain(&["--seconds", "0.2"]));
        assert!(done.code == 125 || done.code == 2, "{words:?}: {done:?}");
        done.stderr
    };
    assert!(message(&["nope"]).contains("qa"), "the message lists the existing devices");
    assert!(message(&["qa", "--netns", "nowhere"]).contains("nowhere"));
    assert!(message(&["qa", "--pid", "4000000"]).contains("no such process"));
    assert!(message(&["qa", "--json", "/nowhere/x.json"]).contains("/nowhere"));
    assert!(message(&["qa", "--json", "-", "--csv", "-"]).contains("standard output"));
    assert!(message(&["qa", "--method", "timer", "--rate", "1M"]).contains("--method loop"));
    assert!(message(&["weir:/nowhere/weir.sock"]).contains("/nowhere/weir.sock"));
}

fn daemon_queues(lab: &Lab) {
    let _wire = Wire::new();
    let daemon = Daemon::start(lab, &[]);
    daemon.send("pipe 1 config bw 8kbit/s queue 100\nadd 100 pipe 1 udp from any to any 9000");
    must("ip -n wl neigh replace 10.77.0.2 lladdr 02:00:00:00:00:02 dev e");
    must(&format!(
        "ip netns exec wl {} send --to 10.77.0.2:9000 -4 --count 50 --pps 1000 --size 1000 \
         >/dev/null",
        load()
    ));
    let target = format!("weir:{}", lab.path("weir.sock").display());
    let (done, all) = watch(lab, &[&target, "sl", "--seconds", "0.5"]);
    assert_eq!(done.code, 0, "{done:?}");
    let devices = all.as_array().expect("two devices");
    let of = |name: &str| {
        devices
            .iter()
            .find(|device| device["device"] == name)
            .unwrap_or_else(|| panic!("no {name} in {all}"))
    };
    assert_eq!((&of("weir")["method"], &of("sl")["method"]), (&"daemon".into(), &"timer".into()));
    let pipe = &of("weir")["qdiscs"][0];
    assert_eq!(pipe["kind"], "pipe 1");
    let waiting = daemon.waiting();
    assert!(
        waiting > 40 && number(&pipe["qlen"], "max").abs_diff(waiting) <= 2,
        "{waiting} packets wait according to the daemon: {pipe}"
    );
    assert!(
        number(pipe, "samples") > 20 && number(&of("sl")["qdiscs"][0], "samples") > 20,
        "{all}"
    );
}

fn view(lab: &Lab) {
    let _jam = Jam::fill();
    let shown = lab.path("screen").display().to_string();
    let line = format!("stty rows 12 cols 100; {} watch qa --seconds 1", crate::common::weir());
    let done = lab.launch(Command::new("script").args(["-qec", &line, &shown])).finish();
    assert_eq!(done.code, 0, "{done:?}");
    let screen = fs::read_to_string(&shown).expect("what was on the terminal");
    let (entered, left) = (screen.find("\u{1b}[?1049h"), screen.rfind("\u{1b}[?1049l"));
    assert!(entered.is_some() && left > entered, "{screen}");
    assert!(screen.contains("qa tbf 7:") && screen.contains('█'), "{screen}");
    let after = &screen[left.expect("the alternate screen was left")..];
    assert!(
        after.contains("readings in") && after.contains("tbf 7:"),
        "the summary is on the original screen: {after}"
    );
}
