//! The path of a packet: from its source through ports to the end of its way, or to where it is
//! lost.
//!
//! # Events
//! A plain port says when a packet will come out as soon as it goes in. So a hop is one event: the
//! packet stands among the exits of the port, in the order of their times, and only the first of
//! them is in the agenda. What ports ask of a packet stands beside it there: packets themselves are
//! looked up at the ends of their ways, and by the engine.
//!
//! # Joined ports
//! Where all packets that come to a plain port come out of one and the same plain port, what comes
//! there is known ahead as well, and nobody else has a say. Such a port is *joined* to the one
//! before, and a packet is led into both at once: one event less. An access link behind the port
//! that all flows share is joined, for instance. Counters and queue lengths stay those of the
//! moment at which somebody looks, and losses happen when they happen: a packet that the second
//! port will not take stands among the exits of the first until then.
//!
//! Ports are not passed together while an observer wants to see each step, nor by packets whose
//! host is to be told that they have left it. Then, and until those that are underway have come
//! out, there are two events again; the times are the same.

use weir_core::key::FlowKey;
use weir_core::packet::Ecn;
use weir_core::plain::PlainPipe;
use weir_core::stats::DropReason;
use weir_core::{Action, Arrival, Departure, Fate, Nanos};

use std::collections::VecDeque;

use super::{About, EnginePort, Network, Observer, Port, PortId};
use crate::endpoint::EndpointId;
use crate::packet::{Flags, FlowId, NONE, Packet};

/// A place in a way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    /// The port, with the queue in front of it that the way leads through, where it says so; or the
    /// end.
    pub(super) port: u32,
    /// It is joined to the port before it.
    pub(super) joined: bool,
}

impl Hop {
    /// The end of a way.
    pub(super) const END: Self = Self { port: u32::MAX, joined: false };

    #[inline]
    fn is_end(self) -> bool {
        self.port == Self::END.port
    }
}

/// A plain port.
#[derive(Debug)]
pub(super) struct PlainPort {
    pub(super) pipe: PlainPipe,
    /// Packets that will come out of it, in the order of their times.
    pub(super) exits: VecDeque<Exit>,
}

/// A packet that will come out of a port. Field by field what a [`Mover`] has, so that it is
/// written where it stays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    due: Nanos,
    number: u32,
    way: u32,
    len: u32,
    segments: u8,
    tell: bool,
    lost: bool,
}

/// What ports need to know of a packet.
#[derive(Clone, Copy, Debug)]
struct Mover {
    number: u32,
    /// Where it goes next.
    way: u32,
    len: u32,
    segments: u8,
    /// Somebody is to hear when it has left its host.
    tell: bool,
    /// The port that it goes to next will not take it.
    lost: bool,
}

impl Network {
    /// Sends a packet from one end of its flow. In line, so that whoever puts a packet together
    /// does so in its place.
    #[inline(always)]
    pub(crate) fn send(&mut self, mut packet: Packet, extra: u32) {
        let flow = &mut self.flows[packet.flow.0 as usize];
        packet.sent = self.now;
        flow.inside += 1;
        if packet.flags.has(Flags::BACK) {
            packet.way = flow.back;
        } else {
            packet.way = flow.forward;
            let count = &mut self.counts[flow.group as usize];
            count.sent += 1;
            count.sent_bytes += u64::from(packet.len);
        }
        packet.extra = extra;
        let Packet { way, len, segments, flags, .. } = packet;
        let number = self.packets.insert(packet);
        self.enter(Mover { number, way, len, segments, tell: flags.has(Flags::TELL), lost: false });
    }

    /// Finds out which ports are joined to others.
    pub(crate) fn join(&mut self) {
        if !std::mem::take(&mut self.new_ways) {
            return;
        }
        // The one port that packets come from; none yet, or several.
        let mut before = vec![NONE; self.ports.len()];
        let mut last = SEVERAL;
        for hop in &self.ways {
            let port = hop.port & PORT;
            if !hop.is_end() {
                let from = &mut before[port as usize];
                *from = if *from == NONE || *from == last { last } else { SEVERAL };
            }
            last = if hop.is_end() { SEVERAL } else { port };
        }
        let mut last = SEVERAL;
        for hop in &mut self.ways {
            let port = hop.port & PORT;
            let plain = |port: u32| matches!(self.ports[port as usize], Port::Plain(_));
            let joined = !hop.is_end()
                && last != SEVERAL
                && before[port as usize] == last
                && plain(port)
                && plain(last);
            assert!(
                joined || !hop.joined,
                "a port that was joined to another is entered from elsewhere: flows come before the first run"
            );
            hop.joined = joined;
            last = if hop.is_end() { SEVERAL } else { port };
        }
    }

    /// Nobody looks at counters or queues before `horizon`.
    pub(crate) fn set_horizon(&mut self, horizon: Nanos) {
        self.horizon = horizon;
        self.engine_event = self.engine.next_event().unwrap_or(Nanos::MAX);
    }

