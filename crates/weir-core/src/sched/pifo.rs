//! PIFO: a push-in first-out queue, sorted exactly by a chosen rank.
//!
//! # Model
//! Each packet gets a rank at its arrival. It is inserted by its rank, behind packets of equal
//! rank, and the queue is served from the front. The computation of ranks determines the scheduling
//! policy.
//!
//! Packets of one flow never overtake each other. The packet with the least rank selects the flow,
//! and the oldest packet of that flow is served. In other words, a packet passes its turn on to
//! older packets of its flow with worse ranks, since it cannot leave before them. When ranks are
//! deadlines, no other order that keeps the packets of each flow in order reduces the largest delay
//! beyond a deadline.
//!
//! # Reference
//! Sivaraman et al., "Programmable packet scheduling at line rate", SIGCOMM 2016. The order within
//! a flow is that of Alizadeh et al., "pFabric: minimal near-optimal datacenter transport", SIGCOMM
//! 2013. The reason to pass turns on is in Lawler, "Optimal sequencing of a single machine subject
//! to precedence constraints", Management Science 19(5), 1973.
//!
//! # Parameters
//! `rank`, default `stfq`:
//!
//! | rank | rank of a packet; the least is served first | flow settings | label, if there is one |
//! |---|---|---|---|
//! | `stfq` | virtual start: shares by weight | `weight` | |
//! | `lstf` | arrival + slack | `deadline`: the slack | slack in ns |
//! | `edf` | deadline: arrival + `deadline` | `deadline` | the deadline, a time in ns |
//! | `srpt` | bytes of the flow inside, with this packet | | bytes that the flow will still send |
//! | `sjf` | bytes since the flow was last empty, with this packet | | bytes of the job |
//! | `las` | bytes of all earlier arrivals of the flow | | |
//! | `fifo+` | remaining time to the deadline, at any arrival | `deadline` | remaining time in ns |
//! | `prio` | priority | `pri` | |
//! | `arrival` | arrival | | |
//!
//! The source of a packet or an earlier hop sets its label; 0 means none. Slack and the remaining
//! time to a deadline shrink along the path: the driver that moves a packet to the next hop
//! reduces the packet's label by the time that the packet waited at this hop, down to 1. A packet
//! without a label has the whole `deadline` of its flow at each hop.
//!
//! `limit` 0..16777216 packets, default 0 for no limit: when `limit` packets are inside, the packet
//! with the worst rank is dropped in favour of an arrival with a better rank. A flow's worst turn
//! is always that of its newest packet, so that this drop keeps the order within the flow.
//!
//! `weight` 1..65536, default 1. `pri` 0..63, default 0. `deadline` up to eleven days, default 0.
//!
//! # Complexity
//! O(log N) for each packet and N flows with packets: a heap of flows by their best turn and, with
//! a limit, another heap by their worst turn. The turns within a flow are already sorted.
//!
//! # Guarantees
//! There are no inversions: at each service no packet inside has a better rank than the served
//! turn. With `stfq`, consider two flows that always have packets: their bytes, each divided by the
//! flow's weight, differ by at most one largest packet of each flow, divided by its weight. The
//! other ranks do not protect flows with bad ranks.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements a PIFO. Linux's `etf` sorts by a time that the sender sets, and its `fq` by
//! the departure time.
//!
//! # Validation
//! Tests compare the PIFO with a sorted list, with every rank, with and without a limit. They
//! compare each rank with examples worked by hand, and check that random traffic has no inversions.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::prio::PRIORITY;
use super::rank::{DEADLINE, Ranker, Ranking, Standing};
use super::turns::{self, TurnHeap, Turns};
use super::{Discipline, FlowSlot, FlowSpec, Row, Scheduler, Traits, WEIGHT};
use crate::packet::{PacketId, PacketList, Store};
use crate::settings;
use crate::settings::Count;
use crate::slab::Slab;
use crate::units::Nanos;

/// The PIFO scheduler.
#[derive(Debug)]
pub struct Pifo {
    ranker: Ranker,
    flows: Slab<Flow>,
    /// The flows with packets, by their best turn.
    best: Order,
    /// The flows with packets by their worst turn, the worst first; only if there is a limit. The
    /// heap holds the complements of the turns, because it finds the least key.
    worst: Order,
    /// The largest number of packets inside.
    limit: usize,
    /// The number of arrivals so far, which orders packets of equal rank.
    arrivals: u64,
    len: usize,
    backlog: u64,
    refused: u64,
    pushed_out: u64,
}

/// A heap of flows, and the position of each flow in it.
#[derive(Debug, Default)]
struct Order {
    heap: TurnHeap,
    places: Vec<u32>,
}

#[derive(Debug)]
struct Flow {
    packets: VecDeque<PacketId>,
    turns: Turns,
    standing: Standing,
}

settings! {
    /// Settings of a PIFO.
    struct Settings {
        rank: Ranking =
            Ranking::setting(Ranking::Stfq, "rank of packets; the least is served first"),
        limit: u32 = Count::new(
            0,
            1 << 24,
            "packets",
            0,
            "largest number of packets inside, beyond which the packet with the worst rank is \
             dropped; 0 for no limit",
        ),
    }
}

