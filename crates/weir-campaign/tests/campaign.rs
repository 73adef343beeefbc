//! Campaigns over a store: equal bytes from any number of threads, resumption, damage, and
//! concurrent writers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_campaign::key::Runner;
use weir_campaign::plan::{Axis, MAX_RUNS, Plan, PlanError, PlanOrStore, Seeds, Source};
use weir_campaign::pool::{self, Finished, Options};
use weir_campaign::store::{Store, StoreError};
use weir_campaign::work::{End, Limits, Task, TaskSeeds, carry_out};
use weir_campaign::{check, engine, export};
use weir_report::sim::{Column, Table};

/// A directory that is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("weir-campaign-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn store(&self, name: &str) -> Store {
        Store::create(&self.0.join(name)).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

const TEXT: &str = r#"
duration = "300ms"
warmup = "50ms"
seed = 3
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "l"
between = ["a", "b"]
spec = "bw 2Mbit/s delay 5ms loss 1% queue 20"
[[traffic]]
name = "t"
from = "a"
to = "b"
kind = "poisson"
rate = "1.5Mbit/s"
size = "500B"
"#;

fn source(text: &str, directory: &Path) -> Source {
    Source {
        text: text.to_owned(),
        name: "test.toml".to_owned(),
        directory: directory.to_owned(),
        default_name: "test".to_owned(),
        settings: Vec::new(),
        labels: Vec::new(),
        by: Runner::Sim,
    }
}

fn axis(key: &str, values: &[&str]) -> Axis {
    Axis { key: key.to_owned(), values: values.iter().map(|&value| value.to_owned()).collect() }
}

/// Two rates, two queue limits, three seeds: twelve runs.
fn plan() -> Plan {
    let axes = vec![
        axis("link.l.spec.bw", &["\"1Mbit/s\"", "\"2Mbit/s\""]),
        axis("link.l.spec.queue", &["5", "20"]),
    ];
    Plan::new(vec![source(TEXT, Path::new("."))], axes, Vec::new(), Seeds::Count(3)).unwrap().0
}

fn options(jobs: usize) -> Options {
    Options { jobs, limits: Limits::default(), retries: 2 }
}

fn run(plan: &Plan, store: &Store, jobs: usize) -> Finished {
    pool::run(plan, store, &options(jobs), &AtomicBool::new(false), &|_| {}).unwrap()
}

