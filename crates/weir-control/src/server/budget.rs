//! The memory that the bodies of all requests together may occupy.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::pool::Rank;
use super::reject::Reject;
use crate::owner::MOST_SCRIPT;

/// The memory for bodies. It is divided, so that other clients cannot use the part for privileged
/// clients (see [`Rank`]).
#[derive(Debug)]
pub(super) struct Uploads {
    privileged: Arc<Semaphore>,
    others: Arc<Semaphore>,
    /// The free part of the [`MOST_SCRIPT`] bytes for long scripts of privileged clients. A script
    /// holds its bytes until it has been executed.
    privileged_scripts: Arc<Semaphore>,
    /// The same for all other clients.
    other_scripts: Arc<Semaphore>,
}

impl Default for Uploads {
    fn default() -> Self {
        let budget = || Arc::new(Semaphore::new(BUDGET));
        let scripts = || Arc::new(Semaphore::new(MOST_SCRIPT));
        Self {
            privileged: budget(),
            others: budget(),
            privileged_scripts: scripts(),
            other_scripts: scripts(),
        }
    }
}

impl Uploads {
    /// An upload that takes its memory from the budget of this rank.
    pub(super) fn begin(&self, rank: Rank) -> Upload {
        let (budget, scripts) = match rank {
            Rank::Privileged => (&self.privileged, &self.privileged_scripts),
            Rank::Other => (&self.others, &self.other_scripts),
        };
        Upload { budget: Arc::clone(budget), scripts: Arc::clone(scripts), held: None }
    }
}

/// The memory that a body occupies, until this value is dropped.
#[derive(Debug)]
pub(super) struct Upload {
    budget: Arc<Semaphore>,
    scripts: Arc<Semaphore>,
    /// The part of the budget that the body takes; `None` before the first bytes.
    held: Option<OwnedSemaphorePermit>,
}

impl Upload {
    /// Takes the memory for further bytes from the budget.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Reject> {
        let full = || {
            let text = format!(
                "the requests that are arriving take all of {} MiB now; try again in a moment",
                BUDGET >> 20
            );
            Reject::new(StatusCode::SERVICE_UNAVAILABLE, text)
        };
        let bytes = u32::try_from(bytes).map_err(|_| full())?;
        let more = Arc::clone(&self.budget).try_acquire_many_owned(bytes).map_err(|_| full())?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }

    /// Waits until a script of this length may be parsed. A parsed script takes much more memory
    /// than its text, until it has been executed and the result is dropped.
    pub(super) async fn script(&self, bytes: usize) -> Result<Script, Reject> {
        if bytes <= SHORT_SCRIPT {
            return Ok(Script(None));
        }
        // A script that is longer than allowed is not parsed.
        let bytes = bytes.min(MOST_SCRIPT) as u32;
        let permit = Arc::clone(&self.scripts).acquire_many_owned(bytes).await;
        permit.map(|permit| Script(Some(permit))).map_err(|_| Reject::ending())
    }
}

/// The memory that a parsed script may occupy, until this value is dropped.
#[derive(Debug)]
pub(super) struct Script(
    #[expect(dead_code, reason = "it is only held")] Option<OwnedSemaphorePermit>,
);

/// Length of the longest script that waits for no other, in bytes.
const SHORT_SCRIPT: usize = 16 << 10;
/// Maximum length of a request body, in bytes: a script of several hundred thousand lines.
pub(super) const MOST_BODY: usize = 32 << 20;
/// Maximum total length of the bodies that are arriving or wait to be parsed, in bytes: two bodies
/// of the maximum length. Privileged clients share one such budget; all other clients share
/// another.
const BUDGET: usize = 2 * MOST_BODY;

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn long_scripts_of_one_rank_wait_for_each_other() {
        let uploads = Uploads::default();
        let (member, root) = (uploads.begin(Rank::Other), uploads.begin(Rank::Privileged));
        let mut context = Context::from_waker(Waker::noop());
        let mut try_now =
            |upload: &Upload, bytes| match pin!(upload.script(bytes)).poll(&mut context) {
                std::task::Poll::Ready(script) => Some(script.unwrap()),
                std::task::Poll::Pending => None,
            };
        let first = try_now(&member, MOST_SCRIPT / 2).expect("the first script");
        let second = try_now(&member, MOST_SCRIPT / 2).expect("the second script");
        assert!(try_now(&member, SHORT_SCRIPT + 1).is_none(), "there is no room for a third");
        assert!(try_now(&member, SHORT_SCRIPT).is_some(), "short scripts never wait");
        assert!(try_now(&root, 2 * MOST_SCRIPT).is_some(), "root has a part for itself");
        drop(first);
        assert!(try_now(&member, SHORT_SCRIPT + 1).is_some());
        drop(second);
    }
}
