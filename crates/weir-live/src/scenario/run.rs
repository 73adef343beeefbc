//! A live run: setup, start, samples, end, results.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weir_linux::live::{LiveReport, Realtime};
use weir_linux::process::Signals;
use weir_linux::topology::{Happened, Neighbours, Network, Note, ProgramId};
use weir_measure::distribution::Distribution;
use weir_measure::scenario::Lateness;
use weir_report::sim::NodeOutcome;
use weir_report::{Late, why_late};
use weir_sim::build::build;
use weir_sim::measure::{Names, Outcome};
use weir_sim::scenario::{Root, Scenario};
use weir_traffic::host::order::{Order, Report, Role};

use super::agents::{Agent, Program, soon};
use super::error::{Gone, ScenarioError};
use super::flows::Flow;
use super::gather::{Seen, outcome};
use super::kinds::Carrier;
use super::plan::{Plan, plan};
use super::sampler::Sampler;
use super::watch::{Counts, Sign, Watch};
use crate::lab::{Board, Containers, Ending, Lab, LabResults};
use crate::session::{
    Control, Emulation, LiveSession, Observation, Prepared, SessionConfig, Tuning,
};

/// A scenario to be run live. [`check`](super::check()) must have accepted it.
#[derive(Clone, Debug)]
pub struct ScenarioSetup {
    /// The scenario.
    pub scenario: Scenario,
    /// The scenario's text, with changed settings. The generators parse it again.
    pub text: String,
    /// The name of the scenario's file. Names of further files are relative to its directory.
    pub file: String,
    /// Largest IP packet of the hosts' interfaces, in bytes.
    pub mtu: u32,
    /// How the hosts learn each other's Ethernet addresses.
    pub neighbours: Neighbours,
    /// How the live loop uses the machine.
    pub tuning: Tuning,
    /// The command that runs [`weir_traffic::host::run`] on its standard input and output.
    pub generator: Vec<OsString>,
    /// The name of the lab, with which the names of its containers begin.
    pub name: String,
    /// Whether the hosts stay after the end of the run, until a signal.
    pub keep: bool,
}

/// A live run that has its hosts set up.
#[derive(Debug)]
pub struct LiveScenario {
    setup: ScenarioSetup,
    /// The programs on the hosts; `None` if only traffic uses them.
    lab: Option<Lab>,
    plan: Plan,
    /// The names of the scenario, of its flows and of its links in results.
    names: Names,
    prepared: Prepared<Network>,
    counts: Counts,
    /// Numbers of the flows for which the live loop counts all packets, or only the drops.
    watched: Vec<u32>,
}

/// The end of a live run.
#[derive(Debug)]
pub enum Ran {
    /// The run is complete, with these results.
    Complete(Box<ScenarioResults>),
    /// This signal ended the run early, and there are no results.
    Signal(i32),
}

/// The results of a live run.
#[derive(Debug)]
pub struct ScenarioResults {
    /// The results in the simulator's form.
    pub outcome: Outcome,
    /// The output of the user's programs, by the names of their flows.
    pub printed: Vec<(String, Vec<u8>)>,
    /// Notes on the validity of the results.
    pub notes: Vec<String>,
    /// The hosts with programs.
    pub nodes: Vec<NodeOutcome>,
    /// The output of these programs, by the names of the hosts.
    pub logs: Vec<(String, Vec<u8>)>,
    /// The signal that ended the run of a lab early.
    pub signal: Option<i32>,
    /// The first exit code other than 0 of a program with a defined end (the key `ends`).
    pub failed: Option<u8>,
}

/// The functions by which the caller follows a live run.
pub trait Follower {
    /// Called when the links forward packets. `control` may be used from any thread until the run
    /// ends.
    fn started(&mut self, control: &Control);

    /// Called when all generators are ready. The scenario's time 0 is at `at`, shortly after this
    /// call.
    fn begins(&mut self, at: Instant);
}

impl<F: FnMut(&Control)> Follower for F {
    fn started(&mut self, control: &Control) {
        self(control);
    }

    fn begins(&mut self, _: Instant) {}
}

