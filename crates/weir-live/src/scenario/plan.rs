//! The plan of a live run: hosts, lanes between them, rules that lead each packet over the links of
//! its path, and the tasks at both ends of each flow.
//!
//! *Port* has two meanings here. The port of a node is the port of its host in the session. A port
//! of a path or of the engine is one direction of a link, as in the simulator.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::sync::Arc;

use weir_core::key::FlowKey;
use weir_core::{Emulator, Nanos};
use weir_linux::live::{Forwarding, Gso, LaneConfig};
use weir_linux::topology::{HostSetup, Neighbours, NetworkSetup, link_local};
use weir_rules::classify::{Pass, Place, PlaceInterface};
use weir_rules::ruleset::Ruleset;
use weir_rules::script;
use weir_sim::disk::Disk;
use weir_sim::scenario::{Direction, NodeKind, Scenario};
use weir_sim::topology::Topology;
use weir_traffic::host::order::{Role, Task, Transfer};

use super::error::ScenarioError;
use super::flows::{Flow, flows};
use super::kinds::Carrier;
use crate::rules::ActiveRules;
use crate::session::{Lanes, Link, NamedLink};

#[derive(Debug)]
pub(super) struct Plan {
    /// The nodes that have a namespace and a port, in the order of the ports.
    pub(super) hosts: Vec<usize>,
    /// The configuration of the hosts' namespaces.
    pub(super) setup: NetworkSetup,
    /// All flows, in the order of their numbers.
    pub(super) flows: Vec<Flow>,
    /// A lane for each pair of hosts that exchange packets.
    pub(super) lanes: Vec<LaneConfig>,
    /// Selects the lane of each frame.
    pub(super) forwarding: Forwarding,
    /// The rules that lead packets from link to link.
    pub(super) rules: ActiveRules,
    /// The tasks of each host's generator.
    pub(super) tasks: Vec<Vec<Task>>,
    /// Sending and receiving node of each lane, in the order of the lanes.
    pairs: Vec<(usize, usize)>,
}

impl Plan {
    pub(super) fn port(&self, node: usize) -> Option<usize> {
        self.hosts.binary_search(&node).ok()
    }

    pub(super) fn lane(&self, from: usize, to: usize) -> Option<u16> {
        self.pairs.binary_search(&(from, to)).ok().map(|lane| lane as u16)
    }
}

/// Plans a scenario that [`check`](super::check()) accepts.
///
/// With `all_hosts`, the hosts without traffic have a namespace, too, and two hosts reach each
/// other if there are paths between them in both directions.
///
/// # Errors
/// A flow has no path, or there are too many hosts.
pub(super) fn plan(
    scenario: &Scenario,
    mtu: u32,
    neighbours: Neighbours,
    all_hosts: bool,
) -> Result<Plan, ScenarioError> {
    let flows = flows(scenario)?;
    let mut used: BTreeSet<usize> = flows.iter().flat_map(|flow| [flow.from, flow.to]).collect();
    let mut paths = paths(&flows);
    if all_hosts {
        used.extend(
            (0..scenario.nodes.len()).filter(|&n| scenario.nodes[n].kind == NodeKind::Host),
        );
        if used.len() > MOST_LAB_HOSTS {
            return Err(ScenarioError::Hosts { count: used.len(), most: MOST_LAB_HOSTS });
        }
        join_all(scenario, &used, &mut paths);
    }
    let hosts: Vec<usize> = used.into_iter().collect();
    let port_of: BTreeMap<usize, usize> =
        hosts.iter().enumerate().map(|(port, &node)| (node, port)).collect();
    let host = |&node: &usize| HostSetup {
        name: scenario.nodes[node].name.clone(),
        address: address(node),
        ipv6: Some(ipv6(node)),
    };
    let setup = NetworkSetup {
        hosts: hosts.iter().map(host).collect(),
        prefix: PREFIX,
        mtu,
        neighbours,
        namespaces: BTreeMap::new(),
    };
    let resolves = neighbours == Neighbours::Emulated;
    let (mut lanes, mut forwarding) = (Vec::new(), Forwarding::default());
    if resolves {
        forwarding = forwarding.with_resolution();
    }
    for &(from, to) in paths.keys() {
        let name = format!("{}>{}", scenario.nodes[from].name, scenario.nodes[to].name);
        let (port, other) = (port_of[&from], port_of[&to]);
        let local = resolves.then(|| link_local(other as u16).into());
        let all: [IpAddr; 2] = [address(to).into(), ipv6(to).into()];
        for address in all.into_iter().chain(local) {
            forwarding.insert(port, address, lanes.len() as u16);
        }
        let pass = if resolves { between(port, other) } else { PASS };
        lanes.push(LaneConfig {
            name,
            from: port,
            to: other,
            pipe: 0,
            passes: vec![pass],
            gso: Gso::Split,
        });
    }
    let text = rules(scenario, &paths, &flows, resolves.then_some(&port_of));
    let mut tasks = vec![Vec::new(); hosts.len()];
    for flow in &flows {
        for (node, role) in roles(scenario, flow) {
            tasks[port_of[&node]].push(Task {
                flow: flow.number,
                from: sender(&flow.key),
                to: receiver(&flow.key),
                role,
            });
        }
    }
    let place = if resolves { between_all(&lanes, hosts.len()) } else { anywhere() };
    let rules = compile(&text, place)?;
    let pairs = paths.keys().copied().collect();
    Ok(Plan { hosts, setup, flows, lanes, forwarding, rules, tasks, pairs })
}

