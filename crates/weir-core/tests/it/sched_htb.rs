//! Hierarchical token buckets: guaranteed rates, rate limits, and sharing of the remaining rate.

use crate::common;

use common::Rig;
use proptest::prelude::*;
use weir_core::Nanos;
use weir_core::sched::{Discipline, FlowSpec, Kind, Scheduler, Visitor};

const SECOND: u64 = 1_000_000_000;

fn class(rate: u64, ceil: u64) -> FlowSpec {
    FlowSpec { rate, ceil, ..FlowSpec::default() }
}

/// Serves backlogged flows with packets of 1500 bytes over a link of `bps` until `end`. Returns the
/// bytes of each flow.
fn serve<S: Scheduler>(rig: &mut Rig<S>, bps: u64, end: Nanos) -> Vec<u64> {
    let flows: Vec<u32> = rig.flows.keys().copied().collect();
    for &flow in &flows {
        while rig.flows[&flow].inside.len() < 2 {
            rig.send(flow, 1500);
        }
    }
    let mut bytes = vec![0; flows.len()];
    while rig.now < end {
        match rig.take() {
            Some((flow, len)) => {
                bytes[flows.iter().position(|&f| f == flow).unwrap()] += u64::from(len);
                rig.now = Nanos(rig.now.0 + u64::from(len) * 8 * SECOND / bps);
                rig.send(flow, len);
            }
            None => {
                let next = rig.scheduler.next_event().expect("waiting packets have a due time");
                assert!(next > rig.now, "no packet, and no later event");
                rig.now = next;
            }
        }
    }
    bytes
}

/// The depth of a bucket without a configured burst, in bytes: two packets, and 10 ms at the rate.
fn depth(rate: u64) -> u64 {
    3000 + rate / 800
}

#[test]
fn a_limit_holds_over_hours_without_drift() {
    for bps in [333_333, 1_000_003, 7] {
        let mut rig = Rig::new(Kind::Htb.build());
        rig.add_spec(class(0, bps));
        let seconds = 5 * 3600;
        let bytes = serve(&mut rig, 100_000_000, Nanos(seconds * SECOND))[0];
        let exact = bps * seconds / 8 + depth(bps);
        assert!(
            (exact - 1500..=exact).contains(&bytes),
            "{bps} bit/s: {bytes} bytes of the {exact} that the limit allows"
        );
    }
}

#[test]
fn guaranteed_rates_come_first_and_the_rest_is_shared_by_weight() {
    let mut rig = Rig::new(Kind::Htb.build());
    rig.add_spec(class(2_000_000, 0));
    rig.add_spec(FlowSpec { weight: 3, ..class(1_000_000, 0) });
    let bytes = serve(&mut rig, 10_000_000, Nanos(80 * SECOND));
    // 7 Mbit/s remain and are shared 1:3.
    for (got, exact) in bytes.iter().zip([37_500_000, 62_500_000u64]) {
        assert!(got.abs_diff(exact) < 8 * 1500 + depth(2_000_000), "{bytes:?}");
    }
}

#[test]
fn a_lower_priority_gets_only_its_guaranteed_rate() {
    let mut rig = Rig::new(Kind::Htb.build());
    rig.add_spec(class(0, 0));
    rig.add_spec(FlowSpec { priority: 1, weight: 1000, ..class(1_000_000, 0) });
    rig.add_spec(FlowSpec { priority: 2, ..class(0, 0) });
    let bytes = serve(&mut rig, 10_000_000, Nanos(80 * SECOND));
    assert!(bytes[1].abs_diff(10_000_000) <= 3000 + depth(1_000_000), "{bytes:?}");
    assert_eq!(bytes[2], 0);
}

#[test]
fn the_rate_that_a_limited_class_leaves_goes_to_the_others() {
    let mut rig = Rig::new(Kind::Htb.build());
    rig.add_spec(class(1_000_000, 2_000_000));
    rig.add_spec(class(1_000_000, 0));
    let bytes = serve(&mut rig, 10_000_000, Nanos(80 * SECOND));
    assert!(bytes[0].abs_diff(20_000_000) <= 3000 + depth(2_000_000), "{bytes:?}");
    assert!(bytes[1].abs_diff(80_000_000) <= 6000 + depth(2_000_000), "{bytes:?}");
}

