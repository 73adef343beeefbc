//! The interface of a store of packets for lists and schedulers.

use super::fields::{Header, PacketId};
use crate::stats::MarkReason;
use crate::units::Nanos;

/// A store of packets: the [`Pool`](super::Pool) of an engine, or, without an engine,
/// [`Descriptors`](crate::descriptor::Descriptors) or
/// [`StampedDescriptors`](crate::stamped::StampedDescriptors).
pub trait Store {
    /// Length in bytes from the network-layer header on.
    fn len(&self, id: PacketId) -> u32;

    /// Number of the flow to which the packet belongs.
    fn flow(&self, id: PacketId) -> u32;

    /// The label from the packet's source or an earlier hop (see
    /// [`LabelThenStart`](super::LabelThenStart)).
    fn label(&self, id: PacketId) -> u64;

    /// The header fields of the packet.
    fn header(&self, id: PacketId) -> Header;

    /// The hashes of the packet's source and destination address; 0 for a host that is unknown or
    /// that nothing on the packet's path distinguishes.
    fn hosts(&self, _id: PacketId) -> [u32; 2] {
        [0; 2]
    }

    /// Time at which the packet arrived at its queue.
    fn arrived(&self, id: PacketId) -> Nanos;

    /// Marks the packet with congestion experienced at its departure. If it is marked several
    /// times, the first reason counts. Only for packets with an ECN field ([`Header::ecn`]) that
    /// permits a mark.
    fn mark(&mut self, id: PacketId, reason: MarkReason);

    /// The packet's successor in its list, and the successor's length; undefined for the last
    /// packet.
    fn next(&self, id: PacketId) -> (u32, u32);

    /// Sets the values that [`Self::next`] returns.
    fn set_next(&mut self, id: PacketId, next: u32, len: u32);

    /// Prefetches the packet.
    fn prefetch(&self, id: PacketId);
}
