//! Approximations of a PIFO: a few first-in first-out queues in strict priority, and a rule that
//! selects the queue of each packet or refuses the packet.
//!
//! [`Approximation`] is the scheduler for all rules. Each rule is a [`Mapping`] in a file of its
//! own.
//!
//! # Order within a flow
//! A rule uses ranks alone, and may select a queue that is served before the queue in which an
//! older packet of the same flow waits. The packet is then appended to the queue of the older
//! packet instead, and counts as `held`.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt::Debug;

use super::inversions::Inversions;
use super::rank::{Ranker, Standing};
use super::{FlowSlot, FlowSpec, Scheduler};
use crate::packet::{PacketId, PacketList, Store};
use crate::slab::Slab;
use crate::units::Nanos;

/// A rule that selects the queue of a packet.
pub trait Mapping: Debug {
    /// The queue for a packet of `rank` while `len` packets are inside; `None` refuses the packet.
    /// Called once for each arrival.
    fn choose(&mut self, rank: u64, len: usize) -> Option<usize>;

    /// The queue that [`Self::choose`] would select for `rank`, without a change of state; `None`
    /// if the rule may refuse packets, because such a rule must see each arrival exactly once.
    fn would_choose(&self, rank: u64) -> Option<usize>;

    /// Reduces all stored ranks by `by`, because virtual time nears the end of its range.
    fn set_back(&mut self, by: u64);
}

/// Strict-priority queues and the rule that fills them.
#[derive(Debug)]
pub struct Approximation<M> {
    mapping: M,
    ranker: Ranker,
    flows: Slab<Flow>,
    queues: Vec<Queue>,
    /// The queues with packets, one bit each.
    waiting: u64,
    /// The largest number of packets in each queue.
    depth: usize,
    len: usize,
    backlog: u64,
    inversions: Inversions,
    refused: u64,
    held: u64,
}

/// A queue: its packets, and the rank and the flow's slot of each packet in the same order.
#[derive(Debug, Default)]
struct Queue {
    list: PacketList,
    ranks: VecDeque<(u64, u32)>,
}

#[derive(Debug)]
struct Flow {
    standing: Standing,
    packets: u32,
    /// The queue of the flow's newest packet.
    queue: usize,
}

impl<M: Mapping> Approximation<M> {
    /// An empty scheduler with `queues` queues, at most 64, of at most `depth` packets each; a
    /// depth of 0 means no limit.
    pub(super) fn with(mapping: M, ranker: Ranker, queues: usize, depth: u64) -> Self {
        Self {
            mapping,
            ranker,
            flows: Slab::default(),
            queues: (0..queues.clamp(1, MAX_QUEUES)).map(|_| Queue::default()).collect(),
            waiting: 0,
            depth: if depth == 0 { usize::MAX } else { depth as usize },
            len: 0,
            backlog: 0,
            inversions: Inversions::default(),
            refused: 0,
            held: 0,
        }
    }

    /// The queue for a packet of `rank`: the queue that the rule selects or the queue of the flow's
    /// newest packet, whichever is served later. `None` if the rule refuses the packet, or if this
    /// queue is full.
    fn queue_for(&mut self, slot: FlowSlot, rank: u64) -> Option<usize> {
        let chosen = self.mapping.choose(rank, self.len)?.min(self.queues.len() - 1);
        let queue = self.behind_older(self.flows.at(slot.0), chosen);
        if self.queues[queue].ranks.len() >= self.depth {
            return None;
        }
        self.held += u64::from(queue > chosen);
        Some(queue)
    }

    /// The queue `chosen` or the queue of the flow's newest packet, whichever is served later.
    #[inline]
    fn behind_older(&self, flow: &Flow, chosen: usize) -> usize {
        let chosen = chosen.min(self.queues.len() - 1);
        if flow.packets > 0 { chosen.max(flow.queue) } else { chosen }
    }