fn content(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

#[test]
fn any_number_of_threads_writes_the_same_bytes() {
    let scratch = Scratch::new("threads");
    let (one, four) = (scratch.store("one"), scratch.store("four"));
    let plan = plan();
    assert_eq!(run(&plan, &one, 1).tally.made, 12);
    assert_eq!(run(&plan, &four, 4).tally.made, 12);
    let files = content(one.root());
    // Each run has its scenario, four tables and `meta.json`. The store has a file with its format.
    assert_eq!(files.len(), 12 * 6 + 1, "{:?}", files.keys());
    assert_eq!(files, content(four.root()));
    assert!(fs::read_dir(one.root().join("tmp")).unwrap().next().is_none());
}

#[test]
fn only_missing_runs_are_carried_out() {
    let scratch = Scratch::new("missing");
    let store = scratch.store("s");
    let plan = plan();
    let task = plan.point(2).unwrap().task;
    let some = task.only(4);
    assert!(matches!(
        carry_out(&store, &[some], &Limits::default(), &mut || true)[0].end,
        End::Made
    ));
    let found = plan.missing_at(&store, 2, &mut || true).unwrap();
    assert_eq!((found.there, found.task.unwrap().seeds), (1, TaskSeeds::List(vec![3, 5])));
    let stopped = plan.missing_at(&store, 2, &mut || false).unwrap_err();
    assert!(matches!(stopped, PlanOrStore::Stopped), "{stopped}");
    let tally = run(&plan, &store, 2).tally;
    assert_eq!((tally.runs, tally.there, tally.made), (12, 1, 11));
    let tally = run(&plan, &store, 2).tally;
    assert_eq!((tally.there, tally.made), (12, 0));
    // Another campaign uses the runs that both campaigns have.
    let axes =
        vec![axis("link.l.spec.queue", &["5", "7"]), axis("link.l.spec.bw", &["\"2Mbit/s\""])];
    let sources = vec![source(TEXT, Path::new("."))];
    let other = Plan::new(sources, axes, Vec::new(), Seeds::List(vec![3, 9])).unwrap().0;
    let tally = run(&other, &store, 1).tally;
    assert_eq!((tally.there, tally.made), (1, 3));
}

#[test]
fn a_stopped_campaign_keeps_what_is_done_and_leaves_nothing_else() {
    let scratch = Scratch::new("stop");
    let store = scratch.store("s");
    let plan = plan();
    let stop = AtomicBool::new(false);
    let finished = pool::run(&plan, &store, &options(2), &stop, &|tally| {
        if tally.made == 4 {
            stop.store(true, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert!(finished.stopped);
    let done = store.keys().unwrap().count() as u64;
    assert!((4..12).contains(&done), "{done}");
    assert!(fs::read_dir(store.root().join("tmp")).unwrap().next().is_none());
    assert_eq!(run(&plan, &store, 2).tally.made, 12 - done);
    assert_eq!(check::verify(&store, 12, 1).unwrap().damaged.len(), 0);
}

#[test]
fn a_campaign_of_the_most_runs_begins_and_stops_at_once() {
    let scratch = Scratch::new("most");
    let store = scratch.store("s");
    let sources = vec![source(TEXT, Path::new("."))];
    let plan = Plan::new(sources, Vec::new(), Vec::new(), Seeds::Count(MAX_RUNS)).unwrap().0;
    let began = std::time::Instant::now();
    let stop = AtomicBool::new(false);
    let finished = pool::run(&plan, &store, &options(1), &stop, &|tally| {
        stop.store(tally.made == 2, Ordering::Relaxed);
    })
    .unwrap();
    assert!(finished.stopped && finished.tally.made == 2, "{:?}", finished.tally);
    // Looking up all runs before carrying out the first would take minutes.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn a_search_that_finds_only_stored_runs_shows_progress_and_stops() {
    let scratch = Scratch::new("stored");
    let store = scratch.store("s");
    let sources = vec![source(TEXT, Path::new("."))];
    let plan = Plan::new(sources, Vec::new(), Vec::new(), Seeds::Count(2000)).unwrap().0;
    let task = plan.point(0).unwrap().task;
    for seed in task.seeds.iter() {
        let path = store.path(task.key(seed));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("meta.json"), "").unwrap();
    }
    let stop = AtomicBool::new(false);
    let finished = pool::run(&plan, &store, &options(1), &stop, &|tally| {
        assert_eq!(tally.made, 0);
        stop.store(true, Ordering::Relaxed);
    })
    .unwrap();
    assert!(finished.stopped && (1..2000).contains(&finished.tally.there), "{finished:?}");
}

#[test]
fn several_writers_of_a_run_leave_one_whole_run() {
    let scratch = Scratch::new("writers");
    let store = scratch.store("s");
    let plan = plan();
    // All writers get all tasks before the first run is written.
    let tasks: Vec<Task> = (0..plan.points()).map(|n| plan.point(n).unwrap().task).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for report in carry_out(&store, &tasks, &Limits::default(), &mut || true) {
                    assert!(!matches!(report.end, End::Failed { .. }), "{report:?}");
                }
            });
        }
    });
    let found = check::verify(&store, 12, 1).unwrap();
    assert_eq!((found.runs, found.again, found.damaged.len()), (12, 12, 0));
}

