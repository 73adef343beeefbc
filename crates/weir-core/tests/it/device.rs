//! Devices between scheduler and wire: compared with a naive model, with configuration changes, and
//! behind every scheduler.

use crate::models::device as model;

use std::sync::Arc;

use model::{Event, Model};
use proptest::prelude::*;
use weir_core::config::{
    Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit, SchedulerConfig,
};
use weir_core::device::{Completion, DeviceConfig, Done, DqlConfig, StageConfig};
use weir_core::key::{FlowKey, FlowMask};
use weir_core::packet::Ecn;
use weir_core::sched::Kind;
use weir_core::stats::{DropReason, LinkStats};
use weir_core::{Action, Arrival, Departure, Emulator, Fate, Limits, Nanos, Rate};

const PIPE: u16 = 1;
/// The rate of the link, at which one byte takes 1 ns.
const BPS: u64 = 8_000_000_000;

fn link(device: Option<&DeviceConfig>) -> LinkConfig {
    let capacity = Capacity::Constant(Rate::new(BPS).unwrap());
    LinkConfig { capacity, device: device.cloned().map(Arc::new), ..LinkConfig::default() }
}

fn queue() -> FlowsetConfig {
    FlowsetConfig { limit: Some(QueueLimit::Packets(100_000)), ..FlowsetConfig::default() }
}

fn pipe(device: Option<&DeviceConfig>) -> PipeConfig {
    PipeConfig { link: link(device), queue: queue(), scheduler: None }
}

fn ring(packets: u32) -> DeviceConfig {
    DeviceConfig {
        ring: StageConfig { limit: QueueLimit::Packets(packets), ..StageConfig::default() },
        ..DeviceConfig::default()
    }
}

fn submit(emulator: &mut Emulator, now: Nanos, frame: u32, len: u32, segments: u16) {
    let arrival = Arrival { frame, len, link_header: 0, segments, ecn: Ecn::NotEct, label: 0 };
    emulator.submit(now, arrival, &FlowKey::default(), Action::Pipe(PIPE)).unwrap();
}

fn finish(emulator: &mut Emulator, out: &mut Vec<Departure>) {
    while let Some(next) = emulator.next_event() {
        emulator.poll(next, out);
    }
}

fn stats(emulator: &Emulator) -> &LinkStats {
    emulator.stats(PIPE).unwrap()
}

fn assert_balanced(emulator: &Emulator) {
    let stats = stats(emulator);
    assert!(stats.counters.balanced());
    assert!(stats.device.as_ref().is_none_or(|device| device.balanced()), "{:?}", stats.device);
}

fn limit() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![(0u32..12).prop_map(QueueLimit::Packets), (0u64..400).prop_map(QueueLimit::Bytes)]
}

fn stage() -> impl Strategy<Value = StageConfig> {
    (limit(), prop_oneof![Just(0u64), 0u64..80], any::<bool>()).prop_map(
        |(limit, service, blocking)| StageConfig { limit, service: Nanos(service), blocking },
    )
}

fn device() -> impl Strategy<Value = DeviceConfig> {
    let completion = (any::<bool>(), 0u32..6, 0u64..300).prop_map(|(sent, frames, time)| {
        Completion { when: if sent { Done::Sent } else { Done::Read }, frames, time: Nanos(time) }
    });
    let dql = proptest::option::of(
        (0u32..200, 0u32..2000, 0u64..3000).prop_map(|(least, most, hold)| DqlConfig {
            least,
            most,
            hold: Nanos(hold),
        }),
    );
    (proptest::collection::vec(stage(), 0..3), stage(), completion, dql).prop_map(
        |(stages, ring, completion, dql)| DeviceConfig {
            stages,
            ring,
            completion,
            dql,
            gated: false,
        },
    )
}

