//! The interface between the daemon and the code that moves packets.
//!
//! Several threads call these methods. A call may take as long as a batch of packets but not
//! longer, because a client that reads counters waits for the answer.

use std::sync::Arc;

use weir_rules::command::ObjectKind;
use weir_rules::ruleset::Ruleset;
use weir_rules::show::{DynamicView, FlowCount};

use crate::api::{BridgeView, InstancePage, Lengths, Snapshot};

/// Moves packets according to a configuration.
pub trait Plane: Send + Sync + 'static {
    /// Replaces `old` by `new` between two packets. Unchanged objects are not touched: packets
    /// inside them stay.
    ///
    /// The configuration is already on disk and is not rolled back, so this cannot fail. It returns
    /// notices for the user.
    fn apply(&self, old: &Ruleset, new: &Arc<Ruleset>) -> Vec<String>;

    /// Resets the counters of these rules; without a list, those of all rules.
    fn zero(&self, rules: Option<&[u32]>);

    /// The current values of all counters.
    fn snapshot(&self) -> Snapshot;

    /// The current lengths. The call is cheap enough for a thousand readings per second.
    fn lengths(&self) -> Lengths;

    /// Up to `limit` instances of a pipe, queue or scheduler, from the first one or from the
    /// continuation of the previous page.
    fn instances(
        &self,
        kind: ObjectKind,
        number: u16,
        after: Option<u64>,
        limit: usize,
    ) -> InstancePage;

    /// The first `most` instances of a pipe, queue or scheduler, for `show`, and the total number
    /// of instances.
    fn flows(&self, kind: ObjectKind, number: u16, most: usize) -> (Vec<FlowCount>, u64);

    /// The current dynamic rules.
    fn dynamic(&self) -> Vec<DynamicView>;

    /// The bridges over which the plane forwards.
    fn bridges(&self) -> Vec<BridgeView>;
}

/// A plane that keeps a configuration and moves no packets.
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
