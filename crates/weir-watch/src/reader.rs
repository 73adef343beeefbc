//! The threads that read queues. Each has its own source and passes the readings to the recorder.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_linux::process::Stopper;
use weir_probe::{
    Counters, Event, Method, Opened, Pace, PacketEvent, ProbeError, Queue, QueueId, Run, Sink,
    Source, Transmission,
};

use super::WatchError;

/// An observation of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Observation {
    /// A queue appeared at this time, in ns.
    Appeared(u64, QueueId, Queue),
    /// A queue vanished at this time, in ns.
    Vanished(u64, QueueId),
    /// Readings of queue lengths.
    Runs(Vec<Run>),
    /// Enqueues and dequeues of packets.
    Events(Vec<Event>),
    /// Events of single packets.
    Packets(Vec<PacketEvent>),
    /// A time in ns, and the number of events that were lost before it.
    Lost(u64, u64),
    /// A queue's counters at this time, in ns.
    Counters(u64, QueueId, Counters),
    /// The devices' transmission queues at this time, in ns.
    Transmission(u64, Vec<Transmission>),
    /// No packet was in any queue at this time, in ns.
    Empty(u64),
    /// A remark for the user, with its time in ns.
    Remark(u64, String),
}

/// The number of a source, and its latest observations.
pub(crate) type Batch = (usize, Vec<Observation>);

/// The state of a reader.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The reader's method; `None` before the first reading.
    pub method: Option<Method>,
    /// The statistics of the reader's pace.
    pub pace: Pace,
    /// The number of namespaces that the reader reads, each at the requested rate.
    pub namespaces: usize,
    /// Remarks for the user about the choice of the method.
    pub remarks: Vec<String>,
    /// Why the reader failed, if it did.
    pub failed: Option<String>,
}

pub(crate) struct Reader {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    progress: Arc<Mutex<Progress>>,
}

/// The result of opening a source and reading it once.
type Ready = Result<(), ProbeError>;

