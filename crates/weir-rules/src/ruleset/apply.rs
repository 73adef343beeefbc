//! Applies commands: each command changes a part of the configuration and has an outcome.

use std::sync::Arc;

use super::{ApplyError, Ruleset, ScriptError, Warning};
use crate::command::{Command, NetConfigCommand, Numbers, ObjectKind, Spanned};
use crate::rule::Name;
use crate::table::TableKey;

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The effect or the request.
    pub effect: Effect,
    /// Warnings about the command.
    pub warnings: Vec<Warning>,
}

/// The effect of a command on the configuration, or a request to the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// No effect: the line has no meaning in Weir, or the configuration already had these values.
    Nothing,
    /// The configuration has changed.
    Changed,
    /// A rule was added.
    Rule {
        /// The number of the rule.
        number: u16,
        /// The identity of the rule.
        id: u32,
    },
    /// A request to reset the counters of these rules, given by identity, to zero.
    Zero(Vec<u32>),
    /// A request to show something.
    Query(Query),
}

/// A query. The ruleset contains the configuration; the caller has the counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// Pipes, queues or schedulers; no numbers mean all.
    Objects(ObjectKind, Vec<Numbers>),
    /// Rules; no numbers mean all.
    Rules {
        /// The numbers of the rules.
        which: Vec<Numbers>,
        /// Whether to show counters.
        counters: bool,
    },
    /// The enabled and disabled sets.
    Sets,
    /// The entries of a table.
    Table(Name),
    /// The type and size of a table.
    TableInfo(Name),
    /// The entry that a key finds in a table, if any.
    Lookup {
        /// The table.
        name: Name,
        /// The key that was looked up.
        key: TableKey,
        /// The entry and its value.
        found: Option<(TableKey, u32)>,
    },
    /// The entries of all tables.
    AllTables,
    /// The types and sizes of all tables.
    AllTablesInfo,
    /// The links that `netconfig` created.
    NetConfigs,
}

impl Ruleset {
    /// Applies one command, either completely or not at all.
    ///
    /// # Errors
    /// The command does not fit this configuration, which remains unchanged.
    pub fn apply(&mut self, command: &Command) -> Result<Outcome, ApplyError> {
        match command {
            Command::ConfigPipe(number, spec) => self.config_pipe(*number, spec),
            Command::ConfigSched(number, spec) => self.config_sched(*number, spec),
            Command::ConfigQueue(number, spec) => self.config_queue(*number, spec),
            Command::DeleteObjects(kind, which) => self.delete_objects(*kind, which),
            Command::FlushObjects(_) => Ok(self.flush_objects()),
            Command::ShowObjects(kind, which) => Ok(Query::Objects(*kind, which.clone()).into()),
            Command::Add(rule) => self.add_rule(rule),
            Command::DeleteRules(selection) => self.delete_rules(selection),
            Command::ListRules { which, counters } => {
                Ok(Query::Rules { which: which.clone(), counters: *counters }.into())
            }
            Command::Zero(which) => self.zero(which),
            Command::FlushRules => Ok(self.flush_rules()),
            Command::Set(command) => self.set(command),
            Command::Table(name, command) => self.table(name, command),
            Command::AllTables(command) => Ok(self.all_tables(*command)),
            Command::OnePass(on) => {
                let changed = std::mem::replace(&mut self.one_pass, *on) != *on;
                Ok(Outcome::changed(changed))
            }
            Command::NetConfig(NetConfigCommand::List) => Ok(Query::NetConfigs.into()),
            Command::NetConfig(command) => self.netconfig(command),
            Command::Nothing => Ok(Outcome::changed(false)),
        }
    }

    /// Applies a script, either completely or not at all.
    ///
    /// # Errors
    /// A command of the script cannot be applied. The error names a command as documented at
    /// [`ScriptError`]. The configuration remains unchanged.
    pub fn apply_all(&mut self, commands: &[Spanned]) -> Result<Vec<Outcome>, ScriptError> {
        let mut trial = self.clone();
        let mut outcomes = Vec::with_capacity(commands.len());
        for (index, Spanned { command, line, .. }) in commands.iter().enumerate() {
            outcomes.push(trial.apply(command).map_err(|error| ScriptError {
                index,
                line: *line,
                error,
            })?);
        }
        trial.share_files(commands).map_err(|(index, error)| ScriptError {
            index,
            line: commands[index].line,
            error,
        })?;
        outcomes.iter_mut().for_each(|outcome| outcome.settle(&trial));
        *self = trial;
        Ok(outcomes)
    }
}

impl Outcome {
    pub(super) fn changed(changed: bool) -> Self {
        Self {
            effect: if changed { Effect::Changed } else { Effect::Nothing },
            warnings: Vec::new(),
        }
    }

    /// Removes warnings about missing objects if a later command has configured these objects in
    /// `ruleset`.
    pub fn settle(&mut self, ruleset: &Ruleset) {
        self.warnings.retain(|warning| ruleset.still_holds(warning));
    }

    pub(super) fn warn(mut self, warnings: impl IntoIterator<Item = Warning>) -> Self {
        self.warnings.extend(warnings);
        self
    }
}

impl From<Query> for Outcome {
    fn from(query: Query) -> Self {
        Self { effect: Effect::Query(query), warnings: Vec::new() }
    }
}

/// Stores a shared value under a key. Returns whether this changed the map.
pub(super) fn put<K: Ord + Clone, V: PartialEq>(
    map: &mut Arc<std::collections::BTreeMap<K, Arc<V>>>,
    key: K,
    value: V,
) -> bool
where
    std::collections::BTreeMap<K, Arc<V>>: Clone,
{
    if map.get(&key).is_some_and(|old| **old == value) {
        return false;
    }
    Arc::make_mut(map).insert(key, Arc::new(value));
    true
}

impl Numbers {
    /// Whether the range contains a number.
    pub fn contains(self, number: u16) -> bool {
        (self.first..=self.last).contains(&number)
    }
}

/// Whether `which` contains a number; an empty list contains all numbers.
pub fn wanted(which: &[Numbers], number: u16) -> bool {
    which.is_empty() || which.iter().any(|n| n.contains(number))
}
