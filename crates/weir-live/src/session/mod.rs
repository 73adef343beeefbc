//! A live session: links or rules between ports, with their namespaces, interfaces and programs.
//!
//! A [`SessionConfig`] describes the session. [`LiveSession::build`] sets up the surroundings,
//! [`Prepared::start`] starts the links, [`Control`] changes and observes them from any thread, and
//! [`LiveSession::stop`] returns the results and undoes every change to the machine.

pub(crate) mod attached;
mod config;
mod control;
mod error;
pub(crate) mod follow;
pub(crate) mod held;
mod results;
mod running;
mod site;
mod state;
mod surroundings;
mod warnings;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use weir_core::{Emulator, Nanos};
use weir_linux::clock;
use weir_linux::live::{Gso, LaneConfig, Live, LiveConfig};
use weir_linux::port::{AnyPort, Fault};
use weir_linux::process::Signals;
use weir_linux::resident::Resident;
use weir_linux::topology::{
    End, Happened, Hold, Launch, Network, Note, Outcome, ProgramId, Session, Side, SpawnError, Task,
};
use weir_report::pcap::{Interface, LinkType};
use weir_rules::canonical;
use weir_rules::ruleset::{Changes, Ruleset};

pub use config::{Capture, Emulation, Lanes, Link, NamedLink, Observation, SessionConfig, Tuning};
pub use control::Control;
pub use error::{BuildError, ChangeError, StartError, StopError};
pub use results::{Finished, Snapshot};
pub use surroundings::{OpenPorts, Place, Surroundings};

use crate::observe::Recorder;
use crate::rules;
use running::{END_WITHIN, Running};
use state::{Direction, State};

/// Links that forward packets, in the surroundings `P`: [`Session`] with programs on two sides,
/// [`Network`] with hosts, `Attached` or `HeldSite` with programs that Weir does not start, or
/// [`OpenPorts`].
///
/// Dropping a session ends its links and programs, and undoes every change to the machine.
#[derive(Debug)]
pub struct LiveSession<P: Place = Session> {
    running: Running,
    control: Control,
    recorder: Option<Recorder>,
    started: SystemTime,
    place: P,
}

/// A session that has its surroundings set up and no thread yet.
#[derive(Debug)]
pub struct Prepared<P: Place = Session> {
    place: P,
    config: SessionConfig<()>,
}

impl LiveSession {
    /// Sets up the surroundings. It starts no thread, because the process of an ordinary user must
    /// have a single thread for this step. Later threads inherit the blocked signals of this
    /// thread, so take [`Signals`] after this and before [`Prepared::start`].
    ///
    /// # Errors
    /// The configuration or the machine does not allow it. The machine is unchanged after an error.
    pub fn build<S: Surroundings>(
        config: SessionConfig<S>,
    ) -> Result<Prepared<S::Place>, BuildError> {
        let SessionConfig {
            surroundings,
            emulation,
            observation,
            sample_period,
            seed,
            tuning,
            outlives_ports,
            latency_requests,
        } = config;
        check_processor(tuning.cpu)?;
        let place = surroundings.set_up()?;
        let config = SessionConfig {
            surroundings: (),
            emulation,
            observation,
            sample_period,
            seed,
            tuning,
            outlives_ports,
            latency_requests,
        };
        Ok(Prepared { place, config })
    }

    /// Starts a program on one side, in its own namespaces, as a child in this process's group.
    /// If both sides have a program, only the one on the right side reads standard input.
    ///
    /// # Errors
    /// The command cannot be executed, or its namespaces cannot be created. Nothing remains of the
    /// program after an error.
    pub fn spawn(&mut self, side: Side, command: &[OsString]) -> Result<(), SpawnError> {
        self.place.spawn(side, command)
    }

