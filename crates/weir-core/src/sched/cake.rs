//! CAKE: flow queues with COBALT, grouped into tins by the class of service.
//!
//! # Model
//! A packet's DSCP selects its *tin*. Tins share the link by weights: a tin with more traffic than
//! its share has no priority over the others. Within a tin each flow has a queue. A hash selects a
//! set of eight queues and one queue in it. A flow takes that queue or, if another flow has it, a
//! free queue of the set, so that two flows share a queue only when nine flows are in the same set.
//! Queues are served in rounds as in `fq_codel`, new flows first. Each queue has its own COBALT.
//! When there is no room, the packet at the head of the longest queue is dropped.
//!
//! # Reference
//! Hoeiland-Joergensen, Taht and Morton, "Piece of CAKE: a comprehensive queue management solution
//! for home gateways", IEEE LANMAN 2018; `sch_cake` in Linux.
//!
//! # Parameters
//! `tins` `besteffort`, `precedence`, `diffserv3`, `diffserv4` or `diffserv8`, default `diffserv3`:
//!
//! * `besteffort`: one tin for all packets.
//! * `diffserv3`: best effort; low priority (CS1, LE) with 1/16 of the share of best effort; low
//!   latency (CS6, CS7, EF, VA, TOS4) with 1/4 of it.
//! * `diffserv4`: best effort; low priority with 1/16; streaming (AF2x, AF3x, AF4x, CS2, CS3, TOS4)
//!   with 1/2; low latency (CS4 to CS7, EF, VA) with 1/4.
//! * `diffserv8`: eight tins, from CS1 to network control, each with 7/8 of the share of the
//!   previous tin.
//! * `precedence`: eight tins with the same shares, by the first three bits of the DSCP.
//!
//! `target` default 5ms and `interval` default 100ms, as in `cobalt`. `bandwidth` 0..400000000
//! kbit/s, default 0 for unknown: the rate of the link. It determines the targets of tins on slow
//! links, the quantum of the queues and the default memory limit. `memory_limit` bytes, default 0,
//! which means 15.7 MB or, on slow links, the bytes that the link transmits in four intervals, but
//! at least 4 MiB.
//!
//! # Complexity
//! O(1) for each packet; the first packet of a flow inspects up to 16 queues. A drop for lack of
//! room inspects some groups of queues in each tin.
//!
//! # Guarantees
//! Packets of a flow leave in order. In a tin, queues that always have packets send the same number
//! of bytes, to within two quanta and a packet. Tins that always have packets send bytes in
//! proportion to their shares. The last packet of a queue is not dropped unless there is no room.
//!
//! # Statistics
//! `collisions`: packets of flows that share a queue with another flow. `tins`: the number of tins.
//!
//! # Differences from Linux/FreeBSD
//! The link limits the rate, not CAKE. The next tin is therefore chosen by shares alone, as in
//! Linux without a rate. With a rate, Linux gives a tin below its threshold priority over the
//! others. Flows are isolated, hosts are not (`flows`, not `triple-isolate`), because the engine
//! passes no addresses to schedulers. A flow that finds its set full shares a queue until that
//! queue is free; in Linux it takes over the queue, and the packets of the flow that had the queue
//! may leave out of order. There is no filter of acknowledgements, no washing of DSCPs, no split of
//! offload trains (the engine splits them), and no mode for incoming traffic. Sizes count from the
//! network layer on, and the memory limit counts bytes of packets. Credit is not dithered, since
//! quanta are whole numbers.
//!
//! # Validation
//! Tests check the tins of all code points and the shares of tins, compare the choice of queues
//! with a plain search, and use random traffic to check conservation and the order within each
//! flow.

use alloc::vec::Vec;

use super::flow_queues::{Context, FlowPolicy, FlowQueues, Refused};
use super::{Discipline, FlowSlot, FlowSpec, Row, Scheduler, Traits};
use crate::aqm::cobalt::{Control, Law};
use crate::aqm::codel::{INTERVAL, TARGET};
use crate::aqm::{Seen, Verdict};
use crate::packet::{PacketId, PacketList, Store};
use crate::rng::{Purpose, Stream};
use crate::settings::Number;
use crate::stats::DropReason;
use crate::units::{NANOS_PER_SEC, Nanos};
use crate::{choice, settings};