/// The ports on each path, by the nodes at its ends, for nodes that have flows between them.
fn paths(flows: &[Flow]) -> Paths {
    let both = |flow: &Flow| {
        [((flow.from, flow.to), flow.forward.clone()), ((flow.to, flow.from), flow.back.clone())]
    };
    flows.iter().flat_map(both).collect()
}

/// Adds the paths between all hosts that have a path in both directions.
fn join_all(scenario: &Scenario, hosts: &BTreeSet<usize>, paths: &mut Paths) {
    let mut topology =
        Topology::new(&scenario.nodes, &scenario.links).with_routes(&scenario.routes);
    for (&one, &other) in hosts.iter().flat_map(|a| hosts.range(a + 1..).map(move |b| (a, b))) {
        if let (Ok(there), Ok(back)) = (topology.path(one, other), topology.path(other, one)) {
            paths.entry((one, other)).or_insert(there);
            paths.entry((other, one)).or_insert(back);
        }
    }
}

/// The tasks at both ends of a flow, with their nodes; empty if programs send the packets.
fn roles(scenario: &Scenario, flow: &Flow) -> Vec<(usize, Role)> {
    match flow.carrier(scenario) {
        Carrier::Datagrams { tos, echo } => {
            vec![(flow.from, Role::Send { tos, echo }), (flow.to, Role::Receive { echo })]
        }
        Carrier::Tcp(transfer) => {
            let plan = &scenario.traffic[flow.traffic].plan;
            let start_ns = plan.begins(scenario.seed, flow.number.into()).0;
            let transfer = Transfer { start_ns, ..transfer };
            vec![(flow.from, Role::Write(transfer)), (flow.to, Role::Read)]
        }
        Carrier::Program { .. } => Vec::new(),
    }
}

/// The address and port number from which a flow's packets are sent.
fn sender(key: &FlowKey) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from_bits(key.src as u32), key.src_port)
}

/// The address and port number to which a flow's packets are sent.
fn receiver(key: &FlowKey) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from_bits(key.dst as u32), key.dst_port)
}

/// A node's address, which is the same as in the simulator.
pub(super) fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(weir_sim::build::key(node, node, 0, 0).src as u32)
}

/// A node's IPv6 address, for programs: its last bits are those of the IPv4 address.
fn ipv6(node: usize) -> Ipv6Addr {
    Ipv6Addr::from_bits(IPV6.to_bits() | u128::from(address(node).to_bits()))
}

/// The pass of a lane in which rules see the ports at which a packet arrives and departs.
fn between(from: usize, to: usize) -> Pass {
    Pass { out: true, bridged: false, recv: Some(from as u16), xmit: Some(to as u16) }
}

/// The place at which rules see the two hosts of a frame, whatever the frame contains.
fn between_all(lanes: &[LaneConfig], hosts: usize) -> Place {
    let interface = |number: u16| PlaceInterface {
        number,
        name: host_name(number.into()).as_str().into(),
        v4: Vec::new(),
        v6: Vec::new(),
    };
    Place {
        interfaces: (0..hosts as u16).map(interface).collect(),
        passes: lanes.iter().flat_map(|lane| lane.passes.clone()).collect(),
        ..Place::default()
    }
}

