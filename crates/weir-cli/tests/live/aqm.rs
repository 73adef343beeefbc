//! Tests every AQM on real traffic: two CUBIC transfers and a ping share one queue of 1000 packets
//! at 10 Mbit/s, and the tests judge the queueing delay of the ping. One test judges the marks and
//! drops of FQ-CoDel instead.
//!
//! Each AQM of the table manages a FIFO; schedulers that distinguish flows by headers take the
//! place of the FIFO. Several methods are tested at once, each in its own namespaces, because their
//! loads are small for the machine.

use libtest_mimic::Trial;
use serde_json::Value;
use weir_core::{aqm, sched};

use crate::common::{Lab, Need, at_once, drops, link_from, number, trial};

/// The tests that judge delays.
pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("every_aqm_keeps_delay_short_where_tail_drop_does_not", NEEDS, every),
        trial("a_link_with_a_scheduler_in_its_specification_keeps_a_ping_short", NEEDS, link_sched),
    ]
}

/// The test that judges counts.
pub(crate) fn counts() -> Vec<Trial> {
    vec![trial("flows_with_ecn_are_marked_and_lose_nothing_under_fq_codel", NEEDS, ecn)]
}

/// The measurements of a run.
struct Run {
    /// The round-trip times in ms after the transfers have found their rate, sorted.
    pings: Vec<f64>,
    /// The combined rate of both transfers in bit/s.
    goodput: f64,
    /// The statistics of the link with the queue.
    link: Value,
}

impl Run {
    /// The 99th percentile of the ping in excess of the path's own round-trip time, in ms.
    fn p99(&self) -> f64 {
        self.pings[(self.pings.len() * 99 / 100).min(self.pings.len() - 1)] - BASE
    }
}

/// Runs two transfers and a ping from left to right through these rules.
fn run(lab: &Lab, rules: &str, ecn: bool) -> Run {
    let rules = format!("{rules}pipe 9 config delay 10ms\nadd 900 pipe 9 all from any to any in\n");
    let file = lab.file("test.rules", &rules);
    through(lab, &["--rules", &file], ecn)
}

