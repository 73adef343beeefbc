//! Trees of PIFOs: compared with the exact queue and with lists, shares at each level, and rate
//! limits in exact arithmetic.

use crate::common;

use proptest::prelude::*;
use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, SchedulerConfig};
use weir_core::key::FlowKey;
use weir_core::packet::Ecn;
use weir_core::sched::{
    Discipline, FlowSpec, Kind, NodeSpec, Pifo, PifoTree, Ranking, Scheduler, TreeSpec,
};
use weir_core::{Action, Arrival, Bytes, Emulator, Fate, Limits, Nanos, Rate};

use common::Rig;

fn discipline(kind: Kind, settings: &[(&str, &str)]) -> Discipline {
    let mut discipline = Discipline::new(kind);
    for (name, value) in settings {
        discipline.set(name, value).unwrap();
    }
    discipline
}

fn tree(settings: &[(&str, &str)]) -> Rig<PifoTree> {
    Rig::new(PifoTree::new(&discipline(Kind::PifoTree, settings)))
}

fn order<S: Scheduler>(rig: &mut Rig<S>) -> Vec<u32> {
    std::iter::from_fn(|| rig.take()).map(|(flow, _)| flow).collect()
}

/// A step of a test. `Wait` is in ns.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send { flow: u32, len: u32, label: u64 },
    Take,
    Wait(u64),
}

fn steps(flows: u32) -> impl Strategy<Value = Vec<Step>> {
    let label = prop_oneof![2 => Just(0u64), 3 => 1u64..200];
    let step = prop_oneof![
        6 => (0..flows, 40u32..1501, label).prop_map(|(flow, len, label)| Step::Send { flow, len, label }),
        4 => Just(Step::Take),
        1 => (0u64..100).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..250)
}

fn specs() -> impl Strategy<Value = Vec<FlowSpec>> {
    let spec = (prop_oneof![1u32..5, 1u32..65_537], 0u32..4, 0u64..150).prop_map(
        |(weight, priority, deadline)| FlowSpec {
            weight,
            priority,
            deadline: Nanos(deadline),
            ..FlowSpec::default()
        },
    );
    proptest::collection::vec(spec, 5)
}

/// A tree of two levels as lists. The rank is the arrival time plus the slack at the root (LSTF),
/// and the slack in the classes (FIFO+).
#[derive(Default)]
struct Lists {
    arrivals: u64,
    /// Rank, number of the arrival, class.
    root: Vec<(u64, u64, u32)>,
    /// Rank, number of the arrival, flow; in the order of arrival.
    classes: [Vec<(u64, u64, u32)>; 4],
}

impl Lists {
    fn send(&mut self, now: u64, flow: u32, class: u32, slack: u64) {
        self.arrivals += 1;
        let list = &mut self.classes[class as usize];
        for older in list.iter_mut().filter(|turn| turn.2 == flow && turn.0 > slack) {
            (older.0, older.1) = (slack, self.arrivals);
        }
        list.push((slack, self.arrivals, flow));
        self.root.push((now + slack, self.arrivals, class));
    }

    fn take(&mut self) -> Option<u32> {
        let best = self.root.iter().copied().min()?;
        self.root.retain(|turn| *turn != best);
        let list = &mut self.classes[best.2 as usize];
        let flow = list.iter().min()?.2;
        let oldest = list.iter().position(|turn| turn.2 == flow)?;
        list.remove(oldest);
        Some(flow)
    }
}

