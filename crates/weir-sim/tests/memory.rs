//! The memory for waiting packets: a million of them fit into 128 MiB.

use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit};
use weir_core::{Nanos, Rate};
use weir_sim::network::{FlowSpec, Network};
use weir_sim::packet::FlowId;
use weir_sim::traffic::{Cbr, Sink};
use weir_sim::world::World;

#[test]
fn a_million_waiting_packets_fit_into_128_mib() {
    let before = resident();
    let mut network = Network::new(1);
    let link = LinkConfig {
        capacity: Capacity::Constant(Rate::new(1000).unwrap()),
        ..LinkConfig::default()
    };
    let queue =
        FlowsetConfig { limit: Some(QueueLimit::Packets(2_000_000)), ..FlowsetConfig::default() };
    let port = network.add_pipe(&PipeConfig { link, queue, scheduler: None });
    let mut world = World::new(network);
    // A million packets of 100 bytes arrive in one second at a link that transmits one packet in
    // 0.8 s.
    let source = Cbr::new(FlowId(0), 100, 28, 801_000_000, Nanos::ZERO, Nanos::MAX);
    world.add_flow(
        &FlowSpec { forward: vec![port], ..FlowSpec::default() },
        Box::new(source),
        Box::new(Sink),
    );
    world.run(Nanos::from_secs(1));
    let (waiting, _) = world.network_mut().queue_length(port);
    let held = resident() - before;
    assert!(waiting >= 1_000_000, "{waiting} wait");
    assert!(held <= 128 << 20, "{waiting} packets hold {} KiB", held >> 10);
}

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let status =
        std::fs::read_to_string("/proc/self/status").expect("this test needs Linux's /proc");
    let line =
        status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line on resident memory");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number of KiB")
        << 10
}