    /// Reduces all virtual times and ranks, so that they stay within their range.
    #[cold]
    #[inline(never)]
    fn set_back(&mut self) {
        let by = self.ranker.set_back();
        self.mapping.set_back(by);
        self.inversions.set_back(by);
        self.flows.for_each(|flow| flow.standing.set_back(by));
        for (rank, _) in self.queues.iter_mut().flat_map(|queue| &mut queue.ranks) {
            *rank = rank.saturating_sub(by);
        }
    }

    fn reset_if_empty(&mut self) {
        if self.len == 0 {
            self.ranker.rest();
        }
    }
}

impl<M: Mapping> Scheduler for Approximation<M> {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        FlowSlot(self.flows.insert(Flow { standing: Standing::new(spec), packets: 0, queue: 0 }))
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
        let mut removed = PacketList::default();
        let Some(flow) = self.flows.remove(slot.0).filter(|flow| flow.packets > 0) else {
            return removed;
        };
        // The flow's newest packet is in the last queue that has packets of the flow.
        for (number, queue) in self.queues[..=flow.queue].iter_mut().enumerate() {
            let mut old = core::mem::take(queue);
            while let (Some(packet), Some((rank, owner))) =
                (old.list.pop_front(store), old.ranks.pop_front())
            {
                if owner == slot.0 {
                    self.inversions.leave(rank);
                    self.len -= 1;
                    self.backlog -= u64::from(store.len(packet));
                    removed.push_back(store, packet);
                } else {
                    queue.list.push_back(store, packet);
                    queue.ranks.push_back((rank, owner));
                }
            }
            if queue.ranks.is_empty() {
                self.waiting &= !(1 << number);
            }
        }
        self.reset_if_empty();
        removed
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
        let Some(number) = self.queue_for(slot, rank) else {
            self.refused += 1;
            return Some(packet);
        };
        let flow = self.flows.at_mut(slot.0);
        self.ranker.accept(&mut flow.standing, rank, facts.len);
        flow.packets += 1;
        flow.queue = number;
        let queue = &mut self.queues[number];
        queue.list.push_back_of(store, packet, facts.len);
        queue.ranks.push_back((rank, slot.0));
        self.inversions.enter(rank);
        self.waiting |= 1 << number;
        self.len += 1;
        self.backlog += u64::from(facts.len);
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, _now: Nanos, store: &mut P) -> Option<PacketId> {
        let number = self.waiting.trailing_zeros();
        let queue = self.queues.get_mut(number as usize)?;
        let len = queue.list.front_len();
        let packet = queue.list.pop_front(store)?;
        let (rank, slot) = queue.ranks.pop_front()?;
        if queue.ranks.is_empty() {
            self.waiting &= !(1 << number);
        }
        let flow = self.flows.at_mut(slot);
        flow.packets -= 1;
        self.ranker.serve(&mut flow.standing, rank, len);
        self.inversions.serve(rank);
        self.len -= 1;
        self.backlog -= u64::from(len);
        self.reset_if_empty();
        Some(packet)
    }

    fn accepts_all(&self) -> bool {
        false
    }

    fn has_room(&self, now: Nanos, slot: FlowSlot, len: u32, label: u64) -> bool {
        let flow = self.flows.at(slot.0);
        let facts = flow.standing.facts_of_arrival(now, len, label);
        let rank = self.ranker.rank(&flow.standing, &facts);
        let Some(chosen) = self.mapping.would_choose(rank) else { return false };
        let queue = self.behind_older(flow, chosen);
        self.queues[queue].ranks.len() < self.depth
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    /// The counters of [`Inversions`], and two more. `refused`: packets that the rule refused or
    /// that found their queue full. `held`: packets in a later queue than the rule selected, behind
    /// older packets of their flow.
    fn variables(&self) -> Vec<(&'static str, u64)> {
        let mut variables = Vec::from(self.inversions.variables());
        variables.extend([("refused", self.refused), ("held", self.held)]);
        variables
    }
}

/// The largest number of queues, one for each bit of a machine word.
pub(super) const MAX_QUEUES: usize = 64;
