//! The RED family, compared with its equations in floating point and with counts from the tests of
//! other implementations.

use std::collections::VecDeque;

use proptest::prelude::*;
use weir_core::Nanos;
use weir_core::aqm::{self, Aqm, Kind, Policy, QueueState, Seen, Setup, Verdict, Visitor};
use weir_core::packet::{Ecn, Header};
use weir_core::rng::{Purpose, Stream};
use weir_core::stats::{DropReason, MarkReason};

fn policy(kind: Kind, settings: &[(&str, &str)]) -> Policy {
    let mut policy = Policy::new(kind);
    for (name, value) in settings {
        policy.set(name, value).unwrap_or_else(|error| panic!("{name} {value}: {error}"));
    }
    policy
}

/// The parameters of a queue of 10,000 packets before a link of 10 Mbit/s.
fn setup(seed: u64) -> Setup {
    let stream = Stream::new(seed, 0, Purpose::Aqm);
    Setup { rate: 10_000_000, limit_packets: 10_000, limit_bytes: u64::MAX, stream }
}

fn seen(now: Nanos, len: u32, ecn: Ecn, dscp: u8) -> Seen {
    Seen { len, arrived: now, header: Header { ecn, dscp, hash: 0 } }
}

struct Queue<A> {
    aqm: A,
    waiting: VecDeque<Seen>,
    bytes: u64,
}

impl<A: Aqm> Queue<A> {
    fn new(aqm: A) -> Self {
        Self { aqm, waiting: VecDeque::new(), bytes: 0 }
    }

    fn state(&self) -> QueueState {
        QueueState { packets: self.waiting.len() as u32, bytes: self.bytes, full: false }
    }

    fn arrive(&mut self, packet: Seen) -> Verdict {
        let verdict = self.aqm.arrive(packet.arrived, &packet, &self.state());
        if !matches!(verdict, Verdict::Drop(_)) {
            self.bytes += u64::from(packet.len);
            self.waiting.push_back(packet);
        }
        verdict
    }

    fn depart(&mut self, now: Nanos) -> Option<Seen> {
        let packet = self.waiting.pop_front()?;
        self.bytes -= u64::from(packet.len);
        let state = self.state();
        assert_eq!(self.aqm.leave(now, &packet, &state), Verdict::Pass);
        Some(packet)
    }

    fn variable(&self, name: &str) -> u64 {
        self.aqm.variables().into_iter().find(|&(known, _)| known == name).unwrap().1
    }
}

/// Sends 300 packets at once. Returns the number of early drops and marks, and the number of forced
/// drops and marks.
fn three_hundred(settings: &[(&str, &str)], seed: u64) -> (u32, u32) {
    let mut queue = Queue::new(aqm::Red::new(&policy(Kind::Red, settings), &setup(seed)));
    let bytes = settings.contains(&("unit", "bytes"));
    let (mut early, mut forced) = (0, 0);
    for _ in 0..300 {
        match queue.arrive(seen(Nanos::ZERO, if bytes { 500 } else { 1000 }, Ecn::Ect0, 0)) {
            Verdict::Drop(DropReason::Early) | Verdict::Mark(MarkReason::Early) => early += 1,
            Verdict::Drop(DropReason::Forced) | Verdict::Mark(MarkReason::Forced) => forced += 1,
            verdict => assert_eq!(verdict, Verdict::Pass),
        }
    }
    (early, forced)
}

/// The mean number of early drops and marks over 200 seeds.
fn mean(settings: &[(&str, &str)]) -> f64 {
    (0..200).map(|seed| f64::from(three_hundred(settings, seed).0)).sum::<f64>() / 200.0
}

