//! Rules and sets: numbering, age, deletion.

use std::sync::Arc;

use super::netconfig::is_netconfig_rule;
use super::{ApplyError, Effect, Entry, MAX_RULES, Outcome, Ruleset};
use crate::command::{Numbers, RuleSelection, SetCommand};
use crate::rule::{DEFAULT_RULE, RESERVED_SET, Rule, RuleAction, SETS, Target};

impl Ruleset {
    pub(super) fn add_rule(&mut self, rule: &Rule) -> Result<Outcome, ApplyError> {
        if rule.number == DEFAULT_RULE {
            return Err(ApplyError::DefaultRule);
        }
        if let (true, RuleAction::Pipe(Target::Number(number))) =
            (is_netconfig_rule(rule), rule.action.clone())
        {
            return Err(ApplyError::Reserved { number });
        }
        if self.rules.len() >= MAX_RULES {
            return Err(ApplyError::TooManyRules);
        }
        let number = if rule.number == 0 { self.next_number() } else { rule.number };
        let rule = Rule { number, ..rule.clone() };
        let warnings = self.rule_warnings(&rule);
        let id = self.insert_rule(rule);
        Ok(Outcome { effect: Effect::Rule { number, id }, warnings })
    }

    /// Inserts a rule after those with the same number. Returns its identity.
    pub(super) fn insert_rule(&mut self, rule: Rule) -> u32 {
        let id = self.next_id;
        self.next_id += 1;
        let place = self.rules.partition_point(|entry| entry.rule.number <= rule.number);
        Arc::make_mut(&mut self.rules).insert(place, Entry { id, rule: Arc::new(rule) });
        id
    }

    /// The number for a new rule. The rules of `netconfig` do not count.
    fn next_number(&self) -> u16 {
        let last = self
            .rules
            .iter()
            .rev()
            .find(|entry| !is_netconfig_rule(&entry.rule))
            .map_or(0, |entry| entry.rule.number);
        number_after(last)
    }

    pub(super) fn delete_rules(
        &mut self,
        selection: &RuleSelection,
    ) -> Result<Outcome, ApplyError> {
        match selection {
            RuleSelection::Set(set) => Ok(self.retain(|rule| rule.set != *set)),
            RuleSelection::Numbers(which, set) => {
                let meant = |rule: &Rule| set.is_none_or(|set| rule.set == set);
                for numbers in which {
                    if *numbers == (Numbers { first: DEFAULT_RULE, last: DEFAULT_RULE }) {
                        return Err(ApplyError::DefaultRule);
                    }
                    let mut found = self
                        .users_rules()
                        .filter(|rule| meant(rule) && numbers.contains(rule.number));
                    found.next().ok_or(ApplyError::NoRule { number: numbers.first })?;
                }
                Ok(self
                    .retain(|rule| !(meant(rule) && which.iter().any(|n| n.contains(rule.number)))))
            }
        }
    }

    pub(super) fn flush_rules(&mut self) -> Outcome {
        self.retain(|rule| rule.set == RESERVED_SET)
    }

    /// Requests to reset the counters of these rules; the default rule has the identity 0.
    pub(super) fn zero(&self, which: &[Numbers]) -> Result<Outcome, ApplyError> {
        let found = |numbers: &Numbers| {
            self.rules.iter().any(|e| numbers.contains(e.rule.number))
                || numbers.contains(DEFAULT_RULE)
        };
        if let Some(absent) = which.iter().find(|numbers| !found(numbers)) {
            return Err(ApplyError::NoRule { number: absent.first });
        }
        let mut ids: Vec<u32> = self
            .rules
            .iter()
            .filter(|e| super::wanted(which, e.rule.number))
            .map(|e| e.id)
            .collect();
        if super::wanted(which, DEFAULT_RULE) {
            ids.push(DEFAULT_RULE_ID);
        }
        Ok(Outcome { effect: Effect::Zero(ids), warnings: Vec::new() })
    }

    pub(super) fn set(&mut self, command: &SetCommand) -> Result<Outcome, ApplyError> {
        match *command {
            SetCommand::Switch { enable, disable } => {
                if disable & 1 << RESERVED_SET != 0 {
                    return Err(ApplyError::KeptSet);
                }
                let sets = (self.enabled_sets & !disable) | enable;
                Ok(Outcome::changed(std::mem::replace(&mut self.enabled_sets, sets) != sets))
            }
            SetCommand::MoveRule { rule: number, to } => {
                self.users_rules()
                    .find(|rule| rule.number == number)
                    .ok_or(ApplyError::NoRule { number })?;
                Ok(self.move_rules(|rule| if rule.number == number { to } else { rule.set }))
            }
            SetCommand::MoveSet { from, to } => {
                Ok(self.move_rules(|rule| if rule.set == from { to } else { rule.set }))
            }
            SetCommand::Swap(a, b) => Ok(self.move_rules(|rule| match rule.set {
                set if set == a => b,
                set if set == b => a,
                set => set,
            })),
            SetCommand::Show => Ok(super::Query::Sets.into()),
        }
    }

    /// Whether a set is enabled.
    pub fn is_enabled(&self, set: u8) -> bool {
        set < SETS && self.enabled_sets & 1 << set != 0
    }

    /// Deletes the rules that `keep` rejects, except those of `netconfig`.
    fn retain(&mut self, keep: impl Fn(&Rule) -> bool) -> Outcome {
        let keep = |entry: &Entry| is_netconfig_rule(&entry.rule) || keep(&entry.rule);
        let all = self.rules.iter().all(keep);
        if !all {
            Arc::make_mut(&mut self.rules).retain(keep);
        }
        Outcome::changed(!all)
    }

    /// Assigns a set to every rule, except those of `netconfig`.
    fn move_rules(&mut self, set_of: impl Fn(&Rule) -> u8) -> Outcome {
        let moves = |rule: &Rule| !is_netconfig_rule(rule) && set_of(rule) != rule.set;
        if !self.rules.iter().any(|entry| moves(&entry.rule)) {
            return Outcome::changed(false);
        }
        for entry in Arc::make_mut(&mut self.rules).iter_mut().filter(|entry| moves(&entry.rule)) {
            let set = set_of(&entry.rule);
            Arc::make_mut(&mut entry.rule).set = set;
        }
        Outcome::changed(true)
    }

    /// The rules that `netconfig` did not create.
    fn users_rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|entry| &*entry.rule).filter(|rule| !is_netconfig_rule(rule))
    }
}

/// The number of a new rule: `last` plus 100 or, if the sum is too large for a rule, `last` again.
pub(crate) fn number_after(last: u16) -> u16 {
    if last < DEFAULT_RULE - STEP { last + STEP } else { last }
}

/// The difference between consecutive assigned numbers.
const STEP: u16 = 100;
/// The identity of the default rule in counters.
pub const DEFAULT_RULE_ID: u32 = 0;
