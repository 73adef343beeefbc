//! `weir agent`: shapes the containers and pods that carry labels or annotations of Weir.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use rustix::process::{Signal, getpid, kill_process};
use schemars::JsonSchema;
use serde::Serialize;
use weir_attach::{AttachError, Engine, Nri};
use weir_control::api::{SessionKind, SessionView};
use weir_control::directory::Name;
use weir_linux::live::{Realtime, Spin};
use weir_linux::process::Signals;
use weir_live::Tuning;
use weir_live::agent::{Agent, AgentConfig, AgentEvent, Who};
use weir_live::remote::About;

use crate::args::{parse_seed, parse_size, parse_spin};
use crate::live::wall_time;
use crate::output::{Failure, print, say};
use crate::remote;
use crate::sessions::agents;

/// Options of `weir agent`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AgentArgs {
    /// Follow Docker, on this socket [default: that of DOCKER_HOST, or /var/run/docker.sock].
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, help_heading = "Engines")]
    docker: Option<Option<PathBuf>>,
    /// Follow Podman, on this socket [default: that of CONTAINER_HOST, or
    /// /run/podman/podman.sock].
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, help_heading = "Engines")]
    podman: Option<Option<PathBuf>>,
    /// Follow the pods of containerd or CRI-O as an NRI plugin, on this socket [default:
    /// /var/run/nri/nri.sock].
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, help_heading = "Engines")]
    nri: Option<Option<PathBuf>>,
    /// Print the events as JSON on standard output, one per line; `weir schema agent` describes
    /// them.
    #[arg(long)]
    json: bool,
    /// Do not print the events as text.
    #[arg(short, long)]
    quiet: bool,
    /// The name in `weir ps` [default: agent].
    #[arg(long, value_name = "NAME")]
    name: Option<Name>,
    /// Seed of all random draws; each container's seed is derived from it and from the container's
    /// name.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_seed)]
    seed: u64,
    /// Maximum memory for the frames inside the links of one container.
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "32MB",
        value_parser = parse_size,
        help_heading = "Tuning"
    )]
    memory: usize,
    /// How long to spin before a departure is due: `adaptive`, `off`, or a time such as `60us`.
    /// Each container has a loop of its own.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "off",
        value_parser = parse_spin,
        help_heading = "Tuning"
    )]
    spin: Spin,
    /// Do not ask for real-time priority.
    #[arg(long, help_heading = "Tuning")]
    no_realtime: bool,
}