#[test]
fn a_key_depends_on_the_scenario_the_seed_and_the_files() {
    let scratch = Scratch::new("keys");
    let file = scratch.0.join("rates.csv");
    let text = TEXT.replace("bw 2Mbit/s delay 5ms loss 1%", "trace rates.csv delay 5ms");
    let key = |text: &str, seed: u64| {
        let sources = vec![source(text, &scratch.0)];
        let plan = Plan::new(sources, Vec::new(), Vec::new(), Seeds::List(vec![seed])).unwrap().0;
        let task = plan.point(0).unwrap().task;
        (task.key(seed), task.inputs.len())
    };
    fs::write(&file, "time,rate\n0,1000000\n1,2000000\n").unwrap();
    let (first, inputs) = key(&text, 1);
    assert_eq!(inputs, 1);
    assert_eq!(key(&format!("# a comment\n{text}"), 1).0, first);
    assert_ne!(key(&text, 2).0, first);
    assert_ne!(key(&text.replace("queue 20", "queue 21"), 1).0, first);
    fs::write(&file, "time,rate\n0,1000000\n1,3000000\n").unwrap();
    assert_ne!(key(&text, 1).0, first);
    // A worker needs only the store: the file may be gone.
    let store = scratch.store("s");
    let sources = vec![source(&text, &scratch.0)];
    let plan = Plan::new(sources, Vec::new(), Vec::new(), Seeds::Count(1)).unwrap().0;
    let task = plan.missing_at(&store, 0, &mut || true).unwrap().task.unwrap();
    fs::remove_file(&file).unwrap();
    assert!(matches!(
        carry_out(&store, &[task], &Limits::default(), &mut || true)[0].end,
        End::Made
    ));
    assert_eq!(check::verify(&store, 1, 1).unwrap().damaged.len(), 0);
}

#[test]
fn quotes_around_a_word_do_not_matter_and_those_around_a_number_do() {
    let body = |key: &str, value: &str| {
        let sources = vec![source(TEXT, Path::new("."))];
        let axes = vec![axis(key, &[value])];
        let plan = Plan::new(sources, axes, Vec::new(), Seeds::Count(1)).unwrap().0;
        plan.point(0).unwrap().task.body
    };
    let rate = body("link.l.spec.bw", "\"1Mbit/s\"");
    assert_eq!(rate, body("link.l.spec.bw", "1Mbit/s"));
    assert!(rate.contains("bw 1Mbit/s delay 5ms"), "{rate}");
    let name = body("name", "\"5\"");
    assert!(name.contains("name = \"5\""), "{name}");
}

#[test]
fn damage_is_found_and_named() {
    let scratch = Scratch::new("damage");
    let store = scratch.store("s");
    let plan = plan();
    run(&plan, &store, 2);
    let keys: Vec<_> = {
        let mut keys: Vec<_> = store.keys().unwrap().collect();
        keys.sort();
        keys
    };
    let path = |n: usize, name: &str| store.path(keys[n]).join(name);
    let mut bytes = fs::read(path(0, "flows.parquet")).unwrap();
    bytes[20] ^= 1;
    fs::write(path(0, "flows.parquet"), &bytes).unwrap();
    fs::remove_file(path(1, "delays.parquet")).unwrap();
    fs::write(path(2, "meta.json"), "").unwrap();
    fs::write(path(3, "more"), "x").unwrap();
    // The files agree with the hashes, but the results are wrong.
    // The order of the keys changes with the program, and two runs may have the same flows.
    let mut meta = store.meta(keys[4]).unwrap();
    let hash = |n: usize| store.meta(keys[n]).unwrap().files["flows.parquet"].clone();
    let other = (5..keys.len()).find(|&n| hash(n) != hash(4)).expect("a run with other flows");
    fs::copy(path(other, "flows.parquet"), path(4, "flows.parquet")).unwrap();
    meta.files.insert("flows.parquet".to_owned(), hash(other));
    fs::write(path(4, "meta.json"), serde_json::to_string_pretty(&meta).unwrap() + "\n").unwrap();
    let found = check::verify(&store, 100, 1).unwrap();
    let words: Vec<String> = found.damaged.iter().map(|(_, damage)| damage.to_string()).collect();
    assert_eq!(words.len(), 5, "{words:?}");
    for (word, expected) in words.iter().zip([
        "flows.parquet has other bytes than meta.json says",
        "delays.parquet is missing",
        "meta.json: ",
        "more does not belong to the run",
        "flows.parquet has other bytes when the run is carried out again",
    ]) {
        assert!(word.starts_with(expected), "{word}");
    }
    for (key, _) in found.damaged {
        store.remove(key).unwrap();
    }
    assert_eq!(run(&plan, &store, 2).tally.made, 5);
    assert_eq!(check::verify(&store, 12, 1).unwrap().damaged.len(), 0);
}