impl LiveScenario {
    /// Sets up the hosts. Starts no thread: see [`LiveSession::build`].
    ///
    /// # Errors
    /// The scenario or the machine does not allow it. The machine is unchanged after an error.
    pub fn build(setup: ScenarioSetup) -> Result<Self, ScenarioError> {
        let scenario = &setup.scenario;
        let is_lab = setup.keep || scenario.is_lab();
        let mut plan = plan(scenario, setup.mtu, setup.neighbours, is_lab)?;
        let mut containers = Containers::new(&setup.name);
        add_networks(scenario, &mut plan, &mut containers)?;
        let lab = is_lab.then(|| Lab::new(scenario, &plan.hosts, &setup.file, containers));
        let names = build(scenario, scenario.seed)?.names;
        let (watched, signs) = watched(scenario, &plan);
        // Observing frames costs time. The generators count the arrivals of datagrams, so only
        // their drops need to be observed.
        let drops_only = plan.flows.iter().all(|flow| flow.is_of_datagrams(scenario));
        let (watch, counts) = Watch::new(&signs, drops_only);
        let observation =
            if signs.is_empty() { Observation::Nothing } else { Observation::Own(Box::new(watch)) };
        let config =
            SessionConfig::new(plan.setup.clone(), Emulation::Lanes(plan.session(scenario)))
                .seed(scenario.seed)
                .tuning(setup.tuning)
                .observation(observation);
        let prepared = LiveSession::build(config)?;
        Ok(Self { setup, lab, plan, names, prepared, counts, watched })
    }

    /// Limitations of the hosts that the user should know.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        self.prepared.notes()
    }

    /// The states of a lab's hosts, which change while it runs.
    #[must_use]
    pub fn board(&self) -> Option<Board> {
        self.lab.as_ref().map(|lab| lab.board().clone())
    }

    /// Executes the run, and undoes every change to the machine.
    ///
    /// # Errors
    /// A process or the links failed before the end.
    pub fn run(self, signals: &Signals, follower: &mut dyn Follower) -> Result<Ran, ScenarioError> {
        let Self { setup, mut lab, plan, names, prepared, counts, watched } = self;
        let mut session = prepared.start()?;
        follower.started(session.control());
        let run = Run::new(&setup, &plan, &watched, session.control(), counts);
        let collected = run.execute(&mut session, signals, follower, lab.as_mut());
        if let Some(lab) = &mut lab {
            lab.settle(&mut session, signals);
            if collected.is_ok() {
                lab.stop(&mut session, signals);
            }
        }
        let stopped = session.stop();
        // This also removes the containers.
        let LabResults { nodes, logs, notes: of_lab, failed } =
            lab.map(Lab::finish).unwrap_or_default();
        let (collected, finished) = (collected?, stopped?);
        let Collected { mut seen, mut notes, printed, signal, end } = match collected {
            Ok(collected) => collected,
            Err(signal) => return Ok(Ran::Signal(signal)),
        };
        notes.extend(of_lab);
        let report = finished.report();
        seen.drained = report.lanes.iter().map(|lane| lane.counters.backlog_packets == 0).collect();
        seen.events = report.lanes.iter().map(|lane| lane.counters.packets_in).sum();
        seen.lateness = lateness(report);
        notes.extend(warnings(report));
        let scenario = &setup.scenario;
        let outcome = outcome(scenario, scenario.seed, &names, &plan, end, seen);
        Ok(Ran::Complete(Box::new(ScenarioResults {
            outcome,
            printed,
            notes,
            nodes,
            logs,
            signal,
            failed,
        })))
    }
}

/// Creates the container that has the network, for each host of the plan that is a container.
fn add_networks(
    scenario: &Scenario,
    plan: &mut Plan,
    containers: &mut Containers,
) -> Result<(), ScenarioError> {
    let hosts = &plan.setup.hosts;
    let names: Vec<_> = hosts.iter().map(|host| (host.name.clone(), host.address)).collect();
    for (host, &number) in plan.hosts.iter().enumerate() {
        let node = &scenario.nodes[number];
        if let Some(Root::Image { engine, .. }) = node.program.as_ref().map(|p| &p.root) {
            let namespace = containers.add_network(number, &node.name, *engine, &names)?;
            plan.setup.namespaces.insert(host, namespace);
        }
    }
    Ok(())
}

fn lateness(report: &LiveReport) -> Lateness {
    let mut ns = Distribution::default();
    report.lanes.iter().for_each(|lane| ns.merge(&Distribution::from(&lane.lateness)));
    Lateness { ns, late: report.lanes.iter().map(|lane| lane.late_1ms).sum() }
}