/// The place at which rules only see a packet's headers.
fn anywhere() -> Place {
    Place { passes: vec![PASS], ..Place::default() }
}

/// The name of a port's host in rules. The names of a scenario need not be words of the language.
fn host_name(port: usize) -> String {
    format!("host{port}")
}

/// The rules that lead packets along their paths. A packet that departs from a link continues after
/// the rule that sent it into the link, so the rules of a path follow each other, one for each
/// link. The rules for a pair of hosts send packets to the queues of class 0. A flow of another
/// class has its own rules, which precede the rules for pairs and end with a rule that lets the
/// flow's packets pass. A program's flow has no known port numbers and so no rules of its own.
///
/// With `ports_of_hosts`, the rules for a pair apply to all frames between the two hosts, so that
/// links also carry frames that resolve addresses.
fn rules(
    scenario: &Scenario,
    paths: &Paths,
    flows: &[Flow],
    ports_of_hosts: Option<&BTreeMap<usize, usize>>,
) -> String {
    let ports = Ports::of(scenario);
    let mut text = String::from("disable one_pass\n");
    let mut add = |action: &str, what: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "add 1 {action} {what}");
    };
    let has_ports = |flow: &&Flow| !matches!(flow.carrier(scenario), Carrier::Program { .. });
    for flow in flows.iter().filter(|flow| flow.class > 0).filter(has_ports) {
        let protocol = if flow.key.proto == TCP { "tcp" } else { "udp" };
        let (from, to) = (sender(&flow.key), receiver(&flow.key));
        for (path, from, to) in [(&flow.forward, from, to), (&flow.back, to, from)] {
            let what = format!(
                "{protocol} from {} {} to {} {}",
                from.ip(),
                from.port(),
                to.ip(),
                to.port()
            );
            path.iter().for_each(|&port| add(&ports.action(port, flow.class), &what));
            add("allow", &what);
        }
    }
    for (&(from, to), path) in paths {
        let packets = match ports_of_hosts {
            Some(port_of) => {
                let [recv, xmit] = [from, to].map(|node| host_name(port_of[&node]));
                vec![format!("layer2 out recv {recv} xmit {xmit}")]
            }
            None => vec![
                format!("ip from {} to {}", address(from), address(to)),
                format!("ip from {} to {}", ipv6(from), ipv6(to)),
            ],
        };
        for what in packets {
            path.iter().for_each(|&port| add(&ports.action(port, 0), &what));
        }
    }
    text
}

/// Parses rules, and compiles them for `place`.
fn compile(text: &str, place: Place) -> Result<ActiveRules, ScenarioError> {
    let parsed = script::parse(text, "routes", &Disk);
    let mut ruleset = Ruleset::default();
    let applied = ruleset.apply_all(&parsed.commands);
    if parsed.diagnostics.has_errors() || applied.is_err() {
        return Err(ScenarioError::Rules(parsed.diagnostics));
    }
    Ok(ActiveRules::new(Arc::new(ruleset), place))
}

/// The numbers of pipes, schedulers and queues in the engine.
struct Ports<'a> {
    directions: Vec<&'a Direction>,
    /// The number of the first queue of each port.
    first_queue: Vec<u16>,
}

impl<'a> Ports<'a> {
    fn of(scenario: &'a Scenario) -> Self {
        let directions: Vec<&Direction> =
            scenario.links.iter().flat_map(|link| &link.directions).collect();
        let mut next = 1;
        let first_queue = directions.iter().map(|direction| {
            let first = next;
            next += direction.queues.len() as u16;
            first
        });
        Self { first_queue: first_queue.collect(), directions }
    }

    /// The action of a rule that sends packets of a class to a port.
    fn action(&self, port: usize, class: u16) -> String {
        let queues = self.directions[port].queues.len();
        if queues == 0 {
            return format!("pipe {}", engine_id(port));
        }
        format!("queue {}", self.first_queue[port] + class.min(queues as u16 - 1))
    }
}

/// Number of a port's pipe or scheduler in the engine.
pub(super) fn engine_id(port: usize) -> u16 {
    port as u16 + 1
}

