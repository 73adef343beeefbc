//! The emulator: from a submitted packet to its departure, in the order of time, without a clock.
//!
//! The object model is dummynet's: a *flowset* splits traffic into flows (queues); flows feed a
//! *scheduler*, of which there is one instance for each value of its mask; each instance has a
//! *link*. A *pipe* is a flowset, a FIFO and a link in one.
//!
//! A packet's way: [`Emulator::submit`] → loss before the queue → queue limit → scheduler → device
//! → wire → loss on the link → duplication → corruption → delay line → [`Emulator::poll`].
//!
//! **Order.** Events happen at their ideal times, whenever the driver calls: a late `poll` does not
//! move a later release. Events at the same time happen in the order of link numbers, on one link
//! in the order schedule, wire, device, delay line.

mod change;
mod device;
mod flow;
mod instance;
mod link;
mod tables;
mod view;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::key::FlowKey;
use crate::packet::{Ecn, PacketId, Pool};
use crate::sched::FlowSlot;
use crate::slab::Slab;
use crate::stats::{DropReason, LinkStats, MarkReason};
use crate::units::Nanos;
use crate::wheel::EventQueue;

use flow::Flow;
use instance::IdleCheck;
use link::Link;
use tables::{Flowset, Template};
pub use view::{FlowView, InstanceView, Totals};

/// What the classifier decided for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Through pipe N.
    Pipe(u16),
    /// Into queue (flowset) N.
    Queue(u16),
}

/// A packet that comes in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The driver's handle of the frame; comes back with the departure.
    pub frame: u32,
    /// Bytes from the network-layer header on.
    pub len: u32,
    /// Bytes of link-layer header in front of it.
    pub link_header: u8,
    /// Wire packets that this one stands for; 1 unless an offload train is kept whole.
    pub segments: u16,
    /// ECN field.
    pub ecn: Ecn,
    /// What schedulers that rank packets are told of it (see [`crate::packet::Packet::label`]); 0
    /// for nothing.
    pub label: u64,
}

/// A packet that was refused; the driver keeps the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Why.
    pub reason: DropReason,
}

/// A packet that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The driver's handle of the frame. A duplicate has the handle of its original.
    pub frame: u32,
    /// The pipe or scheduler whose link it went through.
    pub link: u16,
    /// What became of it.
    pub fate: Fate,
    /// When it was submitted.
    pub arrived: Nanos,
    /// When it left its queue.
    pub dequeued: Nanos,
    /// When the wire began with it: later than it left its queue only where a device is in between.
    /// Of a packet that was lost, when that was.
    pub started: Nanos,
    /// When it is to leave; at or before the `now` of the poll that returns it.
    pub due: Nanos,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It leaves towards its destination.
    Deliver {
        /// Mark the packet with congestion experienced, for this reason.
        mark: Option<MarkReason>,
        /// Invert one bit: this number, modulo the number of bits from the network-layer header on.
        corrupt: Option<u32>,
        /// It is a duplicate: the original departs too, and the frame must live until both have.
        duplicate: bool,
    },
    /// It was lost inside.
    Drop(DropReason),
}

/// Bounds on what the engine holds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Packets inside at once.
    pub packets: u32,
    /// Links made on demand, and half the flows made on demand, over all pipes, schedulers and
    /// queues. Beyond it a packet that would need another is refused with
    /// [`DropReason::TooManyFlows`]; those that exist are served as ever.
    pub instances: u32,
    /// How long a link made on demand is kept without traffic. A flow made on demand is kept for
    /// once to twice as long.
    pub idle: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Self { packets: 4_000_000, instances: 65_536, idle: Nanos::from_secs(60) }
    }
}

