//! The chain of switches of the FIFO+ experiments: hosts that send packets, and the time that each
//! packet waits in traffic managers.
//!
//! Every packet starts with a deadline in its label. Each switch subtracts the time that the packet
//! waited there, whatever its order of service. The receiver computes the sum of the waits from the
//! remaining label, as in the original experiment. The sum excludes the queues after the traffic
//! managers.
//!
//! A software switch does not measure waits exactly. It stamps a packet in whole microseconds when
//! the packet is queued, and again when another thread has woken up and dequeued the packet. Even a
//! packet that finds an empty queue therefore shows a short wait, and these waits differ from
//! packet to packet. Sorting by waits depends on these differences: without them, all packets that
//! pass an idle switch have the same rank.

use std::sync::{Arc, Mutex, PoisonError};

use weir_core::config::{Capacity, LinkConfig};
use weir_core::key::FlowKey;
use weir_core::link::Overhead;
use weir_core::{Nanos, Rate};

use weir_sim::endpoint::{Context, Endpoint};
use weir_sim::network::{FlowSpec, Labeller, Network, Observer, PortId};
use weir_sim::packet::{FlowId, Packet};
use weir_sim::random::{Draws, Variable};
use weir_sim::switch::SwitchConfig;
use weir_sim::traffic::Sink;
use weir_sim::world::World;

/// A chain of switches, with a link after each.
#[derive(Clone, Debug)]
pub(super) struct Testbed {
    /// Rates of the links in kbit/s. The length of a frame counts without its check sequence.
    pub(super) rates: Vec<u64>,
    /// The configuration of each switch. Its program subtracts waits from labels, whatever the
    /// order of service; if `late` is above 0, [`Accounting`] does this instead.
    pub(super) switch: SwitchConfig,
    /// Mean overestimate of a wait by a switch, ns; 0 for a switch that measures waits exactly.
    pub(super) late: u64,
    /// The hosts, which all send to the end of the chain.
    pub(super) hosts: Vec<Host>,
    /// How long the hosts send, s.
    pub(super) seconds: u64,
    /// Packets sent before this time are not counted, s.
    pub(super) warmup: u64,
    /// Index of the switch in the middle of the path, where waits are also read.
    pub(super) middle: usize,
}

/// A host and its flows.
#[derive(Clone, Debug)]
pub(super) struct Host {
    /// Index of the first switch on the path of the host's packets.
    pub(super) joins: usize,
    pub(super) flows: u32,
    /// Network-layer bytes of a packet.
    pub(super) len: u32,
    /// Time between two packets of a flow, ns.
    pub(super) gap: Variable,
    /// Additional time that this host's packets may wait, compared with those of other hosts, ns.
    pub(super) ahead: u64,
}

/// The waits of the packets of one host.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    /// Number of packets that the host sent.
    pub(super) sent: u64,
    /// The wait of each packet on the whole path, ns, in ascending order.
    pub(super) all: Vec<u64>,
    /// Sum of the waits before the middle switch, and number of packets; both for packets that
    /// arrived at the end.
    before: (u64, u64),
    /// Sum of the waits from the middle switch on, for packets that arrived at the end.
    behind: u64,
    /// For each switch, the sum of the exact waits, and the number of packets that left the switch.
    switches: Vec<(u64, u64)>,
}

impl Waits {
    pub(super) fn mean_ms(&self) -> f64 {
        let sum: u64 = self.all.iter().sum();
        if self.all.is_empty() { f64::NAN } else { sum as f64 / self.all.len() as f64 / 1e6 }
    }

    /// The wait that a fraction `q` of the packets does not exceed, ms.
    pub(super) fn quantile_ms(&self, q: f64) -> f64 {
        let index = ((q * self.all.len() as f64) as usize).min(self.all.len().saturating_sub(1));
        self.all.get(index).map_or(f64::NAN, |&ns| ns as f64 / 1e6)
    }

    /// Mean wait from the middle switch on, ms.
    pub(super) fn behind_ms(&self) -> f64 {
        if self.all.is_empty() {
            f64::NAN
        } else {
            self.behind as f64 / self.all.len() as f64 / 1e6
        }
    }

    /// Mean wait at the switch with this index, of the packets that left it, ms.
    pub(super) fn switch_ms(&self, switch: usize) -> f64 {
        match self.switches.get(switch) {
            Some(&(sum, count)) if count > 0 => sum as f64 / count as f64 / 1e6,
            _ => f64::NAN,
        }
    }

