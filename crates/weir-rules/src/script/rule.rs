//! `add`: number, set, probability, action, tags and log, followed by the body.

use crate::command::Command;
use crate::diagnostic::Code;
use crate::quantity;
use crate::rule::{DEFAULT_RULE, Rule, SETS};

use super::actions::action;
use super::body::body;
use super::cursor::{Cursor, Read};

/// Reads the words after `add`.
pub(crate) fn add(cursor: &mut Cursor<'_>) -> Read<Vec<Command>> {
    let number = number(cursor)?;
    let set = if cursor.take("set") { set_number(cursor)? } else { 0 };
    let mut rule = Rule {
        number,
        set,
        probability: None,
        action: crate::rule::RuleAction::Count,
        tag: None,
        untag: None,
        log: false,
        body: Vec::new(),
        comment: cursor.comment.take().map(Into::into),
    };
    if cursor.take_any(&["prob", "probability"]) {
        let word = cursor.expect("a probability", "add prob 0.3 pipe 1 ip from any to any")?;
        let probability = quantity::probability(&word.text);
        rule.probability = Some(probability.map_err(|_| {
            let message = format!("`{}` is no probability", crate::diagnostic::shorten(&word.text));
            cursor.bad(&word.span, message, "a number, 0 to 1 or 0% to 100%")
        })?);
    }
    rule.action = action(cursor)?;
    modifiers(cursor, &mut rule)?;
    rule.body = body(cursor)?;
    Ok(vec![Command::Add(Box::new(rule))])
}

fn number(cursor: &mut Cursor<'_>) -> Read<u16> {
    let is_number = cursor.plain().is_some_and(|w| w.starts_with(|c: char| c.is_ascii_digit()));
    if !is_number {
        return Ok(0);
    }
    let last = u64::from(DEFAULT_RULE) - 1;
    if cursor.take("65535") {
        let span = cursor.words[cursor.at - 1].span.clone();
        let error = cursor.out_of_range(&span, "65535", "a rule's number", &format!("1 to {last}"));
        return Err(Box::new(
            error.help(
                "65535 is the default rule, which lets everything pass and cannot be changed",
            ),
        ));
    }
    Ok(cursor.number("rule's number", 1, last, "add 100 allow ip from any to any")? as u16)
}

/// Reads the number of a set, which must follow.
pub(crate) fn set_number(cursor: &mut Cursor<'_>) -> Read<u8> {
    Ok(cursor.number(
        "set's number",
        0,
        u64::from(SETS) - 1,
        "add 100 set 2 allow ip from any to any",
    )? as u8)
}

/// Reads `log`, `tag` and `untag` between the action and the body.
fn modifiers(cursor: &mut Cursor<'_>, rule: &mut Rule) -> Read<()> {
    loop {
        let Some(word) = cursor.peek().filter(|w| !w.quoted).cloned() else { return Ok(()) };
        let example = "add count tag 7 tcp from any to any 80";
        let repeated = match word.text.as_str() {
            "log" => rule.log,
            "tag" => rule.tag.is_some(),
            "untag" => rule.untag.is_some(),
            "altq" => return super::refused::refusal(cursor, &word).map_or(Ok(()), Err),
            _ => return Ok(()),
        };
        if repeated {
            let error =
                cursor.error(Code::Repeated, &word.span, format!("`{}` is given twice", word.text));
            return Err(Box::new(error.label("the second time").help("remove one of the two")));
        }
        cursor.at += 1;
        match word.text.as_str() {
            "log" => {
                rule.log = true;
                cursor.ignore(
                    &word.span,
                    "`log`",
                    "nothing is written; counters and `--pcap` show what matches",
                );
                if cursor.take("logamount") {
                    cursor.number(
                        "number of lines",
                        0,
                        u32::MAX.into(),
                        "add deny log logamount 100 ip from any to any",
                    )?;
                }
            }
            "tag" => rule.tag = Some(cursor.target("a tag", 1, u16::MAX - 1, example)?),
            _ => rule.untag = Some(cursor.target("a tag", 1, u16::MAX - 1, example)?),
        }
    }
}
