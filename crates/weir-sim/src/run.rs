//! Runs: one scenario with one seed, or many runs on several threads.
//!
//! Runs are independent. Their results are in the order of the jobs and do not depend on the number
//! of threads or their timing.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use weir_core::Nanos;

use crate::build::{BuildError, Built, build};
use crate::measure::{Names, Outcome, Plan, Recorder, Settings, Sink};
use crate::scenario::{self, Scenario};

/// A run to carry out.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The seed.
    pub seed: u64,
}

/// A point of a sweep and the results of its runs.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The point.
    pub point: scenario::Point,
    /// The outcome of each run, in the order of seeds.
    pub outcomes: Vec<Outcome>,
}

/// Returns the sink for the records of a run, or `None` if the records are not wanted. The
/// arguments are the number of the point, the number of its run, and the names in the run's world.
pub type Tap<'a> = dyn Fn(usize, u32, &Names) -> Option<Sink> + Sync + 'a;

/// Carries out all runs of all points, on `threads` threads. Returns `None` if the runs were
/// stopped.
///
/// # Errors
/// No world can be built from a scenario.
pub fn run_points(
    points: Vec<scenario::Point>,
    threads: usize,
    progress: &Progress,
    tap: &Tap<'_>,
) -> Result<Option<Vec<Ran>>, BuildError> {
    let numbered = points
        .iter()
        .enumerate()
        .flat_map(|(number, point)| (0..point.scenario.runs).map(move |run| (number, run)));
    let numbered: Vec<(usize, u32)> = numbered.collect();
    let jobs: Vec<Job<'_>> = points.iter().flat_map(|point| jobs(&point.scenario)).collect();
    let one = |number: usize, job: Job<'_>| {
        let (point, run) = numbered[number];
        self::run(job, progress, &|names| tap(point, run, names))
    };
    let Some(outcomes) = run_all(&jobs, threads, one)? else { return Ok(None) };
    let mut outcomes = outcomes.into_iter();
    let ran = |point: scenario::Point| {
        let outcomes = outcomes.by_ref().take(point.scenario.runs as usize).collect();
        Ran { point, outcomes }
    };
    Ok(Some(points.into_iter().map(ran).collect()))
}

/// The runs of a scenario.
pub fn jobs(scenario: &Scenario) -> impl Iterator<Item = Job<'_>> {
    (0..u64::from(scenario.runs))
        .map(move |n| Job { scenario, seed: scenario.seed.wrapping_add(n) })
}

/// The progress of runs, which other threads may read.
#[derive(Debug, Default)]
pub struct Progress {
    /// Simulated time of all runs together, ns.
    pub simulated_ns: AtomicU64,
    /// Events of all runs together.
    pub events: AtomicU64,
    /// Number of finished runs.
    pub finished: AtomicUsize,
    /// The caller sets this to end all runs early, without a result.
    pub stop: AtomicBool,
}

/// Carries out one run. Returns `None` if the run was stopped. Records go to the sink that `tap`
/// returns.
///
/// # Errors
/// No world can be built from the scenario.
pub fn run(
    job: Job<'_>,
    progress: &Progress,
    tap: &dyn Fn(&Names) -> Option<Sink>,
) -> Result<Option<Outcome>, BuildError> {
    let Job { scenario, seed } = job;
    let Built { mut world, names } = build(scenario, seed)?;
    let sink = if scenario.measure.trace { tap(&names) } else { None };
    if sink.is_some() || scenario.measure.inversions {
        world.observe(Box::new(Recorder::new(sink, scenario.measure.inversions)));
    }
    let measure = Settings { interval: scenario.measure.interval, ..Settings::default() };
    let plan = Plan { seed, warmup: scenario.warmup, end: scenario.duration, measure };
    world.measure(plan.measure, plan.end);
    // The run is divided into pieces to report progress and to end early. This does not change the
    // result.
    let longest = (plan.end.0 / PIECES).max(1);
    let mut piece = longest.min(FIRST_PIECE);
    let (mut now, mut events) = (Nanos::ZERO, 0);
    while now < plan.end {
        if progress.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let border = if now < plan.warmup { plan.warmup } else { plan.end };
        let next = now.saturating_add(Nanos(piece)).min(border);
        world.run(next);
        if next == plan.warmup {
            world.zero();
        }
        progress.simulated_ns.fetch_add(next.since(now).0, Ordering::Relaxed);
        progress.events.fetch_add(world.events() - events, Ordering::Relaxed);
        let handled = world.events() - events;
        if handled > MOST_EVENTS {
            piece = (piece / 2).max(1);
        } else if handled < MOST_EVENTS / 4 {
            piece = piece.saturating_mul(2).min(longest);
        }
        (now, events) = (next, world.events());
    }
    progress.finished.fetch_add(1, Ordering::Relaxed);
    Ok(Some(plan.gather(&mut world, &names)))
}

/// Carries out runs on `threads` threads. Results are in the order of `jobs`. Returns `None` if the
/// runs were stopped.
fn run_all(
    jobs: &[Job<'_>],
    threads: usize,
    one: impl Fn(usize, Job<'_>) -> Result<Option<Outcome>, BuildError> + Sync,
) -> Result<Option<Vec<Outcome>>, BuildError> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Result<Option<Outcome>, BuildError>>> =
        jobs.iter().map(|_| Mutex::new(Ok(None))).collect();
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(&job) = jobs.get(number) else { return };
            let result = one(number, job);
            *results[number].lock().unwrap_or_else(PoisonError::into_inner) = result;
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    results
        .into_iter()
        .map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

/// The least number of pieces of a run.
const PIECES: u64 = 200;
/// Length of the first piece, ns. It is short, because the number of events in it is not known in
/// advance.
const FIRST_PIECE: u64 = 1_000_000;
/// Approximate maximum number of events in a piece. They take some hundredths of a second.
const MOST_EVENTS: u64 = 100_000;