    /// Waits until the program ends (with two programs, the one on the right side), a signal
    /// arrives, the session is stopped, or `timeout` has passed. Then ends the remaining programs.
    /// If a program has ended, this first waits for packets inside to arrive. See [`Session::wait`]
    /// for signals and grace periods.
    ///
    /// # Errors
    /// Waiting itself fails.
    pub fn wait(&mut self, signals: &Signals, timeout: Option<Duration>) -> io::Result<Ended> {
        let began = Instant::now();
        let mut lasted = None;
        let drain = || {
            lasted = Some(began.elapsed());
            self.control.drain();
        };
        let outcome = self.place.wait_and_settle(signals, timeout, drain)?;
        Ok(Ended { outcome, lasted: lasted.unwrap_or_else(|| began.elapsed()) })
    }
}

/// How the programs of a session ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The event that ended the wait, and the end of every program.
    pub outcome: Outcome,
    /// Time from the start of the wait to the end of the program, without the wait for packets
    /// inside. If no program ended the wait, the time until all programs had ended.
    pub lasted: Duration,
}

impl LiveSession<Network> {
    /// Starts a program on the host with this number.
    ///
    /// # Errors
    /// The command cannot be executed, or its namespaces cannot be created. Nothing remains of the
    /// program after an error.
    ///
    /// # Panics
    /// There is no such host.
    pub fn launch(&mut self, host: usize, launch: Launch) -> Result<ProgramId, SpawnError> {
        self.place.spawn(host, launch)
    }

    /// Makes the namespaces of a host for several commands.
    ///
    /// # Errors
    /// The namespaces cannot be made, or the root file system cannot be entered.
    ///
    /// # Panics
    /// There is no such host.
    pub fn hold(&mut self, host: usize, hold: &Hold) -> Result<(), SpawnError> {
        self.place.hold(host, hold)
    }

    /// The process 1 of a host's namespaces; `None` before [`Self::hold`].
    pub fn holder(&self, host: usize) -> Option<u32> {
        self.place.holder(host)
    }

    /// Starts a command in the namespaces that [`Self::hold`] has made, or on the machine if `host`
    /// is `None`.
    ///
    /// # Errors
    /// The command cannot be executed, or the host has no namespaces for commands.
    pub fn start_task(&mut self, host: Option<usize>, task: Task) -> Result<ProgramId, SpawnError> {
        self.place.start(host, task)
    }

    /// Ends a program or command at once.
    pub fn kill(&mut self, program: ProgramId) {
        self.place.kill(program);
    }

    /// Waits until a program ends, a signal arrives, the session is stopped, or the time `until` is
    /// reached.
    ///
    /// # Errors
    /// Waiting itself fails.
    pub fn wait_until(
        &mut self,
        signals: &Signals,
        until: Option<Instant>,
    ) -> io::Result<Happened> {
        self.place.wait(signals, until)
    }

    /// Sends a signal to a program; without effect after the program has ended.
    pub fn signal(&self, program: ProgramId, number: i32) {
        self.place.signal(program, number);
    }
}

impl<P: Place> LiveSession<P> {
    /// The control of this session, for changing, observing and stopping it from any thread.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The ends as programs see them, in the order of the ports; empty for [`OpenPorts`].
    pub fn ends(&self) -> &[End] {
        self.place.ends()
    }

    /// Limitations of the surroundings and of the programs started so far, for the user.
    pub fn notes(&self) -> &[Note] {
        self.place.notes()
    }

    /// Whether the links have ended: they were stopped, an interface has disappeared, or they
    /// failed.
    pub fn has_ended(&self) -> bool {
        self.running.has_ended()
    }

    /// Ends the links and the remaining programs, undoes every change to the machine, and returns
    /// the results.
    ///
    /// # Errors
    /// The live loop failed, or did not end within ten seconds. The changes to the machine are
    /// undone in this case, too.
    pub fn stop(self) -> Result<Finished, StopError> {
        self.stop_within(END_WITHIN)
    }

