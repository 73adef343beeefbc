//! Runs: one scenario with one seed, or many on all processors.
//!
//! A run knows nothing of other runs, so how many threads there are and which takes which run does not show in results: they stand in
//! the order in which they were asked for.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use weir_core::Nanos;

use crate::build::{Built, build};
use crate::measure::{Outcome, Plan, Settings};
use crate::scenario::Scenario;
use crate::topology::WayError;

/// A run to be made.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// What is run.
    pub scenario: &'a Scenario,
    /// With which seed.
    pub seed: u64,
}

/// A point of a sweep, or the only one: a scenario, and what its runs gave.
#[derive(Clone, Debug)]
pub struct Point {
    /// Keys that the sweep sets here, and their values as TOML.
    pub settings: Vec<(String, String)>,
    /// The scenario with them.
    pub scenario: Scenario,
    /// What each run gave, in the order of seeds.
    pub outcomes: Vec<Outcome>,
}

/// Makes all runs of all points, on `threads` threads. `None` when they were stopped.
///
/// # Errors
/// There is no way between two hosts of some traffic.
pub fn run_points(
    points: Vec<(Vec<(String, String)>, Scenario)>,
    threads: usize,
    progress: &Progress,
) -> Result<Option<Vec<Point>>, WayError> {
    let jobs: Vec<Job<'_>> = points.iter().flat_map(|(_, scenario)| jobs(scenario)).collect();
    let Some(outcomes) = run_all(&jobs, threads, progress, |_, outcome| outcome)? else { return Ok(None) };
    let mut outcomes = outcomes.into_iter();
    let point = |(settings, scenario): (Vec<(String, String)>, Scenario)| {
        let outcomes = outcomes.by_ref().take(scenario.runs as usize).collect();
        Point { settings, scenario, outcomes }
    };
    Ok(Some(points.into_iter().map(point).collect()))
}

/// The runs of a scenario.
pub fn jobs(scenario: &Scenario) -> impl Iterator<Item = Job<'_>> {
    (0..u64::from(scenario.runs)).map(move |n| Job { scenario, seed: scenario.seed.wrapping_add(n) })
}

/// How far runs are; written by the threads that make them, read by who shows it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Simulated time of all runs together, ns.
    pub simulated_ns: AtomicU64,
    /// Events of all runs together.
    pub events: AtomicU64,
    /// Runs that are over.
    pub finished: AtomicUsize,
    /// Set from outside: runs end early, and without a result.
    pub stop: AtomicBool,
}

/// Makes one run; `None` when it was stopped.
///
/// # Errors
/// There is no way between two hosts of its traffic.
pub fn run(job: Job<'_>, progress: &Progress) -> Result<Option<Outcome>, WayError> {
    let Job { scenario, seed } = job;
    let Built { mut world, names } = build(scenario, seed)?;
    let measure = Settings { interval: scenario.measure.interval, ..Settings::default() };
    let plan = Plan { seed, warmup: scenario.warmup, end: scenario.duration, measure };
    world.measure(plan.measure, plan.end);
    // Pieces are for whoever watches: a run in pieces is the same run.
    let piece = Nanos((plan.end.0 / PIECES).max(1));
    let (mut now, mut events) = (Nanos::ZERO, 0);
    while now < plan.end {
        if progress.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let border = if now < plan.warmup { plan.warmup } else { plan.end };
        let next = now.saturating_add(piece).min(border);
        world.run(next);
        if next == plan.warmup {
            world.zero();
        }
        progress.simulated_ns.fetch_add(next.since(now).0, Ordering::Relaxed);
        progress.events.fetch_add(world.events() - events, Ordering::Relaxed);
        (now, events) = (next, world.events());
    }
    progress.finished.fetch_add(1, Ordering::Relaxed);
    Ok(Some(Outcome::of(&mut world, &plan, &names)))
}

/// Makes runs on `threads` threads. `keep` makes of each result what is kept of it; that is given in the order of `jobs`. `None` when
/// they were stopped.
///
/// # Errors
/// There is no way between two hosts of some traffic.
pub fn run_all<T: Send>(
    jobs: &[Job<'_>],
    threads: usize,
    progress: &Progress,
    keep: impl Fn(usize, Outcome) -> T + Sync,
) -> Result<Option<Vec<T>>, WayError> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<T, WayError>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(&job) = jobs.get(number) else { return };
            let result = match run(job, progress) {
                Ok(None) => return,
                Ok(Some(outcome)) => Ok(keep(number, outcome)),
                Err(error) => Err(error),
            };
            *results[number].lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let mut kept = Vec::with_capacity(jobs.len());
    for result in results {
        match result.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            None => return Ok(None),
            Some(result) => kept.push(result?),
        }
    }
    Ok(Some(kept))
}

/// Pieces that a run is made in.
const PIECES: u64 = 200;
