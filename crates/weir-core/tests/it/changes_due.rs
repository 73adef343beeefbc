//! Due times under changes of rate, delay, loss and jitter: every packet departs at the time that a
//! naive model computes, and the engine announces the departure in time.
//!
//! The model integrates the rate over time, one packet after another. It has neither events nor a
//! delay line, so it cannot share a fault with the engine's announcements.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir_core::config::{
    Capacity, FlowsetConfig, Jitter, LinkConfig, Loss, PipeConfig, QueueLimit,
};
use weir_core::dist::Distribution;
use weir_core::key::FlowKey;
use weir_core::packet::Ecn;
use weir_core::{Action, Arrival, Departure, Emulator, Fate, Limits, Nanos, Probability, Rate};

#[derive(Clone, Copy, Debug)]
enum Operation {
    /// A packet of this length arrives.
    Submit(u32),
    /// The driver polls at each event until this time in ns has passed.
    Wait(u64),
    /// The driver is late: it does not poll for this time in ns. The next operation finds overdue
    /// events.
    Oversleep(u64),
    /// The rate in bit/s; `None` is unlimited.
    Rate(Option<u64>),
    /// The delay in ns.
    Delay(u64),
    /// Whether the link loses packets. If it does, the departure of a packet is known only at the
    /// end of the packet's transmission.
    Loss(bool),
    /// Whether packets may overtake each other.
    Jitter(bool),
}

fn operations(jitter: bool) -> impl Strategy<Value = Vec<Operation>> {
    let rate = prop_oneof![
        1 => Just(None),
        2 => (1_000u64..100_000).prop_map(Some),
        6 => (1_000_000u64..100_000_000).prop_map(Some),
    ];
    let mut kinds = vec![
        (12, (40u32..1501).prop_map(Operation::Submit).boxed()),
        (8, (0u64..2_000_000).prop_map(Operation::Wait).boxed()),
        (1, (0u64..400_000_000).prop_map(Operation::Wait).boxed()),
        (2, (0u64..3_000_000).prop_map(Operation::Oversleep).boxed()),
        (4, rate.prop_map(Operation::Rate).boxed()),
        (2, (0u64..10_000_000).prop_map(Operation::Delay).boxed()),
        (1, any::<bool>().prop_map(Operation::Loss).boxed()),
    ];
    if jitter {
        kinds.push((1, any::<bool>().prop_map(Operation::Jitter).boxed()));
    }
    proptest::collection::vec(proptest::strategy::Union::new_weighted(kinds), 1..250)
}

/// A pipe, its driver, and the naive model.
struct Experiment {
    emulator: Emulator,
    config: PipeConfig,
    now: Nanos,
    /// Whether the driver was late and has not polled since.
    late: bool,
    out: Vec<Departure>,
    /// Arrival time and length of each packet, by frame.
    sent: Vec<(Nanos, u32)>,
    /// The rates, each with the time from which it applies. `delays` has the same form.
    rates: Vec<(Nanos, Option<u64>)>,
    delays: Vec<(Nanos, Nanos)>,
    uniform: Arc<Distribution>,
}

impl Experiment {
    fn new() -> Self {
        let config = PipeConfig {
            link: LinkConfig { capacity: capacity(Some(START_RATE)), ..LinkConfig::default() },
            queue: FlowsetConfig {
                limit: Some(QueueLimit::Packets(1000)),
                ..FlowsetConfig::default()
            },
            scheduler: None,
        };
        let mut emulator = Emulator::new(1, Limits::default());
        emulator.set_pipe(Nanos::ZERO, PIPE, &config);
        Self {
            emulator,
            config,
            now: Nanos::ZERO,
            late: false,
            out: Vec::new(),
            sent: Vec::new(),
            rates: vec![(Nanos::ZERO, Some(START_RATE))],
            delays: vec![(Nanos::ZERO, Nanos::ZERO)],
            uniform: Arc::new(Distribution::uniform()),
        }
    }

