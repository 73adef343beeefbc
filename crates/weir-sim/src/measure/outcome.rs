//! What a run gives: figures of every flow and every link, with their names, in the order in which
//! they were made.
//!
//! # Identities
//! Of a flow: `carried + sent + duplicated = received + lost + inside`. Of a link:
//! `carried + packets_in + duplicated = packets_out + Σ drops +
//! backlog_packets`. Tests hold every figure to them.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_core::stats::{LinkStats, Reasons};
use weir_core::{Nanos, Rate};

use super::student::fairness;
use super::tally::Distribution;
use super::{Series, Settings};
use crate::network::{ClassCount, FlowCount, Network, PortId};
use crate::world::World;

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
    /// Its rate; `None` without a limit.
    pub rate: Option<Rate>,
    /// Its propagation delay.
    pub delay: Nanos,
    /// Its random loss as a fraction; `None` without.
    pub loss: Option<f64>,
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
    pub series: Series,
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
    /// Packets lost in the network.
    pub lost: u64,
    /// The same by reason.
    pub drops: BTreeMap<String, u64>,
    /// Packets marked in the network, by reason.
    pub marks: BTreeMap<String, u64>,
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
    /// Packets that were inside when counting began.
    pub carried: u64,
    /// Packets that came.
    pub packets_in: u64,
    /// Their network-layer bytes.
    pub bytes_in: u64,
    /// Packets that left, copies included.
    pub packets_out: u64,
    /// Their network-layer bytes.
    pub bytes_out: u64,
    /// Additional copies made.
    pub duplicated: u64,
    /// Packets that left with an inverted bit.
    pub corrupted: u64,
    /// Packets that skipped the delay line.
    pub reordered: u64,
    /// Packets inside when the run ended.
    pub backlog_packets: u64,
    /// Most packets that waited at once.
    pub peak_queue_packets: u64,
    /// Packets lost, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Packets marked, by reason.
    pub marks: BTreeMap<String, u64>,
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
    /// Packets lost, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Packets marked, by reason.
    pub marks: BTreeMap<String, u64>,
    /// Time in the queue, ns.
    pub queue_ns: Distribution,
}

impl Outcome {
    /// Runs a world with a warm-up, and gathers what it gave. `progress` is told the time now and
    /// then.
    pub fn run(
        world: &mut World,
        plan: &Plan,
        names: &Names,
        progress: &mut dyn FnMut(Nanos),
    ) -> Self {
        world.measure(plan.measure, plan.end);
        let step = Nanos((plan.end.0 / PROGRESS_STEPS).max(1));
        let mut run = |world: &mut World, until: Nanos| {
            while world.network().now() < until {
                let next = world.network().now().saturating_add(step).min(until);
                world.run(next);
                progress(next);
            }
        };
        if plan.warmup > Nanos::ZERO {
            run(world, plan.warmup);
            world.zero();
        }
        run(world, plan.end);
        Self::of(world, plan, names)
    }

    /// Gathers what a world gave whose run is over.
    pub fn of(world: &mut World, plan: &Plan, names: &Names) -> Self {
        let (series, peaks) = world.take_series().unwrap_or_default();
        if let Some(observer) = &mut world.network_mut().observer {
            observer.finish();
        }
        let events = world.events();
        let network = world.network();
        let nameless_flow = FlowName::default();
        let flow = |(n, count): (usize, &FlowCount)| {
            FlowOutcome::of(names.flows.get(n).unwrap_or(&nameless_flow), count)
        };
        let flows: Vec<FlowOutcome> = network.counts().iter().enumerate().map(flow).collect();
        let nameless_link = LinkName::default();
        let link = |port: u32| {
            let name = names.links.get(port as usize).unwrap_or(&nameless_link);
            LinkOutcome::of(name, network, PortId(port), peaks.get(port as usize).copied())
        };
        let links = (0..network.ports()).map(link).collect();
        Self {
            scenario: names.scenario.clone(),
            seed: plan.seed,
            warmup_ns: plan.warmup.0,
            end_ns: network.now().0,
            events,
            fairness: fairness_by_kind(&flows),
            flows,
            links,
            series,
        }
    }

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
        link.rate_bps.map(|rate| self.bps(link.bytes_out) / rate.max(1) as f64)
    }
}