impl Pifo {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        let settings = Settings::of(discipline);
        Self {
            ranker: Ranker::new(settings.rank, discipline.epoch()),
            flows: Slab::default(),
            best: Order::default(),
            worst: Order::default(),
            limit: match settings.limit {
                0 => usize::MAX,
                limit => limit as usize,
            },
            arrivals: 0,
            len: 0,
            backlog: 0,
            refused: 0,
            pushed_out: 0,
        }
    }

    /// Updates the positions of a flow in the heaps.
    fn place(&mut self, slot: u32) {
        let turns = self.flows.get(slot).map(|flow| &flow.turns);
        self.best.heap.set(&mut self.best.places, slot, turns.and_then(Turns::first));
        if self.limit != usize::MAX {
            let last = turns.and_then(Turns::last).map(|key| !key);
            self.worst.heap.set(&mut self.worst.places, slot, last);
        }
    }

    /// Makes room for a packet of `rank`: removes and returns the packet with the worst rank,
    /// unless the new packet's rank is no better.
    fn push_out<P: Store>(&mut self, store: &P, rank: u64) -> Option<PacketId> {
        let (last, slot) = self.worst.heap.first()?;
        if turns::rank(!last) <= rank {
            return None;
        }
        let flow = self.flows.at_mut(slot);
        let packet = flow.packets.pop_back()?;
        let key = flow.turns.pop_last()?;
        let len = store.len(packet);
        self.ranker.withdraw(&mut flow.standing, turns::rank(key), len);
        self.place(slot);
        self.len -= 1;
        self.backlog -= u64::from(len);
        Some(packet)
    }

    /// Reduces all virtual times, so that they stay within their range.
    #[cold]
    #[inline(never)]
    fn set_back(&mut self) {
        let by = self.ranker.set_back();
        for slot in 0..self.flows.bound() {
            let Some(flow) = self.flows.get_mut(slot) else { continue };
            flow.standing.set_back(by);
            flow.turns.set_back(by);
            self.place(slot);
        }
    }

    fn reset_if_empty(&mut self) {
        if self.len == 0 {
            self.ranker.rest();
        }
    }
}

impl Scheduler for Pifo {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let flow = Flow {
            packets: VecDeque::new(),
            turns: Turns::default(),
            standing: Standing::new(spec),
        };
        FlowSlot(self.flows.insert(flow))
    }

    fn change_flow<P: Store>(
        &mut self,
        _now: Nanos,
        _store: &mut P,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        self.flows.at_mut(slot.0).standing.change(spec);
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        _flow: u32,
    ) -> PacketList {
        let mut list = PacketList::default();
        let Some(flow) = self.flows.remove(slot.0) else { return list };
        self.place(slot.0);
        for packet in flow.packets {
            list.push_back(store, packet);
            self.len -= 1;
            self.backlog -= u64::from(store.len(packet));
        }
        self.reset_if_empty();
        list
    }

    #[inline]
    fn enqueue<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        if self.ranker.must_set_back() {
            self.set_back();
        }
        let standing = &self.flows.at(slot.0).standing;
        let facts = standing.facts(now, store, packet);
        let rank = self.ranker.rank(standing, &facts);
        let mut out = None;
        if self.len >= self.limit {
            out = self.push_out(store, rank);
            if out.is_none() {
                self.refused += 1;
                return Some(packet);
            }
            self.pushed_out += 1;
        }
        let flow = self.flows.at_mut(slot.0);
        self.ranker.accept(&mut flow.standing, rank, facts.len);
        flow.packets.push_back(packet);
        let first = flow.turns.first();
        flow.turns.push(turns::key(rank, self.arrivals));
        // Without a limit, only a new best turn moves the flow in a heap.
        let same = first == flow.turns.first() && self.limit == usize::MAX;
        self.arrivals += 1;
        self.len += 1;
        self.backlog += u64::from(facts.len);
        if !same {
            self.place(slot.0);
        }
        out
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, _now: Nanos, store: &mut P) -> Option<PacketId> {
        let (key, slot) = self.best.heap.first()?;
        let flow = self.flows.at_mut(slot);
        let packet = flow.packets.pop_front()?;
        flow.turns.pop_first();
        let len = store.len(packet);
        self.ranker.serve(&mut flow.standing, turns::rank(key), len);
        self.place(slot);
        self.len -= 1;
        self.backlog -= u64::from(len);
        self.reset_if_empty();
        Some(packet)
    }

    fn accepts_all(&self) -> bool {
        self.limit == usize::MAX
    }

    fn has_room(&self, _now: Nanos, _slot: FlowSlot, _len: u32, _label: u64) -> bool {
        self.len < self.limit
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    /// `refused`: arrivals that were dropped because no packet inside had a worse rank.
    /// `pushed-out`: packets that were dropped in favour of better arrivals.
    fn variables(&self) -> Vec<(&'static str, u64)> {
        alloc::vec![("refused", self.refused), ("pushed-out", self.pushed_out)]
    }
}

pub(super) const ROW: Row = Row {
    name: "pifo",
    aliases: &[],
    summary: "push-in first-out: a queue sorted exactly by a rank that you choose",
    source: "Sivaraman et al. 2016",
    parameters: Settings::PARAMETERS,
    traits: Traits {
        complexity: "O(log N)",
        weighted: true,
        work_conserving: true,
        classifies: false,
        flow: &[WEIGHT, PRIORITY, DEADLINE],
    },
};
