//! Functions for drivers that hold packets back instead of losing them: queries whether a packet
//! would be accepted, and permits for devices to pass packets.

use std::sync::Arc;

use proptest::prelude::*;
use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, QueueLimit, SchedulerConfig};
use weir_core::device::{DeviceConfig, StageConfig};
use weir_core::key::{FlowKey, FlowMask};
use weir_core::packet::Ecn;
use weir_core::sched::{Discipline, Kind};
use weir_core::{Action, Arrival, Departure, Emulator, Fate, Limits, Nanos, Rate};

const LINK: u16 = 1;
const QUEUE: u16 = 1;

fn arrival(frame: u32, label: u64) -> Arrival {
    Arrival { frame, len: 1000, link_header: 0, segments: 1, ecn: Ecn::NotEct, label }
}

fn key(flow: u16) -> FlowKey {
    FlowKey { src_port: flow, ..FlowKey::default() }
}

/// An engine with one scheduler in front of a link of 8 Mbit/s, on which a packet takes 1 ms.
/// Packets enter through a queue with a flow for each source port; a flow holds at most `limit`
/// packets.
fn engine(discipline: Discipline, limit: u32, device: Option<DeviceConfig>) -> Emulator {
    let mut engine = Emulator::new(1, Limits::default());
    set_link(&mut engine, Nanos::ZERO, discipline, limit, device);
    engine
}

fn set_link(
    engine: &mut Emulator,
    now: Nanos,
    discipline: Discipline,
    limit: u32,
    device: Option<DeviceConfig>,
) {
    let capacity = Rate::new(8_000_000).map_or(Capacity::Unlimited, Capacity::Constant);
    let link = LinkConfig { capacity, device: device.map(Arc::new), ..LinkConfig::default() };
    let config = SchedulerConfig { discipline, ..SchedulerConfig::default() };
    let queue = FlowsetConfig {
        mask: FlowMask { src_port: u16::MAX, ..FlowMask::default() },
        limit: Some(QueueLimit::Packets(limit)),
        ..FlowsetConfig::default()
    };
    engine.set_link(now, LINK, &config, &link, &queue);
    engine.set_queue(now, QUEUE, LINK, &queue);
}

/// Runs an engine until `end`. Returns the frames that left, with their times, and the number of
/// frames that were dropped.
fn run(engine: &mut Emulator, end: Nanos) -> (Vec<(u64, u32)>, usize) {
    let mut out: Vec<Departure> = Vec::new();
    while let Some(next) = engine.next_event().filter(|&next| next <= end) {
        engine.poll(next, &mut out);
    }
    engine.poll(end, &mut out);
    let all = out.len();
    let left: Vec<_> = out
        .iter()
        .filter(|departure| matches!(departure.fate, Fate::Deliver { .. }))
        .map(|departure| (departure.due.0, departure.frame))
        .collect();
    let dropped = all - left.len();
    (left, dropped)
}

/// Every scheduler that can say whether it has room for a packet, with small limits.
fn disciplines() -> Vec<Discipline> {
    Kind::ALL
        .iter()
        .map(|&kind| {
            let mut discipline = Discipline::new(kind);
            for (setting, value) in [("depth", "3"), ("limit", "5"), ("rank", "fifo+")] {
                let _ = discipline.set(setting, value);
            }
            discipline
        })
        .filter(Discipline::knows_room)
        .collect()
}

proptest! {
    /// A packet for which there is room is accepted, and no other packet is dropped for it. A
    /// packet for which there is no room causes a drop. The query changes no state.
    #[test]
    fn has_room_predicts_the_outcome_of_a_submission(
        number in 0..disciplines().len(),
        steps in prop::collection::vec((0u64..1_500_000, 0u16..3, 1u64..60), 1..120),
    ) {
        let discipline = disciplines()[number];
        let mut asked = engine(discipline, 4, None);
        let mut other = engine(discipline, 4, None);
        let mut now = Nanos::ZERO;
        for (frame, &(gap, flow, label)) in (0..).zip(&steps) {
            now = now.saturating_add(Nanos(gap));
            let before = [&mut asked, &mut other].map(|engine| run(engine, now));
            prop_assert_eq!(&before[0], &before[1]);
            let (packet, key) = (arrival(frame, label), key(flow));
            let room = asked.has_room(now, &packet, &key, Action::Queue(QUEUE));
            let results = [&mut asked, &mut other].map(|engine| {
                let refused = engine.submit(now, packet, &key, Action::Queue(QUEUE)).is_err();
                let (left, dropped) = run(engine, now);
                (refused, left, dropped)
            });
            prop_assert_eq!(&results[0], &results[1]);
            let lost = results[0].0 || results[0].2 > 0;
            prop_assert_eq!(room, !lost, "{:?} frame {}", discipline, frame);
        }
    }
}

#[test]
fn a_gated_device_passes_one_packet_for_each_permit() {
    let device = DeviceConfig {
        ring: StageConfig { limit: QueueLimit::Packets(1), ..StageConfig::default() },
        gated: true,
        ..DeviceConfig::default()
    };
    let mut engine = engine(Discipline::new(Kind::Fifo), 3, Some(device));
    let refused = (0..6)
        .filter(|&frame| {
            engine.submit(Nanos(0), arrival(frame, 0), &key(0), Action::Queue(QUEUE)).is_err()
        })
        .count();
    // One packet is on the wire, one in the ring, and three wait in the queue.
    assert_eq!(refused, 1);
    let ms = |n: u64| Nanos(n * 1_000_000);
    assert_eq!(run(&mut engine, ms(10)).0, [(ms(1).0, 0)]);
    assert_eq!(engine.next_event(), None, "no event can change anything before the permit");
    engine.permit(ms(10), LINK);
    assert_eq!(run(&mut engine, ms(20)).0, [(ms(11).0, 1)]);
    // The first permit is used at once. The other two permits count as one, because no packet used
    // a permit between them.
    for _ in 0..3 {
        engine.permit(ms(20), LINK);
    }
    assert_eq!(run(&mut engine, ms(30)).0, [(ms(21).0, 2), (ms(22).0, 3)]);
    let stats = engine.stats(LINK).map(|stats| stats.counters.balanced());
    assert_eq!(stats, Some(true));
    engine.permit(ms(30), 7);
}

#[test]
fn a_device_that_becomes_gated_passes_its_first_packet_without_a_permit() {
    let open = DeviceConfig {
        ring: StageConfig { limit: QueueLimit::Packets(1), ..StageConfig::default() },
        ..DeviceConfig::default()
    };
    let gated = DeviceConfig { gated: true, ..open.clone() };
    let ms = |n: u64| Nanos(n * 1_000_000);
    let mut engine = engine(Discipline::new(Kind::Fifo), 4, Some(open));
    let submit = |engine: &mut Emulator, now, frame| {
        engine.submit(now, arrival(frame, 0), &key(0), Action::Queue(QUEUE)).is_ok()
    };
    assert!(submit(&mut engine, ms(0), 0));
    assert_eq!(run(&mut engine, ms(5)).0, [(ms(1).0, 0)]);
    set_link(&mut engine, ms(5), Discipline::new(Kind::Fifo), 4, Some(gated));
    assert!(submit(&mut engine, ms(6), 1) && submit(&mut engine, ms(6), 2));
    assert_eq!(run(&mut engine, ms(10)).0, [(ms(7).0, 1)]);
    engine.permit(ms(10), LINK);
    assert_eq!(run(&mut engine, ms(20)).0, [(ms(11).0, 2)]);
}
