//! PI, PIE and PI2 before a plain queue: conformance cases, the equations, and the options one by
//! one.

use std::collections::VecDeque;

use proptest::prelude::*;
use weir_core::Nanos;
use weir_core::aqm::{Aqm, Kind, Pi, Pi2, Pie, Policy, QueueState, Seen, Setup, Verdict};
use weir_core::packet::{Ecn, Header};
use weir_core::rng::{Purpose, Stream};
use weir_core::stats::{DropReason, MarkReason};

/// A queue with an AQM.
struct Queue<A> {
    aqm: A,
    waiting: VecDeque<Seen>,
    bytes: u64,
    limit: usize,
    dropped: u32,
    marked: u32,
}

impl<A: Aqm> Queue<A> {
    fn new(aqm: A) -> Self {
        Self { aqm, waiting: VecDeque::new(), bytes: 0, limit: 300, dropped: 0, marked: 0 }
    }

    fn state(&self) -> QueueState {
        QueueState {
            packets: self.waiting.len() as u32,
            bytes: self.bytes,
            full: self.waiting.len() >= self.limit,
        }
    }

    fn send(&mut self, now: Nanos, len: u32, ecn: Ecn) -> Verdict {
        let seen = Seen { len, arrived: now, header: Header { ecn, ..Header::default() } };
        let state = self.state();
        let verdict = self.aqm.arrive(now, &seen, &state);
        match verdict {
            Verdict::Drop(_) => self.dropped += 1,
            _ if state.full => self.dropped += 1,
            _ => {
                self.marked += u32::from(matches!(verdict, Verdict::Mark(_)));
                self.bytes += u64::from(len);
                self.waiting.push_back(seen);
            }
        }
        verdict
    }

    /// How long the packet that leaves has waited.
    fn take(&mut self, now: Nanos) -> Option<Nanos> {
        let seen = self.waiting.pop_front()?;
        self.bytes -= u64::from(seen.len);
        let state = QueueState { full: false, ..self.state() };
        assert_eq!(self.aqm.leave(now, &seen, &state), Verdict::Pass);
        Some(now.since(seen.arrived))
    }

    fn figure(&self, name: &str) -> u64 {
        self.aqm.figures().into_iter().find(|figure| figure.0 == name).unwrap().1
    }

    fn probability(&self) -> f64 {
        self.figure("probability") as f64 / (1u64 << 32) as f64
    }
}

fn policy(kind: Kind, settings: &[(&str, &str)]) -> Policy {
    let mut policy = Policy::new(kind);
    for (name, value) in settings {
        policy.set(name, value).unwrap();
    }
    policy
}

fn setup(seed: u64) -> Setup {
    Setup {
        rate: 0,
        limit_packets: 300,
        limit_bytes: u64::MAX,
        stream: Stream::new(seed, 1, Purpose::Aqm),
    }
}

fn pie(settings: &[(&str, &str)], seed: u64) -> Queue<Pie> {
    Queue::new(Pie::new(&policy(Kind::Pie, settings), &setup(seed)))
}

const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// 400 packets of 1000 bytes, one each 10 ms from 10 ms on; one leaves each 14 ms. At equal times,
/// packets come first.
fn ns3_case(queue: &mut Queue<Pie>, ecn: Ecn) {
    for time in 0..=5600 {
        if time % 10 == 0 && (1..=400).contains(&(time / 10)) {
            queue.send(ms(time), 1000, ecn);
        }
        if time % 14 == 0 && time > 0 {
            queue.take(ms(time));
        }
    }
}

/// The case is one of chance, its result is not: the target is shorter than three packets take, so
/// the probability rises until everything is dropped that finds more than two packets. By 4 s the
/// link, which was never idle, has sent 285, and 3 wait.
#[test]
fn pie_drops_what_ns3_does_whatever_it_draws() {
    for seed in 0..1000 {
        let mut queue = pie(&[], seed);
        ns3_case(&mut queue, Ecn::NotEct);
        assert_eq!((queue.dropped, queue.waiting.len()), (112, 0), "seed {seed}");
    }
}

