//! Queues of hashed flows, each with its own AQM: the basis of `fq_codel` and `fq_pie`.
//!
//! # Service
//! Queues with packets are in two lists, new and old. The scheduler serves the first queue of the
//! new list or, if that list is empty, of the old list, while this queue has credit. A queue
//! without credit receives a quantum of bytes and moves to the end of the old list. An empty queue
//! leaves its list. While the old list has queues, an empty queue of the new list first passes
//! through the old list, so that a flow cannot overtake other flows by returning as a new flow
//! (DRR++).
//!
//! When all queues are empty, Linux dequeues once more, and all queues leave their lists. This
//! implementation has no such call; it clears the lists with the first arrival after the last
//! packet has left.
//!
//! # Overflow
//! When there is no room, packets of the first queue with the most bytes are dropped. To find this
//! queue, the table of queues is divided into groups. The number of queues in a group is about the
//! square root of the number of all queues. Each group has an upper bound on the bytes in any of
//! its queues. The bound grows with arrivals and is corrected when the group is searched. Only the
//! groups with the largest bounds are searched.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::aqm::{QueueState, Seen, Verdict};
use crate::packet::{PacketId, PacketList, Store};
use crate::prefetch;
use crate::stats::DropReason;
use crate::units::Nanos;

/// The AQM of the queues: the shared settings, and the decisions for each queue with its own state.
pub trait FlowPolicy {
    /// The AQM's state for one queue.
    type State: Default + core::fmt::Debug;

    /// Decides about an arriving packet.
    #[inline]
    fn arrive(
        &mut self,
        _state: &mut Self::State,
        _now: Nanos,
        _packet: &Seen,
        _context: &Context,
    ) -> Verdict {
        Verdict::Pass
    }

    /// Decides about a packet that leaves its queue.
    fn leave(
        &mut self,
        state: &mut Self::State,
        now: Nanos,
        packet: &Seen,
        context: &Context,
    ) -> Verdict;

    /// Notes that the scheduler found the queue empty.
    fn emptied(&mut self, _state: &mut Self::State, _now: Nanos) {}

    /// Notes that `packets` packets of the queue were dropped because there was no room.
    fn overflowed(&mut self, _state: &mut Self::State, _now: Nanos, _packets: u32) {}

    /// Whether an arriving packet is dropped when there is no room, rather than packets of the
    /// longest queue.
    fn drops_tail(&self) -> bool {
        false
    }

    /// The AQM's counters, by name.
    fn variables(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// The packets that wait besides the current one.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The state of the packet's queue.
    pub queue: QueueState,
    /// The bytes in all queues together.
    pub all_bytes: u64,
}

/// Packets that were dropped and that the caller has not yet collected.
pub(super) type Refused = VecDeque<(PacketId, DropReason)>;

#[derive(Debug)]
pub(super) struct FlowQueues<S> {
    queues: Vec<Queue<S>>,
    /// The new list.
    fresh: Ring,
    old: Ring,
    /// Finds the longest queue.
    peaks: Peaks,
    quantum: i32,
    packets: u32,
    bytes: u64,
    /// The time at which the last packet of all queues left.
    emptied: Nanos,
}

#[derive(Debug)]
#[repr(align(64))]
struct Queue<S> {
    list: PacketList,
    packets: u32,
    bytes: u64,
    /// The bytes that the queue may send before other queues have their turn.
    credit: i32,
    /// The next queue in the same list, [`END`] at the end of the list, or [`IDLE`] if the queue is
    /// in neither list.
    next: u32,
    state: S,
}

#[derive(Clone, Copy, Debug)]
struct Ring {
    head: u32,
    tail: u32,
}

impl<S: Default> FlowQueues<S> {
    /// `queues` empty queues, at least one.
    pub(super) fn new(queues: u32, quantum: u32) -> Self {
        let queues = queues.max(1);
        let empty = || Queue {
            list: PacketList::default(),
            packets: 0,
            bytes: 0,
            credit: 0,
            next: IDLE,
            state: S::default(),
        };
        Self {
            queues: (0..queues).map(|_| empty()).collect(),
            fresh: Ring::EMPTY,
            old: Ring::EMPTY,
            peaks: Peaks::new(queues),
            quantum: quantum.clamp(1, MAX_QUANTUM).cast_signed(),
            packets: 0,
            bytes: 0,
            emptied: Nanos::ZERO,
        }
    }
}

impl<S> FlowQueues<S> {
    /// The index of the queue for a hash. `seed` determines which hashes share a queue.
    #[inline]
    pub(super) fn queue_of(&self, hash: u32, seed: u32) -> u32 {
        spread(hash ^ seed, self.queues.len() as u32)
    }

