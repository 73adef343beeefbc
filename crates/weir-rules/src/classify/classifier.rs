//! The compiled ruleset: how it is made and changed. How it is used is in [`super::run`].

use std::sync::Arc;

use super::compile::{Compiler, any_test, enabled, heads, tables};
use super::place::Place;
use super::program::{Head, Program};
use super::tables::Tables;
use super::{Packet, Resume, State, Verdict};
use crate::rule::{Address, Name, RuleAction, Test};
use crate::ruleset::{Entry, Ruleset};
use crate::table::TableKey;

/// A ruleset, compiled for a place. It does not change; a changed ruleset is another classifier,
/// which shares with this one what is the same.
#[derive(Clone, Debug)]
pub struct Classifier {
    rules: Arc<Rules>,
    tables: Tables,
}

/// All that depends on rules and not on the entries of tables.
#[derive(Debug)]
struct Rules {
    /// What it was compiled from.
    source: Arc<Vec<Entry>>,
    enabled_sets: u32,
    one_pass: bool,
    place: Place,
    heads: Arc<[Head]>,
    /// By pass, in ascending order of [`code`].
    programs: Vec<(u64, Program)>,
    any: Program,
    each_segment: bool,
    key: bool,
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
        let compiled = |pass| Compiler::run(ruleset, place, &tables, pass);
        let mut programs: Vec<(u64, Program)> =
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

    /// The classifier for this ruleset as it is now, in the same place. What has not changed since
    /// this one was compiled is taken over: the programs if no rule or set has, and each table that
    /// has not.
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

    /// The classifier after entries of one table were added, removed or given other values, and
    /// nothing else has changed. The cost is that of the entries, not of the table. `ruleset` has
    /// the table as it is now.
    pub fn update_table(&self, ruleset: &Ruleset, table: &Name, keys: &[TableKey]) -> Self {
        let mut new = self.clone();
        new.tables.update(table, keys, ruleset, &self.rules.place);
        new
    }

    /// Says what becomes of a packet, and counts it at the rules that matched. `from` is where a
    /// verdict said that the search goes on; `None` starts at the first rule.
    #[inline]
    pub fn classify(
        &self,
        state: &mut State,
        packet: &mut Packet<'_>,
        from: Option<Resume>,
    ) -> Verdict {
        let bytes = packet.len.into();
        self.classify_train(state, packet, from, 1, bytes)
    }

    /// The same for an offload train of `packets` wire packets with `bytes` network-layer bytes in
    /// all, which are treated alike. Where [`Self::needs_each_segment`] says so, they may not be.
    pub fn classify_train(
        &self,
        state: &mut State,
        packet: &mut Packet<'_>,
        from: Option<Resume>,
        packets: u64,
        bytes: u64,
    ) -> Verdict {
        state.carry_over(self);
        super::run::run(self, state, packet, from, (packets, bytes))
    }

    /// Whether packets of one offload train may be treated differently, so that each needs a
    /// verdict of its own: rules draw, or look at lengths, sequence numbers or flags.
    pub fn needs_each_segment(&self) -> bool {
        self.rules.each_segment
    }

    /// Whether any rule looks at the packet's flow key.
    pub fn needs_key(&self) -> bool {
        self.rules.key
    }

    /// Whether any rule gives, takes or looks at tags.
    pub fn needs_tags(&self) -> bool {
        self.rules.tags
    }

    pub(super) fn one_pass(&self) -> bool {
        self.rules.one_pass
    }

    pub(super) fn heads(&self) -> &Arc<[Head]> {
        &self.rules.heads
    }

    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    pub(super) fn place(&self) -> &Place {
        &self.rules.place
    }

    /// The program for a pass.
    #[inline]
    pub(super) fn program(&self, pass: &super::Pass) -> &Program {
        let code = code(pass);
        match self.rules.programs.binary_search_by_key(&code, |(code, _)| *code) {
            Ok(at) => &self.rules.programs[at].1,
            Err(_) => &self.rules.any,
        }
    }

    /// Where the rule with this number and identity is; else the first rule with a larger number.
    pub(super) fn find(&self, number: u16, id: u32) -> Result<u32, u32> {
        let heads = &self.rules.heads;
        let first = heads.partition_point(|head| head.number < number);
        let same = heads[first..].partition_point(|head| head.number == number);
        match heads[first..first + same].iter().position(|head| head.id == id) {
            Some(at) => Ok((first + at) as u32),
            None => Err((first + same) as u32),
        }
    }

    /// Whether there is a rule with this identity.
    pub(super) fn has_rule(&self, number: u16, id: u32) -> bool {
        self.find(number, id).is_ok()
    }
}

/// A pass as one number.
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
        // Only the last one ends the stream or pushes it; only the first says that the window was
        // reduced.
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