/// The engine.
#[derive(Debug)]
pub struct Emulator {
    seed: u64,
    limits: Limits,
    pool: Pool,
    /// Pipes and schedulers, by number.
    templates: Vec<Option<Template>>,
    /// Queues, by number.
    queues: Vec<Option<Flowset>>,
    links: Slab<Link>,
    flows: Slab<Flow>,
    events: EventQueue,
    /// Departures since the last poll.
    ready: Vec<Departure>,
    /// Packets of a train on their way into a scheduler; kept for its memory.
    batch: Vec<(FlowSlot, PacketId)>,
    /// Links and flows made on demand, in the order in which they may become idle.
    idle_links: VecDeque<IdleCheck>,
    idle_flows: VecDeque<IdleCheck>,
    /// Links and flows ever made.
    serial: u64,
    unrouted: u64,
}

impl Emulator {
    /// An engine without pipes whose every draw follows from `seed`.
    pub fn new(seed: u64, limits: Limits) -> Self {
        Self {
            seed,
            limits,
            pool: Pool::new(limits.packets),
            templates: Vec::new(),
            queues: Vec::new(),
            links: Slab::default(),
            flows: Slab::default(),
            events: EventQueue::default(),
            ready: Vec::new(),
            batch: Vec::new(),
            idle_links: VecDeque::new(),
            idle_flows: VecDeque::new(),
            serial: 0,
            unrouted: 0,
        }
    }

    /// Takes a packet, or refuses it; a refusal is counted as a drop of its pipe.
    ///
    /// # Errors
    /// [`Rejected`] with the reason; the frame stays the driver's.
    pub fn submit(
        &mut self,
        now: Nanos,
        arrival: Arrival,
        key: &FlowKey,
        action: Action,
    ) -> Result<(), Rejected> {
        let Some((link, flow)) = self.locate(now, key, action, arrival.len)? else {
            return Err(self.count_unrouted());
        };
        let Some((state, mut around)) = self.at(link) else {
            return Err(self.count_unrouted());
        };
        state.run_wire(now, &mut around);
        let packet = around.admit(now, flow, arrival, key)?;
        state.take(now, packet, flow, arrival, &mut around);
        let next = state.next_event();
        if next != state.announced {
            state.announced = next;
            self.events.set(link, next);
        }
        Ok(())
    }

    /// Takes packets of one key that come at the same time; the same as [`Self::submit`] for each
    /// of them. Says of those that are refused their frame and why.
    pub fn submit_train(
        &mut self,
        now: Nanos,
        train: impl Iterator<Item = Arrival>,
        key: &FlowKey,
        action: Action,
        mut refused: impl FnMut(u32, Rejected),
    ) {
        let mut train = train.peekable();
        let Some(&Arrival { len, frame, .. }) = train.peek() else { return };
        let (link, flow) = match self.locate(now, key, action, len) {
            Ok(Some(place)) => place,
            // There is no link, or there may not be one: the engine asks for each packet anew.
            not_found => {
                refused(frame, not_found.err().unwrap_or_else(|| self.count_unrouted()));
                for arrival in train.skip(1) {
                    if let Err(rejected) = self.submit(now, arrival, key, action) {
                        refused(arrival.frame, rejected);
                    }
                }
                return;
            }
        };
        let mut batch = core::mem::take(&mut self.batch);
        let Some((state, mut around)) = self.at(link) else {
            for arrival in train {
                refused(arrival.frame, self.count_unrouted());
            }
            return;
        };
        state.run_wire(now, &mut around);
        for arrival in train {
            match around.admit(now, flow, arrival, key) {
                Err(rejected) => refused(arrival.frame, rejected),
                // The wire sends another until after `now`, so nothing leaves the scheduler
                // before all are in it.
                Ok(packet) if state.only_queues() => {
                    let slot = around.enters_queue(flow, arrival.len);
                    batch.push((slot, packet));
                }
                Ok(packet) => state.take(now, packet, flow, arrival, &mut around),
            }
        }
        state.enqueue_batch(now, &batch, &mut around);
        batch.clear();
        self.batch = batch;
        self.reschedule(link);
    }

