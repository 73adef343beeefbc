//! Compiles rules to programs.

use super::Pass;
use super::place::Place;
use super::prefixes::{Prefix, Prefixes};
use super::program::{ANY_VALUE, Check, Head, Inputs, Keep, Op, Program, Step, TableRef, Which};
use super::tables::Tables;
use super::view::{Side, View, holds_in};
use crate::rule::{
    Address, Clause, DEFAULT_RULE, Interface, Name, Rule, RuleAction, TableMatch, Target, Test,
};
use crate::ruleset::Ruleset;

/// The heads of all rules, followed by the default rule's head.
pub(super) fn heads(ruleset: &Ruleset) -> Vec<Head> {
    let mut streams = 0..;
    let mut heads: Vec<Head> = ruleset
        .rules
        .iter()
        .map(|entry| Head {
            number: entry.rule.number,
            id: entry.id,
            enabled: ruleset.enabled_sets >> entry.rule.set & 1 == 1,
            probability: entry.rule.probability,
            stream: entry.rule.probability.and_then(|_| streams.next()),
            action: entry.rule.action.clone(),
            tag: entry.rule.tag,
            untag: entry.rule.untag,
            keep: terms(&entry.rule).find_map(keep),
        })
        .collect();
    heads.push(Head {
        number: DEFAULT_RULE,
        id: super::DEFAULT_ID,
        enabled: true,
        probability: None,
        stream: None,
        action: RuleAction::Allow,
        tag: None,
        untag: None,
        keep: None,
    });
    heads
}

/// All tests of a rule.
pub(super) fn terms(rule: &Rule) -> impl Iterator<Item = &Test> {
    rule.body.iter().flat_map(|clause| &clause.0).map(|term| &term.test)
}

/// All tables that a rule names.
pub(super) fn tables(rule: &Rule) -> impl Iterator<Item = &Name> {
    let addresses = |test| match test {
        &Test::SrcAddress(ref list) | &Test::DstAddress(ref list) => list.as_slice(),
        _ => &[],
    };
    let in_list = move |test| {
        addresses(test).iter().filter_map(|address| {
            if let Address::Table(table) = address { Some(table) } else { None }
        })
    };
    let single = |test| match test {
        &Test::Lookup { ref table, .. }
        | &Test::Flow(ref table)
        | &Test::Via(Interface::Table(ref table))
        | &Test::Recv(Interface::Table(ref table))
        | &Test::Xmit(Interface::Table(ref table)) => Some(table),
        _ => None,
    };
    terms(rule).flat_map(move |test| in_list(test).chain(single(test))).map(|table| &table.table)
}

fn keep(test: &Test) -> Option<Keep> {
    match test {
        Test::KeepState(name) => Some(Keep { name: name.clone(), limit: None, probes: true }),
        Test::RecordState(name) => Some(Keep { name: name.clone(), limit: None, probes: false }),
        Test::Limit { mask, most, name } => {
            Some(Keep { name: name.clone(), limit: Some((*mask, *most)), probes: true })
        }
        _ => None,
    }
}

/// Whether a rule matches frames of any kind. Such a rule tests the link layer and tests nothing of
/// IP. `from any to any` tests nothing.
pub(super) fn takes_frames(rule: &Rule) -> bool {
    let about_link = |test: &Test| {
        matches!(test, Test::Layer2 | Test::Mac { .. } | Test::MacType(_) | Test::Vlan(_))
    };
    let about_ip = |test: &Test| match test {
        Test::In
        | Test::Out
        | Test::Via(_)
        | Test::Recv(_)
        | Test::Xmit(_)
        | Test::Bridged
        | Test::Tagged(_) => false,
        Test::SrcAddress(list) | Test::DstAddress(list) => !list.contains(&Address::Any),
        other => !about_link(other),
    };
    terms(rule).any(about_link) && !terms(rule).any(about_ip)
}

/// Whether a rule tests for departing packets, by `out`, `xmit` or `not in`. Only such rules apply
/// to a packet that leaves a bridge.
pub(super) fn outwards(rule: &Rule) -> bool {
    rule.body.iter().flat_map(|clause| &clause.0).any(|term| match term.test {
        Test::Out | Test::Xmit(_) => !term.not,
        Test::In => term.not,
        _ => false,
    })
}

/// The first of a rule's clauses that does not hold for a packet; `None` if all hold.
pub(super) fn failing<'a>(
    rule: &'a Rule,
    place: &Place,
    tables: &Tables,
    view: &View<'_>,
    tags: &[u16],
) -> Option<&'a Clause> {
    let holds = |clause: &Clause| {
        let mut compiler = Compiler { place, tables, pass: None, program: Program::default() };
        let possible = compiler.clause(clause);
        let count = compiler.program.ops.len() as u32;
        let step = Step { rule: 0, first: 0, count, ip: false, probes: false, inwards: false };
        let inputs = Inputs { tables, place, tags };
        possible && compiler.program.matches(&step, view, inputs, &mut None)
    };
    rule.body.iter().find(|clause| !holds(clause))
}

