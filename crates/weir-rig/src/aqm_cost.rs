//! The cost of an AQM: the processor time or the instructions that a packet takes on its path
//! through a queue, with the AQM and without it.
//!
//! Packets arrive and depart at computed times. The clock is a number that the loop advances. The
//! sojourn times and the intervals of periodic computations are therefore as long as on a real
//! link. Each flow has its own queue and AQM in front of one shared list. A scheduler that contains
//! an AQM is measured without another AQM. A pair is one packet: its arrival, and its departure or
//! drop.
//!
//! The functions that the loop calls are `inline(always)`, here, in `controller` and in `managed`.
//! All of them were measured together (callgrind, with thin link-time optimisation, 1,024 flows in
//! turn). Without an AQM, a pair takes 148.3 instructions, but 157.1 with plain `inline`. With
//! `codel`, the numbers are 242.3 and 254.0; with `pi2`, they are 347.5 and 358.6.

use weir_core::Nanos;
use weir_core::aqm::{Aqm, Maker, Setup};
use weir_core::config::QueueLimit;
use weir_core::gate::Bounds;
use weir_core::packet::{Ecn, Header};
use weir_core::rng::{Purpose, Stream};
use weir_core::sched::{Fifo, FlowSlot, Scheduler, Visitor};
use weir_core::units::Rate;

use crate::flows::FlowSet;
use crate::generator::{Made, arrivals};
use crate::managed::{Arriving, Managed, NoAqm, Unwatched, hash_of};
use crate::plan::Order;
use weir_rules::manager::Manager;

/// The load that is driven through the queues.
#[derive(Clone, Debug)]
pub struct AqmPlan {
    flows: FlowSet,
    order: Order,
    link: Load,
    /// The number of measured packets, after the warm-up.
    pairs: u64,
    seed: u64,
    ecn: Ecn,
}

/// A link and the load offered to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The link's rate.
    pub rate: Rate,
    /// The offered load as a multiple of the rate; above 0 and at most 10.
    pub offered: f64,
    /// The limit of each flow's queue in packets.
    pub limit: u32,
}

impl Load {
    /// 1 Gbit/s with an offered load of 1.1. Each queue holds 1000 packets; with more than ten
    /// flows the queues together hold about 10240 packets, but each holds at least 25.
    pub fn of(flows: u32) -> Self {
        Self { rate: RATE, offered: 1.1, limit: (10_240 / flows.max(1)).clamp(25, 1000) }
    }

    /// The time of a byte at `parts` times the rate, in units of 2^-16 ns.
    fn byte_time(&self, parts: f64) -> u64 {
        (8e9 * 65536.0 / (self.rate.bps() as f64 * parts)).round() as u64
    }
}

/// Counts of the packets in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Packets that arrived.
    pub offered: u64,
    /// Packets that departed.
    pub delivered: u64,
    /// Departed packets that were marked.
    pub marked: u64,
    /// Packets dropped.
    pub dropped: u64,
}

impl AqmPlan {
    /// A plan that drives `pairs` packets with this ECN field. From a trace, the plan uses the
    /// flows and the order and lengths of the packets, but not the times.
    pub fn new(flows: FlowSet, order: Order, link: Load, ecn: Ecn, pairs: u64, seed: u64) -> Self {
        let flows = if let Order::Trace(trace) = &order { trace.flows().clone() } else { flows };
        Self { flows, order, link, pairs: pairs.max(1), seed, ecn }
    }

    /// The flows.
    pub fn flows(&self) -> &FlowSet {
        &self.flows
    }

    /// The number of measured packets.
    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    /// The same plan with another number of measured packets.
    #[must_use]
    pub fn with_pairs(&self, pairs: u64) -> Self {
        Self { pairs: pairs.max(1), ..self.clone() }
    }
}

/// The nanoseconds per pair in one run. `clock` returns nanoseconds since an arbitrary start.
pub fn time(manager: &Manager, plan: &AqmPlan, clock: &dyn Fn() -> u64) -> f64 {
    run(manager, plan, clock).1 as f64 / plan.pairs as f64
}

/// Drives the plan once, for tools that count from outside the process. Returns the counts of the
/// measured packets.
pub fn drive(manager: &Manager, plan: &AqmPlan) -> PacketCounts {
    run(manager, plan, &|| 0).0
}

