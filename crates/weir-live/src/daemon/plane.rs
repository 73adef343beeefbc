//! The daemon's packet plane. One session serves all bridges, so that a pipe shapes the packets of
//! all bridges together.

use std::net::IpAddr;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use weir_control::api::{BridgeView, InstancePage, InstanceView, LaneView, RuleCounters};
use weir_control::api::{Lengths, Snapshot};
use weir_control::plane::Plane;
use weir_core::{Emulator, FlowView, Nanos, Totals};
use weir_linux::clock;
use weir_linux::live::{Gso, LaneConfig, LaneReport, LiveEvent, LiveHandle, Observer};
use weir_linux::port::Fault;
use weir_linux::resident::Resident;
use weir_measure::latency::Latency;
use weir_rules::classify::{DynamicEntry, Pass, Place};
use weir_rules::command::ObjectKind;
use weir_rules::ruleset::Ruleset;
use weir_rules::show::{self, DynamicKind, DynamicView, FlowCount};

use super::bridges::Bridges;
use super::gather::{Gathered, lengths, merge_lengths};
use crate::rules::ActiveRules;
use crate::session::{
    BuildError, Control, Emulation, Lanes, LiveSession, Observation, OpenPorts, SessionConfig,
    StartError, StopError, Tuning,
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
pub struct LivePlane {
    inner: Mutex<Inner>,
    /// Carries the events of interfaces to the daemon.
    vanished: Sender<LiveEvent>,
    /// The session; `None` before it starts, and without bridges.
    session: Mutex<Option<LiveSession<OpenPorts>>>,
}

struct Inner {
    bridges: Bridges,
    rules: Rules,
    /// Whether each interface currently exists.
    attached: Vec<bool>,
    /// How often each interface has disappeared.
    vanished: Vec<u64>,
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
    /// A plane that does not forward yet; `vanished` receives the events of interfaces.
    pub fn new(bridges: Bridges, vanished: Sender<LiveEvent>) -> Self {
        let (attached, count) = (bridges.present(), bridges.names().len());
        let place = Place {
            interfaces: bridges.interfaces(),
            passes: passes(count).concat(),
            ..Place::default()
        };
        let rules = Rules::Waiting(ActiveRules::new(Arc::default(), place));
        let inner = Inner { bridges, rules, attached, vanished: vec![0; count] };
        Self { inner: Mutex::new(inner), vanished, session: Mutex::new(None) }
    }

    /// Starts forwarding with the configuration applied so far, on a thread that `starter` starts.
    /// Without bridges this does nothing.
    ///
    /// # Errors
    /// The links cannot start.
    pub fn run(&self, seed: u64, tuning: Tuning, starter: &Resident) -> Result<(), PlaneError> {
        let mut inner = self.lock();
        let sets = inner.bridges.take_ports();
        let latency_requests = inner.bridges.take_latency_requests();
        let (Rules::Waiting(rules), false) = (&inner.rules, inner.bridges.names().is_empty())
        else {
            return Ok(());
        };
        let lanes = Lanes {
            lanes: lanes(inner.bridges.names()),
            rules: Some(rules.clone()),
            ..Lanes::default()
        };
        let config = SessionConfig::new(OpenPorts::new(sets), Emulation::Lanes(lanes))
            .seed(seed)
            .tuning(tuning)
            .observation(Observation::Own(Box::new(Watch(self.vanished.clone()))))
            .sample_period(Nanos::from_secs(1))
            .latency_requests(latency_requests)
            .outlives_ports();
        let session = LiveSession::build(config)?.start_from(Some(starter))?;
        inner.rules = Rules::Running(session.control().clone());
        *self.session() = Some(session);
        Ok(())
    }

    /// Ends the links. Packets inside are lost, as on a machine that is switched off.
    pub fn stop(&self) {
        // Ending the session takes a moment, so it happens after the lock is released.
        let session = self.session().take();
        drop(session);
    }

    /// The result of links that ended without a call of [`Self::stop`]; `None` while they forward,
    /// and after the first call.
    pub fn ended(&self) -> Option<Result<(), StopError>> {
        let session = self.session().take_if(|session| session.has_ended())?;
        Some(session.stop().map(drop))
    }

    /// The live loop, for [`LiveHandle::turns`]; `None` without bridges.
    pub fn engine(&self) -> Option<LiveHandle> {
        self.handle()
    }

    /// Whether the thread that opens interfaces has panicked.
    pub fn has_panicked(&self) -> bool {
        self.lock().bridges.has_panicked()
    }

    /// Records an event of an interface; returns whether the interface has just disappeared.
    pub fn lost(&self, event: &LiveEvent) -> bool {
        let mut inner = self.lock();
        // Every worker reports the event; only the first report counts.
        let disappeared = event.fault == Fault::Vanished
            && std::mem::replace(&mut inner.attached[event.port], false);
        inner.vanished[event.port] += u64::from(disappeared);
        disappeared
    }

    /// Opens interfaces that have reappeared, and returns their names.
    pub fn attach(&self) -> Vec<String> {
        let mut inner = self.lock();
        let mut back = Vec::new();
        let Rules::Running(control) = &inner.rules else { return back };
        let control = control.clone();
        for index in 0..inner.attached.len() {
            if inner.attached[index] {
                continue;
            }
            // An interface that is only half configured cannot be opened yet; the next call tries
            // again.
            let Ok(ports) = inner.bridges.reopen(index) else { continue };
            if control.replace_port(index, ports).is_ok() {
                inner.attached[index] = true;
                back.push(inner.bridges.names()[index].clone());
                // The interface's addresses may have changed. The error means that the session has
                // ended, which `ended` reports.
                let _ = control.relocate_rules(inner.bridges.interfaces());
            }
        }
        back
    }

    /// Notices about the interfaces for the user.
    pub fn notices(&self) -> Vec<String> {
        self.lock().notices()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self) -> MutexGuard<'_, Option<LiveSession<OpenPorts>>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The live loop. The caller uses it without the lock, which changes of the configuration need.
    fn handle(&self) -> Option<LiveHandle> {
        match &self.lock().rules {
            Rules::Waiting(_) => None,
            Rules::Running(control) => Some(control.engine().clone()),
        }
    }
}

impl Inner {
    fn notices(&self) -> Vec<String> {
        let missing = self.bridges.names().iter().zip(&self.attached).filter(|(_, there)| !**there);
        missing
            .map(|(name, _)| {
                format!("interface {name} is not there now; it is taken when it comes")
            })
            .collect()
    }
}

impl Plane for LivePlane {
    fn apply(&self, _: &Ruleset, new: &Arc<Ruleset>) -> Vec<String> {
        let mut inner = self.lock();
        let in_force = match &mut inner.rules {
            Rules::Waiting(rules) => {
                rules.replace(new);
                return Vec::new();
            }
            Rules::Running(control) => control.set_rules(new),
        };
        if in_force == Ok(false) {
            return Vec::new();
        }
        let disappeared = in_force
            .is_err()
            .then(|| "it is saved, but nothing is forwarded: the loop has ended".to_owned());
        disappeared.into_iter().chain(inner.notices()).collect()
    }

    fn zero(&self, rules: Option<&[u32]>) {
        if let Some(handle) = self.handle() {
            // The error means that the loop has ended, and then there is nothing to reset.
            let _ = handle.zero_rules(rules);
        }
    }

    fn snapshot(&self) -> Snapshot {
        let Some(handle) = self.handle() else { return Snapshot::default() };
        let Ok(report) = handle.brief_report() else { return Snapshot::default() };
        let mut snapshot =
            Snapshot { lanes: report.lanes.iter().map(lane_view).collect(), ..Snapshot::default() };
        for count in handle.rule_counts().unwrap_or_default() {
            let weir_rules::classify::RuleCounters { packets, bytes, last, .. } = count.counters;
            snapshot.rules.insert(
                count.id,
                RuleCounters { packets, bytes, last_match_s: last.map(wall_seconds) },
            );
        }
        let parts = handle.with_engines(|engine, _| Gathered::of(engine)).unwrap_or_default();
        if let Some(all) = parts.into_iter().reduce(Gathered::merge) {
            (snapshot.links, snapshot.queues) = all.views();
        }
        snapshot
    }

    fn lengths(&self) -> Lengths {
        let Some(handle) = self.handle() else {
            return Lengths { at_ns: clock::now().0, ..Lengths::default() };
        };
        let parts = handle.with_engines(|engine, now| lengths(engine, now)).unwrap_or_default();
        parts.into_iter().reduce(merge_lengths).unwrap_or_default()
    }

    fn instances(
        &self,
        kind: ObjectKind,
        number: u16,
        after: Option<u64>,
        limit: usize,
    ) -> InstancePage {
        let Some(handle) = self.handle() else { return InstancePage::default() };
        let parts = handle.with_engines(move |engine, _| {
            let count = if kind == ObjectKind::Queue {
                engine.flow_count(number)
            } else {
                engine.instance_count(number)
            };
            (count, page(engine, kind, number, None, 0))
        });
        let mut page_of = InstancePage {
            total: parts.iter().flatten().map(|(count, _)| *count as u64).sum(),
            ..InstancePage::default()
        };
        let workers = parts.map_or(0, |parts| parts.len());
        // Pages list the instances of one worker after another. The position consists of the worker
        // and the last listed instance of that worker.
        let (mut worker, mut last) =
            after.map_or((0, None), |after| ((after >> 32) as usize, Some(after as u32)));
        while worker < workers && page_of.instances.len() < limit {
            let wanted = limit - page_of.instances.len();
            let found =
                handle.with_engines(move |engine, _| page(engine, kind, number, last, wanted));
            let Some(found) = found
                .ok()
                .and_then(|mut all| (worker < all.len()).then(|| all.swap_remove(worker)))
            else {
                break;
            };
            let full = found.len() == wanted;
            if let Some((number, _)) = found.last() {
                page_of.next = Some((worker as u64) << 32 | u64::from(*number));
            }
            page_of.instances.extend(found.into_iter().map(|(_, view)| view));
            if !full {
                (worker, last) = (worker + 1, None);
            }
        }
        if page_of.instances.len() < limit {
            page_of.next = None;
        }
        page_of
    }

    fn flows(&self, kind: ObjectKind, number: u16, most: usize) -> (Vec<FlowCount>, u64) {
        let parts = self.handle().and_then(|handle| {
            handle.with_engines(move |engine, _| flows(engine, kind, number, most)).ok()
        });
        let (mut all, mut total) = (Vec::new(), 0);
        for (part, count) in parts.unwrap_or_default() {
            all.extend(part);
            total += count as u64;
        }
        all.truncate(most);
        (all, total)
    }

    fn dynamic(&self) -> Vec<DynamicView> {
        let entries = self.handle().and_then(|handle| handle.dynamic_rules().ok());
        entries.unwrap_or_default().iter().map(dynamic_view).collect()
    }

    fn bridges(&self) -> Vec<BridgeView> {
        let lanes = self.snapshot_lanes();
        let inner = self.lock();
        let pairs = inner.bridges.names().chunks_exact(2).zip(0..);
        let view = |(names, bridge): (&[String], usize)| {
            let (left, right) = (2 * bridge, 2 * bridge + 1);
            BridgeView {
                interfaces: [names[0].clone(), names[1].clone()],
                netns: inner.bridges.netns.clone(),
                attached: [inner.attached[left], inner.attached[right]],
                vanished: inner.vanished[left] + inner.vanished[right],
                lanes: lanes.iter().skip(left).take(2).cloned().collect(),
            }
        };
        pairs.map(view).collect()
    }
}

impl LivePlane {
    fn snapshot_lanes(&self) -> Vec<LaneView> {
        let report = self.handle().and_then(|handle| handle.brief_report().ok());
        report.map(|report| report.lanes.iter().map(lane_view).collect()).unwrap_or_default()
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

/// One page of the instances of a pipe, queue or scheduler in one engine, with their numbers.
fn page(
    engine: &Emulator,
    kind: ObjectKind,
    id: u16,
    after: Option<u32>,
    most: usize,
) -> Vec<(u32, InstanceView)> {
    let view =
        |key: &weir_core::key::FlowKey, hash, totals: &Totals, aqm: &[(&'static str, u64)]| {
            InstanceView {
                key: (*key).into(),
                hash,
                packets_in: totals.packets,
                bytes_in: totals.bytes,
                reasons: totals.reasons,
                aqm: show::figures(aqm),
                queue_packets: totals.queued_packets,
                queue_bytes: totals.queued_bytes,
            }
        };
    if kind == ObjectKind::Queue {
        let view = |flow: FlowView| {
            (
                flow.number,
                view(&flow.key, flow.hash, &flow.totals, &engine.aqm_figures(flow.number)),
            )
        };
        engine.flows_of(id, after, most).map(view).collect()
    } else {
        let view = |one: weir_core::InstanceView| {
            (one.number, view(&one.key, one.hash, &one.totals, &aqm_of(engine, &one)))
        };
        engine.instances_of(id, after, most).map(view).collect()
    }
}

/// AQM statistics of an instance with one flow; empty for an instance with several flows.
fn aqm_of(engine: &Emulator, instance: &weir_core::InstanceView) -> Vec<(&'static str, u64)> {
    let only = engine.flows_in(instance.number, 1).find(|_| instance.flows == 1);
    only.map(|flow| engine.aqm_figures(flow.number)).unwrap_or_default()
}

/// The first instances of a pipe, queue or scheduler in one engine, and the number of all.
fn flows(engine: &Emulator, kind: ObjectKind, id: u16, most: usize) -> (Vec<FlowCount>, usize) {
    let count = |key, totals: Totals, figures| FlowCount {
        key,
        packets: totals.packets,
        bytes: totals.bytes,
        reasons: totals.reasons,
        figures,
        queue_packets: totals.queued_packets,
        queue_bytes: totals.queued_bytes,
    };
    if kind == ObjectKind::Queue {
        let flows = engine
            .flows_of(id, None, most)
            .map(|flow| count(flow.key, flow.totals, engine.aqm_figures(flow.number)));
        return (flows.collect(), engine.flow_count(id));
    }
    let instances = engine
        .instances_of(id, None, most)
        .map(|one| count(one.key, one.totals, aqm_of(engine, &one)));
    (instances.collect(), engine.instance_count(id))
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
fn wall_seconds(at: Nanos) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs().saturating_sub(clock::now().since(at).0 / 1_000_000_000)
}
