//! A watch: a reader for each source, and the recorder of all of them.

use std::path::{Path, PathBuf};
use std::sync::MutexGuard;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use weir_linux::process::Stopper;
use weir_measure::packets::Head;
use weir_probe::measure::{Above, Summary, Tally};
use weir_probe::{Plan, ProbeError};
use weir_report::watch::Format;

use super::WatchError;
use super::daemon::DaemonQueues;
use super::files::Files;
use super::reader::{Progress, Reader};
use super::record::{Record, Recorder};

/// The configuration of a watch.
#[derive(Debug, Default)]
pub struct Sources {
    /// The devices of the kernel to read, if any.
    pub kernel: Option<Plan>,
    /// The number of namespaces of these devices. Each is read at the rate of the plan.
    pub namespaces: usize,
    /// The sockets of daemons; `None` is the daemon that this user's commands use by default.
    pub daemons: Vec<Option<PathBuf>>,
    /// Number of readings of the daemons' queues per second.
    pub daemon_rate: u64,
    /// The file for a recording of the packets of the kernel's device, and the UTC time at which
    /// the watch began. The plan must name one device and report packets.
    pub record: Option<(PathBuf, String)>,
    /// Time between two flushes of the files of readings; `None` for 1 s.
    pub flush: Option<Duration>,
}

/// A running watch.
pub struct Watch {
    readers: Vec<Reader>,
    recorder: Recorder,
}

impl Watch {
    /// Starts reading all sources and recording them, in statistics and in files of the given
    /// formats. `version` is that of the program. The thread of a source uses `over` to stop the
    /// caller's wait when the source has ended.
    ///
    /// # Errors
    /// A source cannot be opened or read, a file cannot be created, or no thread can be started.
    pub fn start(
        sources: Sources,
        files: &[(&Path, Format)],
        version: &str,
        over: &Stopper,
    ) -> Result<Self, WatchError> {
        let Sources { kernel, namespaces, daemons, daemon_rate, record, flush } = sources;
        let head = match (&record, &kernel) {
            (Some((_, started)), Some(plan)) => Some(head(plan, started, version)?),
            _ => None,
        };
        let packets = record.as_ref().and_then(|(path, _)| Some((path.as_path(), head?)));
        let (to, from) = sync_channel(BATCHES);
        let mut readers = Vec::new();
        if let Some(plan) = kernel {
            let open = move || weir_probe::open(&plan);
            readers.push(Reader::start((0, namespaces), to.clone(), over.clone(), open)?);
        }
        for socket in daemons {
            let number = readers.len();
            let open = move || DaemonQueues::open(socket, daemon_rate);
            readers.push(Reader::start((number, 1), to.clone(), over.clone(), open)?);
        }
        drop(to);
        let recorder =
            Recorder::start(from, Files::create(files, packets, version, flush.unwrap_or(FLUSH))?)?;
        for remark in readers.iter().flat_map(|reader| reader.progress().remarks) {
            recorder.lock().tally.note(&remark);
        }
        Ok(Self { readers, recorder })
    }

    /// The state of each source.
    pub fn progress(&self) -> Vec<Progress> {
        self.readers.iter().map(Reader::progress).collect()
    }

    /// The current record. Recording waits while the caller holds it.
    pub fn record(&self) -> MutexGuard<'_, Record> {
        self.recorder.lock()
    }

    /// Stops the readers, which read for some milliseconds more, and completes the files.
    ///
    /// # Errors
    /// A thread panicked.
    pub fn finish(self) -> Result<Watched, WatchError> {
        self.readers.iter().for_each(Reader::stop);
        let sources: Vec<Progress> = self.readers.into_iter().map(Reader::join).collect();
        let ended = Instant::now();
        let mut record = self.recorder.join()?;
        let mut failures: Vec<String> =
            sources.iter().filter_map(|source| source.failed.clone()).collect();
        let (recorded, of_files) = record.finish();
        failures.extend(of_files);
        let mut devices =
            record.devices.into_iter().map(|devices| devices.into_iter().collect::<Vec<_>>());
        let sources = sources
            .into_iter()
            .map(|progress| Source { progress, devices: devices.next().unwrap_or_default() })
            .collect();
        Ok(Watched { tally: record.tally, sources, recorded, failures, ended })
    }
}