#[test]
fn three_hundred_packets_at_once_lose_as_many_as_in_ns3() {
    let base = [("min", "70"), ("max", "150"), ("w", "0.02")];
    let with = |more: &[(&'static str, &'static str)]| [base.as_slice(), more].concat();
    let spread: Vec<f64> = (0..200).map(|seed| f64::from(three_hundred(&base, seed).0)).collect();
    let early = mean(&base);
    assert!((early - 25.1).abs() < 0.3, "{early}");
    let deviation = (spread.iter().map(|x| (x - early) * (x - early)).sum::<f64>() / 200.0).sqrt();
    assert!((0.5..1.3).contains(&deviation), "{deviation}");
    let bytes = mean(&[("unit", "bytes"), ("min", "35000"), ("max", "75000"), ("w", "0.02")]);
    assert!((bytes - early).abs() < 0.5, "{bytes}");
    // The next two means are from a simulation of ns-3's rules.
    assert!((mean(&with(&[("max", "100")])) - 47.1).abs() < 0.5);
    assert!((mean(&with(&[("wait", "off")])) - 58.8).abs() < 1.0);
    for seed in 0..20 {
        assert_eq!(three_hundred(&with(&[("w", "0.002")]), seed), (0, 0));
        assert_eq!(three_hundred(&with(&[("gentle", "off")]), seed).1, 101);
        assert_eq!(three_hundred(&with(&[("gentle", "off"), ("max", "100")]), seed), (0, 153));
    }
}

#[test]
fn marks_and_hard_drops_follow_their_settings() {
    let base = [("min", "5"), ("max", "30"), ("w", "1"), ("gentle", "off"), ("max_p", "1")];
    let play = |more: &[(&str, &str)], ecn| {
        let mut queue =
            Queue::new(aqm::Red::new(&policy(Kind::Red, &[&base, more].concat()), &setup(1)));
        let mut verdicts: Vec<Verdict> =
            (0..200).map(|_| queue.arrive(seen(Nanos::ZERO, 100, ecn, 0))).collect();
        verdicts.sort_by_key(|v| format!("{v:?}"));
        verdicts.dedup();
        verdicts
    };
    use Verdict::{Drop, Mark, Pass};
    let drops = [Drop(DropReason::Early), Pass];
    let marks = [Mark(MarkReason::Early), Pass];
    // Early drops alone keep the queue below `max`, because at `max` their probability is 1.
    assert_eq!(play(&[], Ecn::Ect0)[..1], drops[..1]);
    assert!(!play(&[("ecn", "on")], Ecn::NotEct).iter().any(|v| matches!(v, Mark(_))));
    assert_eq!(play(&[("ecn", "on")], Ecn::Ect1), [Drop(DropReason::Forced), marks[0], Pass]);
    assert_eq!(
        play(&[("ecn", "on"), ("harddrop", "off")], Ecn::Ect0),
        [marks[0], Mark(MarkReason::Forced), Pass]
    );
}

#[test]
fn packets_are_marked_by_the_length_of_the_queue() {
    // Marks depend on the current length, without averaging, as in switches. The threshold is
    // 30,000 bytes. The queue holds two thirds of the threshold in the first case, and one and a
    // half times the threshold in the second.
    let settings = [
        ("unit", "bytes"),
        ("min", "30000"),
        ("max", "30000"),
        ("w", "1"),
        ("gentle", "off"),
        ("ecn", "on"),
        ("harddrop", "off"),
    ];
    for variant in ["ns3", "linux", "dummynet"] {
        let marks_at = |depth: u64| {
            let settings = [settings.as_slice(), &[("variant", variant)]].concat();
            let mut queue = Queue::new(aqm::Red::new(&policy(Kind::Red, &settings), &setup(3)));
            while queue.bytes < depth {
                queue.arrive(seen(Nanos::ZERO, 1000, Ecn::Ect0, 0));
            }
            let mut marks = 0;
            for n in 1..=1000 {
                queue.depart(Nanos::from_micros(n)).unwrap();
                marks += u32::from(matches!(
                    queue.arrive(seen(Nanos::from_micros(n), 1000, Ecn::Ect0, 0)),
                    Verdict::Mark(_)
                ));
            }
            marks
        };
        assert_eq!(marks_at(20_000), 0, "{variant}");
        assert!(marks_at(45_000) >= 950, "{variant}");
    }
}

