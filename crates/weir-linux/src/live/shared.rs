//! The state that workers share besides their rings: the flag that ends them, the dynamic rules,
//! and the progress that each publishes.

use std::sync::atomic::{AtomicBool, Ordering};

use weir_core::Nanos;
use weir_rules::classify::{DynamicEntry, State};

use super::progress::Progress;

#[derive(Debug)]
pub(super) struct Shared {
    ended: AtomicBool,
    /// The initial state, from which each worker derives the state of its rules. The dynamic rules
    /// are shared.
    state: State,
    progress: Vec<Progress>,
}

impl Shared {
    pub(super) fn new(seed: u64, workers: usize) -> Self {
        let progress = (0..workers).map(|_| Progress::default()).collect();
        Self { ended: AtomicBool::new(false), state: State::new(seed), progress }
    }

    pub(super) fn progress(&self) -> &[Progress] {
        &self.progress
    }

    /// Whether a worker has ended, so that all others must end too.
    pub(super) fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// A new state for the rules of worker `worker`.
    pub(super) fn state(&self, worker: usize) -> State {
        self.state.sibling(worker as u32)
    }

    /// The dynamic rules of all workers.
    pub(super) fn dynamic_rules(&self, now: Nanos) -> Vec<DynamicEntry> {
        self.state.dynamic().entries(now)
    }
}