#[test]
fn what_dead_writers_left_is_removed_and_live_writers_are_left_alone() {
    let scratch = Scratch::new("abandoned");
    let store = scratch.store("s");
    let tmp = store.root().join("tmp");
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for name in [
        format!("{}.{dead}.0", host.trim()),
        format!("{}.{}.0", host.trim(), std::process::id()),
        "elsewhere.1.0".to_owned(),
    ] {
        fs::create_dir(tmp.join(name)).unwrap();
    }
    let found = store.abandoned(Duration::from_secs(3600)).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].to_string_lossy().contains(&format!(".{dead}.")));
    store.discard(&found[0]).unwrap();
    assert_eq!(
        store.abandoned(Duration::ZERO).unwrap().len(),
        1,
        "only the files of another host's writer"
    );
}

#[test]
fn a_run_that_takes_too_long_fails_and_others_do_not() {
    let scratch = Scratch::new("late");
    let store = scratch.store("s");
    let sources = vec![source(TEXT, Path::new("."))];
    let axes = vec![axis("duration", &["\"100ms\"", "\"4000000s\""])];
    let plan = Plan::new(sources, axes, Vec::new(), Seeds::Count(1)).unwrap().0;
    let limits = Limits { time: Some(Duration::from_secs(2)), weir: None };
    let options = Options { jobs: 1, limits, retries: 1 };
    let stop = AtomicBool::new(false);
    let finished = pool::run(&plan, &store, &options, &stop, &|_| {}).unwrap();
    assert_eq!((finished.tally.made, finished.tally.failed), (1, 1));
    let End::Failed { reason, .. } = &finished.failures[0].end else { panic!("it failed") };
    assert_eq!(reason, "the run took longer than 2s");
}

#[test]
fn mistakes_are_refused_before_the_first_run() {
    let new = |axes: Vec<Axis>| {
        let sources = vec![source(TEXT, Path::new("."))];
        Plan::new(sources, axes, Vec::new(), Seeds::Count(1)).map(drop)
    };
    let wrong = new(vec![axis("link.l.spec.queue", &["5", "\"many\""])]).unwrap_err();
    assert!(matches!(wrong, PlanError::Scenario(_)), "{wrong}");
    let missing = new(vec![axis("link.x.spec.queue", &["5"])]).unwrap_err();
    assert!(missing.to_string().contains("there is no `x`"), "{missing}");
    let seeds = new(vec![axis("seed", &["5"])]).unwrap_err();
    assert!(matches!(seeds, PlanError::Seeds(_)), "{seeds}");
}

#[test]
fn a_campaign_of_too_many_runs_is_refused() {
    let new = |axes: Vec<Axis>, seeds: u64| {
        let sources = vec![source(TEXT, Path::new("."))];
        Plan::new(sources, axes, Vec::new(), Seeds::Count(seeds)).map(|(plan, _)| plan.runs())
    };
    let two = || vec![axis("link.l.spec.queue", &["5", "6"])];
    assert_eq!(new(two(), MAX_RUNS / 2).unwrap(), MAX_RUNS);
    for (axes, seeds) in
        [(two(), MAX_RUNS / 2 + 1), (Vec::new(), MAX_RUNS + 1), (two(), 1 << 62), (two(), u64::MAX)]
    {
        let refused = new(axes, seeds).unwrap_err();
        assert!(refused.to_string().contains("more than 10,000,000 runs"), "{refused}");
    }
}

