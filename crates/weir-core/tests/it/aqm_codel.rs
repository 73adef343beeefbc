//! `CoDel` at a single queue: published cases, properties of the control law, and a comparison with
//! the published loop.

use std::collections::VecDeque;

use proptest::prelude::*;
use weir_core::Nanos;
use weir_core::aqm::{Aqm, Kind, Policy, QueueState, Seen, Setup, Verdict, Visitor};
use weir_core::packet::{Ecn, Header};
use weir_core::rng::{Purpose, Stream};
use weir_core::stats::DropReason;

const MS: u64 = 1_000_000;

/// A queue with an AQM, and the times of the drops and marks.
struct Queue<A> {
    aqm: A,
    packets: VecDeque<Seen>,
    bytes: u64,
    drops: Vec<u64>,
    marks: Vec<u64>,
}

impl<A: Aqm> Queue<A> {
    fn new(aqm: A) -> Self {
        Self { aqm, packets: VecDeque::new(), bytes: 0, drops: Vec::new(), marks: Vec::new() }
    }

    fn state(&self) -> QueueState {
        QueueState { packets: self.packets.len() as u32, bytes: self.bytes, full: false }
    }

    fn send(&mut self, now: u64, len: u32, ecn: Ecn) {
        let packet = Seen { len, arrived: Nanos(now), header: Header { ecn, ..Header::default() } };
        assert_eq!(self.aqm.arrive(Nanos(now), &packet, &self.state()), Verdict::Pass);
        self.packets.push_back(packet);
        self.bytes += u64::from(len);
    }

    /// Removes packets until one is not dropped, and returns it.
    fn take(&mut self, now: u64) -> Option<Seen> {
        loop {
            let packet = self.packets.pop_front()?;
            self.bytes -= u64::from(packet.len);
            match self.aqm.leave(Nanos(now), &packet, &self.state()) {
                Verdict::Drop(_) => self.drops.push(now),
                Verdict::Mark(_) => {
                    self.marks.push(now);
                    return Some(packet);
                }
                Verdict::Pass | Verdict::Admit => return Some(packet),
            }
        }
    }

    fn variable(&self, name: &str) -> u64 {
        self.aqm.variables().into_iter().find(|variable| variable.0 == name).unwrap().1
    }
}

/// Calls `run` with a queue that has a CoDel AQM with these settings.
fn with<R>(settings: &[(&str, &str)], run: impl FnOnce(&mut dyn Driven) -> R) -> R {
    let mut policy = Policy::new(Kind::Codel);
    settings.iter().for_each(|(name, value)| policy.set(name, value).unwrap());
    struct Run<F>(F);
    impl<R, F: FnOnce(&mut dyn Driven) -> R> Visitor for Run<F> {
        type Output = R;
        fn visit<A: Aqm + std::fmt::Debug>(self, aqm: A) -> R {
            (self.0)(&mut Queue::new(aqm))
        }
    }
    let stream = Stream::new(1, 1, Purpose::Aqm);
    policy
        .visit(&Setup { rate: 0, limit_packets: u32::MAX, limit_bytes: u64::MAX, stream }, Run(run))
}

/// A [`Queue`] with an AQM of any type.
trait Driven {
    fn send(&mut self, now: u64, len: u32, ecn: Ecn);
    fn take(&mut self, now: u64) -> Option<Seen>;
    fn waiting(&self) -> usize;
    fn drops(&self) -> &[u64];
    fn marks(&self) -> &[u64];
    fn variable(&self, name: &str) -> u64;
}

impl<A: Aqm> Driven for Queue<A> {
    fn send(&mut self, now: u64, len: u32, ecn: Ecn) {
        self.send(now, len, ecn);
    }
    fn take(&mut self, now: u64) -> Option<Seen> {
        self.take(now)
    }
    fn waiting(&self) -> usize {
        self.packets.len()
    }
    fn drops(&self) -> &[u64] {
        &self.drops
    }
    fn marks(&self) -> &[u64] {
        &self.marks
    }
    fn variable(&self, name: &str) -> u64 {
        self.variable(name)
    }
}

/// Sends twenty packets at once and takes one at each of four times. `switch` is the value of the
/// setting `ecn`. Returns for each of these times: the numbers of waiting packets, drops and marks,
/// and the time of the next drop in ticks of 1.024 us.
fn twenty(ecn: Ecn, switch: &str) -> Vec<(usize, usize, usize, u64)> {
    with(&[("ecn", switch)], |queue| {
        (0..20).for_each(|_| queue.send(0, 1000, ecn));
        let step = |ms: u64| {
            queue.take(ms * MS);
            (
                queue.waiting(),
                queue.drops().len(),
                queue.marks().len(),
                queue.variable("drop_next") >> 10,
            )
        };
        [10, 210, 210, 420].map(step).into()
    })
}

