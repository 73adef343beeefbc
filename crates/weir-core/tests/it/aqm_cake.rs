//! CAKE: the shares of tins and hosts, sparse flows, and random traffic of many flows and code
//! points.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, SchedulerConfig};
use weir_core::key::FlowKey;
use weir_core::packet::{Ecn, Header, Packet, Pool, Store as _};
use weir_core::sched::{Discipline, FlowSlot, Kind, Scheduler, Visitor};
use weir_core::stats::DropReason;
use weir_core::{Action, Arrival, Emulator, Fate, Limits, Nanos, Rate};

const MS: u64 = 1_000_000;

/// The packets of a run: frame, code point, hash, and the reason if the packet was dropped.
type Out = Vec<(u32, u8, u32, Option<DropReason>)>;

/// A scheduler, and the frames inside it by code point and hash.
struct Checked<S> {
    scheduler: S,
    pool: Pool,
    inside: BTreeMap<(u8, u32), VecDeque<u32>>,
    out: Out,
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
        let id = self
            .pool
            .insert(Packet { frame: self.frames, len, arrived: Nanos(now), ..Packet::default() })
            .unwrap();
        self.pool.set_header(id, header);
        self.inside.entry((header.dscp, header.hash)).or_default().push_back(self.frames);
        self.frames += 1;
        assert_eq!(
            self.scheduler.enqueue(Nanos(now), &mut self.pool, FlowSlot::default(), id),
            None
        );
        self.take_refused();
    }

    fn take_refused(&mut self) {
        while let Some((id, reason)) = self.scheduler.pop_refused(&mut self.pool) {
            let Header { dscp, hash, .. } = self.pool.header(id);
            let frame = self.pool.remove(id).frame;
            assert_eq!(
                self.inside.get_mut(&(dscp, hash)).unwrap().pop_front(),
                Some(frame),
                "the oldest is dropped"
            );
            self.out.push((frame, dscp, hash, Some(reason)));
        }
    }

    fn take(&mut self, now: u64) -> Option<(u8, u32)> {
        let taken = self.scheduler.dequeue(Nanos(now), &mut self.pool);
        self.take_refused();
        let id = taken?;
        let Header { dscp, hash, .. } = self.pool.header(id);
        let frame = self.pool.remove(id).frame;
        assert_eq!(
            self.inside.get_mut(&(dscp, hash)).unwrap().pop_front(),
            Some(frame),
            "order within a flow"
        );
        self.out.push((frame, dscp, hash, None));
        Some((dscp, hash))
    }

    fn check(&self) {
        let inside: usize = self.inside.values().map(VecDeque::len).sum();
        assert_eq!((self.scheduler.len(), self.pool.len() as usize), (inside, inside));
        assert!(inside > 0 || self.scheduler.backlog() == 0);
    }
}

/// A test that runs with any scheduler type.
trait Run {
    type Output;
    fn run<S: Scheduler>(self, checked: Checked<S>) -> Self::Output;
}

fn play<R: Run>(settings: &[(&str, &str)], run: R) -> R::Output {
    struct With<R>(R);
    impl<R: Run> Visitor for With<R> {
        type Output = R::Output;
        fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> R::Output {
            self.0.run(Checked::new(scheduler))
        }
    }
    let mut discipline = Discipline::new(Kind::Cake);
    settings.iter().for_each(|(name, value)| discipline.set(name, value).unwrap());
    discipline.visit(With(run))
}

/// A test in which packets of all code points in `points` wait at all times. Its result is the
/// bytes sent of each code point.
struct Shares<'a> {
    points: &'a [u8],
    len: u32,
}

impl Run for Shares<'_> {
    type Output = Vec<u64>;
    fn run<S: Scheduler>(self, mut checked: Checked<S>) -> Vec<u64> {
        let header = |dscp| Header { dscp, hash: 5, ecn: Ecn::NotEct };
        for &dscp in self.points {
            (0..3).for_each(|_| checked.send(0, self.len, header(dscp)));
        }
        let mut bytes = vec![0; self.points.len()];
        for _ in 0..20_000 {
            let (dscp, _) = checked.take(0).unwrap();
            bytes[self.points.iter().position(|&point| point == dscp).unwrap()] +=
                u64::from(self.len);
            checked.send(0, self.len, header(dscp));
        }
        bytes
    }
}

#[test]
fn tins_share_by_their_weights() {
    for len in [200, 1500, 60_000] {
        // The code points of best effort, low priority, streaming and low latency.
        let bytes = play(&[("tins", "diffserv4")], Shares { points: &[0, 8, 24, 46], len });
        let all: u64 = bytes.iter().sum();
        for (&got, weight) in bytes.iter().zip([16, 1, 8, 4]) {
            assert!((got * 29).abs_diff(all * weight) < all * 29 / 100, "{len}: {bytes:?}");
        }
        assert_eq!(
            play(&[("tins", "besteffort")], Shares { points: &[0], len })[0],
            20_000 * u64::from(len)
        );
    }
}

#[test]
fn a_single_class_gets_the_whole_link() {
    let bytes = play(&[("tins", "diffserv8")], Shares { points: &[8], len: 1000 });
    assert_eq!(bytes, [20_000_000]);
}

