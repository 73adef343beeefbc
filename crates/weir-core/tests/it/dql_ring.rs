//! A high-priority flow behind a transmission ring, as published for DQL in ns-3: 10 Gbit/s →
//! router → 1 Gbit/s with 100 us, bulk traffic of 1.2 Gbit/s, and a small probe packet every 997
//! us.
//!
//! In the publication, the delay of the probe packets is 119.883 us + 12.016 us × (bulk packets in
//! the ring − 1): each probe packet waits for the packets ahead of it in the ring, regardless of
//! the scheduler. Framing adds 2 bytes on the wire, and the ring does not count the packet on the
//! wire.

use std::sync::Arc;

use weir_core::config::{
    Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit, SchedulerConfig,
};
use weir_core::device::{DeviceConfig, DqlConfig, StageConfig};
use weir_core::histogram::Histogram;
use weir_core::key::FlowKey;
use weir_core::link::Overhead;
use weir_core::packet::Ecn;
use weir_core::sched::{Discipline, Kind};
use weir_core::{Action, Arrival, Departure, Emulator, Fate, Limits, Nanos, Rate};

const ACCESS: u16 = 1;
const BOTTLENECK: u16 = 2;
/// Bytes of framing on the wire.
const FRAMING: u8 = 2;
/// Length of a bulk packet, bytes.
const BULK: u32 = 1500;
/// Bytes of UDP and IP headers.
const HEADERS: u32 = 28;
/// Length of a probe packet, bytes: 64 of payload, and UDP and IP headers.
const PROBE: u32 = 92;
/// The time of 1502 bytes at 1.2 Gbit/s.
const BULK_GAP: Nanos = Nanos(10_013);
const PROBE_GAP: Nanos = Nanos::from_micros(997);
const END: Nanos = Nanos::from_secs(10);
/// The time at which measuring begins.
const WARM: Nanos = Nanos::from_secs(2);

struct Outcome {
    /// One-way delay of probe packets, ns.
    probe: Histogram,
    /// Payload rate of the bulk traffic, bit/s.
    bulk_bps: f64,
    /// Mean number of bytes in the device.
    device_bytes: f64,
}

fn link(gbps: u64, delay: Nanos, device: Option<DeviceConfig>) -> LinkConfig {
    let capacity = Capacity::Constant(Rate::new(gbps * 1_000_000_000).unwrap());
    let overhead = Overhead { per_packet: i32::from(FRAMING), ..Overhead::NONE };
    LinkConfig { capacity, delay, overhead, device: device.map(Arc::new), ..LinkConfig::default() }
}

fn ring(packets: u32, dql: bool) -> DeviceConfig {
    DeviceConfig {
        ring: StageConfig { limit: QueueLimit::Packets(packets), ..StageConfig::default() },
        dql: dql.then(DqlConfig::default),
        ..DeviceConfig::default()
    }
}

/// The two links. The scheduler of the second has queue 0 for bulk packets and queue 1 for probe
/// packets.
fn two_links(kind: Kind, device: DeviceConfig) -> Emulator {
    let mut emulator = Emulator::new(1, Limits::default());
    let mut access =
        PipeConfig { link: link(10, Nanos::from_micros(1), None), ..PipeConfig::default() };
    access.queue.limit = Some(QueueLimit::Packets(1000));
    emulator.set_pipe(Nanos::ZERO, ACCESS, &access);
    let mut discipline = Discipline::new(kind);
    if kind == Kind::FqCodel {
        discipline.set("limit", "1000").unwrap();
    }
    let scheduler = SchedulerConfig { discipline, ..SchedulerConfig::default() };
    emulator.set_scheduler(
        Nanos::ZERO,
        BOTTLENECK,
        &scheduler,
        &link(1, Nanos::from_micros(100), Some(device)),
    );
    let limit = (kind != Kind::FqCodel).then_some(QueueLimit::Packets(1000));
    for (queue, priority) in [(0, 1), (1, 0)] {
        emulator.set_queue(
            Nanos::ZERO,
            queue,
            BOTTLENECK,
            &FlowsetConfig { limit, priority, ..FlowsetConfig::default() },
        );
    }
    emulator
}