#[test]
fn marks_of_every_variant_have_the_probability_of_the_average() {
    // Halfway between the thresholds, p_b is max_p / 2 = 0.05.
    for (variant, wait, expected) in
        // The distance between marks is uniform over 1..=1/p. In ns-3, which counts the packet
        // itself, the range is one packet shorter; with `wait` the range is from 1/p to 2/p − 1.
        [
            ("ns3", "off", 1.0 / 10.0),
            ("ns3", "on", 1.0 / 29.5),
            ("linux", "off", 1.0 / 10.5),
            ("dummynet", "off", 1.0 / 10.5),
        ]
    {
        let settings = [
            ("min", "20"),
            ("max", "40"),
            ("w", "1"),
            ("max_p", "0.1"),
            ("variant", variant),
            ("wait", wait),
            ("ecn", "on"),
        ];
        let mut queue = Queue::new(aqm::Red::new(&policy(Kind::Red, &settings), &setup(5)));
        let mut now = Nanos::ZERO;
        let mut fill = |queue: &mut Queue<aqm::Red>| {
            now += Nanos(1);
            queue.arrive(seen(now, 100, Ecn::Ect0, 0))
        };
        for _ in 0..30 {
            fill(&mut queue);
        }
        let mut marks = 0;
        for _ in 0..100_000 {
            marks += u32::from(fill(&mut queue) == Verdict::Mark(MarkReason::Early));
            queue.depart(Nanos(0));
        }
        let share = f64::from(marks) / 100_000.0;
        assert!((share / expected - 1.0).abs() < 0.03, "{variant} wait {wait}: {share} {expected}");
    }
}

#[test]
fn adaptive_red_finds_its_parameters() {
    let make = |settings: &[(&str, &str)]| {
        Queue::new(aqm::Ared::new(&policy(Kind::Ared, settings), &setup(1)))
    };
    // 10 Mbit/s are 2500 packets of 500 bytes per second; 5 ms of that are 12.5 packets. The lower
    // threshold is half of that.
    let queue = make(&[]);
    assert_eq!((queue.variable("min"), queue.variable("max")), (6, 18));
    let queue = make(&[("unit", "bytes"), ("target", "100ms")]);
    assert_eq!((queue.variable("min"), queue.variable("max")), (62_500, 187_500));
    let queue = make(&[("min", "10"), ("target", "100ms")]);
    assert_eq!((queue.variable("min"), queue.variable("max")), (10, 30));
}

#[test]
fn max_p_follows_the_average() {
    for (kind, settings) in [
        (Kind::Ared, vec![("w", "1"), ("min", "10"), ("max", "30"), ("ecn", "on")]),
        (
            Kind::Ared,
            vec![("w", "1"), ("min", "10"), ("max", "30"), ("ecn", "on"), ("adapt", "linux")],
        ),
        (
            Kind::Red,
            vec![("w", "1"), ("min", "10"), ("max", "30"), ("ecn", "on"), ("adapt", "floyd")],
        ),
        (
            Kind::Red,
            vec![
                ("w", "1"),
                ("min", "10"),
                ("max", "30"),
                ("ecn", "on"),
                ("adapt", "linux"),
                ("variant", "linux"),
            ],
        ),
    ] {
        struct Play;
        impl Visitor for Play {
            type Output = Vec<u64>;
            fn visit<A: Aqm + std::fmt::Debug>(self, aqm: A) -> Vec<u64> {
                let mut queue = Queue::new(aqm);
                let mut now = Nanos::ZERO;
                let mut found = Vec::new();
                // The queue is kept for 60 s at 28 packets, then at 20, then at 12.
                for held in [28, 20, 12] {
                    for _ in 0..100 {
                        now += Nanos::from_millis(600);
                        while queue.waiting.len() < held {
                            queue.arrive(seen(now, 100, Ecn::Ect0, 0));
                        }
                        while queue.waiting.len() > held {
                            queue.depart(now);
                        }
                        queue.arrive(seen(now, 100, Ecn::Ect0, 0));
                        queue.depart(now);
                    }
                    found.push(queue.variable("max_p"));
                }
                found
            }
        }
        let found = policy(kind, &settings).visit(&setup(2), Play);
        let one = 1u64 << 32;
        assert!(found[0] >= one / 2 && found[0] <= one * 52 / 100, "{kind:?} {found:?}");
        assert_eq!(found[0], found[1], "{kind:?}");
        assert!(found[2] <= one / 100, "{kind:?} {found:?}");
    }
}

