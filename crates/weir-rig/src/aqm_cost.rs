//! The cost of an AQM: processor time or instructions of a packet's path through a queue with it,
//! and without it.
//!
//! Packets arrive at given times, and a link takes them at given times: its clock is a number that
//! the loop advances. Packets therefore wait as long as in reality, and periodic computations run
//! as often. Each flow has its own queue and AQM in front of one list; a scheduler with an AQM
//! inside is measured as it is. A pair is an arriving packet and its outcome: it leaves or is
//! dropped.

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
use crate::managed::{Coming, Managed, Open, Unwatched, hash_of};
use crate::plan::Order;
use weir_rules::manager::Manager;

/// The load that is driven through the queues.
#[derive(Clone, Debug)]
pub struct AqmPlan {
    flows: FlowSet,
    order: Order,
    link: Load,
    /// Packets that count.
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
    /// Packets that each flow's queue holds.
    pub limit: u32,
}

impl Load {
    /// 1 Gbit/s with a tenth more than fits, and queues of 1000 packets; of many flows 10240
    /// packets together, but at least 25 each.
    pub fn of(flows: u32) -> Self {
        Self { rate: RATE, offered: 1.1, limit: (10_240 / flows.max(1)).clamp(25, 1000) }
    }

    /// ns for a byte at `parts` of the rate, in parts of 2^16.
    fn byte_time(&self, parts: f64) -> u64 {
        (8e9 * 65536.0 / (self.rate.bps() as f64 * parts)).round() as u64
    }
}

/// What went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets that came.
    pub offered: u64,
    /// Packets that left.
    pub delivered: u64,
    /// Marked ones among them.
    pub marked: u64,
    /// Packets dropped.
    pub dropped: u64,
}

impl AqmPlan {
    /// Drives `pairs` packets that carry this ECN field. A trace's times do not count, its flows
    /// and lengths do.
    pub fn new(flows: FlowSet, order: Order, link: Load, ecn: Ecn, pairs: u64, seed: u64) -> Self {
        let flows = if let Order::Trace(trace) = &order { trace.flows().clone() } else { flows };
        Self { flows, order, link, pairs: pairs.max(1), seed, ecn }
    }

    /// The flows.
    pub fn flows(&self) -> &FlowSet {
        &self.flows
    }

    /// Packets that count.
    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    /// The same with another number of packets that count.
    #[must_use]
    pub fn with_pairs(&self, pairs: u64) -> Self {
        Self { pairs: pairs.max(1), ..self.clone() }
    }
}

/// Nanoseconds of a pair in one run. `clock` gives nanoseconds since any beginning.
pub fn time(manager: &Manager, plan: &AqmPlan, clock: &dyn Fn() -> u64) -> f64 {
    run(manager, plan, clock).1 as f64 / plan.pairs as f64
}

/// Drives the plan once, for tools that count from outside, and says what went through of the
/// packets that count.
pub fn drive(manager: &Manager, plan: &AqmPlan) -> Passed {
    run(manager, plan, &|| 0).0
}

fn run(manager: &Manager, plan: &AqmPlan, clock: &dyn Fn() -> u64) -> (Passed, u64) {
    match manager {
        Manager::None => with_aqms(plan, clock, |_| Open),
        Manager::Aqm(policy) => policy.make_with(Driven { plan, clock }),
        Manager::Scheduler(discipline) => {
            discipline.seeded(plan.seed).visit(Driven { plan, clock })
        }
    }
}

struct Driven<'a> {
    plan: &'a AqmPlan,
    clock: &'a dyn Fn() -> u64,
}

impl Maker for Driven<'_> {
    type Output = (Passed, u64);

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

