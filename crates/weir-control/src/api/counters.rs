//! The counters of links, queues, rules, lanes and instances, as the API sends them in JSON.

use std::collections::BTreeMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_core::key::FlowKey;
use weir_measure::latency::Latency;
use weir_measure::stats::{LinkCounters, Reasons};

/// The counters and queue lengths of a pipe or scheduler, summed over its instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
pub struct LinkSample {
    /// The packet counters of the link.
    pub counters: LinkCounters,
    /// Packets that wait in the queues of the pipe or scheduler now.
    pub queue_packets: u64,
    /// Network-layer bytes of the packets in `queue_packets`.
    pub queue_bytes: u64,
    /// Instances that exist now.
    pub instances: u64,
    /// Queueing delay in ns: from arrival to the start of transmission. It is not reported with
    /// more than 64 pipes and schedulers; the `count` is then 0.
    pub queue_ns: Latency,
    /// Time from arrival to due time, in ns. It is not reported in the same case.
    pub total_ns: Latency,
}

/// The counters and length of a queue, summed over its flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
pub struct QueueCounters {
    /// Packets that arrived.
    pub packets_in: u64,
    /// Network-layer bytes of the packets in `packets_in`.
    pub bytes_in: u64,
    /// Dropped and marked packets, by reason.
    #[serde(flatten)]
    pub reasons: Reasons,
    /// Packets that wait in the queue now.
    pub queue_packets: u64,
    /// Network-layer bytes of the packets in `queue_packets`.
    pub queue_bytes: u64,
    /// Flows that exist now.
    pub instances: u64,
}

impl QueueCounters {
    /// Adds the counters of the same queue on another worker.
    pub fn merge(&mut self, other: &Self) {
        self.packets_in += other.packets_in;
        self.bytes_in += other.bytes_in;
        self.reasons.merge(&other.reasons);
        self.queue_packets += other.queue_packets;
        self.queue_bytes += other.queue_bytes;
        self.instances += other.instances;
    }
}

/// The counters of a rule.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema,
)]
pub struct RuleCounters {
    /// Packets that matched the rule.
    pub packets: u64,
    /// Network-layer bytes of the packets that matched.
    pub bytes: u64,
    /// Time of the last match, in seconds since 1970; absent if no packet has matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_match_s: Option<u64>,
}

/// An instance that the mask of a pipe, queue or scheduler created, with its counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InstanceView {
    /// The header fields that distinguish this instance from other instances.
    pub key: KeyView,
    /// A hash of the key. Modulo the number of buckets it is the first column of dummynet's output.
    pub hash: u64,
    /// Packets that arrived.
    pub packets_in: u64,
    /// Network-layer bytes of the packets in `packets_in`.
    pub bytes_in: u64,
    /// Dropped and marked packets, by reason.
    #[serde(flatten)]
    pub reasons: Reasons,
    /// The state of the AQM of the instance's queue, by name: probabilities from 0 to 1, counts,
    /// and times in ns. Empty for a pipe or scheduler with several flows.
    #[serde(default)]
    pub aqm: BTreeMap<String, f64>,
    /// Packets that wait in the instance now.
    pub queue_packets: u64,
    /// Network-layer bytes of the packets in `queue_packets`.
    pub queue_bytes: u64,
}

/// The header fields by which a mask distinguishes instances. Fields that the mask omits are 0 or
/// absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyView {
    /// IP protocol.
    pub proto: u8,
    /// Source address.
    #[schema(value_type = Option<String>)]
    pub src_ip: Option<IpAddr>,
    /// Destination address.
    #[schema(value_type = Option<String>)]
    pub dst_ip: Option<IpAddr>,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Source MAC address, in 48 bits.
    pub src_mac: u64,
    /// Destination MAC address, in 48 bits.
    pub dst_mac: u64,
    /// IPv6 flow label.
    pub flow_id: u32,
    /// VLAN identifier.
    pub vlan: u16,
    /// DSCP.
    pub dscp: u8,
    /// Whether the addresses are IPv6.
    pub ipv6: bool,
}

