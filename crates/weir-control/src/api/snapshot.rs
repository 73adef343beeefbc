//! Readings of all counters or lengths at one moment, from which the replies of the API are made.

use std::collections::BTreeMap;

use weir_measure::histogram::Histogram;

use super::counters::{LaneView, LengthView, LinkSample, QueueCounters, RuleCounters};

/// Every counter at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Pipes and schedulers, by number.
    pub links: BTreeMap<u16, LinkSample>,
    /// Queues, by number.
    pub queues: BTreeMap<u16, QueueCounters>,
    /// Rules, by identity.
    pub rules: BTreeMap<u32, RuleCounters>,
    /// The lanes over bridges.
    pub lanes: Vec<LaneView>,
    /// Times in pipes and schedulers, by number; empty if there are too many to gather.
    pub link_times: BTreeMap<u16, Times>,
    /// Times on the lanes, in the order of the lanes.
    pub lane_times: Vec<LaneTimes>,
}

/// Distributions of times in a pipe, in a scheduler or on a lane, in ns.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Queueing delay.
    pub queue_ns: Histogram,
    /// Time from arrival to due time.
    pub total_ns: Histogram,
}

/// Distributions of times on a lane, in ns.
#[derive(Clone, Debug, Default)]
pub struct LaneTimes {
    /// Times of the packets.
    pub times: Times,
    /// Lateness: how much later than their due times packets departed.
    pub lateness_ns: Histogram,
}

/// The lengths of all queues at one moment.
#[derive(Clone, Debug, Default)]
pub struct Lengths {
    /// The moment on the machine's monotonic clock, in ns.
    pub at_ns: u64,
    /// Pipes and schedulers, by number.
    pub links: BTreeMap<u16, LengthView>,
    /// Queues, by number.
    pub queues: BTreeMap<u16, LengthView>,
}
