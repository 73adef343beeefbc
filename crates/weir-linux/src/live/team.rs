//! The loop as the rest of the program sees it: one worker, or several that share the work.
//!
//! Each worker has sockets of its own on the same interfaces, among which the kernel deals out the
//! flows, and an engine with the same pipes; the instances are dealt out by their hash. Workers
//! share rings, the observer, and when to end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_core::stats::LinkCounters;
use weir_core::{Emulator, Nanos};

use weir_rules::classify::{DynamicEntry, State};

use super::commands::{Door, Inbox, LiveHandle};
use super::config::{ConfigError, LiveConfig, LiveError, Realtime};
use super::exchange::connect;
use super::observe::{ArrivalEvent, DepartureEvent, Observer, Sample};
use super::report::{LiveEvent, LiveReport};
use super::run::Worker;
use crate::clock;
use crate::port::AnyPort;

/// The loop: made on any thread, run on the one that calls [`Live::run`] and, with more than one
/// worker, on others that it starts.
pub struct Live {
    first: Worker,
    others: Vec<Worker>,
    handle: LiveHandle,
    doors: Vec<Door>,
    shared: Arc<Shared>,
}

impl Live {
    /// Makes the loop with its pipes; nothing moves before [`Live::run`].
    ///
    /// # Errors
    /// The configuration cannot work, or there are no descriptors left.
    pub fn new(mut config: LiveConfig) -> Result<Self, LiveError> {
        config.check()?;
        let mut sets = vec![std::mem::take(&mut config.ports)];
        sets.append(&mut config.more_workers);
        let count = sets.len();
        let (inboxes, doors): (Vec<Inbox>, Vec<Door>) =
            (0..count).map(|_| Inbox::new()).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let shared = Arc::new(Shared::new(count, config.seed));
        let mut exchanges: Vec<_> = if count > 1 {
            let wakes: Vec<_> = doors.iter().map(|door| Arc::clone(&door.wake)).collect();
            connect(&wakes).into_iter().map(Some).collect()
        } else {
            vec![None]
        };
        let mut observers = share(config.observer.take(), count);
        let mut workers = (0..).zip(sets).zip(inboxes).map(|((number, ports), inbox)| {
            let own = part_of(&config, number, count, ports, observers.pop());
            Worker::new(own, number, Arc::clone(&shared), inbox, exchanges[number].take())
        });
        let Some(first) = workers.next() else { return Err(ConfigError::NoLanes.into()) };
        let others = workers.collect();
        Ok(Self { first, others, handle: LiveHandle::new(doors.clone()), doors, shared })
    }

    /// A handle to change and look at the loop from other threads.
    pub fn handle(&self) -> LiveHandle {
        self.handle.clone()
    }

    /// Does `change` with the engine, to make pipes, schedulers and queues before the loop starts;
    /// with several workers with the engine of each.
    pub fn configure(&mut self, change: impl Fn(&mut Emulator, Nanos)) {
        let now = clock::now();
        for worker in std::iter::once(&mut self.first).chain(&mut self.others) {
            change(worker.engine_mut(), now);
        }
    }

    /// Forwards until `stop` is set, a handle asks to stop, or a port's interface disappears (where
    /// that is to end it).
    ///
    /// `stop` is looked at ten times a second while nothing happens; [`LiveHandle::stop`] acts at
    /// once.
    ///
    /// # Errors
    /// Waiting failed, or a thread could not be started, which does not happen on a working system.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<LiveReport, LiveError> {
        let Self { first, others, doors, shared, .. } = self;
        let work = |worker: &mut Worker| {
            let report = worker.run(stop);
            shared.end();
            for door in &*doors {
                door.knock();
            }
            report
        };
        let (own, reports) = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (index, worker) in others.iter_mut().enumerate() {
                let thread = std::thread::Builder::new()
                    .name(format!("weir-link-{}", index + 1))
                    .spawn_scoped(scope, || work(worker));
                match thread {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        shared.end();
                        return (Err(LiveError::Thread(error)), Vec::new());
                    }
                }
            }
            let own = work(first);
            // A panic of a worker is one of the loop.
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            (own, threads.into_iter().map(join).collect::<Vec<_>>())
        });
        Ok(LiveReport::merge(own?, reports.into_iter().collect::<Result<Vec<_>, _>>()?, &[]))
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("workers", &(1 + self.others.len())).finish_non_exhaustive()
    }
}