#[test]
fn guarantees_beyond_the_link_are_kept_in_proportion() {
    let mut rig = Rig::new(Kind::Htb.build());
    rig.add_spec(class(30_000_000, 0));
    rig.add_spec(FlowSpec { weight: 50, ..class(10_000_000, 0) });
    let bytes = serve(&mut rig, 20_000_000, Nanos(80 * SECOND));
    assert!(bytes[0].abs_diff(150_000_000) <= 3000 + depth(30_000_000), "{bytes:?}");
}

#[test]
fn a_raised_limit_releases_waiting_packets_earlier() {
    let mut rig = Rig::new(Kind::Htb.build());
    let flow = rig.add_spec(FlowSpec { burst: 1500, ..class(0, 8_000) });
    rig.send(flow, 1500);
    rig.send(flow, 1500);
    assert!(rig.take().is_some() && rig.take().is_none());
    // 1500 bytes at 1000 bytes per second.
    assert_eq!(rig.scheduler.next_event(), Some(Nanos(1_500_000_000)));
    rig.now = Nanos(SECOND / 2);
    let state = rig.flows[&flow].clone();
    rig.scheduler.change_flow(
        rig.now,
        &mut rig.pool,
        state.slot,
        &FlowSpec { ceil: 16_000, ..state.spec },
    );
    assert_eq!(rig.scheduler.next_event(), Some(Nanos(SECOND)));
    rig.scheduler.change_flow(
        rig.now,
        &mut rig.pool,
        state.slot,
        &FlowSpec { ceil: 0, ..state.spec },
    );
    assert_eq!(rig.scheduler.next_event(), Some(rig.now));
    assert!(rig.take().is_some());
}

#[test]
fn a_packet_longer_than_the_bucket_passes_and_makes_the_tokens_negative() {
    let mut rig = Rig::new(Kind::Htb.build());
    let flow = rig.add_spec(FlowSpec { burst: 1500, ..class(0, 8_000_000) });
    rig.send(flow, 61_500);
    rig.send(flow, 1500);
    assert_eq!(rig.take(), Some((flow, 61_500)));
    assert_eq!(rig.take(), None);
    // 60000 bytes are owed and 1500 are needed, at one byte per microsecond.
    assert_eq!(rig.scheduler.next_event(), Some(Nanos(61_500_000)));
}

/// A `usize` selects a flow; a `u32` is a length, a `u64` a time in ns.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Add(FlowSpec),
    Send(usize, u32),
    Take,
    Wait(u64),
    Change(usize, FlowSpec),
    Remove(usize),
}

fn spec() -> impl Strategy<Value = FlowSpec> {
    let rate = || prop_oneof![2 => Just(0u64), 1 => 1u64..100, 3 => 100_000u64..100_000_000, 1 => Just(u64::MAX)];
    let burst = prop_oneof![Just(0u32), 1u32..10_000, Just(u32::MAX)];
    (rate(), rate(), burst, 1u32..70_000, 0u32..70, 0u32..70_000).prop_map(
        |(rate, ceil, burst, weight, priority, max_packet)| FlowSpec {
            rate,
            ceil,
            burst,
            weight,
            priority,
            max_packet,
            ..FlowSpec::default()
        },
    )
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        2 => spec().prop_map(Operation::Add),
        12 => (0usize..20, prop_oneof![0u32..1501, Just(4 << 20)]).prop_map(|(f, len)| Operation::Send(f, len)),
        9 => Just(Operation::Take),
        4 => prop_oneof![1u64..2_000_000, Just(1 << 40)].prop_map(Operation::Wait),
        2 => (0usize..20, spec()).prop_map(|(f, s)| Operation::Change(f, s)),
        1 => (0usize..20).prop_map(Operation::Remove),
    ];
    proptest::collection::vec(operation, 1..300)
}

/// Performs operations. Checks that no packet is lost, that a packet can be taken at the announced
/// time, and that all packets leave at [`Nanos::MAX`].
struct Operate<'a>(&'a [Operation]);

