//! Tests scenarios on real frames: a live run compared with a simulated one, routes, programs, and
//! the ends of a run.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use weir_report::sim::{Results, to_json};
use weir_sim::build::{Built, build};
use weir_sim::measure::Plan;

use crate::common::{Copies, Lab, NOBODY, Need, number, output_of, trial, until};
use crate::schema::document;

/// The test of this file that compares delays within a fraction of a millisecond.
pub(crate) fn delays() -> Vec<Trial> {
    vec![trial("live_runs_of_a_scenario_agree_with_simulated_ones", &[], agreement)]
}

/// The other tests of this file.
pub(crate) fn tests() -> Vec<Trial> {
    vec![
        // The longest test comes first, so that it does not run on when all others have ended.
        trial("congested_live_runs_do_not_differ_from_simulated_ones", &[Need::Root], congestion),
        trial("packets_go_the_scenarios_routes_and_no_others", &[], routes),
        trial(
            "programs_run_on_their_hosts_and_the_kernels_tcp_fills_a_link",
            &[Need::Program("ping")],
            programs,
        ),
        trial(
            "an_ordinary_user_runs_scenarios_too",
            &[Need::Root, Need::Program("setpriv")],
            ordinary_user,
        ),
        trial("several_live_runs_compare_with_simulated_ones", &[], several),
        trial("kill_9_of_a_live_scenario_leaves_nothing", &[Need::Root], killed),
        trial("what_only_the_simulator_has_is_refused_with_its_line", &[], refused),
    ]
}

/// Two hosts with a stream at nine tenths of the link's rate, and a ping. After a pause of the
/// machine, the sender catches up, which fills the queue. CoDel with its usual target would then
/// drop some packets; the simulator has no such pause. The target is therefore 100 ms.
const PAIR: &str = r#"
name = "pair"
duration = "6s"
warmup = "1s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
between = ["a", "b"]
spec = "bw 20Mbit/s delay 20ms"
scheduler = "fq_codel target 100ms interval 1s"
scheduler_back = "fq_codel target 100ms interval 1s"
[[traffic]]
name = "stream"
kind = "cbr"
from = "a"
to = "b"
rate = "18Mbit/s"
size = "1000B"
[[traffic]]
name = "ping"
kind = "ping"
from = "a"
to = "b"
interval = "20ms"
"#;

fn flow<'a>(summary: &'a Value, name: &str) -> &'a Value {
    let flows = summary["flows"].as_array().expect("a summary has flows");
    flows
        .iter()
        .find(|flow| flow["name"] == name)
        .unwrap_or_else(|| panic!("no flow {name} in {summary}"))
}

fn link<'a>(summary: &'a Value, name: &str) -> &'a Value {
    let links = summary["links"].as_array().expect("a summary has links");
    links
        .iter()
        .find(|link| link["name"] == name)
        .unwrap_or_else(|| panic!("no link {name} in {summary}"))
}

fn live(lab: &Lab, text: &str) -> Value {
    let file = lab.file("scenario.toml", text);
    let json = lab.path("live.json").display().to_string();
    let done = lab.weir(["live", &file, "--quiet", "--json", &json]);
    assert_eq!(done.code, 0, "{done:?}");
    lab.document("live.json")
}

fn simulate(text: &str) -> Value {
    let checked = weir_sim::scenario::parse(text, "scenario.toml", &weir_rules::NoFiles);
    let scenario = checked.scenario.unwrap_or_else(|| panic!("{}", checked.diagnostics));
    let Built { mut world, names } =
        build(&scenario, scenario.seed).expect("every host is reached");
    let plan = Plan {
        seed: scenario.seed,
        warmup: scenario.warmup,
        end: scenario.duration,
        ..Plan::default()
    };
    let outcome = plan.run(&mut world, &names, &mut |_| {});
    let results = Results {
        source: "sim".to_owned(),
        scenario: String::new(),
        runs: vec![outcome],
        ..Results::default()
    };
    document(to_json(&results).as_bytes())
}

