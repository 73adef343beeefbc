//! The recorder records every packet's path, and counts inversions at ports. Both are optional
//! because they cost time.
//!
//! Records go to a sink in blocks, so memory is bounded for any length of the run. The sink may
//! write the records, filter them, or give them to another thread. The recorder itself writes
//! nothing.
//!
//! # Inversions
//! A packet that leaves a port's queue is inverted with each waiting packet of lower rank. The
//! number of inversions measures the errors of an approximate rank scheduler. It is counted at
//! ports of every kind. The recorder sees a departure when the packet leaves the link, but accounts
//! for it at the time at which the packet left the queue. A link delay therefore has no effect, as
//! long as packets leave the link in the order in which they left the queue. Plain ports do not
//! report when a packet left the queue. They serve in order of arrival, and the packet counts as
//! waiting until it leaves the link.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use weir_core::Nanos;
use weir_core::key::FlowKey;
use weir_core::packet::Ecn;
use weir_core::sched::inversions::Inversions;
use weir_core::stats::DropReason;

use crate::network::{About, Observer, PortId};
use crate::packet::{Flags, Packet};

/// Accepts blocks of records, in the order of events.
pub type Sink = Box<dyn FnMut(&[Record]) + Send>;

/// An event of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A port accepted the packet.
    Entered,
    /// The packet left a port.
    Left {
        /// Time in the queue, ns; `None` if the port does not report it.
        queue_ns: Option<u64>,
        /// Time in the port, ns.
        total_ns: u64,
    },
    /// The packet was lost in a port.
    Dropped(DropReason),
    /// The packet arrived at its endpoint.
    Arrived {
        /// One-way delay, ns.
        delay_ns: u64,
    },
}

/// One record of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The time.
    pub time: Nanos,
    /// The event.
    pub event: Event,
    /// The port; `None` at the endpoint.
    pub port: Option<PortId>,
    /// The group of the packet's flow.
    pub group: u32,
    /// The packet's addresses and port numbers, in its direction.
    pub key: FlowKey,
    /// The packet.
    pub packet: Packet,
}

/// Records packets and counts inversions.
pub struct Recorder {
    sink: Option<Sink>,
    block: Vec<Record>,
    about: About,
    /// Arrival time and rank of each packet inside a port. Copies of a packet have the same
    /// identity and leave one after another.
    inside: BTreeMap<(PortId, Identity), VecDeque<(Nanos, u64)>>,
    /// The inversions of each port; `None` if they are not counted.
    port_inversions: Option<Vec<PortInversions>>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("traces", &self.sink.is_some())
            .field("port_inversions", &self.port_inversions)
            .finish_non_exhaustive()
    }
}

/// What identifies a packet among those inside one port: flow, sequence number, acknowledgement,
/// time of sending, and whether it goes from the flow's destination to its source.
type Identity = (u32, u64, u64, Nanos, bool);

#[derive(Debug, Default)]
struct PortInversions {
    inversions: Inversions,
    /// The arrivals at or after the latest counted departure from the queue, with their ranks.
    fresh: VecDeque<(Nanos, u64)>,
    /// The counts at the last reset, which are subtracted from the result.
    before: [u64; 3],
}

impl Recorder {
    /// A recorder that sends its records to `sink`, if there is one, and optionally counts
    /// inversions.
    pub fn new(sink: Option<Sink>, inversions: bool) -> Self {
        Self {
            sink,
            block: Vec::new(),
            about: About::default(),
            inside: BTreeMap::new(),
            port_inversions: inversions.then(Vec::new),
        }
    }

    fn record(&mut self, time: Nanos, event: Event, port: Option<PortId>, packet: &Packet) {
        let Some(sink) = &mut self.sink else { return };
        let About { group, key, .. } = self.about;
        self.block.push(Record { time, event, port, group, key, packet: *packet });
        if self.block.len() >= BLOCK {
            sink(&self.block);
            self.block.clear();
        }
    }

    fn inversions_at(&mut self, port: PortId) -> Option<&mut PortInversions> {
        let port_inversions = self.port_inversions.as_mut()?;
        let n = port.0 as usize;
        if port_inversions.len() <= n {
            port_inversions.resize_with(n + 1, PortInversions::default);
        }
        port_inversions.get_mut(n)
    }

    /// Removes a packet that has left the port. Returns its arrival time and its rank.
    fn forget(&mut self, port: PortId, packet: &Packet) -> Option<(Nanos, u64)> {
        let key = (port, identity(packet));
        let copies = self.inside.get_mut(&key)?;
        let first = copies.pop_front();
        if copies.is_empty() {
            self.inside.remove(&key);
        }
        first
    }
}

impl Observer for Recorder {
    fn about(&mut self, about: &About) {
        self.about = *about;
    }

    fn entered(&mut self, now: Nanos, port: PortId, packet: &Packet) {
        let rank = self.about.rank;
        self.inside.entry((port, identity(packet))).or_default().push_back((now, rank));
        if let Some(at_port) = self.inversions_at(port) {
            at_port.fresh.push_back((now, rank));
        }
        self.record(now, Event::Entered, Some(port), packet);
    }

