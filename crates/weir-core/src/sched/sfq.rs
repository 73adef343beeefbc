//! SFQ: stochastic fairness queueing, Linux's `sfq`. Start-time fair queueing is `stfq`.
//!
//! # Model
//! Packets are hashed by addresses, ports and protocol to one of many queues. The queues that have
//! packets are served in rounds, each with `quantum` bytes in a round. Flows with the same hash
//! share one queue, and therefore one share of the link. A new hash function every `perturb`
//! seconds keeps the same flows from sharing a queue for long. One limit applies to the packets of
//! all queues together. When this limit is exceeded, the longest queue loses a packet, so that a
//! flow that sends too much cannot take the room of other flows.
//!
//! # Reference
//! McKenney, "Stochastic Fairness Queueing", IEEE INFOCOM 1990; the manual page tc-sfq(8) of Linux;
//! for rounds of bytes rather than packets Shreedhar and Varghese, "Efficient Fair Queueing using
//! Deficit Round Robin", ACM SIGCOMM 1995.
//!
//! # Parameters
//! `limit` 1..1000000 packets, default 127: the packets of all queues together. `depth` 1..127
//! packets, default 127: the packets of one queue. `divisor` 1..65536, default 1024: the number of
//! hash values. `flows` 1..65408, default 128: the number of queues that can have packets at the
//! same time. `quantum` 64..1048576 bytes, default 1500; it should be at least the length of a
//! full-size packet, so that such a packet leaves in one round. `perturb` 0..86400 s, default 0 for
//! never: the time between changes of the hash function. `headdrop`, default off: the longest queue
//! loses its oldest packet instead of its newest.
//!
//! # Complexity
//! O(1) for each packet. The oldest packet of the longest queue is found at once, the newest after
//! a walk through at most `depth` packets. A new hash function visits all packets.
//!
//! # Guarantees
//! Packets of a flow leave in order, across changes of the hash function too. Queues that always
//! have packets send the same number of bytes, to within two quanta and a packet. A queue loses
//! packets for lack of room only if no other queue is longer.
//!
//! # Statistics
//! `flows`: the queues with packets. `perturbations`: changes of the hash function that had packets
//! to move.
//!
//! # Differences from Linux/FreeBSD
//! Decisions are those of Linux with the same hash values. Of several longest queues, the one that
//! most recently reached this length loses a packet. When each queue has one packet, the queue that
//! is next in the round loses its packet. A packet of a new flow is dropped when `flows` queues
//! have packets. With `headdrop`, a packet that finds `depth` packets in its queue replaces the
//! oldest one. Linux requires a power of 2 for `divisor`, and reduces `limit` to `depth` times
//! `flows`; here larger values have no effect. Before version 6.13, Linux rounds lengths up to a
//! multiple of 8 bytes when it counts them against the quantum. Sizes count from the network layer
//! on. Linux's optional RED for each queue (`redflowlimit`) is not implemented: `fq_codel` and
//! `fq_pie` serve this purpose. FreeBSD has no such scheduler.
//!
//! # Validation
//! Tests compare decisions with a plain model that searches all queues, for random traffic, and
//! check shares, overflows, limits, and that a flow stays in order when the hash function changes.

use alloc::vec;
use alloc::vec::Vec;

use super::flow_queues::{Refused, spread};
use super::{Discipline, FlowSlot, FlowSpec, Row, Scheduler, Traits};
use crate::packet::{PacketId, PacketList, Store};
use crate::settings;
use crate::settings::{Count, Switch};
use crate::stats::DropReason;
use crate::units::{NANOS_PER_SEC, Nanos};

settings! {
    /// Settings of stochastic fairness queueing.
    struct Settings {
        limit: u32 = Count::new(1, 1_000_000, "packets", 127, "largest number of packets inside"),
        depth: u32 = Count::new(1, 127, "packets", 127, "largest number of packets in one queue"),
        divisor: u32 = Count::new(1, 65_536, "", 1024, "number of hash values"),
        flows: u32 = Count::new(1, 65_408, "", 128, "largest number of queues that have packets"),
        quantum: u32 = super::fair_queue::QUANTUM,
        perturb: u32 =
            Count::new(0, 86_400, "s", 0, "how often the hash function changes; 0: never"),
        headdrop: bool =
            Switch::new(false, "a queue loses its oldest packet instead of its newest"),
    }
}

