//! The emulator, compared with a simple model, and its properties with random traffic and
//! configurations.

use proptest::prelude::*;
use weir_core::config::{
    Capacity, FlowsetConfig, Jitter, LinkConfig, Loss, PipeConfig, QueueLimit, Reorder,
    SchedulerConfig,
};
use weir_core::dist::Distribution;
use weir_core::key::{FlowKey, FlowMask};
use weir_core::link::{Schedule, Step};
use weir_core::packet::Ecn;
use weir_core::stats::DropReason;
use weir_core::{
    Action, Arrival, Bytes, Departure, Emulator, Fate, Limits, Nanos, Probability, Rate,
};

fn arrival(frame: u32, len: u32) -> Arrival {
    Arrival { frame, len, link_header: 14, segments: 1, ecn: Ecn::NotEct, label: 0 }
}

fn p(x: f64) -> Probability {
    Probability::new(x).unwrap()
}

fn rate(bps: u64) -> Capacity {
    Capacity::Constant(Rate::new(bps).unwrap())
}

fn pipe(link: LinkConfig, limit: QueueLimit) -> PipeConfig {
    PipeConfig {
        link,
        queue: FlowsetConfig { limit: Some(limit), ..FlowsetConfig::default() },
        scheduler: None,
    }
}

/// Submits packets (time, length) to pipe 1. Polls at each arrival and at the extra times, and then
/// until the pipe is empty.
fn play(config: &PipeConfig, packets: &[(u64, u32)], polls: &[u64]) -> (Vec<Departure>, Emulator) {
    let mut emulator = Emulator::new(42, Limits::default());
    emulator.set_pipe(Nanos::ZERO, 1, config);
    let mut out = Vec::new();
    let mut events: Vec<(u64, Option<u32>)> =
        packets.iter().map(|&(t, len)| (t, Some(len))).collect();
    events.extend(polls.iter().map(|&t| (t, None)));
    events.sort_by_key(|e| e.0);
    let mut frame = 0;
    for (t, len) in events {
        emulator.poll(Nanos(t), &mut out);
        if let Some(len) = len {
            let _ = emulator.submit(
                Nanos(t),
                arrival(frame, len),
                &FlowKey::default(),
                Action::Pipe(1),
            );
            frame += 1;
        }
    }
    while let Some(t) = emulator.next_event() {
        emulator.poll(t, &mut out);
    }
    (out, emulator)
}

/// A pipe with rate, delay, burst 0 and tail drop, computed packet by packet: (frame, due time).
fn model(bps: u64, delay: u64, limit: u32, packets: &[(u64, u32)]) -> Vec<(u32, u64)> {
    // Times are in units of 1/bps ns, so that rounding happens only at the end.
    let bps = u128::from(bps);
    let mut free = 0u128;
    let mut starts: Vec<u128> = Vec::new();
    let mut out = Vec::new();
    for (frame, &(t, len)) in packets.iter().enumerate() {
        let now = u128::from(t) * bps;
        // An accepted packet waits until its transmission starts. The engine starts the
        // transmission in the nanosecond into which the exact start falls.
        let waiting = starts.iter().filter(|&&s| s / bps > u128::from(t)).count();
        if waiting >= limit as usize {
            continue;
        }
        let start = free.max(now);
        free = start + u128::from(len) * 8 * 1_000_000_000;
        starts.push(start);
        out.push((frame as u32, (free / bps) as u64 + delay));
    }
    out
}

fn traffic() -> impl Strategy<Value = Vec<(u64, u32)>> {
    proptest::collection::vec((0u64..3_000_000, 40u32..1501), 1..120).prop_map(|gaps| {
        let mut t = 0;
        gaps.into_iter()
            .map(|(gap, len)| {
                t += gap;
                (t, len)
            })
            .collect()
    })
}

