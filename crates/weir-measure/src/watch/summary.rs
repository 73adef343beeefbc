//! The statistics of a watch as results documents, one for each device.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use schemars::JsonSchema;
use serde::Serialize;

use super::model::{Counters, Handle};
use super::pace::{Method, Pace};
use super::queue::{EventCounts, Measured};
use super::tally::{Remark, Ring, Tally};
use crate::document::{Document, Kind};
use crate::exact::Exact;

/// The documents of all devices. In JSON, one device is an object, and several devices are a list.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The devices, in the order in which their queues appeared.
    pub devices: Vec<DeviceSummary>,
}

/// A device and its queues.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct DeviceSummary {
    /// The name of the device.
    pub device: String,
    /// The network namespace of the device in the user's notation; null for the caller's own.
    pub netns: Option<String>,
    /// The method of reading.
    pub method: Method,
    /// Duration of the watch, s.
    pub seconds: f64,
    /// Number of readings of the device, each of which includes all its queues; for a record of
    /// events, the number of events.
    pub samples: u64,
    /// Readings per second.
    pub samples_per_s: f64,
    /// Requested readings per second; null for as many as possible, and for a record of events.
    pub asked_per_s: Option<u64>,
    /// Scheduled moments that passed without a reading, for all devices together.
    pub missed: u64,
    /// Time between readings or recorded events, for all devices together.
    pub gap_ns: GapSummary,
    /// Differences between consecutive readings of the discipline to which the device hands its
    /// packets: its root, or each child of an `mq`; null without such differences.
    pub variance: Option<VarianceSummary>,
    /// The queues of the device.
    pub qdiscs: Vec<QueueSummary>,
    /// The transmission queues of the device, if they have dynamic limits.
    pub transmission: Vec<TransmissionSummary>,
    /// Enqueues and dequeues of the disciplines to which the device hands its packets, if recorded.
    pub events: Option<EventSummary>,
    /// Remarks for the reader, with the time since the start of the watch where there is one.
    pub notes: Vec<String>,
}

/// Time between readings or recorded events, ns.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct GapSummary {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Maximum.
    pub max: u64,
}

/// Differences between consecutive readings, in packets and regardless of their sign, as fractions
/// of all differences.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct VarianceSummary {
    /// No difference.
    #[serde(rename = "0")]
    pub zero: f64,
    /// One packet.
    #[serde(rename = "1")]
    pub one: f64,
    /// More than one packet.
    pub more: f64,
    /// The greatest difference, in packets.
    pub max: u64,
    /// Number of differences.
    pub count: u64,
}

/// Mean and quantiles of a distribution.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Maximum.
    pub max: u64,
}

/// One queue.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct QueueSummary {
    /// The discipline; `band` for a band.
    pub kind: String,
    /// The handle in the notation of `tc`.
    pub handle: Handle,
    /// The parent class.
    pub parent: Handle,
    /// The band of a `pfifo_fast`.
    pub band: Option<u8>,
    /// Whether this queue is the device's root discipline.
    pub root: bool,
    /// Time at which the queue appeared, s since the start of the watch.
    pub since_s: f64,
    /// Time at which the queue vanished, s since the start of the watch; null if it still exists.
    pub until_s: Option<f64>,
    /// Number of consecutive queues at the same place that are shown as one.
    pub instances: u64,
    /// Number of readings of the queue.
    pub samples: u64,
    /// Waiting packets, weighted by readings, or by time if events were recorded.
    pub qlen: Spread,
    /// Waiting bytes; null for bands, which are not counted in bytes.
    pub backlog_bytes: Option<Spread>,
    /// Differences between consecutive readings.
    pub variance: Option<VarianceSummary>,
    /// Packets dropped during the watch; null without such a counter.
    pub drops: Option<u64>,
    /// Drops per second of the queue's lifetime.
    pub drops_per_s: Option<f64>,
    /// Increase of all counters during the watch.
    pub counted: Option<Counters>,
    /// Enqueues and dequeues, if they were recorded.
    pub events: Option<EventCounts>,
    /// The share above a threshold, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<Above>,
}

