//! Where packets are, as lists and schedulers see it.

use super::fields::{Header, PacketId};
use crate::stats::MarkReason;
use crate::units::Nanos;

/// Where packets are, as lists and schedulers see it: the [`Pool`] of an engine, or [`Descriptors`]
/// alone.
pub trait Store {
    /// Length in bytes from the network-layer header on.
    fn len(&self, id: PacketId) -> u32;

    /// Number of the flow it belongs to.
    fn flow(&self, id: PacketId) -> u32;

    /// What a source or an earlier hop says of it (see [`LabelThenStart`](super::LabelThenStart)).
    fn label(&self, id: PacketId) -> u64;

    /// What its headers say.
    fn header(&self, id: PacketId) -> Header;

    /// When it came to its queue.
    fn arrived(&self, id: PacketId) -> Nanos;

    /// Marks it with congestion experienced when it leaves; the first reason counts. Only for
    /// packets whose [`Header::ecn`] allows it.
    fn mark(&mut self, id: PacketId, reason: MarkReason);

    /// The successor in its list, and the successor's length. Means nothing for the last one.
    fn next(&self, id: PacketId) -> (u32, u32);

    /// Sets what [`Self::next`] gives.
    fn set_next(&mut self, id: PacketId, next: u32, len: u32);

    /// Says that the packet will be asked for soon.
    fn prefetch(&self, id: PacketId);
}
