//! The store of packets, as lists and schedulers see it.

use super::fields::{Header, PacketId};
use crate::stats::MarkReason;
use crate::units::Nanos;

/// A store of packets: the [`Pool`](super::Pool) of an engine, or
/// [`Descriptors`](crate::descriptor::Descriptors) alone.
pub trait Store {
    /// Length in bytes from the network-layer header on.
    fn len(&self, id: PacketId) -> u32;

    /// Number of the flow it belongs to.
    fn flow(&self, id: PacketId) -> u32;

    /// The label from its source or an earlier hop (see [`LabelThenStart`](super::LabelThenStart)).
    fn label(&self, id: PacketId) -> u64;

    /// Its header fields.
    fn header(&self, id: PacketId) -> Header;

    /// When it arrived at its queue.
    fn arrived(&self, id: PacketId) -> Nanos;

    /// Marks it with congestion experienced at its departure; the first reason counts. Only for
    /// packets whose [`Header::ecn`] allows it.
    fn mark(&mut self, id: PacketId, reason: MarkReason);

    /// The successor in its list, and the successor's length; undefined for the last packet.
    fn next(&self, id: PacketId) -> (u32, u32);

    /// Sets the values of [`Self::next`].
    fn set_next(&mut self, id: PacketId, next: u32, len: u32);

    /// Prefetches the packet.
    fn prefetch(&self, id: PacketId);
}
