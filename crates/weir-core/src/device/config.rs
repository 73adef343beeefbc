//! The configuration of a device: its transmission ring and the stages before the ring.

use alloc::vec::Vec;

use super::DqlConfig;
use crate::gate::QueueLimit;
use crate::units::Nanos;

/// The stages between a scheduler and the wire. The last stage is the device's transmission ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceConfig {
    /// The stages before the ring, in the order in which packets pass them; for example the egress
    /// queue of a switch.
    pub stages: Vec<StageConfig>,
    /// The transmission ring, from which the wire takes packets.
    pub ring: StageConfig,
    /// When places in the ring become free again.
    pub completion: Completion,
    /// Dynamic queue limits: a limit on the bytes in the ring that adapts to the completions. With
    /// `None`, only the ring's size limits its contents.
    pub dql: Option<DqlConfig>,
    /// Whether the wire takes a packet from the ring only with the driver's permission: one packet
    /// at the start, and one more after a call of [`crate::Emulator::permit`]. Several calls before
    /// the wire takes a packet count as one. A driver that has no room for the last packet it
    /// received can thus hold back the device and all queues before the device.
    pub gated: bool,
}

/// The configuration of a stage: a first-in first-out queue, and the feeder that adds packets to
/// this queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageConfig {
    /// Size of the queue, at least one packet or one byte. An offload train occupies one place for
    /// each of its wire packets.
    pub limit: QueueLimit,
    /// Time for which the feeder holds each packet, one packet after the other. For the ring, this
    /// is the processor time that a packet takes.
    pub service: Nanos,
    /// Whether a packet that finds the stage full waits, and thereby delays the packets behind it.
    /// Otherwise the packet is dropped.
    ///
    /// A blocking stage accepts any packet while it is not full, so a large packet or a train may
    /// exceed the limit. A dropping stage accepts only packets that fit, but accepts any packet
    /// while it is empty.
    pub blocking: bool,
}

/// A ring of 256 packets with a service time of 0.
impl Default for StageConfig {
    fn default() -> Self {
        Self { limit: QueueLimit::Packets(DEFAULT_RING), service: Nanos::ZERO, blocking: true }
    }
}

/// When places in the ring become free again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The moment at which a packet is complete.
    pub when: Done,
    /// The device reports completions after this many complete packets; with 0 or 1, after each
    /// packet.
    pub frames: u32,
    /// The longest time from the completion of a packet until the device reports it. With zero, the
    /// device reports at once, regardless of `frames`.
    pub time: Nanos,
}

/// The moment at which a packet is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Done {
    /// The start of its transmission, when the device has read the packet into its own memory. A
    /// ring of 256 then holds 256 packets in addition to the packet on the wire.
    #[default]
    Read,
    /// The end of its transmission. A ring of 256 then holds 256 packets, including the packet on
    /// the wire.
    Sent,
}

/// Number of descriptors in the transmission ring of a common network card.
pub const DEFAULT_RING: u32 = 256;
