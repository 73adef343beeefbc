//! Tests `weir sim` and `weir check` as a user runs them: their output, their files and their error
//! messages. Two tests check errors of `weir run` and `weir live`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn weir(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(words).output().expect("weir can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn scratch(name: &str) -> PathBuf {
    let directory =
        std::env::temp_dir().join(format!("weir-sim-test-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a scratch directory");
    directory
}

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

fn two_hosts() -> String {
    experiments().join("two-hosts.toml").display().to_string()
}

/// Runs `weir sim --json -` with these arguments, and parses its standard output.
fn results(words: &[&str]) -> Value {
    let output = weir(&[&["sim", "--json", "-"], words].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    crate::schema::document(&output.stdout)
}

#[test]
fn a_scenario_is_simulated_and_shown_as_tables() {
    let output = weir(&["sim", &two_hosts(), "--set", "duration=3s"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for word in ["two-hosts: 3 s", "seed 1", "video", "calls.3", "cbr", "bottleneck", "goodput"] {
        assert!(shown.contains(word), "`{word}` is not in\n{shown}");
    }
}

#[test]
fn runs_without_chance_are_noted() {
    let folder = scratch("equal");
    let file = folder.join("cbr.toml");
    let scenario = "duration = \"2s\"\nnode = [{ name = \"a\" }, { name = \"b\" }]\n\
        link = [{ between = [\"a\", \"b\"], name = \"l\", spec = \"bw 1Mbit/s delay 5ms\" }]\n\
        traffic = [{ name = \"t\", from = \"a\", to = \"b\", kind = \"cbr\", \
        rate = \"500kbit/s\" }]\n";
    std::fs::write(&file, scenario).expect("a scenario");
    let file = file.display().to_string();
    let noted = |words: &[&str]| {
        let output = weir(&[&["sim", &file], words].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr).contains("the runs of all seeds are equal")
    };
    assert!(noted(&["--runs", "3"]));
    assert!(!noted(&[]), "one run");
    assert!(!noted(&["--runs", "3", "--set", "traffic.t.kind=poisson"]));
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn options_of_a_suite_are_refused_with_a_scenario() {
    for options in [&["--aqm", "codel"][..], &["--quick"]] {
        let output = weir(&[&["sim", &two_hosts()], options].concat());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("belongs to --suite"), "{message}");
    }
}

#[test]
fn a_time_without_a_unit_is_refused_with_both_readings() {
    let run = |option, time| weir(&["run", option, time, "--", "true"]);
    for (option, time, readings) in
        [("--timeout", "2", ["`2ms`", "`2s`"]), ("--spin", "60", ["`60ms`", "`60us`"])]
    {
        let output = run(option, time);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(readings.iter().all(|reading| message.contains(reading)), "{message}");
    }
}

#[test]
fn a_capture_beside_the_scenario_is_replayed() {
    let directory = scratch("capture");
    // The Ethernet headers of two frames of 1014 and 514 bytes, 100 ms apart. The file is not UTF-8
    // text.
    let mut capture =
        [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    for (us, len) in [(0_u32, 1014_u32), (100_000, 514)] {
        capture.extend([7, us, 14, len].map(u32::to_le_bytes).concat());
        capture.extend([0xff; 12]);
        capture.extend([0x08, 0x00]);
    }
    std::fs::write(directory.join("link.pcap"), capture).expect("a capture");
    let scenario = directory.join("replay.toml");
    let nodes = "duration = \"1s\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\n\
        between = [\"a\", \"b\"]\nspec = \"bw 10Mbit/s\"\n";
    let traffic = "[[traffic]]\nname = \"t\"\nfrom = \"a\"\nto = \"b\"\nkind = \"trace\"\n\
        file = \"link.pcap\"\n";
    std::fs::write(&scenario, format!("{nodes}{traffic}")).expect("a scenario");
    let json = results(&[&scenario.display().to_string()]);
    assert_eq!(
        (json["flows"][0]["sent"].as_u64(), json["flows"][0]["received"].as_u64()),
        (Some(2), Some(2)),
        "{json}"
    );
}

#[test]
fn results_have_the_published_keys_and_are_the_same_on_any_number_of_threads() {
    let run = |threads: &str| {
        let mut json =
            results(&[&two_hosts(), "--set", "duration=2s", "--runs", "3", "--threads", threads]);
        assert!(
            json.as_object_mut()
                .expect("an object")
                .remove("cpu_s")
                .is_some_and(|cpu| cpu.is_number())
        );
        json
    };
    let first = run("1");
    assert_eq!(run("1"), first);
    assert_eq!(run("4"), first);
    for key in ["seed", "simulated_s", "events", "flows", "links", "runs"] {
        assert!(first.get(key).is_some(), "{key}");
    }
    for key in
        ["name", "kind", "goodput_bps", "delay_ns", "sent", "received", "lost", "retransmitted"]
    {
        assert!(first["flows"][0].get(key).is_some(), "{key}");
    }
    for key in ["mean", "p50", "p99", "p999", "max"] {
        assert!(first["flows"][0]["delay_ns"].get(key).is_some(), "{key}");
    }
    for key in [
        "name",
        "from",
        "to",
        "rate_bps",
        "delay_ns",
        "packets_in",
        "packets_out",
        "drops",
        "marks",
        "queue_ns",
        "spec",
    ] {
        assert!(first["links"][0].get(key).is_some(), "{key}");
    }
}

#[test]
fn a_sweep_has_its_points_and_settings_change_keys() {
    let directory = scratch("sweep");
    let path = directory.join("s.toml");
    let text = std::fs::read_to_string(two_hosts()).expect("the example");
    std::fs::write(
        &path,
        text + "\n[[sweep]]\nkey = \"link.bottleneck.spec.delay\"\nvalues = [\"1ms\", \"20ms\"]\n",
    )
    .expect("written");
    let json = results(&[
        path.to_str().expect("a name"),
        "--set",
        "duration=2s",
        "--set",
        "traffic.video.rate=1Mbit/s",
    ]);
    let points = json["sweep"].as_array().expect("points");
    assert_eq!(points.len(), 2);
    for (point, delay) in points.iter().zip([1_000_000u64, 20_000_000]) {
        let bottleneck = point["links"]
            .as_array()
            .expect("links")
            .iter()
            .find(|link| link["name"] == "bottleneck")
            .expect("a link named bottleneck");
        assert_eq!(bottleneck["delay_ns"], delay);
        assert!(point["flows"][0]["goodput_bps"].as_f64().expect("a rate") < 1_000_000.0);
    }
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn a_suite_has_tables_of_each_situation() {
    let suite = results(&["--suite", "rfc7928", "--quick", "--aqm", "none,codel"]);
    assert_eq!(suite["kind"], "suite");
    let tables = suite["tables"].as_array().expect("tables");
    assert!(tables.len() > 5, "{} tables", tables.len());
    assert!(
        tables.iter().all(|table| table["rows"].as_array().is_some_and(|rows| !rows.is_empty()))
    );
}

/// The files in a directory and their bytes.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path());
    let one = |path: PathBuf| {
        (
            path.file_name().expect("a name").to_string_lossy().into_owned(),
            std::fs::read(&path).expect("a file"),
        )
    };
    let mut files: Vec<_> = entries.map(one).collect();
    files.sort();
    files
}

#[test]
fn a_directory_of_results_appears_whole_and_has_the_same_bytes_each_time() {
    let directory = scratch("out");
    let run = |name: &str, threads: &str| {
        let path = directory.join(name);
        let out = path.to_str().expect("a name");
        let output = weir(&[
            "sim",
            &two_hosts(),
            "--set",
            "duration=2s",
            "--set",
            "measure.trace=true",
            "--runs",
            "2",
            "--threads",
            threads,
            "--out",
            out,
            "-q",
        ]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        files(&path)
    };
    let first = run("first", "1");
    let names: Vec<&str> = first.iter().map(|(name, _)| name.as_str()).collect();
    for name in [
        "summary.json",
        "report.html",
        "scenario.toml",
        "flows.parquet",
        "links.parquet",
        "trace.parquet",
        "trace.pcapng",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let (_, summary) = first.iter().find(|(name, _)| name == "summary.json").expect("a summary");
    assert_eq!(crate::schema::document(summary)["runs"].as_array().map(Vec::len), Some(2));
    assert!(run("second", "2") == first, "the same bytes on two threads");
    let (_, scenario) =
        first.iter().find(|(name, _)| name == "scenario.toml").expect("the scenario");
    assert!(text(scenario).contains("duration = \"2s\""));
    // An existing directory is refused and left untouched; --force replaces it.
    let out = directory.join("first");
    let out = out.to_str().expect("a name");
    let output = weir(&["sim", &two_hosts(), "--set", "duration=2s", "--out", out]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--force"), "{}", text(&output.stderr));
    assert!(files(Path::new(out)) == first);
    let output =
        weir(&["sim", &two_hosts(), "--set", "duration=2s", "--out", out, "--force", "-q"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!files(Path::new(out)).iter().any(|(name, _)| name == "trace.parquet"));
    let left: Vec<_> = names_in(&directory);
    assert_eq!(left, ["first", "second"]);
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn force_replaces_nothing_but_results_and_refuses_before_the_run() {
    let directory = scratch("force");
    let precious = directory.join("precious");
    std::fs::create_dir_all(precious.join("sub")).expect("made");
    std::fs::write(precious.join("sub/thesis.txt"), "important").expect("written");
    std::os::unix::fs::symlink("precious", directory.join("link")).expect("made");
    for command in ["sim", "live"] {
        for (out, expected) in [
            ("precious", "is no directory of results"),
            ("link", "is a symbolic link"),
            (".", "cannot be replaced"),
            ("..", "cannot be replaced"),
        ] {
            let output = Command::new(env!("CARGO_BIN_EXE_weir"))
                .args([command, &two_hosts(), "--set", "duration=3600s", "-q"])
                .args(["--out", out, "--force"])
                .current_dir(&directory)
                .output()
                .expect("weir can be started");
            let message = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command} {out}: {message}");
            assert!(message.contains(expected), "{command} {out}: {message}");
        }
    }
    let content = std::fs::read(precious.join("sub/thesis.txt")).expect("the file is there");
    assert_eq!(content, b"important");
    assert_eq!(names_in(&directory), ["link", "precious"]);
    std::fs::remove_dir_all(directory).expect("removed");
}

fn names_in(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn mistakes_give_one_message_and_no_files() {
    let directory = scratch("wrong");
    let path = directory.join("w.toml");
    let broken = std::fs::read_to_string(two_hosts())
        .expect("the example")
        .replace("delay 10ms", "dely 10ms");
    std::fs::write(&path, broken).expect("written");
    let (file, json) = (path.to_str().expect("a name"), directory.join("out.json"));
    for words in [&["sim", file, "--json", json.to_str().expect("a name")][..], &["check", file]] {
        let output = weir(words);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(
            message.contains("w.toml:21:") && message.contains("did you mean `delay`"),
            "{message}"
        );
        assert!(output.stdout.is_empty() && !json.exists());
    }
    for (words, expected) in [
        (vec!["sim"], "SCENARIO"),
        (vec!["sim", "/nowhere.toml"], "cannot read /nowhere.toml"),
        (vec!["sim", &two_hosts(), "--set", "traffic.vide.rate=1M"], "did you mean `video`"),
        (vec!["sim", &two_hosts(), "--set", "duration"], "KEY=VALUE"),
        (vec!["sim", &two_hosts(), "--threads", "0"], "1 to 1024"),
        (vec!["sim", &two_hosts(), "--json", "/nowhere/x.json"], "no directory"),
        (vec!["sim", &two_hosts(), "--report", "/proc/x.html"], "nothing can be written in /proc"),
        (vec!["sim", &two_hosts(), "--out", "-"], "--out needs the name of a directory"),
    ] {
        let output = weir(&words);
        let message = text(&output.stderr);
        assert!(!output.status.success() && message.contains(expected), "{words:?}: {message}");
    }
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn a_check_mentions_files_only_for_words_that_look_like_file_names() {
    let directory = scratch("kinds");
    std::fs::create_dir(directory.join("labs")).expect("made");
    let check = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .arg("check")
            .args(words)
            .current_dir(&directory)
            .output()
            .expect("weir can be started");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        text(&output.stderr)
    };
    for (words, expected) in [
        (&["/dev/zero"][..], "weir: cannot check /dev/zero: it is a device; name a file\n"),
        (&["/tmp"], "weir: cannot check /tmp: it is a directory; name a file\n"),
        (&["labs"], "`labs` is a directory; name a file"),
        (&["--json", "labs"], "`labs` is a directory"),
        (&["labs/web"], "there is no file `labs/web` either"),
        (&["nosuch.toml"], "there is no file `nosuch.toml` either"),
    ] {
        let message = check(words);
        assert!(message.contains(expected), "{words:?}: {message}");
    }
    for words in [&["bw -1Mbit/s"][..], &["trace nosuch.trace"], &["NaN/20ms"], &["bw 1,5Mbit/s"]] {
        let message = check(words);
        assert!(!message.contains("there is no file"), "{words:?}: {message}");
    }
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn scenarios_of_the_experiments_pass_the_check() {
    let mut seen = 0;
    for directory in [experiments(), experiments().join("examples")] {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                let output = weir(&["check", path.to_str().expect("a name")]);
                assert!(output.status.success(), "{}", text(&output.stderr));
                assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
                seen += 1;
            }
        }
    }
    assert!(seen >= 5, "only {seen} scenarios were found");
}

/// A slow station slows the other stations of its cell down to its own throughput. The exact shares
/// vary with the seed; the intervals over seeds are judged in `weir-rig`.
#[test]
fn the_scenario_with_a_slow_station_shows_the_anomaly() {
    let path = experiments().join("examples/wifi-anomaly.toml").display().to_string();
    let goodput = |change: &[&str]| -> Vec<f64> {
        let found = results(&[&[path.as_str(), "--set", "duration=12s"], change].concat());
        let flows = found["flows"].as_array().expect("flows");
        flows.iter().map(|g| g["goodput_bps"].as_f64().expect("a rate")).collect()
    };
    let anomaly = goodput(&[]);
    assert_eq!(anomaly.len(), 3);
    let mean = anomaly.iter().sum::<f64>() / 3.0;
    assert!(anomaly.iter().all(|bps| (bps / mean - 1.0).abs() < 0.1), "{anomaly:?}");
    assert!((550e3..800e3).contains(&mean), "{anomaly:?}");
    let all_fast = goodput(&["--set", "link.cell.queue[2].spec.rate=11Mbit/s"]);
    assert!(all_fast.iter().all(|bps| *bps > 2.0 * mean), "{all_fast:?}");
}

#[test]
fn the_schema_is_printed() {
    let output = weir(&["sim", "--schema"]);
    let schema: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(schema["title"], "Weir scenario");
    assert!(schema["properties"]["traffic"].is_object());
}

#[test]
fn a_lab_with_too_many_hosts_is_refused_before_it_starts() {
    let directory = scratch("hosts");
    let check = |count: usize| {
        let mut scenario = "duration = \"1s\"\n".to_owned();
        for number in 0..count {
            scenario += &format!("[[node]]\nname = \"h{number}\"\ncommand = \"true\"\n");
        }
        let path = directory.join("lab.toml");
        std::fs::write(&path, scenario).expect("a scratch file");
        weir(&["check", path.to_str().expect("a name")])
    };
    assert_eq!(check(100).status.code(), Some(0));
    let refused = check(101);
    let errors = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{errors}");
    assert!(errors.contains("101 hosts are too many for a lab"), "{errors}");
    std::fs::remove_dir_all(directory).expect("the scratch directory");
}