/// The CAKE scheduler.
#[derive(Debug)]
pub struct Cake {
    tins: Vec<Tin>,
    /// The index of the tin of each code point.
    index: &'static [u8; 64],
    /// The index of the tin that is served.
    current: usize,
    refused: Refused,
    seed: u32,
    memory: u64,
    packets: usize,
    bytes: u64,
    collisions: u64,
}

/// The flow queues of one tin.
#[derive(Debug)]
struct Tin {
    queues: FlowQueues<State>,
    /// For each queue, the hash of the flow that has it or had it last.
    tags: Vec<u32>,
    /// For each queue, whether several flows have used it since it was last idle.
    shared: Vec<bool>,
    policy: Managed,
    quantum: i64,
    credit: i64,
}

/// The law of COBALT that the queues of a tin share.
#[derive(Debug)]
struct Managed(Law);

/// The state of COBALT for one queue.
#[derive(Debug, Default)]
struct State(Control);

impl FlowPolicy for Managed {
    type State = State;

    const NEW_GOES_THROUGH_OLD: bool = false;

    #[inline]
    fn arrive(
        &mut self,
        state: &mut State,
        now: Nanos,
        _packet: &Seen,
        _context: &Context,
    ) -> Verdict {
        state.0.arrive(&self.0, now);
        Verdict::Pass
    }

    #[inline]
    fn leave(
        &mut self,
        state: &mut State,
        now: Nanos,
        packet: &Seen,
        context: &Context,
    ) -> Verdict {
        state.0.leave(&mut self.0, now, packet, context.queue.packets == 0)
    }

    #[inline]
    fn emptied(&mut self, state: &mut State, now: Nanos) {
        state.0.emptied(&self.0, now);
    }

    fn overflowed(&mut self, state: &mut State, now: Nanos, _packets: u32) {
        state.0.overflowed(&self.0, now);
    }
}

settings! {
    /// Settings of CAKE.
    struct Settings {
        tins: Tins =
            Tins::setting(Tins::Diffserv3, "classes of service, by the packet's DSCP"),
        target: Nanos = TARGET,
        interval: Nanos = INTERVAL,
        bandwidth: u64 = Number::new(
            0,
            400_000_000,
            "kbit/s",
            0,
            "rate of the link, for targets, quanta and memory; 0: unknown",
        ),
        memory_limit: u64 =
            Number::new(0, 1 << 40, "bytes", 0, "largest number of bytes inside; 0: by the rate"),
    }
}

choice! {
    /// The divisions of packets into tins.
    enum Tins {
        BestEffort = "besteffort",
        Precedence = "precedence",
        Diffserv3 = "diffserv3",
        Diffserv4 = "diffserv4",
        Diffserv8 = "diffserv8",
    }
}

