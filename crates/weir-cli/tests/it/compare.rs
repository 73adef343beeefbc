//! Tests `weir compare` as a user runs it: its tables, its JSON, and its exit codes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::json;

fn weir(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().expect("weir can be started")
}

/// A directory with a summary of runs that have these values of goodput and delay.
fn results(name: &str, flow: &str, runs: &[(f64, f64)]) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("weir-compare-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory can be made");
    let run = |&(goodput, delay): &(f64, f64)| {
        json!({
            "seed": 1,
            "flows": [{ "name": flow, "goodput_bps": goodput, "delay_mean_ns": delay }],
            "links": [{ "name": "up", "queue_mean_ns": delay, "bytes": 7 }],
        })
    };
    let summary = json!({
        "source": "sim",
        "scenario": "s",
        "runs": runs.iter().map(run).collect::<Vec<_>>(),
    });
    std::fs::write(dir.join("summary.json"), summary.to_string())
        .expect("a summary can be written");
    dir
}

fn words(path: &Path) -> &str {
    path.to_str().expect("a path of plain letters")
}

#[test]
fn differences_are_shown_with_their_significance() {
    let left = results("left", "f", &[(9e6, 1e6), (9.1e6, 1.1e6), (8.9e6, 0.9e6)]);
    let right = results("right", "f", &[(5e6, 1e6), (5.1e6, 1.2e6), (4.9e6, 0.8e6)]);
    let output = weir(&["compare", words(&left), words(&right)]);
    let text = String::from_utf8(output.stdout).expect("tables are text");
    assert!(output.status.success() && output.stderr.is_empty(), "{text}");
    let goodput = text.lines().find(|line| line.contains("goodput")).expect("a row of goodput");
    for word in ["9 Mbit/s", "5 Mbit/s", "-4 Mbit/s", "-44.4 %", "significant, p < 0.001"] {
        assert!(goodput.contains(word), "{word}: {goodput}");
    }
    assert!(
        text.contains("link up") && text.contains("equal") && !text.contains("bytes"),
        "{text}"
    );
    let output = weir(&["compare", words(&left), words(&right), "--json", "-"]);
    let value = crate::schema::document(&output.stdout);
    assert_eq!(value["differences"][0]["figure"], "delay_mean_ns");
    assert_eq!(value["differences"].as_array().map(Vec::len), Some(4));
    assert_eq!(value["left"]["runs"], 3);
    for dir in [left, right] {
        std::fs::remove_dir_all(dir).expect("the directory can be removed");
    }
}

#[test]
fn unmatched_flows_are_named_and_invalid_results_refused() {
    let (left, right) = (results("f", "f", &[(9e6, 1e6)]), results("g", "g", &[(9e6, 2e6)]));
    let text = String::from_utf8(weir(&["compare", words(&left), words(&right)]).stdout)
        .expect("tables are text");
    assert!(
        text.contains("only on the left: flow f") && text.contains("only on the right: flow g"),
        "{text}"
    );
    assert!(text.contains("single runs: not known"), "{text}");
    let output = weir(&["compare", words(&left), "/nonexistent"]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).expect("stderr is UTF-8");
    assert!(stderr.contains("/nonexistent/summary.json") && stderr.contains("--out"), "{stderr}");
    std::fs::write(left.join("summary.json"), "{}").expect("a summary can be written");
    assert_eq!(weir(&["compare", words(&left), words(&right)]).status.code(), Some(2));
    for dir in [left, right] {
        std::fs::remove_dir_all(dir).expect("the directory can be removed");
    }
}

#[test]
fn agreement_is_judged_by_the_interval_of_the_difference() {
    let left = results("within-left", "f", &[(9e6, 1e6), (9.1e6, 1.1e6), (8.9e6, 0.9e6)]);
    let right = results("within-right", "f", &[(9e6, 4e6), (9.1e6, 4.2e6), (8.9e6, 3.8e6)]);
    let judged = |within: &[&str]| {
        let mut args = vec!["compare", words(&left), words(&right)];
        within.iter().for_each(|tolerance| args.extend(["--within", tolerance]));
        let output = weir(&args);
        let text = String::from_utf8(output.stdout).expect("tables are text")
            + &String::from_utf8(output.stderr).expect("stderr is UTF-8");
        (output.status.code(), text)
    };
    // The interval of the difference of goodput is 0 ± 0.227 Mbit/s.
    let (code, text) = judged(&["goodput_bps=2.6%"]);
    assert!(code == Some(0) && text.contains("agrees, ± 2.5"), "{text}");
    let (code, text) = judged(&["goodput_bps=2%"]);
    assert!(code == Some(1) && text.contains("open, ± 2.5"), "{text}");
    let (code, text) = judged(&["goodput_bps=3%", "queue_mean_ns=10%/0.5ms"]);
    assert!(code == Some(1) && text.contains("differs, ±"), "{text}");
    assert_eq!(judged(&["queue_mean_ns=10%/5ms"]).0, Some(0));
    for wrong in ["goodput_bps", "goodput_bps=-1%", "queue_mean_ns=1ms/2ms", "nothing=2%"] {
        assert_eq!(judged(&[wrong]).0, Some(2), "{wrong}");
    }
    for dir in [left, right] {
        std::fs::remove_dir_all(dir).expect("the directory can be removed");
    }
}
