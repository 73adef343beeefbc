//! Counters: what became of every packet, and why.
//!
//! # Identities
//! For each link, and so for their sum:
//! `carried + packets_in + duplicated = packets_out + Σ drops +
//! backlog`. What a device counts has [its own](crate::device::DeviceStats).

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::device::DeviceStats;
use crate::histogram::Histogram;

/// Why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// The queue was full.
    QueueFull,
    /// Random loss before the queue (`plr`).
    LossBeforeQueue,
    /// Random loss on the link (`loss`).
    LossOnLink,
    /// The air-time profile's loss level.
    Profile,
    /// The engine or the driver had no room for another packet.
    NoMemory,
    /// More queues or links on demand than the configured limit.
    TooManyFlows,
    /// The pipe or queue is not configured, or was deleted.
    NoSuchPipe,
    /// The driver could not write the frame to its destination.
    SendFailed,
    /// The frame was malformed, or larger than the destination takes.
    BadFrame,
    /// A rule denied it.
    Denied,
    /// Rules sent it round and round.
    RuleLoop,
    /// The worker that owns its queue took nothing more.
    HandOver,
    /// The scheduler has a bound of its own and had no place for it.
    Scheduler,
    /// An AQM's random decision before the queue is full.
    Early,
    /// An AQM drops everything in the state that the queue is in.
    Forced,
    /// It had waited longer than the target for too long.
    Target,
    /// The queues of one scheduler were full together, and it was of the fattest.
    Overlimit,
    /// Its flow does not respond, and is let through at a small rate only.
    Penalty,
    /// A later acknowledgement makes it needless.
    AckFilter,
    /// A stage of the device behind the scheduler was full.
    DeviceFull,
}

impl DropReason {
    /// All reasons, in the order of their counters.
    pub const ALL: [Self; 20] = [
        Self::QueueFull,
        Self::LossBeforeQueue,
        Self::LossOnLink,
        Self::Profile,
        Self::NoMemory,
        Self::TooManyFlows,
        Self::NoSuchPipe,
        Self::SendFailed,
        Self::BadFrame,
        Self::Denied,
        Self::RuleLoop,
        Self::HandOver,
        Self::Scheduler,
        Self::Early,
        Self::Forced,
        Self::Target,
        Self::Overlimit,
        Self::Penalty,
        Self::AckFilter,
        Self::DeviceFull,
    ];

    /// The reason's name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::LossBeforeQueue => "loss_before_queue",
            Self::LossOnLink => "loss_on_link",
            Self::Profile => "profile",
            Self::NoMemory => "no_memory",
            Self::TooManyFlows => "too_many_flows",
            Self::NoSuchPipe => "no_such_pipe",
            Self::SendFailed => "send_failed",
            Self::BadFrame => "bad_frame",
            Self::Denied => "denied",
            Self::RuleLoop => "rule_loop",
            Self::HandOver => "hand_over",
            Self::Scheduler => "scheduler",
            Self::Early => "early",
            Self::Forced => "forced",
            Self::Target => "target",
            Self::Overlimit => "overlimit",
            Self::Penalty => "penalty",
            Self::AckFilter => "ack_filter",
            Self::DeviceFull => "device_full",
        }
    }
}

/// Why a packet was marked with congestion experienced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum MarkReason {
    /// An AQM's random decision before the queue is full.
    Early,
    /// An AQM would drop everything in the state that the queue is in.
    Forced,
    /// It had waited longer than the target for too long.
    Target,
    /// It had waited longer than the threshold for marks.
    CeThreshold,
    /// The queue of the L4S service was above its step.
    Step,
    /// The coupled probability of the L4S service.
    Coupled,
}

impl MarkReason {
    /// All reasons, in the order of their counters.
    pub const ALL: [Self; 6] =
        [Self::Early, Self::Forced, Self::Target, Self::CeThreshold, Self::Step, Self::Coupled];

    /// The reason's name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Early => "early",
            Self::Forced => "forced",
            Self::Target => "target",
            Self::CeThreshold => "ce_threshold",
            Self::Step => "step",
            Self::Coupled => "coupled",
        }
    }
}

/// Counters of one link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets submitted.
    pub packets_in: u64,
    /// Network-layer bytes submitted.
    pub bytes_in: u64,
    /// Packets that left towards their destination, duplicates included.
    pub packets_out: u64,
    /// Network-layer bytes that left, duplicates included.
    pub bytes_out: u64,
    /// Additional copies made.
    pub duplicated: u64,
    /// Packets that left with an inverted bit.
    pub corrupted: u64,
    /// Packets that skipped the delay line.
    pub reordered: u64,
    /// Packets inside: in a queue, on the wire, in the delay line.
    pub backlog_packets: u64,
    /// Most packets ever waiting in queues at once.
    pub peak_queue_packets: u64,
    /// Packets that were inside when counting began anew; 0 unless it was set to zero.
    pub carried: u64,
    reasons: Reasons,
}

