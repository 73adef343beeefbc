//! Packet descriptors, the pool that holds them, and lists of them.
//!
//! A descriptor is 40 bytes and is addressed by a `u32`. Frame bytes never enter the engine:
//! `frame` is the driver's own handle.
//!
//! # Memory
//! A packet inside takes one slot of 64 bytes, one cache line, wherever it is: the list of its
//! queue and the delay line are threaded through the slots, so that neither has memory of its own.
//! Only a packet that overtakes others in the delay line takes 24 bytes more. The pool grows by
//! doubling and keeps what it has: at its peak of `n` packets it holds at most `128 × n` bytes.

use alloc::vec::Vec;

use crate::prefetch;
use crate::stats::MarkReason;
use crate::units::Nanos;

/// Index of a packet in its [`Pool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(pub(crate) u32);

/// ECN field of a packet's IP header (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable, or not IP.
    #[default]
    NotEct = 0,
    /// ECT(1), also the L4S identifier (RFC 9331).
    Ect1 = 1,
    /// ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// Whether its sender understands a mark.
    #[inline]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// What queues may look at in a packet's headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// ECN field.
    pub ecn: Ecn,
    /// Differentiated services code point, 6 bits.
    pub dscp: u8,
    /// Hash of addresses, ports and protocol; 0 where nothing on the packet's way tells flows apart
    /// by it.
    pub hash: u32,
}

/// What the engine knows of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet {
    /// The driver's handle of the frame.
    pub frame: u32,
    /// Length in bytes from the network-layer header on; what a rate counts before framing
    /// overhead.
    pub len: u32,
    /// The flow (queue) the packet belongs to.
    pub flow: u32,
    /// How many wire packets the descriptor stands for; more than one only when an offload train is
    /// kept whole.
    pub segments: u16,
    /// Bytes of link-layer header in front of the network layer.
    pub link_header: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// When the packet was submitted.
    pub arrived: Nanos,
    /// When the packet left its queue.
    pub dequeued: Nanos,
    /// What its source, or a hop before this one, says of it to schedulers that rank packets: a
    /// slack or a deadline in ns, or the bytes that its flow has still to send. 0 for nothing. Once
    /// the wire has begun with it, when that was, in ns.
    pub label: u64,
}

const _: () = assert!(size_of::<Packet>() == 40);

/// A packet's place in the pool, with what its list and the delay line keep of it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Slot {
    packet: Packet,
    /// When it arrives at the other end of the delay line.
    due: Nanos,
    /// While it waits, [`Header::hash`]. Once it is on its way over the link, the bit to invert, or
    /// [`INTACT`].
    word: u32,
    /// Successor in the list it is in; for a free slot, the next free one.
    next: u32,
    /// The successor's length.
    next_len: u32,
    duplicate: bool,
    /// [`Header::dscp`].
    dscp: u8,
    /// Why it is to be marked, if it is.
    mark: Option<MarkReason>,
}

const _: () = assert!(size_of::<Slot>() == 64, "a packet fills one cache line");

/// What happens to a packet at the end of its delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crossed {
    pub(crate) due: Nanos,
    /// The bit to invert, or [`INTACT`].
    pub(crate) corrupt: u32,
    pub(crate) duplicate: bool,
}

/// No bit is inverted.
pub(crate) const INTACT: u32 = u32::MAX;

/// All packets inside one engine, up to a fixed number.
#[derive(Debug)]
pub struct Pool {
    slots: Vec<Slot>,
    free: u32,
    live: u32,
    capacity: u32,
}

impl Pool {
    /// An empty pool that holds at most `capacity` packets. Memory is taken as it is needed.
    pub fn new(capacity: u32) -> Self {
        Self { slots: Vec::new(), free: NONE, live: 0, capacity: capacity.min(NONE - 1) }
    }

    /// Stores a packet, or gives it back when the pool is full.
    #[inline]
    pub fn insert(&mut self, packet: Packet) -> Result<PacketId, Packet> {
        let Some(id) = self.allocate() else { return Err(packet) };
        *self.get_mut(id) = packet;
        self.slots[id.0 as usize].mark = None;
        Ok(id)
    }

    /// A place for a packet, with whatever was there before; `None` when the pool is full. Who
    /// fills it field by field saves the copy of a descriptor that has just been written, for which
    /// a processor waits.
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
            due: Nanos::ZERO,
            word: INTACT,
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

    /// Takes a packet out.
    #[inline]
    pub fn remove(&mut self, id: PacketId) -> Packet {
        let slot = &mut self.slots[id.0 as usize];
        slot.next = self.free;
        self.free = id.0;
        self.live -= 1;
        slot.packet
    }

    /// Takes a packet out that has been through the delay line, with what [`Self::set_crossed`]
    /// wrote, and why it is marked, if it is.
    #[inline]
    pub(crate) fn depart(&mut self, id: PacketId) -> (Packet, Crossed, Option<MarkReason>) {
        let slot = &mut self.slots[id.0 as usize];
        slot.next = self.free;
        self.free = id.0;
        self.live -= 1;
        (
            slot.packet,
            Crossed { due: slot.due, corrupt: slot.word, duplicate: slot.duplicate },
            slot.mark,
        )
    }

    /// The packet `id`.
    #[inline]
    pub fn get(&self, id: PacketId) -> &Packet {
        &self.slots[id.0 as usize].packet
    }