#[test]
fn a_directory_with_other_files_is_no_store() {
    let scratch = Scratch::new("other");
    fs::write(scratch.0.join("thesis.tex"), "").unwrap();
    assert!(matches!(Store::create(&scratch.0), Err(StoreError::OtherFiles(_))));
    assert!(matches!(Store::open(&scratch.0), Err(StoreError::NoStore(_))));
    for file in [scratch.0.join("thesis.tex"), PathBuf::from("/dev/null")] {
        for found in [Store::create(&file), Store::open(&file)] {
            let refused = found.unwrap_err();
            assert!(refused.to_string().ends_with(": name a directory"), "{refused}");
        }
    }
    let store = scratch.store("s");
    fs::write(store.root().join("weir-store.json"), "{\"format\": 2}").unwrap();
    assert!(matches!(Store::open(store.root()), Err(StoreError::Format { found: 2, .. })));
}

#[test]
fn an_exported_table_has_the_axes_as_columns() {
    let scratch = Scratch::new("export");
    let store = scratch.store("s");
    let plan = plan();
    run(&plan, &store, 2);
    let path = scratch.0.join("flows.parquet");
    let runs = export::table(&plan, &store, "flows", fs::File::create(&path).unwrap()).unwrap();
    assert_eq!(runs, 12);
    let table = Table::read(fs::File::open(&path).unwrap()).unwrap();
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..4], ["link.l.spec.bw", "link.l.spec.queue", "seed", "name"]);
    let Column::SomeInt(queues) = &table.columns[1].1 else { panic!("numbers") };
    let expected: Vec<Option<u64>> =
        [5, 20, 5, 20].into_iter().flat_map(|n| [Some(n); 3]).collect();
    assert_eq!(*queues, expected);
    assert_eq!(table.columns[2].1, Column::Int([3, 4, 5].repeat(4)));
}

#[test]
fn an_export_refuses_a_column_of_another_type() {
    let scratch = Scratch::new("export-types");
    let store = scratch.store("s");
    let plan = plan();
    run(&plan, &store, 2);
    let task = plan.point(0).unwrap().task;
    let flows = store.path(task.key(4)).join("flows.parquet");
    let mut table = Table::read(fs::File::open(&flows).unwrap()).unwrap();
    let at = table.columns.iter().position(|(name, _)| name == "sent_bytes").unwrap();
    let without = table.columns.remove(at);
    let export = |table: &Table<String>| {
        fs::write(&flows, table.to_bytes().unwrap()).unwrap();
        export::table(&plan, &store, "flows", std::io::sink()).map_err(|error| error.to_string())
    };
    let refused = export(&table).unwrap_err();
    assert!(refused.contains("`sent_bytes`") && refused.contains("flows.parquet"), "{refused}");
    table.columns.insert(at, (without.0.clone(), Column::Float(vec![0.5; without.1.len()])));
    assert!(export(&table).unwrap_err().contains("`sent_bytes`"));
    table.columns[at] = without;
    assert_eq!(export(&table), Ok(12));
}

#[test]
fn points_are_numbered_with_the_last_axis_fastest() {
    let text = format!("{TEXT}\n[sweep]\n\"traffic.t.size\" = [\"100B\", \"200B\"]\n");
    let points = [5, 6, 7].map(|n| vec![("link.l.spec.queue".to_owned(), n.to_string())]);
    let axes = vec![axis("link.l.spec.delay", &["\"1ms\"", "\"2ms\""])];
    let sources = vec![source(&text, Path::new("."))];
    let plan = Plan::new(sources, axes, points.to_vec(), Seeds::OfScenario).unwrap().0;
    assert_eq!((plan.points(), plan.runs()), (12, 12));
    assert_eq!(plan.names(), ["traffic.t.size", "link.l.spec.queue", "link.l.spec.delay"]);
    let values = |n: u64| {
        let settings = plan.settings(n).unwrap().into_iter();
        settings.map(|(_, value)| value).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(values(0), "\"100B\" 5 \"1ms\"");
    assert_eq!(values(1), "\"100B\" 5 \"2ms\"");
    assert_eq!(values(2), "\"100B\" 6 \"1ms\"");
    assert_eq!(values(6), "\"200B\" 5 \"1ms\"");
    assert!(plan.settings(12).is_err());
}

#[test]
fn the_version_names_the_sources() {
    let (version, sources) = engine().split_once('+').unwrap();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    assert!(sources.len() == 12 && sources.bytes().all(|b| b.is_ascii_hexdigit()), "{sources}");
}