    fn execute(&mut self, operation: Operation) {
        match operation {
            Operation::Submit(len) => return self.submit(len),
            Operation::Wait(ns) => return self.run_until(self.now + Nanos(ns)),
            Operation::Oversleep(ns) => {
                (self.now, self.late) = (self.now + Nanos(ns), true);
                return;
            }
            _ => {}
        }
        // Time advances by 1 ns before each change, so that no change coincides with an earlier
        // change or arrival.
        let next = self.now + Nanos(1);
        if self.late {
            self.now = next;
        } else {
            self.run_until(next);
        }
        let link = &mut self.config.link;
        match operation {
            Operation::Submit(_) | Operation::Wait(_) | Operation::Oversleep(_) => {}
            Operation::Rate(bps) => {
                link.capacity = capacity(bps);
                self.rates.push((self.now, bps));
            }
            Operation::Delay(ns) => {
                link.delay = Nanos(ns);
                self.delays.push((self.now, link.delay));
            }
            Operation::Loss(on) => {
                let some = Probability::new(0.2).expect("a probability");
                link.loss = if on { Loss::Bernoulli(some) } else { Loss::None };
            }
            Operation::Jitter(on) => {
                link.jitter = on.then(|| Jitter {
                    amount: JITTER,
                    distribution: Arc::clone(&self.uniform),
                    correlation: Probability::ZERO,
                    may_reorder: true,
                });
            }
        }
        self.emulator.set_pipe(self.now, PIPE, &self.config);
    }

    fn submit(&mut self, len: u32) {
        let frame = self.sent.len() as u32;
        let arrival =
            Arrival { frame, len, link_header: 14, segments: 1, ecn: Ecn::NotEct, label: 0 };
        let submitted =
            self.emulator.submit(self.now, arrival, &FlowKey::default(), Action::Pipe(PIPE));
        assert_eq!(submitted, Ok(()));
        self.sent.push((self.now, len));
    }

    /// Polls at every announced event until `until`. A driver that does so sends each packet at its
    /// due time, so a packet that the engine announces too late, or not at all, is found here.
    fn run_until(&mut self, until: Nanos) {
        if std::mem::take(&mut self.late) {
            self.emulator.poll(self.now, &mut self.out);
        }
        while let Some(next) = self.emulator.next_event().filter(|&next| next <= until) {
            assert!(next >= self.now, "an event at {next} is overdue at {}", self.now);
            self.now = next;
            let before = self.out.len();
            self.emulator.poll(next, &mut self.out);
            for departure in &self.out[before..] {
                assert_eq!(departure.due, next, "packet {} was announced late", departure.frame);
            }
        }
        self.now = self.now.max(until);
        let inside = self.sent.len() - self.out.len();
        assert_eq!(self.emulator.next_event().is_some(), inside > 0, "{inside} packets inside");
    }

    /// The start and the end of each transmission, by the model. The end follows from all bits
    /// since the start of the busy period, so that no rounding adds up.
    fn transmissions(&self) -> Vec<(Nanos, Nanos)> {
        let (mut free, mut busy_since, mut work) = (Nanos::ZERO, Nanos::ZERO, 0);
        let times = self.sent.iter().map(|&(arrived, len)| {
            let start = free.max(arrived);
            if arrived > free {
                (busy_since, work) = (arrived, 0);
            }
            work += u128::from(len) * 8 * 1_000_000_000;
            let (end, at_once) = end_of_work(&self.rates, busy_since, work);
            free = end.max(start);
            if at_once {
                (busy_since, work) = (free, 0);
            }
            (start, free)
        });
        times.collect()
    }

