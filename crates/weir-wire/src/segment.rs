//! Offload trains: frames that each represent many wire packets, cut without copying the payload.
//!
//! # Model
//! A train consists of `[link][network][transport]` headers and payload. Wire packet *i* has the
//! payload bytes `i × gso_size .. min((i + 1) × gso_size, payload)` and a copy of the headers in
//! which a few fields differ. A run of consecutive packets is therefore a train again, and
//! [`Train::headers`] writes only the headers of the run. The caller sends
//! `[vnet header][headers][slice of the original frame]` and copies no payload byte.
//!
//! # Differences in the headers of the run `i..j`
//! | field | value |
//! |---|---|
//! | IP length | headers + payload of the run |
//! | IPv4 identification | + i (RFC 6864 requires distinct values; Linux counts up too) |
//! | TCP sequence | + i × gso_size |
//! | TCP FIN, PSH | only if the run has the last byte |
//! | TCP CWR | only if the run has the first packet (RFC 3168, 6.1.2) |
//! | UDP length | 8 + payload of the run |
//! | checksums | IPv4 header recomputed; transport according to [`ChecksumMode`] |
//!
//! Trains of UDP *fragments* (UFO) are refused. Linux has not created them since 4.14 unless a
//! guest requests them, and [`SegmentError::UdpFragments`] says which feature to disable.

use core::ops::Range;

use crate::checksum::{self, TCP_CHECKSUM, UDP_CHECKSUM};
use crate::header::{Fragment, IPV6_HEADER, IpVersion, Parsed, TCP_FLAGS, protocol};
use crate::view::{put, u16_at, u32_at};
use crate::vnet::{Gso, VnetError, VnetHeader};

/// How an offload train is divided into wire packets. The struct does not borrow the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    parsed: Parsed,
    gso: Gso,
    /// The ECN bit of the train's `gso_type`.
    ecn: u8,
    seed: Seed,
    gso_size: u16,
    segments: u16,
    /// Number of bytes before the payload.
    header_len: u16,
    payload_len: u32,
}

/// The source of the pseudo header's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seed {
    /// The train's checksum field, which holds the sum for the train's length. This sum is correct
    /// even if the IP header does not name the final destination (IPv6 routing headers).
    OfTrain,
    /// The addresses, because the train has no seed.
    OfAddresses,
    /// No sum: UDP over IPv4 without a checksum.
    Unchecked,
}

/// The value that [`Train::headers`] writes into the field of the transport checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumMode {
    /// The seed. The virtio-net header asks the receiver of the frame to complete the checksum.
    Partial,
    /// The complete checksum. Only for runs of one packet, because a train has no single checksum.
    Complete,
}

/// The headers that were written for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The virtio-net header to send with the frame.
    pub vnet: VnetHeader,
    /// Bytes of headers written to the start of the buffer.
    pub header_len: usize,
    /// The range of the run's payload in the original frame.
    pub payload: Range<usize>,
}

