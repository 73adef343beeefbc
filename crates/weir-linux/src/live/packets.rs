//! The packets inside a worker: the frames in its arena, and the accounting of its lanes.

use weir_core::Nanos;
use weir_core::stats::DropReason;
use weir_wire::{ChecksumMode, VnetHeader, set_ce};

use super::describe::{Described, describe};
use super::item::{Item, Lost};
use super::lane::Lane;
use super::observe::{ArrivalEvent, DepartureEvent, Outcome};
use super::tap::Tap;
use super::wire::{alter, materialise};
use crate::arena::{Arena, BufferPool, Frame, NoRoom};
use crate::port::Ingress;

/// The frames in memory, the lanes, and the tap that shows packets to the observer.
#[derive(Debug)]
pub(super) struct Packets {
    arena: Arena,
    lanes: Vec<Lane>,
    tap: Option<Tap>,
    scratch: Vec<u8>,
}

/// A received frame in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub(super) slot: u32,
    /// Number of references to the frame: one for each packet that the engine handles separately.
    pub(super) references: u16,
}

impl Packets {
    pub(super) fn new(memory: usize, lanes: Vec<Lane>, tap: Option<Tap>) -> Self {
        Self { arena: Arena::new(memory), lanes, tap, scratch: Vec::new() }
    }

    /// Takes a frame that arrived on `lane` at `now`. Returns the number of packets in the frame,
    /// and the stored frame, or `None` if the frame was dropped.
    pub(super) fn accept(
        &mut self,
        now: Nanos,
        lane: u16,
        ingress: Ingress,
    ) -> (u16, Option<Stored>) {
        let accounting = &mut self.lanes[usize::from(lane)];
        let described = match describe(lane, accounting.config().gso, ingress) {
            Ok(described) => described,
            Err(ingress) => {
                accounting.arrived(1, ingress.len as u32);
                accounting.dropped(DropReason::BadFrame, 1, ingress.len as u32);
                self.arena.pool.give(ingress.buffer);
                return (1, None);
            }
        };
        let Described { frame, packets, bytes } = described;
        accounting.arrived(packets, bytes);
        if let Some(tap) = self.tap.as_mut().filter(|tap| tap.wants_arrivals()) {
            tap.arrival(&ArrivalEvent { lane, at: now, frame: frame.bytes(), segments: packets });
        }
        let references = if frame.train.is_some() { packets } else { 1 };
        let stored = self.arena.store(frame, u32::from(references));
        if stored.is_err() {
            accounting.dropped(DropReason::NoMemory, packets, bytes);
        }
        (packets, stored.ok().map(|slot| Stored { slot, references }))
    }

    /// Stores a frame that another worker received.
    ///
    /// # Errors
    /// The arena has no room. The frame is discarded; the caller counts the drop.
    pub(super) fn adopt(&mut self, frame: Frame, references: u16) -> Result<u32, NoRoom> {
        self.arena.store(frame, u32::from(references))
    }

    /// Removes a frame with all its references, so that it can be handed over to another worker.
    pub(super) fn take(&mut self, slot: u32) -> Option<Frame> {
        self.arena.take(slot)
    }

    /// Buffers that are not in use.
    pub(super) fn pool(&mut self) -> &mut BufferPool {
        &mut self.arena.pool
    }

    pub(super) fn frame(&self, slot: u32) -> Option<&Frame> {
        self.arena.get(slot)
    }

    /// The frame in a slot, for changes that apply to all its packets.
    pub(super) fn frame_mut(&mut self, slot: u32) -> Option<&mut Frame> {
        self.arena.get_mut(slot)
    }

    /// The frame in a slot, for changes, if it has a single reference.
    pub(super) fn exclusive(&mut self, slot: u32) -> Option<&mut Frame> {
        self.arena.get_exclusive(slot)
    }

    pub(super) fn references(&self, slot: u32) -> u32 {
        self.arena.references(slot)
    }

    /// Adds a reference to a frame, for a copy of one of its packets.
    pub(super) fn retain(&mut self, slot: u32) {
        self.arena.retain(slot, 1);
    }

    pub(super) fn lane(&self, lane: u16) -> &Lane {
        &self.lanes[usize::from(lane)]
    }

    pub(super) fn lane_mut(&mut self, lane: u16) -> &mut Lane {
        &mut self.lanes[usize::from(lane)]
    }

    pub(super) fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    pub(super) fn tap_mut(&mut self) -> Option<&mut Tap> {
        self.tap.as_mut()
    }

    pub(super) fn tap_and_lanes(&mut self) -> Option<(&mut Tap, &mut [Lane])> {
        Some((self.tap.as_mut()?, &mut self.lanes))
    }

    /// Number of frames that the observer missed because it was too slow.
    pub(super) fn unobserved(&self) -> u64 {
        self.tap.as_ref().map_or(0, Tap::missed)
    }

    /// Marks or corrupts a packet: in place if the frame is not a train and has no other reference,
    /// otherwise in a copy that takes over the reference. Returns the slot of the changed packet,
    /// or `None` if there is no memory for the copy.
    pub(super) fn change(
        &mut self,
        slot: u32,
        segment: u16,
        mark: bool,
        corrupt: Option<u32>,
    ) -> Option<u32> {
        let in_place = self.arena.get_exclusive(slot).is_some_and(|frame| frame.train.is_none());
        let slot = if in_place { slot } else { self.move_out(slot, segment, mark)? };
        alter(self.arena.get_mut(slot)?, mark, corrupt);
        Some(slot)
    }

