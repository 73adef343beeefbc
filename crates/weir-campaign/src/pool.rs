//! Carries out the missing runs of a campaign on the threads of this process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::plan::{Plan, PlanOrStore};
use crate::store::Store;
use crate::work::{End, Limits, Report, Task, carry_out};

/// The progress of a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Number of runs.
    pub runs: u64,
    /// Number of runs that the store had already.
    pub there: u64,
    /// Number of runs that were carried out and stored.
    pub made: u64,
    /// Number of runs that failed.
    pub failed: u64,
    /// The sum of the times that the runs in `made` took.
    pub took: Duration,
}

/// The outcome of [`run`].
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// The counts at the end.
    pub tally: Tally,
    /// The runs that failed.
    pub failures: Vec<Report>,
    /// Whether the campaign was asked to stop, so that runs may be missing.
    pub stopped: bool,
}

/// How runs are carried out.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of threads.
    pub jobs: usize,
    /// Limits of each run.
    pub limits: Limits,
    /// Maximum number of repetitions of a failed run. It is repeated only if another attempt may
    /// succeed.
    pub retries: u32,
}

/// Carries out the missing runs until `stop` is set. Each thread calls `progress` after each run.
///
/// # Errors
/// A point is refused, or the store cannot be used.
pub fn run(
    plan: &Plan,
    store: &Store,
    options: &Options,
    stop: &AtomicBool,
    progress: &(dyn Fn(&Tally) + Sync),
) -> Result<Finished, PlanOrStore> {
    // Set when an error ends the campaign early.
    let ended = AtomicBool::new(false);
    let state = Mutex::new(State::default());
    lock(&state).finished.tally.runs = plan.runs();
    let halted = || stop.load(Ordering::Relaxed) || ended.load(Ordering::Relaxed);
    let work = || {
        let mut error = None;
        while !halted() {
            let taken = take(plan, store, &mut lock(&state));
            let task = match taken {
                Ok(Some(task)) => task,
                Ok(None) => break,
                Err(found) => {
                    error = Some(found);
                    break;
                }
            };
            let tasks = std::slice::from_ref(&task);
            let reports = carry_out(store, tasks, &options.limits, &mut || !halted());
            let mut state = lock(&state);
            for report in reports {
                state.add(report, &task, options.retries, &ended);
            }
            progress(&state.finished.tally);
        }
        if let Some(error) = error {
            ended.store(true, Ordering::Relaxed);
            lock(&state).error.get_or_insert(error);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.jobs {
            scope.spawn(work);
        }
        work();
    });
    let State { mut finished, error, .. } =
        state.into_inner().unwrap_or_else(PoisonError::into_inner);
    finished.stopped = stop.load(Ordering::Relaxed);
    error.map_or(Ok(finished), Err)
}

/// The state that the threads share.
#[derive(Default)]
struct State {
    finished: Finished,
    /// The next point to look up.
    next: u64,
    /// The runs that wait, each as a task with one seed.
    queue: Vec<Task>,
    /// How often each run has failed, by its point and seed.
    attempts: BTreeMap<(u64, u64), u32>,
    /// The first error in looking up a point. It ends the campaign.
    error: Option<PlanOrStore>,
}

impl State {
    /// Counts a report. Puts a failed run into the queue again if another attempt may succeed.
    fn add(&mut self, report: Report, task: &Task, retries: u32, ended: &AtomicBool) {
        let tally = &mut self.finished.tally;
        match &report.end {
            End::Made => {
                tally.made += 1;
                tally.took += report.took;
            }
            End::There => tally.there += 1,
            End::Failed { again, lasting, .. } => {
                let attempts = self.attempts.entry((report.point, report.seed)).or_default();
                *attempts += 1;
                if *again && *attempts <= retries {
                    self.queue.push(Task { seeds: vec![report.seed], ..task.clone() });
                    return;
                }
                tally.failed += 1;
                if *lasting {
                    ended.store(true, Ordering::Relaxed);
                }
                self.finished.failures.push(report);
            }
        }
    }
}

/// Takes one missing run, and not all runs of a point, because one point may have most of the
/// campaign's runs. The lock is held while a point is looked up. A thread that gets `None` may
/// therefore end: only a failed run can still enter the queue, and the thread that carried it out
/// continues.
fn take(plan: &Plan, store: &Store, state: &mut State) -> Result<Option<Task>, PlanOrStore> {
    while state.queue.is_empty() && state.next < plan.points() {
        let found = plan.missing_at(store, state.next)?;
        state.next += 1;
        state.finished.tally.there += found.there;
        let Some(task) = found.task else { continue };
        let seeds = task.seeds.iter().rev();
        state.queue.extend(seeds.map(|&seed| Task { seeds: vec![seed], ..task.clone() }));
    }
    Ok(state.queue.pop())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
