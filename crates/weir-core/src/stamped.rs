//! Packets without an engine, for AQMs and schedulers that need more than lengths: descriptors of
//! 32 bytes with arrival time, ECN field and flow hash.

use alloc::vec::Vec;

use crate::packet::{Ecn, Header, NONE, PacketId, Store};
use crate::prefetch;
use crate::stats::MarkReason;
use crate::units::Nanos;

/// A packet: its successor in a list, and the fields for AQMs and for schedulers with an AQM.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Stamp {
    /// The successor in the packet's list; for a free descriptor, the next free descriptor.
    next: u32,
    /// The length of the successor.
    next_len: u32,
    len: u32,
    flow: u32,
    arrived: Nanos,
    hash: u32,
    ecn: Ecn,
    dscp: u8,
    /// The reason of the packet's mark, if it is marked.
    mark: Option<MarkReason>,
}

const _: () = assert!(size_of::<Stamp>() == 32, "two packets fill one cache line");

/// A packet that has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// Length in bytes.
    pub len: u32,
    /// The flow of the packet.
    pub flow: u32,
    /// Time of arrival.
    pub arrived: Nanos,
    /// The header fields of the packet.
    pub header: Header,
    /// The reason of the packet's mark, if it is marked.
    pub mark: Option<MarkReason>,
}

/// Descriptors of packets, and a list of free descriptors. The most recently freed descriptor is
/// reused first, because it is still in the cache.
#[derive(Debug)]
pub struct StampedDescriptors {
    all: Vec<Stamp>,
    /// The first free descriptor, or [`NONE`].
    free: u32,
    /// For each descriptor, the hashes of its packet's hosts; empty until a packet has any.
    hosts: Vec<[u32; 2]>,
}

impl StampedDescriptors {
    /// An empty store with room for `expected` packets. It grows when needed.
    pub fn new(expected: usize) -> Self {
        Self { all: Vec::with_capacity(expected), free: NONE, hosts: Vec::new() }
    }

    /// Stores a packet of `len` bytes of flow `flow` that arrives at `arrived`.
    #[inline]
    pub fn allocate(&mut self, len: u32, flow: u32, arrived: Nanos, header: Header) -> PacketId {
        let Header { ecn, dscp, hash } = header;
        let id = self.free;
        if let Some(stamp) = self.all.get_mut(id as usize) {
            self.free = stamp.next;
            (stamp.len, stamp.flow, stamp.arrived) = (len, flow, arrived);
            (stamp.hash, stamp.ecn, stamp.dscp, stamp.mark) = (hash, ecn, dscp, None);
            return PacketId(id);
        }
        self.grow(Stamp {
            next: NONE,
            next_len: 0,
            len,
            flow,
            arrived,
            hash,
            ecn,
            dscp,
            mark: None,
        })
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, stamp: Stamp) -> PacketId {
        self.all.push(stamp);
        PacketId((self.all.len() - 1) as u32)
    }

    /// Sets the hashes of the source and destination address of a packet from [`Self::allocate`], 0
    /// for unknown.
    #[inline]
    pub fn set_hosts(&mut self, id: PacketId, hosts: [u32; 2]) {
        if self.hosts.is_empty() && hosts == [0; 2] {
            return;
        }
        self.hosts.resize(self.hosts.len().max(self.all.len()), [0; 2]);
        self.hosts[id.0 as usize] = hosts;
    }

    /// Frees a packet's descriptor and returns its contents.
    #[inline]
    pub fn release(&mut self, id: PacketId) -> Released {
        let stamp = &mut self.all[id.0 as usize];
        stamp.next = self.free;
        self.free = id.0;
        let Stamp { len, flow, arrived, hash, ecn, dscp, mark, .. } = *stamp;
        Released { len, flow, arrived, header: Header { ecn, dscp, hash }, mark }
    }
}

impl Store for StampedDescriptors {
    #[inline]
    fn len(&self, id: PacketId) -> u32 {
        self.all[id.0 as usize].len
    }

    #[inline]
    fn flow(&self, id: PacketId) -> u32 {
        self.all[id.0 as usize].flow
    }

    fn label(&self, _id: PacketId) -> u64 {
        0
    }

    #[inline]
    fn header(&self, id: PacketId) -> Header {
        let Stamp { ecn, dscp, hash, .. } = self.all[id.0 as usize];
        Header { ecn, dscp, hash }
    }

    #[inline]
    fn hosts(&self, id: PacketId) -> [u32; 2] {
        self.hosts.get(id.0 as usize).copied().unwrap_or_default()
    }

    #[inline]
    fn arrived(&self, id: PacketId) -> Nanos {
        self.all[id.0 as usize].arrived
    }

    #[inline]
    fn mark(&mut self, id: PacketId, reason: MarkReason) {
        self.all[id.0 as usize].mark.get_or_insert(reason);
    }

    #[inline]
    fn next(&self, id: PacketId) -> (u32, u32) {
        let stamp = &self.all[id.0 as usize];
        (stamp.next, stamp.next_len)
    }

    #[inline]
    fn set_next(&mut self, id: PacketId, next: u32, len: u32) {
        let stamp = &mut self.all[id.0 as usize];
        (stamp.next, stamp.next_len) = (next, len);
    }

    #[inline]
    fn prefetch(&self, id: PacketId) {
        prefetch::read(&self.all, id.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_descriptor_has_no_mark_of_the_previous_packet() {
        let mut store = StampedDescriptors::new(0);
        let header = Header { ecn: Ecn::Ect0, dscp: 1, hash: 7 };
        let first = store.allocate(100, 3, Nanos(5), header);
        store.mark(first, MarkReason::Target);
        store.mark(first, MarkReason::Early);
        let left = store.release(first);
        assert_eq!(
            left,
            Released {
                len: 100,
                flow: 3,
                arrived: Nanos(5),
                header,
                mark: Some(MarkReason::Target)
            }
        );
        let again = store.allocate(40, 4, Nanos(6), header);
        assert_eq!(again, first);
        assert_eq!(store.release(again).mark, None);
    }

    #[test]
    fn a_reused_descriptor_has_the_hosts_of_its_new_packet() {
        let mut store = StampedDescriptors::new(0);
        let header = Header { ecn: Ecn::NotEct, dscp: 0, hash: 7 };
        let enter = |store: &mut StampedDescriptors, hosts| {
            let id = store.allocate(100, 0, Nanos(5), header);
            store.set_hosts(id, hosts);
            id
        };
        let ids = [[0, 0], [1, 2], [0, 4]].map(|hosts| enter(&mut store, hosts));
        assert_eq!(ids.map(|id| store.hosts(id)), [[0, 0], [1, 2], [0, 4]]);
        store.release(ids[1]);
        let again = enter(&mut store, [0, 0]);
        assert_eq!((again, store.hosts(again)), (ids[1], [0, 0]));
    }
}
