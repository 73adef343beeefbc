//! Schedulers that rank packets: the exact queue compared with a sorted list, an example computed
//! by hand for each rank, and the approximations with their counters.

use crate::common;

use proptest::prelude::*;
use weir_core::Nanos;
use weir_core::sched::{
    Aifo, Discipline, FlowSpec, Kind, Pifo, Ranking, Scheduler, SpPifo, StrictSlices,
};

use common::Rig;

fn discipline(kind: Kind, settings: &[(&str, &str)]) -> Discipline {
    let mut discipline = Discipline::new(kind);
    for (name, value) in settings {
        discipline.set(name, value).unwrap();
    }
    discipline
}

fn pifo(settings: &[(&str, &str)]) -> Rig<Pifo> {
    Rig::new(Pifo::new(&discipline(Kind::Pifo, settings)))
}

/// Takes all packets, and returns their flows in order.
fn order<S: Scheduler>(rig: &mut Rig<S>) -> Vec<u32> {
    std::iter::from_fn(|| rig.take()).map(|(flow, _)| flow).collect()
}

fn variable(scheduler: &impl Scheduler, name: &str) -> u64 {
    scheduler.variables().into_iter().find(|f| f.0 == name).unwrap().1
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    flow: u32,
    len: u32,
    /// Rank and number of the arrival.
    key: (u64, usize),
}

#[derive(Clone, Copy, Debug, Default)]
struct FlowState {
    spec: FlowSpec,
    /// The virtual finish of the last packet.
    finish: u64,
    /// The remainder of the division that gave `finish`.
    rest: u64,
    /// The part of `attained` since the flow was last empty.
    job: u64,
    /// The bytes of all packets that were accepted and not pushed out.
    attained: u64,
}

/// A PIFO as a list in the order of arrival.
#[derive(Debug)]
struct Model {
    ranking: Ranking,
    limit: usize,
    flows: Vec<FlowState>,
    list: Vec<Waiting>,
    arrivals: usize,
    virtual_time: u64,
    latest: u64,
}

impl Model {
    fn rank(&self, flow: u32, now: u64, len: u32, label: u64) -> u64 {
        let state = &self.flows[flow as usize];
        let inside: u64 =
            self.list.iter().filter(|w| w.flow == flow).map(|w| u64::from(w.len)).sum();
        let or = |other: u64| if label > 0 { label } else { other };
        match self.ranking {
            Ranking::Stfq => state.finish.max(self.virtual_time),
            Ranking::Lstf => now + or(state.spec.deadline.0),
            Ranking::Edf => or(now + state.spec.deadline.0),
            Ranking::Srpt => or(inside + u64::from(len)),
            Ranking::Sjf => or(if inside == 0 { 0 } else { state.job } + u64::from(len)),
            Ranking::Las => state.attained,
            Ranking::FifoPlus => or(state.spec.deadline.0),
            Ranking::Prio => u64::from(state.spec.priority),
            Ranking::Arrival => now,
        }
    }

    /// Adds a packet. If the model is full, returns the flow of the packet that is refused or
    /// pushed out.
    fn send(&mut self, flow: u32, now: u64, len: u32, label: u64) -> Option<u32> {
        let rank = self.rank(flow, now, len, label);
        let mut refused_flow = None;
        if self.list.len() == self.limit {
            let index = (0..self.list.len()).max_by_key(|&i| (self.list[i].key, i)).unwrap();
            if self.list[index].key.0 <= rank {
                return Some(flow);
            }
            let out = self.list.remove(index);
            let state = &mut self.flows[out.flow as usize];
            state.finish = out.key.0;
            state.rest = 0;
            state.job -= u64::from(out.len);
            state.attained -= u64::from(out.len);
            refused_flow = Some(out.flow);
        }
        let key = (rank, self.arrivals);
        self.arrivals += 1;
        let first = self.list.iter().all(|w| w.flow != flow);
        for older in self.list.iter_mut().filter(|w| w.flow == flow && w.key.0 > rank) {
            older.key = key;
        }
        self.list.push(Waiting { flow, len, key });
        let state = &mut self.flows[flow as usize];
        let weight = u64::from(state.spec.weight);
        let service = u64::from(len) * (1 << 20) + state.rest;
        (state.finish, state.rest) = (rank + service / weight, service % weight);
        self.latest = self.latest.max(state.finish);
        state.job = if first { 0 } else { state.job } + u64::from(len);
        state.attained += u64::from(len);
        refused_flow
    }

