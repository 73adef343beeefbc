//! The controller: drives packets through a scheduler. It moves the scheduler's backlog between two
//! thresholds, or replays a trace.
//!
//! The loop contains only the generator's ring, the packets' memory and the scheduler. It reads no
//! clock and has no timer. It has no virtual call, since it is compiled for each scheduler. The
//! scheduler's time advances by one nanosecond for each dequeued byte. If the scheduler releases no
//! packet, the time jumps to the scheduler's next event or, in a trace, to the next arrival.
//!
//! The controller counts the packets that it enqueued and dequeued, and does not ask for the
//! scheduler's backlog. A scheduler that refuses packets therefore still completes its cycles, and
//! the refusals are reported.

use weir_core::Nanos;
use weir_core::descriptor::Descriptors;
use weir_core::packet::{PacketId, Store as _};
use weir_core::sched::{FlowSlot, Scheduler};

use crate::generator::{Made, arrivals};
use crate::plan::{Order, Plan};

/// Counts of the packets that passed through a scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that were offered to the scheduler, including those that it refused.
    pub enqueued: u64,
    /// Packets that were dequeued.
    pub dequeued: u64,
    /// Packets that the scheduler refused or dropped.
    pub refused: u64,
}

/// An observer of the departures.
pub(crate) trait Sink {
    fn take(&mut self, flow: u32, len: u32);
}

/// No observer.
pub(crate) struct Unseen;

impl Sink for Unseen {
    #[inline(always)] // Measured: see the module `aqm_cost`.
    fn take(&mut self, _flow: u32, _len: u32) {}
}

/// A scheduler with the memory of its packets.
#[derive(Debug)]
struct Machine<S> {
    scheduler: S,
    store: Descriptors,
    /// The time that the scheduler gets, ns.
    now: u64,
    counts: Counts,
    incoming: Vec<(FlowSlot, PacketId)>,
    outgoing: Vec<PacketId>,
}

/// A scheduler with its flows and arrivals.
#[derive(Debug)]
pub(crate) struct Driver<S> {
    machine: Machine<S>,
    /// The arrivals, in a ring that is read repeatedly.
    ring: Vec<Made>,
    /// The arrival times of a trace; empty for other arrival orders.
    times: Vec<u64>,
    /// The index of the next arrival in the ring.
    position: usize,
}

impl<S: Scheduler> Driver<S> {
    /// Registers the flows with the scheduler and draws the arrivals.
    pub(crate) fn new(mut scheduler: S, plan: &Plan) -> Self {
        let slots: Vec<FlowSlot> =
            plan.flows.flows().map(|flow| scheduler.add_flow(Nanos::ZERO, &flow.spec())).collect();
        let times = match &plan.order {
            Order::Trace(trace) => trace.arrivals().iter().map(|arrival| arrival.time).collect(),
            _ => Vec::new(),
        };
        let machine = Machine {
            scheduler,
            store: Descriptors::new(plan.most_inside() as usize),
            now: 0,
            counts: Counts::default(),
            incoming: Vec::with_capacity(plan.batch),
            outgoing: Vec::with_capacity(plan.batch),
        };
        Self {
            machine,
            ring: arrivals(&plan.flows, &plan.order, plan.seed, &slots),
            times,
            position: 0,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.machine.counts
    }

    /// Raises the backlog to the low threshold and runs the warm-up cycles.
    pub(crate) fn warm_up(&mut self, plan: &Plan) {
        self.up(plan.low, plan.batch);
        self.cycles(plan, plan.warm_up, &mut Unseen);
    }

    #[inline(never)]
    pub(crate) fn cycles<K: Sink>(&mut self, plan: &Plan, cycles: u64, sink: &mut K) {
        if !self.times.is_empty() {
            (0..cycles).for_each(|_| self.replay(sink));
        } else if plan.span == 1 {
            self.hold(cycles, sink);
        } else {
            for _ in 0..cycles {
                self.up(plan.span, plan.batch);
                self.machine.down(plan.span, plan.batch, sink);
            }
        }
    }

    /// Dequeues all remaining packets.
    pub(crate) fn drain<K: Sink>(&mut self, sink: &mut K) {
        self.machine.down(u64::MAX, 1, sink);
    }

    /// Passes the next `packets` arrivals to `each`, in the longest pieces that are contiguous in
    /// the ring and have at most `most` arrivals.
    #[inline(always)] // Measured: see the module `aqm_cost`.
    fn pieces(
        &mut self,
        packets: u64,
        most: usize,
        mut each: impl FnMut(&mut Machine<S>, &[Made]),
    ) {
        let mut remaining = packets;
        while remaining > 0 {
            let here = (self.ring.len() - self.position)
                .min(most)
                .min(usize::try_from(remaining).unwrap_or(usize::MAX));
            each(&mut self.machine, &self.ring[self.position..self.position + here]);
            self.position =
                if self.position + here == self.ring.len() { 0 } else { self.position + here };
            remaining -= here as u64;
        }
    }

    /// Enqueues this many packets, in batches of at most `batch`.
    #[inline]
    fn up(&mut self, packets: u64, batch: usize) {
        if batch == 1 {
            self.pieces(packets, usize::MAX, |machine, piece| {
                piece.iter().for_each(|made| machine.enqueue(made));
            });
        } else {
            self.pieces(packets, batch, |machine, piece| machine.enqueue_batch(piece));
        }
        self.machine.counts.enqueued += packets;
    }

    /// Holds the backlog at the threshold: enqueues and dequeues one packet at a time.
    #[inline]
    fn hold<K: Sink>(&mut self, pairs: u64, sink: &mut K) {
        let mut missed = 0;
        self.pieces(pairs, usize::MAX, |machine, piece| {
            for made in piece {
                machine.enqueue(made);
                missed += u64::from(!machine.dequeue(sink));
            }
        });
        self.machine.counts.enqueued += pairs;
        self.machine.counts.dequeued += pairs - missed;
    }

    /// Replays the trace once. The time advances with each dequeued byte and, when no packet
    /// waits, to the next arrival. Packets that are due are enqueued before the next dequeue.
    fn replay<K: Sink>(&mut self, sink: &mut K) {
        let begin = self.machine.now;
        for index in 0..self.ring.len() {
            let due = begin + self.times[index];
            while self.machine.now < due && self.machine.down(1, 1, sink) {}
            self.machine.now = self.machine.now.max(due);
            self.machine.enqueue(&self.ring[index]);
            self.machine.counts.enqueued += 1;
        }
        self.drain(sink);
    }
}

impl<S: Scheduler> Machine<S> {
    /// Dequeues this many packets, or all that are available. Returns whether there were enough.
    #[inline]
    fn down<K: Sink>(&mut self, packets: u64, batch: usize, sink: &mut K) -> bool {
        let mut remaining = packets;
        if batch == 1 {
            while remaining > 0 && self.dequeue(sink) {
                remaining -= 1;
            }
        } else {
            while remaining > 0 {
                let wanted = remaining.min(batch as u64);
                let given = self.dequeue_batch(wanted as usize, sink);
                remaining -= given;
                if given < wanted {
                    break;
                }
            }
        }
        self.counts.dequeued += packets - remaining;
        remaining == 0
    }

