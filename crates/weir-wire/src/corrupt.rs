//! Bit errors in packets.

use crate::header::Parsed;

/// Inverts one bit of the network layer of `frame`. Bits are numbered from the most significant bit
/// of the first byte; `bit` is taken modulo the number of bits. Returns the offset of the changed
/// byte, or `None` if the network layer is empty.
///
/// Complete a partial checksum before calling this. A checksum that is completed afterwards covers
/// the inverted bit, so the receiver would not detect the error.
pub fn invert_bit(frame: &mut [u8], parsed: &Parsed, bit: u32) -> Option<usize> {
    let end = frame.len().min(parsed.network_end());
    let network = frame.get_mut(parsed.network_offset()..end)?;
    let bits = network.len() as u64 * 8;
    let bit = u64::from(bit).checked_rem(bits)?;
    let at = (bit / 8) as usize;
    *network.get_mut(at)? ^= 0x80 >> (bit % 8);
    Some(parsed.network_offset() + at)
}
