//! The counters of a device.
//!
//! # Identity
//! `carried + entered = started + Σ drops + packets`, in packets. The identity no longer holds
//! after a pipe with packets in its device was deleted: these packets are removed from `packets`
//! and `bytes`, but the link counts their drops, not the device.

use alloc::vec::Vec;

use crate::histogram::Histogram;

/// Counters of all devices of a link, one device for each instance.
#[derive(Clone, Debug, Default)]
pub struct DeviceStats {
    /// Packets inside now: they have left the scheduler, and their transmission has not begun.
    pub packets: u64,
    /// Bytes of the packets inside now, with the link-layer header.
    pub bytes: u64,
    /// The largest number of packets inside at one time.
    pub most_packets: u64,
    /// The largest number of bytes inside at one time.
    pub most_bytes: u64,
    /// Packets that arrived from the scheduler.
    pub entered: u64,
    /// Packets of which the transmission has begun.
    pub started: u64,
    /// Packets that were inside at the last reset.
    pub carried: u64,
    /// Packets dropped at each stage, the ring last. The list ends at the last stage that dropped a
    /// packet.
    pub drops: Vec<u64>,
    /// Time from the scheduler to the start of transmission, ns.
    pub time_ns: Histogram,
    /// Sum over all packets that left the device: bytes times the ns inside. The sum divided by a
    /// time span is the mean of [`Self::bytes`] ([`Self::mean_bytes`]).
    pub byte_ns: u128,
    /// Number of times at which the wire became idle although the device held packets.
    pub starved: u64,
    /// Total duration of this idleness, ns.
    pub starved_ns: u64,
}

impl DeviceStats {
    /// Packets dropped at all stages.
    pub fn total_drops(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// Whether every packet is accounted for (see the module's identity).
    pub fn balanced(&self) -> bool {
        self.carried + self.entered == self.started + self.total_drops() + self.packets
    }

    /// Mean number of bytes inside over a time span in ns, counting packets that have left; 0 for
    /// an empty span.
    pub fn mean_bytes(&self, span_ns: u64) -> f64 {
        if span_ns == 0 { 0.0 } else { self.byte_ns as f64 / span_ns as f64 }
    }

    /// Adds the counters of another part of the same link. The peaks of two parts may have occurred
    /// at different times, so the greater peak is kept, which is a lower bound for the whole link.
    pub fn merge(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.most_packets = self.most_packets.max(other.most_packets);
        self.most_bytes = self.most_bytes.max(other.most_bytes);
        self.entered += other.entered;
        self.started += other.started;
        self.carried += other.carried;
        for (stage, &drops) in other.drops.iter().enumerate() {
            self.count_drops(stage, drops);
        }
        self.time_ns.merge(&other.time_ns);
        self.byte_ns += other.byte_ns;
        self.starved += other.starved;
        self.starved_ns += other.starved_ns;
    }

    /// Resets the counters. Packets inside are carried over.
    pub fn zero(&mut self) {
        let Self { packets, bytes, .. } = *self;
        *self = Self {
            packets,
            bytes,
            most_packets: packets,
            most_bytes: bytes,
            carried: packets,
            ..Self::default()
        };
    }

    /// Counts a packet of `bytes` that arrived from the scheduler.
    #[inline]
    pub fn enter(&mut self, bytes: u64) {
        self.entered += 1;
        self.packets += 1;
        self.bytes += bytes;
        self.most_packets = self.most_packets.max(self.packets);
        self.most_bytes = self.most_bytes.max(self.bytes);
    }

    /// Counts the start of a transmission, after `inside_ns` in the device.
    #[inline]
    pub fn start(&mut self, bytes: u64, inside_ns: u64) {
        self.started += 1;
        self.time_ns.record(inside_ns);
        self.leave(bytes, inside_ns);
    }

    /// Counts a packet that is dropped because stage `stage` is full.
    #[inline]
    pub fn drop_at(&mut self, stage: usize, bytes: u64, inside_ns: u64) {
        self.count_drops(stage, 1);
        self.leave(bytes, inside_ns);
    }

    /// Removes a packet that leaves the device, or is dropped because its link is deleted.
    #[inline]
    pub fn leave(&mut self, bytes: u64, inside_ns: u64) {
        self.packets -= 1;
        self.bytes -= bytes;
        self.byte_ns += u128::from(bytes) * u128::from(inside_ns);
    }

    #[inline]
    fn count_drops(&mut self, stage: usize, drops: u64) {
        if self.drops.len() <= stage {
            self.drops.resize(stage + 1, 0);
        }
        self.drops[stage] += drops;
    }
}
