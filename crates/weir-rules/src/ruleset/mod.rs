//! A configuration as a whole: pipes, queues, schedulers, rules, sets and tables, and how commands
//! change it.
//!
//! [`Ruleset::apply`] applies one command, and [`Ruleset::apply_all`] a whole script, either
//! completely or not at all. [`Changes`] contains the calls to the engine that lead from one
//! configuration to the next. Unchanged parts keep their queued packets and counters.

mod apply;
mod changes;
mod cost;
mod error;
mod files;
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
pub(crate) use rules::number_after;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::command::{NetConfig, QueueSpec, SchedSpec};
use crate::link::LinkSpec;
use crate::rule::{Name, Rule};
use crate::table::Table;

/// Everything that commands configure. Equal configurations treat packets alike.
///
/// A copy shares its unchanged parts with the original. Applying commands to a copy is therefore
/// cheap even for large configurations.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruleset {
    /// Pipes, by number.
    pub pipes: Arc<BTreeMap<u16, Arc<LinkSpec>>>,
    /// Schedulers, by number. A number belongs either to a pipe or to a scheduler.
    pub scheds: Arc<BTreeMap<u16, Arc<SchedSpec>>>,
    /// Queues, by number.
    pub queues: Arc<BTreeMap<u16, Arc<QueueSpec>>>,
    /// Rules in the order of the search: by number, then by age, without the default rule.
    pub rules: Arc<Vec<Entry>>,
    /// The enabled sets; bit n is set n.
    pub enabled_sets: u32,
    /// Tables, by name.
    pub tables: Arc<BTreeMap<Name, Arc<Table>>>,
    /// Whether a packet that departs from a pipe passes without a further search. Otherwise the
    /// search continues after the rule that sent the packet to the pipe.
    pub one_pass: bool,
    /// The links that `netconfig` created, in the order of their creation.
    pub netconfigs: Vec<NetLink>,
    /// The identity that the next new rule gets.
    pub next_id: u32,
}

/// A rule with its identity.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The identity, which is never reused in this ruleset.
    pub id: u32,
    /// The rule.
    pub rule: Arc<Rule>,
}

/// A link that `netconfig` created.
#[derive(Clone, Debug, PartialEq)]
pub struct NetLink {
    /// The configuration of the link.
    pub config: Arc<NetConfig>,
    /// The slot, which determines the numbers of the two pipes.
    pub slot: u16,
    /// The expiry time in seconds; `None` if the link does not expire, or before the first call of
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

/// Maximum number of schedulers between a packet and its link; the engine supports no more.
pub(super) const MOST_LEVELS: usize = 8;
/// Maximum number of links that `netconfig` creates.
pub const MAX_NETCONFIGS: u16 = 500;
/// Maximum number of rules.
pub const MAX_RULES: usize = 65_536;

#[cfg(test)]
mod tests;
