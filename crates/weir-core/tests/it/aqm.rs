//! AQMs in the engine: every AQM of the table with random traffic, tail drop compared with a queue
//! without an AQM, head drop compared with a plain list, and the default limits of queues.

use std::collections::VecDeque;

use proptest::prelude::*;
use weir_core::aqm::{self, Policy};
use weir_core::config::{
    Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit, SchedulerConfig,
};
use weir_core::key::FlowKey;
use weir_core::packet::Ecn;
use weir_core::sched::Kind;
use weir_core::stats::DropReason;
use weir_core::{Action, Arrival, Departure, Emulator, Fate, Limits, Nanos, Rate};

/// A pipe of 8 Mbit/s, so that a byte takes 1 us.
fn pipe(aqm: Option<Policy>, limit: QueueLimit) -> Emulator {
    let mut emulator = Emulator::new(1, Limits::default());
    let link = LinkConfig {
        capacity: Capacity::Constant(Rate::new(8_000_000).unwrap()),
        ..LinkConfig::default()
    };
    let queue = FlowsetConfig { aqm, limit: Some(limit), ..FlowsetConfig::default() };
    emulator.set_pipe(Nanos::ZERO, 1, &PipeConfig { link, queue, scheduler: None });
    emulator
}

/// Sends packets (length, time since the previous packet) through a pipe. Returns the departures. A
/// packet that is refused at submission appears as a drop.
fn play(emulator: &mut Emulator, packets: &[(u32, u64)], ecn: Ecn) -> Vec<Departure> {
    let (mut now, mut out) = (Nanos::ZERO, Vec::new());
    for (frame, &(len, gap)) in (0..).zip(packets) {
        now += Nanos(gap);
        emulator.poll(now, &mut out);
        let arrival = Arrival { frame, len, link_header: 14, segments: 1, ecn, label: 0 };
        if let Err(rejected) = emulator.submit(now, arrival, &FlowKey::default(), Action::Pipe(1)) {
            out.push(Departure {
                frame,
                link: 1,
                fate: Fate::Drop(rejected.reason),
                arrived: now,
                dequeued: now,
                started: now,
                due: now,
            });
        }
    }
    while let Some(next) = emulator.next_event() {
        emulator.poll(next, &mut out);
    }
    out
}

/// Frames and due times of the delivered packets.
fn delivered(departures: &[Departure]) -> Vec<(u32, Nanos)> {
    departures
        .iter()
        .filter(|d| matches!(d.fate, Fate::Deliver { .. }))
        .map(|d| (d.frame, d.due))
        .collect()
}

/// Packets: length, and time since the previous packet in ns.
fn packets() -> impl Strategy<Value = Vec<(u32, u64)>> {
    proptest::collection::vec((40u32..1500, prop_oneof![Just(0u64), 0u64..3_000_000]), 1..300)
}

fn limits() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        (1u32..30).prop_map(QueueLimit::Packets),
        (100u64..20_000).prop_map(QueueLimit::Bytes)
    ]
}

/// The deliveries under head drop, computed with a list from which the first packets are dropped.
fn head_drop(packets: &[(u32, u64)], limit: QueueLimit) -> Vec<(u32, Nanos)> {
    let (mut waiting, mut out) = (VecDeque::<(u32, u32)>::new(), Vec::new());
    let (mut now, mut free) = (0, 0u64);
    // Transmits waiting packets as long as the link becomes free by `until`. No transmission starts
    // before `from`.
    let mut serve = |waiting: &mut VecDeque<(u32, u32)>, free: &mut u64, until: u64, from: u64| {
        while *free <= until
            && let Some((frame, len)) = waiting.pop_front()
        {
            *free = (*free).max(from) + u64::from(len) * 1000;
            out.push((frame, Nanos(*free)));
        }
    };
    for (frame, &(len, gap)) in (0..).zip(packets) {
        let before = now;
        now += gap;
        serve(&mut waiting, &mut free, now, before);
        let fits = |w: &VecDeque<(u32, u32)>| match limit {
            QueueLimit::Packets(most) => w.len() < most as usize,
            QueueLimit::Bytes(most) => {
                w.iter().map(|p| u64::from(p.1)).sum::<u64>() + u64::from(len) <= most
            }
        };
        while !waiting.is_empty() && !fits(&waiting) {
            waiting.pop_front();
        }
        waiting.push_back((frame, len));
        serve(&mut waiting, &mut free, now, now);
    }
    serve(&mut waiting, &mut free, u64::MAX, now);
    out
}

