//! Common properties of every scheduler of the table, the shares of round robin and WF2Q+ in exact
//! arithmetic, and the order of strict priority.

use crate::common;

use proptest::prelude::*;
use weir_core::sched::{Kind, Scheduler};

use common::Rig;

/// A `usize` selects a flow. `Add` has a weight, a largest packet and a priority, `Send` a length,
/// `Change` a weight and a priority.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Add(u32, u32, u32),
    Send(usize, u32),
    Take,
    Change(usize, u32, u32),
    Remove(usize),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let weight = || prop_oneof![1u32..4, 1u32..=65_536];
    let operation = prop_oneof![
        2 => (weight(), 64u32..3000, 0u32..70).prop_map(|(w, l, p)| Operation::Add(w, l, p)),
        12 => (0usize..20, prop_oneof![40u32..1501, Just(65_000)]).prop_map(|(f, len)| Operation::Send(f, len)),
        9 => Just(Operation::Take),
        1 => (0usize..20, weight(), 0u32..70).prop_map(|(f, w, p)| Operation::Change(f, w, p)),
        1 => (0usize..20).prop_map(Operation::Remove),
    ];
    proptest::collection::vec(operation, 1..400)
}

/// Performs operations; returns flow and length of the served packets, in order.
fn play(kind: Kind, operations: &[Operation]) -> Vec<(u32, u32)> {
    let mut rig = Rig::new(kind.build());
    let mut served = Vec::new();
    rig.add(1, 1500, 0);
    for &operation in operations {
        let nth =
            |rig: &Rig<_>, n: usize| rig.flows.keys().copied().nth(n % rig.flows.len().max(1));
        match operation {
            Operation::Add(weight, max_packet, priority) => {
                rig.add(weight, max_packet, priority);
            }
            Operation::Send(n, len) => {
                if let Some(flow) = nth(&rig, n) {
                    rig.send(flow, len);
                }
            }
            Operation::Take => {
                let expected = rig.inside() > 0;
                let taken =
                    if kind.row().traits.work_conserving { rig.take() } else { rig.take_in_time() };
                // A shared medium may drop the last packet instead of serving it.
                let emptied = !kind.row().traits.work_conserving && rig.inside() == 0;
                assert!(
                    taken.is_some() == expected || emptied,
                    "{kind:?} has a packet but does not serve it"
                );
                served.extend(taken);
            }
            Operation::Change(n, weight, priority) => {
                if let Some(flow) = nth(&rig, n) {
                    rig.change(flow, weight, priority);
                }
            }
            Operation::Remove(n) => {
                if let Some(flow) = nth(&rig, n) {
                    rig.remove(flow);
                }
            }
        }
        assert_eq!(rig.scheduler.len(), rig.inside(), "{kind:?}");
        assert_eq!(rig.scheduler.is_empty(), rig.inside() == 0);
        assert_eq!(rig.pool.len() as usize, rig.inside());
    }
    rig.now = weir_core::Nanos::MAX;
    while let Some(taken) = rig.take() {
        served.push(taken);
    }
    assert_eq!((rig.inside(), rig.scheduler.len(), rig.scheduler.backlog()), (0, 0, 0), "{kind:?}");
    served
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Checks that no packet is lost, that flows keep their order, that a waiting packet is served,
    /// and that equal operations give equal results.
    #[test]
    fn every_scheduler_returns_all_packets_in_order(operations in operations()) {
        for kind in Kind::ALL.into_iter().chain([crate::added::kinds().0]) {
            prop_assert_eq!(play(kind, &operations), play(kind, &operations));
        }
    }

    /// Backlogged flows get bytes by weight, regardless of the sizes of their packets.
    #[test]
    fn shares_are_bytes_by_weight_within_the_bounds(
        flows in proptest::collection::vec((1u32..=8, 64u32..1501), 2..12),
        scale in prop_oneof![Just(1u32), Just(100), Just(8192)],
        seed in any::<u64>(),
    ) {
        // Packets have at least half of the size of the flow's largest packet.
        let mut random = seed | 1;
        let mut size = move |most: u32| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            most - (random >> 33) as u32 % (most / 2)
        };
        for kind in [Kind::RoundRobin, Kind::Wf2qPlus] {
            let mut rig = Rig::new(kind.build());
            for &(weight, largest) in &flows {
                let flow = rig.add(weight * scale, largest, 0);
                rig.send(flow, size(largest));
                rig.send(flow, size(largest));
            }
            let weights: i128 = flows.iter().map(|f| i128::from(f.0)).sum();
            let largest = i128::from(flows.iter().map(|f| f.1).max().unwrap());
            let mut bytes = vec![0i128; flows.len()];
            let least = i128::from(flows.iter().map(|f| f.0).min().unwrap());
            for _ in 0..2000 {
                let (flow, len) = rig.take().unwrap();
                bytes[flow as usize] += i128::from(len);
                rig.send(flow, size(flows[flow as usize].1));
                let all: i128 = bytes.iter().sum();
                for (k, &(weight, own)) in flows.iter().enumerate() {
                    let (weight, own) = (i128::from(weight), i128::from(own));
                    // The service by the fluid minus the actual service, times the sum of weights.
                    let behind = weight * all - weights * bytes[k];
                    let (most, least_behind) = if kind == Kind::Wf2qPlus {
                        (weights * own + weight * (largest - own), -(weights - weight) * own)
                    } else {
                        // Every other flow may be two quanta and a packet ahead or behind. A
                        // quantum is proportional to the weight divided by the lowest weight.
                        let apart = (2 * largest * weights / least + largest * flows.len() as i128)
                            * weights;
                        (apart, -apart)
                    };
                    // One byte, `weights` in these units, is for the rounding of virtual times.
                    prop_assert!(
                        (least_behind - weights..=most + weights).contains(&behind),
                        "{:?}: flow {} of {:?} is {} behind at {} bytes",
                        kind,
                        k,
                        flows,
                        behind as f64 / weights as f64,
                        all
                    );
                }
            }
        }
    }

    /// A backlogged flow gets its share of the sum of all weights while other flows start and stop.
    #[test]
    fn wf2qp_keeps_its_guarantee_while_others_start_and_stop(
        others in proptest::collection::vec((1u32..=100, 64u32..1501), 1..10), weight in 1u32..=100,
        events in proptest::collection::vec((0usize..10, 0u32..4), 200..1500),
    ) {
        let mut rig = Rig::new(Kind::Wf2qPlus.build());
        let own = 700;
        let steady = rig.add(weight, own, 0);
        rig.send(steady, own);
        rig.send(steady, own);
        for &(weight, largest) in &others {
            rig.add(weight, largest, 0);
        }
        let weights = i128::from(weight) + others.iter().map(|o| i128::from(o.0)).sum::<i128>();
        let largest = i128::from(others.iter().map(|o| o.1).max().unwrap().max(own));
        let (mut all, mut got) = (0, 0);
        for (n, burst) in events {
            let other = n % others.len();
            for _ in 0..burst {
                rig.send(other as u32 + 1, others[other].1);
            }
            let (flow, len) = rig.take().unwrap();
            all += i128::from(len);
            if flow == steady {
                got += i128::from(len);
                rig.send(steady, own);
            }
            let behind = i128::from(weight) * all - weights * got;
            let bound = weights * i128::from(own) + i128::from(weight) * largest;
            // One byte, `weights` in these units, is for the rounding of virtual times.
            prop_assert!(
                behind <= bound + weights,
                "{} bytes behind",
                behind as f64 / weights as f64
            );
        }
    }

    /// Compares priority scheduling with a search for the first packet of the lowest priority
    /// number.
    #[test]
    fn prio_serves_the_first_packet_of_the_lowest_number(
        operations in proptest::collection::vec((any::<bool>(), 0u32..8, 40u32..1501), 1..300),
    ) {
        let mut rig = Rig::new(Kind::Prio.build());
        for priority in 0..8 {
            rig.add(100 - priority, 1500, priority * 9);
        }
        let mut model: Vec<(u32, u32)> = Vec::new();
        for (send, flow, len) in operations {
            if send {
                rig.send(flow, len);
                model.push((flow, len));
            } else {
                let first = (0..model.len()).min_by_key(|&i| (model[i].0, i));
                prop_assert_eq!(rig.take(), first.map(|i| model.remove(i)));
            }
        }
    }
}

/// In a busy period longer than the range of virtual times, all times are set back together. This
/// does not affect the shares.
#[test]
fn wf2qp_shares_hold_over_a_busy_period_longer_than_its_range_of_times() {
    let mut rig = Rig::new(Kind::Wf2qPlus.build());
    let flows: Vec<u32> = [1, 2, 5].map(|weight| rig.add(weight, 65_535, 0)).into();
    for &flow in flows.iter().cycle().take(6) {
        rig.send(flow, 65_535);
    }
    let mut packets = [0u32; 3];
    for _ in 0..80_000 {
        let (flow, len) = rig.take().unwrap();
        packets[flow as usize] += 1;
        rig.send(flow, len);
    }
    // 5 GB at a sum of weights of 8; the range is 8 MB per unit of weight.
    assert!(
        packets.iter().zip([10_000, 20_000, 50_000]).all(|(&got, share)| got.abs_diff(share) <= 1),
        "{packets:?}"
    );
}
