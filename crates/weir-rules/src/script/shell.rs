//! The part of a line before the command, where scripts may use some of a shell's language:
//! assignments, the program's name, and flags.

use crate::command::Command;
use crate::diagnostic::Code;
use crate::diagnostic::shorten;

use super::commands::COMMANDS;
use super::cursor::{Cursor, Read};
use super::lex::is_assignment;
use super::refused::refusal;

/// Reads a line: assignments, or a command.
pub(crate) fn read(cursor: &mut Cursor<'_>) -> Read<Vec<Command>> {
    if cursor.at_end() {
        return Ok(Vec::new());
    }
    if cursor.plain().is_some_and(is_assignment) {
        return assignments(cursor);
    }
    only_words(cursor)?;
    program(cursor);
    flags(cursor)?;
    let Some(word) = cursor.next() else { return Ok(Vec::new()) };
    cursor.start = word.span.start;
    let dry = cursor.flags.dry;
    let Some(row) = COMMANDS.iter().find(|row| row.is(&word.text) && !word.quoted) else {
        return Err(unknown(cursor, &word));
    };
    let commands = (row.take)(cursor)?;
    cursor.end()?;
    if dry {
        cursor.ignore(&word.span, "a command with `-n`", "`-n` only checks it");
        return Ok(vec![Command::Nothing]);
    }
    Ok(commands)
}

fn assignments(cursor: &mut Cursor<'_>) -> Read<Vec<Command>> {
    while let Some(word) = cursor.next() {
        let Some((name, value)) =
            word.text.split_once('=').filter(|_| is_assignment(&word.text) && !word.quoted)
        else {
            let error = cursor.error(Code::Shell, &word.span, "a command behind an assignment");
            let help = "write the assignment on a separate line, and quote a value with spaces";
            return Err(Box::new(error.label("not an assignment").help(help)));
        };
        if let Err(too_much) = cursor.context.variables.assign(name, value) {
            let error = cursor.error(Code::TooMuch, &word.span, too_much.to_string());
            return Err(Box::new(error.label("more than that").help(too_much.help())));
        }
    }
    Ok(Vec::new())
}

/// Refuses operators that join commands, or redirect their input or output.
fn only_words(cursor: &Cursor<'_>) -> Read<()> {
    let joins = |text: &str| {
        let text = text.trim_start_matches(|c: char| c.is_ascii_digit());
        matches!(text, "&" | "&&" | "|" | "||")
            || text.ends_with(';')
            || text.starts_with(['>', '<'])
    };
    match cursor.words.iter().find(|word| !word.quoted && joins(&word.text)) {
        None => Ok(()),
        Some(word) => {
            let error = cursor.error(Code::Shell, &word.span, "only a shell can carry this out");
            Err(Box::new(
                error
                    .label("an operator of a shell")
                    .help("write each command into a line of its own, without redirections"),
            ))
        }
    }
}

/// Skips `sudo` and the program's name, so that Weir can read a shell script unchanged.
fn program(cursor: &mut Cursor<'_>) {
    cursor.take("sudo");
    let named = cursor.plain().is_some_and(|word| {
        let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
        PROGRAMS.contains(&name)
    });
    cursor.at += usize::from(named);
}

fn flags(cursor: &mut Cursor<'_>) -> Read<()> {
    while let Some(word) =
        cursor.peek().filter(|w| !w.quoted && w.text.len() > 1 && w.text.starts_with('-')).cloned()
    {
        cursor.at += 1;
        for letter in word.text[1..].chars() {
            match letter {
                'q' => cursor.flags.quiet = true,
                'a' => cursor.flags.counters = true,
                'n' => cursor.flags.dry = true,
                's' => {
                    cursor.expect("a field to sort by", "-s 1 pipe show")?;
                    cursor.ignore(&word.span, "`-s`", "lists are in the order of numbers");
                }
                'p' => {
                    let error = cursor.error(Code::Shell, &word.span, "a preprocessor is not run");
                    let help = "run it yourself and give its output: `m4 rules | weir check -`";
                    return Err(Box::new(error.label("names a program to run").help(help)));
                }
                letter if SILENT_FLAGS.contains(letter) => {}
                letter => {
                    let message = format!("`-{letter}` is no flag");
                    let allowed = "-a -b -c -d -D -e -f -i -n -N -q -s -S -t -T -v";
                    return Err(Box::new(
                        cursor
                            .error(Code::UnknownKeyword, &word.span, message)
                            .label(format!("allowed: {allowed}")),
                    ));
                }
            }
        }
    }
    Ok(())
}

/// The diagnostic for a first word that is not a command.
fn unknown(cursor: &Cursor<'_>, word: &crate::lex::Word) -> Box<crate::diagnostic::Diagnostic> {
    let text = word.text.as_str();
    if let Some(error) = refusal(cursor, word) {
        return error;
    }
    if SHELL_WORDS.contains(&text) || text.ends_with("()") || text.starts_with(['.', '[']) {
        let error = cursor.error(
            Code::Shell,
            &word.span,
            format!("`{}` needs a shell, and Weir reads scripts without one", shorten(text)),
        );
        let help = "a script may have these parts of a shell's language: `name=\"value\"`, `$name`, \
                    quotes, comments and lines that end with `\\`";
        return Box::new(error.label("only a shell can carry this out").help(help));
    }
    if text.contains('/') {
        let error = cursor.error(
            Code::UnknownKeyword,
            &word.span,
            format!("`{}` is no command", shorten(text)),
        );
        return Box::new(
            error
                .label("a file's name")
                .help("a file is read by `weir check FILE`, or with `--rules FILE`"),
        );
    }
    cursor.unknown(word, "command", COMMANDS.iter().map(|row| row.entry.name))
}

/// Names of programs that a command may begin with.
const PROGRAMS: [&str; 6] = ["ipfw", "dnctl", "weir", "ipfw.exe", "dnctl.exe", "weir.exe"];
/// Flags that only change the output or suppress questions. In a script they have no effect.
const SILENT_FLAGS: &str = "bcdDefiNStTv";
/// First words of lines that only a shell can carry out: its keywords and builtins, and other
/// programs.
const SHELL_WORDS: &[&str] = &[
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac",
    "in", "function", "source", "exit", "return", "eval", "exec", "export", "local", "read",
    "shift", "test", "trap", "unset", "wait", "break", "continue", "echo", "printf", "sleep", "cd",
    "{", "}", "(", ")", "!", "ifconfig", "route", "iptables", "tc", "ip", "pfctl",
];