    /// Brings counters and queues to what they are at `now`, `now` included.
    pub(crate) fn catch_up(&mut self, now: Nanos) {
        for port in &mut self.ports {
            if let Port::Plain(plain) = port {
                plain.pipe.catch_up(now);
            }
        }
    }

    /// Puts a packet into the port that it has come to and into those joined to it, or among those
    /// that have arrived.
    #[inline]
    fn enter(&mut self, mover: Mover) {
        let Mover { number, mut way, len, segments, tell, lost } = mover;
        let (mut at, mut before) = (self.now, NONE);
        loop {
            let hop = self.ways[way as usize];
            if hop.is_end() {
                self.arrived.push_back(number);
                self.unsettled = true;
                return;
            }
            let port = hop.port & PORT;
            let Port::Plain(plain) = &mut self.ports[port as usize] else {
                return self.enter_engine(mover);
            };
            let Ok(due) = plain.pipe.submit(at, len, segments.into(), self.horizon) else {
                return self.refused(Mover { way, ..mover }, port, before, at);
            };
            way += 1;
            let idle = plain.exits.is_empty();
            // Of what is on its way out when a packet comes to be passed on, all must come to the
            // next port before it.
            if self.ways[way as usize].joined && idle && !tell && self.observer.is_none() {
                (at, before) = (due, port);
                continue;
            }
            plain.exits.push_back(Exit { due, number, way, len, segments, tell, lost });
            if idle {
                self.agenda.set(port, due);
            }
            if self.observer.is_some() {
                self.entered(number, port);
            }
            return;
        }
    }

    /// A plain port does not take a packet that comes from `before` at a time that may be ahead.
    #[cold]
    fn refused(&mut self, mut mover: Mover, port: u32, before: u32, at: Nanos) {
        if before == NONE {
            return self.lose(mover.number, mover.way, PortId(port), DropReason::QueueFull);
        }
        mover.lost = true;
        let Mover { number, way, len, segments, tell, lost } = mover;
        if let Port::Plain(plain) = &mut self.ports[before as usize] {
            // The packet was to be passed on, so there is none on its way out.
            plain.exits.push_back(Exit { due: at, number, way, len, segments, tell, lost });
            self.agenda.set(before, at);
        }
    }

    #[cold]
    fn entered(&mut self, number: u32, port: u32) {
        let packet = *self.packets.get(number);
        self.observe(&packet, packet.label, |observer, now| {
            observer.entered(now, PortId(port), &packet)
        });
    }

    /// Puts a packet into a port of the engine.
    #[inline(never)]
    fn enter_engine(&mut self, mover: Mover) {
        let Mover { number, way, len, segments, .. } = mover;
        let place = self.ways[way as usize].port;
        let (port, queue) = (place & PORT, place >> PORT_BITS);
        let Port::Engine(to) = &mut self.ports[port as usize] else { return };
        let packet = self.packets.get_mut(number);
        packet.way = way;
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
        let key = &self.keys[flow][usize::from(back)];
        let outcome = match &mut to.apart {
            None => self.engine.submit(self.now, arrival, key, action),
            Some(count) => {
                *count = count.wrapping_add(1);
                self.engine.submit(
                    self.now,
                    arrival,
                    &FlowKey { flow_id: *count & FLOW_LABEL, ..*key },
                    action,
                )
            }
        };
        self.engine_event = self.engine.next_event().unwrap_or(Nanos::MAX);
        match outcome {
            Err(rejected) => self.lose(number, way, PortId(port), rejected.reason),
            Ok(()) if self.observer.is_some() => {
                let packet = *self.packets.get(number);
                self.observe(&packet, rank, |observer, now| {
                    observer.entered(now, PortId(port), &packet)
                });
            }
            Ok(()) => {}
        }
    }

    /// Lets the observer see something of a packet.
    #[cold]
    fn observe(&mut self, packet: &Packet, rank: u64, what: impl FnOnce(&mut dyn Observer, Nanos)) {
        let (group, key) = (self.group(packet.flow), *self.key_of(packet));
        if let Some(observer) = &mut self.observer {
            observer.about(&About { group, key, rank });
            what(&mut **observer, self.now);
        }
    }

    #[cold]
    fn lose(&mut self, number: u32, way: u32, port: PortId, reason: DropReason) {
        let packet = self.packets.remove(number);
        self.observe(&packet, 0, |observer, now| observer.dropped(now, port, &packet, reason));
        self.packets.drop_extra(&packet);
        if packet.flags.has(Flags::TELL) {
            self.tell_host(&packet, way, 0);
        }
        if !packet.flags.has(Flags::BACK) {
            self.count(packet.flow).reasons.count_drop(reason);
        }
        let class = self.flows[packet.flow.0 as usize].class;
        if let Some(count) = self.class_count(port.0, class) {
            count.reasons.count_drop(reason);
        }
        self.outside(packet.flow);
    }

