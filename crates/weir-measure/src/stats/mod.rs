//! Statistics of a link: the fate of every packet, its reason, and its latency.
//!
//! # Identities
//! For each link, and so for their sum:
//! `carried + packets_in + duplicated = packets_out + Σ drops +
//! backlog_packets`. The counters of a device have [their own](DeviceStats).

mod counters;
mod device;
mod reasons;

use alloc::boxed::Box;

pub use counters::{CounterKind, CounterRow, LinkCounters};
pub use device::DeviceStats;
pub use reasons::{DropCounts, DropReason, MarkCounts, MarkReason, Reasons};

use crate::histogram::Histogram;

/// Counters and latencies of one link.
#[derive(Clone, Debug, Default)]
pub struct LinkStats {
    /// Counters.
    pub counters: LinkCounters,
    /// Time in the queue, for every packet the scheduler handed to the link, ns.
    pub queue_ns: Histogram,
    /// Time from submission to intended release, for every packet that left, ns.
    pub total_ns: Histogram,
    /// The counters of its devices; `None` if no packet has reached one.
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

    /// Resets the statistics, with `queued` packets in queues. Packets inside are carried over.
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
