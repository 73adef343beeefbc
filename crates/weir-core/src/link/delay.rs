//! The delay line: packets in transit, ordered by the time at which they arrive at the other end.
//!
//! Nearly all packets arrive in the order in which they were transmitted. They form a list that is
//! linked inside the pool, so the list takes no further memory and touches only the packets
//! themselves. The few packets that overtake others (jitter, reordering) are in a separate heap, so
//! that the common case needs no heap.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use crate::packet::{Chain, Crossed, PacketId, Pool};
use crate::units::Nanos;

#[derive(Debug)]
pub(crate) struct DelayLine {
    /// Time at which the next packet arrives, from the list or from the heap.
    next_due: Nanos,
    list: Chain,
    /// Due time of the last packet in the list.
    last_due: Nanos,
    /// Allocated when the first packet overtakes another.
    overtaking: Option<Box<Overtaking>>,
}

impl Default for DelayLine {
    fn default() -> Self {
        Self {
            next_due: Nanos::MAX,
            list: Chain::default(),
            last_due: Nanos::ZERO,
            overtaking: None,
        }
    }
}

/// Packets that overtake others, and the number of such packets so far.
#[derive(Debug, Default)]
struct Overtaking {
    /// Due time, serial number, packet; the earliest packet is on top.
    heap: BinaryHeap<Reverse<(Nanos, u64, PacketId)>>,
    count: u64,
}

impl DelayLine {
    #[inline(always)] // Measured: see the emulator's module.
    pub(crate) fn push(&mut self, pool: &mut Pool, packet: PacketId, crossed: Crossed) {
        pool.set_crossed(packet, crossed);
        let due = crossed.due;
        if self.list.is_empty() {
            self.next_due = self.next_due.min(due);
        } else if due < self.last_due {
            return self.push_overtaking(packet, due);
        }
        self.last_due = due;
        self.list.push_back(pool, packet, 0);
    }

    /// Time at which the next packet arrives; [`Nanos::MAX`] if there is none.
    #[inline]
    pub(crate) fn next_due(&self) -> Nanos {
        self.next_due
    }

    /// Removes and returns the packet that arrives next.
    #[inline]
    pub(crate) fn pop(&mut self, pool: &Pool) -> Option<PacketId> {
        if self.overtaking.is_some() {
            return self.pop_earliest(pool);
        }
        let packet = self.list.pop_front(pool).map(|(packet, _)| packet);
        self.next_due = self.list_due(pool);
        packet
    }

    #[cold]
    #[inline(never)]
    fn push_overtaking(&mut self, packet: PacketId, due: Nanos) {
        let overtaking = self.overtaking.get_or_insert_default();
        overtaking.count += 1;
        overtaking.heap.push(Reverse((due, overtaking.count, packet)));
        self.next_due = self.next_due.min(due);
    }

    #[cold]
    #[inline(never)]
    fn pop_earliest(&mut self, pool: &Pool) -> Option<PacketId> {
        let from_heap = self.heap_due() < self.list_due(pool);
        let packet = if from_heap {
            self.overtaking.as_mut()?.heap.pop().map(|Reverse((_, _, packet))| packet)
        } else {
            self.list.pop_front(pool).map(|(packet, _)| packet)
        };
        self.next_due = self.list_due(pool).min(self.heap_due());
        packet
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
            && self.overtaking.as_ref().is_none_or(|overtaking| overtaking.heap.is_empty())
    }

    /// Changes the due time of `packet` to `due`, or to the due time of the packet before it if
    /// that time is later. `packet` must keep its order and must have been added last. Returns the
    /// new due time. Visits every packet.
    pub(crate) fn retime(&mut self, pool: &mut Pool, packet: PacketId, due: Nanos) -> Nanos {
        let old = pool.crossed(packet).due;
        // Packets that have departed need no check: they were due before now, and `due` is not
        // before now.
        let (mut rest, mut previous_due) = (self.list, Nanos::ZERO);
        while let Some((other, _)) = rest.pop_front(pool) {
            let other_due = pool.crossed(other).due;
            if other != packet && other_due <= old {
                previous_due = other_due;
            }
        }
        let due = due.max(previous_due);
        pool.set_crossed(packet, Crossed { due, ..pool.crossed(packet) });
        if self.list.back() == Some(packet) {
            self.last_due = due;
        } else if let Some(overtaking) = &mut self.overtaking {
            // The packet is in the heap: it overtook a packet that was delayed while the link still
            // had jitter.
            let packets = core::mem::take(&mut overtaking.heap).into_iter();
            overtaking.heap = packets
                .map(|Reverse((time, number, other))| {
                    Reverse((if other == packet { due } else { time }, number, other))
                })
                .collect();
        }
        self.next_due = self.list_due(pool).min(self.heap_due());
        due
    }

    #[inline]
    fn list_due(&self, pool: &Pool) -> Nanos {
        self.list.front().map_or(Nanos::MAX, |first| pool.crossed(first).due)
    }

    fn heap_due(&self) -> Nanos {
        self.overtaking
            .as_ref()
            .and_then(|overtaking| overtaking.heap.peek())
            .map_or(Nanos::MAX, |Reverse(first)| first.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Corruption, Packet};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_leave_in_order_of_due_time(
            times in proptest::collection::vec(0u64..50, 1..200),
        ) {
            let mut pool = Pool::new(1000);
            let mut line = DelayLine::default();
            for &t in &times {
                let packet = pool.insert(Packet::default()).unwrap();
                let (due, corruption) = (Nanos(t), Corruption::NONE);
                line.push(&mut pool, packet, Crossed { due, corruption, duplicate: false });
            }
            let mut out = Vec::new();
            while !line.is_empty() {
                let due = line.next_due();
                let crossed = pool.crossed(line.pop(&pool).unwrap());
                prop_assert_eq!(crossed.due, due);
                out.push(due.0);
            }
            let mut sorted = times.clone();
            sorted.sort_unstable();
            prop_assert_eq!(out, sorted);
        }
    }
}
