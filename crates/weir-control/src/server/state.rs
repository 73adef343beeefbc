//! The state that all handlers share: the configuration's owner, the plane, and counters of the
//! server itself.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};

use crate::api::Snapshot;
use crate::owner::Owner;
use crate::plane::Plane;

/// The state that all handlers share.
pub(crate) struct State {
    pub(crate) owner: Owner,
    pub(crate) plane: Arc<dyn Plane>,
    started: Instant,
    sample: Mutex<Option<(Instant, Arc<Snapshot>)>>,
    /// Limits the number of scripts that are parsed at once.
    readers: Semaphore,
    pub(crate) stopped: watch::Receiver<bool>,
    pub(crate) tally: Arc<Tally>,
}

/// Counters of the server itself.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Answered requests, by outcome: success, client error, server error.
    pub(crate) served: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Samples that slow readers of the event stream missed.
    pub(crate) skipped: AtomicU64,
    /// Clients that were disconnected because they accepted no data.
    pub(crate) stalled: AtomicU64,
    /// Connections from users without permission.
    pub(crate) refused_connections: AtomicU64,
}

impl State {
    pub(super) fn new(owner: Owner, plane: Arc<dyn Plane>, stopped: watch::Receiver<bool>) -> Self {
        let readers = Semaphore::new(READERS);
        Self {
            owner,
            plane,
            started: Instant::now(),
            sample: Mutex::new(None),
            readers,
            stopped,
            tally: Arc::default(),
        }
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// The counters, at most [`SAMPLE_AGE`] old.
    pub(crate) fn sample(&self) -> Arc<Snapshot> {
        let mut sample = self.sample.lock().unwrap_or_else(PoisonError::into_inner);
        match &*sample {
            Some((at, snapshot)) if at.elapsed() < SAMPLE_AGE => Arc::clone(snapshot),
            _ => {
                let snapshot = Arc::new(self.plane.snapshot());
                *sample = Some((Instant::now(), Arc::clone(&snapshot)));
                snapshot
            }
        }
    }

    /// Runs work that may block on another thread.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Option<T> {
        let state = Arc::clone(self);
        // The task fails only when the server ends, or after a panic, which stderr has reported.
        tokio::task::spawn_blocking(move || work(&state)).await.ok()
    }

    /// Runs work that uses memory in proportion to a client's data; only a few run at once.
    pub(crate) async fn reading<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Option<T> {
        let _permit = self.readers.acquire().await.ok()?;
        self.blocking(work).await
    }
}

/// Counters younger than this are reused for the next request.
pub const SAMPLE_AGE: Duration = Duration::from_millis(20);
/// Number of scripts that are parsed at once; each may take several times its length in memory.
const READERS: usize = 2;