/// Runs two transfers and a ping from left to right with these options of `weir pair`.
fn through(lab: &Lab, options: &[&str], ecn: bool) -> Run {
    let out = |name: &str| lab.path(name).display().to_string();
    let ecn = u8::from(ecn);
    let set = format!("sysctl -qw net.ipv4.tcp_ecn={ecn}");
    // On a busy machine, a server may not listen yet. Without another attempt of its client, the
    // server would wait forever.
    let transfer = |port, name: &str| {
        let once = format!("iperf3 -c right -4 -C cubic -p {port} -t {SECONDS} -J > {}", out(name));
        format!("(for i in 1 2 3 4 5; do {once} && break; sleep 0.5; done)")
    };
    let ping = format!("ping -4 -n -D -i 0.02 -w {SECONDS} right > {}", out("ping"));
    let left = format!(
        "{set}; sleep 0.5; {} & {} & {ping}; wait",
        transfer(5201, "one.json"),
        transfer(5202, "two.json")
    );
    let right =
        format!("{set}; iperf3 -s -1 -p 5201 >/dev/null & iperf3 -s -1 -p 5202 >/dev/null & wait");
    // Delays of milliseconds need no spinning, and spinning loops would take the processors from
    // each other.
    let options = [&["--spin", "off", "--no-realtime"], options].concat();
    let result = lab.pair_with(&options, 7, &left, &right);
    let goodput = ["one.json", "two.json"].map(|name| {
        lab.json(name)["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0)
    });
    let text = std::fs::read_to_string(lab.path("ping")).expect("the output of ping");
    let pings = text.lines().filter_map(|line| {
        let at: f64 = line.strip_prefix('[')?.split(']').next()?.parse().ok()?;
        let took: f64 = line.split("time=").nth(1)?.split(' ').next()?.parse().ok()?;
        Some((at, took))
    });
    let pings: Vec<(f64, f64)> = pings.collect();
    let first = pings.first().expect("an answer to ping").0;
    let mut settled: Vec<f64> =
        pings.iter().filter(|p| p.0 - first > SETTLING).map(|p| p.1).collect();
    settled.sort_by(f64::total_cmp);
    assert!(settled.len() > 100, "{} answers to ping: {text}", settled.len());
    Run { pings: settled, goodput: goodput.iter().sum(), link: link_from(&result, "left").clone() }
}

/// All methods of managing the queue, each with its name and rules.
fn methods() -> Vec<(String, String)> {
    let link = "bw 10Mbit/s delay 10ms";
    let aqms = aqm::TABLE.iter().map(|row| {
        // Without a smaller limit, BLUE does nothing until the whole queue is full, like drop tail.
        let own = if row.name == "blue" { "limit=50" } else { "" };
        let rules = format!(
            "pipe 1 config {link} queue 1000 aqm {} {own}\n\
            add 100 pipe 1 all from any to any out\n",
            row.name
        );
        (row.name.to_owned(), rules)
    });
    let scheds = sched::TABLE.iter().filter(|row| row.traits.classifies).map(|row| {
        let rules = format!(
            "sched 1 config type {} {link}\nqueue 1 config sched 1 queue 1000\n\
             add 100 queue 1 all from any to any out\n",
            row.name
        );
        (row.name.to_owned(), rules)
    });
    aqms.chain(scheds).collect()
}

/// The bounds of the ping's 99th percentile in excess of the path's round-trip time, in ms.
fn bounds(name: &str) -> (f64, f64) {
    match name {
        "droptail" | "headdrop" => (500.0, f64::MAX),
        "codel" | "pie" | "fq_codel" => (0.0, 35.0),
        _ => (0.0, 250.0),
    }
}

/// Repeats a run until its results are within the bounds, at most [`ATTEMPTS`] times, because other
/// work on the machine delays pings. If they never are, `Err` has the results of all runs.
fn judge(name: &str, rules: &str) -> Result<(), String> {
    let (least, most) = bounds(name);
    let mut shown = Vec::new();
    for _ in 0..ATTEMPTS {
        let lab = Lab::new();
        let run = run(&lab, rules, false);
        let congestion = &lab.json("one.json")["end"]["sender_tcp_congestion"];
        assert_eq!(congestion, "cubic", "{name}: the congestion control of the transfers");
        let what = format!(
            "{name}: p99 {:.1} ms above the base, {:.2} Mbit/s, drops {}",
            run.p99(),
            run.goodput / 1e6,
            run.link["drops"]
        );
        eprintln!("{what}");
        if (least..most).contains(&run.p99()) && run.goodput > 6e6 {
            return Ok(());
        }
        shown.push(what);
    }
    Err(shown.join("; "))
}

fn every(_lab: &Lab) {
    // Methods with tight bounds run a few at a time, and methods with loose bounds many at a time,
    // because each simultaneous run delays the ping a little.
    let (tight, loose): (Vec<_>, Vec<_>) =
        methods().into_iter().partition(|(name, _)| bounds(name).1 < 100.0);
    let judged = [(TIGHT_AT_ONCE, tight), (LOOSE_AT_ONCE, loose)].map(|(count, methods)| {
        at_once(count, methods, |(name, rules)| judge(&name, &rules).err())
    });
    let wrong: Vec<String> = judged.into_iter().flatten().flatten().collect();
    assert!(wrong.is_empty(), "results outside the bounds: {wrong:#?}");
}

fn ecn(lab: &Lab) {
    let rules = "sched 1 config type fq_codel bw 10Mbit/s delay 10ms\nqueue 1 config sched 1\n\
        add 100 queue 1 all from any to any out\n";
    let run = run(lab, rules, true);
    let marks: u64 = run.link["marks"]
        .as_object()
        .expect("marks by reason")
        .values()
        .filter_map(Value::as_u64)
        .sum();
    assert!(marks > 5, "{marks} marks on {}", run.link);
    let dropped: u64 = ["target", "overlimit", "queue_full", "early", "forced"]
        .iter()
        .map(|reason| drops(&run.link, reason))
        .sum();
    assert_eq!(dropped, 0, "{}", run.link);
    assert!(
        number(&run.link, "packets_out") > 5_000 && run.goodput > 8e6,
        "{:.2} Mbit/s",
        run.goodput / 1e6
    );
}

fn link_sched(_lab: &Lab) {
    let mut shown = Vec::new();
    for _ in 0..ATTEMPTS {
        let lab = Lab::new();
        let options = ["--link", "bw 10Mbit/s delay 10ms queue 1000 sched fq_codel target=6ms"];
        let run = through(&lab, &options, false);
        assert_eq!(run.link["spec"], "bw 10Mbit/s delay 10ms queue 1000 sched fq_codel target 6ms");
        let by_target = drops(&run.link, "target");
        if run.p99() < bounds("fq_codel").1 && run.goodput > 6e6 && by_target > 0 {
            return;
        }
        shown.push(format!("p99 {:.1} ms, {:.2} Mbit/s", run.p99(), run.goodput / 1e6));
    }
    panic!("the ping waits behind the transfers: {shown:?}");
}

const NEEDS: &[Need] = &[Need::Root, Need::Program("iperf3"), Need::Program("ping")];
/// Round-trip time of the path in ms.
const BASE: f64 = 20.0;
/// Duration of a run in seconds.
const SECONDS: u32 = 12;
/// The time at the start of a run in which the transfers find their rate, in seconds.
const SETTLING: f64 = 4.0;
/// Number of simultaneous runs of methods with tight bounds.
const TIGHT_AT_ONCE: usize = 3;
/// Number of simultaneous runs of methods with loose bounds.
const LOOSE_AT_ONCE: usize = 12;
/// Maximum number of attempts.
const ATTEMPTS: usize = 4;