impl Train {
    /// Determines the wire packets of `frame`, which `vnet` declares as a train.
    ///
    /// There may be up to 65,535 packets, because a hostile sender may choose a `gso_size` of 1.
    /// Limit the number before creating a descriptor for each.
    pub fn plan(frame: &[u8], vnet: &VnetHeader, parsed: &Parsed) -> Result<Self, SegmentError> {
        vnet.validate(frame)?;
        let gso = vnet.gso()?;
        let (number, ip) = match gso {
            Gso::None => return Err(SegmentError::NotATrain),
            Gso::UdpFragments => return Err(SegmentError::UdpFragments),
            Gso::TcpV4 => (protocol::TCP, IpVersion::V4),
            Gso::TcpV6 => (protocol::TCP, IpVersion::V6),
            Gso::UdpL4 => (protocol::UDP, parsed.ip),
        };
        if parsed.protocol != number || parsed.ip != ip || ip == IpVersion::None {
            return Err(SegmentError::Protocol);
        }
        if parsed.fragment != Fragment::Whole {
            return Err(SegmentError::Fragment);
        }
        let (Some(transport), Some(payload)) = (parsed.transport(), parsed.payload()) else {
            return Err(SegmentError::NoTransport);
        };
        let end = parsed.network_end();
        if end > frame.len() || payload > end {
            return Err(SegmentError::NoTransport);
        }
        if parsed.network_len > MAX_NETWORK_LEN {
            return Err(SegmentError::TooLong(parsed.network_len));
        }
        if payload > MAX_HEADER_LEN {
            return Err(SegmentError::HeaderTooLong(payload));
        }
        if vnet.needs_csum()
            && (usize::from(vnet.csum_start) != transport
                || vnet.csum_offset != checksum_offset(gso))
        {
            return Err(SegmentError::ChecksumPlace {
                csum_start: vnet.csum_start,
                csum_offset: vnet.csum_offset,
            });
        }
        let zero = u16_at(frame, transport + usize::from(checksum_offset(gso))) == Some(0);
        let seed = match (vnet.needs_csum(), gso) {
            (true, _) => Seed::OfTrain,
            (false, Gso::UdpL4) if zero && ip == IpVersion::V4 => Seed::Unchecked,
            (false, _) => Seed::OfAddresses,
        };
        // The payload is shorter than 65,536 bytes, so the number of packets fits 16 bits.
        let payload_len = (end - payload) as u32;
        let segments = payload_len.div_ceil(vnet.gso_size.into()).max(1);
        Ok(Self {
            parsed: *parsed,
            gso,
            ecn: vnet.gso_type & VnetHeader::GSO_ECN,
            seed,
            gso_size: vnet.gso_size,
            segments: segments as u16,
            header_len: payload as u16,
            payload_len,
        })
    }

    /// Number of wire packets of the train; at least 1.
    #[inline]
    pub fn segments(&self) -> u16 {
        self.segments
    }

    /// Bytes of headers in front of each packet's payload, link layer included; at most
    /// [`MAX_HEADER_LEN`].
    #[inline]
    pub fn header_len(&self) -> usize {
        self.header_len.into()
    }

    /// Payload bytes of each packet except the last.
    #[inline]
    pub fn gso_size(&self) -> u16 {
        self.gso_size
    }

    /// Payload bytes of the whole train.
    #[inline]
    pub fn payload_len(&self) -> u32 {
        self.payload_len
    }

    /// Network-layer bytes of packet `i`; 0 if the train has no such packet.
    #[inline]
    pub fn segment_len(&self, i: u16) -> u32 {
        self.run_len(i..i.saturating_add(1))
    }

    /// Network-layer bytes of the run when sent as one frame; 0 if the run is not within the train.
    #[inline]
    pub fn run_len(&self, run: Range<u16>) -> u32 {
        if run.start >= run.end || run.end > self.segments {
            return 0;
        }
        let (from, to) = self.payload_of(&run);
        self.network_header_len() + to - from
    }

