//! The daemon's packet plane. One session serves all bridges, so that a pipe shapes the packets of
//! all bridges together.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_control::api::{
    BridgeView, InstancePage, LaneTimes, LaneView, Lengths, RuleCounters, Snapshot, Times,
};
use weir_control::plane::{NoAnswer as Unanswered, Plane};
use weir_core::Nanos;
use weir_linux::clock;
use weir_linux::live::{
    ANSWER_WITHIN, Gso, LaneConfig, LaneReport, LiveEvent, LiveHandle, NoAnswer, Observer,
};
use weir_linux::resident::Resident;
use weir_measure::latency::Latency;
use weir_rules::classify::{DynamicEntry, Pass, Place};
use weir_rules::command::ObjectKind;
use weir_rules::ruleset::Ruleset;
use weir_rules::show::{DynamicKind, DynamicView, FlowCount};

use super::bridges::Bridges;
use super::gather::{Gathered, lengths, merge_lengths, portions};
use super::instances;
use super::interfaces::Interfaces;
use crate::rules::ActiveRules;
use crate::session::{
    BuildError, ChangeError, Control, Emulation, Lanes, LiveSession, Observation, OpenPorts,
    SessionConfig, StartError, StopError, Tuning,
};

/// Why the links of a daemon could not start.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// The machine refuses the configuration.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The session could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// The packet plane of a daemon: one session for all bridges.
///
/// No lock is held while the loop is asked, so that the state of the interfaces can be read, and
/// the daemon can be ended, while the loop does not answer.
pub struct LivePlane {
    bridges: Bridges,
    rules: Mutex<Rules>,
    interfaces: Mutex<Interfaces>,
    /// Carries the events of interfaces to the daemon.
    events: Sender<LiveEvent>,
    /// The session; `None` before its start, after its end, and without bridges.
    session: Mutex<Option<LiveSession<OpenPorts>>>,
}

/// The holder of the rules: the plane until its session starts, then the session.
enum Rules {
    Waiting(ActiveRules),
    Running(Control),
}

impl std::fmt::Debug for LivePlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LivePlane").finish_non_exhaustive()
    }
}

impl LivePlane {
    /// A plane that does not forward yet; `events` receives the events of interfaces.
    pub fn new(bridges: Bridges, events: Sender<LiveEvent>) -> Self {
        let (attached, count) = (bridges.present(), bridges.names().len());
        let place = Place {
            interfaces: bridges.interfaces(),
            passes: passes(count).concat(),
            ..Place::default()
        };
        let rules = Rules::Waiting(ActiveRules::new(Arc::default(), place));
        Self {
            bridges,
            rules: Mutex::new(rules),
            interfaces: Mutex::new(Interfaces::new(attached)),
            events,
            session: Mutex::new(None),
        }
    }

    /// Starts forwarding with the configuration applied so far, on a thread that `starter` starts.
    /// Without bridges this does nothing.
    ///
    /// # Errors
    /// The links cannot start.
    pub fn run(&self, seed: u64, tuning: Tuning, starter: &Resident) -> Result<(), PlaneError> {
        let mut holder = self.rules();
        let sets = self.bridges.take_ports();
        let latency_requests = self.bridges.take_latency_requests();
        let (Rules::Waiting(rules), false) = (&*holder, self.bridges.names().is_empty()) else {
            return Ok(());
        };
        let lanes = Lanes {
            lanes: lanes(self.bridges.names()),
            rules: Some(rules.clone()),
            ..Lanes::default()
        };
        let config = SessionConfig::new(OpenPorts::new(sets), Emulation::Lanes(lanes))
            .seed(seed)
            .tuning(tuning)
            .observation(Observation::Own(Box::new(Watch(self.events.clone()))))
            .sample_period(Nanos::from_secs(1))
            .latency_requests(latency_requests)
            .outlives_ports();
        let session = LiveSession::build(config)?.start_from(Some(starter))?;
        *holder = Rules::Running(session.control().clone());
        *self.session() = Some(session);
        Ok(())
    }