impl Visitor for Operate<'_> {
    type Output = ();

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) {
        let mut rig = Rig::new(scheduler);
        rig.add_spec(class(1_000_000, 2_000_000));
        for &operation in self.0 {
            let nth =
                |rig: &Rig<_>, n: usize| rig.flows.keys().copied().nth(n % rig.flows.len().max(1));
            match operation {
                Operation::Add(spec) => {
                    rig.add_spec(spec);
                }
                Operation::Send(n, len) => {
                    if let Some(flow) = nth(&rig, n) {
                        rig.send(flow, len);
                    }
                }
                Operation::Take => {
                    if rig.take().is_none() && rig.inside() > 0 {
                        let next = rig.scheduler.next_event();
                        assert!(next.is_none_or(|next| next > rig.now));
                        if let Some(next) = next {
                            rig.now = next;
                            assert!(rig.take().is_some(), "no packet at the announced time");
                        }
                    }
                }
                Operation::Wait(span) => {
                    rig.now = Nanos(rig.now.0.saturating_add(span)).min(Nanos(u64::MAX / 2));
                }
                Operation::Change(n, spec) => {
                    if let Some(flow) = nth(&rig, n) {
                        let state = rig.flows.get_mut(&flow).unwrap();
                        state.spec = FlowSpec { flow, ..spec };
                        let (slot, spec) = (state.slot, state.spec);
                        rig.scheduler.change_flow(rig.now, &mut rig.pool, slot, &spec);
                    }
                }
                Operation::Remove(n) => {
                    if let Some(flow) = nth(&rig, n) {
                        rig.remove(flow);
                    }
                }
            }
            assert_eq!(rig.scheduler.len(), rig.inside());
        }
        rig.now = Nanos::MAX;
        while rig.take().is_some() {}
        assert_eq!((rig.inside(), rig.scheduler.len(), rig.scheduler.backlog()), (0, 0, 0));
    }
}

/// The packets of two classes in their order of departure: class, and time in ms.
struct Turns;

impl Visitor for Turns {
    type Output = Vec<(u32, u64)>;

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> Self::Output {
        let mut rig = Rig::new(scheduler);
        for rate in [4_000_000, 2_000_000] {
            let flow = rig.add_spec(FlowSpec { burst: 3000, ..class(rate, rate) });
            (0..6).for_each(|_| rig.send(flow, 1500));
        }
        let mut taken = Vec::new();
        while rig.inside() > 0 {
            let (flow, _) = rig.take_in_time().unwrap();
            taken.push((flow, rig.now.0 / 1_000_000));
        }
        taken
    }
}

#[test]
fn the_variant_of_linux_sends_until_tokens_are_negative_and_takes_turns() {
    // At the classes' rates, a packet takes 3 ms and 6 ms. Three packets of each class leave at
    // once: the buckets have tokens for two packets and let one more pass. The first turn of each
    // class is one packet long.
    let linux = htb("linux").visit(Turns);
    let start = [(0, 0), (1, 0), (0, 0), (0, 0), (1, 0), (1, 0)];
    assert_eq!(linux, [&start[..], &[(0, 3), (0, 6), (1, 6), (0, 9), (1, 12), (1, 18)]].concat());
    // With `exact`, two packets of each class leave at once, and each later packet leaves when
    // there are tokens for it.
    let exact = htb("exact").visit(Turns);
    let start = [(0, 0), (1, 0), (0, 0), (1, 0)];
    let rest = [(0, 3), (0, 6), (1, 6), (0, 9), (0, 12), (1, 12), (1, 18), (1, 24)];
    assert_eq!(exact, [&start[..], &rest].concat());
}

fn htb(variant: &str) -> Discipline {
    let mut discipline = Discipline::new(Kind::Htb);
    discipline.set("variant", variant).unwrap();
    discipline
}

