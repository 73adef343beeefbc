//! A packet in the form that tests read, and the tests that are too rare for an operation of their
//! own in a program.

use weir_core::key::FlowKey;
use weir_wire::{IpVersion, Parsed, fields};

use super::{Packet, Pass};
use crate::rule::{FragmentMatch, Span16, Test};

/// One side of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    Src,
    Dst,
}

/// The input of tests. Tags are not part of it, because rules change them during the search.
pub(super) struct View<'a> {
    pub(super) frame: &'a [u8],
    pub(super) parsed: Option<&'a Parsed>,
    pub(super) key: &'a FlowKey,
    pub(super) len: u32,
    pub(super) pass: Pass,
    pub(super) ip: IpVersion,
    /// Whether the packet contains port numbers.
    pub(super) ports: bool,
    /// The DSCP, as the preceding rules have set it.
    pub(super) dscp: u8,
}

impl<'a> View<'a> {
    #[inline]
    pub(super) fn new(packet: &Packet<'a>) -> Self {
        let parsed = packet.parsed;
        Self {
            frame: packet.frame,
            parsed,
            key: packet.key,
            len: packet.len,
            pass: packet.pass,
            ip: parsed.map_or(IpVersion::None, |p| p.ip),
            ports: parsed.is_some_and(fields::ports_present),
            dscp: packet.key.dscp,
        }
    }

    /// The IPv4 address of a side.
    #[inline(always)]
    pub(super) fn v4(&self, side: Side) -> Option<u32> {
        (self.ip == IpVersion::V4).then_some(self.address(side) as u32)
    }

    /// The IPv6 address of a side.
    #[inline(always)]
    pub(super) fn v6(&self, side: Side) -> Option<u128> {
        (self.ip == IpVersion::V6).then_some(self.address(side))
    }

    #[inline(always)]
    fn address(&self, side: Side) -> u128 {
        match side {
            Side::Src => self.key.src,
            Side::Dst => self.key.dst,
        }
    }

    /// The port of a side.
    #[inline(always)]
    pub(super) fn port(&self, side: Side) -> Option<u16> {
        self.ports.then_some(match side {
            Side::Src => self.key.src_port,
            Side::Dst => self.key.dst_port,
        })
    }

    /// The IPv4 TOS byte, with the DSCP that the preceding rules have set.
    fn tos(&self) -> Option<u8> {
        let parsed = self.parsed.filter(|p| p.ip == IpVersion::V4)?;
        fields::traffic_class(self.frame, parsed).map(|class| self.dscp << 2 | class & 3)
    }
}

/// The interface that `via` means in a pass.
pub(super) fn via(pass: &Pass) -> Option<u16> {
    if pass.out { pass.xmit } else { pass.recv }
}

/// Whether a test holds. Tests of addresses, tables, tags, states and interfaces fail here; the
/// program evaluates them.
pub(super) fn holds(test: &Test, view: &View<'_>) -> bool {
    let key = view.key;
    match test {
        Test::Layer2 => true,
        Test::Mac { dst, src } => {
            // Without a link-layer header, both MAC addresses are 0.
            key.dst_mac & dst.mask == dst.address && key.src_mac & src.mask == src.address
        }
        Test::MacType(spans) => view.parsed.is_some_and(|parsed| within(spans, parsed.ethertype)),
        Test::Vlan(spans) => view.parsed.is_some_and(|parsed| within(spans, parsed.vlan)),
        Test::Ip4 => view.ip == IpVersion::V4,
        Test::Ip6 => view.ip == IpVersion::V6,
        Test::Protocol(number) => view.ip != IpVersion::None && key.proto == *number,
        Test::SrcPort(spans) => view.port(Side::Src).is_some_and(|port| within(spans, port)),
        Test::DstPort(spans) => view.port(Side::Dst).is_some_and(|port| within(spans, port)),
        Test::In | Test::Out | Test::Bridged => holds_in(test, &view.pass),
        _ => view
            .parsed
            .filter(|p| p.ip != IpVersion::None)
            .is_some_and(|parsed| ip_holds(test, view, parsed)),
    }
}

/// Whether a test that depends only on the pass holds.
pub(super) fn holds_in(test: &Test, pass: &Pass) -> bool {
    match test {
        Test::In => !pass.out,
        Test::Out => pass.out,
        Test::Bridged => pass.bridged,
        _ => false,
    }
}

