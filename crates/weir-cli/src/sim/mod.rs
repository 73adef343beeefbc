//! `weir sim`: simulates a scenario file. Also contains `weir check` for scenario files.

mod args;
mod results;
mod show;
mod suite;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use rustix::time::{ClockId, clock_gettime};
use weir_measure::scenario::Outcome;
use weir_report::format::count;
use weir_rules::{Diagnostics, Files as _, Severity};
use weir_sim::disk::{Beside, Disk};
use weir_sim::measure::Names;
use weir_sim::run::{Progress, Ran, run_points};
use weir_sim::scenario::{self, Checked, Edited, Point, Scenario};

pub(crate) use args::{SimArgs, parse_setting};
use results::Directory;
pub(crate) use results::{json, page};
pub(crate) use show::{outcome_tables, tables};

use crate::output::{Failure, USAGE, colour, print, say, say_coloured};
use crate::script::to_json;

/// `weir sim`.
pub(crate) fn sim(args: &SimArgs) -> Result<ExitCode, Failure> {
    if args.schema {
        return print(&scenario::schema());
    }
    if args.suite.is_some() {
        return suite::suite(args);
    }
    if let Some(option) = args.suite_option() {
        let message = format!(
            "{option} belongs to --suite; the queues of a scenario are in its links: \
             `--set link[0].spec.aqm=codel`"
        );
        return Err(Failure::new(USAGE, message));
    }
    let Some(file) = &args.scenario else {
        return Err(Failure::new(
            USAGE,
            "name a scenario, such as `weir sim experiments/two-hosts.toml`",
        ));
    };
    let points = load(file, args)?;
    results::check_destinations(args)?;
    let directory =
        args.out.as_deref().map(|path| Directory::new(path, args.force, &points)).transpose()?;
    if args.out.is_none() && points.iter().any(|point| point.scenario.measure.trace) && !args.quiet
    {
        say("weir: the trace is not written: --out DIR says where\n");
    }
    let threads =
        args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let all = run(points, threads, args.quiet, directory.as_ref())?;
    if !args.quiet && args.json.as_deref() != Some(Path::new("-")) {
        print(&show::tables(&all))?;
    }
    if !args.quiet && all.iter().any(|ran| Outcome::all_equal(&ran.outcomes)) {
        say(EQUAL_RUNS);
    }
    results::write_files(args, &all, cpu_seconds())?;
    if let Some(directory) = directory {
        directory.finish(&all)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `weir check SCENARIO.toml`.
pub(crate) fn check(name: &str, json: bool) -> Result<ExitCode, Failure> {
    let (name, text) = read(Path::new(name))?;
    let edited = Edited::new(&text);
    let files = Beside(Path::new(&name).parent().unwrap_or(Path::new("")));
    let Checked { scenario, mut diagnostics } =
        scenario::parse_edited(&edited, &name, &name, &files);
    // Each point of a sweep is checked in the form in which it will run.
    if let Some(Err(errors)) =
        scenario.as_ref().map(|scenario| scenario::points(&edited, scenario, &name, &files))
    {
        diagnostics.append(errors, |_| {});
    }
    let too_many = |scenario| weir_live::scenario::too_many_hosts(scenario, &text, &name);
    scenario.as_ref().and_then(too_many).into_iter().for_each(|error| diagnostics.push(error));
    let summary = scenario.as_ref().map(scenario::summary);
    if json {
        let counts = |severity| diagnostics.count(severity);
        let value = serde_json::json!({
            "file": name, "summary": summary,
            "errors": counts(Severity::Error), "warnings": counts(Severity::Warning),
            "notes": counts(Severity::Note),
            "diagnostics": diagnostics.iter().map(to_json).collect::<Vec<_>>(),
        });
        print(&format!("{value:#}\n"))?;
        return Ok(if diagnostics.has_errors() {
            ExitCode::from(USAGE)
        } else {
            ExitCode::SUCCESS
        });
    }
    if diagnostics.has_errors() {
        return Err(refused(&diagnostics));
    }
    if !diagnostics.is_empty() {
        say_coloured(format_args!("{}\n", diagnostics.render(colour()).trim_end()));
    }
    print(&summary.unwrap_or_default())
}

/// Loads the points of a scenario, with the changes of the command line.
fn load(file: &Path, args: &SimArgs) -> Result<Vec<Point>, Failure> {
    let (name, text) = read(file)?;
    let mut edited = Edited::new(&text);
    let seed = args.seed.map(|seed| ("seed".to_owned(), seed.to_string(), "--seed"));
    let runs = args.runs.map(|runs| ("runs".to_owned(), runs.to_string(), "--runs"));
    let set = args.settings.iter().map(|(key, value)| (key.clone(), value.clone(), "--set"));
    for (key, value, option) in set.chain(seed).chain(runs) {
        match edited.set(&key, &value) {
            // The parser reports errors in the text.
            Ok(()) | Err(scenario::EditError::Text) => {}
            Err(error) => {
                return Err(Failure::new(USAGE, format!("{option} {key}={value}: {error}")));
            }
        }
    }
    let files = Beside(file.parent().unwrap_or(Path::new("")));
    let Checked { scenario, diagnostics } =
        scenario::parse_edited(&edited, &name, "the command line", &files);
    let Some(mut scenario) = scenario else { return Err(refused(&diagnostics)) };
    if !diagnostics.is_empty() && !args.quiet {
        say_coloured(format_args!("{}\n\n", diagnostics.render(colour()).trim_end()));
    }
    if scenario.name.is_empty() {
        scenario.name =
            file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    }
    if let Some(name) = scenario.live_only() {
        let what = format!(
            "`{name}` is or runs a program, which the simulator cannot run: use `weir live {}`",
            file.display()
        );
        return Err(Failure::new(USAGE, what));
    }
    let mut points = scenario::points(&edited, &scenario, &name, &files)
        .map_err(|diagnostics| refused(&diagnostics))?;
    points.iter_mut().for_each(|point| point.scenario.name.clone_from(&scenario.name));
    Ok(points)
}

/// Reads a scenario from its file or from standard input. Returns its name and text.
fn read(file: &Path) -> Result<(String, String), Failure> {
    if file.as_os_str() == "-" {
        let text = weir_sim::disk::read_stdin()
            .map_err(|error| Failure::new(USAGE, format!("cannot read standard input: {error}")))?;
        return Ok(("<stdin>".to_owned(), text));
    }
    let name = file.display().to_string();
    let text = Disk
        .read(&name)
        .map_err(|error| Failure::new(USAGE, format!("cannot read {name}: {error}")))?;
    Ok((name, text))
}

fn refused(diagnostics: &Diagnostics) -> Failure {
    Failure::new(USAGE, format!("{}\n", diagnostics.render(colour()).trim_end()))
}

/// Runs all points, with a progress bar on a terminal.
fn run(
    points: Vec<Point>,
    threads: usize,
    quiet: bool,
    directory: Option<&Directory>,
) -> Result<Vec<Ran>, Failure> {
    let all_ns: u64 =
        points.iter().map(|point| total_ns(&point.scenario)).fold(0, u64::saturating_add);
    let runs: u64 = points.iter().map(|point| u64::from(point.scenario.runs)).sum();
    let tap = |point: usize, run: u32, names: &Names| {
        directory.and_then(|directory| directory.tap(point, run, names))
    };
    let progress = Progress::default();
    let over = std::sync::atomic::AtomicBool::new(false);
    let bar = bar(quiet);
    let result = std::thread::scope(|scope| {
        let (progress, over) = (&progress, &over);
        let watcher =
            bar.as_ref().map(|bar| scope.spawn(move || watch(bar, progress, over, all_ns, runs)));
        let result = run_points(points, threads, progress, &tap);
        over.store(true, Ordering::Relaxed);
        if let Some(watcher) = watcher {
            watcher.thread().unpark();
        }
        result
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    result.map_err(Failure::of_weir)?.ok_or_else(|| Failure::of_weir("the runs were stopped"))
}

fn total_ns(scenario: &Scenario) -> u64 {
    scenario.duration.0.saturating_mul(u64::from(scenario.runs))
}

fn bar(quiet: bool) -> Option<ProgressBar> {
    use std::io::IsTerminal as _;
    if quiet || !std::io::stderr().is_terminal() {
        return None;
    }
    let bar = ProgressBar::new(PARTS);
    if let Ok(style) = ProgressStyle::with_template("{elapsed:>6} [{bar:30}] {msg}, {eta} left") {
        bar.set_style(style.progress_chars("=> "));
    }
    Some(bar)
}

/// Updates the progress bar until the runs are over. `all_ns` is the simulated time of all runs
/// together.
fn watch(
    bar: &ProgressBar,
    progress: &Progress,
    over: &std::sync::atomic::AtomicBool,
    all_ns: u64,
    runs: u64,
) {
    while !over.load(Ordering::Relaxed) {
        let simulated = progress.simulated_ns.load(Ordering::Relaxed);
        bar.set_position(
            (u128::from(simulated) * u128::from(PARTS) / u128::from(all_ns.max(1))) as u64,
        );
        let events = count(progress.events.load(Ordering::Relaxed));
        let finished = progress.finished.load(Ordering::Relaxed);
        bar.set_message(if runs > 1 {
            format!("{finished} of {runs} runs, {events} events")
        } else {
            format!("{events} events")
        });
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

/// The processor time that this process has used, in seconds.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

const EQUAL_RUNS: &str = "weir: note: the runs of all seeds are equal, because nothing in the \
    scenario is random: an interval over them says nothing. Give the traffic `start_jitter` or a \
    random kind (poisson, voip, web), or a link `loss` or `jitter`; or simulate one seed\n";
/// Number of steps of the progress bar.
const PARTS: u64 = 10_000;
