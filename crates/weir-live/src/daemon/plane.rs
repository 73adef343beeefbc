//! The daemon's packets: one live loop for all bridges, so that a pipe is one pipe whichever bridge
//! a packet goes over.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use weir_control::api::{BridgeView, InstancePage, InstanceView, LaneView, RuleCounters};
use weir_control::plane::{Lengths, Plane, Snapshot};
use weir_core::{Emulator, FlowView, Nanos, Totals};
use weir_linux::clock;
use weir_linux::live::{
    Change, Gso, LaneConfig, LaneReport, Live, LiveConfig, LiveError, LiveEvent, LiveHandle,
    Observer, Realtime, Spin,
};
use weir_linux::port::Fault;
use weir_linux::resident::Resident;
use weir_measure::latency::Latency;
use weir_rules::classify::{Classifier, DynamicEntry, Pass, Place};
use weir_rules::command::ObjectKind;
use weir_rules::ruleset::{Changes, Ruleset};
use weir_rules::show::{self, DynamicKind, DynamicView, FlowCount};

use super::field::Field;
use super::gather::{Gathered, lengths, merge_lengths};

/// How the loop works.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Seed of all random draws.
    pub seed: u64,
    /// Most bytes of frames inside.
    pub memory: usize,
    /// How the last stretch before a release is waited for.
    pub spin: Spin,
    /// Whether to ask for real-time priority.
    pub realtime: Realtime,
}

/// Why the loop could not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// The loop cannot work.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// Its thread could not be started.
    #[error("cannot start the link's thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// What moves packets, and what it was told.
pub struct LivePlane {
    inner: Mutex<Inner>,
    /// Told of interfaces that vanish.
    vanished: Sender<LiveEvent>,
    stop: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    /// Why the loop ended, where that was an error.
    failed: Arc<Mutex<Option<LiveError>>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

struct Inner {
    field: Field,
    /// The loop; `None` before it runs, and where there is no bridge.
    handle: Option<LiveHandle>,
    ruleset: Arc<Ruleset>,
    place: Place,
    classifier: Arc<Classifier>,
    /// Which interfaces are there.
    attached: Vec<bool>,
    /// How often each has vanished.
    vanished: Vec<u64>,
}

impl std::fmt::Debug for LivePlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LivePlane").finish_non_exhaustive()
    }
}

impl LivePlane {
    /// A plane that does not forward yet; `vanished` is told of interfaces that disappear.
    pub fn new(field: Field, vanished: Sender<LiveEvent>) -> Self {
        let (attached, count) = (field.present(), field.names().len());
        let place = Place {
            interfaces: field.interfaces(),
            passes: passes(count).concat(),
            ..Place::default()
        };
        let ruleset = Arc::new(Ruleset::default());
        let classifier = Arc::new(Classifier::compile(&ruleset, &place));
        let inner = Inner {
            field,
            handle: None,
            ruleset,
            place,
            classifier,
            attached,
            vanished: vec![0; count],
        };
        Self {
            inner: Mutex::new(inner),
            vanished,
            stop: Arc::default(),
            ended: Arc::default(),
            failed: Arc::default(),
            thread: Mutex::new(None),
        }
    }