    #[inline(always)] // Measured: see the module `aqm_cost`.
    fn enqueue(&mut self, &Made { slot, flow, len }: &Made) {
        let packet = self.store.allocate(len, flow);
        if let Some(refused) =
            self.scheduler.enqueue(Nanos(self.now), &mut self.store, slot, packet)
        {
            self.refuse(refused);
        }
    }

    #[cold]
    fn refuse(&mut self, packet: PacketId) {
        self.store.release(packet);
        self.counts.refused += 1;
    }

    /// Releases the packets that the scheduler has dropped since the last call. For a scheduler
    /// that never drops packets, the compiler removes the loop.
    #[inline(always)] // Measured: see the module `aqm_cost`.
    fn take_refused(&mut self) {
        while let Some((refused, _)) = self.scheduler.pop_refused(&mut self.store) {
            self.refuse(refused);
        }
    }

    #[inline]
    fn enqueue_batch(&mut self, piece: &[Made]) {
        self.incoming.clear();
        for &Made { slot, flow, len } in piece {
            let packet = self.store.allocate(len, flow);
            self.incoming.push((slot, packet));
        }
        self.outgoing.clear();
        self.scheduler.enqueue_batch(
            Nanos(self.now),
            &mut self.store,
            &self.incoming,
            &mut self.outgoing,
        );
        while let Some(refused) = self.outgoing.pop() {
            self.refuse(refused);
        }
    }

    /// Dequeues a packet. Returns false when there is none.
    #[inline(always)] // Measured: see the module `aqm_cost`.
    fn dequeue<K: Sink>(&mut self, sink: &mut K) -> bool {
        let Some(packet) = self.scheduler.dequeue(Nanos(self.now), &mut self.store) else {
            return self.dequeue_later(sink);
        };
        self.take_refused();
        self.release(packet, sink);
        true
    }

    /// Dequeues from a scheduler that releases no packet now. Advances the time to the scheduler's
    /// next event that releases a packet. A medium has events without a release, such as the
    /// beginning of a transmission. If no event releases a packet, dequeues at [`Nanos::MAX`].
    /// Returns false when there is no packet.
    #[cold]
    fn dequeue_later<K: Sink>(&mut self, sink: &mut K) -> bool {
        let mut packet = None;
        while let Some(Nanos(later)) = self.scheduler.next_event().filter(|_| packet.is_none()) {
            let stays = later <= self.now;
            self.now = self.now.max(later);
            packet = self.scheduler.dequeue(Nanos(self.now), &mut self.store);
            if stays {
                break;
            }
        }
        let packet = packet.or_else(|| self.scheduler.dequeue(Nanos::MAX, &mut self.store));
        self.take_refused();
        let Some(packet) = packet else { return false };
        self.release(packet, sink);
        true
    }

    /// Dequeues at most `packets` packets in one batch. Returns their number.
    #[inline]
    fn dequeue_batch<K: Sink>(&mut self, packets: usize, sink: &mut K) -> u64 {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        outgoing.clear();
        self.scheduler.dequeue_batch(Nanos(self.now), &mut self.store, packets, &mut outgoing);
        self.take_refused();
        for &packet in &outgoing {
            self.store.prefetch(packet);
        }
        let given = outgoing.len();
        for &packet in &outgoing {
            self.release(packet, sink);
        }
        self.outgoing = outgoing;
        (given + (given..packets).take_while(|_| self.dequeue_later(sink)).count()) as u64
    }

    #[inline(always)] // Measured: see the module `aqm_cost`.
    fn release<K: Sink>(&mut self, packet: PacketId, sink: &mut K) {
        let (len, flow) = self.store.release(packet);
        self.now += u64::from(len);
        sink.take(flow, len);
    }
}
