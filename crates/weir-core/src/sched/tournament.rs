//! A tournament tree that finds the flow with the least virtual time.
//!
//! Every flow has a leaf at the index of its slot. Each inner node holds the least of its four
//! children, and the top holds the least of all entries. A change of a leaf moves up to the first
//! node that stays the same. The path up does not depend on the contents of the tree, so that a
//! processor can fetch its nodes in advance; in a heap each step down waits for the previous step.
//! Flows keep their leaves, so that no position needs to be stored.
//!
//! # Layout
//! ```text
//! an entry     63 ............................ 20 | 19 .............. 0      absent: all ones
//!              virtual time without its low bits  | slot of the flow
//!
//! the array    … … … 3 | 4 5 6 7 | 8 … 11 | 12 … 15 | …                      four neighbours are half a cache line
//!                    top  its children, then their children; the parent of i is i / 4 + 2
//! ```
//! Times that differ only in their low bits tie, and the flow with the lower slot wins. With more
//! than 2^20 flows the slot takes more bits.

use alloc::vec;
use alloc::vec::Vec;

/// The flows and their times.
#[derive(Debug)]
pub(super) struct Tournament {
    /// The entries of all nodes. The children of a node form one group.
    groups: Vec<[u64; ARITY]>,
    /// The index of the first leaf.
    base: usize,
    /// The number of leaves, a power of two.
    leaves: usize,
    /// The low bits of an entry, which hold the slot.
    mask: u64,
}

impl Default for Tournament {
    fn default() -> Self {
        Self::with_leaves(ARITY)
    }
}

impl Tournament {
    fn with_leaves(leaves: usize) -> Self {
        // The children of the last inner node must include the last leaf.
        let base = (leaves + 2 * ARITY).div_ceil(ARITY - 1);
        let groups = vec![[ABSENT; ARITY]; (base + leaves).div_ceil(ARITY)];
        Self { groups, base, leaves, mask: (leaves as u64 - 1).max((1 << SLOT_BITS) - 1) }
    }

    /// Allocates a leaf for the flow at `slot`.
    pub(super) fn make_room(&mut self, slot: u32) {
        if (slot as usize) < self.leaves {
            return;
        }
        let mut larger = Self::with_leaves((slot as usize + 1).next_power_of_two());
        for slot in 0..self.leaves {
            let entry = self.entry(self.base + slot);
            if entry != ABSENT {
                larger.set(slot as u32, entry & !self.mask);
            }
        }
        *self = larger;
    }

    /// The least time, without its low bits, and its flow.
    #[inline]
    pub(super) fn first(&self) -> Option<(u64, u32)> {
        let top = self.entry(TOP);
        (top != ABSENT).then_some((top & !self.mask, (top & self.mask) as u32))
    }

    /// The least entry; [`ABSENT`] for an empty tree.
    #[inline]
    pub(super) fn top(&self) -> u64 {
        self.entry(TOP)
    }

    /// The bits of an entry that hold the flow's slot.
    #[inline]
    pub(super) fn slot_bits(&self) -> u64 {
        self.mask
    }

    /// The flow's slot in an entry.
    #[inline]
    pub(super) fn slot(&self, entry: u64) -> u32 {
        (entry & self.mask) as u32
    }

    /// The entry of the flow at `slot` with this time.
    #[inline]
    pub(super) fn key(&self, slot: u32, time: u64) -> u64 {
        (time & !self.mask) | u64::from(slot)
    }

    /// The part of a time that counts in comparisons.
    #[inline]
    pub(super) fn rounded(&self, time: u64) -> u64 {
        time & !self.mask
    }

    /// Sets the time of the flow at `slot`. The slot must have a leaf, and the time must be less
    /// than 2^64 − 2^32.
    #[inline]
    pub(super) fn set(&mut self, slot: u32, time: u64) {
        self.put(slot, (time & !self.mask) | u64::from(slot));
    }

    /// Removes the flow at `slot`.
    #[inline]
    pub(super) fn clear(&mut self, slot: u32) {
        self.put(slot, ABSENT);
    }

