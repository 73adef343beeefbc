//! Frame storage: the bytes behind the `u32` handles that the engine carries.
//!
//! A handle consists of 20 bits for a slot and 12 bits for a segment. The slot identifies a frame.
//! If the frame is an offload train that was cut into wire packets, the segment identifies one of
//! these packets. The segments of a train and the copies of a duplicated packet share one frame,
//! which lives until its last reference is released. Buffers come in three sizes and are recycled,
//! most recently used first, so that a busy loop stays in the cache.
//!
//! **Invariant:** the stored frames, the records of frames and packets, and the free buffers
//! together never hold more bytes than the budget, except for the records of references that
//! [`Arena::retain`] adds. A frame that would exceed the budget is refused. Free buffers never
//! cause a refusal, because the arena frees them when frames need their bytes.

use weir_wire::{Parsed, Train, VnetHeader};

use crate::journey::Journey;

/// Bytes left free in front of a received frame. The loop inserts a VLAN tag there if the kernel
/// removed one.
pub const HEADROOM: usize = 16;
/// Bytes of a small buffer, which holds a frame of up to `SMALL - HEADROOM` bytes.
pub const SMALL: usize = 2048;
/// Maximum number of segments of a train: handles cannot distinguish more.
pub const MAX_SEGMENTS: usize = 1 << SEGMENT_BITS;

/// A piece of memory for one frame.
#[derive(Debug)]
pub struct Buffer(Box<[u8]>);

impl Buffer {
    /// All bytes of the buffer.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// All bytes of the buffer, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Unused buffers, by size.
#[derive(Debug)]
pub struct BufferPool {
    free: [Vec<Buffer>; SIZES.len()],
    /// Bytes of the unused buffers.
    bytes: usize,
    /// Maximum number of bytes of unused buffers.
    limit: usize,
}

impl Default for BufferPool {
    /// A pool that keeps every buffer.
    fn default() -> Self {
        Self { free: Default::default(), bytes: 0, limit: usize::MAX }
    }
}

impl BufferPool {
    /// Bytes of the unused buffers.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets the limit on the bytes of unused buffers, and frees buffers beyond the limit, the
    /// largest first.
    fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        for class in (0..SIZES.len()).rev() {
            while self.bytes > limit && self.pop(class).is_some() {}
        }
    }

    fn pop(&mut self, class: usize) -> Option<Buffer> {
        let buffer = self.free[class].pop()?;
        self.bytes -= SIZES[class];
        Some(buffer)
    }

    /// Returns a buffer of at least `bytes` bytes, or of the largest size when `bytes` exceeds that
    /// size. Its content is arbitrary.
    pub fn take(&mut self, bytes: usize) -> Buffer {
        let class = SIZES.iter().position(|&size| size >= bytes).unwrap_or(SIZES.len() - 1);
        self.pop(class).unwrap_or_else(|| Buffer(vec![0; SIZES[class]].into_boxed_slice()))
    }

    /// Returns an unused buffer of at least `bytes` bytes, or `None` when the pool has none. Its
    /// content is arbitrary.
    pub fn take_used(&mut self, bytes: usize) -> Option<Buffer> {
        let class = SIZES.iter().position(|&size| size >= bytes)?;
        self.pop(class)
    }

    /// Returns a buffer to the pool, or frees it if the pool may hold no more.
    pub fn give(&mut self, buffer: Buffer) {
        if let Some(class) = SIZES.iter().position(|&size| size == buffer.0.len())
            && self.bytes.saturating_add(SIZES[class]) <= self.limit
        {
            self.bytes += SIZES[class];
            self.free[class].push(buffer);
        }
    }
}

/// A stored frame with its headers, its lane and its packet sizes.
#[derive(Debug)]
pub struct Frame {
    /// The memory that holds the frame.
    pub buffer: Buffer,
    /// Offset of the frame in `buffer`.
    pub start: usize,
    /// Bytes of the frame, from the link-layer header on.
    pub len: usize,
    /// Offload state: a partial checksum, or a train.
    pub vnet: VnetHeader,
    /// The positions of the frame's headers; `None` when they are malformed.
    pub parsed: Option<Parsed>,
    /// The plan to cut the frame into wire packets; `None` for a frame that is not cut.
    pub train: Option<Train>,
    /// The lane on which the frame was received.
    pub lane: u16,
    /// Wire packets that one reference represents: 1, or all packets of a train kept whole.
    pub weight: u16,
    /// Network-layer bytes of a frame that is not cut. For a train kept whole: the sum over its
    /// wire packets, each with its own headers.
    pub wire_len: u32,
    /// The progress of each packet through the rules, by segment. Empty while no packet of the
    /// frame needs it.
    pub journeys: Vec<Journey>,
}

impl Frame {
    /// The frame's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.0[self.start..self.start + self.len]
    }

    /// Network-layer bytes of the packet that a reference to `segment` represents.
    pub fn packet_bytes(&self, segment: u16) -> u32 {
        self.train.as_ref().map_or(self.wire_len, |train| train.segment_len(segment))
    }

    /// The frame's bytes, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.0[self.start..self.start + self.len]
    }
}