#[test]
fn a_standing_queue_of_twenty_loses_packets_as_in_linux() {
    let expected = [(19, 0, 0, 0), (17, 1, 0, 302_732), (16, 1, 0, 302_732), (12, 4, 0, 454_127)];
    assert_eq!(twenty(Ecn::NotEct, "off"), expected);
    assert_eq!(twenty(Ecn::Ect0, "off"), expected);
    assert_eq!(twenty(Ecn::NotEct, "on"), expected);
}

#[test]
fn marks_replace_drops_one_at_a_time() {
    let marks: Vec<usize> = twenty(Ecn::Ect0, "on").into_iter().map(|step| step.2).collect();
    assert_eq!(marks, [0, 1, 1, 2]);
    assert!(twenty(Ecn::Ect1, "on").iter().all(|step| step.1 == 0));
}

/// A packet arrives every 1.0 ms, and a packet leaves every 1.2 ms. Returns the times of drops, the
/// times of marks, and the number of packets that still wait.
fn overload(settings: &[(&str, &str)], ecn: Ecn) -> (Vec<u64>, Vec<u64>, usize) {
    with(settings, |queue| {
        let mut sent = 0;
        for k in 1..=2000 {
            let now = k * 12 * MS / 10 + 1;
            while sent < 2000 && sent * MS <= now {
                queue.send(sent * MS, 1500, ecn);
                sent += 1;
            }
            if now > 2000 * MS {
                break;
            }
            queue.take(now);
        }
        (queue.drops().to_vec(), queue.marks().to_vec(), queue.waiting())
    })
}

/// The first seven times, in tenths of a millisecond.
fn in_tenths(times: &[u64]) -> Vec<u64> {
    times.iter().take(7).map(|time| time / (MS / 10)).collect()
}

#[test]
fn a_steady_overload_is_dropped_as_in_linux() {
    let (drops, marks, left) = overload(&[], Ecn::NotEct);
    assert_eq!((drops.len(), marks.len(), left), (105, 0, 229));
    assert_eq!(in_tenths(&drops), [1248, 2256, 2748, 3312, 3804, 4248, 4644]);
}

#[test]
fn a_steady_overload_is_dropped_by_the_exact_square_root() {
    let (drops, marks, left) = overload(&[("arith", "rfc")], Ecn::NotEct);
    assert_eq!((drops.len(), marks.len(), left), (102, 0, 232));
    assert_eq!(in_tenths(&drops), [1248, 2256, 2964, 3540, 4044, 4488, 4896]);
}

#[test]
fn a_steady_overload_is_marked_for_ecn_capable_senders() {
    // In ns-3 a mark that is late by a fraction of a packet's time delays the next mark; in Linux
    // it does not.
    for (arith, expected) in [("linux", 105), ("ns3", 99)] {
        let (drops, marks, left) = overload(&[("ecn", "on"), ("arith", arith)], Ecn::Ect0);
        assert_eq!((drops.len(), marks.len(), left), (0, expected, 334), "{arith}");
    }
}

/// The published algorithm, in ns and with the exact square root. Its loop may drop several packets
/// in one call.
struct Published {
    packets: VecDeque<Seen>,
    bytes: u64,
    target: u64,
    interval: u64,
    mtu: u64,
    first_above: u64,
    drop_next: u64,
    count: u64,
    last_count: u64,
    dropping: bool,
    drops: Vec<u64>,
}

impl Published {
    /// Removes a packet, and decides whether it may be dropped.
    fn pop(&mut self, now: u64) -> (Option<Seen>, bool) {
        let Some(packet) = self.packets.pop_front() else {
            self.first_above = 0;
            return (None, false);
        };
        self.bytes -= u64::from(packet.len);
        let mut may_drop = false;
        if now - packet.arrived.0 < self.target || self.bytes <= self.mtu {
            self.first_above = 0;
        } else if self.first_above == 0 {
            self.first_above = now + self.interval;
        } else {
            may_drop = now >= self.first_above;
        }
        (Some(packet), may_drop)
    }

    /// The time of the next drop after a drop at `time`.
    fn law(&self, time: u64) -> u64 {
        time + (self.interval * self.interval / self.count).isqrt()
    }