/// Drops and marks by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    drops: [u64; DropReason::ALL.len()],
    marks: [u64; MarkReason::ALL.len()],
}

impl Reasons {
    /// Drops for one reason.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Marks for one reason.
    pub fn marks(&self, reason: MarkReason) -> u64 {
        self.marks[reason as usize]
    }

    /// Drops for all reasons.
    pub fn total_drops(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// Marks for all reasons.
    pub fn total_marks(&self) -> u64 {
        self.marks.iter().sum()
    }

    /// Counts a drop.
    pub fn count_drop(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }

    /// Counts a mark.
    pub fn count_mark(&mut self, reason: MarkReason) {
        self.marks[reason as usize] += 1;
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.drops.iter_mut().zip(other.drops) {
            *mine += theirs;
        }
        for (mine, theirs) in self.marks.iter_mut().zip(other.marks) {
            *mine += theirs;
        }
    }

    /// The reasons of drops that occurred, with their counts.
    pub fn drop_list(&self) -> Vec<(DropReason, u64)> {
        DropReason::ALL.into_iter().map(|r| (r, self.drops(r))).filter(|&(_, n)| n > 0).collect()
    }

    /// The reasons of marks that occurred, with their counts.
    pub fn mark_list(&self) -> Vec<(MarkReason, u64)> {
        MarkReason::ALL.into_iter().map(|r| (r, self.marks(r))).filter(|&(_, n)| n > 0).collect()
    }
}

impl LinkCounters {
    /// Drops and marks by reason.
    pub fn reasons(&self) -> &Reasons {
        &self.reasons
    }

    /// Drops for one reason.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.reasons.drops(reason)
    }

    /// Drops for all reasons.
    pub fn total_drops(&self) -> u64 {
        self.reasons.total_drops()
    }

    /// Counts a drop.
    pub fn count_drop(&mut self, reason: DropReason) {
        self.reasons.count_drop(reason);
    }

    /// Marks for one reason.
    pub fn marks(&self, reason: MarkReason) -> u64 {
        self.reasons.marks(reason)
    }

    /// Counts a mark.
    pub fn count_mark(&mut self, reason: MarkReason) {
        self.reasons.count_mark(reason);
    }

    /// Whether every packet is accounted for (see the module's identities).
    pub fn balanced(&self) -> bool {
        let came = self.carried.wrapping_add(self.packets_in + self.duplicated);
        came == (self.packets_out + self.total_drops()).wrapping_add(self.backlog_packets)
    }

    /// Adds the counters of another part of the same link. Two peaks need not have been at one
    /// time: their sum is a bound. The backlog wraps, so that a part which sends what another took
    /// in may count down from zero.
    pub fn merge(&mut self, other: &Self) {
        self.packets_in += other.packets_in;
        self.bytes_in += other.bytes_in;
        self.packets_out += other.packets_out;
        self.bytes_out += other.bytes_out;
        self.duplicated += other.duplicated;
        self.corrupted += other.corrupted;
        self.reordered += other.reordered;
        self.backlog_packets = self.backlog_packets.wrapping_add(other.backlog_packets);
        self.carried = self.carried.wrapping_add(other.carried);
        self.peak_queue_packets += other.peak_queue_packets;
        self.reasons.merge(&other.reasons);
    }

    /// The reasons of drops that occurred, with their counts.
    pub fn drop_list(&self) -> Vec<(DropReason, u64)> {
        self.reasons.drop_list()
    }

    /// The reasons of marks that occurred, with their counts.
    pub fn mark_list(&self) -> Vec<(MarkReason, u64)> {
        self.reasons.mark_list()
    }
}

/// Counters and latencies of one link.
#[derive(Clone, Debug, Default)]
pub struct LinkStats {
    /// Counters.
    pub counters: LinkCounters,
    /// Time in the queue, for every packet the scheduler handed to the link, ns.
    pub queue_ns: Histogram,
    /// Time from submission to intended release, for every packet that left, ns.
    pub total_ns: Histogram,
    /// What its devices counted; `None` where no packet has come to one.
    pub device: Option<Box<DeviceStats>>,
}

impl LinkStats {
    /// Adds those of another part of the same link, as [`LinkCounters::merge`] does.
    pub fn merge(&mut self, other: &Self) {
        self.counters.merge(&other.counters);
        self.queue_ns.merge(&other.queue_ns);
        self.total_ns.merge(&other.total_ns);
        if let Some(device) = &other.device {
            self.device.get_or_insert_default().merge(device);
        }
    }

    /// Begins to count anew, with `queued` packets in queues. What is inside is carried over.
    pub(crate) fn zero(&mut self, queued: u64) {
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
