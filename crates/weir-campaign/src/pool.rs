//! Carries out the missing runs of a campaign on the threads of this process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::plan::{LOOKED_UP, Plan, PlanOrStore};
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

/// Options of [`run`].
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

/// Carries out the missing runs until `stop` is set. Each thread calls `progress` after each run,
/// and from time to time while it only finds runs that the store has.
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
            let taken = take(plan, store, &mut lock(&state), &halted, progress);
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
    /// The point whose runs are being looked up.
    current: Option<Current>,
    /// The failed runs that wait for another attempt, each as a task with one seed.
    queue: Vec<Task>,
    /// How often each run has failed, by its point and seed.
    attempts: BTreeMap<(u64, u64), u32>,
    /// The first error in looking up a point. It ends the campaign.
    error: Option<PlanOrStore>,
}

/// A point whose runs are being looked up one by one.
struct Current {
    task: Task,
    /// The index of the next seed.
    next: u64,
    /// Whether the store has the files that the scenario names.
    has_inputs: bool,
}

impl State {
    /// Counts a report. A failed run enters the queue instead if another attempt is allowed and may
    /// succeed. Sets `ended` if all other runs would fail as well.
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
                    self.queue.push(task.only(report.seed));
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

/// Takes one missing run; `None` if there is none, or when `halted` returns true. It takes a single
/// run, because one point may have most of the campaign's runs. A thread that gets `None` may end:
/// after that, only failed runs enter the queue, and the thread that adds one calls this again.
fn take(
    plan: &Plan,
    store: &Store,
    state: &mut State,
    halted: &dyn Fn() -> bool,
    progress: &dyn Fn(&Tally),
) -> Result<Option<Task>, PlanOrStore> {
    if let Some(task) = state.queue.pop() {
        return Ok(Some(task));
    }
    while !halted() {
        let Some(current) = &mut state.current else {
            if state.next >= plan.points() {
                return Ok(None);
            }
            let task = plan.point(state.next)?.task;
            state.next += 1;
            state.current = Some(Current { task, next: 0, has_inputs: false });
            continue;
        };
        let Some(seed) = current.task.seeds.get(current.next) else {
            state.current = None;
            continue;
        };
        current.next += 1;
        if !store.has(current.task.key(seed)) {
            if !current.has_inputs {
                plan.put_inputs(store, &current.task)?;
                current.has_inputs = true;
            }
            return Ok(Some(current.task.only(seed)));
        }
        let tally = &mut state.finished.tally;
        tally.there += 1;
        if tally.there.is_multiple_of(LOOKED_UP as u64) {
            progress(tally);
        }
    }
    Ok(None)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
