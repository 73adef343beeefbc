//! What a packet carries: a stamp that checks itself, then a known pattern, so that a receiver can
//! find every inverted bit.
//!
//! ```text
//! 0      2       4          8                    16
//! | check | magic | sequence | time of sending, ns | pattern …
//! ```
//! `check` makes the exclusive-or of all eight 16-bit words of the stamp equal a constant. All
//! numbers are big-endian.

/// Bytes of a stamp, and so the least payload.
pub const STAMP: usize = 16;

/// What identifies a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its number, from 0.
    pub sequence: u32,
    /// When it was sent, on the clock of [`crate::clock`].
    pub sent_ns: u64,
}

/// Fills a payload's pattern; the stamp is written by [`stamp`].
pub fn fill(payload: &mut [u8]) {
    for (i, byte) in payload.iter_mut().enumerate().skip(STAMP) {
        *byte = pattern(i);
    }
}

/// Writes the stamp at the start of a payload of at least [`STAMP`] bytes.
pub fn stamp(payload: &mut [u8], stamp: Stamp) {
    payload[..2].fill(0);
    payload[2..4].copy_from_slice(&MAGIC.to_be_bytes());
    payload[4..8].copy_from_slice(&stamp.sequence.to_be_bytes());
    payload[8..16].copy_from_slice(&stamp.sent_ns.to_be_bytes());
    let check = CHECK ^ words(&payload[..STAMP]);
    payload[..2].copy_from_slice(&check.to_be_bytes());
}

/// The stamp of a payload, or `None` when it is too short or damaged.
pub fn read(payload: &[u8]) -> Option<Stamp> {
    let head: &[u8; STAMP] = payload.first_chunk()?;
    if words(head) != CHECK || head[2..4] != MAGIC.to_be_bytes() {
        return None;
    }
    let sequence = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    let sent_ns = u64::from_be_bytes([
        head[8], head[9], head[10], head[11], head[12], head[13], head[14], head[15],
    ]);
    Some(Stamp { sequence, sent_ns })
}

/// How many bits of a payload are not as they were sent: exact in the pattern, at least this many
/// in the stamp.
pub fn bit_errors(payload: &[u8]) -> u32 {
    let Some(head) = payload.get(..STAMP) else {
        return 0;
    };
    let body = payload.iter().enumerate().skip(STAMP).map(|(i, &b)| (b ^ pattern(i)).count_ones());
    (words(head) ^ CHECK).count_ones() + body.sum::<u32>()
}

/// The pattern's byte at one place: no run of equal bytes, so that a shifted payload shows too.
fn pattern(i: usize) -> u8 {
    (i as u8).wrapping_mul(167).wrapping_add((i >> 8) as u8)
}

/// Exclusive-or of the 16-bit words.
fn words(bytes: &[u8]) -> u16 {
    bytes.chunks_exact(2).fold(0, |x, w| x ^ u16::from_be_bytes([w[0], w[1]]))
}

/// Tells our packets from others'.
const MAGIC: u16 = 0x7e1a;
/// What the words of an undamaged stamp add up to.
const CHECK: u16 = 0xc0de;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(len: usize) -> (Vec<u8>, Stamp) {
        let mut payload = vec![0; len];
        let s = Stamp { sequence: 0xdead_beef, sent_ns: 1_700_000_000_123_456_789 };
        fill(&mut payload);
        stamp(&mut payload, s);
        (payload, s)
    }

    #[test]
    fn a_stamp_is_read_back() {
        let (payload, s) = packet(100);
        assert_eq!(read(&payload), Some(s));
        assert_eq!(bit_errors(&payload), 0);
        assert_eq!(read(&payload[..15]), None);
    }

    #[test]
    fn every_inverted_bit_is_found() {
        let (payload, _) = packet(64);
        for bit in 0..64 * 8 {
            let mut damaged = payload.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(bit_errors(&damaged), 1, "bit {bit}");
            assert_eq!(read(&damaged).is_none(), bit < STAMP * 8, "bit {bit}");
        }
    }
}