/// Runs a scenario several times, simulated and live, and compares the results. Returns the exit
/// code of the comparison, and its verdicts. A text before each verdict has the object, the metric
/// and the two values.
fn compared(
    lab: &Lab,
    file: &str,
    settings: &[&str],
    runs: u32,
    within: &[&str],
) -> (i32, Vec<(String, String)>) {
    let runs = runs.to_string();
    let [simulated, live] =
        ["sim", "live"].map(|side| lab.path(&format!("{side}-{runs}")).display().to_string());
    for (command, out) in [("sim", &simulated), ("live", &live)] {
        let mut args = vec![command, file, "--quiet", "--runs", &runs, "--out", out];
        settings.iter().for_each(|setting| args.extend(["--set", setting]));
        let done = lab.weir(args);
        assert_eq!(done.code, 0, "{done:?}");
    }
    let mut args = vec!["compare", &simulated, &live, "--json", "-"];
    within.iter().for_each(|tolerance| args.extend(["--within", tolerance]));
    let done = lab.weir(args);
    let comparison = document(done.stdout.as_bytes());
    let differences = comparison["differences"].as_array().expect("differences");
    let judged = differences.iter().filter_map(|d| {
        let what = format!(
            "{} {}: {} against {}, ± {}",
            d["name"].as_str()?,
            d["figure"].as_str()?,
            d["left"],
            d["right"],
            d["half_width"]
        );
        Some((what, d["verdict"].as_str()?.to_owned()))
    });
    (done.code, judged.collect())
}

/// Live and simulated runs have the same rates, losses and delays. Other work on the machine makes
/// confidence intervals wider, so more runs are made if the first runs leave a verdict open.
fn agreement(lab: &Lab) {
    let file = lab.file("pair.toml", PAIR);
    let settings = ["duration=3s", "warmup=500ms"];
    let mut verdicts = Vec::new();
    for runs in [4, 10] {
        let code;
        (code, verdicts) = compared(lab, &file, &settings, runs, &AGREEMENT);
        assert!(
            verdicts.len() > 10 && verdicts.iter().all(|(_, verdict)| verdict != "differs"),
            "{verdicts:#?}"
        );
        if code == 0 {
            return;
        }
    }
    panic!("{verdicts:#?}");
}

