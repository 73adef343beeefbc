//! A small simulated scenario: two constant rates and occasional bursts over a link that is too
//! slow for all of them.

use weir_core::config::{
    Capacity, FlowsetConfig, LinkConfig, Loss, PipeConfig, QueueLimit, SchedulerConfig,
};
use weir_core::{Nanos, Probability, Rate};
use weir_report::sim::Results;
use weir_sim::endpoint::{Context, Endpoint};
use weir_sim::measure::{
    FlowName, LinkName, Names, Outcome, Plan, Recorder, Settings, Sink as Records,
};
use weir_sim::network::{FlowSpec, Network};
use weir_sim::packet::{FlowId, Packet};
use weir_sim::traffic::{Cbr, Sink};
use weir_sim::world::World;

/// Sends bursts of 40 packets.
#[derive(Debug)]
struct Bursts {
    flow: FlowId,
    next: Nanos,
}

impl Endpoint for Bursts {
    fn receive(&mut self, _packet: &Packet, _context: &mut Context<'_>) {}

    fn wake(&mut self, context: &mut Context<'_>) {
        for seq in 0..40 {
            let mut packet = Packet::default();
            (packet.flow, packet.len, packet.header, packet.seq, packet.label) =
                (self.flow, 1200, 28, seq, seq % 4);
            context.send(packet);
        }
        self.next = self.next.saturating_add(Nanos::from_millis(700));
    }

    fn next_event(&self) -> Nanos {
        self.next
    }
}

/// The names of the objects in [`world`].
pub(crate) fn names() -> Names {
    let flow = |name: &str, kind: &str| FlowName {
        name: name.into(),
        kind: kind.into(),
        from: "h1".into(),
        to: "h2".into(),
    };
    let link = |name: &str, rate: u64, ms: u64| LinkName {
        name: name.into(),
        from: "h1".into(),
        to: "r1".into(),
        spec: format!("bw {}Mbit/s delay {ms}ms", rate / 1_000_000),
        rate_bps: Some(rate),
        delay_ns: ms * 1_000_000,
        ..LinkName::default()
    };
    Names {
        scenario: "demo".into(),
        flows: vec![flow("voice", "cbr"), flow("video", "cbr"), flow("bursts", "bursts")],
        links: vec![link("access", 20_000_000, 1), link("bottleneck", 4_000_000, 10)],
    }
}

fn world(seed: u64, percent: f64) -> World {
    let mut network = Network::new(seed);
    let link = |bps, ms, loss| LinkConfig {
        capacity: Capacity::Constant(Rate::new(bps).unwrap()),
        delay: Nanos::from_millis(ms),
        loss: Loss::Bernoulli(Probability::new(loss).unwrap()),
        ..LinkConfig::default()
    };
    let limit = |packets| FlowsetConfig {
        limit: Some(QueueLimit::Packets(packets)),
        ..FlowsetConfig::default()
    };
    let access = network.add_engine_pipe(&PipeConfig {
        link: link(20_000_000, 1, percent / 100.0),
        queue: limit(200),
        scheduler: None,
    });
    let classes = [limit(30), limit(60)];
    let bottleneck = network.add_scheduler(
        &SchedulerConfig::default(),
        &link(4_000_000, 10, percent / 100.0),
        &limit(50),
        &classes,
    );
    let mut world = World::new(network);
    for group in 0..3u32 {
        let flow = FlowId(group);
        let source: Box<dyn Endpoint> = match group {
            0 => Box::new(Cbr::new(flow, 200, 28, 80_000, Nanos::from_millis(5), Nanos::MAX)),
            1 => Box::new(Cbr::new(flow, 1400, 28, 3_600_000, Nanos::from_millis(50), Nanos::MAX)),
            _ => Box::new(Bursts { flow, next: Nanos::from_millis(300 + seed * 13) }),
        };
        let spec = FlowSpec {
            forward: vec![access, bottleneck],
            group,
            class: u16::from(group == 2),
            ..FlowSpec::default()
        };
        world.add_flow(&spec, source, Box::new(Sink));
    }
    world
}

/// Runs of 20 seconds with these seeds and a loss of `percent`.
pub(crate) fn results(seeds: std::ops::Range<u64>, percent: f64) -> Results {
    let runs = seeds.map(|seed| run(seed, percent, None)).collect();
    Results {
        source: "sim".into(),
        scenario: "name = \"demo\"\n".into(),
        runs,
        ..Results::default()
    }
}

/// One run, traced if `records` is given.
pub(crate) fn run(seed: u64, percent: f64, records: Option<Records>) -> Outcome {
    let end = Nanos::from_secs(20);
    let plan =
        Plan { seed, warmup: Nanos::from_secs(2), end, measure: Settings::for_duration(end) };
    let mut world = world(seed, percent);
    world.observe(Box::new(Recorder::new(records, true)));
    plan.run(&mut world, &names(), &mut |_| {})
}
