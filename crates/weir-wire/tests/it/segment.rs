//! Trains: the packets of a cut train have valid checksums, add up to the original train, and do
//! not depend on how the train is divided into runs.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use weir_core::packet::Ecn;
use weir_wire::builder::{PacketBuilder, Transport};
use weir_wire::{
    ChecksumMode, Gso, MAX_HEADER_LEN, Run, SegmentError, Train, VnetError, VnetHeader, checksum,
    parse, protocol,
};

#[test]
fn a_tcp_train_is_cut_like_in_the_kernel() {
    // The flags are FIN, PSH, ACK and CWR, and the sequence number wraps.
    let transport = Transport::Tcp {
        src_port: 80,
        dst_port: 9,
        sequence: 0xffff_fff0,
        flags: 0x99,
        options: vec![],
    };
    let mut packet = PacketBuilder::new(A4, B4, transport).numbered(3, 250);
    packet.id = 0xffff;
    let (vnet, frame) = packet.train(100);
    let train = Train::plan(&frame, &vnet, &parse(&frame).unwrap()).unwrap();
    assert_eq!(
        (train.segments(), train.header_len(), train.payload_len(), train.gso_size()),
        (3, 54, 250, 100)
    );
    assert_eq!([0, 1, 2, 3].map(|i| train.segment_len(i)), [140, 140, 90, 0]);
    let mut expected = packet.clone();
    for (i, (id, sequence, flags)) in
        [(0xffff, 0xffff_fff0, 0x90), (0, 0x54, 0x10), (1, 0xb8, 0x19)].into_iter().enumerate()
    {
        expected.id = id;
        expected.transport =
            Transport::Tcp { src_port: 80, dst_port: 9, sequence, flags, options: vec![] };
        expected.payload = packet.payload[i * 100..250.min(i * 100 + 100)].to_vec();
        let i = i as u16;
        assert_eq!(
            cut(&train, &frame, i..i + 1, ChecksumMode::Complete).1,
            expected.frame(),
            "packet {i}"
        );
        let (run, partial) = cut(&train, &frame, i..i + 1, ChecksumMode::Partial);
        assert_eq!((run.vnet, partial), expected.partial(), "packet {i}");
    }
    let (run, _) = cut(&train, &frame, 0..2, ChecksumMode::Partial);
    assert_eq!(
        (run.vnet.gso(), run.vnet.gso_type & VnetHeader::GSO_ECN, run.vnet.gso_size),
        (Ok(Gso::TcpV4), 0x80, 100)
    );
    let (run, _) = cut(&train, &frame, 1..3, ChecksumMode::Partial);
    assert_eq!((run.vnet.gso_type, run.payload), (1, 154..304));
}

#[test]
fn a_udp_train_is_cut_into_datagrams() {
    let packet = PacketBuilder::udp(A6, B6, 1, 2).numbered(3, 130).vlan(5);
    let (vnet, frame) = packet.train(100);
    let train = Train::plan(&frame, &vnet, &parse(&frame).unwrap()).unwrap();
    let mut expected = packet.clone();
    for (i, payload) in packet.payload.chunks(100).enumerate() {
        expected.payload = payload.to_vec();
        let i = i as u16;
        assert_eq!(cut(&train, &frame, i..i + 1, ChecksumMode::Complete).1, expected.frame());
    }
}

#[test]
fn udp_without_a_checksum_stays_without_a_checksum() {
    let packet = PacketBuilder::udp(A4, B4, 1, 2).numbered(3, 130);
    let (mut vnet, mut frame) = packet.train(100);
    (vnet.flags, vnet.csum_start, vnet.csum_offset) = (0, 0, 0);
    frame[40..42].fill(0);
    let train = Train::plan(&frame, &vnet, &parse(&frame).unwrap()).unwrap();
    for mode in [ChecksumMode::Partial, ChecksumMode::Complete] {
        let (run, made) = cut(&train, &frame, 1..2, mode);
        assert!(!run.vnet.needs_csum());
        assert_eq!(checksum::verify_transport(&made, &parse(&made).unwrap()), None);
    }
}

#[test]
fn a_seed_for_another_destination_is_kept() {
    // With a routing header, the checksum covers the final destination, which is not the
    // destination in the IP header.
    let final_dst: Ipv6Addr = "2001:db8::99".parse().unwrap();
    let routing = [&[2, 1, 0, 0, 0, 0], final_dst.octets().as_slice()].concat();
    let (vnet, last) = PacketBuilder::tcp(A6, final_dst, 1, 2)
        .numbered(0, 200)
        .extension(protocol::ROUTING, &routing)
        .train(80);
    let mut frame = last.clone();
    frame[38..54].copy_from_slice(&B6.octets());
    let train = Train::plan(&frame, &vnet, &parse(&frame).unwrap()).unwrap();
    for i in 0..3 {
        let (_, mut made) = cut(&train, &frame, i..i + 1, ChecksumMode::Complete);
        made[38..54].copy_from_slice(&final_dst.octets());
        assert_eq!(checksum::verify_transport(&made, &parse(&made).unwrap()), Some(true));
    }
}

