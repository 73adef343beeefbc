//! A dumbbell: hosts on both sides of one link, which has the queue under test.
//!
//! ```text
//! senders ── access ──┐                         ┌── access ── receivers
//!                      ├── bottleneck (tested) ──┤
//!         ── return ──┘       return link       └──
//! ```
//! Experiments and suites that compare queues use the dumbbell. Each flow has its own access links,
//! so that packets queue only at the bottleneck and at the return link.

use std::sync::Arc;

use weir_core::config::{
    Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit, SchedulerConfig,
};
use weir_core::device::DeviceConfig;
use weir_core::key::FlowKey;
use weir_core::link::{Overhead, Schedule};
use weir_core::{Nanos, Rate};
use weir_rules::manager::Manager;

use crate::network::{FlowSpec, Network, PortId};
use crate::packet::FlowId;
use crate::tcp;
use crate::traffic::Sink;
use crate::world::World;

/// The configuration of a dumbbell, apart from its flows.
#[derive(Clone, Debug)]
pub struct Dumbbell {
    /// Seed of all random draws.
    pub seed: u64,
    /// Rate of the bottleneck.
    pub rate: Rate,
    /// Changes of the bottleneck over time.
    pub schedule: Option<Schedule>,
    /// Propagation delay of the bottleneck in each direction.
    pub delay: Nanos,
    /// Queue management of the bottleneck.
    pub manager: Manager,
    /// Size in packets of the bottleneck's queue and of the return link's queue. A scheduler as
    /// manager has its own limits instead.
    pub queue: u32,
    /// Rate of the return link; `None` for the bottleneck's rate.
    pub return_rate: Option<Rate>,
    /// Queue management of the return link.
    pub return_manager: Manager,
    /// Rate of access links.
    pub access: Rate,
    /// Bytes of framing that are added to each packet.
    pub framing: i32,
    /// The device between the bottleneck's queue and its wire, if any.
    pub device: Option<DeviceConfig>,
}

impl Default for Dumbbell {
    fn default() -> Self {
        Self {
            seed: 1,
            rate: mbit(10),
            schedule: None,
            delay: Nanos::ZERO,
            manager: Manager::None,
            queue: 1000,
            return_rate: None,
            return_manager: Manager::None,
            access: mbit(1000),
            framing: 0,
            device: None,
        }
    }
}

/// A flow over a dumbbell.
#[derive(Clone, Debug)]
pub struct Crossing {
    /// Delay of each of the flow's four access links. They add four times this delay to the
    /// round-trip time.
    pub access_delay: Nanos,
    /// Whether the flow sends from the receivers' side to the senders' side.
    pub reverse: bool,
    /// The group for the flow's statistics.
    pub group: u32,
    /// The packets that the flow sends.
    pub load: Load,
}

/// The packets that a flow sends.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "an experiment makes some dozens of them, once")]
pub enum Load {
    /// A TCP connection.
    Tcp(tcp::Config),
    /// Packets of `len` network-layer bytes, of which `header` are headers, at equal intervals.
    Udp {
        /// Length in network-layer bytes.
        len: u32,
        /// Header bytes; `len` includes them.
        header: u8,
        /// Network-layer bits/s.
        bps: u64,
        /// Start time.
        start: Nanos,
        /// End time.
        stop: Nanos,
    },
}

/// The world of a dumbbell.
#[derive(Debug)]
pub struct Built {
    /// The world at time 0.
    pub world: World,
    /// The bottleneck.
    pub bottleneck: PortId,
    /// The return link.
    pub back: PortId,
}

