//! Every case directly in `weir-core/tests/conformance` passes, and errors in a file name their
//! line.

use std::path::{Path, PathBuf};

use weir_rig::conformance::{Case, Outcome};

fn cases() -> Vec<(PathBuf, Case)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weir-core/tests/conformance");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let case = Case::read(&text).unwrap_or_else(|error| panic!("{}, {error}", path.display()));
        (path, case)
    };
    paths.into_iter().map(read).collect()
}

fn failures(outcome: &Outcome) -> String {
    let failed = outcome.expectations.iter().filter(|finding| !finding.passed);
    let words: Vec<String> = failed
        .map(|f| {
            format!(
                "line {}, {}:\n  expected {}\n  found    {}",
                f.line, f.name, f.expected, f.found
            )
        })
        .collect();
    words.join("\n")
}

#[test]
fn every_case_holds() {
    let mut all = String::new();
    for (path, case) in cases() {
        assert!(!case.expected.is_empty(), "{} expects nothing", path.display());
        let outcome = case.run();
        if !outcome.passed {
            all += &format!(
                "{}: {}\n{}\n",
                path.file_name().unwrap().display(),
                outcome.about,
                failures(&outcome)
            );
        }
    }
    assert!(all.is_empty(), "\n{all}");
}

#[test]
fn counts_of_flows_add_up_and_events_are_in_order_of_time() {
    for (path, case) in cases() {
        let play = case.run().play;
        assert_eq!(play.counts.arrived, case.arrivals.len() as u64, "{}", path.display());
        let flows = play.flows.values().fold((0, 0, 0), |sum, c| {
            (sum.0 + c.arrived, sum.1 + c.delivered, sum.2 + c.dropped())
        });
        assert_eq!(
            flows,
            (play.counts.arrived, play.counts.delivered, play.counts.dropped()),
            "{}",
            path.display()
        );
        assert!(play.events.is_sorted_by_key(|event| event.at_ns), "{}", path.display());
    }
}

/// A valid case; the tests replace parts of it.
const WHOLE: &str = r#"about = "x"
[queue]
aqm = "droptail"
limit = 2
[[arrive]]
at = "0ms"
count = 3
bytes = 100
[[dequeue]]
at = "1ms"
[expect]
drops = [1]
[expect.total]
delivered = 1
"#;

#[test]
fn an_expectation_that_does_not_hold_is_found_with_its_line() {
    for (from, to, line) in
        [("drops = [1]", "drops = [2]", 12), ("delivered = 1", "delivered = { least = 2 }", 14)]
    {
        let outcome = Case::read(&WHOLE.replace(from, to)).unwrap().run();
        let failed: Vec<usize> = outcome
            .expectations
            .iter()
            .filter(|finding| !finding.passed)
            .map(|finding| finding.line)
            .collect();
        assert_eq!((outcome.passed, failed), (false, vec![line]));
    }
    let more = "drops = [1]\nbacklog = [1, 0]\ndrop_times = \"0ms 1ms\"\nserved = [0, \
                0]\nfigures.count = [1]";
    let outcome = Case::read(&WHOLE.replace("drops = [1]", more)).unwrap().run();
    assert_eq!(
        outcome.expectations.iter().filter(|finding| !finding.passed).count(),
        4,
        "an expectation with more values than there are to compare does not hold"
    );
}