impl Reader {
    /// Starts a thread, opens source `number` there and reads once. The source must stay on this
    /// thread, because it may change the thread's namespace. When reading ends, the thread uses
    /// `over` to stop the caller's wait.
    ///
    /// # Errors
    /// The source cannot be opened or read, or the thread cannot be started.
    pub(crate) fn start(
        (number, namespaces): (usize, usize),
        to: SyncSender<Batch>,
        over: Stopper,
        open: impl FnOnce() -> Result<Opened, ProbeError> + Send + 'static,
    ) -> Result<Self, WatchError> {
        let (stop, progress) =
            (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Progress::default())));
        let (ready, answer): (_, Receiver<Ready>) = sync_channel(1);
        let work = {
            let (stop, progress) = (Arc::clone(&stop), Arc::clone(&progress));
            move || {
                let mut relay = Relay { number, to, batch: Vec::new(), since: Instant::now() };
                let first = open().and_then(|Opened { mut source, remarks }| {
                    source.turn(&mut relay)?;
                    *progress.lock().unwrap_or_else(PoisonError::into_inner) = Progress {
                        method: Some(source.method()),
                        pace: source.pace(),
                        namespaces,
                        remarks,
                        failed: None,
                    };
                    Ok(source)
                });
                let (source, answer) = match first {
                    Ok(source) => (Some(source), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                // This cannot fail, because the thread that called `start` waits for the answer.
                let _ = ready.send(answer);
                if let Some(mut source) = source {
                    read(&mut *source, &mut relay, &stop, &progress);
                    over.stop();
                }
            }
        };
        let thread = std::thread::Builder::new().name("weir-watch".to_owned()).spawn(work);
        let thread = thread.map_err(WatchError::Thread)?;
        match answer.recv() {
            Ok(Ok(())) => Ok(Self { thread, stop, progress }),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(WatchError::Panicked("reading")),
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops the reader after [`LINGER`].
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the end of the reader, and returns its last state.
    pub(crate) fn join(self) -> Progress {
        let panicked = self.thread.join().is_err();
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if panicked {
            progress.failed = Some(WatchError::Panicked("reading").to_string());
        }
        progress
    }
}

/// Reads until stopped, or until the source fails.
fn read(source: &mut dyn Source, relay: &mut Relay, stop: &AtomicBool, progress: &Mutex<Progress>) {
    let update = |pace: Pace, failed: Option<String>| {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        (progress.pace, progress.failed) = (pace, failed);
    };
    let mut updated = Instant::now();
    let mut last: Option<Instant> = None;
    loop {
        match last {
            Some(last) if last.elapsed() >= LINGER => break,
            None if stop.load(Ordering::Relaxed) => last = Some(Instant::now()),
            _ => {}
        }
        if let Err(error) = source.turn(relay) {
            relay.flush();
            update(source.pace(), Some(error.to_string()));
            return;
        }
        if !relay.pass_on_when_due() {
            break;
        }
        if updated.elapsed() >= UPDATE {
            updated = Instant::now();
            update(source.pace(), None);
        }
    }
    let failed = source.finish(relay).err().map(|error| error.to_string());
    relay.flush();
    update(source.pace(), failed);
}

/// Collects the observations of a source and passes them on every few milliseconds.
struct Relay {
    number: usize,
    to: SyncSender<Batch>,
    batch: Vec<Observation>,
    /// When the last batch was passed on.
    since: Instant,
}

impl Relay {
    /// Passes the batch on if it is due. Returns whether the recorder still accepts batches. If the
    /// recorder is too slow, the reader waits and omits nothing, because the statistics of gaps
    /// show only late readings.
    fn pass_on_when_due(&mut self) -> bool {
        if self.since.elapsed() < HAND_ON && self.batch.len() < BATCH_LIMIT {
            true
        } else {
            self.flush()
        }
    }

    fn flush(&mut self) -> bool {
        self.since = Instant::now();
        self.batch.is_empty()
            || self.to.send((self.number, std::mem::take(&mut self.batch))).is_ok()
    }
}

impl Sink for Relay {
    fn appeared(&mut self, time: u64, id: QueueId, queue: &Queue) {
        self.batch.push(Observation::Appeared(time, id, queue.clone()));
    }

    fn vanished(&mut self, time: u64, id: QueueId) {
        self.batch.push(Observation::Vanished(time, id));
    }

    fn runs(&mut self, runs: &[Run]) {
        match self.batch.last_mut() {
            Some(Observation::Runs(before)) => before.extend_from_slice(runs),
            _ => self.batch.push(Observation::Runs(runs.to_vec())),
        }
    }

    fn events(&mut self, events: &[Event]) {
        match self.batch.last_mut() {
            Some(Observation::Events(before)) => before.extend_from_slice(events),
            _ => self.batch.push(Observation::Events(events.to_vec())),
        }
    }

    fn packets(&mut self, events: &[PacketEvent]) {
        match self.batch.last_mut() {
            Some(Observation::Packets(before)) => before.extend_from_slice(events),
            _ => self.batch.push(Observation::Packets(events.to_vec())),
        }
    }

    fn lost(&mut self, time: u64, events: u64) {
        self.batch.push(Observation::Lost(time, events));
    }

    fn empty(&mut self, time: u64) {
        self.batch.push(Observation::Empty(time));
    }

    fn counters(&mut self, time: u64, id: QueueId, counters: &Counters) {
        self.batch.push(Observation::Counters(time, id, *counters));
    }

    fn transmission(&mut self, time: u64, queues: &[Transmission]) {
        self.batch.push(Observation::Transmission(time, queues.to_vec()));
    }

    fn remark(&mut self, time: u64, text: &str) {
        self.batch.push(Observation::Remark(time, text.to_owned()));
    }
}

/// Time between two updates of a reader's progress.
const UPDATE: Duration = Duration::from_millis(200);
/// How long reading continues after the stop: long enough for a last reading of the counters, which
/// are read less often than lengths.
const LINGER: Duration = Duration::from_millis(50);
/// Time between two batches.
const HAND_ON: Duration = Duration::from_millis(5);
/// A batch with this number of observations is passed on at once.
const BATCH_LIMIT: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that fails after three turns.
    struct Short(u32);

    impl Source for Short {
        fn method(&self) -> Method {
            Method::Netlink
        }
        fn turn(&mut self, sink: &mut dyn Sink) -> Result<(), ProbeError> {
            self.0 += 1;
            if self.0 > 3 {
                return Err(ProbeError::Plan("no more".into()));
            }
            sink.remark(u64::from(self.0), "turn");
            Ok(())
        }
        fn pace(&self) -> Pace {
            Pace { readings: self.0.into(), ..Pace::default() }
        }
    }

    #[test]
    fn observations_before_a_failure_are_kept() {
        let (to, from) = sync_channel(64);
        let reader = Reader::start((7, 1), to, Stopper::new().expect("a stopper"), || {
            Ok(Opened { source: Box::new(Short(0)), remarks: vec!["why".into()] })
        });
        let progress = reader.unwrap_or_else(|_| panic!("it starts")).join();
        assert_eq!(
            (progress.method, progress.failed.as_deref(), progress.remarks.len()),
            (Some(Method::Netlink), Some("no more"), 1)
        );
        let seen: Vec<Observation> =
            from.iter().filter(|(number, _)| *number == 7).flat_map(|(_, batch)| batch).collect();
        assert_eq!(seen.len(), 3, "{seen:?}");
    }

    #[test]
    fn a_source_that_cannot_be_opened_is_a_failure() {
        let (to, _from) = sync_channel(1);
        let open = || Err(ProbeError::Plan("no such thing".into()));
        assert!(Reader::start((0, 1), to, Stopper::new().expect("a stopper"), open).is_err());
    }
}
