//! The flow key of a frame: the header fields by which masks distinguish packets.

use weir_core::key::FlowKey;

use crate::header::{IpVersion, Parsed, protocol};
use crate::view::bytes;

/// The flow key of `frame`; `parsed` are its headers.
///
/// Ports are those of TCP, UDP, UDP-Lite, SCTP and DCCP. A fragment other than the first has no
/// ports, and a layer-3 packet has no MAC addresses; these fields are then 0.
#[inline]
pub fn flow_key(frame: &[u8], parsed: &Parsed) -> FlowKey {
    let mut key = FlowKey {
        ethertype: parsed.ethertype,
        vlan: parsed.vlan,
        proto: parsed.protocol,
        dscp: parsed.dscp,
        flow_id: parsed.flow_label,
        ..FlowKey::default()
    };
    let network = parsed.network_offset();
    if network != 0
        && let Some([d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5]) = bytes::<12>(frame, 0)
    {
        key.dst_mac = u64::from_be_bytes([0, 0, d0, d1, d2, d3, d4, d5]);
        key.src_mac = u64::from_be_bytes([0, 0, s0, s1, s2, s3, s4, s5]);
    }
    match parsed.ip {
        IpVersion::V4 => {
            if let Some(addresses) = bytes::<8>(frame, network + 12).map(u64::from_be_bytes) {
                key.src = (addresses >> 32).into();
                key.dst = (addresses & 0xffff_ffff).into();
            }
        }
        IpVersion::V6 => {
            key.ipv6 = true;
            key.src = bytes(frame, network + 8).map_or(0, u128::from_be_bytes);
            key.dst = bytes(frame, network + 24).map_or(0, u128::from_be_bytes);
        }
        IpVersion::None => return key,
    }
    if has_ports(parsed.protocol)
        && let Some(at) = parsed.transport()
        && at + 4 <= parsed.network_end()
        && let Some([s0, s1, d0, d1]) = bytes(frame, at)
    {
        key.src_port = u16::from_be_bytes([s0, s1]);
        key.dst_port = u16::from_be_bytes([d0, d1]);
    }
    key
}

/// Whether the transport protocol with this number has port numbers.
#[inline(always)]
pub(crate) fn has_ports(number: u8) -> bool {
    matches!(
        number,
        protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP | protocol::DCCP
    )
}
