//! Formats a script: prints each command in canonical form, and keeps comments and empty lines.
//!
//! A line stays unchanged if a shell would read its canonical form differently. This concerns lines
//! with variables, and lines that call a program and contain characters with a meaning for a shell.
//! Lines of `sysctl` and lines without an effect stay unchanged too.

use crate::command::Command;
use crate::diagnostic::Diagnostics;
use crate::files::Files;

use super::cursor::Context;
use super::{lex, print, read_line};

/// The script with each command in canonical form. The meaning stays the same, and formatting the
/// result again changes nothing.
///
/// # Errors
/// There are errors in the script or in the files that it names.
pub fn format(text: &str, name: &str, files: &dyn Files) -> Result<String, Diagnostics> {
    let mut out = String::with_capacity(text.len());
    let (mut diagnostics, mut context) = (Diagnostics::default(), Context::default());
    let mut gap = false;
    for line in lex::lines(text) {
        let mut here = Diagnostics::default();
        let formatted = format_line(&line, files, &mut context, &mut here);
        diagnostics.append(here, |diagnostic| {
            if diagnostic.file.is_none() {
                diagnostic.line += line.number - 1;
                diagnostic.file = Some(name.to_owned());
            }
        });
        // Consecutive empty lines become one. The first and the last line of the result are not
        // empty.
        if formatted.is_empty() {
            gap = !out.is_empty();
            continue;
        }
        if gap {
            out.push('\n');
        }
        gap = false;
        out += &formatted;
        out.push('\n');
        if diagnostics.count(crate::Severity::Error) >= super::MOST_ERRORS {
            break;
        }
    }
    if diagnostics.has_errors() { Err(diagnostics) } else { Ok(out) }
}

fn format_line(
    line: &lex::Line<'_>,
    files: &dyn Files,
    context: &mut Context,
    diagnostics: &mut Diagnostics,
) -> String {
    let read = read_line(line, files, context, diagnostics);
    // A line that contains only `\` is an empty line.
    if read.commands.is_empty() && line.text.chars().all(|c| c.is_whitespace() || c == '\\') {
        return String::new();
    }
    // A line that ends with `\` and a space keeps the space, because the `\` would otherwise
    // continue the line.
    let unchanged = || {
        Some(line.text.trim()).filter(|text| !text.ends_with('\\')).unwrap_or(line.text).to_owned()
    };
    let [command] = read.commands.as_slice() else { return unchanged() };
    let system = line.text[read.start..].starts_with("sysctl");
    if *command == Command::Nothing || system || line.text.contains('$') {
        return unchanged();
    }
    if line.text[..read.start].contains('\\') {
        return unchanged();
    }
    let prefix: Vec<&str> = line.text[..read.start].split_whitespace().collect();
    let mut printed = print(command);
    if !prefix.is_empty() {
        // The words before the command already contain `-q`.
        printed = printed.strip_prefix("-q ").map_or(printed.clone(), str::to_owned);
        let program = prefix.iter().any(|word| !word.starts_with('-'));
        if program && printed.contains(OF_A_SHELL) {
            return unchanged();
        }
        printed = format!("{} {printed}", prefix.join(" "));
    }
    if let Some(comment) = read.comment {
        printed = format!("{printed} // {comment}");
    }
    if let Some(hash) = read.hash {
        printed = format!("{printed} {}", line.text[hash..].trim_end());
    }
    printed
}

/// Characters with a meaning for a shell.
const OF_A_SHELL: [char; 15] =
    ['(', ')', '{', '}', '&', ';', '|', '<', '>', '!', '*', '?', '`', '\'', '#'];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::NoFiles;

    fn formatted(text: &str) -> String {
        let once = format(text, "f", &NoFiles).unwrap();
        assert_eq!(format(&once, "f", &NoFiles).unwrap(), once);
        let commands = |text: &str| {
            super::super::parse(text, "f", &NoFiles)
                .commands
                .into_iter()
                .map(|c| c.command)
                .collect::<Vec<_>>()
        };
        assert_eq!(commands(&once), commands(text));
        once
    }

    #[test]
    fn commands_become_canonical_and_comments_stay() {
        let text = "\n\n# links\n  pipe 1  config bw 4M # up\n\n\nadd accept all from any to any \
                    // all\n-a list // counters\n\n";
        assert_eq!(
            formatted(text),
            "# links\npipe 1 config bw 4Mbit/s # up\n\nadd allow ip from any to any // all\n-a \
             show // counters\n"
        );
    }

    #[test]
    fn a_line_that_a_shell_would_change_stays_unchanged() {
        for line in [
            "r=1M",
            "$(",
            "ipfw add pipe 1 \\{ in or out \\}",
            "sysctl a=1 b=2",
            "sysctl net.inet.ip.fw.one_pass=0",
            "ipfw add count recv eth\\*",
        ] {
            if line == "$(" {
                assert!(format(line, "f", &NoFiles).is_err());
            } else {
                assert_eq!(formatted(line), format!("{line}\n"));
            }
        }
        assert_eq!(formatted("r=1M\npipe 1 config bw  $r\n"), "r=1M\npipe 1 config bw  $r\n");
        assert_eq!(formatted("ipfw\\\n add pass in\n"), "ipfw\\\n add pass in\n");
        assert_eq!(
            formatted("\n\\\n\n\u{b}\n\\\n\u{b}"),
            "",
            "empty lines give an empty result, even with a `\\`"
        );
        assert_eq!(formatted("ipfw  -q   add pass in"), "ipfw -q add allow in\n");
        assert_eq!(
            formatted("ipfw -q table 1 add 10.0.0.0/8"),
            "ipfw -q table 1 add 10.0.0.0/8 0\n"
        );
    }
}
