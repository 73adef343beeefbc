//! A checked scenario.

use weir_core::Nanos;
use weir_core::config::{FlowsetConfig, SchedulerConfig};
use weir_rules::LinkSpec;

use super::host_program::HostProgram;
use crate::switch::SwitchConfig;
use crate::traffic::{Plan, Spec};
use crate::units::{RateText, Size, Time};

/// A scenario that can be run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name of the scenario.
    pub name: String,
    /// Simulated time from start to end, including the warm-up.
    pub duration: Nanos,
    /// Length of the warm-up, which is not measured; shorter than `duration`.
    pub warmup: Nanos,
    /// Seed of the first run. Each further run has the next seed.
    pub seed: u64,
    /// Number of runs with different seeds, at least 1.
    pub runs: u32,
    /// Nodes, in the order of the file.
    pub nodes: Vec<Node>,
    /// Links, in the order of the file.
    pub links: Vec<Link>,
    /// Routes of the file, with all nodes from source to destination.
    pub routes: Vec<Route>,
    /// Traffic, in the order of the file.
    pub traffic: Vec<Traffic>,
    /// Measurements in addition to totals.
    pub measure: Measure,
    /// Keys with the values that the sweep sets. Each point of a sweep is a separate scenario.
    pub sweep: Vec<Axis>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name of the node.
    pub name: String,
    /// Kind of the node.
    pub kind: NodeKind,
    /// The program of a host, in live runs.
    pub program: Option<Box<HostProgram>>,
}

/// The kind of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Sends and receives, but does not forward.
    Host,
    /// Forwards without delay.
    Router,
    /// Forwards through programmable queues.
    Switch(Box<SwitchConfig>),
}

impl NodeKind {
    /// The name of the kind in files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Router => "router",
            Self::Switch(_) => "switch",
        }
    }
}

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Name of the link.
    pub name: String,
    /// Indices of the two nodes.
    pub ends: [usize; 2],
    /// The directions from the first node to the second, and back.
    pub directions: [Direction; 2],
}

/// One direction of a link: a port.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// Name in results, different from all others.
    pub name: String,
    /// The link and its queue.
    pub spec: LinkSpec,
    /// The scheduler that shares the link; `None` for a pipe.
    pub scheduler: Option<SchedulerConfig>,
    /// Queues of the scheduler by traffic class. If empty, the scheduler has one queue, with the
    /// settings of `spec`.
    pub queues: Vec<FlowsetConfig>,
}

/// A route of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Indices of all nodes from source to destination.
    pub nodes: Vec<usize>,
}

/// Measurements in addition to totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Length of the interval that each point of a time series covers.
    pub interval: Nanos,
    /// Whether every packet's path is recorded.
    pub trace: bool,
    /// Whether inversions are counted: packets that left a port while a packet of lower rank waited
    /// there.
    pub inversions: bool,
}

impl Default for Measure {
    fn default() -> Self {
        Self { interval: Nanos::from_millis(100), trace: false, inversions: false }
    }
}

/// A key of a sweep and the values that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The key, such as `traffic.f1.rate`.
    pub key: String,
    /// The values, as TOML.
    pub values: Vec<String>,
}

/// A traffic entry: flows of one kind between hosts.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Name of the entry. The names of its flows begin with it.
    pub name: String,
    /// Indices of the source hosts.
    pub from: Vec<usize>,
    /// Indices of the destination hosts.
    pub to: Vec<usize>,
    /// Number of flows between each pair of hosts.
    pub count: u32,
    /// Traffic class.
    pub class: u16,
    /// Name of the group for the statistics. By default, each flow has its own group.
    pub group: Option<String>,
    /// The kind of traffic and its settings, as the file gives them.
    pub spec: Spec,
    /// The checked settings, ready to be installed in worlds.
    pub plan: Plan,
}

impl Scenario {
    /// The name of a traffic entry that is a program, or of a host that runs one. Only live runs
    /// have programs; `None` if the scenario can be simulated.
    pub fn live_only(&self) -> Option<&str> {
        let program = |traffic: &&Traffic| matches!(traffic.spec, Spec::Program(_));
        let traffic = self.traffic.iter().find(program).map(|traffic| traffic.name.as_str());
        let host = || self.nodes.iter().find(|node| node.program.is_some());
        traffic.or_else(|| host().map(|node| node.name.as_str()))
    }

    /// Whether hosts run programs or containers, which only `weir live` does.
    pub fn is_lab(&self) -> bool {
        self.nodes.iter().any(|node| node.program.is_some())
    }
}

impl Traffic {
    /// Number of flows of the entry.
    pub fn flows(&self) -> u64 {
        (self.from.len() as u64)
            .saturating_mul(self.to.len() as u64)
            .saturating_mul(u64::from(self.count))
    }

    /// Approximate number of packets that all flows of the entry send within `duration`. On-off
    /// sources count as always on, and Markov sources as always in their fastest state. 0 for kinds
    /// of traffic without a rate and without an interval.
    pub fn expected_packets(&self, duration: Nanos) -> u64 {
        let time = |rate: RateText, bytes: f64| bytes * 8e9 / rate.bps() as f64;
        let gap = |rate: Option<RateText>, interval: Option<Time>, size: Size| {
            let of_rate = rate.map(|rate| time(rate, size.0 as f64));
            of_rate.or(interval.map(|interval| interval.0.0 as f64))
        };
        let gap = match &self.spec {
            Spec::Cbr(spec) => gap(spec.rate, spec.interval, spec.size),
            Spec::Poisson(spec) => gap(spec.rate, spec.interval, spec.size),
            Spec::Pareto(spec) => gap(spec.rate, spec.interval.or(spec.scale), spec.size),
            Spec::OnOff(spec) => gap(Some(spec.rate), None, spec.size),
            Spec::Markov(spec) => {
                let fastest = spec.states.iter().filter_map(|state| state.rate).max();
                gap(fastest, None, spec.size)
            }
            Spec::Imix(spec) => {
                let weights: f64 = spec.mix.iter().map(|(_, weight)| weight).sum();
                let bytes: f64 = spec.mix.iter().map(|(size, weight)| size.0 as f64 * weight).sum();
                Some(time(spec.rate, bytes / weights))
            }
            Spec::Probe(spec) => gap(None, Some(spec.interval), spec.size),
            Spec::Ping(spec) => gap(None, Some(spec.interval), spec.size),
            _ => None,
        };
        let each = gap.map_or(0.0, |gap| duration.0 as f64 / gap);
        // The conversion saturates, and NaN becomes 0.
        (each * self.flows() as f64) as u64
    }
}

/// Maximum number of nodes.
pub const MAX_NODES: usize = 60_000;
/// Maximum number of ports, where each link has two. The queues of all schedulers and switches
/// together have the same maximum.
pub const MAX_PORTS: usize = 60_000;
/// Maximum number of flows.
pub const MAX_FLOWS: u64 = 1_000_000;
/// Longest duration of a scenario: 366 days.
pub const MAX_DURATION: Nanos = Nanos::from_secs(366 * 86_400);
/// Maximum number of runs of one scenario.
pub const MAX_RUNS: i64 = 100_000;
/// Maximum number of runs of all points of a sweep together.
pub const MAX_POINTS: usize = 100_000;
/// A run with more expected packets than this causes a warning.
pub const MANY_PACKETS: u64 = 10_000_000_000;
