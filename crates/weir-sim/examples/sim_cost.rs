//! Measures the simulator's cost per packet. Five hosts send UDP at constant rates over a
//! bottleneck: `sim_cost [packets] [kind]`. The kind of the bottleneck is `alone` (one source and
//! no host links), `plain` (default), `engine` (the same pipe in the engine) or a scheduler such as
//! `fq_codel`.

use weir_core::config::{
    Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit, SchedulerConfig,
};
use weir_core::{Nanos, Rate};
use weir_sim::network::{FlowSpec, Network};
use weir_sim::packet::FlowId;
use weir_sim::traffic::{Cbr, Sink};
use weir_sim::world::World;

fn main() {
    let packets: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let kind = std::env::args().nth(2).unwrap_or_else(|| "plain".to_owned());
    let mut network = Network::new(1);
    let pipe = |mbit: u64, ms: u64, limit: u32| PipeConfig {
        link: LinkConfig {
            capacity: Capacity::Constant(Rate::new(mbit * 1_000_000).unwrap()),
            delay: Nanos::from_millis(ms),
            ..LinkConfig::default()
        },
        queue: FlowsetConfig {
            limit: Some(QueueLimit::Packets(limit)),
            ..FlowsetConfig::default()
        },
        scheduler: None,
    };
    let narrow = pipe(10, 18, 1000);
    let bottleneck = match kind.as_str() {
        "plain" | "alone" => network.add_pipe(&narrow),
        "engine" => network.add_engine_pipe(&narrow),
        name => {
            let kind = weir_core::sched::Kind::from_name(name).expect("no such scheduler");
            let config = SchedulerConfig { discipline: kind.into(), ..SchedulerConfig::default() };
            network.add_scheduler(&config, &narrow.link, &FlowsetConfig::default(), &[])
        }
    };
    let access: Vec<_> = (0..5).map(|_| network.add_pipe(&pipe(100, 1, 1000))).collect();
    let mut world = World::new(network);
    let (access, bps) =
        if kind == "alone" { (&access[..1], 10_500_000) } else { (&access[..], 2_100_000) };
    for (n, &port) in access.iter().enumerate() {
        let forward = if kind == "alone" { vec![bottleneck] } else { vec![port, bottleneck] };
        let spec = FlowSpec { forward, group: n as u32, ..FlowSpec::default() };
        let source =
            Cbr::new(FlowId(n as u32), 1028, 28, bps, Nanos::from_millis(n as u64), Nanos::MAX);
        world.add_flow(&spec, Box::new(source), Box::new(Sink));
    }
    let seconds = packets as f64 * 1028.0 * 8.0 / 10e6;
    let start = on_processor();
    world.run(Nanos((seconds * 1e9) as u64));
    let spent = on_processor() - start;
    let stats = world.network().stats(bottleneck).unwrap();
    let out = stats.counters.packets_out;
    println!(
        "{out} packets through the bottleneck, {} dropped, {} events, {:.3} s: {:.1} ns a packet, \
         {:.2} million/s",
        stats.counters.total_drops(),
        world.events(),
        spent,
        spent * 1e9 / out as f64,
        out as f64 / spent / 1e6
    );
}

/// Processor time in seconds that this process has used.
fn on_processor() -> f64 {
    let stat =
        std::fs::read_to_string("/proc/self/schedstat").expect("this example needs Linux's /proc");
    stat.split_whitespace()
        .next()
        .and_then(|ns| ns.parse::<f64>().ok())
        .expect("its first number is in nanoseconds")
        / 1e9
}
