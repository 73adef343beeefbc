//! The `weir` command: puts any network you describe between programs.
//!
//! `cli`, `args` and the modules of commands define the command line; the module of each command
//! executes the command. Data goes to stdout, messages to stderr.

mod agent;
mod algorithms;
mod args;
mod attach;
mod cli;
mod compare;
mod compose;
mod convert;
mod doctor;
mod files;
mod groups;
mod live;
mod live_scenario;
mod manual;
mod metrics;
mod offers;
mod output;
mod plan;
mod presets;
mod progress;
mod publish;
mod remote;
mod reproduce;
mod rig;
mod rules;
mod schema;
mod script;
mod serve;
mod sessions;
mod shell;
mod sim;
mod spec;
mod studies;
mod sweep;
mod table;
mod top;
mod traffic;
mod verbs;
mod watch;
mod web;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
use weir_report::format::{printable, printable_lines};

use cli::{Cli, Command};

fn main() -> ExitCode {
    if let Some(code) = weir_linux::helper::main_if_helper() {
        return code;
    }
    if let Some(code) = studies::main_if_spawner() {
        return code;
    }
    let argv = verbs::normalise(std::env::args_os().collect());
    let is_verb = verbs::is_verb(&argv);
    let cli = match parse(argv) {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => {
            // This is the help or the version, which the user asked for.
            return output::printed(error.print()).unwrap_or_else(|failure| failure.report());
        }
        Err(error) => {
            // If stderr is closed, the message is lost.
            let _ = with_hint(error).print();
            return ExitCode::from(if is_verb { verbs::EX_USAGE } else { output::USAGE });
        }
    };
    match dispatch(cli) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

/// Parses the command line. Other people may have written its words, so an error quotes the words
/// with control characters replaced.
fn parse(argv: Vec<OsString>) -> Result<Cli, clap::Error> {
    let clean = |word: &OsString| OsString::from(&*printable(&word.to_string_lossy()));
    let cleaned: Vec<OsString> = argv.iter().map(clean).collect();
    let is_clean = cleaned == argv;
    match parse_words(argv) {
        Err(error) if !is_clean => Err(match parse_words(cleaned) {
            Err(same) if same.kind() == error.kind() => same,
            // Without the control characters, there is no error, or one of another kind.
            _ => {
                let text = error.render().to_string();
                let text = text.strip_prefix("error: ").unwrap_or(&text);
                clap::Error::raw(error.kind(), printable_lines(text, false))
            }
        }),
        parsed => parsed,
    }
}

fn parse_words(argv: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = groups::grouped(Cli::command());
    let matches = command.try_get_matches_from_mut(argv)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Adds a hint if the `--` before the program is missing, or if a command is misspelt.
fn with_hint(mut error: clap::Error) -> clap::Error {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let is_word = |value: Option<&ContextValue>| {
        let Some(ContextValue::String(word)) = value else { return false };
        !word.starts_with('-')
    };
    let is_run = std::env::args_os().nth(1).is_some_and(|word| word == "run");
    if is_run
        && error.kind() == ErrorKind::UnknownArgument
        && is_word(error.get(ContextKind::InvalidArg))
    {
        let hint = "put the program after `--`, as in `weir run --link 4M/20ms -- curl …`";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
        && let Some(meant) = closest_command(word)
    {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![meant]));
    }
    error
}

/// The visible command with the name closest to a misspelt one.
fn closest_command(word: &str) -> Option<String> {
    let command = Cli::command();
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    weir_rules::closest(word, visible.map(clap::Command::get_name)).map(str::to_owned)
}

fn dispatch(cli: Cli) -> Result<ExitCode, output::Failure> {
    match cli.command {
        Command::Run(args) if !args.compose.is_empty() => compose::run(args),
        Command::Run(args) => live::run(args),
        Command::Pair(args) => live::pair(args),
        Command::Bridge(args) => live::bridge(args),
        Command::Attach(args) => attach::attach(args),
        Command::Host(args) => attach::host(args),
        Command::Agent(args) => agent::agent(&args),
        Command::Live(args) => live_scenario::live(&args),
        Command::Ps(args) => sessions::ps(&args),
        Command::Change(args) => sessions::change(&args),
        Command::Stats(args) => sessions::stats(&args),
        Command::Top(args) => top::top(args),
        Command::Metrics(args) => metrics::metrics(&args),
        Command::Exec(args) => sessions::exec(args),
        Command::Stop(args) => sessions::stop(&args),
        Command::Traffic => traffic::traffic(),
        Command::Watch(args) => watch::watch(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Check(args) => spec::check(&args),
        Command::Convert(args) => convert::convert(&args),
        Command::Fmt(args) => script::fmt(&args),
        Command::Rig(args) => rig::rig(&args),
        Command::Sim(args) => sim::sim(&args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Reproduce(args) => reproduce::reproduce(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Algorithms(args) => algorithms::list(&args),
        Command::Presets(args) => presets::list(&args),
        Command::Schema(args) => schema::print_schema(&args),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
        Command::Verb(verb) => verbs::run(verb),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_about_arguments_have_no_control_characters_of_words() {
        let words = "fo\x1b]0;pwn\x07 \x1b[31mred";
        for (argv, shown) in [
            (vec!["weir", words], "fo·]0;pwn· ·[31mred"),
            (vec!["weir", "run", "--timeout", words, "--", "true"], "fo·]0;pwn· ·[31mred"),
            (vec!["weir", "ps", words], "fo·]0;pwn· ·[31mred"),
        ] {
            let error = parse(argv.into_iter().map(OsString::from).collect()).expect_err("wrong");
            let styled = error.render().ansi().to_string();
            let kept = ["\x1b]", "\x07", "\x1b[31mred"].map(|bad| styled.contains(bad));
            assert!(kept == [false; 3] && styled.contains("\x1b["), "{styled:?}");
            assert!(error.render().to_string().contains(shown), "{styled:?}");
        }
    }
}
