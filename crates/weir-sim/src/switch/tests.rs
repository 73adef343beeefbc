//! Tests of a whole switch: its limits, back-pressure, and rank programs between hosts.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use weir_core::Rate;
use weir_core::config::Capacity;
use weir_core::key::FlowKey;
use weir_core::stats::DropReason;

use super::*;
use crate::endpoint::{Context, Endpoint};
use crate::network::{FlowSpec, Observer};
use crate::packet::{FlowId, Packet};
use crate::traffic::{Cbr, Sink};
use crate::world::World;

/// A link with this rate in bit/s.
fn link(bps: u64) -> LinkConfig {
    LinkConfig { capacity: Capacity::Constant(Rate::new(bps).unwrap()), ..LinkConfig::default() }
}

/// A switch with small queues; only its traffic manager and the queues after it delay packets.
fn small(manager: &str, program: Option<&str>) -> SwitchConfig {
    SwitchConfig {
        pipeline: Some(0),
        manager: manager.to_owned(),
        program: program.map(str::to_owned),
        egress: 1,
        interface: 1,
        ..SwitchConfig::default()
    }
}

/// Sends packets at given times.
#[derive(Debug)]
struct Script {
    flow: FlowId,
    /// Time in ns, label, length.
    packets: Vec<(u64, u64, u32)>,
    next: usize,
}

