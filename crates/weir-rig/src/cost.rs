//! The cost of a scheduler: the processor time of one enqueue and one dequeue. The module also
//! hashes the order in which packets depart.
//!
//! The caller's clock should return the processor time of the thread. Each run creates a new
//! scheduler, fills it and warms it up before it reads the clock. Runs of several schedulers can
//! therefore alternate, so that a disturbance of the machine affects all of them.

use weir_core::sched::{Scheduler, Visitor};

use crate::algorithm::Algorithm;
use crate::controller::{Counts, Driver, Sink, Unseen};
use crate::plan::Plan;

/// The nanoseconds per pair in one run. `clock` returns nanoseconds since an arbitrary start.
pub fn time(algorithm: &Algorithm, plan: &Plan, clock: &dyn Fn() -> u64) -> f64 {
    algorithm.visit(Timed { plan, clock }) as f64 / plan.pairs() as f64
}

/// Drives the plan once without a clock, for tools that count from outside the process.
pub fn drive(algorithm: &Algorithm, plan: &Plan) -> Counts {
    algorithm.visit(Driven { plan })
}

/// A hash over the flow and length of each packet in the order of departures, from the first
/// departure after the warm-up until the scheduler is empty. The second value has the counts of all
/// packets, including those of the warm-up.
pub fn order_hash(algorithm: &Algorithm, plan: &Plan) -> (u64, Counts) {
    algorithm.visit(Hashed { plan })
}

/// The spread of several runs of one measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median; of an even number of results, the lower of the two in the middle.
    pub median: f64,
    /// The smallest result.
    pub least: f64,
    /// The largest result.
    pub most: f64,
}

impl Spread {
    /// The spread of these results; `None` without results.
    pub fn of(results: &[f64]) -> Option<Self> {
        let mut sorted = results.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&least, &most) = (sorted.first()?, sorted.last()?);
        Some(Self { median: sorted[(sorted.len() - 1) / 2], least, most })
    }

    /// The difference between the largest and the smallest result, as a fraction of the median.
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
    fn every_scheduler_returns_all_packets_in_a_repeatable_order() {
        for name in Order::names() {
            let order = Order::from_name(name).unwrap();
            for algorithm in Algorithm::all() {
                for batch in [1, 7] {
                    let plan = plan("20:w1:imix,3:w9:l64-1500", order.clone(), batch, 2000);
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
    fn batches_do_not_change_the_order_of_a_ramp() {
        for algorithm in Algorithm::all()
            .filter(|a| a.discipline().is_none_or(|d| d.row().traits.work_conserving))
        {
            let hash =
                |batch| order_hash(&algorithm, &plan("8:w1,4:w2", Order::Ramp, batch, 960)).0;
            assert_eq!(hash(1), hash(16), "{algorithm}");
        }
    }

    struct Taken(u64);

    impl Sink for Taken {
        fn take(&mut self, _flow: u32, _len: u32) {
            self.0 += 1;
        }
    }

    #[test]
    fn a_ramp_passes_every_backlog_and_a_held_backlog_is_constant() {
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
        // The second and the third packet wait while the first is sent. The last packet finds the
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

    /// The literals change when the generator's draws or the controller's cycles change. Results of
    /// different versions are then not comparable.
    #[test]
    fn the_arrivals_of_a_fifo_are_pinned() {
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
    fn the_spread_has_the_median_and_the_extremes() {
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
