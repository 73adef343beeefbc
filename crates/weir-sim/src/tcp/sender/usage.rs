//! How far a sender uses its window.

/// What limited the last sending, and how far the window is used.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// The congestion window was full at some time since `until` was set.
    pub(super) limited: bool,
    /// The most in flight since then.
    pub(super) most: u64,
    /// The measure is taken anew when this byte is acknowledged.
    pub(super) until: u64,
    /// The own host takes no more.
    pub(super) host_full: bool,
    /// The receiver's window is closed, nothing is on its way that could open it, and there is more
    /// to send.
    pub(super) closed: bool,
}
