//! DualPI2: the choice of the queue, the control law with the sojourn times of the packets at the
//! heads, limits, and the accounting in the engine.

use std::collections::VecDeque;

use proptest::prelude::*;
use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, QueueLimit, SchedulerConfig};
use weir_core::key::FlowKey;
use weir_core::packet::{Ecn, Packet, PacketId, Pool};
use weir_core::sched::{Discipline, DualPi2, FlowSlot, Kind, Scheduler};
use weir_core::stats::{DropReason, MarkReason};
use weir_core::{Action, Arrival, Emulator, Limits, Nanos, Rate};

fn discipline(settings: &[(&str, &str)]) -> Discipline {
    let mut discipline = Discipline::new(Kind::DualPi2);
    for (name, value) in settings {
        discipline.set(name, value).unwrap();
    }
    discipline
}

/// A scheduler with its pool; frame numbers identify packets.
struct Rig {
    scheduler: DualPi2,
    pool: Pool,
    frames: u32,
}

impl Rig {
    fn new(settings: &[(&str, &str)]) -> Self {
        Self { scheduler: DualPi2::new(&discipline(settings)), pool: Pool::new(100_000), frames: 0 }
    }

    fn send(&mut self, now: Nanos, len: u32, ecn: Ecn, flow: u32) -> u32 {
        let packet =
            Packet { frame: self.frames, len, flow, ecn, arrived: now, ..Packet::default() };
        let id = self.pool.insert(packet).unwrap();
        assert_eq!(self.scheduler.enqueue(now, &mut self.pool, FlowSlot::default(), id), None);
        self.frames += 1;
        packet.frame
    }

    fn take(&mut self, now: Nanos) -> Option<Packet> {
        let id: PacketId = self.scheduler.dequeue(now, &mut self.pool)?;
        Some(self.pool.remove(id))
    }

    fn refused(&mut self) -> Option<(u32, DropReason)> {
        let (id, reason) = self.scheduler.pop_refused(&mut self.pool)?;
        Some((self.pool.remove(id).frame, reason))
    }

    fn variable(&self, name: &str) -> u64 {
        self.scheduler.variables().into_iter().find(|variable| variable.0 == name).unwrap().1
    }
}

/// Settings that keep the drop probability at 0.
const QUIET: [(&str, &str); 2] = [("alpha", "0"), ("beta", "0")];

fn ecns() -> impl Strategy<Value = Ecn> {
    prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)]
}

/// Steps: the time since the previous step in us, whether a packet arrives (or one leaves), its
/// length, and its ECN field.
fn traffic() -> impl Strategy<Value = Vec<(u64, bool, u32, Ecn)>> {
    proptest::collection::vec(
        (
            prop_oneof![4 => 0u64..3_000, 1 => 0u64..200_000],
            prop::bool::weighted(0.55),
            40u32..1500,
            ecns(),
        ),
        1..400,
    )
}

