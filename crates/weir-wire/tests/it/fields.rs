//! Compares the header fields for rules with etherparse, and reads them from random bytes.

use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::{Ipv6ExtensionSlice, NetSlice, SlicedPacket, TcpOptionElement, TransportSlice};
use proptest::prelude::*;
use weir_wire::builder::{PacketBuilder, Transport};
use weir_wire::{IpVersion, Parsed, fields, parse, parse_ip, protocol};

proptest! {
    #[test]
    fn ipv4_fields_are_those_that_etherparse_reads(
        packet in v4_packet(),
        class: u8,
        id: u16,
        flags: u16,
        behind in 0usize..3,
    ) {
        let mut frame = packet.frame();
        frame[15] = class;
        frame[18..20].copy_from_slice(&id.to_be_bytes());
        frame[20..22].copy_from_slice(&flags.to_be_bytes());
        // Bytes after the packet do not belong to it.
        frame.extend(vec![0xff; behind]);
        let parsed = parse(&frame).unwrap();
        let oracle = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(NetSlice::Ipv4(ip)) = &oracle.net else { panic!("not IPv4") };
        let header = ip.header();
        prop_assert_eq!(fields::ip_id(&frame, &parsed), Some(header.identification()));
        prop_assert_eq!(fields::ttl(&frame, &parsed), Some(header.ttl()));
        prop_assert_eq!(
            fields::traffic_class(&frame, &parsed),
            Some(header.dcp().value() << 2 | header.ecn().value())
        );
        prop_assert_eq!(parsed.network_len, u32::from(header.total_len()));
        let field = fields::fragment_field(&frame, &parsed).unwrap();
        prop_assert_eq!(field & 0x1fff, header.fragments_offset().value());
        prop_assert_eq!(
            (field & 0x4000 != 0, field & 0x2000 != 0),
            (header.dont_fragment(), header.more_fragments())
        );
        prop_assert_eq!(field & 0x8000, flags & 0x8000);
        // Only the first fragment has a transport header, whatever bytes the other fragments
        // contain.
        let first = header.fragments_offset().value() == 0;
        let kind = &packet.transport;
        prop_assert_eq!(
            fields::tcp(&frame, &parsed).is_some(),
            first && matches!(kind, Transport::Tcp { .. })
        );
        prop_assert_eq!(
            fields::icmp_type(&frame, &parsed),
            (first && matches!(kind, Transport::Echo { .. })).then_some(8)
        );
        prop_assert_eq!(
            fields::ports_present(&parsed),
            first && matches!(kind, Transport::Tcp { .. } | Transport::Udp { .. })
        );
        prop_assert_eq!(fields::icmp6_type(&frame, &parsed), None);
        prop_assert_eq!(fields::extensions(&frame, &parsed).count(), 0);
    }

    #[test]
    fn ipv4_options_are_found_in_their_order(options in options()) {
        let (bytes, expected) = encoded(&options, 40);
        let mut packet = PacketBuilder::udp(A4, B4, 1, 2);
        packet.options = bytes;
        let frame = packet.frame();
        prop_assert_eq!(found(fields::ipv4_options(&frame, &parse(&frame).unwrap())), expected);
    }

    #[test]
    fn tcp_fields_are_those_that_etherparse_reads(
        (numbers, flags, window) in any::<([u32; 2], u8, u16)>(),
        options in prop::collection::vec(tcp_option(), 0..8),
        v6: bool,
    ) {
        let mut bytes = Vec::new();
        for option in &options {
            if bytes.len() + option.len() <= 40 {
                bytes.extend(option);
            }
        }
        let transport = Transport::Tcp {
            src_port: 1,
            dst_port: 2,
            sequence: numbers[0],
            flags,
            options: bytes,
        };
        let packet = if v6 {
            PacketBuilder::new(A6, B6, transport)
        } else {
            PacketBuilder::new(A4, B4, transport)
        };
        let mut frame = packet.payload([7; 5]).frame();
        let parsed = parse(&frame).unwrap();
        let at = parsed.transport().unwrap();
        frame[at + 8..at + 12].copy_from_slice(&numbers[1].to_be_bytes());
        frame[at + 14..at + 16].copy_from_slice(&window.to_be_bytes());
        let oracle = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = oracle.transport else { panic!("not TCP") };
        let bits = [
            tcp.fin(),
            tcp.syn(),
            tcp.rst(),
            tcp.psh(),
            tcp.ack(),
            tcp.urg(),
            tcp.ece(),
            tcp.cwr(),
        ];
        let expected = fields::Tcp {
            sequence: tcp.sequence_number(),
            acknowledgement: tcp.acknowledgment_number(),
            flags: bits.iter().enumerate().map(|(n, &set)| u8::from(set) << n).sum(),
            window: tcp.window_size(),
        };
        prop_assert_eq!(fields::tcp(&frame, &parsed), Some(expected));
        let expected: Vec<_> = tcp
            .options_iterator()
            .map(Result::unwrap)
            .filter_map(|option| kind_and_data(&option))
            .collect();
        prop_assert_eq!(found(fields::tcp_options(&frame, &parsed)), expected);
    }

    #[test]
    fn icmp_types_are_those_that_etherparse_reads(kind: u8, v6: bool) {
        let packet =
            if v6 { PacketBuilder::echo(A6, B6, 1, 2) } else { PacketBuilder::echo(A4, B4, 1, 2) };
        // The payload has twelve bytes, because etherparse requires a complete timestamp message.
        let mut frame = packet.payload([0; 12]).frame();
        let parsed = parse(&frame).unwrap();
        frame[parsed.transport().unwrap()] = kind;
        let oracle = match SlicedPacket::from_ethernet(&frame).unwrap().transport {
            Some(TransportSlice::Icmpv4(icmp)) => (Some(icmp.type_u8()), None),
            Some(TransportSlice::Icmpv6(icmp)) => (None, Some(icmp.type_u8())),
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(
            (fields::icmp_type(&frame, &parsed), fields::icmp6_type(&frame, &parsed)),
            oracle
        );
    }

    #[test]
    fn ipv6_fields_and_extension_headers_are_those_that_etherparse_reads(
        packet in v6_packet(),
        routing: u8,
    ) {
        let mut frame = packet.frame();
        let before = parse(&frame).unwrap();
        for (kind, at) in fields::extensions(&frame.clone(), &before) {
            if kind == protocol::ROUTING {
                frame[at + 2] = routing;
            }
        }
        let parsed = parse(&frame).unwrap();
        let oracle = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(NetSlice::Ipv6(ip)) = &oracle.net else { panic!("not IPv6") };
        prop_assert_eq!(fields::ttl(&frame, &parsed), Some(ip.header().hop_limit()));
        prop_assert_eq!(fields::traffic_class(&frame, &parsed), Some(ip.header().traffic_class()));
        prop_assert_eq!(parsed.flow_label, ip.header().flow_label().value());
        let offset = |slice: &[u8]| slice.as_ptr() as usize - frame.as_ptr() as usize;
        let expected: Vec<_> = ip
            .extensions()
            .clone()
            .into_iter()
            .map(|header| match header {
                Ipv6ExtensionSlice::HopByHop(h) => (protocol::HOP_BY_HOP, offset(h.slice())),
                Ipv6ExtensionSlice::Routing(h) => (protocol::ROUTING, offset(h.slice())),
                Ipv6ExtensionSlice::Fragment(h) => (protocol::FRAGMENT, offset(h.slice())),
                Ipv6ExtensionSlice::DestinationOptions(h) => {
                    (protocol::DESTINATION, offset(h.slice()))
                }
                Ipv6ExtensionSlice::Authentication(h) => {
                    (protocol::AUTHENTICATION, offset(h.slice()))
                }
            })
            .collect();
        let all: Vec<_> = fields::extensions(&frame, &parsed).collect();
        prop_assert_eq!(&all, &expected);
        prop_assert_eq!(all.len(), packet.extensions.len());
        for (_, at) in all.iter().filter(|(kind, _)| *kind == protocol::ROUTING) {
            prop_assert_eq!(fields::routing_type(&frame, *at), Some(routing));
        }
        prop_assert_eq!(
            (fields::ip_id(&frame, &parsed), fields::fragment_field(&frame, &parsed)),
            (None, None)
        );
        prop_assert_eq!(fields::ipv4_options(&frame, &parsed).count(), 0);
        prop_assert_eq!(fields::icmp_type(&frame, &parsed), None);
    }

    #[test]
    fn random_bytes_are_read_without_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        kind in 0u8..4,
        number: u8,
    ) {
        // Random bytes rarely form a packet. A few correct bytes make many of them nearly valid.
        let ethertype: Option<[u8; 2]> =
            [None, Some([8, 0]), Some([0x86, 0xdd]), Some([0x81, 0])][usize::from(kind)];
        if let (Some(ethertype), 34..) = (ethertype, bytes.len()) {
            bytes[12..14].copy_from_slice(&ethertype);
            let len = (bytes.len() - 14) as u16;
            match kind {
                1 => {
                    bytes[14] = 0x40 | bytes[14] & 15;
                    bytes[16..18].copy_from_slice(&(len - u16::from(number) % 16).to_be_bytes());
                    (bytes[20], bytes[23]) =
                        (bytes[20] & 0xe0, [6, 17, 1, number][usize::from(number % 4)]);
                }
                2 => {
                    bytes[14] = 0x60 | bytes[14] & 15;
                    bytes[18..20].copy_from_slice(&len.saturating_sub(40).to_be_bytes());
                    bytes[20] = [0, 43, 44, 60, 51, 6, 58, number][usize::from(number % 8)];
                }
                _ => {}
            }
        }
        for parsed in [parse(&bytes).ok(), parse_ip(&bytes).ok()].into_iter().flatten() {
            read_all(&bytes, &parsed)?;
        }
    }

    #[test]
    fn truncated_and_exchanged_frames_are_read_without_panic(
        packet in any_packet(),
        other in any_packet(),
        cut in 0usize..200,
    ) {
        let (frame, other) = (packet.frame(), other.frame());
        let parsed = parse(&frame).unwrap();
        // The headers were parsed from another frame, or from a longer version of this frame.
        read_all(&other, &parsed)?;
        let short = &frame[..cut.min(frame.len())];
        read_all(short, &parsed)?;
        if let Ok(parsed) = parse(short) {
            read_all(short, &parsed)?;
        }
    }

    #[test]
    fn truncated_fields_are_not_read(packet in any_packet(), cut in 1usize..60) {
        // A smaller length field ends the packet early, so the bytes after the packet's new end are
        // padding. A length of 0 would include all bytes.
        let mut frame = packet.frame();
        let whole = parse(&frame).unwrap();
        let len = (whole.network_len as usize).saturating_sub(cut);
        match whole.ip {
            IpVersion::V4 => frame[16..18].copy_from_slice(&(len.max(1) as u16).to_be_bytes()),
            _ => {
                frame[18..20].copy_from_slice(&(len.saturating_sub(40).max(1) as u16).to_be_bytes());
            }
        }
        let Ok(parsed) = parse(&frame) else { return Ok(()) };
        prop_assert!(parsed.network_len < whole.network_len);
        let room = parsed.transport().map_or(0, |at| parsed.network_end() - at);
        if room < 20 {
            prop_assert_eq!(fields::tcp(&frame, &parsed), None);
            prop_assert_eq!(fields::tcp_options(&frame, &parsed).count(), 0);
        }
        if room < 4 {
            prop_assert!(!fields::ports_present(&parsed));
        }
        if room == 0 {
            prop_assert_eq!(
                (fields::icmp_type(&frame, &parsed), fields::icmp6_type(&frame, &parsed)),
                (None, None)
            );
        }
        for (_, at) in fields::extensions(&frame, &parsed) {
            prop_assert!(at + 8 <= parsed.network_end());
        }
    }
}

