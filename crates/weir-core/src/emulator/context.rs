//! The data that a link uses besides its own state: its template, the flows, the pool and the
//! departures. The functions here do the accounting at both ends of a queue.

use alloc::vec::Vec;

use super::budget::StepBudget;
use super::flow::Flow;
use super::tables::Template;
use super::traffic::{Arrival, Departure, Fate, Rejected};
use crate::aqm::{Seen, Verdict};
use crate::key::FlowKey;
use crate::lookup::LookupKey;
use crate::packet::{Header, LabelThenStart, Packet, PacketId, PacketList, Pool, Store};
use crate::sched::FlowSlot;
use crate::slab::Slab;
use crate::stats::DropReason;
use crate::units::Nanos;

pub(super) struct Context<'a> {
    pub(super) seed: u64,
    pub(super) lookup: &'a LookupKey,
    pub(super) template: &'a mut Template,
    pub(super) flows: &'a mut Slab<Flow>,
    pub(super) pool: &'a mut Pool,
    /// The list for departures: the driver's list during a poll, otherwise the engine's.
    pub(super) ready: &'a mut Vec<Departure>,
    pub(super) steps: &'a mut StepBudget,
}

impl Context<'_> {
    /// Counts an arrival, and allocates a slot in the pool if the queue admits the packet.
    #[inline(always)] // Measured: see the emulator's module.
    pub(super) fn admit(
        &mut self,
        now: Nanos,
        flow: u32,
        arrival: Arrival,
        key: &FlowKey,
    ) -> Result<PacketId, Rejected> {
        let Arrival { frame, len, link_header, segments, ecn, label } = arrival;
        let counters = &mut self.template.stats.counters;
        counters.packets_in += 1;
        counters.bytes_in += u64::from(len);
        let hash = if self.template.classifies { self.lookup.bucket(key) } else { 0 };
        let header = Header { ecn, dscp: key.dscp, hash };
        let state = self.flows.at_mut(flow);
        let admitted = state
            .admit(now, len, header)
            .and_then(|mark| Ok((mark, self.pool.allocate().ok_or(DropReason::NoMemory)?)));
        match admitted {
            Ok((mark, id)) => {
                let packet = Packet {
                    frame,
                    len,
                    flow,
                    segments,
                    link_header,
                    ecn,
                    arrived: now,
                    dequeued: now,
                    label_then_start: LabelThenStart::waiting(label),
                };
                self.pool.fill(id, packet, header, mark);
                if self.template.isolates {
                    self.pool.set_hosts(id, self.lookup.hosts(key));
                }
                counters.backlog_packets += 1;
                Ok(id)
            }
            Err(reason) => {
                state.cold.count_drop(reason);
                counters.count_drop(reason);
                Err(Rejected { reason })
            }
        }
    }

    /// Counts a packet that enters the scheduler, and returns its flow's slot in the scheduler.
    #[inline(always)] // Measured: see the emulator's module.
    pub(super) fn enters_queue(&mut self, flow: u32, len: u32) -> FlowSlot {
        let state = self.flows.at_mut(flow);
        state.gate.enter(len);
        self.template.enqueued(len);
        state.slot
    }

    /// Drops a packet that a scheduler refused.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&mut self, now: Nanos, packet: PacketId, reason: DropReason) {
        let Packet { flow, len, .. } = *self.pool.get(packet);
        // A flow that is being deleted may already be freed.
        if let Some(flow) = self.flows.get_mut(flow) {
            flow.gate.leave(len);
            flow.cold.count_drop(reason);
        }
        self.template.dequeued(len);
        drop_inside(now, packet, reason, self);
    }

    /// Counts a packet that leaves its queue, and asks the queue's AQM for its verdict. Returns the
    /// reason if the AQM drops the packet.
    #[inline(always)] // Measured: see the emulator's module.
    pub(super) fn leaves_queue(&mut self, now: Nanos, packet: PacketId) -> Option<DropReason> {
        let Self { template, flows, pool, .. } = self;
        let &Packet { len, flow, .. } = pool.get(packet);
        template.dequeued(len);
        if let Some(flow) = flows.get_mut(flow) {
            flow.gate.leave(len);
            match flow.verdict_on_departure(now, || Seen {
                len,
                arrived: pool.arrived(packet),
                header: pool.header(packet),
            }) {
                Verdict::Drop(reason) => {
                    flow.cold.count_drop(reason);
                    return Some(reason);
                }
                Verdict::Mark(reason) => pool.mark(packet, reason),
                Verdict::Pass | Verdict::Admit => {}
            }
            if let Some(reason) = pool.mark_of(packet) {
                flow.cold.count_mark(reason);
                template.stats.counters.count_mark(reason);
            }
        }
        None
    }

    pub(super) fn drop_waiting(&mut self, now: Nanos, mut packets: PacketList, reason: DropReason) {
        while let Some(packet) = packets.pop_front(self.pool) {
            self.template.dequeued(self.pool.get(packet).len);
            drop_inside(now, packet, reason, self);
        }
    }
}

/// Drops a packet inside a link: removes it from the pool, counts the drop, and adds it to the
/// departures.
pub(super) fn drop_inside(
    at: Nanos,
    packet: PacketId,
    reason: DropReason,
    context: &mut Context<'_>,
) {
    let Packet { frame, arrived, dequeued, .. } = context.pool.remove(packet);
    let counters = &mut context.template.stats.counters;
    counters.backlog_packets -= 1;
    counters.count_drop(reason);
    context.ready.push(Departure {
        frame,
        link: context.template.id,
        fate: Fate::Drop(reason),
        arrived,
        dequeued,
        started: at,
        due: at,
    });
}
