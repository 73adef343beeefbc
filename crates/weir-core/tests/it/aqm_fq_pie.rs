//! FQ-PIE: a single flow compared with PIE, overflow, the state of an idle queue, and random
//! traffic of many flows.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use weir_core::Nanos;
use weir_core::aqm::{self, Aqm, Pie, Policy, QueueState, Seen, Setup, Verdict};
use weir_core::packet::{Ecn, Header, Packet, Pool, Store as _};
use weir_core::rng::{Purpose, Stream};
use weir_core::sched::{Discipline, FlowSlot, FqPie, Kind, Scheduler};
use weir_core::stats::DropReason;

/// The scheduler with its pool; frame numbers identify packets.
struct Checked {
    scheduler: FqPie,
    pool: Pool,
    inside: BTreeMap<u32, VecDeque<u32>>,
    dropped: Vec<(u32, DropReason)>,
    frames: u32,
}

impl Checked {
    fn new(settings: &[(&str, &str)]) -> Self {
        let mut discipline = Discipline::new(Kind::FqPie).seeded(5);
        for (name, value) in settings {
            discipline.set(name, value).unwrap();
        }
        Self {
            scheduler: FqPie::new(&discipline),
            pool: Pool::new(100_000),
            inside: BTreeMap::new(),
            dropped: Vec::new(),
            frames: 0,
        }
    }

    fn send(&mut self, now: Nanos, len: u32, hash: u32, ecn: Ecn) -> u32 {
        let id = self
            .pool
            .insert(Packet { frame: self.frames, len, arrived: now, ..Packet::default() })
            .unwrap();
        self.pool.set_header(id, Header { ecn, dscp: 0, hash });
        self.inside.entry(hash).or_default().push_back(self.frames);
        self.frames += 1;
        assert_eq!(self.scheduler.enqueue(now, &mut self.pool, FlowSlot::default(), id), None);
        self.take_refused();
        self.frames - 1
    }

    fn take_refused(&mut self) {
        while let Some((id, reason)) = self.scheduler.pop_refused(&mut self.pool) {
            let hash = self.pool.header(id).hash;
            let frame = self.pool.remove(id).frame;
            self.inside.get_mut(&hash).unwrap().retain(|&other| other != frame);
            self.dropped.push((frame, reason));
        }
    }

    /// Takes a packet; returns its hash and whether it is marked.
    fn take(&mut self, now: Nanos) -> Option<(u32, bool)> {
        let id = self.scheduler.dequeue(now, &mut self.pool)?;
        let (hash, mark) = (self.pool.header(id).hash, self.pool.mark_of(id));
        let frame = self.pool.remove(id).frame;
        assert_eq!(
            self.inside.get_mut(&hash).unwrap().pop_front(),
            Some(frame),
            "order within a flow"
        );
        Some((hash, mark.is_some()))
    }

    fn inside(&self) -> usize {
        self.inside.values().map(VecDeque::len).sum()
    }
}

const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

