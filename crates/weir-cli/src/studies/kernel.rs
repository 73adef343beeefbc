//! Lists network devices and reads the kernel's queues, in the process of a study.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;

use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_control::dashboard::KernelQueue;
use weir_probe::{
    Counters, Method, Namespace, Opened, Plan, ProbeError, Queue, QueueId, Run, Sink, Target,
};

use super::messages::{self, PROGRESS, RESULTS};

/// The first message of a reader, which says how it reads the queues.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) method: String,
    /// Readings per second.
    pub(super) rate: u64,
    pub(super) remarks: Vec<String>,
}

/// The queues during an interval.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Interval {
    /// The end of the interval on the monotonic clock, ns.
    pub(super) at_ns: u64,
    pub(super) span_ms: f64,
    pub(super) queues: Vec<KernelQueue>,
    pub(super) remarks: Vec<String>,
}

/// Sends the names of the devices of this network namespace.
pub(super) fn devices(stream: &UnixStream) -> Result<(), String> {
    let found = nix::net::if_::if_nameindex()
        .map_err(|error| format!("the devices cannot be listed: {error}"))?;
    let names: Vec<String> = found
        .iter()
        .take(MOST_DEVICES)
        .map(|device| device.name().to_string_lossy().into_owned())
        .collect();
    let answer = json!({"devices": names, "more": found.iter().count() - names.len()});
    messages::send(stream, RESULTS, answer.to_string().as_bytes()).map_err(|e| e.to_string())
}

/// Reads the queues of a device until the client closes the socket.
pub(super) fn watch(request: &[Vec<u8>], stream: &UnixStream) -> Result<(), String> {
    let device = request.first().map(Vec::as_slice).unwrap_or_default();
    let device = String::from_utf8_lossy(device).into_owned();
    let target = Target { device, namespace: Namespace::Own };
    let (Opened { mut source, remarks }, rate) = open(&target).map_err(|e| e.to_string())?;
    let begun = Begun { method: source.method().name().to_owned(), rate, remarks };
    send(stream, RESULTS, &begun)?;
    let mut queues = Queues::default();
    loop {
        source.turn(&mut queues).map_err(|error| error.to_string())?;
        if let Some(interval) = queues.take() {
            send(stream, PROGRESS, &interval)?;
        }
    }
}

/// Opens a source of readings by the best method that the rights permit. Returns the source and the
/// number of readings per second.
fn open(target: &Target) -> Result<(Opened, u64), ProbeError> {
    let plan = |method, rate| Plan {
        targets: vec![target.clone()],
        method,
        rate: Some(rate),
        children: true,
        bands: true,
        packets: false,
    };
    let best = weir_probe::open(&plan(None, RATE))?;
    if best.source.method() != Method::Netlink {
        return Ok((best, RATE));
    }
    // With netlink, each reading is a query to the kernel, so the rate is lower. Only the remarks
    // of the first attempt say why no better method is available.
    let slow = weir_probe::open(&plan(Some(Method::Netlink), SLOW_RATE))?;
    Ok((Opened { source: slow.source, remarks: best.remarks }, SLOW_RATE))
}

fn send(stream: &UnixStream, kind: u8, what: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_vec(what).map_err(|error| error.to_string())?;
    messages::send(stream, kind, &text).map_err(|error| error.to_string())
}

/// Combines readings into one entry for each queue and interval.
#[derive(Debug, Default)]
struct Queues {
    queues: BTreeMap<QueueId, Entry>,
    /// Whether a queue was left out because there were too many.
    is_partial: bool,
    remarks: Vec<String>,
    /// The start of the interval, ns; `None` before the first reading.
    start: Option<u64>,
    /// The time of the newest reading, ns.
    newest: u64,
}

/// A queue in the current interval.
#[derive(Debug)]
struct Entry {
    label: String,
    /// Whether its discipline is the root of the device.
    root: bool,
    sums: Sums,
    counters: Option<Counters>,
    /// The counters at the start of the interval.
    before: Option<Counters>,
}

/// Sums and extremes of the readings of one queue.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Number of readings.
    count: u64,
    /// The sum of the lengths in packets, and in bytes.
    packets: u64,
    bytes: u64,
    /// The shortest and the longest length in packets.
    least: u32,
    most: u32,
    /// The longest length in bytes.
    most_bytes: u32,
}

impl Queues {
    /// If the interval is long enough, ends it and returns it.
    fn take(&mut self) -> Option<Interval> {
        let start = self.start?;
        let span = self.newest.saturating_sub(start);
        if span < INTERVAL {
            return None;
        }
        self.start = Some(self.newest);
        let queue = |(&id, entry): (&QueueId, &mut Entry)| {
            let sums = std::mem::take(&mut entry.sums);
            // Without a reading, the differences of the counters go to a later interval.
            if sums.count == 0 {
                return None;
            }
            let count = sums.count as f64;
            let (now, before) = (entry.counters, entry.before);
            entry.before = now;
            let since = |of: fn(&Counters) -> u64| match (&now, &before) {
                (Some(now), Some(before)) => of(now).saturating_sub(of(before)),
                _ => 0,
            };
            Some(KernelQueue {
                id,
                label: entry.label.clone(),
                root: entry.root,
                packets_min: sums.least,
                packets_mean: sums.packets as f64 / count,
                packets_max: sums.most,
                bytes_mean: sums.bytes as f64 / count,
                bytes_max: sums.most_bytes,
                sent: since(|counters| counters.packets),
                drops: since(|counters| counters.drops),
            })
        };
        Some(Interval {
            at_ns: self.newest,
            span_ms: span as f64 / 1e6,
            queues: self.queues.iter_mut().filter_map(queue).collect(),
            remarks: std::mem::take(&mut self.remarks),
        })
    }
}

