//! Parses the headers of a frame: Ethernet with VLAN tags, IPv4 with options, IPv6 with extension
//! headers, and the transport header.
//!
//! The parser is written by hand because it runs for every packet; the tests compare it with
//! etherparse.

use weir_core::packet::Ecn;

use crate::view::{u16_at, u32_at};

/// The offsets of a frame's headers, and the header fields that Weir needs for every packet.
///
/// The struct is small and does not borrow the frame, so that it can be stored with the frame's
/// handle. Offsets count from the start of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parsed {
    /// Length of the network layer in bytes, according to the IP header; the rest of the frame is
    /// padding. For protocols other than IP it is the rest of the frame, or less if ARP or an IEEE
    /// 802.3 length field ends the packet earlier.
    pub network_len: u32,
    /// IPv6 flow label, 20 bits, or 0.
    pub flow_label: u32,
    /// EtherType of the network layer, after any VLAN tags.
    pub ethertype: u16,
    /// VLAN identifier of the outermost tag, or 0.
    pub vlan: u16,
    /// Offset of the transport header; 0 if there is none.
    transport: u16,
    /// Offset after the transport header; 0 if that header is incomplete or unknown.
    payload: u16,
    /// Bytes of link-layer header, which is also the offset of the network layer.
    pub link_header: u8,
    /// The IP version, or [`IpVersion::None`].
    pub ip: IpVersion,
    /// Protocol of the transport layer (after any IPv6 extension headers), also in fragments other
    /// than the first. If the chain of extension headers is truncated or too long: the kind of the
    /// header at which parsing ended. 0 for protocols other than IP.
    pub protocol: u8,
    /// DSCP, 6 bits, or 0.
    pub dscp: u8,
    /// ECN field at the time of parsing.
    pub ecn: Ecn,
    /// Position of the packet in a fragmented datagram.
    pub fragment: Fragment,
}

impl Parsed {
    /// Offset of the network-layer header.
    #[inline]
    pub fn network_offset(&self) -> usize {
        self.link_header.into()
    }

    /// Offset after the last byte of the network layer: the start of padding, or the end of the
    /// frame.
    #[inline]
    pub fn network_end(&self) -> usize {
        usize::from(self.link_header) + self.network_len as usize
    }

    /// Offset of the transport header. `None` for protocols other than IP, for all fragments but
    /// the first, for IPv6 packets in which no header follows, and if the chain of extension
    /// headers is truncated or too long.
    #[inline]
    pub fn transport(&self) -> Option<usize> {
        (self.transport != 0).then_some(self.transport.into())
    }

    /// Offset after the TCP, UDP or ICMP header. `None` if that header is incomplete or of another
    /// protocol.
    #[inline]
    pub fn payload(&self) -> Option<usize> {
        (self.payload != 0).then_some(self.payload.into())
    }

    /// Offset of the byte with TCP's flags; `None` without a complete TCP header.
    #[inline]
    pub fn tcp_flags(&self) -> Option<usize> {
        (self.protocol == protocol::TCP && self.payload != 0)
            .then_some(usize::from(self.transport) + TCP_FLAGS)
    }
}

/// The version of IP in a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpVersion {
    /// Not IP.
    #[default]
    None,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Position of a packet in a fragmented datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// Not fragmented.
    #[default]
    Whole,
    /// The first fragment, or a packet with an IPv6 fragment header that is not actually fragmented
    /// (RFC 6946).
    First,
    /// Any other fragment; it has no transport header.
    Later,
}

/// Why a frame cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The frame ends within its link-layer header.
    #[error("the frame ends within its link-layer header")]
    ShortLink,
    /// The frame has more VLAN tags than the parser supports.
    #[error("the frame has more than {MAX_TAGS} VLAN tags")]
    TooManyTags,
    /// The frame ends within its IP header.
    #[error("the frame ends within its IP header")]
    ShortIp,
    /// The version field disagrees with the EtherType, or is neither 4 nor 6.
    #[error("the IP version is {0}, which does not fit the frame")]
    Version(u8),
    /// The length of the IPv4 header is less than 20 bytes, or longer than the packet.
    #[error("the IPv4 header length is {0} bytes, which does not fit the packet")]
    HeaderLength(u8),
    /// The IP header declares more bytes than the frame has.
    #[error("the IP header declares {promised} bytes, but the frame has {present}")]
    Truncated {
        /// Length according to the header.
        promised: u32,
        /// Bytes of the frame from the IP header on.
        present: u32,
    },
}

