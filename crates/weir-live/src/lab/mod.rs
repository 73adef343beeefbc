//! Labs: the programs and containers on the hosts of a scenario, their order, their health and
//! their logs.
//!
//! A [`Lab`] is a state machine that the thread of the run drives. [`Lab::advance`] starts every
//! program that can start, and returns the time of its next call. [`Lab::ended`] handles the end of
//! a command. Everything that a lab starts is a command of the session's [`Network`]. The command
//! runs in the namespaces of its host; for a container, it is a command of the engine and runs on
//! the machine.
//!
//! A program has a defined end if its node has the key `ends`. The lab is over when all such
//! programs have ended or, if there are none, when all programs have ended.

mod board;
mod engine;
mod error;
mod log;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_control::api::{NodeKind as Kind, NodeState, SessionNode};
use weir_linux::process::Signals;
use weir_linux::topology::{Happened, Hold, Network, ProgramId, Shown, Task};
use weir_report::sim::NodeOutcome;
use weir_sim::scenario::{HostProgram, Root, Scenario, Words};

pub use board::Board;
pub use engine::EngineError;
pub use error::LabError;

pub(crate) use engine::{Containers, check_image, choose};

use crate::session::LiveSession;
use engine::{Container, reason};
use log::Log;

/// The programs of a lab.
#[derive(Debug)]
pub(crate) struct Lab {
    nodes: Vec<Node>,
    board: Board,
    containers: Containers,
    /// The directory to which the paths of volumes are relative.
    directory: PathBuf,
    /// The start of the first program.
    began: Option<Instant>,
    /// Whether the clock of the scenario runs. Late programs (see [`late`]) start only then.
    clock_runs: bool,
    notes: Vec<String>,
}

/// A host with a program.
#[derive(Debug)]
struct Node {
    name: String,
    /// The number of the host in the session.
    host: usize,
    program: HostProgram,
    container: Option<Container>,
    /// The indices in the lab of the nodes in `program.after`.
    after: Vec<usize>,
    /// Whether the program starts only when the clock runs.
    is_late: bool,
    state: State,
    log: Option<Log>,
    started: Option<Instant>,
    /// When the host came up.
    up: Option<Instant>,
    ended: Option<Instant>,
}

#[derive(Debug)]
enum State {
    Waiting,
    /// The program runs, and its health checks have not succeeded yet.
    Starting {
        id: ProgramId,
        check: Check,
    },
    Up {
        id: ProgramId,
    },
    Ended {
        code: u8,
        /// Whether the program ended because the lab asked it to.
        stopped: bool,
    },
    /// The program was ended with the lab, and its exit code is not known.
    Stopped,
}

/// The health checks of a program.
#[derive(Debug)]
struct Check {
    command: Vec<String>,
    /// Whether this is Weir's own check, for a container without a health check. This check only
    /// tests that the program runs.
    is_own: bool,
    interval: Duration,
    timeout: Duration,
    /// The number of failed checks at which the host counts as not healthy.
    retries: u32,
    failed: u32,
    state: Checking,
}

#[derive(Debug)]
enum Checking {
    /// The next check begins at this time.
    Next(Instant),
    /// A check runs. It fails if it has not ended by this time.
    Running(ProgramId, Instant, Log),
}

#[derive(Debug, Default)]
pub(crate) struct LabResults {
    pub(crate) nodes: Vec<NodeOutcome>,
    /// The logs, by the names of the hosts.
    pub(crate) logs: Vec<(String, Vec<u8>)>,
    pub(crate) notes: Vec<String>,
    /// The first exit code other than 0 of a program with a defined end.
    pub(crate) failed: Option<u8>,
}