/// Arrivals: time since the previous packet, length, and number of wire packets.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u32, u16)>> {
    proptest::collection::vec(
        (prop_oneof![3 => 0u64..3, 2 => 0u64..120, 1 => 0u64..1500], 3u32..90, 1u16..4),
        1..120,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Packets start and are dropped at the same times as in a model that visits every nanosecond.
    #[test]
    fn a_device_behaves_like_the_naive_model(device in device(), arrivals in arrivals()) {
        let mut emulator = Emulator::new(1, Limits::default());
        emulator.set_pipe(Nanos::ZERO, PIPE, &pipe(Some(&device)));
        let mut model = Model::new(&device);
        let (mut now, mut out) = (0, Vec::new());
        for (frame, &(gap, len, segments)) in arrivals.iter().enumerate() {
            now += gap;
            emulator.poll(Nanos(now), &mut out);
            submit(&mut emulator, Nanos(now), frame as u32, len, segments);
            model.submit(now, frame as u32, len, segments);
            assert_balanced(&emulator);
        }
        finish(&mut emulator, &mut out);
        assert_balanced(&emulator);
        let mut expected = model.finish();
        let mut found: Vec<Event> = out
            .iter()
            .map(|d| match d.fate {
                Fate::Deliver { .. } => Event {
                    time: d.due.0,
                    started: d.started.0,
                    left_scheduler: d.dequeued.0,
                    frame: d.frame,
                    lost: false,
                },
                Fate::Drop(reason) => {
                    assert_eq!(reason, DropReason::DeviceFull);
                    Event {
                        time: d.due.0,
                        started: d.due.0,
                        left_scheduler: d.dequeued.0,
                        frame: d.frame,
                        lost: true,
                    }
                }
            })
            .collect();
        // Events at the same time may be in any order.
        expected.sort_unstable();
        found.sort_unstable();
        prop_assert_eq!(found, expected);
        let device = stats(&emulator).device.as_ref().unwrap();
        prop_assert_eq!((device.starved, device.starved_ns), model.starved());
        prop_assert_eq!(device.most_bytes, model.most_bytes());
    }

    /// Behind a FIFO, a ring that reports at once does not change the departure times, whatever its
    /// size.
    #[test]
    fn behind_a_fifo_the_size_of_the_ring_does_not_matter(
        packets in 1u32..50,
        dql in proptest::option::of(0u32..5000),
        arrivals in arrivals(),
    ) {
        let dql = dql.map(|most| DqlConfig { most, ..DqlConfig::default() });
        let departures = |device: Option<&DeviceConfig>| {
            let mut emulator = Emulator::new(1, Limits::default());
            emulator.set_pipe(Nanos::ZERO, PIPE, &pipe(device));
            let (mut now, mut out) = (Nanos::ZERO, Vec::new());
            for (frame, &(gap, len, _)) in arrivals.iter().enumerate() {
                now += Nanos(gap);
                emulator.poll(now, &mut out);
                submit(&mut emulator, now, frame as u32, len, 1);
            }
            finish(&mut emulator, &mut out);
            out.iter().map(|d| (d.frame, d.started, d.due)).collect::<Vec<_>>()
        };
        prop_assert_eq!(departures(Some(&DeviceConfig { dql, ..ring(packets) })), departures(None));
    }

    /// The device changes, or is removed, while packets are inside. Every lost packet is counted at
    /// a stage, and all other packets keep their order.
    #[test]
    fn a_change_keeps_packets_and_their_order(
        devices in proptest::collection::vec(proptest::option::of(device()), 1..8),
        arrivals in arrivals(),
    ) {
        let mut emulator = Emulator::new(1, Limits::default());
        let (mut now, mut out) = (Nanos::ZERO, Vec::new());
        for (frame, &(gap, len, segments)) in arrivals.iter().enumerate() {
            if frame % 12 == 0 {
                let device = &devices[frame / 12 % devices.len()];
                emulator.set_pipe(now, PIPE, &pipe(device.as_ref()));
            }
            now += Nanos(gap);
            emulator.poll(now, &mut out);
            submit(&mut emulator, now, frame as u32, len, segments);
            assert_balanced(&emulator);
        }
        emulator.set_pipe(now, PIPE, &pipe(None));
        finish(&mut emulator, &mut out);
        assert_balanced(&emulator);
        prop_assert_eq!(out.len(), arrivals.len());
        let delivered: Vec<u32> = out
            .iter()
            .filter(|d| matches!(d.fate, Fate::Deliver { .. }))
            .map(|d| d.frame)
            .collect();
        prop_assert!(delivered.is_sorted(), "{:?}", delivered);
        prop_assert!(
            stats(&emulator)
                .device
                .as_ref()
                .is_none_or(|device| (device.packets, device.bytes) == (0, 0))
        );
    }

    /// Packets start on the wire in the order in which they left the scheduler. A ring that does
    /// not run dry costs no throughput: the last packet leaves at the same time as without a
    /// device.
    #[test]
    fn packets_keep_the_order_of_the_scheduler(
        kind in 0..Kind::ALL.len(),
        packets in 1u32..40,
        dql: bool,
        flows in proptest::collection::vec(0u16..5, 50..200),
    ) {
        let device = DeviceConfig { dql: dql.then(DqlConfig::default), ..ring(packets) };
        let last_due = |device: Option<&DeviceConfig>| {
            let mut emulator = Emulator::new(1, Limits::default());
            let scheduler = SchedulerConfig {
                discipline: Kind::ALL[kind].into(),
                ..SchedulerConfig::default()
            };
            emulator.set_scheduler(Nanos::ZERO, PIPE, &scheduler, &link(device));
            let mask = FlowMask { src_port: u16::MAX, ..FlowMask::default() };
            emulator.set_queue(Nanos::ZERO, 1, PIPE, &FlowsetConfig { mask, ..queue() });
            for (frame, &flow) in flows.iter().enumerate() {
                let key = FlowKey { src_port: flow, ..FlowKey::default() };
                let arrival = Arrival {
                    frame: frame as u32,
                    len: 1000,
                    link_header: 14,
                    segments: 1,
                    ecn: Ecn::NotEct,
                    label: 0,
                };
                emulator.submit(Nanos::ZERO, arrival, &key, Action::Queue(1)).unwrap();
            }
            let mut out = Vec::new();
            finish(&mut emulator, &mut out);
            assert_balanced(&emulator);
            assert_eq!(out.len(), flows.len());
            out.retain(|d| matches!(d.fate, Fate::Deliver { .. }));
            assert!(out.is_sorted_by_key(|d| (d.started, d.dequeued)));
            (out.len(), out.last().map(|d| d.due))
        };
        let (delivered, due) = last_due(Some(&device));
        // If the scheduler has bounds, its drops depend on how early the ring takes packets. Only
        // runs with equal numbers of drops are compared.
        let (plain_delivered, plain_due) = last_due(None);
        prop_assert!(
            delivered != plain_delivered || due == plain_due,
            "{} {:?} after {:?}",
            Kind::ALL[kind].row().name,
            due,
            plain_due
        );
    }
}

