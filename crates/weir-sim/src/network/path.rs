//! The path of a packet: from its source through ports to its destination, or to the port where it
//! is lost.
//!
//! # Events
//! When a packet enters a plain port, the time of its departure is already known. A hop is
//! therefore one event: the packet joins the exits of the port, in order of time, and only the
//! first exit is in the agenda. An exit contains everything that ports need to know of a packet.
//! The packets themselves are looked up at the ends of their paths, for observers and notices, and
//! by the engine.
//!
//! # Joined ports
//! If all packets of a plain port arrive from one other plain port, its arrivals are also known in
//! advance, because nothing else affects them. Such a port is *joined* to the one before it: a
//! packet enters both at once, which saves an event. For example, an access link behind the port
//! that all flows share is joined. Counters and queue lengths are always those of the time at which
//! they are read, and losses count at the time at which they happen: a packet that the second port
//! will drop remains among the exits of the first until then.
//!
//! A packet passes joined ports separately while an observer needs each step, or if the packet must
//! report when it has left its host. The packets behind it then also pass the ports separately,
//! until the first of the two ports is empty. The two ports take two events instead of one; the
//! times are the same.
//!
//! # Inlining
//! The functions of the packet path are `inline(always)`, here, in the agenda, the packet store and
//! the context of endpoints. All of them were measured together: with plain `inline`, a simulated
//! second of TCP takes 2.951 million instructions instead of 2.912 million (`tcp_cost` under
//! callgrind, with thin link-time optimisation), and a UDP packet takes one instruction more, of
//! 1,520 (`sim_cost`).

use weir_core::key::FlowKey;
use weir_core::packet::Ecn;
use weir_core::stats::DropReason;
use weir_core::{Action, Arrival, Departure, Fate, Nanos, Rejected};

use super::hop::{Exit, Held, PORT, PORT_BITS};
use super::{About, Network, Observer, Port, PortId};
use crate::notice::EndpointId;
use crate::packet::{Flags, FlowId, NONE, Packet};

/// The part of a packet that ports need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mover {
    number: u32,
    /// Index of the packet's next hop.
    next_hop: u32,
    len: u32,
    segments: u8,
    /// Whether the sending host gets a notice when the packet leaves it.
    tell: bool,
    /// Whether the next port will drop the packet.
    lost: bool,
}

impl Network {
    /// Sends a packet from one end of its flow. The function is inline so that the caller builds
    /// the packet in place.
    #[inline(always)] // Measured: see `network::path`.
    pub(crate) fn send(&mut self, mut packet: Packet, extra: u32) {
        let flow = &mut self.flows[packet.flow.0 as usize];
        packet.sent = self.now;
        flow.inside += 1;
        if packet.flags.has(Flags::BACK) {
            packet.next_hop = flow.back;
        } else {
            packet.next_hop = flow.forward;
            let count = &mut self.counts[flow.group as usize];
            count.sent += 1;
            count.sent_bytes += u64::from(packet.len);
        }
        packet.extra = extra;
        let Packet { next_hop, len, segments, flags, .. } = packet;
        let number = self.packets.insert(packet);
        self.enter(Mover {
            number,
            next_hop,
            len,
            segments,
            tell: flags.has(Flags::TELL),
            lost: false,
        });
    }

    /// Determines which ports are joined to others.
    pub(crate) fn join(&mut self) {
        if !std::mem::take(&mut self.new_paths) {
            return;
        }
        // For each port, the only port from which packets arrive; otherwise `NONE` or `SEVERAL`.
        let mut before = vec![NONE; self.ports.len()];
        let mut last = SEVERAL;
        for hop in &self.paths {
            let port = hop.port & PORT;
            if !hop.is_end() {
                let from = &mut before[port as usize];
                *from = if *from == NONE || *from == last { last } else { SEVERAL };
            }
            last = if hop.is_end() { SEVERAL } else { port };
        }
        let mut last = SEVERAL;
        for hop in &mut self.paths {
            let port = hop.port & PORT;
            let plain = |port: u32| matches!(self.ports[port as usize], Port::Plain(_));
            let joined = !hop.is_end()
                && last != SEVERAL
                && before[port as usize] == last
                && plain(port)
                && plain(last);
            assert!(
                joined || !hop.joined,
                "packets of a new path enter a joined port from elsewhere: add flows before the \
                 first run"
            );
            hop.joined = joined;
            last = if hop.is_end() { SEVERAL } else { port };
        }
    }

    /// Sets the time before which nothing reads counters and queues.
    pub(crate) fn set_horizon(&mut self, horizon: Nanos) {
        self.horizon = horizon;
        self.engine_event = self.engine.next_event().unwrap_or(Nanos::MAX);
    }

