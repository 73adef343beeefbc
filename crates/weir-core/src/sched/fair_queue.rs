//! Fair queueing of hashed flows under one limit: the common part of `fq_codel` and `fq_pie`.

use alloc::vec::Vec;

use super::flow_queues::{FlowPolicy, FlowQueues, Refused};
use super::{Discipline, FlowSlot, FlowSpec, Scheduler};
use crate::packet::{PacketId, PacketList, Store};
use crate::settings::Count;
use crate::stats::DropReason;
use crate::units::Nanos;

/// A scheduler of hashed flows, each with the AQM `A`.
#[derive(Debug)]
pub struct FairQueue<A: FlowPolicy> {
    queues: FlowQueues<A::State>,
    policy: A,
    refused: Refused,
    /// Changes the hashes by which flows choose queues.
    seed: u32,
    limit: u32,
    memory: u64,
    batch: u32,
}

impl<A: FlowPolicy> FairQueue<A> {
    /// An empty scheduler with the AQM `policy`.
    pub(super) fn with(discipline: &Discipline, bounds: &Bounds, policy: A) -> Self {
        let seed = discipline.seed();
        Self {
            queues: FlowQueues::new(bounds.flows, bounds.quantum),
            policy,
            refused: Refused::new(),
            seed: (seed ^ seed >> 32) as u32,
            limit: bounds.limit,
            memory: bounds.memory,
            batch: bounds.batch,
        }
    }
}

/// The settings of the scheduler and of its queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The largest number of packets in all queues together.
    pub(super) limit: u32,
    /// The number of queues to which flows are hashed.
    pub(super) flows: u32,
    /// The bytes that a queue may send in one turn.
    pub(super) quantum: u32,
    /// The largest number of bytes in all queues together.
    pub(super) memory: u64,
    /// The largest number of packets that are dropped together when there is no room.
    pub(super) batch: u32,
}

impl<A: FlowPolicy> Scheduler for FairQueue<A> {
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
        self.queues.take_flow(store, flow)
    }

    #[inline]
    fn enqueue<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        _slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        let index = self.queues.queue_of(store.header(packet).hash, self.seed);
        if self.queues.packets() >= self.limit && self.policy.drops_tail() {
            self.queues.refuse(now, index, packet, &mut self.policy, &mut self.refused);
            return None;
        }
        self.queues.enqueue(now, store, index, packet, &mut self.policy, &mut self.refused);
        if self.queues.packets() > self.limit || self.queues.bytes() > self.memory {
            self.queues.drop_from_longest(
                now,
                store,
                self.batch,
                &mut self.policy,
                &mut self.refused,
            );
        }
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<PacketId> {
        self.queues.dequeue(now, store, &mut self.policy, &mut self.refused)
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
        self.queues.packets() as usize
    }

    fn backlog(&self) -> u64 {
        self.queues.bytes()
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        self.policy.variables()
    }
}

pub(super) const LIMIT: Count =
    Count::new(1, 10_000_000, "packets", 10_240, "largest number of packets inside");
pub(super) const FLOWS: Count =
    Count::new(1, 65_536, "", 1024, "number of queues to which flows are hashed");
pub(super) const QUANTUM: Count =
    Count::new(64, 1 << 20, "bytes", 1500, "bytes that a queue may send in one turn");
