//! BLUE, SFB, AVQ and REM, compared with their equations in floating point, and with extreme
//! inputs.

use std::collections::VecDeque;

use proptest::prelude::*;
use weir_core::Nanos;
use weir_core::aqm::{self, Aqm, Kind, Policy, QueueState, Seen, Setup, Verdict, Visitor};
use weir_core::packet::{Ecn, Header};
use weir_core::rng::{Purpose, Stream};
use weir_core::settings::Domain;
use weir_core::stats::{DropReason, MarkReason};

fn policy(kind: Kind, settings: &[(&str, &str)]) -> Policy {
    let mut policy = Policy::new(kind);
    for (name, value) in settings {
        policy.set(name, value).unwrap_or_else(|error| panic!("{name} {value}: {error}"));
    }
    policy
}

/// The parameters of a queue of 50 packets before a link of 8 Mbit/s, on which a byte takes 1 us.
fn setup(seed: u64) -> Setup {
    let stream = Stream::new(seed, 0, Purpose::Aqm);
    Setup { rate: 8_000_000, limit_packets: 50, limit_bytes: u64::MAX, stream }
}

fn seen(now: Nanos, len: u32, ecn: Ecn, hash: u32) -> Seen {
    Seen { len, arrived: now, header: Header { ecn, dscp: 0, hash } }
}

/// Whether a packet gets a signal: a drop or a mark.
fn signalled(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Drop(_) | Verdict::Mark(_))
}

/// A queue of at most 50 packets with an AQM.
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
        QueueState {
            packets: self.waiting.len() as u32,
            bytes: self.bytes,
            full: self.waiting.len() >= 50,
        }
    }

    fn arrive(&mut self, packet: Seen) -> Verdict {
        let state = self.state();
        let verdict = self.aqm.arrive(packet.arrived, &packet, &state);
        if !matches!(verdict, Verdict::Drop(_)) && !state.full {
            self.bytes += u64::from(packet.len);
            self.waiting.push_back(packet);
        }
        verdict
    }

    fn depart(&mut self, now: Nanos) -> Option<Seen> {
        let packet = self.waiting.pop_front()?;
        self.bytes -= u64::from(packet.len);
        let state = QueueState { full: false, ..self.state() };
        assert_eq!(self.aqm.leave(now, &packet, &state), Verdict::Pass);
        Some(packet)
    }

    fn variable(&self, name: &str) -> u64 {
        self.aqm.variables().into_iter().find(|&(known, _)| known == name).unwrap().1
    }

    /// A state variable in units of 2^-32, as a fraction.
    fn part(&self, name: &str) -> f64 {
        self.variable(name) as f64 / 4_294_967_296.0
    }
}

/// Steps: whether a packet arrives (or one leaves), its length, and the time since the previous
/// step.
fn steps() -> impl Strategy<Value = Vec<(bool, u32, u64)>> {
    let gap = prop_oneof![4 => 0u64..1_500_000, 1 => 0u64..2_000_000_000];
    proptest::collection::vec((prop::bool::weighted(0.6), 40u32..1500, gap), 1..400)
}