/// Warnings about the validity of the results.
fn warnings(report: &LiveReport) -> Vec<String> {
    let mut words = Vec::new();
    let lateness = lateness(report);
    let late = Late { packets: lateness.late, departed: lateness.ns.count };
    if late.packets > 0 {
        let verdict = if late.is_too_much() {
            "this machine was too slow, or too busy"
        } else {
            "too few to affect the results much"
        };
        words.push(format!("{} left more than 1 ms late: {verdict}", late.in_words()));
        words.extend(why_late(&report.late_causes).filter(|_| late.is_too_much()));
    }
    let dropped: u64 = report.lanes.iter().map(|lane| lane.rx_kernel_drops).sum();
    if dropped > 0 {
        words.push(format!(
            "the kernel dropped {dropped} frames of the hosts before they could be read"
        ));
    }
    if report.unobserved > 0 {
        words.push(format!(
            "{} frames of counted flows were not observed: this machine was too slow",
            report.unobserved
        ));
    }
    if report.strays.frames > 0 {
        words.push(format!(
            "{} frames were for no host that their sender has traffic with, and were dropped",
            report.strays.frames
        ));
    }
    words
}

/// The numbers of the flows for which the live loop counts packets or drops, and how it recognises
/// their packets.
fn watched(scenario: &Scenario, plan: &Plan) -> (Vec<u32>, Vec<Sign>) {
    let address = |bits: u128| Ipv4Addr::from_bits(bits as u32);
    let sign = |flow: &Flow| match flow.carrier(scenario) {
        Carrier::Datagrams { .. } | Carrier::Tcp(_) => {
            let (key, to) = (&flow.key, address(flow.key.dst));
            Some(Sign::Ends(
                SocketAddrV4::new(address(key.src), key.src_port),
                SocketAddrV4::new(to, key.dst_port),
            ))
        }
        Carrier::Program { .. } => plan.lane(flow.from, flow.to).map(Sign::Lane),
    };
    plan.flows.iter().filter_map(|flow| Some((flow.number, sign(flow)?))).unzip()
}

struct Run<'a> {
    setup: &'a ScenarioSetup,
    plan: &'a Plan,
    /// The order for each generator, without its host and tasks.
    order: Order,
    sampler: Sampler,
    watched: &'a [u32],
    /// The interval of the series.
    interval: Duration,
}

struct Collected {
    seen: Seen,
    notes: Vec<String>,
    /// The output of the user's programs, by the names of their flows.
    printed: Vec<(String, Vec<u8>)>,
    /// The signal that ended the run early.
    signal: Option<i32>,
    /// The time from the start of the run to its end.
    end: Duration,
}

/// An action at a certain time of the run. Actions at the same time follow the order of the
/// variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// End the warm-up: reset all counters.
    Zero,
    /// Sample the queues.
    Sample,
    /// End an interval of the series.
    Close,
    /// Start the program of this flow.
    Program(usize),
    End,
}

impl<'a> Run<'a> {
    fn new(
        setup: &'a ScenarioSetup,
        plan: &'a Plan,
        watched: &'a [u32],
        control: &Control,
        counts: Counts,
    ) -> Self {
        let scenario = &setup.scenario;
        let interval = scenario
            .measure
            .interval
            .0
            .max(LEAST_INTERVAL_NS)
            .max(scenario.duration.0 / MOST_INTERVALS);
        let order = Order {
            host: 0,
            scenario: setup.text.clone(),
            file: setup.file.clone(),
            seed: scenario.seed,
            duration_ns: scenario.duration.0,
            warmup_ns: scenario.warmup.0,
            interval_ns: interval,
            realtime: setup.tuning.realtime == Realtime::WhenAllowed,
            tasks: Vec::new(),
        };
        let ports = scenario.links.len() * 2;
        let sampler = Sampler::new(control.engine().clone(), ports, counts, watched.len());
        Self { setup, plan, order, sampler, watched, interval: Duration::from_nanos(interval) }
    }

