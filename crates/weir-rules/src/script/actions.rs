//! The table of a rule's actions.

use crate::diagnostic::Code;
use crate::rule::{RuleAction, Target};

use super::cursor::{Cursor, Read};
use super::names::{self, DSCPS};
use super::refused::refusal;
use super::row::{Row, row};

/// Reads the words after the name of an action.
type Take = fn(&mut Cursor<'_>) -> Read<RuleAction>;

/// Reads an action.
pub(crate) fn action(cursor: &mut Cursor<'_>) -> Read<RuleAction> {
    let word = cursor.expect("an action", "add 100 pipe 1 ip from any to any out")?;
    if let Some(row) = ACTIONS.iter().find(|row| row.is(&word.text) && !word.quoted) {
        return (row.take)(cursor);
    }
    if let Some(error) = refusal(cursor, &word) {
        return Err(error);
    }
    if word.text == "sched" {
        let error = cursor.error(
            Code::UnknownKeyword,
            &word.span,
            "a rule sends packets to a queue, not to a scheduler",
        );
        let help = "configure `queue N config sched M` and write `queue N`";
        return Err(Box::new(error.label("did you mean `queue`?").help(help)));
    }
    Err(cursor.unknown(&word, "action", ACTIONS.iter().flat_map(Row::words)))
}

/// Reads the DSCP that must follow, or `tablearg`.
fn set_dscp(cursor: &mut Cursor<'_>) -> Read<RuleAction> {
    if cursor.take("tablearg") {
        return Ok(RuleAction::SetDscp(Target::TableArg));
    }
    let word = cursor.expect("a DSCP", "setdscp ef")?;
    Ok(RuleAction::SetDscp(Target::Number(dscp(cursor, &word)?.into())))
}

/// Parses a word as a DSCP, by name or number.
pub(crate) fn dscp(cursor: &Cursor<'_>, word: &crate::lex::Word) -> Read<u8> {
    match names::dscp(&word.text) {
        Some(code) => Ok(code),
        None if word.text.starts_with(|c: char| c.is_ascii_digit()) => {
            Ok(cursor.number_in(word, "DSCP", 0, 63)? as u8)
        }
        None => Err(cursor.unknown(word, "DSCP", DSCPS.iter().map(|(name, _)| *name))),
    }
}

fn pipe(cursor: &mut Cursor<'_>) -> Read<RuleAction> {
    cursor
        .target("a pipe's number", 1, u16::MAX, "add pipe 1 ip from any to any")
        .map(RuleAction::Pipe)
}

fn queue(cursor: &mut Cursor<'_>) -> Read<RuleAction> {
    cursor
        .target("a queue's number", 1, u16::MAX, "add queue 1 ip from any to any")
        .map(RuleAction::Queue)
}

fn skip_to(cursor: &mut Cursor<'_>) -> Read<RuleAction> {
    cursor
        .target("a rule's number", 1, u16::MAX, "add skipto 1000 tcp from any to any")
        .map(RuleAction::SkipTo)
}

fn call(cursor: &mut Cursor<'_>) -> Read<RuleAction> {
    cursor
        .target("a rule's number", 1, u16::MAX, "add call 1000 tcp from any to any")
        .map(RuleAction::Call)
}

fn check_state(cursor: &mut Cursor<'_>) -> Read<RuleAction> {
    // `:any` selects states with any name. No state is named `any`.
    if cursor.take(":any") {
        return Ok(RuleAction::CheckState(Some("any".into())));
    }
    cursor.state_name().map(RuleAction::CheckState)
}

/// All actions.
pub(crate) const ACTIONS: &[Row<Take>] = &[
    row(
        "allow",
        &["accept", "pass", "permit"],
        "",
        "The packet passes; the search ends.",
        "add allow ip from any to any",
        |_| Ok(RuleAction::Allow),
    ),
    row(
        "deny",
        &["drop"],
        "",
        "The packet is dropped; the search ends.",
        "add deny udp from any to any 53",
        |_| Ok(RuleAction::Deny),
    ),
    row(
        "count",
        &[],
        "",
        "The packet is counted; the search continues.",
        "add count tcp from any to any",
        |_| Ok(RuleAction::Count),
    ),
    row(
        "pipe",
        &[],
        "N|tablearg",
        "The packet goes through a pipe; the search ends, unless `one_pass` is off.",
        "add pipe 1 ip from any to any out",
        pipe,
    ),
    row(
        "queue",
        &[],
        "N|tablearg",
        "The packet goes into a queue; the search ends, unless `one_pass` is off.",
        "add queue 1 ip from any to any out",
        queue,
    ),
    row(
        "skipto",
        &[],
        "N|tablearg",
        "The search continues at rule N or the first rule after it, never backwards.",
        "add skipto 1000 tcp from any to any",
        skip_to,
    ),
    row(
        "call",
        &[],
        "N|tablearg",
        "Like `skipto`, but also backwards; `return` continues after this rule. Up to 16 levels.",
        "add call 1000 tcp from any to any",
        call,
    ),
    row(
        "return",
        &[],
        "",
        "The search continues after the last `call`.",
        "add return ip from any to any",
        |_| Ok(RuleAction::Return),
    ),
    row(
        "setdscp",
        &[],
        "DSCP|tablearg",
        "The DSCP is rewritten, by name or number; the search continues.",
        "add setdscp ef udp from any to any 5060",
        set_dscp,
    ),
    row(
        "check-state",
        &[],
        "[:NAME]",
        "Dynamic rules are checked here instead of at the first `keep-state` or `limit`.",
        "add check-state :web",
        check_state,
    ),
];
