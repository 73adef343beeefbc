//! Sends commands to the daemon, and prints its answers in ipfw's form.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::json;
use weir_control::api::{CommandReply, CommandRequest, SeverityView};
use weir_control::client::{Client, ClientError, find_socket};
use weir_rules::command::{Command, TableCommand};
use weir_rules::show::{self, Answer, Options};

use super::args::VerbArgs;
use super::exit::{EX_DATAERR, EX_NOPERM, EX_UNAVAILABLE};
use crate::output::{Failure, print, say};

/// Commands for the daemon.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: String,
    /// The name of the file with the commands; `None` for a command of the command line.
    pub(super) name: Option<String>,
    /// The files that the commands name, with their contents.
    pub(super) files: BTreeMap<String, String>,
}

/// Sends commands to the daemon, which executes them, and prints its answer.
pub(super) fn send(
    args: &VerbArgs,
    commands: &[Command],
    script: Script,
) -> Result<ExitCode, Failure> {
    let client = Client::new(args.socket.clone().unwrap_or_else(find_socket));
    let request = CommandRequest {
        script: script.text,
        name: script.name,
        files: script.files,
        check_only: false,
    };
    let reply = client.commands(&request).map_err(|error| failure(&error))?;
    if !reply.applied {
        return refused(args, commands, &reply);
    }
    if args.json {
        return print(&format!("{:#}\n", as_json(&reply)));
    }
    print_outcomes(args, &reply)
}

/// The answers alone if all commands were queries, otherwise the complete reply.
fn as_json(reply: &CommandReply) -> serde_json::Value {
    let answers: Vec<&Answer> =
        reply.outcomes.iter().filter_map(|outcome| outcome.answer.as_ref()).collect();
    match answers[..] {
        [one] if reply.outcomes.len() == 1 => json!(one),
        _ if !answers.is_empty() && answers.len() == reply.outcomes.len() => json!(answers),
        _ => json!(reply),
    }
}

/// Handles a refusal. With `-q`, deleting a table entry that does not exist is not an error.
fn refused(
    args: &VerbArgs,
    commands: &[Command],
    reply: &CommandReply,
) -> Result<ExitCode, Failure> {
    let deletes = matches!(commands, [Command::Table(_, TableCommand::Delete(_))]);
    let errors: Vec<_> =
        reply.diagnostics.iter().filter(|d| d.severity == SeverityView::Error).collect();
    if args.quiet && deletes && errors.iter().all(|d| d.message.contains(" has no entry ")) {
        return Ok(ExitCode::SUCCESS);
    }
    if args.json {
        print(&format!("{:#}\n", json!(reply)))?;
    }
    let from_file = errors.iter().any(|d| d.file.is_some());
    let line = |d: &&weir_control::api::DiagnosticView| match &d.file {
        Some(file) => format!("{file}:{}: {}", d.line, d.message),
        None => d.message.clone(),
    };
    let text = errors.iter().map(line).collect::<Vec<_>>().join("\nweir: ");
    let end = if from_file { "\nweir: none of the script's commands was executed" } else { "" };
    let code = if errors.iter().any(|d| d.code != REFUSED) { EX_DATAERR } else { EX_UNAVAILABLE };
    Err(Failure::new(code, format!("{text}{end}")))
}

/// Prints the outcomes of commands. Like ipfw, it prints each added rule.
fn print_outcomes(args: &VerbArgs, reply: &CommandReply) -> Result<ExitCode, Failure> {
    let options = Options {
        counters: args.counters,
        time: args.time.then_some(&local_time as &dyn Fn(u64) -> String),
        seconds: args.seconds,
        dynamic: args.dynamic,
        dynamic_only: args.dynamic_only,
        sets: args.sets,
    };
    let mut out = String::new();
    for outcome in &reply.outcomes {
        if let Some(answer) = &outcome.answer {
            out.push_str(&show::text(answer, &options));
        }
        if args.quiet {
            continue;
        }
        for warning in &outcome.warnings {
            say(format_args!("weir: {warning}\n"));
        }
        if let (Some(number), Some(words)) = (outcome.rule, outcome.command.strip_prefix("add ")) {
            let words = words.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
            out.push_str(&format!("{number:05} {words}\n"));
        }
    }
    for notice in reply.notices.iter().filter(|_| !args.quiet) {
        say(format_args!("weir: {notice}\n"));
    }
    print(&out)
}

/// Formats a time like `ctime`: `Sun Nov  8 10:05:00 2026`.
fn local_time(seconds: u64) -> String {
    let time = jiff::Timestamp::from_second(i64::try_from(seconds).unwrap_or(i64::MAX))
        .unwrap_or(jiff::Timestamp::MAX);
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%a %b %e %H:%M:%S %Y").to_string()
}

fn failure(error: &ClientError) -> Failure {
    let code = match error {
        ClientError::NotAllowed { .. } => EX_NOPERM,
        _ => EX_UNAVAILABLE,
    };
    Failure::new(code, error)
}

/// The diagnostic code of a valid command that the daemon's configuration does not allow.
const REFUSED: &str = "refused";