    #[inline]
    pub(super) fn packets(&self) -> u32 {
        self.packets
    }

    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a packet to a queue, or drops it if the queue's AQM decides so.
    #[inline]
    pub(super) fn enqueue<P: Store, A: FlowPolicy<State = S>>(
        &mut self,
        now: Nanos,
        store: &mut P,
        index: u32,
        packet: PacketId,
        policy: &mut A,
        refused: &mut Refused,
    ) {
        if self.packets == 0 && now > self.emptied {
            self.clear_lists(policy);
        }
        let seen = Seen { len: store.len(packet), arrived: now, header: store.header(packet) };
        let queue = &mut self.queues[index as usize];
        let state = QueueState { packets: queue.packets, bytes: queue.bytes, full: false };
        // At [`Nanos::MAX`], packets move here from another scheduler, where an AQM has already
        // decided about them.
        if now != Nanos::MAX {
            match policy.arrive(
                &mut queue.state,
                now,
                &seen,
                &Context { queue: state, all_bytes: self.bytes },
            ) {
                Verdict::Drop(reason) => return refused.push_back((packet, reason)),
                Verdict::Mark(reason) => store.mark(packet, reason),
                Verdict::Pass | Verdict::Admit => {}
            }
        }
        queue.list.push_back_of(store, packet, seen.len);
        queue.packets += 1;
        queue.bytes += u64::from(seen.len);
        self.packets += 1;
        self.bytes += u64::from(seen.len);
        self.peaks.grow(index, queue.bytes);
        if queue.next == IDLE {
            queue.credit = self.quantum;
            self.append(true, index);
        }
    }

    /// Drops an arriving packet because there is no room.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse<A: FlowPolicy<State = S>>(
        &mut self,
        now: Nanos,
        index: u32,
        packet: PacketId,
        policy: &mut A,
        refused: &mut Refused,
    ) {
        policy.overflowed(&mut self.queues[index as usize].state, now, 1);
        refused.push_back((packet, DropReason::QueueFull));
    }

    /// Removes and returns the next packet. AQMs decide about packets unless `now` is
    /// [`Nanos::MAX`].
    #[inline]
    pub(super) fn dequeue<P: Store, A: FlowPolicy<State = S>>(
        &mut self,
        now: Nanos,
        store: &mut P,
        policy: &mut A,
        refused: &mut Refused,
    ) -> Option<PacketId> {
        loop {
            let is_fresh = self.fresh.head != END;
            let index = if is_fresh { self.fresh.head } else { self.old.head };
            let queue = self.queues.get_mut(index as usize)?;
            if queue.credit <= 0 {
                let alone = !is_fresh && queue.next == END;
                // If only one queue is in the lists, all rounds that it needs happen in one step.
                let rounds = if alone { 1 - queue.credit / self.quantum } else { 1 };
                queue.credit += self.quantum * rounds;
                self.advance(is_fresh);
                self.append(false, index);
                continue;
            }
            let taken = self.take(now, store, index, policy, refused);
            if self.packets == 0 {
                self.emptied = now;
            }
            if taken.is_some() {
                return taken;
            }
            policy.emptied(&mut self.queues[index as usize].state, now);
            self.advance(is_fresh);
            if is_fresh && self.old.head != END {
                self.append(false, index);
            } else {
                self.queues[index as usize].next = IDLE;
            }
        }
    }