impl Plan {
    /// The session's lanes, with all ports configured as the simulator configures them.
    pub(super) fn session(&self, scenario: &Scenario) -> Lanes {
        let ports = Ports::of(scenario);
        let link = |((port, direction), link): ((usize, &&Direction), Link)| NamedLink {
            link,
            id: engine_id(port),
            scheduler: direction.scheduler.clone().map(Arc::new),
            ends: ends(scenario, port),
        };
        let queues = |(port, direction): (usize, &&Direction)| {
            let numbered = direction.queues.iter().cloned().zip(ports.first_queue[port]..);
            numbered.map(|(queue, number)| (number, engine_id(port), queue)).collect::<Vec<_>>()
        };
        let all: Vec<_> = ports.directions.iter().enumerate().flat_map(queues).collect();
        Lanes {
            lanes: self.lanes.clone(),
            forwarding: Some(self.forwarding.clone()),
            rules: Some(self.rules.clone()),
            engine: Some(Arc::new(move |engine: &mut Emulator, now: Nanos| {
                for (number, port, queue) in &all {
                    engine.set_queue(now, *number, *port, queue);
                }
            })),
            links: ports.directions.iter().enumerate().zip(links(scenario)).map(link).collect(),
        }
    }
}

/// The names of the nodes from which and to which a port leads.
fn ends(scenario: &Scenario, port: usize) -> [String; 2] {
    let mut nodes = scenario.links[port / 2].ends;
    if port % 2 == 1 {
        nodes.reverse();
    }
    nodes.map(|node| scenario.nodes[node].name.clone())
}

/// The links of a scenario at its start, one for each direction, with the direction's name in
/// results. For a link without a name in the file, each direction also has the whole link's name.
pub fn links(scenario: &Scenario) -> Vec<Link> {
    let of = |link: &weir_sim::scenario::Link| {
        let unnamed = link.directions.iter().all(|direction| direction.name != link.name);
        link.directions.clone().map(|direction| {
            let own = Link::new(direction.name, direction.spec);
            if unnamed { own.direction_of(link.name.clone()) } else { own }
        })
    };
    scenario.links.iter().flat_map(of).collect()
}

/// The ports on each path, by the nodes at which the path begins and ends.
type Paths = BTreeMap<(usize, usize), Vec<usize>>;

/// Maximum number of hosts of a lab. Each pair of them has a lane in each direction.
pub(super) const MOST_LAB_HOSTS: usize = 100;
/// The only pass of each lane if the links carry no frames that resolve addresses: rules examine
/// packets when they arrive.
const PASS: Pass = Pass { out: false, bridged: false, recv: None, xmit: None };
/// Length of the prefix that every host treats as its own segment: 10.0.0.0/8.
const PREFIX: u8 = 8;
/// The prefix of all IPv6 addresses. It has the subnet 0x1000, because the links of sessions with
/// two sides have the subnets up to 0xfff.
const IPV6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0x6569, 0x7248, 0x1000, 0, 0, 0, 0);
/// The IP protocol number of TCP.
const TCP: u8 = 6;

#[cfg(test)]
mod tests {
    use weir_rules::NoFiles;

    use super::*;

    const SCENARIO: &str = r#"
        duration = "1s"
        node = [{ name = "a" }, { name = "b" }, { name = "idle" }, { name = "r", kind = "router" }]
        link = [
            { between = ["a", "r"], spec = "bw 10Mbit/s" },
            { between = ["r", "b"], scheduler = "drr", spec = "bw 5Mbit/s", queue = [
                { class = 0 },
                { class = 1, spec = "weight 3" },
            ] },
            { between = ["idle", "r"], spec = "bw 1Mbit/s" },
        ]
        [[traffic]]
        name = "f"
        kind = "cbr"
        from = "a"
        to = "b"
        rate = "1Mbit/s"
        size = "500B"
        class = 1
        [[traffic]]
        name = "g"
        kind = "cbr"
        from = "b"
        to = "a"
        rate = "1Mbit/s"
        size = "500B"
        count = 2
    "#;

    fn scenario() -> Scenario {
        let checked = weir_sim::scenario::parse(SCENARIO, "test.toml", &NoFiles);
        checked.scenario.unwrap_or_else(|| panic!("{}", checked.diagnostics))
    }

