//! FQ-CoDel: published cases, and random traffic of many flows compared with a list of packets for
//! each flow.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use weir_core::Nanos;
use weir_core::packet::{Ecn, Header, Packet, Pool, Store as _};
use weir_core::sched::{Discipline, FlowSlot, Kind, Scheduler, Visitor};
use weir_core::stats::{DropReason, MarkReason};

const MS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Sent(Option<MarkReason>),
    Dropped(DropReason),
}

/// A scheduler that distinguishes flows by their hashes, the frames inside it, and the outcome of
/// each packet.
struct Checked<S> {
    scheduler: S,
    pool: Pool,
    inside: BTreeMap<u32, VecDeque<u32>>,
    /// Frame, hash, outcome.
    out: Vec<(u32, u32, Fate)>,
    frames: u32,
}

impl<S: Scheduler> Checked<S> {
    fn new(scheduler: S) -> Self {
        Self {
            scheduler,
            pool: Pool::new(100_000),
            inside: BTreeMap::new(),
            out: Vec::new(),
            frames: 0,
        }
    }

    fn send(&mut self, now: u64, len: u32, header: Header) {
        let packet = Packet { frame: self.frames, len, arrived: Nanos(now), ..Packet::default() };
        let id = self.pool.insert(packet).unwrap();
        self.pool.set_header(id, header);
        self.inside.entry(header.hash).or_default().push_back(self.frames);
        self.frames += 1;
        assert_eq!(
            self.scheduler.enqueue(Nanos(now), &mut self.pool, FlowSlot::default(), id),
            None
        );
        self.take_refused();
    }

    fn take_refused(&mut self) {
        while let Some((id, reason)) = self.scheduler.pop_refused(&mut self.pool) {
            let hash = self.pool.header(id).hash;
            let frame = self.pool.remove(id).frame;
            // A dropped packet is either the first of its flow, like a departing packet, or the
            // last to arrive.
            let inside = self.inside.get_mut(&hash).unwrap();
            let index = inside.iter().position(|&other| other == frame).unwrap();
            assert!(index == 0 || index == inside.len() - 1);
            inside.remove(index);
            self.out.push((frame, hash, Fate::Dropped(reason)));
        }
    }

    /// Takes a packet and returns its hash.
    fn take(&mut self, now: u64) -> Option<u32> {
        let taken = self.scheduler.dequeue(Nanos(now), &mut self.pool);
        self.take_refused();
        let id = taken?;
        let (hash, mark) = (self.pool.header(id).hash, self.pool.mark_of(id));
        let frame = self.pool.remove(id).frame;
        assert_eq!(
            self.inside.get_mut(&hash).unwrap().pop_front(),
            Some(frame),
            "order within a flow"
        );
        self.out.push((frame, hash, Fate::Sent(mark)));
        Some(hash)
    }

    fn count(&self, flow: u32, matches_fate: impl Fn(Fate) -> bool) -> usize {
        self.out.iter().filter(|&&(_, hash, fate)| hash == flow && matches_fate(fate)).count()
    }

    fn waiting(&self, flow: u32) -> usize {
        self.inside.get(&flow).map_or(0, VecDeque::len)
    }
}

/// Calls `run` with a scheduler of this kind with these settings.
fn with<R>(kind: Kind, settings: &[(&str, &str)], run: impl FnOnce(&mut dyn Driven) -> R) -> R {
    struct Run<F>(F);
    impl<R, F: FnOnce(&mut dyn Driven) -> R> Visitor for Run<F> {
        type Output = R;
        fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> R {
            (self.0)(&mut Checked::new(scheduler))
        }
    }
    let mut discipline = Discipline::new(kind);
    settings.iter().for_each(|(name, value)| discipline.set(name, value).unwrap());
    discipline.visit(Run(run))
}

