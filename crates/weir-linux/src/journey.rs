//! How far a packet has come on a lane that has rules.

use weir_core::Nanos;
use weir_core::stats::MarkReason;
use weir_rules::classify::{Resume, Tags};

/// Where a packet is on its way, and what has happened to it so far. Only packets that may be
/// looked at again have one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journey {
    /// The lane's pass that is next, or goes on at `resume`.
    pub pass: u8,
    /// How often the engine has taken it.
    pub hops: u8,
    /// Why a pipe marked it with congestion experienced, the first that did; the frame of a segment
    /// does not carry that yet.
    pub mark: Option<MarkReason>,
    /// It is an additional copy.
    pub duplicate: bool,
    /// The bit that was inverted.
    pub corrupted: Option<u32>,
    /// Where in the pass the search goes on.
    pub resume: Option<Resume>,
    /// When it came in.
    pub began: Nanos,
    /// Time it has spent in queues.
    pub queued: Nanos,
    /// What rules tagged it with.
    pub tags: Tags,
}