/// The stochastic fairness queueing scheduler.
#[derive(Debug)]
pub struct Stochastic {
    settings: Settings,
    /// The queue of each hash value, or [`NO`].
    table: Vec<u32>,
    queues: Vec<Queue>,
    lengths: Lengths,
    /// The last queue of the round; its successor has the current turn. [`NO`] while no queue has
    /// packets.
    tail: u32,
    /// The number of queues with packets.
    active: u32,
    packets: u32,
    bytes: u64,
    refused: Refused,
    seed: u64,
    /// The time of the next change of the hash function; `None` until [`Self::catch_up`] sets it.
    next_change: Option<Nanos>,
    /// The number of changes of the hash function that had packets to move.
    perturbations: u64,
}

#[derive(Clone, Debug)]
struct Queue {
    list: PacketList,
    packets: u32,
    /// The bytes that the queue may send before the next queue has its turn.
    credit: i64,
    /// The hash value of the packets.
    hash: u32,
    /// The queue that has its turn after this queue.
    next: u32,
    /// The next queue that reached the same number of packets after this queue, or [`NO`].
    newer: u32,
    /// The last queue that reached the same number of packets before this queue, or [`NO`].
    older: u32,
}

/// The queues by their number of packets: a list for each number, which begins with the queue that
/// reached this number last.
#[derive(Debug)]
struct Lengths {
    /// The first queue of each list, or [`NO`].
    newest: Vec<u32>,
    /// The largest number of packets in a queue.
    most: u32,
}

