//! The configuration of a device.

use alloc::vec::Vec;

use super::DqlConfig;
use crate::gate::QueueLimit;
use crate::units::Nanos;

/// The stages between a scheduler and the wire. The last one is the device's transmission ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceConfig {
    /// The stages before the ring, in the order of the path; for example the egress queue of a
    /// switch.
    pub stages: Vec<StageConfig>,
    /// The ring, from which the wire takes packets.
    pub ring: StageConfig,
    /// When the places of the ring become free again.
    pub completion: Completion,
    /// Dynamic queue limits, which learn from the completions how many bytes the ring may hold;
    /// `None` leaves the ring's size as the only limit.
    pub dql: Option<DqlConfig>,
}

/// A first-in first-out queue with its feeder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageConfig {
    /// Its places; at least one packet, or one byte. A packet that stands for several wire packets
    /// needs as many places.
    pub limit: QueueLimit,
    /// How long the feeder takes for a packet, one after the other; for the ring, the processor's
    /// time for a packet.
    pub service: Nanos,
    /// Whether a packet that finds the stage full waits, and delays those behind it; otherwise it
    /// is dropped.
    ///
    /// A blocking stage takes any packet while it is not full: a packet of several places, or of
    /// more bytes than are left, may exceed the limit. A dropping stage takes only what fits,
    /// unless it is empty.
    pub blocking: bool,
}

/// A ring of 256 packets that is filled in no time.
impl Default for StageConfig {
    fn default() -> Self {
        Self { limit: QueueLimit::Packets(DEFAULT_RING), service: Nanos::ZERO, blocking: true }
    }
}

/// When the places of completed packets become free again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// When a packet is complete.
    pub when: Done,
    /// The device reports after this many packets; with 0 or 1, after each one.
    pub frames: u32,
    /// It reports no later than this after the first unreported packet; zero means at once,
    /// regardless of `frames`.
    pub time: Nanos,
}

/// When a packet is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Done {
    /// When the wire starts with it, since the device has then read it into its own memory. A ring
    /// of 256 holds 256 packets behind the one that is being sent.
    #[default]
    Read,
    /// When it has left: a ring of 256 holds 256 packets, including the one that is being sent.
    Sent,
}

/// Descriptors of a common network card's transmission ring.
pub const DEFAULT_RING: u32 = 256;
