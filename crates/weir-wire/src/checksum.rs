//! The internet checksum (RFC 1071): sums, pseudo headers, incremental updates, completion and
//! verification.
//!
//! A *sum* is a ones' complement sum of big-endian 16-bit words. A *checksum* is the complement of
//! a sum. A *seed* is the value that Linux leaves in a checksum field for later completion: the sum
//! of the pseudo header, not complemented.

use crate::header::{Fragment, IPV4_HEADER, IpVersion, Parsed, protocol};
use crate::view::{bytes, put, u16_at};

/// The sum of `data`. An odd last byte counts as the upper half of a word.
#[inline]
pub fn sum(data: &[u8]) -> u16 {
    // Ones' complement addition depends neither on the byte order (RFC 1071, section 2 B) nor on
    // the width of the words. The loop therefore adds little-endian 32-bit words into 64 bits,
    // which the compiler vectorises, and the folded result is byte-swapped.
    let mut total = 0u64;
    let (blocks, rest) = data.as_chunks::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks::<4>();
        for word in words {
            total += u64::from(u32::from_le_bytes(*word));
        }
    }
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        total += u64::from(u32::from_le_bytes(*word));
    }
    let last = match *rest {
        [a] => [a, 0, 0, 0],
        [a, b] => [a, b, 0, 0],
        [a, b, c] => [a, b, c, 0],
        _ => [0; 4],
    };
    total += u64::from(u32::from_le_bytes(last));
    fold(total).swap_bytes()
}

/// The sum of two sums. The data of the second sum must start at an even offset.
#[inline]
pub fn add(a: u16, b: u16) -> u16 {
    let (total, carry) = a.overflowing_add(b);
    total + u16::from(carry)
}

/// The checksum of `data`.
#[inline]
pub fn checksum(data: &[u8]) -> u16 {
    !sum(data)
}

/// Updates the checksum `check` after one of the 16-bit words that it covers changed from `old` to
/// `new` (RFC 1624, equation 3).
#[inline]
pub fn update(check: u16, old: u16, new: u16) -> u16 {
    !add(add(!check, !old), new)
}

/// The sum of the IPv4 pseudo header (RFC 9293, section 3.1). `len` is the length of the transport
/// layer.
#[inline]
pub fn pseudo_v4(src: [u8; 4], dst: [u8; 4], protocol: u8, len: u16) -> u16 {
    let [a, b, c, d] = src;
    let [e, f, g, h] = dst;
    let addresses = sum(&[a, b, c, d, e, f, g, h]);
    add(add(addresses, protocol.into()), len)
}

/// The sum of the IPv6 pseudo header (RFC 8200, section 8.1). `len` is the length of the transport
/// layer.
#[inline]
pub fn pseudo_v6(src: [u8; 16], dst: [u8; 16], protocol: u8, len: u32) -> u16 {
    let addresses = add(sum(&src), sum(&dst));
    add(add(addresses, protocol.into()), add((len >> 16) as u16, len as u16))
}

/// The sum of the pseudo header of `frame` for a transport layer of `len` bytes; `None` for
/// protocols other than IP.
///
/// The sum uses the addresses of the IP header. The sender's checksum covers another destination
/// address if an IPv6 routing header still names hops, or if the packet uses IPv4 source routing.
#[inline]
pub fn pseudo(frame: &[u8], parsed: &Parsed, len: u32) -> Option<u16> {
    let network = parsed.network_offset();
    match parsed.ip {
        IpVersion::V4 => Some(pseudo_v4(
            bytes(frame, network + 12)?,
            bytes(frame, network + 16)?,
            parsed.protocol,
            u16::try_from(len).ok()?,
        )),
        IpVersion::V6 => Some(pseudo_v6(
            bytes(frame, network + 8)?,
            bytes(frame, network + 24)?,
            parsed.protocol,
            len,
        )),
        IpVersion::None => None,
    }
}

/// Whether the header checksum of an IPv4 frame is correct. `None` for other protocols.
pub fn verify_ipv4_header(frame: &[u8], parsed: &Parsed) -> Option<bool> {
    let network = parsed.network_offset();
    if parsed.ip != IpVersion::V4 {
        return None;
    }
    let len = usize::from(frame.get(network)? & 15) * 4;
    let header = frame.get(network..network + len.max(IPV4_HEADER))?;
    Some(sum(header) == 0xffff)
}

