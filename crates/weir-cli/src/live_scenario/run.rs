//! The course of a live run: set-up, start, samples, end, results.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use std::process::ExitCode;

use weir_linux::live::{Live, LiveConfig, LiveError, LiveHandle, LiveReport, Realtime};
use weir_linux::process::Signals;
use weir_linux::topology::{self, Happened, Network, ProgramId};
use weir_sim::build::build;
use weir_sim::scenario::Scenario;

use super::LiveArgs;
use super::agents::{Agent, Program, soon};
use super::flows::Flow;
use super::gather::{Seen, outcome};
use super::kinds::{Carrier, carrier};
use super::plan::{Plan, configure, plan};
use super::refuse::{Source, load};
use super::results::Printed;
use super::sampler::Sampler;
use super::watch::{Counts, Sign, Watch};
use crate::output::{Failure, say};
use weir_traffic::host::order::{Order, Report, Role};

/// Makes the run.
pub(super) fn run(args: &LiveArgs) -> Result<ExitCode, Failure> {
    let source = load(args)?;
    let Source { scenario, seed, .. } = &source;
    super::results::check(args)?;
    let plan = plan(scenario, args.mtu)?;
    // Before any thread: an ordinary user's namespaces demand it.
    let mut network = topology::network(&plan.setup).map_err(Failure::own)?;
    for note in network.notes() {
        say(format_args!("weir: note: {}\n", note.what));
    }
    let signals =
        Signals::take().map_err(|error| Failure::own(format!("cannot take signals: {error}")))?;
    let names = build(scenario, *seed).map_err(Failure::own)?.names;
    let links = Links::start(&mut network, &plan, scenario, *seed, args)?;
    let run = Run::new(&source, &plan, &links);
    let made = run.and_then(|run| run.make(&mut network, &signals));
    let stopped = links.stop();
    network.close();
    let (made, report) = (made?, stopped?);
    let Made { mut seen, notes, programs } = match made {
        Ok(made) => made,
        Err(code) => return Ok(code),
    };
    seen.events = report.lanes.iter().map(|lane| lane.counters.packets_in).sum();
    for note in notes.iter().chain(&warnings(&report)).filter(|_| !args.quiet) {
        say(format_args!("weir: note: {note}\n"));
    }
    let outcome = outcome(scenario, *seed, &names, &plan.flows, seen);
    super::results::write(args, &source, outcome, &programs)
}

