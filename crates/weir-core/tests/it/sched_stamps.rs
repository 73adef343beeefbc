//! Schedulers that order packets by virtual times: their order compared with simple models that
//! visit every flow, and their guarantees in exact arithmetic.

use crate::common;
use crate::models;

use core::fmt;

use proptest::prelude::*;
use weir_core::Nanos;
use weir_core::packet::{Packet, Pool};
use weir_core::sched::{Discipline, FlowSpec, Kind, Scheduler, Visitor};

use common::Rig;
use models::Model;

/// A function that makes a model with a given origin of virtual time.
type MakeModel = fn(u64) -> Box<dyn Model>;

/// The schedulers with their models.
const ALL: &[(Kind, MakeModel)] = &[
    (Kind::Wf2qPlus, |epoch| Box::new(models::Wf2qPlus::new(epoch))),
    (Kind::StartTime, |epoch| Box::new(models::SelfClocked::new(false, epoch))),
    (Kind::SelfClocked, |epoch| Box::new(models::SelfClocked::new(true, epoch))),
    (Kind::Wfq, |epoch| Box::new(models::FluidClocked::new(false, epoch))),
    (Kind::LWf2q, |epoch| Box::new(models::FluidClocked::new(true, epoch))),
    (Kind::Kps, |epoch| Box::new(models::Kps::new(epoch))),
];

/// A `usize` selects a flow. A `u32` is a weight in `Add` and `Change`, a length in `Send` and
/// `Burst`, and a number of packets in `Take`. `Burst` sends 20 packets.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Add(u32),
    Send(usize, u32),
    Burst(usize, u32),
    Take(u32),
    Change(usize, u32),
    Remove(usize),
}

fn weights() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 1u32..5, 2 => 1u32..=65_536, 1 => Just(65_536), 1 => Just(1)]
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let len =
        || prop_oneof![6 => 40u32..1501, 3 => Just(1500), 1 => Just(65_535), 1 => 0u32..=4 << 20];
    let operation = prop_oneof![
        3 => weights().prop_map(Operation::Add),
        12 => (0usize..24, len()).prop_map(|(n, len)| Operation::Send(n, len)),
        2 => (0usize..24, len()).prop_map(|(n, len)| Operation::Burst(n, len)),
        10 => (1u32..5).prop_map(Operation::Take),
        2 => (0usize..24, weights()).prop_map(|(n, w)| Operation::Change(n, w)),
        1 => (0usize..24).prop_map(Operation::Remove),
    ];
    proptest::collection::vec(operation, 1..300)
}

/// Flows of a few kinds with packets of a few lengths, so that many packets take equal virtual
/// time.
fn steady_operations() -> impl Strategy<Value = Vec<Operation>> {
    let weights = || prop_oneof![4 => Just(1u32), 2 => Just(2), 2 => Just(4), 1 => 3u32..14];
    let len = || prop_oneof![12 => Just(1500u32), 3 => Just(750), 1 => Just(40), 1 => 64u32..1501];
    let operation = prop_oneof![
        2 => weights().prop_map(Operation::Add),
        12 => (0usize..40, len()).prop_map(|(n, len)| Operation::Send(n, len)),
        4 => (0usize..40, len()).prop_map(|(n, len)| Operation::Burst(n, len)),
        16 => (1u32..12).prop_map(Operation::Take),
        1 => (0usize..40, weights()).prop_map(|(n, w)| Operation::Change(n, w)),
        1 => (0usize..40).prop_map(Operation::Remove),
    ];
    (
        proptest::collection::vec(weights().prop_map(Operation::Add), 1..30),
        proptest::collection::vec(operation, 1..400),
    )
        .prop_map(|(add, operations)| [add, operations].concat())
}

/// Origins of virtual time: the start of its range, shortly before the end, and any other.
fn epochs() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        (0u64..4 << 40).prop_map(|before| (1 << 63) - 1 - before),
        any::<u64>().prop_map(|e| e % (1 << 63))
    ]
}

/// Performs operations on a scheduler and on its model, and reports the first difference.
struct Comparison<'a> {
    model: Box<dyn Model>,
    operations: &'a [Operation],
}

