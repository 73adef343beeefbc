//! CAKE: flow queues with COBALT, grouped into tins by the class of service.
//!
//! # Model
//! A packet's DSCP selects its *tin*. Tins share the link by weights. A tin with more traffic than
//! its share has no priority over other tins. Within a tin each flow has a queue. A hash selects a
//! set of eight queues and one queue in it. A flow takes that queue or, if another flow has it, a
//! free queue of the set, so that two flows share a queue only when nine flows are in the same set.
//! Queues are served in rounds as in `fq_codel`, new flows first. Each queue has its own COBALT.
//! When there is no room, the packet at the head of the longest queue is dropped.
//!
//! *Host isolation* divides the link among hosts first and among the flows of a host second: the
//! quantum of a queue is divided by the number of busy queues of its source, of its destination, or
//! of the busier of the two.
//!
//! If the rate of the link is known, each tin has a *threshold*, its share of the rate. Among the
//! tins that are below their thresholds, the tin with the highest number has priority. If no tin is
//! below its threshold, CAKE serves the tin that will be the first below its threshold.
//!
//! # Reference
//! Hoeiland-Joergensen, Taht and Morton, "Piece of CAKE: a comprehensive queue management solution
//! for home gateways", IEEE LANMAN 2018; the manual page tc-cake(8); `sch_cake` in Linux.
//!
//! # Parameters
//! `tins` `besteffort`, `precedence`, `diffserv3`, `diffserv4` or `diffserv8`, default `diffserv3`:
//!
//! * `besteffort`: one tin for all packets.
//! * `diffserv3`: best effort; low priority (CS1, LE) with 1/16 of the share of best effort; low
//!   latency (CS6, CS7, EF, VA, TOS4) with 1/4 of the share of best effort.
//! * `diffserv4`: best effort; low priority with 1/16; streaming (AF2x, AF3x, AF4x, CS2, CS3, TOS4)
//!   with 1/2; low latency (CS4 to CS7, EF, VA) with 1/4.
//! * `diffserv8`: eight tins, from LE to network control, each with 7/8 of the share of the
//!   previous tin.
//! * `precedence`: eight tins with the shares of `diffserv8`, by the first three bits of the DSCP.
//!
//! `isolation`, default `triple-isolate`:
//!
//! * `flowblind`: one queue for all flows of a tin.
//! * `srchost`, `dsthost`, `hosts`: a queue for each source, each destination, or each pair of
//!   source and destination.
//! * `flows`: a queue for each flow, and hosts do not count.
//! * `dual-srchost`, `dual-dsthost`: a queue for each flow, and sources, or destinations, share the
//!   link equally.
//! * `triple-isolate`: a queue for each flow, and both sources and destinations share the link; the
//!   busier of a queue's two hosts determines its quantum.
//!
//! `target` default 5ms and `interval` default 100ms, as in `cobalt`. `bandwidth` 0..400000000
//! kbit/s, default 0 for unknown: the rate of the link. It determines thresholds and targets of
//! tins, the quantum of the queues and the default memory limit. `quantum` 300..1048576 bytes,
//! default 1500: the largest quantum of a queue. If `bandwidth` is known, the quantum is the number
//! of bytes that the tin's threshold gives in 1/4096 s, at least 300 and at most `quantum`.
//! `memory_limit` bytes, default 0, which means 15.36 MB or, on slow links, the bytes that the link
//! transmits in four intervals, but at least 4 MiB. `variant` `linux`, `linux-6.1` or `published`,
//! default `linux`: with `linux` the first signal of a queue comes with the second late packet, and
//! with `published` after an interval. `linux-6.1` is `linux` with the square roots of kernels
//! before 6.12 (see `cobalt`).
//!
//! # Complexity
//! O(1) for each packet; the first packet of a flow inspects up to 16 queues, and with host
//! isolation up to 32 hosts. A drop for lack of room inspects some groups of queues in each tin.
//! Rounds in which no queue can be served are computed in one step.
//!
//! # Guarantees
//! Packets of a flow leave in order. In a tin without host isolation, queues that always have
//! packets send the same number of bytes, to within two quanta and a packet. In addition, each
//! quantum is rounded at random; the error is less than a byte and has the same mean for all
//! queues. Tins that always have packets send bytes in proportion to their shares. The last packet
//! of a queue is not dropped unless there is no room.
//!
//! # Statistics
//! `collisions`: packets that were put into another flow's queue. `tins`: the number of tins.
//!
//! # Differences from Linux/FreeBSD
//! Decisions are those of Linux, with these exceptions:
//!
//! * The link limits the rate, not CAKE. `bandwidth` should be the rate of the link: thresholds
//!   follow `bandwidth` even if the link is slower.
//! * A flow that finds its set full shares a queue until that queue is free. In Linux the flow
//!   takes over the queue, and the packets of the flow that had the queue may leave out of order.
//! * Sizes count from the network layer on, so that `quantum 1500` corresponds to Linux's 1514 with
//!   an Ethernet header; for an interface without a link-layer header, use `quantum 1514`.
//! * The memory limit counts bytes of packets. Linux counts allocated memory, often 2304 bytes for
//!   a packet of 1500 and 768 for an acknowledgement, so that its limit is reached with a third
//!   fewer full packets, and with a fifteenth of the acknowledgements of 52 bytes.
//! * Among several longest queues, the first loses a packet; in Linux the order of a heap decides.
//!
//! The following settings of Linux are not implemented, with these consequences:
//!
//! * `ack-filter`: Linux drops an acknowledgement from a queue when a later acknowledgement of the
//!   same connection makes it redundant. The engine passes no TCP headers to schedulers, so that
//!   all acknowledgements are sent. The cost is inferred from lengths, not measured. With one
//!   acknowledgement of 52 bytes for two packets of 1500, a download needs 1/58 of its rate on the
//!   uplink. A download is thus slower here than in Linux with `ack-filter` if the downlink is more
//!   than about 58 times as fast as the uplink: if the filter drops two of three acknowledgements,
//!   Linux reaches up to three times the rate. At lower ratios, the acknowledgements delay other
//!   traffic of the uplink only by their own queue.
//! * `nat`: hosts behind an address translation count as one host, that of the translated address.
//! * `wash`, `ingress`, `autorate-ingress`, `fwmark`, overheads and `atm`: DSCPs stay, dropped
//!   packets are not charged, and the link has its own keywords for framing.
//! * `split-gso`: the engine splits offload trains itself.
//!
//! # Validation
//! Tests check the tins of all code points, the shares and thresholds of tins, and the shares of
//! hosts and flows. They compare the choice of queues with a plain search, and use random traffic
//! to check conservation and the order within each flow.

