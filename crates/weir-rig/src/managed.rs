//! Queues with AQMs in front of a scheduler, as in the engine, but without the engine's classifier,
//! link and timers.
//!
//! AQM decisions take effect as in the engine. [`Gate`] asks the AQM at arrival and at departure. A
//! packet that exceeds the limit is dropped whatever the AQM decides. A mark counts at departure.

use weir_core::Nanos;
use weir_core::aqm::{Aqm, QueueState, Seen, Verdict};
use weir_core::config::QueueLimit;
use weir_core::gate::Gate;
use weir_core::packet::{Header, PacketId, Store as _};
use weir_core::sched::{FlowSlot, FlowSpec, Scheduler};
use weir_core::stamped::{Released, StampedDescriptors};
use weir_core::stats::DropReason;

/// A packet that arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arriving {
    /// The number of the packet's queue.
    pub(crate) queue: u32,
    pub(crate) len: u32,
    pub(crate) header: Header,
}

/// An observer of the outcome of packets.
pub(crate) trait Watch {
    /// A packet was admitted to its queue, with this id.
    fn entered(&mut self, _id: PacketId) {}

    /// A packet that had been admitted is dropped.
    fn dropped(&mut self, now: Nanos, id: PacketId, packet: &Released, reason: DropReason);
}

/// No observer.
pub(crate) struct Unwatched;

impl Watch for Unwatched {
    #[inline(always)] // Measured: see the module `aqm_cost`.
    fn dropped(&mut self, _now: Nanos, _id: PacketId, _packet: &Released, _reason: DropReason) {}
}

/// One queue: its AQM, its limits and its slot in the scheduler.
#[derive(Debug)]
struct Queue<A> {
    aqm: A,
    gate: Gate,
    slot: FlowSlot,
}

/// Queues with one AQM each, and the scheduler behind them.
#[derive(Debug)]
pub(crate) struct Managed<S, A> {
    scheduler: S,
    store: StampedDescriptors,
    queues: Vec<Queue<A>>,
}

impl<S: Scheduler, A: Aqm> Managed<S, A> {
    /// Creates a queue for each flow, all with the same limit. Flows are numbered from 0 in the
    /// order of the iterator. `expected_packets` is the number of packets to allocate memory for.
    pub(crate) fn new(
        mut scheduler: S,
        flows: impl Iterator<Item = (FlowSpec, A)>,
        limit: QueueLimit,
        expected_packets: usize,
    ) -> Self {
        let added: Vec<_> =
            flows.map(|(spec, aqm)| (scheduler.add_flow(Nanos::ZERO, &spec), aqm, limit)).collect();
        Self::with_slots(scheduler, added.into_iter(), expected_packets)
    }

    /// Creates a queue for each slot of a scheduler that has its flows already. The flow of queue
    /// n, counted from 0, must have the number n.
    pub(crate) fn with_slots(
        scheduler: S,
        flows: impl Iterator<Item = (FlowSlot, A, QueueLimit)>,
        expected_packets: usize,
    ) -> Self {
        let queue = |(slot, aqm, limit): (FlowSlot, A, QueueLimit)| Queue {
            aqm,
            gate: Gate::new(limit.into()),
            slot,
        };
        let queues = flows.map(queue).collect();
        Self { scheduler, store: StampedDescriptors::new(expected_packets), queues }
    }

    /// Offers an arriving packet with unknown hosts to its queue.
    ///
    /// # Errors
    /// The drop reason if the packet is not admitted.
    #[inline]
    pub(crate) fn offer<W: Watch>(
        &mut self,
        now: Nanos,
        packet: &Arriving,
        watch: &mut W,
    ) -> Result<(), DropReason> {
        self.offer_with(now, packet, |_, _| {}, watch)
    }

    /// As [`Self::offer`], for a packet between these hosts: the hashes of its source and
    /// destination address, 0 for unknown. All packets must then be offered with their hosts.
    ///
    /// # Errors
    /// The drop reason if the packet is not admitted.
    pub(crate) fn offer_between<W: Watch>(
        &mut self,
        now: Nanos,
        packet: &Arriving,
        hosts: [u32; 2],
        watch: &mut W,
    ) -> Result<(), DropReason> {
        self.offer_with(now, packet, |store, id| store.set_hosts(id, hosts), watch)
    }

