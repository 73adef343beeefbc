//! Commands: the table of their first words, and the readers of the short commands.

use crate::command::{Command, Numbers, ObjectKind, RuleSelection, SetCommand};
use crate::diagnostic::Code;
use crate::diagnostic::shorten;
use crate::rule::{DEFAULT_RULE, SETS};

use super::cursor::{Cursor, Read};
use super::netconfig::netconfig;
use super::objects::object;
use super::row::{Row, row};
use super::rule::{add, set_number};
use super::tables::table;

/// Reads the words after the first word of a command.
type Take = fn(&mut Cursor<'_>) -> Read<Vec<Command>>;

/// Reads `delete N…`, `delete set S`, `delete set S N…` or `delete pipe|queue|sched N…`.
fn delete(cursor: &mut Cursor<'_>) -> Read<Vec<Command>> {
    for (word, kind) in
        [("pipe", ObjectKind::Pipe), ("queue", ObjectKind::Queue), ("sched", ObjectKind::Sched)]
    {
        if cursor.take(word) {
            let numbers = cursor.numbers(&format!("{word}'s number"), 1, u16::MAX)?;
            return if numbers.is_empty() {
                Err(cursor.missing("a number", "delete pipe 1"))
            } else {
                Ok(vec![Command::DeleteObjects(kind, numbers)])
            };
        }
    }
    let set = if cursor.take("set") { Some(set_number(cursor)?) } else { None };
    delete_rules(cursor, set)
}

fn delete_rules(cursor: &mut Cursor<'_>, set: Option<u8>) -> Read<Vec<Command>> {
    let numbers = rules(cursor)?;
    match (set, numbers.is_empty()) {
        (None, true) => Err(cursor.missing("a rule's number", "delete 100 200-299")),
        (Some(set), true) => Ok(vec![Command::DeleteRules(RuleSelection::Set(set))]),
        (set, false) => Ok(vec![Command::DeleteRules(RuleSelection::Numbers(numbers, set))]),
    }
}

fn rules(cursor: &mut Cursor<'_>) -> Read<Vec<Numbers>> {
    cursor.numbers("rule's number", 1, DEFAULT_RULE)
}

fn list(cursor: &mut Cursor<'_>, counters: bool) -> Read<Vec<Command>> {
    for (word, kind) in
        [("pipe", ObjectKind::Pipe), ("queue", ObjectKind::Queue), ("sched", ObjectKind::Sched)]
    {
        if cursor.take(word) {
            return Ok(vec![Command::ShowObjects(
                kind,
                cursor.numbers(&format!("{word}'s number"), 1, u16::MAX)?,
            )]);
        }
    }
    let counters = counters || cursor.flags.counters;
    Ok(vec![Command::ListRules { which: rules(cursor)?, counters }])
}

fn flush(cursor: &mut Cursor<'_>) -> Read<Vec<Command>> {
    for (word, kind) in
        [("pipe", ObjectKind::Pipe), ("queue", ObjectKind::Queue), ("sched", ObjectKind::Sched)]
    {
        if cursor.take(word) {
            return Ok(vec![Command::FlushObjects(kind)]);
        }
    }
    Ok(vec![Command::FlushRules])
}

fn set(cursor: &mut Cursor<'_>) -> Read<Vec<Command>> {
    if cursor.plain().is_some_and(|w| w.starts_with(|c: char| c.is_ascii_digit())) {
        let set = set_number(cursor)?;
        let verb = cursor.expect("`delete`", "set 2 delete 100")?;
        return match verb.text.as_str() {
            "delete" => delete_rules(cursor, Some(set)),
            _ => Err(cursor.unknown(&verb, "verb behind a set", ["delete"].into_iter())),
        };
    }
    let verb = cursor.expect("a verb", "set disable 2")?;
    let example = "set move 2 to 3";
    let command = match verb.text.as_str() {
        "enable" | "disable" => {
            cursor.at -= 1;
            switch(cursor)?
        }
        "move" => {
            let rule = cursor.take("rule");
            let from = if rule {
                cursor.number("rule's number", 1, u64::from(DEFAULT_RULE) - 1, example)?
            } else {
                set_number(cursor)?.into()
            };
            if !cursor.take("to") {
                return Err(cursor.missing("`to`", example));
            }
            let to = set_number(cursor)?;
            if rule {
                SetCommand::MoveRule { rule: from as u16, to }
            } else {
                SetCommand::MoveSet { from: from as u8, to }
            }
        }
        "swap" => SetCommand::Swap(set_number(cursor)?, set_number(cursor)?),
        "show" | "list" => SetCommand::Show,
        _ => {
            return Err(cursor.unknown(
                &verb,
                "verb of `set`",
                ["enable", "disable", "move", "swap", "show"].into_iter(),
            ));
        }
    };
    Ok(vec![Command::Set(command)])
}

/// Reads `disable N… enable N…`, in any order.
fn switch(cursor: &mut Cursor<'_>) -> Read<SetCommand> {
    let (mut enable, mut disable) = (0u32, 0u32);
    let mut on = true;
    while let Some(word) = cursor.next() {
        match word.text.as_str() {
            "enable" => on = true,
            "disable" => on = false,
            _ => {
                let bit = 1 << cursor.number_in(&word, "set's number", 0, u64::from(SETS) - 1)?;
                let (to, other) = if on { (&mut enable, disable) } else { (&mut disable, enable) };
                *to |= bit;
                if other & bit != 0 {
                    let error = cursor.error(
                        Code::Contradiction,
                        &word.span,
                        format!("set {} is turned on and off", word.text),
                    );
                    return Err(Box::new(
                        error.label("the second time").help("remove one of the two"),
                    ));
                }
            }
        }
    }
    if enable | disable == 0 {
        return Err(cursor.missing("a set's number", "set disable 2 enable 3"));
    }
    if disable >> (SETS - 1) != 0 {
        let span = cursor.words[cursor.at - 1].span.clone();
        let error = cursor.out_of_range(&span, "31", "a set to disable", "0 to 30");
        return Err(Box::new(error.help("set 31 is always on")));
    }
    Ok(SetCommand::Switch { enable, disable })
}

fn switch_one_pass(cursor: &mut Cursor<'_>, on: bool) -> Read<Vec<Command>> {
    let word = cursor.expect("what to switch", "disable one_pass")?;
    match word.text.as_str() {
        "one_pass" => Ok(vec![Command::OnePass(on)]),
        "debug" | "verbose" | "dyn_keepalive" | "altq" => {
            cursor.ignore(
                &word.span,
                &format!("`{}`", word.text),
                "a switch of the kernel's firewall",
            );
            Ok(vec![Command::Nothing])
        }
        "firewall" => {
            let error = cursor.error(Code::KernelOnly, &word.span, "the classifier is always on");
            let help =
                "without rules everything passes: `flush`, or `set disable N` for a part of them";
            Err(Box::new(error.label("cannot be switched").help(help)))
        }
        _ => Err(cursor.unknown(
            &word,
            "switch",
            ["one_pass", "debug", "verbose", "dyn_keepalive"].into_iter(),
        )),
    }
}

/// Reads `sysctl NAME=VALUE…`. Settings that Weir has take effect. For the kernel's own settings,
/// a note states that they have no effect.
fn sysctl(cursor: &mut Cursor<'_>) -> Read<Vec<Command>> {
    let mut commands = Vec::new();
    while let Some(word) = cursor.next() {
        let Some((name, value)) = word.text.split_once('=').filter(|_| !word.text.starts_with('-'))
        else {
            if word.text.starts_with('-') {
                continue;
            }
            let message = format!("`{}` sets nothing", shorten(&word.text));
            return Err(cursor.bad(&word.span, message, "NAME=VALUE"));
        };
        commands.push(match (name, value) {
            ("net.inet.ip.fw.one_pass", "0") => Command::OnePass(false),
            ("net.inet.ip.fw.one_pass", "1") => Command::OnePass(true),
            ("net.inet.ip.fw.one_pass", _) => {
                return Err(cursor.bad(
                    &word.span,
                    format!("`{}` is no value of `one_pass`", shorten(value)),
                    "0 or 1",
                ));
            }
            _ => {
                cursor.ignore(&word.span, &format!("`{}`", shorten(name)), sysctl_meaning(name));
                Command::Nothing
            }
        });
    }
    Ok(commands)
}

/// Why a setting of the kernel has no effect in Weir.
fn sysctl_meaning(name: &str) -> &'static str {
    let last = name.rsplit('.').next().unwrap_or(name);
    match last {
        "hash_size" | "max_chain_len" => "tables grow automatically",
        "io_fast" => "there is no tick to wait for",
        "pipe_slot_limit" | "pipe_byte_limit" => "the size of a queue has no such ceiling",
        "expire" | "expire_cycle" => "idle flows expire automatically",
        _ if last.starts_with("tick") || last == "hz" => {
            "there is no tick: each packet leaves at its own time"
        }
        _ => "a setting of the operating system's kernel",
    }
}