    fn take(&mut self) -> Option<(u32, u32)> {
        let best = self.list.iter().min_by_key(|w| w.key)?;
        let (flow, key) = (best.flow, best.key);
        let oldest = self.list.iter().position(|w| w.flow == flow).unwrap();
        let out = self.list.remove(oldest);
        self.virtual_time = self.virtual_time.max(key.0);
        if self.list.is_empty() {
            self.virtual_time = self.virtual_time.max(self.latest);
        }
        Some((out.flow, out.len))
    }
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_pifo_orders_like_a_sorted_list(
        ranking in 0usize..Ranking::ALL.len(),
        limit in prop_oneof![Just(0usize), 1usize..12],
        specs in specs(),
        steps in steps(5),
    ) {
        let mut rig = pifo(&[("rank", Ranking::NAMES[ranking]), ("limit", &limit.to_string())]);
        let mut model = Model {
            ranking: Ranking::ALL[ranking],
            limit: if limit == 0 { usize::MAX } else { limit },
            flows: specs.iter().map(|&spec| FlowState { spec, ..FlowState::default() }).collect(),
            list: Vec::new(),
            arrivals: 0,
            virtual_time: 0,
            latest: 0,
        };
        for spec in specs {
            rig.add_spec(spec);
        }
        let mut lost = 0;
        for step in steps {
            match step {
                Step::Send { flow, len, label } => {
                    let loser = rig.send_labelled(flow, len, label);
                    prop_assert_eq!(loser, model.send(flow, rig.now.0, len, label));
                    prop_assert!(limit == 0 || rig.inside() <= limit);
                    lost += u64::from(loser.is_some());
                }
                Step::Take => prop_assert_eq!(rig.take(), model.take()),
                Step::Wait(ns) => rig.now += Nanos(ns),
            }
        }
        prop_assert_eq!(
            variable(&rig.scheduler, "refused") + variable(&rig.scheduler, "pushed-out"),
            lost
        );
        while let Some(taken) = model.take() {
            prop_assert_eq!(rig.take(), Some(taken));
        }
        prop_assert_eq!(rig.take(), None);
    }

    /// There are no inversions: the served flow has a packet with the lowest rank of all.
    #[test]
    fn a_pifo_serves_the_flow_with_the_lowest_rank(steps in steps(6)) {
        let mut rig = pifo(&[("rank", "srpt")]);
        for _ in 0..6 {
            rig.add(1, 1500, 0);
        }
        let mut labels = vec![std::collections::VecDeque::new(); 6];
        for step in steps {
            match step {
                Step::Send { flow, len, label } => {
                    rig.send_labelled(flow, len, label + 1);
                    labels[flow as usize].push_back(label + 1);
                }
                Step::Take => {
                    let least = labels.iter().flatten().min().copied();
                    let Some((flow, _)) = rig.take() else { continue };
                    prop_assert!(labels[flow as usize].iter().min() == least.as_ref());
                    labels[flow as usize].pop_front();
                }
                Step::Wait(_) => {}
            }
        }
    }

