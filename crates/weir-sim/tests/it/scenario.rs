//! Scenario files: parsing, error messages, and repeatable runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_core::Nanos;
use weir_core::stats::DropReason;
use weir_rules::{Files, NoFiles};
use weir_sim::measure::{Names, Outcome, Record, Sink};
use weir_sim::run::{Progress, Ran, run_points};
use weir_sim::scenario::{self, Edited, Scenario, parse};

/// A scenario with two hosts and a router between them.
const TWO_HOSTS: &str = r#"
duration = "2s"
warmup = "500ms"
seed = 7

[[node]]
name = "h1"
[[node]]
name = "r1"
kind = "router"
[[node]]
name = "h2"

[[link]]
between = ["h1", "r1"]
spec = "bw 100Mbit/s delay 1ms"
[[link]]
between = ["r1", "h2"]
name = "bottleneck"
spec = "bw 10Mbit/s delay 10ms loss 0.01"
scheduler = "drr"
[[link.queue]]
class = 0
spec = "weight 3 queue 20"
[[link.queue]]
class = 1
spec = "queue 10"

[[traffic]]
name = "f1"
from = "h1"
to = "h2"
kind = "poisson"
rate = "9Mbit/s"
size = "1000B"
count = 2
[[traffic]]
name = "f2"
from = "h1"
to = "h2"
kind = "cbr"
rate = "1Mbit/s"
class = 1
"#;

fn scenario(text: &str) -> Scenario {
    let checked = parse(text, "t.toml", &NoFiles);
    checked.scenario.unwrap_or_else(|| panic!("{}", checked.diagnostics))
}

/// Carries out all runs of a scenario, on `threads` threads.
fn ran(text: &str, threads: usize) -> Vec<Ran> {
    ran_with(text, &NoFiles, threads)
}

fn ran_with(text: &str, files: &dyn Files, threads: usize) -> Vec<Ran> {
    let scenario = parse(text, "t.toml", files).scenario.unwrap();
    let points = scenario::points(&Edited::new(text), &scenario, "t.toml", files).unwrap();
    run_points(points, threads, &Progress::default(), &|_, _, _| None).unwrap().unwrap()
}

/// Carries out the runs of a scenario without a sweep.
fn outcomes(text: &str) -> Vec<Outcome> {
    ran(text, 2).remove(0).outcomes
}

fn bytes(ran: &[Ran]) -> String {
    serde_json::to_string(&ran.iter().map(|ran| &ran.outcomes).collect::<Vec<_>>()).unwrap()
}

#[test]
fn a_file_becomes_nodes_links_and_flows() {
    let scenario = scenario(TWO_HOSTS);
    assert_eq!(
        (scenario.duration, scenario.warmup, scenario.seed, scenario.runs),
        (Nanos::from_secs(2), Nanos::from_millis(500), 7, 1)
    );
    assert_eq!(scenario.nodes.len(), 3);
    let names: Vec<&str> = scenario
        .links
        .iter()
        .flat_map(|link| &link.directions)
        .map(|direction| direction.name.as_str())
        .collect();
    assert_eq!(names, ["h1>r1", "r1>h1", "bottleneck", "bottleneck.back"]);
    let forward = &scenario.links[1].directions[0];
    assert_eq!(forward.queues.iter().map(|queue| queue.weight).collect::<Vec<_>>(), [3, 1]);
    assert_eq!(forward.words(), "type drr bw 10Mbit/s delay 10ms loss 0.01");
    assert_eq!(scenario.links[1].directions[1].words(), "bw 10Mbit/s delay 10ms loss 0.01");
    assert_eq!(scenario.traffic.iter().map(|traffic| traffic.flows()).collect::<Vec<_>>(), [2, 1]);
}

/// Two transfers and a ping over one link. Tests append the link's specification.
const SHARED: &str = r#"
duration = "20s"
warmup = "5s"
node = [{ name = "a" }, { name = "b" }]
traffic = [
  { name = "bulk", from = "a", to = "b", kind = "tcp", count = 2 },
  { name = "ping", from = "a", to = "b", kind = "ping" },
]
[[link]]
between = ["a", "b"]
"#;