    fn compare(mut self) {
        self.run_until(Nanos::MAX);
        assert_eq!(self.out.len(), self.sent.len());
        let departures: BTreeMap<u32, &Departure> =
            self.out.iter().map(|departure| (departure.frame, departure)).collect();
        assert_eq!(departures.len(), self.sent.len(), "each packet departs once");
        // The model and the engine each round a time down.
        let slack = 1;
        let mut latest = Nanos::ZERO;
        for (&(start, end), (frame, departure)) in self.transmissions().iter().zip(departures) {
            // The least and the greatest delay in force during the transmission.
            let in_force = |&(at, delay): &(Nanos, Nanos)| (at <= end).then_some((at, delay));
            let (mut least, mut most) = (Nanos::MAX, Nanos::ZERO);
            let mut delays = self.delays.iter().filter_map(in_force).peekable();
            while let Some((_, delay)) = delays.next() {
                if delays.peek().is_none_or(|&(until, _)| until.0 + slack >= start.0) {
                    (least, most) = (least.min(delay), most.max(delay));
                }
            }
            // Packets keep their order, so a packet may be as late as the latest of its
            // predecessors.
            latest = latest.max(end + most);
            let lost = matches!(departure.fate, Fate::Drop(_));
            let earliest = if lost { end } else { end + least };
            let due = departure.due;
            assert!(
                due.0 + slack >= earliest.0 && due.0 <= latest.0 + slack,
                "packet {frame} is due at {due}, not between {earliest} and {latest}"
            );
        }
    }
}

/// Integrates the rate from `since` until `work` (bits times nanoseconds per second) is done.
/// Returns that time, and whether the rate is unlimited then, so that the remaining work took no
/// time.
fn end_of_work(rates: &[(Nanos, Option<u64>)], since: Nanos, work: u128) -> (Nanos, bool) {
    let (mut left, mut at) = (work, since);
    for (index, &(_, bps)) in rates.iter().enumerate() {
        let until = rates.get(index + 1).map_or(Nanos::MAX, |&(until, _)| until);
        if until <= at {
            continue;
        }
        let Some(bps) = bps.map(u128::from) else { return (at, true) };
        let done = u64::try_from(left / bps).expect("the rates and lengths of this test");
        if done < until.since(at).0 {
            return (at + Nanos(done), false);
        }
        left -= u128::from(until.since(at).0) * bps;
        at = until;
    }
    (at, false)
}

fn capacity(bps: Option<u64>) -> Capacity {
    bps.and_then(Rate::new).map_or(Capacity::Unlimited, Capacity::Constant)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn packets_depart_at_the_times_of_a_naive_model(operations in operations(false)) {
        let mut experiment = Experiment::new();
        operations.into_iter().for_each(|operation| experiment.execute(operation));
        experiment.compare();
    }

    /// Packets that may overtake others are in another part of the delay line. A change of the rate
    /// must find them there, too.
    #[test]
    fn packets_that_overtake_are_announced_in_time(operations in operations(true)) {
        let mut experiment = Experiment::new();
        operations.into_iter().for_each(|operation| experiment.execute(operation));
        experiment.run_until(Nanos::MAX);
        prop_assert_eq!(experiment.out.len(), experiment.sent.len());
    }
}

/// A packet keeps the delay with which its transmission started. A longer delay that applied only
/// to its predecessors is not added.
#[test]
fn a_slower_rate_does_not_add_to_an_earlier_delay() {
    let mut experiment = Experiment::new();
    let operations = [
        Operation::Delay(10_000_000),
        Operation::Submit(1000),
        Operation::Wait(1_000_000),
        Operation::Delay(0),
        // This packet is due with its predecessor: at 11 ms and 1 ns, because each change takes 1
        // ns.
        Operation::Submit(1000),
        Operation::Wait(500_000),
        // The second half takes 20 ms, so the packet is due at about 21.5 ms. The change is 1 ns
        // after the middle of the packet, and this 1 ns at the higher rate saves 40 ns.
        Operation::Rate(Some(200_000)),
    ];
    operations.into_iter().for_each(|operation| experiment.execute(operation));
    experiment.run_until(Nanos::MAX);
    let due: Vec<u64> = experiment.out.iter().map(|departure| departure.due.0).collect();
    assert_eq!(due, [11_000_001, 21_500_003 - 40]);
}

const PIPE: u16 = 1;
const START_RATE: u64 = 8_000_000;
const JITTER: Nanos = Nanos::from_millis(2);