    /// Brings counters and queues up to date at `now`, including the events of that time.
    pub(crate) fn catch_up(&mut self, now: Nanos) {
        for port in &mut self.ports {
            if let Port::Plain(plain) = port {
                plain.pipe.catch_up(now);
            }
        }
    }

    /// Puts a packet into the port that it has reached and into ports joined to that port. At the
    /// end of its path, the packet joins the arrived packets.
    #[inline]
    fn enter(&mut self, mover: Mover) {
        let Mover { number, mut next_hop, len, segments, tell, lost } = mover;
        let (mut at, mut before) = (self.now, NONE);
        loop {
            let hop = self.paths[next_hop as usize];
            if hop.is_end() {
                self.arrived.push_back(number);
                self.unsettled = true;
                return;
            }
            let port = hop.port & PORT;
            let Port::Plain(plain) = &mut self.ports[port as usize] else {
                return self.enter_engine(mover, None);
            };
            let Ok(due) = plain.pipe.submit(at, len, segments.into(), self.horizon) else {
                return self.refused(Mover { next_hop, ..mover }, port, before, at);
            };
            next_hop += 1;
            let idle = plain.exits.is_empty();
            // A packet may enter the next port in this step only if no earlier packet is still in
            // this port, because that packet must enter the next port first.
            if self.paths[next_hop as usize].joined && idle && !tell && self.observer.is_none() {
                (at, before) = (due, port);
                continue;
            }
            plain.exits.push_back(Exit { due, number, next_hop, len, segments, tell, lost });
            if idle {
                self.agenda.set(port, due);
            }
            if self.observer.is_some() {
                self.entered(number, port);
            }
            return;
        }
    }

    /// Drops a packet in a plain port. The packet arrives from port `before`, possibly at a future
    /// time.
    #[cold]
    fn refused(&mut self, mut mover: Mover, port: u32, before: u32, at: Nanos) {
        if before == NONE {
            return self.lose(mover.number, mover.next_hop, PortId(port), DropReason::QueueFull);
        }
        mover.lost = true;
        let Mover { number, next_hop, len, segments, tell, lost } = mover;
        if let Port::Plain(plain) = &mut self.ports[before as usize] {
            // The packet was to pass both ports in one step, so the first port has no other exits.
            plain.exits.push_back(Exit { due: at, number, next_hop, len, segments, tell, lost });
            self.agenda.set(before, at);
        }
    }

    #[cold]
    fn entered(&mut self, number: u32, port: u32) {
        let packet = *self.packets.get(number);
        self.observe(&packet, packet.label, |observer, now| {
            observer.entered(now, PortId(port), &packet);
        });
    }

    /// Puts a packet into a port of the engine. A packet from the gated port `from` waits if the
    /// port has no room for it.
    #[inline(never)]
    pub(super) fn enter_engine(&mut self, mover: Mover, from: Option<u32>) {
        let Mover { number, next_hop, len, segments, .. } = mover;
        let hop = self.paths[next_hop as usize].port;
        let (port, queue) = (hop & PORT, hop >> PORT_BITS);
        let Port::Engine(to) = &mut self.ports[port as usize] else { return };
        let packet = self.packets.get_mut(number);
        packet.next_hop = next_hop;
        let mut rank = packet.label;
        if let Some(labeller) = &mut to.labeller {
            (rank, packet.label) = labeller.enter(self.now, packet);
        }
        let (flow, back) = (packet.flow.0 as usize, packet.flags.has(Flags::BACK));
        let arrival = Arrival {
            frame: number,
            len,
            link_header: 0,
            segments: segments.into(),
            ecn: packet.ecn,
            label: rank,
        };
        let class = if queue == 0 { self.flows[flow].class } else { (queue - 1) as u16 };
        let action = to
            .queues
            .get(to.queue_of(class))
            .map_or(Action::Pipe(to.id), |&queue| Action::Queue(queue));
        let own;
        let mut key = &self.keys[flow][usize::from(back)];
        if let Some(count) = &mut to.separate {
            *count = count.wrapping_add(1);
            own = FlowKey { flow_id: *count & FLOW_LABEL, ..*key };
            key = &own;
        }
        if let Some(from) = from {
            let held = Held { from, port, next_hop, arrival, key: *key, action };
            return self.hand_over(held);
        }
        let outcome = self.engine.submit(self.now, arrival, key, action);
        self.engine_event = self.engine.next_event().unwrap_or(Nanos::MAX);
        self.submitted(number, next_hop, port, rank, outcome);
    }

