//! The first packet of a TCP connection: recognising it, passing it to the kernel again, and
//! refusing it.
//!
//! The kernel of the router's namespace drops every first packet that arrives over the link, and
//! the proxy receives a copy. When the connection to the server is established, the proxy sends the
//! copy on the namespace's loopback interface, where the kernel accepts it. When the server refuses
//! the connection, the proxy answers the client with a refusal. The program therefore sees a
//! connection only if the server has accepted it, and sees a refusal as a refusal.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weir_wire::{IpVersion, checksum, ethertype, parse, protocol};

use crate::sys::redirect::Instruction;

/// The two ends of a connection as the program behind the link sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
}

/// The connection that an Ethernet frame opens; `None` when it opens none.
pub(super) fn opened_by(frame: &[u8]) -> Option<Flow> {
    let parsed = parse(frame).ok()?;
    let flags = *frame.get(parsed.tcp_flags()?)?;
    if flags & (SYN | ACK) != SYN {
        return None;
    }
    let (network, transport) = (parsed.network_offset(), parsed.transport()?);
    let ports = frame.get(transport..transport + 4)?;
    let (client, server): (IpAddr, IpAddr) = match parsed.ip {
        IpVersion::V4 => (v4(frame, network + 12)?.into(), v4(frame, network + 16)?.into()),
        IpVersion::V6 => (v6(frame, network + 8)?.into(), v6(frame, network + 24)?.into()),
        IpVersion::None => return None,
    };
    let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
    Some(Flow { client: (client, port(0)).into(), server: (server, port(2)).into() })
}

/// The packet of `frame` as a frame for the loopback interface, with a complete checksum: frames of
/// virtual links often have a partial checksum.
pub(super) fn for_loopback(frame: &[u8]) -> Option<Vec<u8>> {
    let parsed = parse(frame).ok()?;
    let transport = parsed.transport()?;
    let mut copy = frame.get(..parsed.network_end())?.to_vec();
    copy[..2 * MAC].fill(0);
    let length = u32::try_from(copy.len() - transport).ok()?;
    let seed = checksum::pseudo(&copy, &parsed, length)?;
    copy.get_mut(transport + TCP_CHECKSUM..transport + TCP_CHECKSUM + 2)?
        .copy_from_slice(&seed.to_be_bytes());
    checksum::complete_partial(&mut copy, u16::try_from(transport).ok()?, TCP_CHECKSUM as u16)
        .ok()?;
    Some(copy)
}

/// The reset that refuses the connection that `frame` opens (RFC 9293, section 3.5.2).
pub(super) fn refusal(frame: &[u8]) -> Option<Vec<u8>> {
    let flow = opened_by(frame)?;
    let parsed = parse(frame).ok()?;
    let transport = parsed.transport()?;
    let sequence = u32::from_be_bytes(frame.get(transport + 4..transport + 8)?.try_into().ok()?);
    let mut tcp = Vec::with_capacity(TCP_HEADER);
    tcp.extend(flow.server.port().to_be_bytes());
    tcp.extend(flow.client.port().to_be_bytes());
    tcp.extend(0u32.to_be_bytes());
    tcp.extend(sequence.wrapping_add(1).to_be_bytes());
    // A header of five words; window, checksum and urgent pointer are zero.
    tcp.extend([5 << 4, RST | ACK, 0, 0, 0, 0, 0, 0]);
    let mut out = [&frame[MAC..2 * MAC], &frame[..MAC]].concat();
    let length = TCP_HEADER as u16;
    let seed = match (flow.server.ip(), flow.client.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out.extend(ethertype::IPV4.to_be_bytes());
            let mut ip =
                vec![0x45, 0, 0, 20 + TCP_HEADER as u8, 0, 0, 0x40, 0, HOPS, protocol::TCP, 0, 0];
            ip.extend(from.octets().iter().chain(&to.octets()));
            let check = checksum::checksum(&ip).to_be_bytes();
            ip[10..12].copy_from_slice(&check);
            out.extend(ip);
            checksum::pseudo_v4(from.octets(), to.octets(), protocol::TCP, length)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            out.extend(ethertype::IPV6.to_be_bytes());
            out.extend([0x60, 0, 0, 0, 0, TCP_HEADER as u8, protocol::TCP, HOPS]);
            out.extend(from.octets().iter().chain(&to.octets()));
            checksum::pseudo_v6(from.octets(), to.octets(), protocol::TCP, length.into())
        }
        _ => return None,
    };
    let check = !checksum::add(seed, checksum::sum(&tcp));
    tcp[TCP_CHECKSUM..TCP_CHECKSUM + 2].copy_from_slice(&check.to_be_bytes());
    out.extend(tcp);
    Some(out)
}

fn v4(frame: &[u8], at: usize) -> Option<Ipv4Addr> {
    Some(Ipv4Addr::from(<[u8; 4]>::try_from(frame.get(at..at + 4)?).ok()?))
}

fn v6(frame: &[u8], at: usize) -> Option<Ipv6Addr> {
    Some(Ipv6Addr::from(<[u8; 16]>::try_from(frame.get(at..at + 16)?).ok()?))
}

