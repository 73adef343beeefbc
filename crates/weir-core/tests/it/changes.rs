//! Configuration changes under traffic, and views of the engine: every packet departs once, flows
//! keep their order, and sums agree with the counters.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_core::config::{
    Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit, SchedulerConfig,
};
use weir_core::key::{FlowKey, FlowMask};
use weir_core::packet::Ecn;
use weir_core::sched::Kind;
use weir_core::stats::DropReason;
use weir_core::{Action, Arrival, Departure, Emulator, Fate, Limits, Nanos, Rate, Rejected};

const SCHEDULER: u16 = 7;

fn rate(bps: u64) -> LinkConfig {
    LinkConfig { capacity: Capacity::Constant(Rate::new(bps).unwrap()), ..LinkConfig::default() }
}

fn key(customer: u32, port: u16) -> FlowKey {
    FlowKey { dst: customer.into(), src_port: port, ..FlowKey::default() }
}

fn submit(
    emulator: &mut Emulator,
    now: Nanos,
    frame: u32,
    key: &FlowKey,
    action: Action,
) -> Result<(), Rejected> {
    emulator.submit(
        now,
        Arrival { frame, len: 1000, link_header: 14, segments: 1, ecn: Ecn::NotEct, label: 0 },
        key,
        action,
    )
}

fn finish(emulator: &mut Emulator, out: &mut Vec<Departure>) {
    while let Some(next) = emulator.next_event() {
        emulator.poll(next, out);
    }
}

fn queue(mask: FlowMask, weight: u32) -> FlowsetConfig {
    FlowsetConfig {
        mask,
        weight,
        limit: Some(QueueLimit::Packets(1000)),
        ..FlowsetConfig::default()
    }
}

fn by_port(bits: u16) -> FlowMask {
    FlowMask { src_port: bits, ..FlowMask::default() }
}

fn by_customer() -> FlowMask {
    FlowMask { dst_ip: u32::MAX, ..FlowMask::default() }
}

