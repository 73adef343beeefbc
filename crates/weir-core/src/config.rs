//! The validated configuration: links, flowsets and schedulers.
//!
//! The command language produces these types, and the engine uses them. They contain no text except
//! names of distributions and profiles. The constructors of their parts refuse values that the
//! engine does not support.

use alloc::sync::Arc;

use crate::device::DeviceConfig;
use crate::dist::Distribution;
use crate::key::FlowMask;
use crate::link::{Overhead, Profile, Schedule};
use crate::sched::{Discipline, Kind};
use crate::units::{Bytes, Nanos, Probability, Rate};

pub use crate::gate::QueueLimit;
pub use crate::link::{Capacity, Loss};

/// Random delay added to each packet's fixed delay.
#[derive(Clone, Debug, PartialEq)]
pub struct Jitter {
    /// Scale of the deviation: half the width for the uniform distribution, the standard deviation
    /// for other distributions.
    pub amount: Nanos,
    /// Shape of the deviation.
    pub distribution: Arc<Distribution>,
    /// Correlation of consecutive deviations.
    pub correlation: Probability,
    /// Whether a packet may overtake an earlier one. If not, a late packet delays the packets
    /// behind it.
    pub may_reorder: bool,
}

/// Reordering: a selected packet skips the delay line and thereby overtakes the packets in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reorder {
    /// Probability that a candidate skips the delay line.
    pub probability: Probability,
    /// After the start, and after each packet that skips, the next `gap` − 1 packets are no
    /// candidates; each later packet is a candidate until one skips. With 0 or 1, every packet is a
    /// candidate.
    pub gap: u32,
    /// Correlation of consecutive draws.
    pub correlation: Probability,
}

/// The configuration of a link, which packets pass after they leave the scheduler.
///
/// Order of effects: device → serialisation (capacity, overhead, profile, burst) → loss →
/// duplication → corruption → delay, jitter and reordering. A packet that is lost on the link has
/// occupied the wire.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkConfig {
    /// The rate at which packets are serialised.
    pub capacity: Capacity,
    /// Maximum credit of a link with a constant rate. A pause earns the bytes that the link could
    /// have sent in the pause; as many bytes are then sent without serialisation time.
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
    /// The header bits that distinguish flows. An empty mask makes one queue for all packets.
    pub mask: FlowMask,
    /// Share of the link relative to other flows; used by weighted schedulers.
    pub weight: u32,
    /// Largest packet of a flow in bytes; used by schedulers with quanta, timestamps or buckets.
    pub max_packet: u32,
    /// Priority, 0 first; used by schedulers with priorities.
    pub priority: u32,
    /// Guaranteed rate of each flow; under the 802.11 scheduler, the data rate of the station.
    pub rate: Option<Rate>,
    /// Maximum rate of each flow; used by shaping schedulers.
    pub ceil: Option<Rate>,
    /// Number of bytes that a flow may send in one burst above its rates. Values above 2^32 − 1
    /// count as 2^32 − 1.
    pub burst: Bytes,
    /// Time from a packet's arrival to its deadline; used by ranks that depend on deadlines.
    pub deadline: Nanos,
    /// Capacity of each queue. `None` selects a capacity for the link and the scheduler (see
    /// [`default_limit`]).
    pub limit: Option<QueueLimit>,
    /// The AQM; with `None`, only the limit applies.
    pub aqm: Option<crate::aqm::Policy>,
    /// Loss before the queue. Lost packets occupy neither the queue nor the link.
    pub loss: Loss,
    /// Maximum number of flows that the mask makes at one time (for a pipe: the maximum number of
    /// pipes). With `None`, only [`crate::Limits::instances`] applies.
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

/// The configuration of a scheduler: the algorithm that shares a link, and how traffic is divided
/// into instances.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulerConfig {
    /// The algorithm with its settings. The default is WF2Q+, as in dummynet.
    pub discipline: Discipline,
    /// The header bits that distinguish instances. Each instance has its own scheduler and link.
    pub mask: FlowMask,
    /// Maximum number of instances that the mask makes at one time. With `None`, only
    /// [`crate::Limits::instances`] applies.
    pub max_instances: Option<u32>,
    /// The parent scheduler, of which this scheduler is a flow. A scheduler with a parent has no
    /// link and accepts packets only through queues. The flow settings of the scheduler's own queue
    /// apply to the scheduler as a flow of the parent, and each value of the scheduler's mask makes
    /// a separate flow.
    pub parent: Option<u16>,
}

/// The configuration of a pipe: a queue, a scheduler and a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeConfig {
    /// The link.
    pub link: LinkConfig,
    /// The scheduler between the queue and the link; `None` is a FIFO. All packets of an instance
    /// are one flow, so only a scheduler that classifies packets itself reorders them.
    pub scheduler: Option<Discipline>,
    /// The queue in front of the link. Its mask makes a pipe, with its own queue and link, for each
    /// flow.
    pub queue: FlowsetConfig,
}

/// The limit of a queue without a configured limit.
///
/// The limit is dummynet's 50 packets, or more at higher rates: as many 1500-byte packets as the
/// link sends within 100 ms or within twice its delay, whichever is longer, so that a single TCP
/// flow can use the whole link. Without a configured rate, the limit is 50 packets. In front of a
/// scheduler that classifies packets the queue is practically unlimited, because that scheduler has
/// a limit for all of its packets.
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
/// A queue of default size holds at least the packets that the link sends in this time.
const DEFAULT_QUEUE_SPAN: Nanos = Nanos::from_millis(100);
