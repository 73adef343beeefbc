//! Header fields that only rules use. They are read from the frame when a rule needs them, not when
//! the packet is parsed.
//!
//! A function that reads one field returns `None` if the frame does not contain it: the packet is
//! of another protocol, it is a fragment other than the first, or its header is truncated.

use crate::header::{
    FRAGMENT_OFFSET_V6, IPV4_HEADER, IPV6_HEADER, IpVersion, MAX_EXTENSIONS, Parsed,
    extension_size, is_extension, protocol,
};
use crate::key::has_ports;
use crate::view::{bytes, u16_at, u32_at};

/// Whether the packet has port numbers. The ports of [`crate::flow_key`] do not tell: they are 0 in
/// a packet without ports, and 0 is also a valid port number.
#[inline]
pub fn ports_present(parsed: &Parsed) -> bool {
    has_ports(parsed.protocol)
        && parsed.transport().is_some_and(|at| at + 4 <= parsed.network_end())
}

/// IPv4 identification.
#[inline]
pub fn ip_id(frame: &[u8], parsed: &Parsed) -> Option<u16> {
    (parsed.ip == IpVersion::V4).then(|| u16_at(frame, parsed.network_offset() + 4)).flatten()
}

/// TTL or hop limit.
#[inline]
pub fn ttl(frame: &[u8], parsed: &Parsed) -> Option<u8> {
    let at = match parsed.ip {
        IpVersion::V4 => 8,
        IpVersion::V6 => 7,
        IpVersion::None => return None,
    };
    frame.get(parsed.network_offset() + at).copied()
}

/// IPv4 TOS or IPv6 traffic class: DSCP and ECN.
#[inline]
pub fn traffic_class(frame: &[u8], parsed: &Parsed) -> Option<u8> {
    let word = u16_at(frame, parsed.network_offset())?;
    match parsed.ip {
        IpVersion::V4 => Some(word as u8),
        // The word consists of the version (4 bits), the traffic class (8) and the start of the
        // flow label (4).
        IpVersion::V6 => Some((word >> 4) as u8),
        IpVersion::None => None,
    }
}

/// The IPv4 flags and fragment offset: one reserved bit, "don't fragment", "more fragments", and 13
/// bits of offset.
#[inline]
pub fn fragment_field(frame: &[u8], parsed: &Parsed) -> Option<u16> {
    (parsed.ip == IpVersion::V4).then(|| u16_at(frame, parsed.network_offset() + 6)).flatten()
}

/// Type of an ICMP message over IPv4.
#[inline]
pub fn icmp_type(frame: &[u8], parsed: &Parsed) -> Option<u8> {
    first_byte(frame, parsed, IpVersion::V4, protocol::ICMP)
}

/// Type of an ICMPv6 message.
#[inline]
pub fn icmp6_type(frame: &[u8], parsed: &Parsed) -> Option<u8> {
    first_byte(frame, parsed, IpVersion::V6, protocol::ICMPV6)
}

/// The first byte of the transport layer, if the packet has this IP version and protocol number.
fn first_byte(frame: &[u8], parsed: &Parsed, ip: IpVersion, number: u8) -> Option<u8> {
    if parsed.ip != ip || parsed.protocol != number {
        return None;
    }
    let at = parsed.transport()?;
    if at >= parsed.network_end() { None } else { frame.get(at).copied() }
}

/// The fields of a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Flags, FIN in the lowest bit.
    pub flags: u8,
    /// Window, not scaled.
    pub window: u16,
}

/// The TCP header; `None` if the packet has no complete TCP header.
#[inline]
pub fn tcp(frame: &[u8], parsed: &Parsed) -> Option<Tcp> {
    let flags = parsed.tcp_flags()?;
    let at = parsed.transport()?;
    Some(Tcp {
        sequence: u32_at(frame, at + 4)?,
        acknowledgement: u32_at(frame, at + 8)?,
        flags: *frame.get(flags)?,
        window: u16_at(frame, at + 14)?,
    })
}