proptest! {
    /// The model consists of the credit and two lists of packets with their arrival times.
    #[test]
    fn the_queues_take_turns_as_described(
        traffic in traffic(),
        share in 0u32..=100,
        by_age in any::<bool>(),
        any_ect in any::<bool>(),
    ) {
        let percent = share.to_string();
        let settings = [
            ("c_protection", percent.as_str()),
            ("schedule", if by_age { "tshift" } else { "wrr" }),
            ("tshift", "5ms"),
            ("ect", if any_ect { "any" } else { "l4s" }),
        ];
        let mut rig = Rig::new(&[&QUIET[..], &settings].concat());
        let share = i64::from(share);
        let (mut low, mut classic, mut credit, mut now) =
            (VecDeque::new(), VecDeque::new(), 0i64, Nanos::ZERO);
        for (gap, arrives, len, ecn) in traffic {
            now += Nanos::from_micros(gap);
            if low.is_empty() && classic.is_empty() {
                credit = 1500 * (2 * share - 100);
            }
            if arrives {
                let frame = rig.send(now, len, ecn, 1);
                let is_low = matches!(ecn, Ecn::Ect1 | Ecn::Ce) || any_ect && ecn == Ecn::Ect0;
                if is_low {
                    low.push_back((now, len, frame));
                } else {
                    classic.push_back((now, len, frame));
                }
                continue;
            }
            let low_is_next = match (low.front(), classic.front()) {
                (Some(l), Some(c)) if by_age => l.0.0 <= c.0.0 + 5_000_000,
                (Some(_), Some(_)) => credit <= 0,
                (l, _) => l.is_some(),
            };
            let expected = if low_is_next { low.pop_front() } else { classic.pop_front() };
            if let Some((_, len, _)) = expected {
                if low_is_next && !classic.is_empty() {
                    credit += share * i64::from(len);
                } else if !low_is_next && !low.is_empty() {
                    credit -= (100 - share) * i64::from(len);
                }
            }
            prop_assert_eq!(rig.take(now).map(|packet| packet.frame), expected.map(|e| e.2));
            prop_assert_eq!(rig.scheduler.len(), low.len() + classic.len());
        }
    }

    /// The base probability `p'` follows the sojourn time of the older packet at the two heads. The
    /// classic probability is `p'²`, and the coupled one is `min(2 p', 1)`.
    #[test]
    fn the_controller_follows_its_equation(traffic in traffic(), recur in any::<bool>()) {
        let mut rig = Rig::new(&[("decide", if recur { "recur" } else { "random" })]);
        // Frames with their arrival times in both queues, the oldest first.
        let mut waiting: [VecDeque<(u32, Nanos)>; 2] = Default::default();
        let (mut p, mut old, mut next, mut now) = (0f64, 0f64, None, Nanos::ZERO);
        for (gap, arrives, len, ecn) in traffic {
            now += Nanos::from_micros(gap);
            let next = next.get_or_insert(now + Nanos::from_millis(16));
            while *next <= now {
                let head =
                    waiting.iter().filter_map(|queue| queue.front()).map(|head| head.1).min();
                let delay = head.map_or(0.0, |head| next.since(head).0 as f64 / 1e9);
                p = (p + 0.16 * (delay - 0.015) + 3.2 * (delay - old)).clamp(0.0, 1.0);
                old = delay;
                *next += Nanos::from_millis(16);
            }
            if arrives {
                let frame = rig.send(now, len, ecn, 1);
                waiting[usize::from(matches!(ecn, Ecn::Ect1 | Ecn::Ce))].push_back((frame, now));
            } else {
                let taken = rig.take(now).map(|packet| packet.frame);
                let departed: Vec<u32> = std::iter::from_fn(|| rig.refused())
                    .map(|refused| refused.0)
                    .chain(taken)
                    .collect();
                for queue in &mut waiting {
                    while queue.front().is_some_and(|head| departed.contains(&head.0)) {
                        queue.pop_front();
                    }
                }
                prop_assert_eq!(
                    rig.scheduler.len(),
                    waiting.iter().map(VecDeque::len).sum::<usize>()
                );
            }
            let variable = |name| rig.variable(name) as f64 / (1u64 << 32) as f64;
            prop_assert!((variable("base") - p).abs() < 1e-8, "{} {}", variable("base"), p);
            prop_assert!(
                (variable("probability") - p * p).abs() < 1e-8
                    && (variable("coupled") - (2.0 * p).min(1.0)).abs() < 1e-8
            );
        }
    }

    /// All packets inside leave at [`Nanos::MAX`].
    #[test]
    fn every_packet_leaves_or_is_refused(
        traffic in proptest::collection::vec((prop_oneof![0u64..1 << 22, 0u64..u64::MAX >> 9], any::<bool>(), 0u32..=4 << 20, ecns()), 1..300),
        drop_dequeue in prop_oneof![Just("off"), Just("on")],
        overload in prop_oneof![Just("off"), Just("on")],
        share in prop_oneof![Just("0"), Just("100")],
    ) {
        let settings = [
            ("drop_dequeue", drop_dequeue),
            ("drop_on_overload", overload),
            ("c_protection", share),
            ("tupdate", "1us"),
            ("limit", "50"),
        ];
        let mut rig = Rig::new(&settings);
        let (mut now, mut departed) = (Nanos::ZERO, 0);
        for (gap, arrives, len, ecn) in traffic {
            now = now.saturating_add(Nanos(gap));
            if arrives {
                rig.send(now, len, ecn, 1);
            } else {
                departed += u32::from(rig.take(now).is_some());
            }
            departed += std::iter::from_fn(|| rig.refused()).count() as u32;
            prop_assert!(rig.scheduler.len() <= 50);
            prop_assert_eq!(rig.scheduler.len() as u32 + departed, rig.frames);
        }
        while rig.take(Nanos::MAX).is_some() {
            departed += 1;
        }
        prop_assert_eq!((departed, rig.refused(), rig.scheduler.backlog()), (rig.frames, None, 0));
    }
}