fn run(manager: &Manager, plan: &AqmPlan, clock: &dyn Fn() -> u64) -> (PacketCounts, u64) {
    match manager {
        Manager::None => with_aqms(plan, clock, |_| NoAqm),
        Manager::Aqm(policy) => policy.make_with(Driven { plan, clock }),
        Manager::Scheduler(discipline) => {
            discipline.seeded(plan.seed).visit(Driven { plan, clock })
        }
    }
}

/// Runs a plan with the AQMs or the scheduler that it is given.
struct Driven<'a> {
    plan: &'a AqmPlan,
    clock: &'a dyn Fn() -> u64,
}

impl Maker for Driven<'_> {
    type Output = (PacketCounts, u64);

    fn with<A: Aqm + std::fmt::Debug>(self, make: impl Fn(&Setup) -> A) -> Self::Output {
        let Bounds { packets: limit_packets, bytes: limit_bytes } =
            QueueLimit::Packets(self.plan.link.limit).into();
        let rate = self.plan.link.rate.bps();
        with_aqms(self.plan, self.clock, |flow| {
            let stream = Stream::new(self.plan.seed, u64::from(flow), Purpose::Aqm);
            make(&Setup { rate, limit_packets, limit_bytes, stream })
        })
    }
}

/// Runs the plan with one AQM per flow, in front of one list.
fn with_aqms<A: Aqm>(
    plan: &AqmPlan,
    clock: &dyn Fn() -> u64,
    make: impl Fn(u32) -> A,
) -> (PacketCounts, u64) {
    let flows = plan.flows.flows().map(|flow| (flow.spec(), make(flow.number)));
    let queues = Managed::new(
        Fifo::default(),
        flows,
        QueueLimit::Packets(plan.link.limit),
        plan.most_inside(),
    );
    Driver::new(queues, plan).run(plan, clock)
}

impl Visitor for Driven<'_> {
    type Output = (PacketCounts, u64);

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> Self::Output {
        let flows = self.plan.flows.flows().map(|flow| (flow.spec(), NoAqm));
        let queues =
            Managed::new(scheduler, flows, QueueLimit::Packets(u32::MAX), self.plan.most_inside());
        Driver::new(queues, self.plan).run(self.plan, self.clock)
    }
}

impl AqmPlan {
    fn most_inside(&self) -> usize {
        (self.link.limit as usize * self.flows.len() as usize).min(1 << 20)
    }
}

/// A time in units of 2^-16 ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Moment(u128);

impl Moment {
    #[inline(always)] // Measured: see the module `aqm_cost`.
    fn after(self, bytes: u32, byte_time: u64) -> Self {
        Self(self.0 + u128::from(u64::from(bytes) * byte_time))
    }

    /// The time in whole nanoseconds.
    #[inline(always)] // Measured: see the module `aqm_cost`.
    fn floor(self) -> Nanos {
        Nanos((self.0 >> 16) as u64)
    }
}

/// The queues with their arrivals, and the link behind them.
struct Driver<S, A> {
    queues: Managed<S, A>,
    /// The arrivals, in a ring that is read repeatedly.
    ring: Vec<Made>,
    hashes: Vec<u32>,
    ecn: Ecn,
    /// The index of the next arrival in the ring.
    position: usize,
    /// The time of the last arrival, and the time at which the link is free.
    arrival: Moment,
    free: Moment,
    /// The time of a byte at the offered load, and at the link's rate; both in units of 2^-16 ns.
    offered_byte_time: u64,
    byte_time: u64,
    counts: PacketCounts,
}

impl<S: Scheduler, A: Aqm> Driver<S, A> {
    fn new(queues: Managed<S, A>, plan: &AqmPlan) -> Self {
        let slots: Vec<FlowSlot> = (0..plan.flows.len()).map(FlowSlot).collect();
        Self {
            queues,
            ring: arrivals(&plan.flows, &plan.order, plan.seed, &slots),
            hashes: (0..plan.flows.len()).map(hash_of).collect(),
            ecn: plan.ecn,
            position: 0,
            arrival: Moment::default(),
            free: Moment::default(),
            offered_byte_time: plan.link.byte_time(plan.link.offered),
            byte_time: plan.link.byte_time(1.0),
            counts: PacketCounts::default(),
        }
    }