    fn take(&mut self, now: u64) -> Option<Seen> {
        let (mut packet, mut may_drop) = self.pop(now);
        if self.dropping {
            self.dropping = may_drop;
            while self.dropping && now >= self.drop_next {
                self.drops.push(now);
                self.count += 1;
                (packet, may_drop) = self.pop(now);
                if may_drop {
                    self.drop_next = self.law(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if may_drop {
            self.drops.push(now);
            packet = self.pop(now).0;
            self.dropping = true;
            let gained = self.count - self.last_count;
            let recent = now < self.drop_next + 16 * self.interval;
            self.count = if gained > 1 && recent { gained } else { 1 };
            self.drop_next = self.law(now);
            self.last_count = self.count;
        }
        packet
    }
}

proptest! {
    /// The AQM decides about one packet at a time, with the same results as the published loop.
    #[test]
    fn decisions_equal_those_of_the_published_loop(
        steps in proptest::collection::vec((0u64..4, 40u32..1500, 0u64..30_000), 1..1500),
        target in 100u64..5000,
        interval in 2_000u64..40_000,
        mtu in 1u64..3000,
    ) {
        let settings = [
            ("arith", "rfc".into()),
            ("target", format!("{target}us")),
            ("interval", format!("{interval}us")),
            ("mtu", mtu.to_string()),
        ];
        let settings: Vec<(&str, &str)> =
            settings.iter().map(|(name, value): &(&str, String)| (*name, value.as_str())).collect();
        let mut published = Published {
            packets: VecDeque::new(),
            bytes: 0,
            target: target * 1000,
            interval: interval * 1000,
            mtu,
            first_above: 0,
            drop_next: 0,
            count: 0,
            last_count: 0,
            dropping: false,
            drops: Vec::new(),
        };
        with(&settings, |queue| {
            let mut now = 1;
            for &(sends, len, gap) in &steps {
                for _ in 0..sends {
                    queue.send(now, len, Ecn::NotEct);
                    published.packets.push_back(Seen {
                        len,
                        arrived: Nanos(now),
                        header: Header::default(),
                    });
                    published.bytes += u64::from(len);
                }
                now += gap * 100;
                prop_assert_eq!(queue.take(now), published.take(now));
                prop_assert_eq!(queue.drops(), &published.drops[..]);
            }
            Ok(())
        })?;
    }

    /// While a queue stays above its target, drop `k + 1` is due `interval / √k` after drop `k` was
    /// due. It is at most one service time late.
    #[test]
    fn drops_of_a_standing_queue_follow_the_control_law(
        interval in 10u64..200,
        service in 10u64..200,
    ) {
        let (interval, service) = (interval * MS, service * 1000);
        let settings = [("arith", "rfc"), ("interval", &*format!("{interval}ns"))];
        let drops = with(&settings, |queue| {
            let mut now = 1000 * MS;
            while queue.drops().len() < 60 {
                now += service;
                // Every packet has waited 10 ms, regardless of drops.
                while queue.waiting() < 20 {
                    queue.send(now - 10 * MS, 1000, Ecn::NotEct);
                }
                queue.take(now);
            }
            queue.drops().to_vec()
        });
        let mut due = drops[0];
        for (k, &drop) in (1u64..).zip(&drops[1..]) {
            due += (interval * interval / k).isqrt();
            prop_assert!(
                drop >= due && drop - due <= service,
                "drop {} at {}, due at {}",
                k + 1,
                drop,
                due
            );
        }
    }

    /// Nothing is dropped from a queue with one packet left, however long the packets have waited.
    #[test]
    fn the_last_packet_of_a_queue_is_never_dropped(
        times in proptest::collection::vec(0u64..1_000_000_000, 1..200),
        arith in 0usize..2,
    ) {
        with(&[("arith", ["linux", "rfc"][arith])], |queue| {
            let mut now = 0;
            for gap in times {
                queue.send(now, 1500, Ecn::NotEct);
                queue.send(now, 1500, Ecn::NotEct);
                now += gap;
                prop_assert!(queue.take(now).is_some() && queue.take(now).is_some());
            }
            prop_assert_eq!(queue.drops().len(), 0);
            Ok(())
        })?;
    }
}

#[test]
fn every_drop_has_the_reason_target() {
    struct Reasons;
    impl Visitor for Reasons {
        type Output = Vec<Verdict>;
        fn visit<A: Aqm + std::fmt::Debug>(self, mut aqm: A) -> Vec<Verdict> {
            let queue = QueueState { packets: 9, bytes: 9000, full: false };
            let packet = Seen { len: 1000, arrived: Nanos::ZERO, header: Header::default() };
            [10, 50, 200].map(|ms| aqm.leave(Nanos(ms * MS), &packet, &queue)).into()
        }
    }
    let stream = Stream::new(1, 1, Purpose::Aqm);
    let verdicts = Policy::new(Kind::Codel)
        .visit(&Setup { rate: 0, limit_packets: 9, limit_bytes: u64::MAX, stream }, Reasons);
    assert_eq!(verdicts, [Verdict::Pass, Verdict::Pass, Verdict::Drop(DropReason::Target)]);
}