/// The share of readings at which a queue was longer than a threshold; if events were recorded, the
/// share of time.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Above {
    /// The threshold.
    pub packets: u32,
    /// The share, 0 to 1.
    pub share: f64,
}

/// A transmission queue.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct TransmissionSummary {
    /// The number of the queue.
    pub queue: u32,
    /// The limit that dynamic queue limits set, in bytes.
    pub limit_bytes: Spread,
    /// Bytes in the queue.
    pub inflight_bytes: Spread,
    /// Number of readings.
    pub samples: u64,
}

/// Enqueues and dequeues of a device.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct EventSummary {
    /// The counts.
    #[serde(flatten)]
    pub counts: EventCounts,
    /// `gaps` as a fraction of all events.
    pub gap_share: f64,
}

impl Summary {
    /// The statistics of a watch that lasted `seconds`.
    #[must_use]
    pub fn of(tally: &Tally, method: Method, seconds: f64, pace: &Pace) -> Summary {
        let mut devices: Vec<(&str, Option<&str>)> = Vec::new();
        for queue in tally.queues() {
            let device = (queue.queue.device.as_str(), queue.queue.netns.as_deref());
            if !devices.contains(&device) {
                devices.push(device);
            }
        }
        let of_device =
            |(device, netns)| DeviceSummary::of(tally, (device, netns), method, seconds, pace);
        Summary { devices: devices.into_iter().map(of_device).collect() }
    }

    /// The documents as pretty-printed JSON with a final newline.
    ///
    /// # Panics
    /// Never: plain data always serialises.
    #[must_use]
    pub fn to_json(&self) -> String {
        let document = |device| Document::new(Kind::Watch, device);
        match self.devices.as_slice() {
            [device] => document(device).to_json(),
            devices => {
                let all: Vec<_> = devices.iter().map(document).collect();
                serde_json::to_string_pretty(&all).expect("plain data always serialises") + "\n"
            }
        }
    }
}

impl Serialize for Summary {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.devices.as_slice() {
            [device] => device.serialize(serializer),
            devices => devices.serialize(serializer),
        }
    }
}

impl DeviceSummary {
    fn of(
        tally: &Tally,
        (device, netns): (&str, Option<&str>),
        method: Method,
        seconds: f64,
        pace: &Pace,
    ) -> DeviceSummary {
        let own: Vec<&Measured> = tally
            .queues()
            .iter()
            .filter(|queue| queue.queue.device == device && queue.queue.netns.as_deref() == netns)
            .collect();
        let roots = || own.iter().filter(|queue| queue.queue.root);
        let (start, end) = tally.span().unwrap_or_default();
        let mut events = EventCounts::default();
        let mut steps = Exact::default();
        own.iter().for_each(|queue| events.add(&queue.events));
        own.iter()
            .filter(|queue| takes_packets(queue, &own))
            .for_each(|queue| steps.merge(queue.steps()));
        // Each reading of a device includes its current root. Without a root, the number is that
        // of the queue with the most readings.
        let readings = match roots().map(|queue| queue.readings).sum() {
            0 => own.iter().map(|queue| queue.readings).max().unwrap_or(0),
            readings => readings,
        };
        let samples = if events.recorded() > 0 { events.recorded() } else { readings };
        let gap_share = events.gaps as f64 / events.recorded().max(1) as f64;
        DeviceSummary {
            device: device.to_owned(),
            netns: netns.map(str::to_owned),
            method,
            seconds,
            samples,
            samples_per_s: if seconds > 0.0 { samples as f64 / seconds } else { 0.0 },
            asked_per_s: pace.asked,
            missed: pace.missed,
            gap_ns: GapSummary {
                p50: pace.gaps.quantile(0.5),
                p99: pace.gaps.quantile(0.99),
                max: pace.gaps.longest(),
            },
            variance: VarianceSummary::of(&steps),
            qdiscs: own.iter().map(|queue| QueueSummary::of(queue, (start, end))).collect(),
            transmission: tally
                .rings()
                .iter()
                .filter(|ring| ring.device == device && ring.netns.as_deref() == netns)
                .map(TransmissionSummary::of)
                .collect(),
            events: (events.recorded() > 0).then_some(EventSummary { counts: events, gap_share }),
            notes: notes(tally, start),
        }
    }
}

