//! Runs a world and collects its results.

use weir_core::Nanos;
use weir_measure::scenario::{
    ClassOutcome, FlowName, FlowOutcome, LinkName, LinkOutcome, Names, Outcome, fairness_by_kind,
};

use super::Settings;
use crate::network::{ClassCount, FlowCount, Network, PortId};
use crate::world::World;

/// The parameters of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The seed, which is stored with the results.
    pub seed: u64,
    /// When counting starts.
    pub warmup: Nanos,
    /// End of the run.
    pub end: Nanos,
    /// Settings of the time series.
    pub measure: Settings,
}

impl Plan {
    /// Runs a world with a warm-up, and collects its results. `progress` receives the time at
    /// intervals.
    pub fn run(
        &self,
        world: &mut World,
        names: &Names,
        progress: &mut dyn FnMut(Nanos),
    ) -> Outcome {
        world.measure(self.measure, self.end);
        let step = Nanos((self.end.0 / PROGRESS_STEPS).max(1));
        let mut run = |world: &mut World, until: Nanos| {
            while world.network().now() < until {
                let next = world.network().now().saturating_add(step).min(until);
                world.run(next);
                progress(next);
            }
        };
        if self.warmup > Nanos::ZERO {
            run(world, self.warmup);
            world.zero();
        }
        run(world, self.end);
        self.gather(world, names)
    }

    /// Collects the results of a world after its run.
    pub fn gather(&self, world: &mut World, names: &Names) -> Outcome {
        let (series, peaks) = world.take_series().unwrap_or_default();
        if let Some(observer) = &mut world.network_mut().observer {
            observer.finish();
        }
        let events = world.events();
        let network = world.network();
        let nameless_flow = FlowName::default();
        let flow = |(n, count): (usize, &FlowCount)| {
            flow_outcome(names.flows.get(n).unwrap_or(&nameless_flow), count)
        };
        let flows: Vec<FlowOutcome> = network.counts().iter().enumerate().map(flow).collect();
        let nameless_link = LinkName::default();
        let link = |port: u32| {
            let name = names.links.get(port as usize).unwrap_or(&nameless_link);
            link_outcome(name, network, PortId(port), peaks.get(port as usize).copied())
        };
        let links = (0..network.ports()).map(link).collect();
        Outcome {
            scenario: names.scenario.clone(),
            seed: self.seed,
            warmup_ns: self.warmup.0,
            end_ns: network.now().0,
            events,
            fairness: fairness_by_kind(&flows),
            flows,
            links,
            series,
            lateness: None,
        }
    }
}

fn flow_outcome(name: &FlowName, count: &FlowCount) -> FlowOutcome {
    let FlowName { name, kind, from, to } = name.clone();
    let pairs = count.received.saturating_sub(1);
    FlowOutcome {
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
        reasons: count.reasons,
        marked: count.marked,
        retransmitted: count.retransmitted,
        inside: count.inside(),
        opened: count.opened,
        completed: count.completed,
        delay_ns: count.delay_ns.distribution(),
        jitter_ns: if pairs == 0 { 0.0 } else { count.variation_ns as f64 / pairs as f64 },
        completion_ns: count.completion_ns.distribution(),
        switches_ns: count.switches_ns.distribution(),
    }
}

fn link_outcome(
    name: &LinkName,
    network: &Network,
    port: PortId,
    peak: Option<u64>,
) -> LinkOutcome {
    let Some(stats) = network.stats(port) else {
        let LinkName { name, from, to, .. } = name.clone();
        return LinkOutcome { name, from, to, ..LinkOutcome::default() };
    };
    let mut outcome = LinkOutcome::from_stats(name, stats);
    outcome.counters.peak_queue_packets = peak.unwrap_or(outcome.counters.peak_queue_packets);
    outcome.classes = network.classes(port).iter().zip(0..).map(class_outcome).collect();
    outcome.inversions = network.observer.as_ref().and_then(|observer| observer.inversions(port));
    outcome
}

fn class_outcome((count, class): (&ClassCount, u16)) -> ClassOutcome {
    ClassOutcome {
        class,
        packets: count.packets,
        bytes: count.bytes,
        reasons: count.reasons,
        queue_ns: count.queue_ns.distribution(),
    }
}

/// Approximate number of progress reports of a run.
const PROGRESS_STEPS: u64 = 200;