    /// Does the same as [`Self::stop`], and waits for the end of the loop for at most `within`.
    ///
    /// # Errors
    /// As with [`Self::stop`].
    pub fn stop_within(self, within: Duration) -> Result<Finished, StopError> {
        let Self { running, control, recorder, started, place } = self;
        let report = running.stop(within);
        let comes_and_goes = place.comes_and_goes();
        let ends = place.ends().to_vec();
        let leftovers = place.close();
        let series = control.series();
        let capture = recorder.and_then(Recorder::finish);
        let mut report = report?;
        if comes_and_goes {
            report.events.retain(|event| !matches!(event.fault, Fault::Vanished));
        }
        let snapshot = results::snapshot(&report, series, &control.state());
        Ok(Finished { report, ends, snapshot, capture, started, leftovers })
    }
}

impl<P: Place> Prepared<P> {
    /// The ends as programs see them, in the order of the ports.
    pub fn ends(&self) -> &[End] {
        self.place.ends()
    }

    /// Limitations of the surroundings, for the user.
    pub fn notes(&self) -> &[Note] {
        self.place.notes()
    }

    /// Starts the links.
    ///
    /// # Errors
    /// See [`StartError`]. After an error every change to the machine is undone.
    pub fn start(self) -> Result<LiveSession<P>, StartError> {
        self.start_from(None)
    }

    /// Starts the links on a new thread. If `starter` is given, it starts the new thread, which
    /// inherits the starter's capabilities and namespace.
    ///
    /// # Errors
    /// See [`StartError`]. After an error every change to the machine is undone.
    pub fn start_from(self, starter: Option<&Resident>) -> Result<LiveSession<P>, StartError> {
        let Self { mut place, config } = self;
        let SessionConfig { emulation, observation, seed, tuning, .. } = config;
        let mut sets = place.take_ports();
        share(&mut sets, tuning.workers)?;
        let (lanes, state) = plan(emulation, place.ends());
        let (now, started) = (clock::now(), SystemTime::now());
        let (recorder, observer) = match observation {
            Observation::Nothing => (None, None),
            Observation::Own(observer) => (None, Some(observer)),
            Observation::Series { capture } => {
                let capture = capture.as_ref().map(|c| (Path::new(&c.path), c.snaplen));
                let interfaces = interfaces(&lanes.lanes, &state);
                let (recorder, observer) = Recorder::new(&interfaces, capture, now, started)?;
                (Some(recorder), Some(observer))
            }
        };
        let first = if sets.is_empty() { Vec::new() } else { sets.remove(0) };
        let mut live = LiveConfig::new(first, lanes.lanes);
        live.more_workers = sets;
        live.forwarding = lanes.forwarding;
        live.rules = state.rules.as_ref().map(|rules| Arc::clone(rules.classifier()));
        live.seed = seed;
        live.memory = tuning.memory;
        live.spin = tuning.spin;
        live.realtime = tuning.realtime;
        live.cpu = tuning.cpu;
        live.observer = observer;
        live.sample_period = config.sample_period;
        live.stop_when_port_vanishes = !config.outlives_ports;
        live.latency_requests = config.latency_requests;
        let mut live = Live::new(live)?;
        live.configure(|engine, now| {
            configure(engine, now, &state);
            if let Some(change) = &lanes.engine {
                change(engine, now);
            }
        });
        let running = Running::start(live, place.stopper(), starter).map_err(StartError::Thread)?;
        let recording = recorder.as_ref().map(|recorder| recorder.recording().clone());
        let control = Control::new(running.handle().clone(), running.stop_flag(), recording, state);
        Ok(LiveSession { running, control, recorder, started, place })
    }
}

/// Opens the ports of the first worker for the further workers, too.
fn share(sets: &mut Vec<Vec<AnyPort>>, workers: usize) -> Result<(), StartError> {
    for _ in sets.len()..workers {
        let Some(first) = sets.first_mut() else { return Ok(()) };
        let shared = first.iter_mut().map(AnyPort::share).collect::<Result<_, _>>()?;
        sets.push(shared);
    }
    Ok(())
}