#[test]
fn frames_other_than_trains_are_refused_with_the_reason() {
    let (vnet, frame) = PacketBuilder::tcp(A4, B4, 1, 2).numbered(0, 200).train(80);
    let parsed = parse(&frame).unwrap();
    let plan = |vnet: VnetHeader| Train::plan(&frame, &vnet, &parsed).unwrap_err();
    assert_eq!(plan(VnetHeader { gso_type: 0, ..vnet }), SegmentError::NotATrain);
    assert_eq!(plan(VnetHeader { gso_type: 3, ..vnet }), SegmentError::UdpFragments);
    assert_eq!(plan(VnetHeader { gso_type: 4, ..vnet }), SegmentError::Protocol);
    assert_eq!(plan(VnetHeader { gso_type: 5, ..vnet }), SegmentError::Protocol);
    assert_eq!(plan(VnetHeader { gso_type: 9, ..vnet }), SegmentError::Vnet(VnetError::GsoType(9)));
    assert_eq!(plan(VnetHeader { gso_size: 0, ..vnet }), SegmentError::Vnet(VnetError::GsoSize(0)));
    assert_eq!(
        plan(VnetHeader { csum_start: 14, ..vnet }),
        SegmentError::ChecksumPlace { csum_start: 14, csum_offset: 16 }
    );
    assert!(matches!(
        plan(VnetHeader { csum_start: 300, ..vnet }),
        SegmentError::Vnet(VnetError::Checksum(_))
    ));
    assert!(matches!(
        plan(VnetHeader { hdr_len: 300, ..vnet }),
        SegmentError::Vnet(VnetError::HeaderLength { .. })
    ));
    let fragment = PacketBuilder::tcp(A4, B4, 1, 2).numbered(0, 200).fragment(0, true).frame();
    assert_eq!(
        Train::plan(&fragment, &vnet, &parse(&fragment).unwrap()),
        Err(SegmentError::Fragment)
    );
    let train = Train::plan(&frame, &vnet, &parsed).unwrap();
    let out = &mut [0; MAX_HEADER_LEN];
    let headers = |run, mode, out: &mut [u8]| train.headers(run, &frame, mode, out).unwrap_err();
    assert_eq!(
        headers(1..4, ChecksumMode::Partial, out),
        SegmentError::NoSuchRun { start: 1, end: 4, segments: 3 }
    );
    assert_eq!(headers(0..2, ChecksumMode::Complete, out), SegmentError::CompleteTrain);
    assert_eq!(
        headers(0..1, ChecksumMode::Partial, &mut out[..53]),
        SegmentError::Buffer { needed: 54, room: 53 }
    );
    assert_eq!(
        train.headers(0..1, &frame[..60], ChecksumMode::Partial, out),
        Err(SegmentError::OtherFrame)
    );
}

#[test]
fn a_train_without_payload_is_one_packet() {
    let (vnet, frame) = PacketBuilder::tcp(A4, B4, 1, 2).train(80);
    let train = Train::plan(&frame, &vnet, &parse(&frame).unwrap()).unwrap();
    assert_eq!((train.segments(), train.segment_len(0)), (1, 40));
    assert_eq!(cut(&train, &frame, 0..1, ChecksumMode::Partial).1, frame);
}

#[test]
fn a_completed_checksum_equals_that_of_the_sender() {
    for packet in [
        PacketBuilder::tcp(A4, B4, 1, 2).numbered(0, 33),
        PacketBuilder::udp(A6, B6, 1, 2).numbered(0, 33).vlan(9),
    ] {
        let (mut vnet, mut frame) = packet.partial();
        vnet.complete(&mut frame).unwrap();
        assert_eq!(frame, packet.frame());
        assert_eq!((vnet.needs_csum(), vnet.csum_start), (false, 0));
    }
    let (mut vnet, mut frame) = PacketBuilder::tcp(A4, B4, 1, 2).numbered(0, 33).train(10);
    assert_eq!(vnet.complete(&mut frame), Err(VnetError::CompleteTrain));
}

