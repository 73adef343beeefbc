//! One tin of CAKE: flow queues with COBALT, and the lists in which they are served.
//!
//! # Lists
//! A queue is in one of three lists, or in none when it is at rest. A queue that gets its first
//! packet joins the *fresh* list with a quantum of credit. The first queue of the fresh list or, if
//! the fresh list is empty, of the *old* list is served while it has credit. Without credit it
//! receives a quantum and goes to the end of the old list. A queue that is found empty goes to the
//! *decaying* list until its COBALT is at rest. Each dequeue first looks at one decaying queue.
//!
//! A queue that has become empty stays in its list, with its credit, until a dequeue inspects it.
//! No dequeue inspects queues while no packet waits in all of CAKE, so that a flow that returns
//! after such a time has the same position and credit as before.
//!
//! # Hosts
//! A queue in the old list that has had packets there is *bulk*. The quantum of every queue is
//! divided by the number of bulk queues of its source or of its destination, whichever is larger.
//!
//! # Dither
//! As in Linux, a quantum is `(quantum · ⌊65535 / divisor⌋ + random) / 65536`, rounded down, with
//! 16 random bits. A quantum is thus rounded up or down at random. The mean is less than the exact
//! quotient by a part of at most divisor / 65536. A quantum of 1514 that is not divided is 1513
//! once in 43 times.

use alloc::vec::Vec;

use super::super::flow_queues::{Peaks, Refused, spread};
use super::hosts::{Hosts, Pair};
use crate::aqm::cobalt::{Control, Law};
use crate::aqm::{Seen, Verdict};
use crate::packet::{PacketId, PacketList, Store};
use crate::rng::Stream;
use crate::stats::DropReason;
use crate::units::{NANOS_PER_SEC, Nanos};

/// The flow queues of one tin.
#[derive(Debug)]
pub(super) struct Tin {
    queues: Vec<Queue>,
    places: Vec<Place>,
    hosts: Hosts,
    /// The fresh, the old and the decaying list.
    rings: [Ring; 3],
    /// The number of sparse queues in the fresh and old lists.
    sparse: u32,
    bulk: u32,
    /// Finds the longest queue.
    peaks: Peaks,
    law: Law,
    /// Draws that dither quanta.
    stream: Stream,
    quantum: u32,
    packets: u32,
    bytes: u64,
    turn: Turn,
}

/// The state by which CAKE chooses the next tin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// The credit that the tin receives in each round, in bytes.
    pub(super) share: i64,
    /// The bytes that the tin may still send in this round.
    pub(super) credit: i64,
    /// The threshold in bit/s; 0 for none.
    pub(super) rate: u64,
    /// The time, in nanoseconds, from which the tin's next packet does not exceed the threshold.
    pub(super) due: u64,
}

pub(super) struct Config {
    pub(super) law: Law,
    pub(super) hosts: Hosts,
    pub(super) stream: Stream,
    pub(super) quantum: u32,
    pub(super) share: u32,
    /// The threshold in bit/s; 0 for none.
    pub(super) rate: u64,
}

#[derive(Debug)]
#[repr(align(64))]
struct Queue {
    list: PacketList,
    packets: u32,
    bytes: u64,
    /// The bytes that the queue may send before other queues have their turn.
    credit: i32,
    /// The next queue in the same list, or [`END`].
    next: u32,
    state: Control,
}

const _: () = assert!(size_of::<Queue>() == 64, "a queue with its state fills one cache line");

/// The position of a queue in its list, and the flow and hosts to which the queue belongs.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The previous queue in the same list, or [`END`].
    previous: u32,
    /// The hash of the flow that has the queue or had it last.
    tag: u32,
    hosts: Pair,
    kind: Kind,
    /// Whether several flows have used the queue since it was last at rest.
    shared: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// In no list.
    AtRest,
    /// In the fresh list.
    Sparse,
    /// In the old list, but it was empty when it moved there.
    SparseWaits,
    /// In the old list, and it has had packets there.
    Bulk,
    /// In the decaying list.
    Decaying,
}

#[derive(Clone, Copy, Debug)]
struct Ring {
    head: u32,
    tail: u32,
}

