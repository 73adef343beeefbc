//! Answers to `list` and `show`: views of a configuration with its counters, and their output in
//! dummynet's format.
//!
//! [`answer`] creates the view for a [`Query`] from the configuration and a [`Source`] of counters.
//! A view is plain data that survives JSON, so that another process can print it; [`text`] prints
//! it in the formats that users of `ipfw` and their scripts know.

mod objects;
mod rules;
mod tables;
mod text;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_core::key::FlowKey;
use weir_core::stats::Reasons;

use crate::command::ObjectKind;
use crate::ruleset::{Query, Ruleset};

pub use objects::{AqmView, FlowView, LinkView, ObjectView, ProfileView, QueueView, SchedulerView};
pub use rules::{DynamicKind, DynamicView, RuleView};
pub use tables::{EntryView, LookupView, TableView};
pub use text::{Options, text};

/// An answer to a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Pipes, queues or schedulers.
    Objects(Vec<ObjectView>),
    /// Rules, including the default rule.
    Rules {
        /// In the order of the search.
        rules: Vec<RuleView>,
        /// The dynamic rules of `keep-state` and `limit`.
        dynamic: Vec<DynamicView>,
        /// The query was `show`, not `list`.
        counters: bool,
    },
    /// Sets of rules.
    Sets {
        /// Sets that are off.
        disabled: Vec<u8>,
        /// Sets that are on.
        enabled: Vec<u8>,
    },
    /// Tables with their entries.
    Tables(Vec<TableView>),
    /// Tables without their entries.
    TableInfo(Vec<TableView>),
    /// The result of a look-up.
    Lookup(LookupView),
    /// Links created by `netconfig`, as commands.
    NetConfigs(Vec<String>),
}

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

/// The view for a query.
pub fn answer(query: &Query, ruleset: &Ruleset, source: &dyn Source) -> Answer {
    match query {
        Query::Objects(kind, which) => {
            Answer::Objects(objects::views(ruleset, *kind, which, source))
        }
        Query::Rules { which, counters } => Answer::Rules {
            rules: rules::views(ruleset, which, source),
            dynamic: source.dynamic(),
            counters: *counters,
        },
        Query::Sets => {
            let (enabled, disabled) = (0..31).partition(|&set| ruleset.is_enabled(set));
            Answer::Sets { disabled, enabled }
        }
        Query::Table(name) => Answer::Tables(tables::views(ruleset, Some(name), true)),
        Query::TableInfo(name) => Answer::TableInfo(tables::views(ruleset, Some(name), false)),
        Query::AllTables => Answer::Tables(tables::views(ruleset, None, true)),
        Query::AllTablesInfo => Answer::TableInfo(tables::views(ruleset, None, false)),
        Query::Lookup { name, key, found } => Answer::Lookup(LookupView {
            table: name.to_string(),
            key: key.to_string(),
            found: found
                .as_ref()
                .map(|(key, value)| EntryView { key: key.to_string(), value: *value }),
        }),
        Query::NetConfigs => Answer::NetConfigs(ruleset.netconfig_lines()),
    }
}
