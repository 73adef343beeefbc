//! Counters of the server itself.

use std::sync::atomic::AtomicU64;

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
    /// Connections beyond the quota of a client, or beyond all that the server serves.
    pub(crate) excess_connections: AtomicU64,
}
