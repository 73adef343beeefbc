//! What the daemon asks of whatever moves packets.
//!
//! Calls come from several threads and may take as long as a packet batch, not longer: a reader of
//! counters waits for the answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_rules::command::ObjectKind;
use weir_rules::ruleset::Ruleset;
use weir_rules::show::{DynamicView, FlowCount};

use crate::api::{
    BridgeView, InstancePage, LaneView, LengthView, LinkSample, QueueCounters, RuleCounters,
};

/// Moves packets by a configuration.
pub trait Plane: Send + Sync + 'static {
    /// Puts `new` in force in place of `old`, between two packets. What did not change is not
    /// touched: packets inside stay.
    ///
    /// The configuration is on disk already and is not taken back, so this cannot fail; what the
    /// user should know about it is returned.
    fn apply(&self, old: &Ruleset, new: &Arc<Ruleset>) -> Vec<String>;

    /// Sets the counters of these rules to zero; of all of them without a list.
    fn zero(&self, rules: Option<&[u32]>);

    /// Every counter as it is now.
    fn snapshot(&self) -> Snapshot;

    /// What waits now: cheap enough to be asked for a thousand times a second.
    fn lengths(&self) -> Lengths;

    /// Up to `limit` instances of a pipe, queue or scheduler, from the first or behind where the
    /// page before ended.
    fn instances(
        &self,
        kind: ObjectKind,
        number: u16,
        after: Option<u64>,
        limit: usize,
    ) -> InstancePage;

    /// The first `most` instances of a pipe, queue or scheduler, for `show`, and how many there
    /// are.
    fn flows(&self, kind: ObjectKind, number: u16, most: usize) -> (Vec<FlowCount>, u64);

    /// Dynamic rules that there are now.
    fn dynamic(&self) -> Vec<DynamicView>;

    /// What it forwards between.
    fn bridges(&self) -> Vec<BridgeView>;
}

/// Every counter at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Pipes and schedulers, by number.
    pub links: BTreeMap<u16, LinkSample>,
    /// Queues, by number.
    pub queues: BTreeMap<u16, QueueCounters>,
    /// Rules, by identity.
    pub rules: BTreeMap<u32, RuleCounters>,
    /// Ways over bridges.
    pub lanes: Vec<LaneView>,
}

/// What waits at one moment.
#[derive(Clone, Debug, Default)]
pub struct Lengths {
    /// The moment, by the machine's monotonic clock, ns.
    pub at_ns: u64,
    /// Pipes and schedulers, by number.
    pub links: BTreeMap<u16, LengthView>,
    /// Queues, by number.
    pub queues: BTreeMap<u16, LengthView>,
}

/// Nothing: a configuration that is kept and moves no packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPlane;

impl Plane for NoPlane {
    fn apply(&self, _old: &Ruleset, _new: &Arc<Ruleset>) -> Vec<String> {
        Vec::new()
    }

    fn zero(&self, _rules: Option<&[u32]>) {}

    fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    fn lengths(&self) -> Lengths {
        Lengths::default()
    }

    fn instances(
        &self,
        _kind: ObjectKind,
        _number: u16,
        _after: Option<u64>,
        _limit: usize,
    ) -> InstancePage {
        InstancePage::default()
    }

    fn flows(&self, _kind: ObjectKind, _number: u16, _most: usize) -> (Vec<FlowCount>, u64) {
        (Vec::new(), 0)
    }

    fn dynamic(&self) -> Vec<DynamicView> {
        Vec::new()
    }

    fn bridges(&self) -> Vec<BridgeView> {
        Vec::new()
    }
}
