//! The commands of `ipfw` and `dnctl`, for a running daemon. This process parses them, reads the
//! files that they name, and sends both to the daemon.

mod args;
mod exit;
mod send;

use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;
use std::process::ExitCode;

use weir_report::format::printable;
use weir_rules::Files as _;
use weir_rules::command::{Command, Spanned, TableCommand};
use weir_rules::script::{self, Parsed};
use weir_sim::disk::{Disk, ScriptFiles};

use crate::files::Recorded;
use crate::output::{Failure, colour, say, say_coloured};
pub(crate) use args::{Verb, VerbArgs, is_verb, normalise};
pub(crate) use exit::EX_USAGE;
use exit::{EX_DATAERR, EX_NOINPUT};

pub(crate) fn run(verb: Verb) -> Result<ExitCode, Failure> {
    let is_apply = matches!(verb, Verb::Apply(_));
    let args = verb.into_args();
    if let Some(program) = &args.preprocessor {
        let message = format!(
            "-p is not taken: run the preprocessor yourself, as in `{program} FILE | weir apply -`"
        );
        return Err(Failure::new(EX_USAGE, message));
    }
    if args.sort.is_some() {
        return Err(Failure::new(
            EX_USAGE,
            "-s is not taken: the list is in the order of numbers; use --json and sort that",
        ));
    }
    match &args.words[..] {
        [] => Err(Failure::new(
            EX_USAGE,
            "nothing to do: give a command such as `pipe show`, or a file of commands; see `weir \
             help ipfw`",
        )),
        [file] if is_apply || is_file(file) => script(&args, file),
        [_, extra, ..] if is_apply => Err(Failure::new(
            EX_USAGE,
            format!("`weir apply` takes one file; `{extra}` is one too many"),
        )),
        words => command(&args, words),
    }
}

/// Runs one command from the command line.
fn command(args: &VerbArgs, words: &[String]) -> Result<ExitCode, Failure> {
    let files = Recorded::new(Disk);
    let mut parsed = script::parse_command(words, &files);
    accept(&parsed, args.quiet, "weir: the command cannot be used")?;
    for Spanned { command, .. } in &mut parsed.commands {
        // The flag `-q` precedes the command, so the parser of the language does not see it.
        if let Command::Table(_, TableCommand::Add { update, .. }) = command {
            *update |= args.quiet;
        }
    }
    let commands: Vec<Command> =
        parsed.commands.into_iter().map(|spanned| spanned.command).collect();
    if args.dry_run || commands.is_empty() || !may_flush(args, &commands) {
        return Ok(ExitCode::SUCCESS);
    }
    let text = commands.iter().map(|command| script::print(command) + "\n").collect();
    send::send(args, &commands, send::Script { text, name: None, files: files.into_contents() })
}

/// Runs a file of commands, or standard input for `-`.
fn script(args: &VerbArgs, name: &str) -> Result<ExitCode, Failure> {
    let text = read_script(name)
        .map_err(|error| Failure::new(EX_NOINPUT, format!("cannot read {name}: {error}")))?;
    let files = Recorded::new(ScriptFiles(Path::new(name)));
    let parsed = script::parse(&text, name, &files);
    accept(
        &parsed,
        args.quiet,
        &format!("weir: {} cannot be used: none of its commands was executed", printable(name)),
    )?;
    let commands: Vec<Command> =
        parsed.commands.into_iter().map(|spanned| spanned.command).collect();
    if args.dry_run || commands.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    send::send(
        args,
        &commands,
        send::Script { text, name: Some(name.to_owned()), files: files.into_contents() },
    )
}

fn read_script(name: &str) -> std::io::Result<String> {
    if name == "-" { weir_sim::disk::read_stdin() } else { Disk.read(name) }
}

/// Fails if the text has errors. Otherwise prints the other diagnostics, unless `quiet`.
fn accept(parsed: &Parsed, quiet: bool, head: &str) -> Result<(), Failure> {
    let diagnostics = &parsed.diagnostics;
    if diagnostics.has_errors() {
        return Err(Failure::new(
            EX_DATAERR,
            format!("{head}\n{}\n", diagnostics.render(colour()).trim_end()),
        ));
    }
    if !diagnostics.is_empty() && !quiet {
        say_coloured(format_args!("{}\n", diagnostics.render(colour()).trim_end()));
    }
    Ok(())
}

/// Whether a flush may proceed. On a terminal the user is asked, unless a flag prevents this.
fn may_flush(args: &VerbArgs, commands: &[Command]) -> bool {
    let flushes =
        commands.iter().any(|c| matches!(c, Command::FlushRules | Command::FlushObjects(_)));
    if !flushes || args.quiet || args.force || !std::io::stdin().is_terminal() {
        return true;
    }
    loop {
        say("Are you sure? [yn] ");
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line).is_err() || line.is_empty() {
            return false;
        }
        match line.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => return true,
            "n" | "no" => return false,
            _ => {}
        }
    }
}

/// Whether a single word names a script: `-` for standard input, a word with a slash, or a file
/// whose name is not a command. ipfw accepts only absolute paths.
fn is_file(word: &str) -> bool {
    word == "-" || word.contains('/') || (!script::is_command(word) && Path::new(word).is_file())
}
