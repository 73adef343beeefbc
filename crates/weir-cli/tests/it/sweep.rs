//! Tests `weir sweep` as a user runs it: a campaign, its resumption, and the upkeep of its store.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn weir(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("sweep").args(words).current_dir(directory).output().expect("weir can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// A directory with a scenario and a campaign of eight runs.
fn campaign(name: &str) -> PathBuf {
    let name = format!("weir-sweep-test-{}-{name}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    fs::create_dir_all(&directory).expect("a scratch directory");
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    fs::copy(experiments.join("two-hosts.toml"), directory.join("two-hosts.toml")).expect("a copy");
    let text = "scenario = \"two-hosts.toml\"\nseeds = 2\nset = { duration = \"1500ms\" }\n[axes]\n\
                \"link.bottleneck.scheduler\" = [\"fifo\", \"fq_codel\"]\n\
                \"link.bottleneck.spec.bw\" = [\"5Mbit/s\", \"10Mbit/s\"]\n";
    fs::write(directory.join("c.toml"), text).expect("a campaign");
    directory
}

#[test]
fn a_campaign_is_carried_out_once_and_maintained() {
    let directory = campaign("whole");
    let done = |words: &[&str]| {
        let output = weir(&directory, words);
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        output
    };
    let first = done(&["c.toml", "--store", "s", "--jobs", "2"]);
    assert!(text(&first.stderr).starts_with("8 runs: 0 there, 8 carried out, in "));
    let again = done(&["c.toml", "--store", "s"]);
    assert!(text(&again.stderr).starts_with("8 runs: 8 there, 0 carried out, in "));
    let status = done(&["status", "c.toml", "--store", "s", "--json"]);
    let status = crate::schema::document(&status.stdout);
    assert_eq!((&status["done"], &status["missing"]), (&8.into(), &0.into()));

    let tasks: [&[&str]; 3] = [
        &["status", "/dev/zero"],
        &["export", "--out", "t", "/dev/zero"],
        &["gc", "--keep", "/dev/zero"],
    ];
    for words in tasks {
        let output = weir(&directory, &[words, &["--store", "s"]].concat());
        let found = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {found}");
        assert!(found.contains("cannot read /dev/zero: it is no regular file"), "{found}");
    }

    let run = fs::read_dir(directory.join("s/runs")).unwrap().next().unwrap().unwrap().path();
    fs::write(run.join("links.parquet"), "").unwrap();
    let found = weir(&directory, &["verify", "--store", "s", "--remove"]);
    assert_eq!(found.status.code(), Some(1));
    let words = text(&found.stdout);
    assert!(words.contains("8 runs, 7 carried out again: 1 damaged"), "{words}");
    let missing = text(&done(&["missing", "c.toml", "--store", "s"]).stdout);
    let key = run.file_name().unwrap().to_string_lossy().into_owned();
    assert!(missing.starts_with(&key) && missing.lines().count() == 1, "{missing}");
    done(&["c.toml", "--store", "s", "--quiet"]);

    let exported = text(&done(&["export", "c.toml", "--store", "s", "--out", "tables"]).stdout);
    assert_eq!(exported, "tables/flows.parquet: 8 runs\ntables/links.parquet: 8 runs\n");
    let half =
        fs::read_to_string(directory.join("c.toml")).unwrap().replace("seeds = 2", "seeds = 1");
    fs::write(directory.join("half.toml"), half).unwrap();
    fs::write(directory.join("s/inputs").join("0".repeat(64)), vec![0; 70_000_000]).unwrap();
    let removed = text(&done(&["gc", "--store", "s", "--keep", "half.toml"]).stdout);
    assert!(removed.starts_with("removed: 0 unfinished, 4 runs, 1 inputs; 7"), "{removed}");
    let status = text(&done(&["status", "c.toml", "--store", "s"]).stdout);
    assert!(status.starts_with("4 points, 8 runs: 4 done, 4 missing\n0 other runs"), "{status}");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn wrong_campaigns_and_stores_are_refused_with_the_reason() {
    let directory = campaign("refused");
    let refused = |words: &[&str], message: &str| {
        let output = weir(&directory, words);
        let found = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{found}");
        assert!(found.contains(message), "{found}");
    };
    let axes = "scenario = \"two-hosts.toml\"\n[axes]\n";
    fs::write(directory.join("wrong.toml"), format!("{axes}\"link.x.spec.bw\" = [1]\n")).unwrap();
    refused(&["wrong.toml", "--store", "s"], "there is no `x` in `link.x.spec.bw`");
    let value = format!("{axes}\"link.bottleneck.spec.delay\" = [\"1ms\", \"soon\"]\n");
    fs::write(directory.join("value.toml"), value).unwrap();
    refused(&["value.toml", "--store", "s"], "soon");
    fs::write(directory.join("sampled.toml"), "scenario = \"two-hosts.toml\"\n[sample]\n").unwrap();
    refused(&["sampled.toml", "--store", "s"], "`[sample]` is drawn by SciPy");
    refused(&["status", "c.toml", "--store", "s"], "s is no store");
    refused(&["none.toml", "--store", "s"], "cannot read none.toml");
    refused(&["/dev/zero", "--store", "s"], "cannot read /dev/zero: it is no regular file");
    let many = "scenario = \"two-hosts.toml\"\nseeds = 99999999999\n";
    fs::write(directory.join("many.toml"), many).unwrap();
    refused(
        &["many.toml", "--store", "s"],
        "many.toml:2: `seeds` must be a number of runs from 1 to 10,000,000",
    );
    let many = "scenario = \"two-hosts.toml\"\nseeds = 6000000\n[axes]\n\
                \"link.bottleneck.scheduler\" = [\"fifo\", \"fq_codel\"]\n";
    fs::write(directory.join("product.toml"), many).unwrap();
    refused(&["product.toml", "--store", "s"], "more than 10,000,000 runs: give fewer seeds");
    assert!(!directory.join("s").exists(), "a refused campaign makes no store");
    fs::remove_dir_all(directory).unwrap();
}
