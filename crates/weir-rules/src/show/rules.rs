//! Views of rules.

use serde::{Deserialize, Serialize};

use super::Source;
use crate::command::{Command, Numbers};
use crate::rule::{DEFAULT_RULE, RESERVED_SET, Rule};
use crate::ruleset::{DEFAULT_RULE_ID, Ruleset, wanted};
use crate::script;

/// A rule with its counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleView {
    /// Its identity.
    pub id: u32,
    /// Its number.
    pub number: u16,
    /// Its set.
    pub set: u8,
    /// Whether the rule's set is enabled.
    pub enabled: bool,
    /// The rule in the language, without its number and set.
    pub rule: String,
    /// Packets that matched the rule.
    pub packets: u64,
    /// Network-layer bytes of these packets.
    pub bytes: u64,
    /// The time of the last match, in seconds since 1970.
    pub last_s: Option<u64>,
}

/// Views of the rules with the requested numbers. The default rule, if it is one of them, is last.
pub(super) fn views(ruleset: &Ruleset, which: &[Numbers], source: &dyn Source) -> Vec<RuleView> {
    let view = |(id, number, set, rule): (u32, u16, u8, String)| {
        let count = source.rule(id);
        let enabled = ruleset.is_enabled(set);
        RuleView {
            id,
            number,
            set,
            enabled,
            rule,
            packets: count.packets,
            bytes: count.bytes,
            last_s: count.last_s,
        }
    };
    let default = (DEFAULT_RULE_ID, DEFAULT_RULE, RESERVED_SET, DEFAULT_WORDS.to_owned());
    let rules = ruleset
        .rules
        .iter()
        .filter(|e| wanted(which, e.rule.number))
        .map(|e| (e.id, e.rule.number, e.rule.set, words(&e.rule)));
    rules.chain(wanted(which, DEFAULT_RULE).then_some(default)).map(view).collect()
}

/// The rule in the language, without its number and set.
fn words(rule: &Rule) -> String {
    let plain = Rule { number: 0, set: 0, ..rule.clone() };
    let line = script::print(&Command::Add(Box::new(plain)));
    line.strip_prefix("add ").unwrap_or(&line).to_owned()
}

/// The default rule in the language.
const DEFAULT_WORDS: &str = "allow ip from any to any";