    /// Stores an entry at the leaf of `slot`, and updates the nodes above.
    #[inline]
    fn put(&mut self, slot: u32, entry: u64) {
        let groups = &mut self.groups[..];
        let mut index = self.base + slot as usize;
        let mut group = &mut groups[index / ARITY];
        group[index % ARITY] = entry;
        while index > TOP {
            let least = least_of(group);
            index = index / ARITY + 2;
            group = &mut groups[index / ARITY];
            if group[index % ARITY] == least {
                return;
            }
            group[index % ARITY] = least;
        }
    }

    /// Subtracts `by` from all times, and calls `f` with each flow that has a time.
    pub(super) fn set_back(&mut self, by: u64, mut f: impl FnMut(u32)) {
        let mut taking_part = Vec::new();
        let mut nodes = vec![TOP];
        while let Some(node) = nodes.pop() {
            match self.entry(node) {
                ABSENT => {}
                entry if node >= self.base => taking_part.push(entry),
                _ => nodes.extend((ARITY * (node - 2)..).take(ARITY)),
            }
        }
        for entry in taking_part {
            let slot = (entry & self.mask) as u32;
            self.set(slot, (entry & !self.mask).saturating_sub(by));
            f(slot);
        }
    }

    /// The number of nodes on the longest path up.
    pub(super) fn depth(&self) -> u64 {
        let path = core::iter::successors(Some(self.base + self.leaves - 1), |&index| {
            (index > TOP).then_some(index / ARITY + 2)
        });
        path.count() as u64
    }

    #[inline]
    fn entry(&self, index: usize) -> u64 {
        self.groups[index / ARITY][index % ARITY]
    }
}

/// The least of four entries, without a branch.
#[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
fn least_of(&[a, b, c, d]: &[u64; ARITY]) -> u64 {
    a.min(b).min(c.min(d))
}

/// The number of children of a node.
const ARITY: usize = 4;
/// The index of the top node.
const TOP: usize = ARITY - 1;
/// The least number of bits of an entry for the slot. The other bits hold the time (see
/// [`super::stamp`]).
const SLOT_BITS: u32 = 20;
/// The entry of a flow without a time.
const ABSENT: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    const TIME: u64 = 1 << SLOT_BITS;

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(
            operations in proptest::collection::vec((0u32..300, 0u64..60), 1..400),
        ) {
            let (mut tournament, mut model) = (Tournament::default(), BTreeMap::new());
            for (slot, time) in operations {
                tournament.make_room(slot);
                if time < 20 {
                    tournament.clear(slot);
                    model.remove(&slot);
                } else {
                    tournament.set(slot, time * TIME + time);
                    model.insert(slot, time * TIME);
                }
                if time == 59 {
                    let mut met = Vec::new();
                    tournament.set_back(3 * TIME, |slot| met.push(slot));
                    met.sort_unstable();
                    prop_assert!(met.iter().eq(model.keys()));
                    model.values_mut().for_each(|time| *time = time.saturating_sub(3 * TIME));
                }
                prop_assert_eq!(
                    tournament.first(),
                    model.iter().map(|(&slot, &time)| (time, slot)).min()
                );
                prop_assert_eq!(tournament.top() == ABSENT, model.is_empty());
            }
        }
    }

    #[test]
    fn every_leaf_is_below_the_top_for_any_number_of_leaves() {
        for bits in 2..13 {
            let leaves = 1u32 << bits;
            let mut tournament = Tournament::default();
            tournament.make_room(leaves - 1);
            for slot in 0..leaves {
                tournament.set(slot, u64::from(leaves - slot) * TIME);
                assert_eq!(tournament.first(), Some((u64::from(leaves - slot) * TIME, slot)));
            }
        }
    }

    #[test]
    fn many_flows_take_more_low_bits() {
        let mut tournament = Tournament::default();
        tournament.set(1, 5 * TIME);
        let many = 1 << (SLOT_BITS + 1);
        tournament.make_room(many);
        tournament.set(many, 4 * TIME);
        assert_eq!(
            tournament.first(),
            Some((4 * TIME, 1)),
            "times are coarser by two bits, so these tie"
        );
        tournament.clear(1);
        assert_eq!(tournament.first(), Some((4 * TIME, many)));
    }
}
