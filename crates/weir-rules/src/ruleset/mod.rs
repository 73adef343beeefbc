//! A configuration as a whole: pipes, queues, schedulers, rules, sets and tables, and what each
//! command does to it.
//!
//! [`Ruleset::apply`] carries out one command, all of it or nothing; [`Ruleset::apply_all`] does so
//! with a whole script. [`Changes`] is the way from one configuration to the next with the fewest
//! calls to the engine, so that what did not change keeps its queued packets and its counters.

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
pub use netconfig::{FIRST_NETCONFIG_PIPE, MAX_NETCONFIGS, NETCONFIG_RULE};
pub use rules::DEFAULT_RULE_ID;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::command::{NetConfig, QueueSpec, SchedSpec};
use crate::link::LinkSpec;
use crate::rule::{Name, Rule};
use crate::table::Table;

/// Everything that commands configure. Two equal ones treat packets alike.
///
/// A copy shares what it does not change, so that commands are tried on a copy at no great cost
/// however much is configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruleset {
    /// Pipes, by number.
    pub pipes: Arc<BTreeMap<u16, Arc<LinkSpec>>>,
    /// Schedulers, by number. A number is a pipe or a scheduler, not both.
    pub scheds: Arc<BTreeMap<u16, Arc<SchedSpec>>>,
    /// Queues, by number.
    pub queues: Arc<BTreeMap<u16, Arc<QueueSpec>>>,
    /// Rules in the order in which they are looked at: by number, then by age. The default rule is
    /// not among them.
    pub rules: Arc<Vec<Entry>>,
    /// Sets that are on; bit n is set n.
    pub enabled_sets: u32,
    /// Tables, by name.
    pub tables: Arc<BTreeMap<Name, Arc<Table>>>,
    /// A packet that comes out of a pipe passes; else it goes on behind the rule that sent it
    /// there.
    pub one_pass: bool,
    /// Links made by `netconfig`, in the order in which they were made.
    pub netconfigs: Vec<NetLink>,
    /// The identity that the next rule gets.
    pub next_id: u32,
}

/// A rule with its identity.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Never given to another rule of the same ruleset.
    pub id: u32,
    /// The rule.
    pub rule: Arc<Rule>,
}

/// A link made by `netconfig`.
#[derive(Clone, Debug, PartialEq)]
pub struct NetLink {
    /// What was asked for.
    pub config: Arc<NetConfig>,
    /// Its place: it has two pipes and a rule number of its own.
    pub slot: u16,
    /// When it deletes itself, in seconds; `None` while it never does, or nobody has said yet what
    /// time it is.
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

#[cfg(test)]
mod tests;