/// A flow with a long queue, and a flow that sends one packet.
struct Sparse;

impl Run for Sparse {
    type Output = ();
    fn run<S: Scheduler>(self, mut checked: Checked<S>) {
        (0..50).for_each(|_| checked.send(0, 1500, Header { hash: 1, ..Header::default() }));
        (0..5).for_each(|_| assert_eq!(checked.take(0), Some((0, 1))));
        checked.send(MS, 100, Header { hash: 2, ..Header::default() });
        assert_eq!(checked.take(MS), Some((0, 2)));
    }
}

#[test]
fn a_sparse_flow_is_served_first() {
    play(&[], Sparse);
}

/// Random traffic. Each step (hash, code point, length, ECN, gap in ns) sends equal packets, as
/// many as the number in the ECN field plus 1, and takes one packet after the gap.
struct Random<'a>(&'a [(u32, u8, u32, u8, u64)]);

impl Run for Random<'_> {
    type Output = Out;
    fn run<S: Scheduler>(self, mut checked: Checked<S>) -> Out {
        let mut now = 0;
        for &(hash, dscp, len, ecn, gap) in self.0 {
            let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(ecn % 4)];
            // The factor is the inverse of the one by which the scheduler multiplies hashes, so
            // that all flows fall into one set of queues.
            (0..=ecn as u32).for_each(|_| {
                checked.send(now, len, Header { ecn, dscp, hash: hash.wrapping_mul(0x0e8b_2f51) });
            });
            now += gap;
            let waiting = checked.scheduler.len();
            let taken = checked.take(now);
            assert!(taken.is_some() || waiting == 0, "the last packet of a queue is not dropped");
            checked.check();
        }
        while checked.take(u64::MAX).is_some() {}
        checked.check();
        checked.out
    }
}

proptest! {
    #[test]
    fn random_traffic_is_accounted_for(
        steps in proptest::collection::vec((0u32..40, 0u8..64, prop_oneof![40u32..1501, Just(0), Just(4 << 20)], 0u8..4, 0u64..20_000_000), 1..500),
        tins in 0usize..5,
        memory in prop_oneof![Just(0u64), 2000u64..100_000],
        bandwidth in prop_oneof![Just(0u64), 100u64..100_000],
    ) {
        let tins = ["besteffort", "precedence", "diffserv3", "diffserv4", "diffserv8"][tins];
        let settings = [
            ("tins", tins),
            ("memory_limit", &*memory.to_string()),
            ("bandwidth", &*bandwidth.to_string()),
        ];
        let first = play(&settings, Random(&steps));
        prop_assert_eq!(first, play(&settings, Random(&steps)));
    }
}

/// The number of packets that a link of 12 Mbit/s delivers from each of two sources in 5 s. The
/// first source has eight flows, the second has one. Each flow has a different destination and
/// sends a quarter of the link's rate.
fn sent_by_source(isolation: &str) -> [u32; 2] {
    let mut discipline = Discipline::new(Kind::Cake);
    discipline.set("isolation", isolation).unwrap();
    discipline.set("target", "1s").unwrap();
    let link = LinkConfig {
        capacity: Capacity::Constant(Rate::new(12_000_000).unwrap()),
        ..LinkConfig::default()
    };
    let mut emulator = Emulator::new(1, Limits::default());
    let scheduler = SchedulerConfig { discipline, ..SchedulerConfig::default() };
    emulator.set_scheduler(Nanos::ZERO, 1, &scheduler, &link);
    emulator.set_queue(Nanos::ZERO, 1, 1, &FlowsetConfig::default());
    let (mut sent, mut out) = ([0; 2], Vec::new());
    for time in 0..5000 {
        for flow in 0..9u16 {
            let source = u32::from(flow == 8);
            let key = FlowKey {
                src: (0x0a00_0001 + source).into(),
                dst: (0xc000_0200 + u32::from(flow)).into(),
                src_port: 1000 + flow,
                proto: 17,
                ..FlowKey::default()
            };
            let arrival = Arrival {
                frame: source,
                len: 1500,
                link_header: 14,
                segments: 1,
                ecn: Ecn::NotEct,
                label: 0,
            };
            if time % 4 == 0 {
                emulator.submit(Nanos(time * MS), arrival, &key, Action::Queue(1)).unwrap();
            }
        }
        emulator.poll(Nanos(time * MS), &mut out);
        for departure in out.drain(..) {
            if matches!(departure.fate, Fate::Deliver { .. }) {
                sent[departure.frame as usize] += 1;
            }
        }
    }
    sent
}

#[test]
fn the_engine_distinguishes_hosts() {
    for (isolation, share) in [
        ("flows", 1.0 / 9.0),
        ("dual-dsthost", 1.0 / 9.0),
        ("dual-srchost", 0.25),
        ("triple-isolate", 0.25),
    ] {
        let sent = sent_by_source(isolation);
        let all: u32 = sent.iter().sum();
        assert!(all > 4900, "{sent:?}");
        // Isolation by source leaves half of the link to the second source, which sends only a
        // quarter.
        let got = f64::from(sent[1]) / f64::from(all);
        assert!((got - share).abs() < 0.02, "{isolation}: {sent:?}");
    }
}
