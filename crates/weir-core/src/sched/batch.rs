//! Batches for schedulers that keep each flow on one cache line: lines and packets are prefetched
//! before they are needed.
//!
//! Arrivals are known beforehand. Departures are not, but flows that follow each other tend to do
//! so again: each flow remembers the one that was served [`DISTANCE`] packets later, and a wrong
//! guess costs only the prefetch. The order of packets is that of single calls. With few flows
//! everything is in the cache, and nothing is prefetched.

use alloc::vec::Vec;

use super::{FlowSlot, Scheduler};
use crate::packet::{PacketId, PacketList, Store};
use crate::slab::Lines;
use crate::units::Nanos;

/// A flow on its line.
pub(super) trait Flow {
    fn list(&self) -> &PacketList;

    /// The flow that was served [`DISTANCE`] packets later.
    fn ahead(&mut self) -> &mut u32;
}

/// A scheduler of such flows.
pub(super) trait Batched: Scheduler {
    type Flow: Flow;

    fn flows(&mut self) -> (&mut Lines<Self::Flow>, &mut Foresight);

    /// Dequeues; also gives the flow's number.
    fn serve<P: Store>(&mut self, store: &mut P) -> Option<(u32, PacketId)>;
}

/// The flow served last, and the one expected next.
#[derive(Debug, Default)]
pub(super) struct Foresight {
    served: [u32; DISTANCE],
    expected: [u32; DISTANCE],
    at: usize,
}

impl Foresight {
    /// Learns that `flow` was served, and prefetches what probably follows.
    #[inline]
    fn look_ahead<F: Flow, P: Store>(&mut self, flows: &mut Lines<F>, store: &P, flow: u32) {
        let at = self.at % DISTANCE;
        self.at += 1;
        let before = core::mem::replace(&mut self.served[at], flow);
        if let Some(before) = flows.get_mut(before) {
            *before.ahead() = flow;
        }
        let ahead = *flows.at_mut(flow).ahead();
        flows.prefetch(ahead);
        self.expected[at] = ahead;
        let soon = self.expected[(at + DISTANCE / 2) % DISTANCE];
        if let Some(packet) = flows.get(soon).and_then(|flow| flow.list().front()) {
            store.prefetch(packet);
        }
    }
}

/// [`Scheduler::enqueue_batch`].
#[inline]
pub(super) fn enqueue<S: Batched, P: Store>(
    scheduler: &mut S,
    now: Nanos,
    store: &mut P,
    packets: &[(FlowSlot, PacketId)],
    refused: &mut Vec<PacketId>,
) {
    for some in packets.chunks(CHUNK) {
        let (flows, _) = scheduler.flows();
        if flows.bound() > NEAR {
            for &(slot, _) in some {
                flows.prefetch(slot.0);
            }
            for &(slot, _) in some {
                if let Some(last) = flows.at(slot.0).list().back() {
                    store.prefetch(last);
                }
            }
        }
        for &(slot, packet) in some {
            refused.extend(scheduler.enqueue(now, store, slot, packet));
        }
    }
}

/// [`Scheduler::dequeue_batch`].
#[inline]
pub(super) fn dequeue<S: Batched, P: Store>(
    scheduler: &mut S,
    store: &mut P,
    max: usize,
    out: &mut Vec<PacketId>,
) {
    let far = scheduler.flows().0.bound() > NEAR;
    out.reserve(max.min(scheduler.len()));
    for _ in 0..max {
        let Some((flow, packet)) = scheduler.serve(store) else { return };
        out.push(packet);
        if far {
            let (flows, foresight) = scheduler.flows();
            foresight.look_ahead(flows, store, flow);
        }
    }
}

/// Packets between asking for a flow and serving it.
const DISTANCE: usize = 16;
/// Packets that are prefetched at once.
const CHUNK: usize = 32;
/// The lines of so many flows stay close to the processor.
const NEAR: u32 = 4096;
