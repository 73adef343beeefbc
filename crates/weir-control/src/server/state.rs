//! The state that all handlers share: the configuration's owner, the plane (the code that moves
//! packets), and counters of the server itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::api::Snapshot;
use crate::owner::Owner;
use crate::plane::{NoAnswer, Plane};

use super::askers::{Askers, Unasked};
use super::budget::Uploads;
use super::reject::Reject;
use super::tally::Tally;

pub(crate) struct State {
    pub(crate) owner: Owner,
    pub(crate) plane: Arc<dyn Plane>,
    started: Instant,
    /// The last counters, or the failure to get them, and when the plane answered or gave up.
    sample: Mutex<Option<(Instant, Sample)>>,
    /// Limits the threads that wait for the plane. Other threads remain free for the health
    /// resource.
    askers: Askers,
    /// Limits the number of scripts that are parsed at once.
    parsers: Semaphore,
    /// Limits the number of long texts that are written at once.
    formatters: Semaphore,
    pub(super) uploads: Uploads,
    /// Becomes true when the server stops.
    pub(crate) stopped: watch::Receiver<bool>,
    pub(crate) tally: Arc<Tally>,
}

/// The counters, or why there are none.
type Sample = Result<Arc<Snapshot>, NoAnswer>;

impl State {
    pub(super) fn new(owner: Owner, plane: Arc<dyn Plane>, stopped: watch::Receiver<bool>) -> Self {
        let (parsers, formatters) = (Semaphore::new(PARSERS), Semaphore::new(FORMATTERS));
        Self {
            owner,
            plane,
            started: Instant::now(),
            sample: Mutex::new(None),
            askers: Askers::default(),
            uploads: Uploads::default(),
            parsers,
            formatters,
            stopped,
            tally: Arc::default(),
        }
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// The counters, at most [`SAMPLE_AGE`] old. Clients that wait for the same counters share
    /// them, or the failure to get them.
    pub(crate) fn sample(&self) -> Sample {
        let mut sample = self.sample.lock().unwrap_or_else(PoisonError::into_inner);
        match &*sample {
            Some((at, snapshot)) if at.elapsed() < SAMPLE_AGE => snapshot.clone(),
            _ => {
                let snapshot = self.plane.snapshot().map(Arc::new);
                *sample = Some((Instant::now(), snapshot.clone()));
                snapshot
            }
        }
    }

    /// Runs, on another thread, work that may block.
    ///
    /// # Errors
    /// The work did not finish in time, or the server ends.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Reject> {
        let state = Arc::clone(self);
        self.askers.run(move || work(&state)).await.map_err(|unasked| match unasked {
            Unasked::Late(within) => NoAnswer::Late { within }.into(),
            Unasked::Ending => Reject::ending(),
        })
    }

    /// Runs work for the health resource on another thread; `None` if it did not finish within
    /// [`HEALTH_WITHIN`].
    pub(super) async fn quickly<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Option<T> {
        let state = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&state));
        timeout(HEALTH_WITHIN, done).await.ok()?.ok()
    }

    /// Runs work that parses a client's script. At most [`PARSERS`] such calls run at once, because
    /// the work uses memory in proportion to the script.
    pub(super) async fn run_parser<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Reject> {
        self.one_of_few(&self.parsers, work).await
    }

    /// Runs work that writes a long text. At most [`FORMATTERS`] such calls run at once. The work
    /// has no time limit, because it does not wait for the plane.
    pub(super) async fn run_formatter<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Reject> {
        self.one_of_few(&self.formatters, work).await
    }

    /// Runs work on another thread as soon as one of `places` is free.
    async fn one_of_few<T: Send + 'static>(
        self: &Arc<Self>,
        places: &Semaphore,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Reject> {
        let _place = places.acquire().await.map_err(|_| Reject::ending())?;
        let state = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&state)).await;
        done.map_err(|_| Reject::ending())
    }
}

/// Counters younger than this are reused for the next request.
pub const SAMPLE_AGE: Duration = Duration::from_millis(20);
/// The longest wait of the health resource for the plane. The plane itself gives up a little
/// earlier.
const HEALTH_WITHIN: Duration = Duration::from_millis(1500);
/// Number of scripts that are parsed at once; each may take up to 50 times its length in memory.
const PARSERS: usize = 2;
/// Number of long texts that are written at once; each may take some megabytes.
const FORMATTERS: usize = 2;
