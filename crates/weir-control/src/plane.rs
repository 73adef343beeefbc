//! The interface between the daemon and the code that moves packets.
//!
//! Calls come from several threads. A call must not take longer than the processing of a batch of
//! packets, because a reader of counters waits for the answer. A call that needs an answer of the
//! thread that moves packets gives up after a while, so that the daemon can be queried, changed and
//! ended even if that thread is stuck.

use std::sync::Arc;
use std::time::Duration;

use weir_rules::command::ObjectKind;
use weir_rules::ruleset::Ruleset;
use weir_rules::show::{DynamicView, FlowCount};

use crate::api::{BridgeView, InstancePage, LaneView, Lengths, Snapshot};

/// Why the code that moves packets gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The code did not answer in time.
    #[error(
        "the loop that forwards packets did not answer within {} s; /v1/health says whether it is \
         still stalled; if this lasts, restart the daemon",
        .within.as_secs()
    )]
    Late {
        /// The time that the code had for the answer.
        within: Duration,
    },
    /// The code has ended.
    #[error("the loop that forwards packets has ended; the daemon ends too")]
    Ended,
}

/// Moves packets according to a configuration.
pub trait Plane: Send + Sync + 'static {
    /// Replaces `old` by `new` between two packets. Unchanged objects are not touched: packets
    /// inside them stay.
    ///
    /// The configuration is already on disk and is not rolled back, so the call cannot fail. It
    /// returns notices for the user.
    fn apply(&self, old: &Ruleset, new: &Arc<Ruleset>) -> Vec<String>;

    /// Resets the counters of these rules; without a list, those of all rules.
    ///
    /// # Errors
    /// See [`NoAnswer`]. All calls below that can fail do so for the same reasons.
    fn zero(&self, rules: Option<&[u32]>) -> Result<(), NoAnswer>;

    /// The current value of every counter.
    fn snapshot(&self) -> Result<Snapshot, NoAnswer>;

    /// The current lengths. The call is cheap enough for a thousand readings per second.
    fn lengths(&self) -> Result<Lengths, NoAnswer>;

    /// Up to `limit` instances of a pipe, queue or scheduler, from the first one or from the
    /// continuation of the previous page.
    fn instances(
        &self,
        kind: ObjectKind,
        number: u16,
        after: Option<u64>,
        limit: usize,
    ) -> Result<InstancePage, NoAnswer>;

    /// The first `most` instances of a pipe, queue or scheduler, for `show`, and the total number
    /// of instances.
    fn flows(
        &self,
        kind: ObjectKind,
        number: u16,
        most: usize,
    ) -> Result<(Vec<FlowCount>, u64), NoAnswer>;

    /// The current dynamic rules.
    fn dynamic(&self) -> Result<Vec<DynamicView>, NoAnswer>;

    /// The lanes of all bridges, two for each bridge. The health resource needs them, so the call
    /// gives up after a second.
    fn lanes(&self) -> Result<Vec<LaneView>, NoAnswer>;

    /// The bridges, without their lanes. The plane forwards between the two interfaces of each
    /// bridge. The call never waits for the thread that moves packets.
    fn bridges(&self) -> Vec<BridgeView>;
}

/// A plane that keeps a configuration and moves no packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPlane;

impl Plane for NoPlane {
    fn apply(&self, _old: &Ruleset, _new: &Arc<Ruleset>) -> Vec<String> {
        Vec::new()
    }

    fn zero(&self, _rules: Option<&[u32]>) -> Result<(), NoAnswer> {
        Ok(())
    }

    fn snapshot(&self) -> Result<Snapshot, NoAnswer> {
        Ok(Snapshot::default())
    }

    fn lengths(&self) -> Result<Lengths, NoAnswer> {
        Ok(Lengths::default())
    }

    fn instances(
        &self,
        _kind: ObjectKind,
        _number: u16,
        _after: Option<u64>,
        _limit: usize,
    ) -> Result<InstancePage, NoAnswer> {
        Ok(InstancePage::default())
    }

    fn flows(
        &self,
        _kind: ObjectKind,
        _number: u16,
        _most: usize,
    ) -> Result<(Vec<FlowCount>, u64), NoAnswer> {
        Ok((Vec::new(), 0))
    }

    fn dynamic(&self) -> Result<Vec<DynamicView>, NoAnswer> {
        Ok(Vec::new())
    }

    fn lanes(&self) -> Result<Vec<LaneView>, NoAnswer> {
        Ok(Vec::new())
    }

    fn bridges(&self) -> Vec<BridgeView> {
        Vec::new()
    }
}