/// What variants and options make of the same case, for any draws: drops, and marks from and to.
#[test]
fn the_same_case_by_variants_and_options() {
    for (settings, ecn, drops, marks) in [
        (&[("derand", "on")][..], Ecn::NotEct, 112, 0..=0),
        (&[("variant", "linux")], Ecn::NotEct, 112, 0..=0),
        // Four packets of 1000 bytes fit where three of 1500 would not be too many, two where two
        // of 800 are enough.
        (&[("mean_pkt", "1500")], Ecn::NotEct, 111, 0..=0),
        (&[("variant", "dummynet")], Ecn::NotEct, 113, 0..=0),
        (&[("variant", "dummynet"), ("qdelay", "ts")], Ecn::NotEct, 113, 0..=0),
        // Only packets that understand it are marked, and only while a mark is enough; three more
        // wait then at the end.
        (&[("ecn", "on"), ("max_ecnth", "1")], Ecn::NotEct, 112, 0..=0),
        (&[("ecn", "off"), ("max_ecnth", "1")], Ecn::Ect0, 112, 0..=0),
        (&[("ecn", "on"), ("max_ecnth", "0.3")], Ecn::Ect0, 112, 0..=20),
    ] {
        for seed in 0..100 {
            let mut queue = pie(settings, seed);
            ns3_case(&mut queue, ecn);
            assert!(
                queue.dropped == drops && marks.contains(&queue.marked),
                "{settings:?}, seed {seed}: {} {}",
                queue.dropped,
                queue.marked
            );
        }
    }
}

/// Traffic: the time to the next event in us, whether it is a packet, and its length.
fn traffic() -> impl Strategy<Value = Vec<(u64, bool, u32)>> {
    proptest::collection::vec(
        (
            prop_oneof![4 => 0u64..3_000, 1 => 0u64..100_000],
            prop::bool::weighted(0.55),
            40u32..1500,
        ),
        1..600,
    )
}

/// PIE by RFC 8033, with the delay by timestamps: what is known of the queue, and the probability.
#[derive(Default)]
struct Model {
    p: f64,
    delay: f64,
    old: f64,
    next: Option<Nanos>,
}

impl Model {
    fn catch_up(&mut self, now: Nanos) {
        let next = self.next.get_or_insert(now + ms(15));
        while *next <= now {
            let mut step = 0.125 * (self.delay - 0.015) + 1.25 * (self.delay - self.old);
            step /= match self.p {
                p if p < 0.000_001 => 2048.0,
                p if p < 0.000_01 => 512.0,
                p if p < 0.000_1 => 128.0,
                p if p < 0.001 => 32.0,
                p if p < 0.01 => 8.0,
                p if p < 0.1 => 2.0,
                _ => 1.0,
            };
            if self.p >= 0.1 && step > 0.02 {
                step = 0.02;
            }
            self.p += step;
            if self.delay == 0.0 && self.old == 0.0 {
                self.p *= 0.98;
            }
            self.p = self.p.clamp(0.0, 1.0);
            self.old = self.delay;
            *next += ms(15);
        }
    }
}

