//! Combines the counters of a live run into results in the simulator's form.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_core::stats::LinkStats;
use weir_measure::distribution::Distribution;
use weir_measure::scenario::{
    FlowName, FlowOutcome, Lateness, LinkOutcome, Names, Outcome, RunSeries, fairness_by_kind,
};
use weir_measure::series::{FlowPeriod, LinkPeriod};
use weir_sim::scenario::Scenario;

use super::kinds::Carrier;
use super::plan::Plan;
use super::watch::Count;
use weir_traffic::host::order::EndReport;
use weir_traffic::span::Point;

/// The counters and samples of a run.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The reports of the sender and the receiver of each flow, by the flow's number.
    pub(super) ends: BTreeMap<u32, [EndReport; 2]>,
    /// The counters and samples of each watched flow, by its number.
    pub(super) watched: BTreeMap<u32, (Count, Vec<FlowPeriod>)>,
    /// The counters of each port, which is one direction of a link.
    pub(super) ports: Vec<LinkStats>,
    /// The samples of each port, one for each interval.
    pub(super) samples: Vec<Vec<LinkPeriod>>,
    pub(super) interval_ns: u64,
    /// Drops of each watched flow, by the flow's number, over the whole run and the time after it.
    pub(super) all_drops: BTreeMap<u32, u64>,
    /// Whether each lane was empty when the loop ended, some time after the end of the run.
    pub(super) drained: Vec<bool>,
    /// Packets that arrived at the live loop.
    pub(super) events: u64,
    pub(super) lateness: Lateness,
}

/// Computes the outcome of the run, which took the time `end`.
pub(super) fn outcome(
    scenario: &Scenario,
    seed: u64,
    names: &Names,
    plan: &Plan,
    end: Duration,
    seen: Seen,
) -> Outcome {
    let mut groups: Vec<(FlowOutcome, Vec<FlowPeriod>)> =
        names.flows.iter().map(|name| (nothing(name), Vec::new())).collect();
    let index_of: BTreeMap<&str, usize> =
        names.flows.iter().enumerate().map(|(index, name)| (&*name.name, index)).collect();
    let uncounted = (Count::default(), Vec::new());
    for flow in &plan.flows {
        let Some(&index) = index_of.get(&*flow.group) else { continue };
        let (group, series) = &mut groups[index];
        let ends = seen.ends.get(&flow.number).cloned().unwrap_or_default();
        let own = match seen.watched.get(&flow.number) {
            Some((count, samples)) if !flow.is_of_datagrams(scenario) => {
                merge_series(series, samples);
                watched(count, &ends)
            }
            found => {
                let (count, losses) = found.unwrap_or(&uncounted);
                merge_series(series, &samples(&ends, losses));
                let all = seen.all_drops.get(&flow.number).copied().unwrap_or_default();
                let lane = plan.lane(flow.from, flow.to).map(usize::from);
                let is_drained =
                    lane.and_then(|lane| seen.drained.get(lane)).copied().unwrap_or_default();
                let mut own = by_ends(&ends, count, is_drained.then_some(all));
                // Each request of a ping opens an exchange, and its answer completes the exchange.
                if matches!(flow.carrier(scenario), Carrier::Datagrams { echo: true, .. }) {
                    own.opened = ends[0].sent;
                }
                own
            }
        };
        add(group, own);
    }
    let (flows, series): (Vec<FlowOutcome>, Vec<_>) = groups.into_iter().unzip();
    let link = |(name, stats)| LinkOutcome::from_stats(name, stats);
    let links = names.links.iter().zip(&seen.ports).map(link).collect();
    let end_ns = u64::try_from(end.as_nanos()).unwrap_or(u64::MAX);
    let longest = seen.samples.iter().map(Vec::len).max().unwrap_or(0);
    let pad = |mut samples: Vec<FlowPeriod>| {
        samples.resize(longest, FlowPeriod::default());
        samples
    };
    Outcome {
        scenario: names.scenario.clone(),
        seed,
        warmup_ns: scenario.warmup.0,
        end_ns,
        events: seen.events,
        fairness: fairness_by_kind(&flows),
        flows,
        links,
        series: RunSeries {
            interval_ns: seen.interval_ns,
            end_ns,
            links: seen.samples,
            flows: series.into_iter().map(pad).collect(),
        },
        lateness: Some(seen.lateness),
    }
}