/// Sends `packets` of 1000 bytes at once through `device`. Returns the due time of the last packet,
/// and the device's counters.
fn send_burst(device: &DeviceConfig, packets: u32) -> (Nanos, Box<weir_core::device::DeviceStats>) {
    let mut emulator = Emulator::new(1, Limits::default());
    emulator.set_pipe(Nanos::ZERO, PIPE, &pipe(Some(device)));
    let mut out = Vec::new();
    (0..packets).for_each(|frame| submit(&mut emulator, Nanos::ZERO, frame, 1000, 1));
    finish(&mut emulator, &mut out);
    assert_balanced(&emulator);
    (out.last().unwrap().due, stats(&emulator).device.clone().unwrap())
}

#[test]
fn a_ring_too_small_for_its_processor_loses_throughput() {
    // A packet takes 400 ns of the processor and 1000 ns on the wire. A place becomes free when its
    // packet has left.
    let device = |packets| DeviceConfig {
        ring: StageConfig { service: Nanos(400), ..ring(packets).ring },
        completion: Completion { when: Done::Sent, ..Completion::default() },
        ..DeviceConfig::default()
    };
    let (one, stats) = send_burst(&device(1), 100);
    assert_eq!(one, Nanos(100 * 1400));
    assert_eq!((stats.starved, stats.starved_ns), (100, 100 * 400));
    let (two, stats) = send_burst(&device(2), 100);
    assert_eq!(two, Nanos(400 + 100 * 1000));
    assert_eq!((stats.starved, stats.starved_ns), (1, 400));
}

#[test]
fn coalesced_reports_need_a_larger_ring() {
    let device = |packets| DeviceConfig {
        completion: Completion { when: Done::Sent, frames: 16, time: Nanos(50_000) },
        ..ring(packets)
    };
    // Eight packets are sent in 8 us, and reported 50 us after the first of them left.
    let (small, stats) = send_burst(&device(8), 80);
    assert_eq!(small, Nanos(9 * 51_000 + 8_000));
    assert_eq!((stats.starved, stats.starved_ns), (9, 9 * 43_000));
    let (large, stats) = send_burst(&device(32), 80);
    assert_eq!((large, stats.starved), (Nanos(80_000), 0));
}