    /// Executes the run. The inner result has the collected data or, if a signal ended the run
    /// before there were any, the number of the signal.
    fn execute(
        mut self,
        session: &mut LiveSession<Network>,
        signals: &Signals,
        follower: &mut dyn Follower,
        mut lab: Option<&mut Lab>,
    ) -> Result<Result<Collected, i32>, ScenarioError> {
        if let Some(lab) = &mut lab {
            lab.hold(session)?;
            match lab.bring_up(session, signals)? {
                None => {}
                Some(Ending::Signal(number)) => return Ok(Err(number)),
                Some(Ending::Links) => return Err(Gone::Links.into()),
                Some(Ending::Wait(error)) => return Err(ScenarioError::Wait(error)),
            }
        }
        let (mut agents, began) = self.begin(session)?;
        follower.begins(began);
        if let Some(lab) = &mut lab {
            lab.start_clock();
        }
        let ids: Vec<ProgramId> = agents.iter().map(|(_, agent)| agent.id()).collect();
        let mut programs: BTreeMap<ProgramId, (usize, Program)> = BTreeMap::new();
        let mut notes = Vec::new();
        let mut steps = self.steps();
        let planned = steps.iter().filter(|(_, step)| matches!(step, Step::Program(_))).count();
        // A lab without generators ends with its own programs and the programs of its traffic.
        let ends_with_programs = lab.is_some() && agents.is_empty() && !self.setup.keep;
        let ended_programs = Cell::new(0);
        let may_end = || ends_with_programs && ended_programs.get() == planned;
        let (mut signal, mut end) = (None, Duration::from_nanos(self.order.duration_ns));
        while let Some((at, step)) = steps.pop() {
            let mut ended = |id, code| {
                let Some((flow, _)) = programs.get(&id) else { return };
                ended_programs.set(ended_programs.get() + 1);
                if code != 0 {
                    let group = &self.plan.flows[*flow].group;
                    notes.push(format!("{group} ended with exit code {code}"));
                }
            };
            let mut waiting = Waiting { signals, agents: &ids, lab: lab.as_deref_mut() };
            let until = Some(began + at);
            let waited = waiting.wait(session, until, &may_end, &mut ended)?;
            match waited {
                Waited::Time => {}
                Waited::Signal(number) if lab.is_none() => return Ok(Err(number)),
                Waited::Signal(_) | Waited::Over => {
                    if let Waited::Signal(number) = waited {
                        signal = Some(number);
                    }
                    end = began.elapsed().clamp(Duration::from_nanos(1), end);
                    self.sampler.close()?;
                    break;
                }
            }
            match step {
                Step::Zero => self.sampler.zero()?,
                Step::Sample => self.sampler.sample_queues()?,
                Step::Close => self.sampler.close()?,
                Step::End => break,
                Step::Program(flow) => {
                    let program = self.start_program(session, flow)?;
                    programs.extend(program.map(|program| (program.id(), (flow, program))));
                }
            }
        }
        let stats = self.sampler.stats()?;
        let counts = self.sampler.counts()?;
        programs.keys().for_each(|&id| session.signal(id, Signal::TERM.as_raw()));
        let flows = std::mem::take(&mut self.sampler.flows);
        let mut seen = Seen {
            ports: stats,
            samples: std::mem::take(&mut self.sampler.links),
            interval_ns: self.order.interval_ns,
            watched: self.watched.iter().copied().zip(counts.into_iter().zip(flows)).collect(),
            ..Seen::default()
        };
        if signal.is_some() && !agents.is_empty() {
            let what = "the run was ended early: generated traffic is not counted at its hosts";
            notes.push(what.to_owned());
            // The generators report only at the end of the scenario's duration.
            agents.clear();
        }
        for (host, agent) in agents.drain(..) {
            let report = agent.report()?;
            let name = &self.plan.setup.hosts[host].name;
            notes.extend(report.notes.iter().map(|note| format!("{name}: {note}")));
            self.assign(host, report, &mut seen);
        }
        // By now the generators have also received the packets that arrived after the end.
        let drops = self.sampler.counts()?.into_iter().map(|count| count.all_drops());
        seen.all_drops = self.watched.iter().copied().zip(drops).collect();
        if self.setup.keep && signal.is_none() {
            // No generator is watched, because generators end after their reports.
            let mut waiting = Waiting { signals, agents: &[], lab };
            waiting.wait(session, None, &|| false, &mut |_, _| {})?;
        }
        let printed = programs
            .into_values()
            .map(|(flow, program)| (self.plan.flows[flow].group.clone(), program.output()));
        Ok(Ok(Collected { seen, notes, printed: printed.collect(), signal, end }))
    }

