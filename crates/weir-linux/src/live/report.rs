//! The results of the loop, at its end or while it runs.

use weir_core::Nanos;
use weir_core::histogram::Histogram;
use weir_core::stats::{LateCauses, LinkCounters, LinkStats};
use weir_rules::classify::RuleCounters;

use super::forwarding::Strays;
use crate::port::Fault;

/// The results of the loop, up to its end or up to the moment of the report.
#[derive(Clone, Debug)]
pub struct LiveReport {
    /// When the loop started, on the monotonic clock.
    pub started: Nanos,
    /// When this report was made, on the monotonic clock.
    pub at: Nanos,
    /// The report of each lane, in the order of the lanes.
    pub lanes: Vec<LaneReport>,
    /// The latest events of the ports.
    pub events: Vec<LiveEvent>,
    /// Whether all workers have real-time priority at the time of the report. They give it up at
    /// the end.
    pub realtime: bool,
    /// The current margin: how long before an event the loop starts to spin.
    pub spin_margin: Nanos,
    /// Why the loop ended; `None` while it runs.
    pub stopped: Option<StopReason>,
    /// The number of workers.
    pub workers: usize,
    /// The counters of each rule, ordered by rule identity; empty without rules.
    pub rules: Vec<RuleCount>,
    /// The number and the statistics of each pipe and scheduler, summed over all its instances.
    pub pipes: Vec<(u16, LinkStats)>,
    /// Packets that rules sent to a pipe or queue that does not exist.
    pub unrouted: u64,
    /// Frames that arrived at a port and matched none of its lanes. They were dropped and are not
    /// part of any lane's counters.
    pub strays: Strays,
    /// Frames that the observer did not see because it was too slow.
    pub unobserved: u64,
    /// Steps of schedules that links skipped because the loop was too far behind them.
    pub skipped_steps: u64,
    /// Why packets departed late. Known at the end of a loop with an observer.
    pub late_causes: LateCauses,
}

/// The counters of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleCount {
    /// The rule's identity in its ruleset. The default rule has the identity
    /// [`weir_rules::classify::DEFAULT_ID`].
    pub id: u32,
    /// The rule's matches; times are on the monotonic clock.
    pub counters: RuleCounters,
}

/// The arrivals on a lane up to one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrivals {
    packets: u64,
    bytes: u64,
    duplicated: u64,
}

impl Arrivals {
    pub(super) fn of(counters: &LinkCounters) -> Self {
        Self {
            packets: counters.packets_in,
            bytes: counters.bytes_in,
            duplicated: counters.duplicated,
        }
    }
}

impl LiveReport {
    /// Merges the workers' reports. `arrivals`, if not empty, has each worker's arrivals by lane,
    /// read after all reports. Packets that arrived after a report then count as backlog.
    pub(super) fn merge(first: Self, others: Vec<Self>, arrivals: &[Vec<Arrivals>]) -> Self {
        let mut whole = first;
        for part in others {
            whole.add(part);
        }
        for (index, lane) in whole.lanes.iter_mut().enumerate().filter(|_| !arrivals.is_empty()) {
            let sum = |what: fn(&Arrivals) -> u64| {
                arrivals.iter().filter_map(|worker| worker.get(index)).map(what).sum()
            };
            let counters = &mut lane.counters;
            (counters.packets_in, counters.bytes_in) = (sum(|a| a.packets), sum(|a| a.bytes));
            counters.duplicated = sum(|a| a.duplicated);
            let gone = counters.packets_out + counters.total_drops();
            counters.backlog_packets =
                (counters.packets_in + counters.duplicated).wrapping_sub(gone);
        }
        whole
    }