/// An operation on a tree with rate limits. A `usize` selects a flow; a `u32` is a length, a `u64`
/// a time in ns.
#[derive(Clone, Copy, Debug)]
enum Event {
    Add(FlowSpec),
    Change(usize, FlowSpec),
    Remove(usize),
    Send(usize, u32),
    Take,
    Wait(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let ceil = prop_oneof![Just(0u64), 1u64..1000, 1_000_000u64..1_000_000_000];
    let spec = || {
        (1u32..100, 0u32..6, ceil.clone(), prop_oneof![Just(0u32), 1u32..5000]).prop_map(
            |(weight, priority, ceil, burst)| FlowSpec {
                weight,
                priority,
                ceil,
                burst,
                ..FlowSpec::default()
            },
        )
    };
    let event = prop_oneof![
        2 => spec().prop_map(Event::Add),
        2 => (0usize..9, spec()).prop_map(|(n, spec)| Event::Change(n, spec)),
        1 => (0usize..9).prop_map(Event::Remove),
        12 => (0usize..9, 40u32..1501).prop_map(|(n, len)| Event::Send(n, len)),
        8 => Just(Event::Take),
        4 => (0u64..3_000_000).prop_map(Event::Wait),
    ];
    proptest::collection::vec(event, 1..300)
}

/// A tree with two limits: one at a child of the root, and one at a child of that node.
fn deep() -> TreeSpec {
    let mut spec = TreeSpec::new(Ranking::Stfq);
    let left = spec.add(
        TreeSpec::ROOT,
        NodeSpec {
            rank: Ranking::Prio,
            weight: 3,
            ceil: 40_000_000,
            burst: 2000,
            ..NodeSpec::default()
        },
    );
    let right = spec.add(TreeSpec::ROOT, NodeSpec { rank: Ranking::Srpt, ..NodeSpec::default() });
    let below = spec.add(
        left,
        NodeSpec { rank: Ranking::Las, priority: 1, ceil: 9_000_000, ..NodeSpec::default() },
    );
    for (priority, node) in [(0, left), (1, right), (2, below), (3, below)] {
        spec.assign_priority(priority, node);
    }
    spec.assign_flow(4, below);
    spec
}

/// Sends packets (flow, length, time until the next packet) through nested limits. The driver
/// handles the scheduler's events `late` ns after their times. Checks the limits in every window.
fn check_limits(packets: &[(u32, u32, u64)], late: u64) -> Result<(), TestCaseError> {
    let mut spec = TreeSpec::new(Ranking::Arrival);
    let class = spec.add(
        TreeSpec::ROOT,
        NodeSpec { rank: Ranking::Stfq, ceil: 8_000_000, burst: 3000, ..NodeSpec::default() },
    );
    spec.assign_priority(0, class);
    let mut rig = Rig::new(PifoTree::with_tree(spec));
    // Flows 0 and 1 have the limit of their class, flow 0 also has its own, and flow 2 has only its
    // own.
    for (ceil, priority) in [(3_000_000, 0), (0, 0), (5_000_000, 1)] {
        rig.add_spec(FlowSpec { ceil, priority, burst: 1500, ..FlowSpec::default() });
    }
    let mut left: Vec<(u64, u32, u32)> = Vec::new();
    let (mut next_arrival, mut at) = (0, 0u64);
    loop {
        let event = rig.scheduler.next_event().map(|t| t.0);
        let arrival = packets.get(next_arrival).map(|_| at);
        let Some(now) = event.into_iter().chain(arrival).min() else { break };
        rig.now = rig.now.max(Nanos(now));
        if arrival == Some(now) {
            let (flow, len, gap) = packets[next_arrival];
            rig.send(flow, len);
            next_arrival += 1;
            at += gap;
        } else if late > 0 {
            // No packet arrives before the driver handles the event.
            rig.now += Nanos(late);
            at = at.max(rig.now.0);
        }
        while let Some((flow, len)) = rig.take() {
            left.push((rig.now.0, flow, len));
        }
    }
    prop_assert_eq!(left.len(), packets.len());
    for (flows_of_limit, rate, depth) in [(0..2, 8u64, 3000), (2..3, 5, 1500)] {
        let passed: Vec<_> = left.iter().filter(|l| flows_of_limit.contains(&l.1)).collect();
        for i in 0..passed.len() {
            let mut bytes = 0;
            for l in &passed[i..] {
                bytes += u64::from(l.2);
                let span = l.0 - passed[i].0;
                // Both sides are in thousandths of a bit, as Mbit/s times ns are.
                prop_assert!(
                    bytes * 8000 <= rate * (span + late) + depth * 8000,
                    "{} bytes in {} ns",
                    bytes,
                    span
                );
            }
        }
    }
    Ok(())
}

#[test]
fn a_long_packet_in_the_turn_of_a_short_one_is_charged_its_own_length() {
    let packets = [
        (1, 40, 0),
        (1, 40, 0),
        (1, 1319, 0),
        (0, 847, 0),
        (0, 948, 0),
        (1, 143, 0),
        (1, 1197, 0),
        (1, 40, 0),
    ];
    check_limits(&packets, 200_667).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_of_one_node_is_a_pifo(
        ranking in 0usize..Ranking::ALL.len(),
        specs in specs(),
        steps in steps(5),
    ) {
        let mut flat =
            Rig::new(Pifo::new(&discipline(Kind::Pifo, &[("rank", Ranking::NAMES[ranking])])));
        let mut one = Rig::new(PifoTree::with_tree(TreeSpec::new(Ranking::ALL[ranking])));
        for spec in specs {
            flat.add_spec(spec);
            one.add_spec(spec);
        }
        for step in steps {
            match step {
                Step::Send { flow, len, label } => {
                    prop_assert_eq!(
                        (flat.send_labelled(flow, len, label), one.send_labelled(flow, len, label)),
                        (None, None)
                    );
                }
                Step::Take => prop_assert_eq!(flat.take(), one.take()),
                Step::Wait(ns) => {
                    flat.now += Nanos(ns);
                    one.now += Nanos(ns);
                }
            }
        }
        prop_assert_eq!(order(&mut flat), order(&mut one));
    }

    #[test]
    fn two_levels_order_like_two_lists(specs in specs(), steps in steps(5)) {
        let mut rig = tree(&[("rank", "lstf"), ("class-rank", "fifo+")]);
        let mut lists = Lists::default();
        for &spec in &specs {
            rig.add_spec(spec);
        }
        for step in steps {
            match step {
                Step::Send { flow, len, label } => {
                    let spec = specs[flow as usize];
                    let slack = if label == 0 { spec.deadline.0 } else { label };
                    lists.send(rig.now.0, flow, spec.priority, slack);
                    rig.send_labelled(flow, len, label);
                }
                Step::Take => prop_assert_eq!(rig.take().map(|t| t.0), lists.take()),
                Step::Wait(ns) => rig.now += Nanos(ns),
            }
        }
        let rest: Vec<u32> = std::iter::from_fn(|| lists.take()).collect();
        prop_assert_eq!(order(&mut rig), rest);
    }

    /// A class has the sum of its flows' weights, so backlogged flows share by weight, regardless
    /// of their classes.
    #[test]
    fn flows_share_by_weight_through_classes(
        flows in proptest::collection::vec((1u32..9, 0u32..4), 2..10),
    ) {
        let mut rig = tree(&[]);
        for &(weight, priority) in &flows {
            rig.add(weight, 1000, priority);
        }
        for flow in 0..2 * flows.len() {
            rig.send((flow % flows.len()) as u32, 1000);
        }
        let weights: u32 = flows.iter().map(|f| f.0).sum();
        let rounds = 200;
        let mut packets = vec![0u32; flows.len()];
        for _ in 0..rounds * weights {
            let (flow, len) = rig.take().unwrap();
            packets[flow as usize] += 1;
            rig.send(flow, len);
        }
        for (&(weight, _), &got) in flows.iter().zip(&packets) {
            // The bound allows one packet of the flow within its class, and one of the class at the
            // root.
            prop_assert!(got.abs_diff(rounds * weight) <= 2, "{:?} {:?}", flows, packets);
        }
    }

    /// For any operations no packet is lost, flows keep their order (which the rig asserts), and a
    /// tree that holds packets back announces the time of the next packet.
    #[test]
    fn trees_with_limits_lose_no_packet_and_announce_the_next(
        nested in any::<bool>(),
        events in events(),
    ) {
        let scheduler = if nested {
            PifoTree::with_tree(deep())
        } else {
            PifoTree::new(&Discipline::new(Kind::PifoTree))
        };
        let mut rig = Rig::new(scheduler);
        rig.add(1, 1500, 0);
        for event in events {
            let nth =
                |rig: &Rig<_>, n: usize| rig.flows.keys().copied().nth(n % rig.flows.len().max(1));
            match event {
                Event::Add(spec) => {
                    rig.add_spec(spec);
                }
                Event::Change(n, spec) => {
                    let Some(flow) = nth(&rig, n) else { continue };
                    let state = rig.flows.get_mut(&flow).unwrap();
                    state.spec = FlowSpec { flow, ..spec };
                    rig.scheduler.change_flow(rig.now, &mut rig.pool, state.slot, &state.spec);
                }
                Event::Remove(n) => {
                    if let Some(flow) = nth(&rig, n) {
                        rig.remove(flow);
                    }
                }
                Event::Send(n, len) => {
                    if let Some(flow) = nth(&rig, n) {
                        rig.send(flow, len);
                    }
                }
                Event::Take => {
                    if rig.take().is_none() {
                        let next = rig.scheduler.next_event();
                        prop_assert_eq!(next.is_some(), rig.inside() > 0);
                        prop_assert!(next.is_none_or(|next| next > rig.now));
                    }
                }
                Event::Wait(ns) => rig.now += Nanos(ns),
            }
            prop_assert_eq!(rig.scheduler.len(), rig.inside());
        }
        // Up to half of the remaining packets leave at announced times, the others at
        // [`Nanos::MAX`].
        for _ in 0..rig.inside() / 2 {
            for _ in 0..4 {
                let Some(next) = rig.scheduler.next_event() else { break };
                rig.now = rig.now.max(next);
                if rig.take().is_some() {
                    break;
                }
            }
        }
        rig.now = Nanos::MAX;
        while rig.take().is_some() {}
        prop_assert_eq!((rig.inside(), rig.scheduler.len(), rig.scheduler.backlog()), (0, 0, 0));
    }

    /// In every window, a limit passes at most its burst plus the bytes that its rate gives in the
    /// window and in the time by which the driver is late.
    #[test]
    fn limits_hold_in_every_window(
        packets in proptest::collection::vec((0u32..3, 40u32..1501, 0u64..2_000_000), 1..120),
        late in prop_oneof![Just(0u64), 1u64..300_000],
    ) {
        check_limits(&packets, late)?;
    }

    #[test]
    fn the_order_does_not_depend_on_the_origin_of_virtual_time(
        before in 0u64..1 << 40,
        specs in specs(),
        steps in steps(5),
    ) {
        let play = |epoch: u64| {
            let mut rig =
                Rig::new(PifoTree::new(&Discipline::new(Kind::PifoTree).starting_at(epoch)));
            for &spec in &specs {
                rig.add_spec(spec);
            }
            let mut seen = Vec::new();
            for &step in &steps {
                match step {
                    Step::Send { flow, len, .. } => rig.send(flow, len),
                    Step::Take => seen.extend(rig.take()),
                    Step::Wait(_) => {}
                }
            }
            seen
        };
        let plain = play(0);
        for epoch in [1, (1 << 63) - before, u64::MAX - before] {
            prop_assert_eq!(&play(epoch), &plain);
        }
    }
}

/// The unused share of a flow stays in its class, as in hierarchical packet fair queueing.
#[test]
fn classes_share_first_and_flows_within_them() {
    let mut spec = TreeSpec::new(Ranking::Stfq);
    let quarter = spec.add(TreeSpec::ROOT, NodeSpec { weight: 1, ..NodeSpec::default() });
    let rest = spec.add(TreeSpec::ROOT, NodeSpec { weight: 3, ..NodeSpec::default() });
    for (flow, node) in [(0, quarter), (1, quarter), (2, rest)] {
        spec.assign_flow(flow, node);
    }
    let mut rig = Rig::new(PifoTree::with_tree(spec));
    for weight in [1, 2, 60_000] {
        let flow = rig.add(weight, 1000, 0);
        rig.send(flow, 1000);
        rig.send(flow, 1000);
    }
    let serve = |rig: &mut Rig<PifoTree>, busy: &[u32]| {
        let mut packets = [0i32; 3];
        for _ in 0..1200 {
            let (flow, len) = rig.take().unwrap();
            packets[flow as usize] += 1;
            if busy.contains(&flow) {
                rig.send(flow, len);
            }
        }
        packets
    };
    let near = |got: [i32; 3], expected: [i32; 3]| {
        got.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 3)
    };
    let all = serve(&mut rig, &[0, 1, 2]);
    assert!(near(all, [100, 200, 900]), "{all:?}");
    // Flow 1 ends. Its share goes to flow 0, not to the other class.
    let two = serve(&mut rig, &[0, 2]);
    assert!(near(two, [298, 2, 900]), "{two:?}");
    // Flow 0 ends too, and with it the class. The share of the class goes to the other class.
    let one = serve(&mut rig, &[2]);
    assert!(near(one, [2, 0, 1198]), "{one:?}");
}

