//! PIFO: a push-in first-out queue, sorted exactly by a chosen rank.
//!
//! # Model
//! Each packet gets a rank at its arrival. It is inserted by its rank, behind packets of equal
//! rank, and the queue is served from the front. The computation of ranks alone determines what the
//! scheduler does.
//!
//! Packets of one flow never overtake each other. The packet with the least rank selects the flow,
//! and the oldest packet of that flow goes. In other words, a packet passes its turn on to older
//! packets of its flow with worse ranks, since it cannot leave before them. When ranks are
//! deadlines, no order that keeps flows in order makes the latest packet less late.
//!
//! # Reference
//! Sivaraman et al., "Programmable packet scheduling at line rate", SIGCOMM 2016. The order within
//! a flow as in Alizadeh et al., "pFabric: minimal near-optimal datacenter transport", SIGCOMM
//! 2013. Why turns are passed on: Lawler, "Optimal sequencing of a single machine subject to
//!       precedence constraints", Management Science 19(5), 1973.
//!
//! # Parameters
//! `rank`, default `stfq`:
//!
//! | rank | the least goes first | of the flow | label of the packet, if it has one |
//! |---|---|---|---|
//! | `stfq` | virtual start: shares by weight | `weight` | |
//! | `lstf` | arrival + slack | `deadline` is the slack | slack in ns |
//! | `edf` | deadline: arrival + `deadline` | `deadline` | the deadline, a time in ns |
//! | `srpt` | bytes of the flow inside, when the packet came | | bytes that the flow has still to send |
//! | `sjf` | bytes that came since the flow had none inside | | bytes of the job |
//! | `las` | bytes that the flow has brought ever | | |
//! | `fifo+` | what is left of the deadline, whenever it came | `deadline` | what is left in ns |
//! | `prio` | priority | `pri` | |
//! | `arrival` | arrival | | |
//!
//! The source of a packet, or an earlier hop, sets its label; 0 means none. Slack and the rest of a
//! deadline shrink along the path: the driver that moves a packet to the next hop subtracts from
//! its label the time that it waited at this one, down to 1. A packet without a label has the whole
//! `deadline` of its flow at each hop.
//!
//! `limit` 0..16777216 packets, default 0, no limit: when so many are inside, the one with the
//! worst rank is dropped for a better arrival. A flow's worst packet is always its newest, so this
//! also keeps the order.
//!
//! `weight` 1..65536, default 1. `pri` 0..63, default 0. `deadline` up to eleven days, default 0.
//!
//! # Complexity
//! O(log N) for each packet and N flows with packets: a heap of flows by their best turn, and with
//! a limit another by their worst. Within a flow turns are sorted as they are.
//!
//! # Guarantees
//! At each service no packet inside has a better rank than the served turn: no inversions. With
//! `stfq`, the bytes of two flows that always have packets, each divided by its weight, differ by
//! at most one largest packet of each flow, divided by its weight. With the others nothing protects
//! flows whose ranks are bad.
//!
//! # Differences from Linux/FreeBSD
//! Neither has one. Linux's `etf` sorts by a time that the sender gives, and its `fq` by the time
//! to leave.
//!
//! # Validation
//! Against a sorted list, with every rank, with and without a limit; each rank against examples
//! worked by hand; no inversions in random traffic.

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

/// A push-in first-out queue.
#[derive(Debug)]
pub struct Pifo {
    ranker: Ranker,
    flows: Slab<Flow>,
    /// Flows with packets by their best turn.
    best: Order,
    /// The same by the worst, the worst first; only when there is a limit.
    worst: Order,
    /// Most packets inside.
    limit: usize,
    arrivals: u64,
    len: usize,
    backlog: u64,
    refused: u64,
    pushed_out: u64,
}

/// A heap of flows with their places.
#[derive(Debug, Default)]
struct Order {
    heap: TurnHeap,
    places: Vec<u32>,
}

/// A flow: its packets, from the oldest to the newest, and their turns.
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
            Ranking::setting(Ranking::Stfq, "what the queue is sorted by, the least first"),
        limit: u32 = Count::new(
            0,
            1 << 24,
            "packets",
            0,
            "most packets inside: beyond it the worst rank goes; 0 for no limit",
        ),
    }
}

impl Pifo {
    /// An empty one.
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

    /// Puts a flow where its turns belong.
    fn place(&mut self, slot: u32) {
        let turns = self.flows.get(slot).map(|flow| &flow.turns);
        self.best.heap.set(&mut self.best.places, slot, turns.and_then(Turns::first));
        if self.limit != usize::MAX {
            let last = turns.and_then(Turns::last).map(|key| !key);
            self.worst.heap.set(&mut self.worst.places, slot, last);
        }
    }

    /// Makes room for a packet of `rank`: takes out the packet with the worst, unless that of the
    /// new one is no better.
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

    /// Sets all times back, so that they stay within their range.
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

    fn rest_if_empty(&mut self) {
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
        self.rest_if_empty();
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
        if self.ranker.is_late() {
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
        // A packet behind others of its flow changes only the worst rank.
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
        self.rest_if_empty();
        Some(packet)
    }

    fn takes_all(&self) -> bool {
        self.limit == usize::MAX
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    /// `refused`: packets that came when those inside ranked no worse. `pushed-out`: packets that
    /// went for better ones.
    fn figures(&self) -> Vec<(&'static str, u64)> {
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