/// The result of evaluating a test at compile time, for the pass of the program.
enum Folded {
    Known(bool),
    AtRunTime(Check),
}

/// Compiles the program for one pass, or the program for any pass.
pub(super) struct Compiler<'a> {
    place: &'a Place,
    tables: &'a Tables,
    /// The pass of the program; `None` for any pass.
    pass: Option<Pass>,
    program: Program,
}

impl<'a> Compiler<'a> {
    pub(super) fn run(
        ruleset: &Ruleset,
        place: &'a Place,
        tables: &'a Tables,
        pass: Option<Pass>,
    ) -> Program {
        let mut compiler = Self { place, tables, pass, program: Program::default() };
        for (at, entry) in ruleset.rules.iter().enumerate() {
            if ruleset.enabled_sets >> entry.rule.set & 1 == 1 {
                compiler.rule(at as u32, &entry.rule);
            }
        }
        compiler.program
    }

    fn rule(&mut self, at: u32, rule: &Rule) {
        let inwards = !outwards(rule);
        if inwards && self.pass.is_some_and(|pass| pass.bridged && pass.out) {
            return;
        }
        let first = self.program.ops.len();
        let possible = rule.body.iter().all(|clause| self.clause(clause));
        let probes = terms(rule).find_map(keep).is_some_and(|keep| keep.probes);
        if !possible {
            self.program.ops.truncate(first);
            if !probes {
                return;
            }
            self.program.ops.push(Op { check: Check::Never, not: false, last: true });
        }
        let count = (self.program.ops.len() - first) as u32;
        let step =
            Step { rule: at, first: first as u32, count, ip: !takes_frames(rule), probes, inwards };
        self.program.steps.push(step);
        self.program.numbers.push(rule.number);
    }

    /// Adds a clause. Returns `false` if it cannot hold.
    fn clause(&mut self, clause: &Clause) -> bool {
        let first = self.program.ops.len();
        for term in &clause.0 {
            match self.fold(&term.test) {
                Folded::Known(known) if known == term.not => {}
                Folded::Known(_) => {
                    // An earlier term may still perform a look-up that sets the rule's argument.
                    if self.program.ops.len() > first {
                        self.program.ops.push(Op { check: Check::Always, not: false, last: true });
                    }
                    return true;
                }
                Folded::AtRunTime(check) => {
                    self.program.ops.push(Op { check, not: term.not, last: false });
                }
            }
        }
        match self.program.ops[first..].last_mut() {
            Some(op) => {
                op.last = true;
                true
            }
            None => false,
        }
    }

    fn fold(&mut self, test: &Test) -> Folded {
        let pool = &mut self.program.pool;
        Folded::AtRunTime(match test {
            Test::In | Test::Out | Test::Bridged => match &self.pass {
                Some(pass) => return Folded::Known(holds_in(test, pass)),
                None => Check::Rare(put(&mut pool.rare, test.clone())),
            },
            Test::Layer2 | Test::KeepState(_) | Test::Limit { .. } | Test::RecordState(_) => {
                return Folded::Known(true);
            }
            Test::Via(interface) => return self.interface(Which::Via, interface),
            Test::Recv(interface) => return self.interface(Which::Recv, interface),
            Test::Xmit(interface) => return self.interface(Which::Xmit, interface),
            Test::SrcAddress(list) => return self.addresses(Side::Src, list),
            Test::DstAddress(list) => return self.addresses(Side::Dst, list),
            Test::Ip4 => Check::Ip4,
            Test::Ip6 => Check::Ip6,
            Test::Protocol(number) => Check::Protocol(*number),
            Test::SrcPort(spans) => match spans.as_slice() {
                [span] => Check::Port(Side::Src, *span),
                _ => Check::Ports(Side::Src, put(&mut pool.spans, spans.clone())),
            },
            Test::DstPort(spans) => match spans.as_slice() {
                [span] => Check::Port(Side::Dst, *span),
                _ => Check::Ports(Side::Dst, put(&mut pool.spans, spans.clone())),
            },
            Test::Tagged(spans) => Check::Tagged(put(&mut pool.spans, spans.clone())),
            Test::Lookup { field, table } => Check::Lookup(*field, self.table(table)),
            Test::Flow(table) => Check::Flow(self.table(table)),
            other => Check::Rare(put(&mut pool.rare, other.clone())),
        })
    }

