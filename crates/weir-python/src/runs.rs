//! Carries out runs on several threads, while the calling thread reports progress and handles
//! signals.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use weir_sim::build::BuildError;
use weir_sim::measure::Outcome;
use weir_sim::run::{Job, Progress, run};

use crate::external::Run;
use crate::trace::Trace;

/// A run, and the trace that takes its records.
pub(crate) struct Task<'a> {
    pub(crate) job: Job<'a>,
    pub(crate) trace: Option<Trace>,
}

/// Carries out the tasks on `threads` threads. Returns the outcomes in the order of the tasks.
/// Signals and exceptions of `progress` end the runs.
pub(crate) fn run_all(
    py: Python<'_>,
    tasks: &[Task<'_>],
    threads: usize,
    progress: Option<&Py<PyAny>>,
) -> PyResult<Vec<Outcome>> {
    let total_ns: u64 =
        tasks.iter().map(|task| task.job.scenario.duration.0).fold(0, u64::saturating_add);
    let shared = Arc::new(Progress::default());
    let state = State {
        tasks,
        threads: Mutex::default(),
        next: AtomicUsize::new(0),
        run: Run::of(Arc::clone(&shared)),
        progress: shared,
        results: tasks.iter().map(|_| Mutex::new(None)).collect(),
        working: Mutex::new(0),
        ended: Condvar::new(),
    };
    let report = |state: &State<'_>| -> PyResult<()> {
        Python::attach(|py| {
            py.check_signals()?;
            let Some(progress) = progress else { return Ok(()) };
            let Progress { simulated_ns, events, finished, .. } = &*state.progress;
            let simulated_s = simulated_ns.load(Ordering::Relaxed) as f64 / 1e9;
            let events = events.load(Ordering::Relaxed);
            let finished = finished.load(Ordering::Relaxed);
            let total_s = total_ns as f64 / 1e9;
            progress.call1(py, (simulated_s, total_s, events, finished, tasks.len()))?;
            Ok(())
        })
    };
    let signals = || Python::attach(|py| py.check_signals());
    let ended = py.detach(|| {
        std::thread::scope(|scope| {
            for _ in 0..threads.clamp(1, tasks.len().max(1)) {
                *lock(&state.working) += 1;
                // The thread stays known to the interpreter, so that a call of Python costs little.
                scope.spawn(|| {
                    Python::attach(|py| {
                        state.enter(py);
                        py.detach(|| state.work());
                    });
                });
            }
            let mut reported = Instant::now();
            while !state.wait(SIGNALS) {
                let due = reported.elapsed() >= REPORTS;
                let result = if due { report(&state) } else { signals() };
                if due {
                    reported = Instant::now();
                }
                if result.is_err() {
                    state.progress.stop.store(true, Ordering::Relaxed);
                    state.interrupt();
                    return result;
                }
            }
            report(&state)
        })
    });
    ended?;
    if let Some(error) = state.run.take() {
        return Err(error);
    }
    state
        .results
        .into_iter()
        .map(|result| match result.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(Ok(Some(outcome))) => Ok(outcome),
            Some(Err(error)) => Err(PyRuntimeError::new_err(error.to_string())),
            Some(Ok(None)) | None => Err(PyRuntimeError::new_err("a run was stopped")),
        })
        .collect()
}

/// The result of a run; `Ok(None)` if the run was stopped.
type RunResult = Result<Option<Outcome>, BuildError>;

/// State that the threads share.
struct State<'a> {
    tasks: &'a [Task<'a>],
    /// Where algorithms in Python report a failure.
    run: Arc<Run>,
    /// The interpreter's numbers of the threads.
    threads: Mutex<Vec<u64>>,
    /// The index of the next task to carry out.
    next: AtomicUsize,
    progress: Arc<Progress>,
    /// The result of each task; `None` before its end.
    results: Vec<Mutex<Option<RunResult>>>,
    /// Number of threads that work.
    working: Mutex<usize>,
    /// Notified when a thread ends.
    ended: Condvar,
}

impl State<'_> {
    /// Carries out tasks until there are no more.
    fn work(&self) {
        // Counts the end of the thread even if a run panics.
        let _working = Working(self);
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = self.tasks.get(number) else { return };
            if self.progress.stop.load(Ordering::Relaxed) {
                return;
            }
            let tap = |names: &_| task.trace.as_ref().map(|trace| trace.sink(names));
            let result = self.run.during(|| run(task.job, &self.progress, &tap));
            *lock(&self.results[number]) = Some(result);
        }
    }

    /// Notes the interpreter's number of this thread.
    fn enter(&self, py: Python<'_>) {
        let number = py
            .import("threading")
            .and_then(|module| module.call_method0("get_ident")?.extract::<u64>());
        lock(&self.threads).extend(number.ok());
    }

    /// Waits until all threads have ended, and meanwhile raises KeyboardInterrupt in methods of
    /// algorithms that still run.
    fn interrupt(&self) {
        while !self.wait(SIGNALS) {
            let threads = lock(&self.threads).clone();
            Python::attach(|py| {
                let module = py.import("weirlab._algorithms");
                // If this fails, the loop waits for the end of the method.
                let _ = module.and_then(|module| module.call_method1("interrupt", (threads,)));
            });
        }
    }

    /// Waits until all threads have ended, for `timeout` at most. Returns whether they have.
    fn wait(&self, timeout: Duration) -> bool {
        let guard = lock(&self.working);
        let waited = self.ended.wait_timeout_while(guard, timeout, |working| *working > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
    }
}

/// Counts the end of a thread when this value is dropped.
struct Working<'a>(&'a State<'a>);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        *lock(&self.0.working) -= 1;
        self.0.ended.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time between two checks for signals.
const SIGNALS: Duration = Duration::from_millis(20);
/// Time between two reports of progress.
const REPORTS: Duration = Duration::from_millis(100);