/// Parses an Ethernet frame.
///
/// For protocols other than IPv4 and IPv6, parsing ends at the EtherType. An IP length of zero
/// means the rest of the frame, as in the largest offload trains.
#[inline]
pub fn parse(frame: &[u8]) -> Result<Parsed, ParseError> {
    let mut ethertype = u16_at(frame, 12).ok_or(ParseError::ShortLink)?;
    let mut network = ETHERNET_HEADER;
    let mut vlan = 0;
    if is_tag(ethertype) {
        let mut tags = 0;
        while is_tag(ethertype) {
            if tags == MAX_TAGS {
                return Err(ParseError::TooManyTags);
            }
            let tag = u32_at(frame, network).ok_or(ParseError::ShortLink)?;
            if tags == 0 {
                vlan = (tag >> 16) as u16 & 0x0fff;
            }
            ethertype = tag as u16;
            network += VLAN_TAG;
            tags += 1;
        }
    }
    match ethertype {
        ethertype::IPV4 => parse_v4(frame, network, vlan),
        ethertype::IPV6 => parse_v6(frame, network, vlan),
        _ => Ok(other(frame, network, vlan, ethertype)),
    }
}

/// Parses a layer-3 packet of a TUN device.
#[inline]
pub fn parse_ip(packet: &[u8]) -> Result<Parsed, ParseError> {
    match packet.first().map(|b| b >> 4) {
        Some(4) => parse_v4(packet, 0, 0),
        Some(6) => parse_v6(packet, 0, 0),
        Some(version) => Err(ParseError::Version(version)),
        None => Err(ParseError::ShortIp),
    }
}

/// The result for protocols other than IP.
fn other(frame: &[u8], network: usize, vlan: u16, ethertype: u16) -> Parsed {
    let rest = frame.len().saturating_sub(network);
    let len = match ethertype {
        // IEEE 802.3: a value below 1536 is the length of the payload.
        0..ETHERTYPE_LEAST => rest.min(ethertype.into()),
        ethertype::ARP => match frame.get(network + 4..network + 6) {
            Some(&[hardware, protocol]) => {
                rest.min(8 + 2 * (usize::from(hardware) + usize::from(protocol)))
            }
            _ => rest,
        },
        _ => rest,
    };
    Parsed { network_len: saturate(len), ..empty(network, vlan, ethertype, IpVersion::None) }
}

/// Parses an IPv4 packet that begins at the offset `network`.
#[inline]
fn parse_v4(frame: &[u8], network: usize, vlan: u16) -> Result<Parsed, ParseError> {
    let packet = frame.get(network..).ok_or(ParseError::ShortIp)?;
    let header = packet.first_chunk::<IPV4_HEADER>().ok_or(ParseError::ShortIp)?;
    if header[0] >> 4 != 4 {
        return Err(ParseError::Version(header[0] >> 4));
    }
    let header_len = (header[0] & 15) * 4;
    let present = packet.len();
    let total = match u16::from_be_bytes([header[2], header[3]]) {
        0 => present,
        total => total.into(),
    };
    if usize::from(header_len) < IPV4_HEADER || usize::from(header_len) > total {
        return Err(ParseError::HeaderLength(header_len));
    }
    if total > present {
        return Err(ParseError::Truncated {
            promised: saturate(total),
            present: saturate(present),
        });
    }
    let fragment = match u16::from_be_bytes([header[6], header[7]])
        & (MORE_FRAGMENTS_V4 | FRAGMENT_OFFSET_V4)
    {
        0 => Fragment::Whole,
        MORE_FRAGMENTS_V4 => Fragment::First,
        _ => Fragment::Later,
    };
    let mut parsed = Parsed {
        network_len: saturate(total),
        protocol: header[9],
        dscp: header[1] >> 2,
        ecn: ecn_of(header[1]),
        fragment,
        ..empty(network, vlan, ethertype::IPV4, IpVersion::V4)
    };
    find_transport(frame, network + total, network + usize::from(header_len), &mut parsed);
    Ok(parsed)
}

