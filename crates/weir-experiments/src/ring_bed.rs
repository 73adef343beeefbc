//! The network of the experiments on transmission rings: a sender, a link of 10 Gbit/s, a router
//! with a queue and a device, a link of 1 Gbit/s and 100 us, and a receiver. A flow of probe
//! packets measures the delay.
//!
//! The router's queue feeds a ring of a given number of packets, with or without dynamic queue
//! limits. With [`Bed::with_driver`], the device driver needs processor time for each packet, and
//! the device reports sent packets late and in batches. Every packet has 2 bytes of framing.

use std::sync::Arc;

use weir_core::config::{
    Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit, SchedulerConfig,
};
use weir_core::device::{Completion, DeviceConfig, Done, DqlConfig, StageConfig};
use weir_core::link::{Overhead, Profile};
use weir_core::sched::Kind;
use weir_core::{Nanos, aqm};
use weir_rules::manager::Manager;

use weir_sim::dumbbell::{add_managed, mbit};
use weir_sim::network::{FlowSpec, Network, PortId};
use weir_sim::packet::FlowId;
use weir_sim::random::Draws;
use weir_sim::tcp::{self, cc};
use weir_sim::traffic::{Cbr, Sink};
use weir_sim::world::World;

/// The queue before the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// One queue of 1000 packets.
    Fifo,
    /// Strict priority for the probe.
    Prio,
    /// CoDel on one queue.
    CoDel,
    FqCodel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadKind {
    /// UDP of 1.2 Gbit/s in packets of this many network-layer bytes.
    Overload(u32),
    /// One TCP transfer with a window that keeps the queue below its capacity.
    Transfer,
    /// This many TCP transfers with a window that may fill the queue. They start at random times.
    Transfers(u32),
}

/// The configuration of one run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bed {
    pub(crate) queue: Queue,
    pub(crate) load: LoadKind,
    /// Maximum number of packets in the ring.
    pub(crate) ring: u32,
    /// Whether dynamic queue limits bound the bytes in the ring.
    pub(crate) dql: bool,
    /// Processor time that the device driver needs for a packet.
    pub(crate) service: Nanos,
    /// The device reports sent packets after this number of packets, at the latest after this time.
    /// With a number of 0, it reports each packet at once, when its transmission starts.
    pub(crate) reports: (u32, Nanos),
    /// The distribution of the additional time that the device needs for each packet; `None` for no
    /// additional time.
    pub(crate) profile: Option<Arc<Profile>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    /// One-way delay of probes, us: mean, median, 99th percentile.
    pub(crate) probe: [f64; 3],
    /// Standard deviation of the probes' delay, us.
    pub(crate) deviation: f64,
    /// Goodput of all flows, Mbit/s.
    pub(crate) goodput: f64,
    /// Mean number of bytes in the device.
    pub(crate) device_bytes: f64,
}

impl Bed {
    /// A bed with a queue, a load, and a device driver that takes no time.
    pub(crate) const fn new(queue: Queue, load: LoadKind, ring: u32, dql: bool) -> Self {
        let reports = (0, Nanos::ZERO);
        Self { queue, load, ring, dql, service: Nanos::ZERO, reports, profile: None }
    }

    /// The same bed with a device driver that needs 2 us per packet, and a device that reports
    /// after 32 packets or 100 us, like a typical network card of 1 Gbit/s.
    pub(crate) fn with_driver(self) -> Self {
        Self { service: Nanos::from_micros(2), reports: (32, Nanos::from_micros(100)), ..self }
    }

    /// Runs the bed and measures for `seconds` seconds. The seed affects only the start times of
    /// [`LoadKind::Transfers`] and the additional times that the device draws from `profile`.
    pub(crate) fn run(&self, seconds: u64, seed: u64) -> Measured {
        let mut network = Network::new(seed);
        let plain = |mbps, delay| {
            let limit = Some(QueueLimit::Packets(10_000));
            let queue = FlowsetConfig { limit, ..FlowsetConfig::default() };
            PipeConfig { link: link(mbps, delay), queue, scheduler: None }
        };
        let access = network.add_pipe(&plain(10_000, Nanos::from_micros(1)));
        let back = network.add_pipe(&plain(1000, Nanos::from_micros(100)));
        let wire = LinkConfig {
            device: Some(Arc::new(self.device())),
            profile: self.profile.clone(),
            ..link(1000, Nanos::from_micros(100))
        };
        let router = self.add_router(&mut network, &wire);
        let mut world = World::new(network);
        self.add_flows(&mut world, [access, router, back], seed);
        world.run(WARM_UP);
        world.network_mut().zero();
        let end = WARM_UP.saturating_add(Nanos::from_secs(seconds));
        world.run(end);
        let (network, span) = (world.network(), end - WARM_UP);
        let probe = network.counts().last().map(|count| &count.delay_ns);
        let bytes: u64 = network.counts().iter().map(|count| count.goodput_bytes).sum();
        let device_bytes = network
            .stats(router)
            .and_then(|stats| stats.device.as_ref())
            .map_or(0.0, |device| device.mean_bytes(span.0));
        Measured {
            probe: probe.map_or([f64::NAN; 3], |delay| {
                let us = |q: f64| delay.quantile(q) as f64 / 1e3;
                [delay.mean() / 1e3, us(0.5), us(0.99)]
            }),
            deviation: probe.map_or(f64::NAN, deviation_us),
            goodput: bytes as f64 * 8e3 / span.0 as f64,
            device_bytes,
        }
    }

