//! The delay line: packets under way, ordered by when they arrive at the other end.
//!
//! Nearly always a packet arrives after those before it; these stand in a queue. The few that overtake (jitter, reordering)
//! stand in a heap beside it, so that the common case costs no comparison tree.

use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;

use crate::packet::PacketId;
use crate::units::Nanos;

/// A packet under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnderWay {
    pub(crate) due: Nanos,
    pub(crate) packet: PacketId,
    /// The bit to invert, or [`INTACT`].
    pub(crate) corrupt: u32,
    pub(crate) duplicate: bool,
}

/// Packets under way on one link.
#[derive(Debug, Default)]
pub(crate) struct DelayLine {
    queue: VecDeque<UnderWay>,
    /// Made at the first packet that overtakes.
    early: Option<Box<Overtaking>>,
}

/// Packets that overtake others, and how many ever did.
#[derive(Debug, Default)]
struct Overtaking {
    heap: BinaryHeap<Reverse<Early>>,
    entered: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct Early {
    entered: u64,
    entry: UnderWay,
}

impl Ord for Early {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.entry.due, self.entered).cmp(&(other.entry.due, other.entered))
    }
}

impl PartialOrd for Early {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl DelayLine {
    #[inline]
    pub(crate) fn push(&mut self, entry: UnderWay) {
        if self.queue.back().is_none_or(|last| last.due <= entry.due) {
            self.queue.push_back(entry);
        } else {
            self.push_early(entry);
        }
    }

    /// When the next packet arrives; [`Nanos::MAX`] when there is none.
    #[inline]
    pub(crate) fn next_due(&self) -> Nanos {
        let first = self.queue.front().map_or(Nanos::MAX, |e| e.due);
        if self.early.is_none() { first } else { first.min(self.first_early().map_or(Nanos::MAX, |e| e.due)) }
    }

    /// The packet that arrives next.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<UnderWay> {
        if self.early.is_none() { self.queue.pop_front() } else { self.pop_either() }
    }

    // The rare cases stand apart, so that the common ones stay small enough for registers.
    #[cold]
    #[inline(never)]
    fn push_early(&mut self, entry: UnderWay) {
        let early = self.early.get_or_insert_default();
        early.entered += 1;
        early.heap.push(Reverse(Early { entered: early.entered, entry }));
    }

    #[cold]
    #[inline(never)]
    fn pop_either(&mut self) -> Option<UnderWay> {
        let overtaken = match (self.queue.front(), self.first_early()) {
            (Some(first), Some(early)) => early.due < first.due,
            (None, Some(_)) => true,
            _ => false,
        };
        if overtaken { self.early.as_mut()?.heap.pop().map(|Reverse(e)| e.entry) } else { self.queue.pop_front() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.first_early().is_none()
    }

    /// Moves the packet that was pushed last, if it is still last in the queue, to `due`, but not before those ahead of it.
    pub(crate) fn retime_last(&mut self, due: Nanos) -> Option<Nanos> {
        let ahead = self.queue.len().checked_sub(2).and_then(|i| self.queue.get(i)).map_or(Nanos::ZERO, |e| e.due);
        let last = self.queue.back_mut()?;
        last.due = due.max(ahead);
        Some(last.due)
    }

    fn first_early(&self) -> Option<&UnderWay> {
        self.early.as_ref()?.heap.peek().map(|Reverse(e)| &e.entry)
    }
}

/// No bit is inverted.
pub(crate) const INTACT: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Packet, Pool};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_leave_in_order_of_due_time(times in proptest::collection::vec(0u64..50, 1..200)) {
            let mut pool = Pool::new(1000);
            let mut line = DelayLine::default();
            for &t in &times {
                let packet = pool.insert(Packet::default()).unwrap();
                line.push(UnderWay { due: Nanos(t), packet, corrupt: INTACT, duplicate: false });
            }
            let mut out = Vec::new();
            while !line.is_empty() {
                let due = line.next_due();
                let entry = line.pop().unwrap();
                prop_assert_eq!(entry.due, due);
                out.push(entry.due.0);
            }
            let mut sorted = times.clone();
            sorted.sort_unstable();
            prop_assert_eq!(out, sorted);
        }
    }
}
