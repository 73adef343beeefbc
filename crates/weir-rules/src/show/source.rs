//! The source from which views take their counters.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_core::key::FlowKey;
use weir_core::stats::Reasons;

use crate::command::ObjectKind;

/// A source of counters.
pub trait Source {
    /// The counters of the rule with this identity.
    fn rule(&self, id: u32) -> RuleCount;

    /// The instances of a pipe or scheduler, or the flows of a queue, and their total number. If
    /// there are many, the list contains only the first ones.
    fn flows(&self, kind: ObjectKind, number: u16) -> (Vec<FlowCount>, u64);

    /// The dynamic rules.
    fn dynamic(&self) -> Vec<DynamicView>;
}

/// The counters of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCount {
    /// Packets that matched.
    pub packets: u64,
    /// Network-layer bytes of these packets.
    pub bytes: u64,
    /// The time of the last match, in seconds since 1970.
    pub last_s: Option<u64>,
}

/// The counters of an instance or a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowCount {
    /// The key of the flow after masking.
    pub key: FlowKey,
    /// Packets that arrived.
    pub packets: u64,
    /// Network-layer bytes of the packets that arrived.
    pub bytes: u64,
    /// Dropped and marked packets, by reason.
    pub reasons: Reasons,
    /// The state of the flow's AQM, by name ([`weir_core::aqm::Aqm::variables`]).
    pub variables: Vec<(&'static str, u64)>,
    /// Packets in the queue now.
    pub queue_packets: u64,
    /// Network-layer bytes of the packets in the queue.
    pub queue_bytes: u64,
}

/// A dynamic rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DynamicView {
    /// The number of the rule that created the dynamic rule.
    pub rule: u16,
    /// Its kind.
    pub kind: DynamicKind,
    /// Protocol.
    pub proto: u8,
    /// The address of one end.
    pub src: IpAddr,
    /// The port of that end.
    pub src_port: u16,
    /// The address of the other end.
    pub dst: IpAddr,
    /// The port of the other end.
    pub dst_port: u16,
    /// Packets that matched.
    pub packets: u64,
    /// Network-layer bytes of these packets.
    pub bytes: u64,
    /// The number of seconds until the rule expires without traffic.
    pub expires_s: u64,
    /// The state name; `default` unless the rule gives another name.
    pub name: String,
}

/// The kind of a dynamic rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DynamicKind {
    /// Created by `keep-state` or `record-state`.
    State,
    /// Created by `limit`.
    Limit,
}

/// The state of an AQM in the form that is shown: probabilities as numbers from 0 to 1, all other
/// values unchanged.
pub fn variables(variables: &[(&'static str, u64)]) -> BTreeMap<String, f64> {
    let shown = |name: &str, value: u64| {
        if name.ends_with("probability") {
            value as f64 / (1u64 << 32) as f64
        } else {
            value as f64
        }
    };
    variables.iter().map(|&(name, value)| (name.to_owned(), shown(name, value))).collect()
}

/// A source in which all counters are zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCounters;

impl Source for NoCounters {
    fn rule(&self, _id: u32) -> RuleCount {
        RuleCount::default()
    }

    fn flows(&self, _kind: ObjectKind, _number: u16) -> (Vec<FlowCount>, u64) {
        (Vec::new(), 0)
    }

    fn dynamic(&self) -> Vec<DynamicView> {
        Vec::new()
    }
}