/// Whether the checksum of the transport layer is correct. `None` if there is no checksum to
/// verify: fragments, incomplete headers, protocols other than TCP, UDP and ICMP, and UDP over IPv4
/// with a checksum of zero.
pub fn verify_transport(frame: &[u8], parsed: &Parsed) -> Option<bool> {
    parsed.payload()?;
    let transport = parsed.transport()?;
    let mut data = frame.get(transport..parsed.network_end())?;
    if parsed.fragment != Fragment::Whole {
        return None;
    }
    let seed = match (parsed.protocol, parsed.ip) {
        (protocol::ICMP, IpVersion::V4) => 0,
        (protocol::UDP, ip) => {
            if ip == IpVersion::V4 && u16_at(data, UDP_CHECKSUM)? == 0 {
                return None;
            }
            // The checksum covers only the bytes that UDP's own length field counts.
            let len = usize::from(u16_at(data, 4)?);
            data = data.get(..len)?;
            pseudo(frame, parsed, len as u32)?
        }
        (protocol::TCP, _) | (protocol::ICMPV6, IpVersion::V6) => {
            pseudo(frame, parsed, u32::try_from(data.len()).ok()?)?
        }
        _ => return None,
    };
    Some(add(seed, sum(data)) == 0xffff)
}

/// Completes a partial checksum: sums `frame` from `csum_start` to its end, including the seed in
/// the field at `csum_start + csum_offset`, and writes the checksum into that field.
///
/// `frame` must end where the network layer ends ([`Parsed::network_end`]), because the sum would
/// otherwise include padding.
#[inline]
pub fn complete_partial(
    frame: &mut [u8],
    csum_start: u16,
    csum_offset: u16,
) -> Result<(), PartialError> {
    let len = frame.len();
    let field = usize::from(csum_start) + usize::from(csum_offset);
    let error = PartialError { csum_start, csum_offset, len };
    if field + 2 > len {
        return Err(error);
    }
    let check = nonzero(checksum(frame.get(csum_start.into()..).ok_or(error)?));
    put(frame, field, check.to_be_bytes()).ok_or(error)
}

/// The checksum field is outside the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the checksum field is at {csum_start}+{csum_offset}, the frame has {len} bytes")]
pub struct PartialError {
    /// Offset at which the sum starts.
    pub csum_start: u16,
    /// Offset of the checksum field from `csum_start`.
    pub csum_offset: u16,
    /// Length of the frame in bytes.
    pub len: usize,
}

/// In UDP, zero means "no checksum", so a checksum of zero is replaced by 0xffff, which is
/// equivalent.
#[inline(always)]
pub(crate) fn nonzero(check: u16) -> u16 {
    if check == 0 { 0xffff } else { check }
}

/// The ones' complement sum of the four 16-bit words of `total`.
#[inline(always)]
fn fold(mut total: u64) -> u16 {
    // After four steps, no carry is left.
    total = (total & 0xffff_ffff) + (total >> 32);
    total = (total & 0xffff_ffff) + (total >> 32);
    total = (total & 0xffff) + (total >> 16);
    total = (total & 0xffff) + (total >> 16);
    total as u16
}

/// Offset of the checksum in a UDP header.
pub(crate) const UDP_CHECKSUM: usize = 6;
/// Offset of the checksum in a TCP header.
pub(crate) const TCP_CHECKSUM: usize = 16;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071_has_the_printed_sum() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(sum(&[]), 0);
        assert_eq!(sum(&[0x12]), 0x1200);
    }

    #[test]
    fn the_example_of_rfc_1624_updates_to_zero() {
        // Section 4: the older equation gives 0xffff here.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn the_largest_frame_does_not_overflow() {
        assert_eq!(sum(&[0xff; 65_575]), add(0xffff, 0xff00));
    }

    #[test]
    fn a_field_outside_the_frame_is_refused_and_nothing_written() {
        let mut frame = [1; 20];
        for (csum_start, csum_offset) in [(20, 0), (0, 19), (18, 1), (u16::MAX, u16::MAX)] {
            let expected = PartialError { csum_start, csum_offset, len: 20 };
            assert_eq!(complete_partial(&mut frame, csum_start, csum_offset), Err(expected));
        }
        assert_eq!(frame, [1; 20]);
        assert_eq!(complete_partial(&mut frame, 18, 0), Ok(()));
    }

    proptest! {
        #[test]
        fn the_sum_follows_the_definition(data: Vec<u8>) {
            let mut total: u64 = data
                .chunks(2)
                .map(|c| u64::from(c[0]) << 8 | u64::from(c.get(1).copied().unwrap_or(0)))
                .sum();
            while total > 0xffff {
                total = (total >> 16) + (total & 0xffff);
            }
            prop_assert_eq!(u64::from(sum(&data)), total);
        }

        #[test]
        fn an_update_equals_a_new_computation(
            mut words in prop::collection::vec(any::<u16>(), 2..30),
            at: prop::sample::Index,
            new: u16,
        ) {
            // The first word is not zero, because the checksum of only zeros has a special form.
            words[0] = 0x4500;
            let at = 1 + at.index(words.len() - 1);
            let all = |words: &[u16]| {
                checksum(&words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<_>>())
            };
            let (before, old) = (all(&words), words[at]);
            words[at] = new;
            prop_assert_eq!(update(before, old, new), all(&words));
        }
    }
}
