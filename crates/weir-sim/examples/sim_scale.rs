//! Measures how the cost of an event depends on the number of flows and ports.
//!
//! `sim_scale [EVENTS]` runs networks with 10 to 10,000 UDP flows and 10 to 1,000 ports, and prints
//! the processor time per event. Each flow passes three ports, and each port with traffic is busy
//! for about two thirds of the time.

use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit};
use weir_core::{Nanos, Rate};
use weir_sim::network::{FlowSpec, Network, PortId};
use weir_sim::packet::FlowId;
use weir_sim::traffic::{Cbr, Sink};
use weir_sim::world::World;

fn main() {
    let events: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(10_000_000);
    for (flows, ports) in
        [(10, 10), (100, 10), (1000, 10), (10_000, 10), (10_000, 100), (10, 1000), (10_000, 1000)]
    {
        run(flows, ports, events);
    }
}

fn run(flows: u32, ports: u32, events: u64) {
    let mut network = Network::new(1);
    // Every flow sends 1 Mbit/s over three ports. The ports have 1.5 times the rate of their
    // arrivals.
    let rate = (u64::from(flows) * 3 * 1_500_000 / u64::from(ports)).max(1_500_000);
    for _ in 0..ports {
        let capacity = Capacity::Constant(Rate::new(rate).expect("a rate"));
        let queue =
            FlowsetConfig { limit: Some(QueueLimit::Packets(10_000)), ..FlowsetConfig::default() };
        network.add_pipe(&PipeConfig {
            link: LinkConfig { capacity, delay: Nanos::from_millis(5), ..LinkConfig::default() },
            queue,
            scheduler: None,
        });
    }
    let mut world = World::new(network);
    for n in 0..flows {
        let forward = (0..3).map(|hop| PortId((n * 7 + hop * 13) % ports)).collect();
        // Start times and lengths differ, so that flows are not in step.
        let (start, len) = (Nanos(u64::from(n) * 7919 % 8_000_000), 500 + n % 1000);
        let source = Cbr::new(FlowId(n), len, 28, 1_000_000, start, Nanos::MAX);
        world.add_flow(
            &FlowSpec { forward, group: 0, ..FlowSpec::default() },
            Box::new(source),
            Box::new(Sink),
        );
    }
    // Four events for each packet, and about 125 packets per second for each flow. With ten or a
    // hundred flows, packets are shorter, so that more packets are sent.
    let per_second = u64::from(flows) * 4 * 125;
    let warm_up = Nanos::from_millis(500);
    world.run(warm_up);
    let (before, start) = (world.events(), on_processor());
    world.run(warm_up + Nanos((events as f64 / per_second as f64 * 1e9) as u64));
    let (done, spent) = (world.events() - before, on_processor() - start);
    println!(
        "{flows} flows, {ports} ports: {done} events, {:.1} ns an event",
        spent * 1e9 / done as f64
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
