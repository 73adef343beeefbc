//! The results of a replay, its link, and its errors.

use schemars::JsonSchema;
use serde::Serialize;
use weir_core::config::QueueLimit;
use weir_measure::document::Number;
use weir_measure::latency::Latency;
use weir_measure::packets::Head;
use weir_measure::stats::DropCounts;

use super::curve::Curve;
use super::file::RecordingError;

/// The link that serves the replayed disciplines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ReplayLink")]
pub struct Link {
    /// The rate in bit/s.
    pub rate_bps: u64,
    /// Maximum number of bytes that the link sends at once after an idle time; the largest packet
    /// may be longer.
    pub burst_bytes: u64,
    /// The limit of each queue in packets; null if it is in bytes.
    pub limit_packets: Option<u32>,
    /// The limit of each queue in bytes; null if it is in packets.
    pub limit_bytes: Option<u64>,
}

impl Link {
    /// A link with this rate in bit/s, burst in bytes and limit of queues.
    pub fn new(rate_bps: u64, burst_bytes: u64, limit: QueueLimit) -> Self {
        let (limit_packets, limit_bytes) = match limit {
            QueueLimit::Packets(packets) => (Some(packets), None),
            QueueLimit::Bytes(bytes) => (None, Some(bytes)),
        };
        Self { rate_bps, burst_bytes, limit_packets, limit_bytes }
    }

    pub(super) fn limit(&self) -> QueueLimit {
        match (self.limit_bytes, self.limit_packets) {
            (Some(bytes), _) => QueueLimit::Bytes(bytes),
            (None, packets) => QueueLimit::Packets(packets.unwrap_or(u32::MAX)),
        }
    }
}

/// What the kernel did with the recorded packets, and what other disciplines would have done.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Replay {
    /// The head of the recording.
    pub recording: Head,
    /// The content of the recording.
    pub content: Content,
    /// The link of the replayed disciplines.
    pub link: Link,
    /// The seed of random decisions.
    pub seed: u64,
    /// The kernel's queue as recorded, then the replayed disciplines in the order of the command
    /// line.
    pub rows: Vec<Row>,
}

/// The content of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "RecordingContent")]
pub struct Content {
    /// Length of the recording, ns.
    pub duration_ns: u64,
    /// Packets that arrived.
    pub packets: u64,
    /// Bytes of the packets that arrived, with link headers.
    pub bytes: u64,
    /// Flows.
    pub flows: u64,
    /// Packets that departed without having been queued, because the kernel's queue was empty.
    pub bypassed: u64,
    /// Packets with an outcome that was not recorded.
    pub unknown: u64,
    /// Events that could not be recorded; some arrivals may be among them.
    pub lost_events: u64,
    /// Departures and drops of packets without a recorded arrival, such as packets that were queued
    /// when the recording began.
    pub strays: u64,
    /// The increase of the kernel's own counter of drops.
    pub kernel_drops: u64,
    /// How often the discipline was replaced during the recording.
    pub changes: u64,
}

/// The results of one discipline.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ReplayRow")]
pub struct Row {
    /// The discipline, with settings that are not at their defaults; the first row is the kernel's
    /// as recorded.
    pub name: String,
    /// Packets that departed.
    pub delivered: u64,
    /// Bytes of the packets that departed.
    pub delivered_bytes: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Dropped packets by reason; null for the kernel's row.
    pub drops: Option<DropCounts>,
    /// Packets that departed with a congestion mark that they did not have on arrival.
    pub marked: u64,
    /// Packets that were inside at the end.
    pub left: u64,
    /// Packets with an outcome that was not recorded; 0 for a replayed discipline.
    pub unknown: u64,
    /// The time from arrival to departure of the packets that departed, ns.
    pub delay_ns: Latency,
    /// Departed bytes in bit/s, over the time from the first arrival to the last departure.
    pub throughput_bps: Number,
    /// The length of the queue, weighted by time.
    pub queue_packets: QueueLength,
    /// How the departed bytes were shared by the flows.
    pub fairness: Fairness,
    /// Queue length and delay over time.
    #[serde(skip)]
    pub curve: Curve,
}

/// The length of a queue, weighted by time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ReplayQueueLength")]
pub struct QueueLength {
    /// The mean.
    pub mean: Number,
    /// The 99th percentile.
    pub p99: u64,
    /// The maximum.
    pub max: u64,
}

/// How departed bytes are shared by flows. The fair share of a flow is its max-min fair part of all
/// departed bytes: no flow needs more than the bytes that it sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ReplayFairness")]
pub struct Fairness {
    /// Jain's index of the flows' departed bytes relative to their fair shares: 1 if every flow got
    /// the same fraction of its share.
    pub index: Number,
    /// The smallest fraction of its fair share that a flow got.
    pub least_share: Number,
    /// The median over the flows of their mean delay, ns.
    pub flow_delay_p50_ns: u64,
}

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The discipline is not work-conserving.
    #[error(
        "{0} holds packets back by rates of its own, and the link of a replay has the rate: leave \
         {0} out"
    )]
    Shapes(&'static str),
    /// The discipline has a queue for each flow, and the recording has too many flows.
    #[error(
        "{name} has a queue for each flow, up to {MAX_QUEUES}; the recording has {flows} flows: \
         leave {name} out"
    )]
    Flows {
        /// The discipline.
        name: &'static str,
        /// The number of flows.
        flows: u64,
    },
}

/// Maximum number of flows for a discipline that has a queue for each flow.
pub(super) const MAX_QUEUES: usize = 1 << 16;