impl From<FlowKey> for KeyView {
    fn from(key: FlowKey) -> Self {
        let address = |bits: u128| match (bits, key.ipv6) {
            (0, _) => None,
            (_, true) => Some(IpAddr::V6(bits.into())),
            (_, false) => Some(IpAddr::V4((bits as u32).into())),
        };
        Self {
            proto: key.proto,
            src_ip: address(key.src),
            dst_ip: address(key.dst),
            src_port: key.src_port,
            dst_port: key.dst_port,
            src_mac: key.src_mac,
            dst_mac: key.dst_mac,
            flow_id: key.flow_id,
            vlan: key.vlan,
            dscp: key.dscp,
            ipv6: key.ipv6,
        }
    }
}

/// A page of a list of instances. An instance that exists during all requests for a list appears on
/// exactly one page. An instance that is created or removed in the meantime may be missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InstancePage {
    /// The number of instances in the whole list.
    pub total: u64,
    /// The instances on this page.
    pub instances: Vec<InstanceView>,
    /// The value of `after` that requests the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// A lane over a bridge: one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
pub struct LaneView {
    /// The name of the lane.
    pub name: String,
    /// The interface that receives the frames.
    pub from: String,
    /// The interface that sends the frames.
    pub to: String,
    /// The packet counters of the lane.
    pub counters: LinkCounters,
    /// How much later than their due times packets departed, in ns.
    pub lateness_ns: Latency,
    /// Frames that the kernel dropped before Weir could read them; not included in `counters`.
    pub rx_kernel_drops: u64,
    /// Frames without usable offload information from the kernel; not included in `counters`.
    pub rx_unreadable: u64,
}

/// The length of a pipe, scheduler or queue, and the number of arrivals, departures and drops.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema,
)]
pub struct LengthView {
    /// Packets that wait now.
    pub packets: u64,
    /// Network-layer bytes of the packets in `packets`.
    pub bytes: u64,
    /// Packets that arrived, including those that were dropped on arrival.
    #[serde(default)]
    pub received: u64,
    /// Network-layer bytes of the packets in `received`.
    #[serde(default)]
    pub received_bytes: u64,
    /// Packets that departed from the queue or the link.
    pub sent: u64,
    /// Network-layer bytes of the packets in `sent`; 0 for a queue, which does not count them.
    pub sent_bytes: u64,
    /// Dropped packets.
    pub drops: u64,
}

impl LengthView {
    /// Adds the length and counters of the same object on another worker.
    pub fn merge(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.drops += other.drops;
    }
}

/// The lengths of all queues at one moment: the reply to `GET /v1/lengths`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
pub struct LengthsView {
    /// The time of the reading on the machine's monotonic clock, in ns.
    pub at_ns: u64,
    /// Pipes, by number.
    pub pipes: BTreeMap<u16, LengthView>,
    /// Schedulers, by number.
    pub scheds: BTreeMap<u16, LengthView>,
    /// Queues, by number.
    pub queues: BTreeMap<u16, LengthView>,
}

/// One sample of `GET /v1/events`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
pub struct EventSample {
    /// Time of the sample, in ns since the daemon started.
    pub at_ns: u64,
    /// The revision of the configuration.
    pub revision: u64,
    /// Number of samples that were skipped before this one, because the reader was slow or the
    /// loop that forwards packets did not answer.
    pub skipped: u64,
    /// Pipes and schedulers, by number.
    pub links: BTreeMap<u16, LinkSample>,
    /// Queues, by number.
    pub queues: BTreeMap<u16, QueueCounters>,
    /// Rules, by identity.
    pub rules: BTreeMap<u32, RuleCounters>,
    /// The lanes over bridges.
    pub lanes: Vec<LaneView>,
}