impl Lab {
    /// The lab of a scenario. `hosts` are the numbers of the nodes with namespaces, in the order of
    /// the session's hosts. Paths are relative to the directory of `file`.
    pub(crate) fn new(
        scenario: &Scenario,
        hosts: &[usize],
        file: &str,
        containers: Containers,
    ) -> Self {
        let with_program = |(host, &number): (usize, &usize)| {
            let program = scenario.nodes[number].program.as_deref()?.clone();
            Some((host, number, program))
        };
        let all: Vec<_> = hosts.iter().enumerate().filter_map(with_program).collect();
        let index_of = |node: usize| all.iter().position(|(_, number, _)| *number == node);
        let late = late(scenario);
        let node = |(host, number, program): &(usize, usize, HostProgram)| Node {
            name: scenario.nodes[*number].name.clone(),
            host: *host,
            container: containers.of(*number).cloned(),
            after: program.after.iter().filter_map(|after| index_of(after.node)).collect(),
            is_late: late[*number],
            program: program.clone(),
            state: State::Waiting,
            log: None,
            started: None,
            up: None,
            ended: None,
        };
        let nodes: Vec<Node> = all.iter().map(node).collect();
        let board = Board::default();
        board.set(hosts.iter().map(|&number| shown(scenario, number, &containers)).collect());
        let directory = Path::new(file).parent().unwrap_or(Path::new("")).to_owned();
        Self {
            nodes,
            board,
            containers,
            directory,
            began: None,
            clock_runs: false,
            notes: Vec::new(),
        }
    }

    pub(crate) fn board(&self) -> &Board {
        &self.board
    }

    /// Makes the namespaces of all hosts that are not containers.
    pub(crate) fn hold(&self, session: &mut LiveSession<Network>) -> Result<(), LabError> {
        for (host, shown) in self.board.nodes().iter().enumerate() {
            if shown.kind == Kind::Container {
                continue;
            }
            let node = self.nodes.iter().find(|node| node.host == host);
            let hold = node.map(|node| self.hold_of(node)).unwrap_or_default();
            session
                .hold(host, &hold)
                .map_err(|source| LabError::Start { host: shown.name.clone(), source })?;
            self.board.change(host, |shown| shown.pid = session.holder(host));
        }
        Ok(())
    }

    fn hold_of(&self, node: &Node) -> Hold {
        let (root, read_only) = match &node.program.root {
            Root::Directory { path, read_only } => (Some(self.directory.join(path)), *read_only),
            Root::Machine | Root::Image { .. } => (None, false),
        };
        let volumes = node.program.volumes.iter().zip(self.volumes(node));
        let volume = |(volume, from): (&weir_sim::scenario::Volume, PathBuf)| Shown {
            from,
            to: volume.inside.clone(),
            read_only: volume.read_only,
        };
        Hold { root, read_only, volumes: volumes.map(volume).collect() }
    }

    /// The absolute paths of a program's volumes on the machine.
    fn volumes(&self, node: &Node) -> Vec<PathBuf> {
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let volumes = node.program.volumes.iter();
        volumes.map(|volume| absolute(self.directory.join(&volume.host))).collect()
    }

    /// Starts all programs that may start before the clock runs, and waits until they are up.
    /// Returns the reason why the wait ended early, if it did.
    pub(crate) fn bring_up(
        &mut self,
        session: &mut LiveSession<Network>,
        signals: &Signals,
    ) -> Result<Option<Ending>, LabError> {
        loop {
            let next = self.advance(session, Instant::now())?;
            let is_up = |node: &Node| node.is_late || node.up.is_some();
            if self.nodes.iter().all(is_up) {
                return Ok(None);
            }
            match session.wait_until(signals, next) {
                Ok(Happened::Ended(id, code)) => self.ended(id, code)?,
                Ok(Happened::Time) => {}
                Ok(Happened::Signal(number)) => return Ok(Some(Ending::Signal(number))),
                Ok(Happened::Stopped) => return Ok(Some(Ending::Links)),
                Err(error) => return Ok(Some(Ending::Wait(error))),
            }
        }
    }

    /// Permits the start of late programs (see [`late`]).
    pub(crate) fn start_clock(&mut self) {
        self.clock_runs = true;
    }

