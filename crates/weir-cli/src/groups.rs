//! The commands in groups, for `weir --help`.

use std::fmt::Write as _;

use clap::Command;

/// The groups in the order in which the help shows them. Each visible command is in one of them.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Emulate networks", &["run", "pair", "bridge", "attach", "host", "agent", "live", "serve"]),
    ("See and change links that run", &["ps", "top", "change", "stats", "metrics", "exec", "stop"]),
    ("Simulate, measure and watch", &["sim", "sweep", "compare", "rig", "reproduce", "watch"]),
    ("Check and look up", &["check", "fmt", "convert", "doctor", "algorithms", "presets"]),
    (
        "Configure a daemon, in the language of ipfw and dnctl",
        &[
            "pipe",
            "queue",
            "sched",
            "add",
            "delete",
            "list",
            "show",
            "zero",
            "resetlog",
            "flush",
            "set",
            "table",
            "enable",
            "disable",
            "netconfig",
            "apply",
            "ipfw",
        ],
    ),
    ("For shells and programs", &["completions", "man", "schema", "help"]),
];

/// Gives a command a help text that lists its subcommands in groups.
pub(crate) fn grouped(command: Command) -> Command {
    // Only a built command has `help` among its subcommands.
    let mut built = command.clone();
    built.build();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} \
         {{usage}}\n{}\nOptions:\n{{options}}{{after-help}}",
        list(&built)
    );
    command.help_template(template)
}

fn list(command: &Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "\n{title}:");
        for name in names {
            let about = command
                .find_subcommand(name)
                .and_then(Command::get_about)
                .map(ToString::to_string)
                .unwrap_or_default();
            let mut lead = format!("  {name:<NAME_WIDTH$}");
            for line in wrapped(&about) {
                let _ = writeln!(text, "{lead}{line}");
                lead = " ".repeat(2 + NAME_WIDTH);
            }
        }
    }
    text
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > WIDTH {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines
}

/// Width of the column of names, with the gap after it.
const NAME_WIDTH: usize = 13;
/// Width of the descriptions: a line has 80 columns at most.
const WIDTH: usize = 80 - 2 - NAME_WIDTH;

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_visible_command_is_in_one_group() {
        let mut root = Cli::command();
        root.build();
        let mut visible: Vec<&str> = root
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(Command::get_name)
            .collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, visible);
    }

    #[test]
    fn the_list_fits_into_80_columns() {
        let mut root = Cli::command();
        root.build();
        let text = list(&root);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("\n  run          Run a program behind"), "{text}");
    }
}
