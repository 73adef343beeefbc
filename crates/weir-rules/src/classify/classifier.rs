//! The compiled ruleset: how it is built and updated. [`super::run`] applies it to packets.

use std::sync::Arc;

use super::compile::{Compiler, any_test, enabled, heads, tables};
use super::index::Index;
use super::place::Place;
use super::program::{Head, Program};
use super::tables::Tables;
use crate::rule::{Address, Name, RuleAction, Test};
use crate::ruleset::{Entry, Ruleset};
use crate::table::TableKey;

/// A ruleset that is compiled for a place. A classifier is immutable. A changed ruleset becomes a
/// new classifier, which shares the unchanged parts with the old one.
#[derive(Clone, Debug)]
pub struct Classifier {
    rules: Arc<Rules>,
    tables: Tables,
}

/// A program with its index, if it has one.
#[derive(Debug)]
struct Indexed(Program, Option<Index>);

impl Indexed {
    fn new(program: Program) -> Self {
        let index = Index::new(&program);
        Self(program, index)
    }
}

/// The part of a classifier that depends on the rules but not on the entries of tables.
#[derive(Debug)]
struct Rules {
    /// The rules from which the programs were compiled.
    source: Arc<Vec<Entry>>,
    enabled_sets: u32,
    one_pass: bool,
    place: Place,
    heads: Arc<[Head]>,
    /// The programs, in ascending order of the [`code`] of their pass.
    programs: Vec<(u64, Indexed)>,
    /// The program for all other passes.
    any: Indexed,
    /// The result of [`Classifier::needs_each_segment`].
    each_segment: bool,
    /// The result of [`Classifier::needs_key`].
    key: bool,
    /// The result of [`Classifier::needs_tags`].
    tags: bool,
}

impl Classifier {
    /// Compiles a ruleset.
    pub fn compile(ruleset: &Ruleset, place: &Place) -> Self {
        Self::build(ruleset, place, None)
    }

    fn build(ruleset: &Ruleset, place: &Place, before: Option<&Self>) -> Self {
        let names = ruleset.rules.iter().flat_map(|entry| tables(&entry.rule));
        let tables = Tables::new(names, ruleset, place, before.map(|before| &before.tables));
        let compiled = |pass| Indexed::new(Compiler::run(ruleset, place, &tables, pass));
        let mut programs: Vec<(u64, Indexed)> =
            place.passes.iter().map(|pass| (code(pass), compiled(Some(*pass)))).collect();
        programs.sort_by_key(|(code, _)| *code);
        programs.dedup_by_key(|(code, _)| *code);
        let tags = |rule: &crate::rule::Rule| rule.tag.is_some() || rule.untag.is_some();
        let rules = Rules {
            source: Arc::clone(&ruleset.rules),
            enabled_sets: ruleset.enabled_sets,
            one_pass: ruleset.one_pass,
            place: place.clone(),
            heads: heads(ruleset).into(),
            programs,
            any: compiled(None),
            each_segment: any_test(ruleset, differs_in_train)
                || enabled(ruleset).any(|rule| rule.probability.is_some()),
            key: any_test(ruleset, uses_key)
                || enabled(ruleset).any(|rule| matches!(rule.action, RuleAction::CheckState(_))),
            tags: any_test(ruleset, |test| matches!(test, Test::Tagged(_)))
                || enabled(ruleset).any(tags),
        };
        Self { rules: Arc::new(rules), tables }
    }

    /// Returns the classifier for the current state of `ruleset` in the same place. The new
    /// classifier shares the unchanged parts with this one: the programs if the rules, sets and
    /// `one_pass` are the same, and each unchanged table.
    pub fn recompile(&self, ruleset: &Ruleset) -> Self {
        let rules = &self.rules;
        let same_rules = Arc::ptr_eq(&rules.source, &ruleset.rules)
            && (rules.enabled_sets, rules.one_pass) == (ruleset.enabled_sets, ruleset.one_pass);
        if !same_rules {
            return Self::build(ruleset, &rules.place, Some(self));
        }
        let mut new = self.clone();
        new.tables.refresh(ruleset, &rules.place);
        new
    }

    /// Returns the classifier after a change of some entries of one table; no other part may have
    /// changed. `keys` are the entries that were added, removed or changed, and `ruleset` contains
    /// the current table. The cost depends on the number of `keys`, not on the size of the table.
    pub fn update_table(&self, ruleset: &Ruleset, table: &Name, keys: &[TableKey]) -> Self {
        let mut new = self.clone();
        new.tables.update(table, keys, ruleset, &self.rules.place);
        new
    }

    /// Whether packets of one offload train may get different verdicts, because rules draw random
    /// numbers or test lengths, identifications, sequence numbers or flags.
    pub fn needs_each_segment(&self) -> bool {
        self.rules.each_segment
    }

    /// Whether any rule needs the packet's flow key, for a test or for a dynamic rule.
    pub fn needs_key(&self) -> bool {
        self.rules.key
    }

    /// Whether any rule sets, removes or tests tags.
    pub fn needs_tags(&self) -> bool {
        self.rules.tags
    }

    pub(super) fn one_pass(&self) -> bool {
        self.rules.one_pass
    }

    pub(super) fn heads(&self) -> &Arc<[Head]> {
        &self.rules.heads
    }

    /// The rules in source form, in the order of their heads.
    pub(super) fn source(&self) -> &[Entry] {
        &self.rules.source
    }

    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    pub(super) fn place(&self) -> &Place {
        &self.rules.place
    }

    /// The program for a pass, with its index.
    #[inline]
    pub(super) fn program(&self, pass: &super::Pass) -> (&Program, Option<&Index>) {
        let code = code(pass);
        let found = match self.rules.programs.binary_search_by_key(&code, |(code, _)| *code) {
            Ok(at) => &self.rules.programs[at].1,
            Err(_) => &self.rules.any,
        };
        (&found.0, found.1.as_ref())
    }
}

/// Encodes a pass as one number.
fn code(pass: &super::Pass) -> u64 {
    let interface = |number: Option<u16>| number.map_or(0, |n| u64::from(n) + 1);
    interface(pass.recv)
        | interface(pass.xmit) << 17
        | u64::from(pass.out) << 34
        | u64::from(pass.bridged) << 35
}

/// Whether a test may hold for one packet of an offload train and fail for another.
fn differs_in_train(test: &Test) -> bool {
    match test {
        Test::IpLength(_) | Test::IpId(_) | Test::TcpSeq(_) | Test::TcpDataLength(_) => true,
        // Only the last packet has FIN or PSH; only the first has CWR.
        Test::TcpFlags { set, clear } => (set | clear) & (1 | 8 | 0x80) != 0,
        _ => false,
    }
}

/// Whether a test reads the flow key.
fn uses_key(test: &Test) -> bool {
    match test {
        Test::SrcAddress(list) | Test::DstAddress(list) => !list.contains(&Address::Any),
        Test::In
        | Test::Out
        | Test::Via(_)
        | Test::Recv(_)
        | Test::Xmit(_)
        | Test::Layer2
        | Test::Bridged
        | Test::Tagged(_) => false,

        _ => true,
    }
}