/// The configuration of one worker of `count`.
fn part_of(
    whole: &LiveConfig,
    number: usize,
    count: usize,
    ports: Vec<AnyPort>,
    observer: Option<Box<dyn Observer>>,
) -> LiveConfig {
    LiveConfig {
        ports,
        lanes: whole.lanes.clone(),
        pipes: whole.pipes.clone(),
        seed: whole.seed,
        limits: whole.limits,
        memory: whole.memory / count,
        spin: whole.spin,
        realtime: if count == 1 || count < processors() { whole.realtime } else { Realtime::Off },
        cpu: whole.cpu.map(|first| first + number),
        sample_period: whole.sample_period,
        observer,
        rules: whole.rules.clone(),
        forwarding: whole.forwarding.clone(),
        more_workers: Vec::new(),
        stop_when_port_vanishes: whole.stop_when_port_vanishes,
    }
}

/// Processors that this process may use. Where workers take them all, none may have real-time
/// priority: they would push aside the programs that they serve, and each other's wakers.
fn processors() -> usize {
    // Who cannot be told has asked for workers with some number in mind.
    std::thread::available_parallelism().map_or(usize::MAX, std::num::NonZeroUsize::get)
}

/// An observer for each of `count` workers.
fn share(observer: Option<Box<dyn Observer>>, count: usize) -> Vec<Box<dyn Observer>> {
    match observer {
        None => Vec::new(),
        Some(only) if count == 1 => vec![only],
        Some(shared) => {
            let shared = Arc::new(Mutex::new(shared));
            (0..count)
                .map(|_| Box::new(SharedObserver(Arc::clone(&shared))) as Box<dyn Observer>)
                .collect()
        }
    }
}

/// What the workers have in common.
#[derive(Debug)]
pub(super) struct Shared {
    ended: AtomicBool,
    /// What the memories of all workers' rules are made from, with which they share the dynamic
    /// rules.
    state: State,
    /// Each worker's last sample, by lane; empty when there is one worker.
    samples: Mutex<Vec<Vec<LaneSample>>>,
}

/// A lane's counters, and the packets and bytes in its queue.
type LaneSample = (LinkCounters, (u64, u64));

impl Shared {
    fn new(workers: usize, seed: u64) -> Self {
        let samples = vec![Vec::new(); if workers > 1 { workers } else { 0 }];
        Self {
            ended: AtomicBool::new(false),
            state: State::new(seed),
            samples: Mutex::new(samples),
        }
    }

    /// Whether some worker has ended, and so all do.
    pub(super) fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// A memory for a worker's rules.
    pub(super) fn state(&self, worker: usize) -> State {
        self.state.sibling(worker as u32)
    }

    /// The dynamic rules of all workers.
    pub(super) fn dynamic_rules(&self, now: Nanos) -> Vec<DynamicEntry> {
        self.state.dynamic().entries(now)
    }

    /// Takes a worker's sample. The first worker has it told, together with the last ones of the
    /// others.
    pub(super) fn sample(
        &self,
        worker: usize,
        own: impl Iterator<Item = LaneSample>,
        mut tell: impl FnMut(u16, &LaneSample),
    ) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.is_empty() {
            drop(samples);
            return (0..).zip(own).for_each(|(lane, sample)| tell(lane, &sample));
        }
        samples[worker].clear();
        samples[worker].extend(own);
        if worker != 0 {
            return;
        }
        for lane in 0..samples[0].len() {
            let mut sum = LaneSample::default();
            for (counters, queue) in samples.iter().filter_map(|worker| worker.get(lane)) {
                sum.0.merge(counters);
                sum.1 = (sum.1.0.wrapping_add(queue.0), sum.1.1.wrapping_add(queue.1));
            }
            // Not all of one moment: what one has sent another may not have told to have come in.
            for count in [&mut sum.0.backlog_packets, &mut sum.1.0, &mut sum.1.1] {
                *count = if (*count).cast_signed() < 0 { 0 } else { *count };
            }
            tell(lane as u16, &sum);
        }
    }
}

/// One observer for all workers.
struct SharedObserver(Arc<Mutex<Box<dyn Observer>>>);

impl SharedObserver {
    fn with<T>(&self, work: impl FnOnce(&mut dyn Observer) -> T) -> T {
        work(&mut **self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for SharedObserver {
    fn wants_frames(&self) -> bool {
        self.with(|observer| observer.wants_frames())
    }

    fn on_arrival(&mut self, event: &ArrivalEvent<'_>) {
        self.with(|observer| observer.on_arrival(event));
    }

    fn on_departure(&mut self, event: &DepartureEvent<'_>) {
        self.with(|observer| observer.on_departure(event));
    }

    fn on_sample(&mut self, sample: &Sample<'_>) {
        self.with(|observer| observer.on_sample(sample));
    }

    fn on_event(&mut self, event: &LiveEvent) {
        self.with(|observer| observer.on_event(event));
    }
}
