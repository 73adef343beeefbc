//! The threads that ask the plane (the code that moves packets), and wait for its answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Limits the number of threads that wait for the plane.
#[derive(Debug)]
pub(super) struct Askers(Arc<Semaphore>);

/// Why [`Askers::run`] returned no result of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unasked {
    /// The work did not finish within this time.
    Late(Duration),
    /// The server ends.
    Ending,
}

impl Default for Askers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ASKERS)))
    }
}

impl Askers {
    /// Runs, on another thread, work that may block.
    ///
    /// # Errors
    /// The work did not finish within [`ASK_WITHIN`], or the server ends.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unasked> {
        let askers = Arc::clone(&self.0);
        let done = async {
            let asker = askers.acquire_owned().await.ok()?;
            let work = move || {
                // The thread holds the permit until the work ends, even if the caller has stopped
                // waiting.
                let _asker = asker;
                work()
            };
            // This fails only when the server ends, or after a panic, which stderr has reported.
            tokio::task::spawn_blocking(work).await.ok()
        };
        match timeout(ASK_WITHIN, done).await {
            Ok(done) => done.ok_or(Unasked::Ending),
            Err(_) => Err(Unasked::Late(ASK_WITHIN)),
        }
    }
}

/// The longest wait for work that asks the plane. The plane itself gives up a little earlier.
const ASK_WITHIN: Duration = Duration::from_secs(6);
/// Maximum number of threads that ask the plane at once. The server's other threads parse scripts,
/// write long texts, and answer the health resource.
const ASKERS: usize = 10;