/// All stored frames.
#[derive(Debug)]
pub struct Arena {
    slots: Vec<Slot>,
    /// The empty slots.
    free: Vec<u32>,
    /// Number of bytes of the budget that all frames take.
    held: usize,
    /// Maximum of `held`.
    budget: usize,
    /// Unused buffers.
    pub pool: BufferPool,
}

/// A slot of the arena: a frame with its number of references, or empty.
#[derive(Debug, Default)]
struct Slot {
    frame: Option<Frame>,
    references: u32,
    /// Number of bytes of the budget that the frame takes.
    cost: usize,
}

impl Arena {
    /// An empty arena. Its frames and free buffers take at most `budget` bytes.
    pub fn new(budget: usize) -> Self {
        let pool = BufferPool { limit: budget, ..BufferPool::default() };
        Self { slots: Vec::new(), free: Vec::new(), held: 0, budget, pool }
    }

    /// Number of bytes of the budget that a frame takes, given a buffer of `bytes` bytes and
    /// `references` packets.
    pub const fn cost(bytes: usize, references: u32) -> usize {
        bytes + size_of::<Slot>() + references as usize * PACKET
    }

    /// Stores a frame with `references` references, which must not be 0, and returns its slot. If
    /// the frame does not fit, the arena discards it and recycles its buffer.
    ///
    /// # Errors
    /// The budget or the number of slots is used up.
    pub fn store(&mut self, frame: Frame, references: u32) -> Result<u32, NoRoom> {
        let cost = Self::cost(frame.buffer.0.len(), references);
        if self.held + cost > self.budget || (self.free.is_empty() && self.slots.len() >= MAX_SLOTS)
        {
            self.pool.give(frame.buffer);
            return Err(NoRoom);
        }
        self.set_held(self.held + cost);
        let slot = Slot { frame: Some(frame), references, cost };
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = slot;
            return Ok(index);
        }
        self.slots.push(slot);
        Ok((self.slots.len() - 1) as u32)
    }

    /// The frame in a slot; `None` after its release.
    pub fn get(&self, slot: u32) -> Option<&Frame> {
        self.slots.get(slot as usize)?.frame.as_ref()
    }

    /// The frame in a slot, mutable; `None` after its release. Changes apply to all references.
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut Frame> {
        self.slots.get_mut(slot as usize)?.frame.as_mut()
    }

    /// The number of references to a slot.
    pub fn references(&self, slot: u32) -> u32 {
        self.slots.get(slot as usize).map_or(0, |slot| slot.references)
    }

    /// Removes a frame together with all its references; `None` after its release.
    pub fn take(&mut self, slot: u32) -> Option<Frame> {
        let entry = self.slots.get_mut(slot as usize)?;
        let frame = entry.frame.take()?;
        entry.references = 0;
        let cost = entry.cost;
        self.set_held(self.held - cost);
        self.free.push(slot);
        Some(frame)
    }

    /// Sets the number of bytes of the budget that stored frames take. The free buffers may take
    /// the remaining bytes.
    #[inline]
    fn set_held(&mut self, bytes: usize) {
        self.held = bytes;
        let rest = self.budget.saturating_sub(bytes);
        if rest < self.pool.bytes {
            self.pool.set_limit(rest);
        }
        self.pool.limit = rest;
    }

    /// The frame in a slot, mutable, if it has exactly one reference.
    pub fn get_exclusive(&mut self, slot: u32) -> Option<&mut Frame> {
        let slot = self.slots.get_mut(slot as usize)?;
        if slot.references == 1 { slot.frame.as_mut() } else { None }
    }

    /// Adds `count` references to a slot in use.
    pub fn retain(&mut self, slot: u32, count: u32) {
        let entry = &mut self.slots[slot as usize];
        entry.references += count;
        let more = count as usize * PACKET;
        entry.cost += more;
        self.set_held(self.held + more);
    }

    /// Removes `count` references; the last one releases the frame.
    pub fn release(&mut self, slot: u32, count: u32) {
        let entry = &mut self.slots[slot as usize];
        debug_assert!(entry.references >= count, "a frame was released more often than referenced");
        entry.references = entry.references.saturating_sub(count);
        if entry.references == 0
            && let Some(frame) = entry.frame.take()
        {
            let cost = entry.cost;
            self.set_held(self.held - cost);
            self.pool.give(frame.buffer);
            self.free.push(slot);
        }
    }

    /// Number of bytes of the budget that the stored frames take.
    pub fn held(&self) -> usize {
        self.held
    }
}

/// The arena has no room for the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// The handle of segment `segment` of the frame in `slot`.
pub fn handle(slot: u32, segment: u16) -> u32 {
    slot << SEGMENT_BITS | u32::from(segment)
}