#[test]
fn messages_name_the_line_the_word_and_what_is_allowed() {
    for (from, to, words) in [
        ("about = \"x\"", "", ["line 1:", "needs `about`"]),
        ("about = \"x\"", "about = x", ["line 1:", ""]),
        ("aqm = \"droptail\"", "aqm = \"nope\"", ["line 3: `aqm`", "headdrop"]),
        ("aqm = \"droptail\"", "aqm = \"droptail m=1\"", ["line 3: `aqm`", "`m`"]),
        ("aqm = \"droptail\"", "", ["line 2:", "`aqm` or `scheduler`"]),
        ("aqm = \"droptail\"", "pipe = \"bw fast\"", ["line 3: `pipe`", "fast"]),
        (
            "aqm = \"droptail\"\nlimit = 2",
            "pipe = \"bw 1Mbit/s\"\nlimit = 2",
            ["line 4: `limit`", "queue 50"],
        ),
        ("[[dequeue]]\nat = \"1ms\"", "[[flow]]\nflow = 0", ["line 9: `flow`", "only a scheduler"]),
        ("bytes = 100", "bytes = 100\nack = 5", ["line 9: `ack`", "no algorithm"]),
        ("drops = [1]", "taken = \"1 2-\"", ["line 12: `taken`", "`2-`"]),
        ("drops = [1]", "taken = \"0-4294967294\"", ["line 12: `taken`", "5000000"]),
        ("drops = [1]", "taken = \"-*4294967295\"", ["line 12: `taken`", "5000000"]),
        (
            "aqm = \"droptail\"",
            "scheduler = \"nope\"",
            ["line 3: `scheduler`", "`nope` is no scheduler: allowed: fifo"],
        ),
        ("limit = 2", "limit = 0", ["line 4: `limit`", "from 1 to 10000000"]),
        ("limit = 2", "limit = 2\nlimit_bytes = 2", ["line 4: `limit`", "not both"]),
        ("limit = 2", "limit = 2\nrate = \"10Mbps\"", ["line 5: `rate`", "Mbit/s"]),
        ("limit = 2", "limit = 2\nseeds = [9, 1]", ["line 5: `seeds`", "[1, 200]"]),
        ("at = \"0ms\"", "at = \"5\"", ["line 6: `at`", "1.5ms"]),
        ("count = 3", "count = 3\necn = \"on\"", ["line 8: `ecn`", "ect0"]),
        ("count = 3", "cuont = 3", ["line 7: `cuont`", "count"]),
        ("count = 3", "count = 9999999", ["line 7: `count`", "5000000"]),
        ("bytes = 100", "", ["line 5:", "needs `bytes`"]),
        ("at = \"1ms\"", "at = 1", ["line 10: `at`", "text in quotes"]),
        (
            "[[dequeue]]\nat = \"1ms\"",
            "[[dequeue]]\nat = \"1ms\"\n[link]\nrate = \"1Mbit/s\"",
            ["line 9: `dequeue`", "not both"],
        ),
        ("drops = [1]", "drops = [-1]", ["line 12: `drops`", "whole number"]),
        ("delivered = 1", "deliverd = 1", ["line 14: `deliverd`", "delivered_bytes"]),
        ("delivered = 1", "delivered = { mean = 1 }", ["line 14:", "needs `within`"]),
    ] {
        let message = Case::read(&WHOLE.replace(from, to)).unwrap_err().to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{to}: {message}");
    }
}

/// A case with a tree of schedulers.
const TREE: &str = r#"about = "x"
[queue]
scheduler = "prio"
[[class]]
name = "low"
scheduler = "drr"
priority = 1
[[flow]]
flow = 7
priority = 0
[[flow]]
flow = 8
class = "low"
weight = 2
[[flow]]
flow = 9
class = "low"
limit = 3
[[arrive]]
at = "0ms"
count = 8
bytes = 1500
flow = 8
[[arrive]]
at = "0ms"
count = 4
bytes = 1500
flow = 9
[[arrive]]
at = "0.5ms"
bytes = 1500
flow = 7
[[dequeue]]
at = "1ms"
every = "1ms"
count = 13
[expect]
taken = "12 0-3 8 4-5 9 6-7 10 -"
dropped = "11"
[[expect.flow]]
flow = 9
delivered = 3
drops = 1
"#;

#[test]
fn flows_have_weights_priorities_limits_and_classes() {
    let outcome = Case::read(TREE).unwrap().run();
    assert!(outcome.passed, "{}", failures(&outcome));
    let equal = TREE.replace("weight = 2", "weight = 1");
    let outcome = Case::read(&equal).unwrap().run();
    assert!(failures(&outcome).contains("packets taken"), "{}", failures(&outcome));
}