    /// Ends the links. Packets inside are lost, as on a machine that is switched off.
    ///
    /// # Errors
    /// The loop failed, or did not end within [`STOP_WITHIN`]. A thread that does not end is left
    /// behind.
    pub fn stop(&self) -> Result<(), StopError> {
        // Ending the session takes a moment, so it happens after the lock is released.
        let session = self.session().take();
        session.map_or(Ok(()), |session| session.stop_within(STOP_WITHIN).map(drop))
    }

    /// The result of links that ended without a call of [`Self::stop`]; `None` while they forward,
    /// and after a call that has returned the result.
    pub fn ended(&self) -> Option<Result<(), StopError>> {
        let session = self.session().take_if(|session| session.has_ended())?;
        Some(session.stop().map(drop))
    }

    /// The live loop, for [`LiveHandle::turns`]; `None` before it starts, and without bridges.
    pub fn engine(&self) -> Option<LiveHandle> {
        self.handle()
    }

    /// Whether the thread that opens interfaces has panicked.
    pub fn has_panicked(&self) -> bool {
        self.bridges.has_panicked()
    }

    /// Records an event of an interface. Returns a line for the log if it is news.
    pub fn note(&self, event: &LiveEvent) -> Option<String> {
        self.interfaces().note(event)
    }

    /// Opens interfaces that have reappeared, and returns a line for the log for each interface.
    /// This function waits for the loop, so a thread that ends the daemon must not call it.
    pub fn attach(&self) -> Vec<String> {
        let names = self.bridges.names();
        let mut news = Vec::new();
        let Some(control) = self.control() else { return news };
        // The lock on the interfaces is not held while the loop is asked.
        let missing = self.interfaces().missing();
        for index in missing {
            // An interface that is only half configured cannot be opened yet; the next call tries
            // again.
            let Ok(ports) = self.bridges.open_interface(index) else { continue };
            if control.replace_port(index, ports) == Err(NoAnswer::Ended) {
                continue;
            }
            self.interfaces().attached(index);
            news.push(format!("interface {} is back", names[index]));
            // The interface's addresses may have changed. An error means that the session has
            // ended, which `ended` reports, or that the loop takes the addresses later.
            let _ = control.relocate_rules(self.bridges.interfaces());
        }
        news
    }

    /// Asks the kernel which interfaces are up and have a carrier. Returns a line for the log for
    /// each change.
    pub fn look(&self) -> Vec<String> {
        let Some(running) = self.bridges.running() else { return Vec::new() };
        self.interfaces().set_running(&running, self.bridges.names())
    }

    /// Notices about the interfaces for the user.
    pub fn notices(&self) -> Vec<String> {
        self.interfaces().notices(self.bridges.names())
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn interfaces(&self) -> MutexGuard<'_, Interfaces> {
        self.interfaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self) -> MutexGuard<'_, Option<LiveSession<OpenPorts>>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of the two interfaces of each bridge.
    pub(super) fn pairs(&self) -> impl Iterator<Item = &[String]> {
        self.bridges.names().chunks(2)
    }

    /// The control of the session; `None` before it starts, and without bridges.
    pub(crate) fn control(&self) -> Option<Control> {
        match &*self.rules() {
            Rules::Waiting(_) => None,
            Rules::Running(control) => Some(control.clone()),
        }
    }

    fn handle(&self) -> Option<LiveHandle> {
        self.control().map(|control| control.engine().clone())
    }
}

