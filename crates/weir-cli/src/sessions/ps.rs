//! `weir ps`: lists the sessions of this user.

use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;
use weir_control::api::{NodeKind, SessionView};
use weir_control::client::ClientError;
use weir_control::server::listener;
use weir_report::format::{elapsed, printable};

use super::args::PsArgs;
use super::find::{Asked, ask_all, daemon, failure, running_in_words, session, sockets};
use crate::output::{Failure, print, say};
use crate::table::Table;

/// Lists the running sessions, and removes the sockets of sessions that were killed.
pub(crate) fn ps(args: &PsArgs) -> Result<ExitCode, Failure> {
    if let Some(of) = &args.names {
        return names(of.as_deref());
    }
    let (mut views, mut silent) = (Vec::new(), Vec::new());
    let all = sockets();
    for (found, asked) in all.iter().zip(ask_all(&all)) {
        match asked {
            Ok(Asked { view, .. }) => views.push(view),
            Err(error) => {
                say(format_args!("weir: {}\n", failure(found.name.as_str(), &error)));
                if matches!(error, ClientError::NoAnswer { .. }) {
                    let (name, pid) = (found.name.to_string(), listener(&found.path));
                    silent.push(Silent { name, pid });
                }
            }
        }
    }
    match daemon() {
        Some(Ok(Asked { view, .. })) => views.push(view),
        Some(Err(failure)) => say(format_args!("weir: {failure}\n")),
        None => {}
    }
    if args.json {
        let all = json!({ "sessions": views, "not_answering": silent });
        return print(&format!("{all:#}\n"));
    }
    if views.is_empty() && silent.is_empty() {
        say(format_args!("weir: {}\n", running_in_words(&[])));
        return Ok(ExitCode::SUCCESS);
    }
    print(&format!("{}{}{}", table(&views, &silent), hosts(&views), problems(&views)))
}

/// A session that runs and does not answer.
#[derive(Debug, Serialize)]
struct Silent {
    name: String,
    /// As [`SessionView::pid`].
    pid: Option<u32>,
}

/// The containers that are not shaped, one per line.
fn problems(views: &[SessionView]) -> String {
    let of = |view: &SessionView| -> String {
        view.problems
            .iter()
            .map(|problem| format!("{}: {}\n", view.name, printable(problem)))
            .collect()
    };
    let lines: String = views.iter().map(of).collect();
    if lines.is_empty() { lines } else { format!("\nNot shaped:\n{lines}") }
}

/// Prints names, one per line: of all sessions and the daemon, or of one session's links. If a link
/// has one name for both directions, prints that name too.
fn names(of: Option<&str>) -> Result<ExitCode, Failure> {
    let mut names: Vec<String> = match of {
        Some(name) => {
            let links = session(Some(name))?.view.links;
            let wholes = links.iter().filter_map(|link| link.whole.clone());
            let mut all: Vec<String> = links.iter().map(|link| link.name.clone()).collect();
            all.extend(wholes);
            all
        }
        None => {
            let daemon = daemon().and_then(Result::ok).map(|asked| asked.view.name);
            sockets().into_iter().map(|found| found.name.to_string()).chain(daemon).collect()
        }
    };
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    print(&names.into_iter().map(|name| name + "\n").collect::<String>())
}

/// A row for each link; one row for a session with rules, without links or without an answer. Only
/// the first row of a session describes the session.
fn table(views: &[SessionView], silent: &[Silent]) -> String {
    let headings = ["NAME", "KIND", "PID", "RUNNING", "PROGRAM", "LINK", "SPECIFICATION"];
    let mut table = Table::new(headings).left_aligned();
    for view in views {
        let mut lead = vec![
            view.name.clone(),
            view.kind.to_string(),
            process(view.pid),
            running(view.uptime_ns),
            shortened(&view.program),
        ];
        if view.rules {
            lead.extend(["-".to_owned(), "by rules".to_owned()]);
            table.add_row(lead);
            continue;
        }
        if view.links.is_empty() {
            lead.extend(["-".to_owned(), "none".to_owned()]);
            table.add_row(lead);
            continue;
        }
        for link in &view.links {
            let spec = if link.spec.is_empty() { "(a perfect link)" } else { &link.spec };
            let mut row = std::mem::replace(&mut lead, vec![String::new(); 5]);
            row.extend([link.name.clone(), spec.to_owned()]);
            table.add_row(row);
        }
    }
    for Silent { name, pid } in silent {
        let unknown = || "-".to_owned();
        let row = [name.clone(), unknown(), process(*pid), unknown(), unknown(), unknown()];
        table.add_row(row.into_iter().chain(["does not answer".to_owned()]).collect());
    }
    table.text()
}

