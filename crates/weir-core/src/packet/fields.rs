//! The engine's description of a packet.

use crate::units::Nanos;

/// Index of a packet in its [`Store`](super::Store).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(pub(crate) u32);

impl PacketId {
    /// The packet's index in its store. The indices of the packets inside an engine are small, and
    /// no two are equal.
    #[inline]
    pub const fn index(self) -> u32 {
        self.0
    }

    /// The packet with an index from [`Self::index`].
    #[inline]
    pub const fn from_index(index: u32) -> Self {
        Self(index)
    }
}

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
    /// Whether the packet may be marked, because its sender supports ECN.
    #[inline]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// The header fields that queues and schedulers may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// ECN field.
    pub ecn: Ecn,
    /// Differentiated services code point, 6 bits.
    pub dscp: u8,
    /// Hash of addresses, ports and protocol; 0 if nothing on the packet's path classifies packets
    /// by it.
    pub hash: u32,
}

/// The engine's description of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet {
    /// The driver's handle of the frame.
    pub frame: u32,
    /// Length in bytes from the network-layer header on. For a rate, the framing overhead of the
    /// link is added to this length.
    pub len: u32,
    /// The flow (queue) to which the packet belongs.
    pub flow: u32,
    /// Number of wire packets that the descriptor represents; more than one only if an offload
    /// train is kept whole.
    pub segments: u16,
    /// Bytes of link-layer header in front of the network layer.
    pub link_header: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// Time of submission.
    pub arrived: Nanos,
    /// Time at which the packet left its queue.
    pub dequeued: Nanos,
    /// The label for schedulers that rank packets; once the transmission has begun, the time at
    /// which it began.
    pub label_then_start: LabelThenStart,
}

/// A packet's label while it waits, and afterwards the time at which its transmission began. The
/// two values share a field, because no packet needs both at one time. [`Packet`] therefore has 40
/// bytes, and a slot of the pool fits into one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelThenStart(u64);

impl LabelThenStart {
    /// The value for a waiting packet. Its source or an earlier hop provides the label: a slack or
    /// a deadline in ns, or the number of bytes that the flow has still to send; 0 for none.
    #[inline]
    pub const fn waiting(label: u64) -> Self {
        Self(label)
    }

    /// The value for a packet with a transmission that began at `start`.
    #[inline]
    pub const fn started(start: Nanos) -> Self {
        Self(start.0)
    }

    /// The label of a waiting packet.
    #[inline]
    pub const fn label(self) -> u64 {
        self.0
    }

    /// The time at which the transmission began, for a packet that has left the scheduler and the
    /// device.
    #[inline]
    pub const fn start(self) -> Nanos {
        Nanos(self.0)
    }
}

const _: () = assert!(size_of::<Packet>() == 40);

/// The index for no packet.
pub(crate) const NONE: u32 = u32::MAX;
