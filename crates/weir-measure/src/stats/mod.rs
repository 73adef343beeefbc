//! Statistics of a link: what happened to every packet, for which reason, and how long it took.
//!
//! # Identities
//! For each link, and therefore for sums of links:
//! `carried + packets_in + duplicated = packets_out + Σ drops + backlog_packets`. The counters of a
//! device have [an identity of their own](DeviceStats).

mod causes;
mod counters;
mod device;
mod reasons;

use alloc::boxed::Box;

pub use causes::{LateCause, LateCauseCount, LateCauses};
pub use counters::{CounterKind, CounterRow, LinkCounters};
pub use device::DeviceStats;
pub use reasons::{DropCounts, DropReason, MarkCounts, MarkReason, Reasons};

use crate::histogram::Histogram;

/// Counters and latencies of one link.
#[derive(Clone, Debug, Default)]
pub struct LinkStats {
    /// Counters.
    pub counters: LinkCounters,
    /// Queueing delay of every packet that the scheduler handed to the link, ns.
    pub queue_ns: Histogram,
    /// Time from submission to the due time, for every packet that left, ns.
    pub total_ns: Histogram,
    /// The counters of the link's devices; `None` until a packet reaches a device.
    pub device: Option<Box<DeviceStats>>,
}

impl LinkStats {
    /// Adds the statistics of another part of the same link, as [`LinkCounters::merge`] does.
    pub fn merge(&mut self, other: &Self) {
        self.counters.merge(&other.counters);
        self.queue_ns.merge(&other.queue_ns);
        self.total_ns.merge(&other.total_ns);
        if let Some(device) = &other.device {
            self.device.get_or_insert_default().merge(device);
        }
    }

    /// Resets the statistics. `queued` packets are in queues now; packets inside are counted as
    /// carried over.
    pub fn zero(&mut self, queued: u64) {
        let backlog_packets = self.counters.backlog_packets;
        let counters = LinkCounters {
            backlog_packets,
            carried: backlog_packets,
            peak_queue_packets: queued,
            ..LinkCounters::default()
        };
        let mut device = self.device.take();
        device.iter_mut().for_each(|device| device.zero());
        *self = Self { counters, device, ..Self::default() };
    }
}
