//! An aggregate of QFQ+: up to sixteen flows, each with the slot of virtual time in which the
//! scheduler serves it next.
//!
//! ```text
//! 63           48 47           32 31           16 15            0
//! |  3 slots on   |  2 slots on   |  next slot    |  this slot    |      one bit for each flow
//! ```
//! After its turn a flow starts in the next slot, so that two slots are usually enough. More slots
//! are needed when an aggregate waits for the transmission of packets much longer than its own, and
//! other flows of the aggregate become busy meanwhile. A flow that starts more than three slots
//! ahead gets a turn in the last slot, and `later` records this.

use super::groups::{Stamped, Stamps};

/// Flows that are scheduled as one member, with the start of the earliest of them.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Aggregate {
    pub(super) stamps: Stamps,
    /// The flows with a turn: one bit for each flow, 16 bits for each slot. The lowest 16 bits are
    /// the aggregate's current slot, the others the three slots after it.
    turns: u64,
    /// Flows with a turn in the last slot that may start after that slot.
    later: u16,
    /// The places that belong to a flow, one bit each.
    pub(super) taken: u16,
    pub(super) flows: [u32; MOST],
}

impl Stamped for Aggregate {
    #[inline]
    fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    #[inline]
    fn stamps_mut(&mut self) -> &mut Stamps {
        &mut self.stamps
    }
}

impl Aggregate {
    /// An aggregate without flows.
    pub(super) fn new(stamps: Stamps) -> Self {
        Self { stamps, turns: 0, later: 0, taken: 0, flows: [0; MOST] }
    }

    /// Adds a flow and returns its place, the first that is free.
    pub(super) fn take_in(&mut self, flow: u32) -> u8 {
        let place = self.taken.trailing_ones();
        self.taken |= 1 << place;
        self.flows[place as usize % MOST] = flow;
        place as u8
    }

    /// Whether no flow of the aggregate has packets.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.turns == 0
    }

    /// The next flow to serve. There must be one.
    #[inline]
    pub(super) fn current(&self) -> u32 {
        self.flows[self.turns.trailing_zeros() as usize % MOST]
    }

    /// Ends a flow's turn in this slot; its next turn is in the next slot.
    #[inline]
    pub(super) fn end_turn(&mut self, place: u8) {
        self.turns += u64::from(u16::MAX) << place;
    }

    /// Removes the turn of a flow that has no more packets.
    #[inline]
    pub(super) fn leave(&mut self, place: u8) {
        self.turns &= !(TURNS_OF_FIRST << place);
        self.later &= !(1 << place);
    }

    /// Whether any flow has a turn in the current slot.
    #[inline]
    pub(super) fn has_turns(&self) -> bool {
        self.turns as u16 != 0
    }

    /// Advances to the next slot in which a flow has a turn. There must be one.
    #[inline]
    pub(super) fn move_on(&mut self) {
        let slots = self.turns.trailing_zeros() / MOST as u32;
        self.turns >>= slots * MOST as u32;
        self.stamps.skip(slots);
    }

    /// Gives a turn to a flow that starts `slots` slots after the aggregate.
    #[inline]
    pub(super) fn join(&mut self, place: u8, slots: u64) {
        self.turns |= 1 << (slots.min(SLOTS - 1) * MOST as u64 + u64::from(place));
        if slots >= SLOTS {
            self.later |= 1 << place;
        }
    }

    /// Whether flows in the last slot may start after that slot, so that all flows must be sorted
    /// into slots again.
    #[inline]
    pub(super) fn has_later(&self) -> bool {
        self.later != 0
    }

    /// Removes all turns; the aggregate starts at `start` when flows join it again.
    pub(super) fn begin_anew(&mut self, start: u64) {
        (self.stamps.start, self.turns, self.later) = (start, 0, 0);
    }

    /// The places of flows with packets.
    pub(super) fn active(&self) -> u16 {
        (0..SLOTS).fold(0, |all, slot| all | (self.turns >> (slot * MOST as u64)) as u16)
    }
}

/// The largest number of flows of an aggregate.
pub(super) const MOST: usize = 16;
/// The number of slots for which an aggregate stores turns.
pub(super) const SLOTS: u64 = 4;
/// The bits of the turns of the flow at place 0, in all slots.
const TURNS_OF_FIRST: u64 = u64::MAX / (u16::MAX as u64);

#[cfg(test)]
mod tests {
    use super::super::groups;
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn flows_take_turns_slot_by_slot() {
        let inverse = groups::inverse(1);
        let mut aggregate = Aggregate::new(Stamps::new(inverse, groups::group_of(1500, inverse)));
        let places: Vec<u8> = (100..116).map(|flow| aggregate.take_in(flow)).collect();
        assert_eq!((places, aggregate.taken), ((0..16).collect(), u16::MAX));
        for (place, slots) in [(3, 0), (15, 0), (0, 1), (7, 3), (9, 8)] {
            aggregate.join(place, slots);
        }
        let begin = aggregate.stamps.start;
        assert_eq!(
            (aggregate.current(), aggregate.active()),
            (103, 1 << 3 | 1 << 15 | 1 | 1 << 7 | 1 << 9)
        );
        aggregate.end_turn(3);
        assert_eq!(aggregate.current(), 115);
        aggregate.leave(15);
        assert!(!aggregate.has_turns() && aggregate.has_later());
        aggregate.move_on();
        assert_eq!((aggregate.current(), aggregate.stamps.slots_to(begin)), (100, -1));
        aggregate.leave(0);
        aggregate.leave(3);
        aggregate.move_on();
        assert_eq!((aggregate.current(), aggregate.stamps.slots_to(begin)), (107, -3));
        aggregate.leave(9);
        aggregate.leave(7);
        assert!(aggregate.is_idle() && !aggregate.has_later());
    }
}