proptest! {
    #[test]
    fn tail_drop_equals_a_queue_without_an_aqm(packets in packets(), limit in limits()) {
        let with =
            play(&mut pipe(Some(Policy::new(aqm::Kind::DropTail)), limit), &packets, Ecn::NotEct);
        prop_assert_eq!(with, play(&mut pipe(None, limit), &packets, Ecn::NotEct));
    }

    #[test]
    fn head_drop_delivers_the_newest_packets(packets in packets(), limit in limits()) {
        let mut emulator = pipe(Some(Policy::new(aqm::Kind::HeadDrop)), limit);
        let departures = play(&mut emulator, &packets, Ecn::NotEct);
        prop_assert_eq!(delivered(&departures), head_drop(&packets, limit));
        let lost = departures.len() - delivered(&departures).len();
        prop_assert_eq!(
            emulator.stats(1).unwrap().counters.drops(DropReason::QueueFull),
            lost as u64
        );
    }

    #[test]
    fn every_aqm_accounts_for_every_packet_and_marks_only_ecn_capable_ones(
        packets in packets(),
        limit in limits(),
        ecn in prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)],
    ) {
        for kind in aqm::Kind::ALL {
            let mut emulator = pipe(Some(Policy::new(kind)), limit);
            let departures = play(&mut emulator, &packets, ecn);
            let mut seen: Vec<u32> = departures.iter().map(|d| d.frame).collect();
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..packets.len() as u32), "{:?}", kind);
            let order = delivered(&departures);
            prop_assert!(order.is_sorted_by_key(|d| d.0), "{:?} changes the order", kind);
            let counters = &emulator.stats(1).unwrap().counters;
            prop_assert!(counters.balanced() && counters.backlog_packets == 0, "{:?}", kind);
            let marked = departures
                .iter()
                .filter(|d| matches!(d.fate, Fate::Deliver { mark: Some(_), .. }))
                .count();
            prop_assert!(
                marked == 0 || ecn != Ecn::NotEct && kind.row().traits.marks,
                "{:?}",
                kind
            );
        }
    }
}

#[test]
fn a_queue_has_no_limit_if_its_scheduler_has_one() {
    let mut emulator = Emulator::new(1, Limits::default());
    let link = LinkConfig {
        capacity: Capacity::Constant(Rate::new(8_000_000).unwrap()),
        ..LinkConfig::default()
    };
    let scheduler =
        |kind| SchedulerConfig { discipline: Kind::into(kind), ..SchedulerConfig::default() };
    let refused = |emulator: &mut Emulator| {
        let arrival = |frame| Arrival {
            frame,
            len: 1000,
            link_header: 14,
            segments: 1,
            ecn: Ecn::NotEct,
            label: 0,
        };
        (0..1000)
            .filter(|&n| {
                emulator
                    .submit(Nanos::ZERO, arrival(n), &FlowKey::default(), Action::Queue(1))
                    .is_err()
            })
            .count()
    };
    emulator.set_scheduler(Nanos::ZERO, 1, &scheduler(Kind::FqCodel), &link);
    emulator.set_queue(Nanos::ZERO, 1, 1, &FlowsetConfig::default());
    assert_eq!(refused(&mut emulator), 0);
    // The 1000 waiting packets exceed the default limit of a queue.
    emulator.set_scheduler(Nanos::ZERO, 1, &scheduler(Kind::RoundRobin), &link);
    assert_eq!(refused(&mut emulator), 1000);
    emulator.set_scheduler(Nanos::ZERO, 1, &scheduler(Kind::FqPie), &link);
    assert_eq!(refused(&mut emulator), 0);
}