/// Slot and segment of a handle.
pub fn unpack(handle: u32) -> (u32, u16) {
    (handle >> SEGMENT_BITS, (handle & (MAX_SEGMENTS as u32 - 1)) as u16)
}

/// Bytes of a packet's records: its progress through the rules, and its descriptor in the engine
/// with its entries in queues and in the queue of the port.
const PACKET: usize = size_of::<Journey>() + DESCRIPTORS;
/// Bytes of a packet's descriptors. Only one descriptor of a packet is in use at a time, but the
/// vectors that hold descriptors may be half empty.
const DESCRIPTORS: usize = 160;
const SEGMENT_BITS: u32 = 12;
const MAX_SLOTS: usize = 1 << (32 - SEGMENT_BITS);
/// Sizes of the buffers: small for ordinary frames, medium for jumbo frames and short trains, large
/// for the longest train of the kernel, with 64 KiB of payload and its headers. A receive call
/// writes the first 2 KiB of a train to a small buffer. The remaining bytes go to a large buffer,
/// in which the first 2 KiB stay free.
const SIZES: [usize; 3] = [SMALL, 10 * 1024, 68 * 1024];

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(arena: &mut Arena, bytes: usize) -> Frame {
        let buffer = arena.pool.take(bytes);
        Frame {
            buffer,
            start: 0,
            len: bytes,
            vnet: VnetHeader::default(),
            parsed: None,
            train: None,
            lane: 0,
            weight: 1,
            wire_len: 0,
            journeys: Vec::new(),
        }
    }

    #[test]
    fn a_frame_lives_until_its_last_reference_and_the_budget_holds() {
        let mut arena = Arena::new(Arena::cost(SMALL, 2) + Arena::cost(SMALL, 1));
        let first = frame(&mut arena, 100);
        let a = arena.store(first, 2).unwrap();
        let second = frame(&mut arena, 100);
        let b = arena.store(second, 1).unwrap();
        let third = frame(&mut arena, 100);
        assert_eq!(arena.store(third, 1), Err(NoRoom));
        arena.release(a, 1);
        assert!(arena.get(a).is_some());
        arena.release(a, 1);
        assert!(arena.get(a).is_none());
        arena.release(b, 1);
        assert_eq!(arena.held(), 0);
    }

    #[test]
    fn a_shared_frame_is_not_exclusive() {
        let mut arena = Arena::new(1 << 20);
        let shared = frame(&mut arena, 100);
        let slot = arena.store(shared, 1).unwrap();
        arena.retain(slot, 1);
        assert!(arena.get_exclusive(slot).is_none());
        arena.release(slot, 1);
        assert!(arena.get_exclusive(slot).is_some());
    }

    #[test]
    fn a_removed_frame_frees_its_slot_and_its_bytes() {
        let mut arena = Arena::new(Arena::cost(SMALL, 3));
        let first = frame(&mut arena, 100);
        let slot = arena.store(first, 3).unwrap();
        assert_eq!(arena.references(slot), 3);
        let taken = arena.take(slot).unwrap();
        assert_eq!(
            (arena.held(), arena.references(slot), arena.get(slot).is_some()),
            (0, 0, false)
        );
        assert!(arena.take(slot).is_none());
        assert_eq!(arena.store(taken, 1), Ok(slot));
    }

    #[test]
    fn bursts_of_mixed_lengths_stay_within_the_budget() {
        const BUDGET: usize = 4 << 20;
        let mut arena = Arena::new(BUDGET);
        let mut most = 0;
        for len in [100, 9_000, 60_000, 100, 60_000, 9_000, 100] {
            let mut stored = Vec::new();
            while let Ok(slot) = {
                let next = frame(&mut arena, len);
                arena.store(next, 1)
            } {
                stored.push(slot);
                most = most.max(arena.held() + arena.pool.bytes());
            }
            let used = stored.len() * Arena::cost(arena.get(stored[0]).unwrap().buffer.0.len(), 1);
            assert!(used > BUDGET - Arena::cost(SIZES[2], 1), "{len}: {used} bytes are used");
            for slot in stored {
                arena.release(slot, 1);
                most = most.max(arena.held() + arena.pool.bytes());
            }
            assert_eq!(arena.held(), 0);
        }
        assert!(most <= BUDGET, "{most} bytes");
    }

    #[test]
    fn handles_hold_slot_and_segment() {
        assert_eq!(unpack(handle(MAX_SLOTS as u32 - 1, 4095)), (MAX_SLOTS as u32 - 1, 4095));
        assert_eq!(unpack(handle(7, 0)), (7, 0));
    }

    #[test]
    fn buffers_are_at_least_as_large_as_asked_and_reused() {
        let mut pool = BufferPool::default();
        let buffer = pool.take(9000);
        assert_eq!(buffer.bytes().len(), 10 * 1024);
        let place = buffer.bytes().as_ptr();
        pool.give(buffer);
        assert_eq!(pool.take(3000).bytes().as_ptr(), place);
    }
}
