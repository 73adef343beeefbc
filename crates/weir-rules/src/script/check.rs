//! Checks a whole script for objects that it refers to but never configures, commands that fail if
//! nothing was configured before the script, jumps to missing or earlier rules, endless calls, and
//! `tablearg` in rules without a look-up.

use std::collections::BTreeSet;

use crate::command::{Command, Spanned, TableCommand};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span};
use crate::rule::{Address, Clause, Interface, Name, Rule, RuleAction, Target, Test};
use crate::ruleset::{Ruleset, number_after};

use super::body::is_any;

/// Checks the commands of a script together. `text` is the script, and `name` is its name in
/// diagnostics.
///
/// All these diagnostics are warnings, because the script may depend on an earlier configuration.
pub fn check(commands: &[Spanned], text: &str, name: &str) -> Diagnostics {
    let mut checker = Checker {
        text,
        name,
        known: Known::default(),
        rules: Vec::new(),
        last: 0,
        diagnostics: Diagnostics::default(),
    };
    for command in commands {
        checker.collect(command);
    }
    let mut configuration = Ruleset::default();
    for (at, command) in commands.iter().enumerate() {
        checker.references(command);
        if at >= MOST_APPLIED {
            continue;
        }
        if let Err(error) = configuration.apply(&command.command) {
            let place = checker.place(command, &[]);
            let message = format!("this fails when nothing was configured before: {error}");
            checker.say(
                Code::NotApplied,
                command,
                place,
                &message,
                "refused then",
                "remove it, or configure what it needs first",
            );
        }
    }
    checker.jumps();
    checker.diagnostics
}

/// The objects that a script configures.
#[derive(Debug, Default)]
struct Known {
    pipes: BTreeSet<u16>,
    scheds: BTreeSet<u16>,
    queues: BTreeSet<u16>,
    tables: BTreeSet<Name>,
}

struct Checker<'a> {
    text: &'a str,
    name: &'a str,
    known: Known,
    /// Rules with their numbers, in the order of the script.
    rules: Vec<(u16, &'a Rule, &'a Spanned)>,
    /// The largest number in `rules`.
    last: u16,
    diagnostics: Diagnostics,
}

impl<'a> Checker<'a> {
    fn collect(&mut self, spanned: &'a Spanned) {
        match &spanned.command {
            Command::ConfigPipe(n, _) => _ = self.known.pipes.insert(*n),
            Command::ConfigSched(n, _) => _ = self.known.scheds.insert(*n),
            Command::ConfigQueue(n, _) => _ = self.known.queues.insert(*n),
            Command::Table(name, TableCommand::Create { .. } | TableCommand::Add { .. }) => {
                _ = self.known.tables.insert(name.clone());
            }
            Command::Table(name, TableCommand::Swap(other)) => {
                self.known.tables.extend([name.clone(), other.clone()]);
            }
            Command::FlushRules => {
                self.rules.clear();
                self.last = 0;
            }
            Command::Add(rule) => {
                let number = if rule.number == 0 { number_after(self.last) } else { rule.number };
                self.last = self.last.max(number);
                self.rules.push((number, rule, spanned));
            }
            _ => {}
        }
    }

    fn references(&mut self, spanned: &Spanned) {
        match &spanned.command {
            Command::ConfigQueue(_, spec) => {
                let n = spec.scheduler;
                if !self.known.pipes.contains(&n) && !self.known.scheds.contains(&n) {
                    let place = self
                        .place(spanned, &[&["sched", &n.to_string()], &["pipe", &n.to_string()]]);
                    self.missing(
                        spanned,
                        place,
                        &format!("scheduler {n}"),
                        &format!("sched {n} config type wf2q+ bw 10Mbit/s"),
                    );
                }
            }
            Command::ConfigSched(_, spec) => {
                let missing =
                    |n: &u16| !self.known.pipes.contains(n) && !self.known.scheds.contains(n);
                if let Some(n) = spec.scheduler.parent.filter(missing) {
                    let place = self.place(spanned, &[&["parent", &n.to_string()]]);
                    self.missing(
                        spanned,
                        place,
                        &format!("scheduler {n}"),
                        &format!("sched {n} config type wf2q+ bw 10Mbit/s"),
                    );
                }
            }
            Command::Add(rule) => self.rule(spanned, rule),
            _ => {}
        }
    }

    fn rule(&mut self, spanned: &Spanned, rule: &Rule) {
        let object = match rule.action {
            RuleAction::Pipe(Target::Number(n))
                if !self.known.pipes.contains(&n) && !self.known.scheds.contains(&n) =>
            {
                Some(("pipe", n, "bw 1Mbit/s"))
            }
            RuleAction::Queue(Target::Number(n)) if !self.known.queues.contains(&n) => {
                Some(("queue", n, "sched 1"))
            }
            _ => None,
        };
        if let Some((kind, n, example)) = object {
            let place = self.place(spanned, &[&[kind, &n.to_string()]]);
            self.missing(
                spanned,
                place,
                &format!("{kind} {n}"),
                &format!("{kind} {n} config {example}"),
            );
        }
        let tests =
            || rule.body.iter().flat_map(|clause: &Clause| clause.0.iter().map(|term| &term.test));
        for table in tests().flat_map(tables) {
            if !self.known.tables.contains(table) {
                let place = self.place(spanned, &[&[&format!("table({table})")], &[table]]);
                self.missing(
                    spanned,
                    place,
                    &format!("table {table}"),
                    &format!("table {table} create"),
                );
            }
        }
        let by_table = matches!(
            rule.action,
            RuleAction::Pipe(Target::TableArg)
                | RuleAction::Queue(Target::TableArg)
                | RuleAction::SkipTo(Target::TableArg)
                | RuleAction::Call(Target::TableArg)
                | RuleAction::SetDscp(Target::TableArg)
        );
        if by_table && tests().flat_map(tables).next().is_none() {
            let place = self.place(spanned, &[&["tablearg"]]);
            let message = "`tablearg` is the value that the rule's table finds, and this rule \
                           looks nothing up";
            self.say(
                Code::NoEffect,
                spanned,
                place,
                message,
                "never matches",
                "add `lookup dst-ip NAME`, or an address `table(NAME)`",
            );
        }
    }

