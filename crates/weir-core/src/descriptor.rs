//! Packets without an engine: descriptors of 16 bytes, for schedulers that run alone.

use alloc::vec::Vec;

use crate::packet::{Header, NONE, PacketId, Store};
use crate::prefetch;
use crate::stats::MarkReason;
use crate::units::Nanos;

/// A packet: its length, its flow, and its successor in a list.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
struct Descriptor {
    /// The successor in the packet's list; for a free descriptor, the next free descriptor.
    next: u32,
    /// The length of the successor.
    next_len: u32,
    len: u32,
    flow: u32,
}

const _: () = assert!(size_of::<Descriptor>() == 16, "four packets fill one cache line");

/// Descriptors of packets, and a list of free descriptors. The most recently freed descriptor is
/// reused first, because it is still in the cache.
#[derive(Debug)]
pub struct Descriptors {
    all: Vec<Descriptor>,
    /// The first free descriptor, or [`NONE`].
    free: u32,
}

impl Descriptors {
    /// An empty store with room for `expected` packets. It grows when needed.
    pub fn new(expected: usize) -> Self {
        Self { all: Vec::with_capacity(expected), free: NONE }
    }

    /// Stores a packet of `len` bytes of flow `flow`.
    #[inline]
    pub fn allocate(&mut self, len: u32, flow: u32) -> PacketId {
        let id = self.free;
        if let Some(descriptor) = self.all.get_mut(id as usize) {
            self.free = descriptor.next;
            (descriptor.len, descriptor.flow) = (len, flow);
            return PacketId(id);
        }
        self.grow(len, flow)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, len: u32, flow: u32) -> PacketId {
        self.all.push(Descriptor { next: NONE, next_len: 0, len, flow });
        PacketId((self.all.len() - 1) as u32)
    }

    /// Frees a packet's descriptor and returns the packet's length and flow.
    #[inline]
    pub fn release(&mut self, id: PacketId) -> (u32, u32) {
        let descriptor = &mut self.all[id.0 as usize];
        descriptor.next = self.free;
        self.free = id.0;
        (descriptor.len, descriptor.flow)
    }
}

impl Store for Descriptors {
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
        Header { hash: self.flow(id), ..Header::default() }
    }

    fn arrived(&self, _id: PacketId) -> Nanos {
        Nanos::ZERO
    }

    fn mark(&mut self, _id: PacketId, _reason: MarkReason) {}

    #[inline]
    fn next(&self, id: PacketId) -> (u32, u32) {
        let descriptor = &self.all[id.0 as usize];
        (descriptor.next, descriptor.next_len)
    }

    #[inline]
    fn set_next(&mut self, id: PacketId, next: u32, len: u32) {
        let descriptor = &mut self.all[id.0 as usize];
        (descriptor.next, descriptor.next_len) = (next, len);
    }

    #[inline]
    fn prefetch(&self, id: PacketId) {
        prefetch::read(&self.all, id.0);
    }
}
