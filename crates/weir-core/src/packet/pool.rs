//! The pool: all packets inside one engine.
//!
//! # Memory
//! A packet inside the engine takes one slot of 64 bytes, which is one cache line. Queues and the
//! delay line are lists that are linked through the slots, so they take no further memory. There
//! are two exceptions: a packet that overtakes other packets in the delay line takes 24 bytes more,
//! and schedulers that rank packets store some bytes for each packet. The pool grows by doubling
//! and keeps its memory: with a peak of `n` packets it holds at most `128 × n` bytes.

use alloc::vec::Vec;

use super::fields::{Header, NONE, Packet, PacketId};
use super::store::Store;
use crate::prefetch;
use crate::stats::MarkReason;
use crate::units::Nanos;

/// A packet with its successor in a list and its state in the delay line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Slot {
    packet: Packet,
    hosts_then_due: HostsThenDue,
    hash_then_corruption: HashThenCorruption,
    /// The successor in the packet's list; for a free slot, the next free slot.
    next: u32,
    /// The length of the successor.
    next_len: u32,
    duplicate: bool,
    /// [`Header::dscp`].
    dscp: u8,
    /// The reason of the packet's mark, if it is marked.
    mark: Option<MarkReason>,
}

const _: () = assert!(size_of::<Slot>() == 64, "a packet fills one cache line");

impl Slot {
    #[inline]
    fn crossed(&self) -> Crossed {
        let corruption = self.hash_then_corruption.corruption();
        Crossed { due: self.hosts_then_due.due(), corruption, duplicate: self.duplicate }
    }
}

/// The arrival of a packet at the far end of the link: its time, its corruption, and whether it is
/// a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crossed {
    pub(crate) due: Nanos,
    pub(crate) corruption: Corruption,
    pub(crate) duplicate: bool,
}

/// The bit of a packet that the link inverts, or none, in four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corruption(u32);

impl Corruption {
    /// No bit is inverted.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// The bit with this number is inverted. The number is less than [`u32::MAX`].
    #[inline]
    pub(crate) fn of_bit(bit: u32) -> Self {
        debug_assert_ne!(bit, u32::MAX, "the largest number means that no bit is inverted");
        Self(bit)
    }

    /// The number of the bit; `None` if no bit is inverted.
    #[inline]
    pub(crate) fn bit(self) -> Option<u32> {
        (self != Self::NONE).then_some(self.0)
    }
}

/// [`Header::hash`] while a packet waits, and the packet's corruption while the packet is on the
/// link. The two values share a field, because no packet needs both at one time. A slot therefore
/// fits into one cache line.
#[derive(Clone, Copy, Debug)]
struct HashThenCorruption(u32);

impl HashThenCorruption {
    #[inline]
    fn waiting(hash: u32) -> Self {
        Self(hash)
    }

    #[inline]
    fn crossing(corruption: Corruption) -> Self {
        Self(corruption.0)
    }

    #[inline]
    fn hash(self) -> u32 {
        self.0
    }

    #[inline]
    fn corruption(self) -> Corruption {
        Corruption(self.0)
    }
}

/// While a packet waits, the hashes of its source and destination. While the packet is on the link,
/// the time at which it arrives at the other end of the delay line.
#[derive(Clone, Copy, Debug)]
struct HostsThenDue(u64);

impl HostsThenDue {
    #[inline]
    fn waiting([source, destination]: [u32; 2]) -> Self {
        Self(u64::from(source) << 32 | u64::from(destination))
    }

    #[inline]
    fn crossing(due: Nanos) -> Self {
        Self(due.0)
    }

    #[inline]
    fn hosts(self) -> [u32; 2] {
        [(self.0 >> 32) as u32, self.0 as u32]
    }

    #[inline]
    fn due(self) -> Nanos {
        Nanos(self.0)
    }
}

/// All packets inside one engine, up to a fixed number.
#[derive(Debug)]
pub struct Pool {
    slots: Vec<Slot>,
    /// The first free slot, or [`NONE`].
    free: u32,
    /// Number of packets inside.
    live: u32,
    capacity: u32,
}

