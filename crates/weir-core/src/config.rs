//! What a user configures, validated: links, flowsets and schedulers.
//!
//! These are the types that the command language produces and the engine takes. Text never comes
//! this far, and a value that the engine could not honour cannot be written down here: the
//! constructors of the parts refuse it.

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
    /// Whether a packet may overtake one that was sent before it. Off: late packets hold back those
    /// behind them.
    pub may_reorder: bool,
}

/// Reordering: a chosen packet skips the delay line and so overtakes those in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reorder {
    /// Probability that a candidate is sent at once.
    pub probability: Probability,
    /// Every `gap`-th packet is a candidate; 1 makes every packet one.
    pub gap: u32,
    /// Correlation of one draw with the one before it.
    pub correlation: Probability,
}

/// A link: what happens to a packet from the moment the scheduler hands it over until it leaves.
///
/// Order of effects: device → serialisation (capacity, overhead, profile, burst) → loss →
/// duplication → corruption → delay, jitter and reordering. A packet that the link loses has used
/// its air-time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkConfig {
    /// How fast packets are serialised.
    pub capacity: Capacity,
    /// How many bytes an idle link may owe: after a pause this much leaves at once.
    pub burst: Bytes,
    /// Bytes that framing adds to each packet on the wire.
    pub overhead: Overhead,
    /// Extra air-time for each packet.
    pub profile: Option<Arc<Profile>>,
    /// Changes of rate, delay and loss over time.
    pub schedule: Option<Arc<Schedule>>,
    /// What holds packets between the scheduler and the wire: a transmission ring, the queues of a
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

/// A flowset: how traffic is split into queues, and what each of these queues is like.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowsetConfig {
    /// Which header bits tell flows apart; nothing set makes one queue for all.
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
    /// Bytes that a flow may send at once above its rates; what is beyond 32 bits counts as the
    /// most that they hold.
    pub burst: Bytes,
    /// How long a flow's packets may wait; used by schedulers that go by deadlines.
    pub deadline: Nanos,
    /// Capacity of each queue; `None` sizes it for the link and the scheduler (see
    /// [`default_limit`]).
    pub limit: Option<QueueLimit>,
    /// What else decides which packets enter and leave it; `None` for the limit alone.
    pub aqm: Option<crate::aqm::Policy>,
    /// Loss before the queue: lost packets use neither queue nor link.
    pub loss: Loss,
    /// Most flows made by the mask at once (for a pipe: most pipes); `None` leaves it to
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
    /// The algorithm with its settings; WF2Q+ unless said otherwise, as in dummynet.
    pub discipline: crate::sched::Discipline,
    /// Which header bits tell instances apart: each has a scheduler and a link of its own.
    pub mask: FlowMask,
    /// Most instances made by the mask at once; `None` leaves it to [`crate::Limits::instances`].
    pub max_instances: Option<u32>,
    /// The scheduler that this one is a flow of. It then has no link, takes packets from queues
    /// only, and its own queue's settings say what it is like as a flow; each value under its mask
    /// is a flow of its own.
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

/// The limit of a queue that was not given one.
///
/// At least dummynet's 50 packets; at higher rates as many 1500-byte packets as the link sends in
/// the larger of 100 ms and two of its delays, so that a single TCP flow can fill the link. A link
/// without a rate never queues. In front of a scheduler that tells flows apart by itself there is
/// none: it has a limit of its own for all of them.
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
/// Least span of traffic at full rate that a queue sized by default holds.
const DEFAULT_QUEUE_SPAN: Nanos = Nanos::from_millis(100);