#[test]
fn the_random_loss_is_drawn_for_the_packets_that_pass_the_queue() {
    let link = LinkConfig {
        capacity: rate(1_000_000),
        delay: Nanos::from_millis(50),
        loss: Loss::Bernoulli(p(0.1)),
        ..LinkConfig::default()
    };
    // A packet takes 10 ms, and one arrives each millisecond.
    let packets: Vec<(u64, u32)> = (0..2000).map(|i| (i * 1_000_000, 1250)).collect();
    let (out, emulator) = play(&pipe(link, QueueLimit::Packets(5)), &packets, &[]);
    let counters = emulator.stats(1).unwrap().counters.clone();
    let lost = counters.drops(DropReason::LossOnLink);
    assert!(counters.drops(DropReason::QueueFull) > 1500 && lost > 5);
    assert_eq!(counters.loss_draws, 2000 - counters.drops(DropReason::QueueFull));
    assert_eq!(counters.loss_draws, counters.packets_out + lost);
    assert!(out.iter().any(|departure| departure.fate == Fate::Drop(DropReason::LossOnLink)));
}

proptest! {
    #[test]
    fn rate_and_delay_give_exactly_the_computed_times(
        packets in traffic(),
        bps in 1_000u64..100_000_000,
        delay in 0u64..50_000_000,
        limit in 1u32..20,
    ) {
        let link = LinkConfig { capacity: rate(bps), delay: Nanos(delay), ..LinkConfig::default() };
        let (out, _) = play(&pipe(link, QueueLimit::Packets(limit)), &packets, &[]);
        let got: Vec<(u32, u64)> = out.iter().map(|d| (d.frame, d.due.0)).collect();
        prop_assert_eq!(got, model(bps, delay, limit, &packets));
    }

    #[test]
    fn polling_does_not_change_the_outcome(
        packets in traffic(),
        config in configs(),
        polls in proptest::collection::vec(0u64..200_000_000, 0..50),
    ) {
        let (plain, _) = play(&config, &packets, &[]);
        let (polled, _) = play(&config, &packets, &polls);
        prop_assert_eq!(plain, polled);
    }

    #[test]
    fn every_packet_is_accounted_for(packets in traffic(), config in configs()) {
        let mut emulator = Emulator::new(1, Limits { packets: 30, ..Limits::default() });
        emulator.set_pipe(Nanos::ZERO, 1, &config);
        let (mut out, mut refused) = (Vec::new(), 0);
        for (frame, &(t, len)) in packets.iter().enumerate() {
            emulator.poll(Nanos(t), &mut out);
            refused += u64::from(
                emulator
                    .submit(
                        Nanos(t),
                        arrival(frame as u32, len),
                        &FlowKey::default(),
                        Action::Pipe(1),
                    )
                    .is_err(),
            );
            let counters = &emulator.stats(1).unwrap().counters;
            prop_assert!(counters.balanced(), "{:?}", counters);
        }
        while let Some(t) = emulator.next_event() {
            emulator.poll(t, &mut out);
        }
        let counters = &emulator.stats(1).unwrap().counters;
        prop_assert!(counters.balanced());
        prop_assert_eq!(counters.backlog_packets, 0);
        prop_assert_eq!(counters.packets_in, packets.len() as u64);
        let delivered =
            out.iter().filter(|d| matches!(d.fate, Fate::Deliver { .. })).count() as u64;
        prop_assert_eq!(delivered, counters.packets_out);
        prop_assert_eq!(out.len() as u64 - delivered + refused, counters.total_drops());
        prop_assert_eq!(emulator.queue_length(1), (0, 0));
        for departure in &out {
            prop_assert!(
                departure.arrived <= departure.dequeued && departure.dequeued <= departure.due
            );
        }
    }

    #[test]
    fn a_link_without_reordering_keeps_the_order(packets in traffic(), config in configs()) {
        let keeps = config.link.reorder.is_none()
            && config.link.jitter.as_ref().is_none_or(|j| !j.may_reorder);
        let (out, _) = play(&config, &packets, &[]);
        let frames: Vec<u32> = out
            .iter()
            .filter(|d| matches!(d.fate, Fate::Deliver { .. }))
            .map(|d| d.frame)
            .collect();
        prop_assert!(out.windows(2).all(|w| w[0].due <= w[1].due));
        if keeps {
            prop_assert!(frames.is_sorted(), "{:?}", frames);
        }
    }

    /// A configuration change loses no packet and keeps the order.
    #[test]
    fn reconfiguration_keeps_the_packets_inside(
        packets in traffic(),
        first in 1_000u64..10_000_000,
        second in 1_000u64..10_000_000,
        at in 0usize..100,
    ) {
        let link = |bps| LinkConfig {
            capacity: rate(bps),
            delay: Nanos::from_millis(5),
            ..LinkConfig::default()
        };
        let mut emulator = Emulator::new(1, Limits::default());
        emulator.set_pipe(Nanos::ZERO, 1, &pipe(link(first), QueueLimit::Packets(1000)));
        let mut out = Vec::new();
        for (frame, &(t, len)) in packets.iter().enumerate() {
            if frame == at {
                emulator.set_pipe(Nanos(t), 1, &pipe(link(second), QueueLimit::Packets(500)));
            }
            emulator
                .submit(Nanos(t), arrival(frame as u32, len), &FlowKey::default(), Action::Pipe(1))
                .unwrap();
        }
        while let Some(t) = emulator.next_event() {
            emulator.poll(t, &mut out);
        }
        let frames: Vec<u32> = out.iter().map(|d| d.frame).collect();
        prop_assert_eq!(frames, (0..packets.len() as u32).collect::<Vec<_>>());
    }
}

