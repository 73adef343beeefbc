//! The first bytes of each datagram's payload: its number, when it was sent, and in an echo how
//! long that took to be sent back.

/// What a datagram says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Its number in its flow, modulo 2^32.
    pub(crate) sequence: u32,
    /// When it was sent, on the monotonic clock, ns.
    pub(crate) sent_ns: u64,
    /// In an echo: between arrival and sending back, ns; 0 where the datagram is too short to say.
    pub(crate) turned_ns: u32,
}

impl Stamp {
    /// Writes it into a payload of at least [`LEAST`] bytes.
    pub(crate) fn write(&self, payload: &mut [u8]) {
        payload[..4].copy_from_slice(&self.sequence.to_be_bytes());
        payload[4..LEAST].copy_from_slice(&self.sent_ns.to_be_bytes());
        if let Some(place) = payload.get_mut(LEAST..LEAST + 4) {
            place.copy_from_slice(&self.turned_ns.to_be_bytes());
        }
    }

    /// Reads one; `None` from something else.
    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        let word = |from: usize| {
            payload.get(from..from + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes)
        };
        let sent_ns = u64::from_be_bytes(payload.get(4..LEAST)?.try_into().ok()?);
        Some(Self { sequence: word(0)?, sent_ns, turned_ns: word(LEAST).unwrap_or(0) })
    }
}

/// Bytes of a payload that holds a stamp.
pub(crate) const LEAST: usize = 12;
/// Bytes of IPv4 and UDP headers.
pub(crate) const HEADERS: u32 = 28;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_come_back_and_the_shortest_lack_only_the_turn() {
        let stamp = Stamp { sequence: 7, sent_ns: 1 << 60, turned_ns: 999 };
        let mut long = [0; 40];
        stamp.write(&mut long);
        assert_eq!(Stamp::read(&long), Some(stamp));
        let mut short = [0; LEAST];
        stamp.write(&mut short);
        assert_eq!(Stamp::read(&short), Some(Stamp { turned_ns: 0, ..stamp }));
        assert_eq!(Stamp::read(&short[..LEAST - 1]), None);
    }
}
