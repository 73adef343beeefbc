//! The payload of a packet: a stamp with a check word, then a known pattern, so that a receiver
//! finds bit errors.
//!
//! ```text
//! 0      2           6                    12             16
//! | check | sequence  | time of sending    | turn-round   | pattern …
//! ```
//! The time of sending is in ns modulo 2^48 (78 hours). The receiver reads the same clock and
//! restores the upper bits. The turn-round of an echo is the time in ns from the packet's arrival
//! at the other end until the other end sends it back. A payload shorter than 16 bytes, as in an
//! IPv4 packet of 40 bytes, has no room for the turn-round. `check` is chosen so that the
//! exclusive-or of all 16-bit words of the stamp is a constant. All numbers are big-endian.

/// Bytes of the shortest stamp, and therefore of the smallest payload.
pub const LEAST: usize = 12;

/// The data in a packet's stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The packet's sequence number in its flow, from 0, modulo 2^32.
    pub sequence: u32,
    /// Time of sending, on the clock of [`crate::clock`], ns.
    pub sent_ns: u64,
    /// For an echo, the time from the packet's arrival at the other end until it was sent back, ns.
    /// 0 for other packets, and if the payload has no room for the field.
    pub turned_ns: u32,
}

/// Fills the payload after the stamp with the pattern.
pub fn fill(payload: &mut [u8]) {
    let head = head(payload.len());
    for (i, byte) in payload.iter_mut().enumerate().skip(head) {
        *byte = pattern(i);
    }
}

/// Writes the stamp at the start of a payload of at least [`LEAST`] bytes.
pub fn stamp(payload: &mut [u8], stamp: Stamp) {
    let head = head(payload.len());
    payload[..2].fill(0);
    payload[2..6].copy_from_slice(&stamp.sequence.to_be_bytes());
    payload[6..LEAST].copy_from_slice(&stamp.sent_ns.to_be_bytes()[2..]);
    if head == LONG {
        payload[LEAST..LONG].copy_from_slice(&stamp.turned_ns.to_be_bytes());
    }
    let check = CHECK ^ xor_of_words(&payload[..head]);
    payload[..2].copy_from_slice(&check.to_be_bytes());
}

/// Reads the stamp of a payload that was sent within 39 hours of `near_ns`. Returns `None` if the
/// payload is too short or its stamp is damaged.
pub fn read(payload: &[u8], near_ns: u64) -> Option<Stamp> {
    let head = payload.get(..head(payload.len())).filter(|head| xor_of_words(head) == CHECK)?;
    let word = |from: usize| {
        head.get(from..from + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    };
    let low = u64::from_be_bytes([0, 0, head[6], head[7], head[8], head[9], head[10], head[11]]);
    // How far the time of sending is after `near_ns`: the signed difference of the low 48 bits. It
    // is positive if an error in the conversion of the time of arrival exceeds the delay.
    let ahead = (low << 16).wrapping_sub(near_ns << 16).cast_signed() >> 16;
    let sent_ns = near_ns.wrapping_add_signed(ahead);
    Some(Stamp { sequence: word(2)?, sent_ns, turned_ns: word(LEAST).unwrap_or(0) })
}

/// The number of inverted bits in a payload. The count is exact in the pattern and a lower bound in
/// the stamp.
pub fn bit_errors(payload: &[u8]) -> u32 {
    let head = head(payload.len());
    let Some(stamp) = payload.get(..head) else {
        return 0;
    };
    let body = payload.iter().enumerate().skip(head).map(|(i, &b)| (b ^ pattern(i)).count_ones());
    (xor_of_words(stamp) ^ CHECK).count_ones() + body.sum::<u32>()
}

/// Bytes of the stamp in a payload of `payload_len` bytes.
fn head(payload_len: usize) -> usize {
    if payload_len < LONG { LEAST } else { LONG }
}

/// The byte of the pattern at offset `i`. Neighbouring bytes differ, so that a shifted payload is
/// also detected.
fn pattern(i: usize) -> u8 {
    (i as u8).wrapping_mul(167).wrapping_add((i >> 8) as u8)
}

fn xor_of_words(bytes: &[u8]) -> u16 {
    bytes.chunks_exact(2).fold(0, |x, w| x ^ u16::from_be_bytes([w[0], w[1]]))
}

/// Bytes of a stamp that includes the turn-round.
pub(crate) const LONG: usize = 16;
/// The exclusive-or of the 16-bit words of an undamaged stamp. Packets of other programs rarely
/// have this value.
const CHECK: u16 = 0xc0de;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_123_456_789;

    fn packet(len: usize) -> (Vec<u8>, Stamp) {
        let mut payload = vec![0; len];
        let s = Stamp { sequence: 0xdead_beef, sent_ns: NOW - 5_000_000, turned_ns: 999 };
        fill(&mut payload);
        stamp(&mut payload, s);
        (payload, s)
    }

    #[test]
    fn a_stamp_is_read_back() {
        let (payload, s) = packet(100);
        assert_eq!(read(&payload, NOW), Some(s));
        assert_eq!(bit_errors(&payload), 0);
        assert_eq!(read(&payload[..15], NOW), None);
    }

    #[test]
    fn the_shortest_stamps_lack_only_the_turn_round() {
        for len in LEAST..LONG {
            let (payload, s) = packet(len);
            assert_eq!(read(&payload, NOW), Some(Stamp { turned_ns: 0, ..s }));
            assert_eq!(bit_errors(&payload), 0);
        }
        let (payload, _) = packet(LEAST);
        assert_eq!(read(&payload[..LEAST - 1], NOW), None);
    }

    #[test]
    fn a_time_of_sending_may_be_before_or_after_the_receivers_clock() {
        let (payload, s) = packet(40);
        for near in [s.sent_ns - 300, s.sent_ns, s.sent_ns + (1 << 46)] {
            assert_eq!(read(&payload, near), Some(s));
        }
    }

    #[test]
    fn every_inverted_bit_is_found() {
        let (payload, _) = packet(64);
        for bit in 0..64 * 8 {
            let mut damaged = payload.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(bit_errors(&damaged), 1, "bit {bit}");
            assert_eq!(read(&damaged, NOW).is_none(), bit < LONG * 8, "bit {bit}");
        }
    }
}
