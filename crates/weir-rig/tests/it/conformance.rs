//! Every conformance case of the repository passes, and errors in a file name their line.

use std::path::{Path, PathBuf};

use weir_rig::conformance::{Case, Outcome};

fn cases() -> Vec<(PathBuf, Case)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weir-core/tests/conformance");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
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
fn every_packet_appears_in_exactly_one_count() {
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
    let more = "drops = [1]\nbacklog = [1, 0]\ndrop_times = \"0ms 1ms\"\nserved = [0, 0]\nfigures.count = [1]";
    let outcome = Case::read(&WHOLE.replace("drops = [1]", more)).unwrap().run();
    assert_eq!(
        outcome.expectations.iter().filter(|finding| !finding.passed).count(),
        4,
        "fewer values than expected are none that hold"
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