#[test]
fn dql_finds_the_ring_that_coalesced_reports_need() {
    let completion = Completion { when: Done::Sent, frames: 16, time: Nanos(50_000) };
    let device = DeviceConfig { completion, dql: Some(DqlConfig::default()), ..ring(256) };
    let (last, stats) = send_burst(&device, 2_000);
    // The wire starves only while the limit grows.
    assert!(last.0 < 2_000_000 * 11 / 10, "{last}");
    assert!(stats.most_bytes < 64_000, "{}", stats.most_bytes);
    let (fixed, full) = send_burst(&DeviceConfig { dql: None, ..device }, 2_000);
    assert_eq!((fixed, full.most_bytes), (Nanos(2_000_000), 255_000));
}

#[test]
fn a_train_takes_a_place_for_each_packet_on_the_wire() {
    let mut emulator = Emulator::new(1, Limits::default());
    emulator.set_pipe(Nanos::ZERO, PIPE, &pipe(Some(&ring(50))));
    for frame in 0..5 {
        submit(&mut emulator, Nanos::ZERO, frame, 44 * 1000, 44);
    }
    // One train is on the wire, one fits into the ring, and another may enter because a place is
    // free.
    assert_eq!(emulator.queue_length(PIPE).0, 2);
    let view = emulator.device_of(0).unwrap();
    assert_eq!((view.packets, view.ring_packets, view.ring_bytes), (2, 88, 88_000));
}

#[test]
fn the_queues_of_a_switch_hold_packets_back_or_drop_them() {
    // Traffic manager → egress queue of 128 → interface queue of 1000 → wire. The egress pipeline
    // is faster than the wire.
    let stage = |packets, service, blocking| StageConfig {
        limit: QueueLimit::Packets(packets),
        service: Nanos(service),
        blocking,
    };
    let switch = |blocking| DeviceConfig {
        stages: vec![stage(128, 100, true)],
        ring: stage(1000, 200, blocking),
        ..DeviceConfig::default()
    };
    let mut emulator = Emulator::new(1, Limits::default());
    emulator.set_pipe(Nanos::ZERO, PIPE, &pipe(Some(&switch(true))));
    let mut out = Vec::new();
    (0..5_000).for_each(|frame| submit(&mut emulator, Nanos::ZERO, frame, 1000, 1));
    emulator.poll(Nanos::from_millis(1), &mut out);
    let view = emulator.device_of(0).unwrap();
    assert_eq!((view.packets, view.ring_packets), (1128, 1000), "both queues are full");
    finish(&mut emulator, &mut out);
    assert_eq!((out.len(), stats(&emulator).counters.total_drops()), (5_000, 0));

    let (last, counted) = send_burst(&switch(false), 5_000);
    assert_eq!(counted.drops.len(), 2, "only the interface queue drops");
    assert_eq!(counted.started + counted.drops[1], 5_000);
    // The egress pipeline has processed all packets after 1 ms. By then the wire has sent 1000
    // packets. Another 1000 are in the full queue, and the others were dropped.
    assert!((1_999..=2_001).contains(&counted.started), "{counted:?}");
    assert_eq!(last, Nanos(300 + counted.started * 1000));
}

#[test]
fn a_deleted_pipe_drops_the_packets_in_its_device() {
    let mut emulator = Emulator::new(1, Limits::default());
    emulator.set_pipe(Nanos::ZERO, PIPE, &pipe(Some(&ring(8))));
    (0..20).for_each(|frame| submit(&mut emulator, Nanos::ZERO, frame, 1000, 1));
    let counted = emulator.delete(Nanos(500), PIPE).unwrap();
    assert_eq!(
        (counted.counters.drops(DropReason::NoSuchPipe), counted.counters.backlog_packets),
        (20, 0)
    );
    assert_eq!(counted.device.unwrap().packets, 0);
}

#[test]
fn a_reset_of_the_counters_carries_over_the_packets_inside() {
    let mut emulator = Emulator::new(1, Limits::default());
    emulator.set_pipe(Nanos::ZERO, PIPE, &pipe(Some(&ring(8))));
    (0..20).for_each(|frame| submit(&mut emulator, Nanos::ZERO, frame, 1000, 1));
    assert!(emulator.zero(PIPE));
    let device = stats(&emulator).device.as_ref().unwrap();
    assert_eq!((device.packets, device.carried, device.most_packets, device.entered), (8, 8, 8, 0));
    let mut out = Vec::new();
    finish(&mut emulator, &mut out);
    assert_balanced(&emulator);
}
