//! Turns: the ranks of the waiting packets of flows and classes, and the heap that finds the least.
//!
//! A turn is a key of 128 bits: the rank in the upper half, and in the lower half a number that
//! grows with each arrival. One comparison orders turns by rank and, if ranks are equal, by
//! arrival.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::heap::{Entry, Heap};

/// The key of a packet with `rank` and arrival number `arrival`.
pub(super) fn key(rank: u64, arrival: u64) -> u128 {
    u128::from(rank) << 64 | u128::from(arrival)
}

pub(super) fn rank(key: u128) -> u64 {
    (key >> 64) as u64
}

/// The key with its rank reduced by `by`.
pub(super) fn set_back(key: u128, by: u64) -> u128 {
    self::key(rank(key).saturating_sub(by), key as u64)
}

/// The turns of a flow's packets, the oldest first.
///
/// A packet with a better rank than older packets of its flow passes its turn on to the older
/// packets, since these must leave first. Ranks therefore never fall from one packet to the next,
/// and consecutive packets can have the same turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Each turn, and the number of consecutive packets that have this turn.
    runs: VecDeque<(u128, u32)>,
}

impl Turns {
    /// Adds the turn of a new packet, and passes it on to older packets with worse turns.
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

    /// Removes and returns the turn of the oldest packet.
    pub(super) fn pop_first(&mut self) -> Option<u128> {
        let (key, packets) = self.runs.front_mut()?;
        let key = *key;
        *packets -= 1;
        if *packets == 0 {
            self.runs.pop_front();
        }
        Some(key)
    }

    /// Removes and returns the turn of the newest packet. Older packets keep a turn that the newest
    /// packet passed on to them.
    pub(super) fn pop_last(&mut self) -> Option<u128> {
        let (key, packets) = self.runs.back_mut()?;
        let key = *key;
        *packets -= 1;
        if *packets == 0 {
            self.runs.pop_back();
        }
        Some(key)
    }

    /// Reduces all ranks by `by`.
    pub(super) fn set_back(&mut self, by: u64) {
        for (key, _) in &mut self.runs {
            *key = set_back(*key, by);
        }
    }
}

/// The turns of flows or nodes, the best first.
#[derive(Debug, Default)]
pub(super) struct TurnHeap(Heap<(u128, u32)>);

impl Entry for (u128, u32) {
    #[inline]
    fn owner(self) -> u32 {
        self.1
    }
}

impl TurnHeap {
    /// The best turn, and the flow or node to which it belongs.
    pub(super) fn first(&self) -> Option<(u128, u32)> {
        self.0.first()
    }

    /// Sets the turn of the flow or node `owner`; `None` removes it from the heap. [`Heap`]
    /// describes `indices`.
    pub(super) fn set(&mut self, indices: &mut Vec<u32>, owner: u32, turn: Option<u128>) {
        self.0.set(indices, owner, turn.map(|turn| (turn, owner)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_better_packet_passes_its_turn_to_older_packets() {
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
}