/// A step of a test: traffic, or a change of the configuration. `Wait` is in ns, `Kind` is an index
/// into [`Kind::ALL`], and `Rate` is in bit/s.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Submit { queue: u16, port: u16 },
    Wait(u64),
    Kind(usize),
    Rate(u64),
    Mask { queue: u16, bits: u16 },
    Weight { queue: u16, weight: u32, priority: u32 },
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let queue = || 1u16..4;
    let operation = prop_oneof![
        20 => (queue(), 0u16..6).prop_map(|(queue, port)| Operation::Submit { queue, port }),
        6 => (0u64..3_000_000).prop_map(Operation::Wait),
        1 => (0usize..Kind::ALL.len()).prop_map(Operation::Kind),
        1 => (1_000_000u64..50_000_000).prop_map(Operation::Rate),
        1 => (queue(), 0u16..8).prop_map(|(queue, bits)| Operation::Mask { queue, bits }),
        1 => (queue(), 1u32..100, 0u32..64).prop_map(|(queue, weight, priority)| Operation::Weight { queue, weight, priority }),
    ];
    proptest::collection::vec(operation, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// The algorithm, rate, weight, priority or queue mask changes while packets are queued.
    #[test]
    fn a_change_loses_no_packet_and_keeps_the_order_of_each_flow(
        operations in operations(),
        together in 1usize..6,
    ) {
        let mut emulator =
            Emulator::new(1, Limits { idle: Nanos::from_millis(5), ..Limits::default() });
        let (mut kind, mut link) = (Kind::default(), rate(8_000_000));
        let mut queues: BTreeMap<u16, FlowsetConfig> =
            (1..4).map(|id| (id, queue(by_port(0xffff), u32::from(id)))).collect();
        emulator.set_scheduler(Nanos::ZERO, SCHEDULER, &SchedulerConfig::default(), &link);
        for (&id, config) in &queues {
            emulator.set_queue(Nanos::ZERO, id, SCHEDULER, config);
        }
        let (mut now, mut out, mut sent) = (Nanos::ZERO, Vec::new(), Vec::new());
        // Changes are applied together: before the next traffic, or when there are `together` of
        // them.
        let mut waiting: Vec<Operation> = Vec::new();
        for operation in operations {
            let is_traffic = matches!(operation, Operation::Submit { .. } | Operation::Wait(_));
            if is_traffic || waiting.len() >= together {
                let scheduler =
                    SchedulerConfig { discipline: kind.into(), ..SchedulerConfig::default() };
                emulator.change_together(now, |emulator| {
                    for change in waiting.drain(..) {
                        match change {
                            Operation::Mask { queue, .. } | Operation::Weight { queue, .. } => {
                                emulator.set_queue(now, queue, SCHEDULER, &queues[&queue]);
                            }
                            _ => emulator.set_scheduler(now, SCHEDULER, &scheduler, &link),
                        }
                    }
                });
            }
            match operation {
                Operation::Submit { queue, port } => {
                    submit(
                        &mut emulator,
                        now,
                        sent.len() as u32,
                        &key(1, port),
                        Action::Queue(queue),
                    )
                    .unwrap();
                    sent.push((queue, port));
                }
                Operation::Wait(ns) => {
                    now += Nanos(ns);
                    emulator.poll(now, &mut out);
                }
                Operation::Kind(n) => kind = Kind::ALL[n],
                Operation::Rate(bps) => link = rate(bps),
                Operation::Mask { queue, bits } => {
                    queues.get_mut(&queue).unwrap().mask = by_port(bits);
                }
                Operation::Weight { queue, weight, priority } => {
                    let config = queues.get_mut(&queue).unwrap();
                    (config.weight, config.priority) = (weight, priority);
                }
            }
            if !is_traffic {
                waiting.push(operation);
            }
            let queued: u64 =
                emulator.instances_of(SCHEDULER, None, 9).map(|i| i.totals.queued_packets).sum();
            prop_assert_eq!(queued, emulator.queue_length(SCHEDULER).0);
        }
        finish(&mut emulator, &mut out);
        prop_assert_eq!(out.len(), sent.len());
        let mut last = BTreeMap::new();
        // Only deliveries keep the order. A scheduler with limits or AQMs inside drops a packet at
        // once, while older packets still wait or are on the wire.
        for departure in out.iter().filter(|d| matches!(d.fate, Fate::Deliver { .. })) {
            let flow = sent[departure.frame as usize];
            let before = last.insert(flow, departure.frame);
            prop_assert!(
                before.is_none_or(|before| before < departure.frame),
                "{:?}: {:?} before {}",
                flow,
                before,
                departure.frame
            );
        }
        let counters = &emulator.stats(SCHEDULER).unwrap().counters;
        prop_assert!(counters.balanced() && counters.backlog_packets == 0);
        let seen: u64 = emulator.instances_of(SCHEDULER, None, 9).map(|i| i.totals.packets).sum();
        prop_assert_eq!(seen, sent.len() as u64, "the counters of freed flows are included");
    }

    /// The packets that wait in a deleted queue depart as drops, and every other packet also
    /// departs once.
    #[test]
    fn a_deleted_queue_returns_its_waiting_packets(
        kind in 0usize..Kind::ALL.len(),
        traffic in proptest::collection::vec((1u16..4, 0u16..3), 1..100),
        waited in 0u64..20_000_000,
    ) {
        let mut emulator = Emulator::new(1, Limits::default());
        let scheduler =
            SchedulerConfig { discipline: Kind::ALL[kind].into(), ..SchedulerConfig::default() };
        emulator.set_scheduler(Nanos::ZERO, SCHEDULER, &scheduler, &rate(8_000_000));
        for id in 1..4 {
            emulator.set_queue(Nanos::ZERO, id, SCHEDULER, &queue(by_port(1), u32::from(id)));
        }
        for (frame, &(queue, port)) in traffic.iter().enumerate() {
            submit(&mut emulator, Nanos::ZERO, frame as u32, &key(1, port), Action::Queue(queue))
                .unwrap();
        }
        let now = Nanos(waited);
        let mut out = Vec::new();
        emulator.poll(now, &mut out);
        let waiting: u64 = emulator.flows_of(2, None, 99).map(|f| f.totals.queued_packets).sum();
        prop_assert!(emulator.delete_queue(now, 2) && !emulator.delete_queue(now, 2));
        prop_assert_eq!(
            submit(&mut emulator, now, 999, &key(1, 0), Action::Queue(2)).unwrap_err().reason,
            DropReason::NoSuchPipe
        );
        finish(&mut emulator, &mut out);
        let lost: Vec<_> = out
            .iter()
            .filter(|d| d.fate == Fate::Drop(DropReason::NoSuchPipe))
            .map(|d| d.frame)
            .collect();
        prop_assert_eq!(lost.len() as u64, waiting);
        prop_assert!(lost.iter().all(|&frame| traffic[frame as usize].0 == 2));
        let mut frames: Vec<u32> = out.iter().map(|d| d.frame).collect();
        frames.sort_unstable();
        prop_assert_eq!(frames, (0..traffic.len() as u32).collect::<Vec<_>>());
        let counters = &emulator.stats(SCHEDULER).unwrap().counters;
        prop_assert!(counters.balanced() && counters.backlog_packets == 0);
        prop_assert_eq!(emulator.queue_length(SCHEDULER), (0, 0));
    }
}

