//! One timer wheel: a ring of slots that hold flows by rounded times, with direct access to the
//! earliest slot.
//!
//! One bit for each slot marks it as used, so that one instruction finds the next used slot. The
//! used slots must lie within 64 of each other to keep their order. If a new slot is later than
//! that, the last permitted slot stands for it; if it is earlier, the first permitted slot. Times
//! wrap around at 2^64 and are compared by their difference.

/// A timer wheel: the first and last flow of each slot, and the slots in use.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    /// The slots in use: bit `n % 64` for slot `n`.
    full: u64,
    /// The beginning of the earliest slot in use; without meaning if no slot is in use.
    front: u64,
    /// The binary logarithm of the length of a slot.
    width: u32,
    /// The flows of each slot.
    pub(super) ends: [Ends; SLOTS as usize],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Ring {
    /// An empty ring of slots of length `2^width`, for a width of 1 to 58.
    pub(super) fn new(width: u32) -> Self {
        Self { full: 0, front: 0, width, ends: [Ends { first: NONE, last: NONE }; SLOTS as usize] }
    }

    /// The beginning of the earliest slot in use.
    #[inline]
    pub(super) fn front(&self) -> Option<u64> {
        (self.full != 0).then_some(self.front)
    }

    /// The index of the earliest slot in use; without meaning if no slot is in use.
    #[inline]
    pub(super) fn front_index(&self) -> u8 {
        index(self.front, self.width)
    }

    /// Marks the slot that begins at `begin` as used, and returns its index. If this slot is not
    /// within 64 of all slots in use, marks the nearest slot that is.
    #[inline]
    pub(super) fn fill(&mut self, begin: u64) -> u8 {
        if self.full == 0 {
            self.front = begin;
        }
        let mut steps = (begin.wrapping_sub(self.front) as i64) >> self.width;
        if steps < 0 {
            let last = i64::from(u64::BITS - 1 - self.in_order().leading_zeros());
            steps = steps.max(last + 1 - i64::from(SLOTS));
            self.front = self.front.wrapping_add((steps << self.width) as u64);
            steps = 0;
        }
        let steps = steps.min(i64::from(SLOTS) - 1) as u64;
        let index = index(self.front.wrapping_add(steps << self.width), self.width);
        self.full |= 1 << index;
        index
    }

    /// Marks the slot with this index as unused.
    #[inline]
    pub(super) fn empty(&mut self, index: u8) {
        self.full &= !(1 << index);
        if self.full != 0 {
            let steps = u64::from(self.in_order().trailing_zeros());
            self.front = self.front.wrapping_add(steps << self.width);
        }
    }

    /// The bits of the slots in use, with the earliest slot in the lowest bit.
    #[inline]
    fn in_order(&self) -> u64 {
        self.full.rotate_right(u32::from(self.front_index()))
    }
}

/// The beginning of the slot in which `time` lies, for slots of length `2^width`. Slots of
/// different widths never begin at the same time.
#[inline]
pub(super) fn begin(time: u64, width: u32) -> u64 {
    let half = 1 << (width - 1);
    (time.wrapping_add(half) >> width << width).wrapping_sub(half)
}

/// The index of the slot that begins at `begin`.
#[inline]
fn index(begin: u64, width: u32) -> u8 {
    (begin.wrapping_add(1 << (width - 1)) >> width) as u8 % SLOTS
}

/// The number of slots, one for each bit of a machine word.
const SLOTS: u8 = 64;
/// No flow.
pub(super) const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gives_the_earliest_slot(
            operations in proptest::collection::vec((any::<bool>(), 0i64..30), 1..200),
            width in 1u32..=58,
            start in any::<u64>(),
        ) {
            let (mut ring, mut model) = (Ring::new(width), BTreeSet::new());
            let origin = begin(start, width);
            let at = |steps: i64| origin.wrapping_add((steps << width) as u64);
            for (fill, steps) in operations {
                if fill {
                    prop_assert_eq!(ring.fill(at(steps)), index(at(steps), width));
                    model.insert(steps);
                } else if let Some(first) = model.pop_first() {
                    ring.empty(index(at(first), width));
                }
                prop_assert_eq!(ring.front(), model.first().map(|&steps| at(steps)));
            }
        }

        #[test]
        fn slots_of_two_widths_never_begin_together(
            time in any::<u64>(),
            other in any::<u64>(),
            width in 1u32..58,
            wider in 1u32..58,
        ) {
            let wider = (width + wider).min(58);
            prop_assume!(wider > width);
            prop_assert_ne!(begin(time, width), begin(other, wider));
            prop_assert!(time.wrapping_sub(begin(time, width)) >> width == 0);
        }
    }

    #[test]
    fn a_slot_too_far_away_counts_as_the_last() {
        let mut ring = Ring::new(4);
        let at = |steps: u64| begin(1 << 20, 4) + (steps << 4);
        let first = ring.fill(at(100));
        assert_eq!(ring.fill(at(300)), (first + 63) % SLOTS);
        // There is no room before the first slot while the last slot is in use.
        assert_eq!(ring.fill(at(10)), first);
        ring.empty((first + 63) % SLOTS);
        ring.fill(at(90));
        assert_eq!(ring.front(), Some(at(90)));
    }
}