    /// A packet of a flow is inside no longer.
    #[inline]
    pub(crate) fn outside(&mut self, flow: FlowId) {
        let state = &mut self.flows[flow.0 as usize];
        state.inside -= 1;
        if state.retired && state.inside == 0 {
            self.free_flow(flow);
        }
    }

    /// When the engine has something to do.
    #[inline]
    pub(crate) fn engine_event(&self) -> Nanos {
        self.engine_event
    }

    /// Lets the engine work until now, and what comes out of it go on.
    pub(crate) fn run_engine(&mut self) {
        let mut departures = std::mem::take(&mut self.departures);
        self.engine.poll(self.now, &mut departures);
        self.engine_event = self.engine.next_event().unwrap_or(Nanos::MAX);
        for departure in &mut departures {
            if let Fate::Deliver { duplicate: true, .. } = departure.fate {
                departure.frame = self.packets.duplicate(departure.frame);
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
    }

    fn depart(&mut self, departure: &Departure) {
        let &Departure { frame: number, link, fate, arrived, dequeued, .. } = departure;
        let port = self.engine_ports[usize::from(link)];
        let packet = self.packets.get_mut(number);
        let Packet { flow, way, len, segments, flags, .. } = *packet;
        let (mark, corrupt) = match fate {
            Fate::Drop(reason) => return self.lose(number, way, PortId(port), reason),
            Fate::Deliver { mark, corrupt, .. } => (mark, corrupt),
        };
        // Every endpoint's checksum finds one inverted bit.
        if corrupt.is_some() {
            return self.lose(number, way, PortId(port), DropReason::BadFrame);
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
        if let Port::Engine(EnginePort { labeller: Some(labeller), .. }) =
            &mut self.ports[port as usize]
        {
            let packet = self.packets.get_mut(number);
            packet.label = labeller.leave(packet, arrived, dequeued);
        }
        let mover = Mover {
            number,
            way: way + 1,
            len,
            segments,
            tell: flags.has(Flags::TELL),
            lost: false,
        };
        if mover.tell || self.observer.is_some() {
            self.left(mover, port, Some(dequeued));
        }
        self.enter(mover);
    }

    /// Lets what is due out of a plain port. Returns the packet that has arrived at the end of its
    /// way, if it is one and alone; where there are several they are among those that have arrived.
    #[inline]
    pub(crate) fn run_plain(&mut self, port: u32) -> Option<u32> {
        loop {
            let Port::Plain(plain) = &mut self.ports[port as usize] else { return None };
            let Exit { number, way, len, segments, tell, lost, .. } = plain.exits.pop_front()?;
            let mover = Mover { number, way, len, segments, tell, lost };
            let next = plain.exits.front().map_or(Nanos::MAX, |exit| exit.due);
            self.agenda.set(port, next);
            self.handled += 1;
            let more = next <= self.now;
            if tell || lost || self.observer.is_some() {
                self.left(mover, port, None);
            }
            if self.ways[way as usize].is_end() && !more && !self.unsettled {
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

    /// A packet has come out of a port that others want to hear of.
    #[cold]
    fn left(&mut self, mover: Mover, port: u32, dequeued: Option<Nanos>) {
        let Mover { number, way, tell, lost, .. } = mover;
        if lost {
            let port = self.ways[way as usize].port & PORT;
            return self.lose(number, way, PortId(port), DropReason::QueueFull);
        }
        let packet = *self.packets.get(number);
        if tell {
            self.tell_host(&packet, way, 1);
        }
        self.observe(&packet, 0, |observer, now| {
            observer.left(now, PortId(port), &packet, dequeued)
        });
    }

    /// Lets the source of a forward packet know that it has passed the first port of its way, if it
    /// has passed `ports` of them.
    #[cold]
    fn tell_host(&mut self, packet: &Packet, way: u32, ports: u32) {
        let flow = &self.flows[packet.flow.0 as usize];
        if way == flow.forward + ports {
            self.left_host.push_back((flow.source, *packet));
            self.unsettled = true;
        }
    }

    /// The next of the packets that have arrived.
    #[inline]
    pub(crate) fn next_arrived(&mut self) -> Option<u32> {
        self.arrived.pop_front()
    }

    /// Takes a packet out that has arrived.
    #[inline(always)]
    pub(crate) fn take(&mut self, number: u32) -> Packet {
        self.packets.remove(number)
    }

    /// Counts a packet that has arrived, and says whom it is for.
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

    /// A packet was handed to its endpoint.
    #[inline]
    pub(crate) fn finish(&mut self, packet: &Packet) {
        self.packets.drop_extra(packet);
        self.outside(packet.flow);
    }
}

/// In place of a port's number: packets come from several, or from an endpoint.
const SEVERAL: u32 = u32::MAX - 1;
/// Bits of a port's number in a way; those above say through which of its queues, plus one.
pub(super) const PORT_BITS: u32 = 20;
/// These bits.
pub(super) const PORT: u32 = (1 << PORT_BITS) - 1;
/// Flow labels have 20 bits.
const FLOW_LABEL: u32 = (1 << 20) - 1;