    /// Appends what departs until `now`: on each link in the order of due times, and over all links
    /// too for what was not already due when it was submitted.
    pub fn poll(&mut self, now: Nanos, out: &mut Vec<Departure>) {
        if !self.ready.is_empty() {
            out.append(&mut self.ready);
        }
        self.run_into(now, out);
    }

    /// When something departs or changes by itself; `None` while nothing will.
    pub fn next_event(&self) -> Option<Nanos> {
        match self.ready.first() {
            Some(departure) => Some(departure.due),
            None => self.events.first().map(|(time, _)| time),
        }
    }

    /// Counters and latencies of the link of pipe or scheduler `id`, over all its instances.
    pub fn stats(&self, id: u16) -> Option<&LinkStats> {
        self.templates.get(usize::from(id))?.as_ref().map(|t| &t.stats)
    }

    /// Packets waiting in the queues of pipe or scheduler `id` now, and their network-layer bytes.
    pub fn queue_length(&self, id: u16) -> (u64, u64) {
        let template = self.templates.get(usize::from(id)).and_then(Option::as_ref);
        template.map_or((0, 0), |t| (t.queue_packets, t.queue_bytes))
    }

    /// The most packets that waited at once in the queues of pipe or scheduler `id` since the last
    /// call, or since counting began; counts on from what waits now.
    /// [`crate::stats::LinkCounters::peak_queue_packets`] then speaks of the time since this call.
    pub fn take_peak(&mut self, id: u16) -> u64 {
        slot(&mut self.templates, id).map_or(0, |t| {
            core::mem::replace(&mut t.stats.counters.peak_queue_packets, t.queue_packets)
        })
    }

    /// Links that exist now: one for each pipe or scheduler in use, or for each value of its mask.
    pub fn instances(&self) -> usize {
        self.links.len()
    }

    /// Packets submitted for a pipe or queue that does not exist.
    pub fn unrouted(&self) -> u64 {
        self.unrouted
    }

    /// Counts a packet that no pipe or queue takes.
    #[cold]
    fn count_unrouted(&mut self) -> Rejected {
        self.unrouted += 1;
        Rejected { reason: DropReason::NoSuchPipe }
    }
}

/// The object with number `id`, if it exists.
fn slot<T>(objects: &mut [Option<T>], id: u16) -> Option<&mut T> {
    objects.get_mut(usize::from(id))?.as_mut()
}

/// Puts an object at number `id`.
fn put<T>(objects: &mut Vec<Option<T>>, id: u16, object: T) {
    if objects.len() <= usize::from(id) {
        objects.resize_with(usize::from(id) + 1, || None);
    }
    objects[usize::from(id)] = Some(object);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PipeConfig;

    /// A link cannot outlive its template through the public interface; if a later change breaks
    /// that rule, the packets must still appear in the counters.
    #[test]
    fn a_packet_whose_link_has_lost_its_template_is_refused_and_counted() {
        let mut emulator = Emulator::new(1, Limits::default());
        emulator.set_pipe(Nanos::ZERO, 1, &PipeConfig::default());
        let arrival = |frame| Arrival {
            frame,
            len: 1000,
            link_header: 14,
            segments: 1,
            ecn: Ecn::NotEct,
            label: 0,
        };
        let (key, pipe) = (FlowKey::default(), Action::Pipe(1));
        assert_eq!(emulator.submit(Nanos::ZERO, arrival(0), &key, pipe), Ok(()));
        emulator.links.for_each(|link| link.template = 2);
        let rejected = Rejected { reason: DropReason::NoSuchPipe };
        assert_eq!(emulator.submit(Nanos(1), arrival(1), &key, pipe), Err(rejected));
        assert_eq!(emulator.unrouted(), 1);
        let mut refused = Vec::new();
        emulator.submit_train(Nanos(2), (2..5).map(arrival), &key, pipe, |frame, why| {
            refused.push((frame, why));
        });
        assert_eq!(refused, [2, 3, 4].map(|frame| (frame, rejected)));
        assert_eq!(emulator.unrouted(), 4);
    }
}