    /// Mean wait before the middle switch, ms.
    pub(super) fn before_ms(&self) -> f64 {
        let (sum, count) = self.before;
        if count == 0 { 0.0 } else { sum as f64 / count as f64 / 1e6 }
    }

    /// Adds the waits of another run or of another host.
    pub(super) fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.all.extend(&other.all);
        self.all.sort_unstable();
        self.before = (self.before.0 + other.before.0, self.before.1 + other.before.1);
        self.behind += other.behind;
        self.switches.resize(self.switches.len().max(other.switches.len()), (0, 0));
        for (own, other) in self.switches.iter_mut().zip(&other.switches) {
            *own = (own.0 + other.0, own.1 + other.1);
        }
    }
}

impl Testbed {
    /// Runs the testbed. Returns the waits of each host's packets.
    pub(super) fn run(&self, seed: u64) -> Vec<Waits> {
        let mut network = Network::new(seed);
        let (chain, host_paths) = self.build(&mut network, seed);
        let middle = chain
            .get(self.middle)
            .and_then(|path| path.first())
            .map_or(PortId(u32::MAX), |&port| port.port());
        let mut world = World::new(network);
        let mut owners = Vec::new();
        for (number, host) in (0u32..).zip(&self.hosts) {
            let mut forward = host_paths[host.joins].clone();
            forward.extend(chain[host.joins + 1..].iter().flatten());
            for flow in 0..host.flows {
                let id = owners.len() as u32;
                let key = FlowKey {
                    src: number.into(),
                    src_port: flow as u16,
                    proto: 17,
                    ..FlowKey::default()
                };
                let spec = FlowSpec {
                    forward: forward.clone(),
                    key,
                    group: number,
                    ..FlowSpec::default()
                };
                let mut draws = Draws::new(seed, id.into(), 0);
                let next = Nanos(draws.uniform(0.0, host.gap.mean().unwrap_or(1e6)) as u64);
                let label = ALLOWED + host.ahead;
                let until = Nanos::from_secs(self.seconds);
                let source = Sender {
                    flow: FlowId(id),
                    len: host.len,
                    label,
                    gap: host.gap.clone(),
                    draws,
                    next,
                    until,
                    seq: 0,
                };
                world.add_flow(&spec, Box::new(source), Box::new(Sink));
                owners.push(Owner { host: number as usize, label });
            }
        }
        let outputs: Vec<PortId> =
            chain.iter().filter_map(|path| path.last()).map(|port| port.port()).collect();
        let none = Waits { switches: vec![(0, 0); outputs.len()], ..Waits::default() };
        let waits = Arc::new(Mutex::new(vec![none; self.hosts.len()]));
        let warmup = Nanos::from_secs(self.warmup);
        world.observe(Box::new(Receiver {
            owners,
            warmup,
            middle,
            waits: Arc::clone(&waits),
            at_middle: Vec::new(),
            outputs,
            entries: Vec::new(),
        }));
        // Packets that are queued when the hosts stop can still leave.
        world.run(Nanos::from_secs(self.seconds + DRAIN));
        let mut waits = std::mem::take(&mut *waits.lock().unwrap_or_else(PoisonError::into_inner));
        for (waits, count) in waits.iter_mut().zip(world.network().counts()) {
            waits.sent = count.sent;
            waits.all.sort_unstable();
        }
        waits
    }

    /// Builds the switches. Returns the ports on the path through each switch: those for packets
    /// from the previous switch, and those for packets of the switch's own host.
    fn build(&self, network: &mut Network, seed: u64) -> (Vec<Vec<PortId>>, Vec<Vec<PortId>>) {
        let link = |kbit: u64| LinkConfig {
            capacity: Rate::new(kbit * 1000).map_or(Capacity::Unlimited, Capacity::Constant),
            overhead: Overhead::LAYER2,
            ..LinkConfig::default()
        };
        let mut routes = (Vec::new(), Vec::new());
        for (number, &rate) in (0u64..).zip(&self.rates) {
            // Port 0 leads to the next switch, port 1 to the host.
            let Ok(switch) = self.switch.build(network, &[link(rate), link(1_000_000)]) else {
                continue;
            };
            if self.late > 0 {
                let draws = Draws::new(seed, number, READINGS);
                network.set_labeller(
                    switch.outputs()[0],
                    Box::new(Accounting { late: self.late as f64, draws }),
                );
            }
            routes.0.push(switch.path(0, 0));
            routes.1.push(switch.path(1, 0));
        }
        routes
    }
}

