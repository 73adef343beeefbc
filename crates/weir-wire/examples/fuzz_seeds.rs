//! Writes the seeds of the fuzzing corpora: a valid frame of every kind that the parser and the
//! segmentation of trains support.
//!
//! `cargo run -p weir-wire --features builder --example fuzz_seeds -- fuzz/corpus`
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use weir_core::packet::Ecn;
use weir_wire::builder::{PacketBuilder, Transport};
use weir_wire::{VnetHeader, protocol};

fn main() -> io::Result<()> {
    let root = env::args_os().nth(1).map_or_else(|| PathBuf::from("fuzz/corpus"), PathBuf::from);
    for (name, packet) in packets() {
        // An input of the fuzz target `frame` has four bytes, and then the frame, which the target
        // parses as an Ethernet frame and as a layer-3 packet. The four bytes are the two offsets
        // of a partial checksum, here that of the IPv4 header. As one number, they also select the
        // bit to invert.
        write(&root.join("frame"), name, &[&[0, 14, 0, 10], packet.frame().as_slice()].concat())?;
        write(
            &root.join("frame"),
            &format!("{name}-ip"),
            &[&[0, 0, 0, 10], packet.packet().as_slice()].concat(),
        )?;
    }
    for (name, packet) in trains() {
        let (vnet, frame) = packet.train(30);
        write(&root.join("train"), name, &seed(1, vnet, &frame))?;
        // The train without a request to complete the checksum.
        let unasked = VnetHeader { flags: 0, csum_start: 0, csum_offset: 0, ..vnet };
        write(&root.join("train"), &format!("{name}-unasked"), &seed(0, unasked, &frame))?;
        // One packet with a partial checksum instead of a train.
        let partial = VnetHeader { gso_type: 0, gso_size: 0, ..vnet };
        write(&root.join("train"), &format!("{name}-single"), &seed(0, partial, &frame))?;
        // The train as a layer-3 packet.
        let csum_start =
            vnet.csum_start - (frame.len() - packet.packet().len() - packet.padding) as u16;
        let layer3 = VnetHeader { csum_start, hdr_len: 0, ..vnet };
        write(
            &root.join("train"),
            &format!("{name}-ip"),
            &seed(0x80, layer3, &frame[frame.len() - packet.packet().len()..]),
        )?;
    }
    Ok(())
}

/// An input of the fuzz target `train`. The first byte, `choice`, selects the layer and the first
/// packet of a run; the second byte selects the length of the run.
fn seed(choice: u8, vnet: VnetHeader, frame: &[u8]) -> Vec<u8> {
    [&[choice, 2], vnet.encode().as_slice(), frame].concat()
}

/// Single packets, each with the name of its seed.
fn packets() -> Vec<(&'static str, PacketBuilder)> {
    let (a, b) = (A4, B4);
    let mut options = PacketBuilder::udp(a, b, 1, 2).numbered(1, 9);
    options.options = vec![7, 7, 4, 0, 0, 0, 0];
    options.padding = 5;
    let mut nothing = PacketBuilder::new(A6, B6, Transport::Raw(protocol::NO_NEXT));
    nothing.flow_label = 0xabcde;
    vec![
        ("udp4", PacketBuilder::udp(a, b, 53, 4000).numbered(1, 40).ecn(Ecn::Ect0).dscp(46)),
        ("udp4-options-padding", options),
        (
            "udp4-first-fragment",
            PacketBuilder::udp(a, b, 53, 4000).numbered(1, 40).fragment(0, true),
        ),
        (
            "udp4-later-fragment",
            PacketBuilder::udp(a, b, 53, 4000).numbered(1, 40).fragment(6, false),
        ),
        ("tcp4-vlan", PacketBuilder::tcp(a, b, 80, 4000).numbered(1, 11).vlan(7).ecn(Ecn::Ect1)),
        (
            "tcp6-two-vlans",
            PacketBuilder::tcp(A6, B6, 80, 4000)
                .numbered(1, 11)
                .service_vlan(100)
                .vlan(7)
                .ecn(Ecn::Ect0),
        ),
        ("udp6", PacketBuilder::udp(A6, B6, 1, 2).numbered(1, 8).ecn(Ecn::Ce)),
        ("udp6-extensions", chain(PacketBuilder::udp(A6, B6, 1, 2).numbered(1, 8))),
        (
            "udp6-fragment",
            PacketBuilder::udp(A6, B6, 1, 2)
                .numbered(1, 8)
                .extension(protocol::FRAGMENT, &[0, 1, 0, 0, 0, 9]),
        ),
        (
            "udp6-later-fragment",
            PacketBuilder::udp(A6, B6, 1, 2)
                .numbered(1, 8)
                .extension(protocol::FRAGMENT, &[0, 8, 0, 0, 0, 9]),
        ),
        ("echo4", PacketBuilder::echo(a, b, 1, 2).numbered(1, 8)),
        ("echo6", PacketBuilder::echo(A6, B6, 1, 2).numbered(1, 8)),
        ("arp", PacketBuilder::arp(a, b)),
        (
            "sctp4",
            PacketBuilder::new(a, b, Transport::Raw(protocol::SCTP))
                .payload(vec![0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]),
        ),
        ("nothing6", nothing),
    ]
}

/// Packets to build trains from, each with the name of its seed.
fn trains() -> Vec<(&'static str, PacketBuilder)> {
    let (a, b) = (A4, B4);
    let flags = Transport::Tcp {
        src_port: 80,
        dst_port: 9,
        sequence: 0xffff_fff0,
        flags: 0x99,
        options: vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
    };
    vec![
        ("tcp4", PacketBuilder::new(a, b, flags.clone()).numbered(1, 100)),
        ("tcp6", PacketBuilder::new(A6, B6, flags.clone()).numbered(1, 100)),
        ("tcp6-extensions", chain(PacketBuilder::new(A6, B6, flags).numbered(1, 100)).vlan(3)),
        ("udp4", PacketBuilder::udp(a, b, 1, 2).numbered(1, 90).service_vlan(1).vlan(2)),
        ("udp6", PacketBuilder::udp(A6, B6, 1, 2).numbered(1, 91)),
    ]
}

/// Adds three IPv6 extension headers.
fn chain(packet: PacketBuilder) -> PacketBuilder {
    packet
        .extension(protocol::HOP_BY_HOP, &[5, 2, 0, 0, 1, 0])
        .extension(protocol::AUTHENTICATION, &[0; 22])
        .extension(60, &[1, 4])
}

fn write(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    fs::write(dir.join(name), bytes)
}

const A4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const A6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