impl Dumbbell {
    /// Builds a world in which `flows` cross the bottleneck.
    pub fn build(&self, flows: &[Crossing]) -> Built {
        let mut network = Network::new(self.seed);
        let overhead = Overhead { per_packet: self.framing, ..Overhead::NONE };
        let link = LinkConfig {
            capacity: Capacity::Constant(self.rate),
            delay: self.delay,
            overhead,
            schedule: self.schedule.clone().map(Arc::new),
            device: self.device.clone().map(Arc::new),
            ..LinkConfig::default()
        };
        let back_link = LinkConfig {
            capacity: Capacity::Constant(self.return_rate.unwrap_or(self.rate)),
            delay: self.delay,
            overhead,
            ..LinkConfig::default()
        };
        let bottleneck = add_managed(&mut network, &self.manager, &link, self.queue);
        let back = add_managed(&mut network, &self.return_manager, &back_link, self.queue);
        let mut access = |delay: Nanos| {
            let link = LinkConfig {
                capacity: Capacity::Constant(self.access),
                delay,
                overhead,
                ..LinkConfig::default()
            };
            let queue = FlowsetConfig {
                limit: Some(QueueLimit::Packets(ACCESS_QUEUE)),
                ..FlowsetConfig::default()
            };
            network.add_pipe(&PipeConfig { link, queue, scheduler: None })
        };
        let links: Vec<[PortId; 4]> =
            flows.iter().map(|flow| [(); 4].map(|()| access(flow.access_delay))).collect();
        let mut world = World::new(network);
        for (number, (flow, [first, second, third, fourth])) in flows.iter().zip(links).enumerate()
        {
            let (there, here) = if flow.reverse { (back, bottleneck) } else { (bottleneck, back) };
            let spec = FlowSpec {
                forward: vec![first, there, second],
                back: vec![third, here, fourth],
                key: key(number, matches!(flow.load, Load::Tcp(_))),
                class: 0,
                group: flow.group,
            };
            let id = FlowId(number as u32);
            match &flow.load {
                Load::Tcp(config) => {
                    let config = tcp::Config { seed: self.seed ^ (number as u64) << 32, ..*config };
                    world.add_flow(
                        &spec,
                        Box::new(tcp::Sender::new(id, &config)),
                        Box::new(tcp::Receiver::new(id, &config)),
                    );
                }
                &Load::Udp { len, header, bps, start, stop } => {
                    let source = crate::traffic::Cbr::new(id, len, header, bps, start, stop);
                    world.add_flow(&spec, Box::new(source), Box::new(Sink));
                }
            }
        }
        Built { world, bottleneck, back }
    }
}

/// Adds a port with a queue that `manager` manages. The queue holds at most `packets` packets,
/// unless the manager is a scheduler, which has its own limits.
pub fn add_managed(
    network: &mut Network,
    manager: &Manager,
    link: &LinkConfig,
    packets: u32,
) -> PortId {
    let limit = Some(QueueLimit::Packets(packets));
    match manager {
        Manager::None => {
            let queue = FlowsetConfig { limit, ..FlowsetConfig::default() };
            network.add_pipe(&PipeConfig { link: link.clone(), queue, scheduler: None })
        }
        Manager::Aqm(policy) => {
            let queue = FlowsetConfig { limit, aqm: Some(*policy), ..FlowsetConfig::default() };
            network.add_pipe(&PipeConfig { link: link.clone(), queue, scheduler: None })
        }
        Manager::Scheduler(discipline) => {
            let config = SchedulerConfig { discipline: *discipline, ..SchedulerConfig::default() };
            network.add_scheduler(&config, link, &FlowsetConfig::default(), &[])
        }
    }
}

/// Addresses and port numbers of flow `number`, which has a separate host on each side.
fn key(number: usize, tcp: bool) -> FlowKey {
    let host = number as u128 + 1;
    FlowKey {
        src: 0x0a00_0000 + host,
        dst: 0x0a80_0000 + host,
        src_port: 40_000 + (number % 20_000) as u16,
        dst_port: 5001,
        ethertype: 0x0800,
        proto: if tcp { 6 } else { 17 },
        ..FlowKey::default()
    }
}

/// A rate in Mbit/s.
///
/// # Panics
/// `mbit` is 0 or above 400,000.
pub fn mbit(mbit: u64) -> Rate {
    Rate::new(mbit * 1_000_000).expect("a rate of the experiment")
}

/// Jain's fairness index of the shares: 1 if all are equal, 1/n if one flow has everything.
pub fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares
        .iter()
        .fold((0.0, 0.0), |(sum, squares), &share| (sum + share, squares + share * share));
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// Queue size of access links in packets, so large that they drop nothing.
const ACCESS_QUEUE: u32 = 1_000_000;
