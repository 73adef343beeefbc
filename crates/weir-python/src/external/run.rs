//! The state of a run with algorithms in Python: its first failure.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use weir_sim::run::Progress;

/// State that the algorithm instances of a run share.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// The simulation that a failure stops; `None` for a run outside a simulation.
    progress: Option<Arc<Progress>>,
    failed: AtomicBool,
    error: Mutex<Option<PyErr>>,
}

thread_local! {
    /// The run on this thread.
    static RUN: RefCell<Option<Arc<Run>>> = const { RefCell::new(None) };
}

impl Run {
    /// A run that belongs to a simulation.
    pub(crate) fn of(progress: Arc<Progress>) -> Arc<Self> {
        Arc::new(Self { progress: Some(progress), ..Self::default() })
    }

    /// Runs `work`; the instances that it creates belong to this run.
    pub(crate) fn during<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let before = RUN.replace(Some(Arc::clone(self)));
        let result = work();
        RUN.set(before);
        result
    }

    /// The run on this thread.
    pub(super) fn current() -> Arc<Self> {
        RUN.with_borrow(Option::clone).unwrap_or_default()
    }

    /// Whether an instance has failed.
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