/// The accounting of FIFO+ in a software switch, which measures a wait in whole microseconds and
/// slightly too long.
#[derive(Debug)]
struct Accounting {
    /// Mean overestimate, ns.
    late: f64,
    draws: Draws,
}

impl Labeller for Accounting {
    fn enter(&mut self, _now: Nanos, packet: &Packet) -> (u64, u64) {
        (packet.label, packet.label)
    }

    fn leave(&mut self, packet: &Packet, arrived: Nanos, dequeued: Nanos) -> u64 {
        let waited = dequeued.since(arrived).0 + self.draws.exponential(self.late) as u64;
        packet.label.saturating_sub(waited / STAMP * STAMP).max(1)
    }
}

/// Sends packets of one length, with gaps of the distribution `gap`.
#[derive(Debug)]
struct Sender {
    flow: FlowId,
    len: u32,
    label: u64,
    gap: Variable,
    draws: Draws,
    next: Nanos,
    until: Nanos,
    seq: u64,
}

impl Endpoint for Sender {
    fn receive(&mut self, _packet: &Packet, _context: &mut Context<'_>) {}

    fn wake(&mut self, context: &mut Context<'_>) {
        let Self { flow, len, label, seq, .. } = *self;
        let mut packet = Packet::default();
        (packet.flow, packet.len, packet.header) = (flow, len, 28);
        (packet.label, packet.seq) = (label, seq);
        context.send(packet);
        self.seq += 1;
        self.next = self.next.saturating_add(self.gap.span(&mut self.draws));
    }

    fn next_event(&self) -> Nanos {
        if self.next < self.until { self.next } else { Nanos::MAX }
    }
}

/// The host of a flow, and the initial label of the flow's packets.
#[derive(Clone, Copy, Debug)]
struct Owner {
    host: usize,
    label: u64,
}

/// Reads the waits from the labels of packets.
#[derive(Debug)]
struct Receiver {
    owners: Vec<Owner>,
    warmup: Nanos,
    middle: PortId,
    waits: Arc<Mutex<Vec<Waits>>>,
    /// The wait of each packet before the middle switch, by flow and by number.
    at_middle: Vec<Vec<u64>>,
    /// The output of each switch on the path.
    outputs: Vec<PortId>,
    /// The time at which each packet entered its present traffic manager, by flow and by number.
    entries: Vec<Vec<Nanos>>,
}

/// The place for a packet in a list by flow and by number.
fn place<'a, T: Clone + Default>(lists: &'a mut Vec<Vec<T>>, packet: &Packet) -> &'a mut T {
    let (flow, seq) = (packet.flow.0 as usize, packet.seq as usize);
    if lists.len() <= flow {
        lists.resize(flow + 1, Vec::new());
    }
    let list = &mut lists[flow];
    if list.len() <= seq {
        list.resize(seq + 1, T::default());
    }
    &mut list[seq]
}

impl Observer for Receiver {
    fn entered(&mut self, now: Nanos, port: PortId, packet: &Packet) {
        if port == self.middle {
            *place(&mut self.at_middle, packet) =
                self.owners[packet.flow.0 as usize].label - packet.label;
        }
        if self.outputs.contains(&port) {
            *place(&mut self.entries, packet) = now;
        }
    }

    fn departed(&mut self, _now: Nanos, port: PortId, packet: &Packet, dequeued: Option<Nanos>) {
        let switch = self.outputs.iter().position(|&output| output == port);
        let (Some(switch), Some(dequeued)) = (switch, dequeued) else { return };
        if packet.sent < self.warmup {
            return;
        }
        let waited = dequeued.since(*place(&mut self.entries, packet)).0;
        let host = self.owners[packet.flow.0 as usize].host;
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let (sum, count) = &mut waits[host].switches[switch];
        (*sum, *count) = (*sum + waited, *count + 1);
    }