#[test]
fn a_scheduler_in_the_words_of_a_link_is_the_scheduler_of_the_link() {
    let of = |link: &str| outcomes(&(SHARED.to_owned() + link)).remove(0);
    let plain = of("spec = \"bw 10Mbit/s delay 10ms queue 500\"");
    let words = of("spec = \"bw 10Mbit/s delay 10ms queue 500 sched fq_codel target=6ms\"");
    let key =
        of("spec = \"bw 10Mbit/s delay 10ms queue 500\"\nscheduler = \"fq_codel target 6ms\"");
    let p99 = |outcome: &Outcome| outcome.flows.last().unwrap().delay_ns.quantile(0.99);
    let [without, with] = [&plain, &words].map(p99);
    assert!(
        without > 100_000_000 && with < 40_000_000,
        "{without} ns without the scheduler, {with} with it"
    );
    for (one, other) in words.links.iter().zip(&key.links) {
        assert_eq!(one.counters, other.counters, "{}", one.name);
    }
    assert!(words.links[0].counters.drops(DropReason::Target) > 0);
}

#[test]
fn runs_repeat_to_the_byte_on_any_number_of_threads() {
    let text = TWO_HOSTS.replacen("seed = 7", "seed = 7\nruns = 5", 1);
    let first = bytes(&ran(&text, 1));
    for threads in [1, 2, 4] {
        assert!(bytes(&ran(&text, threads)) == first, "{threads} threads");
    }
    assert!(bytes(&ran(&text.replacen("seed = 7", "seed = 8", 1), 2)) != first);
}

#[test]
fn the_second_of_several_runs_is_the_run_of_the_next_seed() {
    let several = outcomes(&TWO_HOSTS.replacen("seed = 7", "seed = 7\nruns = 2", 1));
    let next = outcomes(&TWO_HOSTS.replacen("seed = 7", "seed = 8", 1));
    assert_eq!(several.iter().map(|outcome| outcome.seed).collect::<Vec<_>>(), [7, 8]);
    assert!(several[1] == next[0]);
}

#[test]
fn the_rate_of_a_link_that_changes_is_its_mean_while_packets_are_counted() {
    let table = "time,rate,delay\n0,10M,10\n1,2M,40\n";
    let files = BTreeMap::from([("t.csv".to_owned(), table.to_owned())]);
    for change in ["bw 1Mbit/s schedule t.csv", "schedule t.csv"] {
        let text = TWO_HOSTS.replacen("bw 10Mbit/s delay 10ms loss 0.01", change, 1);
        let outcome = ran_with(&text, &files, 1).remove(0).outcomes.remove(0);
        let link = &outcome.links[2];
        // Half a second of 10 Mbit/s and a second of 2 Mbit/s.
        assert_eq!((link.rate_bps, link.rate_varies), (Some(4_666_666), true), "{change}");
        assert_eq!((link.delay_ns, link.delay_varies), (30_000_000, true), "{change}");
        let used = outcome.utilisation(link).unwrap();
        assert!((0.9..1.01).contains(&used), "{change}: {used}");
    }
}

#[test]
fn results_match_the_configuration() {
    let outcome = outcomes(TWO_HOSTS).remove(0);
    assert_eq!((outcome.warmup_ns, outcome.end_ns), (500_000_000, 2_000_000_000));
    let names: Vec<_> = outcome
        .flows
        .iter()
        .map(|flow| (flow.name.as_str(), flow.kind.as_str(), flow.from.as_str()))
        .collect();
    assert_eq!(names, [("f1.1", "poisson", "h1"), ("f1.2", "poisson", "h1"), ("f2", "cbr", "h1")]);
    // The small flow has a separate queue and loses only one packet in a hundred, on the link.
    let goodput = outcome.bps(outcome.flows[2].goodput_bytes);
    assert!((940_000.0..985_000.0).contains(&goodput), "{goodput}");
    assert!(outcome.flows[2].delay_ns.min >= 11_000_000);
    let bottleneck = &outcome.links[2];
    assert!(outcome.utilisation(bottleneck).unwrap() > 0.98, "{bottleneck:?}");
    assert!(bottleneck.counters.drops(DropReason::QueueFull) > 0);
    assert!(
        outcome.links.iter().all(|link| link.counters.balanced())
            && outcome.flows.iter().all(|flow| flow.balanced())
    );
}

