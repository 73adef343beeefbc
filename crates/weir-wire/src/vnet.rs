//! The virtio-net header, which Linux puts in front of frames on packet sockets and TUN/TAP
//! devices. It says whether the frame's checksum must still be completed, and how an offload train
//! is divided.
//!
//! Layout (`struct virtio_net_hdr`, 10 bytes, in native byte order, which is the default of Linux;
//! the tests check it):
//! ```text
//! 0 flags │ 1 gso_type │ 2 hdr_len │ 4 gso_size │ 6 csum_start │ 8 csum_offset
//! ```

use crate::checksum::{self, PartialError};

/// A virtio-net header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHeader {
    /// A combination of [`Self::NEEDS_CSUM`] and [`Self::DATA_VALID`].
    pub flags: u8,
    /// The kind of train as a number; [`Self::gso`] decodes it.
    pub gso_type: u8,
    /// Length of the headers in bytes. It is a hint, and this crate does not rely on it.
    pub hdr_len: u16,
    /// Payload bytes of each wire packet except the last.
    pub gso_size: u16,
    /// Offset in the frame at which the checksum's sum starts.
    pub csum_start: u16,
    /// Offset of the checksum field from `csum_start`.
    pub csum_offset: u16,
}

/// Kinds of offload trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gso {
    /// Not a train: one wire packet.
    None,
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// One UDP datagram to be divided into IP fragments (UFO).
    UdpFragments,
    /// UDP datagrams of equal size (USO).
    UdpL4,
}

impl VnetHeader {
    /// Flag: the checksum field holds a seed and must be completed.
    pub const NEEDS_CSUM: u8 = 1;
    /// Flag: the checksum has been verified.
    pub const DATA_VALID: u8 = 2;
    /// Bit of `gso_type`: the first packet of the TCP train carries CWR.
    pub const GSO_ECN: u8 = 0x80;

    /// Decodes a header.
    #[inline]
    pub fn decode(bytes: &[u8; VNET_HEADER_LEN]) -> Self {
        let [flags, gso_type, h0, h1, s0, s1, c0, c1, o0, o1] = *bytes;
        Self {
            flags,
            gso_type,
            hdr_len: u16::from_ne_bytes([h0, h1]),
            gso_size: u16::from_ne_bytes([s0, s1]),
            csum_start: u16::from_ne_bytes([c0, c1]),
            csum_offset: u16::from_ne_bytes([o0, o1]),
        }
    }

    /// Encodes the header.
    #[inline]
    pub fn encode(&self) -> [u8; VNET_HEADER_LEN] {
        let [h0, h1] = self.hdr_len.to_ne_bytes();
        let [s0, s1] = self.gso_size.to_ne_bytes();
        let [c0, c1] = self.csum_start.to_ne_bytes();
        let [o0, o1] = self.csum_offset.to_ne_bytes();
        [self.flags, self.gso_type, h0, h1, s0, s1, c0, c1, o0, o1]
    }

    /// The kind of train.
    #[inline]
    pub fn gso(&self) -> Result<Gso, VnetError> {
        // The ECN bit is meaningful only for TCP. Like Linux, this code accepts it with any type.
        match self.gso_type & !Self::GSO_ECN {
            GSO_NONE => Ok(Gso::None),
            GSO_TCPV4 => Ok(Gso::TcpV4),
            GSO_UDP => Ok(Gso::UdpFragments),
            GSO_TCPV6 => Ok(Gso::TcpV6),
            GSO_UDP_L4 => Ok(Gso::UdpL4),
            _ => Err(VnetError::GsoType(self.gso_type)),
        }
    }

    /// Whether the frame's checksum must still be completed.
    #[inline]
    pub fn needs_csum(&self) -> bool {
        self.flags & Self::NEEDS_CSUM != 0
    }

    /// Checks that the header fits `frame`. The kernel refuses a frame with a header that fails
    /// these checks.
    #[inline]
    pub fn validate(&self, frame: &[u8]) -> Result<(), VnetError> {
        let len = frame.len();
        if usize::from(self.hdr_len) > len {
            return Err(VnetError::HeaderLength { hdr_len: self.hdr_len, len });
        }
        if self.needs_csum() {
            let (csum_start, csum_offset) = (self.csum_start, self.csum_offset);
            if usize::from(csum_start) + usize::from(csum_offset) + 2 > len {
                return Err(VnetError::Checksum(PartialError { csum_start, csum_offset, len }));
            }
        }
        if self.gso()? != Gso::None && (self.gso_size == 0 || self.gso_size == GSO_SIZE_RESERVED) {
            return Err(VnetError::GsoSize(self.gso_size));
        }
        Ok(())
    }

    /// Completes the checksum of `frame` if the header requests it, and removes the request from
    /// the header. `frame` must end where its network layer ends. Trains are refused, because each
    /// packet of a train has its own checksum ([`crate::Train`]).
    #[inline]
    pub fn complete(&mut self, frame: &mut [u8]) -> Result<(), VnetError> {
        if self.gso()? != Gso::None {
            return Err(VnetError::CompleteTrain);
        }
        if self.needs_csum() {
            checksum::complete_partial(frame, self.csum_start, self.csum_offset)
                .map_err(VnetError::Checksum)?;
            *self = Self {
                flags: self.flags & !Self::NEEDS_CSUM,
                csum_start: 0,
                csum_offset: 0,
                ..*self
            };
        }
        Ok(())
    }
}

impl Gso {
    /// The value of `gso_type` for this kind.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::None => GSO_NONE,
            Self::TcpV4 => GSO_TCPV4,
            Self::TcpV6 => GSO_TCPV6,
            Self::UdpFragments => GSO_UDP,
            Self::UdpL4 => GSO_UDP_L4,
        }
    }
}

/// Why a virtio-net header does not fit its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VnetError {
    /// An unknown kind of train, such as those of tunnels.
    #[error("offload type {0:#04x} is unknown; TCP (1, 4) and UDP (3, 5) are known")]
    GsoType(u8),
    /// A train with a packet size of 0, or with the size that the kernel reserves.
    #[error("{0} is not a valid size for the packets of a train")]
    GsoSize(u16),
    /// The header declares longer headers than the frame has bytes.
    #[error("the headers are declared as {hdr_len} bytes, but the frame has {len}")]
    HeaderLength {
        /// Length according to the header.
        hdr_len: u16,
        /// Length of the frame in bytes.
        len: usize,
    },
    /// The checksum field is outside the frame.
    #[error(transparent)]
    Checksum(PartialError),
    /// The checksum of a train cannot be completed, because each of its packets has its own
    /// checksum.
    #[error("a train's checksum cannot be completed as a whole; cut it first")]
    CompleteTrain,
}

/// Bytes of a [`VnetHeader`].
pub const VNET_HEADER_LEN: usize = 10;

/// The values of `gso_type` (`VIRTIO_NET_HDR_GSO_*` in Linux).
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_UDP: u8 = 3;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// The `gso_size` with which Linux marks trains of packets with different sizes. Linux refuses this
/// size from user space.
const GSO_SIZE_RESERVED: u16 = 0xffff;