impl Plane for LivePlane {
    fn apply(&self, _: &Ruleset, new: &Arc<Ruleset>) -> Vec<String> {
        let control = match &mut *self.rules() {
            Rules::Waiting(rules) => {
                rules.replace(new);
                return Vec::new();
            }
            Rules::Running(control) => control.clone(),
        };
        let problem = match control.set_rules(new) {
            Ok(false) => return Vec::new(),
            Ok(true) => None,
            Err(ChangeError::NoAnswer(NoAnswer::Late)) => Some(format!(
                "it is saved and not in force yet: the loop that forwards packets did not answer \
                 within {} s, and takes it when it works again",
                ANSWER_WITHIN.as_secs()
            )),
            Err(_) => Some("it is saved, but nothing is forwarded: the loop has ended".to_owned()),
        };
        problem.into_iter().chain(self.notices()).collect()
    }

    fn zero(&self, rules: Option<&[u32]>) -> Result<(), Unanswered> {
        self.handle().map_or(Ok(()), |handle| handle.zero_rules(rules)).map_err(unanswered)
    }

    fn snapshot(&self) -> Result<Snapshot, Unanswered> {
        self.handle()
            .map_or_else(|| Ok(Snapshot::default()), |handle| snapshot(&handle))
            .map_err(unanswered)
    }

    fn lengths(&self) -> Result<Lengths, Unanswered> {
        let Some(handle) = self.handle() else {
            return Ok(Lengths { at_ns: clock::now().0, ..Lengths::default() });
        };
        let parts = handle.with_engines(|engine, now| lengths(engine, now)).map_err(unanswered)?;
        Ok(parts.into_iter().reduce(merge_lengths).unwrap_or_default())
    }

    fn instances(
        &self,
        kind: ObjectKind,
        number: u16,
        after: Option<u64>,
        limit: usize,
    ) -> Result<InstancePage, Unanswered> {
        let Some(handle) = self.handle() else { return Ok(InstancePage::default()) };
        instances::page(&handle, kind, number, after, limit).map_err(unanswered)
    }

    fn flows(
        &self,
        kind: ObjectKind,
        number: u16,
        most: usize,
    ) -> Result<(Vec<FlowCount>, u64), Unanswered> {
        let Some(handle) = self.handle() else { return Ok((Vec::new(), 0)) };
        instances::flows(&handle, kind, number, most).map_err(unanswered)
    }

    fn dynamic(&self) -> Result<Vec<DynamicView>, Unanswered> {
        let Some(handle) = self.handle() else { return Ok(Vec::new()) };
        let entries = handle.dynamic_rules().map_err(unanswered)?;
        Ok(entries.iter().map(dynamic_view).collect())
    }

    fn lanes(&self) -> Result<Vec<LaneView>, Unanswered> {
        let Some(handle) = self.handle() else { return Ok(Vec::new()) };
        match handle.within(LANES_WITHIN).brief_report() {
            Ok(report) => Ok(report.lanes.iter().map(lane_view).collect()),
            Err(NoAnswer::Late) => Err(Unanswered::Late { within: LANES_WITHIN }),
            Err(NoAnswer::Ended) => Err(Unanswered::Ended),
        }
    }

    fn bridges(&self) -> Vec<BridgeView> {
        self.interfaces().views(self.bridges.names(), self.bridges.netns.as_deref())
    }
}

/// All counters. The workers copy the counters of a few links at a time, because packets wait
/// meanwhile. The counters of many links are therefore from different moments.
fn snapshot(handle: &LiveHandle) -> Result<Snapshot, NoAnswer> {
    let report = handle.brief_report()?;
    let mut snapshot = Snapshot {
        lanes: report.lanes.iter().map(lane_view).collect(),
        lane_times: report.lanes.into_iter().map(lane_times).collect(),
        ..Snapshot::default()
    };
    for count in handle.rule_counts()? {
        let weir_rules::classify::RuleCounters { packets, bytes, last, .. } = count.counters;
        let counters = RuleCounters { packets, bytes, last_match_s: last.map(wall_seconds) };
        snapshot.rules.insert(count.id, counters);
    }
    let (mut links, mut queues) = (BTreeSet::new(), BTreeSet::new());
    for (some, others) in handle.with_engines(|engine, _| {
        (engine.schedulers().collect::<Vec<_>>(), engine.queues().collect::<Vec<_>>())
    })? {
        links.extend(some);
        queues.extend(others);
    }
    for portion in portions(&links, &queues) {
        let parts = handle.with_engines(move |engine, _| Gathered::of(engine, &portion))?;
        if let Some(all) = parts.into_iter().reduce(Gathered::merge) {
            all.enter(&mut snapshot);
        }
    }
    Ok(snapshot)
}

