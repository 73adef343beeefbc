//! Scripts: the command language of `ipfw` and `dnctl`, line by line.
//!
//! A script contains the commands that a user would type: `pipe 1 config bw 1Mbit/s`,
//! `add pipe 1 ip from any to any out`. Each line is read separately, so that an error does not
//! hide the lines after it. Of a shell's language, scripts may use assignments
//! (`net="10.0.0.0/8"`), `$net` and `${net}`, quotes, comments and continued lines. Any other
//! construct is refused with a message that names it. A line without errors becomes [`Command`]s:
//! usually one, none if it is empty or an assignment, several if it is a `sysctl` with several
//! settings. [`print`] writes the canonical form of a command. [`check`] examines a script as a
//! whole: for example, it finds objects that the script refers to but never configures.
//!
//! The tables of commands, actions and options ([`commands`], [`actions`], [`options`],
//! [`REFUSED`]) drive the parser, the diagnostics, the reference in `docs/rules.md` and the tests.

mod actions;
mod address;
mod body;
mod check;
mod commands;
mod cursor;
pub mod docs;
mod format;
mod lex;
pub(crate) mod names;
mod netconfig;
mod objects;
mod options;
mod print;
mod refused;
mod row;
mod rule;
mod scheduler;
mod shell;
mod tables;
mod values;
mod variables;

pub use check::check;
pub use format::format;
pub use print::{print, print_clause};
pub use refused::{REFUSED, Refused};
pub use row::Entry;

use crate::command::{Command, Spanned};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Severity};
use crate::files::Files;
use crate::lex as words;
use crate::lex::Word;
use crate::parsed::ParsedFiles;
use crate::shared::SharedFiles;

use cursor::{Context, Cursor};
use lex::Lexed;

/// All commands.
pub fn commands() -> impl Iterator<Item = Entry> {
    commands::COMMANDS.iter().map(|row| row.entry)
}

/// All actions of rules.
pub fn actions() -> impl Iterator<Item = Entry> {
    actions::ACTIONS.iter().map(|row| row.entry)
}

/// All options of rules.
pub fn options() -> impl Iterator<Item = Entry> {
    options::OPTIONS.iter().map(|row| row.entry)
}

/// The content of a script.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The commands of the lines without errors, in order.
    pub commands: Vec<Spanned>,
    /// Errors, warnings and notes.
    pub diagnostics: Diagnostics,
}

/// Reads a script. `name` is its name in diagnostics; `files` supplies the files that
/// specifications name. All uses of a file share the value that was read from it.
///
/// Reading ends after [`MOST_ERRORS`] errors.
pub fn parse(text: &str, name: &str, files: &dyn Files) -> Parsed {
    let values = ParsedFiles::default();
    let files = &SharedFiles::new(files, &values);
    let mut parsed = Parsed::default();
    let mut context = Context::default();
    for line in lex::lines(text) {
        let mut diagnostics = Diagnostics::default();
        let commands = read_line(&line, files, &mut context, &mut diagnostics).commands;
        let place = |command| Spanned { command, span: line.span(), line: line.number };
        parsed.commands.extend(commands.into_iter().map(place));
        parsed.diagnostics.append(diagnostics, |diagnostic| {
            if diagnostic.file.is_none() {
                diagnostic.line += line.number - 1;
                diagnostic.file = Some(name.to_owned());
            }
        });
        if parsed.diagnostics.count(Severity::Error) >= MOST_ERRORS {
            let mut end = Diagnostic::new(
                Code::TooMuch,
                line.text,
                0..line.text.len(),
                "too many errors: reading ends here",
            )
            .label("the lines after this one are not read")
            .help("correct the first errors; the others may follow from them")
            .in_file(name);
            end.line = line.number;
            parsed.diagnostics.push(end);
            break;
        }
    }
    parsed
}

/// Reads one command that a shell has already split into words; a word may contain spaces. A single
/// word is read as a line.
pub fn parse_command(argv: &[String], files: &dyn Files) -> Parsed {
    if let [line] = argv {
        let mut parsed = parse(line, "", files);
        parsed.diagnostics = std::mem::take(&mut parsed.diagnostics).without_file("");
        return parsed;
    }
    let mut text = String::new();
    let mut list = Vec::new();
    for word in argv {
        if !text.is_empty() {
            text.push(' ');
        }
        let start = text.len();
        // Quotes only affect the display; parentheses and commas stay as typed.
        let quoted = word.is_empty() || word.contains(char::is_whitespace);
        text += &if quoted { words::quote(word, |_| true) } else { word.clone() };
        list.push(Word { text: word.clone(), span: start..text.len(), quoted });
    }
    let comment = lex::take_comment(&mut list);
    let mut diagnostics = Diagnostics::default();
    let mut context = Context::default();
    let lexed = Lexed { text: &text, words: list, comment, hash: None };
    let commands = read_words(lexed, files, &mut context, &mut diagnostics).commands;
    let place = |command| Spanned { command, span: 0..text.len(), line: 1 };
    Parsed { commands: commands.into_iter().map(place).collect(), diagnostics }
}

