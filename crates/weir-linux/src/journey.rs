//! The progress of a packet on a lane that has rules.

use weir_core::Nanos;
use weir_core::stats::MarkReason;
use weir_rules::classify::{Resume, Tags};

/// How far a packet has got through its lane's passes (the points at which the rules examine it),
/// and the changes made to it. Only packets that rules may examine again, or that have entered the
/// engine repeatedly, have a journey.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journey {
    /// Index of the pass in which the packet is examined next. If `resume` is set, this pass has
    /// begun and continues there.
    pub pass: u8,
    /// How many times the packet has entered the engine.
    pub hops: u8,
    /// The mark reason of the first pipe that set congestion experienced. For a segment of a train,
    /// this field is the only record of the mark until the segment is sent, because all segments
    /// share one frame.
    pub mark: Option<MarkReason>,
    /// Whether the packet is an additional copy that the link made.
    pub duplicate: bool,
    /// The position of the inverted bit, if the link corrupted the packet.
    pub corrupted: Option<u32>,
    /// The rule at which the pass continues; `None` for its beginning.
    pub resume: Option<Resume>,
    /// When the packet arrived on the lane.
    pub arrived: Nanos,
    /// Total time that the packet has spent in queues.
    pub queued: Nanos,
    /// The tags that rules have set on the packet.
    pub tags: Tags,
}
