//! Fair queueing of hashed flows under one limit: the frame of `fq_codel` and `fq_pie`.

use alloc::vec::Vec;

use super::flow_queues::{FlowPolicy, FlowQueues, Refused};
use super::{Discipline, Domain, FlowSlot, FlowSpec, Parameter, Scheduler, Scope};
use crate::packet::{PacketId, PacketList, Store};
use crate::stats::DropReason;
use crate::units::Nanos;

/// A scheduler of hashed flows with the AQM `A` for each.
#[derive(Debug)]
pub struct FairQueue<A: FlowPolicy> {
    queues: FlowQueues<A::State>,
    policy: A,
    refused: Refused,
    seed: u32,
    limit: u32,
    memory: u64,
    batch: u32,
}

impl<A: FlowPolicy> FairQueue<A> {
    /// An empty one with the AQM `policy`, and with the settings [`LIMIT`], [`FLOWS`] and
    /// [`QUANTUM`]; without [`MEMORY`] bytes do not count, and without [`BATCH`] one packet is
    /// dropped at a time.
    pub(super) fn with(discipline: &Discipline, policy: A) -> Self {
        let seed = discipline.seed();
        Self {
            queues: FlowQueues::new(
                discipline.get(FLOWS.name) as u32,
                discipline.get(QUANTUM.name) as u32,
            ),
            policy,
            refused: Refused::new(),
            seed: (seed ^ seed >> 32) as u32,
            limit: discipline.get(LIMIT.name) as u32,
            memory: match discipline.get(MEMORY.name) {
                0 => u64::MAX,
                bytes => bytes,
            },
            batch: discipline.get(BATCH.name) as u32,
        }
    }
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
        let place = self.queues.place(store.header(packet).hash, self.seed);
        if self.queues.packets() >= self.limit && self.policy.drops_tail() {
            self.queues.refuse(now, place, packet, &mut self.policy, &mut self.refused);
            return None;
        }
        self.queues.enqueue(now, store, place, packet, &mut self.policy, &mut self.refused);
        if self.queues.packets() > self.limit || self.queues.bytes() > self.memory {
            self.queues.drop_from_fattest(
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

    fn takes_all(&self) -> bool {
        false
    }

    #[inline]
    fn len(&self) -> usize {
        self.queues.packets() as usize
    }

    fn backlog(&self) -> u64 {
        self.queues.bytes()
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.policy.figures()
    }
}

pub(super) const LIMIT: Parameter = Parameter {
    name: "limit",
    scope: Scope::Scheduler,
    domain: Domain::Number { least: 1, most: 10_000_000, unit: "packets" },
    default: 10_240,
    summary: "most packets inside",
};

pub(super) const FLOWS: Parameter = Parameter {
    name: "flows",
    scope: Scope::Scheduler,
    domain: Domain::Number { least: 1, most: 65_536, unit: "" },
    default: 1024,
    summary: "how many queues flows are hashed to",
};

pub(super) const QUANTUM: Parameter = Parameter {
    name: "quantum",
    scope: Scope::Scheduler,
    domain: Domain::Number { least: 64, most: 1 << 20, unit: "bytes" },
    default: 1500,
    summary: "bytes that a queue sends in its turn",
};

pub(super) const MEMORY: Parameter = Parameter {
    name: "memory_limit",
    scope: Scope::Scheduler,
    domain: Domain::Number { least: 1, most: 1 << 40, unit: "bytes" },
    default: 32 << 20,
    summary: "most bytes inside",
};

pub(super) const BATCH: Parameter = Parameter {
    name: "drop_batch",
    scope: Scope::Scheduler,
    domain: Domain::Number { least: 1, most: 65_536, unit: "packets" },
    default: 64,
    summary: "most packets that are dropped together when there is no room",
};
