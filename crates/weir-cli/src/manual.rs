//! Makes the manual pages from the definition of the command line. Besides what `clap_mangen`
//! writes, a page has a synopsis with the names of values, the examples as they are typed, the exit
//! codes, and the environment.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use clap::{Arg, Command};
use clap_mangen::Man;

/// The exit codes of all commands.
pub(crate) const EXIT_CODES: [(&str, &str); 11] = [
    ("0", "The command succeeded."),
    (
        "1",
        "`weir fmt --check`: a file is not formatted. `weir rig --case`: the case fails. \
         `weir compare --within`: a metric does not agree. `weir sweep verify`: a run is damaged.",
    ),
    ("2", "The command line, or a file that it names, is wrong."),
    ("64", "A command of ipfw or dnctl has wrong options, or lacks an argument."),
    ("65", "The text of a command of ipfw or dnctl, or a line of its script, is wrong."),
    ("66", "The script of a command of ipfw or dnctl cannot be read."),
    ("69", "No daemon answers, or the daemon refuses the command."),
    ("77", "The user may not connect to the daemon."),
    (
        "125",
        "Weir failed, or this machine lacks something, such as a named interface or the target \
         of `weir attach`.",
    ),
    ("126, 127", "A program cannot be executed, or there is no such program."),
    ("128 + N", "Signal N ended the command or its program."),
];

/// The environment variables that every page lists. Some commands read others, such as
/// `DOCKER_HOST`.
pub(crate) const ENVIRONMENT: [(&str, &str); 4] = [
    (
        "WEIR_SOCKET",
        "The daemon's socket: for `weir serve`, for the commands of ipfw and dnctl, and for `weir \
         watch`; --socket takes precedence.",
    ),
    (
        "XDG_RUNTIME_DIR",
        "For an ordinary user: the directory of the daemon's socket and of the sockets of links \
         that run.",
    ),
    (
        "WEIR_LINKS_DIR",
        "The directory of the sockets of links that run, in place of the usual one. It must belong \
         to the user, and no other user may enter it.",
    ),
    ("NO_COLOR", "If it is not empty, there are no colours."),
];

/// Writes the pages of `root` and of its visible subcommands into a directory. The subcommands of
/// these have no pages.
pub(crate) fn write_all(root: &Command, directory: &Path) -> io::Result<()> {
    let visible = root.get_subcommands().filter(|command| !command.is_hide_set());
    for command in std::iter::once(root).chain(visible) {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name());
        std::fs::write(directory.join(format!("{name}.1")), page(command)?)?;
    }
    Ok(())
}

/// The page of a command.
pub(crate) fn page(command: &Command) -> io::Result<String> {
    let man = Man::new(command.clone());
    let mut head = Vec::new();
    man.render_title(&mut head)?;
    man.render_name_section(&mut head)?;
    let mut body = Vec::new();
    man.render_description_section(&mut body)?;
    man.render_options_section(&mut body)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut body)?;
    }
    let mut text = String::from_utf8_lossy(&head).into_owned();
    text += &synopsis(command);
    text += &String::from_utf8_lossy(&body);
    if let Some(after) = command.get_after_help() {
        text += &remarks(&after.to_string());
    }
    text += &listed("EXIT STATUS", &EXIT_CODES);
    text += &listed("ENVIRONMENT", &ENVIRONMENT);
    Ok(text)
}

/// The synopsis: every option with its value, then the arguments.
fn synopsis(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut text = format!(".SH SYNOPSIS\n\\fB{}\\fR", escaped(name));
    for arg in command.get_opts().chain(flags(command)).filter(|arg| !arg.is_hide_set()) {
        let mut word = option_name(arg);
        if arg.get_action().takes_values() {
            let values: Vec<String> = values(arg).collect();
            word += &format!(" {}", values.join(" "));
        }
        text += "\n";
        text += &if arg.is_required_set() { word } else { format!("[{word}]") };
    }
    for arg in command.get_positionals() {
        let many = arg.get_num_args().is_some_and(|number| number.max_values() > 1);
        let word = values(arg).collect::<Vec<_>>().join(" ") + if many { "..." } else { "" };
        let word = if arg.is_last_set() { format!("\\-\\- {word}") } else { word };
        text += "\n";
        text += &if arg.is_required_set() { word } else { format!("[{word}]") };
    }
    if command.has_subcommands() {
        text += "\n\\fICOMMAND\\fR";
    }
    text + "\n"
}