/// Parses an IPv6 packet that begins at the offset `network`.
#[inline]
fn parse_v6(frame: &[u8], network: usize, vlan: u16) -> Result<Parsed, ParseError> {
    let packet = frame.get(network..).ok_or(ParseError::ShortIp)?;
    let header = packet.first_chunk::<IPV6_HEADER>().ok_or(ParseError::ShortIp)?;
    let word = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
    if word >> 28 != 6 {
        return Err(ParseError::Version((word >> 28) as u8));
    }
    let present = packet.len();
    let next = header[6];
    let total = match u16::from_be_bytes([header[4], header[5]]) {
        // A length of 0 means the rest of the frame, unless the header says that no header follows.
        0 if next != protocol::NO_NEXT => present,
        len => IPV6_HEADER + usize::from(len),
    };
    if total > present {
        return Err(ParseError::Truncated {
            promised: saturate(total),
            present: saturate(present),
        });
    }
    let class = (word >> 20) as u8;
    let mut parsed = Parsed {
        network_len: saturate(total),
        flow_label: word & 0x000f_ffff,
        protocol: next,
        dscp: class >> 2,
        ecn: ecn_of(class),
        ..empty(network, vlan, ethertype::IPV6, IpVersion::V6)
    };
    let end = network + total;
    let at = network + IPV6_HEADER;
    if is_extension(next) {
        walk_extensions(frame, end, at, &mut parsed);
    } else {
        find_transport(frame, end, at, &mut parsed);
    }
    Ok(parsed)
}

/// Follows the chain of IPv6 extension headers from `at`. `parsed.protocol` is the kind of the
/// first extension header.
#[cold]
fn walk_extensions(frame: &[u8], end: usize, mut at: usize, parsed: &mut Parsed) {
    for _ in 0..MAX_EXTENSIONS {
        if !is_extension(parsed.protocol) {
            return find_transport(frame, end, at, parsed);
        }
        // Each header has at least eight bytes.
        let Some(&[next, length, high, low]) = frame.get(at..at + 4) else { return };
        if at + 8 > end {
            return;
        }
        if parsed.protocol == protocol::FRAGMENT {
            let offset = u16::from_be_bytes([high, low]) & FRAGMENT_OFFSET_V6;
            parsed.fragment = if offset == 0 { Fragment::First } else { Fragment::Later };
        }
        let size = extension_size(parsed.protocol, length);
        parsed.protocol = next;
        at += size;
        if at > end || parsed.fragment == Fragment::Later {
            return;
        }
    }
}

/// Length in bytes of an IPv6 extension header with this kind and this value in its length field.
#[inline(always)]
pub(crate) fn extension_size(kind: u8, length: u8) -> usize {
    match kind {
        protocol::FRAGMENT => 8,
        // RFC 4302: the field counts words of four bytes, minus two.
        protocol::AUTHENTICATION => (usize::from(length) + 2) * 4,
        // RFC 8200: the field counts words of eight bytes, without the first.
        _ => (usize::from(length) + 1) * 8,
    }
}

/// Sets the offsets of the transport header, which is at `at` in a network layer that ends at
/// `end`.
#[inline]
fn find_transport(frame: &[u8], end: usize, at: usize, parsed: &mut Parsed) {
    if parsed.fragment == Fragment::Later || at > end || parsed.protocol == protocol::NO_NEXT {
        return;
    }
    // The chain of headers is bounded, so `at` fits 16 bits.
    parsed.transport = u16::try_from(at).unwrap_or(0);
    let room = end - at;
    let size = match parsed.protocol {
        protocol::TCP if room >= TCP_HEADER => {
            usize::from(frame.get(at + TCP_OFFSET).map_or(0, |b| b >> 4)) * 4
        }
        protocol::UDP | protocol::ICMP | protocol::ICMPV6 => 8,
        _ => return,
    };
    if size <= room && (parsed.protocol != protocol::TCP || size >= TCP_HEADER) {
        parsed.payload = u16::try_from(at + size).unwrap_or(0);
    }
}