impl Endpoint for Script {
    fn receive(&mut self, _packet: &Packet, _context: &mut Context<'_>) {}

    fn wake(&mut self, context: &mut Context<'_>) {
        let (_, label, len) = self.packets[self.next];
        context.send(Packet {
            flow: self.flow,
            len,
            label,
            seq: self.next as u64,
            ..Packet::default()
        });
        self.next += 1;
    }

    fn next_event(&self) -> Nanos {
        self.packets.get(self.next).map_or(Nanos::MAX, |&(time, ..)| Nanos(time))
    }
}

/// Arrivals: flow, packet number, label.
type Arrivals = Arc<Mutex<Vec<(u32, u64, u64)>>>;

#[derive(Debug)]
struct Watch(Arrivals);

impl Observer for Watch {
    fn arrived(&mut self, _now: Nanos, packet: &Packet) {
        self.0.lock().unwrap().push((packet.flow.0, packet.seq, packet.label));
    }
}

/// Sends one flow per script through a chain of switches, with a link of 8 Mbit/s after each.
/// Returns the arrivals.
fn play(
    config: &SwitchConfig,
    switches: usize,
    scripts: Vec<Vec<(u64, u64, u32)>>,
) -> Vec<(u32, u64, u64)> {
    let mut network = Network::new(1);
    let chain: Vec<_> =
        (0..switches).map(|_| config.build(&mut network, &[link(8_000_000)]).unwrap()).collect();
    let forward: Vec<_> = chain.iter().flat_map(|switch| switch.path(0, 0)).collect();
    let mut world = World::new(network);
    for (n, packets) in (0..).zip(scripts) {
        let key = FlowKey { src: u128::from(n), src_port: n as u16, ..FlowKey::default() };
        let spec =
            FlowSpec { forward: forward.clone(), key, class: n as u16, ..FlowSpec::default() };
        world.add_flow(
            &spec,
            Box::new(Script { flow: FlowId(n), packets, next: 0 }),
            Box::new(Sink),
        );
    }
    let seen = Arrivals::default();
    world.observe(Box::new(Watch(seen.clone())));
    world.run(Nanos::from_secs(1000));
    seen.lock().unwrap().clone()
}

#[test]
fn an_invalid_switch_is_refused_with_the_allowed_values() {
    let wrong = |change: fn(&mut SwitchConfig)| {
        let mut config = SwitchConfig::default();
        change(&mut config);
        config.check().unwrap_err().to_string()
    };
    assert!(SwitchConfig::default().check().is_ok());
    assert!(wrong(|c| c.ports = 0).contains("a switch 1 to 1024"));
    assert_eq!(wrong(|c| c.egress = 0), "`egress` must be 1..1000000 packets");
    assert_eq!(
        wrong(|c| c.batch = 1001),
        "`batch` must be 1..1000, at most what the interface holds"
    );
    assert!(wrong(|c| c.pipeline = Some(2_000_000_000)).starts_with("`pipeline` must be 0"));
    assert!(wrong(|c| c.manager = "pifoo".into()).contains("`pifoo` is no scheduler"));
    assert!(wrong(|c| c.manager = "pifo limit".into()).contains("`limit` needs a value"));
    assert!(wrong(|c| c.program = Some("fifo".into())).contains("`fifo` is no rank program"));
    let mut network = Network::new(1);
    let two = SwitchConfig { ports: 1, ..SwitchConfig::default() };
    assert_eq!(two.build(&mut network, &[link(1), link(1)]), Err(SwitchError::Ports(2, 1)));
    let read: Result<SwitchConfig, _> = toml::from_str("ingress = 3");
    assert!(read.unwrap_err().to_string().contains("unknown field `ingress`"));
}

#[test]
fn each_input_has_its_own_buffer_and_the_pipeline_alternates() {
    let config = SwitchConfig { input_buffer: 10, pipeline: Some(1000), ..SwitchConfig::default() };
    let mut network = Network::new(1);
    let switch = config.build(&mut network, &[link(8_000_000_000), link(8_000_000_000)]).unwrap();
    let pipeline = switch.pipeline().unwrap();
    let paths = [switch.path(0, 0), switch.path(1, 1)];
    let mut world = World::new(network);
    // Input 0 carries 3000 packets per second and input 1 carries 400. The pipeline serves 1000.
    for (n, bps) in [(0, 24_000_000), (1, 3_200_000)] {
        let spec = FlowSpec { forward: paths[n as usize].clone(), group: n, ..FlowSpec::default() };
        let source = Cbr::new(FlowId(n), 1000, 28, bps, Nanos(u64::from(n)), Nanos::from_secs(10));
        world.add_flow(&spec, Box::new(source), Box::new(Sink));
    }
    world.run(Nanos::from_secs(20));
    let received: Vec<u64> = world.network().counts().iter().map(|count| count.received).collect();
    assert_eq!(received[1], 4000, "the flow within its share loses nothing");
    assert!((5990..=6020).contains(&received[0]), "{received:?}");
    let drops = world.network().stats(pipeline).unwrap().counters.drops(DropReason::QueueFull);
    assert_eq!(drops, world.network().counts()[0].sent - received[0]);
}

#[test]
fn a_single_rank_uses_one_strict_queue() {
    // 200 packets at once: 64 wait, one is in the egress queue, and one is in transmission on the
    // interface.
    let packets = (0..200).map(|n| (n, 0, 1000)).collect();
    let seen = play(&small("strict-n queues 8 depth 64", Some("prio")), 1, vec![packets]);
    assert_eq!(seen.len(), 66, "{seen:?}");
}

#[test]
fn ranks_order_packets_only_if_the_following_queues_block() {
    // Every class sends ten packets at once, the least important first.
    let scripts: Vec<Vec<_>> =
        (0..8).map(|class| (0..10).map(|n| (100 - class * 10 + n, 0, 1000)).collect()).collect();
    let waits = SwitchConfig {
        interface_blocks: true,
        ..small("strict-n queues 8 depth 64", Some("prio"))
    };
    let seen = play(&waits, 1, scripts.clone());
    assert_eq!(seen.len(), 80);
    // Two packets of the least important class had passed the traffic manager before the packets of
    // the other classes arrived.
    let order: Vec<_> = seen[2..].iter().map(|&(flow, ..)| flow).collect();
    assert!(order.is_sorted(), "{order:?}");
    let drops = SwitchConfig { interface_blocks: false, ..waits };
    let seen = play(&drops, 1, scripts);
    assert_eq!(
        seen.iter().map(|&(flow, ..)| flow).collect::<Vec<_>>(),
        [7],
        "the first packet is sent, and packets that find the interface full are lost"
    );
}

#[test]
fn a_batch_leaves_before_a_full_interface_takes_more() {
    let config = SwitchConfig {
        egress: 1,
        interface: 8,
        batch: 4,
        ..small("fifo", Some("fifo+ deadline 1s"))
    };
    let seen = play(&config, 1, vec![(0..21).map(|n| (n, 0, 1000)).collect()]);
    let waited: Vec<u64> =
        seen.iter().map(|&(.., label)| (1_000_000_000 - label) / 1_000_000).collect();
    // Eight packets in the interface and one in the egress queue do not wait. The other packets
    // pass in batches of four. Each batch passes 4 ms after the previous one, the time of four
    // packets.
    assert_eq!(waited, [0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 3, 3, 7, 7, 7, 7, 11, 11, 11, 11]);
}

#[test]
fn fifo_plus_prefers_earlier_waits_and_edf_earlier_deadlines() {
    // Two packets occupy the queues after the traffic manager.
    let busy = |label| vec![(0, label, 1000), (1, label, 1000)];
    let late = |label| vec![(10, label, 1000)];
    let first = |program: &str, scripts| play(&small("pifo", Some(program)), 1, scripts)[2].0;
    assert_eq!(
        first("fifo+", vec![busy(500), late(400), late(300)]),
        2,
        "the later packet has less time left"
    );
    assert_eq!(
        first("fifo+", vec![busy(500), late(400), late(0)]),
        1,
        "a packet without a label has the whole deadline left"
    );
    assert_eq!(first("edf", vec![busy(500), late(9_000), late(8_000)]), 2);
    assert_eq!(
        first("lstf", vec![busy(500), late(400), vec![(300, 100, 1000)]]),
        2,
        "the slack of flow 2 ends at 400 ns, that of flow 1 at 410 ns"
    );
    assert_eq!(first("lstf", vec![busy(500), late(400), vec![(350, 100, 1000)]]), 1);
}

#[test]
fn programs_without_labels_rank_by_flow_state() {
    let busy = vec![(0, 0, 1000); 2];
    let run = |program: &str, scripts: Vec<Vec<(u64, u64, u32)>>| {
        let seen = play(&small("pifo", Some(program)), 1, scripts);
        seen[2..].iter().map(|&(flow, ..)| flow).collect::<Vec<_>>()
    };
    let two = |a: Vec<(u64, u64, u32)>, b| vec![busy.clone(), a, b];
    assert_eq!(run("stfq", two(vec![(5, 0, 1000); 3], vec![(6, 0, 1000); 3])), [1, 2, 1, 2, 1, 2]);
    assert_eq!(
        run("srpt", two(vec![(5, 3000, 1000), (5, 2000, 1000)], vec![(6, 1000, 1000)])),
        [2, 1, 1]
    );
    assert_eq!(run("sjf", two(vec![(5, 3000, 1000)], vec![(6, 2000, 1000)])), [2, 1]);
    assert_eq!(run("las", two(vec![(5, 0, 1000); 2], vec![(6, 0, 1000); 2])), [1, 2, 1, 2]);
    assert_eq!(run("prio", two(vec![(6, 0, 1000)], vec![(5, 0, 1000)])), [1, 2]);
    assert_eq!(run("arrival", two(vec![(6, 0, 1000)], vec![(5, 0, 1000)])), [2, 1]);
    // With `token-bucket`, flow 1 has tokens for two of its three packets, and flow 2 has tokens
    // for both of its packets.
    assert_eq!(
        run(
            "token-bucket rate 8000000 burst 2000",
            two(vec![(5, 0, 1000); 3], vec![(6, 0, 1000); 2])
        ),
        [1, 1, 2, 2, 1]
    );
    assert_eq!(
        run("min-rate rate 8000000 burst 1000", two(vec![(5, 0, 1000); 3], vec![(6, 0, 1000); 2])),
        [1, 2, 1, 1, 2]
    );
}

#[test]
fn without_flow_order_only_ranks_order_packets() {
    let packets = vec![
        (0, 900, 1000),
        (1, 900, 1000),
        (2, 900, 1000),
        (3, 800, 1000),
        (4, 700, 1000),
        (5, 600, 1000),
    ];
    let order = |keep_order| {
        let config = SwitchConfig { keep_order, ..small("pifo", Some("fifo+")) };
        play(&config, 1, vec![packets.clone()]).iter().map(|&(_, seq, _)| seq).collect::<Vec<_>>()
    };
    assert_eq!(order(false), [0, 1, 5, 4, 3, 2]);
    assert_eq!(order(true), [0, 1, 2, 3, 4, 5]);
}

proptest! {
    #[test]
    fn a_pifo_by_arrival_is_a_fifo(
        gaps in prop::collection::vec((0u64..3_000_000, 0u32..3), 1..200),
    ) {
        let mut scripts = vec![Vec::new(); 3];
        let mut time = 0;
        for &(gap, flow) in &gaps {
            time += gap;
            scripts[flow as usize].push((time, 0, 1000));
        }
        let seen = |manager, program| play(&small(manager, program), 2, scripts.clone());
        prop_assert_eq!(seen("pifo", Some("arrival")), seen("fifo", None));
        // With equal slack at the source, exact least slack is a FIFO at the first switch.
        let labels = |seen: Vec<(u32, u64, u64)>| {
            seen.into_iter().map(|(flow, seq, _)| (flow, seq)).collect::<Vec<_>>()
        };
        let one =
            |manager, program| labels(play(&small(manager, Some(program)), 1, scripts.clone()));
        prop_assert_eq!(one("pifo", "lstf slack 1s"), one("fifo", "lstf slack 1s"));
        prop_assert_eq!(one("pifo", "fifo+ deadline 1s"), one("fifo", "fifo+ deadline 1s"));
        // With a single rank, SP-PIFO uses only one queue.
        prop_assert_eq!(one("sp-pifo", "fifo+ deadline 1s"), one("fifo", "fifo+ deadline 1s"));
    }
}
