//! The source of the counters in a view.

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

    /// Instances of a pipe or scheduler, or flows of a queue, and their total number. Only the
    /// first ones if there are many.
    fn flows(&self, kind: ObjectKind, number: u16) -> (Vec<FlowCount>, u64);

    /// Dynamic rules.
    fn dynamic(&self) -> Vec<DynamicView>;
}

/// The counters of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCount {
    /// Packets.
    pub packets: u64,
    /// Network-layer bytes.
    pub bytes: u64,
    /// The last match, in seconds since 1970.
    pub last_s: Option<u64>,
}

/// The counters of an instance or a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowCount {
    /// Its masked key.
    pub key: FlowKey,
    /// Arrivals.
    pub packets: u64,
    /// Their network-layer bytes.
    pub bytes: u64,
    /// Packets dropped and marked, by reason.
    pub reasons: Reasons,
    /// State of its AQM, by name ([`weir_core::aqm::Aqm::figures`]).
    pub figures: Vec<(&'static str, u64)>,
    /// Packets in the queue.
    pub queue_packets: u64,
    /// Their network-layer bytes.
    pub queue_bytes: u64,
}

/// A dynamic rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DynamicView {
    /// Number of the rule that created it.
    pub rule: u16,
    /// Its kind.
    pub kind: DynamicKind,
    /// Protocol.
    pub proto: u8,
    /// One end.
    pub src: IpAddr,
    /// Its port.
    pub src_port: u16,
    /// The other end.
    pub dst: IpAddr,
    /// Its port.
    pub dst_port: u16,
    /// Packets.
    pub packets: u64,
    /// Network-layer bytes.
    pub bytes: u64,
    /// Seconds to its expiry without traffic.
    pub expires_s: u64,
    /// Name of its states; `default` unless the rule gives one.
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

/// State of an AQM as it is shown: probabilities as numbers from 0 to 1, everything else as it is.
pub fn figures(figures: &[(&'static str, u64)]) -> BTreeMap<String, f64> {
    let shown = |name: &str, value: u64| {
        if name.ends_with("probability") {
            value as f64 / (1u64 << 32) as f64
        } else {
            value as f64
        }
    };
    figures.iter().map(|&(name, value)| (name.to_owned(), shown(name, value))).collect()
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