    /// Writes the headers of the packets `run` to the start of `out`, as one frame: a single packet
    /// if the run has one packet, otherwise a smaller train. `frame` must be the frame that was
    /// passed to [`Self::plan`].
    pub fn headers(
        &self,
        run: Range<u16>,
        frame: &[u8],
        mode: ChecksumMode,
        out: &mut [u8],
    ) -> Result<Run, SegmentError> {
        if run.start >= run.end || run.end > self.segments {
            return Err(SegmentError::NoSuchRun {
                start: run.start,
                end: run.end,
                segments: self.segments,
            });
        }
        let single = run.end - run.start == 1;
        if mode == ChecksumMode::Complete && !single {
            return Err(SegmentError::CompleteTrain);
        }
        let header_len = self.header_len();
        let (from, to) = self.payload_of(&run);
        let payload = header_len + from as usize..header_len + to as usize;
        let (Some(original), Some(data)) = (frame.get(..header_len), frame.get(payload.clone()))
        else {
            return Err(SegmentError::OtherFrame);
        };
        let room = out.len();
        let headers =
            out.get_mut(..header_len).ok_or(SegmentError::Buffer { needed: header_len, room })?;
        headers.copy_from_slice(original);
        self.write_network(headers, run.start, to - from).ok_or(SegmentError::OtherFrame)?;
        let partial = self
            .write_transport(headers, &run, from, data, mode)
            .ok_or(SegmentError::OtherFrame)?;
        let mut vnet = VnetHeader::default();
        if partial {
            vnet.flags = VnetHeader::NEEDS_CSUM;
            vnet.csum_start = self.transport() as u16;
            vnet.csum_offset = checksum_offset(self.gso);
        }
        if !single {
            let ecn = if run.start == 0 { self.ecn } else { 0 };
            vnet.gso_type = self.gso.number() | ecn;
            vnet.gso_size = self.gso_size;
        }
        if partial || !single {
            vnet.hdr_len = self.header_len;
        }
        Ok(Run { vnet, header_len, payload })
    }

    /// Writes the fields of the IP header that differ. `None` if `headers` is shorter than
    /// expected.
    fn write_network(&self, headers: &mut [u8], first: u16, payload: u32) -> Option<()> {
        let network = self.parsed.network_offset();
        // A run is at most as long as the train, so its length fits the length field.
        let len = self.network_header_len() + payload;
        if self.parsed.ip == IpVersion::V6 {
            return put(
                headers,
                network + 4,
                u16::try_from(len - IPV6_HEADER as u32).ok()?.to_be_bytes(),
            );
        }
        let id = u16_at(headers, network + 4)?.wrapping_add(first);
        put(headers, network + 2, u16::try_from(len).ok()?.to_be_bytes())?;
        put(headers, network + 4, id.to_be_bytes())?;
        put(headers, network + 10, [0, 0])?;
        let check = checksum::checksum(headers.get(network..self.transport())?);
        put(headers, network + 10, check.to_be_bytes())
    }

    /// Writes the fields of the transport header that differ, and returns whether its checksum is
    /// partial.
    fn write_transport(
        &self,
        headers: &mut [u8],
        run: &Range<u16>,
        from: u32,
        data: &[u8],
        mode: ChecksumMode,
    ) -> Option<bool> {
        let at = self.transport();
        let len = u32::try_from(headers.len().checked_sub(at)? + data.len()).ok()?;
        if self.gso == Gso::UdpL4 {
            put(headers, at + 4, u16::try_from(len).ok()?.to_be_bytes())?;
        } else {
            put(headers, at + 4, u32_at(headers, at + 4)?.wrapping_add(from).to_be_bytes())?;
            let flags = headers.get_mut(at + TCP_FLAGS)?;
            if run.end != self.segments {
                *flags &= !(TCP_FIN | TCP_PSH);
            }
            if run.start != 0 {
                *flags &= !TCP_CWR;
            }
        }
        let field = at + usize::from(checksum_offset(self.gso));
        let seed = match self.seed {
            Seed::Unchecked => return Some(false),
            Seed::OfAddresses => checksum::pseudo(headers, &self.parsed, len)?,
            Seed::OfTrain => {
                let train_len = self.header_len() - at + self.payload_len as usize;
                let without_len =
                    checksum::add(u16_at(headers, field)?, !u16::try_from(train_len).ok()?);
                checksum::add(without_len, u16::try_from(len).ok()?)
            }
        };
        if mode == ChecksumMode::Partial {
            put(headers, field, seed.to_be_bytes())?;
            return Some(true);
        }
        put(headers, field, [0, 0])?;
        // The transport header has an even length, so the sum of the payload can be added to the
        // sum of the header.
        let total = checksum::add(
            seed,
            checksum::add(checksum::sum(headers.get(at..)?), checksum::sum(data)),
        );
        put(headers, field, checksum::nonzero(!total).to_be_bytes())?;
        Some(false)
    }