/// An AQM for each flow, in front of a list.
fn with_aqms<A: Aqm>(
    plan: &AqmPlan,
    clock: &dyn Fn() -> u64,
    make: impl Fn(u32) -> A,
) -> (Passed, u64) {
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
    type Output = (Passed, u64);

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> Self::Output {
        let flows = self.plan.flows.flows().map(|flow| (flow.spec(), Open));
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

/// A moment in ns, and parts of 2^16 of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    ns: u64,
    parts: u64,
}

impl Moment {
    #[inline(always)]
    fn after(self, bytes: u32, byte_time: u64) -> Self {
        let sum = self.parts + u64::from(bytes) * byte_time;
        Self { ns: self.ns + (sum >> 16), parts: sum & 0xffff }
    }
}

/// Queues with their arrivals and the link behind them.
struct Driver<S, A> {
    queues: Managed<S, A>,
    ring: Vec<Made>,
    hashes: Vec<u32>,
    ecn: Ecn,
    position: usize,
    /// When the last packet came, and when the link is free.
    arrival: Moment,
    free: Moment,
    /// ns a byte between arrivals and on the link, in parts of 2^16.
    gap: u64,
    byte_time: u64,
    passed: Passed,
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
            gap: plan.link.byte_time(plan.link.offered),
            byte_time: plan.link.byte_time(1.0),
            passed: Passed::default(),
        }
    }

    /// Warms up, and then drives what counts between two looks at the clock.
    fn run(mut self, plan: &AqmPlan, clock: &dyn Fn() -> u64) -> (Passed, u64) {
        self.pairs(WARM_UP + u64::from(plan.flows.len()) * WARM_UP_OF_FLOW);
        let before = self.queues.packets() as u64;
        self.passed = Passed::default();
        let begin = clock();
        self.pairs(plan.pairs);
        let end = clock();
        let left = self.queues.packets() as u64;
        let mut passed = std::hint::black_box(self.passed);
        passed.dropped = (before + passed.offered).saturating_sub(passed.delivered + left);
        (passed, end.saturating_sub(begin))
    }

    #[inline(never)]
    fn pairs(&mut self, pairs: u64) {
        for _ in 0..pairs {
            let Made { flow, len, .. } = self.ring[self.position];
            self.position =
                if self.position + 1 == self.ring.len() { 0 } else { self.position + 1 };
            self.arrival = self.arrival.after(len, self.gap);
            self.send();
            let header = Header { ecn: self.ecn, dscp: 0, hash: self.hashes[flow as usize] };
            // One that does not get in is counted at the end, among the missing.
            let _ = self.queues.offer(
                Nanos(self.arrival.ns),
                &Coming { queue: flow, len, header },
                &mut Unwatched,
            );
        }
        self.passed.offered += pairs;
    }

    /// The link sends what it can until the next packet comes.
    #[inline(always)]
    fn send(&mut self) {
        while self.free <= self.arrival {
            let Some((_, packet)) = self.queues.take(Nanos(self.free.ns), &mut Unwatched) else {
                self.free = self.arrival;
                return;
            };
            self.free = self.free.after(packet.len, self.byte_time);
            self.passed.delivered += 1;
            self.passed.marked += u64::from(packet.mark.is_some());
        }
    }
}

/// 1 Gbit/s.
const RATE: Rate = Rate::new(1_000_000_000).expect("it is within the range");
/// Packets before those that count, and of each flow.
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
                let passed = drive(&manager, &plan);
                assert_eq!(passed.offered, 20_000);
                // A fifth of it is too much for the link.
                assert!(passed.delivered > 0 && passed.delivered < 18_000, "{manager}: {passed:?}");
                assert_eq!(drive(&manager, &plan), passed, "{manager}");
            }
        }
    }

    #[test]
    fn nothing_is_dropped_of_half_a_load_and_a_fifth_of_one_and_a_quarter() {
        let passed = drive(&Manager::None, &plan("1:w1", 0.5, Ecn::NotEct));
        assert_eq!((passed.delivered, passed.dropped, passed.marked), (20_000, 0, 0));
        let passed = drive(&Manager::None, &plan("1:w1", 1.25, Ecn::NotEct));
        assert!(passed.dropped.abs_diff(4000) <= 1, "{passed:?}");
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