proptest! {
    /// With a single flow, FQ-PIE drops and marks the same packets as PIE at one queue.
    #[test]
    fn a_single_flow_loses_the_packets_that_pie_drops(
        traffic in proptest::collection::vec(
            (0u64..40_000, prop::bool::weighted(0.6), 40u32..1500),
            1..800,
        ),
        linux in any::<bool>(),
        derand in prop_oneof![Just("off"), Just("on")],
        measure in prop_oneof![Just("ts"), Just("dre")],
        ecn in prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0)],
    ) {
        let settings = [
            ("variant", if linux { "linux" } else { "rfc" }),
            ("derand", derand),
            ("qdelay", measure),
            ("max_burst", "20ms"),
            ("ecn", "on"),
        ];
        let mut checked = Checked::new(&settings);
        let mut policy = Policy::new(aqm::Kind::Pie);
        settings.iter().for_each(|(name, value)| policy.set(name, value).unwrap());
        let stream = Stream::new(5, 0, Purpose::Scheduler);
        let mut pie = Pie::new(
            &policy,
            &Setup { rate: 0, limit_packets: u32::MAX, limit_bytes: u64::MAX, stream },
        );
        let (mut waiting, mut now) = (VecDeque::<(Seen, bool)>::new(), Nanos::ZERO);
        let state = |waiting: &VecDeque<(Seen, bool)>| QueueState {
            packets: waiting.len() as u32,
            bytes: waiting.iter().map(|w| u64::from(w.0.len)).sum(),
            full: false,
        };
        for (gap, arrives, len) in traffic {
            now += Nanos::from_micros(gap);
            if !arrives {
                let expected = waiting.pop_front().map(|(seen, marked)| {
                    pie.leave(now, &seen, &state(&waiting));
                    (77, marked)
                });
                prop_assert_eq!(checked.take(now), expected);
                continue;
            }
            let header = Header { ecn, dscp: 0, hash: 77 };
            let seen = Seen { len, arrived: now, header };
            let verdict = pie.arrive(now, &seen, &state(&waiting));
            let before = checked.dropped.len();
            checked.send(now, len, 77, ecn);
            prop_assert_eq!(checked.dropped.len() > before, matches!(verdict, Verdict::Drop(_)));
            if !matches!(verdict, Verdict::Drop(_)) {
                waiting.push_back((seen, matches!(verdict, Verdict::Mark(_))));
            }
        }
    }

    #[test]
    fn every_packet_is_dropped_or_leaves_in_order(
        traffic in proptest::collection::vec(
            (
                prop_oneof![Just(0u64), 0u64..20_000_000, 0u64..u64::MAX >> 10],
                0u32..8,
                prop_oneof![40u32..1501, 0u32..=4 << 20],
            ),
            1..400,
        ),
        variant in prop_oneof![Just("rfc"), Just("linux"), Just("dummynet")],
        onoff in prop_oneof![Just("off"), Just("on")],
        bytemode in prop_oneof![Just("off"), Just("on")],
    ) {
        let mut checked = Checked::new(&[
            ("variant", variant),
            ("onoff", onoff),
            ("bytemode", bytemode),
            ("flows", "4"),
            ("limit", "30"),
            ("max_burst", "0"),
            ("tupdate", "1us"),
        ]);
        let (mut now, mut sent) = (Nanos::ZERO, 0);
        for (gap, flow, len) in traffic {
            now = now.saturating_add(Nanos(gap));
            if flow < 5 {
                checked.send(
                    now,
                    len,
                    flow * 0x1111_1111,
                    if flow % 2 == 0 { Ecn::NotEct } else { Ecn::Ect1 },
                );
            } else {
                let backlogged = checked.inside() > 0;
                let taken = checked.take(now);
                prop_assert_eq!(taken.is_some(), backlogged);
                sent += u32::from(taken.is_some());
            }
            prop_assert!(checked.scheduler.len() == checked.inside() && checked.inside() <= 30);
            prop_assert_eq!(
                sent as usize + checked.dropped.len() + checked.inside(),
                checked.frames as usize
            );
        }
        while checked.take(Nanos::MAX).is_some() {}
        let scheduler = &checked.scheduler;
        prop_assert_eq!((checked.inside(), scheduler.len(), scheduler.backlog()), (0, 0, 0));
    }
}

/// Three packets of flow 1 and two of flow 2 arrive at a scheduler with room for four.
#[test]
fn a_full_scheduler_drops_from_the_longest_queue_or_the_arrival() {
    for (variant, expected) in [
        ("rfc", (0, DropReason::Overlimit)),
        ("dummynet", (0, DropReason::Overlimit)),
        ("linux", (4, DropReason::QueueFull)),
    ] {
        let mut checked = Checked::new(&[("variant", variant), ("limit", "4")]);
        for flow in [1, 1, 1, 2, 2] {
            checked.send(Nanos::ZERO, 120, flow, Ecn::NotEct);
        }
        assert_eq!(checked.dropped, [expected], "{variant}");
    }
}

/// Flow 1 sends too much. Only flow 1 loses packets, and flow 2 never has more than one packet
/// waiting.
#[test]
fn only_the_flow_that_sends_too_much_loses_packets() {
    let mut checked = Checked::new(&[]);
    for time in 0..10_000 {
        // In 1 ms, 1 packet leaves, and 1.5 packets of flow 1 and 0.2 of flow 2 arrive.
        checked.send(ms(time), 1000, 1, Ecn::NotEct);
        if time % 2 == 0 {
            checked.send(ms(time), 1000, 1, Ecn::NotEct);
        }
        let sparse = (time % 5 == 0).then(|| checked.send(ms(time), 1000, 2, Ecn::NotEct));
        checked.take(ms(time));
        if let Some(frame) = sparse {
            assert!(!checked.dropped.iter().any(|&(dropped, _)| dropped == frame));
        }
        assert!(checked.inside.get(&2).map_or(0, VecDeque::len) <= 1);
    }
    // 17,000 packets arrived and 10,000 left.
    let dropped = checked.dropped.len();
    assert!(
        dropped.abs_diff(7000) < 500 && checked.dropped.iter().all(|d| d.1 == DropReason::Early),
        "{dropped}"
    );
}

/// After a queue becomes empty, PIE's drop probability decays slowly, but dummynet resets it.
#[test]
fn dummynet_resets_the_probability_of_an_empty_queue() {
    let drops_after_a_pause = |variant| {
        let mut checked = Checked::new(&[("variant", variant)]);
        for time in 0..4000 {
            checked.send(ms(time), 1000, 1, Ecn::NotEct);
            if time % 2 == 0 {
                checked.take(ms(time));
            }
        }
        while checked.take(ms(4000)).is_some() {}
        let before = checked.dropped.len();
        // The pause is too short for a new burst allowance.
        for time in 4001..4100 {
            checked.send(ms(time), 1000, 1, Ecn::NotEct);
            if time % 10 == 0 {
                checked.take(ms(time));
            }
        }
        checked.dropped.len() - before
    };
    assert_eq!(drops_after_a_pause("dummynet"), 0);
    assert!(drops_after_a_pause("rfc") > 10 && drops_after_a_pause("linux") > 10);
}