/// A result with the fields of the link layer and the IP version; all other fields are empty.
fn empty(network: usize, vlan: u16, ethertype: u16, ip: IpVersion) -> Parsed {
    Parsed {
        network_len: 0,
        flow_label: 0,
        ethertype,
        vlan,
        transport: 0,
        payload: 0,
        // At most 14 + 8 × 4 = 46, which fits 8 bits.
        link_header: network as u8,
        ip,
        protocol: 0,
        dscp: 0,
        ecn: Ecn::NotEct,
        fragment: Fragment::Whole,
    }
}

/// The ECN field of a traffic class (RFC 3168).
#[inline(always)]
pub(crate) fn ecn_of(class: u8) -> Ecn {
    match class & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

/// Whether an EtherType announces a VLAN tag.
#[inline(always)]
fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::VLAN | ethertype::SERVICE_VLAN | ethertype::OLD_SERVICE_VLAN)
}

/// Whether a next-header number is that of an IPv6 extension header that the parser follows.
#[inline(always)]
pub(crate) fn is_extension(next: u8) -> bool {
    matches!(
        next,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AUTHENTICATION
            | protocol::DESTINATION
            | protocol::MOBILITY
            | protocol::HIP
            | protocol::SHIM6
    )
}

/// A length as 32 bits; a longer one becomes the largest value.
#[inline(always)]
fn saturate(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// EtherTypes that the parser supports (IEEE 802 numbers).
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// 802.1Q tag.
    pub const VLAN: u16 = 0x8100;
    /// 802.1ad service tag.
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// Service tag of equipment older than 802.1ad.
    pub const OLD_SERVICE_VLAN: u16 = 0x9100;
}

/// IP protocol numbers that the parser supports (IANA).
pub mod protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// Encrypted payload (ESP); the parser cannot read beyond it.
    pub const ESP: u8 = 50;
    /// IPv6 authentication header.
    pub const AUTHENTICATION: u8 = 51;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// No header follows.
    pub const NO_NEXT: u8 = 59;
    /// IPv6 destination options.
    pub const DESTINATION: u8 = 60;
    /// DCCP.
    pub const DCCP: u8 = 33;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// IPv6 mobility header.
    pub const MOBILITY: u8 = 135;
    /// UDP-Lite.
    pub const UDP_LITE: u8 = 136;
    /// Host identity protocol.
    pub const HIP: u8 = 139;
    /// Shim6.
    pub const SHIM6: u8 = 140;
}

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET_HEADER: usize = 14;
/// Bytes of a VLAN tag.
const VLAN_TAG: usize = 4;
/// Maximum number of VLAN tags in a frame, so that the length of the link-layer header fits eight
/// bits.
const MAX_TAGS: usize = 8;
/// Lowest EtherType; a field with a smaller value is a length.
const ETHERTYPE_LEAST: u16 = 0x0600;
/// Bytes of an IPv4 header without options.
pub(crate) const IPV4_HEADER: usize = 20;
/// Bytes of the fixed IPv6 header.
pub(crate) const IPV6_HEADER: usize = 40;
/// The "more fragments" flag in IPv4's fragment field.
const MORE_FRAGMENTS_V4: u16 = 0x2000;
/// The bits of the fragment offset in IPv4's fragment field.
const FRAGMENT_OFFSET_V4: u16 = 0x1fff;
/// The bits of the offset in the third and fourth bytes of an IPv6 fragment header.
pub(crate) const FRAGMENT_OFFSET_V6: u16 = 0xfff8;
/// Maximum number of extension headers that the parser follows, so that a hostile packet takes
/// little time.
pub(crate) const MAX_EXTENSIONS: usize = 9;
/// Bytes of a TCP header without options.
pub(crate) const TCP_HEADER: usize = 20;
/// Offset of the byte with TCP's header length, which is in the upper four bits.
const TCP_OFFSET: usize = 12;
/// Offset of TCP's flags.
pub(crate) const TCP_FLAGS: usize = 13;
