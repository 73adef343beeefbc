//! A scheduler with its pool and a record of the packets inside, shared by the tests of schedulers.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::{BTreeMap, VecDeque};

use weir_core::Nanos;
use weir_core::packet::{LabelThenStart, Packet, PacketId, Pool};
use weir_core::sched::{FlowSlot, FlowSpec, Scheduler};

/// A flow of a test: its description, its slot in the scheduler, and its packets.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) spec: FlowSpec,
    pub(crate) slot: FlowSlot,
    /// Frames of the packets inside, the oldest first.
    pub(crate) inside: VecDeque<u32>,
}

/// A scheduler with its pool, and a record of the packets inside.
pub(crate) struct Rig<S> {
    pub(crate) scheduler: S,
    pub(crate) pool: Pool,
    pub(crate) flows: BTreeMap<u32, Flow>,
    pub(crate) now: Nanos,
    frames: u32,
    next_flow: u32,
}

impl<S: Scheduler> Rig<S> {
    pub(crate) fn new(scheduler: S) -> Self {
        Self {
            scheduler,
            pool: Pool::new(100_000),
            flows: BTreeMap::new(),
            now: Nanos::ZERO,
            frames: 0,
            next_flow: 0,
        }
    }

    pub(crate) fn add(&mut self, weight: u32, max_packet: u32, priority: u32) -> u32 {
        self.add_spec(FlowSpec { weight, max_packet, priority, ..FlowSpec::default() })
    }

    /// Adds a flow with the next free number, and returns that number.
    pub(crate) fn add_spec(&mut self, spec: FlowSpec) -> u32 {
        let now = self.now;
        self.add_by(spec, |scheduler, spec| scheduler.add_flow(now, spec))
    }

    /// Like [`Self::add_spec`], but `add` adds the flow to the scheduler.
    pub(crate) fn add_by(
        &mut self,
        spec: FlowSpec,
        add: impl FnOnce(&mut S, &FlowSpec) -> FlowSlot,
    ) -> u32 {
        let spec = FlowSpec { flow: self.next_flow, ..spec };
        let slot = add(&mut self.scheduler, &spec);
        self.flows.insert(spec.flow, Flow { spec, slot, inside: VecDeque::new() });
        self.next_flow += 1;
        spec.flow
    }

    pub(crate) fn send(&mut self, flow: u32, len: u32) {
        self.send_labelled(flow, len, 0);
    }

    /// Sends a packet with a label. If the scheduler refuses this packet, or another packet in its
    /// place, returns the flow of the refused packet.
    pub(crate) fn send_labelled(&mut self, flow: u32, len: u32, label: u64) -> Option<u32> {
        let packet = Packet {
            frame: self.frames,
            len,
            flow,
            segments: 1,
            label_then_start: LabelThenStart::waiting(label),
            ..Packet::default()
        };
        let id = self.pool.insert(packet).unwrap();
        let state = self.flows.get_mut(&flow).unwrap();
        state.inside.push_back(self.frames);
        self.frames += 1;
        let refused = self.scheduler.enqueue(self.now, &mut self.pool, state.slot, id);
        self.drop_refused();
        Some(self.refuse(refused?))
    }

    /// Removes the packets that the scheduler has dropped.
    pub(crate) fn drop_refused(&mut self) {
        while let Some((refused, _)) = self.scheduler.pop_refused(&mut self.pool) {
            self.refuse(refused);
        }
    }

    /// Removes a refused packet from the record, and returns its flow.
    pub(crate) fn refuse(&mut self, refused: PacketId) -> u32 {
        let packet = self.pool.remove(refused);
        let inside = &mut self.flows.get_mut(&packet.flow).unwrap().inside;
        let index = inside
            .iter()
            .position(|&frame| frame == packet.frame)
            .expect("a refused packet was inside, or just arrived");
        inside.remove(index);
        packet.flow
    }

    /// Takes the next packet; returns its flow and its length. The packet must be the oldest packet
    /// of its flow.
    pub(crate) fn take(&mut self) -> Option<(u32, u32)> {
        let taken = self.scheduler.dequeue(self.now, &mut self.pool);
        self.drop_refused();
        let id: PacketId = taken?;
        let packet = self.pool.remove(id);
        assert_eq!(
            self.flows.get_mut(&packet.flow).unwrap().inside.pop_front(),
            Some(packet.frame),
            "order within a flow"
        );
        Some((packet.flow, packet.len))
    }

    /// Like [`Self::take`], but advances the time until the scheduler has a packet for the link.
    pub(crate) fn take_in_time(&mut self) -> Option<(u32, u32)> {
        loop {
            let taken = self.take();
            if taken.is_some() {
                return taken;
            }
            let time = self.scheduler.next_event()?;
            assert!(time > self.now, "no packet, and no later event");
            self.now = time;
        }
    }

    pub(crate) fn change(&mut self, flow: u32, weight: u32, priority: u32) {
        let state = self.flows.get_mut(&flow).unwrap();
        state.spec = FlowSpec { weight, priority, ..state.spec };
        self.scheduler.change_flow(self.now, &mut self.pool, state.slot, &state.spec);
    }

    /// Removes a flow. The scheduler must return all packets of the flow in order, except those
    /// that it has dropped.
    pub(crate) fn remove(&mut self, flow: u32) {
        let slot = self.flows[&flow].slot;
        let mut list = self.scheduler.remove_flow(self.now, &mut self.pool, slot, flow);
        self.drop_refused();
        let state = self.flows.remove(&flow).unwrap();
        let mut given = Vec::new();
        while let Some(id) = list.pop_front(&self.pool) {
            given.push(self.pool.remove(id).frame);
        }
        assert_eq!(given, Vec::from(state.inside));
    }

    pub(crate) fn inside(&self) -> usize {
        self.flows.values().map(|f| f.inside.len()).sum()
    }
}