/// A [`Checked`] scheduler of any type.
trait Driven {
    fn send(&mut self, now: u64, len: u32, header: Header);
    fn take(&mut self, now: u64) -> Option<u32>;
    fn marks(&self, flow: u32) -> usize;
    fn drops(&self, flow: u32, reason: DropReason) -> usize;
    fn waiting(&self, flow: u32) -> usize;
    fn check(&self);
    fn out(&self) -> &[(u32, u32, Fate)];
}

impl<S: Scheduler> Driven for Checked<S> {
    fn send(&mut self, now: u64, len: u32, header: Header) {
        self.send(now, len, header);
    }
    fn take(&mut self, now: u64) -> Option<u32> {
        self.take(now)
    }
    fn marks(&self, flow: u32) -> usize {
        self.count(flow, |fate| matches!(fate, Fate::Sent(Some(_))))
    }
    fn drops(&self, flow: u32, reason: DropReason) -> usize {
        self.count(flow, |fate| fate == Fate::Dropped(reason))
    }
    fn waiting(&self, flow: u32) -> usize {
        self.waiting(flow)
    }
    fn check(&self) {
        let inside: usize = self.inside.values().map(VecDeque::len).sum();
        assert_eq!((self.scheduler.len(), self.pool.len() as usize), (inside, inside));
        assert_eq!(self.scheduler.is_empty(), inside == 0);
        assert!(inside > 0 || self.scheduler.backlog() == 0);
    }
    fn out(&self) -> &[(u32, u32, Fate)] {
        &self.out
    }
}

fn plain(hash: u32) -> Header {
    Header { hash, ..Header::default() }
}

#[test]
fn the_longest_queue_loses_packets_from_its_head() {
    let (a, b) = (1, 2);
    with(Kind::FqCodel, &[("limit", "4")], |checked| {
        [a, a, a, b, b].into_iter().for_each(|flow| checked.send(0, 120, plain(flow)));
        assert_eq!((checked.drops(a, DropReason::Overlimit), checked.waiting(a)), (2, 1));
        assert_eq!((checked.drops(b, DropReason::Overlimit), checked.waiting(b)), (0, 2));
        let first: Vec<u32> = checked.out().iter().map(|packet| packet.0).collect();
        assert_eq!(first, [0, 1]);
    });
}

/// No link of Linux starts at time 0. An overflow just after time 0 must have the same effect as a
/// later overflow.
#[test]
fn an_overflow_at_the_start_of_time_is_like_any_later_one() {
    let played = |begin: u64| {
        with(Kind::FqCodel, &[("limit", "50"), ("drop_batch", "16")], |checked| {
            for n in 0..120 {
                checked.send(begin + n * MS, 1000, plain(1));
                checked.send(begin + n * MS, 1000, plain(1));
            }
            for k in 0..400 {
                checked.take(begin + (120 + 3 * k) * MS);
            }
            checked.out().to_vec()
        })
    };
    assert_eq!(played(0), played(20_000 * MS));
}

#[test]
fn standing_flows_are_marked_independently() {
    let marks = |settings: &[(&str, &str)]| {
        with(Kind::FqCodel, settings, |checked| {
            for n in 0..100 {
                checked.send(0, 120, Header { ecn: Ecn::Ect0, ..plain(n % 5) });
            }
            (1..=60).for_each(|k| assert!(checked.take(k * 110 * MS).is_some()));
            assert!((0..5).all(|flow| checked.drops(flow, DropReason::Target) == 0));
            [0, 1, 2, 3, 4].map(|flow| checked.marks(flow))
        })
    };
    assert_eq!(marks(&[]), [6; 5]);
    // With `count all`, CoDel compares the bytes of all flows with the MTU, so it continues to mark
    // a flow that has few packets left.
    assert_eq!(marks(&[("count", "all")]), [12, 12, 12, 12, 7]);
}