    /// The range of the run's bytes in the payload. The run must be within the train.
    #[inline]
    fn payload_of(&self, run: &Range<u16>) -> (u32, u32) {
        let size = u32::from(self.gso_size);
        let from = (u32::from(run.start) * size).min(self.payload_len);
        (from, (u32::from(run.end) * size).min(self.payload_len))
    }

    /// Bytes from the network layer to the payload.
    #[inline]
    fn network_header_len(&self) -> u32 {
        u32::from(self.header_len) - u32::from(self.parsed.link_header)
    }

    #[inline]
    fn transport(&self) -> usize {
        self.parsed.transport().unwrap_or(self.header_len.into())
    }
}

/// Why a frame cannot be segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// The virtio-net header is invalid.
    #[error(transparent)]
    Vnet(#[from] VnetError),
    /// The frame is one wire packet.
    #[error("the frame is not an offload train")]
    NotATrain,
    /// The train is a UDP datagram that is to be divided into IP fragments.
    #[error(
        "UDP fragmentation offload is not supported; switch it off where the frame comes from \
         (ethtool -K DEV ufo off)"
    )]
    UdpFragments,
    /// The protocol of the headers differs from the protocol that the virtio-net header declares.
    #[error("the train's headers are not of the protocol of its offload type")]
    Protocol,
    /// The train is an IP fragment.
    #[error("the train is an IP fragment")]
    Fragment,
    /// The frame ends within its transport header.
    #[error("the train ends within its transport header")]
    NoTransport,
    /// The train is longer than an IP length field can express.
    #[error(
        "the train has {0} network-layer bytes; at most {MAX_NETWORK_LEN} are supported (ip link \
         set DEV gso_max_size 65536)"
    )]
    TooLong(u32),
    /// The headers of the train are longer than [`MAX_HEADER_LEN`].
    #[error("the train has {0} bytes of headers; at most {MAX_HEADER_LEN} are supported")]
    HeaderTooLong(usize),
    /// The checksum field is not where the protocol places it.
    #[error(
        "the header places the train's checksum at {csum_start}+{csum_offset}, where its protocol \
         has none"
    )]
    ChecksumPlace {
        /// Offset at which the sum starts.
        csum_start: u16,
        /// Offset of the checksum field from `csum_start`.
        csum_offset: u16,
    },
    /// The run is empty or not within the train.
    #[error("{start}..{end} is not a run of a train of {segments} packets")]
    NoSuchRun {
        /// Number of the first packet.
        start: u16,
        /// Number of the last packet plus one.
        end: u16,
        /// Number of packets in the train.
        segments: u16,
    },
    /// A complete checksum was requested for a run of several packets.
    #[error("only a run of one packet can have its checksum completed")]
    CompleteTrain,
    /// The frame is shorter than the one for which the train was planned.
    #[error("the frame is not the one that the train was planned for")]
    OtherFrame,
    /// The buffer has no room for the headers.
    #[error("the headers need {needed} bytes, the buffer has {room}")]
    Buffer {
        /// Length of the headers in bytes.
        needed: usize,
        /// Length of the buffer in bytes.
        room: usize,
    },
}

/// Offset of the checksum in the transport header of a train.
#[inline]
fn checksum_offset(gso: Gso) -> u16 {
    if gso == Gso::UdpL4 { UDP_CHECKSUM as u16 } else { TCP_CHECKSUM as u16 }
}

/// Maximum header bytes of a train: room for VLAN tags, the largest IPv4 and TCP headers, or IPv6
/// extension headers.
pub const MAX_HEADER_LEN: usize = 256;
/// Maximum network-layer bytes of a train, the limit of IPv4's length field.
const MAX_NETWORK_LEN: u32 = 65_535;
const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;