/// A filter that accepts the first packets of TCP connections (SYN without ACK) on Ethernet: over
/// IPv4, except later fragments, and over IPv6 without extension headers. A jump of n skips n
/// instructions.
pub(crate) const FIRST_PACKETS: [Instruction; 17] = [
    (LOAD_HALF, 0, 0, 12),
    (JUMP_EQUAL, 0, 7, 0x0800),
    (LOAD_BYTE, 0, 0, 14 + 9),
    (JUMP_EQUAL, 0, 12, 6),
    (LOAD_HALF, 0, 0, 14 + 6),
    (JUMP_SET, 10, 0, 0x1fff),
    (LOAD_IPV4_HEADER_LENGTH, 0, 0, 14),
    (LOAD_BYTE_INDEXED, 0, 0, 14 + 13),
    (JUMP, 0, 0, 4),
    (JUMP_EQUAL, 0, 6, 0x86dd),
    (LOAD_BYTE, 0, 0, 14 + 6),
    (JUMP_EQUAL, 0, 4, 6),
    (LOAD_BYTE, 0, 0, 14 + 40 + 13),
    (AND, 0, 0, (SYN | ACK) as u32),
    (JUMP_EQUAL, 0, 1, SYN as u32),
    (RETURN, 0, 0, 0xffff),
    (RETURN, 0, 0, 0),
];
/// A filter that accepts no packet, for a socket that only sends.
pub(crate) const NOTHING: [Instruction; 1] = [(RETURN, 0, 0, 0)];

/// Opcodes of classic BPF, from linux/filter.h.
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_BYTE_INDEXED: u16 = 0x50;
const LOAD_IPV4_HEADER_LENGTH: u16 = 0xb1;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_SET: u16 = 0x45;
const AND: u16 = 0x54;
const RETURN: u16 = 0x06;

/// Flags of a TCP header.
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
/// Bytes of an Ethernet address.
const MAC: usize = 6;
/// Bytes of a TCP header without options.
const TCP_HEADER: usize = 20;
/// Offset of the checksum in the TCP header.
const TCP_CHECKSUM: usize = 16;
/// The usual initial hop limit.
const HOPS: u8 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// A first packet from 198.18.0.2:4000 to 192.0.2.7:80, with a partial checksum.
    fn syn_v4() -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        let mut ip = vec![0x45, 0, 0, 44, 0, 1, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 2, 192, 0, 2, 7];
        let check = checksum::checksum(&ip).to_be_bytes();
        ip[10..12].copy_from_slice(&check);
        frame.extend(ip);
        frame.extend([
            0x0f,
            0xa0,
            0,
            80,
            0,
            0,
            0,
            9,
            0,
            0,
            0,
            0,
            6 << 4,
            SYN,
            0xff,
            0xff,
            0x12,
            0x34,
            0,
            0,
            2,
            4,
            5,
            180,
        ]);
        // Ethernet pads short frames.
        frame.extend([0xee; 2]);
        frame
    }

    fn syn_v6() -> Vec<u8> {
        let mut frame =
            vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64];
        frame.extend("fd77::2".parse::<Ipv6Addr>().unwrap().octets());
        frame.extend("2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
        frame.extend([
            0x0f,
            0xa0,
            0,
            80,
            0xff,
            0xff,
            0xff,
            0xff,
            0,
            0,
            0,
            0,
            5 << 4,
            SYN,
            0xff,
            0xff,
            0,
            0,
            0,
            0,
        ]);
        frame
    }

    #[test]
    fn only_a_first_packet_opens_a_connection() {
        let flow = opened_by(&syn_v4()).unwrap();
        assert_eq!(
            (flow.client, flow.server),
            ("198.18.0.2:4000".parse().unwrap(), "192.0.2.7:80".parse().unwrap())
        );
        assert_eq!(opened_by(&syn_v6()).unwrap().server, "[2001:db8::7]:80".parse().unwrap());
        let mut answer = syn_v4();
        answer[14 + 20 + 13] = SYN | ACK;
        assert_eq!(opened_by(&answer), None);
        assert_eq!(opened_by(&syn_v4()[..40]), None);
    }

    #[test]
    fn a_frame_for_loopback_has_correct_checksums_and_no_padding() {
        for frame in [syn_v4(), syn_v6()] {
            let copy = for_loopback(&frame).unwrap();
            let parsed = parse(&copy).unwrap();
            assert_eq!(checksum::verify_transport(&copy, &parsed), Some(true));
            assert_eq!((copy.len(), &copy[..12]), (parsed.network_end(), &[0; 12][..]));
        }
    }

    #[test]
    fn a_refusal_has_correct_checksums_and_acknowledges_the_first_packet() {
        for frame in [syn_v4(), syn_v6()] {
            let answer = refusal(&frame).unwrap();
            let parsed = parse(&answer).unwrap();
            assert_eq!(checksum::verify_transport(&answer, &parsed), Some(true));
            assert!(checksum::verify_ipv4_header(&answer, &parsed).unwrap_or(true));
            let transport = parsed.transport().unwrap();
            let asked = opened_by(&frame).unwrap();
            assert_eq!(answer[transport..transport + 2], asked.server.port().to_be_bytes());
            let sequence = parse(&frame).unwrap().transport().unwrap() + 4;
            let expected = u32::from_be_bytes(frame[sequence..sequence + 4].try_into().unwrap())
                .wrapping_add(1);
            assert_eq!(answer[transport + 8..transport + 12], expected.to_be_bytes());
            assert_eq!(answer[transport + 13], RST | ACK);
        }
    }

    #[test]
    fn jumps_of_the_filter_stay_inside_the_filter() {
        for (at, &(code, jt, jf, k)) in FIRST_PACKETS.iter().enumerate() {
            let furthest = if code == JUMP { k as usize } else { usize::from(jt.max(jf)) };
            assert!(
                at + 1 + furthest <= FIRST_PACKETS.len() - usize::from(code != RETURN),
                "instruction {at}"
            );
        }
    }
}