/// Accepts a command of the operating system that Weir does not need.
fn nothing(cursor: &mut Cursor<'_>) -> Read<Vec<Command>> {
    let span = cursor.words[cursor.at - 1].span.clone();
    let name = format!("`{}`", cursor.words[cursor.at - 1].text);
    cursor.take_rest();
    cursor.ignore(&span, &name, "nothing has to be loaded into a kernel");
    Ok(vec![Command::Nothing])
}

fn no_op(cursor: &mut Cursor<'_>) -> Read<Vec<Command>> {
    cursor.take_rest();
    Ok(vec![Command::Nothing])
}

/// All commands.
pub(crate) const COMMANDS: &[Row<Take>] = &[
    row(
        "pipe",
        &[],
        "N config SPEC | delete N… | show [N…] | flush",
        "A link with a queue in front of it. `SPEC` is a link specification.",
        "pipe 1 config bw 1Mbit/s delay 20ms",
        |c| object(c, ObjectKind::Pipe),
    ),
    row(
        "queue",
        &[],
        "N config sched M|pipe M [weight …] | delete N… | show [N…] | flush",
        "A queue in front of a scheduler, or in front of the scheduler of a pipe.",
        "queue 1 config sched 5 weight 10 mask dst-ip 0x000000ff",
        |c| object(c, ObjectKind::Queue),
    ),
    row(
        "sched",
        &[],
        "N config [type NAME [SETTING VALUE]…] [parent M] SPEC | delete N… | show [N…] | flush",
        "A scheduler and its link; with a mask, one of both for each masked value.",
        "sched 5 config type fifo bw 10Mbit/s mask src-ip 0xffffffff",
        |c| object(c, ObjectKind::Sched),
    ),
    row(
        "add",
        &[],
        "[N] [set S] [prob P] ACTION [log] [tag N] [untag N] BODY [// COMMENT]",
        "Adds a rule. Without a number, the rule gets the last rule's number plus 100.",
        "add 100 pipe 1 tcp from 10.0.0.0/8 to any 80 out // web",
        add,
    ),
    row(
        "delete",
        &[],
        "N… | set S [N…]",
        "Deletes rules by number, range or set.",
        "delete 100 200-299",
        delete,
    ),
    row(
        "list",
        &["print"],
        "[N…]",
        "Prints rules; with the flag `-a`, their counters too.",
        "list 100",
        |c| list(c, false),
    ),
    row("show", &[], "[N…]", "Prints rules and their counters.", "show", |c| list(c, true)),
    row("zero", &[], "[N…]", "Sets counters to zero.", "zero 100", |c| {
        Ok(vec![Command::Zero(rules(c)?)])
    }),
    row("resetlog", &[], "[N…]", "The same as `zero`.", "resetlog 100", |c| {
        Ok(vec![Command::Zero(rules(c)?)])
    }),
    row("flush", &[], "", "Deletes all rules except those of set 31.", "-f flush", flush),
    row(
        "set",
        &[],
        "disable N… enable N… | move [rule] N to M | swap N M | show",
        "Turns sets of rules on and off, moves rules between them.",
        "set disable 2 enable 3",
        set,
    ),
    row(
        "table",
        &[],
        "NAME create|destroy|add|delete|flush|swap|lock|unlock|list|info|lookup … | all …",
        "Tables in which rules look up addresses, interfaces, numbers and flows.",
        "table customers add 10.0.0.0/24 5",
        table,
    ),
    row(
        "enable",
        &[],
        "one_pass",
        "A packet that departs from a pipe passes; no further rules apply.",
        "enable one_pass",
        |c| switch_one_pass(c, true),
    ),
    row(
        "disable",
        &[],
        "one_pass",
        "A packet that departs from a pipe continues at the next rule.",
        "disable one_pass",
        |c| switch_one_pass(c, false),
    ),
    row(
        "sysctl",
        &[],
        "NAME=VALUE…",
        "`net.inet.ip.fw.one_pass` is `enable` or `disable one_pass`; the kernel's other settings \
         are accepted and ignored.",
        "sysctl net.inet.ip.fw.one_pass=0",
        sysctl,
    ),
    row(
        "netconfig",
        &[],
        "config client|server|service PORTS [PEERS] IN SPEC OUT SPEC [expire T] | list | delete \
         MODE PORTS | flush",
        "A link for one service, in both directions, with its rules.",
        "netconfig config client 80 IN delay 100ms OUT bw 1Mbit/s",
        netconfig,
    ),
    row(
        "kldload",
        &["kldunload", "kldstat", "modprobe", "insmod"],
        "…",
        "Accepted and ignored: nothing has to be loaded into a kernel.",
        "kldload dummynet",
        nothing,
    ),
    row(":", &["true"], "", "Does nothing.", ":", no_op),
];