impl Stochastic {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        let settings = Settings::of(discipline);
        let empty = Queue {
            list: PacketList::default(),
            packets: 0,
            credit: 0,
            hash: 0,
            next: NO,
            newer: NO,
            older: NO,
        };
        let mut new = Self {
            table: vec![NO; settings.divisor as usize],
            queues: vec![empty; settings.flows as usize],
            lengths: Lengths { newest: vec![NO; settings.depth as usize + 1], most: 0 },
            tail: NO,
            active: 0,
            packets: 0,
            bytes: 0,
            refused: Refused::new(),
            seed: discipline.seed(),
            next_change: None,
            perturbations: 0,
            settings,
        };
        (0..settings.flows).for_each(|index| new.lengths.link(&mut new.queues, index));
        new
    }

    /// The hash value of a flow under the current hash function. `hash` is the hash of the flow's
    /// headers.
    #[inline]
    fn hash(&self, hash: u32) -> u32 {
        let seed = (self.seed ^ self.seed >> 32) as u32;
        spread(hash ^ seed, self.settings.divisor)
    }

    /// The index of the queue for a hash value; `None` if all queues have other hash values.
    #[inline]
    fn queue_of(&mut self, hash: u32) -> Option<u32> {
        let known = self.table[hash as usize];
        if known != NO {
            return Some(known);
        }
        let free = self.lengths.newest[0];
        self.queues.get_mut(free as usize)?.hash = hash;
        self.table[hash as usize] = free;
        Some(free)
    }

    /// Appends a packet to a queue, which gets a turn if it was empty.
    #[inline]
    fn append<P: Store>(&mut self, store: &mut P, index: u32, packet: PacketId, len: u32) {
        self.queues[index as usize].list.push_back_of(store, packet, len);
        self.lengths.change(&mut self.queues, index, 1);
        self.packets += 1;
        self.bytes += u64::from(len);
        if self.queues[index as usize].packets > 1 {
            return;
        }
        let next = match self.queues.get_mut(self.tail as usize) {
            None => index,
            Some(last) => core::mem::replace(&mut last.next, index),
        };
        let queue = &mut self.queues[index as usize];
        (queue.next, queue.credit) = (next, i64::from(self.settings.quantum));
        self.tail = index;
        self.active += 1;
    }

    /// Removes the oldest packet of a queue with packets.
    #[inline]
    fn take_oldest<P: Store>(&mut self, store: &mut P, index: u32) -> Option<(PacketId, u32)> {
        let list = &mut self.queues[index as usize].list;
        let len = list.front_len();
        let packet = list.pop_front(store)?;
        self.counted_out(index, len);
        Some((packet, len))
    }

    /// Removes the newest packet of a queue with packets.
    fn take_newest<P: Store>(&mut self, store: &mut P, index: u32) -> Option<(PacketId, u32)> {
        let list = &mut self.queues[index as usize].list;
        let (mut rest, last) = (PacketList::default(), list.back()?);
        while let Some(packet) = list.pop_front(store) {
            if packet != last {
                rest.push_back(store, packet);
            }
        }
        *list = rest;
        let len = store.len(last);
        self.counted_out(index, len);
        Some((last, len))
    }

    /// Counts a packet that leaves its queue.
    #[inline]
    fn counted_out(&mut self, index: u32, len: u32) {
        self.lengths.change(&mut self.queues, index, -1);
        self.packets -= 1;
        self.bytes -= u64::from(len);
    }

    /// Removes the queue with the current turn from the round, since it is empty.
    fn end_turn(&mut self) {
        let index = self.queues[self.tail as usize].next;
        let Queue { next, hash, .. } = self.queues[index as usize];
        self.table[hash as usize] = NO;
        self.active -= 1;
        if next == index {
            self.tail = NO;
        } else {
            self.queues[self.tail as usize].next = next;
        }
    }

    /// Drops a packet of the longest queue.
    #[cold]
    #[inline(never)]
    fn make_room<P: Store>(&mut self, store: &mut P) {
        let index = if self.lengths.most == 1 {
            // Every queue has one packet. The queue that is next in the round loses its packet and
            // its turn.
            self.queues[self.tail as usize].next
        } else {
            self.lengths.newest[self.lengths.most as usize]
        };
        let oldest = self.settings.headdrop;
        let taken =
            if oldest { self.take_oldest(store, index) } else { self.take_newest(store, index) };
        if self.queues[index as usize].packets == 0 {
            self.end_turn();
        }
        if let Some((packet, _)) = taken {
            self.refused.push_back((packet, DropReason::Overlimit));
        }
    }

    /// Handles a packet that finds `depth` packets in its queue: with `headdrop` the packet
    /// replaces the oldest packet, otherwise it is dropped.
    #[cold]
    #[inline(never)]
    fn handle_full_queue<P: Store>(
        &mut self,
        store: &mut P,
        index: u32,
        packet: PacketId,
        len: u32,
    ) {
        if !self.settings.headdrop {
            return self.refused.push_back((packet, DropReason::QueueFull));
        }
        let queue = &mut self.queues[index as usize];
        let oldest = queue.list.front_len();
        if let Some(dropped) = queue.list.pop_front(store) {
            self.bytes -= u64::from(oldest);
            self.refused.push_back((dropped, DropReason::Overlimit));
        }
        queue.list.push_back_of(store, packet, len);
        self.bytes += u64::from(len);
    }

    /// Changes the hash function if it is time, and moves the packets to their new queues.
    #[inline]
    fn catch_up<P: Store>(&mut self, now: Nanos, store: &mut P) {
        if self.settings.perturb > 0 && now != Nanos::MAX {
            let period = u64::from(self.settings.perturb) * NANOS_PER_SEC;
            let due = *self.next_change.get_or_insert(now.saturating_add(Nanos(period)));
            if now >= due {
                let more = (now.0 - due.0) / period + 1;
                self.next_change = Some(due.saturating_add(Nanos(more.saturating_mul(period))));
                self.perturb(store);
            }
        }
    }

    /// Changes the hash function, and moves all packets to the queues of their new hash values.
    #[cold]
    #[inline(never)]
    fn perturb<P: Store>(&mut self, store: &mut P) {
        self.seed = self.seed.wrapping_mul(STEP).wrapping_add(1);
        if self.packets == 0 {
            return;
        }
        self.perturbations += 1;
        let mut all = PacketList::default();
        for index in 0..self.settings.flows {
            while let Some((packet, len)) = self.take_oldest(store, index) {
                all.push_back_of(store, packet, len);
            }
        }
        self.table.fill(NO);
        (self.tail, self.active) = (NO, 0);
        loop {
            let len = all.front_len();
            let Some(packet) = all.pop_front(store) else { return };
            let hash = self.hash(store.header(packet).hash);
            let index = self.queue_of(hash);
            match index.filter(|&index| self.has_room(index)) {
                Some(index) => self.append(store, index, packet, len),
                None => self.refused.push_back((packet, DropReason::QueueFull)),
            }
        }
    }

    /// Whether a queue has fewer than `depth` packets.
    #[inline]
    fn has_room(&self, index: u32) -> bool {
        self.queues[index as usize].packets < self.settings.depth
    }

    /// Gives every queue with packets the credit of all rounds in which no queue would be served.
    #[cold]
    fn skip_rounds(&mut self) {
        let quantum = i64::from(self.settings.quantum);
        let with_packets = || self.queues.iter().filter(|queue| queue.packets > 0);
        let rounds = with_packets().map(|queue| -queue.credit / quantum).min().unwrap_or(0);
        for queue in self.queues.iter_mut().filter(|queue| queue.packets > 0) {
            queue.credit += quantum * rounds.max(0);
        }
    }
}

