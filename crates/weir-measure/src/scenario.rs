//! The results of a scenario's run: every flow and every link with its name, in the order in which
//! they were created. The simulator and the live runner fill these types; reports and documents
//! read them.
//!
//! # Identities
//! For a group of flows: `carried + sent + duplicated = received + lost + inside`. For a link: see
//! [`crate::stats`]. Tests check the identities.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Serialize;

use crate::distribution::Distribution;
use crate::estimate::fairness;
use crate::series::{FlowPeriod, LinkPeriod};
use crate::stats::{LinkCounters, LinkStats, Reasons};

/// The names of the groups of flows and of the ports in a scenario, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names {
    /// The name of the scenario.
    pub scenario: String,
    /// The groups of flows.
    pub flows: Vec<FlowName>,
    /// The ports.
    pub links: Vec<LinkName>,
}

/// The description of a group of flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowName {
    /// The name of the group in the scenario.
    pub name: String,
    /// The kind of traffic, such as `cbr`.
    pub kind: String,
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
}

/// The description of a port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkName {
    /// The name of this direction of a link.
    pub name: String,
    /// The node at which the direction begins.
    pub from: String,
    /// The node at which the direction ends.
    pub to: String,
    /// The configuration of the port as text.
    pub spec: String,
    /// The rate, bit/s; `None` without a limit. If it changes, its mean while packets are counted.
    pub rate_bps: Option<u64>,
    /// Whether the rate changes.
    pub rate_varies: bool,
    /// The propagation delay, ns. If it changes, its mean while packets are counted.
    pub delay_ns: u64,
    /// Whether the propagation delay changes.
    pub delay_varies: bool,
    /// The random loss as a fraction; `None` without loss. If it changes, its mean over time.
    pub loss: Option<f64>,
}

/// Quantities of a run over time, by intervals of equal length: element `n` of each list covers the
/// interval that begins at `n · interval_ns`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunSeries {
    /// Length of an interval, ns.
    pub interval_ns: u64,
    /// End of the last interval, which may be shorter, ns.
    pub end_ns: u64,
    /// A list for each port.
    pub links: Vec<Vec<LinkPeriod>>,
    /// A list for each group of flows.
    pub flows: Vec<Vec<FlowPeriod>>,
}

impl RunSeries {
    /// Number of intervals.
    pub fn len(&self) -> usize {
        self.end_ns.div_ceil(self.interval_ns.max(1)) as usize
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length of interval `n`, ns.
    pub fn span_ns(&self, n: usize) -> u64 {
        let start = (n as u64).saturating_mul(self.interval_ns);
        self.end_ns.saturating_sub(start).min(self.interval_ns)
    }
}

/// The results of a run. The counts of flows and links exclude the warm-up; `events`, `series` and
/// `lateness` cover the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// The scenario's name.
    pub scenario: String,
    /// The seed of the run.
    pub seed: u64,
    /// Start of counting, ns.
    pub warmup_ns: u64,
    /// End of the run, ns.
    pub end_ns: u64,
    /// Number of events of the simulation, or of arrivals in a live run.
    pub events: u64,
    /// Each group of flows.
    pub flows: Vec<FlowOutcome>,
    /// Each port.
    pub links: Vec<LinkOutcome>,
    /// Jain's index over goodput, for each kind of traffic with several groups of flows.
    pub fairness: BTreeMap<String, f64>,
    /// Quantities over time.
    pub series: RunSeries,
    /// How late the packets departed; `None` where time is virtual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
}

impl Outcome {
    /// Whether there are several runs, and all have the same results. Then nothing in the scenario
    /// is random, and a confidence interval over the runs says nothing.
    #[must_use]
    pub fn all_equal(runs: &[Self]) -> bool {
        let Some((first, others)) = runs.split_first() else { return false };
        let equal = |run: &Self| {
            run.events == first.events && run.flows == first.flows && run.links == first.links
        };
        !others.is_empty() && others.iter().all(equal)
    }
}

/// How late the packets of a live run departed from the links, over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lateness {
    /// Actual departure minus due time, ns.
    pub ns: Distribution,
    /// Packets that departed more than 1 ms late.
    pub late: u64,
}