#[test]
fn a_sweep_is_the_product_of_its_keys_in_their_order() {
    let text = TWO_HOSTS.to_owned()
        + "[[sweep]]\nkey = \"traffic.f1.rate\"\nvalues = [\"1Mbit/s\", \
           \"2Mbit/s\"]\n[[sweep]]\nkey = \"link.bottleneck.spec.delay\"\nvalues = [\"5ms\", \
           \"20ms\", \"50ms\"]\n";
    let points = ran(&text, 2);
    let delays: Vec<_> =
        points.iter().map(|ran| ran.outcomes[0].links[2].delay_ns / 1_000_000).collect();
    assert_eq!(delays, [5, 20, 50, 5, 20, 50]);
    assert_eq!(
        points[5].point.settings[0],
        ("traffic.f1.rate".to_owned(), "\"2Mbit/s\"".to_owned())
    );
    let [slow, fast] = [0, 3].map(|n: usize| points[n].outcomes[0].flows[0].goodput_bytes as f64);
    assert!(fast > 1.8 * slow, "{slow} {fast}");
    // A table is a shorter form of a sweep.
    let table = TWO_HOSTS.to_owned() + "[sweep]\n\"traffic.f1.rate\" = [\"1Mbit/s\"]\n";
    assert_eq!(scenario(&table).sweep.len(), 1);
}

#[test]
fn records_go_to_the_sink_of_their_run_and_change_nothing() {
    let text = TWO_HOSTS.to_owned() + "[measure]\ntrace = true\n";
    let points =
        scenario::points(&Edited::new(&text), &scenario(&text), "t.toml", &NoFiles).unwrap();
    let seen = Arc::new(AtomicU64::new(0));
    let tap = |_: usize, _: u32, names: &Names| -> Option<Sink> {
        assert_eq!(names.links.len(), 4);
        let seen = Arc::clone(&seen);
        Some(Box::new(move |records: &[Record]| {
            seen.fetch_add(records.len() as u64, Ordering::Relaxed);
        }))
    };
    let traced = run_points(points, 1, &Progress::default(), &tap).unwrap().unwrap();
    assert!(seen.load(Ordering::Relaxed) > 1000);
    assert!(traced[0].outcomes == outcomes(TWO_HOSTS));
}

/// An error in a file: a text in the file, its replacement, the line of the error, and words of the
/// message.
type Wrong = (&'static str, &'static str, usize, &'static [&'static str]);