/// Finds the times in ms at which `max_p` changes while the average is above its target range.
struct Changes;
impl Visitor for Changes {
    type Output = Vec<u64>;
    fn visit<A: Aqm + std::fmt::Debug>(self, aqm: A) -> Vec<u64> {
        let mut queue = Queue::new(aqm);
        for _ in 0..28 {
            queue.arrive(seen(Nanos::ZERO, 100, Ecn::Ect0, 0));
        }
        let mut times = Vec::new();
        for time in 1..4000 {
            let before = queue.variable("max_p");
            queue.arrive(seen(Nanos::from_millis(time), 100, Ecn::Ect0, 0));
            queue.depart(Nanos::from_millis(time));
            if queue.variable("max_p") != before {
                times.push(time);
            }
        }
        times
    }
}

#[test]
fn linux_adapts_at_ticks_of_its_timer_wheel() {
    for (hz, period) in [("250", 512), ("100", 510), ("1000", 504)] {
        for (kind, name) in [(Kind::Red, "variant"), (Kind::Ared, "adapt")] {
            let settings = [
                ("w", "1"),
                ("min", "10"),
                ("max", "30"),
                ("ecn", "on"),
                ("adapt", "linux"),
                (name, "linux"),
                ("hz", hz),
            ];
            let times = policy(kind, &settings).visit(&setup(2), Changes);
            assert!(times.len() > 5, "{times:?}");
            assert!(times.windows(2).all(|pair| pair[1] - pair[0] == period), "{hz} {times:?}");
        }
    }
}

#[test]
fn a_single_virtual_queue_is_red_as_in_linux() {
    let common = [("min", "10"), ("max", "40"), ("w", "0.0625"), ("max_p", "0.1"), ("ecn", "on")];
    let red = [common.as_slice(), &[("variant", "linux")]].concat();
    for mode in ["own", "rio", "wred"] {
        let virtual_queue = [common.as_slice(), &[("queues", "1"), ("mode", mode)]].concat();
        let mut one = Queue::new(aqm::Red::new(&policy(Kind::Red, &red), &setup(9)));
        let mut other =
            Queue::new(aqm::VqRed::new(&policy(Kind::VqRed, &virtual_queue), &setup(9)));
        let mut draws = Stream::new(4, 4, Purpose::Generator);
        let mut now = Nanos::ZERO;
        for _ in 0..20_000 {
            now += Nanos(u64::from(draws.below(700_000)));
            if draws.below(100) < 51 {
                let packet = seen(now, 40 + draws.below(1460), Ecn::Ect0, draws.below(64) as u8);
                assert_eq!(one.arrive(packet), other.arrive(packet), "{mode}");
            } else {
                assert_eq!(one.depart(now), other.depart(now));
            }
        }
        assert_eq!(one.variable("average"), other.variable("average_0"));
    }
}