use alloc::vec::Vec;

mod hosts;
mod plan;
mod tin;

use self::hosts::Hosts;
use self::plan::{Plan, Tins};
use self::tin::{Config, Tin};
use super::flow_queues::Refused;
use super::{Discipline, FlowSlot, FlowSpec, Kind, Row, Scheduler, Traits};
use crate::aqm::cobalt::{FIRST_SIGNAL, Law, Variant};
use crate::aqm::codel::{INTERVAL, TARGET};
use crate::packet::{PacketId, PacketList, Store};
use crate::rng::{Purpose, Stream};
use crate::settings::{Count, Number};
use crate::stats::DropReason;
use crate::units::{NANOS_PER_SEC, Nanos};
use crate::{choice, settings};

/// The CAKE scheduler.
#[derive(Debug)]
pub struct Cake {
    tins: Vec<Tin>,
    /// The index of the tin of each code point.
    index: &'static [u8; 64],
    isolation: Isolation,
    /// The index of the tin that is served.
    current: usize,
    refused: Refused,
    /// Changes the hashes by which flows choose queues.
    seed: u32,
    /// The memory limit in bytes.
    memory: u64,
    packets: usize,
    bytes: u64,
    collisions: u64,
}

settings! {
    /// Settings of CAKE.
    struct Settings {
        tins: Tins =
            Tins::setting(Tins::Diffserv3, "classes of service, by the packet's DSCP"),
        isolation: Isolation =
            Isolation::setting(Isolation::Triple, "what gets its own queue, and what gets an equal \
                                                   share of the link"),
        target: Nanos = TARGET,
        interval: Nanos = INTERVAL,
        bandwidth: u64 = Number::new(
            0,
            400_000_000,
            "kbit/s",
            0,
            "rate of the link, for thresholds, targets, quanta and memory; 0: unknown",
        ),
        quantum: u32 =
            Count::new(300, 1 << 20, "bytes", 1500, "largest number of bytes in one turn"),
        memory_limit: u64 =
            Number::new(0, 1 << 40, "bytes", 0, "largest number of bytes inside; 0: by the rate"),
        variant: Variant = Variant::setting(Variant::Linux, FIRST_SIGNAL),
    }
}