impl Visitor for Comparison<'_> {
    type Output = Result<(), String>;

    fn visit<S: Scheduler + fmt::Debug>(mut self, scheduler: S) -> Self::Output {
        let mut rig = Rig::new(scheduler);
        let mut served = 0;
        for &operation in self.operations {
            let nth =
                |rig: &Rig<S>, n: usize| rig.flows.keys().copied().nth(n % rig.flows.len().max(1));
            match operation {
                Operation::Add(weight) => {
                    let flow = rig.add(weight, 1500, 0);
                    self.model.add(rig.flows[&flow].slot.0, weight);
                }
                Operation::Send(n, len) => {
                    let Some(flow) = nth(&rig, n) else { continue };
                    rig.send(flow, len);
                    self.model.send(rig.flows[&flow].slot.0, len);
                }
                Operation::Burst(n, len) => {
                    let Some(flow) = nth(&rig, n) else { continue };
                    for _ in 0..20 {
                        rig.send(flow, len);
                        self.model.send(rig.flows[&flow].slot.0, len);
                    }
                }
                Operation::Take(times) => {
                    for _ in 0..times {
                        self.take(&mut rig, &mut served)?;
                    }
                }
                Operation::Change(n, weight) => {
                    let Some(flow) = nth(&rig, n) else { continue };
                    rig.change(flow, weight, 0);
                    self.model.change(rig.flows[&flow].slot.0, weight);
                }
                Operation::Remove(n) => {
                    let Some(flow) = nth(&rig, n) else { continue };
                    self.model.remove(rig.flows[&flow].slot.0);
                    rig.remove(flow);
                }
            }
        }
        while self.take(&mut rig, &mut served)? {}
        Ok(())
    }
}

impl Comparison<'_> {
    /// Takes a packet from the scheduler and from the model. Returns whether there was one.
    fn take<S: Scheduler>(&mut self, rig: &mut Rig<S>, served: &mut u32) -> Result<bool, String> {
        let expected = self.model.take();
        let taken = rig.take().map(|(flow, _)| rig.flows[&flow].slot.0);
        *served += 1;
        if taken == expected {
            Ok(taken.is_some())
        } else {
            Err(format!("service {served}: slot {taken:?}, but slot {expected:?} in the model"))
        }
    }
}

