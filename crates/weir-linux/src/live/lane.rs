//! A lane's accounting: packets in, out, dropped and inside, and the lateness of departures.

use weir_core::Nanos;
use weir_core::histogram::Histogram;
use weir_core::stats::{DropReason, LinkCounters, MarkReason};

use super::config::LaneConfig;

/// A lane and its statistics. The counters are in wire packets.
#[derive(Debug)]
pub(super) struct Lane {
    config: LaneConfig,
    counters: LinkCounters,
    /// Time that each packet spent in queues.
    queue_ns: Histogram,
    /// Time from each packet's arrival to its due time.
    total_ns: Histogram,
    /// Time from each packet's due time until the kernel accepted the packet, ns.
    lateness: Histogram,
    /// Packets that were more than 1 ms late.
    late_1ms: u64,
    /// Packets that no rule sent into a pipe or queue.
    passed: u64,
    backlog_bytes: u64,
    /// Maximum numbers of packets and of bytes inside at one moment since [`Self::restart_peak`].
    peak: (u64, u64),
}

impl Lane {
    pub(super) fn new(config: LaneConfig) -> Self {
        Self {
            config,
            counters: LinkCounters::default(),
            queue_ns: Histogram::default(),
            total_ns: Histogram::default(),
            lateness: Histogram::default(),
            late_1ms: 0,
            passed: 0,
            backlog_bytes: 0,
            peak: (0, 0),
        }
    }

    pub(super) fn config(&self) -> &LaneConfig {
        &self.config
    }

    /// Counts arrivals. They are part of the backlog until they are sent or dropped.
    pub(super) fn arrived(&mut self, packets: u16, bytes: u32) {
        self.counters.packets_in += u64::from(packets);
        self.counters.bytes_in += u64::from(bytes);
        self.add_backlog(packets, bytes);
    }

    /// Counts packets that were dropped at any point of the lane.
    pub(super) fn dropped(&mut self, reason: DropReason, packets: u16, bytes: u32) {
        for _ in 0..packets {
            self.counters.count_drop(reason);
        }
        self.take_backlog(packets, bytes);
    }

    /// Counts copies that the engine made.
    pub(super) fn duplicated(&mut self, packets: u16, bytes: u32) {
        self.counters.duplicated += u64::from(packets);
        self.add_backlog(packets, bytes);
    }

    /// Records the queueing delay and the total delay of packets that are about to be sent.
    pub(super) fn released(&mut self, queued: Nanos, total: Nanos, packets: u16) {
        for _ in 0..packets {
            self.queue_ns.record(queued.0);
            self.total_ns.record(total.0);
        }
    }

    /// Counts packets that no rule sent into a pipe or queue.
    pub(super) fn passed(&mut self, packets: u16) {
        self.passed += u64::from(packets);
    }

    /// Counts packets that were due at `due` and that the kernel accepted at `done`.
    pub(super) fn sent(&mut self, due: Nanos, done: Nanos, packets: u16, bytes: u32) {
        self.counters.packets_out += u64::from(packets);
        self.counters.bytes_out += u64::from(bytes);
        self.take_backlog(packets, bytes);
        let late = done.since(due);
        for _ in 0..packets {
            self.lateness.record(late.0);
        }
        if late > LATE {
            self.late_1ms += u64::from(packets);
        }
    }

    /// Counts the marks and corruptions of packets that were sent.
    pub(super) fn changed(&mut self, mark: Option<MarkReason>, corrupted: bool, packets: u16) {
        if corrupted {
            self.counters.corrupted += u64::from(packets);
        }
        if let Some(reason) = mark {
            (0..packets).for_each(|_| self.counters.count_mark(reason));
        }
    }

    pub(super) fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// The counters that the lane counts. All others are those of the lane's pipe (`engine`).
    pub(super) fn with_counters_of(&self, engine: &LinkCounters) -> LinkCounters {
        let lane = &self.counters;
        LinkCounters {
            packets_in: lane.packets_in,
            bytes_in: lane.bytes_in,
            packets_out: lane.packets_out,
            bytes_out: lane.bytes_out,
            duplicated: lane.duplicated,
            corrupted: lane.corrupted,
            backlog_packets: lane.backlog_packets,
            carried: lane.carried,
            reasons: lane.reasons,
            ..engine.clone()
        }
    }