#[test]
fn strict_classes_are_served_first_and_share_by_weight_within() {
    let mut rig = tree(&[("rank", "prio")]);
    let late = rig.add(60_000, 1500, 5);
    let (a, b) = (rig.add(1, 1500, 2), rig.add(3, 1500, 2));
    rig.send(late, 1000);
    for _ in 0..4 {
        rig.send(a, 300);
        rig.send(b, 300);
    }
    // The starts are 0 300 600 900 and 0 100 200 300.
    assert_eq!(order(&mut rig), [a, b, b, b, a, b, a, a, late]);
    // A flow that changes its class takes its packets along.
    for flow in [a, a, late, late] {
        rig.send(flow, 100);
    }
    rig.change(late, 1, 0);
    assert_eq!(order(&mut rig), [late, late, a, a]);
}

#[test]
fn a_limit_is_exact_over_years() {
    let mut spec = TreeSpec::new(Ranking::Stfq);
    // At 7 bit/s the transmission of a byte is not a whole number of nanoseconds.
    let slow = spec.add(TreeSpec::ROOT, NodeSpec { ceil: 7, burst: 1500, ..NodeSpec::default() });
    spec.assign_priority(0, slow);
    let mut rig = Rig::new(PifoTree::with_tree(spec));
    let flow = rig.add(1, 1500, 0);
    let packets = 2_000_000u64;
    for n in 1..=packets {
        if rig.inside() == 0 {
            for _ in 0..50 {
                rig.send(flow, 100);
            }
        }
        while rig.take().is_none() {
            let next = rig.scheduler.next_event().unwrap();
            assert!(next > rig.now);
            rig.now = next;
        }
        let bits = (n * 800).saturating_sub(1500 * 8);
        assert_eq!(rig.now.0, (bits * 1_000_000_000).div_ceil(7), "packet {n}");
    }
}

