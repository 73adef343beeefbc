//! The controller: drives packets through a scheduler from one operating point to the next.
//!
//! Nothing in the loop but the generator's ring, the packets' memory, and the scheduler: no clock, no timer, no virtual call, as
//! the loop is compiled for each scheduler. The scheduler's own time is a count of bytes, one a nanosecond, for those that ask.
//!
//! The controller counts what it sent against what it took. A scheduler that refuses packets so still gets its cycles, and the
//! refusals are told.

use weir_core::Nanos;
use weir_core::descriptor::Descriptors;
use weir_core::packet::{PacketId, Store as _};
use weir_core::sched::{FlowSlot, Scheduler};

use crate::generator::{Made, arrivals};
use crate::plan::{Order, Plan};

/// What went through a scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets handed in.
    pub enqueued: u64,
    /// Packets that it gave.
    pub dequeued: u64,
    /// Packets that it refused or threw out.
    pub refused: u64,
    /// Bytes that it gave.
    pub bytes: u64,
}

/// Who looks at the packets that leave.
pub(crate) trait Sink {
    fn take(&mut self, flow: u32, len: u32);
}

/// Nobody.
pub(crate) struct Unseen;

impl Sink for Unseen {
    #[inline(always)]
    fn take(&mut self, _flow: u32, _len: u32) {}
}

/// A scheduler with its flows and packets.
#[derive(Debug)]
pub(crate) struct Driver<S> {
    scheduler: S,
    store: Descriptors,
    ring: Vec<Made>,
    /// Times of the ring's packets, when they have some.
    times: Vec<u64>,
    position: usize,
    now: u64,
    pub(crate) counts: Counts,
    incoming: Vec<(FlowSlot, PacketId)>,
    outgoing: Vec<PacketId>,
}

impl<S: Scheduler> Driver<S> {
    /// Tells the scheduler of its flows and draws the arrivals.
    pub(crate) fn new(mut scheduler: S, plan: &Plan) -> Self {
        let slots: Vec<FlowSlot> = plan.flows.flows().map(|flow| scheduler.add_flow(Nanos::ZERO, &flow.spec())).collect();
        let times = match &plan.order {
            Order::Trace(trace) => trace.arrivals().iter().map(|arrival| arrival.time).collect(),
            _ => Vec::new(),
        };
        Self {
            scheduler,
            store: Descriptors::new(plan.most_inside() as usize),
            ring: arrivals(&plan.flows, &plan.order, plan.seed, &slots),
            times,
            position: 0,
            now: 0,
            counts: Counts::default(),
            incoming: Vec::with_capacity(plan.batch),
            outgoing: Vec::with_capacity(plan.batch),
        }
    }

    /// Brings the backlog to the low threshold and goes through the cycles that do not count.
    pub(crate) fn warm_up(&mut self, plan: &Plan) {
        self.up(plan.low, plan.batch);
        self.cycles(plan, plan.warm_up, &mut Unseen);
    }

    /// Goes through cycles.
    #[inline(never)]
    pub(crate) fn cycles<K: Sink>(&mut self, plan: &Plan, cycles: u64, sink: &mut K) {
        for _ in 0..cycles {
            if self.times.is_empty() {
                self.up(plan.span, plan.batch);
                self.down(plan.span, plan.batch, sink);
            } else {
                self.replay(sink);
            }
        }
    }

    /// What the scheduler still has.
    pub(crate) fn drain<K: Sink>(&mut self, sink: &mut K) {
        while let Some(packet) = self.scheduler.dequeue(Nanos::MAX, &mut self.store) {
            self.release(packet, sink);
        }
    }

    /// The controller's way up: so many packets in.
    #[inline]
    fn up(&mut self, packets: u64, batch: usize) {
        if batch == 1 {
            for _ in 0..packets {
                self.enqueue();
            }
            return;
        }
        let mut left = packets;
        while left > 0 {
            let now = left.min(batch as u64);
            self.enqueue_batch(now as usize);
            left -= now;
        }
    }

