//! Combines the counters of a live run into results in the simulator's form.

use std::collections::BTreeMap;

use weir_core::stats::LinkStats;
use weir_measure::distribution::Distribution;
use weir_measure::scenario::{
    FlowName, FlowOutcome, LinkOutcome, Names, Outcome, RunSeries, fairness_by_kind,
};
use weir_measure::series::{FlowPeriod, LinkPeriod};
use weir_sim::scenario::Scenario;

use super::flows::Flow;
use super::watch::Count;
use weir_traffic::host::order::EndReport;
use weir_traffic::span::Point;

/// The counters and samples of a run.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The reports of both ends of each flow, by its number.
    pub(super) ends: BTreeMap<u32, [EndReport; 2]>,
    /// The counters and samples of each watched flow, by its number.
    pub(super) watched: BTreeMap<u32, (Count, Vec<FlowPeriod>)>,
    /// The counters of each port.
    pub(super) ports: Vec<LinkStats>,
    /// The samples of each port, one for each interval.
    pub(super) samples: Vec<Vec<LinkPeriod>>,
    /// Length of the interval, ns.
    pub(super) interval_ns: u64,
    /// Packets that arrived at the live loop.
    pub(super) events: u64,
}

/// Computes the outcome of the run.
pub(super) fn outcome(
    scenario: &Scenario,
    seed: u64,
    names: &Names,
    flows: &[Flow],
    seen: Seen,
) -> Outcome {
    let mut groups: Vec<(FlowOutcome, Vec<FlowPeriod>)> =
        names.flows.iter().map(|name| (nothing(name), Vec::new())).collect();
    let places: BTreeMap<&str, usize> =
        names.flows.iter().enumerate().map(|(place, name)| (&*name.name, place)).collect();
    for flow in flows {
        let Some(&place) = places.get(&*flow.group) else { continue };
        let (group, series) = &mut groups[place];
        let ends = seen.ends.get(&flow.number).cloned().unwrap_or_default();
        let own = match seen.watched.get(&flow.number) {
            Some((count, samples)) => {
                merge_series(series, samples);
                watched(count, &ends)
            }
            None => {
                merge_series(series, &samples(&ends));
                by_ends(&ends)
            }
        };
        add(group, own);
    }
    let (flows, series): (Vec<FlowOutcome>, Vec<_>) = groups.into_iter().unzip();
    let link = |(name, stats)| LinkOutcome::from_stats(name, stats);
    let links = names.links.iter().zip(&seen.ports).map(link).collect();
    let longest = seen.samples.iter().map(Vec::len).max().unwrap_or(0);
    let pad = |mut samples: Vec<FlowPeriod>| {
        samples.resize(longest, FlowPeriod::default());
        samples
    };
    Outcome {
        scenario: names.scenario.clone(),
        seed,
        warmup_ns: scenario.warmup.0,
        end_ns: scenario.duration.0,
        events: seen.events,
        fairness: fairness_by_kind(&flows),
        flows,
        links,
        series: RunSeries {
            interval_ns: seen.interval_ns,
            end_ns: scenario.duration.0,
            links: seen.samples,
            flows: series.into_iter().map(pad).collect(),
        },
    }
}

fn nothing(name: &FlowName) -> FlowOutcome {
    let FlowName { name, kind, from, to } = name.clone();
    FlowOutcome { name, kind, from, to, ..FlowOutcome::default() }
}

/// The outcome of a flow of UDP packets, from the counters of its ends. A packet that was sent and
/// did not arrive counts as lost.
fn by_ends([sender, receiver]: &[EndReport; 2]) -> FlowOutcome {
    let arrived_in_time = receiver.received.saturating_sub(receiver.carried + receiver.duplicated);
    FlowOutcome {
        carried: receiver.carried,
        sent: sender.sent,
        sent_bytes: sender.sent_bytes,
        duplicated: receiver.duplicated,
        received: receiver.received,
        received_bytes: receiver.received_bytes,
        goodput_bytes: receiver.goodput_bytes,
        lost: sender.sent.saturating_sub(receiver.came),
        marked: receiver.marked,
        inside: receiver.came.saturating_sub(arrived_in_time),
        // Each request of a ping opens an exchange, and its answer completes the exchange.
        opened: if sender.delay_ns.count > 0 { sender.sent } else { 1 },
        completed: sender.delay_ns.count,
        completion_ns: sender.delay_ns.clone(),
        delay_ns: receiver.delay_ns.clone(),
        jitter_ns: jitter(receiver.variation_ns, receiver.received),
        ..FlowOutcome::default()
    }
}

