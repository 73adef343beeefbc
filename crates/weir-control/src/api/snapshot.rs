//! Readings of the whole plane at one moment, from which the replies of the API are made.

use std::collections::BTreeMap;

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