#[derive(Debug, Default)]
struct LineRead {
    commands: Vec<Command>,
    /// The offset of the command, which follows the program's name and flags.
    start: usize,
    /// A comment after `//` that belongs to no rule.
    comment: Option<String>,
    /// The offset of the `#` that starts a comment.
    hash: Option<usize>,
}

fn read_line(
    line: &lex::Line<'_>,
    files: &dyn Files,
    context: &mut Context,
    diagnostics: &mut Diagnostics,
) -> LineRead {
    if line.text.len() > LONGEST_LINE {
        let message = format!("a line of {} bytes is too long", line.text.len());
        diagnostics.push(
            Diagnostic::new(Code::TooMuch, line.text, 0..1, message)
                .label("begins here")
                .help("a line has up to 1000000 bytes"),
        );
        return LineRead::default();
    }
    match lex::words(line.text, &mut context.variables) {
        Ok(lexed) => read_words(lexed, files, context, diagnostics),
        Err(error) => {
            diagnostics.push(*error);
            LineRead::default()
        }
    }
}

fn read_words(
    lexed: Lexed<'_>,
    files: &dyn Files,
    context: &mut Context,
    diagnostics: &mut Diagnostics,
) -> LineRead {
    let hash = lexed.hash;
    let mut cursor = Cursor::new(lexed, files, context);
    let read = shell::read(&mut cursor);
    let Cursor { diagnostics: also, start, comment, .. } = cursor;
    let spoiled = also.has_errors();
    diagnostics.append(also, |_| {});
    let commands = read.unwrap_or_else(|error| {
        diagnostics.push(*error);
        Vec::new()
    });
    LineRead { commands: if spoiled { Vec::new() } else { commands }, start, comment, hash }
}

/// Whether a word begins a command of the language.
pub fn is_command(word: &str) -> bool {
    commands::COMMANDS.iter().any(|row| row.is(word))
}

/// The number of errors after which the rest of the script is not read.
pub const MOST_ERRORS: usize = 50;
/// Maximum length in bytes of a line that is read.
const LONGEST_LINE: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::NoFiles;

    fn canonical(text: &str) -> String {
        let parsed = parse(text, "t", &NoFiles);
        assert!(!parsed.diagnostics.has_errors(), "{text}\n{}", parsed.diagnostics);
        let lines: Vec<String> = parsed.commands.iter().map(|c| print(&c.command)).collect();
        let again = parse(&lines.join("\n"), "t", &NoFiles);
        let commands =
            |p: &Parsed| p.commands.iter().map(|c| c.command.clone()).collect::<Vec<_>>();
        assert_eq!(
            commands(&again),
            commands(&parsed),
            "{}\n{}",
            lines.join("\n"),
            again.diagnostics
        );
        lines.join("\n")
    }

    #[test]
    fn every_example_of_the_tables_reads_back() {
        for entry in commands().chain(actions()).chain(options()) {
            let text = canonical(entry.example);
            assert!(!text.is_empty(), "{}", entry.example);
        }
    }

    #[test]
    fn an_error_in_a_line_does_not_hide_later_lines() {
        let parsed = parse(
            "add allow ip from any\nadd deny out\nfoo\npipe 1 config bw x\nflush\n",
            "f",
            &NoFiles,
        );
        assert_eq!(parsed.commands.iter().map(|c| c.line).collect::<Vec<_>>(), [2, 5]);
        assert_eq!(
            parsed.diagnostics.iter().map(|d| (d.line, d.file.as_deref())).collect::<Vec<_>>(),
            [(1, Some("f")), (3, Some("f")), (4, Some("f"))]
        );
    }

    #[test]
    fn reading_ends_after_many_errors() {
        let text = "nonsense\n".repeat(1_000_000);
        let parsed = parse(&text, "f", &NoFiles);
        assert_eq!(parsed.diagnostics.count(Severity::Error), MOST_ERRORS + 1);
        assert_eq!(
            parsed.diagnostics.iter().last().map(|d| (d.code, d.line)),
            Some((Code::TooMuch, MOST_ERRORS))
        );
    }

    #[test]
    fn words_of_a_shell_are_one_command() {
        let argv = [
            "add", "100", "pipe", "1", "{", "tcp", "or", "udp", "}", "from", "any", "to",
            "table(1)", "//", "it's", "#1",
        ];
        let argv: Vec<String> = argv.into_iter().map(str::to_owned).collect();
        let parsed = parse_command(&argv, &NoFiles);
        assert_eq!(
            parsed.commands.iter().map(|c| print(&c.command)).collect::<Vec<_>>(),
            ["add 100 pipe 1 { tcp or udp } from any to table(1) // it's #1"]
        );
        assert_eq!(canonical("pipe 1 config bw 1M"), "pipe 1 config bw 1Mbit/s");
        let one = parse_command(&["pipe 1 config bw 2M".to_owned()], &NoFiles);
        assert_eq!(one.commands.len(), 1);
    }

    #[test]
    fn a_script_for_a_shell_can_be_read() {
        let text = "#!/bin/sh\nfwcmd=\"/sbin/ipfw -q\"\nnet='10.0.0.0/8'\n${fwcmd} add pipe 1 ip \
                    from $net to any \\\n  out # up\nsudo ipfw -f flush\n";
        assert_eq!(canonical(text), "add pipe 1 ip from 10.0.0.0/8 to any out\nflush");
    }
}