proptest! {
    #[test]
    fn pie_follows_the_rfc(traffic in traffic(), seed in any::<u64>()) {
        let (mut queue, mut model, mut now) = (pie(&[], seed), Model::default(), Nanos(12_345));
        let mut least = f64::MAX;
        for (gap, comes, len) in traffic {
            now += Nanos::from_micros(gap);
            if comes {
                model.catch_up(now);
                queue.send(now, len, Ecn::NotEct);
            } else if !queue.waiting.is_empty() {
                model.catch_up(now);
                let waited = queue.take(now).unwrap();
                model.delay = if queue.waiting.is_empty() { 0.0 } else { waited.0 as f64 / 1e9 };
            }
            // Where it comes near to an edge of the table, floats may take the other side.
            for edge in [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1] {
                least = least.min((model.p / edge - 1.0).abs());
            }
            prop_assume!(least > 1e-6);
            prop_assert!((queue.probability() - model.p).abs() < 1e-7, "{} {}", queue.probability(), model.p);
        }
    }

    /// Whatever comes and whenever, PIE keeps to its rules: nothing is touched that finds two
    /// packets or fewer, or while bursts are allowed.
    #[test]
    fn pie_leaves_short_queues_and_bursts_alone(traffic in traffic(), seed in any::<u64>(), variant in prop_oneof![Just("rfc"), Just("linux"), Just("dummynet")]) {
        let mut queue = pie(&[("variant", variant), ("ecn", "on")], seed);
        let mut now = Nanos::ZERO;
        for (gap, comes, len) in traffic {
            now += Nanos::from_micros(gap);
            if !comes {
                queue.take(now);
                continue;
            }
            let (bytes, first) = (queue.bytes, queue.figure("burst_left"));
            let verdict = queue.send(now, len, Ecn::Ect1);
            let floor = match variant { "rfc" => 2000, "linux" => 2999, _ => 1600 };
            // Time may have used the allowance up just before.
            prop_assert!(verdict == Verdict::Pass || bytes > floor && first <= 15_000_000 * (gap / 15_000 + 1), "{} {}", bytes, first);
        }
    }

    #[test]
    fn pi2_follows_its_equation(traffic in traffic(), seed in any::<u64>()) {
        let mut queue = Queue::new(Pi2::new(&policy(Kind::Pi2, &[]), &setup(seed)));
        let (mut p, mut delay, mut old, mut next, mut now) = (0f64, 0f64, 0f64, None, Nanos::ZERO);
        for (gap, comes, len) in traffic {
            now += Nanos::from_micros(gap);
            if !comes && queue.waiting.is_empty() {
                continue;
            }
            let next = next.get_or_insert(now + ms(16));
            while *next <= now {
                p = (p + 0.16 * (delay - 0.015) + 3.2 * (delay - old)).clamp(0.0, 1.0);
                old = delay;
                *next += ms(16);
            }
            if comes {
                queue.send(now, len, Ecn::NotEct);
            } else {
                let waited = queue.take(now).unwrap();
                delay = if queue.waiting.is_empty() { 0.0 } else { waited.0 as f64 / 1e9 };
            }
            let base = queue.figure("base") as f64 / (1u64 << 32) as f64;
            prop_assert!((base - p).abs() < 1e-9, "{} {}", base, p);
            prop_assert!((queue.probability() - p * p).abs() < 1e-8);
        }
    }

    #[test]
    fn no_traffic_brings_them_down(
        traffic in proptest::collection::vec((prop_oneof![0u64..1 << 20, 0u64..u64::MAX >> 10], any::<bool>(), 0u32..4 << 20), 1..300),
        variant in prop_oneof![Just("rfc"), Just("linux"), Just("dummynet")], measure in prop_oneof![Just("ts"), Just("dre")], onoff in prop_oneof![Just("off"), Just("on")],
    ) {
        fn play<A: Aqm>(mut queue: Queue<A>, traffic: &[(u64, bool, u32)]) {
            let mut now = Nanos::ZERO;
            for &(gap, comes, len) in traffic {
                now = now.saturating_add(Nanos(gap));
                if comes {
                    queue.send(now, len, Ecn::Ect0);
                } else {
                    queue.take(now);
                }
                assert!(queue.figure("probability") <= 1 << 32);
            }
        }
        let settings = [("variant", variant), ("qdelay", measure), ("onoff", onoff), ("bytemode", "on"), ("tupdate", "1us"), ("ecn", "on")];
        play(pie(&settings, 1), &traffic);
        play(Queue::new(Pi2::new(&policy(Kind::Pi2, &[("tupdate", "1us")]), &setup(1))), &traffic);
        play(Queue::new(Pi::new(&policy(Kind::Pi, &[("bytemode", "on"), ("mean_pkt", "1")]), &setup(1))), &traffic);
    }
}

/// Packets between drops at a constant probability.
fn gaps(derand: &str) -> Vec<u32> {
    // One update; then time does not advance.
    let mut queue = pie(
        &[
            ("derand", derand),
            ("alpha", "32"),
            ("beta", "0"),
            ("max_burst", "0"),
            ("tupdate", "1s"),
            ("target", "1us"),
        ],
        4,
    );
    queue.limit = usize::MAX;
    for time in 0..2000 {
        queue.send(ms(time), 1000, Ecn::NotEct);
        if time % 2 == 0 && time < 1999 {
            queue.take(ms(time));
        }
    }
    let p = queue.probability();
    assert!(p > 0.005 && p < 0.9, "{p}");
    let (mut gaps, mut gap) = (Vec::new(), 0);
    for _ in 0..20_000 {
        gap += 1;
        if queue.send(ms(1999), 1000, Ecn::NotEct) == Verdict::Drop(DropReason::Early) {
            gaps.push((f64::from(gap) * p * 100.0) as u32);
            gap = 0;
        }
    }
    // The first one began earlier.
    gaps.split_off(1)
}

