//! `weir doctor`: what of this machine Weir can use.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use serde_json::json;
use weir_linux::probe::{Check, Status, probe};

use crate::args::JsonFlag;
use crate::output::{Failure, print};

/// Looks at the machine and says what it found.
pub(crate) fn doctor(args: &JsonFlag) -> Result<ExitCode, Failure> {
    let checks = probe();
    if args.json {
        let rows: Vec<_> =
            checks.iter().map(|c| json!({ "name": c.name, "status": word(c.status), "detail": c.detail, "remedy": c.remedy })).collect();
        return print(&format!("{:#}\n", json!({ "checks": rows })));
    }
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    print(&text(&checks, colour))
}

fn text(checks: &[Check], colour: bool) -> String {
    let width = checks.iter().map(|c| c.name.len()).max().unwrap_or(0) + 2;
    let mut text = String::new();
    for check in checks {
        let (mark, code) = match check.status {
            Status::Ok => ("ok     ", "32"),
            Status::Limited => ("limited", "33"),
            Status::Missing => ("missing", "31"),
        };
        let mark = if colour { format!("\u{1b}[{code}m{mark}\u{1b}[0m") } else { mark.to_owned() };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{mark}  {:<width$}{}", check.name, check.detail);
        if let Some(remedy) = &check.remedy {
            let _ = writeln!(text, "{:9}{:<width$}→ {remedy}", "", "");
        }
    }
    text
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Limited => "limited",
        Status::Missing => "missing",
    }
}
