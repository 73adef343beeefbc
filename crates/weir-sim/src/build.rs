//! Builds a world from a scenario: ports, flows with their paths and addresses, and the names of
//! ports and flows.
//!
//! **Addresses.** Node number `n` of the file, counted from 1, has the address 10.0.0.0 + `n`: the
//! third node has 10.0.0.3, node 300 has 10.0.1.44. Flow number `n` of all traffic, counted from 0,
//! has the source port 1024 + `n` mod 64,000 and the destination port 5000 + (`n` / 64,000) mod
//! 60,000. Its protocol is TCP, UDP or, for pings, ICMP. A flow that is opened during the run has
//! the addresses and the destination port of its template. Its source port is 1024 + `m` mod 64,000
//! after `m` such flows. Masks and hashes of queues use these addresses and port numbers.

use std::collections::BTreeMap;
use std::ops::Range;

use weir_core::Nanos;
use weir_core::config::{LinkConfig, PipeConfig};
use weir_core::key::FlowKey;

use crate::measure::{FlowName, LinkName, Names};
use crate::network::{FlowSpec, Network, PortId};
use crate::scenario::{Direction, Link, Node, NodeKind, Scenario, Traffic};
use crate::switch::{Switch, SwitchError};
use crate::topology::{PathError, Topology, port_of};
use crate::traffic::Placement;
use crate::world::World;

/// A world, and the names of its ports and flows.
#[derive(Debug)]
pub struct Built {
    /// The world at time 0.
    pub world: World,
    /// Names of its ports and flows.
    pub names: Names,
}

/// Builds the world of a scenario; `seed` is the seed of the run.
///
/// # Errors
/// There is no path between two hosts, or a switch cannot be configured as described. A scenario
/// that was read from a file has neither error.
pub fn build(scenario: &Scenario, seed: u64) -> Result<Built, BuildError> {
    let mut network = Network::new(seed);
    let mut names = Names { scenario: scenario.name.clone(), ..Names::default() };
    let ports = Ports::add(&mut network, scenario, &mut names)?;
    let mut maker = Maker {
        scenario,
        seed,
        ports,
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

/// Why no world can be built from a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// There is no path between two hosts of a traffic entry.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A switch cannot be configured as described.
    #[error(transparent)]
    Switch(#[from] SwitchError),
}

/// The ports of all directions of links. If a direction leads out of a switch, its port is the
/// switch's output.
struct Ports<'a> {
    scenario: &'a Scenario,
    /// The port of each direction, by the direction's number in paths.
    ports: Vec<PortId>,
    /// Each switch by its node, with the number of the input for each link that arrives there.
    switches: BTreeMap<usize, (Switch, BTreeMap<usize, u16>)>,
}

impl<'a> Ports<'a> {
    fn add(
        network: &mut Network,
        scenario: &'a Scenario,
        names: &mut Names,
    ) -> Result<Self, SwitchError> {
        let mut all = Self {
            scenario,
            ports: vec![PortId(0); 2 * scenario.links.len()],
            switches: BTreeMap::new(),
        };
        let node_name = |node: usize| scenario.nodes[node].name.clone();
        let counted = scenario.warmup..scenario.duration;
        for (number, link) in scenario.links.iter().enumerate() {
            for (side, direction) in link.directions.iter().enumerate() {
                if matches!(scenario.nodes[link.ends[side]].kind, NodeKind::Switch(_)) {
                    continue;
                }
                all.ports[port_of(number, side)] = add_port(network, direction);
                names.links.push(link_name(
                    direction,
                    node_name(link.ends[side]),
                    node_name(link.ends[1 - side]),
                    counted.clone(),
                ));
            }
        }
        for (node, Node { name, kind, .. }) in scenario.nodes.iter().enumerate() {
            let NodeKind::Switch(config) = kind else { continue };
            let sides = |(number, link): (usize, &'a Link)| {
                (0..2)
                    .filter(|&side| link.ends[side] == node)
                    .map(move |side| (number, link, side))
                    .collect::<Vec<_>>()
            };
            let outputs: Vec<(usize, &Link, usize)> =
                scenario.links.iter().enumerate().flat_map(sides).collect();
            let links: Vec<LinkConfig> = outputs
                .iter()
                .map(|(_, link, side)| link.directions[*side].spec.pipe.link.clone())
                .collect();
            let switch = config.build(network, &links)?;
            if switch.pipeline().is_some() {
                names.links.push(LinkName {
                    name: name.clone(),
                    from: name.clone(),
                    to: name.clone(),
                    ..LinkName::default()
                });
            }
            let mut inputs = BTreeMap::new();
            for (input, ((number, link, side), port)) in
                outputs.iter().zip(switch.outputs()).enumerate()
            {
                all.ports[port_of(*number, *side)] = *port;
                inputs.insert(*number, input as u16);
                names.links.push(link_name(
                    &link.directions[*side],
                    name.clone(),
                    node_name(link.ends[1 - side]),
                    counted.clone(),
                ));
            }
            all.switches.insert(node, (switch, inputs));
        }
        Ok(all)
    }

    /// The ports of a path. A switch adds its pipeline; packets enter the pipeline at the input at
    /// which they arrive.
    fn path(&self, directions: &[usize]) -> Vec<PortId> {
        let mut ports = Vec::with_capacity(directions.len());
        let mut before = None;
        for &direction in directions {
            let from = self.scenario.links[direction / 2].ends[direction % 2];
            if let (Some((switch, inputs)), Some(link)) = (self.switches.get(&from), before) {
                let input = inputs.get(&link).copied().unwrap_or(0);
                ports.extend(switch.pipeline().map(|pipeline| pipeline.through(input)));
            }
            ports.push(self.ports[direction]);
            before = Some(direction / 2);
        }
        ports
    }
}

fn add_port(network: &mut Network, direction: &Direction) -> PortId {
    let PipeConfig { link, queue, .. } = &direction.spec.pipe;
    match &direction.scheduler {
        None => network.add_pipe(&direction.spec.pipe),
        Some(scheduler) => network.add_scheduler(scheduler, link, queue, &direction.queues),
    }
}

/// The description of a port in results. Rate, delay and loss are means over `counted`, the time in
/// which packets are counted.
pub fn link_name(
    direction: &Direction,
    from: String,
    to: String,
    counted: Range<Nanos>,
) -> LinkName {
    let PipeConfig { link, .. } = &direction.spec.pipe;
    let means = link.means(Some(counted));
    LinkName {
        name: direction.name.clone(),
        from,
        to,
        spec: direction.words(),
        rate_bps: means.rate_bps,
        rate_varies: means.rate_varies,
        delay_ns: means.delay.0,
        delay_varies: means.delay_varies,
        loss: means.loss,
    }
}

/// The numbers of the groups of flows.
#[derive(Debug, Default)]
struct Groups {
    names: Vec<FlowName>,
    /// The number of each group that the file names.
    shared: BTreeMap<String, u32>,
}

impl Groups {
    /// The group of flow number `n` of `traffic`, between two nodes.
    fn number(&mut self, scenario: &Scenario, traffic: &Traffic, n: u64, ends: [usize; 2]) -> u32 {
        let next = self.names.len() as u32;
        let kind = traffic.spec.kind().to_owned();
        let [from, to] = ends.map(|node| scenario.nodes[node].name.clone());
        if let Some(name) = &traffic.group {
            let number = *self.shared.entry(name.clone()).or_insert(next);
            match self.names.get_mut(number as usize) {
                None => self.names.push(FlowName { name: name.clone(), kind, from, to }),
                Some(group) => {
                    for (all, own) in
                        [(&mut group.kind, kind), (&mut group.from, from), (&mut group.to, to)]
                    {
                        if *all != own {
                            SEVERAL.clone_into(all);
                        }
                    }
                }
            }
            return number;
        }
        let name = if traffic.flows() == 1 {
            traffic.name.clone()
        } else {
            format!("{}.{}", traffic.name, n + 1)
        };
        self.names.push(FlowName { name, kind, from, to });
        next
    }
}

/// Makes the flows of a scenario and counts them.
struct Maker<'a> {
    scenario: &'a Scenario,
    seed: u64,
    ports: Ports<'a>,
    world: World,
    topology: Topology,
    groups: Groups,
    /// Number of flows made, and number of installations of traffic. A traffic entry is installed
    /// once for each flow, or for each group of flows that are installed together.
    flows: u64,
    installed: u64,
}