/// The lanes for an emulation, and the configuration that is in force at the start.
fn plan(emulation: Emulation, ends: &[End]) -> (Lanes, State) {
    match emulation {
        Emulation::Links(links) => {
            let [forth, back] = *links;
            let links: Vec<NamedLink> = (1..)
                .zip([forth, back])
                .map(|(id, link)| NamedLink { link, id, scheduler: None, ends: Default::default() })
                .collect();
            let lane = |(from, named): (usize, &NamedLink)| LaneConfig {
                name: named.link.name.clone(),
                from,
                to: 1 - from,
                pipe: named.id,
                passes: Vec::new(),
                gso: match named.link.spec.gso {
                    weir_rules::Gso::Split => Gso::Split,
                    weir_rules::Gso::Whole => Gso::Whole,
                },
            };
            let lanes =
                Lanes { lanes: (0..).zip(&links).map(lane).collect(), links, ..Lanes::default() };
            with_state(lanes, ends)
        }
        Emulation::Rules { directions, ruleset, place } => {
            let gso = rules::offloads(&ruleset);
            let rules = rules::between(*ruleset, place, ends);
            let of = |(from, (name, passes)): (usize, (String, _))| LaneConfig {
                name,
                from,
                to: 1 - from,
                pipe: from as u16 + 1,
                passes,
                gso,
            };
            let lanes = directions.into_iter().zip(rules::passes(place));
            let lanes = Lanes {
                lanes: (0..).zip(lanes).map(of).collect(),
                rules: Some(rules),
                ..Lanes::default()
            };
            with_state(lanes, ends)
        }
        Emulation::Lanes(lanes) => with_state(lanes, ends),
    }
}

/// Moves the links and rules of the lanes into the state of the session.
fn with_state(mut lanes: Lanes, ends: &[End]) -> (Lanes, State) {
    let name = |port: usize| ends.get(port).map(|end| end.name.clone()).unwrap_or_default();
    let direction = |lane: &LaneConfig| Direction {
        name: lane.name.clone(),
        passes: lane.passes.clone(),
        from: name(lane.from),
        to: name(lane.to),
    };
    let directions = lanes.lanes.iter().map(direction).collect();
    let (links, rules) = (std::mem::take(&mut lanes.links), lanes.rules.take());
    (lanes, State::new(clock::now(), directions, links, rules))
}

/// Creates the pipes or schedulers of the named links, and the pipes, schedulers and queues of the
/// rules.
fn configure(engine: &mut Emulator, now: Nanos, state: &State) {
    for NamedLink { link, id, scheduler, .. } in &state.links {
        let pipe = &link.spec.pipe;
        match scheduler {
            None => engine.set_pipe(now, *id, pipe),
            Some(scheduler) => engine.set_link(now, *id, scheduler, &pipe.link, &pipe.queue),
        }
    }
    if let Some(rules) = &state.rules {
        let changes = Changes::between(&Ruleset::default(), rules.ruleset());
        changes.apply(now, engine);
    }
}

/// The lanes as a capture describes them.
fn interfaces(lanes: &[LaneConfig], state: &State) -> Vec<Interface> {
    let of = |(lane, direction): (&LaneConfig, &Direction)| {
        let link = state.link_of(lane.pipe).map(|index| &state.links[index].link);
        let spec = link.map(|link| canonical(&link.spec)).unwrap_or_default();
        Interface {
            name: lane.name.clone(),
            description: format!("{} → {}, {spec}", direction.from, direction.to),
            link_type: LinkType::Ethernet,
        }
    };
    lanes.iter().zip(&state.directions).map(of).collect()
}

/// Refuses a processor that does not exist, because the thread would otherwise run on any
/// processor.
fn check_processor(wanted: Option<usize>) -> Result<(), BuildError> {
    let Some(number) = wanted else { return Ok(()) };
    let all = Path::new("/sys/devices/system/cpu");
    match std::fs::read_to_string(all.join("online")) {
        Ok(online) if !all.join(format!("cpu{number}")).exists() => {
            Err(BuildError::NoProcessor { number, online: online.trim().to_owned() })
        }
        _ => Ok(()),
    }
}
