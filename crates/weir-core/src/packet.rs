//! Packet descriptors, the pool that holds them, and lists of them.
//!
//! A descriptor is 32 bytes and is addressed by a `u32`. Frame bytes never enter the engine: `frame` is the driver's own handle.

use alloc::vec::Vec;

use crate::units::Nanos;

/// Index of a packet in its [`Pool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketId(u32);

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

/// What the engine knows of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet {
    /// The driver's handle of the frame.
    pub frame: u32,
    /// Length in bytes from the network-layer header on; what a rate counts before framing overhead.
    pub len: u32,
    /// The flow (queue) the packet belongs to.
    pub flow: u32,
    /// How many wire packets the descriptor stands for; more than one only when an offload train is kept whole.
    pub segments: u16,
    /// Bytes of link-layer header in front of the network layer.
    pub link_header: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// When the packet was submitted.
    pub arrived: Nanos,
    /// When the packet left its queue.
    pub dequeued: Nanos,
}

const _: () = assert!(size_of::<Packet>() == 32);

/// All packets inside one engine, up to a fixed number.
#[derive(Debug)]
pub struct Pool {
    packets: Vec<Packet>,
    /// Successor of each packet in the list it is in; for free slots, the next free one.
    next: Vec<u32>,
    free: u32,
    live: u32,
    capacity: u32,
}

impl Pool {
    /// An empty pool that holds at most `capacity` packets. Memory is taken as it is needed.
    pub fn new(capacity: u32) -> Self {
        Self { packets: Vec::new(), next: Vec::new(), free: NONE, live: 0, capacity: capacity.min(NONE - 1) }
    }

    /// Stores a packet, or gives it back when the pool is full.
    pub fn insert(&mut self, packet: Packet) -> Result<PacketId, Packet> {
        if self.free != NONE {
            let id = self.free;
            self.free = self.next[id as usize];
            self.packets[id as usize] = packet;
            self.live += 1;
            return Ok(PacketId(id));
        }
        if self.packets.len() as u32 >= self.capacity {
            return Err(packet);
        }
        let id = self.packets.len() as u32;
        self.packets.push(packet);
        self.next.push(NONE);
        self.live += 1;
        Ok(PacketId(id))
    }

    /// Takes a packet out.
    pub fn remove(&mut self, id: PacketId) -> Packet {
        self.next[id.0 as usize] = self.free;
        self.free = id.0;
        self.live -= 1;
        self.packets[id.0 as usize]
    }

    /// The packet `id`.
    pub fn get(&self, id: PacketId) -> &Packet {
        &self.packets[id.0 as usize]
    }

    /// The packet `id`, to change.
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.packets[id.0 as usize]
    }

    /// How many packets are inside.
    pub fn len(&self) -> u32 {
        self.live
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }
}

/// A first-in first-out list of packets, threaded through the pool.
#[derive(Clone, Copy, Debug)]
pub struct PacketList {
    head: u32,
    tail: u32,
}

impl Default for PacketList {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl PacketList {
    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// The first packet.
    pub fn front(&self) -> Option<PacketId> {
        (self.head != NONE).then_some(PacketId(self.head))
    }

    /// Appends a packet.
    pub fn push_back(&mut self, pool: &mut Pool, id: PacketId) {
        pool.next[id.0 as usize] = NONE;
        if self.head == NONE {
            self.head = id.0;
        } else {
            pool.next[self.tail as usize] = id.0;
        }
        self.tail = id.0;
    }

    /// Takes the first packet.
    pub fn pop_front(&mut self, pool: &Pool) -> Option<PacketId> {
        let id = self.front()?;
        self.head = pool.next[id.0 as usize];
        Some(id)
    }
}

/// No packet.
const NONE: u32 = u32::MAX;

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
