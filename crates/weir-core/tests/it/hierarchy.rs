//! Hierarchies of schedulers in the engine: the shares at each level, and configuration changes,
//! which lose no packet.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, QueueLimit, SchedulerConfig};
use weir_core::key::{FlowKey, FlowMask};
use weir_core::packet::Ecn;
use weir_core::sched::Kind;
use weir_core::{Action, Arrival, Departure, Emulator, Fate, Limits, Nanos, Rate};

const ROOT: u16 = 1;

fn link() -> LinkConfig {
    LinkConfig {
        capacity: Capacity::Constant(Rate::new(8_000_000).unwrap()),
        ..LinkConfig::default()
    }
}

fn of_weight(weight: u32) -> FlowsetConfig {
    FlowsetConfig { weight, limit: Some(QueueLimit::Packets(10_000)), ..FlowsetConfig::default() }
}

fn by_customer() -> FlowMask {
    FlowMask { dst_ip: u32::MAX, ..FlowMask::default() }
}

fn by_port() -> FlowMask {
    FlowMask { src_port: u16::MAX, ..FlowMask::default() }
}

/// Configures the root, which has the link.
fn root(emulator: &mut Emulator, now: Nanos, kind: Kind) {
    emulator.set_scheduler(
        now,
        ROOT,
        &SchedulerConfig { discipline: kind.into(), ..SchedulerConfig::default() },
        &link(),
    );
}

/// Configures scheduler `id` as a child of `parent`.
fn child(
    emulator: &mut Emulator,
    now: Nanos,
    id: u16,
    kind: Kind,
    parent: u16,
    weight: u32,
    mask: FlowMask,
) {
    let config = SchedulerConfig {
        discipline: kind.into(),
        mask,
        max_instances: None,
        parent: Some(parent),
    };
    // A scheduler with a parent has no link, so the link's configuration has no effect.
    emulator.set_link(now, id, &config, &LinkConfig::default(), &of_weight(weight));
}

fn key(customer: u32, port: u16) -> FlowKey {
    FlowKey { dst: customer.into(), src_port: port, ..FlowKey::default() }
}

fn submit(emulator: &mut Emulator, now: Nanos, frame: u32, queue: u16, key: &FlowKey) -> bool {
    let arrival =
        Arrival { frame, len: 1000, link_header: 14, segments: 1, ecn: Ecn::NotEct, label: 0 };
    emulator.submit(now, arrival, key, Action::Queue(queue)).is_ok()
}

/// The next `count` departures, in order.
fn served(emulator: &mut Emulator, count: usize) -> Vec<Departure> {
    let mut out = Vec::new();
    while let Some(next) = emulator.next_event().filter(|_| out.len() < count) {
        emulator.poll(next, &mut out);
    }
    out.truncate(count);
    out
}

#[test]
fn each_level_divides_its_share_by_weight() {
    let mut emulator = Emulator::new(1, Limits::default());
    root(&mut emulator, Nanos::ZERO, Kind::Wf2qPlus);
    child(&mut emulator, Nanos::ZERO, 2, Kind::RoundRobin, ROOT, 3, FlowMask::default());
    child(&mut emulator, Nanos::ZERO, 3, Kind::Wf2qPlus, 2, 2, FlowMask::default());
    // The root serves queue 1 and scheduler 2 in the ratio 1:3, scheduler 2 serves queue 2 and
    // scheduler 3 in the ratio 1:2, and scheduler 3 serves queues 3 and 4 in the ratio 1:1. Each
    // queue therefore has a quarter of the link.
    for (queue, scheduler) in [(1, ROOT), (2, 2), (3, 3), (4, 3)] {
        emulator.set_queue(Nanos::ZERO, queue, scheduler, &of_weight(1));
    }
    for frame in 0..4000 {
        assert!(submit(&mut emulator, Nanos::ZERO, frame, (frame % 4) as u16 + 1, &key(0, 0)));
    }
    let mut packets = [0; 4];
    served(&mut emulator, 2000).iter().for_each(|d| packets[d.frame as usize % 4] += 1);
    assert!(
        packets
            .iter()
            .zip([500, 500, 500, 500])
            .all(|(got, exact): (&i32, i32)| got.abs_diff(exact) <= 6),
        "{packets:?}"
    );
    assert!(emulator.stats(ROOT).unwrap().counters.balanced());
}

#[test]
fn customers_have_equal_shares_whatever_the_number_of_their_flows() {
    let mut emulator = Emulator::new(1, Limits::default());
    root(&mut emulator, Nanos::ZERO, Kind::RoundRobin);
    child(&mut emulator, Nanos::ZERO, 2, Kind::RoundRobin, ROOT, 1, by_customer());
    emulator.set_queue(Nanos::ZERO, 1, 2, &FlowsetConfig { mask: by_port(), ..of_weight(1) });
    for frame in 0..6000 {
        // Customer 7 has one flow, customer 9 a hundred.
        let (customer, port) = if frame % 2 == 0 { (7, 1) } else { (9, (frame / 2 % 100) as u16) };
        assert!(submit(&mut emulator, Nanos::ZERO, frame, 1, &key(customer, port)));
    }
    assert_eq!(emulator.flow_count(1), 101);
    let of_seven = served(&mut emulator, 3000).iter().filter(|d| d.frame % 2 == 0).count();
    assert!(of_seven.abs_diff(1500) <= 3, "{of_seven}");
}