    /// Handles the engine's answer to a packet that entered `port`.
    #[inline]
    pub(super) fn submitted(
        &mut self,
        number: u32,
        next_hop: u32,
        port: u32,
        rank: u64,
        outcome: Result<(), Rejected>,
    ) {
        match outcome {
            Err(rejected) => self.lose(number, next_hop, PortId(port), rejected.reason),
            Ok(()) if self.observer.is_some() => {
                let packet = *self.packets.get(number);
                self.observe(&packet, rank, |observer, now| {
                    observer.entered(now, PortId(port), &packet);
                });
            }
            Ok(()) => {}
        }
    }

    /// Calls the observer for a packet, if there is an observer.
    #[cold]
    fn observe(&mut self, packet: &Packet, rank: u64, what: impl FnOnce(&mut dyn Observer, Nanos)) {
        let (group, key) = (self.group(packet.flow), *self.key_of(packet));
        if let Some(observer) = &mut self.observer {
            observer.about(&About { group, key, rank });
            what(&mut **observer, self.now);
        }
    }

    /// Removes a lost packet and counts the loss.
    #[cold]
    fn lose(&mut self, number: u32, next_hop: u32, port: PortId, reason: DropReason) {
        let packet = self.packets.remove(number);
        self.forget_wait(number);
        self.observe(&packet, 0, |observer, now| observer.dropped(now, port, &packet, reason));
        self.packets.drop_extra(&packet);
        if packet.flags.has(Flags::TELL) {
            self.tell_host(&packet, next_hop, 0);
        }
        if !packet.flags.has(Flags::BACK) {
            self.count(packet.flow).reasons.count_drop(reason);
        }
        let class = self.flows[packet.flow.0 as usize].class;
        if let Some(count) = self.class_count(port.0, class) {
            count.reasons.count_drop(reason);
        }
        self.count_out(packet.flow);
    }

    /// Reduces the number of a flow's packets inside the network.
    #[inline]
    pub(crate) fn count_out(&mut self, flow: FlowId) {
        let state = &mut self.flows[flow.0 as usize];
        state.inside -= 1;
        if state.retired && state.inside == 0 {
            self.free_flow(flow);
        }
    }

    #[inline]
    pub(crate) fn engine_event(&self) -> Nanos {
        self.engine_event
    }

    /// Runs the engine until now and moves its departures to their next hops.
    pub(crate) fn run_engine(&mut self) {
        let mut departures = std::mem::take(&mut self.departures);
        self.engine.poll(self.now, &mut departures);
        self.engine_event = self.engine.next_event().unwrap_or(Nanos::MAX);
        for departure in &mut departures {
            if let Fate::Deliver { duplicate: true, .. } = departure.fate {
                let original = departure.frame;
                departure.frame = self.packets.duplicate(original);
                self.copy_wait(original, departure.frame);
                let Packet { flow, flags, .. } = *self.packets.get(departure.frame);
                self.flows[flow.0 as usize].inside += 1;
                self.count(flow).duplicated += u64::from(!flags.has(Flags::BACK));
            }
        }
        self.handled += departures.len() as u64;
        for departure in departures.drain(..) {
            self.depart(&departure);
        }
        self.departures = departures;
        if !self.held.is_empty() {
            self.retry_held();
        }
    }

    /// Moves a packet that has left the engine to its next hop, or counts its loss.
    fn depart(&mut self, departure: &Departure) {
        let &Departure { frame: number, link, fate, arrived, dequeued, .. } = departure;
        let port = self.engine_ports[usize::from(link)];
        let packet = self.packets.get_mut(number);
        let Packet { flow, next_hop, len, segments, flags, .. } = *packet;
        let (mark, corrupt) = match fate {
            Fate::Drop(reason) => return self.lose(number, next_hop, PortId(port), reason),
            Fate::Deliver { mark, corrupt, .. } => (mark, corrupt),
        };
        // Every endpoint would discard the packet because of its checksum.
        if corrupt.is_some() {
            return self.lose(number, next_hop, PortId(port), DropReason::BadFrame);
        }
        if let Some(reason) = mark {
            packet.ecn = Ecn::Ce;
            if !flags.has(Flags::BACK) {
                self.count(flow).reasons.count_mark(reason);
            }
        }
        let class = self.flows[flow.0 as usize].class;
        if let Some(count) = self.class_count(port, class) {
            count.packets += 1;
            count.bytes += u64::from(len);
            count.queue_ns.record(dequeued.since(arrived).0);
            if let Some(reason) = mark {
                count.reasons.count_mark(reason);
            }
        }
        let mut gated = false;
        if let Port::Engine(from) = &mut self.ports[port as usize] {
            gated = from.gated;
            if let Some(labeller) = &mut from.labeller {
                let packet = self.packets.get_mut(number);
                packet.label = labeller.leave(packet, arrived, dequeued);
                self.add_wait(number, dequeued.since(arrived));
            }
        }
        let mover = Mover {
            number,
            next_hop: next_hop + 1,
            len,
            segments,
            tell: flags.has(Flags::TELL),
            lost: false,
        };
        if mover.tell || self.observer.is_some() {
            self.handle_departure(mover, port, Some(dequeued));
        }
        if gated {
            return self.leave_gated(mover, port);
        }
        self.enter(mover);
    }