    fn add(&mut self, part: Self) {
        for (lane, other) in self.lanes.iter_mut().zip(&part.lanes) {
            lane.add(other);
        }
        self.started = self.started.min(part.started);
        self.at = self.at.max(part.at);
        self.realtime &= part.realtime;
        self.spin_margin = self.spin_margin.max(part.spin_margin);
        self.workers += part.workers;
        self.unrouted += part.unrouted;
        self.strays.frames += part.strays.frames;
        self.strays.bytes += part.strays.bytes;
        self.unobserved += part.unobserved;
        self.skipped_steps += part.skipped_steps;
        // A worker that stops for a reason other than `Asked` asks the others to stop.
        self.stopped = match (self.stopped, part.stopped) {
            (Some(StopReason::Asked), other) => other.or(Some(StopReason::Asked)),
            (own, other) => own.or(other),
        };
        for event in part.events {
            // Every worker reports an event of a shared interface, and the merged report has it
            // once.
            if !self
                .events
                .iter()
                .any(|known| known.port == event.port && known.fault == event.fault)
            {
                self.events.push(event);
            }
        }
        self.rules = merge_rules(vec![std::mem::take(&mut self.rules), part.rules]);
        for (id, stats) in part.pipes {
            match self.pipes.binary_search_by_key(&id, |pipe| pipe.0) {
                Ok(known) => self.pipes[known].1.merge(&stats),
                Err(place) => self.pipes.insert(place, (id, stats)),
            }
        }
    }
}

impl LaneReport {
    fn add(&mut self, other: &Self) {
        self.counters.merge(&other.counters);
        self.queue_ns.merge(&other.queue_ns);
        self.total_ns.merge(&other.total_ns);
        self.lateness.merge(&other.lateness);
        self.late_1ms += other.late_1ms;
        self.rx_kernel_drops += other.rx_kernel_drops;
        self.rx_unreadable += other.rx_unreadable;
        self.passed += other.passed;
    }
}

/// Sums the workers' counters of the same rules.
pub(super) fn merge_rules(parts: Vec<Vec<RuleCount>>) -> Vec<RuleCount> {
    let mut all: Vec<RuleCount> = parts.into_iter().flatten().collect();
    all.sort_by_key(|count| count.id);
    all.dedup_by(|other, kept| {
        let same = other.id == kept.id;
        if same {
            kept.counters.packets += other.counters.packets;
            kept.counters.bytes += other.counters.bytes;
            kept.counters.last = kept.counters.last.max(other.counters.last);
        }
        same
    });
    all
}

/// One lane's results.
#[derive(Clone, Debug)]
pub struct LaneReport {
    /// The lane's name.
    pub name: String,
    /// The interface on which frames arrived.
    pub from: String,
    /// The interface on which frames were sent.
    pub to: String,
    /// The lane's pipe. It is not used with rules.
    pub pipe: u16,
    /// Counters in wire packets. Marks are those of packets that were sent. `reordered` and
    /// `peak_queue_packets` are those of the lane's pipe. With rules, these two counters are 0, and
    /// [`LiveReport::pipes`] has them for each pipe.
    pub counters: LinkCounters,
    /// Queueing delay of every packet that was due to be sent, ns.
    pub queue_ns: Histogram,
    /// Time from arrival to due time of the same packets, ns.
    pub total_ns: Histogram,
    /// Time from each packet's due time until the kernel accepted the packet, ns.
    pub lateness: Histogram,
    /// Packets that were more than 1 ms late.
    pub late_1ms: u64,
    /// Frames that the kernel dropped before the loop could read them; not part of `counters`.
    pub rx_kernel_drops: u64,
    /// Frames that the kernel could not pass to the loop because of their offload; not part of
    /// `counters`.
    pub rx_unreadable: u64,
    /// Packets that no rule sent into a pipe or queue; part of `counters`.
    pub passed: u64,
}

/// An event of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveEvent {
    /// Time of the event, on the monotonic clock.
    pub at: Nanos,
    /// Index of the port.
    pub port: usize,
    /// The interface's name.
    pub interface: String,
    /// The fault that occurred.
    pub fault: Fault,
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// A handle or the stop flag asked the loop to end.
    Asked,
    /// The interface of this port disappeared.
    PortVanished(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_a_rule_are_summed_over_the_workers() {
        let count = |id, packets, last: Option<u64>| RuleCount {
            id,
            counters: RuleCounters { packets, bytes: packets * 100, last: last.map(Nanos) },
        };
        let parts = vec![
            vec![count(3, 1, Some(5)), count(7, 0, None)],
            vec![count(3, 2, Some(4)), count(7, 4, Some(1)), count(9, 1, Some(2))],
        ];
        assert_eq!(
            merge_rules(parts),
            [count(3, 3, Some(5)), count(7, 4, Some(1)), count(9, 1, Some(2))]
        );
    }
}
