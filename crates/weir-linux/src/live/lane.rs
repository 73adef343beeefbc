//! A lane's books: every packet in, out, lost or inside, and how well time was kept.

use weir_core::histogram::Histogram;
use weir_core::stats::{DropReason, LinkCounters};
use weir_core::{Departure, Nanos};

use super::config::LaneConfig;

/// A lane at work. All counts are in wire packets.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) config: LaneConfig,
    pub(super) counters: LinkCounters,
    pub(super) queue_ns: Histogram,
    pub(super) total_ns: Histogram,
    pub(super) lateness: Histogram,
    pub(super) late_1ms: u64,
    pub(super) marked: u64,
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
            marked: 0,
        }
    }

    /// Packets came in; until they are sent or lost they are backlog.
    pub(super) fn arrived(&mut self, packets: u16, bytes: u32) {
        self.counters.packets_in += u64::from(packets);
        self.counters.bytes_in += u64::from(bytes);
        self.counters.backlog_packets += u64::from(packets);
    }

    /// Packets were lost, in the engine or on the way out of it.
    pub(super) fn dropped(&mut self, reason: DropReason, packets: u16) {
        for _ in 0..packets {
            self.counters.count_drop(reason);
        }
        self.counters.backlog_packets -= u64::from(packets);
    }

    /// The engine made copies.
    pub(super) fn duplicated(&mut self, packets: u16) {
        self.counters.duplicated += u64::from(packets);
        self.counters.backlog_packets += u64::from(packets);
    }

    /// The engine let a packet go.
    pub(super) fn released(&mut self, departure: &Departure) {
        self.queue_ns.record(departure.dequeued.since(departure.arrived).0);
        self.total_ns.record(departure.due.since(departure.arrived).0);
    }

    /// The kernel took packets at `done` that were due at `due`.
    pub(super) fn sent(&mut self, due: Nanos, done: Nanos, packets: u16, bytes: u32) {
        self.counters.packets_out += u64::from(packets);
        self.counters.bytes_out += u64::from(bytes);
        self.counters.backlog_packets -= u64::from(packets);
        let late = done.since(due);
        for _ in 0..packets {
            self.lateness.record(late.0);
        }
        if late > LATE {
            self.late_1ms += u64::from(packets);
        }
    }
}

/// A packet that is later than this is worth a warning.
const LATE: Nanos = Nanos::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Gso;

    #[test]
    fn the_books_balance_whatever_happens() {
        let mut lane = Lane::new(LaneConfig { name: "up".into(), from: 0, to: 1, pipe: 1, gso: Gso::Split });
        lane.arrived(10, 15_000);
        assert!(lane.counters.balanced());
        lane.dropped(DropReason::QueueFull, 3);
        lane.duplicated(1);
        lane.sent(Nanos(5), Nanos(2_000_005), 2, 3000);
        lane.dropped(DropReason::SendFailed, 1);
        assert!(lane.counters.balanced());
        assert_eq!((lane.counters.backlog_packets, lane.late_1ms, lane.lateness.max()), (5, 2, 2_000_000));
    }
}