    /// Starts to forward, by the configuration that was applied so far, on a thread that `starter`
    /// starts. Without a bridge there is nothing to do.
    ///
    /// # Errors
    /// The loop or its thread cannot start.
    pub fn run(&self, tuning: &Tuning, starter: &Resident) -> Result<(), PlaneError> {
        let mut inner = self.lock();
        let mut sets = inner.field.take_ports();
        if inner.field.names().is_empty() {
            return Ok(());
        }
        let first = sets.remove(0);
        let lanes = lanes(inner.field.names());
        let mut config = LiveConfig::new(first, lanes);
        config.more_workers = sets;
        config.rules = Some(Arc::clone(&inner.classifier));
        config.seed = tuning.seed;
        config.memory = tuning.memory;
        config.spin = tuning.spin;
        config.realtime = tuning.realtime;
        config.stop_when_port_vanishes = false;
        config.sample_period = Nanos::from_secs(1);
        config.observer = Some(Box::new(Watch(self.vanished.clone())));
        let mut live = Live::new(config)?;
        let changes = Changes::between(&Ruleset::default(), &inner.ruleset);
        live.configure(|engine, now| carry_out(&changes, engine, now));
        inner.handle = Some(live.handle());
        drop(inner);
        let (stop, ended) = (Arc::clone(&self.stop), Arc::clone(&self.ended));
        let failed = Arc::clone(&self.failed);
        let work = move || {
            if let Err(error) = live.run(&stop) {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
            ended.store(true, Ordering::Relaxed);
        };
        let thread =
            starter.run(|| std::thread::Builder::new().name("weir-link".to_owned()).spawn(work));
        let thread = thread
            .unwrap_or_else(|| Err(std::io::ErrorKind::BrokenPipe.into()))
            .map_err(PlaneError::Thread)?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Ends the loop. What is inside is lost, as on a machine that is switched off.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(handle) = self.lock().handle.take() {
            // It may have ended already.
            let _ = handle.stop();
        }
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }

    /// Whether the loop has ended without being asked to.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// The error that ended the loop, if one did; `None` the second time.
    pub fn failure(&self) -> Option<LiveError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes note of what happened to an interface; says whether it has just disappeared.
    pub fn lost(&self, event: &LiveEvent) -> bool {
        let mut inner = self.lock();
        // Each worker tells.
        let gone = event.fault == Fault::Vanished
            && std::mem::replace(&mut inner.attached[event.port], false);
        inner.vanished[event.port] += u64::from(gone);
        gone
    }

    /// Takes interfaces that are back, and names them.
    pub fn attach(&self) -> Vec<String> {
        let mut inner = self.lock();
        let mut back = Vec::new();
        let Some(handle) = inner.handle.clone() else { return back };
        for index in 0..inner.attached.len() {
            if inner.attached[index] {
                continue;
            }
            // What keeps it from being opened may pass: it may be half made.
            let Ok(ports) = inner.field.reopen(index) else { continue };
            if handle.replace_port(index, ports).is_ok() {
                inner.attached[index] = true;
                back.push(inner.field.names()[index].clone());
                inner.move_to(&handle);
            }
        }
        back
    }

    /// What the user should know about how things stand.
    pub fn notices(&self) -> Vec<String> {
        self.lock().notices()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop, without holding anybody up who changes the configuration.
    fn handle(&self) -> Option<LiveHandle> {
        self.lock().handle.clone()
    }
}

impl Inner {
    fn notices(&self) -> Vec<String> {
        let missing = self.field.names().iter().zip(&self.attached).filter(|(_, there)| !**there);
        missing
            .map(|(name, _)| {
                format!("interface {name} is not there now; it is taken when it comes")
            })
            .collect()
    }

    /// Compiles the rules for the addresses that interfaces have now.
    fn move_to(&mut self, handle: &LiveHandle) {
        self.place.interfaces = self.field.interfaces();
        self.classifier = Arc::new(Classifier::compile(&self.ruleset, &self.place));
        // A loop that has ended is noticed elsewhere.
        let _ = handle.set_rules(&self.classifier, &(Arc::new(|_: &mut Emulator, _| {}) as _));
    }

    /// The rules compiled anew, as far as they differ.
    fn recompile(&self, old: &Ruleset, changes: &Changes, new: &Ruleset) -> Arc<Classifier> {
        if changes.rules {
            return Arc::new(self.classifier.recompile(new));
        }
        let Some(first) = changes.tables.first() else { return Arc::clone(&self.classifier) };
        if let ([_], Some(before), Some(after)) =
            (changes.tables.as_slice(), old.tables.get(first), new.tables.get(first))
        {
            let gone = before.entries.keys().filter(|key| !after.entries.contains_key(key));
            let set = after
                .entries
                .iter()
                .filter(|(key, value)| before.entries.get(key) != Some(value))
                .map(|(key, _)| key);
            let keys: Vec<_> = gone.chain(set).take(FEW_KEYS + 1).cloned().collect();
            if before.kind == after.kind && keys.len() <= FEW_KEYS {
                return Arc::new(self.classifier.update_table(new, first, &keys));
            }
        }
        Arc::new(self.classifier.recompile(new))
    }
}

impl Plane for LivePlane {
    fn apply(&self, old: &Ruleset, new: &Arc<Ruleset>) -> Vec<String> {
        let mut inner = self.lock();
        let changes = Changes::between(old, new);
        inner.ruleset = Arc::clone(new);
        if changes.is_empty() {
            return Vec::new();
        }
        inner.classifier = inner.recompile(old, &changes, new);
        let Some(handle) = &inner.handle else { return Vec::new() };
        let change: Change = Arc::new(move |engine, now| carry_out(&changes, engine, now));
        let in_force = handle.set_rules(&inner.classifier, &change);
        let gone = in_force
            .is_err()
            .then(|| "it is saved, but nothing is forwarded: the loop has ended".to_owned());
        gone.into_iter().chain(inner.notices()).collect()
    }

    fn zero(&self, rules: Option<&[u32]>) {
        if let Some(handle) = self.handle() {
            // A loop that has ended counts no more.
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
        // Pages go through the workers one after another; a number says in which, and behind which
        // of its instances.
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
        let pairs = inner.field.names().chunks_exact(2).zip(0..);
        let view = |(names, bridge): (&[String], usize)| {
            let (left, right) = (2 * bridge, 2 * bridge + 1);
            BridgeView {
                interfaces: [names[0].clone(), names[1].clone()],
                netns: inner.field.netns.clone(),
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

/// Tells of interfaces that vanish.
struct Watch(Sender<LiveEvent>);

impl Observer for Watch {
    fn on_event(&mut self, event: &LiveEvent) {
        // Nobody listens any more when the daemon ends.
        let _ = self.0.send(event.clone());
    }
}

fn carry_out(changes: &Changes, engine: &mut Emulator, now: Nanos) {
    for change in &changes.engine {
        change.apply(now, engine);
    }
}

/// Both ways over each bridge.
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

/// Where rules look at what comes in by each interface: coming in, and going out on the other side.
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

/// Instances of an object in one engine, with their numbers.
fn page(
    engine: &Emulator,
    kind: ObjectKind,
    id: u16,
    after: Option<u32>,
    most: usize,
) -> Vec<(u32, InstanceView)> {
    let view =
        |key: &weir_core::key::FlowKey, hash, totals: &Totals, figures: &[(&'static str, u64)]| {
            InstanceView {
                key: (*key).into(),
                hash,
                packets_in: totals.packets,
                bytes_in: totals.bytes,
                reasons: totals.reasons,
                aqm: show::figures(figures),
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
            (one.number, view(&one.key, one.hash, &one.totals, &figures_in(engine, &one)))
        };
        engine.instances_of(id, after, most).map(view).collect()
    }
}

/// State of the AQM of an instance's flow, if it has one flow.
fn figures_in(engine: &Emulator, instance: &weir_core::InstanceView) -> Vec<(&'static str, u64)> {
    let only = engine.flows_in(instance.number, 1).find(|_| instance.flows == 1);
    only.map(|flow| engine.aqm_figures(flow.number)).unwrap_or_default()
}

/// The first instances of an object in one engine, and how many there are.
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
        .map(|one| count(one.key, one.totals, figures_in(engine, &one)));
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

/// A moment of the monotonic clock in seconds since 1970.
fn wall_seconds(at: Nanos) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs().saturating_sub(clock::now().since(at).0 / 1_000_000_000)
}

/// A table with more changed entries than these is compiled whole.
const FEW_KEYS: usize = 256;
