//! The validated configuration: links, flowsets and schedulers.
//!
//! The command language produces these types, and the engine takes them. They contain no text, and
//! the constructors of their parts refuse values that the engine cannot honour.

use alloc::sync::Arc;

use crate::device::DeviceConfig;
use crate::dist::Distribution;
use crate::key::FlowMask;
use crate::link::{Overhead, Profile, Schedule};
use crate::sched::Kind;
use crate::units::{Bytes, Nanos, Probability, Rate};

pub use crate::gate::QueueLimit;
pub use crate::link::{Capacity, Loss};

/// Random delay added to each packet's fixed delay.
#[derive(Clone, Debug, PartialEq)]
pub struct Jitter {
    /// Scale of the deviation: half the width for uniform, the standard deviation for the others.
    pub amount: Nanos,
    /// Shape of the deviation.
    pub distribution: Arc<Distribution>,
    /// Correlation of a packet's deviation with the one before it.
    pub correlation: Probability,
    /// Whether a packet may overtake an earlier one. If not, a late packet delays those behind it.
    pub may_reorder: bool,
}

/// Reordering: a chosen packet skips the delay line and so overtakes the packets in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reorder {
    /// Probability that a candidate is sent at once.
    pub probability: Probability,
    /// Every `gap`-th packet is a candidate; 1 makes every packet one.
    pub gap: u32,
    /// Correlation of one draw with the one before it.
    pub correlation: Probability,
}

/// A link: what happens to a packet after it leaves the scheduler.
///
/// Order of effects: device → serialisation (capacity, overhead, profile, burst) → loss →
/// duplication → corruption → delay, jitter and reordering. A packet that the link loses has used
/// its air-time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkConfig {
    /// How fast packets are serialised.
    pub capacity: Capacity,
    /// Credit of an idle link: after a pause, this many bytes leave at once.
    pub burst: Bytes,
    /// Bytes that framing adds to each packet on the wire.
    pub overhead: Overhead,
    /// Extra air-time for each packet.
    pub profile: Option<Arc<Profile>>,
    /// Changes of rate, delay and loss over time.
    pub schedule: Option<Arc<Schedule>>,
    /// The device between the scheduler and the wire: a transmission ring, or the queues of a
    /// switch.
    pub device: Option<Arc<DeviceConfig>>,
    /// Propagation delay.
    pub delay: Nanos,
    /// Random delay.
    pub jitter: Option<Jitter>,
    /// Loss on the link.
    pub loss: Loss,
    /// Probability that a packet arrives twice.
    pub duplicate: Probability,
    /// Probability that one bit of a packet is inverted.
    pub corrupt: Probability,
    /// Reordering.
    pub reorder: Option<Reorder>,
}

/// A flowset: how traffic is split into queues, and the properties of these queues.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowsetConfig {
    /// The header bits that tell flows apart. An empty mask makes one queue for all packets.
    pub mask: FlowMask,
    /// Share of the link relative to other flows; used by weight-aware schedulers.
    pub weight: u32,
    /// Largest packet of a flow in bytes; used by timestamp schedulers.
    pub max_packet: u32,
    /// Priority, 0 first; used by the priority scheduler.
    pub priority: u32,
    /// Rate that each flow is promised; used by schedulers that promise one.
    pub rate: Option<Rate>,
    /// Rate that no flow exceeds; used by schedulers that shape.
    pub ceil: Option<Rate>,
    /// Bytes that a flow may send at once above its rates. Larger values than 32 bits hold count as
    /// the largest.
    pub burst: Bytes,
    /// How long a flow's packets may wait; used by deadline schedulers.
    pub deadline: Nanos,
    /// Capacity of each queue; `None` sizes it for the link and the scheduler (see
    /// [`default_limit`]).
    pub limit: Option<QueueLimit>,
    /// The AQM; `None` for the limit alone.
    pub aqm: Option<crate::aqm::Policy>,
    /// Loss before the queue: lost packets use neither queue nor link.
    pub loss: Loss,
    /// Most flows that the mask may make at once (for a pipe: most pipes); `None` leaves only
    /// [`crate::Limits::instances`].
    pub max_flows: Option<u32>,
}

impl Default for FlowsetConfig {
    fn default() -> Self {
        Self {
            mask: FlowMask::default(),
            weight: 1,
            max_packet: 1500,
            priority: 0,
            rate: None,
            ceil: None,
            burst: Bytes(0),
            deadline: Nanos::ZERO,
            limit: None,
            aqm: None,
            loss: Loss::None,
            max_flows: None,
        }
    }
}

/// A scheduler template: which algorithm shares a link, and how traffic is split into instances.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulerConfig {
    /// The algorithm with its settings. The default is WF2Q+, as in dummynet.
    pub discipline: crate::sched::Discipline,
    /// The header bits that tell instances apart. Each instance has its own scheduler and link.
    pub mask: FlowMask,
    /// Most instances that the mask may make at once; `None` leaves only
    /// [`crate::Limits::instances`].
    pub max_instances: Option<u32>,
    /// The scheduler of which this one is a flow. It then has no link and takes packets from queues
    /// only. The settings of its own queue describe it as a flow; each value under its mask is a
    /// separate flow.
    pub parent: Option<u16>,
}

/// A pipe: a queue, a FIFO and a link in one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeConfig {
    /// The link.
    pub link: LinkConfig,
    /// The queue in front of it. Its mask makes pipes on demand: one queue and one link for each
    /// flow.
    pub queue: FlowsetConfig,
}

/// The limit of a queue without a configured one.
///
/// At least dummynet's 50 packets. At higher rates, as many 1500-byte packets as the link sends
/// within 100 ms or two of its delays, whichever is longer, so that a single TCP flow can fill the
/// link. A link without a rate never queues. In front of a scheduler that classifies packets the
/// queue is practically unlimited, since the scheduler has its own limit for all of them.
pub fn default_limit(link: &LinkConfig, scheduler: Kind) -> QueueLimit {
    if scheduler.row().traits.classifies {
        return QueueLimit::Packets(MAX_QUEUE_PACKETS);
    }
    let bps = match link.capacity.mean_bps() {
        0 => return QueueLimit::Packets(DEFAULT_QUEUE_PACKETS),
        bps => bps,
    };
    let span = Nanos(link.delay.0.saturating_mul(2)).max(DEFAULT_QUEUE_SPAN);
    let bytes = u128::from(bps) * u128::from(span.0) / 8_000_000_000;
    let packets = u32::try_from(bytes / 1500).unwrap_or(u32::MAX);
    QueueLimit::Packets(packets.clamp(DEFAULT_QUEUE_PACKETS, MAX_QUEUE_PACKETS))
}

/// dummynet's default queue size.
pub const DEFAULT_QUEUE_PACKETS: u32 = 50;
/// Largest queue that the command language accepts, in packets.
pub const MAX_QUEUE_PACKETS: u32 = 10_000_000;
/// A queue sized by default holds at least this span of traffic at full rate.
const DEFAULT_QUEUE_SPAN: Nanos = Nanos::from_millis(100);
