//! `weir sweep`: carries out campaigns over a store, and maintains the store.

mod args;
mod read;
mod status;
mod upkeep;

use std::fs::{self, File};
use std::io::{BufWriter, IsTerminal as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use weir_campaign::export;
use weir_campaign::pool::{self, Finished, Options, Tally};
use weir_campaign::store::Store;
use weir_campaign::work::{End, Limits};
use weir_linux::process::Signals;
use weir_report::format::{count, duration};

pub(crate) use args::SweepArgs;
use args::{ExportArgs, RunArgs, SweepTask};
use read::{open, read};
pub(crate) use status::Campaign;

use crate::output::{Failure, USAGE, print, say};

/// `weir sweep`.
pub(crate) fn sweep(args: &SweepArgs) -> Result<ExitCode, Failure> {
    match &args.task {
        Some(SweepTask::Status { which, json }) => status::status(which, *json),
        Some(SweepTask::Missing { which }) => status::missing(which),
        Some(SweepTask::Gc(args)) => upkeep::gc(args),
        Some(SweepTask::Verify(args)) => upkeep::verify(args),
        Some(SweepTask::Export(args)) => export(args),
        None => run(&args.run),
    }
}

fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let (Some(campaign), Some(store)) = (&args.campaign, &args.store) else {
        return Err(Failure::new(USAGE, "name a campaign and its store: `weir sweep --help`"));
    };
    let plan = read(campaign, args.quiet)?;
    let store = Store::create(store).map_err(Failure::of_weir)?;
    let signals = Signals::take().map_err(Failure::of_weir)?;
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    // Simultaneous live runs take processor time from one another, so that packets depart late.
    let most = || if plan.is_live() { 1 } else { processors() };
    let jobs = args.jobs.map_or_else(most, usize::from);
    let limits = Limits { time: args.timeout, weir: Some(OURSELVES.into()) };
    let options = Options { jobs, limits, retries: args.retries };
    let bar = bar(args.quiet, plan.runs());
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let began = Instant::now();
    let show = |tally: &Tally| {
        if let Some(bar) = &bar {
            bar.set_position(tally.there + tally.made + tally.failed);
            bar.set_message(left(tally, began.elapsed()));
        }
    };
    let (finished, signal) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&signals, &stop, &over));
        let finished = pool::run(&plan, &store, &options, &stop, &show);
        over.store(true, Ordering::Relaxed);
        (finished, watcher.join().unwrap_or_default())
    });
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    let finished = finished.map_err(Failure::of_weir)?;
    if !args.quiet {
        say(summary(&finished, began.elapsed()));
    }
    if finished.stopped {
        say("stopped; what is done is kept, and the same command continues\n");
        return Ok(ExitCode::from(128_u8.wrapping_add(signal)));
    }
    if finished.failures.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::of_weir(failures(&finished)))
}

/// Waits for a signal that ends the campaign, or for the end of the campaign. Returns the number of
/// the signal, or 0 if there was none.
fn watch(signals: &Signals, stop: &AtomicBool, over: &AtomicBool) -> u8 {
    while !over.load(Ordering::Relaxed) {
        if let Ok(Some(signal)) = signals.next() {
            stop.store(true, Ordering::Relaxed);
            return u8::try_from(signal.number).unwrap_or_default();
        }
        std::thread::sleep(LOOK);
    }
    0
}

fn bar(quiet: bool, runs: u64) -> Option<ProgressBar> {
    if quiet || !std::io::stderr().is_terminal() {
        return None;
    }
    let bar = ProgressBar::new(runs);
    if let Ok(style) = ProgressStyle::with_template("{elapsed:>6} [{bar:30}] {pos} of {len} {msg}")
    {
        bar.set_style(style.progress_chars("=> "));
    }
    Some(bar)
}

/// The remaining time, in words; empty until a run has been carried out. Runs that the store
/// already had took no time.
fn left(tally: &Tally, elapsed: Duration) -> String {
    let rest = tally.runs.saturating_sub(tally.there + tally.made + tally.failed);
    if tally.made == 0 {
        return String::new();
    }
    let each = elapsed.as_secs_f64() / tally.made as f64;
    format!("runs, about {} left", duration((each * rest as f64).round() * 1e9))
}

fn summary(finished: &Finished, elapsed: Duration) -> String {
    let Tally { runs, there, made, failed, .. } = finished.tally;
    let missing = runs.saturating_sub(there + made + failed);
    let mut text =
        format!("{} runs: {} there, {} carried out", count(runs), count(there), count(made));
    for (number, word) in [(failed, "failed"), (missing, "missing")] {
        if number > 0 {
            text += &format!(", {} {word}", count(number));
        }
    }
    format!("{text}, in {}\n", duration(elapsed.as_nanos() as f64))
}

fn failures(finished: &Finished) -> String {
    let all = finished.failures.len();
    let mut text = format!("{all} run{} failed", if all == 1 { "" } else { "s" });
    for report in finished.failures.iter().take(SHOWN) {
        if let End::Failed { reason, .. } = &report.end {
            text += &format!("\n  point {}, seed {}: {reason}", report.point, report.seed);
        }
    }
    if all > SHOWN {
        text += &format!("\n  and {} more", all - SHOWN);
    }
    text
}

fn export(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let (plan, store) = open(&args.which)?;
    fs::create_dir_all(&args.out).map_err(Failure::of_weir)?;
    let mut text = String::new();
    for name in &args.tables {
        let path = args.out.join(format!("{name}.parquet"));
        let building = args.out.join(format!(".{name}.{}.tmp", std::process::id()));
        let written = File::create(&building)
            .map_err(Failure::of_weir)
            .and_then(|file| {
                let out = BufWriter::new(file);
                export::table(&plan, &store, name, out).map_err(Failure::of_weir)
            })
            .and_then(|runs| fs::rename(&building, &path).map(|()| runs).map_err(Failure::of_weir));
        if written.is_err() {
            // The command reports the failure in `written`.
            let _ = fs::remove_file(&building);
        }
        text += &format!("{}: {} runs\n", path.display(), count(written?));
    }
    print(&text)
}

/// The path of this program, which carries out live runs.
const OURSELVES: &str = "/proc/self/exe";
/// Time between two checks for signals.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum number of failures that are shown.
const SHOWN: usize = 10;
