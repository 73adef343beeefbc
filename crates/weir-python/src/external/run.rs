//! The state of runs with algorithms in Python: the first failure.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use weir_sim::run::Progress;

/// State that all instances of algorithms share in the runs that were started together.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// The simulation that a failure stops; `None` for a run outside a simulation.
    progress: Option<Arc<Progress>>,
    failed: AtomicBool,
    error: Mutex<Option<PyErr>>,
}

thread_local! {
    /// The state of the run on this thread; `None` outside a run.
    static RUN: RefCell<Option<Arc<Run>>> = const { RefCell::new(None) };
}

impl Run {
    /// The state of the runs that `progress` can stop.
    pub(crate) fn of(progress: Arc<Progress>) -> Arc<Self> {
        Arc::new(Self { progress: Some(progress), ..Self::default() })
    }

    /// Calls `work`; the instances that `work` creates share this state.
    pub(crate) fn during<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let before = RUN.replace(Some(Arc::clone(self)));
        let result = work();
        RUN.set(before);
        result
    }

    /// The state of the run on this thread; a new one outside a run.
    pub(super) fn current() -> Arc<Self> {
        RUN.with_borrow(Option::clone).unwrap_or_default()
    }

    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Ends the run with an error. Later errors are ignored.
    pub(super) fn fail(&self, error: PyErr) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.failed.store(true, Ordering::Relaxed);
        if let Some(progress) = &self.progress {
            progress.stop.store(true, Ordering::Relaxed);
        }
    }

    /// The error that ended the run.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Ends the run on this thread.
pub(crate) fn fail(error: PyErr) {
    Run::current().fail(error);
}