impl Pool {
    /// An empty pool that holds at most `capacity` packets. It allocates memory as needed.
    pub fn new(capacity: u32) -> Self {
        Self { slots: Vec::new(), free: NONE, live: 0, capacity: capacity.min(NONE - 1) }
    }

    /// Stores a packet. Returns the packet if the pool is full.
    #[inline]
    pub fn insert(&mut self, packet: Packet) -> Result<PacketId, Packet> {
        let Some(id) = self.allocate() else { return Err(packet) };
        let slot = &mut self.slots[id.0 as usize];
        (slot.packet, slot.mark) = (packet, None);
        slot.hosts_then_due = HostsThenDue::waiting([0; 2]);
        Ok(id)
    }

    /// Allocates a slot with undefined contents; `None` if the pool is full. The caller fills it
    /// field by field, which avoids copying a descriptor that has just been written: the copy would
    /// stall the processor.
    #[inline]
    pub(crate) fn allocate(&mut self) -> Option<PacketId> {
        let id = self.free;
        let Some(slot) = self.slots.get(id as usize).filter(|_| self.live < self.capacity) else {
            return self.grow();
        };
        self.free = slot.next;
        self.live += 1;
        Some(PacketId(id))
    }

    /// Adds a slot and returns its number; `None` if the pool is full.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Option<PacketId> {
        let id = self.slots.len() as u32;
        if self.live >= self.capacity {
            return None;
        }
        let packet = Packet::default();
        let slot = Slot {
            packet,
            hosts_then_due: HostsThenDue::waiting([0; 2]),
            hash_then_corruption: HashThenCorruption::waiting(0),
            next: NONE,
            next_len: 0,
            duplicate: false,
            dscp: 0,
            mark: None,
        };
        self.slots.push(slot);
        self.live += 1;
        Some(PacketId(id))
    }

    /// Removes a packet.
    #[inline]
    pub fn remove(&mut self, id: PacketId) -> Packet {
        let slot = &mut self.slots[id.0 as usize];
        slot.next = self.free;
        self.free = id.0;
        self.live -= 1;
        slot.packet
    }

    /// Removes a packet that has passed the delay line. Returns it with the values of
    /// [`Self::set_crossed`] and the reason of its mark.
    #[inline]
    pub(crate) fn depart(&mut self, id: PacketId) -> (Packet, Crossed, Option<MarkReason>) {
        let slot = &mut self.slots[id.0 as usize];
        slot.next = self.free;
        self.free = id.0;
        self.live -= 1;
        (slot.packet, slot.crossed(), slot.mark)
    }

    /// The packet `id`.
    #[inline]
    pub fn get(&self, id: PacketId) -> &Packet {
        &self.slots[id.0 as usize].packet
    }

    /// The packet `id`, mutable.
    #[inline]
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.slots[id.0 as usize].packet
    }

    /// Changes the capacity. Packets above the new capacity stay, and no other packet enters until
    /// enough have left.
    pub fn set_capacity(&mut self, capacity: u32) {
        self.capacity = capacity.min(NONE - 1);
    }

    /// Number of packets inside.
    pub fn len(&self) -> u32 {
        self.live
    }

    /// Whether the pool is empty.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The values of [`Self::set_crossed`].
    #[inline]
    pub(crate) fn crossed(&self, id: PacketId) -> Crossed {
        self.slots[id.0 as usize].crossed()
    }

    /// Records when and in which form a packet arrives at the far end of the link.
    #[inline]
    pub(crate) fn set_crossed(&mut self, id: PacketId, crossed: Crossed) {
        let slot = &mut self.slots[id.0 as usize];
        let Crossed { due, corruption, duplicate } = crossed;
        (slot.hosts_then_due, slot.duplicate) = (HostsThenDue::crossing(due), duplicate);
        slot.hash_then_corruption = HashThenCorruption::crossing(corruption);
    }

    /// Fills a slot from [`Self::allocate`].
    #[inline(always)] // Measured: see the emulator's module.
    pub(crate) fn fill(
        &mut self,
        id: PacketId,
        packet: Packet,
        header: Header,
        mark: Option<MarkReason>,
    ) {
        let slot = &mut self.slots[id.0 as usize];
        slot.packet = packet;
        (slot.dscp, slot.mark) = (header.dscp, mark);
        slot.hash_then_corruption = HashThenCorruption::waiting(header.hash);
        slot.hosts_then_due = HostsThenDue::waiting([0; 2]);
    }

    /// Sets the hashes of a waiting packet's source and destination address, 0 for unknown.
    #[inline]
    pub fn set_hosts(&mut self, id: PacketId, hosts: [u32; 2]) {
        self.slots[id.0 as usize].hosts_then_due = HostsThenDue::waiting(hosts);
    }

    /// Sets the header fields of a packet from [`Self::insert`].
    pub fn set_header(&mut self, id: PacketId, header: Header) {
        let slot = &mut self.slots[id.0 as usize];
        (slot.packet.ecn, slot.dscp) = (header.ecn, header.dscp);
        slot.hash_then_corruption = HashThenCorruption::waiting(header.hash);
    }

    /// The reason of the packet's mark, if it is marked.
    #[inline]
    pub fn mark_of(&self, id: PacketId) -> Option<MarkReason> {
        self.slots[id.0 as usize].mark
    }
}