proptest! {
    #[test]
    fn classes_keep_their_packets_and_times_under_any_sequence(operations in operations()) {
        for variant in ["exact", "linux"] {
            htb(variant).visit(Operate(&operations));
        }
    }

    /// For any arrivals, a class sends at most its limit plus the depth of its bucket within any
    /// window.
    #[test]
    fn no_window_exceeds_the_limit(
        ceil in 100_000u64..50_000_000, burst in 1500u32..20_000, packets in proptest::collection::vec((40u32..1501, 0u64..3_000_000), 1..200),
    ) {
        let mut rig = Rig::new(Kind::Htb.build());
        let flow = rig.add_spec(FlowSpec { burst, ..class(ceil / 2, ceil) });
        let mut sent: Vec<(u64, u64)> = Vec::new();
        for (len, gap) in packets {
            rig.send(flow, len);
            let end = Nanos(rig.now.0 + gap);
            loop {
                while let Some((_, len)) = rig.take() {
                    sent.push((rig.now.0, u64::from(len)));
                }
                match rig.scheduler.next_event() {
                    Some(next) if next <= end => rig.now = next,
                    _ => break,
                }
            }
            rig.now = end;
        }
        for first in 0..sent.len() {
            let mut bytes = 0;
            for &(time, len) in &sent[first..] {
                bytes += len;
                let most = u128::from(burst) * 8 * u128::from(SECOND) + u128::from(ceil) * u128::from(time - sent[first].0);
                prop_assert!(u128::from(bytes) * 8 * u128::from(SECOND) <= most);
            }
        }
    }
}

mod in_the_emulator {
    use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, SchedulerConfig};
    use weir_core::key::FlowKey;
    use weir_core::packet::Ecn;
    use weir_core::sched::Kind;
    use weir_core::{Action, Arrival, Emulator, Limits, Nanos, Rate};

    fn emulator(ceil: u64) -> Emulator {
        let mut emulator = Emulator::new(1, Limits::default());
        let link = LinkConfig {
            capacity: Capacity::Constant(Rate::new(100_000_000).unwrap()),
            ..LinkConfig::default()
        };
        emulator.set_scheduler(
            Nanos::ZERO,
            1,
            &SchedulerConfig { discipline: Kind::Htb.into(), ..SchedulerConfig::default() },
            &link,
        );
        emulator.set_queue(Nanos::ZERO, 1, 1, &bounded(ceil));
        emulator
    }

    fn bounded(ceil: u64) -> FlowsetConfig {
        FlowsetConfig {
            ceil: Rate::new(ceil),
            burst: weir_core::Bytes(1500),
            ..FlowsetConfig::default()
        }
    }

    fn submit(emulator: &mut Emulator, now: u64, frame: u32) {
        let arrival =
            Arrival { frame, len: 1000, link_header: 14, segments: 1, ecn: Ecn::NotEct, label: 0 };
        emulator.submit(Nanos(now), arrival, &FlowKey::default(), Action::Queue(1)).unwrap();
    }

    /// The due times are the same whether the driver polls at each event or only at the arrivals.
    #[test]
    fn a_late_poll_does_not_delay_a_release() {
        let dues = |eager: bool| {
            let (mut emulator, mut out) = (emulator(8_000_000), Vec::new());
            for frame in 0..20 {
                let now = u64::from(frame / 5) * 10_000_000;
                if eager {
                    while let Some(next) = emulator.next_event().filter(|next| next.0 <= now) {
                        emulator.poll(next, &mut out);
                    }
                }
                submit(&mut emulator, now, frame);
            }
            emulator.poll(Nanos(1_000_000_000), &mut out);
            out.iter().map(|d| (d.frame, d.due)).collect::<Vec<_>>()
        };
        assert_eq!(dues(true).len(), 20);
        assert_eq!(dues(true), dues(false));
    }

    #[test]
    fn a_new_limit_applies_to_waiting_packets() {
        let (mut emulator, mut out) = (emulator(8_000), Vec::new());
        for frame in 0..3 {
            submit(&mut emulator, 0, frame);
        }
        emulator.poll(Nanos(1_000_000), &mut out);
        assert_eq!((out.len(), emulator.next_event()), (1, Some(Nanos(500_000_000))));
        emulator.set_queue(Nanos(100_000_000), 1, 1, &bounded(0));
        emulator.poll(Nanos(101_000_000), &mut out);
        assert_eq!(out.len(), 3);
    }
}
