//! Counters of the server itself.

use std::sync::atomic::AtomicU64;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Requests that were answered with success.
    pub(crate) served: AtomicU64,
    /// Requests that were answered with a client error (status 4xx).
    pub(crate) refused: AtomicU64,
    /// Requests that were answered with a server error (status 5xx).
    pub(crate) failed: AtomicU64,
    /// Samples that readers of the event stream missed, because they were slow or the loop did not
    /// answer.
    pub(crate) skipped: AtomicU64,
    /// Clients that were disconnected because they accepted no data.
    pub(crate) stalled: AtomicU64,
    /// Connections from users without permission.
    pub(crate) refused_connections: AtomicU64,
    /// Connections refused because the client's quota or the server's total number of connections
    /// was reached.
    pub(crate) excess_connections: AtomicU64,
}