const WRONG: &[Wrong] = &[
    ("duration", "duraton", 2, &["`duraton` is no key", "did you mean `duration`"]),
    ("duration = \"2s\"", "", 1, &["`duration` is missing"]),
    ("\"2s\"", "\"2\"", 2, &["no unit of time", "60s"]),
    ("\"2s\"", "\"-2s\"", 2, &["negative"]),
    ("\"2s\"", "\"0s\"", 2, &["a duration of zero", "above zero"]),
    ("\"2s\"", "\"40000000s\"", 2, &["too long", "at most 366 days"]),
    ("\"2s\"", "2", 2, &["integer `2` does not belong here", "expected a string"]),
    ("500ms", "2s", 3, &["the warm-up leaves nothing", "includes the warm-up"]),
    ("seed = 7", "seed = -1", 4, &["a seed of -1", "0 to"]),
    ("seed = 7", "runs = 0", 4, &["a number of runs of 0", "1 to"]),
    ("seed = 7", "seed = 7\nseed = 8", 5, &["given twice"]),
    ("[[node]]", "[[nod]]", 6, &["`nod` is no key", "did you mean `node`"]),
    ("[[node]]", "[[node]", 6, &["unclosed", "expected `]`"]),
    ("name = \"h1\"", "name = \"\"", 7, &["no name for a node"]),
    ("name = \"h1\"", "name = \"h.1\"", 7, &["no name for a node", "letters, digits"]),
    ("name = \"h2\"", "name = \"h1\"", 12, &["two nodes `h1`"]),
    ("name = \"h2\"", "nme = \"h2\"", 12, &["`nme` is no key", "did you mean `name`"]),
    (
        "kind = \"router\"",
        "kind = \"roter\"",
        10,
        &["`roter` is no kind of node", "did you mean `router`"],
    ),
    (
        "kind = \"router\"",
        "",
        32,
        &["`h2` cannot be reached from `h1`", "through the host `r1`", "kind = \"router\""],
    ),
    (
        "\"h1\", \"r1\"",
        "\"h3\", \"r1\"",
        15,
        &["there is no node `h3`", "did you mean `h1`", "add `[[node]]`"],
    ),
    ("\"h1\", \"r1\"", "\"h1\"", 15, &["between two nodes, not 1"]),
    ("\"h1\", \"r1\"", "\"h1\", \"h1\"", 15, &["from `h1` to itself"]),
    (
        "between = [\"r1\", \"h2\"]",
        "between = [\"r1\", \"h1\"]",
        32,
        &["`h2` cannot be reached", "no chain of links"],
    ),
    ("delay 1ms", "dely 1ms", 16, &["unknown keyword `dely`", "did you mean `delay`"]),
    ("bw 100Mbit/s", "bw 100Mb/t", 16, &["100Mb/t"]),
    ("\"drr\"", "\"dr\"", 21, &["`dr` is no scheduler", "did you mean `drr`"]),
    (
        "\"drr\"",
        "\"fq_codel targt 3ms\"",
        21,
        &["`targt` is no setting of `fq_codel`", "did you mean `target`"],
    ),
    ("\"drr\"", "\"drr bw 1Mbit/s\"", 21, &["a scheduler has no link of its own here", "`spec`"]),
    ("\"drr\"", "\"\"", 21, &["the scheduler has no name"]),
    (
        "delay 10ms loss",
        "delay 10ms sched fq_codel loss",
        21,
        &["one scheduler", "the second one", "remove it here"],
    ),
    ("scheduler = \"drr\"", "", 22, &["queues belong to a scheduler", "`scheduler`"]),
    ("class = 1\nspec", "class = 5\nspec", 26, &["class 5 leaves a gap", "0 to 1"]),
    ("class = 1\nspec", "class = 0\nspec", 26, &["class 0 has two queues"]),
    ("queue 10\"", "queu 10\"", 27, &["`queu`", "did you mean `queue`"]),
    ("name = \"f2\"", "name = \"f1\"", 38, &["two kinds of traffic `f1`", "count"]),
    ("to = \"h2\"\nkind = \"cbr\"", "to = \"r1\"\nkind = \"cbr\"", 40, &["`r1` is no host"]),
    (
        "to = \"h2\"\nkind = \"cbr\"",
        "to = \"h1\"\nkind = \"cbr\"",
        40,
        &["`h1` cannot be reached from `h1`", "different nodes"],
    ),
    ("to = \"h2\"\nkind = \"cbr\"", "to = \"h7\"\nkind = \"cbr\"", 40, &["there is no node `h7`"]),
    ("to = \"h2\"\nkind = \"cbr\"", "to = []\nkind = \"cbr\"", 40, &["no host is named"]),
    ("to = \"h2\"\nkind = \"cbr\"", "kind = \"cbr\"", 37, &["`to` is missing"]),
    (
        "kind = \"cbr\"",
        "kind = \"cbrr\"",
        41,
        &["`cbrr` is no kind of traffic", "did you mean `cbr`"],
    ),
    ("kind = \"cbr\"", "", 37, &["`kind` is missing", "poisson"]),
    ("\"1Mbit/s\"", "\"0\"", 42, &["`0` is no rate here", "above 0"]),
    ("\"1Mbit/s\"", "\"-1Mbit/s\"", 42, &["negative"]),
    ("rate = \"1Mbit/s\"", "rte = \"1Mbit/s\"", 42, &["`rte` is no key", "did you mean `rate`"]),
    ("rate = \"1Mbit/s\"", "rate = \"1Mbit/s\"\nsize = \"1GB\"", 43, &["`size`", "65535"]),
    ("count = 2", "count = 0", 36, &["a count of 0"]),
    ("count = 2", "count = 1000000", 2, &["1000001 flows are too many", "at most 1000000"]),
    ("class = 1\n", "class = -1\n", 26, &["class -1"]),
];