    /// Removes and returns a queue's first packet that the queue's AQM does not drop.
    #[inline]
    fn take<P: Store, A: FlowPolicy<State = S>>(
        &mut self,
        now: Nanos,
        store: &mut P,
        index: u32,
        policy: &mut A,
        refused: &mut Refused,
    ) -> Option<PacketId> {
        let queue = &mut self.queues[index as usize];
        loop {
            let len = queue.list.front_len();
            let packet = queue.list.pop_front(store)?;
            queue.packets -= 1;
            queue.bytes -= u64::from(len);
            self.packets -= 1;
            self.bytes -= u64::from(len);
            if now != Nanos::MAX {
                let seen =
                    Seen { len, arrived: store.arrived(packet), header: store.header(packet) };
                let state = QueueState { packets: queue.packets, bytes: queue.bytes, full: false };
                match policy.leave(
                    &mut queue.state,
                    now,
                    &seen,
                    &Context { queue: state, all_bytes: self.bytes },
                ) {
                    Verdict::Drop(reason) => {
                        refused.push_back((packet, reason));
                        continue;
                    }
                    Verdict::Mark(reason) => store.mark(packet, reason),
                    Verdict::Pass | Verdict::Admit => {}
                }
            }
            queue.credit -= len.min(MAX_QUANTUM).cast_signed();
            self.look_ahead(store, index);
            return Some(packet);
        }
    }

    /// Prefetches the queue and the packet that are probably served next.
    #[inline]
    fn look_ahead<P: Store>(&self, store: &P, index: u32) {
        let queue = &self.queues[index as usize];
        if queue.credit > 0
            && let Some(next) = queue.list.front()
        {
            return store.prefetch(next);
        }
        if queue.next < IDLE {
            prefetch::read(&self.queues, queue.next);
            if let Some(first) = self.queues[queue.next as usize].list.front() {
                store.prefetch(first);
            }
        }
    }

    /// Drops packets from the head of the longest queue until half of its bytes or `most` packets
    /// are dropped, at least one packet. Returns the queue.
    #[cold]
    #[inline(never)]
    pub(super) fn drop_from_longest<P: Store, A: FlowPolicy<State = S>>(
        &mut self,
        now: Nanos,
        store: &mut P,
        most: u32,
        policy: &mut A,
        refused: &mut Refused,
    ) -> Option<u32> {
        let index = self.longest()?;
        let queue = &mut self.queues[index as usize];
        let (half, before) = (queue.bytes / 2, queue.packets);
        let (mut dropped_bytes, mut packets) = (0, 0);
        while packets == 0 || packets < most && dropped_bytes < half {
            let len = u64::from(queue.list.front_len());
            let Some(packet) = queue.list.pop_front(store) else { break };
            refused.push_back((packet, DropReason::Overlimit));
            dropped_bytes += len;
            packets += 1;
        }
        queue.packets = before - packets;
        queue.bytes -= dropped_bytes;
        self.packets -= packets;
        self.bytes -= dropped_bytes;
        policy.overflowed(&mut queue.state, now, packets);
        Some(index)
    }

    /// The queue with the most bytes, the first among equals; `None` when no packet waits.
    fn longest(&mut self) -> Option<u32> {
        if self.packets == 0 {
            return None;
        }
        let queues = &self.queues;
        let longest =
            self.peaks.largest(|index| queues.get(index as usize).map(|queue| queue.bytes));
        // A queue of packets of length 0 has no bytes.
        let with_packets =
            || queues.iter().position(|queue| queue.packets > 0).map(|index| index as u32);
        if queues[longest as usize].packets > 0 { Some(longest) } else { with_packets() }
    }

    /// Removes the packets of flow number `flow` from all queues.
    pub(super) fn take_flow<P: Store>(&mut self, store: &mut P, flow: u32) -> PacketList {
        let mut taken = PacketList::default();
        for queue in self.queues.iter_mut().filter(|queue| queue.packets > 0) {
            let mut of_queue = queue.list.take_flow(store, flow);
            while let Some(packet) = of_queue.pop_front(store) {
                let len = store.len(packet);
                queue.packets -= 1;
                queue.bytes -= u64::from(len);
                self.packets -= 1;
                self.bytes -= u64::from(len);
                taken.push_back_of(store, packet, len);
            }
        }
        taken
    }