fn configs() -> impl Strategy<Value = PipeConfig> {
    let capacity = prop_oneof![Just(Capacity::Unlimited), (10_000u64..50_000_000).prop_map(rate)];
    let small = || (0.0f64..0.3).prop_map(p);
    let jitter = proptest::option::of((0u64..5_000_000, small(), any::<bool>()).prop_map(
        |(amount, correlation, may_reorder)| Jitter {
            amount: Nanos(amount),
            distribution: std::sync::Arc::new(Distribution::normal()),
            correlation,
            may_reorder,
        },
    ));
    let reorder = proptest::option::of((small(), 1u32..5).prop_map(|(probability, gap)| Reorder {
        probability,
        gap,
        correlation: p(0.25),
    }));
    (capacity, 0u64..3000, 0u64..20_000_000, jitter, small(), small(), small(), reorder, 1u32..30)
        .prop_map(|(capacity, burst, delay, jitter, loss, duplicate, corrupt, reorder, limit)| {
            let link = LinkConfig {
                capacity,
                burst: Bytes(burst),
                delay: Nanos(delay),
                jitter,
                loss: Loss::Bernoulli(loss),
                duplicate,
                corrupt,
                reorder,
                ..LinkConfig::default()
            };
            pipe(link, QueueLimit::Packets(limit))
        })
}

#[test]
fn a_burst_leaves_at_once_and_no_more() {
    let link =
        LinkConfig { capacity: rate(8_000_000), burst: Bytes(5000), ..LinkConfig::default() };
    let packets: Vec<(u64, u32)> = (0..10).map(|_| (1_000_000_000, 1000)).collect();
    let (out, _) = play(&pipe(link, QueueLimit::Packets(100)), &packets, &[]);
    let at_once = out.iter().filter(|d| d.due == Nanos(1_000_000_000)).count();
    assert_eq!(at_once, 5);
    assert_eq!(out[9].due, Nanos(1_000_000_000) + Nanos::from_millis(5));
}

#[test]
fn a_schedule_changes_rate_in_the_middle_of_a_packet_and_repeats() {
    let step = |bps| Step { capacity: Some(rate(bps)), ..Step::default() };
    let schedule = Schedule::new(
        vec![(Nanos::ZERO, step(8_000_000)), (Nanos::from_micros(500), step(1_000_000))],
        Some(Nanos::from_secs(1)),
    )
    .unwrap();
    let link = LinkConfig {
        capacity: rate(1),
        schedule: Some(std::sync::Arc::new(schedule)),
        ..LinkConfig::default()
    };
    let (out, _) =
        play(&pipe(link, QueueLimit::Packets(10)), &[(0, 1000), (3_000_000_000, 1000)], &[]);
    assert_eq!(out[0].due, Nanos::from_micros(4_500));
    assert_eq!(out[1].due, Nanos::from_secs(3) + Nanos::from_micros(4_500));
}