#[test]
fn options_end_at_the_end_marker_or_at_an_invalid_length() {
    for (options, expected) in [
        (&[1, 1, 7, 3, 9, 0, 7, 3, 9][..], &[7][..]),
        (&[68, 0, 7, 3, 9], &[]),
        (&[68, 1, 7, 3, 9], &[]),
        (&[7, 3, 9, 68, 40], &[7]),
        (&[7, 2, 1, 137, 2, 1], &[7, 137]),
    ] {
        let mut packet = PacketBuilder::udp(A4, B4, 1, 2);
        packet.options = options.to_vec();
        let frame = packet.frame();
        let kinds: Vec<u8> =
            fields::ipv4_options(&frame, &parse(&frame).unwrap()).map(|(kind, _)| kind).collect();
        assert_eq!(kinds, expected, "{options:?}");
    }
}

#[test]
fn a_chain_of_extension_headers_is_followed_as_far_as_the_parser_does() {
    for count in [8, 9, 10, 40] {
        let mut packet = PacketBuilder::udp(A6, B6, 5, 6);
        packet.extensions = vec![(protocol::DESTINATION, vec![1, 4]); count];
        let frame = packet.frame();
        let parsed = parse(&frame).unwrap();
        let followed = fields::extensions(&frame, &parsed).count();
        assert_eq!(followed, count.min(9));
        assert_eq!(fields::ports_present(&parsed), count < 9, "{count}");
    }
    let later = PacketBuilder::udp(A6, B6, 5, 6)
        .extension(protocol::FRAGMENT, &[0, 8, 0, 0, 0, 1])
        .extension(protocol::DESTINATION, &[1, 4]);
    let frame = later.frame();
    let kinds: Vec<u8> =
        fields::extensions(&frame, &parse(&frame).unwrap()).map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [protocol::FRAGMENT], "no header follows the header of a later fragment");
}

