//! Turns: the ranks that flows or classes have waiting, and the heap that finds the least.
//!
//! A turn is a key of 128 bits: the rank in the upper half, and in the lower a number that grows
//! with each packet that comes. One comparison orders by rank and, where ranks are equal, by
//! arrival.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The key of a packet that came as number `arrival`.
pub(super) fn key(rank: u64, arrival: u64) -> u128 {
    u128::from(rank) << 64 | u128::from(arrival)
}

/// The rank of a key.
pub(super) fn rank(key: u128) -> u64 {
    (key >> 64) as u64
}

/// A key whose rank was set back by `by`.
pub(super) fn set_back(key: u128, by: u64) -> u128 {
    self::key(rank(key).saturating_sub(by), key as u64)
}

/// The turns of a flow's packets, the oldest first.
///
/// A packet that comes with a better rank than older ones of its flow lends them its turn: they
/// must leave before it. So ranks never fall from one packet to the next, and packets that share a
/// turn stand side by side, as one run.
#[derive(Debug, Default)]
pub(super) struct Turns {
    runs: VecDeque<(u128, u32)>,
}

impl Turns {
    /// Adds the turn of a new packet.
    pub(super) fn push(&mut self, key: u128) {
        let mut packets = 1;
        while let Some(&(last, more)) = self.runs.back()
            && rank(last) > rank(key)
        {
            packets += more;
            self.runs.pop_back();
        }
        self.runs.push_back((key, packets));
    }

    /// The turn of the oldest packet, which is the best.
    pub(super) fn first(&self) -> Option<u128> {
        self.runs.front().map(|run| run.0)
    }

    /// The turn of the newest packet, which is the worst.
    pub(super) fn last(&self) -> Option<u128> {
        self.runs.back().map(|run| run.0)
    }

    /// Takes the turn of the oldest packet.
    pub(super) fn pop_first(&mut self) -> Option<u128> {
        let (key, packets) = self.runs.front_mut()?;
        let key = *key;
        *packets -= 1;
        if *packets == 0 {
            self.runs.pop_front();
        }
        Some(key)
    }

    /// Takes the turn of the newest packet. Older ones keep what it lent them.
    pub(super) fn pop_last(&mut self) -> Option<u128> {
        let (key, packets) = self.runs.back_mut()?;
        let key = *key;
        *packets -= 1;
        if *packets == 0 {
            self.runs.pop_back();
        }
        Some(key)
    }

    /// Sets all ranks back.
    pub(super) fn set_back(&mut self, by: u64) {
        for (key, _) in &mut self.runs {
            *key = set_back(*key, by);
        }
    }
}

/// Who has which turn: a heap with four children for each node, in which an entry can be changed in
/// place.
///
/// Where each one stands in the heap is kept in a vector of the caller, which several heaps can
/// share as long as nobody is in two of them.
#[derive(Debug, Default)]
pub(super) struct TurnHeap {
    entries: Vec<(u128, u32)>,
}

impl TurnHeap {
    /// Who is first, and the turn.
    pub(super) fn first(&self) -> Option<(u128, u32)> {
        self.entries.first().copied()
    }

    /// Sets the turn of `who`; `None` takes it out.
    pub(super) fn set(&mut self, places: &mut Vec<u32>, who: u32, turn: Option<u128>) {
        if places.len() <= who as usize {
            places.resize(who as usize + 1, ABSENT);
        }
        let place = places[who as usize];
        match (turn, self.entries.get(place as usize).copied()) {
            (None, None) => {}
            (None, Some(_)) => self.remove(places, place as usize),
            (Some(turn), None) => {
                self.entries.push((turn, who));
                self.sift_up(places, self.entries.len() - 1, (turn, who));
            }
            (Some(turn), Some(old)) if (turn, who) < old => {
                self.sift_up(places, place as usize, (turn, who))
            }
            (Some(turn), Some(_)) => self.sift_down(places, place as usize, (turn, who)),
        }
    }

    fn remove(&mut self, places: &mut [u32], place: usize) {
        let old = self.entries[place];
        places[old.1 as usize] = ABSENT;
        let Some(last) = self.entries.pop() else { return };
        if place < self.entries.len() {
            if last < old {
                self.sift_up(places, place, last)
            } else {
                self.sift_down(places, place, last)
            }
        }
    }

    /// Puts `entry` at the free `place`, or as far above it as it belongs.
    fn sift_up(&mut self, places: &mut [u32], mut place: usize, entry: (u128, u32)) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            let above = self.entries[parent];
            if above <= entry {
                break;
            }
            self.put(places, place, above);
            place = parent;
        }
        self.put(places, place, entry);
    }

    /// Puts `entry` at the free `place`, or as far below it as it belongs.
    fn sift_down(&mut self, places: &mut [u32], mut place: usize, entry: (u128, u32)) {
        loop {
            let first = place * ARITY + 1;
            let below = self.entries.get(first..).unwrap_or_default();
            let least = below.iter().take(ARITY).copied().enumerate().min_by_key(|child| child.1);
            let Some((child, least)) = least.filter(|child| child.1 < entry) else { break };
            self.put(places, place, least);
            place = first + child;
        }
        self.put(places, place, entry);
    }

    fn put(&mut self, places: &mut [u32], place: usize, entry: (u128, u32)) {
        self.entries[place] = entry;
        places[entry.1 as usize] = place as u32;
    }
}

/// Children of a node.
const ARITY: usize = 4;
/// Not in a heap.
const ABSENT: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_better_packet_lends_its_turn_to_older_ones_of_its_flow() {
        let mut turns = Turns::default();
        for (arrival, rank) in [5, 9, 7, 7, 8].into_iter().enumerate() {
            turns.push(key(rank, arrival as u64));
        }
        assert_eq!((turns.first(), turns.last()), (Some(key(5, 0)), Some(key(8, 4))));
        turns.push(key(6, 5));
        assert_eq!(turns.pop_last(), Some(key(6, 5)));
        let rest: Vec<_> = core::iter::from_fn(|| turns.pop_first()).collect();
        assert_eq!(rest, [key(5, 0), key(6, 5), key(6, 5), key(6, 5), key(6, 5)]);
    }

    proptest! {
        #[test]
        fn the_heap_agrees_with_a_sorted_map(operations in proptest::collection::vec((0u32..40, proptest::option::of(0u64..90)), 1..300)) {
            let (mut heap, mut places, mut model) = (TurnHeap::default(), Vec::new(), BTreeMap::new());
            for (n, (who, rank)) in operations.into_iter().enumerate() {
                let turn = rank.map(|rank| key(rank, n as u64));
                heap.set(&mut places, who, turn);
                match turn {
                    Some(turn) => model.insert(who, turn),
                    None => model.remove(&who),
                };
                prop_assert_eq!(heap.first(), model.iter().map(|(&who, &turn)| (turn, who)).min());
            }
        }
    }
}
