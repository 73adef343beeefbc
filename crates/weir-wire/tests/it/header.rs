//! Compares the parser with etherparse and with frames of known fields.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{LaxNetSlice, SlicedPacket};
use proptest::prelude::*;
use weir_core::packet::Ecn;
use weir_wire::builder::{PacketBuilder, Transport, payload_number};
use weir_wire::{
    Fragment, IpVersion, ParseError, checksum, ecn, ethertype, flow_key, invert_bit, parse,
    parse_ip, protocol, set_ce, set_dscp,
};

#[test]
fn a_udp_frame_has_its_fields() {
    let mut packet = PacketBuilder::udp(A4, B4, 53, 4000).numbered(77, 30).ecn(Ecn::Ect0).dscp(46);
    packet.padding = 6;
    let frame = packet.frame();
    let parsed = parse(&frame).unwrap();
    assert_eq!(
        (parsed.link_header, parsed.ethertype, parsed.vlan, parsed.ip),
        (14, ethertype::IPV4, 0, IpVersion::V4)
    );
    assert_eq!((parsed.network_len, parsed.network_end()), (58, frame.len() - 6));
    assert_eq!(
        (parsed.transport(), parsed.payload(), parsed.tcp_flags()),
        (Some(34), Some(42), None)
    );
    assert_eq!(
        (parsed.protocol, parsed.dscp, parsed.ecn, parsed.fragment),
        (17, 46, Ecn::Ect0, Fragment::Whole)
    );
    assert_eq!(payload_number(&frame[42..]), Some(77));
    let key = flow_key(&frame, &parsed);
    assert_eq!((key.src, key.dst), (0x0a00_0001, 0xc000_0207));
    assert_eq!(
        (key.src_port, key.dst_port, key.proto, key.dscp, key.ipv6),
        (53, 4000, 17, 46, false)
    );
    assert_eq!(
        (key.src_mac, key.dst_mac, key.ethertype),
        (0x0200_0000_0001, 0x0200_0000_0002, 0x0800)
    );
}

#[test]
fn a_layer_3_packet_has_the_same_key_without_mac_addresses() {
    let packet = PacketBuilder::tcp(A6, B6, 80, 4000).payload([1]);
    let (frame, bare) = (packet.frame(), packet.packet());
    let (outer, inner) = (parse(&frame).unwrap(), parse_ip(&bare).unwrap());
    assert_eq!((inner.link_header, inner.transport(), inner.tcp_flags()), (0, Some(40), Some(53)));
    let mut key = flow_key(&frame, &outer);
    (key.src_mac, key.dst_mac) = (0, 0);
    assert_eq!(flow_key(&bare, &inner), key);
    assert_eq!(key.src, u128::from(A6));
    assert_eq!(key.dst, u128::from(B6));
}

#[test]
fn stacked_tags_are_skipped_and_the_outermost_names_the_vlan() {
    let frame = PacketBuilder::udp(A4, B4, 1, 2).service_vlan(100).vlan(7).frame();
    let parsed = parse(&frame).unwrap();
    assert_eq!((parsed.link_header, parsed.vlan, parsed.ethertype), (22, 100, ethertype::IPV4));
    let mut deep = PacketBuilder::udp(A4, B4, 1, 2);
    deep.tags = vec![(ethertype::VLAN, 1); 9];
    assert_eq!(parse(&deep.frame()), Err(ParseError::TooManyTags));
    deep.tags.pop();
    assert_eq!(parse(&deep.frame()).unwrap().link_header, 14 + 8 * 4);
}

#[test]
fn extension_headers_are_followed() {
    let packet = PacketBuilder::udp(A6, B6, 5, 6)
        .payload([9])
        .extension(protocol::HOP_BY_HOP, &[5, 2, 0, 0, 1, 0])
        .extension(protocol::AUTHENTICATION, &[0; 22])
        .extension(protocol::DESTINATION, &[1, 12]);
    let frame = packet.frame();
    let parsed = parse(&frame).unwrap();
    assert_eq!((parsed.protocol, parsed.transport()), (protocol::UDP, Some(14 + 40 + 8 + 24 + 8)));
    assert_eq!(flow_key(&frame, &parsed).dst_port, 6);
    let mut endless = PacketBuilder::udp(A6, B6, 5, 6);
    endless.extensions = vec![(protocol::DESTINATION, vec![1, 4]); 40];
    assert_eq!(parse(&endless.frame()).unwrap().transport(), None);
}

#[test]
fn only_the_first_fragment_has_ports() {
    let packet = PacketBuilder::udp(A4, B4, 53, 4000).numbered(0, 24);
    for (offset, more, expected) in
        [(0, true, Fragment::First), (3, true, Fragment::Later), (3, false, Fragment::Later)]
    {
        let frame = packet.clone().fragment(offset, more).frame();
        let parsed = parse(&frame).unwrap();
        let port = if expected == Fragment::First { 4000 } else { 0 };
        assert_eq!(
            (parsed.fragment, flow_key(&frame, &parsed).dst_port, parsed.protocol),
            (expected, port, protocol::UDP)
        );
    }
    for (field, expected) in
        [([0, 1], Fragment::First), ([0, 8], Fragment::Later), ([0, 0], Fragment::First)]
    {
        let extension = [field[0], field[1], 0, 0, 0, 1];
        let frame =
            PacketBuilder::udp(A6, B6, 53, 4000).extension(protocol::FRAGMENT, &extension).frame();
        let parsed = parse(&frame).unwrap();
        assert_eq!(
            (parsed.fragment, parsed.transport().is_some()),
            (expected, expected == Fragment::First)
        );
    }
}

