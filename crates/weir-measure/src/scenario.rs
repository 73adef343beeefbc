//! What a run of a scenario measured: every flow and every link with its name, in the order in which
//! they were made. The simulator and the live runner fill these types; reports and documents read
//! them.
//!
//! # Identities
//! Of a flow: `carried + sent + duplicated = received + lost + inside`. Of a link: see
//! [`crate::stats`]. Tests hold every run to them.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Serialize;

use crate::distribution::Distribution;
use crate::estimate::fairness;
use crate::series::{FlowPeriod, LinkPeriod};
use crate::stats::{LinkCounters, LinkStats, Reasons};

/// Names of what a world has: groups of flows and ports, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names {
    /// The scenario.
    pub scenario: String,
    /// Each group of flows.
    pub flows: Vec<FlowName>,
    /// Each port.
    pub links: Vec<LinkName>,
}

/// What a group of flows is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowName {
    /// Its name in the scenario.
    pub name: String,
    /// Which traffic it is, such as `cbr`.
    pub kind: String,
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
}

/// What a port is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkName {
    /// The name of this direction of a link.
    pub name: String,
    /// The node that it leads away from.
    pub from: String,
    /// The node that it leads to.
    pub to: String,
    /// Its configuration as text.
    pub spec: String,
    /// Its rate, bit/s; `None` without a limit.
    pub rate_bps: Option<u64>,
    /// Its propagation delay, ns.
    pub delay_ns: u64,
    /// Its random loss as a fraction; `None` without.
    pub loss: Option<f64>,
}

/// What happened over time. Period `n` of each list is of the time from `n · interval` on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunSeries {
    /// Length of an interval, ns.
    pub interval_ns: u64,
    /// When the last interval ended; it may be cut short, ns.
    pub end_ns: u64,
    /// Periods of each port.
    pub links: Vec<Vec<LinkPeriod>>,
    /// Periods of each group of flows.
    pub flows: Vec<Vec<FlowPeriod>>,
}

impl RunSeries {
    /// How many intervals there are.
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

/// What a run gave. All counts are of the time after the warm-up; the series is of the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// The scenario's name.
    pub scenario: String,
    /// The seed.
    pub seed: u64,
    /// When counting began, ns.
    pub warmup_ns: u64,
    /// When the run ended, ns.
    pub end_ns: u64,
    /// Events handled.
    pub events: u64,
    /// Each group of flows.
    pub flows: Vec<FlowOutcome>,
    /// Each port.
    pub links: Vec<LinkOutcome>,
    /// Jain's index over the goodput of the flows of each kind of which there are several.
    pub fairness: BTreeMap<String, f64>,
    /// What happened over time.
    pub series: RunSeries,
}

/// What became of a group of flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowOutcome {
    /// Its name in the scenario.
    pub name: String,
    /// Which traffic it is.
    pub kind: String,
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// Packets that were inside when counting began.
    pub carried: u64,
    /// Packets given to the network.
    pub sent: u64,
    /// Their network-layer bytes.
    pub sent_bytes: u64,
    /// Additional copies that links made.
    pub duplicated: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Their network-layer bytes.
    pub received_bytes: u64,
    /// Payload bytes that reached the application, each once.
    pub goodput_bytes: u64,
    /// Packets lost in the network; those for which no reason is known, too.
    pub lost: u64,
    /// Packets lost and marked in the network, by reason, where it is known.
    pub reasons: Reasons,
    /// Packets that arrived with congestion experienced.
    pub marked: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Packets inside when the run ended.
    pub inside: u64,
    /// Flows that began.
    pub opened: u64,
    /// Flows that ended.
    pub completed: u64,
    /// One-way delay of what arrived, ns.
    pub delay_ns: Distribution,
    /// Mean difference between the delays of successive arrivals, ns.
    pub jitter_ns: f64,
    /// From beginning to end of flows that ended, ns.
    pub completion_ns: Distribution,
}

/// What a port did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LinkOutcome {
    /// The name of this direction of a link.
    pub name: String,
    /// The node that it leads away from.
    pub from: String,
    /// The node that it leads to.
    pub to: String,
    /// Its configuration as text.
    pub spec: String,
    /// Its rate, bit/s; `None` without a limit.
    pub rate_bps: Option<u64>,
    /// Its propagation delay, ns.
    pub delay_ns: u64,
    /// Its random loss as a fraction; `None` without.
    pub loss: Option<f64>,
    /// What became of its packets.
    pub counters: LinkCounters,
    /// Time in the queue, ns.
    pub queue_ns: Distribution,
    /// Time from arrival to the other end, ns.
    pub total_ns: Distribution,
    /// Each queue, where the port has one for each class.
    pub classes: Vec<ClassOutcome>,
    /// Pairs of a packet that was served and one of lower label that waited, the services with any,
    /// and the sum of the differences of labels; `None` unless asked for.
    pub inversions: Option<[u64; 3]>,
}

/// What a queue of a port did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClassOutcome {
    /// The class.
    pub class: u16,
    /// Packets that left the queue.
    pub packets: u64,
    /// Their network-layer bytes.
    pub bytes: u64,
    /// Packets lost and marked, by reason.
    pub reasons: Reasons,
    /// Time in the queue, ns.
    pub queue_ns: Distribution,
}

impl Outcome {
    /// How long was counted, ns.
    pub fn counted_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.warmup_ns)
    }

    /// A count of bytes as a mean rate over the time that was counted, bit/s.
    pub fn bps(&self, bytes: u64) -> f64 {
        let ns = self.counted_ns();
        if ns == 0 { 0.0 } else { bytes as f64 * 8e9 / ns as f64 }
    }

    /// The share of a link's rate that left it, in network-layer bits; `None` without a limit.
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
    /// A port of this name, from its statistics, which know nothing of classes.
    pub fn from_stats(name: &LinkName, stats: &LinkStats) -> Self {
        let LinkName { name, from, to, spec, rate_bps, delay_ns, loss } = name.clone();
        Self {
            name,
            from,
            to,
            spec,
            rate_bps,
            delay_ns,
            loss,
            counters: stats.counters.clone(),
            queue_ns: Distribution::from(&stats.queue_ns),
            total_ns: Distribution::from(&stats.total_ns),
            classes: Vec::new(),
            inversions: None,
        }
    }
}

/// Jain's index over goodput, of each kind with several flows.
pub fn fairness_by_kind(flows: &[FlowOutcome]) -> BTreeMap<String, f64> {
    let mut goodput: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for flow in flows {
        goodput.entry(&flow.kind).or_default().push(flow.goodput_bytes as f64);
    }
    let several = goodput.into_iter().filter(|(_, values)| values.len() > 1);
    several.filter_map(|(kind, values)| Some((kind.to_owned(), fairness(&values)?))).collect()
}