fn nothing(name: &FlowName) -> FlowOutcome {
    let FlowName { name, kind, from, to } = name.clone();
    FlowOutcome { name, kind, from, to, ..FlowOutcome::default() }
}

/// The outcome of a flow of UDP packets, from the counters of its ends and from the drops that the
/// live loop counted until the end of the run. A packet that was sent before the end, and has
/// neither arrived nor been dropped by then, counts as inside the links.
///
/// `all_drops` has the drops until all packets had left; `None` if the loop ended with packets
/// inside. A packet that never arrived and that the loop did not drop was lost outside the loop,
/// for example at a full socket buffer.
fn by_ends(
    [sender, receiver]: &[EndReport; 2],
    count: &Count,
    all_drops: Option<u64>,
) -> FlowOutcome {
    let sent = sender.early + sender.sent;
    let arrived = receiver.early + receiver.late + receiver.received - receiver.duplicated;
    let vanished = all_drops.map_or(0, |drops| sent.saturating_sub(arrived + drops));
    let lost = count.reasons.total_drops() + vanished;
    // Packets that were inside at the end of the warm-up.
    let carried = sender.early.saturating_sub(receiver.early + count.early_drops);
    let (entered, departed) =
        (carried + sender.sent + receiver.duplicated, receiver.received + lost);
    // If more packets departed than entered, the links dropped copies that they had made.
    let copies = departed.saturating_sub(entered);
    FlowOutcome {
        carried,
        sent: sender.sent,
        sent_bytes: sender.sent_bytes,
        duplicated: receiver.duplicated + copies,
        received: receiver.received,
        received_bytes: receiver.received_bytes,
        goodput_bytes: receiver.goodput_bytes,
        lost,
        reasons: count.reasons,
        marked: receiver.marked,
        inside: (entered + copies).saturating_sub(departed),
        opened: 1,
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
    // counts instead.
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

/// Mean absolute difference between the delays of successive packets, in ns.
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

/// The samples of a flow, from the reports of its ends; `losses` has the losses that the live loop
/// counted.
fn samples([sender, receiver]: &[EndReport; 2], losses: &[FlowPeriod]) -> Vec<FlowPeriod> {
    let at = |series: &[Point], n: usize| series.get(n).copied().unwrap_or_default();
    let sample = |n| {
        let (sent, received) = (at(&sender.series, n), at(&receiver.series, n));
        FlowPeriod {
            sent: sent.packets,
            sent_bytes: sent.bytes,
            received: received.packets,
            received_bytes: received.bytes,
            goodput_bytes: received.payload,
            lost: losses.get(n).map_or(0, |period| period.lost),
            marked: received.marked,
            delay_sum_ns: received.delay_ns,
        }
    };
    (0..sender.series.len().max(receiver.series.len())).map(sample).collect()
}

/// Adds the samples of a flow to the samples of its group.
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
        let sender = EndReport { sent: 100, early: 10, ..EndReport::default() };
        // Before the end of the warm-up, ten packets were sent, seven arrived and one was dropped,
        // so two were inside. Until the end of the run, 100 more were sent, 95 arrived, one of them
        // a copy, and three were dropped, so five are inside. Three of these arrive later, and one
        // is dropped.
        let receiver =
            EndReport { received: 95, early: 7, late: 3, duplicated: 1, ..EndReport::default() };
        let mut reasons = weir_core::stats::Reasons::default();
        (0..3).for_each(|_| reasons.count_drop(weir_core::stats::DropReason::QueueFull));
        let count = Count { early_drops: 1, reasons, ..Count::default() };
        let ends = [sender, receiver];
        let flow = by_ends(&ends, &count, None);
        assert_eq!((flow.carried, flow.lost, flow.inside, flow.received), (2, 3, 5, 95));
        assert!(flow.balanced(), "{flow:?}");
        // If the links are empty after the run, the fifth packet was lost outside them.
        let flow = by_ends(&ends, &count, Some(1 + 3 + 1));
        assert_eq!((flow.lost, flow.inside), (4, 4));
        assert!(flow.balanced(), "{flow:?}");
        let flow = by_ends(&ends, &count, Some(1 + 3 + 2));
        assert_eq!((flow.lost, flow.inside), (3, 5));
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