    /// Starts the generators, waits until all are ready, and sends them the start time. Returns the
    /// generators with the numbers of their hosts, and the start time.
    fn begin(
        &self,
        session: &mut LiveSession<Network>,
    ) -> Result<(Vec<(usize, Agent)>, Instant), ScenarioError> {
        let mut agents = Vec::new();
        let busy = self.plan.tasks.iter().enumerate().filter(|(_, tasks)| !tasks.is_empty());
        for (host, tasks) in busy {
            let order =
                Order { host: self.plan.hosts[host], tasks: tasks.clone(), ..self.order.clone() };
            agents.push((host, Agent::start(session, host, &self.setup.generator, &order)?));
        }
        for (_, agent) in &agents {
            agent.ready()?;
        }
        let (start, began) = soon();
        for (_, agent) in &mut agents {
            agent.begin(start)?;
        }
        Ok((agents, began))
    }

    fn start_program(
        &self,
        session: &mut LiveSession<Network>,
        flow: usize,
    ) -> Result<Option<Program>, ScenarioError> {
        let flow = &self.plan.flows[flow];
        match (flow.carrier(&self.setup.scenario), self.plan.port(flow.from)) {
            (Carrier::Program { command, .. }, Some(host)) => {
                Program::start(session, host, &command).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Assigns the report of a host's generator to its flows.
    fn assign(&self, host: usize, report: Report, seen: &mut Seen) {
        for (task, end) in self.plan.tasks[host].iter().zip(report.ends) {
            let index = usize::from(matches!(task.role, Role::Receive { .. } | Role::Read));
            seen.ends.entry(task.flow).or_default()[index] = end;
        }
    }

    /// The steps of the run with their times since the start, the last first.
    fn steps(&self) -> Vec<(Duration, Step)> {
        let (end, warmup) = (
            Duration::from_nanos(self.setup.scenario.duration.0),
            Duration::from_nanos(self.setup.scenario.warmup.0),
        );
        let mut steps = vec![(end, Step::End)];
        if !warmup.is_zero() {
            steps.push((warmup, Step::Zero));
        }
        let period = self.interval / SAMPLES;
        let count =
            u32::try_from(end.as_nanos().div_ceil(period.as_nanos().max(1))).unwrap_or(u32::MAX);
        for n in 1..=count {
            steps.push(((period * n).min(end), Step::Sample));
            if n % SAMPLES == 0 || n == count {
                steps.push(((period * n).min(end), Step::Close));
            }
        }
        for flow in &self.plan.flows {
            if let Carrier::Program { start_ns, .. } = flow.carrier(&self.setup.scenario) {
                steps.push((Duration::from_nanos(start_ns), Step::Program(flow.number as usize)));
            }
        }
        steps.sort_by(|a, b| b.cmp(a));
        steps
    }
}

/// State that all waits of a run use.
struct Waiting<'a> {
    signals: &'a Signals,
    /// The processes of the generators. If one of them ends, the wait fails.
    agents: &'a [ProgramId],
    lab: Option<&'a mut Lab>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    Time,
    /// This signal arrived.
    Signal(i32),
    /// The lab is over, as `Lab::is_over` defines it.
    Over,
}

impl Waiting<'_> {
    /// Waits for a time, for a signal or, while `may_end` holds, for the end of the lab's programs.
    /// Drives the lab, and calls `ended` for each program that ends in the meantime.
    fn wait(
        &mut self,
        session: &mut LiveSession<Network>,
        until: Option<Instant>,
        may_end: &dyn Fn() -> bool,
        ended: &mut dyn FnMut(ProgramId, u8),
    ) -> Result<Waited, ScenarioError> {
        loop {
            let mut next = until;
            if let Some(lab) = &mut self.lab {
                let due = lab.advance(session, Instant::now())?;
                next = [until, due].into_iter().flatten().min();
                if may_end() && lab.is_over() {
                    return Ok(Waited::Over);
                }
            }
            match session.wait_until(self.signals, next).map_err(ScenarioError::Wait)? {
                Happened::Time if next == until => return Ok(Waited::Time),
                Happened::Time => {}
                Happened::Signal(number) => return Ok(Waited::Signal(number)),
                Happened::Stopped => return Err(Gone::Links.into()),
                Happened::Ended(id, _) if self.agents.contains(&id) => {
                    return Err(Gone::Traffic.into());
                }
                Happened::Ended(id, code) => {
                    if let Some(lab) = &mut self.lab {
                        lab.ended(id, code)?;
                    }
                    ended(id, code);
                }
            }
        }
    }
}

/// Number of queue samples in each interval.
const SAMPLES: u32 = 10;
/// Shortest interval of the series. It is bounded because each sample delays packets for a moment.
const LEAST_INTERVAL_NS: u64 = 10_000_000;
/// Maximum number of points of a series.
const MOST_INTERVALS: u64 = 20_000;
