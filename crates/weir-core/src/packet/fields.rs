//! What the engine knows of a packet.

use crate::units::Nanos;

/// Index of a packet in its [`Pool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(pub(crate) u32);

/// ECN field of a packet's IP header (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable, or not IP.
    #[default]
    NotEct = 0,
    /// ECT(1), also the L4S identifier (RFC 9331).
    Ect1 = 1,
    /// ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// Whether the sender understands marks.
    #[inline]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// The header fields that queues may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// ECN field.
    pub ecn: Ecn,
    /// Differentiated services code point, 6 bits.
    pub dscp: u8,
    /// Hash of addresses, ports and protocol; 0 where nothing on the packet's path classifies by
    /// it.
    pub hash: u32,
}

/// What the engine knows of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet {
    /// The driver's handle of the frame.
    pub frame: u32,
    /// Length in bytes from the network-layer header on; what a rate counts before framing
    /// overhead.
    pub len: u32,
    /// The flow (queue) the packet belongs to.
    pub flow: u32,
    /// How many wire packets the descriptor stands for; more than one only when an offload train is
    /// kept whole.
    pub segments: u16,
    /// Bytes of link-layer header in front of the network layer.
    pub link_header: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// When the packet was submitted.
    pub arrived: Nanos,
    /// When the packet left its queue.
    pub dequeued: Nanos,
    /// The label for schedulers that rank packets; after the wire has begun with the packet, that
    /// time.
    pub label_then_start: LabelThenStart,
}

/// A packet's label until the wire begins with it, and the time of that afterwards: one word for
/// two values, since no packet needs both at once. [`Packet`] stays at 40 bytes and the pool's slot
/// at one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelThenStart(u64);

impl LabelThenStart {
    /// A waiting packet. Its source, or an earlier hop, provides the label: a slack or a deadline
    /// in ns, or the bytes that its flow has still to send; 0 for none.
    #[inline]
    pub const fn waiting(label: u64) -> Self {
        Self(label)
    }

    /// A packet with which the wire begins at `start`.
    #[inline]
    pub const fn started(start: Nanos) -> Self {
        Self(start.0)
    }

    /// The label of a waiting packet.
    #[inline]
    pub const fn label(self) -> u64 {
        self.0
    }

    /// The time at which the wire began with a packet that has left scheduler and device.
    #[inline]
    pub const fn start(self) -> Nanos {
        Nanos(self.0)
    }
}

const _: () = assert!(size_of::<Packet>() == 40);

/// No packet.
pub(crate) const NONE: u32 = u32::MAX;
