//! Counters as they go over the wire, and the engine's as they are turned into them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_core::histogram::Histogram;
use weir_core::key::FlowKey;
use weir_core::stats::{LinkCounters, Reasons};

/// Packets of a link, queue or lane. At any moment
/// `packets_in + duplicated = packets_out + Σ drops + backlog_packets`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CounterSet {
    /// Packets that came.
    pub packets_in: u64,
    /// Their network-layer bytes.
    pub bytes_in: u64,
    /// Packets that left, additional copies included.
    pub packets_out: u64,
    /// Their network-layer bytes.
    pub bytes_out: u64,
    /// Additional copies.
    pub duplicated: u64,
    /// Packets with an inverted bit.
    pub corrupted: u64,
    /// Packets that overtook others by `reorder`.
    pub reordered: u64,
    /// Packets inside now.
    pub backlog_packets: u64,
    /// Most packets that ever waited at once.
    pub peak_queue_packets: u64,
    /// Packets lost, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Packets marked with congestion experienced, by reason.
    pub marks: BTreeMap<String, u64>,
}

impl From<&LinkCounters> for CounterSet {
    fn from(c: &LinkCounters) -> Self {
        let (drops, marks) = by_reason(c.reasons());
        Self {
            packets_in: c.packets_in,
            bytes_in: c.bytes_in,
            packets_out: c.packets_out,
            bytes_out: c.bytes_out,
            duplicated: c.duplicated,
            corrupted: c.corrupted,
            reordered: c.reordered,
            backlog_packets: c.backlog_packets,
            peak_queue_packets: c.peak_queue_packets,
            drops,
            marks,
        }
    }
}

/// How long packets took, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LatencyView {
    /// Packets that it is about.
    pub count: u64,
    /// Mean.
    pub mean_ns: u64,
    /// Half of them took no longer.
    pub p50_ns: u64,
    /// All but one in a hundred took no longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl From<&Histogram> for LatencyView {
    fn from(h: &Histogram) -> Self {
        if h.count() == 0 {
            return Self::default();
        }
        Self {
            count: h.count(),
            mean_ns: h.mean() as u64,
            p50_ns: h.quantile(0.5),
            p99_ns: h.quantile(0.99),
            max_ns: h.max(),
        }
    }
}

/// What a pipe or scheduler has counted, all its instances together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkSample {
    /// Packets.
    pub counters: CounterSet,
    /// Packets waiting in its queues now.
    pub queue_packets: u64,
    /// Their network-layer bytes.
    pub queue_bytes: u64,
    /// Instances that exist now.
    pub instances: u64,
    /// Time in the queue. With more than 64 pipes and schedulers, times are not gathered, and their
    /// `count` is 0.
    pub queue_time: LatencyView,
    /// Time from arrival to release.
    pub total_time: LatencyView,
}

/// What a queue has counted, all its flows together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueCounters {
    /// Packets that came.
    pub packets_in: u64,
    /// Their network-layer bytes.
    pub bytes_in: u64,
    /// Packets lost.
    pub drops: u64,
    /// The same by reason.
    #[serde(default)]
    pub drops_by_reason: BTreeMap<String, u64>,
    /// Packets marked with congestion experienced, by reason.
    #[serde(default)]
    pub marks: BTreeMap<String, u64>,
    /// Packets waiting now.
    pub queue_packets: u64,
    /// Their network-layer bytes.
    pub queue_bytes: u64,
    /// Flows that exist now.
    pub instances: u64,
}

impl QueueCounters {
    /// Counts drops and marks too.
    pub fn add_reasons(&mut self, reasons: &Reasons) {
        self.drops += reasons.total_drops();
        let (drops, marks) = by_reason(reasons);
        add(&mut self.drops_by_reason, &drops);
        add(&mut self.marks, &marks);
    }

    /// Adds those of another part of the same queue.
    pub fn merge(&mut self, other: &Self) {
        self.packets_in += other.packets_in;
        self.bytes_in += other.bytes_in;
        self.drops += other.drops;
        self.queue_packets += other.queue_packets;
        self.queue_bytes += other.queue_bytes;
        self.instances += other.instances;
        add(&mut self.drops_by_reason, &other.drops_by_reason);
        add(&mut self.marks, &other.marks);
    }
}

/// What a rule has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// Packets lost.
    pub drops: u64,
    /// The same by reason.
    #[serde(default)]
    pub drops_by_reason: BTreeMap<String, u64>,
    /// Packets marked with congestion experienced, by reason.
    #[serde(default)]
    pub marks: BTreeMap<String, u64>,
    /// State of the AQM of its queue, by name: probabilities from 0 to 1, counts, times in ns. Of a
    /// pipe or scheduler with several flows nothing.
    #[serde(default)]
    pub aqm: BTreeMap<String, f64>,
    /// Packets waiting now.
    pub queue_packets: u64,
    /// Their network-layer bytes.
    pub queue_bytes: u64,
}

fn add(sums: &mut BTreeMap<String, u64>, others: &BTreeMap<String, u64>) {
    for (name, count) in others {
        *sums.entry(name.clone()).or_default() += count;
    }
}

/// Drops and marks by name of their reason.
pub fn by_reason(reasons: &Reasons) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    let drops =
        reasons.drop_counts().iter().map(|(reason, count)| (reason.name().to_owned(), count));
    let marks =
        reasons.mark_counts().iter().map(|(reason, count)| (reason.name().to_owned(), count));
    (drops.collect(), marks.collect())
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LaneView {
    /// Its name.
    pub name: String,
    /// Interface where frames come in.
    pub from: String,
    /// Interface where they go out.
    pub to: String,
    /// Packets.
    pub counters: CounterSet,
    /// How much later than intended packets left.
    pub lateness: LatencyView,
    /// Frames that the kernel dropped before they could be read; not part of `counters`.
    pub rx_kernel_drops: u64,
    /// Frames whose offload the kernel could not tell; not part of `counters`.
    pub rx_unreadable: u64,
}

/// What waits in a pipe, scheduler or queue, and what became of the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
