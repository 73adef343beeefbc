//! Tests `weir rig` and `weir reproduce` as a user runs them: their output, their files and their
//! error messages.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use crate::schema::document;

fn weir(words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(words.split_whitespace())
        .output()
        .expect("weir can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn scratch(name: &str) -> PathBuf {
    let directory =
        std::env::temp_dir().join(format!("weir-rig-test-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a scratch directory");
    directory
}

#[test]
fn every_run_has_every_field_and_the_same_seed_gives_the_same_order() {
    let run = || {
        let output = weir(
            "rig --alg all --flows 5:w1,3:w4:imix --pairs 500 --runs 1 --metric time,wfi --json -",
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        document(&output.stdout)
    };
    let (first, second) = (run(), run());
    let runs = first["runs"].as_array().expect("runs");
    assert!(runs.len() >= 5, "runs of `none` and of each scheduler");
    let mut keys: Vec<&String> = runs[0].as_object().expect("a run").keys().collect();
    keys.sort();
    let expected = [
        "alg",
        "flows",
        "gen",
        "instructions_per_pair",
        "l2_misses_per_pair",
        "ns_net",
        "ns_per_pair",
        "order_hash",
        "pairs",
        "wfi",
    ];
    assert_eq!(keys, expected);
    for (one, other) in runs.iter().zip(second["runs"].as_array().expect("runs")) {
        assert_eq!(
            (&one["alg"], &one["order_hash"], &one["wfi"]),
            (&other["alg"], &other["order_hash"], &other["wfi"])
        );
        assert!(one["ns_per_pair"].is_number() && one["instructions_per_pair"].is_null());
        assert_eq!(one["wfi"].is_null(), one["alg"] == "none");
    }
}

#[test]
fn aqms_are_measured_beside_none_and_have_their_names() {
    let output = weir("rig --aqm droptail --flows 3 --pairs 500 --runs 1 --offered 1.5 --json -");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = document(&output.stdout);
    let names: Vec<&Value> =
        report["runs"].as_array().expect("runs").iter().map(|run| &run["aqm"]).collect();
    assert_eq!(names, ["none", "droptail"]);
    assert!(
        report["runs"]
            .as_array()
            .expect("runs")
            .iter()
            .all(|run| run["alg"] == "fifo" && run["ns_net"].is_number())
    );
    for (words, expected) in [
        ("--aqm nope", "`nope`"),
        ("--aqm droptail:m=1", "`m`"),
        ("--aqm droptail --metric wfi", "wfi"),
        ("--aqm droptail --alg drr", "--alg"),
        ("--aqm droptail --offered 0", "--offered"),
        ("--aqm droptail --link-rate 5bit/s", "--link-rate"),
        ("--offered 2", "--aqm"),
        ("--case /nowhere", "/nowhere"),
        ("--aqm droptail --json /proc/x.json", "nothing can be written in /proc"),
        ("--alg fifo --plot /proc/x.svg", "nothing can be written in /proc"),
        ("--alg fifo --plot x.gif", "neither a .svg nor a .png"),
        ("--step --aqm pie --plot /proc/x.svg", "nothing can be written in /proc"),
    ] {
        let output = weir(&format!("rig {words}"));
        assert!(
            !output.status.success() && text(&output.stderr).contains(expected),
            "{words}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_medium_runs_with_its_settings_and_refuses_contradictions() {
    for alg in ["dcf:edca=queue:rts=500:standard=g", "dcf:errors=0.9:retries=2", "dcf:errors=1"] {
        let words = format!("rig --alg {alg} --flows 3 --pairs 500 --runs 1 --json -");
        let output = weir(&words);
        assert!(output.status.success(), "{alg}: {}", text(&output.stderr));
    }
    let output = weir("rig --alg dcf:standard=g:phy=11 --flows 3");
    let message = text(&output.stderr);
    assert!(
        !output.status.success() && message.contains("802.11g has no data rate of 11 Mbit/s"),
        "{message}"
    );
}

#[test]
fn a_failing_case_is_reported_by_exit_code_and_line() {
    let directory = scratch("case");
    let path = directory.join("case.toml");
    let case = "about = \"two\"\n[queue]\naqm = \"droptail\"\nlimit = 1\n[[arrive]]\n\
                at = \"0ms\"\ncount = 2\nbytes = 9\n\
                [[dequeue]]\nat = \"1ms\"\n[expect.total]\ndrops = 1\n";
    for (case, status, expected) in [
        (case.to_owned(), 0, "ok      drops (line 12)"),
        (case.replace("drops = 1", "drops = 2"), 1, "FAILED  drops (line 12)"),
    ] {
        std::fs::write(&path, case).expect("the case");
        let json = directory.join("case.json");
        let output = weir(&format!("rig --case {} --json {}", path.display(), json.display()));
        assert_eq!(output.status.code(), Some(status));
        let words = text(&output.stdout);
        assert!(words.contains(expected) && words.contains("1.000000 ms  dequeue"), "{words}");
        let outcome = document(&std::fs::read(&json).expect("the outcome"));
        assert_eq!(outcome["passed"], status == 0, "{outcome:#}");
    }
    std::fs::write(&path, case.replace("limit", "limits")).expect("the case");
    let output = weir(&format!("rig --case {}", path.display()));
    assert!(text(&output.stderr).contains("line 4: `limits`"), "{}", text(&output.stderr));
    std::fs::remove_dir_all(directory).expect("the scratch directory can be removed");
}

#[test]
fn a_step_of_load_is_drawn() {
    let directory = scratch("step");
    let svg = directory.join("step.svg");
    let output = weir(&format!("rig --aqm droptail --step -q --plot {}", svg.display()));
    assert!(
        output.status.success() && text(&output.stdout).contains("droptail"),
        "{}",
        text(&output.stderr)
    );
    let picture = std::fs::read_to_string(&svg).expect("the picture");
    assert!(picture.contains("drops</text>") && picture.len() < 60_000);
    std::fs::remove_dir_all(directory).expect("the scratch directory can be removed");
}

#[test]
fn the_file_name_selects_the_picture_format() {
    let directory = scratch("pictures");
    let (svg, png) = (directory.join("cost.svg"), directory.join("cost.png"));
    let words = format!(
        "rig --alg none,fifo --flows 1..4 --pairs 100 --runs 1 -q --plot {} --plot {}",
        svg.display(),
        png.display()
    );
    let output = weir(&words);
    assert!(
        output.status.success() && text(&output.stdout).contains("4:w1"),
        "{}",
        text(&output.stderr)
    );
    assert!(std::fs::read_to_string(&svg).expect("the picture").contains("none</text>"));
    assert!(std::fs::read(&png).expect("the picture").starts_with(b"\x89PNG\r\n"));
    std::fs::remove_dir_all(directory).expect("the scratch directory can be removed");
}

#[test]
fn instructions_are_the_same_each_time_where_valgrind_is_there() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        let output = weir("rig --alg fifo --flows 4 --metric instr");
        assert_eq!(output.status.code(), Some(125));
        assert!(text(&output.stderr).contains("apt install valgrind"));
        return;
    }
    let count = || {
        let output = weir("rig --alg fifo --flows 4 --pairs 200 --metric instr,memory --json -");
        let json = document(&output.stdout);
        json["runs"][0]["instructions_per_pair"]
            .as_f64()
            .unwrap_or_else(|| panic!("no count: {}", text(&output.stderr)))
    };
    let (first, second) = (count(), count());
    assert!(first > 5.0 && (first - second).abs() <= 1.0, "{first} and {second} instructions");
}

#[test]
fn the_adversary_resumes_and_its_trace_gives_the_same_result() {
    let directory = scratch("adversary");
    let out = directory.display();
    let search = |tries| {
        let output = weir(&format!(
            "rig --adversary --alg drr --flows 4:w1,2:w3 --weights keep --tries {tries} --out \
             {out} -q --json -"
        ));
        assert!(output.status.success(), "{}", text(&output.stderr));
        document(&output.stdout)["runs"][0]["wfi"].clone()
    };
    search(20);
    let found = search(40);
    let output = weir(&format!("rig --alg drr --metric wfi --gen trace:{out}/drr.trace --json -"));
    let replayed = document(&output.stdout);
    assert_eq!(replayed["runs"][0]["wfi"], found, "{}", text(&output.stderr));
    let refused = weir(&format!("rig --adversary --alg drr --flows 5 --tries 10 --out {out} -q"));
    assert!(
        !refused.status.success() && text(&refused.stderr).contains("--out"),
        "{}",
        text(&refused.stderr)
    );
    std::fs::remove_dir_all(directory).expect("the scratch directory can be removed");
}

#[test]
fn a_reproduced_experiment_has_a_document() {
    let directory = scratch("reproduce");
    let output = weir(&format!("reproduce sp-pifo --quick -q --out {}", directory.display()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result = document(&std::fs::read(directory.join("sp-pifo.json")).expect("the result"));
    assert_eq!(result["kind"], "experiment");
    let claims = result["claims"].as_array().expect("claims");
    assert_eq!(claims.len(), 5, "{result:#}");
    assert_eq!(claims[1]["provenance"]["kind"], "calibrated", "{result:#}");
    assert_eq!(claims[1]["seeds"], "3", "{result:#}");
    assert_eq!(claims[1]["conditions"][0]["quantity"]["runs"], 3, "{result:#}");
    let reference = &result["tables"][0]["rows"][1][2];
    assert_eq!(reference["value"], 0.303);
    assert_eq!(reference["provenance"]["chosen"], "a load of 1.1");
    let page = || std::fs::read_to_string(directory.join("index.html")).expect("the page");
    let first = page();
    assert!(first.contains("id=\"sp-pifo\"") && first.contains("calibrated"), "{first}");
    // With `--resume`, a second command keeps the stored result and does not repeat the experiment.
    let again = weir(&format!("reproduce sp-pifo --quick --resume --out {}", directory.display()));
    assert!(text(&again.stderr).contains("kept: sp-pifo"), "{}", text(&again.stderr));
    assert!(again.stdout.is_empty(), "{}", text(&again.stdout));
    assert_eq!(page(), first);
    // A stored chapter that cannot be parsed is made again.
    std::fs::write(directory.join("chapters/sp-pifo.json"), "{").expect("a damaged file");
    let again =
        weir(&format!("reproduce sp-pifo --quick --resume -q --out {}", directory.display()));
    assert!(!again.stdout.is_empty() && page() == first, "{}", text(&again.stderr));
    std::fs::remove_dir_all(directory).expect("the scratch directory can be removed");
}

#[test]
fn packets_of_a_case_are_passed_and_wrong_cases_are_refused() {
    for case in ["tests:20,1000", "whole:1000,1000"] {
        let output = weir(&format!("reproduce --drive {case}"));
        assert!(output.status.success(), "{case}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{case}");
    }
    for wrong in ["tests:20", "tests:0,1", "rules:1,1", "pipes:10001,1"] {
        let output = weir(&format!("reproduce --drive {wrong}"));
        assert!(!output.status.success(), "{wrong}");
        assert!(text(&output.stderr).contains("no case"), "{}", text(&output.stderr));
    }
}

#[test]
fn wrong_arguments_are_refused_with_what_is_allowed() {
    for (words, expected) in [
        ("rig --flows 5:w0", "1..65536"),
        ("rig --alg nope", "wf2q+"),
        ("rig --adversary --flows 1..4", "one flow set"),
        ("rig --adversary --alg fifo --flows 5 --weights 9:5", "1:100"),
        ("rig --adversary --alg none", "needs a scheduler"),
        ("reproduce nothing", "qfq-talk"),
        ("reproduce queue-sampler --full --seconds 3", "cannot be used with"),
    ] {
        let output = weir(words);
        assert_eq!(output.status.code(), Some(2), "{words}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(expected), "{words}: {}", text(&output.stderr));
    }
    let list = text(&weir("reproduce --list").stdout);
    assert!(list.contains("qfq-talk") && list.contains("qfq-plus"), "{list}");
}

#[test]
fn a_recording_is_replayed_to_a_table_a_document_and_a_page() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/packets/whole");
    let page = scratch("replay").join("q.html");
    let shown = page.display();
    let words = format!("rig --replay {trace} --alg fifo,drr --aqm codel,fifo_plus --html {shown}");
    let wrong = weir(&words);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("fifo_plus"), "{}", text(&wrong.stderr));
    let words = words.replace(",fifo_plus", "");
    let output = weir(&words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    let place = |name: &str| table.find(name).unwrap_or_else(|| panic!("no {name}: {table}"));
    assert!(place("kernel: tbf + bfifo") < place("\n  fifo"), "{table}");
    assert!(place("  codel") < place("Open loop"), "{table}");
    let warnings = text(&output.stderr);
    for gap in ["4 events could not", "1 packets have an outcome", "2 departures", "1 times"] {
        assert!(warnings.contains(gap), "{gap}: {warnings}");
    }
    assert!(std::fs::read_to_string(&page).expect("the page").contains("kernel: tbf + bfifo"));
    let result = document(&weir(&format!("rig --replay {trace} --rate 2Mbit/s --json -")).stdout);
    let names: Vec<&str> = result["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| row["name"].as_str())
        .collect();
    assert_eq!(names, ["kernel: tbf + bfifo", "fifo", "fq_codel", "cake"]);
    assert_eq!(
        (&result["kind"], &result["link"]["rate_bps"]),
        (&"replay".into(), &2_000_000.into())
    );
}

#[test]
fn replay_errors_say_what_to_do() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/packets/");
    for (words, expected) in [
        ("--replay {}truncated", "copy it again"),
        ("--replay {}zeros", "weir watch DEV --record FILE"),
        ("--replay {}version", "weir.packets/2"),
        ("--replay {}empty", "record while packets pass"),
        ("--replay /dev/null", "not a regular file"),
        ("--replay {}whole --rate fast", "20Mbit/s"),
        ("--replay {}whole --rate 5", "at least 1kbit/s"),
        ("--replay {}whole --limit many", "64KB"),
        ("--replay {}whole --alg htb", "leave htb out"),
        ("--replay {}whole --aqm nope", "--aqm"),
        ("--rate 5M", "--replay"),
    ] {
        let output = weir(&format!("rig {}", words.replace("{}", corpus)));
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {message}");
        assert!(message.contains(expected), "{words}: {message}");
    }
}
