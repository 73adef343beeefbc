//! Counters as they go over the wire, and the engine's as they are turned into them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_core::key::FlowKey;
use weir_measure::latency::Latency;
use weir_measure::stats::{LinkCounters, Reasons};

/// What a pipe or scheduler has counted, all its instances together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
pub struct LinkSample {
    /// Packets.
    pub counters: LinkCounters,
    /// Packets waiting in its queues now.
    pub queue_packets: u64,
    /// Their network-layer bytes.
    pub queue_bytes: u64,
    /// Instances that exist now.
    pub instances: u64,
    /// Time in the queue, ns. With more than 64 pipes and schedulers, times are not gathered, and
    /// their `count` is 0.
    pub queue_ns: Latency,
    /// Time from arrival to release, ns.
    pub total_ns: Latency,
}

/// What a queue has counted, all its flows together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
pub struct QueueCounters {
    /// Packets that came.
    pub packets_in: u64,
    /// Their network-layer bytes.
    pub bytes_in: u64,
    /// Packets lost and marked, by reason.
    #[serde(flatten)]
    pub reasons: Reasons,
    /// Packets waiting now.
    pub queue_packets: u64,
    /// Their network-layer bytes.
    pub queue_bytes: u64,
    /// Flows that exist now.
    pub instances: u64,
}

impl QueueCounters {
    /// Adds those of another part of the same queue.
    pub fn merge(&mut self, other: &Self) {
        self.packets_in += other.packets_in;
        self.bytes_in += other.bytes_in;
        self.reasons.merge(&other.reasons);
        self.queue_packets += other.queue_packets;
        self.queue_bytes += other.queue_bytes;
        self.instances += other.instances;
    }
}

/// What a rule has counted.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema,
)]
pub struct RuleCounters {
    /// Packets that it matched.
    pub packets: u64,
    /// Their network-layer bytes.
    pub bytes: u64,
    /// When it matched last, seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_match_s: Option<u64>,
}

/// One instance of a pipe, queue or scheduler: what its mask has set apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InstanceView {
    /// The header fields that set it apart.
    pub key: KeyView,
    /// Hash of the key; modulo a number of buckets it is dummynet's first column.
    pub hash: u64,
    /// Packets that came.
    pub packets_in: u64,
    /// Their network-layer bytes.
    pub bytes_in: u64,
    /// Packets lost and marked, by reason.
    #[serde(flatten)]
    pub reasons: Reasons,
    /// State of the AQM of its queue, by name: probabilities from 0 to 1, counts, times in ns. Of a
    /// pipe or scheduler with several flows nothing.
    #[serde(default)]
    pub aqm: BTreeMap<String, f64>,
    /// Packets waiting now.
    pub queue_packets: u64,
    /// Their network-layer bytes.
    pub queue_bytes: u64,
}

/// The header fields by which a mask tells instances apart; those that it does not name are empty.
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
    /// Whether it is of IPv6 addresses.
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

/// A part of a list of instances. One that comes or goes meanwhile is or is not in it; every other
/// is there once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InstancePage {
    /// How many there are in all.
    pub total: u64,
    /// The part that was asked for.
    pub instances: Vec<InstanceView>,
    /// What `after` must be for the next part; none when there is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// One way over a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
pub struct LaneView {
    /// Its name.
    pub name: String,
    /// Interface where frames come in.
    pub from: String,
    /// Interface where they go out.
    pub to: String,
    /// Packets.
    pub counters: LinkCounters,
    /// How much later than intended packets left, ns.
    pub lateness_ns: Latency,
    /// Frames that the kernel dropped before they could be read; not part of `counters`.
    pub rx_kernel_drops: u64,
    /// Frames whose offload the kernel could not tell; not part of `counters`.
    pub rx_unreadable: u64,
}

/// What waits in a pipe, scheduler or queue, and what became of the rest.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema,
)]
pub struct LengthView {
    /// Packets waiting now.
    pub packets: u64,
    /// Their network-layer bytes.
    pub bytes: u64,
    /// Packets that have left the queue or the link.
    pub sent: u64,
    /// Their network-layer bytes; 0 of a queue, which does not count them.
    pub sent_bytes: u64,
    /// Packets lost.
    pub drops: u64,
}

impl LengthView {
    /// Adds that of another part of the same queue.
    pub fn merge(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.drops += other.drops;
    }
}

/// All queues at one moment, of `GET /v1/lengths`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
pub struct LengthsView {
    /// When they were looked at, by the machine's monotonic clock, ns.
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
    /// When, ns since the daemon started.
    pub at_ns: u64,
    /// The configuration's number.
    pub revision: u64,
    /// Samples that were left out before this one because the reader was slow.
    pub skipped: u64,
    /// Pipes and schedulers, by number.
    pub links: BTreeMap<u16, LinkSample>,
    /// Queues, by number.
    pub queues: BTreeMap<u16, QueueCounters>,
    /// Rules, by identity.
    pub rules: BTreeMap<u32, RuleCounters>,
    /// Ways over bridges.
    pub lanes: Vec<LaneView>,
}