impl Cake {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        let settings = Settings::of(discipline);
        let plan = &PLANS[settings.tins as usize];
        let rate = settings.bandwidth * 1000;
        let (target, interval) = (settings.target.0, settings.interval.0);
        let seed = discipline.seed();
        let tin = |n: usize| {
            let share = |whole: u64| {
                u64::try_from(u128::from(whole) * u128::from(plan.shares[n]) / u128::from(WHOLE))
                    .unwrap_or(whole)
            };
            let stream = Stream::new(seed, n as u64, Purpose::Aqm);
            let rate = share(rate);
            let quantum =
                if rate == 0 { PACKET } else { (rate >> 15).clamp(LEAST_QUANTUM, PACKET) };
            Tin {
                queues: FlowQueues::new(QUEUES, quantum as u32),
                tags: (0..QUEUES).map(|_| 0).collect(),
                shared: (0..QUEUES).map(|_| false).collect(),
                policy: Managed(Law::new(target, interval, PACKET, rate, stream)),
                quantum: i64::from(plan.shares[n]),
                credit: 0,
            }
        };
        let most = MOST_PACKETS * PACKET;
        let memory = match (settings.memory_limit, rate) {
            (0, 0) => most,
            (0, rate) => {
                let bytes =
                    u128::from(rate / 8) * u128::from(interval) * 4 / u128::from(NANOS_PER_SEC);
                u64::try_from(bytes).unwrap_or(most).clamp(LEAST_MEMORY, most)
            }
            (limit, _) => limit,
        };
        Self {
            tins: (0..plan.shares.len()).map(tin).collect(),
            index: &plan.index,
            current: 0,
            refused: Refused::new(),
            seed: (seed ^ seed >> 32) as u32,
            memory,
            packets: 0,
            bytes: 0,
            collisions: 0,
        }
    }

    /// Chooses the tin to serve: the current tin while it has credit, then the tins that follow.
    /// Each tin that is passed over gets its quantum of credit.
    fn choose(&mut self) {
        loop {
            let count = self.tins.len();
            let tin = &mut self.tins[self.current];
            if tin.credit >= 0 && tin.queues.packets() > 0 {
                return;
            }
            if tin.credit <= 0 {
                tin.credit += tin.quantum;
            }
            self.current = if self.current + 1 == count { 0 } else { self.current + 1 };
            if self.current == 0 {
                self.skip_rounds();
            }
        }
    }

    /// Adds the credit of all rounds in which no tin would be served in one step, since a packet
    /// may be as long as thousands of quanta.
    fn skip_rounds(&mut self) {
        let rounds = |tin: &Tin| if tin.credit >= 0 { 0 } else { (-tin.credit - 1) / tin.quantum };
        let waiting = self.tins.iter().filter(|tin| tin.queues.packets() > 0);
        let skipped = waiting.map(rounds).min().unwrap_or(0);
        if skipped > 0 {
            for tin in self.tins.iter_mut().filter(|tin| tin.credit <= 0) {
                // The credit of a tin grows only while it is not positive.
                let most = -tin.credit / tin.quantum + 1;
                tin.credit += tin.quantum * skipped.min(most);
            }
        }
    }

    /// Drops packets from the longest queues until the others fit into the memory limit.
    #[cold]
    #[inline(never)]
    fn make_room<P: Store>(&mut self, now: Nanos, store: &mut P) {
        while self.bytes > self.memory && self.packets > 0 {
            let longest =
                |best: (usize, u64), tin: (usize, u64)| if tin.1 > best.1 { tin } else { best };
            let lengths =
                self.tins.iter_mut().enumerate().filter(|(_, tin)| tin.queues.packets() > 0);
            let lengths = lengths.map(|(n, tin)| (n, tin.queues.most_bytes()));
            let Some((n, _)) = lengths.reduce(longest) else { return };
            let Tin { queues, policy, .. } = &mut self.tins[n];
            queues.drop_from_longest(now, store, 1, policy, &mut self.refused);
            self.count();
        }
    }

    /// Counts the packets inside.
    #[inline]
    fn count(&mut self) {
        (self.packets, self.bytes) = (0, 0);
        for tin in &self.tins {
            self.packets += tin.queues.packets() as usize;
            self.bytes += tin.queues.bytes();
        }
    }
}

impl Tin {
    /// The queue for a hash, and whether another flow has it. A flow that finds no free queue uses
    /// the first queue of its hash until that queue is idle, so that its packets are never in two
    /// queues.
    fn place(&mut self, now: Nanos, hash: u32, seed: u32) -> (u32, bool) {
        let own = self.queues.place(hash, seed);
        let idle = self.queues.is_idle(own);
        if self.tags[own as usize] == hash && !idle {
            return (own, false);
        }
        let set = own & !(WAYS - 1);
        let ways = || (0..WAYS).map(|n| set | own.wrapping_add(n) & (WAYS - 1));
        if let Some(known) = ways().find(|&way| self.tags[way as usize] == hash) {
            return (known, false);
        }
        self.shared[own as usize] &= !idle;
        let rests = |&way: &u32| {
            self.queues.is_idle(way) && self.queues.state(way).0.is_at_rest(&self.policy.0, now)
        };
        let free = if self.shared[own as usize] { None } else { ways().find(rests) };
        match free {
            Some(free) => {
                self.tags[free as usize] = hash;
                (free, false)
            }
            None => {
                self.shared[own as usize] = true;
                (own, true)
            }
        }
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
            let mut own = tin.queues.take_flow(store, flow);
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
        let tin = usize::from(self.index[usize::from(header.dscp & 63)]);
        let Some(tin) = self.tins.get_mut(tin) else { return Some(packet) };
        let (place, collides) = tin.place(now, header.hash, self.seed);
        self.collisions += u64::from(collides);
        self.packets += 1;
        self.bytes += u64::from(store.len(packet));
        tin.queues.enqueue(now, store, place, packet, &mut tin.policy, &mut self.refused);
        if self.bytes > self.memory {
            self.make_room(now, store);
        }
        None
    }