/// Two transfers through a full queue: the queueing delays with the kernel's TCP and with the
/// simulator's TCP agree. Pauses of a busy machine reduce the goodput and add losses. The verdicts
/// on goodput and losses may therefore stay open, but must not be `differs`.
fn congestion(lab: &Lab) {
    if !weir_linux::tcp::congestion_controls().iter().any(|control| control == "cubic") {
        eprintln!("this kernel has no CUBIC to compare with");
        return;
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/agree/bottleneck.toml");
    let file = file.display().to_string();
    let within = ["goodput_bps=2%", "queue_p50_ns=10%/0.5ms", "drop_share=20%"];
    let settings = ["duration=8s", "warmup=2s"];
    let (_, verdicts) = compared(lab, &file, &settings, 4, &within);
    assert!(verdicts.iter().all(|(_, verdict)| verdict != "differs"), "{verdicts:#?}");
    let queue = verdicts.iter().find(|(what, _)| what.starts_with("link queue_p50_ns"));
    assert_eq!(queue.map(|(_, verdict)| &**verdict), Some("agrees"), "{verdicts:#?}");
}

/// Three hosts and two routers. The path from the first host to the third is longer than the path
/// in the reverse direction.
const ROUTED: &str = r#"
name = "routed"
duration = "3s"
[[node]]
name = "a"
[[node]]
name = "b"
[[node]]
name = "c"
[[node]]
name = "r"
kind = "router"
[[node]]
name = "s"
kind = "router"
[[link]]
between = ["a", "r"]
spec = "delay 5ms"
[[link]]
between = ["b", "r"]
spec = "delay 10ms"
[[link]]
between = ["c", "r"]
spec = "delay 20ms"
[[link]]
between = ["r", "s"]
spec = "delay 40ms"
[[link]]
between = ["s", "c"]
spec = "delay 80ms"
[[route]]
from = "a"
to = "c"
via = ["r", "s"]
[[traffic]]
name = "ab"
kind = "cbr"
from = "a"
to = "b"
rate = "100kbit/s"
size = "200B"
[[traffic]]
name = "ac"
kind = "poisson"
from = "a"
to = "c"
rate = "200kbit/s"
size = "200B"
[[traffic]]
name = "cb"
kind = "ping"
from = "c"
to = "b"
[[traffic]]
name = "ca"
kind = "probe"
from = "c"
to = "a"
"#;

fn routes(lab: &Lab) {
    let (live, simulated) = (live(lab, ROUTED), simulate(ROUTED));
    for (name, least) in [("ab", 15), ("ac", 125), ("cb", 30), ("ca", 25)] {
        let median = number(&flow(&live, name)["delay_ns"], "p50");
        let (least, most) = (least * 1_000_000, (least + 5) * 1_000_000);
        assert!((least..most).contains(&median), "{name} takes {median} ns, not {least}");
        assert_eq!(number(flow(&live, name), "lost"), 0, "{live}");
        // Both runs have the same source and seed, so their numbers of packets differ by at most
        // one, at the end.
        let [sent, expected] = [&live, &simulated].map(|s| number(flow(s, name), "sent"));
        assert!(sent.abs_diff(expected) <= 1, "{name}: {sent} packets sent, simulated {expected}");
    }
    assert_eq!(number(link(&live, "c>s"), "packets_in"), 0, "no packet returns over this link");
    let sent = number(flow(&live, "ac"), "sent");
    assert!(
        number(link(&live, "s>c"), "packets_in").abs_diff(sent) < 40,
        "all packets go over the far router: {live}"
    );
}

/// A transfer over the kernel's TCP, and a program that runs on a host.
const MIXED: &str = r#"
name = "mixed"
duration = "4s"
warmup = "1s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
between = ["a", "b"]
spec = "bw 10Mbit/s delay 5ms"
scheduler = "fq_codel"
[[traffic]]
name = "bulk"
kind = "tcp"
cc = "cubic"
from = "a"
to = "b"
[[traffic]]
name = "echo"
kind = "program"
from = "a"
to = "b"
start = "500ms"
command = "ping -n -c 5 -i 0.3 b"
"#;

fn programs(lab: &Lab) {
    let out = lab.path("out");
    let file = lab.file("scenario.toml", MIXED);
    let json = lab.path("live.json").display().to_string();
    let done =
        lab.weir(["live", &file, "--quiet", "--json", &json, "--out", &out.display().to_string()]);
    assert_eq!(done.code, 0, "{done:?}");
    let live = lab.document("live.json");
    let bulk = flow(&live, "bulk");
    let goodput = bulk["goodput_bps"].as_f64().expect("a rate");
    assert!((6e6..10e6).contains(&goodput), "{live}");
    assert!(
        number(&bulk["delay_ns"], "p50") > 5_000_000 && number(bulk, "received") > 1_000,
        "{live}"
    );
    assert!(number(flow(&live, "echo"), "received") >= 2, "{live}");
    let printed = fs::read_to_string(out.join("echo.txt")).expect("what the program printed");
    assert!(printed.contains("5 received") || printed.contains("5 packets received"), "{printed}");
    document(&fs::read(out.join("summary.json")).expect("a summary"));
    assert!(out.join("flows.parquet").is_file());
    // Without `--force`, an existing directory is refused.
    let again = lab.weir(["live", &file, "--out", &out.display().to_string()]);
    assert_eq!(again.code, 2, "{again:?}");
    assert!(again.stderr.contains("--force"), "{again:?}");
}

fn ordinary_user(lab: &Lab) {
    let Copies { weir, home, .. } = &Copies::make(lab);
    let file = lab.file("scenario.toml", &PAIR.replace("6s", "2s"));
    let json = format!("{home}/live.json");
    let mut command = std::process::Command::new(NOBODY[0]);
    command.args(&NOBODY[1..]).args([weir, "live", &file, "--quiet", "--json", &json]);
    let done = lab.launch(&mut command).finish();
    assert_eq!(done.code, 0, "{done:?}");
    let summary = document(&fs::read(&json).expect("a result"));
    let stream = flow(&summary, "stream");
    assert!(
        number(stream, "received") > 1_500 && number(&stream["delay_ns"], "p50") >= 20_000_000,
        "{stream}"
    );
}

fn several(lab: &Lab) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/busy-line.toml");
    let file = file.display().to_string();
    let short = ["--set", "duration=1s", "--set", "warmup=200ms", "--quiet"];
    let [simulated, live] = ["simulated", "live"].map(|name| lab.path(name).display().to_string());
    let sim = ["sim", &file, "--runs", "3", "--out", &simulated];
    assert_eq!(lab.weir([&sim[..], &short].concat()).code, 0);
    let real = ["live", &file, "--runs", "2", "--seed", "5", "--out", &live];
    let done = lab.weir([&real[..], &short].concat());
    assert_eq!(done.code, 0, "{done:?}");
    let summary = fs::read_to_string(format!("{live}/summary.json")).expect("a summary");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    let seeds: Vec<u64> =
        summary["runs"].as_array().expect("runs").iter().map(|run| number(run, "seed")).collect();
    assert_eq!(seeds, [5, 6]);
    let done = lab.weir(["compare", &simulated, &live]);
    assert!(done.code == 0 && done.stdout.contains("significant, p"), "{done:?}");
    assert!(!done.stdout.contains("not known"), "{done:?}");
}

