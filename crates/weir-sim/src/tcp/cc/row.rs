//! Properties in a row of the table of congestion controls, besides name and parameters.

use weir_core::settings;

/// A congestion control's row in [`super::TABLE`].
pub type Row = settings::Row<Traits>;

/// How a congestion control sends. The configuration of a flow can override `ecn` and `paces`.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// If ECN is in use: how the receiver reports marks, and the ECN field of packets.
    pub feedback: Feedback,
    /// Whether ECN is in use.
    pub ecn: bool,
    /// Whether packets are paced.
    pub paces: bool,
}

/// How the receiver reports packets that arrived with congestion experienced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// RFC 3168: every acknowledgement reports a mark until the sender has reduced its window.
    /// Packets are ECT(0).
    Classic,
    /// RFC 8257: an acknowledgement reports whether its packets were marked. Packets are ECT(0).
    Exact,
    /// Accurate ECN: counters of packets and bytes. Packets are ECT(0).
    Accurate,
    /// Accurate ECN, and packets are ECT(1), for low-latency queues.
    Scalable,
}
