//! Scripts on the command line: `weir check FILE` and `weir fmt FILE`.

use std::io::Read as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use weir_report::write_atomic;
use weir_rules::script::{check as check_whole, format, parse, print as print_command};
use weir_rules::{Diagnostic, Diagnostics, Severity};
use weir_sim::disk::ScriptFiles;

use crate::args::FmtArgs;
use crate::output::{Failure, USAGE, colour, print, say_coloured};

/// The file that the words of `weir check` name: a regular file, or `-` for standard input. `None`
/// if they are a specification.
pub(crate) fn named(words: &[String]) -> Option<&str> {
    match words {
        [word] if word == "-" || Path::new(word).is_file() => Some(word),
        _ => None,
    }
}

/// The kind of the file with this name, if the file exists and is not a regular file.
pub(crate) fn special(name: &str) -> Option<&'static str> {
    let kind = std::fs::metadata(name).ok()?.file_type();
    Some(match kind {
        _ if kind.is_file() => return None,
        _ if kind.is_dir() => "a directory",
        _ if kind.is_fifo() => "a pipe (`-` reads standard input)",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    })
}

/// `weir check FILE`.
pub(crate) fn check(name: &str, json: bool) -> Result<ExitCode, Failure> {
    let files = ScriptFiles(Path::new(name));
    let (name, text) = read(name)?;
    let parsed = parse(&text, &name, &files);
    let mut diagnostics = parsed.diagnostics;
    if !diagnostics.has_errors() {
        diagnostics.append(check_whole(&parsed.commands, &text, &name), |_| {});
    }
    let lines: Vec<String> = parsed.commands.iter().map(|c| print_command(&c.command)).collect();
    if json {
        let views: Vec<_> = diagnostics.iter().map(to_json).collect();
        let counts = |severity| diagnostics.count(severity);
        let value = json!({
            "file": name, "commands": lines,
            "errors": counts(Severity::Error), "warnings": counts(Severity::Warning),
            "notes": counts(Severity::Note), "diagnostics": views,
        });
        print(&format!("{value:#}\n"))?;
        return Ok(if diagnostics.has_errors() {
            ExitCode::from(USAGE)
        } else {
            ExitCode::SUCCESS
        });
    }
    if diagnostics.has_errors() {
        return Err(refused(&diagnostics));
    }
    if !diagnostics.is_empty() {
        say_coloured(format_args!("{}\n", diagnostics.render(colour()).trim_end()));
    }
    print(&lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>())
}

/// `weir fmt`.
pub(crate) fn fmt(args: &FmtArgs) -> Result<ExitCode, Failure> {
    let (name, text) = read(&args.file)?;
    let formatted = format(&text, &name, &ScriptFiles(Path::new(&args.file)))
        .map_err(|diagnostics| refused(&diagnostics))?;
    if args.check {
        if formatted == text {
            return Ok(ExitCode::SUCCESS);
        }
        let line = text.lines().zip(formatted.lines()).take_while(|(a, b)| a == b).count() + 1;
        return Err(Failure::new(
            1,
            format!(
                "{name} is not formatted from line {line} on; `weir fmt --write {name}` formats it"
            ),
        ));
    }
    if !args.write {
        return print(&formatted);
    }
    if args.file == "-" {
        return Err(Failure::new(USAGE, "standard input cannot be written to; leave --write out"));
    }
    if formatted != text {
        write_atomic(Path::new(&args.file), formatted.as_bytes()).map_err(Failure::of_weir)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a script. Returns its name for diagnostics, and its text.
fn read(name: &str) -> Result<(String, String), Failure> {
    let shown = if name == "-" { "standard input" } else { name };
    let mut bytes = Vec::new();
    let read = if name == "-" {
        std::io::stdin().lock().take(LARGEST_SCRIPT + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(name)
            .and_then(|file| file.take(LARGEST_SCRIPT + 1).read_to_end(&mut bytes))
    };
    let fail = |why: String| Failure::new(USAGE, format!("cannot read {shown}: {why}"));
    read.map_err(|error| fail(error.to_string()))?;
    if bytes.len() as u64 > LARGEST_SCRIPT {
        return Err(fail("it is larger than 256 MB, the limit for a script".to_owned()));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
            + 1;
        fail(format!("line {line} is not UTF-8"))
    })?;
    Ok((shown.to_owned(), text))
}

fn refused(diagnostics: &Diagnostics) -> Failure {
    Failure::new(USAGE, format!("{}\n", diagnostics.render(colour()).trim_end()))
}

/// A diagnostic as JSON. Columns count characters from 1, as editors do.
pub(crate) fn to_json(diagnostic: &Diagnostic) -> serde_json::Value {
    let severity = match diagnostic.code.severity() {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let column = |at: usize| diagnostic.text.get(..at).map_or(at, |text| text.chars().count()) + 1;
    json!({
        "severity": severity, "code": diagnostic.code.name(),
        "message": diagnostic.message, "file": diagnostic.file,
        "line": diagnostic.line, "column": column(diagnostic.span.start),
        "end_column": column(diagnostic.span.end),
        "text": diagnostic.text, "label": diagnostic.label, "help": diagnostic.help,
    })
}

/// Maximum size of a script in bytes, so that a device or a wrong file cannot fill the memory.
const LARGEST_SCRIPT: u64 = 256_000_000;