/// What a user should know of how the loop fared.
fn warnings(report: &LiveReport) -> Vec<String> {
    let mut words = Vec::new();
    let late: u64 = report.lanes.iter().map(|lane| lane.late_1ms).sum();
    if late > 0 {
        words.push(format!(
            "{late} packets left more than 1 ms late: this machine was too slow, or too busy"
        ));
    }
    let dropped: u64 = report.lanes.iter().map(|lane| lane.rx_kernel_drops).max().unwrap_or(0);
    if dropped > 0 {
        words.push(format!(
            "the kernel dropped {dropped} frames of a host before they could be read"
        ));
    }
    if report.unobserved > 0 {
        words.push(format!(
            "{} frames of flows that are counted on the way were not seen: this machine was too slow",
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

/// The loop with its thread.
struct Links {
    handle: LiveHandle,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<LiveReport, LiveError>>,
    watched: Vec<u32>,
    counts: Counts,
}

impl Links {
    fn start(
        network: &mut Network,
        plan: &Plan,
        scenario: &Scenario,
        seed: u64,
        args: &LiveArgs,
    ) -> Result<Self, Failure> {
        let ports =
            network.take_ports().ok_or_else(|| Failure::own("the ports are already taken"))?;
        let (watched, signs) = watched(scenario, plan);
        let (watch, counts) = Watch::new(&signs);
        let mut config = LiveConfig::new(ports, plan.lanes.clone());
        config.forwarding = Some(plan.forwarding.clone());
        config.rules = Some(Arc::clone(&plan.classifier));
        config.seed = seed;
        config.spin = args.spin;
        config.realtime = if args.no_realtime { Realtime::Off } else { Realtime::WhenAllowed };
        config.cpu = args.cpu;
        // To look at frames costs time, which generators of datagrams make needless.
        config.observer = if signs.is_empty() { None } else { Some(Box::new(watch)) };
        let mut live = Live::new(config).map_err(Failure::own)?;
        live.configure(|engine, now| configure(scenario, engine, now));
        let (handle, stop, stopper) =
            (live.handle(), Arc::new(AtomicBool::new(false)), network.stopper());
        let thread = std::thread::Builder::new()
            .name("weir-link".to_owned())
            .spawn({
                let stop = Arc::clone(&stop);
                move || {
                    let report = live.run(&stop);
                    // Whatever ended the links ends the run.
                    stopper.stop();
                    report
                }
            })
            .map_err(|error| Failure::own(format!("cannot start the links' thread: {error}")))?;
        Ok(Self { handle, stop, thread, watched, counts })
    }

    fn stop(self) -> Result<LiveReport, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        // It may have ended by itself.
        let _ = self.handle.stop();
        let report = self
            .thread
            .join()
            .map_err(|_| Failure::own("the links' thread panicked; please report this as a bug"))?;
        report.map_err(Failure::own)
    }
}

/// The flows that the loop has to count, and how it knows them.
fn watched(scenario: &Scenario, plan: &Plan) -> (Vec<u32>, Vec<Sign>) {
    let address = |bits: u128| Ipv4Addr::from_bits(bits as u32);
    let sign = |flow: &Flow| match carrier(scenario, flow) {
        Carrier::Datagrams { .. } => None,
        Carrier::Tcp(_) => {
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

/// A run that is about to be made.
struct Run<'a> {
    scenario: &'a Scenario,
    plan: &'a Plan,
    order: Order,
    sampler: Sampler,
    watched: &'a [u32],
    interval: Duration,
}

/// What a run gave.
struct Made {
    seen: Seen,
    notes: Vec<String>,
    /// What programs printed, by their traffic's name.
    programs: Printed,
}

/// Something that is to happen at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Zero,
    Look,
    Close,
    Program(usize),
    End,
}

impl<'a> Run<'a> {
    fn new(source: &'a Source, plan: &'a Plan, links: &'a Links) -> Result<Self, Failure> {
        let scenario = &source.scenario;
        let interval = scenario
            .measure
            .interval
            .0
            .max(LEAST_INTERVAL_NS)
            .max(scenario.duration.0 / MOST_INTERVALS);
        let order = Order {
            host: 0,
            scenario: source.text.clone(),
            file: source.file.clone(),
            seed: source.seed,
            duration_ns: scenario.duration.0,
            warmup_ns: scenario.warmup.0,
            interval_ns: interval,
            realtime: source.realtime,
            tasks: Vec::new(),
        };
        let ports = scenario.links.len() * 2;
        let sampler = Sampler::new(
            links.handle.clone(),
            ports,
            Arc::clone(&links.counts),
            links.watched.len(),
        );
        Ok(Self {
            scenario,
            plan,
            order,
            sampler,
            watched: &links.watched,
            interval: Duration::from_nanos(interval),
        })
    }

    /// Makes it; gives the exit code where a signal ended it.
    fn make(
        mut self,
        network: &mut Network,
        signals: &Signals,
    ) -> Result<Result<Made, ExitCode>, Failure> {
        let mut agents = Vec::new();
        for (host, tasks) in
            self.plan.tasks.iter().enumerate().filter(|(_, tasks)| !tasks.is_empty())
        {
            let order =
                Order { host: self.plan.hosts[host], tasks: tasks.clone(), ..self.order.clone() };
            agents.push((host, Agent::start(network, host, &order)?));
        }
        for (_, agent) in &agents {
            agent.ready()?;
        }
        let (start, began) = soon();
        for (_, agent) in &mut agents {
            agent.begin(start)?;
        }
        let mut programs: BTreeMap<ProgramId, (usize, Program)> = BTreeMap::new();
        let mut notes = Vec::new();
        let mut steps = self.steps();
        let agent_ids: Vec<ProgramId> = agents.iter().map(|(_, agent)| agent.id).collect();
        while let Some((at, step)) = steps.pop() {
            if let Some(code) = wait(network, signals, began + at, &agent_ids, &mut |id, code| {
                if let (Some((flow, _)), true) = (programs.get(&id), code != 0) {
                    notes.push(format!(
                        "{} ended with exit code {code}",
                        self.plan.flows[*flow].group
                    ));
                }
            })? {
                return Ok(Err(code));
            }
            let gone = |_| Failure::own("the links have ended before the run");
            match step {
                Step::Zero => self.sampler.zero().map_err(gone)?,
                Step::Look => self.sampler.look().map_err(gone)?,
                Step::Close => self.sampler.close().map_err(gone)?,
                Step::End => break,
                Step::Program(flow) => {
                    let Carrier::Program { command, .. } =
                        carrier(self.scenario, &self.plan.flows[flow])
                    else {
                        continue;
                    };
                    let Some(host) = self.plan.port(self.plan.flows[flow].from) else { continue };
                    let program = Program::start(network, host, &command)?;
                    programs.insert(program.id, (flow, program));
                }
            }
        }
        let gone = |_| Failure::own("the links have ended before the run");
        let stats = self.sampler.stats().map_err(gone)?;
        let counts = self.sampler.counts().map_err(gone)?;
        programs.keys().for_each(|&id| network.signal(id, nix::libc::SIGTERM));
        let mut seen = Seen {
            ports: stats,
            samples: std::mem::take(&mut self.sampler.links),
            interval_ns: self.order.interval_ns,
            watched: self
                .watched
                .iter()
                .copied()
                .zip(counts.into_iter().zip(std::mem::take(&mut self.sampler.flows)))
                .collect(),
            ..Seen::default()
        };
        for (host, agent) in agents {
            let report = agent.report()?;
            notes.extend(
                report
                    .notes
                    .iter()
                    .map(|note| format!("{}: {note}", self.plan.setup.hosts[host].name)),
            );
            self.sort(host, report, &mut seen);
        }
        let printed = programs
            .into_values()
            .map(|(flow, program)| (self.plan.flows[flow].group.clone(), program.output()));
        Ok(Ok(Made { seen, notes, programs: printed.collect() }))
    }

    /// Notes what the ends on a host have seen.
    fn sort(&self, host: usize, report: Report, seen: &mut Seen) {
        for (task, end) in self.plan.tasks[host].iter().zip(report.ends) {
            let place = usize::from(matches!(task.role, Role::Receive { .. } | Role::Read));
            seen.ends.entry(task.flow).or_default()[place] = end;
        }
    }

    /// What is to happen when after the start, the last first.
    fn steps(&self) -> Vec<(Duration, Step)> {
        let (end, warmup) = (
            Duration::from_nanos(self.scenario.duration.0),
            Duration::from_nanos(self.scenario.warmup.0),
        );
        let mut steps = vec![(end, Step::End)];
        if !warmup.is_zero() {
            steps.push((warmup, Step::Zero));
        }
        let look = self.interval / LOOKS;
        let count =
            u32::try_from(end.as_nanos().div_ceil(look.as_nanos().max(1))).unwrap_or(u32::MAX);
        for n in 1..=count {
            steps.push(((look * n).min(end), Step::Look));
            if n % LOOKS == 0 || n == count {
                steps.push(((look * n).min(end), Step::Close));
            }
        }
        for flow in &self.plan.flows {
            if let Carrier::Program { start_ns, .. } = carrier(self.scenario, flow) {
                steps.push((Duration::from_nanos(start_ns), Step::Program(flow.number as usize)));
            }
        }
        steps.sort_by(|a, b| b.cmp(a));
        steps
    }
}

/// Waits until a time; gives an exit code where a signal ends the run. `ended` hears of programs
/// that end meanwhile.
fn wait(
    network: &mut Network,
    signals: &Signals,
    until: Instant,
    agents: &[ProgramId],
    ended: &mut dyn FnMut(ProgramId, u8),
) -> Result<Option<ExitCode>, Failure> {
    loop {
        let happened = network
            .wait(signals, Some(until))
            .map_err(|error| Failure::own(format!("cannot wait: {error}")))?;
        match happened {
            Happened::Time => return Ok(None),
            Happened::Signal(number) => {
                return Ok(Some(ExitCode::from(u8::try_from(128 + number).unwrap_or(u8::MAX))));
            }
            Happened::Stopped => return Err(Failure::own("the links have ended before the run")),
            Happened::Ended(id, _) if agents.contains(&id) => {
                return Err(Failure::own("the traffic of a host has ended before the run"));
            }
            Happened::Ended(id, code) => ended(id, code),
        }
    }
}

/// Looks at queues in each interval.
const LOOKS: u32 = 10;
/// Shortest interval of time series: each look stops packets for a moment.
const LEAST_INTERVAL_NS: u64 = 10_000_000;
/// Points of a time series at most.
const MOST_INTERVALS: u64 = 20_000;