#[test]
fn a_quantum_below_a_packet_takes_several_rounds() {
    let (a, b) = (1, 2);
    with(Kind::FqCodel, &[("quantum", "90")], |checked| {
        checked.send(0, 120, plain(a));
        assert_eq!(checked.take(0), Some(a));
        [a, a, b, b].into_iter().for_each(|flow| checked.send(0, 120, plain(flow)));
        assert_eq!([0; 5].map(|now| checked.take(now)), [Some(b), Some(a), Some(b), Some(a), None]);
    });
}

#[test]
fn a_sparse_flow_precedes_standing_flows() {
    with(Kind::FqCodel, &[], |checked| {
        for n in 0..100 {
            checked.send(0, 1500, plain(n % 4));
        }
        (0..8).for_each(|_| assert!(checked.take(0).is_some()));
        checked.send(MS, 100, plain(9));
        assert_eq!(checked.take(MS), Some(9));
    });
}

#[test]
fn a_flow_is_new_again_after_a_pause() {
    with(Kind::FqCodel, &[], |checked| {
        // The scheduler is empty before each of these packets, so the flow is new each time.
        for k in 0..100 {
            checked.send(k * MS, 1000, plain(1));
            assert_eq!(checked.take(k * MS), Some(1));
        }
        let now = 100 * MS;
        checked.send(now, 1500, plain(2));
        checked.send(now, 1500, plain(2));
        assert_eq!(checked.take(now), Some(2));
        checked.send(now, 1000, plain(1));
        assert_eq!(checked.take(now), Some(1));
    });
}

#[test]
fn bytes_are_limited_too() {
    with(Kind::FqCodel, &[("memory_limit", "10000"), ("drop_batch", "1")], |checked| {
        for n in 0..30 {
            checked.send(0, 1000, plain(n % 3));
            checked.check();
        }
        assert_eq!((0..3).map(|flow| checked.waiting(flow)).sum::<usize>(), 10);
    });
}

#[test]
fn all_waiting_packets_leave_at_the_largest_time() {
    with(Kind::FqCodel, &[], |checked| {
        (0..50).for_each(|n| checked.send(0, 1000, plain(n % 3)));
        (0..50).for_each(|_| assert!(checked.take(u64::MAX).is_some()));
        assert!((0..3).all(|flow| checked.drops(flow, DropReason::Target) == 0));
    });
}

proptest! {
    /// For arbitrary traffic, every packet leaves or is dropped with a reason, flows keep their
    /// order, and equal seeds give equal results.
    #[test]
    fn random_traffic_is_accounted_for(
        steps in proptest::collection::vec((0u32..12, 0u32..6, prop_oneof![40u32..1501, Just(0), Just(4 << 20)], 0u8..4, 0u64..20_000_000), 1..600),
        limit in 1u32..60,
        flows in 1u32..40,
        quantum in 64u32..3000,
        arith in 0usize..3,
        count in 0usize..2,
        ce in 0u32..3,
    ) {
        let (limit, flows, quantum, ce) =
            (limit.to_string(), flows.to_string(), quantum.to_string(), ce.to_string());
        let settings = [
            ("limit", &*limit),
            ("flows", &flows),
            ("quantum", &quantum),
            ("arith", ["linux", "rfc", "ns3"][arith]),
            ("count", ["flow", "all"][count]),
            ("ce_threshold", &ce),
        ];
        let run = || {
            with(Kind::FqCodel, &settings, |checked| {
                let mut now = 0;
                for &(hash, sends, len, ecn, gap) in &steps {
                    let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(ecn)];
                    (0..sends).for_each(|_| {
                        checked.send(
                            now,
                            len,
                            Header { ecn, dscp: 0, hash: hash.wrapping_mul(0x0765_4321) },
                        );
                    });
                    now += gap;
                    checked.take(now);
                    checked.check();
                }
                while checked.take(u64::MAX).is_some() {}
                checked.check();
                checked.out().to_vec()
            })
        };
        prop_assert_eq!(run(), run());
    }
}