    /// The packet `id`, to change.
    #[inline]
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.slots[id.0 as usize].packet
    }

    /// Changes how many packets it may hold. Those above stay; until enough have left, no other
    /// comes in.
    pub fn set_capacity(&mut self, capacity: u32) {
        self.capacity = capacity.min(NONE - 1);
    }

    /// How many packets are inside.
    pub fn len(&self) -> u32 {
        self.live
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// What was last written with [`Self::set_crossed`].
    #[inline]
    pub(crate) fn crossed(&self, id: PacketId) -> Crossed {
        let Slot { due, word, duplicate, .. } = self.slots[id.0 as usize];
        Crossed { due, corrupt: word, duplicate }
    }

    /// Writes down what happens to a packet at the end of its delay.
    #[inline]
    pub(crate) fn set_crossed(&mut self, id: PacketId, crossed: Crossed) {
        let slot = &mut self.slots[id.0 as usize];
        (slot.due, slot.word, slot.duplicate) = (crossed.due, crossed.corrupt, crossed.duplicate);
    }

    /// Fills a place that [`Self::allocate`] gave.
    #[inline(always)]
    pub(crate) fn fill(
        &mut self,
        id: PacketId,
        packet: Packet,
        header: Header,
        mark: Option<MarkReason>,
    ) {
        let slot = &mut self.slots[id.0 as usize];
        slot.packet = packet;
        (slot.dscp, slot.word, slot.mark) = (header.dscp, header.hash, mark);
    }

    /// Notes what the headers of a packet of [`Self::insert`] say.
    pub fn set_header(&mut self, id: PacketId, header: Header) {
        let slot = &mut self.slots[id.0 as usize];
        (slot.packet.ecn, slot.dscp, slot.word) = (header.ecn, header.dscp, header.hash);
    }

    /// Why the packet is to be marked, if it is.
    #[inline]
    pub fn mark_of(&self, id: PacketId) -> Option<MarkReason> {
        self.slots[id.0 as usize].mark
    }
}

/// Where packets are, as lists and schedulers see it: the [`Pool`] of an engine, or [`Descriptors`]
/// alone.
pub trait Store {
    /// Length in bytes from the network-layer header on.
    fn len(&self, id: PacketId) -> u32;

    /// Number of the flow it belongs to.
    fn flow(&self, id: PacketId) -> u32;

    /// What a source or an earlier hop says of it (see [`Packet::label`]).
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
        self.get(id).label
    }

    #[inline]
    fn header(&self, id: PacketId) -> Header {
        let Slot { packet, dscp, word, .. } = &self.slots[id.0 as usize];
        Header { ecn: packet.ecn, dscp: *dscp, hash: *word }
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

/// A first-in first-out list of packets, threaded through their store.
///
/// It knows the length of its first packet, and each packet the length of the next: whoever takes a
/// packet learns how long the one behind it is without a look at that.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketList {
    chain: Chain,
    front_len: u32,
}

impl PacketList {
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

    /// Length of the first packet in bytes. Means nothing when there is none.
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
    pub fn push_back<P: Store>(&mut self, store: &mut P, id: PacketId) {
        let len = store.len(id);
        self.push_back_of(store, id, len);
    }

    /// Appends a packet whose length the caller knows.
    #[inline]
    pub fn push_back_of<P: Store>(&mut self, store: &mut P, id: PacketId, len: u32) {
        if self.is_empty() {
            self.front_len = len;
        }
        self.chain.push_back(store, id, len);
    }

    /// Takes the packets of flow `flow` out, in order; the others keep theirs. Looks at every
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

    /// How many packets, and the sum of their lengths in bytes. Looks at every packet.
    pub fn measure<P: Store>(&self, store: &P) -> (usize, u64) {
        let (mut rest, mut packets, mut bytes) = (*self, 0, 0);
        while let Some(id) = rest.pop_front(store) {
            packets += 1;
            bytes += u64::from(store.len(id));
        }
        (packets, bytes)
    }

    /// Takes the first packet.
    #[inline]
    pub fn pop_front<P: Store>(&mut self, store: &P) -> Option<PacketId> {
        let (id, next_len) = self.chain.pop_front(store)?;
        self.front_len = next_len;
        Some(id)
    }

    /// Whether the first packet of a list that has one is the last.
    #[inline]
    pub fn is_single(&self) -> bool {
        self.chain.head == self.chain.tail
    }

    /// Takes the first packet of a list that the caller knows to have several.
    ///
    /// # Panics
    /// May panic when there is none.
    #[inline]
    pub fn take_one<P: Store>(&mut self, store: &P) -> PacketId {
        let id = PacketId(self.chain.head);
        (self.chain.head, self.front_len) = store.next(id);
        id
    }

    /// Takes the first packet of a list that the caller knows to have one, and says whether there
    /// are more.
    ///
    /// # Panics
    /// May panic when there is none.
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

/// A first-in first-out list of packets that does not know their lengths. Its end is told by `tail`
/// alone, so that appending writes to one packet only.
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

    /// Appends a packet; `len` is what the one before it will know of its length.
    #[inline]
    pub(crate) fn push_back<P: Store>(&mut self, store: &mut P, id: PacketId, len: u32) {
        if self.head == NONE {
            self.head = id.0;
        } else {
            store.set_next(PacketId(self.tail), id.0, len);
        }
        self.tail = id.0;
    }

    /// Takes the first packet, and gives what it knows of the next one's length.
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

/// No packet.
pub(crate) const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

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