impl Scheduler for Stochastic {
    fn add_flow(&mut self, _now: Nanos, _spec: &FlowSpec) -> FlowSlot {
        FlowSlot::default()
    }

    fn change_flow<P: Store>(
        &mut self,
        _now: Nanos,
        _store: &mut P,
        _slot: FlowSlot,
        _spec: &FlowSpec,
    ) {
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        _slot: FlowSlot,
        flow: u32,
    ) -> PacketList {
        let mut taken = PacketList::default();
        for _ in 0..self.active {
            let index = self.queues[self.tail as usize].next;
            let mut own = self.queues[index as usize].list.take_flow(store, flow);
            while let Some(packet) = own.pop_front(store) {
                let len = store.len(packet);
                self.counted_out(index, len);
                taken.push_back_of(store, packet, len);
            }
            if self.queues[index as usize].packets == 0 {
                self.end_turn();
            } else {
                self.tail = index;
            }
        }
        taken
    }

    #[inline]
    fn enqueue<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        _slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        self.catch_up(now, store);
        let len = store.len(packet);
        let hash = self.hash(store.header(packet).hash);
        let Some(index) = self.queue_of(hash) else {
            self.refused.push_back((packet, DropReason::QueueFull));
            return None;
        };
        // At [`Nanos::MAX`], packets move here from another scheduler, regardless of `depth` and
        // `limit`.
        let moves = now == Nanos::MAX;
        if moves || self.has_room(index) {
            self.append(store, index, packet, len);
            if self.packets > self.settings.limit && !moves {
                self.make_room(store);
            }
        } else {
            self.handle_full_queue(store, index, packet, len);
        }
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<PacketId> {
        self.catch_up(now, store);
        let mut passed = 0;
        while self.tail != NO {
            let index = self.queues[self.tail as usize].next;
            let queue = &mut self.queues[index as usize];
            if queue.credit <= 0 {
                self.tail = index;
                queue.credit += i64::from(self.settings.quantum);
                passed += 1;
                if passed == self.active {
                    self.skip_rounds();
                    passed = 0;
                }
                continue;
            }
            let (packet, len) = self.take_oldest(store, index)?;
            if self.queues[index as usize].packets == 0 {
                self.end_turn();
            } else {
                self.queues[index as usize].credit -= i64::from(len);
            }
            return Some(packet);
        }
        None
    }

    #[inline]
    fn pop_refused<P: Store>(&mut self, _store: &mut P) -> Option<(PacketId, DropReason)> {
        self.refused.pop_front()
    }

    fn accepts_all(&self) -> bool {
        false
    }

    #[inline]
    fn len(&self) -> usize {
        self.packets as usize
    }

    fn backlog(&self) -> u64 {
        self.bytes
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        [("flows", u64::from(self.active)), ("perturbations", self.perturbations)].into()
    }
}