choice! {
    /// The packets that share a queue, and the hosts among which the link is shared.
    enum Isolation {
        FlowBlind = "flowblind",
        Source = "srchost",
        Destination = "dsthost",
        Hosts = "hosts",
        Flows = "flows",
        DualSource = "dual-srchost",
        DualDestination = "dual-dsthost",
        Triple = "triple-isolate",
    }
}

impl Isolation {
    /// Whether sources, and whether destinations, share the link.
    fn shares(self) -> (bool, bool) {
        match self {
            Self::DualSource => (true, false),
            Self::DualDestination => (false, true),
            Self::Triple => (true, true),
            _ => (false, false),
        }
    }

    /// The hash of the flow, host or pair of hosts that has a separate queue.
    #[inline]
    fn hash(self, flow: u32, [source, destination]: [u32; 2]) -> u32 {
        match self {
            Self::FlowBlind => 0,
            Self::Source => source,
            Self::Destination => destination,
            Self::Hosts => source ^ destination.rotate_left(16),
            Self::Flows | Self::DualSource | Self::DualDestination | Self::Triple => flow,
        }
    }
}

/// Whether this discipline distinguishes hosts, so that the hashes of their addresses are needed.
pub(crate) fn needs_hosts(discipline: &Discipline) -> bool {
    discipline.kind() == Kind::Cake
        && !matches!(Settings::of(discipline).isolation, Isolation::FlowBlind | Isolation::Flows)
}