fn compare(
    kind: Kind,
    epoch: u64,
    model: Box<dyn Model>,
    operations: &[Operation],
) -> Result<(), String> {
    Discipline::new(kind).starting_at(epoch).visit(Comparison { model, operations })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    /// The order is that of the model for any operations and any origin of virtual time.
    #[test]
    fn packets_leave_in_the_order_of_a_plain_model(operations in operations(), epoch in epochs()) {
        for &(kind, model) in ALL {
            if let Err(difference) = compare(kind, epoch, model(epoch), &operations) {
                prop_assert!(false, "{kind:?} from {epoch}: {difference}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    /// The same holds if many packets take equal virtual time, for which some schedulers have
    /// special code.
    #[test]
    fn packets_of_a_few_lengths_leave_in_the_order_of_a_plain_model(
        operations in steady_operations(),
        epoch in epochs(),
    ) {
        for &(kind, model) in ALL {
            if let Err(difference) = compare(kind, epoch, model(epoch), &operations) {
                prop_assert!(false, "{kind:?} from {epoch}: {difference}");
            }
        }
    }
}

/// WF2Q+ has separate queues for up to eight kinds of flows. Here the kinds differ by weight, and
/// virtual time begins at 0 or near the end of its range.
#[test]
fn order_is_kept_among_few_and_many_kinds_of_flows() {
    for kinds in [1, 2, 3, 8, 9, 20] {
        let mut operations: Vec<_> = (0..40).map(|n| Operation::Add(1 + n % kinds)).collect();
        for round in 0..60 {
            operations.extend((0..40).map(|n| Operation::Send(n, 1500)));
            operations.extend([
                Operation::Take(30),
                Operation::Burst(round * 7 % 40, 1500),
                Operation::Take(10 + round as u32 % 40),
            ]);
            if round % 10 == 9 {
                operations.extend([
                    Operation::Change(round, 5),
                    Operation::Remove(round / 2),
                    Operation::Add(2),
                    Operation::Take(round as u32),
                ]);
            }
        }
        for &(kind, model) in ALL {
            for epoch in [0, (1 << 63) - (20_000 << 40), (1 << 63) - 1] {
                assert_eq!(
                    compare(kind, epoch, model(epoch), &operations),
                    Ok(()),
                    "{kind:?} from {epoch}, {kinds} kinds"
                );
            }
        }
    }
}

/// With more than 2^20 flows, slots need more than the usual number of bits in a key. Packets that
/// wait at that time keep their order.
#[test]
fn order_is_kept_when_a_million_flows_are_added_meanwhile() {
    struct Million;
    impl Visitor for Million {
        type Output = Vec<u32>;

        fn visit<S: Scheduler + fmt::Debug>(self, mut scheduler: S) -> Self::Output {
            let mut pool = Pool::new(1000);
            let slots: Vec<_> = (0..4)
                .map(|flow| {
                    scheduler.add_flow(Nanos::ZERO, &FlowSpec { flow, ..FlowSpec::default() })
                })
                .collect();
            for n in 0..80 {
                let packet =
                    pool.insert(Packet { len: 1500, flow: n % 4, ..Packet::default() }).unwrap();
                assert_eq!(
                    scheduler.enqueue(Nanos::ZERO, &mut pool, slots[n as usize % 4], packet),
                    None
                );
            }
            let mut order = Vec::new();
            for n in 0..80 {
                if n == 30 {
                    for flow in 4..=1 << 20 {
                        scheduler.add_flow(Nanos::ZERO, &FlowSpec { flow, ..FlowSpec::default() });
                    }
                }
                let packet = scheduler.dequeue(Nanos::ZERO, &mut pool).unwrap();
                order.push(pool.remove(packet).flow);
            }
            order
        }
    }
    let order = Discipline::new(Kind::Wf2qPlus).visit(Million);
    assert!(order.chunks(4).all(|round| round == [0, 1, 2, 3]), "{order:?}");
}

/// A busy period in which virtual time passes its whole range several times, with a flow of the
/// largest weight and with packets of the largest length.
#[test]
fn order_is_kept_in_a_busy_period_longer_than_the_range_of_times() {
    let mut operations =
        vec![Operation::Add(1), Operation::Add(1), Operation::Add(3), Operation::Add(65_536)];
    let feed = [
        Operation::Burst(0, 1 << 18),
        Operation::Burst(1, 200_000),
        Operation::Burst(2, 65_535),
        Operation::Take(11),
    ];
    operations.extend(feed);
    for round in 0..120 {
        // The flow of weight 3 pauses for longer than the range of times. The flow of weight 65,536
        // has packets only from time to time.
        let n = if round % 40 == 0 { 2 } else { round % 2 };
        operations.extend([Operation::Burst(n, 250_000 + round as u32), Operation::Take(20)]);
        if round % 7 == 0 {
            operations.push(Operation::Send(3, 4 << 20));
        }
    }
    for &(kind, model) in ALL {
        for epoch in [0, 1 << 62, (1 << 63) - 1] {
            assert_eq!(
                compare(kind, epoch, model(epoch), &operations),
                Ok(()),
                "{kind:?} from {epoch}"
            );
        }
    }
}

#[test]
fn sixty_five_thousand_flows_share_by_weight() {
    struct Many;
    impl Visitor for Many {
        type Output = ([u32; 2], Vec<(&'static str, u64)>);

        fn visit<S: Scheduler + fmt::Debug>(self, scheduler: S) -> Self::Output {
            let mut rig = Rig::new(scheduler);
            for n in 0..65_536 {
                let flow = rig.add(1 + n % 2, 1500, 0);
                rig.send(flow, 1500);
            }
            let mut packets = [0; 2];
            for _ in 0..3 * 65_536 {
                let (flow, len) = rig.take().unwrap();
                packets[flow as usize % 2] += 1;
                rig.send(flow, len);
            }
            (packets, rig.scheduler.variables())
        }
    }
    for &(kind, _) in ALL {
        let ([light, heavy], variables) = Discipline::new(kind).visit(Many);
        // A tree has at most 1.44 log2 N levels, a tournament log4 N.
        for (name, depth) in variables.iter().filter(|(name, _)| name.starts_with("depth")) {
            assert!((1..=24).contains(depth), "{kind:?}: {name} is {depth}");
        }
        assert!(
            light.abs_diff(65_536) <= 32_768 && heavy.abs_diff(2 * 65_536) <= 32_768,
            "{kind:?}: {light} and {heavy}"
        );
    }
}

#[test]
fn a_single_flow_sends_with_any_weight() {
    for &(kind, model) in ALL {
        for weight in [1, 65_536] {
            let mut operations = vec![Operation::Add(weight)];
            operations.extend(
                [
                    Operation::Burst(0, 4 << 20),
                    Operation::Take(30),
                    Operation::Send(0, 0),
                    Operation::Take(2),
                ]
                .repeat(40),
            );
            assert_eq!(compare(kind, 0, model(0), &operations), Ok(()), "{kind:?}");
        }
    }
}

proptest! {
    /// In any interval in which two flows are backlogged, their bytes of service divided by their
    /// weights differ by at most one packet of each flow, divided by that flow's weight.
    #[test]
    fn self_clocked_schedulers_serve_any_two_flows_alike(
        flows in proptest::collection::vec((weights(), 64u32..1501), 2..8),
        lens in proptest::collection::vec(1u32..=100, 200..600),
    ) {
        for kind in [Kind::StartTime, Kind::SelfClocked] {
            let mut rig = Rig::new(kind.build());
            for &(weight, largest) in &flows {
                let flow = rig.add(weight, largest, 0);
                rig.send(flow, largest);
                rig.send(flow, largest);
            }
            let mut bytes = vec![0i128; flows.len()];
            // The extremes of each pair: the minimum and maximum so far of the difference in
            // weighted service. The difference is multiplied by both weights, so that it is an
            // integer.
            let mut extremes = vec![(0i128, 0i128); flows.len() * flows.len()];
            for percent in &lens {
                let (served, len) = rig.take().unwrap();
                bytes[served as usize] += i128::from(len);
                rig.send(served, (flows[served as usize].1 * percent / 100).max(1));
                for (a, &(weight_a, largest_a)) in flows.iter().enumerate() {
                    for (b, &(weight_b, largest_b)) in flows.iter().enumerate().take(a) {
                        let (weight_a, weight_b) = (i128::from(weight_a), i128::from(weight_b));
                        let apart = bytes[a] * weight_b - bytes[b] * weight_a;
                        let (least, most) = &mut extremes[a * flows.len() + b];
                        (*least, *most) = ((*least).min(apart), (*most).max(apart));
                        // One byte of each flow is for the rounding of virtual times.
                        let bound = i128::from(largest_a + 1) * weight_b
                            + i128::from(largest_b + 1) * weight_a;
                        prop_assert!(
                            *most - *least <= bound,
                            "{kind:?}: flows {a} and {b} of {flows:?} are {} apart, bound {bound}",
                            *most - *least
                        );
                    }
                }
            }
        }
    }
}

/// The example with which the inventors of WF2Q motivate the algorithm.
#[test]
fn wfq_lets_a_heavy_flow_get_ahead_and_wf2q_does_not() {
    let order = |kind: Kind| {
        let mut rig = Rig::new(kind.build());
        let heavy = rig.add(10, 1500, 0);
        for _ in 0..11 {
            rig.send(heavy, 1000);
        }
        for _ in 0..10 {
            let light = rig.add(1, 1500, 0);
            rig.send(light, 1000);
        }
        std::iter::from_fn(|| rig.take()).map(|(flow, _)| flow).collect::<Vec<_>>()
    };
    let ahead: Vec<u32> =
        [[0; 10], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]].concat().into_iter().chain([0]).collect();
    let even: Vec<u32> = (1..=10).flat_map(|light| [0, light]).chain([0]).collect();
    assert_eq!(order(Kind::Wfq), ahead);
    assert_eq!(order(Kind::LWf2q), even);
    assert_eq!(order(Kind::Wf2qPlus), even);
}

proptest! {
    /// Let `φ` be the share of a backlogged flow, `L` its largest packet, and `M` the largest
    /// packet of all flows. Under WF2Q and WF2Q+ the flow is behind its share by at most
    /// `L + φ (M − L)`, and ahead by at most `(1 − φ) L`. Under WFQ it is behind by at most
    /// `M`. Under KPS it is behind by at most `4 L + φ M`, and ahead by at most `3 L`.
    #[test]
    fn shares_are_kept_to_within_a_packet(
        flows in proptest::collection::vec((1u32..=100, 64u32..1501), 1..10),
        lens in proptest::collection::vec(20u32..=100, 200..800),
    ) {
        for kind in [Kind::Wf2qPlus, Kind::LWf2q, Kind::Wfq, Kind::Kps] {
            let mut rig = Rig::new(kind.build());
            for &(weight, largest) in &flows {
                // Even if each packet has only 20 % of the largest length, about 4 × 1500 bytes of
                // the flow wait, so that the fluid never finishes the flow.
                let flow = rig.add(weight, largest, 0);
                for percent in lens.iter().cycle().take(4 * 5 * 1500 / largest as usize) {
                    rig.send(flow, (largest * percent / 100).max(1));
                }
            }
            let weights: i128 = flows.iter().map(|f| i128::from(f.0)).sum();
            let largest = i128::from(flows.iter().map(|f| f.1).max().unwrap());
            let mut bytes = vec![0i128; flows.len()];
            for percent in &lens {
                let (served, len) = rig.take().unwrap();
                bytes[served as usize] += i128::from(len);
                rig.send(served, (flows[served as usize].1 * percent / 100).max(1));
                let all: i128 = bytes.iter().sum();
                for (k, &(weight, own)) in flows.iter().enumerate() {
                    let (weight, own) = (i128::from(weight), i128::from(own));
                    // The service by the fluid minus the actual service, times the sum of weights.
                    let behind = weight * all - weights * bytes[k];
                    let (most, least) = match kind {
                        Kind::Wfq => (weights * largest, i128::MIN + weights),
                        Kind::Kps => (weights * 4 * own + weight * largest, -weights * 3 * own),
                        _ => (weights * own + weight * (largest - own), -(weights - weight) * own),
                    };
                    // One byte, `weights` in these units, is for the rounding of virtual times.
                    prop_assert!(
                        (least - weights..=most + weights).contains(&behind),
                        "{kind:?}: flow {k} of {flows:?} is {} behind at {all} bytes",
                        behind as f64 / weights as f64
                    );
                }
            }
        }
    }
}