    /// Drives the warm-up, then the measured packets between two readings of the clock.
    fn run(mut self, plan: &AqmPlan, clock: &dyn Fn() -> u64) -> (PacketCounts, u64) {
        self.pairs(WARM_UP + u64::from(plan.flows.len()) * WARM_UP_OF_FLOW);
        let before = self.queues.packets() as u64;
        self.counts = PacketCounts::default();
        let begin = clock();
        self.pairs(plan.pairs);
        let end = clock();
        let remaining = self.queues.packets() as u64;
        let mut counts = std::hint::black_box(self.counts);
        counts.dropped = (before + counts.offered).saturating_sub(counts.delivered + remaining);
        (counts, end.saturating_sub(begin))
    }

    #[inline(never)]
    fn pairs(&mut self, pairs: u64) {
        for _ in 0..pairs {
            let Made { flow, len, .. } = self.ring[self.position];
            self.position =
                if self.position + 1 == self.ring.len() { 0 } else { self.position + 1 };
            self.arrival = self.arrival.after(len, self.offered_byte_time);
            self.send();
            let header = Header { ecn: self.ecn, dscp: 0, hash: self.hashes[flow as usize] };
            // `run` computes the drops at the end, from the packets that neither departed nor
            // remain.
            let _ = self.queues.offer(
                self.arrival.floor(),
                &Arriving { queue: flow, len, header },
                &mut Unwatched,
            );
        }
        self.counts.offered += pairs;
    }

    /// The link sends packets until the time of the next arrival.
    #[inline(always)] // Measured: see the module `aqm_cost`.
    fn send(&mut self) {
        while self.free <= self.arrival {
            let Some((_, packet)) = self.queues.take(self.free.floor(), &mut Unwatched) else {
                self.free = self.arrival;
                return;
            };
            self.free = self.free.after(packet.len, self.byte_time);
            self.counts.delivered += 1;
            self.counts.marked += u64::from(packet.mark.is_some());
        }
    }
}

/// The default rate: 1 Gbit/s.
const RATE: Rate = Rate::new(1_000_000_000).expect("it is within the range");
/// Packets of the warm-up: a fixed number, and a number for each flow.
const WARM_UP: u64 = 50_000;
const WARM_UP_OF_FLOW: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(flows: &str, offered: f64, ecn: Ecn) -> AqmPlan {
        let flows: FlowSet = flows.parse().unwrap();
        let load = Load { offered, ..Load::of(flows.len()) };
        AqmPlan::new(flows, Order::Random, load, ecn, 20_000, 1)
    }

    #[test]
    fn every_algorithm_delivers_packets_and_the_same_ones_each_time() {
        for manager in Manager::all().chain([Manager::None]) {
            for plan in [plan("1:w1", 1.25, Ecn::NotEct), plan("30:w1:imix", 1.25, Ecn::Ect0)] {
                let counts = drive(&manager, &plan);
                assert_eq!(counts.offered, 20_000);
                // The load exceeds the link's rate by a quarter, so a fifth of the packets is lost.
                assert!(counts.delivered > 0 && counts.delivered < 18_000, "{manager}: {counts:?}");
                assert_eq!(drive(&manager, &plan), counts, "{manager}");
            }
        }
    }

    #[test]
    fn half_a_load_drops_nothing_and_five_quarters_drop_a_fifth() {
        let counts = drive(&Manager::None, &plan("1:w1", 0.5, Ecn::NotEct));
        assert_eq!((counts.delivered, counts.dropped, counts.marked), (20_000, 0, 0));
        let counts = drive(&Manager::None, &plan("1:w1", 1.25, Ecn::NotEct));
        assert!(counts.dropped.abs_diff(4000) <= 1, "{counts:?}");
    }

    #[test]
    fn time_is_what_the_clock_says() {
        let ticks = std::cell::Cell::new(0);
        let clock = || {
            ticks.set(ticks.get() + 200_000);
            ticks.get()
        };
        assert_eq!(time(&Manager::None, &plan("3:w1", 1.0, Ecn::NotEct), &clock), 10.0);
    }
}