#[test]
fn queues_share_a_link_by_weight_and_a_new_weight_applies_at_once() {
    for kind in [Kind::RoundRobin, Kind::Wf2qPlus] {
        let mut emulator = Emulator::new(1, Limits::default());
        emulator.set_scheduler(
            Nanos::ZERO,
            SCHEDULER,
            &SchedulerConfig { discipline: kind.into(), ..SchedulerConfig::default() },
            &rate(8_000_000),
        );
        for (id, weight) in [(1, 1), (2, 3)] {
            emulator.set_queue(Nanos::ZERO, id, SCHEDULER, &queue(FlowMask::default(), weight));
        }
        for n in 0..1600u32 {
            let id = (n % 2 + 1) as u16;
            submit(&mut emulator, Nanos::ZERO, n, &FlowKey::default(), Action::Queue(id)).unwrap();
        }
        // The transmission of a packet takes a millisecond.
        let distance_from_three_quarters = |emulator: &mut Emulator, ms| {
            let mut out = Vec::new();
            emulator.poll(Nanos::from_millis(ms), &mut out);
            out.iter().filter(|d| d.frame % 2 == 1).count().abs_diff(out.len() * 3 / 4)
        };
        assert!(distance_from_three_quarters(&mut emulator, 400) <= 3, "{kind:?}");
        emulator.set_queue(Nanos::from_millis(400), 1, SCHEDULER, &queue(FlowMask::default(), 9));
        // The weights are now 9 and 3, so queue 2 gets 100 of the next 400 packets.
        let mut out = Vec::new();
        emulator.poll(Nanos::from_millis(800), &mut out);
        assert!(out.iter().filter(|d| d.frame % 2 == 1).count().abs_diff(100) <= 9, "{kind:?}");
    }
}

