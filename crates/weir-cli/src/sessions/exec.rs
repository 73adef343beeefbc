//! `weir exec`: runs a command in a host of a lab.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use rustix::termios::isatty;
use weir_control::api::{NodeKind, NodeState, SessionNode, SessionView};
use weir_linux::topology::{EnterError, run_inside};

use super::args::ExecArgs;
use super::find::{Asked, ask, running_in_words, sockets, views};
use crate::output::{Failure, USAGE};

/// Runs the command. Returns its exit code, unless a container engine replaces this process.
pub(crate) fn exec(args: ExecArgs) -> Result<ExitCode, Failure> {
    let (node, command) = find(args.words)?;
    match &node.container {
        Some(container) => Err(in_container(&node, container, &command)),
        None => {
            let Some(process) = node.pid else {
                return Err(Failure::of_weir(format!("{} is not set up yet", node.name)));
            };
            let directory = match node.kind {
                NodeKind::Rootfs => Some(PathBuf::from("/")),
                NodeKind::Host | NodeKind::Container => std::env::current_dir().ok(),
            };
            let code = run_inside(process, command, directory).map_err(|error| match error {
                EnterError::Spawn(error) => Failure::new(error.exit_code(), error),
                error => Failure::of_weir(format!("{}: {error}", node.name)),
            })?;
            Ok(ExitCode::from(code))
        }
    }
}

/// Replaces this process with the `exec` command of the container engine. Returns only if this
/// fails.
fn in_container(node: &SessionNode, container: &str, command: &[OsString]) -> Failure {
    if node.state == NodeState::Waiting || node.state == NodeState::Ended {
        return Failure::of_weir(format!(
            "{}: its container does not run: {}",
            node.name, node.state
        ));
    }
    let engine = node.engine.as_deref().unwrap_or("docker");
    let mut words = Command::new(engine);
    words.args(["exec", "--interactive"]);
    if isatty(std::io::stdin()) && isatty(std::io::stdout()) {
        words.arg("--tty");
    }
    let error = words.arg(container).args(command).exec();
    Failure::of_weir(format!("cannot start {engine}: {error}"))
}

/// The host that the words name, and the command that follows.
fn find(words: Vec<OsString>) -> Result<(SessionNode, Vec<OsString>), Failure> {
    let found = sockets();
    let (first, second) = (words.first(), words.get(1));
    let named = found.iter().find(|found| first.is_some_and(|word| word == found.name.as_str()));
    // Only a process with one thread can enter a user namespace, so `view` drops the client, which
    // may have a thread.
    let view = |found| ask(found).map(|Asked { view, .. }| view);
    if let Some(named) = named {
        let view = view(named)?;
        if let Some(node) = second.and_then(|word| node_of(&view, word)) {
            return Ok((node, rest(words, 2)?));
        }
        // If this session is the only lab, the first word may instead name one of its hosts.
        if node_of(&view, first.map_or(OsStr::new(""), OsString::as_os_str)).is_none() {
            return Err(Failure::new(USAGE, no_host(&view, second.map(OsString::as_os_str))));
        }
    }
    let views = views(&found);
    let labs: Vec<&SessionView> = views.iter().filter(|view| !view.nodes.is_empty()).collect();
    match labs.as_slice() {
        [] => Err(Failure::new(USAGE, format!("no lab runs: {}", running_in_words(&found)))),
        [lab] => match first.and_then(|word| node_of(lab, word)) {
            Some(node) => Ok((node, rest(words, 1)?)),
            None => Err(Failure::new(USAGE, no_host(lab, first.map(OsString::as_os_str)))),
        },
        several => {
            let names: Vec<&str> = several.iter().map(|view| view.name.as_str()).collect();
            let what = format!("name a lab before the host: there are {}", names.join(", "));
            Err(Failure::new(USAGE, what))
        }
    }
}

fn node_of(view: &SessionView, name: &OsStr) -> Option<SessionNode> {
    view.nodes.iter().find(|node| name == node.name.as_str()).cloned()
}

fn rest(mut words: Vec<OsString>, from: usize) -> Result<Vec<OsString>, Failure> {
    let command = words.split_off(from);
    if command.is_empty() {
        return Err(Failure::new(USAGE, "give a command after the host, such as `sh`"));
    }
    Ok(command)
}

fn no_host(view: &SessionView, name: Option<&OsStr>) -> String {
    let names: Vec<&str> = view.nodes.iter().map(|node| node.name.as_str()).collect();
    let known = match names.len() {
        0 => "it is no lab".to_owned(),
        _ => format!("its hosts are {}", names.join(", ")),
    };
    match name {
        Some(name) => {
            format!("there is no host `{}` in {}: {known}", name.to_string_lossy(), view.name)
        }
        None => format!("name a host of {}: {known}", view.name),
    }
}