fn run(kind: Kind, device: DeviceConfig) -> Outcome {
    let mut emulator = two_links(kind, device);
    let mut outcome = Outcome { probe: Histogram::default(), bulk_bps: 0.0, device_bytes: 0.0 };
    let (mut bulk, mut probe, mut sent) = (Nanos::ZERO, Nanos::from_micros(10), Vec::new());
    let (mut out, mut bulk_bytes, mut zeroed): (Vec<Departure>, u64, bool) = (Vec::new(), 0, false);
    loop {
        let now = bulk.min(probe).min(emulator.next_event().unwrap_or(Nanos::MAX));
        if now >= END {
            break;
        }
        if now >= WARM && !zeroed {
            zeroed = emulator.zero(BOTTLENECK);
        }
        emulator.poll(now, &mut out);
        for departure in out.drain(..) {
            let Fate::Deliver { .. } = departure.fate else { continue };
            let (is_probe, submitted) = sent[departure.frame as usize];
            if departure.link == ACCESS {
                submit(
                    &mut emulator,
                    now,
                    departure.frame,
                    is_probe,
                    Action::Queue(u16::from(is_probe)),
                );
            } else if is_probe && submitted >= WARM {
                outcome.probe.record(departure.due.since(submitted).0);
            } else if !is_probe && now >= WARM {
                bulk_bytes += u64::from(BULK - HEADERS);
            }
        }
        for (next, gap, is_probe) in [(&mut bulk, BULK_GAP, false), (&mut probe, PROBE_GAP, true)] {
            if *next == now {
                sent.push((is_probe, now));
                submit(&mut emulator, now, sent.len() as u32 - 1, is_probe, Action::Pipe(ACCESS));
                *next += gap;
            }
        }
    }
    let measured = END - WARM;
    outcome.bulk_bps = bulk_bytes as f64 * 8.0e9 / measured.0 as f64;
    outcome.device_bytes =
        emulator.stats(BOTTLENECK).unwrap().device.as_ref().unwrap().mean_bytes(measured.0);
    outcome
}

fn submit(emulator: &mut Emulator, now: Nanos, frame: u32, is_probe: bool, action: Action) {
    let len = if is_probe { PROBE } else { BULK };
    let key = FlowKey { src_port: u16::from(is_probe), ..FlowKey::default() };
    // A refused packet is lost, as at any full queue.
    let arrival =
        Arrival { frame, len, link_header: FRAMING, segments: 1, ecn: Ecn::NotEct, label: 0 };
    let _ = emulator.submit(now, arrival, &key, action);
}

fn assert_near(what: &str, found: f64, published: f64) {
    assert!(
        (found - published).abs() <= published * 0.02,
        "{what}: {found}, published {published}"
    );
}

fn assert_published(ring_packets: u32, dql: bool, probe_us: f64) {
    let outcome = run(Kind::FqCodel, ring(ring_packets, dql));
    assert_near("probe, us", outcome.probe.mean() / 1e3, probe_us);
    assert_near("bulk, bit/s", outcome.bulk_bps, 979.3e6);
    if dql {
        assert_near("probe p99, ns", outcome.probe.quantile(0.99) as f64, 150_000.0);
    }
    let bulk_in_ring = (probe_us - 119.883) / 12.016 + 1.0;
    assert_near(
        "bytes in the device",
        outcome.device_bytes,
        bulk_in_ring * f64::from(BULK + u32::from(FRAMING)),
    );
}

#[test]
fn a_ring_of_256_keeps_the_probe_for_3150_us() {
    assert_published(256, false, 3150.0);
}

#[test]
fn dql_keeps_three_packets_in_a_ring_of_256() {
    assert_published(256, true, 144.0);
}

#[test]
fn a_ring_of_64_keeps_the_probe_for_877_us() {
    assert_published(64, false, 877.0);
}

#[test]
fn dql_keeps_three_packets_in_a_ring_of_64() {
    assert_published(64, true, 144.0);
}

#[test]
fn a_priority_does_not_help_against_a_full_ring() {
    let full = run(Kind::Prio, ring(256, false));
    let short = run(Kind::Prio, ring(256, true));
    assert_near("probe, us", full.probe.mean() / 1e3, 3150.0);
    assert_near("probe, us", short.probe.mean() / 1e3, 144.0);
}