impl Lengths {
    /// Changes the number of packets of a queue by one.
    #[inline]
    fn change(&mut self, queues: &mut [Queue], index: u32, by: i32) {
        let Queue { packets, newer, older, .. } = queues[index as usize];
        match queues.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest[packets as usize] = older,
        }
        if let Some(older) = queues.get_mut(older as usize) {
            older.newer = newer;
        }
        if by < 0 && packets == self.most && self.newest[packets as usize] == NO {
            self.most -= 1;
        }
        queues[index as usize].packets = packets.wrapping_add_signed(by);
        self.most = self.most.max(queues[index as usize].packets);
        self.link(queues, index);
    }

    /// Adds a queue to the list of its number of packets.
    #[inline]
    fn link(&mut self, queues: &mut [Queue], index: u32) {
        let packets = queues[index as usize].packets as usize;
        if packets >= self.newest.len() {
            self.newest.resize(packets + 1, NO);
        }
        let newest = &mut self.newest[packets];
        let older = core::mem::replace(newest, index);
        if let Some(older) = queues.get_mut(older as usize) {
            older.newer = index;
        }
        let queue = &mut queues[index as usize];
        (queue.newer, queue.older) = (NO, older);
    }
}

/// No queue.
const NO: u32 = u32::MAX;
/// The multiplier from one seed of the hash function to the next.
const STEP: u64 = 6_364_136_223_846_793_005;