#[test]
fn a_link_serves_a_limited_flow_on_time_and_others_in_between() {
    let mut emulator = Emulator::new(1, Limits::default());
    let scheduler =
        SchedulerConfig { discipline: Kind::PifoTree.into(), ..SchedulerConfig::default() };
    let rate = |bps| Rate::new(bps).unwrap();
    emulator.set_scheduler(
        Nanos::ZERO,
        1,
        &scheduler,
        &LinkConfig { capacity: Capacity::Constant(rate(80_000_000)), ..LinkConfig::default() },
    );
    for (id, ceil) in [(1, Some(rate(8_000_000))), (2, None)] {
        emulator.set_queue(
            Nanos::ZERO,
            id,
            1,
            &FlowsetConfig { ceil, burst: Bytes(1500), ..FlowsetConfig::default() },
        );
    }
    for frame in 0..30u32 {
        let arrival =
            Arrival { frame, len: 1000, link_header: 14, segments: 1, ecn: Ecn::NotEct, label: 0 };
        let queue = if frame < 10 { 1 } else { 2 };
        emulator.submit(Nanos::ZERO, arrival, &FlowKey::default(), Action::Queue(queue)).unwrap();
    }
    let mut out = Vec::new();
    while let Some(next) = emulator.next_event() {
        emulator.poll(next, &mut out);
    }
    assert!(out.len() == 30 && out.iter().all(|d| matches!(d.fate, Fate::Deliver { .. })));
    // 1500 bytes may leave at once, then 1000 bytes per millisecond. A packet takes 0.1 ms on the
    // wire.
    for departure in out.iter().filter(|d| d.frame < 10) {
        let tokens = (u64::from(departure.frame) * 1_000_000).saturating_sub(500_000);
        assert!((tokens..=tokens + 100_000).contains(&departure.dequeued.0), "{departure:?}");
    }
    let free = out.iter().filter(|d| d.frame >= 10).map(|d| d.dequeued.0).max();
    assert!(free.is_some_and(|last| last <= 2_400_000), "{free:?}");
}