#[test]
fn faults_in_flows_and_classes_are_named() {
    for (from, to, words) in [
        ("flow = 7\npriority = 0", "flow = 7\npriority = 64", ["line 10: `priority`", "0 to 63"]),
        ("weight = 2", "weight = 0", ["line 14: `weight`", "from 1"]),
        ("flow = 8\nclass", "flow = 7\nclass", ["line 12: `flow`", "another"]),
        ("class = \"low\"\nweight", "class = \"high\"\nweight", ["line 13: `class`", "high"]),
        ("name = \"low\"", "name = \"low\"\nclass = \"low\"", ["line 6: `class`", "before"]),
        ("scheduler = \"drr\"", "scheduler = \"codel\"", ["line 6: `scheduler`", "codel"]),
        ("bytes = 1500\nflow = 9", "bytes = 1500\nflow = 3", ["no [[flow]]", "number 3"]),
    ] {
        let message = Case::read(&TREE.replace(from, to)).unwrap_err().to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{to}: {message}");
    }
}

/// A link of 8 Mbit/s, on which a byte takes 1 us, with a burst of 3000 bytes.
const LINK: &str = r#"about = "x"
[queue]
aqm = "none"
[[arrive]]
at = "0ms 150ms"
count = 6
bytes = 1500
[link]
rate = "8Mbit/s"
burst = 3000
[expect.total]
delivered = 12
"#;

#[test]
fn a_link_starts_with_its_burst_and_time_never_runs_backwards() {
    let play = Case::read(LINK).unwrap().run().play;
    let departures: Vec<(u64, u64)> =
        play.events.iter().map(|event| (event.at_ns / 1000, event.waited_ns / 1000)).collect();
    // Two packets use the credit of the burst, and the third occupies the link.
    let waits = [0, 0, 0, 1500, 3000, 4500];
    let expected: Vec<(u64, u64)> =
        [0, 150_000].iter().flat_map(|at| waits.map(|wait| (at + wait, wait))).collect();
    assert_eq!(departures, expected);
}

#[test]
fn a_pipe_is_a_token_bucket_with_and_without_dequeues() {
    let pipe = LINK.replace("aqm = \"none\"", "pipe = \"bw 8Mbit/s burst 3000B\"");
    let pipe = pipe.replace(
        "[link]\nrate = \"8Mbit/s\"\nburst = 3000",
        "[[dequeue]]\nat = \"0ms\"\nevery = \"0.5ms\"\ncount = 320",
    );
    let pipe = pipe.replace("[expect", "[expect]\ntaken = \"0-1 - 2 -*2 3\"\n[expect");
    let outcome = Case::read(&pipe).unwrap().run();
    // The dequeues are 0.5 ms apart, and each takes at most one packet. The two packets of the
    // burst therefore leave 0.5 ms apart.
    assert!(outcome.passed, "{}", failures(&outcome));
    let no_dequeues = pipe.split("[[dequeue]]").next().unwrap();
    let play = Case::read(no_dequeues).unwrap().run().play;
    let departures: Vec<u64> = play.events.iter().map(|event| event.at_ns / 1000).collect();
    assert_eq!(departures[..6], [0, 0, 1500, 3000, 4500, 6000]);
}

#[test]
fn a_sample_is_judged_by_the_errors_of_both_means() {
    let lossy = "about = \"x\"\n[queue]\npipe = \"plr 0.05 queue 5000\"\nseeds = [1, 40]\n[[arrive]]\nat = \"0ms\"\nevery = \"1ms\"\n\
                 count = 1000\nbytes = 100\n[expect.total]\ndrops = { mean = 50.5, error = 1.0 }\n";
    let outcome = Case::read(lossy).unwrap().run();
    assert!(outcome.passed, "{}", failures(&outcome));
    assert!(outcome.expectations[0].found.contains("standard error"));
    for far in ["mean = 60, error = 1.0", "mean = 45.0, error = 0.0"] {
        let outcome = Case::read(&lossy.replace("mean = 50.5, error = 1.0", far)).unwrap().run();
        assert!(!outcome.passed, "{far}: {}", outcome.expectations[0].found);
    }
    let both = lossy.replace("error = 1.0", "error = 1.0, within = 1.0");
    assert!(Case::read(&both).unwrap_err().message.contains("not both"));
}

#[test]
fn a_discipline_that_weir_does_not_have_is_not_played() {
    let missing = WHOLE.replace("aqm = \"droptail\"", "missing = \"Weir has no such thing\"");
    let outcome = Case::read(&missing).unwrap().run();
    assert!(!outcome.passed);
    assert_eq!((outcome.counts.len(), outcome.play.events.len()), (0, 0));
    assert!(outcome.algorithm.contains("no such thing"));
}