#[test]
fn a_change_keeps_the_scheduled_values_that_it_does_not_name() {
    let first = Step {
        capacity: Some(rate(8_000_000)),
        delay: Some(Nanos::from_millis(50)),
        ..Step::default()
    };
    let schedule = Schedule::new(vec![(Nanos::ZERO, first)], None).unwrap();
    let mut link = LinkConfig {
        capacity: rate(1_000_000),
        schedule: Some(std::sync::Arc::new(schedule)),
        ..LinkConfig::default()
    };
    let mut emulator = Emulator::new(1, Limits::default());
    let set = |emulator: &mut Emulator, at, link: &LinkConfig| {
        let config = pipe(link.clone(), QueueLimit::Packets(10));
        emulator.set_pipe(Nanos::from_millis(at), 1, &config);
    };
    let crosses_in = |emulator: &mut Emulator, at: u64| {
        let (at, mut out) = (Nanos::from_millis(at), Vec::new());
        emulator.submit(at, arrival(0, 1000), &FlowKey::default(), Action::Pipe(1)).unwrap();
        while let Some(next) = emulator.next_event() {
            emulator.poll(next, &mut out);
        }
        out.pop().unwrap().due.since(at)
    };
    set(&mut emulator, 0, &link);
    assert_eq!(crosses_in(&mut emulator, 0), Nanos::from_millis(51));
    link.corrupt = p(1.0);
    set(&mut emulator, 100, &link);
    assert_eq!(crosses_in(&mut emulator, 200), Nanos::from_millis(51), "only the errors changed");
    link.delay = Nanos::from_millis(10);
    set(&mut emulator, 300, &link);
    assert_eq!(crosses_in(&mut emulator, 400), Nanos::from_millis(11), "the delay changed, too");
    link.schedule = None;
    set(&mut emulator, 500, &link);
    assert_eq!(crosses_in(&mut emulator, 600), Nanos::from_millis(18), "the schedule is removed");
}

#[test]
fn masks_make_links_that_expire() {
    let mut emulator =
        Emulator::new(1, Limits { idle: Nanos::from_secs(1), instances: 3, ..Limits::default() });
    let link = LinkConfig { capacity: rate(8_000_000), ..LinkConfig::default() };
    let mask = FlowMask { dst_ip: 0xff, ..FlowMask::default() };
    let queue = FlowsetConfig { mask, ..FlowsetConfig::default() };
    emulator.set_pipe(Nanos::ZERO, 1, &PipeConfig { link, queue, scheduler: None });
    let submit = |emulator: &mut Emulator, now, dst| {
        emulator.submit(
            now,
            arrival(dst, 1000),
            &FlowKey { dst: dst.into(), ..FlowKey::default() },
            Action::Pipe(1),
        )
    };
    for customer in 0..3 {
        submit(&mut emulator, Nanos::ZERO, customer).unwrap();
    }
    assert_eq!(submit(&mut emulator, Nanos::ZERO, 3).unwrap_err().reason, DropReason::TooManyFlows);
    let mut out = Vec::new();
    emulator.poll(Nanos::from_millis(1), &mut out);
    assert_eq!(out.len(), 3, "each customer has the whole rate");
    assert_eq!(emulator.instances(), 3);
    emulator.poll(Nanos::from_secs(3), &mut out);
    assert_eq!(emulator.instances(), 0);
    submit(&mut emulator, Nanos::from_secs(3), 9).unwrap();
    assert!(emulator.stats(1).unwrap().counters.balanced());
}

#[test]
fn queues_of_two_flowsets_share_a_link_but_not_a_limit() {
    let mut emulator = Emulator::new(1, Limits::default());
    let link = LinkConfig { capacity: rate(8_000), ..LinkConfig::default() };
    emulator.set_scheduler(Nanos::ZERO, 5, &SchedulerConfig::default(), &link);
    for (id, limit) in [(1, 2), (2, 4)] {
        emulator.set_queue(
            Nanos::ZERO,
            id,
            5,
            &FlowsetConfig { limit: Some(QueueLimit::Packets(limit)), ..FlowsetConfig::default() },
        );
    }
    let mut accepted = [0; 2];
    for n in 0..20 {
        let queue = n % 2;
        accepted[queue] += usize::from(
            emulator
                .submit(
                    Nanos::ZERO,
                    arrival(n as u32, 100),
                    &FlowKey::default(),
                    Action::Queue(queue as u16 + 1),
                )
                .is_ok(),
        );
    }
    // The first packet went to the wire without waiting.
    assert_eq!(accepted, [3, 4]);
    assert_eq!(emulator.queue_length(5), (6, 600));
}