#[test]
fn the_header_has_the_kernels_layout() {
    let header = VnetHeader {
        flags: 1,
        gso_type: 0x81,
        hdr_len: 54,
        gso_size: 1448,
        csum_start: 34,
        csum_offset: 16,
    };
    let [h, s, c, o] = [54u16, 1448, 34, 16].map(u16::to_ne_bytes);
    assert_eq!(header.encode(), [1, 0x81, h[0], h[1], s[0], s[1], c[0], c[1], o[0], o[1]]);
    assert_eq!(VnetHeader::decode(&header.encode()), header);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn packets_verify_and_carry_the_payload_in_order((packet, size) in any_train()) {
        let (vnet, frame) = packet.train(size);
        let parsed = parse(&frame).unwrap();
        let train = Train::plan(&frame, &vnet, &parsed).unwrap();
        let mut carried = Vec::new();
        for i in 0..train.segments() {
            let (run, made) = cut(&train, &frame, i..i + 1, ChecksumMode::Complete);
            let parsed = parse(&made).unwrap();
            prop_assert_eq!(checksum::verify_transport(&made, &parsed), Some(true));
            prop_assert_ne!(checksum::verify_ipv4_header(&made, &parsed), Some(false));
            prop_assert_eq!(
                (parsed.network_len, parsed.network_end()),
                (train.segment_len(i), made.len())
            );
            prop_assert!(run.payload.len() <= usize::from(size));
            carried.extend_from_slice(&frame[run.payload]);
            let (mut vnet, mut partial) = packet_of(&train, &frame, i);
            vnet.complete(&mut partial).unwrap();
            prop_assert_eq!(partial, made);
        }
        prop_assert_eq!(carried, packet.payload);
    }

    #[test]
    fn a_run_is_a_train_of_the_same_packets(
        (packet, size) in any_train(),
        cuts in prop::collection::vec(1u16..9, 1..200),
    ) {
        let (vnet, frame) = packet.train(size);
        let train = Train::plan(&frame, &vnet, &parse(&frame).unwrap()).unwrap();
        let (mut first, mut cuts, mut carried) = (0, cuts.into_iter().cycle(), 0);
        while first < train.segments() {
            let last = train.segments().min(first + cuts.next().unwrap());
            let (run, joined) = cut(&train, &frame, first..last, ChecksumMode::Partial);
            prop_assert_eq!(run.vnet.validate(&joined), Ok(()));
            let parsed = parse(&joined).unwrap();
            prop_assert_eq!(parsed.network_len, train.run_len(first..last));
            carried += run.payload.len();
            if last - first > 1 {
                let again = Train::plan(&joined, &run.vnet, &parsed).unwrap();
                prop_assert_eq!(again.segments(), last - first);
                for i in first..last {
                    prop_assert_eq!(
                        packet_of(&again, &joined, i - first),
                        packet_of(&train, &frame, i)
                    );
                }
            } else {
                prop_assert_eq!((run.vnet, joined), packet_of(&train, &frame, first));
            }
            first = last;
        }
        prop_assert_eq!(carried as u32, train.payload_len());
    }

    #[test]
    fn the_whole_run_is_the_train((packet, size) in any_train()) {
        let (vnet, frame) = packet.train(size);
        let parsed = parse(&frame).unwrap();
        let train = Train::plan(&frame, &vnet, &parsed).unwrap();
        let (run, joined) = cut(&train, &frame, 0..train.segments(), ChecksumMode::Partial);
        prop_assert_eq!(joined.as_slice(), &frame[..parsed.network_end()]);
        if train.segments() > 1 {
            prop_assert_eq!(run.vnet, vnet);
        }
    }
}

/// The frame of a run.
fn cut(
    train: &Train,
    frame: &[u8],
    run: core::ops::Range<u16>,
    mode: ChecksumMode,
) -> (Run, Vec<u8>) {
    let mut out = [0xaa; MAX_HEADER_LEN];
    let run = train.headers(run, frame, mode, &mut out).unwrap();
    let joined = [&out[..run.header_len], &frame[run.payload.clone()]].concat();
    (run, joined)
}

/// Packet `i` with a partial checksum.
fn packet_of(train: &Train, frame: &[u8], i: u16) -> (VnetHeader, Vec<u8>) {
    let (run, made) = cut(train, frame, i..i + 1, ChecksumMode::Partial);
    (run.vnet, made)
}

fn any_train() -> impl Strategy<Value = (PacketBuilder, u16)> {
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
    ];
    // Packet sizes that are tiny, usual and very large.
    let shape = prop_oneof![
        (1u16..20, 0usize..200),
        (500u16..9000, 0usize..65_000),
        (60_000u16..65_535, 0usize..65_000)
    ];
    let tags = prop::collection::vec(0u16..4096, 0..3);
    (transport, shape, tags, any::<(u16, bool, u8, bool)>()).prop_map(
        |(transport, (size, len), tags, (id, v6, byte, extended))| {
            let mut packet = if v6 {
                PacketBuilder::new(A6, B6, transport)
            } else {
                PacketBuilder::new(A4, B4, transport)
            };
            packet.payload =
                (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(byte)).collect();
            packet.id = id;
            packet.ecn = Ecn::Ce;
            packet.padding = usize::from(byte % 3);
            packet.tags = tags.into_iter().map(|id| (0x8100, id)).collect();
            if extended {
                packet.extensions = vec![(protocol::HOP_BY_HOP, vec![1, 4])];
                packet.options = vec![1; 5];
            }
            (packet, size)
        },
    )
}

const A4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const A6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