    /// Start-time fair queueing: for two backlogged flows, the bytes served divided by the weight
    /// differ by at most one packet of each flow, divided by that flow's weight.
    #[test]
    fn stfq_shares_by_weight_within_a_packet_of_each_flow(
        flows in proptest::collection::vec((prop_oneof![1u32..9, 1u32..=65_536], 64u32..1501), 2..10),
        seed in any::<u32>(),
    ) {
        let mut rig = pifo(&[]);
        let mut random = seed;
        let mut size = |most: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            most - (random >> 8) % (most / 2)
        };
        for &(weight, largest) in &flows {
            let flow = rig.add(weight, largest, 0);
            rig.send(flow, size(largest));
            rig.send(flow, size(largest));
        }
        let mut bytes = vec![0u128; flows.len()];
        for _ in 0..1500 {
            let (flow, len) = rig.take().unwrap();
            bytes[flow as usize] += u128::from(len);
            rig.send(flow, size(flows[flow as usize].1));
            for i in 0..flows.len() {
                for j in 0..i {
                    let ((a, la), (b, lb)) = (flows[i], flows[j]);
                    let (a, b, la, lb) =
                        (u128::from(a), u128::from(b), u128::from(la), u128::from(lb));
                    let apart = (bytes[i] * b).abs_diff(bytes[j] * a);
                    // The last terms allow for the rounding of virtual times: for each flow, a
                    // millionth of a byte per unit of weight.
                    prop_assert!(
                        apart <= la * b + lb * a + a * b / 500_000 + 1,
                        "{:?} {:?}: {}",
                        flows[i],
                        flows[j],
                        apart
                    );
                }
            }
        }
    }

    /// The approximations count the same inversions as a list, and keep the order within every flow
    /// (which the rig asserts).
    #[test]
    fn inversions_are_counted_exactly(
        kind in 0usize..3,
        queues in 1u32..6,
        depth in 0u32..6,
        specs in specs(),
        steps in steps(5),
    ) {
        let (queues, depth) = (queues.to_string(), depth.to_string());
        let (kind, settings) = [
            (Kind::SpPifo, vec![("rank", "lstf"), ("queues", &*queues), ("depth", &*depth)]),
            (
                Kind::StrictSlices,
                vec![("rank", "fifo+"), ("queues", &*queues), ("depth", &*depth), ("width", "40")],
            ),
            (Kind::Aifo, vec![("rank", "lstf"), ("limit", "9"), ("window", "5")]),
        ][kind]
            .clone();
        discipline(kind, &settings).visit(Counted {
            specs,
            steps,
            with_now: kind != Kind::StrictSlices,
        });
    }

    /// The order is the same even if the virtual time is about to be set back.
    #[test]
    fn the_order_does_not_depend_on_the_origin_of_virtual_time(
        kind in 0usize..3,
        before in 0u64..1 << 40,
        specs in specs(),
        steps in steps(5),
    ) {
        let kind = [Kind::Pifo, Kind::SpPifo, Kind::Aifo][kind];
        let limited = discipline(kind, if kind == Kind::Pifo { &[("limit", "20")] } else { &[] });
        let plain = limited.visit(Played { specs: specs.clone(), steps: steps.clone() });
        for epoch in [1, (1 << 63) - before, u64::MAX - before] {
            let other = limited
                .starting_at(epoch)
                .visit(Played { specs: specs.clone(), steps: steps.clone() });
            prop_assert_eq!(&other, &plain);
        }
    }
}

/// Performs steps, and compares the counters with those of a list.
struct Counted {
    specs: Vec<FlowSpec>,
    steps: Vec<Step>,
    /// Whether the rank is the slack plus the time of arrival.
    with_now: bool,
}

impl weir_core::sched::Visitor for Counted {
    type Output = ();

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) {
        let mut rig = Rig::new(scheduler);
        let mut inside: Vec<(u32, u64)> = Vec::new();
        let (mut pairs, mut services, mut apart, mut refused) = (0, 0, 0, 0);
        for &spec in &self.specs {
            rig.add_spec(spec);
        }
        let takes = std::iter::repeat_n(Step::Take, self.steps.len());
        for step in self.steps.iter().copied().chain(takes) {
            match step {
                Step::Send { flow, len, label } => {
                    let slack =
                        if label == 0 { self.specs[flow as usize].deadline.0 } else { label };
                    let rank = slack + if self.with_now { rig.now.0 } else { 0 };
                    match rig.send_labelled(flow, len, label) {
                        None => inside.push((flow, rank)),
                        Some(_) => refused += 1,
                    }
                }
                Step::Take => {
                    let Some((flow, _)) = rig.take() else { continue };
                    let index = inside.iter().position(|p| p.0 == flow).unwrap();
                    let (_, rank) = inside.remove(index);
                    let lower: Vec<u64> =
                        inside.iter().filter(|p| p.1 < rank).map(|p| rank - p.1).collect();
                    pairs += lower.len() as u64;
                    services += u64::from(!lower.is_empty());
                    apart += lower.iter().sum::<u64>();
                }
                Step::Wait(ns) => rig.now += Nanos(ns),
            }
        }
        let variables = ["inversions", "inverted", "unpifoness", "refused"]
            .map(|name| variable(&rig.scheduler, name));
        assert_eq!(variables, [pairs, services, apart, refused]);
    }
}

/// Performs steps; returns the refused and served flows in order, and the scheduler's variables.
struct Played {
    specs: Vec<FlowSpec>,
    steps: Vec<Step>,
}

