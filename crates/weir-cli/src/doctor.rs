//! `weir doctor`: reports what Weir can use on this machine.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use serde_json::json;
use weir_attach::AttachError;
use weir_linux::probe::{Check, Status, probe};
use weir_probe::{Method, Namespace, Plan, ProbeError, Target};

use crate::args::JsonFlag;
use crate::output::{Failure, print};

/// Examines the machine and prints the findings.
pub(crate) fn doctor(args: &JsonFlag) -> Result<ExitCode, Failure> {
    let mut checks = probe();
    checks.push(queue_programs());
    checks.push(attachments());
    if args.json {
        let rows: Vec<_> = checks
            .iter()
            .map(|c| {
                json!({
                    "name": c.name,
                    "status": word(c.status),
                    "detail": c.detail,
                    "remedy": c.remedy,
                })
            })
            .collect();
        return print(&format!("{:#}\n", json!({ "checks": rows })));
    }
    let colour = std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    print(&text(&checks, colour))
}

/// Checks whether the kernel accepts the programs that read queues, by loading and unloading them.
fn queue_programs() -> Check {
    let name = "queue programs (BPF)";
    let lo = Target { device: "lo".to_owned(), namespace: Namespace::Own };
    let plan = Plan {
        targets: vec![lo],
        method: Some(Method::Loop),
        rate: None,
        children: false,
        bands: false,
        packets: false,
    };
    let (status, detail, remedy) = match weir_probe::open(&plan) {
        Ok(_) => (
            Status::Ok,
            "can be loaded: 'weir watch' reads queues inside the kernel".to_owned(),
            None,
        ),
        Err(error) => {
            let remedy = match error {
                ProbeError::Rights { .. } => Some("sudo weir watch …".to_owned()),
                ProbeError::Unavailable(_) => Some(
                    "apt-get install clang libelf-dev zlib1g-dev (and build weir again)".to_owned(),
                ),
                _ => None,
            };
            (Status::Limited, format!("{error}; 'weir watch' uses netlink"), remedy)
        }
    };
    Check { name, status, detail, remedy }
}

/// Checks whether packets of an interface can be redirected, by doing so in a new namespace.
fn attachments() -> Check {
    let name = "attaching (TCX)";
    let (status, detail, remedy) = match weir_attach::try_out() {
        Ok(()) => (
            Status::Ok,
            "allowed: 'weir attach' and 'weir host' shape what is already running".to_owned(),
            None,
        ),
        Err(error) => {
            let remedy = match error {
                AttachError::Rights { .. } => Some("sudo weir attach …".to_owned()),
                AttachError::Unavailable => Some(
                    "apt-get install clang libelf-dev zlib1g-dev (and build weir again)".to_owned(),
                ),
                _ => None,
            };
            let detail = format!("{error}; without it, 'weir attach' cannot be used");
            (Status::Limited, detail, remedy)
        }
    };
    Check { name, status, detail, remedy }
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