#[test]
fn virtual_queues_lose_in_the_order_of_precedence() {
    for (mode, by, codes) in [
        ("own", "precedence", [10, 12, 14]),
        ("rio", "precedence", [34, 36, 38]),
        ("wred", "precedence", [0, 20, 22]),
        ("rio", "dscp", [63, 40, 0]),
    ] {
        let settings = [("mode", mode), ("by", by), ("w", "0.01")];
        let mut queue = Queue::new(aqm::VqRed::new(&policy(Kind::VqRed, &settings), &setup(1)));
        let mut lost = [0; 3];
        for n in 0..30_000u64 {
            let place = n as usize % 3;
            let packet = seen(Nanos::from_micros(100 * n), 500, Ecn::NotEct, codes[place]);
            lost[place] += u32::from(matches!(queue.arrive(packet), Verdict::Drop(_)));
            if n % 2 == 0 && queue.waiting.len() > 24 {
                queue.depart(Nanos::from_micros(100 * n));
            }
        }
        assert!(lost[0] < lost[1] && lost[1] < lost[2], "{mode} {by}: {lost:?}");
    }
}

#[test]
fn packets_older_than_a_virtual_queue_are_not_subtracted_from_it() {
    for mode in ["own", "rio"] {
        let settings = [("mode", mode), ("w", "1")];
        let mut queue = Queue::new(aqm::VqRed::new(&policy(Kind::VqRed, &settings), &setup(1)));
        let packet = |ms| seen(Nanos::from_millis(ms), 500, Ecn::NotEct, 0);
        queue.waiting.extend([packet(0); 50]);
        queue.bytes = 50 * 500;
        (0..5).for_each(|_| assert_eq!(queue.arrive(packet(1)), Verdict::Pass));
        (0..50).for_each(|_| assert!(queue.depart(Nanos::from_millis(2)).is_some()));
        queue.arrive(packet(9000));
        // The average approaches the five packets that wait; it would be 0 after an idle time.
        assert_eq!(queue.variable("average_0"), 4, "{mode}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive { len: u32 },
    Depart,
}

fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
    let arrive = (40u32..3000).prop_map(|len| Step::Arrive { len });
    let step = prop_oneof![3 => arrive, 2 => Just(Step::Depart)];
    proptest::collection::vec(
        (step, prop_oneof![4 => 0u64..100_000, 1 => 0u64..100_000_000]),
        1..400,
    )
}

proptest! {
    #[test]
    fn red_follows_its_equations(
        steps in steps(),
        bytes: bool,
        quadratic: bool,
        gentle: bool,
        w in 1u64..1000,
        min in 0u64..30,
        span in 1u64..60,
        max_p in 0u64..=100,
    ) {
        let scale = if bytes { 500 } else { 1 };
        let settings = [
            ("unit", String::from(if bytes { "bytes" } else { "packets" })),
            ("curve", String::from(if quadratic { "quadratic" } else { "linear" })),
            ("gentle", String::from(if gentle { "on" } else { "off" })),
            ("w", format!("{w}/1000")),
            ("min", (min * scale).to_string()),
            ("max", ((min + span) * scale).to_string()),
            ("max_p", format!("{max_p}/100")),
        ];
        let settings: Vec<(&str, &str)> =
            settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut queue = Queue::new(aqm::Red::new(&policy(Kind::Red, &settings), &setup(1)));
        let (w, max_p, low, high) = (
            w as f64 / 1e3,
            max_p as f64 / 1e2,
            (min * scale) as f64,
            ((min + span) * scale) as f64,
        );
        let (mut average, mut now, mut empty_since) = (0f64, 0u64, 0u64);
        for (step, gap) in steps {
            now += gap;
            match step {
                Step::Depart => {
                    let gone = queue.depart(Nanos(now));
                    if gone.is_some() && queue.waiting.is_empty() {
                        empty_since = now;
                    }
                }
                Step::Arrive { len } => {
                    let length =
                        if bytes { queue.bytes } else { queue.waiting.len() as u64 } as f64;
                    if queue.waiting.is_empty() {
                        average *= libm::pow(1.0 - w, ((now - empty_since) / 400_000) as f64 + 1.0);
                        empty_since = now;
                    } else {
                        average += w * (length - average);
                    }
                    let verdict = queue.arrive(seen(Nanos(now), len, Ecn::NotEct, 0));
                    prop_assert!(
                        (queue.variable("average") as f64 - average.floor()).abs() <= 1.0,
                        "{average}"
                    );
                    let near = |bound: f64| (average - bound).abs() < 1e-3 * scale as f64;
                    if near(low) || near(high) || near(2.0 * high) {
                        continue;
                    }
                    let x = (average - low) / (high - low);
                    let at_max = if quadratic { (1.5 * max_p).min(1.0) } else { max_p };
                    let p = match average {
                        a if a < low => 0.0,
                        a if a < high && quadratic => (1.5 * max_p * x * x).min(1.0),
                        a if a < high => max_p * x,
                        a if gentle && a < 2.0 * high => {
                            at_max + (1.0 - at_max) * (a - high) / high
                        }
                        _ => 1.0,
                    };
                    prop_assert!(
                        (queue.variable("probability") as f64 / 4_294_967_296.0 - p).abs() < 1e-4,
                        "{p}"
                    );
                    if average < low {
                        prop_assert_eq!(verdict, Verdict::Pass);
                    } else if average >= high && (!gentle || average >= 2.0 * high) && length > 1.0
                    {
                        prop_assert_eq!(verdict, Verdict::Drop(DropReason::Forced));
                    }
                }
            }
        }
    }

    /// With extreme settings, lengths, rates and times nothing panics, and probabilities are at
    /// most 1.
    #[test]
    fn the_family_withstands_extremes(
        kind in proptest::sample::select(
            vec![Kind::Red, Kind::Ared, Kind::FengAred, Kind::NlRed, Kind::VqRed]
        ),
        choice in any::<u64>(),
        rate in prop_oneof![Just(0u64), Just(1), Just(400_000_000_000)],
        packets in proptest::collection::vec(
            (0u32..=1 << 22, any::<u64>(), any::<u64>(), any::<u8>(), any::<bool>()),
            1..60,
        ),
    ) {
        struct Play(Vec<(u32, u64, u64, u8, bool)>);
        impl Visitor for Play {
            type Output = ();
            fn visit<A: Aqm + std::fmt::Debug>(self, mut aqm: A) {
                let mut now = Nanos::ZERO;
                for (len, gap, queued, dscp, arrive) in self.0 {
                    now = Nanos(now.0.saturating_add(gap >> (queued % 64)).min(u64::MAX / 2));
                    let packets = (queued >> (gap % 64)).min(10_000_000) as u32;
                    let state = QueueState {
                        packets,
                        bytes: u64::from(packets) << 22,
                        full: arrive && queued % 7 == 0,
                    };
                    let packet = seen(now, len, Ecn::Ect0, dscp % 64);
                    let _ = if arrive {
                        aqm.arrive(now, &packet, &state)
                    } else {
                        aqm.leave(now, &packet, &state)
                    };
                    for (name, value) in aqm.variables() {
                        assert!(
                            !matches!(name, "probability" | "max_p") || value <= 1 << 32,
                            "{name} {value}"
                        );
                    }
                }
            }
        }
        let mut policy = Policy::new(kind);
        for (n, parameter) in kind.row().parameters.iter().enumerate() {
            let (least, most) = match parameter.domain {
                weir_core::settings::Domain::Number { least, most, .. } => (least, most),
                weir_core::settings::Domain::Choice(words) => (0, words.len() as u64 - 1),
                weir_core::settings::Domain::Four { .. } => unreachable!("no AQM has four numbers"),
                weir_core::settings::Domain::Time { least, most }
                | weir_core::settings::Domain::Fraction { least, most } => (least, most),
            };
            let value = match choice.rotate_right(3 * n as u32) % 8 {
                0 | 1 => least,
                2 | 3 => most,
                4 => least.midpoint(most),
                _ => parameter.default,
            };
            policy.set(parameter.name, &parameter.domain.write(value)).unwrap();
        }
        policy.visit(&Setup { rate, ..setup(choice) }, Play(packets));
    }
}
