//! A lane's books: every packet in, out, lost or inside, and how well time was kept.

use weir_core::Nanos;
use weir_core::histogram::Histogram;
use weir_core::stats::{DropReason, LinkCounters};

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
    /// Packets that no rule sent into a pipe or queue.
    pub(super) passed: u64,
    backlog_bytes: u64,
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
        }
    }

    /// Packets came in; until they are sent or lost they are backlog.
    pub(super) fn arrived(&mut self, packets: u16, bytes: u32) {
        self.counters.packets_in += u64::from(packets);
        self.counters.bytes_in += u64::from(bytes);
        self.add_backlog(packets, bytes);
    }

    /// Packets were lost, in the engine or on the way out of it.
    pub(super) fn dropped(&mut self, reason: DropReason, packets: u16, bytes: u32) {
        for _ in 0..packets {
            self.counters.count_drop(reason);
        }
        self.take_backlog(packets, bytes);
    }

    /// The engine made copies.
    pub(super) fn duplicated(&mut self, packets: u16, bytes: u32) {
        self.counters.duplicated += u64::from(packets);
        self.add_backlog(packets, bytes);
    }

    /// Packets are on their way out, after so long in queues and in all.
    pub(super) fn released(&mut self, queued: Nanos, total: Nanos, packets: u16) {
        for _ in 0..packets {
            self.queue_ns.record(queued.0);
            self.total_ns.record(total.0);
        }
    }

    /// The kernel took packets at `done` that were due at `due`.
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

    /// Packets inside, and their network-layer bytes.
    pub(super) fn inside(&self) -> (u64, u64) {
        (self.counters.backlog_packets, self.backlog_bytes)
    }

    fn add_backlog(&mut self, packets: u16, bytes: u32) {
        self.backlog_bytes = self.backlog_bytes.wrapping_add(bytes.into());
        self.counters.backlog_packets = self.counters.backlog_packets.wrapping_add(packets.into());
    }

    /// A worker may send what another took in: only the sum of all workers' backlogs is a number of
    /// packets.
    fn take_backlog(&mut self, packets: u16, bytes: u32) {
        self.backlog_bytes = self.backlog_bytes.wrapping_sub(bytes.into());
        self.counters.backlog_packets = self.counters.backlog_packets.wrapping_sub(packets.into());
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
        assert_eq!(lane.inside(), (5, 7500));
    }
}