impl Maker<'_> {
    /// Installs all flows of a traffic entry. Flows that send together to one host are installed
    /// together.
    fn add(&mut self, traffic: &Traffic) -> Result<(), PathError> {
        let mut made = 0;
        for &to in &traffic.to {
            let (mut together, mut switches) = (Vec::new(), Vec::new());
            for &from in &traffic.from {
                let path = self.topology.path(from, to)?;
                let passed = self.programs(&path);
                for _ in 0..traffic.count {
                    together.push(self.flow(traffic, made, [from, to])?);
                    switches.push(passed);
                    made += 1;
                }
            }
            let chunk_len = if traffic.plan.joint() { together.len().max(1) } else { 1 };
            for (flows, switches) in together.chunks(chunk_len).zip(switches.chunks(chunk_len)) {
                // Flows that are installed together have one deadline, that of the path with the
                // most rank programs.
                let most = switches.iter().copied().max().unwrap_or(0);
                traffic.plan.through(most).install(
                    &mut self.world,
                    &Placement { flows, seed: self.seed, number: self.installed },
                );
                self.installed += 1;
            }
        }
        Ok(())
    }

    /// Number of switches with rank programs on a path.
    fn programs(&self, directions: &[usize]) -> u32 {
        let passed = directions.iter().filter(|&&direction| {
            let from = self.scenario.links[direction / 2].ends[direction % 2];
            matches!(&self.scenario.nodes[from].kind, NodeKind::Switch(config) if config.program.is_some())
        });
        passed.count() as u32
    }

    /// Flow number `made` of a traffic entry.
    fn flow(
        &mut self,
        traffic: &Traffic,
        made: u64,
        [from, to]: [usize; 2],
    ) -> Result<FlowSpec, PathError> {
        let forward = self.ports.path(&self.topology.path(from, to)?);
        let back = self.ports.path(&self.topology.path(to, from)?);
        let key = key(from, to, self.flows, traffic.plan.protocol());
        let group = self.groups.number(self.scenario, traffic, made, [from, to]);
        self.flows += 1;
        Ok(FlowSpec { forward, back, key, class: traffic.class, group })
    }
}

/// Addresses and port numbers of flow number `serial`, between two nodes.
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

/// The value of a property in results if the flows of a group differ in this property.
const SEVERAL: &str = "several";
/// Number of source port numbers that are used.
const PORTS: u64 = 64_000;