    fn jumps(&mut self) {
        let mut order = std::mem::take(&mut self.rules);
        order.sort_by_key(|(number, ..)| *number);
        let last = order.last().map_or(0, |(number, ..)| *number);
        // For each rule, the number of preceding rules that can end a chain of calls.
        let mut ended = vec![0usize];
        ended.extend(order.iter().scan(0, |sum, (_, rule, _)| {
            *sum += usize::from(ends(rule));
            Some(*sum)
        }));
        for (at, (number, rule, spanned)) in order.iter().enumerate() {
            let (to, word) = match rule.action {
                RuleAction::SkipTo(Target::Number(to)) => (to, "skipto"),
                RuleAction::Call(Target::Number(to)) => (to, "call"),
                _ => continue,
            };
            let place = self.place(spanned, &[&[word, &to.to_string()]]);
            if to > last && to <= LAST {
                let message = format!("there is no rule {to} and none behind it");
                self.say(
                    Code::NotConfigured,
                    spanned,
                    place,
                    &message,
                    "leads to the default rule",
                    "add the rule, or use `allow`",
                );
            } else if word == "skipto" && to <= *number {
                let message = format!("`skipto` only goes forward, and this is rule {number}");
                self.say(
                    Code::Backwards,
                    spanned,
                    place,
                    &message,
                    "goes on with the next rule",
                    "use `call`, which goes backwards too",
                );
            } else if word == "call" && to <= *number {
                let first = order.partition_point(|(number, ..)| *number < to);
                if ended[at] == ended[first.min(at)] {
                    let message = format!("rule {number} calls itself");
                    let help = "let a `return` end what is called; a packet that goes round too \
                                often is dropped";
                    self.say(
                        Code::CallLoop,
                        spanned,
                        place,
                        &message,
                        "leads back to this rule",
                        help,
                    );
                }
            }
        }
    }

    fn missing(&mut self, spanned: &Spanned, place: Span, what: &str, example: &str) {
        let message = format!("{what} is not configured in this script");
        self.say(
            Code::NotConfigured,
            spanned,
            place,
            &message,
            "referred to here",
            &format!("for example `{example}`"),
        );
    }

    fn say(
        &mut self,
        code: Code,
        spanned: &Spanned,
        place: Span,
        message: &str,
        label: &str,
        help: &str,
    ) {
        let line = &self.text[spanned.span.clone()];
        let mut diagnostic =
            Diagnostic::new(code, line, place, message).label(label).help(help).in_file(self.name);
        diagnostic.line += spanned.line - 1;
        self.diagnostics.push(diagnostic);
    }

    /// The place of the first of these sequences of words within a command; the whole command if it
    /// contains none of them.
    fn place(&self, spanned: &Spanned, sequences: &[&[&str]]) -> Span {
        let line = &self.text[spanned.span.clone()];
        let words: Vec<Span> =
            line.split_whitespace().map(|word| crate::diagnostic::span_of(line, word)).collect();
        let is = |span: &Span, wanted: &str| line[span.clone()].trim_end_matches(',') == wanted;
        for wanted in sequences {
            let found = words
                .windows(wanted.len())
                .find(|some| some.iter().zip(*wanted).all(|(span, word)| is(span, word)));
            if let Some([first, .., last] | [first @ last]) = found {
                return first.start..last.end;
            }
        }
        words.first().map_or(0..0, |first| first.start..line.trim_end().len())
    }
}

/// The tables that a test uses.
fn tables(test: &Test) -> impl Iterator<Item = &Name> {
    let addresses: &[Address] = match test {
        Test::SrcAddress(all) | Test::DstAddress(all) => all,
        _ => &[],
    };
    let single = match test {
        Test::Lookup { table, .. } | Test::Flow(table) => Some(&table.table),
        Test::Via(Interface::Table(table))
        | Test::Recv(Interface::Table(table))
        | Test::Xmit(Interface::Table(table)) => Some(&table.table),
        _ => None,
    };
    let listed = addresses.iter().filter_map(|address| match address {
        Address::Table(table) => Some(&table.table),
        _ => None,
    });
    listed.chain(single)
}

/// Whether a rule can end a chain of calls: it returns to the caller, or it decides about every
/// packet.
fn ends(rule: &Rule) -> bool {
    let everything = rule.probability.is_none() && rule.body.iter().all(is_any);
    match rule.action {
        RuleAction::Return => true,
        RuleAction::Allow | RuleAction::Deny => everything,
        _ => false,
    }
}

/// Maximum number of commands that the check applies, starting from an empty configuration. More
/// would take too long, because adding rules out of order is expensive.
const MOST_APPLIED: usize = 20_000;
/// The largest number of a rule that can be added.
const LAST: u16 = crate::rule::DEFAULT_RULE - 1;