#[test]
fn pages_show_every_instance_once_and_their_sums_equal_the_counters() {
    let mut emulator = Emulator::new(1, Limits::default());
    let config = PipeConfig {
        link: rate(80_000),
        queue: FlowsetConfig {
            mask: by_customer(),
            limit: Some(QueueLimit::Packets(2)),
            ..FlowsetConfig::default()
        },
        scheduler: None,
    };
    emulator.set_pipe(Nanos::ZERO, 1, &config);
    emulator.set_pipe(Nanos::ZERO, 2, &config);
    for n in 0..1000u32 {
        let _ = submit(
            &mut emulator,
            Nanos::ZERO,
            n,
            &key(n % 100, 1),
            Action::Pipe(1 + (n % 100 == 50) as u16),
        );
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page: Vec<_> = emulator.instances_of(1, after, 7).collect();
        let Some(last) = page.last() else { break };
        after = Some(last.number);
        seen.extend(page);
    }
    let mut customers: Vec<u32> = seen.iter().map(|i| i.key.dst as u32).collect();
    customers.sort_unstable();
    assert_eq!(customers, (0..100).filter(|&c| c != 50).collect::<Vec<_>>());
    assert_eq!((emulator.instance_count(1), emulator.instance_count(2)), (99, 1));
    let counters = &emulator.stats(1).unwrap().counters;
    assert_eq!(seen.iter().map(|i| i.totals.packets).sum::<u64>(), counters.packets_in);
    assert_eq!(seen.iter().map(|i| i.totals.bytes).sum::<u64>(), counters.bytes_in);
    assert_eq!(
        seen.iter().map(|i| i.totals.drops).sum::<u64>(),
        counters.drops(DropReason::QueueFull)
    );
    // Of ten packets, one is on the wire, two wait, and seven found the queue full.
    assert!(seen.iter().all(|i| (
        i.totals.packets,
        i.totals.queued_packets,
        i.totals.queued_bytes,
        i.totals.drops
    ) == (10, 2, 2000, 7)));
    assert_eq!(emulator.pipe_config(1).as_ref(), Some(&config));
    assert_eq!(emulator.schedulers().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn flows_of_a_queue_are_listed_with_their_instance() {
    let mut emulator = Emulator::new(1, Limits::default());
    emulator.set_scheduler(
        Nanos::ZERO,
        SCHEDULER,
        &SchedulerConfig { mask: by_customer(), ..SchedulerConfig::default() },
        &rate(80_000),
    );
    let config = queue(by_port(0xff), 5);
    emulator.set_queue(Nanos::ZERO, 3, SCHEDULER, &config);
    for n in 0..60u32 {
        submit(&mut emulator, Nanos::ZERO, n, &key(n % 4, (n % 3) as u16), Action::Queue(3))
            .unwrap();
    }
    let flows: Vec<_> = emulator.flows_of(3, None, 100).collect();
    assert_eq!((flows.len(), emulator.flow_count(3)), (12, 12));
    assert!(flows.iter().all(|f| f.totals.packets == 5 && f.queue == Some(3) && f.key.dst == 0));
    for instance in emulator.instances_of(SCHEDULER, None, 100) {
        let own: Vec<_> = emulator.flows_in(instance.number, 100).collect();
        assert_eq!((own.len(), instance.flows, instance.totals.packets), (3, 3, 15));
        assert!(own.iter().all(|f| f.instance_key == instance.key));
    }
    assert_eq!(emulator.queue_config(3), Some((SCHEDULER, &config)));
    assert_eq!(emulator.queues().collect::<Vec<_>>(), [3]);
}

#[test]
fn a_reset_of_the_counters_carries_over_the_packets_inside() {
    let mut emulator = Emulator::new(1, Limits::default());
    let queue = FlowsetConfig { limit: Some(QueueLimit::Packets(50)), ..FlowsetConfig::default() };
    emulator.set_pipe(
        Nanos::ZERO,
        1,
        &PipeConfig { link: rate(8_000_000), queue, scheduler: None },
    );
    for n in 0..80 {
        let _ = submit(&mut emulator, Nanos::ZERO, n, &FlowKey::default(), Action::Pipe(1));
    }
    let mut out = Vec::new();
    emulator.poll(Nanos::from_millis(10), &mut out);
    assert!(emulator.zero(1) && !emulator.zero(2));
    let counters = emulator.stats(1).unwrap().counters.clone();
    // 51 of 80 packets were admitted, 10 have left, and one is on the wire.
    assert_eq!(
        (counters.carried, counters.backlog_packets, counters.peak_queue_packets),
        (41, 41, 40)
    );
    assert_eq!((counters.packets_in, counters.packets_out, counters.total_drops()), (0, 0, 0));
    let totals = emulator.instances_of(1, None, 1).next().unwrap().totals;
    assert_eq!((totals.packets, totals.drops, totals.queued_packets), (0, 0, 40));
    finish(&mut emulator, &mut out);
    let counters = &emulator.stats(1).unwrap().counters;
    assert!(counters.balanced() && counters.backlog_packets == 0 && counters.packets_out == 41);
}

#[test]
fn a_full_pipe_refuses_only_new_customers() {
    let mut emulator = Emulator::new(1, Limits { idle: Nanos::from_secs(1), ..Limits::default() });
    for (id, most) in [(1, Some(10)), (2, None)] {
        let queue =
            FlowsetConfig { mask: by_customer(), max_flows: most, ..FlowsetConfig::default() };
        emulator.set_pipe(
            Nanos::ZERO,
            id,
            &PipeConfig { link: rate(8_000_000), queue, scheduler: None },
        );
    }
    let mut refused = 0;
    for customer in 0..30 {
        refused += usize::from(
            submit(&mut emulator, Nanos::ZERO, customer, &key(customer, 1), Action::Pipe(1))
                .is_err(),
        );
        submit(&mut emulator, Nanos::ZERO, customer, &key(customer, 1), Action::Pipe(2)).unwrap();
    }
    assert_eq!(
        (refused, emulator.stats(1).unwrap().counters.drops(DropReason::TooManyFlows)),
        (20, 20)
    );
    let packets_in = emulator.stats(1).unwrap().counters.packets_in;
    let packet =
        Arrival { frame: 0, len: 1000, link_header: 14, segments: 1, ecn: Ecn::NotEct, label: 0 };
    assert!(emulator.has_room(Nanos::ZERO, &packet, &key(29, 1), Action::Pipe(1)));
    assert_eq!(emulator.stats(1).unwrap().counters.packets_in, packets_in, "nothing was sent");
    submit(&mut emulator, Nanos::ZERO, 0, &key(3, 1), Action::Pipe(1)).unwrap();
    let mut out = Vec::new();
    emulator.poll(Nanos::from_secs(3), &mut out);
    submit(&mut emulator, Nanos::from_secs(3), 0, &key(29, 1), Action::Pipe(1)).unwrap();
    // The limits of a running engine can change.
    emulator.set_limits(
        Nanos::from_secs(3),
        Limits { instances: 1, packets: 1, idle: Nanos::from_secs(1) },
    );
    assert_eq!(
        submit(&mut emulator, Nanos::from_secs(3), 0, &key(28, 1), Action::Pipe(1))
            .unwrap_err()
            .reason,
        DropReason::TooManyFlows
    );
    assert_eq!(
        submit(&mut emulator, Nanos::from_secs(3), 0, &key(29, 1), Action::Pipe(1))
            .unwrap_err()
            .reason,
        DropReason::NoMemory
    );
    emulator.set_limits(Nanos::from_secs(3), Limits::default());
    submit(&mut emulator, Nanos::from_secs(3), 0, &key(28, 1), Action::Pipe(1)).unwrap();
}

#[test]
fn idle_flows_expire_while_their_scheduler_stays() {
    let limits = Limits { idle: Nanos::from_secs(1), instances: 50, ..Limits::default() };
    for kind in Kind::ALL {
        let mut emulator = Emulator::new(1, limits);
        emulator.set_scheduler(
            Nanos::ZERO,
            SCHEDULER,
            &SchedulerConfig { discipline: kind.into(), ..SchedulerConfig::default() },
            &rate(800_000_000),
        );
        emulator.set_queue(Nanos::ZERO, 1, SCHEDULER, &queue(by_port(0xffff), 1));
        let mut out = Vec::new();
        for round in 0..5u16 {
            let now = Nanos::from_secs(u64::from(round) * 10);
            emulator.poll(now, &mut out);
            assert_eq!(emulator.flow_count(1), 0, "{kind:?}");
            for n in 0..100 {
                submit(&mut emulator, now, 0, &key(1, round * 100 + n), Action::Queue(1)).unwrap();
            }
            assert_eq!(
                submit(&mut emulator, now, 0, &key(1, 9999), Action::Queue(1)).unwrap_err().reason,
                DropReason::TooManyFlows
            );
        }
        finish(&mut emulator, &mut out);
        assert_eq!(emulator.instances_of(SCHEDULER, None, 1).next().unwrap().totals.packets, 500);
    }
}

/// A shaping scheduler holds packets back. The work-conserving scheduler that replaces it sends
/// them without another arrival.
#[test]
fn packets_held_back_leave_when_a_work_conserving_scheduler_replaces_theirs() {
    for (from, to) in
        [(Kind::Dcf, Kind::SpPifo), (Kind::Dcf, Kind::Fifo), (Kind::Htb, Kind::RoundRobin)]
    {
        let mut emulator = Emulator::new(1, Limits::default());
        let link = rate(8_000_000);
        let configure = |emulator: &mut Emulator, now, kind: Kind| {
            emulator.set_scheduler(
                now,
                SCHEDULER,
                &SchedulerConfig { discipline: kind.into(), ..SchedulerConfig::default() },
                &link,
            );
        };
        configure(&mut emulator, Nanos::ZERO, from);
        emulator.set_queue(
            Nanos::ZERO,
            1,
            SCHEDULER,
            &FlowsetConfig { ceil: Rate::new(1_000_000), ..queue(by_port(0), 1) },
        );
        for n in 0..20 {
            submit(&mut emulator, Nanos::ZERO, n, &key(1, 0), Action::Queue(1)).unwrap();
        }
        let (mut out, now) = (Vec::new(), Nanos(2_500_000));
        emulator.poll(now, &mut out);
        configure(&mut emulator, now, to);
        finish(&mut emulator, &mut out);
        assert_eq!(out.len(), 20, "{from:?} to {to:?}");
    }
}

/// The departures of packets from five queues in nested schedulers. `change` makes the changes of
/// the configuration.
fn departures(
    change: impl Fn(&mut Emulator, Nanos, &mut dyn FnMut(&mut Emulator)),
) -> Vec<(u32, u64)> {
    let mut emulator = Emulator::new(1, Limits::default());
    let sched = |parent| SchedulerConfig { parent, ..SchedulerConfig::default() };
    let own = |weight| FlowsetConfig { weight, ..FlowsetConfig::default() };
    let now = Nanos::ZERO;
    // Queues and inner schedulers are configured before their parents, and one parent changes.
    change(&mut emulator, now, &mut |emulator| {
        for id in 1..5u16 {
            emulator.set_queue(now, id, 10 + id % 2, &queue(by_port(0xffff), u32::from(id)));
        }
        emulator.set_link(now, 10, &sched(Some(30)), &LinkConfig::default(), &own(3));
        emulator.set_link(now, 11, &sched(Some(20)), &LinkConfig::default(), &own(1));
        emulator.set_link(now, 20, &sched(None), &rate(8_000_000), &own(1));
        emulator.set_link(now, 10, &sched(Some(20)), &LinkConfig::default(), &own(3));
        emulator.set_queue(now, 5, 20, &queue(FlowMask::default(), 1));
    });
    let mut out = Vec::new();
    for n in 0..400 {
        let id = 1 + n % 5;
        submit(&mut emulator, now, n, &key(1, id as u16), Action::Queue(id as u16)).unwrap();
    }
    let half = Nanos::from_millis(150);
    emulator.poll(half, &mut out);
    // Other weights, a queue that moves, and one that is deleted, while packets wait.
    change(&mut emulator, half, &mut |emulator| {
        emulator.set_link(half, 11, &sched(Some(20)), &LinkConfig::default(), &own(9));
        emulator.set_queue(half, 1, 10, &queue(by_port(0xffff), 7));
        emulator.set_queue(half, 2, 10, &queue(by_port(0xffff), 7));
        emulator.delete_queue(half, 3);
    });
    finish(&mut emulator, &mut out);
    assert_eq!(out.len(), 400);
    out.iter().map(|departure| (departure.frame, departure.due.0)).collect()
}

#[test]
fn changes_together_have_the_result_of_the_same_changes_one_by_one() {
    let one_by_one = departures(|emulator, _, changes| changes(emulator));
    let together = departures(|emulator, now, changes| {
        emulator.change_together(now, |emulator| changes(emulator));
    });
    assert_eq!(one_by_one, together);
}

#[test]
fn a_large_configuration_changes_in_a_time_that_grows_with_its_size() {
    // 40,000 schedulers with a queue each. In a time that grows with the square of this number, the
    // changes would take minutes.
    let all = 1..40_001u16;
    let mut emulator = Emulator::new(1, Limits::default());
    // The scheduler classifies packets, so a change must also find the links that need the hash of
    // their packets.
    let fq = SchedulerConfig { discipline: Kind::FqCodel.into(), ..SchedulerConfig::default() };
    let own = FlowsetConfig::default();
    for bps in [1_000_000, 2_000_000] {
        emulator.change_together(Nanos::ZERO, |emulator| {
            for id in all.clone() {
                emulator.set_link(Nanos::ZERO, id, &fq, &rate(bps), &own);
                emulator.set_queue(Nanos::ZERO, id, id, &own);
            }
        });
        for id in all.clone().step_by(10) {
            submit(&mut emulator, Nanos::ZERO, id.into(), &key(1, 1), Action::Queue(id)).unwrap();
        }
    }
    emulator.change_together(Nanos::ZERO, |emulator| {
        for id in all.clone() {
            emulator.delete_queue(Nanos::ZERO, id);
            emulator.delete(Nanos::ZERO, id);
        }
    });
    let mut out = Vec::new();
    finish(&mut emulator, &mut out);
    assert_eq!(out.len(), 8_000, "each packet departs once");
}