/// The results of a group of flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowOutcome {
    /// The name of the group in the scenario.
    pub name: String,
    /// The kind of traffic.
    pub kind: String,
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// Packets inside when counting began.
    pub carried: u64,
    /// Packets handed to the network.
    pub sent: u64,
    /// Network-layer bytes of the packets in `sent`.
    pub sent_bytes: u64,
    /// Additional copies that links made.
    pub duplicated: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Network-layer bytes of the packets in `received`.
    pub received_bytes: u64,
    /// Payload bytes that reached the application, each once.
    pub goodput_bytes: u64,
    /// Packets lost in the network, including those without a known reason.
    pub lost: u64,
    /// Packets lost and marked in the network, by reason, where the reason is known.
    pub reasons: Reasons,
    /// Packets that arrived with a congestion mark.
    pub marked: u64,
    /// Retransmitted segments.
    pub retransmitted: u64,
    /// Packets inside when the run ended.
    pub inside: u64,
    /// Flows opened.
    pub opened: u64,
    /// Flows completed.
    pub completed: u64,
    /// One-way delay of the packets that arrived, ns.
    pub delay_ns: Distribution,
    /// Mean absolute difference between the delays of consecutive arrivals, ns.
    pub jitter_ns: f64,
    /// Duration of the completed flows, ns.
    pub completion_ns: Distribution,
    /// Time in the traffic managers of the path's switches, for the packets that arrived, ns; empty
    /// without switches that have rank programs.
    pub switches_ns: Distribution,
}

/// The results of a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LinkOutcome {
    /// The name of this direction of a link.
    pub name: String,
    /// The node at the start.
    pub from: String,
    /// The node at the end.
    pub to: String,
    /// The configuration as text.
    pub spec: String,
    /// The rate, bit/s; `None` without a limit. If it changes, its mean while packets are counted.
    pub rate_bps: Option<u64>,
    /// Whether the rate changes.
    pub rate_varies: bool,
    /// The propagation delay, ns. If it changes, its mean while packets are counted.
    pub delay_ns: u64,
    /// Whether the propagation delay changes.
    pub delay_varies: bool,
    /// The random loss as a fraction; `None` without loss. If it changes, its mean over time.
    pub loss: Option<f64>,
    /// The counters of its packets.
    pub counters: LinkCounters,
    /// Time in the queue, ns.
    pub queue_ns: Distribution,
    /// Time from arrival to the other end, ns.
    pub total_ns: Distribution,
    /// The queues, if the port has one per class.
    pub classes: Vec<ClassOutcome>,
    /// Three numbers: the inverted pairs (a served packet and a waiting packet of lower label), the
    /// served packets in such pairs, and the sum of the label differences over all pairs. `None`
    /// unless requested.
    pub inversions: Option<[u64; 3]>,
}

/// The results of one queue of a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClassOutcome {
    /// The class.
    pub class: u16,
    /// Packets that left the queue.
    pub packets: u64,
    /// Network-layer bytes of these packets.
    pub bytes: u64,
    /// Packets lost and marked, by reason.
    pub reasons: Reasons,
    /// Time in the queue, ns.
    pub queue_ns: Distribution,
}

impl Outcome {
    /// Duration of counting, ns.
    pub fn counted_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.warmup_ns)
    }

    /// Bytes as a mean rate over the duration of counting, bit/s.
    pub fn bps(&self, bytes: u64) -> f64 {
        let ns = self.counted_ns();
        if ns == 0 { 0.0 } else { bytes as f64 * 8e9 / ns as f64 }
    }

    /// The used share of a link's rate, in network-layer bits that left it; `None` without a rate
    /// limit.
    pub fn utilisation(&self, link: &LinkOutcome) -> Option<f64> {
        link.rate_bps.map(|rate| self.bps(link.counters.bytes_out) / rate.max(1) as f64)
    }
}

impl FlowOutcome {
    /// Whether every packet is accounted for (see the module's identities).
    pub fn balanced(&self) -> bool {
        self.carried + self.sent + self.duplicated == self.received + self.lost + self.inside
    }
}

impl LinkOutcome {
    /// The results of a port from its statistics, which do not include classes.
    pub fn from_stats(name: &LinkName, stats: &LinkStats) -> Self {
        let LinkName { name, from, to, spec, rate_bps, rate_varies, delay_ns, delay_varies, loss } =
            name.clone();
        Self {
            name,
            from,
            to,
            spec,
            rate_bps,
            rate_varies,
            delay_ns,
            delay_varies,
            loss,
            counters: stats.counters.clone(),
            queue_ns: Distribution::from(&stats.queue_ns),
            total_ns: Distribution::from(&stats.total_ns),
            classes: Vec::new(),
            inversions: None,
        }
    }
}

/// Jain's index over goodput, for each kind of traffic with several groups of flows.
pub fn fairness_by_kind(flows: &[FlowOutcome]) -> BTreeMap<String, f64> {
    let mut goodput: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for flow in flows {
        goodput.entry(&flow.kind).or_default().push(flow.goodput_bytes as f64);
    }
    let several = goodput.into_iter().filter(|(_, values)| values.len() > 1);
    several.filter_map(|(kind, values)| Some((kind.to_owned(), fairness(&values)?))).collect()
}