impl weir_core::sched::Visitor for Played {
    type Output = (Vec<Option<u32>>, Vec<(&'static str, u64)>);

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> Self::Output {
        let mut rig = Rig::new(scheduler);
        let mut seen = Vec::new();
        for spec in self.specs {
            rig.add_spec(spec);
        }
        for step in self.steps {
            match step {
                Step::Send { flow, len, .. } => seen.push(rig.send_labelled(flow, len, 0)),
                Step::Take => seen.push(rig.take().map(|t| t.0)),
                Step::Wait(_) => {}
            }
        }
        (seen, rig.scheduler.variables())
    }
}

#[test]
fn each_rank_orders_as_computed_by_hand() {
    // Each case has a rank, packets (flow, length, label), and the resulting order of flows.
    type Sent = (u32, u32, u64);
    let cases: [(&str, &[Sent], &[u32]); 9] = [
        // The weights are 1, 2 and 4, and every packet has 400 bytes. The virtual starts of the
        // packets are, flow by flow, 0 400, 0 200, and 0 100 200; equal starts are served in the
        // order of arrival.
        (
            "stfq",
            &[
                (0, 400, 0),
                (0, 400, 0),
                (1, 400, 0),
                (1, 400, 0),
                (2, 400, 0),
                (2, 400, 0),
                (2, 400, 0),
            ],
            &[0, 1, 2, 2, 1, 2, 0],
        ),
        // Slack is 300, 200 and 100 by flow, and 250 and 50 by label.
        (
            "lstf",
            &[(0, 40, 0), (0, 40, 250), (1, 40, 0), (2, 40, 0), (2, 40, 50)],
            &[2, 2, 1, 0, 0],
        ),
        // Deadlines are 300, 200 and 100 by flow, and 150 and 260 by label. The packet with 260
        // passes its turn on to the older packet of flow 0, which has 300.
        (
            "edf",
            &[(0, 40, 0), (1, 40, 0), (2, 40, 0), (2, 40, 150), (0, 40, 260)],
            &[2, 2, 1, 0, 0],
        ),
        // Remaining bytes: 900 and 500 of flow 0, and 700 of flow 1. Flow 2 has no labels, so the
        // bytes inside count (600, then 1200).
        (
            "srpt",
            &[(0, 400, 900), (1, 100, 700), (2, 600, 0), (2, 600, 0), (0, 400, 500)],
            &[0, 0, 2, 1, 2],
        ),
        ("sjf", &[(0, 400, 900), (1, 100, 700), (2, 600, 0), (2, 600, 0)], &[2, 1, 0, 2]),
        // Attained service of the packets, flow by flow: 0 1000, 0 100 200, and 0.
        (
            "las",
            &[(0, 1000, 0), (0, 40, 0), (1, 100, 0), (1, 100, 0), (1, 100, 0), (2, 1500, 0)],
            &[0, 1, 2, 1, 1, 0],
        ),
        // Remaining deadline: 300, 200 and 100 at the first hop, and 30 for a packet from
        // an earlier hop.
        ("fifo+", &[(0, 40, 0), (1, 40, 0), (2, 40, 0), (1, 40, 30)], &[1, 1, 2, 0]),
        ("prio", &[(0, 40, 0), (1, 40, 0), (2, 40, 0), (1, 40, 9), (0, 40, 1)], &[2, 1, 1, 0, 0]),
        ("arrival", &[(1, 40, 9), (0, 40, 3), (2, 40, 1), (0, 40, 0)], &[1, 0, 2, 0]),
    ];
    for (rank, sent, expected) in cases {
        let mut rig = pifo(&[("rank", rank)]);
        for (weight, priority, deadline) in [(1, 2, 300), (2, 1, 200), (4, 0, 100)] {
            rig.add_spec(FlowSpec {
                weight,
                priority,
                deadline: Nanos(deadline),
                ..FlowSpec::default()
            });
        }
        for &(flow, len, label) in sent {
            rig.send_labelled(flow, len, label);
        }
        assert_eq!(order(&mut rig), expected, "{rank}");
    }
}

#[test]
fn a_full_pifo_pushes_out_the_highest_rank_and_keeps_the_order_of_flows() {
    let mut rig = pifo(&[("rank", "srpt"), ("limit", "3")]);
    for _ in 0..3 {
        rig.add(1, 1500, 0);
    }
    for (flow, label) in [(0, 50), (1, 30), (0, 70)] {
        assert_eq!(rig.send_labelled(flow, 100, label), None);
    }
    // No packet inside has a rank above 70, and among equal ranks the earlier arrival stays.
    assert_eq!((rig.send_labelled(2, 100, 80), rig.send_labelled(2, 100, 70)), (Some(2), Some(2)));
    assert_eq!(rig.send_labelled(2, 100, 60), Some(0));
    assert_eq!(rig.send_labelled(1, 100, 10), Some(2));
    assert_eq!(
        (variable(&rig.scheduler, "refused"), variable(&rig.scheduler, "pushed-out")),
        (2, 2)
    );
    assert_eq!(order(&mut rig), [1, 1, 0]);
}

#[test]
fn fifo_plus_prefers_longer_paths_and_slack_restores_the_order_of_sources() {
    // The packet of flow 0 has waited for 40 ns of its deadline of 100 ns at an earlier hop. The
    // packet of flow 1 starts at this hop, and arrived 20 ns before the packet of flow 0.
    for (rank, expected) in [("fifo+", [0, 1]), ("lstf", [0, 1])] {
        let mut rig = pifo(&[("rank", rank)]);
        rig.add(1, 1500, 0);
        rig.add(1, 1500, 0);
        rig.send_labelled(1, 100, 100);
        rig.now += Nanos(20);
        rig.send_labelled(0, 100, 60);
        assert_eq!(order(&mut rig), expected, "{rank}");
    }
    // If the packet of flow 0 arrives 50 ns after the packet of flow 1, the packet of flow 1 has
    // waited longer in total. LSTF takes this into account; FIFO+ compares only the remaining
    // deadlines.
    for (rank, expected) in [("fifo+", [0, 1]), ("lstf", [1, 0])] {
        let mut rig = pifo(&[("rank", rank)]);
        rig.add(1, 1500, 0);
        rig.add(1, 1500, 0);
        rig.send_labelled(1, 100, 100);
        rig.now += Nanos(50);
        rig.send_labelled(0, 100, 60);
        assert_eq!(order(&mut rig), expected, "{rank}");
    }
}

#[test]
fn sp_pifo_orders_nearly_by_rank_and_counts_inversions() {
    let mut rig =
        Rig::new(SpPifo::new(&discipline(Kind::SpPifo, &[("rank", "srpt"), ("queues", "2")])));
    // Each packet has its own flow, so no packet is held.
    for rank in [3, 2, 5, 4, 1, 2] {
        let flow = rig.add(1, 1500, 0);
        rig.send_labelled(flow, 100, rank);
    }
    // The first queue gets 2 4 1, the second 3 5 2. Rank 2 leaves before 1, rank 4 before 1 3 2,
    // rank 3 before 2, and rank 5 before 2.
    assert_eq!(order(&mut rig), [1, 3, 4, 0, 2, 5]);
    let variables = rig.scheduler.variables();
    assert_eq!(
        variables,
        [
            ("inversions", 6),
            ("inverted", 4),
            ("unpifoness", 1 + 6 + 1 + 3),
            ("refused", 0),
            ("held", 0)
        ]
    );
}

#[test]
fn sp_pifo_holds_a_packet_behind_older_ones_of_its_flow() {
    let mut rig = Rig::new(SpPifo::new(&discipline(
        Kind::SpPifo,
        &[("rank", "srpt"), ("queues", "2"), ("depth", "3")],
    )));
    rig.add(1, 1500, 0);
    rig.add(1, 1500, 0);
    // Rank 9 goes to the last queue. Rank 4 would go to the first queue and overtake it.
    rig.send_labelled(0, 100, 9);
    rig.send_labelled(0, 100, 4);
    rig.send_labelled(1, 100, 5);
    assert_eq!(variable(&rig.scheduler, "held"), 1);
    rig.send_labelled(0, 100, 9);
    // The last queue is full.
    assert_eq!(rig.send_labelled(0, 100, 9), Some(0));
    assert_eq!(order(&mut rig), [1, 0, 0, 0]);
    // The flow has no packet inside, so the rank alone selects the queue.
    rig.send_labelled(0, 100, 6);
    assert_eq!(variable(&rig.scheduler, "held"), 1);
}

#[test]
fn eight_slices_of_64_hold_512_packets_and_the_newest_flow_waits_only_for_its_slice() {
    let mut rig = Rig::new(StrictSlices::new(&Discipline::new(Kind::StrictSlices)));
    for step in 0..8u32 {
        let flow = rig.add(1, 1512, 7 - step);
        let lost = (0..100).filter(|_| rig.send_labelled(flow, 1512, 0).is_some()).count();
        assert_eq!((lost, rig.inside()), (36, 64 * (step as usize + 1)));
        let (served, _) = rig.take().unwrap();
        assert_eq!(served, flow);
        assert_eq!(rig.send_labelled(flow, 1512, 0), None);
        let ahead = rig.flows[&flow].inside.len() - 1;
        assert_eq!(ahead, 63);
    }
    assert_eq!(variable(&rig.scheduler, "refused"), 36 * 8);
    let expected: Vec<u32> = (0..8).rev().flat_map(|flow| std::iter::repeat_n(flow, 64)).collect();
    assert_eq!(order(&mut rig), expected);
    assert_eq!(variable(&rig.scheduler, "inversions"), 0);
}

#[test]
fn slices_have_a_width_and_the_last_takes_all_higher_ranks() {
    let settings = [("rank", "fifo+"), ("queues", "3"), ("width", "100"), ("depth", "2")];
    let mut rig = Rig::new(StrictSlices::new(&discipline(Kind::StrictSlices, &settings)));
    for label in [250, 1000, 150, 199, 100, 99] {
        let flow = rig.add(1, 1500, 0);
        let refused = rig.send_labelled(flow, 100, label);
        assert_eq!(refused, (label == 100).then_some(flow));
    }
    assert_eq!(order(&mut rig), [5, 2, 3, 0, 1]);
}

#[test]
fn aifo_keeps_its_last_places_for_low_ranks() {
    let settings = [("rank", "srpt"), ("limit", "4"), ("k", "0"), ("window", "4")];
    let mut rig = Rig::new(Aifo::new(&discipline(Kind::Aifo, &settings)));
    let mut send = |rank| {
        let flow = rig.add(1, 1500, 0);
        rig.send_labelled(flow, 100, rank).is_none()
    };
    // Free places: 4 of 4. Window: 8; none is lower.
    assert!(send(8));
    // Free places: 3 of 4. Window: 8 9; one of two is lower.
    assert!(send(9));
    // Free places: 2 of 4. Window: 8 9 9; one of three is lower.
    assert!(send(9));
    // Free places: 1 of 4. Window: 8 9 9 10; three of four are lower.
    assert!(!send(10));
    // Free places: 1 of 4. Window: 9 9 10 9; none is lower.
    assert!(send(9));
    // No place is free.
    assert!(!send(1));
    assert_eq!(order(&mut rig), [0, 1, 2, 4]);
    assert_eq!(variable(&rig.scheduler, "refused"), 2);
}

/// No arithmetic overflows, and no packet is lost.
#[test]
fn rankings_withstand_the_extremes_of_all_ranges() {
    for kind in [Kind::Pifo, Kind::PifoTree, Kind::SpPifo, Kind::Aifo, Kind::StrictSlices] {
        for name in Ranking::NAMES {
            let discipline = discipline(kind, &[("rank", name)]).starting_at(u64::MAX);
            discipline.visit(Extremes { kind, flows: if name == "stfq" { 65_536 } else { 64 } });
        }
    }
}

/// Sends packets with extreme lengths and labels from flows with extreme settings.
struct Extremes {
    kind: Kind,
    flows: u32,
}

impl weir_core::sched::Visitor for Extremes {
    type Output = ();

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) {
        let mut rig = Rig::new(scheduler);
        for n in 0..self.flows {
            let (weight, deadline) =
                if n % 2 == 0 { (1, Nanos::MAX) } else { (u32::MAX, Nanos::ZERO) };
            rig.add_spec(FlowSpec {
                weight,
                deadline,
                priority: n * 3,
                max_packet: n,
                ..FlowSpec::default()
            });
        }
        let (lens, labels) = ([0, 1, 4 << 20, 65_535], [0, 1, u64::MAX]);
        for n in 0..90_000 {
            rig.send_labelled(n % self.flows, lens[n as usize % 4], labels[n as usize % 3]);
            if n == 45_000 {
                rig.now = Nanos(u64::MAX - 1);
            }
            if n % 3 == 0 {
                assert!(rig.take().is_some(), "{:?}", self.kind);
            }
        }
        for flow in 0..40 {
            rig.change(flow, 1 << flow.min(31), flow);
            rig.remove(flow);
        }
        while rig.take().is_some() {}
        assert_eq!(
            (rig.inside(), rig.scheduler.len(), rig.scheduler.backlog()),
            (0, 0, 0),
            "{:?}",
            self.kind
        );
    }
}
