//! What the loop says afterwards, and in between when asked.

use weir_core::Nanos;
use weir_core::histogram::Histogram;
use weir_core::stats::LinkCounters;

use crate::port::Fault;

/// The loop's results, at the end or up to now.
#[derive(Clone, Debug)]
pub struct LiveReport {
    /// When the loop began, on the monotonic clock.
    pub started: Nanos,
    /// When this report was made, on the monotonic clock.
    pub at: Nanos,
    /// One for each lane, in their order.
    pub lanes: Vec<LaneReport>,
    /// What happened to the ports.
    pub events: Vec<LiveEvent>,
    /// Whether the loop ran with real-time priority.
    pub realtime: bool,
    /// How long before a release the loop spins now.
    pub spin_margin: Nanos,
    /// Why the loop ended; `None` while it runs.
    pub stopped: Option<StopReason>,
}

/// One lane's results.
#[derive(Clone, Debug)]
pub struct LaneReport {
    /// The lane's name.
    pub name: String,
    /// Interface where frames came in.
    pub from: String,
    /// Interface where they went out.
    pub to: String,
    /// The lane's pipe.
    pub pipe: u16,
    /// Counters in wire packets; they balance at any time.
    pub counters: LinkCounters,
    /// Time in the queue, of every packet that came out of the engine without being lost, ns.
    pub queue_ns: Histogram,
    /// Time from arrival to intended release, of the same packets, ns.
    pub total_ns: Histogram,
    /// How much later than intended the kernel had taken each packet, ns.
    pub lateness: Histogram,
    /// Packets that left more than 1 ms late.
    pub late_1ms: u64,
    /// Frames that the kernel dropped before the loop could read them; not part of `counters`.
    pub rx_kernel_drops: u64,
    /// Frames whose offload the kernel could not tell; not part of `counters`.
    pub rx_unreadable: u64,
    /// Packets that left with a congestion mark set by the engine.
    pub marked: u64,
}

/// Something that happened to a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveEvent {
    /// When, on the monotonic clock.
    pub at: Nanos,
    /// Index of the port.
    pub port: usize,
    /// The interface's name.
    pub interface: String,
    /// What happened.
    pub fault: Fault,
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It was asked to.
    Asked,
    /// The interface of this port disappeared.
    PortVanished(usize),
}