/// The options of the IPv4 header; empty if the packet has no IPv4 header.
pub fn ipv4_options<'a>(frame: &'a [u8], parsed: &Parsed) -> Options<'a> {
    let at = parsed.network_offset();
    let len = match frame.get(at) {
        Some(first) if parsed.ip == IpVersion::V4 => usize::from(first & 15) * 4,
        _ => 0,
    };
    Options { rest: frame.get(at + IPV4_HEADER..at + len).unwrap_or_default() }
}

/// The options of the TCP header; empty if the packet has no complete TCP header.
pub fn tcp_options<'a>(frame: &'a [u8], parsed: &Parsed) -> Options<'a> {
    let rest = match (parsed.tcp_flags(), parsed.payload()) {
        // The options begin after the fixed header, in which the flags are the seventh byte from
        // the end.
        (Some(flags), Some(payload)) => frame.get(flags + 7..payload).unwrap_or_default(),
        _ => &[],
    };
    Options { rest }
}

/// Options with a kind, a length and data, in the format of IPv4 and TCP. The iterator skips
/// padding and ends at a truncated option.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    /// Kind and data.
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while let [NO_OPERATION, rest @ ..] = self.rest {
            self.rest = rest;
        }
        let (kind, len) = match self.rest {
            [END_OF_OPTIONS, ..] | [] | [_] => return None,
            [kind, len, ..] => (*kind, usize::from(*len)),
        };
        let data = self.rest.get(2..len);
        self.rest = self.rest.get(len..).unwrap_or_default();
        // The length counts the kind byte and the length byte, too. A length below two is invalid:
        // `get(2..len)` is `None`, and the iterator ends.
        data.map(|data| (kind, data))
    }
}

/// The IPv6 extension headers of a packet, in their order. The iterator returns at most as many as
/// the parser follows.
pub fn extensions<'a>(frame: &'a [u8], parsed: &Parsed) -> Extensions<'a> {
    let first = match parsed.ip {
        IpVersion::V6 => frame.get(parsed.network_offset() + 6).copied(),
        _ => None,
    };
    Extensions {
        frame,
        end: parsed.network_end(),
        at: parsed.network_offset() + IPV6_HEADER,
        next: first,
        remaining: MAX_EXTENSIONS,
    }
}

/// IPv6 extension headers.
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    frame: &'a [u8],
    /// Offset after the last byte of the IP packet.
    end: usize,
    /// Offset of the next header.
    at: usize,
    /// Kind of the next header; `None` at the end of the chain.
    next: Option<u8>,
    /// Number of headers that the iterator may still return.
    remaining: usize,
}

impl Iterator for Extensions<'_> {
    /// Kind, and offset in the frame.
    type Item = (u8, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let kind = self.next.take().filter(|&kind| is_extension(kind))?;
        self.remaining = self.remaining.checked_sub(1)?;
        let here = self.at;
        let [next, length, high, low] = bytes(self.frame, here).filter(|_| here + 8 <= self.end)?;
        self.at += extension_size(kind, length);
        let is_later_fragment =
            kind == protocol::FRAGMENT && u16::from_be_bytes([high, low]) & FRAGMENT_OFFSET_V6 != 0;
        // In a fragment other than the first, data of the original packet follows the fragment
        // header, not another header.
        self.next = (!is_later_fragment && self.at <= self.end).then_some(next);
        Some((kind, here))
    }
}

/// The type of the IPv6 routing header at `at`.
pub fn routing_type(frame: &[u8], at: usize) -> Option<u8> {
    bytes::<3>(frame, at).map(|[_, _, kind]| kind)
}

/// One byte of padding, in IPv4 options and in TCP options.
const NO_OPERATION: u8 = 1;
/// Ends the options; the bytes after it are padding.
const END_OF_OPTIONS: u8 = 0;