    /// Moves a packet out of a shared frame into a separate frame, which takes over the packet's
    /// reference. Returns the new slot, or `None` if there is no memory.
    pub(super) fn move_out(&mut self, slot: u32, segment: u16, marked: bool) -> Option<u32> {
        let copy = self.copy_out(slot, segment, marked)?;
        self.arena.release(slot, 1);
        Some(copy)
    }

    /// Copies a packet into a separate frame, and sets congestion experienced there if the packet
    /// is `marked`. The shared frame of a train does not carry the mark. Returns the new slot, or
    /// `None` if there is no memory.
    pub(super) fn copy_out(&mut self, slot: u32, segment: u16, marked: bool) -> Option<u32> {
        let frame = self.arena.get(slot)?;
        let (original_vnet, original_parsed) = (frame.vnet, frame.parsed);
        let wire_len = frame.packet_bytes(segment);
        let (lane, weight, is_train) = (frame.lane, frame.weight, frame.train.is_some());
        if is_train {
            materialise(frame, segment, ChecksumMode::Complete, &mut self.scratch)?;
        } else {
            self.scratch.clear();
            self.scratch.extend_from_slice(frame.bytes());
        }
        let len = self.scratch.len();
        let mut buffer = self.arena.pool.take(len);
        buffer.bytes_mut()[..len].copy_from_slice(&self.scratch);
        let (parsed, vnet) = if is_train {
            (weir_wire::parse(&buffer.bytes()[..len]).ok(), VnetHeader::default())
        } else {
            (original_parsed, original_vnet)
        };
        if let (true, Some(parsed)) = (marked, &parsed) {
            set_ce(&mut buffer.bytes_mut()[..len], parsed);
        }
        let copy = Frame {
            buffer,
            start: 0,
            len,
            vnet,
            parsed,
            train: None,
            lane,
            weight,
            wire_len,
            journeys: Vec::new(),
        };
        self.arena.store(copy, 1).ok()
    }

    /// Accounts for an item that the kernel accepted for transmission.
    pub(super) fn sent(&mut self, item: Item, now: Nanos) {
        let lane = &mut self.lanes[usize::from(item.lane)];
        lane.sent(item.due, now, item.packets, item.bytes);
        lane.changed(item.mark, item.corrupted.is_some(), item.packets);
        let outcome = Outcome::Delivered {
            marked: item.mark.is_some(),
            corrupted: item.corrupted,
            duplicate: item.duplicate,
        };
        self.observe(&item, now, outcome);
        self.arena.release(item.slot, u32::from(item.count));
    }

    /// Accounts for an item that was not sent.
    pub(super) fn unsent(&mut self, item: Item, reason: DropReason, now: Nanos) {
        self.lanes[usize::from(item.lane)].dropped(reason, item.packets, item.bytes);
        self.observe(&item, now, Outcome::Dropped(reason));
        self.arena.release(item.slot, u32::from(item.count));
    }

    /// Accounts for a packet that was lost before it reached a port.
    pub(super) fn lost(&mut self, slot: u32, segment: u16, lost: Lost) {
        let Some(frame) = self.arena.get(slot) else {
            debug_assert!(false, "a loss names a frame that is gone");
            return;
        };
        let Lost { reason, at, due, arrived, dequeued } = lost;
        let (lane, packets, bytes) = (frame.lane, frame.weight, frame.packet_bytes(segment));
        let item = Item {
            slot,
            first: segment,
            count: 1,
            lane,
            packets,
            bytes,
            due,
            arrived,
            dequeued,
            ready: at,
            mark: None,
            corrupted: None,
            duplicate: false,
        };
        self.unsent(item, reason, at);
    }

    /// Number of bytes of the memory budget that the stored frames take.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.arena.held()
    }

    #[cfg(test)]
    pub(super) fn release(&mut self, slot: u32) {
        self.arena.release(slot, 1);
    }

    /// Shows each packet of an item to the observer, if it wants packets with this outcome.
    #[inline]
    fn observe(&mut self, item: &Item, at: Nanos, outcome: Outcome) {
        if self.tap.as_ref().is_some_and(|tap| tap.wants(outcome)) {
            self.show(item, at, outcome);
        }
    }

    fn show(&mut self, item: &Item, at: Nanos, outcome: Outcome) {
        let (Some(tap), Some(frame)) = (&mut self.tap, self.arena.get(item.slot)) else { return };
        for segment in item.first..item.first + item.count {
            if materialise(frame, segment, ChecksumMode::Complete, &mut self.scratch).is_none() {
                continue;
            }
            // The frame of a train is shared, so it is not marked itself. The mark is set on each
            // packet: when it is sent, and here for the observer.
            if item.mark.is_some()
                && frame.train.is_some()
                && let Some(parsed) = &frame.parsed
            {
                set_ce(&mut self.scratch, parsed);
            }
            let Item { lane, due, arrived, dequeued, .. } = *item;
            tap.departure(&DepartureEvent {
                lane,
                at,
                due,
                arrived,
                dequeued,
                outcome,
                frame: &self.scratch,
            });
        }
    }
}