    #[inline(always)] // Measured: see the module `aqm_cost`.
    fn offer_with<W: Watch>(
        &mut self,
        now: Nanos,
        packet: &Arriving,
        complete: impl FnOnce(&mut StampedDescriptors, PacketId),
        watch: &mut W,
    ) -> Result<(), DropReason> {
        let &Arriving { queue: number, len, header } = packet;
        let queue = &mut self.queues[number as usize];
        let seen = Seen { len, arrived: now, header };
        let mark = queue.gate.admit_by(&mut queue.aqm, now, &seen)?;
        queue.gate.enter(len);
        let slot = queue.slot;
        let id = self.store.allocate(len, number, now, header);
        complete(&mut self.store, id);
        if let Some(reason) = mark {
            self.store.mark(id, reason);
        }
        watch.entered(id);
        if let Some(refused) = self.scheduler.enqueue(now, &mut self.store, slot, id) {
            self.refuse(now, refused, DropReason::Scheduler, watch);
        }
        self.take_refused(now, watch);
        Ok(())
    }

    /// Dequeues the next packet, with its id; `None` when no packet may depart now.
    #[inline]
    pub(crate) fn take<W: Watch>(
        &mut self,
        now: Nanos,
        watch: &mut W,
    ) -> Option<(PacketId, Released)> {
        loop {
            let next = self.scheduler.dequeue(now, &mut self.store);
            self.take_refused(now, watch);
            let id = next?;
            let (len, header) = (self.store.len(id), self.store.header(id));
            let queue = &mut self.queues[self.store.flow(id) as usize];
            queue.gate.leave(len);
            let seen = Seen { len, arrived: self.store.arrived(id), header };
            match queue.gate.release_by(&mut queue.aqm, now, &seen) {
                Verdict::Drop(reason) => {
                    let packet = self.store.release(id);
                    watch.dropped(now, id, &packet, reason);
                    continue;
                }
                Verdict::Mark(reason) => self.store.mark(id, reason),
                Verdict::Pass | Verdict::Admit => {}
            }
            return Some((id, self.store.release(id)));
        }
    }

    /// Counts a packet as queued again after [`Self::take`], while the packet waits for the link.
    pub(crate) fn hold(&mut self, packet: &Released) {
        self.queues[packet.flow as usize].gate.enter(packet.len);
    }

    /// Ends the count of [`Self::hold`], because the packet departs.
    pub(crate) fn let_go(&mut self, packet: &Released) {
        self.queues[packet.flow as usize].gate.leave(packet.len);
    }

    /// The number of packets in all queues.
    pub(crate) fn packets(&self) -> usize {
        self.scheduler.len()
    }

    /// The state variables of the first queue's AQM and of the scheduler, by name.
    pub(crate) fn variables(&self) -> Vec<(&'static str, u64)> {
        let mut variables =
            self.queues.first().map_or_else(Vec::new, |queue| queue.aqm.variables());
        variables.extend(self.scheduler.variables());
        variables
    }

    /// Drops the packets that the scheduler has discarded since the last call. For a scheduler that
    /// never discards packets, the compiler removes the loop.
    #[inline(always)] // Measured: see the module `aqm_cost`.
    fn take_refused<W: Watch>(&mut self, now: Nanos, watch: &mut W) {
        while let Some((id, reason)) = self.scheduler.pop_refused(&mut self.store) {
            self.refuse(now, id, reason, watch);
        }
    }

    fn refuse<W: Watch>(&mut self, now: Nanos, id: PacketId, reason: DropReason, watch: &mut W) {
        let packet = self.store.release(id);
        let queue = &mut self.queues[packet.flow as usize];
        queue.gate.leave(packet.len);
        watch.dropped(now, id, &packet, reason);
    }
}

/// No AQM: every packet passes.
#[derive(Debug)]
pub(crate) struct NoAqm;

impl Aqm for NoAqm {
    #[inline(always)] // Measured: see the module `aqm_cost`.
    fn arrive(&mut self, _now: Nanos, _packet: &Seen, _queue: &QueueState) -> Verdict {
        Verdict::Pass
    }

    #[inline(always)] // Measured: see the module `aqm_cost`.
    fn leave(&mut self, _now: Nanos, _packet: &Seen, _queue: &QueueState) -> Verdict {
        Verdict::Pass
    }
}

/// A hash for a flow of the rig. The hashes of consecutive flows are far apart, as with real flows,
/// and no two flows share a hash.
pub(crate) fn hash_of(flow: u32) -> u32 {
    flow.wrapping_add(1).wrapping_mul(0x9e37_79b1)
}
