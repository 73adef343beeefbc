//! What `list` and `show` answer: views of a configuration with its counters, and dummynet's way to
//! print them.
//!
//! [`answer`] makes a view of what a [`Query`] asks for, from the configuration and whoever has the
//! counters ([`Source`]). A view is plain data that goes through JSON and back, so that it can be
//! printed elsewhere; [`text`] prints it in the formats that users of `ipfw` and their scripts
//! know.

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
    /// Rules, the default rule among them.
    Rules {
        /// In the order in which they are looked at.
        rules: Vec<RuleView>,
        /// What `keep-state` and `limit` have made.
        dynamic: Vec<DynamicView>,
        /// `show` was asked for, not `list`.
        counters: bool,
    },
    /// Sets of rules.
    Sets {
        /// Those that are off.
        disabled: Vec<u8>,
        /// Those that are on.
        enabled: Vec<u8>,
    },
    /// Tables with their entries.
    Tables(Vec<TableView>),
    /// Tables without their entries.
    TableInfo(Vec<TableView>),
    /// What a key finds.
    Lookup(LookupView),
    /// Links made by `netconfig`, as commands.
    NetConfigs(Vec<String>),
}

/// Who has the counters.
pub trait Source {
    /// What the rule with this identity has counted.
    fn rule(&self, id: u32) -> RuleCount;

    /// Instances of a pipe or scheduler, or flows of a queue, and how many there are in all: the
    /// first ones when there are many.
    fn flows(&self, kind: ObjectKind, number: u16) -> (Vec<FlowCount>, u64);

    /// Dynamic rules.
    fn dynamic(&self) -> Vec<DynamicView>;
}

/// What a rule has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCount {
    /// Packets.
    pub packets: u64,
    /// Network-layer bytes.
    pub bytes: u64,
    /// When it matched last, in seconds since 1970.
    pub last_s: Option<u64>,
}

/// What an instance or a flow has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowCount {
    /// Its key, under the mask.
    pub key: FlowKey,
    /// Packets that came.
    pub packets: u64,
    /// Their network-layer bytes.
    pub bytes: u64,
    /// Packets that were dropped or marked, by reason.
    pub reasons: Reasons,
    /// State of its AQM, by name ([`weir_core::aqm::Aqm::figures`]).
    pub figures: Vec<(&'static str, u64)>,
    /// Packets that wait.
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

/// Nothing has been counted.
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

/// A view of what a query asks for.
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