/// The outcome of a flow, from the packets that the live loop has counted.
fn watched(count: &Count, [sender, receiver]: &[EndReport; 2]) -> FlowOutcome {
    let departed = count.received + count.reasons.total_drops();
    let entered = count.sent + count.duplicated;
    // A program of the user does not report the bytes that it reads, so the payload of its packets
    // replaces them.
    let goodput =
        if receiver.goodput_bytes > 0 { receiver.goodput_bytes } else { count.payload_bytes };
    FlowOutcome {
        carried: departed.saturating_sub(entered),
        sent: count.sent,
        sent_bytes: count.sent_bytes,
        duplicated: count.duplicated,
        received: count.received,
        received_bytes: count.received_bytes,
        goodput_bytes: goodput,
        lost: count.reasons.total_drops(),
        reasons: count.reasons,
        marked: count.marked,
        retransmitted: sender.retransmitted,
        inside: entered.saturating_sub(departed),
        opened: 1,
        delay_ns: count.delay_ns.distribution(),
        jitter_ns: jitter(count.variation_ns, count.received),
        ..FlowOutcome::default()
    }
}

/// Mean difference between the delays of successive packets.
fn jitter(variation_ns: u64, packets: u64) -> f64 {
    if packets < 2 { 0.0 } else { variation_ns as f64 / (packets - 1) as f64 }
}

/// Adds a flow to its group.
fn add(group: &mut FlowOutcome, own: FlowOutcome) {
    let all = (group.received + own.received).max(1) as f64;
    group.jitter_ns =
        (group.jitter_ns * group.received as f64 + own.jitter_ns * own.received as f64) / all;
    group.carried += own.carried;
    group.sent += own.sent;
    group.sent_bytes += own.sent_bytes;
    group.duplicated += own.duplicated;
    group.received += own.received;
    group.received_bytes += own.received_bytes;
    group.goodput_bytes += own.goodput_bytes;
    group.lost += own.lost;
    group.marked += own.marked;
    group.retransmitted += own.retransmitted;
    group.inside += own.inside;
    group.opened += own.opened;
    group.completed += own.completed;
    group.reasons.merge(&own.reasons);
    merge(&mut group.delay_ns, own.delay_ns);
    merge(&mut group.completion_ns, own.completion_ns);
}

fn merge(all: &mut Distribution, own: Distribution) {
    if all.count == 0 { *all = own } else { all.merge(&own) }
}

/// The samples of a flow, from the reports of its ends.
fn samples([sender, receiver]: &[EndReport; 2]) -> Vec<FlowPeriod> {
    let at = |series: &[Point], n: usize| series.get(n).copied().unwrap_or_default();
    let sample = |n| {
        let (sent, received) = (at(&sender.series, n), at(&receiver.series, n));
        FlowPeriod {
            sent: sent.packets,
            sent_bytes: sent.bytes,
            received: received.packets,
            received_bytes: received.bytes,
            goodput_bytes: received.payload,
            lost: 0,
            marked: received.marked,
            delay_sum_ns: received.delay_ns,
        }
    };
    (0..sender.series.len().max(receiver.series.len())).map(sample).collect()
}

fn merge_series(all: &mut Vec<FlowPeriod>, own: &[FlowPeriod]) {
    if all.len() < own.len() {
        all.resize(own.len(), FlowPeriod::default());
    }
    for (all, own) in all.iter_mut().zip(own) {
        all.add(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_of_a_flow_of_datagrams_is_accounted_for() {
        let sender = EndReport { sent: 100, ..EndReport::default() };
        // 95 packets of the measured time arrived, three of them after the end of the run. Two
        // further arrivals were sent before the end of the warm-up, and one is a copy.
        let receiver = EndReport {
            received: 95 - 3 + 2 + 1,
            came: 95,
            carried: 2,
            duplicated: 1,
            ..EndReport::default()
        };
        let flow = by_ends(&[sender, receiver]);
        assert_eq!((flow.lost, flow.inside, flow.received), (5, 3, 95));
        assert!(flow.balanced(), "{flow:?}");
    }

    #[test]
    fn every_packet_of_a_watched_flow_is_accounted_for() {
        let mut reasons = weir_core::stats::Reasons::default();
        reasons.count_drop(weir_core::stats::DropReason::QueueFull);
        let count = Count { sent: 10, received: 7, duplicated: 1, reasons, ..Count::default() };
        let flow = watched(&count, &Default::default());
        assert_eq!((flow.lost, flow.inside, flow.carried), (1, 3, 0));
        assert!(flow.balanced(), "{flow:?}");
        let count = Count { received: 3, ..Count::default() };
        assert_eq!(watched(&count, &Default::default()).carried, 3, "sent before counting began");
    }
}