impl Sink for Queues {
    fn appeared(&mut self, time: u64, id: QueueId, queue: &Queue) {
        if self.queues.len() >= MOST_QUEUES {
            if !std::mem::replace(&mut self.is_partial, true) {
                self.remark(time, &format!("only {MOST_QUEUES} queues are shown; there are more"));
            }
            return;
        }
        let entry = Entry {
            label: queue.label(),
            root: queue.root,
            sums: Sums::default(),
            counters: None,
            before: None,
        };
        self.queues.insert(id, entry);
    }

    fn vanished(&mut self, _time: u64, id: QueueId) {
        self.queues.remove(&id);
    }

    fn runs(&mut self, runs: &[Run]) {
        for run in runs {
            self.newest = self.newest.max(run.last);
            self.start.get_or_insert(run.first);
            let Some(entry) = self.queues.get_mut(&run.queue) else { continue };
            let sums = &mut entry.sums;
            sums.least = if sums.count == 0 { run.qlen } else { sums.least.min(run.qlen) };
            sums.most = sums.most.max(run.qlen);
            sums.most_bytes = sums.most_bytes.max(run.backlog);
            sums.count += u64::from(run.count);
            sums.packets += u64::from(run.qlen) * u64::from(run.count);
            sums.bytes += u64::from(run.backlog) * u64::from(run.count);
        }
    }

    fn counters(&mut self, _time: u64, id: QueueId, counters: &Counters) {
        if let Some(entry) = self.queues.get_mut(&id) {
            entry.counters = Some(*counters);
            entry.before.get_or_insert(*counters);
        }
    }

    fn remark(&mut self, _time: u64, text: &str) {
        if self.remarks.len() < MOST_REMARKS {
            self.remarks.push(text.to_owned());
        }
    }
}

/// Readings per second inside the kernel, and over netlink.
const RATE: u64 = 1000;
const SLOW_RATE: u64 = 100;
/// The length of an interval, ns.
const INTERVAL: u64 = 100_000_000;
/// Maximum number of queues of a device that are shown, of devices that are listed, and of remarks
/// of an interval.
const MOST_QUEUES: usize = 64;
const MOST_DEVICES: usize = 1000;
const MOST_REMARKS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_become_intervals_with_extremes_and_differences() {
        let mut queues = Queues::default();
        let queue = Queue {
            device: "eth0".to_owned(),
            netns: None,
            kind: "fq_codel".to_owned(),
            handle: weir_probe::Handle(0x8001_0000),
            parent: weir_probe::Handle::ROOT,
            band: None,
            root: true,
        };
        queues.appeared(0, 7, &queue);
        let run = |first, last, count, qlen| Run {
            queue: 7,
            first,
            last,
            count,
            qlen,
            backlog: 1500 * qlen,
        };
        assert!(queues.take().is_none(), "nothing was read yet");
        let counters = |packets, drops| Counters { packets, drops, ..Counters::default() };
        queues.counters(0, 7, &counters(100, 5));
        queues.runs(&[run(1_000_000, 50_000_000, 3, 2), run(51_000_000, 51_000_000, 1, 10)]);
        assert!(queues.take().is_none(), "the interval is too short");
        queues.runs(&[run(110_000_000, 110_000_000, 4, 0)]);
        queues.counters(110_000_000, 7, &counters(160, 8));
        let interval = queues.take().expect("an interval");
        assert_eq!(interval.span_ms, 109.0);
        let [shown] = interval.queues.as_slice() else { panic!("{interval:?}") };
        assert_eq!(shown.label, "eth0 fq_codel 8001:");
        assert_eq!((shown.packets_min, shown.packets_max), (0, 10));
        assert_eq!(shown.packets_mean, 2.0);
        assert_eq!((shown.bytes_max, shown.sent, shown.drops), (15_000, 60, 3));

        queues.counters(215_000_000, 7, &counters(170, 9));
        queues.runs(&[Run { queue: 8, ..run(215_000_000, 215_000_000, 1, 0) }]);
        assert!(queues.take().expect("an interval").queues.is_empty(), "it was not read");
        queues.counters(320_000_000, 7, &counters(175, 9));
        queues.runs(&[run(320_000_000, 320_000_000, 1, 0)]);
        let interval = queues.take().expect("an interval");
        assert_eq!((interval.queues[0].sent, interval.queues[0].drops), (15, 1));
        queues.vanished(321_000_000, 7);
        queues.runs(&[run(500_000_000, 500_000_000, 1, 1)]);
        assert!(queues.take().expect("an interval").queues.is_empty());

        for id in 0..100 {
            queues.appeared(0, id, &queue);
        }
        queues.runs(&[run(700_000_000, 700_000_000, 1, 1)]);
        let interval = queues.take().expect("an interval");
        assert_eq!(interval.remarks, ["only 64 queues are shown; there are more"]);
    }
}