/// How a run is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The seed, for the record.
    pub seed: u64,
    /// When counting begins.
    pub warmup: Nanos,
    /// When the run ends.
    pub end: Nanos,
    /// What is measured over time.
    pub measure: Settings,
}

impl FlowOutcome {
    fn of(name: &FlowName, count: &FlowCount) -> Self {
        let FlowName { name, kind, from, to } = name.clone();
        let (drops, marks) = by_reason(&count.reasons);
        let pairs = count.received.saturating_sub(1);
        Self {
            name,
            kind,
            from,
            to,
            carried: count.carried,
            sent: count.sent,
            sent_bytes: count.sent_bytes,
            duplicated: count.duplicated,
            received: count.received,
            received_bytes: count.received_bytes,
            goodput_bytes: count.goodput_bytes,
            lost: count.reasons.total_drops(),
            drops,
            marks,
            marked: count.marked,
            retransmitted: count.retransmitted,
            inside: count.inside(),
            opened: count.opened,
            completed: count.completed,
            delay_ns: count.delay_ns.distribution(),
            jitter_ns: if pairs == 0 { 0.0 } else { count.variation_ns as f64 / pairs as f64 },
            completion_ns: count.completion_ns.distribution(),
        }
    }

    /// Whether every packet is accounted for (see the module's identities).
    pub fn balanced(&self) -> bool {
        self.carried + self.sent + self.duplicated == self.received + self.lost + self.inside
    }
}

impl LinkOutcome {
    fn of(name: &LinkName, network: &Network, port: PortId, peak: Option<u64>) -> Self {
        let Some(stats) = network.stats(port) else {
            let LinkName { name, from, to, .. } = name.clone();
            return Self { name, from, to, ..Self::default() };
        };
        let classes = network.classes(port).iter().zip(0..).map(ClassOutcome::of).collect();
        let peak_queue_packets = peak.unwrap_or(stats.counters.peak_queue_packets);
        let inversions = network.observer.as_ref().and_then(|observer| observer.inversions(port));
        Self { peak_queue_packets, classes, inversions, ..Self::from_stats(name, stats) }
    }

    /// What a port's statistics say, which know nothing of classes.
    pub fn from_stats(name: &LinkName, stats: &LinkStats) -> Self {
        let LinkName { name, from, to, spec, rate, delay, loss } = name.clone();
        let c = &stats.counters;
        let (drops, marks) = by_reason(c.reasons());
        Self {
            name,
            from,
            to,
            spec,
            rate_bps: rate.map(Rate::bps),
            delay_ns: delay.0,
            loss,
            carried: c.carried,
            packets_in: c.packets_in,
            bytes_in: c.bytes_in,
            packets_out: c.packets_out,
            bytes_out: c.bytes_out,
            duplicated: c.duplicated,
            corrupted: c.corrupted,
            reordered: c.reordered,
            backlog_packets: c.backlog_packets,
            peak_queue_packets: c.peak_queue_packets,
            drops,
            marks,
            queue_ns: Distribution::from(&stats.queue_ns),
            total_ns: Distribution::from(&stats.total_ns),
            classes: Vec::new(),
            inversions: None,
        }
    }

    /// Lost packets, all reasons together.
    pub fn total_drops(&self) -> u64 {
        self.drops.values().sum()
    }

    /// Marked packets, all reasons together.
    pub fn total_marks(&self) -> u64 {
        self.marks.values().sum()
    }

    /// Whether every packet is accounted for (see the module's identities).
    pub fn balanced(&self) -> bool {
        self.carried + self.packets_in + self.duplicated
            == self.packets_out + self.total_drops() + self.backlog_packets
    }
}

impl ClassOutcome {
    fn of((count, class): (&ClassCount, u16)) -> Self {
        let (drops, marks) = by_reason(&count.reasons);
        Self {
            class,
            packets: count.packets,
            bytes: count.bytes,
            drops,
            marks,
            queue_ns: count.queue_ns.distribution(),
        }
    }
}

/// Counts with their reasons' names.
fn by_reason(reasons: &Reasons) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    let drops = reasons.drop_counts().iter().map(|(reason, n)| (reason.name().to_owned(), n));
    let marks = reasons.mark_counts().iter().map(|(reason, n)| (reason.name().to_owned(), n));
    (drops.collect(), marks.collect())
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

/// How often progress is told.
const PROGRESS_STEPS: u64 = 200;