#[test]
fn arp_ends_before_the_padding() {
    let mut arp = PacketBuilder::arp(A4, B4);
    arp.padding = 18;
    let frame = arp.frame();
    let parsed = parse(&frame).unwrap();
    assert_eq!(
        (frame.len(), parsed.ethertype, parsed.network_len, parsed.ip),
        (60, ethertype::ARP, 28, IpVersion::None)
    );
    assert_eq!(flow_key(&frame, &parsed).dst_mac, 0xffff_ffff_ffff);
}

#[test]
fn malformed_frames_are_refused_with_the_reason() {
    let frame = PacketBuilder::udp(A4, B4, 1, 2).numbered(0, 20).frame();
    let with = |at: usize, value: u8| {
        let mut frame = frame.clone();
        frame[at] = value;
        parse(&frame).unwrap_err()
    };
    assert_eq!(parse(&frame[..13]), Err(ParseError::ShortLink));
    assert_eq!(parse(&frame[..33]), Err(ParseError::ShortIp));
    assert_eq!(parse(&frame[..50]), Err(ParseError::Truncated { promised: 48, present: 36 }));
    assert_eq!(with(14, 0x65), ParseError::Version(6));
    assert_eq!(with(14, 0x44), ParseError::HeaderLength(16));
    assert_eq!(with(14, 0x4f), ParseError::HeaderLength(60));
    assert_eq!(parse_ip(&[0x50]), Err(ParseError::Version(5)));
    assert_eq!(parse_ip(&[]), Err(ParseError::ShortIp));
}

#[test]
fn a_mark_changes_only_the_ecn_field_and_keeps_the_checksum_valid() {
    for (src, dst) in [(IpAddr::V4(A4), IpAddr::V4(B4)), (IpAddr::V6(A6), IpAddr::V6(B6))] {
        for codepoint in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
            let packet = PacketBuilder::new(src, dst, Transport::Udp { src_port: 1, dst_port: 2 })
                .ecn(codepoint)
                .dscp(63)
                .vlan(3);
            let mut frame = packet.frame();
            let parsed = parse(&frame).unwrap();
            let capable = codepoint != Ecn::NotEct;
            assert_eq!(set_ce(&mut frame, &parsed), capable);
            let expected = packet.ecn(if capable { Ecn::Ce } else { Ecn::NotEct }).frame();
            assert_eq!(frame, expected, "{codepoint:?} over {src}");
            assert_eq!(ecn(&frame, &parsed), if capable { Ecn::Ce } else { Ecn::NotEct });
        }
    }
}

#[test]
fn a_code_point_changes_only_the_dscp_field_and_keeps_the_checksum_valid() {
    for (src, dst) in [(IpAddr::V4(A4), IpAddr::V4(B4)), (IpAddr::V6(A6), IpAddr::V6(B6))] {
        for (old, new) in [(0, 46), (46, 0), (63, 63), (10, 21)] {
            let packet = PacketBuilder::new(src, dst, Transport::Udp { src_port: 1, dst_port: 2 })
                .ecn(Ecn::Ect1)
                .dscp(old)
                .vlan(3);
            let mut frame = packet.frame();
            let mut parsed = parse(&frame).unwrap();
            assert!(set_dscp(&mut frame, &mut parsed, new));
            assert_eq!(frame, packet.dscp(new).frame(), "{old} to {new} over {src}");
            assert_eq!(parsed, parse(&frame).unwrap());
        }
    }
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&ethertype::ARP.to_be_bytes());
    let mut parsed = parse(&arp).unwrap();
    assert!(!set_dscp(&mut arp, &mut parsed, 46) && arp[14..].iter().all(|&b| b == 0));
}

#[test]
fn bits_count_from_the_network_layer_and_wrap() {
    let mut packet = PacketBuilder::udp(A4, B4, 1, 2).payload([0; 4]);
    packet.padding = 14;
    let frame = packet.frame();
    let parsed = parse(&frame).unwrap();
    for (bit, at, mask) in
        [(0, 14, 0x80), (7, 14, 0x01), (8 * 32 - 1, 14 + 31, 0x01), (8 * 32, 14, 0x80)]
    {
        let mut damaged = frame.clone();
        assert_eq!(invert_bit(&mut damaged, &parsed, bit), Some(at));
        assert_eq!(damaged[at] ^ frame[at], mask);
    }
}