#[test]
fn an_expired_link_frees_its_flows() {
    // Three links with two flows each are as many flows as the limit allows, so a flow that
    // outlives its link would exceed the limit.
    let mut emulator =
        Emulator::new(1, Limits { idle: Nanos::from_secs(1), instances: 3, ..Limits::default() });
    let mask = FlowMask { dst_ip: u32::MAX, ..FlowMask::default() };
    let scheduler = SchedulerConfig { mask, ..SchedulerConfig::default() };
    emulator.set_scheduler(
        Nanos::ZERO,
        5,
        &scheduler,
        &LinkConfig { capacity: rate(8_000_000), ..LinkConfig::default() },
    );
    emulator.set_queue(
        Nanos::ZERO,
        1,
        5,
        &FlowsetConfig {
            mask: FlowMask { src_port: 1, ..FlowMask::default() },
            ..FlowsetConfig::default()
        },
    );
    let mut out = Vec::new();
    for round in 0..4u32 {
        let now = Nanos::from_secs(u64::from(round) * 10);
        emulator.poll(now, &mut out);
        assert_eq!(emulator.instances(), 0);
        for flow in 0..6u32 {
            let key = FlowKey {
                dst: (round * 3 + flow % 3).into(),
                src_port: (flow / 3) as u16,
                ..FlowKey::default()
            };
            emulator.submit(now, arrival(flow, 1000), &key, Action::Queue(1)).unwrap();
        }
        assert_eq!(emulator.instances(), 3);
    }
}

#[test]
fn deleting_a_pipe_returns_every_frame() {
    let mut emulator = Emulator::new(1, Limits::default());
    let link = LinkConfig {
        capacity: rate(1_000_000),
        delay: Nanos::from_secs(1),
        ..LinkConfig::default()
    };
    emulator.set_pipe(Nanos::ZERO, 1, &pipe(link, QueueLimit::Packets(100)));
    for n in 0..50 {
        emulator
            .submit(
                Nanos(u64::from(n) * 1_000_000),
                arrival(n, 1000),
                &FlowKey::default(),
                Action::Pipe(1),
            )
            .unwrap();
    }
    let stats = emulator.delete(Nanos::from_millis(60), 1).unwrap();
    assert!(stats.counters.balanced() && stats.counters.backlog_packets == 0);
    let mut out = Vec::new();
    emulator.poll(Nanos::from_millis(60), &mut out);
    let mut frames: Vec<u32> = out.iter().map(|d| d.frame).collect();
    frames.sort_unstable();
    assert_eq!(frames, (0..50).collect::<Vec<_>>());
    assert!(
        emulator
            .submit(Nanos::from_secs(1), arrival(0, 1), &FlowKey::default(), Action::Pipe(1))
            .is_err()
    );
    assert_eq!(emulator.unrouted(), 1);
}

#[test]
fn a_million_packets_at_full_rate_do_not_drift() {
    // At 3 Mbit/s a packet of 1499 bytes does not take a whole number of nanoseconds. After a
    // million packets, the due time must still be exact.
    let link = LinkConfig { capacity: rate(3_000_000), ..LinkConfig::default() };
    let mut emulator = Emulator::new(1, Limits::default());
    emulator.set_pipe(Nanos::ZERO, 1, &pipe(link, QueueLimit::Packets(10)));
    let (mut out, mut frame) = (Vec::new(), 0u32);
    for _ in 0..2 {
        emulator
            .submit(Nanos::ZERO, arrival(frame, 1499), &FlowKey::default(), Action::Pipe(1))
            .unwrap();
        frame += 1;
    }
    while frame < 1_000_000 {
        let next = emulator.next_event().unwrap();
        emulator.poll(next, &mut out);
        emulator.submit(next, arrival(frame, 1499), &FlowKey::default(), Action::Pipe(1)).unwrap();
        frame += 1;
    }
    let last = out.last().unwrap();
    let exact = u128::from(last.frame + 1) * 1499 * 8 * 1_000_000_000 / 3_000_000;
    assert_eq!(u128::from(last.due.0), exact);
}