fn killed(lab: &Lab) {
    let file = lab.file("scenario.toml", &ROUTED.replace("3s", "60s"));
    let machine = || {
        output_of(
            "ip -o link | sed 's/qlen.*//'; ip route; ls -A /run/netns /run/weir \
         /run/weir-sessions 2>/dev/null; mount | sort",
        )
    };
    let before = machine();
    for round in 0..8 {
        let mark = format!("WEIR_LIVE_SCENARIO={}-{round}", lab.path("").display());
        let (name, value) = mark.split_once('=').expect("a variable");
        let mut command = std::process::Command::new(crate::common::weir());
        command.args(["live", &file]).env(name, value);
        let mut running = lab.launch(&mut command);
        std::thread::sleep(Duration::from_millis(round * 61));
        assert!(running.alive(), "weir ended before its kill: {}", running.stderr());
        kill(running.pid(), Signal::SIGKILL).expect("it is alive");
        assert_eq!(running.finish().code, 128 + 9);
        until("every process is gone", || !marked(&mark));
        let deadline = Instant::now() + Duration::from_secs(10);
        while machine() != before {
            assert!(
                Instant::now() < deadline,
                "ten seconds later the machine is not as before: {}, before: {before}",
                machine()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Whether a process has this mark in its environment.
pub(crate) fn marked(mark: &str) -> bool {
    let all = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
    all.into_iter().any(|p| {
        fs::read(p.join("environ"))
            .is_ok_and(|e| e.split(|b| *b == 0).any(|v| v == mark.as_bytes()))
    })
}

fn refused(lab: &Lab) {
    let swept = format!(
        "{PAIR}[[sweep]]\nkey = \"traffic.stream.rate\"\nvalues = [\"1Mbit/s\", \"2Mbit/s\"]\n"
    );
    let short = PAIR.replace("size = \"1000B\"", "size = \"39B\"");
    for (text, line, words) in
        [(&swept, "sweep", "--set traffic.stream.rate="), (&short, "size = ", "39 bytes")]
    {
        let file = lab.file("scenario.toml", text);
        let done = lab.weir(["live", &file]);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(
            done.stderr.contains(line)
                && done.stderr.contains(words)
                && done.stderr.contains("scenario.toml:"),
            "{}",
            done.stderr
        );
        assert!(
            done.stderr.contains("allowed") || done.stderr.contains("make one run"),
            "what to do: {}",
            done.stderr
        );
    }
}

/// The tolerances of a stream and a ping that do not fill their link. The absolute tolerance of
/// rates, in bit/s, is for the ping, which has a low rate.
const AGREEMENT: [&str; 5] = [
    "goodput_bps=1%/10000",
    "throughput_bps=1%/10000",
    "delay_p50_ns=0.2ms",
    "completion_p50_ns=0.4ms",
    "loss=0",
];