#[test]
fn a_frame_that_is_not_ip_has_none_of_the_fields() {
    let frame = PacketBuilder::arp(A4, B4).frame();
    let parsed = parse(&frame).unwrap();
    assert_eq!(
        (fields::ip_id(&frame, &parsed), fields::fragment_field(&frame, &parsed)),
        (None, None)
    );
    assert_eq!(
        (fields::ttl(&frame, &parsed), fields::traffic_class(&frame, &parsed)),
        (None, None)
    );
    assert_eq!((fields::tcp(&frame, &parsed), fields::icmp_type(&frame, &parsed)), (None, None));
    assert!(!fields::ports_present(&parsed));
    assert_eq!(
        fields::ipv4_options(&frame, &parsed).chain(fields::tcp_options(&frame, &parsed)).count(),
        0
    );
    assert_eq!(fields::extensions(&frame, &parsed).count(), 0);
}

/// Calls every reader, and checks that the results lie within the frame and that iterators end.
fn read_all(frame: &[u8], parsed: &Parsed) -> Result<(), TestCaseError> {
    let v4 =
        fields::ip_id(frame, parsed).is_some() || fields::fragment_field(frame, parsed).is_some();
    prop_assert!(!v4 || parsed.ip == IpVersion::V4);
    let any =
        fields::ttl(frame, parsed).is_some() || fields::traffic_class(frame, parsed).is_some();
    prop_assert!(!any || parsed.ip != IpVersion::None);
    prop_assert!(fields::icmp_type(frame, parsed).is_none() || parsed.protocol == protocol::ICMP);
    prop_assert!(
        fields::icmp6_type(frame, parsed).is_none() || parsed.protocol == protocol::ICMPV6
    );
    prop_assert!(fields::tcp(frame, parsed).is_none() || parsed.protocol == protocol::TCP);
    prop_assert!(!fields::ports_present(parsed) || parsed.transport().is_some());
    for options in [fields::ipv4_options(frame, parsed), fields::tcp_options(frame, parsed)] {
        let all: Vec<_> = options.take(100).collect();
        prop_assert!(all.iter().map(|(_, data)| data.len() + 2).sum::<usize>() <= 40);
    }
    let mut last = parsed.network_offset();
    for (at, (_, here)) in fields::extensions(frame, parsed).enumerate() {
        prop_assert!(at < 9 && here > last && here + 4 <= frame.len());
        fields::routing_type(frame, here);
        last = here;
    }
    prop_assert_eq!(fields::routing_type(frame, frame.len()), None);
    Ok(())
}