    #[inline]
    fn dequeue<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<PacketId> {
        while self.packets > 0 {
            self.choose();
            let tin = &mut self.tins[self.current];
            let (packets, bytes) = (tin.queues.packets(), tin.queues.bytes());
            let taken = tin.queues.dequeue(now, store, &mut tin.policy, &mut self.refused);
            self.packets -= (packets - tin.queues.packets()) as usize;
            self.bytes -= bytes - tin.queues.bytes();
            if let Some(packet) = taken {
                tin.credit -= i64::from(store.len(packet));
                return taken;
            }
        }
        None
    }

    #[inline]
    fn pop_refused<P: Store>(&mut self, _store: &mut P) -> Option<(PacketId, DropReason)> {
        self.refused.pop_front()
    }

    fn takes_all(&self) -> bool {
        false
    }

    #[inline]
    fn len(&self) -> usize {
        self.packets
    }

    fn backlog(&self) -> u64 {
        self.bytes
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        [("collisions", self.collisions), ("tins", self.tins.len() as u64)].into()
    }
}

/// A division into tins: the shares of the tins in parts of [`WHOLE`], and the tin of each code
/// point.
struct Plan {
    shares: &'static [u32],
    index: [u8; 64],
}

/// Returns `index` with `tin` at the code points `points`.
const fn with(mut index: [u8; 64], tin: u8, points: &[usize]) -> [u8; 64] {
    let mut n = 0;
    while n < points.len() {
        index[points[n]] = tin;
        n += 1;
    }
    index
}

/// The index by the first three bits of the DSCP.
const PRECEDENCES: [u8; 64] = {
    let mut index = [0; 64];
    let mut n = 0;
    while n < 64 {
        index[n] = (n >> 3) as u8;
        n += 1;
    }
    index
};

/// The divisions in the order of [`Tins`]. Code points: LE 1, TOS2 2, TOS4 4, CS1 to CS7 8 to 56,
/// AF1x to AF4x 10.. to 34.., VA 44, EF 46.
static PLANS: [Plan; 5] = [
    Plan { shares: &[WHOLE], index: [0; 64] },
    Plan { shares: &EIGHTHS, index: PRECEDENCES },
    Plan {
        shares: &[WHOLE, WHOLE / 16, WHOLE / 4],
        index: with(with([0; 64], 1, &[1, 8]), 2, &[4, 44, 46, 48, 56]),
    },
    Plan {
        shares: &[WHOLE, WHOLE / 16, WHOLE / 2, WHOLE / 4],
        index: with(
            with(with([0; 64], 1, &[1, 8]), 2, &[4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38]),
            3,
            &[32, 40, 44, 46, 48, 56],
        ),
    },
    Plan {
        shares: &EIGHTHS,
        index: with(
            with(
                with(
                    with(
                        with(
                            with(with([2; 64], 0, &[1]), 1, &[2, 8, 10, 12, 14]),
                            3,
                            &[24, 26, 28, 30, 34, 36, 38],
                        ),
                        4,
                        &[4, 18, 20, 22],
                    ),
                    5,
                    &[16],
                ),
                6,
                &[32, 40, 44, 46],
            ),
            7,
            &[48, 56],
        ),
    },
];

/// Shares of eight tins, each 7/8 of the previous share.
const EIGHTHS: [u32; 8] = {
    let mut shares = [WHOLE; 8];
    let mut n = 1;
    while n < 8 {
        shares[n] = shares[n - 1] * 7 / 8;
        n += 1;
    }
    shares
};