/// A row for each host of a lab; empty without labs.
fn hosts(views: &[SessionView]) -> String {
    let headings = ["NAME", "HOST", "STATE", "EXIT CODE", "WHERE", "PROGRAM"];
    let mut table = Table::new(headings).left_aligned();
    let mut any = false;
    for (view, node) in views.iter().flat_map(|view| view.nodes.iter().map(move |n| (view, n))) {
        any = true;
        let place = match (&node.container, node.kind) {
            (Some(container), _) => {
                format!("{} {container}", node.engine.as_deref().unwrap_or("container"))
            }
            (None, NodeKind::Rootfs) => "its own files".to_owned(),
            (None, _) => "this machine's files".to_owned(),
        };
        table.add_row(vec![
            view.name.clone(),
            node.name.clone(),
            node.state.to_string(),
            node.exit_code.map_or("-".to_owned(), |code| code.to_string()),
            place,
            if node.program.is_empty() { "-".to_owned() } else { shortened(&node.program) },
        ]);
    }
    if any { format!("\n{}", table.text()) } else { String::new() }
}

/// The time since the start, to the second.
fn running(ns: u64) -> String {
    if ns < SECOND { "<1 s".to_owned() } else { elapsed(ns / SECOND * SECOND) }
}

/// The process ID, or `-` for a process of another PID namespace.
fn process(pid: Option<u32>) -> String {
    pid.map_or("-".to_owned(), |pid| pid.to_string())
}

fn shortened(program: &str) -> String {
    if program.chars().count() <= MAX_PROGRAM {
        return program.to_owned();
    }
    program.chars().take(MAX_PROGRAM - 1).chain(['…']).collect()
}

const SECOND: u64 = 1_000_000_000;
/// Maximum number of characters of a program's command line in the table.
const MAX_PROGRAM: usize = 32;

#[cfg(test)]
mod tests {
    use weir_control::api::{NodeState, SessionKind, SessionLink, SessionNode};

    use super::*;

    #[test]
    fn each_link_has_a_line() {
        let link = |name: &str, spec: &str| SessionLink {
            name: name.into(),
            spec: spec.into(),
            whole: None,
        };
        let view = |name: &str, rules, links| SessionView {
            name: name.into(),
            kind: SessionKind::Run,
            program: "curl -O https://example.org/a/very/long/path".into(),
            pid: Some(7),
            since: String::new(),
            uptime_ns: 61_900_000_000,
            rules,
            links,
            problems: Vec::new(),
            nodes: Vec::new(),
            version: String::new(),
        };
        let links = vec![link("up", ""), link("down", "bw 4Mbit/s delay 20ms")];
        let views = [view("curl", false, links), view("b", true, Vec::new())];
        let text = table(&views, &[]);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[1].starts_with("curl  run   7    1 min 01 s  curl -O"), "{text}");
        assert!(lines[1].ends_with("up    (a perfect link)"), "{text}");
        assert!(lines[2].starts_with("down  bw 4Mbit/s"), "{text}");
        assert!(lines[3].ends_with("-     by rules"), "{text}");
        let young =
            SessionView { uptime_ns: 990_000_000, pid: None, ..view("a", true, Vec::new()) };
        let text = table(&[young], &[]);
        assert!(
            text.lines().any(|line| line.trim().starts_with("a     run   -    <1 s")),
            "{text}"
        );
        let silent = [Silent { name: "web".into(), pid: Some(4711) }];
        let text = table(&[], &silent);
        let words: Vec<&str> = text.lines().nth(1).unwrap_or_default().split_whitespace().collect();
        assert_eq!(words.join(" "), "web - 4711 - - - does not answer", "{text}");
        assert_eq!(hosts(&[view("b", true, Vec::new())]), "");
        let node = SessionNode {
            name: "web".into(),
            kind: NodeKind::Container,
            program: "box".into(),
            state: NodeState::Ended,
            exit_code: Some(3),
            pid: None,
            engine: Some("docker".into()),
            container: Some("lab-web".into()),
        };
        let text = hosts(&[SessionView { nodes: vec![node], ..view("lab", false, Vec::new()) }]);
        let row = text.lines().last().unwrap_or_default().trim().to_owned();
        assert_eq!(row, "lab   web   ended  3          docker lab-web  box", "{text}");
    }
}
