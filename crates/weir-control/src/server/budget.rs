//! The memory that the bodies of all requests together may occupy.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::pool::Rank;
use super::reject::Reject;

/// The memory for bodies. It is divided, so that other clients cannot use the part for privileged
/// clients (see [`Rank`]).
#[derive(Debug)]
pub(super) struct Uploads {
    /// The budget of privileged clients.
    privileged: Arc<Semaphore>,
    /// The budget of all other clients.
    others: Arc<Semaphore>,
}

impl Default for Uploads {
    fn default() -> Self {
        let budget = || Arc::new(Semaphore::new(BUDGET));
        Self { privileged: budget(), others: budget() }
    }
}

impl Uploads {
    /// An upload that takes its memory from the budget of this rank.
    pub(super) fn begin(&self, rank: Rank) -> Upload {
        let budget = match rank {
            Rank::Privileged => &self.privileged,
            Rank::Other => &self.others,
        };
        Upload { budget: Arc::clone(budget), held: None }
    }
}

/// The memory that a body occupies, until this value is dropped.
#[derive(Debug)]
pub(super) struct Upload {
    budget: Arc<Semaphore>,
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
}

/// Maximum length of a request body, in bytes: a script of several hundred thousand lines.
pub(super) const MOST_BODY: usize = 32 << 20;
/// Maximum total length of the bodies that are arriving or wait to be parsed, in bytes: two bodies
/// of the maximum length. Privileged clients share one such budget; all other clients share
/// another.
const BUDGET: usize = 2 * MOST_BODY;