/// Shapes containers and pods until a signal arrives.
pub(crate) fn agent(args: &AgentArgs) -> Result<ExitCode, Failure> {
    let signals = Signals::take()
        .map_err(|error| Failure::of_weir(format!("cannot take signals: {error}")))?;
    let config = config(args);
    let followed = followed(&config).map_err(Failure::of_weir)?;
    refuse_second(&agents(), &followed)?;
    let derived = Name::of_program("agent".as_ref());
    let reserved = remote::reserve(args.name.as_ref(), &derived, args.quiet)?;
    let about = About {
        kind: SessionKind::Agent,
        command: followed,
        since: wall_time(SystemTime::now()),
        seed: args.seed,
    };
    let mut agent = Agent::start(config).map_err(Failure::of_weir)?;
    // A stop through the control socket has the same effect as a signal from another process.
    let stop = || {
        let _ = kill_process(getpid(), Signal::TERM);
    };
    let served = reserved.map(|reserved| agent.serve(reserved, about, stop)).transpose();
    let _served = served.map_err(|error| {
        Failure::of_weir(format!("the control socket cannot be served: {error}"))
    })?;
    // Outside systemd there is no receiver, and the message has no effect.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let mut unwritten = None;
    let ended = agent.run(&signals, |event| {
        if args.json {
            unwritten = print(&line(event)).err().or(unwritten.take());
        }
        if !args.quiet {
            say(format_args!("weir: {}\n", words(event)));
        }
    });
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    drop(agent);
    ended.map_err(|error| Failure::of_weir(format!("cannot wait: {error}")))?;
    unwritten.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// The configuration that the options describe. If they name no engine, the agent follows Docker
/// and Podman, and neither is required.
fn config(args: &AgentArgs) -> AgentConfig {
    let named = [(Engine::Docker, &args.docker), (Engine::Podman, &args.podman)];
    let mut engines: Vec<(Engine, Option<PathBuf>)> =
        named.into_iter().filter_map(|(engine, socket)| Some((engine, socket.clone()?))).collect();
    let all_required = !engines.is_empty() || args.nri.is_some();
    if !all_required {
        engines = vec![(Engine::Docker, None), (Engine::Podman, None)];
    }
    AgentConfig {
        engines,
        nri: args.nri.clone().map(|socket| socket.unwrap_or_else(|| Nri::SOCKET.into())),
        all_required,
        tuning: Tuning {
            memory: args.memory,
            spin: args.spin,
            realtime: if args.no_realtime { Realtime::Off } else { Realtime::WhenAllowed },
            ..Tuning::default()
        },
        seed: args.seed,
    }
}

/// The engines that an agent follows, as words: the name of each engine, and `nri` if the agent is
/// an NRI plugin. A socket other than the usual one is appended to the name, as `=SOCKET`.
fn followed(config: &AgentConfig) -> Result<Vec<String>, AttachError> {
    let word = |name: String, socket: &Path, usual: &Path| {
        let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let socket = resolved(socket);
        if socket == resolved(usual) { name } else { format!("{name}={}", socket.display()) }
    };
    let mut words = Vec::new();
    for (engine, socket) in &config.engines {
        let socket = socket.clone().map_or_else(|| engine.socket(), Ok)?;
        words.push(word(engine.to_string(), &socket, &engine.usual_socket()));
    }
    let nri = config.nri.as_ref();
    words.extend(nri.map(|socket| word("nri".to_owned(), socket, Path::new(Nri::SOCKET))));
    Ok(words)
}

/// Refuses to start beside another agent that follows one of the same engines: the two would divide
/// the containers between them.
fn refuse_second(agents: &[SessionView], followed: &[String]) -> Result<(), Failure> {
    let follows = |agent: &SessionView, word: &str| {
        format!(" {} ", agent.program).contains(&format!(" {word} "))
    };
    for agent in agents {
        if let Some(word) = followed.iter().find(|word| follows(agent, word)) {
            let process =
                agent.pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
            return Err(Failure::of_weir(format!(
                "{process} is an agent that follows {word} already, as session {}; end it with \
                 `weir stop {}`, or let this one follow other engines or sockets",
                agent.name, agent.name
            )));
        }
    }
    Ok(())
}

fn words(event: &AgentEvent) -> String {
    let named = |who: &Who| format!("{} ({})", who.name, who.source);
    match event {
        AgentEvent::Answers { source, version } if version.is_empty() => {
            format!("following {source}")
        }
        AgentEvent::Answers { source, version } => format!("following {source}: {version}"),
        AgentEvent::Silent { source, reason } => format!("waiting for {source}: {reason}"),
        AgentEvent::Shaped { who, links } => {
            let links: Vec<String> = links
                .iter()
                .map(|(name, spec)| {
                    let name = name.rsplit_once('.').map_or(&**name, |(_, end)| end);
                    let spec = if spec.is_empty() { "a perfect link" } else { spec };
                    format!("{name} {spec}")
                })
                .collect();
            format!("{}: shaped, {}", named(who), links.join(", "))
        }
        AgentEvent::Refused { who, reason } => format!("{}: not shaped: {reason}", named(who)),
        AgentEvent::Ended(who) => format!("{}: ended", named(who)),
    }
}

/// An event of `weir agent --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LogLine<'a> {
    /// Time of the event, RFC 3339.
    time: String,
    /// `answers`, `silent`, `shaped`, `refused` or `ended`.
    event: &'static str,
    /// `docker`, `podman` or `nri`.
    source: &'static str,
    /// The container's or pod's identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    /// The name of the container or pod, with which the names of its links begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// The links of a container or pod that is shaped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<LogLink<'a>>,
    /// Why a source is silent, or a container or pod is not shaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// Name and version of the runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
}

