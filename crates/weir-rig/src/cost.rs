//! The cost of a scheduler: processor time of a pair of enqueue and dequeue, and the order in which
//! packets leave.
//!
//! The caller's clock gives the time, which should be processor time of the thread. Each run makes
//! a new scheduler, fills it and warms it up before the clock is read. Runs can therefore alternate
//! with those of other schedulers, so that disturbances of the machine affect all of them.

use weir_core::sched::{Scheduler, Visitor};

use crate::algorithm::Algorithm;
use crate::controller::{Counts, Driver, Sink, Unseen};
use crate::plan::Plan;

/// Nanoseconds of one pair in one run. `clock` gives nanoseconds since any beginning.
pub fn time(algorithm: &Algorithm, plan: &Plan, clock: &dyn Fn() -> u64) -> f64 {
    algorithm.visit(Timed { plan, clock }) as f64 / plan.pairs() as f64
}

/// Drives the plan once and does nothing else: for tools that count from outside.
pub fn drive(algorithm: &Algorithm, plan: &Plan) -> Counts {
    algorithm.visit(Driven { plan })
}

/// A number that says in which order packets left, flows and lengths, from the first one that
/// counts to the last that was inside; and how many there were.
pub fn order_hash(algorithm: &Algorithm, plan: &Plan) -> (u64, Counts) {
    algorithm.visit(Hashed { plan })
}

/// Several runs of one measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one; of an even number the lower of two.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Spread {
    /// The spread of the runs' results; `None` without results.
    pub fn of(figures: &[f64]) -> Option<Self> {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&least, &most) = (sorted.first()?, sorted.last()?);
        Some(Self { median: sorted[(sorted.len() - 1) / 2], least, most })
    }

    /// The distance of the extremes from each other, as a part of the median.
    pub fn relative(&self) -> f64 {
        if self.median > 0.0 { (self.most - self.least) / self.median } else { 0.0 }
    }
}

struct Timed<'a> {
    plan: &'a Plan,
    clock: &'a dyn Fn() -> u64,
}

impl Visitor for Timed<'_> {
    type Output = u64;

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> u64 {
        let mut driver = Driver::new(scheduler, self.plan);
        driver.warm_up(self.plan);
        let begin = (self.clock)();
        driver.cycles(self.plan, self.plan.cycles, &mut Unseen);
        let end = (self.clock)();
        std::hint::black_box(driver.counts());
        end.saturating_sub(begin)
    }
}

struct Driven<'a> {
    plan: &'a Plan,
}

impl Visitor for Driven<'_> {
    type Output = Counts;

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> Counts {
        let mut driver = Driver::new(scheduler, self.plan);
        driver.warm_up(self.plan);
        driver.cycles(self.plan, self.plan.cycles, &mut Unseen);
        driver.counts()
    }
}

struct Hashed<'a> {
    plan: &'a Plan,
}

impl Visitor for Hashed<'_> {
    type Output = (u64, Counts);

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> (u64, Counts) {
        let mut driver = Driver::new(scheduler, self.plan);
        driver.warm_up(self.plan);
        let mut order = OrderHash::default();
        driver.cycles(self.plan, self.plan.cycles, &mut order);
        driver.drain(&mut order);
        (order.0, driver.counts())
    }
}

/// FNV-1a over 64-bit words.
struct OrderHash(u64);