#[test]
fn errors_show_their_line_and_a_remedy() {
    let mut failed = String::new();
    for (text, instead, line, words) in WRONG {
        let broken = TWO_HOSTS.replacen(text, instead, 1);
        assert_ne!(broken, TWO_HOSTS, "{text}");
        let checked = parse(&broken, "t.toml", &NoFiles);
        let message = checked.diagnostics.to_string();
        let in_line = message.contains(&format!("t.toml:{line}:"));
        let refused = checked.scenario.is_none() && checked.diagnostics.has_errors();
        if !(in_line && refused && words.iter().all(|word| message.contains(word))) {
            failed += &format!(
                "---- {text} → {instead}, expected in line {line}: {words:?}\n{message}\n"
            );
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn a_route_is_taken_and_has_no_loops() {
    let square = r#"
duration = "1s"
node = [{ name = "a" }, { name = "b" }, { name = "r", kind = "router" }, { name = "s", kind = "router" }, { name = "t", kind = "router" }]
link = [
  { between = ["a", "r"] }, { between = ["r", "b"] }, { between = ["r", "s"] }, { between = ["s", "t"] }, { between = ["t", "b"] },
]
route = [{ from = "a", to = "b", via = ["s"] }]
[[traffic]]
from = "a"
to = "b"
kind = "probe"
"#;
    let used = |text: &str| {
        let links = outcomes(text).remove(0).links;
        links
            .into_iter()
            .filter(|link| link.counters.packets_out > 0)
            .map(|link| link.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        used(&square.replace("route = [{ from = \"a\", to = \"b\", via = [\"s\"] }]", "")),
        ["a>r", "r>b"]
    );
    // Of the two shortest paths from `s` to `b`, the first in the file passes `r` a second time.
    let message = parse(square, "t.toml", &NoFiles).diagnostics.to_string();
    assert!(
        message.contains("goes through `r` twice") && message.contains("t.toml:7:"),
        "{message}"
    );
    assert_eq!(
        used(&square.replace("via = [\"s\"]", "via = [\"s\", \"t\"]")),
        ["a>r", "r>s", "s>t", "t>b"]
    );
    let twice = square
        .replace("via = [\"s\"] }]", "via = [\"t\"] }, { from = \"a\", to = \"b\", via = [] }]");
    assert!(
        parse(&twice, "t.toml", &NoFiles)
            .diagnostics
            .to_string()
            .contains("two routes from `a` to `b`")
    );
}

#[test]
fn a_switch_has_queues_of_its_own_and_a_pipeline() {
    let text = TWO_HOSTS
        .replacen(
            "kind = \"router\"",
            "kind = \"switch\"\nmanager = \"strict-n queues 8 depth \
                                        64\"",
            1,
        )
        .replacen("scheduler = \"drr\"", "", 1)
        .replacen(
            "[[link.queue]]\nclass = 0\nspec = \"weight 3 queue 20\"\n[[link.queue]]\nclass \
                   = 1\nspec = \"queue 10\"\n",
            "",
            1,
        );
    let outcome = outcomes(&text).remove(0);
    let links: Vec<_> = outcome
        .links
        .iter()
        .map(|link| (link.name.as_str(), link.counters.packets_out > 0))
        .collect();
    assert_eq!(
        links,
        [
            ("h1>r1", true),
            ("bottleneck.back", false),
            ("r1", true),
            ("r1>h1", false),
            ("bottleneck", true)
        ]
    );
    assert!(outcome.links.iter().all(|link| link.counters.balanced()));
    let message = |text: &str| parse(text, "t.toml", &NoFiles).diagnostics.to_string();
    let wrong = message(&text.replacen("depth 64", "depth x", 1));
    assert!(wrong.contains("depth x") && wrong.contains("t.toml:8:"), "{wrong}");
    let wrong = message(&text.replacen("manager =", "manger =", 1));
    assert!(wrong.contains("did you mean `manager`") && wrong.contains("t.toml:11:"), "{wrong}");
    let wrong = message(&text.replacen("loss 0.01", "queue 9", 1));
    assert!(wrong.contains("the switch `r1` has queues of its own"), "{wrong}");
    let wrong = message(&text.replacen("manager =", "ports = 1\nmanager =", 1));
    assert!(wrong.contains("more links than ports") && wrong.contains("`ports = 1`"), "{wrong}");
}

#[test]
fn changed_keys_are_shown_in_the_lines_that_they_had() {
    let mut edited = Edited::new(TWO_HOSTS);
    edited.set("runs", "3").unwrap();
    edited.set("link.bottleneck.spec.dely", "3ms").unwrap();
    edited.set("traffic.f2.stop", "soon").unwrap();
    let message =
        scenario::parse_edited(&edited, "t.toml", "--set", &NoFiles).diagnostics.to_string();
    assert!(
        message.contains("t.toml:20:") && message.contains("did you mean `delay`"),
        "{message}"
    );
    assert!(message.contains("--set:1:") && message.contains("`soon` is no time"), "{message}");
}

#[test]
fn a_list_of_measures_is_refused_in_clear_words() {
    let text = format!("{TWO_HOSTS}\n[[measure]]\ninterval = \"10ms\"\n");
    let checked = parse(&text, "t.toml", &NoFiles);
    let found = checked.diagnostics.iter().next().expect("it is refused");
    assert_eq!(found.message, "`measure` is one table for the whole scenario");
    assert_eq!(
        (found.label.as_str(), found.text.as_str()),
        ("expected `[measure]`", "[[measure]]")
    );
}

#[test]
fn a_queue_that_does_not_suit_the_medium_is_refused_in_its_place() {
    let text = TWO_HOSTS
        .replace("scheduler = \"drr\"", "scheduler = \"dcf\"")
        .replace("weight 3 queue 20", "rate 7Mbit/s queue 20");
    let message = parse(&text, "t.toml", &NoFiles).diagnostics.to_string();
    let expected = "802.11b has no data rate of 7 Mbit/s; it has 1, 2, 5.5, 11";
    assert!(message.contains(expected) && message.contains("rate 7Mbit/s"), "{message}");
    let fits = text.replace("rate 7Mbit/s", "rate 2Mbit/s");
    assert!(!parse(&fits, "t.toml", &NoFiles).diagnostics.has_errors());
}

#[test]
fn absurd_sizes_are_refused_before_anything_is_built() {
    let many: String = (0..60_001).map(|n| format!("[[node]]\nname = \"n{n}\"\n")).collect();
    let message =
        parse(&format!("duration = \"1s\"\n{many}"), "t.toml", &NoFiles).diagnostics.to_string();
    assert!(message.contains("too many nodes") && message.contains("at most 60000"), "{message}");
    let slow =
        TWO_HOSTS.replacen("\"1Mbit/s\"", "\"100Gbit/s\"", 1).replacen("\"2s\"", "\"86400s\"", 1);
    let checked = parse(&slow, "t.toml", &NoFiles);
    let message = checked.diagnostics.to_string();
    assert!(checked.scenario.is_some(), "{message}");
    assert!(
        message.contains("warning[long-run]") && message.contains("this takes hours"),
        "{message}"
    );
    let sweep = TWO_HOSTS.to_owned() + "[sweep]\n\"traffic.f9.rate\" = [\"1Mbit/s\"]\n";
    let message = parse(&sweep, "t.toml", &NoFiles).diagnostics.to_string();
    assert!(message.contains("there is no `f9`") && message.contains("t.toml:45:"), "{message}");
}

#[test]
fn long_runs_of_all_kinds_of_packets_are_told_in_advance() {
    let head = "duration = \"1000s\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n\
                [[link]]\nbetween = [\"a\", \"b\"]\nspec = \"1M/5ms\"\n\
                [[traffic]]\nfrom = \"a\"\nto = \"b\"\n";
    let long = |settings: &str| {
        let text = format!("{head}{settings}\n");
        let checked = parse(&text, "t.toml", &NoFiles);
        let message = checked.diagnostics.to_string();
        assert!(checked.scenario.is_some(), "{message}");
        message.contains("warning[long-run]")
    };
    for (settings, fast, slow) in [
        ("kind = \"ping\"\ninterval", "\"1ns\"", "\"1ms\""),
        ("kind = \"probe\"\ninterval", "\"1ns\"", "\"1ms\""),
        ("kind = \"cbr\"\ninterval", "\"1ns\"", "\"1ms\""),
        ("kind = \"pareto\"\nscale", "\"1ns\"", "\"1ms\""),
        ("kind = \"imix\"\nrate", "\"400Gbit/s\"", "\"1Gbit/s\""),
        ("kind = \"poisson\"\nrate", "\"400Gbit/s\"", "\"1Gbit/s\""),
        (
            "kind = \"markov\"\nstates",
            "[{ rate = \"400Gbit/s\", hold = \"1s\" }, { hold = \"1s\" }]",
            "[{ rate = \"1Gbit/s\", hold = \"1s\" }, { hold = \"1s\" }]",
        ),
    ] {
        assert!(long(&format!("{settings} = {fast}")), "{settings}");
        assert!(!long(&format!("{settings} = {slow}")), "{settings}");
    }
}

#[test]
fn the_schema_is_the_one_in_the_documentation() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenario.schema.json");
    if std::env::var_os("WEIR_UPDATE_DOCS").is_some() {
        std::fs::write(path, scenario::schema()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == scenario::schema(),
        "docs/scenario.schema.json is not up to date; WEIR_UPDATE_DOCS=1 cargo test -p weir-sim \
         writes it"
    );
    let schema: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(schema["required"], serde_json::json!(["duration", "node", "link"]));
}

/// Fragments that the test inserts into a text.
const PIECES: [&str; 24] = [
    "\"",
    "[",
    "]",
    "{",
    "}",
    "=",
    "\n",
    "0",
    "-1",
    "1e9",
    "ü",
    "[[link]]",
    "[sweep]",
    "\"h1\"",
    "[\"h1\"]",
    "999999999999999999999",
    "\"0s\"",
    "\"1Mbit/s\"",
    "kind = \"switch\"\n",
    "name = \"h1\"\n",
    "#",
    "'''",
    "true",
    "",
];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(400))]

    /// Any text in the file or in a setting gives either an error message or a scenario that can be
    /// built.
    #[test]
    fn no_text_and_no_setting_makes_the_reader_panic(
        cuts in proptest::collection::vec((0usize..900, 0usize..20, 0usize..PIECES.len()), 1..6),
        key in "(link|traffic|node|measure|duration|seed)(\\.|\\[)?(bottleneck|f1|0\\]|\\*|r1)?(\\.(spec|rate|kind|queue))?(\\.(delay|bw))?",
        value in "[0-9a-z\"\\[\\] .#=-]{0,12}",
    ) {
        let mut text = TWO_HOSTS.to_owned();
        for (at, len, piece) in cuts {
            let start =
                (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
            let end = (start + len).min(text.len());
            let end =
                (end..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
            text.replace_range(start..end, PIECES[piece]);
        }
        for text in [text.as_str(), TWO_HOSTS] {
            let mut edited = Edited::new(text);
            let _ = edited.set(&key, &value);
            let checked = scenario::parse_edited(&edited, "t.toml", "--set", &NoFiles);
            let _ = checked.diagnostics.render(false);
            proptest::prop_assert_eq!(checked.scenario.is_none(), checked.diagnostics.has_errors());
            if let Some(scenario) = checked.scenario {
                let _ = scenario::summary(&scenario);
                if scenario.traffic.iter().map(|traffic| traffic.flows()).sum::<u64>() < 100 {
                    proptest::prop_assert!(weir_sim::build::build(&scenario, 1).is_ok());
                }
            }
        }
    }
}