/// Kind and data of the options, in their order.
fn found(options: fields::Options<'_>) -> Vec<(u8, Vec<u8>)> {
    options.map(|(kind, data)| (kind, data.to_vec())).collect()
}

/// Kind and data of an option that etherparse has parsed; `None` for padding.
fn kind_and_data(option: &TcpOptionElement) -> Option<(u8, Vec<u8>)> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect();
    Some(match *option {
        TcpOptionElement::Noop => return None,
        TcpOptionElement::MaximumSegmentSize(size) => (2, size.to_be_bytes().to_vec()),
        TcpOptionElement::WindowScale(scale) => (3, vec![scale]),
        TcpOptionElement::SelectiveAcknowledgementPermitted => (4, Vec::new()),
        TcpOptionElement::SelectiveAcknowledgement(first, rest) => {
            let blocks = std::iter::once(first).chain(rest.into_iter().flatten());
            (5, blocks.flat_map(|(a, b)| [a.to_be_bytes(), b.to_be_bytes()].concat()).collect())
        }
        TcpOptionElement::Timestamp(value, echo) => (8, words(&[value, echo])),
    })
}

/// The bytes of a TCP option that etherparse knows, or padding.
fn tcp_option() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(vec![1]),
        any::<[u8; 2]>().prop_map(|d| [&[2, 4], &d[..]].concat()),
        any::<u8>().prop_map(|d| vec![3, 3, d]),
        Just(vec![4, 2]),
        prop::collection::vec(any::<[u8; 8]>(), 1..5).prop_map(|d| [
            &[5, 2 + 8 * d.len() as u8],
            &d.concat()[..]
        ]
        .concat()),
        any::<[u8; 8]>().prop_map(|d| [&[8, 10], &d[..]].concat()),
    ]
}

