//! Commands carried out: which part of the configuration each changes, and what it answers.

use std::sync::Arc;

use super::{ApplyError, Ruleset, ScriptError, Warning};
use crate::command::{Command, NetConfigCommand, Numbers, ObjectKind, Spanned};
use crate::rule::Name;
use crate::table::TableKey;

/// What a command did.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What it did, or asks for.
    pub effect: Effect,
    /// What is accepted and probably not what was meant.
    pub warnings: Vec<Warning>,
}

/// What a command did to the configuration, or what its caller is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Nothing: the line has no meaning here, or the configuration was like that already.
    Nothing,
    /// The configuration has changed.
    Changed,
    /// A rule was added.
    Rule {
        /// Its number.
        number: u16,
        /// Its identity.
        id: u32,
    },
    /// The counters of these rules are to be set to zero, by identity.
    Zero(Vec<u32>),
    /// Something is to be shown.
    Query(Query),
}

/// What is to be shown. The configuration is here, the counters are the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// Pipes, queues or schedulers; no numbers mean all.
    Objects(ObjectKind, Vec<Numbers>),
    /// Rules; no numbers mean all.
    Rules {
        /// Which.
        which: Vec<Numbers>,
        /// With counters.
        counters: bool,
    },
    /// Which sets are on.
    Sets,
    /// The entries of a table.
    Table(Name),
    /// What a table is.
    TableInfo(Name),
    /// The entry of a table that a key finds, if any.
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
    /// What all tables are.
    AllTablesInfo,
    /// Links made by `netconfig`.
    NetConfigs,
}

impl Ruleset {
    /// Carries out one command, all of it or nothing.
    ///
    /// # Errors
    /// [`ApplyError`] says what does not fit this configuration; it has not changed then.
    pub fn apply(&mut self, command: &Command) -> Result<Outcome, ApplyError> {
        match command {
            Command::ConfigPipe(number, spec) => self.config_pipe(*number, spec),
            Command::ConfigSched(number, spec) => self.config_sched(*number, spec),
            Command::ConfigQueue(number, spec) => Ok(self.config_queue(*number, spec)),
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

    /// Carries out a script, all of it or nothing.
    ///
    /// # Errors
    /// The first command that cannot be carried out; the configuration has not changed then.
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

/// Puts a shared value behind a key; whether that changed anything.
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
    /// Whether a number is among them.
    pub fn contains(self, number: u16) -> bool {
        (self.first..=self.last).contains(&number)
    }
}

/// Whether a number was asked for; no list asks for all.
pub fn wanted(which: &[Numbers], number: u16) -> bool {
    which.is_empty() || which.iter().any(|n| n.contains(number))
}
