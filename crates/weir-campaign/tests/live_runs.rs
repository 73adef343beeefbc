//! Live runs of campaigns, with a stand-in for the command `weir`: late runs are repeated, refused
//! ones are not, and a stopped one leaves nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_campaign::check;
use weir_campaign::key::Runner;
use weir_campaign::plan::{Plan, PlanError, Seeds, Source};
use weir_campaign::pool::{self, Finished, Options};
use weir_campaign::store::Store;
use weir_campaign::work::{End, Limits};
use weir_report::sim::{Column, Table};

/// A scenario that only live runs can have.
const TEXT: &str = "duration = '1s'\n[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n\
                    [[link]]\nbetween = ['a', 'b']\nspec = '1M/5ms'\n\
                    [[traffic]]\nname = 't'\nkind = 'program'\nfrom = 'a'\nto = 'b'\n\
                    command = 'true'\n";

/// A directory with a store and a stand-in for `weir`.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let name = format!("weir-campaign-live-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn store(&self) -> Store {
        Store::create(&self.0.join("s")).unwrap()
    }

    /// Makes the stand-in. It counts its calls, and then executes the shell commands `more`.
    fn command(&self, more: &str) -> PathBuf {
        let path = self.0.join("weir");
        let count =
            "n=$(cat \"$0.calls\" 2>/dev/null || echo 0); n=$((n+1)); echo $n >\"$0.calls\"";
        fs::write(&path, format!("#!/bin/sh\n{count}\n{more}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A stand-in that writes results. `late` has the number of late packets of each call, out of
    /// 1,000.
    fn results(&self, late: &[u64]) -> PathBuf {
        for (number, &late) in late.iter().enumerate() {
            let links = Table {
                columns: vec![
                    ("name", Column::Name(vec!["l".to_owned()], vec![0])),
                    ("run_departed", Column::SomeInt(vec![Some(1000)])),
                    ("run_late", Column::SomeInt(vec![Some(late)])),
                ],
            };
            let path = self.0.join(format!("weir.{}", number + 1));
            fs::write(path, links.to_bytes().unwrap()).unwrap();
        }
        // The arguments are: live SCENARIO --quiet --out DIRECTORY.
        self.command(
            "mkdir \"$5\" && cp \"$0.$n\" \"$5/links.parquet\" && cp \"$2\" \"$5/scenario.toml\"\n\
             echo '{\"events\": 7}' >\"$5/summary.json\"",
        )
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.0.join("weir.calls")).unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn source(text: &str, directory: &Path, by: Runner) -> Source {
    Source {
        text: text.to_owned(),
        name: "test.toml".to_owned(),
        directory: directory.to_owned(),
        default_name: "test".to_owned(),
        settings: Vec::new(),
        labels: Vec::new(),
        by,
    }
}

fn plan(text: &str, directory: &Path, by: Runner) -> Result<Plan, PlanError> {
    let sources = vec![source(text, directory, by)];
    Plan::new(sources, Vec::new(), Vec::new(), Seeds::Count(1)).map(|(plan, _)| plan)
}

fn run(plan: &Plan, store: &Store, limits: Limits) -> Finished {
    let options = Options { jobs: 1, limits, retries: 2 };
    pool::run(plan, store, &options, &AtomicBool::new(false), &|_| {}).unwrap()
}

fn limits(weir: PathBuf) -> Limits {
    Limits { time: None, weir: Some(weir) }
}

fn reason(finished: &Finished) -> &str {
    match &finished.failures[0].end {
        End::Failed { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

fn is_clean(store: &Store) -> bool {
    fs::read_dir(store.root().join("tmp")).unwrap().next().is_none()
}

#[test]
fn late_runs_are_repeated_until_one_is_not_late() {
    let place = Place::new("late");
    let (store, weir) = (place.store(), place.results(&[400, 10, 9]));
    let plan = plan(TEXT, Path::new("."), Runner::Live).unwrap();
    let finished = run(&plan, &store, limits(weir.clone()));
    assert_eq!((finished.tally.made, finished.tally.failed), (1, 0), "{finished:?}");
    assert_eq!(place.calls(), "3", "1 % of the packets is too many");
    assert!(is_clean(&store));
    let task = plan.point(0).unwrap().task;
    let meta = check::files(&store, task.key(1)).unwrap();
    assert_eq!((meta.source.as_str(), meta.name.as_str(), meta.events), ("live", "test", 7));
    let file = fs::File::open(store.path(task.key(1)).join("links.parquet")).unwrap();
    let links = Table::<String>::read(file).unwrap();
    assert_eq!(links.columns[2].1, Column::SomeInt(vec![Some(9)]));
    assert_eq!(run(&plan, &store, limits(weir)).tally.there, 1);
    // `verify` does not carry out a live run again, because the run is not repeatable.
    let verified = check::verify(&store, 5, 1).unwrap();
    assert_eq!((verified.runs, verified.others, verified.damaged.len()), (1, 1, 0));
}

#[test]
fn a_run_that_is_late_each_time_fails_with_the_share() {
    let place = Place::new("slow");
    let (store, weir) = (place.store(), place.results(&[40, 30, 20, 0]));
    let plan = plan(TEXT, Path::new("."), Runner::Live).unwrap();
    let finished = run(&plan, &store, limits(weir));
    assert_eq!(place.calls(), "3");
    assert!(reason(&finished).starts_with("20 of 1,000 packets (2 %) departed"), "{finished:?}");
    assert!(is_clean(&store) && store.keys().unwrap().next().is_none());
}

#[test]
fn a_refused_scenario_is_not_repeated() {
    let place = Place::new("refused");
    let (store, weir) = (place.store(), place.command("echo 'weir: no such kind' >&2; exit 2"));
    let plan = plan(TEXT, Path::new("."), Runner::Live).unwrap();
    let finished = run(&plan, &store, limits(weir));
    assert_eq!(place.calls(), "1");
    assert_eq!(reason(&finished), "weir live: no such kind");
    // A run that fails for another reason is repeated.
    let weir = place.command("echo 'weir: no memory' >&2; exit 125");
    assert_eq!(reason(&run(&plan, &store, limits(weir))), "weir live: no memory");
    assert_eq!(place.calls(), "4");
    let without = run(&plan, &store, Limits::default());
    assert!(reason(&without).contains("needs the command `weir`"));
    let missing = limits(place.0.join("nothing"));
    assert!(reason(&run(&plan, &store, missing)).contains("nothing: No such file"));
    assert!(is_clean(&store));
}

#[test]
fn a_run_that_takes_too_long_is_ended() {
    let place = Place::new("long");
    let store = place.store();
    // The file of the PID is complete as soon as it exists.
    let weir = place.command("echo $$ >\"$0.part\"; mv \"$0.part\" \"$0.pid\"; exec sleep 1000");
    let plan = plan(TEXT, Path::new("."), Runner::Live).unwrap();
    // On a busy machine, the command may be ended before it has written the file.
    let pid = [300, 3_000, 30_000].into_iter().find_map(|ms| {
        let time = Some(Duration::from_millis(ms));
        let finished = run(&plan, &store, Limits { time, weir: Some(weir.clone()) });
        assert!(reason(&finished).starts_with("the run took longer than "), "{finished:?}");
        fs::read_to_string(place.0.join("weir.pid")).ok()
    });
    let pid = pid.expect("the command had 30 s to write its PID");
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "the command still runs");
    assert!(is_clean(&store));
}

#[test]
fn the_files_of_a_live_scenario_are_below_its_directory() {
    let place = Place::new("files");
    fs::create_dir_all(place.0.join("below")).unwrap();
    for name in ["below/x.csv", "beside.csv"] {
        fs::write(place.0.join(name), "time,rate\n0s,1Mbit/s\n1s,2Mbit/s\n").unwrap();
    }
    let (store, weir) = (place.store(), place.results(&[0]));
    let text = |file: &str| TEXT.replace("'1M/5ms'", &format!("'trace {file} delay 5ms'"));
    let inside = plan(&text("below/x.csv"), &place.0, Runner::Live).unwrap();
    // The stand-in sees the file where the scenario names it.
    let seen = "test -f \"$(dirname \"$2\")/below/x.csv\" || exit 3\n";
    let script = fs::read_to_string(&weir).unwrap();
    fs::write(&weir, script.replacen('\n', &format!("\n{seen}"), 1)).unwrap();
    let finished = run(&inside, &store, limits(weir.clone()));
    assert_eq!(finished.tally.made, 1, "{finished:?}");
    let outside = plan(&text("../beside.csv"), &place.0.join("below"), Runner::Live).unwrap();
    let finished = run(&outside, &store, limits(weir));
    assert!(reason(&finished).contains("below the scenario's directory: `../beside.csv`"));
}

#[test]
fn a_file_with_the_name_of_the_scenario_does_not_replace_it() {
    let place = Place::new("names");
    for name in ["campaign.toml", "_campaign.toml"] {
        fs::write(place.0.join(name), "time,rate\n0s,1Mbit/s\n1s,2Mbit/s\n").unwrap();
    }
    let (store, weir) = (place.store(), place.results(&[0]));
    let links = "'bw 1Mbit/s schedule campaign.toml delay 5ms'";
    let plan = plan(&TEXT.replace("'1M/5ms'", links), &place.0, Runner::Live).unwrap();
    let seen =
        "grep -q delay \"$2\" && grep -q 2Mbit \"$(dirname \"$2\")/campaign.toml\" || exit 3\n";
    let script = fs::read_to_string(&weir).unwrap();
    fs::write(&weir, script.replacen('\n', &format!("\n{seen}"), 1)).unwrap();
    let finished = run(&plan, &store, limits(weir));
    assert_eq!(finished.tally.made, 1, "{finished:?}");
}

#[test]
fn only_a_live_campaign_has_programs() {
    let refused = plan(TEXT, Path::new("."), Runner::Sim).unwrap_err().to_string();
    assert!(refused.contains("a live campaign can"), "{refused}");
    let text = TEXT.replace("'program'", "'cbr'").replace("command = 'true'", "rate = '1M'");
    let [sim, live] = [Runner::Sim, Runner::Live]
        .map(|by| plan(&text, Path::new("."), by).unwrap().point(0).unwrap().task);
    assert_ne!(sim.key(1), live.key(1));
    assert_eq!(sim.body, live.body);
}
