//! A configuration as a whole: pipes, queues, schedulers, rules, sets and tables, and the effect of
//! each command on it.
//!
//! [`Ruleset::apply`] applies one command completely or not at all; [`Ruleset::apply_all`] does so
//! with a whole script. [`Changes`] contains the fewest calls to the engine that lead from one
//! configuration to the next, so that unchanged parts keep their queued packets and counters.

mod apply;
mod changes;
mod error;
mod netconfig;
mod objects;
mod rules;
mod script;
mod tables;

pub use apply::{Effect, Outcome, Query, wanted};
pub(crate) use changes::SHARED_PIPE;
pub use changes::{Changes, EngineChange};
pub use error::{ApplyError, ScriptError, Warning};
pub use netconfig::{FIRST_NETCONFIG_PIPE, NETCONFIG_RULE};
pub use rules::DEFAULT_RULE_ID;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::command::{NetConfig, QueueSpec, SchedSpec};
use crate::link::LinkSpec;
use crate::rule::{Name, Rule};
use crate::table::Table;

/// Everything that commands configure. Equal configurations treat packets alike.
///
/// A copy shares its unchanged parts with the original, so that trying commands on a copy is cheap
/// even for large configurations.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruleset {
    /// Pipes, by number.
    pub pipes: Arc<BTreeMap<u16, Arc<LinkSpec>>>,
    /// Schedulers, by number. A number is a pipe or a scheduler, not both.
    pub scheds: Arc<BTreeMap<u16, Arc<SchedSpec>>>,
    /// Queues, by number.
    pub queues: Arc<BTreeMap<u16, Arc<QueueSpec>>>,
    /// Rules in the order of the search: by number, then by age. The default rule is not included.
    pub rules: Arc<Vec<Entry>>,
    /// Sets that are on; bit n is set n.
    pub enabled_sets: u32,
    /// Tables, by name.
    pub tables: Arc<BTreeMap<Name, Arc<Table>>>,
    /// Whether a packet that departs from a pipe passes; else it continues behind the rule that
    /// sent it there.
    pub one_pass: bool,
    /// Links created by `netconfig`, in the order of their creation.
    pub netconfigs: Vec<NetLink>,
    /// The identity of the next rule.
    pub next_id: u32,
}

/// A rule with its identity.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its identity, never reused in this ruleset.
    pub id: u32,
    /// The rule.
    pub rule: Arc<Rule>,
}

/// A link created by `netconfig`.
#[derive(Clone, Debug, PartialEq)]
pub struct NetLink {
    /// Its configuration.
    pub config: Arc<NetConfig>,
    /// Its slot, with two pipes and a rule number.
    pub slot: u16,
    /// When it deletes itself, in seconds; `None` for never, or before the first call of
    /// [`Ruleset::expire`].
    pub deadline_s: Option<u64>,
}

impl Default for Ruleset {
    fn default() -> Self {
        Self {
            pipes: Arc::default(),
            scheds: Arc::default(),
            queues: Arc::default(),
            rules: Arc::default(),
            enabled_sets: u32::MAX,
            tables: Arc::default(),
            one_pass: true,
            netconfigs: Vec::new(),
            next_id: 1,
        }
    }
}

/// Most schedulers between a packet and its link; the engine supports no more.
pub(super) const MOST_LEVELS: usize = 8;
/// Most links made by `netconfig` at once.
pub const MAX_NETCONFIGS: u16 = 500;

#[cfg(test)]
mod tests;