    /// Histograms of the queueing delay, and of the time from arrival to due time, in ns.
    pub(super) fn times(&self) -> (&Histogram, &Histogram) {
        (&self.queue_ns, &self.total_ns)
    }

    /// Histogram of the lateness in ns, and the number of packets that were more than 1 ms late.
    pub(super) fn lateness(&self) -> (&Histogram, u64) {
        (&self.lateness, self.late_1ms)
    }

    pub(super) fn passed_packets(&self) -> u64 {
        self.passed
    }

    /// The backlog: packets, and their network-layer bytes.
    pub(super) fn inside(&self) -> (u64, u64) {
        (self.counters.backlog_packets, self.backlog_bytes)
    }

    /// The peaks of the backlog since [`Self::restart_peak`]: packets, and network-layer bytes.
    pub(super) fn peak_inside(&self) -> (u64, u64) {
        self.peak
    }

    /// Restarts [`Self::peak_inside`] at the current backlog.
    pub(super) fn restart_peak(&mut self) {
        let (packets, bytes) = self.inside();
        self.peak = (not_negative(packets), not_negative(bytes));
    }

    fn add_backlog(&mut self, packets: u16, bytes: u32) {
        self.backlog_bytes = self.backlog_bytes.wrapping_add(bytes.into());
        self.counters.backlog_packets = self.counters.backlog_packets.wrapping_add(packets.into());
        let (packets, bytes) = self.inside();
        self.peak = (self.peak.0.max(not_negative(packets)), self.peak.1.max(not_negative(bytes)));
    }

    /// A worker may send a packet that another worker received. One worker's backlog may therefore
    /// wrap below zero; only the sum over all workers is a number of packets.
    fn take_backlog(&mut self, packets: u16, bytes: u32) {
        self.backlog_bytes = self.backlog_bytes.wrapping_sub(bytes.into());
        self.counters.backlog_packets = self.counters.backlog_packets.wrapping_sub(packets.into());
    }
}

fn not_negative(backlog: u64) -> u64 {
    if backlog.cast_signed() < 0 { 0 } else { backlog }
}

const LATE: Nanos = Nanos::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::config::Gso;

    #[test]
    fn the_counters_balance_after_any_sequence_of_operations() {
        let mut lane = Lane::new(LaneConfig {
            name: "up".into(),
            from: 0,
            to: 1,
            pipe: 1,
            passes: Vec::new(),
            gso: Gso::Split,
        });
        lane.arrived(10, 15_000);
        assert!(lane.counters.balanced());
        lane.dropped(DropReason::QueueFull, 3, 4500);
        lane.duplicated(1, 1500);
        lane.sent(Nanos(5), Nanos(2_000_005), 2, 3000);
        lane.dropped(DropReason::SendFailed, 1, 1500);
        assert!(lane.counters.balanced());
        assert_eq!(
            (lane.counters.backlog_packets, lane.late_1ms, lane.lateness.max()),
            (5, 2, 2_000_000)
        );
        assert_eq!((lane.inside(), lane.peak_inside()), ((5, 7500), (10, 15_000)));
        lane.restart_peak();
        lane.arrived(1, 100);
        lane.sent(Nanos(5), Nanos(6), 2, 3000);
        assert_eq!(lane.peak_inside(), (6, 7600));
    }

    #[test]
    fn counters_that_the_lane_does_not_count_are_the_engines() {
        let mut lane = Lane::new(LaneConfig {
            name: "up".into(),
            from: 0,
            to: 1,
            pipe: 1,
            passes: Vec::new(),
            gso: Gso::Split,
        });
        lane.arrived(3, 4500);
        let engine = LinkCounters {
            packets_in: 2,
            backlog_packets: 1,
            carried: 7,
            reordered: 5,
            peak_queue_packets: 4,
            ..LinkCounters::default()
        };
        let both = lane.with_counters_of(&engine);
        let expected =
            LinkCounters { reordered: 5, peak_queue_packets: 4, ..lane.counters().clone() };
        assert_eq!(both, expected);
        assert!(both.balanced());
    }
}