impl Store for Pool {
    #[inline]
    fn len(&self, id: PacketId) -> u32 {
        self.get(id).len
    }

    #[inline]
    fn flow(&self, id: PacketId) -> u32 {
        self.get(id).flow
    }

    #[inline]
    fn label(&self, id: PacketId) -> u64 {
        self.get(id).label_then_start.label()
    }

    #[inline]
    fn header(&self, id: PacketId) -> Header {
        let slot = &self.slots[id.0 as usize];
        Header { ecn: slot.packet.ecn, dscp: slot.dscp, hash: slot.hash_then_corruption.hash() }
    }

    #[inline]
    fn hosts(&self, id: PacketId) -> [u32; 2] {
        self.slots[id.0 as usize].hosts_then_due.hosts()
    }

    #[inline]
    fn arrived(&self, id: PacketId) -> Nanos {
        self.get(id).arrived
    }

    #[inline]
    fn mark(&mut self, id: PacketId, reason: MarkReason) {
        self.slots[id.0 as usize].mark.get_or_insert(reason);
    }

    #[inline]
    fn next(&self, id: PacketId) -> (u32, u32) {
        let slot = &self.slots[id.0 as usize];
        (slot.next, slot.next_len)
    }

    #[inline]
    fn set_next(&mut self, id: PacketId, next: u32, len: u32) {
        let slot = &mut self.slots[id.0 as usize];
        (slot.next, slot.next_len) = (next, len);
    }

    #[inline]
    fn prefetch(&self, id: PacketId) {
        prefetch::read(&self.slots, id.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::PacketList;

    #[test]
    fn a_full_pool_gives_the_packet_back_and_reuses_slots() {
        let mut pool = Pool::new(2);
        let a = pool.insert(Packet { frame: 1, ..Packet::default() }).unwrap();
        pool.insert(Packet { frame: 2, ..Packet::default() }).unwrap();
        assert_eq!(pool.insert(Packet { frame: 3, ..Packet::default() }).unwrap_err().frame, 3);
        assert_eq!(pool.remove(a).frame, 1);
        let c = pool.insert(Packet { frame: 4, ..Packet::default() }).unwrap();
        assert_eq!((c, pool.len()), (a, 2));
    }

    #[test]
    fn a_list_keeps_order() {
        let mut pool = Pool::new(8);
        let mut list = PacketList::default();
        for frame in 0..5 {
            let id = pool.insert(Packet { frame, ..Packet::default() }).unwrap();
            list.push_back(&mut pool, id);
        }
        let mut seen = alloc::vec::Vec::new();
        while let Some(id) = list.pop_front(&pool) {
            seen.push(pool.remove(id).frame);
        }
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        assert!(list.is_empty() && pool.is_empty());
    }
}
