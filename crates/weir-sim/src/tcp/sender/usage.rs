//! How much of its window a sender uses, and what limits it.

#[derive(Debug, Default)]
pub(super) struct Usage {
    /// Whether the congestion window was full at some time since `until` was set.
    pub(super) limited: bool,
    /// The largest number of bytes in flight since `until` was set.
    pub(super) most: u64,
    /// The measurement restarts when this byte is acknowledged.
    pub(super) until: u64,
    /// Whether the queue of the sending host is full.
    pub(super) host_full: bool,
    /// Whether the receiver's window is closed, no data in flight can open it, and there is more to
    /// send.
    pub(super) closed: bool,
}
