//! Views of tables.

use serde::{Deserialize, Serialize};

use crate::rule::Name;
use crate::ruleset::Ruleset;

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableView {
    /// Its name.
    pub name: String,
    /// The type of its keys.
    pub kind: String,
    /// Whether the table refuses changes.
    pub locked: bool,
    /// The maximum number of entries, if limited.
    pub limit: Option<u32>,
    /// The number of entries.
    pub items: u64,
    /// The number of rules that use the table.
    pub references: u64,
    /// The entries, if they were requested.
    pub entries: Vec<EntryView>,
}

/// An entry of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntryView {
    /// The key.
    pub key: String,
    /// The value.
    pub value: u32,
}

/// The result of a look-up in a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LookupView {
    /// The table.
    pub table: String,
    /// The key.
    pub key: String,
    /// The entry that was found, if any.
    pub found: Option<EntryView>,
}

/// Views of one table or of all.
pub(super) fn views(ruleset: &Ruleset, only: Option<&Name>, with_entries: bool) -> Vec<TableView> {
    let tables = ruleset.tables.iter().filter(|(name, _)| only.is_none_or(|only| only == *name));
    let view = |(name, table): (&Name, &std::sync::Arc<crate::table::Table>)| TableView {
        name: name.to_string(),
        kind: table.kind.word().to_owned(),
        locked: table.locked,
        limit: table.limit,
        items: table.entries.len() as u64,
        references: ruleset.users_of(name).count() as u64,
        entries: if with_entries {
            table
                .entries
                .iter()
                .map(|(key, &value)| EntryView { key: key.to_string(), value })
                .collect()
        } else {
            Vec::new()
        },
    };
    tables.map(view).collect()
}