proptest! {
    #[test]
    fn blue_follows_its_equations(
        steps in steps(),
        limit in prop_oneof![Just(0u64), 1u64..40],
        freeze in 1u64..300,
    ) {
        let settings = [
            ("limit", limit.to_string()),
            ("freeze", format!("{freeze}ms")),
            ("d1", "0.125".into()),
            ("d2", "0.03125".into()),
        ];
        let settings: Vec<(&str, &str)> =
            settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut queue = Queue::new(aqm::Blue::new(&policy(Kind::Blue, &settings), &setup(1)));
        let (freeze, limit) = (freeze * 1_000_000, if limit == 0 { u64::MAX } else { limit });
        let (mut p, mut last, mut now) = (0f64, None::<u64>, 0u64);
        for (arrives, len, gap) in steps {
            now += gap;
            if arrives {
                let length = queue.waiting.len() as u64;
                if length == 0 {
                    let mut since = last.unwrap_or(now);
                    while now - since > freeze {
                        p = (p - 0.03125).max(0.0);
                        since += freeze;
                    }
                    last = Some(since);
                }
                if (length >= 50 || length > limit) && last.is_none_or(|at| now - at > freeze) {
                    (p, last) = ((p + 0.125).min(1.0), Some(now));
                }
                let verdict = queue.arrive(seen(Nanos(now), len, Ecn::NotEct, 0));
                prop_assert!(p > 0.0 || verdict == Verdict::Pass);
                prop_assert!(
                    p < 1.0 || length >= 50 || verdict == Verdict::Drop(DropReason::Early)
                );
            } else if queue.depart(Nanos(now)).is_some()
                && queue.waiting.is_empty()
                && last.is_none_or(|at| now - at > freeze)
            {
                (p, last) = ((p - 0.03125).max(0.0), Some(now));
            }
            prop_assert_eq!(queue.part("probability"), p);
        }
    }

    #[test]
    fn avq_follows_its_equations(
        steps in steps(),
        ecn: bool,
        packets: bool,
        alpha in 1u64..2000,
        gamma in 500u64..=1000,
    ) {
        let settings = [
            ("alpha", format!("{alpha}/1000")),
            ("gamma", format!("{gamma}/1000")),
            ("unit", String::from(if packets { "packets" } else { "bytes" })),
            ("ecn", String::from(if ecn { "on" } else { "off" })),
            ("buffer", String::from("0.1")),
        ];
        let settings: Vec<(&str, &str)> =
            settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut queue = Queue::new(aqm::Avq::new(&policy(Kind::Avq, &settings), &setup(1)));
        let (alpha, gamma, link) = (alpha as f64 / 1e3, gamma as f64 / 1e3, 1e6);
        let (mut level, mut served, mut now, mut before) = (0f64, 0.8 * link, 0u64, None::<u64>);
        for (arrives, len, gap) in steps {
            now += gap;
            if !arrives {
                queue.depart(Nanos(now));
                continue;
            }
            let elapsed = (now - before.unwrap_or(now)) as f64 / 1e9;
            before = Some(now);
            let bytes = if packets { 1000.0 } else { f64::from(len) };
            level = (level - served * elapsed).max(0.0);
            if (level + bytes - 5000.0).abs() < 1e-3 {
                return Ok(());
            }
            let full = level + bytes > 5000.0;
            level += if full { 0.0 } else { bytes };
            let counted = if full && !ecn { 0.0 } else { bytes };
            served = (served + alpha * gamma * link * elapsed - alpha * counted).clamp(0.0, link);
            let expected = match (full, ecn) {
                (false, _) => Verdict::Pass,
                (true, true) => Verdict::Mark(MarkReason::Forced),
                (true, false) => Verdict::Drop(DropReason::Forced),
            };
            prop_assert_eq!(
                queue.arrive(seen(Nanos(now), len, Ecn::Ect1, 0)),
                expected,
                "{} {}",
                level,
                served
            );
            prop_assert!(
                (queue.variable("virtual_rate") as f64 - served * 8.0).abs() < 2.0,
                "{served}"
            );
            prop_assert!((queue.variable("virtual_bytes") as f64 - level).abs() < 1.5, "{level}");
        }
    }

    #[test]
    fn rem_follows_its_equations(
        steps in steps(),
        bytes: bool,
        weight in 10u64..=1000,
        gamma in 1u64..200,
        target in 0u64..40,
    ) {
        let settings = [
            ("weight", format!("{weight}/1000")),
            ("gamma", format!("{gamma}/1000")),
            ("target", target.to_string()),
            ("unit", String::from(if bytes { "bytes" } else { "packets" })),
            ("phi", String::from("1.1")),
            ("ecn", String::from("on")),
        ];
        let settings: Vec<(&str, &str)> =
            settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut queue = Queue::new(aqm::Rem::new(&policy(Kind::Rem, &settings), &setup(1)));
        let (weight, gamma, target) = (weight as f64 / 1e3, gamma as f64 / 1e3, target as f64);
        let (mut rate, mut price, mut p, mut arrived, mut now, mut ended) =
            (0f64, 0f64, 0f64, 0f64, 0u64, None::<u64>);
        for (arrives, len, gap) in steps {
            now += gap;
            if !arrives && queue.waiting.is_empty() {
                continue;
            }
            let length =
                if bytes { queue.bytes as f64 / 1000.0 } else { queue.waiting.len() as f64 };
            let mut end = ended.unwrap_or(now);
            while now - end >= 2_000_000 {
                rate += weight * (arrived - rate);
                price = (price + gamma * (rate + 0.1 * (length - target) - 2.0))
                    .clamp(0.0, 33.0 / libm::log2(1.1));
                p = 1.0 - libm::pow(1.1, -price);
                arrived = 0.0;
                end += 2_000_000;
            }
            ended = Some(end);
            if arrives {
                arrived += if bytes { f64::from(len) / 1000.0 } else { 1.0 };
                let verdict = queue.arrive(seen(Nanos(now), len, Ecn::Ect0, 0));
                prop_assert!(p > 1e-4 || price > 0.0 || verdict == Verdict::Pass);
            } else {
                queue.depart(Nanos(now));
            }
            prop_assert!(
                (queue.part("probability") - p).abs() < 1e-3,
                "{} {p}, price {price}",
                queue.part("probability")
            );
        }
    }

    #[test]
    fn the_bins_of_sfb_hold_the_waiting_packets(steps in steps(), flows in 1u32..40) {
        let settings = [
            ("increment", "0.1"),
            ("decrement", "0.05"),
            ("target", "3"),
            ("max", "6"),
            ("rehash", "500ms"),
            ("db", "200ms"),
        ];
        let mut queue = Queue::new(aqm::Sfb::new(&policy(Kind::Sfb, &settings), &setup(1)));
        let mut now = 0;
        for (arrives, len, gap) in steps {
            now += gap;
            if arrives {
                let flow = len % flows;
                let in_flow = queue.waiting.iter().filter(|packet| packet.header.hash == flow).count();
                let verdict = queue.arrive(seen(Nanos(now), len, Ecn::NotEct, flow));
                // Until the first change of the hash, all packets of a flow are in the same bins,
                // so six packets reach the maximum.
                prop_assert!(
                    now > 500_000_000
                        || in_flow < 6
                        || signalled(verdict)
                        || queue.waiting.len() >= 50
                );
                prop_assert!(
                    in_flow > 0
                        || queue.waiting.len() > 1
                        || verdict != Verdict::Drop(DropReason::Forced)
                );
            } else {
                queue.depart(Nanos(now));
            }
            if queue.waiting.is_empty() {
                prop_assert_eq!(queue.variable("fullest_bin"), 0);
            }
        }
    }

    /// With extreme settings, lengths, rates and times nothing panics, and probabilities are at
    /// most 1.
    #[test]
    fn the_aqms_withstand_extremes(
        kind in prop_oneof![Just(Kind::Blue), Just(Kind::Sfb), Just(Kind::Avq), Just(Kind::Rem)],
        choice in any::<u64>(),
        rate in prop_oneof![Just(0u64), Just(1), Just(400_000_000_000)],
        packets in proptest::collection::vec((0u32..=1 << 22, any::<u64>(), any::<u64>(), any::<u32>(), any::<bool>()), 1..60),
    ) {
        struct Play(Vec<(u32, u64, u64, u32, bool)>);
        impl Visitor for Play {
            type Output = ();
            fn visit<A: Aqm + std::fmt::Debug>(self, mut aqm: A) {
                let mut now = Nanos::ZERO;
                for (len, gap, queued, hash, arrive) in self.0 {
                    now = Nanos(now.0.saturating_add(gap >> (queued % 64)).min(u64::MAX / 2));
                    let packets = (queued >> (gap % 64)).min(10_000_000) as u32;
                    let state = QueueState {
                        packets,
                        bytes: u64::from(packets) << 22,
                        full: arrive && queued % 7 == 0,
                    };
                    let packet = seen(now, len, Ecn::Ect0, hash);
                    let _ = if arrive {
                        aqm.arrive(now, &packet, &state)
                    } else {
                        aqm.leave(now, &packet, &state)
                    };
                    for (name, value) in aqm.variables() {
                        assert!(name != "probability" || value <= 1 << 32, "{name} {value}");
                    }
                }
            }
        }
        let mut policy = Policy::new(kind);
        for (n, parameter) in kind.row().parameters.iter().enumerate() {
            let (least, most) = match parameter.domain {
                Domain::Number { least, most, .. }
                | Domain::Time { least, most }
                | Domain::Fraction { least, most } => (least, most),
                Domain::Choice(words) => (0, words.len() as u64 - 1),
                Domain::Four { .. } => unreachable!("no AQM has four numbers"),
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

/// For 60 s, 1000 packets per second leave. An unresponsive flow sends 1000 × `thousands` + 500
/// packets per second, and each of ten other flows sends 40. Returns the packets that each flow
/// sent, the packets that each flow lost, and the number of penalty drops.
fn one_among_ten(thousands: u32, settings: &[(&str, &str)]) -> ([u32; 11], [u32; 11], u32) {
    let mut queue = Queue::new(aqm::Sfb::new(&policy(Kind::Sfb, settings), &setup(7)));
    let (mut sent, mut lost, mut penalty) = ([0u32; 11], [0u32; 11], 0);
    let mut arrive = |queue: &mut Queue<aqm::Sfb>, now: Nanos, flow: u32| {
        sent[flow as usize] += 1;
        match queue.arrive(seen(now, 1000, Ecn::NotEct, flow.wrapping_mul(0x9e37_79b9))) {
            Verdict::Drop(reason) => {
                lost[flow as usize] += 1;
                penalty += u32::from(reason == DropReason::Penalty);
            }
            verdict => assert_eq!(verdict, Verdict::Pass),
        }
    };
    for ms in 0..60_000u32 {
        let now = Nanos::from_millis(ms.into());
        for _ in 0..thousands + ms % 2 {
            arrive(&mut queue, now, 0);
        }
        if ms % 5 < 2 {
            arrive(&mut queue, now, 1 + ms / 5 % 10);
        }
        queue.depart(now);
    }
    (sent, lost, penalty)
}

#[test]
fn sfb_gives_an_unresponsive_flow_the_remaining_rate() {
    let (sent, lost, _) = one_among_ten(1, &[("increment", "0.01")]);
    assert_eq!(lost[1..].iter().sum::<u32>(), 0, "{lost:?} of {sent:?}");
    let passed = sent[0] - lost[0];
    assert!((30_000..=36_500).contains(&passed), "{passed}");
}

#[test]
fn sfb_penalises_a_flow_with_a_lasting_probability_of_1() {
    let (sent, lost, penalty) =
        one_among_ten(20, &[("increment", "0.1"), ("decrement", "0"), ("penalty_rate", "50")]);
    assert_eq!(lost[1..].iter().sum::<u32>(), 0, "{lost:?} of {sent:?}");
    assert!(penalty > lost[0] * 9 / 10, "{penalty} of {}", lost[0]);
    // Fifty packets per second pass, in addition to a burst and the packets before the flow was
    // penalised.
    let passed = sent[0] - lost[0];
    assert!((2900..=3600).contains(&passed), "{passed}");
}

#[test]
fn sfb_gives_a_fast_flow_no_tokens_after_the_burst_as_in_linux() {
    let settings = [
        ("increment", "0.1"),
        ("decrement", "0"),
        ("penalty_rate", "50"),
        ("penalty_burst", "30"),
        ("variant", "linux"),
    ];
    let (sent, lost, penalty) = one_among_ten(20, &settings);
    assert_eq!(lost[1..].iter().sum::<u32>(), 0, "{lost:?} of {sent:?}");
    assert!(penalty > lost[0] * 9 / 10, "{penalty} of {}", lost[0]);
    // The flow sends 20 packets in a millisecond, and the time between two packets gives no token.
    let passed = sent[0] - lost[0];
    assert!((30..=400).contains(&passed), "{passed}");
}

#[test]
fn sfb_learns_before_it_changes_the_hash() {
    let probability_after_change = |db: &str| {
        let settings = [
            ("rehash", "10s"),
            ("db", db),
            ("increment", "0.1"),
            ("decrement", "0"),
            ("penalty_rate", "2000"),
        ];
        let mut queue = Queue::new(aqm::Sfb::new(&policy(Kind::Sfb, &settings), &setup(7)));
        // The flow sends at twenty times the rate of the link.
        for step in 0..=200_000u64 {
            let now = Nanos(step * 50_000);
            queue.arrive(seen(now, 1000, Ecn::NotEct, 77));
            if step % 20 == 0 {
                queue.depart(now);
            }
        }
        assert!(queue.part("probability") > 0.99);
        queue.arrive(seen(Nanos::from_millis(10_001), 1000, Ecn::NotEct, 77));
        queue.part("probability")
    };
    assert!(probability_after_change("0ms") < 0.2);
    assert!(probability_after_change("2s") > 0.99);
}

#[test]
fn avq_converges_to_the_configured_utilisation() {
    let mut queue = Queue::new(aqm::Avq::new(
        &policy(Kind::Avq, &[("gamma", "0.9"), ("ecn", "on")]),
        &setup(1),
    ));
    // The sender speeds up after each packet without a mark, and slows down after each marked
    // packet.
    let (mut now, mut gap, mut bytes) = (0u64, 2_000_000f64, 0u64);
    for _ in 0..200_000 {
        now += gap as u64;
        let signalled = signalled(queue.arrive(seen(Nanos(now), 1000, Ecn::Ect1, 0)));
        gap *= if signalled { 1.02 } else { 0.9995 };
        queue.depart(Nanos(now));
        bytes += if now > 60_000_000_000 { 1000 } else { 0 };
    }
    let used = bytes as f64 / (now - 60_000_000_000) as f64 * 1e9 / 1e6;
    assert!((used - 0.9).abs() < 0.02, "{used}");
}

#[test]
fn only_ecn_capable_packets_are_marked() {
    struct Play(Ecn);
    impl Visitor for Play {
        type Output = (u32, u32);
        fn visit<A: Aqm + std::fmt::Debug>(self, aqm: A) -> (u32, u32) {
            let mut queue = Queue::new(aqm);
            let (mut marks, mut drops) = (0, 0);
            for n in 0..20_000u64 {
                match queue.arrive(seen(Nanos::from_micros(200 * n), 1000, self.0, 5)) {
                    Verdict::Mark(_) => marks += 1,
                    Verdict::Drop(_) => drops += 1,
                    Verdict::Pass | Verdict::Admit => {}
                }
                if n % 5 == 0 {
                    queue.depart(Nanos::from_micros(200 * n));
                }
            }
            (marks, drops)
        }
    }
    for kind in [Kind::Blue, Kind::Sfb, Kind::Avq, Kind::Rem] {
        let (marks, drops) = policy(kind, &[("ecn", "on")]).visit(&setup(1), Play(Ecn::NotEct));
        assert!(marks == 0 && drops > 0, "{kind:?}");
        let (marks, _) = policy(kind, &[("ecn", "on")]).visit(&setup(1), Play(Ecn::Ect0));
        assert!(marks > 0, "{kind:?}");
        let (marks, drops) = policy(kind, &[("ecn", "off")]).visit(&setup(1), Play(Ecn::Ect0));
        assert!(marks == 0 && drops > 0, "{kind:?}");
    }
}