/// The share of the first tin, which is also the number of bytes that it sends in a round.
const WHOLE: u32 = 1024;
const QUEUES: u32 = 1024;
const WAYS: u32 = 8;
/// The length of a full-size packet in bytes.
const PACKET: u64 = 1500;
const LEAST_QUANTUM: u64 = 300;
const LEAST_MEMORY: u64 = 4 << 20;
/// The default memory limit, in full-size packets.
const MOST_PACKETS: u64 = 10_485;

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
    use crate::sched::Kind;

    fn cake(settings: &[(&str, &str)]) -> Cake {
        let mut discipline = Discipline::new(Kind::Cake);
        settings.iter().for_each(|(name, value)| discipline.set(name, value).unwrap());
        Cake::new(&discipline)
    }

    #[test]
    fn code_points_have_their_classes() {
        let class = |plan: &Plan, points: &[usize]| {
            points.iter().map(|&point| plan.index[point]).collect::<Vec<_>>()
        };
        let some = [0, 1, 8, 10, 18, 26, 34, 40, 46, 48, 56];
        assert_eq!(class(&PLANS[0], &some), [0; 11]);
        assert_eq!(class(&PLANS[1], &some), [0, 0, 1, 1, 2, 3, 4, 5, 5, 6, 7]);
        assert_eq!(class(&PLANS[2], &some), [0, 1, 1, 0, 0, 0, 0, 0, 2, 2, 2]);
        assert_eq!(class(&PLANS[3], &some), [0, 1, 1, 0, 2, 2, 2, 3, 3, 3, 3]);
        assert_eq!(class(&PLANS[4], &some), [2, 0, 1, 1, 4, 3, 3, 6, 6, 7, 7]);
        for plan in &PLANS {
            assert!(plan.index.iter().all(|&tin| usize::from(tin) < plan.shares.len()));
        }
    }

    #[test]
    fn flows_of_a_set_have_separate_queues_until_the_set_is_full() {
        let mut tin = cake(&[]).tins.swap_remove(0);
        let own = tin.queues.place(77, 0);
        let set = own / WAYS;
        let hashes: Vec<u32> =
            (1..).filter(|&hash| tin.queues.place(hash, 0) / WAYS == set).take(9).collect();
        let mut store = crate::packet::Pool::new(100);
        let mut refused = Refused::new();
        let mut places = Vec::new();
        for &hash in &hashes {
            let (place, collides) = tin.place(Nanos::ZERO, hash, 0);
            assert_eq!((place / WAYS, collides), (set, places.len() == 8));
            places.push(place);
            let packet =
                store.insert(crate::packet::Packet { len: 100, ..Default::default() }).unwrap();
            tin.queues.enqueue(
                Nanos::ZERO,
                &mut store,
                place,
                packet,
                &mut tin.policy,
                &mut refused,
            );
        }
        let mut first = places[..8].to_vec();
        first.sort_unstable();
        assert_eq!(first, (set * WAYS..set * WAYS + 8).collect::<Vec<_>>());
        // Each flow keeps its queue, and the ninth flow keeps the queue that it shares, even when
        // another queue is free.
        let again = |tin: &mut Tin| {
            hashes.iter().map(|&hash| tin.place(Nanos::ZERO, hash, 0).0).collect::<Vec<_>>()
        };
        assert_eq!(again(&mut tin), places);
        let now = Nanos(1);
        while tin.queues.dequeue(now, &mut store, &mut tin.policy, &mut refused).is_some() {}
        let now = Nanos::from_secs(1);
        assert!((0..QUEUES).all(|place| tin.queues.is_idle(place)));
        assert!(!tin.place(now, hashes[8], 0).1, "all are free");
    }

    #[test]
    fn memory_and_quanta_follow_the_rate() {
        assert_eq!(cake(&[]).memory, 15_727_500);
        assert_eq!(cake(&[("bandwidth", "1000")]).memory, 4 << 20);
        assert_eq!(cake(&[("bandwidth", "200000")]).memory, 10_000_000);
        assert_eq!(cake(&[("bandwidth", "200000"), ("memory_limit", "5000")]).memory, 5000);
    }
}