pub(super) const ROW: Row = Row {
    name: "sfq",
    aliases: &["stochastic"],
    summary: "stochastic fairness queueing: hashed flows in rounds; the longest queue loses \
              packets (Linux's sfq)",
    source: "McKenney 1990",
    parameters: Settings::PARAMETERS,
    traits: Traits {
        complexity: "O(1)",
        weighted: false,
        work_conserving: true,
        classifies: true,
        flow: &[],
    },
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::{Header, Packet, Pool};
    use crate::sched::Kind;
    use alloc::collections::VecDeque;

    struct Rig {
        scheduler: Stochastic,
        pool: Pool,
    }

    impl Rig {
        fn new(settings: &[(&str, &str)]) -> Self {
            let mut discipline = Discipline::new(Kind::Stochastic).seeded(7);
            settings.iter().for_each(|(name, value)| discipline.set(name, value).unwrap());
            Self { scheduler: Stochastic::new(&discipline), pool: Pool::new(100_000) }
        }

        /// Sends a packet; returns the frames and reasons of the packets that are dropped.
        fn send(&mut self, at: u64, frame: u32, hash: u32, len: u32) -> Vec<(u32, DropReason)> {
            let packet = Packet { frame, len, flow: hash, ..Packet::default() };
            let id = self.pool.insert(packet).unwrap();
            self.pool.set_header(id, Header { hash, ..Header::default() });
            let slot = FlowSlot::default();
            assert_eq!(self.scheduler.enqueue(Nanos(at), &mut self.pool, slot, id), None);
            self.dropped()
        }

        fn dropped(&mut self) -> Vec<(u32, DropReason)> {
            let Self { scheduler, pool } = self;
            core::iter::from_fn(|| scheduler.pop_refused(pool))
                .collect::<Vec<_>>()
                .into_iter()
                .map(|(id, reason)| (pool.remove(id).frame, reason))
                .collect()
        }

        fn take(&mut self, at: u64) -> Option<u32> {
            let id = self.scheduler.dequeue(Nanos(at), &mut self.pool)?;
            Some(self.pool.remove(id).frame)
        }
    }

    /// Hash value, credit, time of the last change, and packets (frame, length).
    type ModelQueue = (u32, i64, u64, VecDeque<(u32, u32)>);

    /// Linux's rules with a search of all queues.
    struct Model {
        settings: Settings,
        /// The round; the queue with the current turn comes first.
        round: VecDeque<ModelQueue>,
        clock: u64,
    }

    impl Model {
        fn send(&mut self, frame: u32, hash: u32, len: u32) -> Vec<(u32, DropReason)> {
            self.clock += 1;
            let Settings { limit, depth, flows, quantum, headdrop, .. } = self.settings;
            let active = self.round.len();
            match self.round.iter_mut().find(|queue| queue.0 == hash) {
                Some(queue) if queue.3.len() >= depth as usize => {
                    if !headdrop {
                        return [(frame, DropReason::QueueFull)].into();
                    }
                    queue.3.push_back((frame, len));
                    return [(queue.3.pop_front().unwrap().0, DropReason::Overlimit)].into();
                }
                Some(queue) => {
                    queue.3.push_back((frame, len));
                    queue.2 = self.clock;
                }
                None if active >= flows as usize => {
                    return [(frame, DropReason::QueueFull)].into();
                }
                None => {
                    let packets = VecDeque::from([(frame, len)]);
                    self.round.push_back((hash, i64::from(quantum), self.clock, packets));
                }
            }
            if self.round.iter().map(|queue| queue.3.len()).sum::<usize>() <= limit as usize {
                return Vec::new();
            }
            self.clock += 1;
            let most = self.round.iter().map(|queue| queue.3.len()).max().unwrap();
            if most == 1 {
                return [(self.round.pop_front().unwrap().3[0].0, DropReason::Overlimit)].into();
            }
            let longest = self.round.iter_mut().filter(|queue| queue.3.len() == most);
            let queue = longest.max_by_key(|queue| queue.2).unwrap();
            queue.2 = self.clock;
            let dropped = if headdrop { queue.3.pop_front() } else { queue.3.pop_back() };
            [(dropped.unwrap().0, DropReason::Overlimit)].into()
        }

        fn take(&mut self) -> Option<u32> {
            self.clock += 1;
            loop {
                let mut queue = self.round.pop_front()?;
                if queue.1 <= 0 {
                    queue.1 += i64::from(self.settings.quantum);
                    self.round.push_back(queue);
                    continue;
                }
                let (frame, len) = queue.3.pop_front().unwrap();
                (queue.1, queue.2) = (queue.1 - i64::from(len), self.clock);
                if !queue.3.is_empty() {
                    self.round.push_front(queue);
                }
                return Some(frame);
            }
        }
    }

    proptest! {
        #[test]
        fn decisions_are_those_of_a_search_of_all_queues(
            steps in proptest::collection::vec(
                (0u32..12, 1u32..3000, prop::bool::weighted(0.6)),
                1..400,
            ),
            limit in 1u32..40,
            depth in 1u32..20,
            flows in 1u32..10,
            quantum in 64u32..3000,
            divisor in 1u32..20,
            headdrop in any::<bool>(),
        ) {
            let text = [limit, depth, flows, quantum, divisor]
                .map(|n| alloc::string::ToString::to_string(&n));
            let mut rig = Rig::new(&[
                ("limit", &text[0]),
                ("depth", &text[1]),
                ("flows", &text[2]),
                ("quantum", &text[3]),
                ("divisor", &text[4]),
                ("headdrop", if headdrop { "on" } else { "off" }),
            ]);
            let mut model =
                Model { settings: rig.scheduler.settings, round: VecDeque::new(), clock: 0 };
            for (frame, (flow, len, arrives)) in steps.into_iter().enumerate() {
                let frame = frame as u32;
                if arrives {
                    let hash = rig.scheduler.hash(flow * 0x1357_9bdf);
                    prop_assert_eq!(
                        rig.send(0, frame, flow * 0x1357_9bdf, len),
                        model.send(frame, hash, len)
                    );
                } else {
                    prop_assert_eq!(rig.take(0), model.take());
                }
                let inside: usize = model.round.iter().map(|queue| queue.3.len()).sum();
                let bytes: u64 = model
                    .round
                    .iter()
                    .flat_map(|queue| &queue.3)
                    .map(|packet| u64::from(packet.1))
                    .sum();
                prop_assert_eq!((rig.scheduler.len(), rig.scheduler.backlog()), (inside, bytes));
                let most = model.round.iter().map(|queue| queue.3.len()).max().unwrap_or(0);
                prop_assert_eq!(rig.scheduler.lengths.most as usize, most);
            }
        }

        /// A flow stays in order when the hash function changes, and all packets leave or are
        /// dropped.
        #[test]
        fn flows_stay_in_order_across_perturbations(
            steps in proptest::collection::vec(
                (0u32..30, 0u64..700_000_000, prop::bool::weighted(0.6)),
                1..400,
            ),
            divisor in 1u32..40,
        ) {
            let divisor = alloc::string::ToString::to_string(&divisor);
            let mut rig = Rig::new(&[
                ("perturb", "1"),
                ("divisor", &divisor),
                ("depth", "20"),
                ("flows", "20"),
            ]);
            let (mut now, mut next, mut gone) = (0, [0u32; 30], 0);
            for (n, (flow, gap, arrives)) in steps.into_iter().enumerate() {
                now += gap;
                if arrives {
                    gone += rig.send(now, 1000 * n as u32 + flow, flow * 0x0357_9bdf, 1000).len();
                } else if let Some(frame) = rig.take(now) {
                    let last = core::mem::replace(&mut next[(frame % 1000) as usize], frame);
                    prop_assert!(frame > last || frame < 1000);
                    gone += 1 + rig.dropped().len();
                } else {
                    gone += rig.dropped().len();
                }
                prop_assert_eq!(rig.scheduler.len(), rig.pool.len() as usize);
            }
            let mut rest = 0;
            while rig.take(now).is_some() {
                rest += 1;
            }
            prop_assert!(gone + rest <= 400 && rig.pool.len() as usize == rig.scheduler.len());
            prop_assert_eq!(
                (rig.scheduler.len(), rig.scheduler.backlog(), rig.scheduler.active),
                (0, 0, 0)
            );
        }
    }

    #[test]
    fn flows_that_share_a_queue_are_separated_by_the_next_hash_function() {
        let mut rig = Rig::new(&[("perturb", "10"), ("divisor", "16")]);
        let own = rig.scheduler.hash(1);
        let other = (2..).find(|&hash| rig.scheduler.hash(hash) == own).unwrap();
        let served = |rig: &mut Rig, at: u64| {
            (0..20).for_each(|n| assert!(rig.send(at, 1, 1, 1500).is_empty(), "{n}"));
            (0..20).for_each(|n| assert!(rig.send(at, 2, other, 1500).is_empty(), "{n}"));
            [(); 40].map(|()| rig.take(at).unwrap())
        };
        // In one queue, the packets leave in the order of their arrival.
        assert!(served(&mut rig, 0).is_sorted());
        let separated =
            (1..10u64).filter(|n| !served(&mut rig, n * 11_000_000_000).is_sorted()).count();
        assert!(separated >= 6, "{separated}");
    }

    #[test]
    fn a_flood_takes_no_room_from_others() {
        let mut rig = Rig::new(&[("limit", "20")]);
        (0..5).for_each(|frame| assert!(rig.send(0, frame, 1, 100).is_empty()));
        let flood: Vec<_> = (100..200).flat_map(|frame| rig.send(0, frame, 2, 1500)).collect();
        // The newest packet of the longest queue is dropped.
        assert_eq!(flood, (115..200).map(|n| (n, DropReason::Overlimit)).collect::<Vec<_>>());
    }

    #[test]
    fn a_queue_that_is_far_behind_takes_no_more_steps_than_there_are_queues() {
        let mut rig = Rig::new(&[("quantum", "64"), ("limit", "300")]);
        for hash in 0..100 {
            rig.send(0, hash, hash * 0x0135_79bd, u32::MAX / 2);
            rig.send(0, hash, hash * 0x0135_79bd, 100);
        }
        // The first packet costs each queue 2^31 bytes of credit, which are 33 million quanta.
        assert_eq!((0..200).filter_map(|_| rig.take(0)).count(), 200);
    }

    #[test]
    fn removed_flows_leave_the_round() {
        let mut rig = Rig::new(&[]);
        for frame in 0..30 {
            rig.send(0, frame, frame % 3, 100);
        }
        let mut taken =
            rig.scheduler.remove_flow(Nanos::ZERO, &mut rig.pool, FlowSlot::default(), 1);
        let removed: Vec<u32> = core::iter::from_fn(|| taken.pop_front(&rig.pool))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|id| rig.pool.remove(id).frame)
            .collect();
        assert_eq!(removed, (0..10).map(|n| 3 * n + 1).collect::<Vec<_>>());
        assert_eq!((rig.scheduler.len(), rig.scheduler.active), (20, 2));
        let rest: Vec<u32> = core::iter::from_fn(|| rig.take(0)).collect();
        assert_eq!(rest.len(), 20);
    }
}
