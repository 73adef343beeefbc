//! The simulated transfers.

use std::sync::{Arc, Mutex, PoisonError};

use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit};
use weir_core::key::FlowKey;
use weir_core::{Nanos, Rate};
use weir_sim::network::{FlowSpec, Network, Observer, PortId};
use weir_sim::packet::FlowId;
use weir_sim::random::Draws;
use weir_sim::tcp;
use weir_sim::world::World;

use super::case::{Case, PACKET, Place, QUEUE, RATE, TRAIN, Waiting};

pub(super) fn run(case: &Case, seed: u64) -> Waiting {
    let mut network = Network::new(seed);
    let mut port = |bps: u64, packets: u32| {
        let link = LinkConfig {
            capacity: Rate::new(bps).map_or(Capacity::Unlimited, Capacity::Constant),
            delay: DELAY,
            ..LinkConfig::default()
        };
        let limit = Some(QueueLimit::Packets(packets));
        let queue = FlowsetConfig { limit, ..FlowsetConfig::default() };
        network.add_pipe(&PipeConfig { link, queue, scheduler: None })
    };
    let (narrow, wide, back) = (port(RATE, QUEUE), port(WIDE, 10_000), port(WIDE, 10_000));
    // The first port of the path is that of the sending host.
    let forward = match case.place {
        Place::EndHost => vec![narrow, wide],
        Place::Router => vec![wide, narrow],
    };
    let mut world = World::new(network);
    let mut draws = Draws::new(seed, STARTS, 0);
    for flow in 0..case.flows {
        let config = tcp::Config {
            start: Nanos(draws.uniform(0.0, 1e8) as u64),
            train: if case.offload { TRAIN } else { 1 },
            small_queue: Some(SMALL),
            pacing: Some(false),
            ..tcp::Config::default()
        };
        let key = FlowKey { src_port: flow as u16, dst_port: 9, proto: 6, ..FlowKey::default() };
        let spec =
            FlowSpec { forward: forward.clone(), back: vec![back], key, ..FlowSpec::default() };
        world.add_flow(
            &spec,
            Box::new(tcp::Sender::new(FlowId(flow), &config)),
            Box::new(tcp::Receiver::new(FlowId(flow), &config)),
        );
    }
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let sampler = Sampler { port: narrow, next: WARM_UP, bytes: Arc::clone(&bytes) };
    world.observe(Box::new(sampler));
    world.run(WARM_UP.saturating_add(SPAN));
    let mut bytes = std::mem::take(&mut *bytes.lock().unwrap_or_else(PoisonError::into_inner));
    waiting(&mut bytes)
}

/// The mean and 99th percentile, in segments, of samples in bytes.
fn waiting(bytes: &mut [u64]) -> Waiting {
    bytes.sort_unstable();
    let packets = |bytes: u64| bytes as f64 / PACKET as f64;
    let tail = bytes.get(bytes.len() * 99 / 100).copied().unwrap_or(0);
    Waiting {
        mean: packets(bytes.iter().sum::<u64>()) / bytes.len().max(1) as f64,
        p99: packets(tail),
    }
}

/// Samples the bytes that wait at a port.
#[derive(Debug)]
struct Sampler {
    port: PortId,
    next: Nanos,
    bytes: Arc<Mutex<Vec<u64>>>,
}

impl Observer for Sampler {
    fn next_tick(&self) -> Nanos {
        self.next
    }

    fn tick(&mut self, now: Nanos, network: &mut Network) {
        self.next = now.saturating_add(SAMPLE);
        let (_, bytes) = network.queue_length(self.port);
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }
}

/// The upper bound of TSQ's limit, bytes: the default of Linux. The bound has no effect here: TSQ's
/// limit is two packets, or the data of a millisecond if that is more, and stays below the bound.
const SMALL: u32 = 4 << 20;
/// Rate of the links other than the bottleneck, bit/s, and delay of each link.
const WIDE: u64 = 1_000_000_000;
const DELAY: Nanos = Nanos::from_micros(50);
const WARM_UP: Nanos = Nanos::from_secs(3);
const SPAN: Nanos = Nanos::from_secs(5);
/// Time between two samples; not a multiple of the transmission time of a packet, 1.2 ms.
const SAMPLE: Nanos = Nanos::from_micros(970);
/// The random stream of the transfers' starts.
const STARTS: u64 = 1 << 32;
