//! What a packet costs the simulator: UDP at constant rate over hosts and a bottleneck, `sim_cost [packets]`.

use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit};
use weir_core::{Nanos, Rate};
use weir_sim::network::{FlowSpec, Network};
use weir_sim::packet::FlowId;
use weir_sim::traffic::{Cbr, Sink};
use weir_sim::world::World;

fn main() {
    let packets: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let mut network = Network::new(1);
    let pipe = |mbit: u64, ms: u64, limit: u32| PipeConfig {
        link: LinkConfig {
            capacity: Capacity::Constant(Rate::new(mbit * 1_000_000).unwrap()),
            delay: Nanos::from_millis(ms),
            ..LinkConfig::default()
        },
        queue: FlowsetConfig { limit: Some(QueueLimit::Packets(limit)), ..FlowsetConfig::default() },
    };
    let bottleneck = network.add_pipe(&pipe(10, 18, 1000));
    let access: Vec<_> = (0..5).map(|_| network.add_pipe(&pipe(100, 1, 1000))).collect();
    let mut world = World::new(network);
    for (n, &port) in access.iter().enumerate() {
        let spec = FlowSpec { forward: vec![port, bottleneck], group: n as u32, ..FlowSpec::default() };
        let source = Cbr::new(FlowId(n as u32), 1028, 28, 2_100_000, Nanos::from_millis(n as u64), Nanos::MAX);
        world.add_flow(&spec, Box::new(source), Box::new(Sink));
    }
    let seconds = packets as f64 * 1028.0 * 8.0 / 10e6;
    let start = std::time::Instant::now();
    world.run(Nanos((seconds * 1e9) as u64));
    let spent = start.elapsed().as_secs_f64();
    let stats = world.network().stats(bottleneck).unwrap();
    let out = stats.counters.packets_out;
    println!(
        "{out} packets through the bottleneck, {} dropped, {} events, {:.3} s: {:.1} ns a packet, {:.2} million/s",
        stats.counters.total_drops(),
        world.events(),
        spent,
        spent * 1e9 / out as f64,
        out as f64 / spent / 1e6
    );
}