impl Cake {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        let settings = Settings::of(discipline);
        let plan = settings.tins.plan();
        let seed = discipline.seed();
        Self {
            tins: (0..plan.shares.len()).map(|n| tin(&settings, plan, n, seed)).collect(),
            index: &plan.index,
            isolation: settings.isolation,
            current: 0,
            refused: Refused::new(),
            seed: (seed ^ seed >> 32) as u32,
            memory: memory(&settings),
            packets: 0,
            bytes: 0,
            collisions: 0,
        }
    }

    #[inline]
    fn choose(&mut self, now: Nanos) {
        if self.tins[0].turn().rate > 0 && now != Nanos::MAX {
            self.choose_by_threshold(now);
        } else {
            self.choose_by_share();
        }
    }

    /// Chooses the last tin that is below its threshold, or else the tin that will be the first
    /// below its threshold.
    fn choose_by_threshold(&mut self, now: Nanos) {
        let mut least = u64::MAX;
        for (n, tin) in self.tins.iter_mut().enumerate() {
            if !tin.is_active() {
                continue;
            }
            let wait = tin.turn().due.saturating_sub(now.0);
            if wait == 0 || wait <= least {
                (least, self.current) = (wait, n);
            }
        }
    }

    /// Chooses the current tin while it has credit, then the tins that follow. A tin that is passed
    /// over and has no credit left receives its share.
    fn choose_by_share(&mut self) {
        let count = self.tins.len();
        // Whether no round can be skipped, because a tin that was passed over has enough credit
        // after at most one more round. Without this test, CAKE adds 1,153 instead of 1,112
        // instructions to a packet's path (`weir rig --aqm cake --metric instr`).
        let mut soon = false;
        loop {
            let tin = &mut self.tins[self.current];
            let active = tin.is_active();
            let turn = tin.turn();
            if turn.credit >= 0 && active {
                return;
            }
            if turn.credit <= 0 {
                turn.credit += turn.share;
            }
            soon |= active && turn.credit >= -turn.share;
            self.current += 1;
            if self.current == count {
                self.current = 0;
                if !core::mem::take(&mut soon) {
                    self.skip_rounds();
                }
            }
        }
    }

    /// Adds, in one step, the credit of all rounds in which no tin would be served, since a tin may
    /// need many rounds to make up for one long packet.
    fn skip_rounds(&mut self) {
        let rounds = |tin: &mut Tin| {
            let turn = tin.turn();
            if turn.credit >= 0 { 0 } else { (-turn.credit - 1) / turn.share }
        };
        let active = self.tins.iter_mut().filter(|tin| tin.is_active());
        let skipped = active.map(rounds).min().unwrap_or(0);
        if skipped > 0 {
            for turn in self.tins.iter_mut().map(Tin::turn).filter(|turn| turn.credit <= 0) {
                // The credit of a tin grows only while it is not positive.
                let most = -turn.credit / turn.share + 1;
                turn.credit += turn.share * skipped.min(most);
            }
        }
    }

    /// Drops packets from the longest queues until the remaining packets fit into the memory limit.
    #[cold]
    #[inline(never)]
    fn make_room<P: Store>(&mut self, now: Nanos, store: &mut P) {
        while self.bytes > self.memory && self.packets > 0 {
            let longest =
                |best: (usize, u64), tin: (usize, u64)| if tin.1 > best.1 { tin } else { best };
            let lengths = self.tins.iter_mut().enumerate().filter(|(_, tin)| tin.packets() > 0);
            let lengths = lengths.map(|(n, tin)| (n, tin.most_bytes()));
            let Some((n, _)) = lengths.reduce(longest) else { return };
            self.tins[n].drop_from_longest(now, store, &mut self.refused);
            self.count();
        }
    }

    #[inline]
    fn count(&mut self) {
        (self.packets, self.bytes) = (0, 0);
        for tin in &self.tins {
            self.packets += tin.packets() as usize;
            self.bytes += tin.bytes();
        }
    }
}

fn tin(settings: &Settings, plan: &Plan, n: usize, seed: u64) -> Tin {
    let rate = plan.rate(n, settings.bandwidth * 1000);
    let quantum = if rate == 0 {
        settings.quantum
    } else {
        // The bytes of 1/4096 s.
        (rate >> 15).clamp(MIN_QUANTUM.into(), settings.quantum.into()) as u32
    };
    let stream = Stream::new(seed, n as u64, Purpose::Aqm);
    let (target, interval) = (settings.target.0, settings.interval.0);
    let packet = settings.variant.packet_time(PACKET, rate);
    let mut law = Law::new(target, interval, packet, stream);
    law.follow(settings.variant);
    let (sources, destinations) = settings.isolation.shares();
    Tin::new(Config {
        law,
        hosts: Hosts::new(sources, destinations),
        stream: Stream::new(seed, n as u64, Purpose::Scheduler),
        quantum,
        share: plan.shares[n],
        rate,
    })
}