#[test]
fn packets_are_rejected_while_a_parent_is_missing_or_its_own_child() {
    let mut emulator = Emulator::new(1, Limits::default());
    child(&mut emulator, Nanos::ZERO, 2, Kind::Fifo, ROOT, 1, FlowMask::default());
    emulator.set_queue(Nanos::ZERO, 1, 2, &of_weight(1));
    assert!(!submit(&mut emulator, Nanos::ZERO, 0, 1, &key(0, 0)));
    root(&mut emulator, Nanos::ZERO, Kind::Fifo);
    assert!(submit(&mut emulator, Nanos::ZERO, 1, 1, &key(0, 0)));
    child(&mut emulator, Nanos::ZERO, 2, Kind::Fifo, 2, 1, FlowMask::default());
    assert!(!submit(&mut emulator, Nanos::ZERO, 2, 1, &key(0, 0)));
    assert_eq!(emulator.unrouted(), 2);
    assert_eq!(served(&mut emulator, 9).iter().map(|d| d.frame).collect::<Vec<_>>(), [1]);
    // Scheduler 2 has a parent and therefore no link, so a packet that is sent directly to it, as
    // to a pipe, is refused.
    let arrival =
        Arrival { frame: 3, len: 1, link_header: 14, segments: 1, ecn: Ecn::NotEct, label: 0 };
    assert!(emulator.submit(Nanos::from_secs(1), arrival, &key(0, 0), Action::Pipe(2)).is_err());
}

#[test]
fn a_queue_that_joins_a_scheduler_does_not_change_its_share() {
    let mut emulator = Emulator::new(1, Limits::default());
    let now = Nanos::ZERO;
    root(&mut emulator, now, Kind::Wf2qPlus);
    for id in [2, 3] {
        child(&mut emulator, now, id, Kind::Wf2qPlus, ROOT, 1, FlowMask::default());
    }
    let by_port = FlowsetConfig { mask: by_port(), ..of_weight(1) };
    emulator.set_queue(now, 2, 2, &by_port);
    emulator.set_queue(now, 3, 3, &by_port);
    for n in 0..200 {
        assert!(submit(&mut emulator, now, n, 2 + (n % 2) as u16, &key(1, 1)));
    }
    // Scheduler 2 gets another queue and another flow, and still has half.
    emulator.set_queue(now, 1, 2, &by_port);
    for n in 200..300 {
        assert!(submit(&mut emulator, now, n, 1 + (n % 2) as u16, &key(1, 2)));
    }
    let out = served(&mut emulator, 100);
    let of_3 = out.iter().filter(|one| one.frame < 200 && one.frame % 2 == 1).count();
    assert!((48..=52).contains(&of_3), "{of_3} of 100 packets");
}

#[test]
fn a_scheduler_that_changes_without_queues_serves_later_queues_by_its_new_algorithm() {
    let mut emulator = Emulator::new(1, Limits::default());
    let now = Nanos::ZERO;
    root(&mut emulator, now, Kind::Wf2qPlus);
    child(&mut emulator, now, 2, Kind::RoundRobin, ROOT, 1, FlowMask::default());
    child(&mut emulator, now, 3, Kind::RoundRobin, ROOT, 1, FlowMask::default());
    emulator.set_queue(now, 1, 2, &of_weight(1));
    assert!(submit(&mut emulator, now, 0, 1, &key(1, 1)));
    assert!(submit(&mut emulator, now, 1, 1, &key(1, 1)));
    // The queue leaves with packets inside, and comes back to a scheduler with priorities.
    emulator.set_queue(now, 1, 3, &of_weight(1));
    child(&mut emulator, now, 2, Kind::Prio, ROOT, 1, FlowMask::default());
    for (queue, priority) in [(1, 5), (4, 1)] {
        emulator.set_queue(now, queue, 2, &FlowsetConfig { priority, ..of_weight(1) });
    }
    for n in 2..42 {
        assert!(submit(&mut emulator, now, n, if n < 22 { 1 } else { 4 }, &key(1, 1)));
    }
    let out: Vec<u32> = served(&mut emulator, 42).iter().map(|one| one.frame).collect();
    let place = |frame| out.iter().position(|&other| other == frame).unwrap();
    let (last_of_4, last_of_1) = (place(41), place(21));
    let between = out[..last_of_4].iter().filter(|&&frame| (4..22).contains(&frame)).count();
    assert!(last_of_4 < last_of_1 && between == 0, "{out:?}");
}