    /// Removes all queues from the lists, because no packet waits.
    fn clear_lists<A: FlowPolicy<State = S>>(&mut self, policy: &mut A) {
        for is_fresh in [true, false] {
            loop {
                let index = self.ring(is_fresh).head;
                if index == END {
                    break;
                }
                self.advance(is_fresh);
                let queue = &mut self.queues[index as usize];
                queue.next = IDLE;
                policy.emptied(&mut queue.state, self.emptied);
            }
        }
    }

    #[inline]
    fn ring(&mut self, is_fresh: bool) -> &mut Ring {
        if is_fresh { &mut self.fresh } else { &mut self.old }
    }

    #[inline]
    fn advance(&mut self, is_fresh: bool) {
        let head = self.ring(is_fresh).head;
        let next = self.queues[head as usize].next;
        self.ring(is_fresh).head = next;
    }

    #[inline]
    fn append(&mut self, is_fresh: bool, index: u32) {
        self.queues[index as usize].next = END;
        let ring = self.ring(is_fresh);
        let last = core::mem::replace(&mut ring.tail, index);
        if ring.head == END {
            ring.head = index;
        } else {
            self.queues[last as usize].next = index;
        }
    }
}

impl Ring {
    const EMPTY: Self = Self { head: END, tail: END };
}

/// The index to which a hash belongs, below `places`.
#[inline]
pub(super) fn spread(hash: u32, places: u32) -> u32 {
    ((u64::from(hash.wrapping_mul(GOLDEN)) * u64::from(places)) >> 32) as u32
}

/// Upper bounds of the bytes in the queues of each group.
#[derive(Debug)]
pub(super) struct Peaks {
    bounds: Vec<u64>,
    /// A group has `2^shift` queues.
    shift: u32,
}

impl Peaks {
    pub(super) fn new(queues: u32) -> Self {
        let shift = queues.ilog2().div_ceil(2);
        let groups = queues.div_ceil(1 << shift);
        Self { bounds: (0..groups).map(|_| 0).collect(), shift }
    }

    /// Records that queue `index` has `bytes` bytes after an arrival.
    #[inline]
    pub(super) fn grow(&mut self, index: u32, bytes: u64) {
        let bound = &mut self.bounds[(index >> self.shift) as usize];
        if bytes > *bound {
            *bound = bytes;
        }
    }

    /// The first of the queues with the most bytes. `bytes` returns the bytes of a queue, or `None`
    /// beyond the last queue.
    pub(super) fn largest(&mut self, bytes: impl Fn(u32) -> Option<u64>) -> u32 {
        loop {
            let first_largest = |best: usize, group: usize| {
                if self.bounds[group] > self.bounds[best] { group } else { best }
            };
            let group = (1..self.bounds.len()).fold(0, first_largest);
            let first = (group as u32) << self.shift;
            let (mut index, mut most) = (first, 0);
            for candidate in first..first + (1 << self.shift) {
                if let Some(here) = bytes(candidate).filter(|&here| here > most) {
                    (index, most) = (candidate, here);
                }
            }
            if core::mem::replace(&mut self.bounds[group], most) == most {
                return index;
            }
        }
    }
}

/// The end of a list.
const END: u32 = u32::MAX;
/// The value of `next` for a queue in neither list.
const IDLE: u32 = u32::MAX - 1;
/// The largest quantum, and the largest credit that a packet costs. The sum of two such values fits
/// in 31 bits.
const MAX_QUANTUM: u32 = 1 << 23;
/// A prime near 2^32 divided by the golden ratio: a multiplication by this number spreads
/// neighbouring hashes far apart.
const GOLDEN: u32 = 0x9e37_79b1;

#[cfg(test)]
mod tests;