/// The options without a value.
fn flags(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_positional() && !arg.get_action().takes_values())
}

fn option_name(arg: &Arg) -> String {
    let name = match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => arg.get_id().to_string(),
    };
    format!("\\fB{}\\fR", escaped(&name))
}

fn values(arg: &Arg) -> impl Iterator<Item = String> {
    let names: Vec<String> = match arg.get_value_names() {
        Some(names) => names.iter().map(ToString::to_string).collect(),
        None => vec![arg.get_id().as_str().to_uppercase()],
    };
    names.into_iter().map(|name| format!("\\fI{}\\fR", escaped(&name)))
}

/// The remarks after the options. Indented lines are examples and stay as they are; other lines
/// are text.
fn remarks(text: &str) -> String {
    let mut page = String::new();
    let mut is_example = false;
    let mut set_example = |page: &mut String, indented: bool| {
        if indented != is_example {
            page.push_str(if indented { ".PP\n.nf\n" } else { ".fi\n" });
            is_example = indented;
        }
    };
    for line in text.lines() {
        let indented = line.starts_with("  ");
        set_example(&mut page, indented);
        page += &match line {
            "Examples:" => ".SH EXAMPLES\n".to_owned(),
            "" => ".PP\n".to_owned(),
            _ => format!("{}\n", protected(&escaped(line))),
        };
    }
    set_example(&mut page, false);
    if page.starts_with(".SH") { page } else { format!(".SH NOTES\n{page}") }
}

fn listed(title: &str, rows: &[(&str, &str)]) -> String {
    let mut text = format!(".SH {title}\n");
    for (name, meaning) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, ".TP\n\\fB{}\\fR\n{}", escaped(name), protected(&escaped(meaning)));
    }
    text
}

/// Escapes the characters of a text that have a meaning in roff.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq")
}

/// Protects a line, so that roff does not take it for a request.
fn protected(line: &str) -> String {
    if line.starts_with('.') { format!("\\&{line}") } else { line.to_owned() }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn page_of(name: &str) -> String {
        let mut root = Cli::command().disable_help_subcommand(true);
        root.build();
        page(root.find_subcommand(name).expect("a command")).expect("a page")
    }

    #[test]
    fn a_synopsis_names_the_values() {
        let page = page_of("run");
        for part in [
            "[\\fB\\-\\-up\\fR \\fISPEC\\fR]",
            "\n[\\-\\- \\fICMD\\fR...]\n",
            "[\\fB\\-\\-quiet\\fR]",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(page_of("pair").contains("\n\\fB\\-\\-left\\fR \\fICMD\\fR\n"), "left is required");
    }

    #[test]
    fn examples_are_lines_and_the_text_after_them_flows() {
        let page = page_of("run");
        let (_, rest) = page.split_once(".SH EXAMPLES\n.PP\n.nf\n  weir run").expect("examples");
        let (examples, text) = rest.split_once(".fi\n").expect("an end");
        assert_eq!(examples.lines().count(), 6, "{examples}");
        assert!(text.starts_with(".PP\nThe program runs in its own network."), "{text}");
    }

    #[test]
    fn the_documentation_has_the_same_tables() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/exit-codes.md");
        let text = std::fs::read_to_string(path).expect("the page");
        for (code, meaning) in EXIT_CODES {
            assert!(text.contains(&format!("| {code} | {meaning} |")), "{code}");
        }
        for (name, meaning) in ENVIRONMENT {
            assert!(text.contains(&format!("| `{name}` | {meaning} |")), "{name}");
        }
    }

    #[test]
    fn every_page_has_the_exit_codes_and_the_environment() {
        let page = page_of("pipe");
        assert!(page.contains(".SH EXIT STATUS\n.TP\n\\fB0\\fR\n"), "{page}");
        assert!(page.contains("\\fBWEIR_SOCKET\\fR"), "{page}");
    }
}