/// Options of any kind except padding, each after up to two bytes of padding.
fn options() -> impl Strategy<Value = Vec<(usize, u8, Vec<u8>)>> {
    prop::collection::vec((0usize..3, 2u8.., prop::collection::vec(any::<u8>(), 0..12)), 0..6)
}

/// The encoded options, and the options that a reader finds: those that fit completely into `room`
/// bytes.
fn encoded(options: &[(usize, u8, Vec<u8>)], room: usize) -> (Vec<u8>, Vec<(u8, Vec<u8>)>) {
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    for (padding, kind, data) in options {
        if bytes.len() + padding + 2 + data.len() <= room {
            bytes.extend(vec![1; *padding]);
            bytes.extend([*kind, 2 + data.len() as u8]);
            bytes.extend(data);
            expected.push((*kind, data.clone()));
        }
    }
    (bytes, expected)
}

fn transport() -> impl Strategy<Value = Transport> {
    prop_oneof![
        any::<(u16, u16)>().prop_map(|(src_port, dst_port)| Transport::Udp { src_port, dst_port }),
        any::<(u16, u16, u32, u8)>().prop_map(|(src_port, dst_port, sequence, flags)| {
            Transport::Tcp { src_port, dst_port, sequence, flags, options: vec![2, 4, 5, 180] }
        }),
        any::<(u16, u16)>().prop_map(|(id, sequence)| Transport::Echo { id, sequence }),
    ]
}

fn v4_packet() -> impl Strategy<Value = PacketBuilder> {
    (transport(), options(), any::<u8>(), 0usize..60).prop_map(|(transport, options, ttl, len)| {
        let mut packet = PacketBuilder::new(A4, B4, transport).payload(vec![9; len]);
        (packet.ttl, packet.options) = (ttl, encoded(&options, 40).0);
        packet
    })
}

fn v6_packet() -> impl Strategy<Value = PacketBuilder> {
    let chain = [
        (protocol::HOP_BY_HOP, vec![1, 4, 0, 0, 0, 0]),
        (protocol::DESTINATION, vec![1, 12]),
        (protocol::ROUTING, vec![0, 0, 0, 0, 0, 0]),
        // A fragment header in a packet that is not fragmented (RFC 6946).
        (protocol::FRAGMENT, vec![0, 0, 0, 0, 0, 1]),
        (protocol::AUTHENTICATION, vec![0; 22]),
        (protocol::DESTINATION, vec![1, 4]),
    ];
    (
        transport(),
        prop::sample::subsequence(chain.to_vec(), 0..=6),
        any::<u8>(),
        0u8..64,
        0u32..1 << 20,
    )
        .prop_map(|(transport, extensions, ttl, dscp, label)| {
            let mut packet = PacketBuilder::new(A6, B6, transport).dscp(dscp);
            (packet.ttl, packet.flow_label, packet.extensions) = (ttl, label, extensions);
            packet
        })
}

fn any_packet() -> impl Strategy<Value = PacketBuilder> {
    prop_oneof![v4_packet(), v6_packet()]
}

const A4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const A6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
