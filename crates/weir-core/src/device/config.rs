//! What a device is configured with.

use alloc::vec::Vec;

use super::DqlConfig;
use crate::gate::QueueLimit;
use crate::units::Nanos;

/// What stands between a scheduler and the wire: stages, the last of which is the device's
/// transmission ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceConfig {
    /// What packets pass before the ring, in that order: the egress queue of a switch, for one.
    pub stages: Vec<StageConfig>,
    /// The ring, from which the wire takes packets.
    pub ring: StageConfig,
    /// When the ring's places become free again.
    pub completion: Completion,
    /// Learns from the completions how many bytes the ring may hold; `None` leaves it to the ring's
    /// size.
    pub dql: Option<DqlConfig>,
}

/// A first-in first-out queue, and what brings packets into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageConfig {
    /// Places in it; one, or one byte, at least. A packet that stands for several on the wire needs
    /// as many.
    pub limit: QueueLimit,
    /// How long it takes to bring a packet in, one after the other; of a ring that is the
    /// processor's time for a packet.
    pub service: Nanos,
    /// Whether a packet waits where it is until there is room, so that those behind it wait too;
    /// else it is dropped.
    ///
    /// A stage has room while it is not full, whatever comes: a packet of several places, or of
    /// more bytes than are left, may go over the limit. A stage that drops takes only what fits,
    /// unless it is empty.
    pub blocking: bool,
}

/// A ring of 256 packets that is filled in no time.
impl Default for StageConfig {
    fn default() -> Self {
        Self { limit: QueueLimit::Packets(DEFAULT_RING), service: Nanos::ZERO, blocking: true }
    }
}

/// When the places of packets that are done become free again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// When a packet is done with its place.
    pub when: Done,
    /// The device reports after this many packets; 0 and 1 for each by itself.
    pub frames: u32,
    /// It reports no later than this after the first packet of which it has not; zero for at once,
    /// whatever `frames` says.
    pub time: Nanos,
}

/// When a packet is done with its place in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Done {
    /// When the wire starts with it, since the device has read it into its own memory by then. A
    /// ring of 256 is 256 packets behind the one that is being sent.
    #[default]
    Read,
    /// When it has left: a ring of 256 holds 256 packets, that one among them.
    Sent,
}

/// Descriptors of a common network card's transmission ring.
pub const DEFAULT_RING: u32 = 256;