proptest! {
    #[test]
    fn agrees_with_etherparse_about_built_packets(packet in any_packet()) {
        let frame = packet.frame();
        let parsed = parse(&frame).unwrap();
        let oracle = SlicedPacket::from_ethernet(&frame).unwrap();
        let payload = oracle.ip_payload().unwrap();
        let end =
            payload.payload.as_ptr() as usize - frame.as_ptr() as usize + payload.payload.len();
        prop_assert_eq!(parsed.network_end(), end);
        prop_assert_eq!(parsed.protocol, payload.ip_number.0);
        prop_assert_eq!(parsed.transport(), Some(end - payload.payload.len()));
        prop_assert_eq!(parsed.vlan, oracle.vlan_ids().first().map_or(0, |id| id.value()));
        prop_assert_eq!(checksum::verify_transport(&frame, &parsed), Some(true));
        prop_assert_ne!(checksum::verify_ipv4_header(&frame, &parsed), Some(false));
        let key = flow_key(&frame, &parsed);
        let ports = match oracle.transport.unwrap() {
            etherparse::TransportSlice::Udp(udp) => (udp.source_port(), udp.destination_port()),
            etherparse::TransportSlice::Tcp(tcp) => (tcp.source_port(), tcp.destination_port()),
            _ => (0, 0),
        };
        prop_assert_eq!((key.src_port, key.dst_port), ports);
    }

    #[test]
    fn agrees_with_etherparse_about_damaged_packets(
        packet in any_packet(),
        at in 14usize..70,
        value: u8,
    ) {
        let mut frame = packet.frame();
        let at = at.min(frame.len() - 1);
        frame[at] = value;
        let lax = etherparse::LaxSlicedPacket::from_ethernet(&frame).unwrap();
        if let Ok(parsed) = parse(&frame) {
            let oracle = match lax.net {
                Some(LaxNetSlice::Ipv4(ip)) => {
                    Some((IpVersion::V4, ip.header().ecn().value(), ip.header().dcp().value()))
                }
                Some(LaxNetSlice::Ipv6(ip)) => {
                    let class = ip.header().traffic_class();
                    Some((IpVersion::V6, class & 3, class >> 2))
                }
                _ => None,
            };
            if let Some((ip, ecn, dscp)) = oracle {
                prop_assert_eq!((parsed.ip, parsed.ecn as u8, parsed.dscp), (ip, ecn, dscp));
            }
        } else {
            prop_assert!(SlicedPacket::from_ethernet(&frame).is_err());
        }
    }

    #[test]
    fn an_inverted_bit_in_the_payload_is_detected(packet in any_packet(), bit: u32) {
        let mut frame = packet.frame();
        let before = parse(&frame).unwrap();
        let at = invert_bit(&mut frame, &before, bit).unwrap();
        prop_assert_eq!(frame[at].count_ones().abs_diff(packet.frame()[at].count_ones()), 1);
        // The internet checksum always detects a single inverted bit after the headers.
        if at >= before.payload().unwrap() {
            prop_assert_eq!(checksum::verify_transport(&frame, &before), Some(false));
        }
    }
}

fn any_packet() -> impl Strategy<Value = PacketBuilder> {
    let transport = prop_oneof![
        any::<(u16, u16)>().prop_map(|(src_port, dst_port)| Transport::Udp { src_port, dst_port }),
        (any::<(u16, u16, u32, u8)>(), prop::collection::vec(Just(1u8), 0..40)).prop_map(
            |((src_port, dst_port, sequence, flags), options)| Transport::Tcp {
                src_port,
                dst_port,
                sequence,
                flags,
                options
            }
        ),
        any::<(u16, u16)>().prop_map(|(id, sequence)| Transport::Echo { id, sequence }),
    ];
    let tags = prop::collection::vec(
        (prop_oneof![Just(ethertype::VLAN), Just(ethertype::SERVICE_VLAN)], 0u16..4096),
        0..3,
    );
    let fields = (0u8..64, 0u8..4, any::<u16>(), 0u32..1 << 20, 0usize..20, any::<bool>());
    let lists = (
        prop::collection::vec(any::<u8>(), 0..300),
        prop::collection::vec(Just(1u8), 0..40),
        0usize..3,
    );
    (transport, tags, any::<[u8; 4]>(), fields, lists).prop_map(
        |(transport, tags, host, fields, (payload, options, extensions))| {
            let (dscp, ecn, id, flow_label, padding, v6) = fields;
            let mut packet = if v6 {
                let src = Ipv6Addr::from_bits(A6.to_bits() | u128::from(u32::from_be_bytes(host)));
                PacketBuilder::new(src, B6, transport)
            } else {
                PacketBuilder::new(Ipv4Addr::from(host), B4, transport)
            };
            packet.ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(ecn)];
            (packet.tags, packet.payload, packet.options) = (tags, payload, options);
            (packet.dscp, packet.id, packet.flow_label, packet.padding) =
                (dscp, id, flow_label, padding);
            packet.extensions =
                [(protocol::HOP_BY_HOP, vec![1, 4]), (protocol::DESTINATION, vec![1, 12])]
                    [..extensions]
                    .to_vec();
            packet
        },
    )
}

const A4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const A6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