    /// Its way down: so many packets out, or all that there are.
    #[inline]
    fn down<K: Sink>(&mut self, packets: u64, batch: usize, sink: &mut K) {
        if batch == 1 {
            for _ in 0..packets {
                if !self.dequeue(sink) {
                    return;
                }
            }
            return;
        }
        let mut left = packets;
        while left > 0 {
            let now = left.min(batch as u64);
            if !self.dequeue_batch(now as usize, sink) {
                return;
            }
            left -= now;
        }
    }

    #[inline]
    fn made(&mut self) -> Made {
        let made = self.ring[self.position];
        self.position += 1;
        if self.position == self.ring.len() {
            self.position = 0;
        }
        made
    }

    #[inline]
    fn enqueue(&mut self) {
        let Made { slot, flow, len } = self.made();
        let packet = self.store.allocate(len, flow);
        self.counts.enqueued += 1;
        if let Some(refused) = self.scheduler.enqueue(Nanos(self.now), &mut self.store, slot, packet) {
            self.refuse(refused);
        }
    }

    #[cold]
    fn refuse(&mut self, packet: PacketId) {
        self.store.release(packet);
        self.counts.refused += 1;
    }

    #[inline]
    fn enqueue_batch(&mut self, packets: usize) {
        self.incoming.clear();
        for _ in 0..packets {
            let Made { slot, flow, len } = self.made();
            let packet = self.store.allocate(len, flow);
            self.incoming.push((slot, packet));
        }
        self.counts.enqueued += packets as u64;
        self.outgoing.clear();
        self.scheduler.enqueue_batch(Nanos(self.now), &mut self.store, &self.incoming, &mut self.outgoing);
        while let Some(refused) = self.outgoing.pop() {
            self.refuse(refused);
        }
    }

    /// False when there was nothing.
    #[inline]
    fn dequeue<K: Sink>(&mut self, sink: &mut K) -> bool {
        let Some(packet) = self.scheduler.dequeue(Nanos(self.now), &mut self.store) else { return self.dequeue_later(sink) };
        self.release(packet, sink);
        true
    }

    /// A scheduler that gives nothing now, though it has something, says when it will.
    #[cold]
    fn dequeue_later<K: Sink>(&mut self, sink: &mut K) -> bool {
        if let Some(Nanos(later)) = self.scheduler.next_event() {
            self.now = self.now.max(later);
        }
        let packet = self.scheduler.dequeue(Nanos(self.now), &mut self.store);
        let Some(packet) = packet.or_else(|| self.scheduler.dequeue(Nanos::MAX, &mut self.store)) else { return false };
        self.release(packet, sink);
        true
    }

    #[inline]
    fn dequeue_batch<K: Sink>(&mut self, packets: usize, sink: &mut K) -> bool {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        outgoing.clear();
        self.scheduler.dequeue_batch(Nanos(self.now), &mut self.store, packets, &mut outgoing);
        for &packet in &outgoing {
            self.store.prefetch(packet);
        }
        let given = outgoing.len();
        for &packet in &outgoing {
            self.release(packet, sink);
        }
        self.outgoing = outgoing;
        (given..packets).all(|_| self.dequeue_later(sink))
    }

    #[inline]
    fn release<K: Sink>(&mut self, packet: PacketId, sink: &mut K) {
        let (len, flow) = self.store.release(packet);
        self.now += u64::from(len);
        self.counts.dequeued += 1;
        self.counts.bytes += u64::from(len);
        sink.take(flow, len);
    }

    /// One pass through a trace: what has arrived goes in, then a packet goes out, and time is what the link has sent.
    fn replay<K: Sink>(&mut self, sink: &mut K) {
        let begin = self.now;
        for place in 0..self.ring.len() {
            let due = begin + self.times[place];
            while self.now < due && self.dequeue(sink) {}
            self.now = self.now.max(due);
            self.enqueue();
        }
        while self.dequeue(sink) {}
    }
}
