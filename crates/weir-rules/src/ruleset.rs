//! A configuration as a whole: pipes, queues, schedulers, rules, sets and tables.

use std::collections::BTreeMap;

use crate::LinkSpec;
use crate::command::{NetConfig, QueueSpec, SchedSpec};
use crate::rule::{Name, Rule};
use crate::table::Table;

/// Everything that commands configure. Two equal ones treat packets alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruleset {
    /// Pipes, by number.
    pub pipes: BTreeMap<u16, LinkSpec>,
    /// Schedulers, by number. A number is a pipe or a scheduler, not both.
    pub scheds: BTreeMap<u16, SchedSpec>,
    /// Queues, by number.
    pub queues: BTreeMap<u16, QueueSpec>,
    /// Rules in the order in which they are looked at: by number, then by age. The default rule is not among them.
    pub rules: Vec<Entry>,
    /// Sets that are on; bit n is set n.
    pub enabled_sets: u32,
    /// Tables, by name.
    pub tables: BTreeMap<Name, Table>,
    /// A packet that comes out of a pipe passes; else it goes on behind the rule that sent it there.
    pub one_pass: bool,
    /// Links made by `netconfig`, in the order in which they were made.
    pub netconfigs: Vec<NetConfig>,
    /// The identity that the next rule gets.
    pub next_id: u32,
}

/// A rule with its identity.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Never given to another rule of the same ruleset.
    pub id: u32,
    /// The rule.
    pub rule: Rule,
}

impl Default for Ruleset {
    fn default() -> Self {
        Self {
            pipes: BTreeMap::new(),
            scheds: BTreeMap::new(),
            queues: BTreeMap::new(),
            rules: Vec::new(),
            enabled_sets: u32::MAX,
            tables: BTreeMap::new(),
            one_pass: true,
            netconfigs: Vec::new(),
            next_id: 1,
        }
    }
}