    /// Moves a packet from the gated port `from` to its next port.
    #[cold]
    fn leave_gated(&mut self, mover: Mover, from: u32) {
        let hop = self.paths[mover.next_hop as usize];
        if !hop.is_end() && matches!(self.ports[(hop.port & PORT) as usize], Port::Engine(_)) {
            return self.enter_engine(mover, Some(from));
        }
        self.enter(mover);
        self.permit(from);
    }

    /// Releases the packets that are due from a plain port. Returns the last of them if it has
    /// reached the end of its path and nothing else is to be delivered. All other packets at the
    /// end of their path join the arrived packets.
    #[inline]
    pub(crate) fn run_plain(&mut self, port: u32) -> Option<u32> {
        loop {
            let Port::Plain(plain) = &mut self.ports[port as usize] else { return None };
            let Exit { number, next_hop, len, segments, tell, lost, .. } =
                plain.exits.pop_front()?;
            let mover = Mover { number, next_hop, len, segments, tell, lost };
            let next = plain.exits.front().map_or(Nanos::MAX, |exit| exit.due);
            self.agenda.set(port, next);
            self.handled += 1;
            let more = next <= self.now;
            if tell || lost || self.observer.is_some() {
                self.handle_departure(mover, port, None);
            }
            if self.paths[next_hop as usize].is_end() && !more && !self.unsettled {
                return Some(number);
            }
            if !lost {
                self.enter(mover);
            }
            if !more {
                return None;
            }
        }
    }

    /// Handles a packet that has left a port: drops it if the joined port after it has no room, and
    /// otherwise notifies the observer, and the host if it requested a notice.
    #[cold]
    fn handle_departure(&mut self, mover: Mover, port: u32, dequeued: Option<Nanos>) {
        let Mover { number, next_hop, tell, lost, .. } = mover;
        if lost {
            let port = self.paths[next_hop as usize].port & PORT;
            return self.lose(number, next_hop, PortId(port), DropReason::QueueFull);
        }
        let packet = *self.packets.get(number);
        if tell {
            self.tell_host(&packet, next_hop, 1);
        }
        self.observe(&packet, 0, |observer, now| {
            observer.departed(now, PortId(port), &packet, dequeued);
        });
    }

    /// Notifies the source of a forward packet if the packet has left the first port of its path or
    /// was lost in it. `next_hop` is the index of the hop after the port that the packet left
    /// (`ports` is 1), or of the port that lost it (`ports` is 0).
    #[cold]
    fn tell_host(&mut self, packet: &Packet, next_hop: u32, ports: u32) {
        let flow = &self.flows[packet.flow.0 as usize];
        if next_hop == flow.forward + ports {
            self.left_host.push_back((flow.source, *packet));
            self.unsettled = true;
        }
    }

    #[inline]
    pub(crate) fn next_arrived(&mut self) -> Option<u32> {
        self.arrived.pop_front()
    }

    /// Removes a packet that has arrived.
    #[inline(always)] // Measured: see `network::path`.
    pub(crate) fn take(&mut self, number: u32) -> Packet {
        self.packets.remove(number)
    }

    /// Counts a packet that has arrived. Returns the endpoint that receives it.
    #[inline]
    pub(crate) fn count_arrived(&mut self, packet: &Packet) -> EndpointId {
        if self.observer.is_some() {
            self.observe(packet, 0, |observer, now| observer.arrived(now, packet));
        }
        let flow = &self.flows[packet.flow.0 as usize];
        if packet.flags.has(Flags::BACK) {
            return flow.source;
        }
        let count = &mut self.counts[flow.group as usize];
        count.received += 1;
        count.received_bytes += u64::from(packet.len);
        count.marked += u64::from(packet.ecn == Ecn::Ce);
        let delay = self.now.since(packet.sent).0;
        if count.received > 1 {
            count.variation_ns += delay.abs_diff(count.last_delay_ns);
        }
        count.last_delay_ns = delay;
        count.delay_ns.record(delay);
        flow.sink
    }

    /// Drops the extra of a packet that was delivered to its endpoint, and no longer counts the
    /// packet as inside the network.
    #[inline]
    pub(crate) fn finish(&mut self, packet: &Packet) {
        self.packets.drop_extra(packet);
        self.count_out(packet.flow);
    }
}

/// A value that replaces a port's number if packets arrive from several ports or from an endpoint.
const SEVERAL: u32 = u32::MAX - 1;
/// The largest flow label. Flow labels have 20 bits.
const FLOW_LABEL: u32 = (1 << 20) - 1;
