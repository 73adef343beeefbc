//! Rows of the table of congestion controls.

use weir_core::settings::Parameter;

/// A congestion control's row in [`super::TABLE`].
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name in scenarios.
    pub name: &'static str,
    /// Other names that are understood.
    pub aliases: &'static [&'static str],
    /// One line that says what it does.
    pub summary: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// How it wants to hear of marks, and what its packets say of ECN, where ECN is in use.
    pub feedback: Feedback,
    /// Where ECN is in use unless the flow says otherwise.
    pub ecn: bool,
    /// Packets are paced unless the flow says otherwise.
    pub paces: bool,
    /// Parameters.
    pub parameters: &'static [Parameter],
}

/// How the receiver tells of packets that arrived with congestion experienced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// RFC 3168: every acknowledgement says so until the sender has reduced its window. Packets are
    /// ECT(0).
    Classic,
    /// RFC 8257: an acknowledgement says so if the packets that it is for were marked. Packets are
    /// ECT(0).
    Exact,
    /// Accurate ECN: counters of packets and bytes. Packets are ECT(0).
    Accurate,
    /// Accurate ECN, and packets are ECT(1), as low-latency queues want them.
    Scalable,
}