/// Whether a test of the network layer holds.
fn ip_holds(test: &Test, view: &View<'_>, parsed: &Parsed) -> bool {
    let frame = view.frame;
    match test {
        Test::IpLength(spans) => u16::try_from(view.len).is_ok_and(|len| within(spans, len)),
        Test::IpId(spans) => fields::ip_id(frame, parsed).is_some_and(|id| within(spans, id)),
        Test::IpTtl(spans) => {
            fields::ttl(frame, parsed).is_some_and(|ttl| within(spans, ttl.into()))
        }
        Test::IpTos { set, clear } => view.tos().is_some_and(|tos| bits(tos, *set, *clear)),
        Test::IpPrecedence(precedence) => view.tos().is_some_and(|tos| tos >> 5 == *precedence),
        Test::Dscp(points) => points >> (view.dscp & 63) & 1 == 1,
        Test::Fragment(wanted) => fragment(*wanted, frame, parsed),
        Test::IpOptions { set, clear } => {
            parsed.ip == IpVersion::V4 && bits(ip_options(frame, parsed), *set, *clear)
        }
        Test::IcmpTypes(types) => {
            fields::icmp_type(frame, parsed).is_some_and(|t| t < 64 && types >> t & 1 == 1)
        }
        Test::Icmp6Types(types) => fields::icmp6_type(frame, parsed)
            .is_some_and(|t| types[usize::from(t / 64)] >> (t % 64) & 1 == 1),
        Test::Ext6Header(wanted) => {
            parsed.ip == IpVersion::V6 && ext6_headers(frame, parsed) & wanted != 0
        }
        Test::FlowId(labels) => parsed.ip == IpVersion::V6 && labels.contains(&view.key.flow_id),
        _ => tcp_holds(test, view, parsed),
    }
}

/// Whether a test of the TCP header holds.
fn tcp_holds(test: &Test, view: &View<'_>, parsed: &Parsed) -> bool {
    let Some(tcp) = fields::tcp(view.frame, parsed) else { return false };
    match test {
        Test::TcpFlags { set, clear } => bits(tcp.flags, *set, *clear),
        Test::Established => tcp.flags & (TCP_ACK | TCP_RST) != 0,
        Test::TcpAck(number) => tcp.acknowledgement == *number,
        Test::TcpSeq(number) => tcp.sequence == *number,
        Test::TcpWindow(spans) => within(spans, tcp.window),
        Test::TcpMss(spans) => mss(view.frame, parsed).is_some_and(|mss| within(spans, mss)),
        Test::TcpOptions { set, clear } => bits(tcp_options(view.frame, parsed), *set, *clear),
        Test::TcpDataLength(spans) => {
            let headers = parsed.payload().unwrap_or(0).saturating_sub(parsed.network_offset());
            u16::try_from((view.len as usize).saturating_sub(headers))
                .is_ok_and(|len| within(spans, len))
        }
        _ => false,
    }
}

/// Whether a number is in one of the spans.
pub(super) fn within(spans: &[Span16], number: u16) -> bool {
    spans.iter().any(|span| span.contains(number))
}

fn bits(value: u8, set: u8, clear: u8) -> bool {
    value & set == set && value & clear == 0
}

fn fragment(wanted: FragmentMatch, frame: &[u8], parsed: &Parsed) -> bool {
    match wanted {
        FragmentMatch::Later => parsed.fragment == weir_wire::Fragment::Later,
        FragmentMatch::Flags { set, clear } => {
            fields::fragment_field(frame, parsed).is_some_and(|field| {
                // Don't fragment, more fragments, the reserved flag, and the offset.
                let flag = |bit: u16, n: u8| u8::from(field & bit != 0) << n;
                let flags = flag(0x4000, 0) | flag(0x2000, 1) | flag(0x8000, 2) | flag(0x1fff, 3);
                bits(flags, set, clear)
            })
        }
    }
}

/// The bits of [`crate::rule::IP_OPTIONS`] that a packet has.
fn ip_options(frame: &[u8], parsed: &Parsed) -> u8 {
    fields::ipv4_options(frame, parsed).fold(0, |found, (kind, _)| {
        found
            | match kind {
                // Strict and loose source route, record route, timestamp.
                137 => 1,
                131 => 2,
                7 => 4,
                68 => 8,
                _ => 0,
            }
    })
}

/// The bits of [`crate::rule::TCP_OPTIONS`] that a packet has.
fn tcp_options(frame: &[u8], parsed: &Parsed) -> u8 {
    fields::tcp_options(frame, parsed).fold(0, |found, (kind, _)| {
        found
            | match kind {
                TCP_MSS => 1,
                // Window scale.
                3 => 2,
                // The options "SACK permitted" and "SACK blocks".
                4 | 5 => 4,
                // Timestamps.
                8 => 8,
                // The connection counts of T/TCP.
                11..=13 => 16,
                _ => 0,
            }
    })
}

fn mss(frame: &[u8], parsed: &Parsed) -> Option<u16> {
    fields::tcp_options(frame, parsed)
        .find(|(kind, _)| *kind == TCP_MSS)?
        .1
        .try_into()
        .ok()
        .map(u16::from_be_bytes)
}

/// The bits of [`crate::rule::EXT6_HEADERS`] that a packet has.
fn ext6_headers(frame: &[u8], parsed: &Parsed) -> u8 {
    use weir_wire::protocol;
    let esp = u8::from(parsed.protocol == protocol::ESP) << 5;
    fields::extensions(frame, parsed).fold(esp, |found, (kind, at)| {
        found
            | match kind {
                protocol::FRAGMENT => 1,
                protocol::HOP_BY_HOP => 2,
                protocol::ROUTING if fields::routing_type(frame, at) == Some(0) => 4 | 64,
                protocol::ROUTING => 4,
                protocol::DESTINATION => 8,
                protocol::AUTHENTICATION => 16,
                _ => 0,
            }
    })
}

const TCP_RST: u8 = 4;
const TCP_ACK: u8 = 16;
const TCP_MSS: u8 = 2;