#[test]
fn a_new_weight_of_a_scheduler_applies_to_waiting_packets() {
    let mut emulator = Emulator::new(1, Limits::default());
    root(&mut emulator, Nanos::ZERO, Kind::Wf2qPlus);
    for id in [2, 3] {
        child(&mut emulator, Nanos::ZERO, id, Kind::RoundRobin, ROOT, 1, FlowMask::default());
        emulator.set_queue(Nanos::ZERO, id, id, &of_weight(1));
    }
    for frame in 0..4000 {
        submit(&mut emulator, Nanos::ZERO, frame, (frame % 2) as u16 + 2, &key(0, 0));
    }
    child(&mut emulator, Nanos::ZERO, 2, Kind::RoundRobin, ROOT, 4, FlowMask::default());
    let of_two = served(&mut emulator, 1000).iter().filter(|d| d.frame % 2 == 0).count();
    assert!(of_two.abs_diff(800) <= 6, "{of_two}");
}

/// A step of a test: traffic, or a change of the configuration. `Expire` waits for longer than
/// `idle`, so that idle instances expire.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Submit { queue: u16, customer: u32, port: u16 },
    Wait(u64),
    Root(usize),
    Child { id: u16, kind: usize, parent: u16, weight: u32, masked: bool },
    Queue { queue: u16, masked: bool, weight: u32 },
    Expire,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let kind = || 0..Kind::ALL.len();
    let operation = prop_oneof![
        24 => (1u16..5, 0u32..3, 0u16..3).prop_map(|(queue, customer, port)| Operation::Submit { queue, customer, port }),
        6 => (0u64..4_000_000).prop_map(Operation::Wait),
        1 => kind().prop_map(Operation::Root),
        3 => (2u16..5, kind(), 1u16..5, 1u32..5, any::<bool>())
            .prop_map(|(id, kind, parent, weight, masked)| Operation::Child { id, kind, parent, weight, masked }),
        1 => (1u16..5, any::<bool>(), 1u32..5).prop_map(|(queue, masked, weight)| Operation::Queue { queue, masked, weight }),
        1 => Just(Operation::Expire),
    ];
    proptest::collection::vec(operation, 1..300)
}

fn configure_queue(emulator: &mut Emulator, now: Nanos, queue: u16, masked: bool, weight: u32) {
    let mask = if masked { by_port() } else { FlowMask::default() };
    emulator.set_queue(now, queue, queue, &FlowsetConfig { mask, ..of_weight(weight) });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Kinds, parents, weights and masks change while packets are queued. Each packet departs once,
    /// and the packets of a flow depart in order.
    #[test]
    fn changes_of_a_hierarchy_lose_no_packet_and_keep_the_order_of_each_flow(
        operations in operations(),
    ) {
        let mut emulator =
            Emulator::new(1, Limits { idle: Nanos::from_millis(5), ..Limits::default() });
        let (mut now, mut out, mut sent) = (Nanos::ZERO, Vec::new(), Vec::new());
        root(&mut emulator, now, Kind::RoundRobin);
        for id in 1..5 {
            if id > ROOT {
                child(&mut emulator, now, id, Kind::RoundRobin, id - 1, 1, FlowMask::default());
            }
            configure_queue(&mut emulator, now, id, true, 1);
        }
        for operation in operations {
            match operation {
                Operation::Submit { queue, customer, port } => {
                    if submit(&mut emulator, now, sent.len() as u32, queue, &key(customer, port)) {
                        sent.push((queue, customer, port));
                    }
                }
                Operation::Wait(span) => {
                    now = Nanos(now.0 + span);
                    emulator.poll(now, &mut out);
                }
                Operation::Root(kind) => root(&mut emulator, now, Kind::ALL[kind]),
                // A parent has a lower number than its child, so every scheduler is below the root,
                // which has the link.
                Operation::Child { id, kind, parent, weight, masked } if parent < id => {
                    let mask = if masked { by_customer() } else { FlowMask::default() };
                    child(&mut emulator, now, id, Kind::ALL[kind], parent, weight, mask);
                }
                Operation::Child { .. } => {}
                Operation::Queue { queue, masked, weight } => {
                    configure_queue(&mut emulator, now, queue, masked, weight);
                }
                Operation::Expire => {
                    now = Nanos(now.0 + 20_000_000);
                    emulator.poll(now, &mut out);
                }
            }
            prop_assert!(emulator.stats(ROOT).unwrap().counters.balanced());
        }
        while let Some(next) = emulator.next_event() {
            emulator.poll(next, &mut out);
        }
        let mut latest: BTreeMap<_, u32> = BTreeMap::new();
        let mut seen = vec![false; sent.len()];
        for departure in out {
            let frame = departure.frame;
            let departed_before = core::mem::replace(&mut seen[frame as usize], true);
            prop_assert!(!departed_before, "a packet departed twice");
            if let Fate::Deliver { .. } = departure.fate {
                let before = latest.insert(sent[frame as usize], frame);
                prop_assert!(
                    before.is_none_or(|before| before < frame),
                    "{:?}: {:?} before {}",
                    sent[frame as usize],
                    before,
                    frame
                );
            }
        }
        prop_assert!(seen.iter().all(|&seen| seen), "a packet stayed inside");
        prop_assert_eq!(emulator.queue_length(ROOT), (0, 0));
    }
}