#[test]
fn the_classic_queue_keeps_its_share() {
    for share in [0u64, 10, 50, 90, 100] {
        let percent = share.to_string();
        let mut rig = Rig::new(&[&QUIET[..], &[("c_protection", percent.as_str())]].concat());
        let mut bytes = [0u64; 2];
        for ecn in [Ecn::Ect1, Ecn::Ect0].repeat(2) {
            rig.send(Nanos::ZERO, 1500, ecn, 1);
        }
        for n in 1..10_000 {
            let packet = rig.take(Nanos(n)).unwrap();
            let classic = packet.ecn == Ecn::Ect0;
            bytes[usize::from(classic)] += u64::from(packet.len);
            rig.send(Nanos(n), if classic { 1500 } else { 700 }, packet.ecn, 1);
            let [low, classic] = bytes;
            assert!(
                (classic * 100).abs_diff((low + classic) * share) <= 100 * 3000,
                "{share}: {bytes:?}"
            );
        }
    }
}

#[test]
fn arrivals_at_a_full_scheduler_are_dropped() {
    let mut rig = Rig::new(&[("limit", "3")]);
    for ecn in [Ecn::Ect1, Ecn::NotEct, Ecn::Ect1, Ecn::Ect1, Ecn::NotEct] {
        rig.send(Nanos::ZERO, 100, ecn, 1);
    }
    assert_eq!(
        [rig.refused(), rig.refused(), rig.refused()],
        [Some((3, DropReason::QueueFull)), Some((4, DropReason::QueueFull)), None]
    );
    assert_eq!((rig.scheduler.len(), rig.scheduler.backlog(), rig.variable("low")), (3, 300, 2));
}

#[test]
fn a_removed_flow_returns_the_packets_of_both_queues_by_age() {
    let mut rig = Rig::new(&QUIET);
    for (n, ecn, flow) in [
        (0, Ecn::NotEct, 1),
        (1, Ecn::Ect1, 1),
        (2, Ecn::Ect1, 2),
        (3, Ecn::NotEct, 1),
        (4, Ecn::NotEct, 2),
        (5, Ecn::Ce, 1),
    ] {
        rig.send(Nanos(n), 100, ecn, flow);
    }
    let mut list = rig.scheduler.remove_flow(Nanos(6), &mut rig.pool, FlowSlot::default(), 1);
    let removed: Vec<u32> =
        std::iter::from_fn(|| list.pop_front(&rig.pool)).map(|id| rig.pool.get(id).frame).collect();
    assert_eq!((removed, rig.scheduler.len(), rig.scheduler.backlog()), (vec![0, 1, 3, 5], 2, 200));
    assert_eq!(
        [rig.take(Nanos(7)), rig.take(Nanos(7))].map(|packet| packet.unwrap().frame),
        [2, 4]
    );
}

/// A link of 10 Mbit/s is offered 12 Mbit/s of L4S traffic and 12 Mbit/s of classic traffic, both
/// unresponsive.
#[test]
fn through_the_engine_every_packet_is_accounted_for() {
    let mut emulator = Emulator::new(1, Limits::default());
    let link = LinkConfig {
        capacity: Capacity::Constant(Rate::new(10_000_000).unwrap()),
        ..LinkConfig::default()
    };
    let scheduler = SchedulerConfig { discipline: discipline(&[]), ..SchedulerConfig::default() };
    emulator.set_scheduler(Nanos::ZERO, 1, &scheduler, &link);
    let queue =
        FlowsetConfig { limit: Some(QueueLimit::Packets(20_000)), ..FlowsetConfig::default() };
    emulator.set_queue(Nanos::ZERO, 1, 1, &queue);
    let mut out = Vec::new();
    for n in 0..20_000u32 {
        let now = Nanos(u64::from(n) * 500_000);
        emulator.poll(now, &mut out);
        let ecn = if n % 2 == 0 { Ecn::Ect1 } else { Ecn::NotEct };
        let arrival = Arrival { frame: n, len: 1500, link_header: 14, segments: 1, ecn, label: 0 };
        let _ = emulator.submit(now, arrival, &FlowKey::default(), Action::Queue(1));
    }
    while let Some(next) = emulator.next_event() {
        emulator.poll(next, &mut out);
    }
    let counters = &emulator.stats(1).unwrap().counters;
    assert!(counters.balanced() && counters.backlog_packets == 0);
    assert!(
        counters.marks(MarkReason::Step) + counters.marks(MarkReason::Coupled) > 1000
            && counters.drops(DropReason::Early) > 1000
    );
}
