//! What a row of the table of congestion controls says besides names and parameters.

use weir_core::settings;

/// A congestion control's row in [`super::TABLE`].
pub type Row = settings::Row<Traits>;

/// How a congestion control sends, unless the flow says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// How the receiver reports marks, and the ECN field of packets, where ECN is in use.
    pub feedback: Feedback,
    /// ECN is in use.
    pub ecn: bool,
    /// Packets are paced.
    pub paces: bool,
}

/// How the receiver reports packets that arrived with congestion experienced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// RFC 3168: every acknowledgement reports it until the sender has reduced its window. Packets
    /// are ECT(0).
    Classic,
    /// RFC 8257: an acknowledgement reports it if its packets were marked. Packets are ECT(0).
    Exact,
    /// Accurate ECN: counters of packets and bytes. Packets are ECT(0).
    Accurate,
    /// Accurate ECN, and packets are ECT(1), for low-latency queues.
    Scalable,
}
