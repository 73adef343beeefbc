//! First-in first-out lists of packets, in which each packet stores the number of the next packet.

use super::fields::{NONE, PacketId};
use super::store::Store;

/// A first-in first-out list of packets.
///
/// The list stores the length of its first packet, and each packet stores the length of the next
/// packet. After a packet is removed, the length of the next packet is therefore known without
/// reading that packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketList {
    chain: Chain,
    front_len: u32,
}

impl PacketList {
    /// A list of one packet with a known length.
    #[inline]
    pub(crate) fn of(id: PacketId, len: u32) -> Self {
        Self { chain: Chain { head: id.0, tail: id.0 }, front_len: len }
    }

    /// Whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }

    /// The first packet.
    #[inline]
    pub fn front(&self) -> Option<PacketId> {
        self.chain.front()
    }

    /// Length of the first packet in bytes; undefined if the list is empty.
    #[inline]
    pub fn front_len(&self) -> u32 {
        self.front_len
    }

    /// The last packet.
    #[inline]
    pub fn back(&self) -> Option<PacketId> {
        self.chain.back()
    }

    /// Appends a packet.
    #[inline]
    pub fn push_back<P: Store + ?Sized>(&mut self, store: &mut P, id: PacketId) {
        let len = store.len(id);
        self.push_back_of(store, id, len);
    }

    /// Appends a packet with a known length.
    #[inline]
    pub fn push_back_of<P: Store + ?Sized>(&mut self, store: &mut P, id: PacketId, len: u32) {
        if self.is_empty() {
            self.front_len = len;
        }
        self.chain.push_back(store, id, len);
    }

    /// Removes the packets of flow `flow`, in order. Other packets keep their order. Visits every
    /// packet.
    pub fn take_flow<P: Store>(&mut self, store: &mut P, flow: u32) -> Self {
        let (mut taken, mut rest) = (Self::default(), Self::default());
        while let Some(id) = self.pop_front(store) {
            let list = if store.flow(id) == flow { &mut taken } else { &mut rest };
            list.push_back(store, id);
        }
        *self = rest;
        taken
    }

    /// Number of packets and sum of their lengths in bytes. Visits every packet.
    pub fn measure<P: Store>(&self, store: &P) -> (usize, u64) {
        let (mut rest, mut packets, mut bytes) = (*self, 0, 0);
        while let Some(id) = rest.pop_front(store) {
            packets += 1;
            bytes += u64::from(store.len(id));
        }
        (packets, bytes)
    }

    /// Removes and returns the first packet.
    #[inline]
    pub fn pop_front<P: Store>(&mut self, store: &P) -> Option<PacketId> {
        let (id, next_len) = self.chain.pop_front(store)?;
        self.front_len = next_len;
        Some(id)
    }

    /// Whether the list, which must not be empty, has only one packet.
    #[inline]
    pub fn is_single(&self) -> bool {
        self.chain.head == self.chain.tail
    }

    /// Appends a packet with a known length to a list that is not empty.
    #[inline]
    pub(crate) fn push_behind<P: Store>(&mut self, store: &mut P, id: PacketId, len: u32) {
        self.chain.push_behind(store, id, len);
    }

    /// Removes and returns the packet of a list with one packet.
    #[inline]
    pub(crate) fn take_only(&mut self) -> PacketId {
        PacketId(core::mem::replace(&mut self.chain.head, NONE))
    }

    /// Removes and returns the first packet of a list with several packets.
    ///
    /// # Panics
    /// May panic if the list is empty.
    #[inline]
    pub fn take_one<P: Store>(&mut self, store: &P) -> PacketId {
        let id = PacketId(self.chain.head);
        (self.chain.head, self.front_len) = store.next(id);
        id
    }

    /// Removes the first packet of a list that is not empty. Returns it, and whether packets
    /// remain.
    ///
    /// # Panics
    /// May panic if the list is empty.
    #[inline]
    pub fn take_first<P: Store>(&mut self, store: &P) -> (PacketId, bool) {
        let id = PacketId(self.chain.head);
        if id.0 == self.chain.tail {
            self.chain.head = NONE;
            return (id, false);
        }
        (self.take_one(store), true)
    }
}

/// A first-in first-out list of packets that does not store the length of its first packet. Only
/// `tail` marks the end of the list, so that appending a packet writes to only one other packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    head: u32,
    tail: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl Chain {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<PacketId> {
        (self.head != NONE).then_some(PacketId(self.head))
    }

    #[inline]
    pub(crate) fn back(&self) -> Option<PacketId> {
        (self.head != NONE).then_some(PacketId(self.tail))
    }

    /// Appends a packet; its predecessor stores `len` as the successor's length.
    #[inline]
    pub(crate) fn push_back<P: Store + ?Sized>(&mut self, store: &mut P, id: PacketId, len: u32) {
        if self.head == NONE {
            (self.head, self.tail) = (id.0, id.0);
        } else {
            self.push_behind(store, id, len);
        }
    }

    /// Appends a packet to a chain that is not empty.
    #[inline]
    fn push_behind<P: Store + ?Sized>(&mut self, store: &mut P, id: PacketId, len: u32) {
        store.set_next(PacketId(self.tail), id.0, len);
        self.tail = id.0;
    }

    /// Removes the first packet. Returns it, and the stored length of the next packet.
    #[inline]
    pub(crate) fn pop_front<P: Store>(&mut self, store: &P) -> Option<(PacketId, u32)> {
        let id = self.front()?;
        if id.0 == self.tail {
            self.head = NONE;
            return Some((id, 0));
        }
        let (next, next_len) = store.next(id);
        self.head = next;
        Some((id, next_len))
    }
}