/// The plane's error for a loop that does not answer.
fn unanswered(error: NoAnswer) -> Unanswered {
    match error {
        NoAnswer::Late => Unanswered::Late { within: ANSWER_WITHIN },
        NoAnswer::Ended => Unanswered::Ended,
    }
}

/// An observer that forwards the events of interfaces to the daemon.
struct Watch(Sender<LiveEvent>);

impl Observer for Watch {
    fn on_event(&mut self, event: &LiveEvent) {
        // This fails while the daemon ends.
        let _ = self.0.send(event.clone());
    }
}

/// The lanes of all bridges: one for each direction.
fn lanes(names: &[String]) -> Vec<LaneConfig> {
    let passes = passes(names.len());
    let lane = |from: usize| {
        // A bridge has the interfaces 2n and 2n + 1.
        let to = from ^ 1;
        LaneConfig {
            name: format!("{}-{}", names[from], names[to]),
            from,
            to,
            pipe: 0,
            passes: passes[from].to_vec(),
            gso: Gso::Split,
        }
    };
    (0..names.len()).map(lane).collect()
}

/// The two passes in which rules examine packets from each interface: in, and out on the other side
/// of the bridge.
fn passes(interfaces: usize) -> Vec<[Pass; 2]> {
    let of = |from: usize| {
        let (recv, xmit) = (Some(from as u16), Some((from ^ 1) as u16));
        [
            Pass { out: false, bridged: true, recv, xmit: None },
            Pass { out: true, bridged: true, recv, xmit },
        ]
    };
    (0..interfaces).map(of).collect()
}

fn lane_view(lane: &LaneReport) -> LaneView {
    LaneView {
        name: lane.name.clone(),
        from: lane.from.clone(),
        to: lane.to.clone(),
        counters: lane.counters.clone(),
        lateness_ns: Latency::from(&lane.lateness),
        rx_kernel_drops: lane.rx_kernel_drops,
        rx_unreadable: lane.rx_unreadable,
    }
}

fn lane_times(lane: LaneReport) -> LaneTimes {
    LaneTimes {
        times: Times { queue_ns: lane.queue_ns, total_ns: lane.total_ns },
        lateness_ns: lane.lateness,
    }
}

fn dynamic_view(entry: &DynamicEntry) -> DynamicView {
    let key = &entry.key;
    let address = |bits: u128| {
        if key.ipv6 { IpAddr::V6(bits.into()) } else { IpAddr::V4((bits as u32).into()) }
    };
    DynamicView {
        rule: entry.number,
        kind: if entry.limited { DynamicKind::Limit } else { DynamicKind::State },
        proto: key.proto,
        src: address(key.src),
        src_port: key.src_port,
        dst: address(key.dst),
        dst_port: key.dst_port,
        packets: entry.packets,
        bytes: entry.bytes,
        expires_s: entry.expires.since(clock::now()).0 / 1_000_000_000,
        name: entry.name.as_deref().unwrap_or("default").to_owned(),
    }
}

/// Converts a time of the monotonic clock to seconds since 1970.
pub(crate) fn wall_seconds(at: Nanos) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs().saturating_sub(clock::now().since(at).0 / 1_000_000_000)
}

/// The longest wait for the end of the loop when the daemon ends. The loop ends after one turn.
const STOP_WITHIN: Duration = Duration::from_secs(3);
/// The longest wait for the lanes. A client of the health resource waits for them.
const LANES_WITHIN: Duration = Duration::from_secs(1);