    fn add_router(&self, network: &mut Network, wire: &LinkConfig) -> PortId {
        match self.queue {
            Queue::Fifo => add_managed(network, &Manager::None, wire, 1000),
            Queue::CoDel => {
                let policy = aqm::Policy::new(aqm::Kind::Codel);
                add_managed(network, &Manager::Aqm(policy), wire, 1000)
            }
            Queue::FqCodel => {
                let manager = Manager::parse("fq_codel limit=1000").unwrap_or(Manager::None);
                add_managed(network, &manager, wire, 1000)
            }
            Queue::Prio => {
                let config =
                    SchedulerConfig { discipline: Kind::Prio.into(), ..SchedulerConfig::default() };
                let queue = |priority| FlowsetConfig {
                    priority,
                    limit: Some(QueueLimit::Packets(1000)),
                    ..FlowsetConfig::default()
                };
                let queues = [queue(1), queue(0)];
                network.add_scheduler(&config, wire, &FlowsetConfig::default(), &queues)
            }
        }
    }

    /// Adds the flows of the load, and the probe as the last flow.
    fn add_flows(&self, world: &mut World, [access, router, back]: [PortId; 3], seed: u64) {
        let spec = |class: u16, port: u16| FlowSpec {
            forward: vec![access, router],
            back: vec![back],
            key: weir_core::key::FlowKey {
                src_port: port,
                dst_port: 9,
                proto: 17,
                ethertype: 0x0800,
                ..Default::default()
            },
            class,
            group: u32::from(class),
        };
        let mut transfer = |flow: u32, config: &tcp::Config| {
            world.add_flow(
                &spec(0, flow as u16 + 1),
                Box::new(tcp::Sender::new(FlowId(flow), config)),
                Box::new(tcp::Receiver::new(FlowId(flow), config)),
            );
        };
        let mut flows = 1;
        match self.load {
            LoadKind::Overload(len) => {
                // The framing of 2 bytes is part of the 1.2 Gbit/s.
                let bps = 1_200_000_000 / u64::from(len + 2) * u64::from(len);
                let bulk = Cbr::new(FlowId(0), len, 28, bps, Nanos::ZERO, Nanos::MAX);
                world.add_flow(&spec(0, 1), Box::new(bulk), Box::new(Sink));
            }
            LoadKind::Transfer => transfer(
                0,
                &tcp::Config {
                    control: cc::Choice::new(cc::Kind::NewReno),
                    receive_buffer: WINDOW,
                    ..tcp::Config::default()
                },
            ),
            LoadKind::Transfers(count) => {
                flows = count;
                let mut draws = Draws::new(seed, STARTS, 0);
                for flow in 0..count {
                    let start = Nanos(draws.uniform(0.0, 1e8) as u64);
                    transfer(flow, &tcp::Config { start, ..tcp::Config::default() });
                }
            }
        }
        let bps = u64::from(PROBE) * 8 * 1_000_000 / 997;
        let from = Nanos::from_micros(10);
        let probe = Cbr::new(FlowId(flows), PROBE, 28, bps, from, Nanos::MAX);
        world.add_flow(&spec(1, flows as u16 + 1), Box::new(probe), Box::new(Sink));
    }

    fn device(&self) -> DeviceConfig {
        let (frames, time) = self.reports;
        let completion = match frames {
            0 => Completion::default(),
            _ => Completion { when: Done::Sent, frames, time },
        };
        DeviceConfig {
            ring: StageConfig {
                limit: QueueLimit::Packets(self.ring),
                service: self.service,
                ..StageConfig::default()
            },
            completion,
            dql: self.dql.then(DqlConfig::default),
            ..DeviceConfig::default()
        }
    }
}

fn link(mbps: u64, delay: Nanos) -> LinkConfig {
    LinkConfig {
        capacity: Capacity::Constant(mbit(mbps)),
        delay,
        overhead: Overhead { per_packet: 2, ..Overhead::NONE },
        ..LinkConfig::default()
    }
}

/// The standard deviation of delays, to the precision of the tally, us.
fn deviation_us(delay: &weir_measure::tally::Tally) -> f64 {
    let mean = delay.mean();
    let distribution = delay.distribution();
    let squares = distribution.bins.iter().map(|bin| {
        let apart = f64::midpoint(bin.low as f64, bin.high as f64) - mean;
        bin.count as f64 * apart * apart
    });
    libm::sqrt(squares.sum::<f64>() / delay.count().max(1) as f64) / 1e3
}

const WARM_UP: Nanos = Nanos::from_secs(2);
/// The window of [`LoadKind::Transfer`] in bytes. About 600 packets wait in the queue of 1000,
/// which therefore never drops a packet.
const WINDOW: u32 = 900_000;
/// Network-layer bytes of a probe, which is sent every 997 us.
const PROBE: u32 = 92;
/// The random stream of the transfers' starts.
const STARTS: u64 = 1 << 32;