    /// Starts every program and check that is due. Returns the time of the next call. If a command
    /// ends before that time, the next call is due at its end.
    pub(crate) fn advance(
        &mut self,
        session: &mut LiveSession<Network>,
        now: Instant,
    ) -> Result<Option<Instant>, LabError> {
        let mut next = None::<Instant>;
        for index in 0..self.nodes.len() {
            if self.may_start(index)? {
                self.start(session, index, now)?;
            }
            if let Some(due) = self.check(session, index, now)? {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        Ok(next)
    }

    /// Whether a program has not started and no longer waits for anything.
    fn may_start(&self, index: usize) -> Result<bool, LabError> {
        let node = &self.nodes[index];
        if !matches!(node.state, State::Waiting) || node.is_late && !self.clock_runs {
            return Ok(false);
        }
        for (after, &other) in node.program.after.iter().zip(&node.after) {
            let other = &self.nodes[other];
            let done = match other.state {
                State::Ended { code: 0, .. } => true,
                State::Ended { code, .. } => {
                    return Err(LabError::Never {
                        host: node.name.clone(),
                        other: other.name.clone(),
                        code,
                        printed: other.printed(),
                    });
                }
                _ => !after.ended && other.up.is_some(),
            };
            if !done {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn start(
        &mut self,
        session: &mut LiveSession<Network>,
        index: usize,
        now: Instant,
    ) -> Result<(), LabError> {
        let volumes = self.volumes(&self.nodes[index]);
        let node = &self.nodes[index];
        let host = node.name.clone();
        let (log, output, errors) =
            Log::new(LONGEST_LOG).map_err(|source| LabError::Log { host: host.clone(), source })?;
        let (host_number, command, environment) = match &node.container {
            Some(container) => {
                (None, self.containers.run(container, &node.program, &volumes), Vec::new())
            }
            None => {
                let mut environment = vec![("WEIR_SIDE".to_owned(), host.clone())];
                environment.extend(node.program.env.clone());
                let command = node.program.command.as_ref().map(Words::to_execute);
                (Some(node.host), command.unwrap_or_default(), environment)
            }
        };
        let command = command.into_iter().map(Into::into).collect();
        let task = Task { command, environment, output: Some(output), errors: Some(errors) };
        let id = session
            .start_task(host_number, task)
            .map_err(|source| LabError::Start { host, source })?;
        self.began.get_or_insert(now);
        let node = &mut self.nodes[index];
        (node.log, node.started) = (Some(log), Some(now));
        let check = Check::of(&node.program, node.container.as_ref(), now);
        let state = match check {
            Some(check) => {
                node.state = State::Starting { id, check };
                NodeState::Starting
            }
            None => {
                (node.state, node.up) = (State::Up { id }, Some(now));
                NodeState::Up
            }
        };
        self.board.change(node.host, |shown| shown.state = state);
        Ok(())
    }

    /// Starts the next check of a program, or ends a check that takes too long. Returns the time of
    /// the next step.
    fn check(
        &mut self,
        session: &mut LiveSession<Network>,
        index: usize,
        now: Instant,
    ) -> Result<Option<Instant>, LabError> {
        let node = &mut self.nodes[index];
        let State::Starting { check, .. } = &mut node.state else { return Ok(None) };
        match &check.state {
            Checking::Next(due) if now < *due => return Ok(Some(*due)),
            Checking::Running(_, until, _) if now < *until => return Ok(Some(*until)),
            Checking::Running(id, ..) => {
                session.kill(*id);
                let last = format!("took longer than {:?}", check.timeout);
                check.fail(&node.name, &last, now)?;
                return Ok(Some(now + check.interval));
            }
            Checking::Next(_) => {}
        }
        let host = node.name.clone();
        let (log, output, errors) = Log::new(LONGEST_CHECK_LOG)
            .map_err(|source| LabError::Log { host: host.clone(), source })?;
        let host_number = node.container.is_none().then_some(node.host);
        let command = check.command.iter().map(Into::into).collect();
        let environment = match &node.container {
            Some(_) => Vec::new(),
            None => node.program.env.clone().into_iter().collect(),
        };
        let task = Task { command, environment, output: Some(output), errors: Some(errors) };
        let id = session
            .start_task(host_number, task)
            .map_err(|source| LabError::Start { host: format!("{host}, health check"), source })?;
        let until = now + check.timeout;
        check.state = Checking::Running(id, until, log);
        Ok(Some(until))
    }

    /// Handles the end of a command; ignores commands that do not belong to the lab.
    pub(crate) fn ended(&mut self, id: ProgramId, code: u8) -> Result<(), LabError> {
        let now = Instant::now();
        for node in &mut self.nodes {
            match &mut node.state {
                State::Up { id: own } if *own == id => {
                    node.end(code, false, now);
                    self.notes.extend(node.failure(code, now));
                }
                State::Starting { id: own, check } if *own == id => {
                    let is_own = check.is_own;
                    let refused = is_own && ENGINE_CODES.contains(&code);
                    if refused {
                        let text = node.log.as_ref().map(|log| log.text().text);
                        let text = String::from_utf8_lossy(&text.unwrap_or_default()).into_owned();
                        let host = node.name.clone();
                        node.end(code, false, now);
                        return Err(LabError::Container { host, reason: reason(&text) });
                    }
                    if !is_own {
                        let (host, printed) = (node.name.clone(), node.printed());
                        node.end(code, false, now);
                        return Err(LabError::Died { host, code, printed });
                    }
                    // The program has run, so the host was up for a moment.
                    node.up = Some(now);
                    node.end(code, false, now);
                    self.notes.extend(node.failure(code, now));
                }
                State::Starting { id: own, check } => {
                    let own = *own;
                    let Checking::Running(running, ..) = &check.state else { continue };
                    if *running != id {
                        continue;
                    }
                    if code == 0 {
                        (node.state, node.up) = (State::Up { id: own }, Some(now));
                        self.board.change(node.host, |shown| shown.state = NodeState::Up);
                    } else {
                        check.fail(&node.name, &format!("ended with exit code {code}"), now)?;
                    }
                    continue;
                }
                _ => continue,
            }
            if let State::Ended { code, .. } = node.state {
                self.board.change(node.host, |shown| {
                    (shown.state, shown.exit_code) = (NodeState::Ended, Some(code));
                });
            }
        }
        Ok(())
    }

    /// Whether all programs with a defined end have ended, or, if there are none, all programs.
    pub(crate) fn is_over(&self) -> bool {
        let has_ends = self.nodes.iter().any(|node| node.program.ends);
        let counts = |node: &&Node| node.program.ends || !has_ends;
        let mut counting = self.nodes.iter().filter(counts).peekable();
        counting.peek().is_some() && counting.all(|node| matches!(node.state, State::Ended { .. }))
    }

    /// Waits until the engine lists the containers that are starting, so that the guard finds them:
    /// an engine completes a creation that it has begun even if its command is killed. Must be
    /// called before the commands are asked to end.
    pub(crate) fn settle(&mut self, session: &mut LiveSession<Network>, signals: &Signals) {
        let pending = |node: &Node| match (&node.state, &node.container) {
            (State::Starting { id, .. }, Some(container)) => Some((*id, container.clone())),
            _ => None,
        };
        let mut pending: Vec<(ProgramId, Container)> =
            self.nodes.iter().filter_map(pending).collect();
        let deadline = Instant::now() + LONGEST_SETTLE;
        loop {
            pending.retain(|(_, container)| !self.containers.is_created(container));
            if pending.is_empty() {
                return;
            }
            if Instant::now() >= deadline {
                break self.containers.remove_repeatedly();
            }
            match session.wait_until(signals, Some(Instant::now() + OWN_INTERVAL)) {
                Ok(Happened::Ended(id, code)) => {
                    pending.retain(|(own, _)| *own != id);
                    // The lab is already ending, and the first reason counts.
                    let _ = self.ended(id, code);
                }
                Ok(Happened::Time | Happened::Signal(_)) => {}
                // Each further wait would return at once.
                Ok(Happened::Stopped) | Err(_) => std::thread::sleep(OWN_INTERVAL),
            }
        }
    }

    /// Asks the programs that still run to end, and waits for them, but not longer than a grace
    /// period. Programs that run longer are killed at the end of the session.
    pub(crate) fn stop(&mut self, session: &mut LiveSession<Network>, signals: &Signals) {
        let running = |node: &Node| match node.state {
            State::Starting { id, .. } | State::Up { id } => Some(id),
            _ => None,
        };
        let ids: Vec<ProgramId> = self.nodes.iter().filter_map(running).collect();
        ids.iter().for_each(|&id| session.signal(id, TERM));
        let deadline = Instant::now() + weir_linux::topology::GRACE;
        while self.nodes.iter().any(|node| running(node).is_some()) {
            match session.wait_until(signals, Some(deadline)) {
                Ok(Happened::Ended(id, code)) => {
                    let node = self.nodes.iter_mut().find(|node| running(node) == Some(id));
                    node.into_iter().for_each(|node| node.end(code, true, Instant::now()));
                }
                // A second signal, or the end of the grace period, ends the wait.
                _ => break,
            }
        }
        for node in self.nodes.iter_mut().filter(|node| running(node).is_some()) {
            (node.state, node.ended) = (State::Stopped, Some(Instant::now()));
        }
    }

    /// The results, after the session has ended. Removes the containers.
    pub(crate) fn finish(self) -> LabResults {
        let began = self.began;
        let since = |at: Option<Instant>| {
            let time = at?.saturating_duration_since(began?);
            Some(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        };
        let mut results = LabResults { notes: self.notes, ..LabResults::default() };
        for node in &self.nodes {
            let log = node.log.as_ref().map(Log::text).unwrap_or_default();
            let (exit_code, stopped) = match node.state {
                State::Ended { code, stopped } => (Some(code), stopped),
                State::Stopped => (None, true),
                _ => (None, false),
            };
            if log.cut > 0 {
                results.notes.push(format!(
                    "{} printed {} bytes, of which the log leaves out {}",
                    node.name, log.bytes, log.cut
                ));
            }
            if node.program.ends && !stopped {
                results.failed = results.failed.or(exit_code.filter(|&code| code != 0));
            }
            results.nodes.push(NodeOutcome {
                name: node.name.clone(),
                program: words(&node.program),
                exit_code,
                stopped,
                started_ns: since(node.started),
                up_ns: since(node.up),
                ended_ns: since(node.ended),
                log_bytes: log.bytes,
                log_cut_bytes: log.cut,
            });
            results.logs.push((node.name.clone(), log.text));
        }
        results
    }
}

/// Why the wait for the hosts ended early.
#[derive(Debug)]
pub(crate) enum Ending {
    /// A signal with this number arrived.
    Signal(i32),
    /// The links have ended.
    Links,
    /// Waiting itself failed.
    Wait(std::io::Error),
}

impl Node {
    fn end(&mut self, code: u8, stopped: bool, now: Instant) {
        (self.state, self.ended) = (State::Ended { code, stopped }, Some(now));
    }

    /// The note about a program that ended at `now` with a code other than 0.
    fn failure(&self, code: u8, now: Instant) -> Option<String> {
        let lasted = self.started.map_or(Duration::ZERO, |start| now - start).as_secs_f64();
        (code != 0)
            .then(|| format!("{} ended with exit code {code} after {lasted:.1} s", self.name))
    }

    fn printed(&self) -> String {
        self.log.as_ref().map(Log::last_lines).unwrap_or_default()
    }
}

impl Check {
    /// The checks of a program; `None` for a host that is up as soon as its program has started.
    fn of(program: &HostProgram, container: Option<&Container>, now: Instant) -> Option<Self> {
        let nanos = |time: weir_core::Nanos| Duration::from_nanos(time.0);
        match (&program.health, container) {
            (Some(health), container) => {
                let words = health.command.to_execute();
                Some(Self {
                    command: container.map_or(words.clone(), |container| container.exec(&words)),
                    is_own: false,
                    interval: nanos(health.interval),
                    timeout: nanos(health.timeout),
                    retries: health.retries,
                    failed: 0,
                    state: Checking::Next(now),
                })
            }
            (None, Some(container)) => Some(Self {
                command: container.is_running(),
                is_own: true,
                interval: OWN_INTERVAL,
                timeout: OWN_TIMEOUT,
                retries: OWN_RETRIES,
                failed: 0,
                state: Checking::Next(now + OWN_INTERVAL),
            }),
            (None, None) => None,
        }
    }

    /// Counts a failed check. Returns an error if this is failure number `retries`.
    fn fail(&mut self, host: &str, last: &str, now: Instant) -> Result<(), LabError> {
        self.failed += 1;
        let before = std::mem::replace(&mut self.state, Checking::Next(now + self.interval));
        if self.failed < self.retries {
            return Ok(());
        }
        let printed = match before {
            Checking::Running(_, _, log) => log.last_lines(),
            Checking::Next(_) => String::new(),
        };
        Err(LabError::Unhealthy {
            host: host.to_owned(),
            checks: self.failed,
            last: last.to_owned(),
            printed,
        })
    }
}

/// For each node, whether its program starts only when the clock runs: it has a defined end, waits
/// for the end of another program, or waits for such a node.
fn late(scenario: &Scenario) -> Vec<bool> {
    let mut late: Vec<bool> = scenario
        .nodes
        .iter()
        .map(|node| {
            let program = node.program.as_ref();
            program.is_some_and(|p| p.ends || p.after.iter().any(|after| after.ended))
        })
        .collect();
    // Each round adds the nodes that wait directly for a node found so far.
    loop {
        let waits = |node: usize| {
            let program = scenario.nodes[node].program.as_ref();
            program.is_some_and(|p| p.after.iter().any(|after| late[after.node]))
        };
        let more: Vec<usize> = (0..late.len()).filter(|&n| !late[n] && waits(n)).collect();
        if more.is_empty() {
            return late;
        }
        more.iter().for_each(|&node| late[node] = true);
    }
}

/// A host as the control socket shows it.
fn shown(scenario: &Scenario, number: usize, containers: &Containers) -> SessionNode {
    let node = &scenario.nodes[number];
    let container = containers.of(number);
    let program = node.program.as_deref();
    let is_directory =
        program.is_some_and(|program| matches!(program.root, Root::Directory { .. }));
    let kind = match (container, is_directory) {
        (Some(_), _) => Kind::Container,
        (None, true) => Kind::Rootfs,
        (None, false) => Kind::Host,
    };
    SessionNode {
        name: node.name.clone(),
        kind,
        program: program.map(words).unwrap_or_default(),
        state: if program.is_some() { NodeState::Waiting } else { NodeState::Up },
        exit_code: None,
        pid: None,
        engine: container.map(|container| container.engine.command().to_owned()),
        container: container.map(|container| container.name.clone()),
    }
}

/// A program in words for users.
fn words(program: &HostProgram) -> String {
    let command = match &program.command {
        None => String::new(),
        Some(Words::Shell(text)) => text.clone(),
        Some(Words::List(words)) => words.join(" "),
    };
    match &program.root {
        Root::Image { name, .. } => format!("{name} {command}").trim_end().to_owned(),
        _ => command,
    }
}

/// Maximum length of a host's log in bytes.
const LONGEST_LOG: usize = 8 << 20;
/// Maximum length of the output of a health check in bytes.
const LONGEST_CHECK_LOG: usize = 16 << 10;
/// The interval between the checks whether a container's program runs.
const OWN_INTERVAL: Duration = Duration::from_millis(100);
/// The time limit of a check whether a container's program runs.
const OWN_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of failed checks of this kind at which the host counts as not healthy.
const OWN_RETRIES: u32 = 600;
/// The longest wait for containers that the engine is creating when the lab ends.
const LONGEST_SETTLE: Duration = Duration::from_secs(10);
/// Exit codes with which an engine's `run` reports that it could not start the program.
const ENGINE_CODES: std::ops::RangeInclusive<u8> = 125..=127;
/// The number of SIGTERM.
const TERM: i32 = rustix::process::Signal::TERM.as_raw();
