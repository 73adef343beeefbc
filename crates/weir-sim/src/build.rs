//! From a scenario to a world: ports, flows with their ways and addresses, and the names of both.
//!
//! **Addresses.** Node number `n` of the file, counted from 1, has the address 10.0.0.0 + `n`: the third is 10.0.0.3, number 300 is
//! 10.0.1.44. Flow number `n` of all traffic, counted from 0, goes from port 1024 + `n` mod 64,000 to port 5000 + (`n` / 64,000)
//! mod 60,000; its protocol is TCP or UDP, as its traffic says. Masks and hashes of queues see these.

use std::collections::BTreeMap;

use weir_core::config::{Capacity, Loss, PipeConfig};
use weir_core::key::FlowKey;
use weir_core::units::Rate;

use crate::measure::{FlowName, LinkName, Names};
use crate::network::{FlowSpec, Network, PortId};
use crate::scenario::{Direction, Scenario, Traffic};
use crate::topology::{Topology, WayError};
use crate::traffic::Placement;
use crate::world::World;

/// A world, and what its numbers are called.
#[derive(Debug)]
pub struct Built {
    /// The world, at the beginning of time.
    pub world: World,
    /// Names of its ports and flows.
    pub names: Names,
}

/// Makes a scenario's world. `seed` is the run's.
///
/// # Errors
/// There is no way between two hosts; a scenario that was read from a file has them all.
pub fn build(scenario: &Scenario, seed: u64) -> Result<Built, WayError> {
    let mut network = Network::new(seed);
    let mut names = Names { scenario: scenario.name.clone(), ..Names::default() };
    for link in &scenario.links {
        for (side, direction) in link.directions.iter().enumerate() {
            add_port(&mut network, direction);
            let [from, to] = [link.ends[side], link.ends[1 - side]].map(|node| scenario.nodes[node].name.clone());
            names.links.push(link_name(direction, from, to));
        }
    }
    let mut maker = Maker {
        scenario,
        seed,
        world: World::new(network),
        topology: Topology::new(&scenario.nodes, &scenario.links).with_routes(&scenario.routes),
        groups: Groups::default(),
        flows: 0,
        installed: 0,
    };
    for traffic in &scenario.traffic {
        maker.add(traffic)?;
    }
    let Maker { world, groups, .. } = maker;
    names.flows = groups.names;
    Ok(Built { world, names })
}

fn add_port(network: &mut Network, direction: &Direction) {
    let PipeConfig { link, queue } = &direction.spec.pipe;
    match &direction.scheduler {
        None => network.add_pipe(&direction.spec.pipe),
        Some(scheduler) => network.add_scheduler(scheduler, link, queue, &direction.queues),
    };
}

/// What results say of a port.
pub fn link_name(direction: &Direction, from: String, to: String) -> LinkName {
    let PipeConfig { link, .. } = &direction.spec.pipe;
    let rate = match &link.capacity {
        Capacity::Unlimited => None,
        capacity => Rate::new(capacity.mean_bps()),
    };
    LinkName { name: direction.name.clone(), from, to, spec: direction.words(), rate, delay: link.delay, loss: mean_loss(link.loss) }
}

/// Long-run share of packets that a loss model loses.
fn mean_loss(loss: Loss) -> Option<f64> {
    match loss {
        Loss::None => None,
        Loss::Bernoulli(probability) => Some(probability.as_f64()),
        Loss::GilbertElliott { loss_in_good, good_to_bad, loss_in_bad, bad_to_good } => {
            let (leave, back) = (good_to_bad.as_f64(), bad_to_good.as_f64());
            let bad = if leave + back == 0.0 { 0.0 } else { leave / (leave + back) };
            Some((1.0 - bad) * loss_in_good.as_f64() + bad * loss_in_bad.as_f64())
        }
    }
}

/// Numbers of the groups that figures are kept in.
#[derive(Debug, Default)]
struct Groups {
    names: Vec<FlowName>,
    shared: BTreeMap<String, u32>,
}

impl Groups {
    /// The group of a flow of `traffic`, of which it is number `n`, between two nodes.
    fn number(&mut self, scenario: &Scenario, traffic: &Traffic, n: u64, ends: [usize; 2]) -> u32 {
        let next = self.names.len() as u32;
        let kind = traffic.spec.kind().to_owned();
        let [from, to] = ends.map(|node| scenario.nodes[node].name.clone());
        if let Some(name) = &traffic.group {
            let number = *self.shared.entry(name.clone()).or_insert(next);
            match self.names.get_mut(number as usize) {
                None => self.names.push(FlowName { name: name.clone(), kind, from, to }),
                Some(group) => {
                    for (all, own) in [(&mut group.kind, kind), (&mut group.from, from), (&mut group.to, to)] {
                        if *all != own {
                            SEVERAL.clone_into(all);
                        }
                    }
                }
            }
            return number;
        }
        let name = if traffic.flows() == 1 { traffic.name.clone() } else { format!("{}.{}", traffic.name, n + 1) };
        self.names.push(FlowName { name, kind, from, to });
        next
    }
}

/// What flows are made with, and what was made so far.
struct Maker<'a> {
    scenario: &'a Scenario,
    seed: u64,
    world: World,
    topology: Topology,
    groups: Groups,
    /// Flows made, and pieces of traffic installed.
    flows: u64,
    installed: u64,
}

impl Maker<'_> {
    /// All flows of an entry. Flows that send together, to one host, are installed together.
    fn add(&mut self, traffic: &Traffic) -> Result<(), WayError> {
        let mut made = 0;
        for &to in &traffic.to {
            let mut together = Vec::new();
            for &from in &traffic.from {
                for _ in 0..traffic.count {
                    together.push(self.flow(traffic, made, [from, to])?);
                    made += 1;
                }
            }
            let pieces = if traffic.plan.joint() { together.len().max(1) } else { 1 };
            for flows in together.chunks(pieces) {
                traffic.plan.install(&mut self.world, &Placement { flows, seed: self.seed, number: self.installed });
                self.installed += 1;
            }
        }
        Ok(())
    }

    /// Flow number `made` of an entry.
    fn flow(&mut self, traffic: &Traffic, made: u64, [from, to]: [usize; 2]) -> Result<FlowSpec, WayError> {
        let ports = |way: Vec<usize>| way.into_iter().map(|port| PortId(port as u32)).collect();
        let forward = ports(self.topology.way(from, to)?);
        let back = ports(self.topology.way(to, from)?);
        let key = key(from, to, self.flows, traffic.plan.protocol());
        let group = self.groups.number(self.scenario, traffic, made, [from, to]);
        self.flows += 1;
        Ok(FlowSpec { forward, back, key, class: traffic.class, group })
    }
}

/// Addresses of flow number `serial`, between two nodes.
pub fn key(from: usize, to: usize, serial: u64, proto: u8) -> FlowKey {
    let address = |node: usize| (10u128 << 24) + node as u128 + 1;
    FlowKey {
        src: address(from),
        dst: address(to),
        src_port: 1024 + (serial % PORTS) as u16,
        dst_port: 5000 + (serial / PORTS % 60_000) as u16,
        ethertype: 0x0800,
        proto,
        ..FlowKey::default()
    }
}

/// What stands where flows of a group differ.
const SEVERAL: &str = "several";
/// Source ports that are used.
const PORTS: u64 = 64_000;