fn memory(settings: &Settings) -> u64 {
    let most = MAX_PACKETS * PACKET;
    match (settings.memory_limit, settings.bandwidth * 1000) {
        (0, 0) => most,
        (0, rate) => {
            let bytes = u128::from(rate / 8) * u128::from(settings.interval.0) * 4
                / u128::from(NANOS_PER_SEC);
            u64::try_from(bytes).unwrap_or(most).clamp(MIN_MEMORY, most)
        }
        (limit, _) => limit,
    }
}

impl Scheduler for Cake {
    fn add_flow(&mut self, _now: Nanos, _spec: &FlowSpec) -> FlowSlot {
        FlowSlot::default()
    }

    fn change_flow<P: Store>(
        &mut self,
        _now: Nanos,
        _store: &mut P,
        _slot: FlowSlot,
        _spec: &FlowSpec,
    ) {
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        _slot: FlowSlot,
        flow: u32,
    ) -> PacketList {
        let mut taken = PacketList::default();
        for tin in &mut self.tins {
            let mut own = tin.take_flow(store, flow);
            while let Some(packet) = own.pop_front(store) {
                taken.push_back(store, packet);
            }
        }
        self.count();
        taken
    }

    #[inline]
    fn enqueue<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        _slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        let header = store.header(packet);
        let hosts = store.hosts(packet);
        let tin = usize::from(self.index[usize::from(header.dscp & 63)]);
        let Some(tin) = self.tins.get_mut(tin) else { return Some(packet) };
        let hash = self.isolation.hash(header.hash, hosts);
        let (index, collides) = tin.queue_of(hash, self.seed, hosts);
        self.collisions += u64::from(collides);
        self.packets += 1;
        self.bytes += u64::from(store.len(packet));
        tin.enqueue(now, store, index, packet);
        if self.bytes > self.memory {
            self.make_room(now, store);
        }
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<PacketId> {
        let mut first = true;
        while self.packets > 0 {
            self.choose(now);
            let tin = &mut self.tins[self.current];
            let (packets, bytes) = (tin.packets(), tin.bytes());
            let taken = tin.dequeue(now, store, &mut first, &mut self.refused);
            self.packets -= (packets - tin.packets()) as usize;
            self.bytes -= bytes - tin.bytes();
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    #[inline]
    fn pop_refused<P: Store>(&mut self, _store: &mut P) -> Option<(PacketId, DropReason)> {
        self.refused.pop_front()
    }

    fn accepts_all(&self) -> bool {
        false
    }

    #[inline]
    fn len(&self) -> usize {
        self.packets
    }

    fn backlog(&self) -> u64 {
        self.bytes
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        [("collisions", self.collisions), ("tins", self.tins.len() as u64)].into()
    }
}

/// The length of a full-size packet in bytes.
const PACKET: u64 = 1500;
/// The least quantum at a known rate, in bytes.
const MIN_QUANTUM: u32 = 300;
/// The least default memory limit, in bytes.
const MIN_MEMORY: u64 = 4 << 20;
/// The default memory limit, in full-size packets.
const MAX_PACKETS: u64 = 10_240;

pub(super) const ROW: Row = Row {
    name: "cake",
    aliases: &[],
    summary: "flow queues with COBALT, grouped into tins by the class of service",
    source: "Hoeiland-Joergensen, Taht and Morton 2018",
    parameters: Settings::PARAMETERS,
    traits: Traits {
        complexity: "O(1)",
        weighted: false,
        work_conserving: true,
        classifies: true,
        flow: &[],
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Header, Packet, Pool};

    fn cake(settings: &[(&str, &str)]) -> Cake {
        let mut discipline = Discipline::new(Kind::Cake);
        settings.iter().for_each(|(name, value)| discipline.set(name, value).unwrap());
        Cake::new(&discipline)
    }

    struct Rig {
        cake: Cake,
        pool: Pool,
    }

    impl Rig {
        fn new(settings: &[(&str, &str)]) -> Self {
            Self { cake: cake(settings), pool: Pool::new(100_000) }
        }

        /// Sends a packet of 1500 bytes of a flow, with hosts and a code point.
        fn send(&mut self, at: Nanos, flow: u32, hosts: [u32; 2], dscp: u8) {
            let packet = Packet { frame: flow, len: 1500, arrived: at, ..Packet::default() };
            let id = self.pool.insert(packet).unwrap();
            self.pool.set_header(id, Header { hash: flow, dscp, ..Header::default() });
            self.pool.set_hosts(id, hosts);
            assert_eq!(self.cake.enqueue(at, &mut self.pool, FlowSlot::default(), id), None);
        }

        fn take(&mut self, at: Nanos) -> Option<u32> {
            let id = self.cake.dequeue(at, &mut self.pool)?;
            Some(self.pool.remove(id).frame)
        }
    }

    #[test]
    fn flows_of_a_set_have_separate_queues_until_the_set_is_full() {
        let mut tin = cake(&[]).tins.swap_remove(0);
        let own = super::super::flow_queues::spread(77, tin::QUEUES);
        let set = own / tin::WAYS;
        let spread = super::super::flow_queues::spread;
        let hashes: Vec<u32> =
            (1..).filter(|&hash| spread(hash, tin::QUEUES) / tin::WAYS == set).take(9).collect();
        let mut store = Pool::new(100);
        let mut refused = Refused::new();
        let mut indices = Vec::new();
        for &hash in &hashes {
            let (index, collides) = tin.queue_of(hash, 0, [0; 2]);
            assert_eq!((index / tin::WAYS, collides), (set, indices.len() == 8));
            indices.push(index);
            let packet = store.insert(Packet { len: 100, ..Default::default() }).unwrap();
            tin.enqueue(Nanos::ZERO, &mut store, index, packet);
        }
        let mut first = indices[..8].to_vec();
        first.sort_unstable();
        assert_eq!(first, (set * tin::WAYS..set * tin::WAYS + 8).collect::<Vec<_>>());
        // Each flow keeps its queue, and the ninth flow keeps the queue that it shares.
        let again = |tin: &mut Tin| {
            hashes.iter().map(|&hash| tin.queue_of(hash, 0, [0; 2]).0).collect::<Vec<_>>()
        };
        assert_eq!(again(&mut tin), indices);
        // The dequeues at 1 ns empty every queue. Later dequeues find that the COBALT of each empty
        // queue is at rest, and free the queue.
        for now in [1, 1_000_000_000, 2_000_000_000].map(Nanos) {
            for _ in 0..100 {
                tin.dequeue(now, &mut store, &mut true, &mut refused);
            }
        }
        assert!(!tin.queue_of(hashes[8], 0, [0; 2]).1, "all queues are free");
    }

    #[test]
    fn the_memory_limit_follows_the_rate() {
        assert_eq!(cake(&[]).memory, 15_360_000);
        assert_eq!(cake(&[("bandwidth", "1000")]).memory, 4 << 20);
        assert_eq!(cake(&[("bandwidth", "200000")]).memory, 10_000_000);
        assert_eq!(cake(&[("bandwidth", "200000"), ("memory_limit", "5000")]).memory, 5000);
    }

    /// The number of packets of each flow among 10,000 departures, while eight packets of each flow
    /// wait. A flow is a number and its hosts.
    fn shares(isolation: &str, flows: &[(u32, [u32; 2])]) -> Vec<u32> {
        let mut rig = Rig::new(&[("isolation", isolation), ("tins", "besteffort")]);
        for &(flow, hosts) in flows {
            (0..8).for_each(|_| rig.send(Nanos::ZERO, flow, hosts, 0));
        }
        let mut sent: Vec<u32> = flows.iter().map(|_| 0).collect();
        for _ in 0..10_000 {
            let taken = rig.take(Nanos::ZERO).unwrap();
            let n = flows.iter().position(|&(flow, _)| flow == taken).unwrap();
            sent[n] += 1;
            rig.send(Nanos::ZERO, flows[n].0, flows[n].1, 0);
        }
        sent
    }

    /// Host 1 sends four flows to destinations 11 to 14; hosts 2 and 3 send one flow each to 14.
    const FLOWS: [(u32, [u32; 2]); 6] = [
        (101, [1, 11]),
        (102, [1, 12]),
        (103, [1, 13]),
        (104, [1, 14]),
        (105, [2, 14]),
        (106, [3, 14]),
    ];

    #[test]
    fn isolation_shares_the_link_among_hosts_and_then_among_their_flows() {
        for (isolation, expected) in [
            ("flows", [1667; 6]),
            // Three sources.
            ("dual-srchost", [833, 833, 833, 833, 3333, 3333]),
            // Four destinations.
            ("dual-dsthost", [2500, 2500, 2500, 833, 833, 833]),
            // The loads are 4, 4, 4, 4, 3 and 3.
            ("triple-isolate", [1500, 1500, 1500, 1500, 2000, 2000]),
        ] {
            let sent = shares(isolation, &FLOWS);
            for (&got, expected) in sent.iter().zip(expected) {
                assert!(got.abs_diff(expected) <= 60, "{isolation}: {sent:?}");
            }
        }
    }

    #[test]
    fn isolation_can_give_queues_to_hosts() {
        let by_host = |isolation, of: fn([u32; 2]) -> u32| {
            let sent = shares(isolation, &FLOWS);
            let mut hosts = alloc::collections::BTreeMap::new();
            for (&(_, pair), packets) in FLOWS.iter().zip(sent) {
                *hosts.entry(of(pair)).or_insert(0) += packets;
            }
            hosts.into_values().collect::<Vec<u32>>()
        };
        for (isolation, of, hosts) in [
            ("srchost", (|pair| pair[0]) as fn([u32; 2]) -> u32, 3),
            ("dsthost", |pair| pair[1], 4),
            ("hosts", |pair| pair[0] * 100 + pair[1], 6),
        ] {
            let got = by_host(isolation, of);
            assert_eq!(got.len(), hosts);
            assert!(got.iter().all(|n| n.abs_diff(10_000 / hosts as u32) <= 60), "{got:?}");
        }
        // One queue for all is a FIFO, in which each flow has eight packets.
        let sent = shares("flowblind", &FLOWS);
        assert!(sent.iter().all(|n| n.abs_diff(1667) <= 8), "{sent:?}");
    }

    /// The tin that single rounds choose, and the credits of all tins after them.
    fn chosen_by_single_rounds(cake: &mut Cake) -> (usize, Vec<i64>) {
        let state = |tin: &mut Tin| (tin.turn().credit, tin.turn().share, tin.is_active());
        let mut tins: Vec<_> = cake.tins.iter_mut().map(state).collect();
        let (mut n, count) = (cake.current, tins.len());
        loop {
            let (credit, share, active) = &mut tins[n];
            if *credit >= 0 && *active {
                return (n, tins.iter().map(|tin| tin.0).collect());
            }
            if *credit <= 0 {
                *credit += *share;
            }
            n = (n + 1) % count;
        }
    }

    #[test]
    fn skipped_rounds_change_neither_the_choice_nor_the_credits() {
        let mut random = Stream::new(1, 0, Purpose::Scheduler);
        for active in [&[0][..], &[8], &[46], &[0, 8], &[0, 46], &[8, 46], &[0, 8, 46]] {
            let mut rig = Rig::new(&[]);
            active.iter().for_each(|&dscp| rig.send(Nanos::ZERO, dscp.into(), [0; 2], dscp));
            for _ in 0..1000 {
                for tin in &mut rig.cake.tins {
                    tin.turn().credit = 2000 - i64::from(random.below(200_000));
                }
                rig.cake.current = random.below(3) as usize;
                let expected = chosen_by_single_rounds(&mut rig.cake);
                rig.cake.choose_by_share();
                let credits = rig.cake.tins.iter_mut().map(|tin| tin.turn().credit).collect();
                assert_eq!((rig.cake.current, credits), expected);
            }
        }
    }

    #[test]
    fn many_flows_of_one_host_take_few_steps() {
        let mut rig = Rig::new(&[("bandwidth", "1000"), ("tins", "besteffort")]);
        for flow in 0..1000u32 {
            (0..2).for_each(|_| rig.send(Nanos::ZERO, flow.wrapping_mul(0x9e37_79b9), [1, 2], 0));
        }
        // With a quantum of 300 bytes, each of a thousand flows gets a third of a byte in a round.
        assert_eq!((0..2000).filter_map(|_| rig.take(Nanos(1))).count(), 2000);
    }

    /// Best effort keeps the link busy. A call in the low-latency tin has priority while it is
    /// below its threshold, a quarter of the rate. Above the threshold it gets only its share.
    #[test]
    fn a_tin_below_its_threshold_has_priority() {
        let (call, bulk) = (46, 0);
        // 12 Mbit/s are one packet each ms.
        for (every, always_first) in [(10, true), (5, true), (2, false)] {
            let mut rig = Rig::new(&[("bandwidth", "12000")]);
            let ms = Nanos::from_millis;
            (0..50).for_each(|_| rig.send(ms(0), 1, [0; 2], bulk));
            let (mut calls, mut at_once) = (0, 0);
            for time in 1..2000 {
                rig.send(ms(time), 1, [0; 2], bulk);
                if time % every == 0 {
                    rig.send(ms(time), 2, [0; 2], call);
                    calls += 1;
                }
                at_once += u32::from(rig.take(ms(time)) == Some(2) && time % every == 0);
            }
            if always_first {
                assert_eq!(at_once, calls, "a packet of the call each {every} ms");
            } else {
                assert!(at_once * 10 < calls * 8, "{every}: {at_once} of {calls}");
            }
        }
    }

    /// A flow that has used its credit and then returns while nothing waits still owes the bytes.
    /// Other flows are therefore served first.
    #[test]
    fn an_emptied_flow_keeps_its_place_and_credit_while_nothing_waits() {
        let mut rig = Rig::new(&[("quantum", "1514"), ("tins", "besteffort")]);
        rig.send(Nanos(0), 1, [0; 2], 0);
        rig.send(Nanos(0), 1, [0; 2], 0);
        // The credit is 14 bytes after the first packet, and -1486 after the second.
        assert_eq!(
            [rig.take(Nanos(1)), rig.take(Nanos(2)), rig.take(Nanos(3))],
            [Some(1), Some(1), None]
        );
        // Flow 1 is still first in the fresh list but owes bytes, so that flow 2 is served.
        rig.send(Nanos(4), 1, [0; 2], 0);
        rig.send(Nanos(4), 2, [0; 2], 0);
        assert_eq!([rig.take(Nanos(5)), rig.take(Nanos(6))], [Some(2), Some(1)]);
    }

    /// With `variant linux` the second late packet of a queue is dropped; with `published` the
    /// first drop comes an interval later.
    #[test]
    fn the_first_signal_comes_at_once_in_linux() {
        let first_drop = |variant| {
            let mut rig = Rig::new(&[("variant", variant), ("tins", "besteffort")]);
            let mut time = 0;
            while rig.cake.refused.is_empty() {
                // A packet arrives each ms and one leaves each 1.2 ms.
                time += 1;
                rig.send(Nanos(time * 1_000_000), 1, [0; 2], 0);
                if time % 6 != 0 {
                    rig.take(Nanos(time * 1_000_000));
                }
            }
            time
        };
        let (linux, published) = (first_drop("linux"), first_drop("published"));
        assert!(linux < 50, "{linux}");
        assert!((95..105).contains(&(published - linux)), "{linux} {published}");
    }
}