/// In hundredths of 1 / p.
#[test]
fn derandomised_drops_are_neither_close_together_nor_far_apart() {
    let (random, even) = (gaps("off"), gaps("on"));
    let spread = |gaps: &[u32]| (*gaps.iter().min().unwrap(), *gaps.iter().max().unwrap());
    assert!(spread(&even).0 >= 84 && spread(&even).1 <= 850 + 100, "{:?}", spread(&even));
    assert!(spread(&random).0 < 85, "{:?}", spread(&random));
}

#[test]
fn marks_stop_where_the_threshold_says_and_linux_counts_the_threshold_itself() {
    // All of the probability: every packet is hit.
    for (variant, at) in [("rfc", false), ("linux", true), ("dummynet", false)] {
        let settings = [
            ("variant", variant),
            ("ecn", "on"),
            ("max_burst", "0"),
            ("max_ecnth", "1"),
            ("derand", "off"),
            ("qdelay", "ts"),
        ];
        let mut queue = pie(&settings, 1);
        for time in 0..3000 {
            queue.send(ms(time), 1000, Ecn::Ect0);
            if time % 4 == 0 && time < 2000 {
                queue.take(ms(time));
            }
        }
        assert_eq!(queue.figure("probability"), 1 << 32);
        let expected =
            if at { Verdict::Mark(MarkReason::Early) } else { Verdict::Drop(DropReason::Early) };
        queue.limit = usize::MAX;
        assert_eq!(queue.send(ms(3000), 1000, Ecn::Ect0), expected, "{variant}");
        assert_eq!(queue.send(ms(3000), 1000, Ecn::NotEct), Verdict::Drop(DropReason::Early));
    }
}

#[test]
fn on_and_off_begins_at_a_third_of_the_limit_and_ends_when_idle() {
    for variant in ["rfc", "linux", "dummynet"] {
        let mut queue = pie(&[("variant", variant), ("onoff", "on"), ("qdelay", "ts")], 1);
        // One packet in 10 ms, one of which leaves in 20: below 100 packets nothing happens.
        for time in 0..199 {
            queue.send(ms(10 * time), 1000, Ecn::NotEct);
            if time % 2 == 0 {
                queue.take(ms(10 * time));
            }
        }
        assert_eq!((queue.dropped, queue.figure("probability")), (0, 0), "{variant}");
        for time in 199..600 {
            queue.send(ms(10 * time), 1000, Ecn::NotEct);
            if time % 2 == 0 {
                queue.take(ms(10 * time));
            }
        }
        assert!(queue.dropped > 100, "{variant}: {}", queue.dropped);
        while queue.take(ms(6000)).is_some() {}
        // An hour later it is as if it were new.
        for time in 360_000..360_100 {
            queue.send(ms(10 * time), 1000, Ecn::NotEct);
        }
        assert_eq!(queue.figure("probability"), 0, "{variant}");
    }
}

#[test]
fn the_departure_rate_tells_the_delay_before_a_packet_has_waited_it() {
    let mut queue = pie(&[("qdelay", "dre"), ("max_burst", "0")], 1);
    // 1000 bytes in 1 ms; 40 of them wait, so 40 ms.
    for _ in 0..40 {
        queue.send(ms(1), 1000, Ecn::NotEct);
    }
    for time in 2..80 {
        queue.send(ms(time), 1000, Ecn::NotEct);
        queue.take(ms(time));
        while queue.waiting.len() < 40 {
            queue.send(ms(time), 1000, Ecn::NotEct);
        }
    }
    queue.send(ms(80), 1000, Ecn::NotEct);
    let delay = queue.figure("delay");
    // A measurement is over 17 packets, counted as 16384 bytes.
    assert!(delay.abs_diff(41_500_000) < 1_000_000, "{delay}");
}
