//! What a scenario is once it is checked.

use weir_core::Nanos;
use weir_core::config::{FlowsetConfig, SchedulerConfig};
use weir_rules::LinkSpec;

use crate::switch::SwitchConfig;
use crate::traffic::{Plan, Spec};
use crate::units::RateText;

/// A scenario that can be run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// Simulated time from start to end, the warm-up included.
    pub duration: Nanos,
    /// Time at the start that is not measured; shorter than `duration`.
    pub warmup: Nanos,
    /// Seed of the first run; further runs have the next ones.
    pub seed: u64,
    /// Runs with different seeds, at least 1.
    pub runs: u32,
    /// Nodes, in the order of the file.
    pub nodes: Vec<Node>,
    /// Links, in the order of the file.
    pub links: Vec<Link>,
    /// Routes of the file, with all nodes from source to destination.
    pub routes: Vec<Route>,
    /// Traffic, in the order of the file.
    pub traffic: Vec<Traffic>,
    /// What is measured besides totals.
    pub measure: Measure,
    /// Keys with the values that they take in turn. Each point of a sweep is a separate scenario.
    pub sweep: Vec<Axis>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: NodeKind,
}

/// The kind of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Sends and receives, but does not forward.
    Host,
    /// Forwards without delay.
    Router,
    /// Forwards through queues that are programmed.
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
    /// Its name.
    pub name: String,
    /// Numbers of its two nodes.
    pub ends: [usize; 2],
    /// From the first to the second, and back.
    pub directions: [Direction; 2],
}

/// One direction of a link: a port.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// Name in results, different from all others.
    pub name: String,
    /// Link and its queue.
    pub spec: LinkSpec,
    /// The scheduler that shares the link; without one it is a pipe.
    pub scheduler: Option<SchedulerConfig>,
    /// Queues of the scheduler by traffic class; without any it has one, with the settings of
    /// `spec`.
    pub queues: Vec<FlowsetConfig>,
}

/// A route of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Numbers of all nodes from source to destination.
    pub nodes: Vec<usize>,
}

/// What is measured besides totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Distance of the points of time series.
    pub interval: Nanos,
    /// Whether every packet's path is recorded.
    pub trace: bool,
    /// Whether inversions are counted: packets that left a port while one of lower rank waited
    /// there.
    pub inversions: bool,
}

impl Default for Measure {
    fn default() -> Self {
        Self { interval: Nanos::from_millis(100), trace: false, inversions: false }
    }
}

/// A key and the values that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The key, such as `traffic.f1.rate`.
    pub key: String,
    /// Its values, as TOML.
    pub values: Vec<String>,
}

/// An entry of traffic: flows of one kind between hosts.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Its name; the names of its flows begin with it.
    pub name: String,
    /// Numbers of the hosts that it comes from.
    pub from: Vec<usize>,
    /// Numbers of the hosts that it goes to.
    pub to: Vec<usize>,
    /// Flows between each pair of hosts.
    pub count: u32,
    /// Traffic class.
    pub class: u16,
    /// The name of the group of its statistics; by default each flow has its own.
    pub group: Option<String>,
    /// Its settings, as written in the file.
    pub spec: Spec,
    /// Its settings, ready to be installed in worlds.
    pub plan: Plan,
}

impl Traffic {
    /// Number of its flows.
    pub fn flows(&self) -> u64 {
        (self.from.len() as u64)
            .saturating_mul(self.to.len() as u64)
            .saturating_mul(u64::from(self.count))
    }

    /// Approximate number of packets of all its flows, where that follows from a rate.
    pub fn expected_packets(&self, duration: Nanos) -> u64 {
        let (rate, size) = match &self.spec {
            Spec::Cbr(spec) => (spec.rate, spec.size),
            Spec::Poisson(spec) => (spec.rate, spec.size),
            Spec::Pareto(spec) => (spec.rate, spec.size),
            Spec::OnOff(spec) => (Some(spec.rate), spec.size),
            _ => return 0,
        };
        let each = u128::from(rate.map_or(0, RateText::bps)) * u128::from(duration.0)
            / (8_000_000_000 * u128::from(size.0.max(1)));
        u64::try_from(each.saturating_mul(u128::from(self.flows()))).unwrap_or(u64::MAX)
    }
}

/// Most nodes.
pub const MAX_NODES: usize = 60_000;
/// Most ports, two for each link; and most queues in front of schedulers.
pub const MAX_PORTS: usize = 60_000;
/// Most flows.
pub const MAX_FLOWS: u64 = 1_000_000;
/// Longest duration: a year.
pub const MAX_DURATION: Nanos = Nanos::from_secs(366 * 86_400);
/// Most runs of one scenario.
pub const MAX_RUNS: i64 = 100_000;
/// Most points of a sweep.
pub const MAX_POINTS: usize = 100_000;
/// Expected packets of a run above which there is a warning.
pub const MANY_PACKETS: u64 = 10_000_000_000;
