//! Answers to `list` and `show`: views of a configuration with its counters, and their output in
//! dummynet's format.
//!
//! [`answer`] creates the view for a [`Query`] from the configuration and a [`Source`] of counters.
//! A view is plain data that can be sent as JSON, so that another process can print it. [`text`]
//! prints it in the formats that users of `ipfw` and their scripts know.

mod objects;
mod rules;
mod source;
mod tables;
mod text;

use serde::{Deserialize, Serialize};

use crate::ruleset::{Query, Ruleset};

pub use objects::{AqmView, FlowView, LinkView, ObjectView, ProfileView, QueueView, SchedulerView};
pub use rules::RuleView;
pub use source::{DynamicKind, DynamicView, FlowCount, NoCounters, RuleCount, Source, variables};
pub use tables::{EntryView, LookupView, TableView};
pub use text::{Options, text};

/// An answer to a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Pipes, queues or schedulers.
    Objects(Vec<ObjectView>),
    /// Rules. Without numbers in the query, they include the default rule.
    Rules {
        /// The rules in the order of the search.
        rules: Vec<RuleView>,
        /// The dynamic rules of `keep-state`, `record-state` and `limit`.
        dynamic: Vec<DynamicView>,
        /// Whether to print counters, as for `show`.
        counters: bool,
    },
    /// Sets of rules.
    Sets {
        /// The disabled sets.
        disabled: Vec<u8>,
        /// The enabled sets, without set 31, which is always enabled.
        enabled: Vec<u8>,
    },
    /// Tables with their entries.
    Tables(Vec<TableView>),
    /// Tables without their entries.
    TableInfo(Vec<TableView>),
    /// The result of a look-up.
    Lookup(LookupView),
    /// The links that `netconfig` created, as commands.
    NetConfigs(Vec<String>),
}

impl Answer {
    /// The number of rows: objects with their instances, rules, and entries of tables.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Objects(objects) => objects.iter().map(ObjectView::rows).sum(),
            Self::Rules { rules, dynamic, .. } => rules.len() + dynamic.len(),
            Self::Sets { .. } | Self::Lookup(_) => 1,
            Self::Tables(tables) | Self::TableInfo(tables) => {
                tables.iter().map(|table| 1 + table.entries.len()).sum()
            }
            Self::NetConfigs(links) => links.len(),
        }
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