/// The head of a recording of the packets of the plan's device.
fn head(plan: &Plan, started: &str, version: &str) -> Result<Head, WatchError> {
    let [target] = &plan.targets[..] else {
        let reason = format!("a recording is of one device, not of {}", plan.targets.len());
        return Err(ProbeError::Plan(reason).into());
    };
    let (device, discipline) = weir_probe::discipline(target)?;
    let (version, started) = (version.to_owned(), started.to_owned());
    Ok(Head { version, started, device, discipline, ..Head::default() })
}

/// The result of a watch.
#[derive(Debug)]
pub struct Watched {
    /// Statistics of all queues.
    pub tally: Tally,
    /// The sources, in the order in which they were started.
    pub sources: Vec<Source>,
    /// The number of packets in the recording; `None` if none was requested, or if it could not be
    /// written to its end.
    pub recorded: Option<u64>,
    /// The failures of sources, and those of files since the last call of [`Record::failures`].
    pub failures: Vec<String>,
    /// When the last source ended.
    pub ended: Instant,
}

/// A source that has ended.
#[derive(Clone, Debug)]
pub struct Source {
    /// The last state of the source's reader.
    pub progress: Progress,
    /// The devices that the source has read, by name and namespace.
    pub devices: Vec<(String, Option<String>)>,
}

impl Watched {
    /// The summary for programs, of a watch that took `seconds`: the devices of each source, the
    /// pace of each source, and the share of readings, or of time, with more than `threshold`
    /// packets.
    pub fn summary(&self, seconds: f64, threshold: Option<u32>) -> Summary {
        summary(&self.tally, &self.sources, seconds, threshold)
    }
}

fn summary(tally: &Tally, sources: &[Source], seconds: f64, threshold: Option<u32>) -> Summary {
    let mut devices = Vec::new();
    for Source { progress, devices: own } in sources {
        let Some(method) = progress.method else { continue };
        let of_source = Summary::of(tally, method, seconds, &progress.pace).devices.into_iter();
        devices.extend(
            of_source.filter(|device| own.contains(&(device.device.clone(), device.netns.clone()))),
        );
    }
    for device in &mut devices {
        let (name, netns) = (&device.device, &device.netns);
        let own = tally
            .queues()
            .iter()
            .filter(|queue| queue.queue.device == *name && queue.queue.netns == *netns);
        for (summary, queue) in device.qdiscs.iter_mut().zip(own) {
            let share = |packets: u32| Above {
                packets,
                share: queue.packets().share_above(packets.into()),
            };
            summary.above = threshold.map(share);
        }
    }
    Summary { devices }
}

/// The default time between two flushes of the files of readings.
const FLUSH: Duration = Duration::from_secs(1);
/// Maximum number of batches that wait for the recorder; at this number, the readers wait.
const BATCHES: usize = 64;

#[cfg(test)]
mod tests {
    use weir_probe::{Gaps, Handle, Method, Pace, Queue, Run, Sink as _};

    use super::*;

    /// Statistics of `queues` queues, where queue n has n packets in each of ten readings.
    fn tally(queues: u32) -> Tally {
        let mut tally = Tally::new();
        for id in 0..queues {
            let (handle, parent) = (Handle((id + 1) << 16), Handle::ROOT);
            let queue = Queue {
                device: "eth0".into(),
                netns: None,
                kind: "tbf".into(),
                handle,
                parent,
                band: None,
                root: true,
            };
            tally.appeared(0, id, &queue);
            let (first, last, count, backlog) = (0, 1_000_000_000, 10, 100 * id);
            tally.runs(&[Run { queue: id, first, last, count, qlen: id, backlog }]);
        }
        tally
    }

    fn source(devices: Vec<(String, Option<String>)>) -> Source {
        let pace = Pace { asked: Some(2000), readings: 2000, missed: 3, gaps: Gaps::default() };
        let progress =
            Progress { method: Some(Method::Timer), pace, namespaces: 1, ..Progress::default() };
        Source { progress, devices }
    }

    #[test]
    fn each_device_has_the_pace_of_its_source() {
        let of_none = summary(&tally(2), &[source(Vec::new())], 1.0, Some(0));
        assert!(of_none.devices.is_empty());
        let sources = [source(vec![("eth0".to_owned(), None)])];
        let summary = summary(&tally(2), &sources, 1.0, Some(0));
        assert_eq!((summary.devices.len(), summary.devices[0].asked_per_s), (1, Some(2000)));
        let shares: Vec<f64> = summary.devices[0]
            .qdiscs
            .iter()
            .filter_map(|queue| queue.above)
            .map(|above| above.share)
            .collect();
        assert_eq!(shares, [0.0, 1.0]);
    }
}