/// Whether the device hands its packets to this discipline: the root, or a child of an `mq` or
/// `mqprio` root.
fn takes_packets(queue: &Measured, all: &[&Measured]) -> bool {
    let is_mq_root = |root: &Measured| root.queue.root && root.queue.kind.starts_with("mq");
    let below = |root: &Measured| {
        is_mq_root(root)
            && queue.queue.band.is_none()
            && queue.queue.parent.0 >> 16 == root.queue.handle.0 >> 16
    };
    if queue.queue.root { !is_mq_root(queue) } else { all.iter().any(|root| below(root)) }
}

/// The remarks as text, each with its time since `start` if it has one.
fn notes(tally: &Tally, start: u64) -> Vec<String> {
    let text = |remark: &Remark| match remark.time {
        Some(time) => format!("{:.3} s: {}", seconds_between(start, time), remark.text),
        None => remark.text.clone(),
    };
    let mut notes: Vec<String> = tally.remarks().iter().map(text).collect();
    if tally.more_remarks() > 0 {
        notes.push(format!("and {} remarks more", tally.more_remarks()));
    }
    if tally.unmeasured() > 0 {
        notes.push(format!("{} queues were not measured", tally.unmeasured()));
    }
    notes
}

impl QueueSummary {
    fn of(queue: &Measured, (start, end): (u64, u64)) -> QueueSummary {
        let life = seconds_between(queue.since, queue.until.unwrap_or(end));
        let counted = queue.counters().map(|_| queue.counted());
        let is_band = queue.queue.band.is_some();
        QueueSummary {
            kind: queue.queue.kind.clone(),
            handle: queue.queue.handle,
            parent: queue.queue.parent,
            band: queue.queue.band,
            root: queue.queue.root,
            since_s: seconds_between(start, queue.since),
            until_s: queue.until.map(|until| seconds_between(start, until)),
            instances: queue.instances,
            samples: queue.readings,
            qlen: Spread::of(queue.packets()),
            backlog_bytes: (!is_band).then(|| Spread::of(queue.bytes())),
            variance: VarianceSummary::of(queue.steps()),
            drops: counted.map(|counted| counted.drops),
            drops_per_s: counted
                .map(|counted| if life > 0.0 { counted.drops as f64 / life } else { 0.0 }),
            counted,
            events: queue.is_exact().then_some(queue.events),
            above: None,
        }
    }
}

impl TransmissionSummary {
    fn of(ring: &Ring) -> TransmissionSummary {
        let (limit_bytes, inflight_bytes) = (Spread::of(&ring.limit), Spread::of(&ring.inflight));
        TransmissionSummary {
            queue: ring.queue,
            limit_bytes,
            inflight_bytes,
            samples: ring.limit.total(),
        }
    }
}

impl VarianceSummary {
    /// The summary of the differences; `None` if there are none.
    #[must_use]
    pub fn of(steps: &Exact) -> Option<VarianceSummary> {
        let (zero, one, count) = (steps.share_at(0), steps.share_at(1), steps.total());
        let more = steps.share_above(1);
        (count > 0).then_some(VarianceSummary { zero, one, more, max: steps.max(), count })
    }
}

impl Spread {
    /// The summary of a distribution.
    #[must_use]
    pub fn of(values: &Exact) -> Spread {
        Spread {
            mean: values.mean(),
            p50: values.quantile(0.5),
            p99: values.quantile(0.99),
            max: values.max(),
        }
    }
}

/// The seconds between two times in ns; 0 if `to` is before `from`.
fn seconds_between(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e9
}