    #[test]
    fn rules_lead_each_pair_over_its_links_and_other_classes_to_their_queues() {
        let scenario = scenario();
        let flows = flows(&scenario).unwrap();
        let paths = paths(&flows);
        let expected = "\
            disable one_pass\n\
            add 1 pipe 1 udp from 10.0.0.1 1024 to 10.0.0.2 5000\n\
            add 1 queue 2 udp from 10.0.0.1 1024 to 10.0.0.2 5000\n\
            add 1 allow udp from 10.0.0.1 1024 to 10.0.0.2 5000\n\
            add 1 pipe 4 udp from 10.0.0.2 5000 to 10.0.0.1 1024\n\
            add 1 pipe 2 udp from 10.0.0.2 5000 to 10.0.0.1 1024\n\
            add 1 allow udp from 10.0.0.2 5000 to 10.0.0.1 1024\n\
            add 1 pipe 1 ip from 10.0.0.1 to 10.0.0.2\n\
            add 1 queue 1 ip from 10.0.0.1 to 10.0.0.2\n\
            add 1 pipe 1 ip from fd77:6569:7248:1000::a00:1 to fd77:6569:7248:1000::a00:2\n\
            add 1 queue 1 ip from fd77:6569:7248:1000::a00:1 to fd77:6569:7248:1000::a00:2\n\
            add 1 pipe 4 ip from 10.0.0.2 to 10.0.0.1\n\
            add 1 pipe 2 ip from 10.0.0.2 to 10.0.0.1\n\
            add 1 pipe 4 ip from fd77:6569:7248:1000::a00:2 to fd77:6569:7248:1000::a00:1\n\
            add 1 pipe 2 ip from fd77:6569:7248:1000::a00:2 to fd77:6569:7248:1000::a00:1\n";
        assert_eq!(rules(&scenario, &paths, &flows, None), expected);
        let (by_flow, _) = expected.split_once("add 1 pipe 1 ip").unwrap();
        let emulated = format!(
            "{by_flow}\
             add 1 pipe 1 layer2 out recv host0 xmit host1\n\
             add 1 queue 1 layer2 out recv host0 xmit host1\n\
             add 1 pipe 4 layer2 out recv host1 xmit host0\n\
             add 1 pipe 2 layer2 out recv host1 xmit host0\n"
        );
        let port_of = BTreeMap::from([(0, 0), (1, 1)]);
        assert_eq!(rules(&scenario, &paths, &flows, Some(&port_of)), emulated);
    }

    #[test]
    fn hosts_without_traffic_are_left_out_and_each_flow_has_two_ends() {
        let plan = plan(&scenario(), 1500, Neighbours::Emulated, false)
            .unwrap_or_else(|_| panic!("it can be planned"));
        assert_eq!(plan.hosts, [0, 1]);
        assert_eq!(
            plan.setup.hosts[1],
            HostSetup {
                name: "b".into(),
                address: Ipv4Addr::new(10, 0, 0, 2),
                ipv6: Some("fd77:6569:7248:1000::a00:2".parse().unwrap())
            }
        );
        assert_eq!(
            (plan.lanes.len(), plan.lane(0, 1), plan.lane(1, 0), plan.lane(0, 3)),
            (2, Some(0), Some(1), None)
        );
        let roles = |host: usize| {
            plan.tasks[host]
                .iter()
                .map(|task| (task.flow, task.from.port(), task.role.clone()))
                .collect::<Vec<_>>()
        };
        let (send, receive) = (Role::Send { tos: 0, echo: false }, Role::Receive { echo: false });
        assert_eq!(
            roles(0),
            [(0, 1024, send.clone()), (1, 1025, receive.clone()), (2, 1026, receive.clone())]
        );
        assert_eq!(roles(1), [(0, 1024, receive), (1, 1025, send.clone()), (2, 1026, send)]);
    }

    #[test]
    fn in_a_lab_all_hosts_reach_each_other_over_the_links() {
        let plan = plan(&scenario(), 1500, Neighbours::Static, true)
            .unwrap_or_else(|_| panic!("it can be planned"));
        assert_eq!(plan.hosts, [0, 1, 2]);
        let names: Vec<&str> = plan.lanes.iter().map(|lane| lane.name.as_str()).collect();
        assert_eq!(names, ["a>b", "a>idle", "b>a", "b>idle", "idle>a", "idle>b"]);
        assert!(plan.tasks[2].is_empty());
    }

    #[test]
    fn flows_have_the_names_of_the_simulator() {
        let scenario = scenario();
        let own: Vec<String> =
            flows(&scenario).unwrap().into_iter().map(|flow| flow.group).collect();
        let names = weir_sim::build::build(&scenario, 1).unwrap().names;
        assert_eq!(own, names.flows.iter().map(|name| name.name.clone()).collect::<Vec<_>>());
        assert_eq!(own, ["f", "g.1", "g.2"]);
    }
}