/// A link with its specification.
#[derive(Debug, Serialize, JsonSchema)]
struct LogLink<'a> {
    /// The link's name, as in `weir ps`.
    name: &'a str,
    /// The link's specification in canonical form; empty for a perfect link.
    spec: &'a str,
}

fn line(event: &AgentEvent) -> String {
    let (kind, source, who) = match event {
        AgentEvent::Answers { source, .. } => ("answers", *source, None),
        AgentEvent::Silent { source, .. } => ("silent", *source, None),
        AgentEvent::Shaped { who, .. } => ("shaped", who.source, Some(who)),
        AgentEvent::Refused { who, .. } => ("refused", who.source, Some(who)),
        AgentEvent::Ended(who) => ("ended", who.source, Some(who)),
    };
    let line = LogLine {
        time: jiff::Timestamp::now().to_string(),
        event: kind,
        source,
        id: who.map(|who| &*who.id),
        name: who.map(|who| &*who.name),
        links: match event {
            AgentEvent::Shaped { links, .. } => {
                links.iter().map(|(name, spec)| LogLink { name, spec }).collect()
            }
            _ => Vec::new(),
        },
        reason: match event {
            AgentEvent::Silent { reason, .. } | AgentEvent::Refused { reason, .. } => Some(reason),
            _ => None,
        },
        version: match event {
            AgentEvent::Answers { version, .. } => Some(&**version).filter(|text| !text.is_empty()),
            _ => None,
        },
    };
    // Texts and lists of texts can always be written as JSON.
    format!("{}\n", serde_json::to_string(&line).unwrap_or_default())
}

const EXAMPLES: &str = "Examples:
  weir agent
  weir agent --docker --json
  weir agent --nri

The agent shapes each running container with a label weir.up, weir.down, weir.link or weir.preset,
and each pod with an annotation weir/up and so on, from start to end. `weir ps` shows the links and
the mistakes in labels, and `weir change agent web.down 'delay 80ms'` changes a link. When the agent
ends in any manner, the traffic is direct again. The agent needs root and Linux 6.6 or newer.
docs/containers.md explains more.";

#[cfg(test)]
mod tests {
    use super::*;

    fn running(program: &str) -> SessionView {
        SessionView {
            name: "agent".into(),
            kind: SessionKind::Agent,
            program: program.into(),
            pid: Some(4711),
            since: String::new(),
            uptime_ns: 0,
            rules: false,
            links: Vec::new(),
            problems: Vec::new(),
            nodes: Vec::new(),
            version: String::new(),
        }
    }

    #[test]
    fn a_second_agent_of_an_engine_is_refused() {
        let refused = |followed: &[&str], program: &str| {
            let words: Vec<String> = followed.iter().map(|&word| word.to_owned()).collect();
            refuse_second(&[running(program)], &words).is_err()
        };
        assert!(refused(&["docker", "podman"], "docker"));
        assert!(refused(&["nri"], "docker nri"));
        assert!(refused(&["docker=/a b/c.sock"], "podman docker=/a b/c.sock nri"));
        assert!(!refused(&["docker"], "docker=/a.sock podman"));
        assert!(!refused(&["docker=/a"], "docker=/a.sock"));
        assert!(refuse_second(&[], &["docker".to_owned()]).is_ok());
    }

    #[test]
    fn an_engine_on_its_usual_socket_is_named_without_it() {
        let of = |socket: Option<PathBuf>| AgentConfig {
            engines: vec![(Engine::Docker, socket)],
            nri: Some(Nri::SOCKET.into()),
            all_required: true,
            tuning: Tuning::default(),
            seed: 1,
        };
        let usual = Engine::Docker.usual_socket();
        let words = |socket| followed(&of(socket)).expect("a path");
        assert_eq!(words(Some(usual)), ["docker", "nri"]);
        assert_eq!(words(Some("/no/such.sock".into())), ["docker=/no/such.sock", "nri"]);
    }
}
