//! Strict priority in front of an interface that blocks or drops.
//!
//! Eight flows of 1 Mbit/s, each with its own priority, share a link of 5 Mbit/s. If the interface
//! blocks, the strict queues fill up and decide which packets leave. If it drops, the traffic
//! manager passes every packet at once, and the interface discards packets of all priorities alike.

use weir_core::config::{Capacity, LinkConfig};
use weir_core::key::FlowKey;
use weir_core::link::Overhead;
use weir_core::{Nanos, Rate};

use weir_report::finding::{Cell, Claim, Finding, Provenance, Quantity, Range, Table};
use weir_sim::network::{FlowSpec, Network};
use weir_sim::packet::FlowId;
use weir_sim::random::{Draws, Variable};
use weir_sim::switch::SwitchConfig;
use weir_sim::traffic::renewal::Renewal;
use weir_sim::traffic::{Sending, Sink, Source};
use weir_sim::world::World;

use super::experiment::{Experiment, Options, Progress};
use super::parallel::over_seeds;
use super::sources::{PIFO_SWITCH, published};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "priority-drop",
    summary: "an interface that drops instead of blocking removes the effect of strict priorities",
    source: "PIFO on a P4 software switch by eight strict-priority queues, section 4.4.1.1",
    run,
};

/// A system: its name, the size of the interface's queue, and whether the interface blocks.
const SYSTEMS: [(&str, u32, bool); 4] = [
    ("blocks, 1000 packets", 1000, true),
    ("blocks, 20 packets", 20, true),
    ("drops, 1000 packets", 1000, false),
    ("drops, 20 packets", 20, false),
];

/// For each flow, the share of its packets that arrived. Counting begins when the queues have
/// filled up.
fn shares(interface: u32, blocks: bool, seconds: u64, seed: u64) -> Vec<f64> {
    let mut network = Network::new(seed);
    let config = SwitchConfig {
        program: Some("prio".into()),
        interface,
        interface_blocks: blocks,
        ..SwitchConfig::default()
    };
    let link = LinkConfig {
        capacity: Rate::new(LINK).map_or(Capacity::Unlimited, Capacity::Constant),
        overhead: Overhead::LAYER2,
        ..LinkConfig::default()
    };
    let Ok(switch) = config.build(&mut network, &[link]) else { return Vec::new() };
    let mut world = World::new(network);
    for n in 0..FLOWS {
        let key = FlowKey { src_port: 5000 + n as u16, proto: 17, ..FlowKey::default() };
        let spec = FlowSpec {
            forward: switch.path(0, 0),
            key,
            class: n as u16,
            group: n,
            ..FlowSpec::default()
        };
        let process = Renewal::new(LEN, Variable::Exponential { mean: GAP_NS });
        let draws = Draws::new(seed, n.into(), 0);
        let source = Source::of(process, draws, Sending::of(FlowId(n), 28));
        world.add_flow(&spec, Box::new(source), Box::new(Sink));
    }
    world.run(WARMUP);
    world.zero();
    world.run(WARMUP.saturating_add(Nanos::from_secs(seconds)));
    let share = |count: &weir_sim::network::FlowCount| count.received as f64 / count.sent as f64;
    world.network().counts().iter().map(share).collect()
}

fn run(options: &Options, progress: &Progress<'_>) -> Finding {
    let seconds = if options.quick { 30 } else { 120 };
    let runs = over_seeds(options, progress, &SYSTEMS, |&(_, interface, blocks), seed| {
        shares(interface, blocks, seconds, seed)
    });
    let flow = |system: usize, n: usize| -> Vec<f64> {
        runs[system].iter().map(|shares| shares.get(n).copied().unwrap_or(f64::NAN)).collect()
    };
    let mut table = Table::new(
        "share of the packets that arrive, by priority (0 is served first)",
        &["interface", "0", "1", "2", "3", "4", "5", "6", "7"],
    );
    for (system, (name, ..)) in SYSTEMS.iter().enumerate() {
        let mut row = vec![Cell::from(*name)];
        row.extend(
            (0..FLOWS as usize).map(|n| Cell::quantity(&Quantity::of_runs(&flow(system, n)), 3)),
        );
        table.row(row);
    }
    let mut claims = Vec::new();
    for (system, (name, _, blocks)) in SYSTEMS.iter().enumerate() {
        let (first, last) = (flow(system, 0), flow(system, FLOWS as usize - 1));
        claims.push(if *blocks {
            Claim::new(format!("interface {name}: strict priority holds"), TEXT)
                .expect("share of priority 0", Quantity::of_runs(&first), Range::above(0.99))
                .expect("share of priority 7", Quantity::of_runs(&last), Range::below(0.01))
        } else {
            Claim::new(format!("interface {name}: strict priority is lost"), TEXT).expect(
                "share of packets, ratio of priority 7 to priority 0",
                Quantity::ratio(&last, &first),
                Range::within(0.95, 1.05),
            )
        });
    }
    Finding {
        title: "Eight flows of 1 Mbit/s of different priorities on a link of 5 Mbit/s".into(),
        tables: vec![table],
        claims,
        notes: vec![
            "The document states the effect without values. The rates, and an interface of 20 \
             packets, are ours."
                .to_owned(),
        ],
        ..Finding::default()
    }
}

const TEXT: Provenance = published(PIFO_SWITCH, "section 4.4.1.1, on queues that do not block");
const FLOWS: u32 = 8;
/// Rate of the link in bit/s.
const LINK: u64 = 5_000_000;
/// Network-layer bytes of a packet.
const LEN: u32 = 1028;
/// Mean time between two packets of a flow, ns: 125 packets per second.
const GAP_NS: f64 = 8e6;
/// The time in which the strict queues and the queues after them, of at most 1128 packets, fill up.
const WARMUP: Nanos = Nanos::from_secs(20);
