//! Packets of the simulator: the contents of headers, without payload bytes.
//!
//! A packet fills one cache line. Contents that few packets carry (selective acknowledgements, ECN
//! counters, the bytes of a real stack) are in a separate [`Extra`].

use weir_core::Nanos;
use weir_core::packet::Ecn;

/// Number of a flow: two endpoints and the paths between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId(pub u32);

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The packet's flow.
    pub flow: FlowId,
    /// Bytes from the network-layer header on.
    pub len: u32,
    /// Number of the first payload byte, or of the packet if its protocol does not number bytes.
    pub seq: u64,
    /// If the packet is an acknowledgement, the next byte that its sender expects.
    pub ack: u64,
    /// Rank or deadline for schedulers and switches; 0 for none.
    pub label: u64,
    /// When an endpoint sent the packet.
    pub sent: Nanos,
    /// A time for the other endpoint, as in TCP's timestamp option.
    pub stamp: Nanos,
    /// Receive window in bytes.
    pub window: u32,
    /// Number of the packet's [`Extra`]; [`NONE`] for a packet without one.
    pub(crate) extra: u32,
    /// Index in the table of paths: the next hop of the packet.
    pub(crate) next_hop: u32,
    /// Header bytes of each wire packet; `len` includes them.
    pub header: u8,
    /// Number of wire packets that this packet represents: more than 1 if the host leaves
    /// segmentation to its device.
    pub segments: u8,
    /// The packet's flags.
    pub flags: Flags,
    /// ECN field.
    pub ecn: Ecn,
}

const _: () = assert!(size_of::<Packet>() == 64);

impl Default for Packet {
    fn default() -> Self {
        Self {
            flow: FlowId(0),
            len: 0,
            seq: 0,
            ack: 0,
            label: 0,
            sent: Nanos::ZERO,
            stamp: Nanos::ZERO,
            window: 0,
            extra: NONE,
            next_hop: 0,
            header: 0,
            segments: 1,
            flags: Flags::default(),
            ecn: Ecn::NotEct,
        }
    }
}

impl Packet {
    /// Payload bytes.
    #[inline]
    pub fn payload(&self) -> u32 {
        self.len.saturating_sub(u32::from(self.header) * u32::from(self.segments))
    }
}

/// Flags of a packet, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

#[expect(missing_docs, reason = "TCP's names say it")]
impl Flags {
    pub const SYN: Self = Self(1);
    pub const ACK: Self = Self(2);
    pub const FIN: Self = Self(4);
    pub const ECE: Self = Self(8);
    pub const CWR: Self = Self(16);
    /// The packet is a retransmission.
    pub const RETRANSMISSION: Self = Self(32);
    /// The source wants a notice when the packet has left the first port of its path, which belongs
    /// to the host, or was lost there ([`crate::endpoint::Endpoint::left_host`]).
    pub const TELL: Self = Self(64);
    /// The packet goes from the flow's destination to its source.
    pub const BACK: Self = Self(128);

    /// Whether all bits of `other` are set.
    #[inline]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags with the bits of `other`.
    #[inline]
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These flags without the bits of `other`.
    #[inline]
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// Contents that few packets carry.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    /// The ranges of selective acknowledgements: a duplicate, if there is one, and then the ranges
    /// that grew last, the latest first. A range is its first byte and the byte after its last.
    pub sack: [(u64, u64); 4],
    /// Number of ranges in `sack`.
    pub sacks: u8,
    /// Packets that arrived with congestion experienced, as accurate ECN counts them.
    pub ce_packets: u64,
    /// Payload bytes that arrived with congestion experienced, as accurate ECN counts them.
    pub ce_bytes: u64,
    /// Payload bytes that arrived with ECT(0).
    pub ect0_bytes: u64,
    /// Payload bytes that arrived with ECT(1).
    pub ect1_bytes: u64,
    /// The packet of a real stack.
    pub bytes: Vec<u8>,
}

/// All packets inside the simulated network.
#[derive(Debug, Default)]
pub struct Packets {
    slots: Vec<Packet>,
    free: Vec<u32>,
    extras: Vec<Extra>,
    free_extras: Vec<u32>,
}

impl Packets {
    /// Stores a packet and returns its number.
    #[inline(always)] // Measured: see `network::path`.
    pub(crate) fn insert(&mut self, packet: Packet) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| self.grow());
        self.slots[number as usize] = packet;
        number
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.slots.push(Packet::default());
        u32::try_from(self.slots.len() - 1).unwrap_or(NONE)
    }

    /// The packet with a number.
    #[inline]
    pub fn get(&self, number: u32) -> &Packet {
        &self.slots[number as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Packet {
        &mut self.slots[number as usize]
    }

    /// Removes a packet. Its extra remains until [`Self::drop_extra`].
    #[inline]
    pub(crate) fn remove(&mut self, number: u32) -> Packet {
        self.free.push(number);
        self.slots[number as usize]
    }

    /// Stores a copy of a packet and returns the number of the copy.
    pub(crate) fn duplicate(&mut self, number: u32) -> u32 {
        let mut copy = *self.get(number);
        copy.flags = copy.flags.without(Flags::TELL);
        if copy.extra != NONE {
            let extra = self.extras[copy.extra as usize].clone();
            copy.extra = self.insert_extra(extra);
        }
        self.insert(copy)
    }

    /// Number of packets inside.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no packet is inside.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The extra of a packet.
    #[inline]
    pub fn extra(&self, packet: &Packet) -> Option<&Extra> {
        self.extras.get(packet.extra as usize)
    }

    #[inline]
    pub(crate) fn insert_extra(&mut self, extra: Extra) -> u32 {
        match self.free_extras.pop() {
            Some(number) => {
                self.extras[number as usize] = extra;
                number
            }
            None => {
                self.extras.push(extra);
                u32::try_from(self.extras.len() - 1).unwrap_or(NONE)
            }
        }
    }

    #[inline]
    pub(crate) fn drop_extra(&mut self, packet: &Packet) {
        if packet.extra != NONE {
            self.extras[packet.extra as usize].bytes = Vec::new();
            self.free_extras.push(packet.extra);
        }
    }
}

/// The value for a packet without an extra.
pub(crate) const NONE: u32 = u32::MAX;