    fn arrived(&mut self, _now: Nanos, packet: &Packet) {
        if packet.sent < self.warmup {
            return;
        }
        let Owner { host, label } = self.owners[packet.flow.0 as usize];
        let waited = label - packet.label;
        let before = self
            .at_middle
            .get(packet.flow.0 as usize)
            .and_then(|list| list.get(packet.seq as usize))
            .copied()
            .unwrap_or(0);
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = &mut waits[host];
        waits.all.push(waited);
        waits.behind += waited - before.min(waited);
        waits.before = (waits.before.0 + before, waits.before.1 + 1);
    }
}

/// Initial label of a packet that has no additional time, ns. No packet waits for longer.
const ALLOWED: u64 = 10_000_000_000_000;
/// Seconds after the end of sending at which all queues are empty.
const DRAIN: u64 = 60;
/// The resolution of a switch's clock: one microsecond, ns.
const STAMP: u64 = 1000;
/// The random stream of a switch's measurement errors, which differs from those of flows.
const READINGS: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_match_values_computed_by_hand() {
        // 1000 bytes at 800 kbit/s take 10 ms. Every 10 ms three packets arrive, so the first
        // switch's queue fills up. No packet waits at the second switch.
        let switch = SwitchConfig {
            pipeline: Some(0),
            manager: "fifo".into(),
            program: Some("fifo+".into()),
            egress: 1,
            interface: 1,
            ..SwitchConfig::default()
        };
        let host = Host { joins: 0, flows: 3, len: 986, gap: Variable::Fixed(10e6), ahead: 5 };
        let bed = Testbed {
            rates: vec![800, 8000],
            switch,
            late: 0,
            hosts: vec![host],
            seconds: 10,
            warmup: 0,
            middle: 1,
        };
        let waits = bed.run(1).remove(0);
        assert_eq!(waits.sent, 3000);
        assert!(
            (waits.before_ms() - waits.mean_ms()).abs() < 1e-9,
            "the second switch is ten times as fast"
        );
        assert!(waits.behind_ms().abs() < 1e-9);
        assert!((waits.switch_ms(0) - waits.mean_ms()).abs() < 1e-9);
        assert!(waits.switch_ms(1).abs() < 1e-9 && waits.switch_ms(2).is_nan());
        // 512 packets wait in the queue, 10 ms each.
        assert!((waits.quantile_ms(1.0) - 5120.0).abs() < 10.0, "{}", waits.quantile_ms(1.0));
    }

    #[test]
    fn a_wait_is_read_late_and_in_whole_microseconds() {
        let mut accounting = Accounting { late: 10_000.0, draws: Draws::new(1, 0, READINGS) };
        let mut packet = Packet::default();
        packet.label = ALLOWED;
        assert_eq!(accounting.enter(Nanos(5), &packet), (ALLOWED, ALLOWED));
        let read: Vec<u64> = (0..1000)
            .map(|_| ALLOWED - accounting.leave(&packet, Nanos(7), Nanos(2_000_007)))
            .collect();
        assert!(read.iter().all(|ns| ns % STAMP == 0 && *ns >= 2_000_000));
        let mean = read.iter().sum::<u64>() / 1000;
        assert!((2_008_000..2_011_000).contains(&mean), "{mean}");
    }

    #[test]
    fn different_readings_spread_packets_over_strict_queues() {
        // The interface accepts 47 packets at a time. Until it is full, packets pass without a
        // wait.
        let switch = SwitchConfig {
            manager: "sp-pifo queues 8 depth 15".into(),
            program: Some("fifo+".into()),
            interface: 93,
            batch: 47,
            ..SwitchConfig::default()
        };
        let host = Host {
            joins: 0,
            flows: 5,
            len: 1028,
            gap: Variable::Exponential { mean: 8e6 },
            ahead: 0,
        };
        let behind = |late| {
            let switch = switch.clone();
            let bed = Testbed {
                rates: vec![5000, 4800],
                switch,
                late,
                hosts: vec![host.clone()],
                seconds: 100,
                warmup: 40,
                middle: 1,
            };
            bed.run(1).remove(0).behind_ms()
        };
        let exact = behind(0);
        for late in [2_000, 10_000, 100_000] {
            // The second switch holds the arrivals of one batch of 47 packets, more than the 15
            // packets that fit into one queue.
            let spread = behind(late);
            assert!(spread > 2.0 * exact, "{late}: {spread} against {exact} ms");
        }
    }
}