impl Tin {
    /// A tin without packets.
    pub(super) fn new(config: Config) -> Self {
        let Config { law, hosts, stream, quantum, share, rate } = config;
        let queue = || Queue {
            list: PacketList::default(),
            packets: 0,
            bytes: 0,
            credit: 0,
            next: END,
            state: Control::new(&law),
        };
        let place =
            Place { previous: END, tag: 0, hosts: Pair::NONE, kind: Kind::AtRest, shared: false };
        Self {
            queues: (0..QUEUES).map(|_| queue()).collect(),
            places: (0..QUEUES).map(|_| place).collect(),
            hosts,
            rings: [Ring { head: END, tail: END }; 3],
            sparse: 0,
            bulk: 0,
            peaks: Peaks::new(QUEUES),
            law,
            stream,
            quantum,
            packets: 0,
            bytes: 0,
            turn: Turn { share: i64::from(share), credit: 0, rate, due: 0 },
        }
    }

    pub(super) fn packets(&self) -> u32 {
        self.packets
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a queue is in the fresh or the old list.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.sparse + self.bulk > 0
    }

    /// The state that decides between this tin and other tins.
    #[inline]
    pub(super) fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }

    /// The index of the queue for a flow, and whether another flow has this queue. A flow that
    /// finds no queue at rest uses the queue that its hash selects until that queue is at rest, so
    /// that its packets are never in two queues.
    pub(super) fn queue_of(&mut self, hash: u32, seed: u32, hosts: [u32; 2]) -> (u32, bool) {
        let own = spread(hash ^ seed, QUEUES);
        let at_rest = |tin: &Self, index: u32| tin.places[index as usize].kind == Kind::AtRest;
        let rests = at_rest(self, own);
        if self.places[own as usize].tag == hash && !rests {
            return (own, false);
        }
        let set = own & !(WAYS - 1);
        let ways = || (0..WAYS).map(|n| set | own.wrapping_add(n) & (WAYS - 1));
        self.places[own as usize].shared &= !rests;
        let known = ways().find(|&way| self.places[way as usize].tag == hash);
        let free = || {
            let shared = self.places[own as usize].shared;
            ways().find(|&way| !shared && at_rest(self, way))
        };
        let Some(index) = known.or_else(free) else {
            self.places[own as usize].shared = true;
            return (own, true);
        };
        if at_rest(self, index) {
            self.places[index as usize].hosts = self.hosts.find(hosts);
        }
        self.places[index as usize].tag = hash;
        (index, false)
    }

    pub(super) fn enqueue<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        index: u32,
        packet: PacketId,
    ) {
        let len = store.len(packet);
        if self.packets == 0 {
            self.turn.due = self.turn.due.max(now.0);
        }
        let queue = &mut self.queues[index as usize];
        queue.list.push_back_of(store, packet, len);
        queue.packets += 1;
        queue.bytes += u64::from(len);
        self.packets += 1;
        self.bytes += u64::from(len);
        self.peaks.grow(index, queue.bytes);
        match self.places[index as usize].kind {
            Kind::AtRest | Kind::Decaying => {
                self.queues[index as usize].credit = self.next_quantum(index);
                self.enter(index, Kind::Sparse, FRESH);
            }
            Kind::SparseWaits => self.count_as(index, Kind::Bulk),
            Kind::Sparse | Kind::Bulk => {}
        }
    }

    /// Removes and returns the next packet. `None` means that the queue whose turn it was is empty,
    /// or that no queue is in a list; the caller must choose a tin again. Inspects a decaying queue
    /// before the other queues only if `first` is true. Sets `first` to false.
    pub(super) fn dequeue<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        first: &mut bool,
        refused: &mut Refused,
    ) -> Option<PacketId> {
        let mut passed = 0;
        loop {
            let head = |list: usize| Some(self.rings[list].head).filter(|&head| head != END);
            let decaying = head(DECAYING).filter(|_| core::mem::take(first));
            *first = false;
            let index = decaying
                .or_else(|| head(FRESH))
                .or_else(|| head(OLD))
                .or_else(|| head(DECAYING))?;
            if self.queues[index as usize].credit <= 0 {
                self.pass(index);
                passed += 1;
                if passed > self.sparse + self.bulk {
                    self.skip_rounds();
                    passed = 0;
                }
                continue;
            }
            let taken = self.take(now, store, index, refused);
            if let Some((packet, len)) = taken {
                self.charge(now, index, len);
                return Some(packet);
            }
            self.found_empty(now, index);
            return None;
        }
    }

    /// Gives a queue without credit a quantum, and moves it to the end of the old list.
    fn pass(&mut self, index: u32) {
        let queue = &self.queues[index as usize];
        let kind = match self.places[index as usize].kind {
            Kind::Sparse if queue.packets == 0 => Kind::SparseWaits,
            Kind::Sparse => Kind::Bulk,
            kind => kind,
        };
        self.enter(index, kind, OLD);
        let quantum = self.next_quantum(index);
        let queue = &mut self.queues[index as usize];
        queue.credit = queue.credit.saturating_add(quantum);
    }

    /// Gives the queues of the old list the quanta of all rounds in which no queue is served.
    #[cold]
    fn skip_rounds(&mut self) {
        let load =
            |tin: &Self, index: u32| i64::from(tin.hosts.load(tin.places[index as usize].hosts));
        let next = |tin: &Self, index: u32| {
            Some(tin.queues[index as usize].next).filter(|&next| next != END)
        };
        let quantum = i64::from(self.quantum);
        let head = Some(self.rings[OLD].head).filter(|&head| head != END);
        let mut fewest = i64::MAX;
        let mut at = head;
        while let Some(index) = at {
            let owed = i64::from(-self.queues[index as usize].credit);
            fewest = fewest.min(owed * load(self, index) / quantum);
            at = next(self, index);
        }
        let mut at = head;
        while let Some(index) = at {
            let more = quantum * fewest.max(0) / load(self, index);
            let queue = &mut self.queues[index as usize];
            let credit = i64::from(queue.credit) + more;
            queue.credit = i32::try_from(credit).unwrap_or(i32::MAX);
            at = next(self, index);
        }
    }

    /// Removes packets from a queue up to the first one that COBALT does not drop. Returns that
    /// packet and its length.
    fn take<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        index: u32,
        refused: &mut Refused,
    ) -> Option<(PacketId, u32)> {
        loop {
            let queue = &mut self.queues[index as usize];
            let len = queue.list.front_len();
            let packet = queue.list.pop_front(store)?;
            let is_last = self.counted_out(index, len);
            if now == Nanos::MAX {
                return Some((packet, len));
            }
            let seen = Seen { len, arrived: store.arrived(packet), header: store.header(packet) };
            let state = &mut self.queues[index as usize].state;
            match state.leave(&mut self.law, now, &seen, is_last) {
                Verdict::Drop(reason) => refused.push_back((packet, reason)),
                Verdict::Mark(reason) => {
                    store.mark(packet, reason);
                    return Some((packet, len));
                }
                Verdict::Pass | Verdict::Admit => return Some((packet, len)),
            }
        }
    }

    /// Counts a packet that leaves its queue. Returns whether it was the last.
    fn counted_out(&mut self, index: u32, len: u32) -> bool {
        let queue = &mut self.queues[index as usize];
        queue.packets -= 1;
        queue.bytes -= u64::from(len);
        self.packets -= 1;
        self.bytes -= u64::from(len);
        queue.packets == 0
    }

    /// Charges a packet to its queue and to the tin.
    fn charge(&mut self, now: Nanos, index: u32, len: u32) {
        self.queues[index as usize].credit -= len.min(MAX_CHARGE).cast_signed();
        let Turn { credit, rate, due, .. } = &mut self.turn;
        *credit -= i64::from(len);
        if *rate > 0 && now != Nanos::MAX {
            let time = u128::from(len) * 8 * u128::from(NANOS_PER_SEC) / u128::from(*rate);
            let time = u64::try_from(time).unwrap_or(u64::MAX);
            // A tin below its threshold keeps the unused part of its share until it is empty.
            *due = if *due < now.0 {
                due.saturating_add(time)
            } else {
                (*due).max(now.0.saturating_add(time))
            };
        }
    }

    /// Moves a queue that was found empty to the decaying list, or out of all lists when its COBALT
    /// is at rest.
    fn found_empty(&mut self, now: Nanos, index: u32) {
        let state = &mut self.queues[index as usize].state;
        state.emptied(&self.law, now);
        if state.is_at_rest(now) {
            self.leave_list(index);
            self.count_as(index, Kind::AtRest);
        } else {
            self.enter(index, Kind::Decaying, DECAYING);
        }
    }

    fn next_quantum(&mut self, index: u32) -> i32 {
        let load = u64::from(self.hosts.load(self.places[index as usize].hosts));
        let dither = u64::from(self.stream.bits32() >> 16);
        let quantum = (u64::from(self.quantum) * (0xFFFF / load) + dither) >> 16;
        (quantum as u32).cast_signed()
    }

    fn count_as(&mut self, index: u32, kind: Kind) {
        let Place { hosts, kind: before, .. } = self.places[index as usize];
        if before == kind {
            return;
        }
        match before {
            Kind::Sparse | Kind::SparseWaits => self.sparse -= 1,
            Kind::Bulk => {
                self.bulk -= 1;
                self.hosts.count(hosts, false);
            }
            Kind::AtRest | Kind::Decaying => {}
        }
        match kind {
            Kind::Sparse | Kind::SparseWaits => self.sparse += 1,
            Kind::Bulk => {
                self.bulk += 1;
                self.hosts.count(hosts, true);
            }
            Kind::AtRest | Kind::Decaying => {}
        }
        self.places[index as usize].kind = kind;
    }

    /// Moves a queue to the end of a list, as a queue of this `kind`.
    fn enter(&mut self, index: u32, kind: Kind, list: usize) {
        self.leave_list(index);
        self.count_as(index, kind);
        let last = core::mem::replace(&mut self.rings[list].tail, index);
        self.queues[index as usize].next = END;
        self.places[index as usize].previous = last;
        match self.queues.get_mut(last as usize) {
            Some(last) => last.next = index,
            None => self.rings[list].head = index,
        }
    }

    fn leave_list(&mut self, index: u32) {
        let next = self.queues[index as usize].next;
        let Place { previous, kind, .. } = self.places[index as usize];
        let list = match kind {
            Kind::AtRest => return,
            Kind::Sparse => FRESH,
            Kind::SparseWaits | Kind::Bulk => OLD,
            Kind::Decaying => DECAYING,
        };
        match self.queues.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.rings[list].head = next,
        }
        match self.places.get_mut(next as usize) {
            Some(next) => next.previous = previous,
            None => self.rings[list].tail = previous,
        }
    }

    /// The bytes in the longest queue.
    pub(super) fn most_bytes(&mut self) -> u64 {
        self.longest().map_or(0, |index| self.queues[index as usize].bytes)
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

    /// Drops the packet at the head of the longest queue.
    #[cold]
    pub(super) fn drop_from_longest<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        refused: &mut Refused,
    ) {
        let Some(index) = self.longest() else { return };
        let queue = &mut self.queues[index as usize];
        let len = queue.list.front_len();
        if let Some(packet) = queue.list.pop_front(store) {
            refused.push_back((packet, DropReason::Overlimit));
            queue.state.overflowed(&self.law, now);
            self.counted_out(index, len);
        }
    }

    /// Removes the packets of flow number `flow` from all queues.
    pub(super) fn take_flow<P: Store>(&mut self, store: &mut P, flow: u32) -> PacketList {
        let mut taken = PacketList::default();
        for index in 0..QUEUES {
            if self.queues[index as usize].packets == 0 {
                continue;
            }
            let mut own = self.queues[index as usize].list.take_flow(store, flow);
            while let Some(packet) = own.pop_front(store) {
                let len = store.len(packet);
                self.counted_out(index, len);
                taken.push_back_of(store, packet, len);
            }
        }
        taken
    }
}

/// The indices of the lists in [`Tin::rings`].
const FRESH: usize = 0;
const OLD: usize = 1;
const DECAYING: usize = 2;
/// The end of a list.
const END: u32 = u32::MAX;
/// The number of queues.
pub(super) const QUEUES: u32 = 1024;
/// The number of queues in a set.
pub(super) const WAYS: u32 = 8;
/// The largest number of bytes that one packet costs its queue.
const MAX_CHARGE: u32 = 1 << 23;
