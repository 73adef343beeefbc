//! Output of the commands: failures with their exit codes, text, and result files.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use weir_report::format::printable_lines;
use weir_report::{RunResult, summary, to_html, to_json, write_atomic};

use crate::args::CommonArgs;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)
    }
}

/// The exit code for an invalid command line.
pub(crate) const USAGE: u8 = 2;
/// The exit code if Weir itself failed. Programs rarely exit with this code.
pub(crate) const WEIR_FAILED: u8 = 125;

impl Failure {
    pub(crate) fn new(code: u8, message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), code }
    }

    /// Appends text without colours to the message.
    pub(crate) fn and(mut self, more: &str) -> Self {
        self.message += &printable_lines(more, false);
        self
    }

    /// A failure of Weir itself, with exit code [`WEIR_FAILED`].
    pub(crate) fn of_weir(message: impl fmt::Display) -> Self {
        Self::new(WEIR_FAILED, message)
    }

    /// Prints the message and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let _ = std::io::stderr().write_all(self.text(colour()).as_bytes());
        ExitCode::from(self.code)
    }

    /// The message with its prefix, for standard error.
    fn text(&self, colour: bool) -> String {
        // A message that ends with a line break is a rendered diagnostic, which has its own prefix
        // and colours.
        if self.message.ends_with('\n') {
            printable_lines(&self.message, colour).into_owned()
        } else {
            printable_lines(&format!("weir: {}\n", self.message), false).into_owned()
        }
    }
}

/// Prints data to standard output. A terminal gets no control characters, because other people may
/// have chosen the names in the data.
pub(crate) fn print(text: &str) -> Result<ExitCode, Failure> {
    let shown = std::io::stdout().is_terminal();
    let text = if shown { printable_lines(text, false) } else { text.into() };
    printed(std::io::stdout().write_all(text.as_bytes()))
}

/// Flushes standard output after a write, and returns the result of both. It is not an error if the
/// reader has closed the pipe.
pub(crate) fn printed(written: std::io::Result<()>) -> Result<ExitCode, Failure> {
    match written.and_then(|()| std::io::stdout().flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::of_weir(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Prints messages for people to standard error. If standard error is closed (`2>&1 | head`),
/// neither the results nor the exit code change. Control characters are also replaced in a log
/// file, because people read it in a terminal.
pub(crate) fn say(text: impl fmt::Display) {
    let text = text.to_string();
    let _ = std::io::stderr().write_all(printable_lines(&text, false).as_bytes());
}

/// As [`say`], for diagnostics and summaries, which have colours of their own. Words of other
/// people must have passed through [`printable`](weir_report::format::printable), because this
/// function keeps colours.
pub(crate) fn say_coloured(text: impl fmt::Display) {
    let text = text.to_string();
    let _ = std::io::stderr().write_all(printable_lines(&text, colour()).as_bytes());
}

/// Whether text on standard error may have colours.
pub(crate) fn colour() -> bool {
    std::io::stderr().is_terminal() && colours_allowed()
}

/// Whether the user allows colours.
pub(crate) fn colours_allowed() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Checks, before the run, that the results can be written.
pub(crate) fn check_destinations(args: &CommonArgs) -> Result<(), Failure> {
    check_files(
        &[
            ("--json", args.json.as_deref()),
            ("--report", args.report.as_deref()),
            ("--pcap", args.pcap.as_deref()),
        ],
        &["--json"],
    )
}

/// Checks, before the run, that the files of these options can be written. The file `-` is standard
/// output: only the options in `to_stdout` accept it, and only one of them at a time.
pub(crate) fn check_files(
    files: &[(&str, Option<&Path>)],
    to_stdout: &[&str],
) -> Result<(), Failure> {
    let mut on_stdout = None;
    for &(option, path) in files {
        let Some(path) = path else { continue };
        if path.as_os_str() == "-" {
            if let Some(other) = on_stdout.filter(|_| to_stdout.contains(&option)) {
                return Err(Failure::new(
                    USAGE,
                    format!(
                        "{other} and {option} cannot both write to standard output: give one a file"
                    ),
                ));
            }
            if to_stdout.contains(&option) {
                on_stdout = Some(option);
                continue;
            }
            let (which, verb) =
                (to_stdout.join(", "), if to_stdout.len() == 1 { "writes" } else { "write" });
            let message = format!(
                "{option} needs the name of a file: only {which} {verb} to standard output (./- \
                 is a file named -)"
            );
            return Err(Failure::new(USAGE, message));
        }
        if path.is_dir() {
            return Err(Failure::new(
                USAGE,
                format!("{} is a directory; name a file", path.display()),
            ));
        }
        if path.exists() && !path.is_file() {
            // Devices and named pipes are opened directly; no temporary file is created next to
            // them.
            continue;
        }
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !parent.is_dir() {
            let message = format!(
                "{}: there is no directory {}; make it first",
                path.display(),
                parent.display()
            );
            return Err(Failure::new(USAGE, message));
        }
        try_to_create_in(parent).map_err(|error| {
            Failure::of_weir(format!(
                "{}: nothing can be written in {}: {error}",
                path.display(),
                parent.display()
            ))
        })?;
    }
    Ok(())
}

/// Creates and removes a file in a directory. Permissions alone would not reveal a read-only file
/// system.
fn try_to_create_in(directory: &Path) -> std::io::Result<()> {
    let probe = directory.join(format!(".weir-{}.tmp", std::process::id()));
    OpenOptions::new().write(true).create_new(true).open(&probe)?;
    std::fs::remove_file(&probe)
}

/// Writes the results to every requested destination, even if writing to one of them fails.
pub(crate) fn write_results(args: &CommonArgs, result: &RunResult) -> Result<(), Failure> {
    if !args.quiet {
        say_coloured(format_args!("\n{}", summary(result, colour())));
    }
    let mut failures = Vec::new();
    if let Some(path) = &args.json {
        let text = to_json(result);
        let written = if path.as_os_str() == "-" {
            print(&text).map(|_| ()).map_err(|failure| failure.message)
        } else {
            write_atomic(path, text.as_bytes()).map_err(|error| error.to_string())
        };
        failures.extend(written.err());
    }
    if let Some(path) = &args.report {
        match write_atomic(path, to_html(result).as_bytes()) {
            Ok(()) if !args.quiet => say(format_args!("report: {}\n", path.display())),
            Ok(()) => {}
            Err(error) => failures.push(error.to_string()),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Failure::of_weir(failures.join("\nweir: "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_diagnostics_have_colours() {
        let said = Failure::of_weir("no\x1b[31mprog\x1b]0;title\x07").text(true);
        assert_eq!(said, "weir: no·[31mprog·]0;title·\n");
        let diagnostic = "\x1b[1merror\x1b[0m: unknown\n";
        assert_eq!(Failure::of_weir(diagnostic).text(true), diagnostic);
        assert_eq!(Failure::of_weir(diagnostic).text(false), "·[1merror·[0m: unknown\n");
        let more = Failure::of_weir(diagnostic).and("no file `\x1b[8m`\n");
        assert_eq!(more.text(true), format!("{diagnostic}no file `·[8m`\n"));
    }
}
