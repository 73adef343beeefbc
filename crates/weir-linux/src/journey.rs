//! The progress of a packet on a lane that has rules.

use weir_core::Nanos;
use weir_core::stats::MarkReason;
use weir_rules::classify::{Resume, Tags};

/// Where a packet is between its arrival and its departure, and what has happened to it so far.
/// Only packets that rules may judge again have one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journey {
    /// The lane's pass that is next, or that continues at `resume`.
    pub pass: u8,
    /// How often the engine has taken the packet.
    pub hops: u8,
    /// The first reason for which a pipe marked it with congestion experienced. The frame of a
    /// segment does not carry the mark yet.
    pub mark: Option<MarkReason>,
    /// It is an additional copy.
    pub duplicate: bool,
    /// The bit that was inverted.
    pub corrupted: Option<u32>,
    /// Where in the pass the rules continue.
    pub resume: Option<Resume>,
    /// When it arrived.
    pub began: Nanos,
    /// Time that it has spent in queues.
    pub queued: Nanos,
    /// The tags that rules have set on it.
    pub tags: Tags,
}
