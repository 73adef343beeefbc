//! The public interface of the live loop: one worker, or several workers that share the work.
//!
//! Each worker has its own sockets on the same interfaces, and an engine with the same pipes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_core::{Emulator, Nanos};

use super::commands::{Inbox, LiveHandle, Remote};
use super::config::{ConfigError, LiveConfig, LiveError, Realtime};
use super::exchange::connect;
use super::monitor::Monitor;
use super::report::LiveReport;
use super::shared::Shared;
use super::tap::{Frames, TapReader, tap};
use super::witness::Witness;
use super::worker::Worker;
use crate::clock;
use crate::port::AnyPort;
use crate::process::{Capabilities, give_up};

/// The loop. It can be created on any thread, and runs on the thread that calls [`Live::run`]. It
/// starts further threads for several workers and for an observer.
pub struct Live {
    first: Worker,
    others: Vec<Worker>,
    monitor: Option<Monitor>,
    handle: LiveHandle,
    remotes: Vec<Remote>,
    shared: Arc<Shared>,
}

impl Live {
    /// Creates the loop with its pipes. It forwards nothing before [`Live::run`].
    ///
    /// # Errors
    /// The configuration is invalid, or no descriptor is left.
    pub fn new(mut config: LiveConfig) -> Result<Self, LiveError> {
        config.check()?;
        let mut sets = vec![std::mem::take(&mut config.ports)];
        sets.append(&mut config.more_workers);
        let count = sets.len();
        let (inboxes, remotes): (Vec<Inbox>, Vec<Remote>) =
            (0..count).map(|_| Inbox::new()).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let shared = Arc::new(Shared::new(config.seed, count));
        let mut exchanges: Vec<_> = if count > 1 {
            let wakes: Vec<_> = remotes.iter().map(Remote::wake_descriptor).collect();
            connect(&wakes).into_iter().map(Some).collect()
        } else {
            vec![None]
        };
        let observer = config.observer.take();
        let mut readers: Vec<TapReader> = Vec::new();
        let lanes = config.lanes.len();
        let mut workers = (0..).zip(sets).zip(inboxes).map(|((number, ports), inbox)| {
            let tap = observer.as_ref().map(|observer| {
                let (tap, reader) = tap(Frames::of(&**observer), lanes, count);
                readers.push(reader);
                tap
            });
            let part = part_of(&mut config, number, count, ports);
            Worker::new(part, number, Arc::clone(&shared), inbox, exchanges[number].take(), tap)
        });
        let Some(first) = workers.next() else { return Err(ConfigError::NoLanes.into()) };
        let first = first?;
        let others = workers.collect::<Result<_, _>>()?;
        let monitor = observer.map(|observer| {
            Monitor::new(observer, readers, lanes, Witness::new(Arc::clone(&shared)))
        });
        let handle = LiveHandle::new(remotes.clone());
        Ok(Self { first, others, monitor, handle, remotes, shared })
    }

    /// A handle that changes the loop and reads its state from other threads.
    pub fn handle(&self) -> LiveHandle {
        self.handle.clone()
    }

    /// Applies `change` to the engine of each worker, to create pipes, schedulers and queues before
    /// the loop starts.
    pub fn configure(&mut self, change: impl Fn(&mut Emulator, Nanos)) {
        let now = clock::now();
        for worker in std::iter::once(&mut self.first).chain(&mut self.others) {
            change(worker.emulator_mut(), now);
        }
    }

    /// Forwards until `stop` is set, a handle asks to stop, or a port's interface disappears (if
    /// that ends the loop). All calls of the observer are complete when this returns.
    ///
    /// The loop checks `stop` ten times a second while nothing happens; [`LiveHandle::stop`] acts
    /// at once.
    ///
    /// # Errors
    /// Waiting failed, or a thread could not be started, which does not happen on a working system.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<LiveReport, LiveError> {
        let Some(mut monitor) = self.monitor.take() else { return self.run_workers(stop) };
        let ended = AtomicBool::new(false);
        let (shared, remotes) = (Arc::clone(&self.shared), self.remotes.clone());
        let (report, monitor) = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("weir-observer".to_owned()).spawn_scoped(
                scope,
                || {
                    // A panic of the observer ends the workers, too.
                    let _end = OnDrop(|| end_all(&shared, &remotes));
                    // Only the workers need to raise their priority. If `give_up` fails, the thread
                    // keeps a capability that it does not use.
                    let _ = give_up(Capabilities::SYS_NICE);
                    monitor.run(&ended);
                    monitor
                },
            );
            let thread = match thread {
                Ok(thread) => thread,
                Err(error) => return (Err(LiveError::Thread(error)), None),
            };
            let report = {
                let _end = OnDrop(|| ended.store(true, Ordering::Release));
                self.run_workers(stop)
            };
            // A panic of the observer is raised again in this thread.
            let monitor = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (report, Some(monitor))
        });
        let Some(monitor) = monitor else { return report };
        let workers = std::iter::once(&self.first).chain(&self.others);
        let late_causes = monitor.end(workers.map(Worker::unobserved).sum());
        report.map(|report| LiveReport { late_causes, ..report })
    }

    fn run_workers(&mut self, stop: &AtomicBool) -> Result<LiveReport, LiveError> {
        let Self { first, others, remotes, shared, .. } = self;
        let work = |worker: &mut Worker| {
            let _end = OnDrop(|| end_all(shared, remotes));
            worker.run(stop)
        };
        let (first_report, reports) = std::thread::scope(|scope| {
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
            let first_report = work(first);
            // A panic of a worker is raised again in this thread.
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            (first_report, threads.into_iter().map(join).collect::<Vec<_>>())
        });
        Ok(LiveReport::merge(
            first_report?,
            reports.into_iter().collect::<Result<Vec<_>, _>>()?,
            &[],
        ))
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("workers", &(1 + self.others.len())).finish_non_exhaustive()
    }
}

/// Makes all workers end.
fn end_all(shared: &Shared, remotes: &[Remote]) {
    shared.end();
    remotes.iter().for_each(Remote::wake);
}

/// Calls a function when it is dropped, even after a panic, so that other threads end too.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The configuration of worker `number` of `count`, without the observer.
fn part_of(whole: &mut LiveConfig, number: usize, count: usize, ports: Vec<AnyPort>) -> LiveConfig {
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
        observer: None,
        rules: whole.rules.clone(),
        forwarding: whole.forwarding.clone(),
        more_workers: Vec::new(),
        stop_when_port_vanishes: whole.stop_when_port_vanishes,
        latency_requests: whole.latency_requests.share(),
    }
}

/// The number of processors that this process may use. If several workers are as many or more, none
/// gets real-time priority, because the workers would displace the programs that they serve and the
/// threads that wake them.
fn processors() -> usize {
    // If the number is unknown, the user is assumed to have chosen a suitable number of workers.
    std::thread::available_parallelism().map_or(usize::MAX, std::num::NonZeroUsize::get)
}
