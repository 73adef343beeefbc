//! Batches for schedulers that store each flow in one cache line: cache lines and packets are
//! prefetched before the scheduler needs them.
//!
//! The arrivals of a batch are known in advance. The departures are not, but flows that were served
//! in some order are often served in the same order again. Each flow therefore stores the flow that
//! was served [`DISTANCE`] packets later, and a wrong guess costs only the prefetch. Packets leave
//! in the same order as with single calls. With few flows all cache lines stay in the cache, and
//! nothing is prefetched.

use alloc::vec::Vec;

use super::{FlowSlot, Scheduler};
use crate::packet::{PacketId, PacketList, Store};
use crate::slab::Lines;
use crate::units::Nanos;

/// A flow in its cache line.
pub(super) trait Flow {
    fn list(&self) -> &PacketList;

    /// The flow that was served [`DISTANCE`] packets later.
    fn ahead(&mut self) -> &mut u32;
}

/// A scheduler that stores its flows in cache lines.
pub(super) trait Batched: Scheduler {
    type Flow: Flow;

    /// The flows, and the record by which the next flows are guessed.
    fn flows(&mut self) -> (&mut Lines<Self::Flow>, &mut Foresight);

    /// Dequeues a packet. Returns the slot of its flow, and the packet.
    fn serve<P: Store>(&mut self, store: &mut P) -> Option<(u32, PacketId)>;
}

/// The flows served last, and the flows expected next, in rings.
#[derive(Debug, Default)]
pub(super) struct Foresight {
    served: [u32; DISTANCE],
    expected: [u32; DISTANCE],
    /// The position in both rings, modulo their length.
    at: usize,
}

impl Foresight {
    /// Records that `flow` was served, and prefetches the flow and the packet that probably follow.
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

/// Implements [`Scheduler::enqueue_batch`] with prefetches.
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

/// Implements [`Scheduler::dequeue_batch`] with prefetches.
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

/// The number of packets between the prefetch of a flow and its service.
const DISTANCE: usize = 16;
/// The number of packets that are prefetched together.
const CHUNK: usize = 32;
/// The cache lines of this many flows stay in a fast cache.
const NEAR: u32 = 4096;
