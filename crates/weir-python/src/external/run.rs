//! A run with algorithms in Python: where its first failure goes.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use weir_sim::run::Progress;

/// What the instances of a run share: where its failure goes.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Of a simulation, which a failure ends.
    progress: Option<Arc<Progress>>,
    failed: AtomicBool,
    error: Mutex<Option<PyErr>>,
}

thread_local! {
    /// The run that this thread carries out.
    static RUN: RefCell<Option<Arc<Run>>> = const { RefCell::new(None) };
}

impl Run {
    /// A run that belongs to a simulation.
    pub(crate) fn of(progress: Arc<Progress>) -> Arc<Self> {
        Arc::new(Self { progress: Some(progress), ..Self::default() })
    }

    /// Makes this the run of instances that `work` creates.
    pub(crate) fn during<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let before = RUN.replace(Some(Arc::clone(self)));
        let result = work();
        RUN.set(before);
        result
    }

    /// The run that this thread carries out.
    pub(super) fn current() -> Arc<Self> {
        RUN.with_borrow(Option::clone).unwrap_or_default()
    }

    /// Whether an instance has failed.
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Ends the run with an error. Only the first one counts.
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

/// Ends the run that this thread carries out.
pub(crate) fn fail(error: PyErr) {
    Run::current().fail(error);
}
