//! Any bytes as a frame: every function on headers returns, stays within the frame, and satisfies
//! its contract.

use weir_core::packet::Ecn;
use weir_wire::{IpVersion, Parsed, checksum, ecn, flow_key, invert_bit, parse, parse_ip, set_ce};

/// Four bytes select the parameters outside the frame: the bit to invert, and the position of a
/// partial checksum. The rest is the frame.
pub fn run(data: &[u8]) {
    let Some((choice, frame)) = data.split_first_chunk::<4>() else { return };
    let number = u32::from_be_bytes(*choice);
    sums_agree(frame, number);
    for parsed in [parse(frame), parse_ip(frame)].into_iter().flatten() {
        stays_inside(frame, &parsed);
        marks(frame, &parsed);
        inverts(frame, &parsed, number);
    }
    // Headers that belong to another frame must be harmless, too.
    if let (Ok(parsed), Some(half)) = (parse(frame), frame.get(..frame.len() / 2)) {
        let mut half = half.to_vec();
        let _ = (
            flow_key(&half, &parsed),
            ecn(&half, &parsed),
            set_ce(&mut half, &parsed),
            invert_bit(&mut half, &parsed, number),
        );
        let _ = (
            checksum::verify_ipv4_header(&half, &parsed),
            checksum::verify_transport(&half, &parsed),
        );
    }
}

fn stays_inside(frame: &[u8], parsed: &Parsed) {
    assert!(parsed.network_offset() <= frame.len() && parsed.network_end() <= frame.len());
    if let Some(transport) = parsed.transport() {
        assert!(parsed.network_offset() < transport && transport <= parsed.network_end());
    }
    if let Some(payload) = parsed.payload() {
        assert!(parsed.transport().is_some_and(|t| t < payload) && payload <= parsed.network_end());
    }
    if let Some(flags) = parsed.tcp_flags() {
        assert!(flags < parsed.network_end());
    }
    let key = flow_key(frame, parsed);
    assert_eq!(key.ipv6, parsed.ip == IpVersion::V6);
    assert_eq!((key.proto, key.vlan, key.dscp), (parsed.protocol, parsed.vlan, parsed.dscp));
    let _ = checksum::verify_transport(frame, parsed);
}

fn marks(frame: &[u8], parsed: &Parsed) {
    assert_eq!(ecn(frame, parsed), parsed.ecn);
    let before = checksum::verify_ipv4_header(frame, parsed);
    let mut marked = frame.to_vec();
    let done = set_ce(&mut marked, parsed);
    assert_eq!(done, parsed.ecn != Ecn::NotEct);
    assert_eq!(ecn(&marked, parsed), if done { Ecn::Ce } else { Ecn::NotEct });
    // A header cannot consist of zeros only, because it starts with a version; so a correct
    // checksum stays correct and a wrong one stays wrong.
    assert_eq!(checksum::verify_ipv4_header(&marked, parsed), before);
    assert!(done || marked == frame);
}

fn inverts(frame: &[u8], parsed: &Parsed, bit: u32) {
    let mut copy = frame.to_vec();
    match invert_bit(&mut copy, parsed, bit) {
        Some(at) => {
            assert!((parsed.network_offset()..parsed.network_end()).contains(&at));
            assert_eq!((copy[at] ^ frame[at]).count_ones(), 1);
            assert_eq!(invert_bit(&mut copy, parsed, bit), Some(at));
        }
        None => assert_eq!(parsed.network_len, 0),
    }
    assert_eq!(copy, frame);
}

/// Compares the fast sum with its definition, and checks that a completed checksum is correct.
fn sums_agree(frame: &[u8], number: u32) {
    let mut total: u64 = frame
        .chunks(2)
        .map(|c| u64::from(c[0]) << 8 | u64::from(c.get(1).copied().unwrap_or(0)))
        .sum();
    while total > 0xffff {
        total = (total >> 16) + (total & 0xffff);
    }
    assert_eq!(u64::from(checksum::sum(frame)), total);
    let (start, offset) = ((number >> 16) as u16, number as u16);
    let mut copy = frame.to_vec();
    match checksum::complete_partial(&mut copy, start, offset) {
        Ok(()) => {
            let field = usize::from(start) + usize::from(offset);
            let seed = u16::from_be_bytes([frame[field], frame[field + 1]]);
            // The sum of the covered part and the seed is all ones if the offset of the field is
            // even.
            if offset % 2 == 0 {
                assert_eq!(checksum::add(checksum::sum(&copy[start.into()..]), seed), 0xffff);
            }
        }
        Err(_) => assert_eq!(copy, frame),
    }
}
