//! Packets of one lane, for tests that need neither ports nor threads.

use weir_core::Nanos;
use weir_core::packet::Ecn;
use weir_wire::VnetHeader;
use weir_wire::builder::PacketBuilder;

use super::config::{Gso, LaneConfig};
use super::lane::Lane;
use super::packets::{Packets, Stored};
use crate::arena::HEADROOM;
use crate::port::Ingress;

/// The packets of a worker with one lane, which leads to pipe 1 and has no passes.
pub(super) fn packets() -> Packets {
    let lane = LaneConfig {
        name: "up".into(),
        from: 0,
        to: 0,
        pipe: 1,
        passes: Vec::new(),
        gso: Gso::Split,
    };
    Packets::new(64 << 20, vec![Lane::new(lane)], None)
}

/// A frame as a port receives it.
pub(super) fn ingress(packets: &mut Packets, vnet: VnetHeader, bytes: &[u8]) -> Ingress {
    let mut buffer = packets.pool().take(HEADROOM + bytes.len());
    buffer.bytes_mut()[HEADROOM..HEADROOM + bytes.len()].copy_from_slice(bytes);
    Ingress {
        buffer,
        start: HEADROOM,
        len: bytes.len(),
        vnet: vnet.encode(),
        truncated: false,
        arrived: None,
    }
}

/// A packet to address number `n`.
pub(super) fn to_address(n: u32) -> PacketBuilder {
    PacketBuilder::udp([10, 0, 0, 1], std::net::Ipv4Addr::from(0x0a01_0000 + n), 1, 2)
}

/// Lets a train of `count` packets with ECT(0) to address number `n` arrive.
pub(super) fn train(packets: &mut Packets, n: u32, count: u16) -> Stored {
    let payload = vec![7; usize::from(count) * 100];
    let (vnet, bytes) = to_address(n).ecn(Ecn::Ect0).payload(payload).train(100);
    let frame = ingress(packets, vnet, &bytes);
    let (counted, stored) = packets.accept(Nanos::ZERO, 0, frame);
    assert_eq!(counted, count);
    stored.expect("there is room")
}

/// The ECN field of a stored frame.
pub(super) fn ecn(packets: &Packets, slot: u32) -> Ecn {
    let frame = packets.frame(slot).expect("the frame is stored");
    weir_wire::ecn(frame.bytes(), &frame.parsed.expect("its headers are complete"))
}