    fn interface(&mut self, which: Which, wanted: &Interface) -> Folded {
        if let Interface::Table(table) = wanted {
            return Folded::AtRunTime(Check::InterfaceTable(which, self.table(table)));
        }
        match &self.pass {
            Some(pass) => {
                Folded::Known(which.of(pass).is_some_and(|number| self.place.is(number, wanted)))
            }
            None => Folded::AtRunTime(Check::Interface(
                which,
                put(&mut self.program.pool.interfaces, wanted.clone()),
            )),
        }
    }

    /// Compiles a list of addresses to one test or to a group of tests.
    fn addresses(&mut self, side: Side, list: &[Address]) -> Folded {
        let mut checks = Vec::new();
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        // The first table that matches determines the rule's argument, so a list with tables keeps
        // its order.
        let gather = list.len() > FEW_ADDRESSES
            && !list.iter().any(|address| matches!(address, Address::Table(_)));
        for address in list {
            match address {
                Address::Any => {
                    if checks.is_empty() {
                        return Folded::Known(true);
                    }
                    checks.push(Check::Always);
                }
                Address::Me => {
                    checks.extend(
                        self.place.all_me4().map(|address| Check::V4(side, address, u32::MAX)),
                    );
                    let me6 = self.place.all_me6().map(|address| {
                        Check::V6(side, put(&mut self.program.pool.v6, (address, u128::MAX)))
                    });
                    checks.extend(me6);
                }
                Address::Me6 => {
                    let me6 = self.place.all_me6().map(|address| {
                        Check::V6(side, put(&mut self.program.pool.v6, (address, u128::MAX)))
                    });
                    checks.extend(me6);
                }
                &Address::V4 { address, mask }
                    if gather && mask.leading_ones() == mask.count_ones() =>
                {
                    v4.push(Prefix { address, len: mask.count_ones() as u8, value: 0 });
                }
                &Address::V6 { address, mask }
                    if gather && mask.leading_ones() == mask.count_ones() =>
                {
                    v6.push(Prefix { address, len: mask.count_ones() as u8, value: 0 });
                }
                &Address::V4 { address, mask } => checks.push(Check::V4(side, address, mask)),
                &Address::V6 { address, mask } => {
                    checks.push(Check::V6(side, put(&mut self.program.pool.v6, (address, mask))));
                }
                &Address::Set { base, members } => {
                    checks
                        .push(Check::Set(side, put(&mut self.program.pool.sets, (base, members))));
                }
                Address::Table(table) => checks.push(Check::Address(side, self.table(table))),
            }
        }
        if !v4.is_empty() || !v6.is_empty() {
            v4.sort_unstable_by_key(|prefix| (prefix.address, prefix.len));
            v4.dedup();
            v6.sort_unstable_by_key(|prefix| (prefix.address, prefix.len));
            v6.dedup();
            let both = (Prefixes::new(&v4), Prefixes::new(&v6));
            checks.push(Check::Prefixes(side, put(&mut self.program.pool.prefixes, both)));
        }
        match checks.as_slice() {
            [] => Folded::Known(false),
            [check] => Folded::AtRunTime(*check),
            _ => Folded::AtRunTime(Check::Group(put(&mut self.program.pool.groups, checks))),
        }
    }

    fn table(&mut self, wanted: &TableMatch) -> TableRef {
        // Every table that a rule names has a number, so the default is never used.
        let table = self.tables.number(&wanted.table).unwrap_or(0);
        let value =
            wanted.value.map_or(ANY_VALUE, |value| put(&mut self.program.pool.values, value));
        TableRef { table, value }
    }
}

fn put<T>(list: &mut Vec<T>, item: T) -> u32 {
    list.push(item);
    (list.len() - 1) as u32
}

/// Whether any enabled rule contains a test that satisfies `wanted`.
pub(super) fn any_test(ruleset: &Ruleset, wanted: impl Fn(&Test) -> bool) -> bool {
    enabled(ruleset).any(|rule| terms(rule).any(&wanted))
}

/// The rules in enabled sets.
pub(super) fn enabled(ruleset: &Ruleset) -> impl Iterator<Item = &Rule> {
    ruleset
        .rules
        .iter()
        .map(|entry| &*entry.rule)
        .filter(|rule| ruleset.enabled_sets >> rule.set & 1 == 1)
}

/// The number of `target` or, for `tablearg`, the value `found` by the look-up.
pub(super) fn argument(target: Target, found: Option<u32>) -> Option<u32> {
    match target {
        Target::Number(number) => Some(number.into()),
        Target::TableArg => found,
    }
}

/// In a list with more addresses than this, and without tables, all prefixes are compiled to one
/// look-up.
const FEW_ADDRESSES: usize = 6;