    fn departed(&mut self, now: Nanos, port: PortId, packet: &Packet, dequeued: Option<Nanos>) {
        // A duplicate that the link made has not arrived here.
        let arrival = self.forget(port, packet);
        if let (Some((arrival, rank)), Some(at_port)) = (arrival, self.inversions_at(port)) {
            at_port.count_departure(arrival, rank, dequeued.unwrap_or(now));
        }
        let total_ns = arrival.map_or(0, |(arrival, _)| now.since(arrival).0);
        let queue_ns = dequeued.zip(arrival).map(|(left, (arrival, _))| left.since(arrival).0);
        self.record(now, Event::Left { queue_ns, total_ns }, Some(port), packet);
    }

    fn dropped(&mut self, now: Nanos, port: PortId, packet: &Packet, reason: DropReason) {
        if let Some((arrival, rank)) = self.forget(port, packet)
            && let Some(at_port) = self.inversions_at(port)
        {
            at_port.remove_lost(arrival, rank);
        }
        self.record(now, Event::Dropped(reason), Some(port), packet);
    }

    fn arrived(&mut self, now: Nanos, packet: &Packet) {
        self.record(now, Event::Arrived { delay_ns: now.since(packet.sent).0 }, None, packet);
    }

    fn zero(&mut self) {
        for at_port in self.port_inversions.iter_mut().flatten() {
            at_port.before = at_port.inversions.variables().map(|(_, n)| n);
        }
    }

    fn finish(&mut self) {
        if let Some(sink) = &mut self.sink
            && !self.block.is_empty()
        {
            sink(&self.block);
            self.block.clear();
        }
    }

    fn inversions(&self, port: PortId) -> Option<[u64; 3]> {
        let at_port = self.port_inversions.as_ref()?.get(port.0 as usize);
        let counts = |at_port: &PortInversions| {
            let now = at_port.inversions.variables().map(|(_, n)| n);
            std::array::from_fn(|i| now[i] - at_port.before[i])
        };
        Some(at_port.map_or([0; 3], counts))
    }
}

impl PortInversions {
    /// Counts the departure from the queue, at `dequeued`, of a packet that arrived at `arrival`.
    /// All packets that arrived before `dequeued` and have no counted departure were waiting then.
    fn count_departure(&mut self, arrival: Nanos, rank: u64, dequeued: Nanos) {
        while let Some(&(at, waiting)) = self.fresh.front()
            && at < dequeued
        {
            self.fresh.pop_front();
            self.inversions.enter(waiting);
        }
        // A packet that was served at once is still among the fresh arrivals.
        if let Some(index) = self.fresh.iter().position(|&fresh| fresh == (arrival, rank)) {
            self.fresh.remove(index);
            self.inversions.enter(rank);
        }
        self.inversions.serve(rank);
    }

    fn remove_lost(&mut self, arrival: Nanos, rank: u64) {
        match self.fresh.iter().position(|&fresh| fresh == (arrival, rank)) {
            Some(index) => {
                self.fresh.remove(index);
            }
            None => self.inversions.leave(rank),
        }
    }
}

fn identity(packet: &Packet) -> Identity {
    (packet.flow.0, packet.seq, packet.ack, packet.sent, packet.flags.has(Flags::BACK))
}

impl Record {
    /// The name of the value of the ECN field.
    pub fn ecn(&self) -> &'static str {
        match self.packet.ecn {
            Ecn::NotEct => "not-ect",
            Ecn::Ect0 => "ect0",
            Ecn::Ect1 => "ect1",
            Ecn::Ce => "ce",
        }
    }
}

/// Number of records in a block.
const BLOCK: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_departure_is_inverted_with_waiting_packets_and_not_with_later_arrivals() {
        let mut at_port = PortInversions::default();
        for (at, rank) in [(0, 5), (1, 3), (2, 9), (8, 1)] {
            at_port.fresh.push_back((Nanos(at), rank));
        }
        // The packet of rank 5 leaves at once, and the packet of rank 9 at time 5, when rank 3
        // waits and rank 1 has not arrived. Rank 3 leaves at time 9, when rank 1 waits. Rank 1
        // leaves last.
        at_port.count_departure(Nanos(0), 5, Nanos(0));
        at_port.count_departure(Nanos(2), 9, Nanos(5));
        at_port.count_departure(Nanos(1), 3, Nanos(9));
        at_port.count_departure(Nanos(8), 1, Nanos(12));
        assert_eq!(at_port.inversions.variables().map(|f| f.1), [2, 2, 6 + 2]);
        assert!(at_port.fresh.is_empty());
    }

    #[test]
    fn a_lost_packet_is_not_overtaken() {
        let mut at_port = PortInversions::default();
        for (at, rank) in [(0, 5), (1, 3), (2, 9)] {
            at_port.fresh.push_back((Nanos(at), rank));
        }
        at_port.remove_lost(Nanos(1), 3);
        at_port.count_departure(Nanos(2), 9, Nanos(5));
        assert_eq!(at_port.inversions.variables().map(|f| f.1), [1, 1, 4]);
    }
}