impl Default for OrderHash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Sink for OrderHash {
    #[inline]
    fn take(&mut self, flow: u32, len: u32) {
        self.0 =
            (self.0 ^ (u64::from(flow) << 32 | u64::from(len))).wrapping_mul(0x0000_0100_0000_01b3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Order;
    use crate::trace::{Arrival, Trace};

    fn plan(flows: &str, order: Order, batch: usize, pairs: u64) -> Plan {
        Plan::new(flows.parse().unwrap(), order, None, batch, pairs, 7).unwrap()
    }

    #[test]
    fn every_scheduler_gives_back_what_it_took_in_the_same_order_each_time() {
        for name in Order::names() {
            let order = Order::from_name(name).unwrap();
            for algorithm in Algorithm::all() {
                for batch in [1, 7] {
                    let plan = plan("20:w1:imix,3:w9:l64-1500", order.clone(), batch, 5000);
                    let (hash, counts) = order_hash(&algorithm, &plan);
                    assert_eq!(
                        counts.enqueued,
                        counts.dequeued + counts.refused,
                        "{algorithm} {name}"
                    );
                    assert!(counts.enqueued >= plan.pairs());
                    assert_eq!(order_hash(&algorithm, &plan), (hash, counts), "{algorithm} {name}");
                }
            }
        }
    }

    #[test]
    fn a_batch_leaves_the_order_of_a_ramp_as_it_is() {
        for algorithm in Algorithm::all()
            .filter(|a| a.discipline().is_none_or(|d| d.row().traits.work_conserving))
        {
            let hash =
                |batch| order_hash(&algorithm, &plan("8:w1,4:w2", Order::Ramp, batch, 960)).0;
            assert_eq!(hash(1), hash(16), "{algorithm}");
        }
    }

    /// Counts what leaves.
    struct Taken(u64);

    impl Sink for Taken {
        fn take(&mut self, _flow: u32, _len: u32) {
            self.0 += 1;
        }
    }

    #[test]
    fn a_ramp_goes_through_every_level_and_a_held_backlog_stays() {
        struct Watched(Plan);
        impl Visitor for Watched {
            type Output = Vec<(u64, u64)>;
            fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> Self::Output {
                let mut driver = Driver::new(scheduler, &self.0);
                driver.warm_up(&self.0);
                let mut seen = Vec::new();
                for _ in 0..2 {
                    let mut taken = Taken(0);
                    let before = driver.counts().enqueued - driver.counts().dequeued;
                    driver.cycles(&self.0, 1, &mut taken);
                    seen.push((before, taken.0));
                }
                seen
            }
        }
        let ramp =
            Algorithm::parse("fifo").unwrap().visit(Watched(plan("30:w1", Order::Ramp, 1, 1)));
        assert_eq!(ramp, [(0, 600), (0, 600)]);
        let held =
            Algorithm::parse("fifo").unwrap().visit(Watched(plan("30:w1", Order::Random, 1, 1)));
        assert_eq!(held, [(300, 1), (300, 1)]);
    }

    #[test]
    fn a_trace_is_replayed_at_its_times() {
        // Both wait while the first is sent, and round robin alternates; the last packet finds the
        // link idle.
        let arrivals = [(0, 0, 1000), (10, 0, 100), (10, 1, 100), (5000, 1, 64)];
        let arrivals = arrivals.map(|(time, flow, len)| Arrival { time, flow, len }).to_vec();
        let trace = Trace::new("2:w1".parse().unwrap(), arrivals).unwrap();
        let plan = plan("1:w1", Order::Trace(Box::new(trace)), 1, 8);
        assert_eq!((plan.pairs(), plan.flows().len()), (8, 2));
        for algorithm in Algorithm::all() {
            let (_, counts) = order_hash(&algorithm, &plan);
            assert_eq!((counts.enqueued, counts.dequeued), (12, 12), "{algorithm}");
        }
    }

    /// Changes when the generator's draws or the controller's cycles do: results of other versions
    /// then no longer compare.
    #[test]
    fn what_a_fifo_is_given_is_pinned() {
        let pinned = [
            ("ramp", 0x03d3_c256_0413_c8a5),
            ("random", 0xa156_6d11_873c_f1c6),
            ("zipf", 0x0b23_9f1c_bd73_0b5c),
            ("bursty", 0xa523_0aec_960b_2fa4),
        ];
        for (name, hash) in pinned {
            let flows = "10:w1:imix,2:w5:l64-1500".parse().unwrap();
            let plan = Plan::new(flows, Order::from_name(name).unwrap(), None, 1, 1000, 1).unwrap();
            assert_eq!(order_hash(&Algorithm::parse("fifo").unwrap(), &plan).0, hash, "{name}");
        }
    }

    #[test]
    fn spread_is_about_the_middle() {
        let spread = Spread::of(&[3.0, 1.0, 2.0, 9.0]).unwrap();
        assert_eq!(
            (spread.median, spread.least, spread.most, spread.relative()),
            (2.0, 1.0, 9.0, 4.0)
        );
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn time_is_what_the_clock_says() {
        let ticks = std::cell::Cell::new(0);
        let clock = || {
            ticks.set(ticks.get() + 600_000);
            ticks.get()
        };
        let plan = plan("30:w1", Order::Ramp, 1, 600);
        assert_eq!(time(&Algorithm::None, &plan, &clock), 1000.0);
    }
}
