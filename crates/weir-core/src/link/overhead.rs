//! Framing overhead: the number of bytes that a packet occupies on the wire.
//!
//! A rate counts network-layer bytes (from the IP header on) unless an overhead is configured.

use crate::units::Bytes;

/// Framing around a network-layer packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// Bytes added to each packet. The number may be negative, as in `tc`'s size tables, for a rate
    /// that does not count some of the headers.
    pub per_packet: i32,
    /// Least size after the addition, in bytes.
    pub minimum: u32,
    /// Whether the result is divided into ATM cells of 48 bytes, which take 53 bytes on the wire.
    pub atm_cells: bool,
}

impl Overhead {
    /// No framing: the rate counts IP bytes.
    pub const NONE: Self = Self { per_packet: 0, minimum: 0, atm_cells: false };
    /// Only the link-layer header: the rate counts Ethernet frames without checksum, like Linux's
    /// `tbf` and `htb`.
    pub const LAYER2: Self = Self { per_packet: 14, minimum: 0, atm_cells: false };
    /// Ethernet as it occupies the medium (IEEE 802.3): header 14, checksum 4, preamble 8 and gap
    /// 12; frames of at least 64.
    pub const ETHERNET: Self = Self { per_packet: 38, minimum: 84, atm_cells: false };
    /// ADSL with PPPoE over ATM, LLC/SNAP: 40 bytes of headers and trailer, then whole cells (RFC
    /// 2684, RFC 2516).
    pub const ATM: Self = Self { per_packet: 40, minimum: 0, atm_cells: true };
    /// A DOCSIS cable modem's rate counts Ethernet frames with checksum, at least 64 bytes (DOCSIS
    /// 3.1 MULPI, 7.2.7).
    pub const DOCSIS: Self = Self { per_packet: 18, minimum: 64, atm_cells: false };
    /// PPP in HDLC-like framing: flag 1, address and control 2, protocol 2, checksum 2 (RFC 1662),
    /// without escapes.
    pub const PPP: Self = Self { per_packet: 7, minimum: 0, atm_cells: false };

    /// Bytes on the wire of `segments` packets that together have `len` network-layer bytes.
    #[inline]
    pub fn wire_bytes(&self, len: u32, segments: u16) -> Bytes {
        let segments = u64::from(segments.max(1));
        if segments == 1 {
            return Bytes(self.one(len.into()));
        }
        self.train_bytes(len, segments)
    }

    /// [`Self::wire_bytes`] of a train.
    #[inline(never)]
    fn train_bytes(&self, len: u32, segments: u64) -> Bytes {
        // In a train, every packet except the last has the same size.
        let each = u64::from(len).div_ceil(segments);
        let last = u64::from(len).saturating_sub(each * (segments - 1));
        Bytes(self.one(each) * (segments - 1) + self.one(last))
    }

    #[inline]
    fn one(&self, len: u64) -> u64 {
        let framed = len.saturating_add_signed(self.per_packet.into()).max(self.minimum.into());
        if self.atm_cells { framed.div_ceil(ATM_PAYLOAD) * ATM_CELL } else { framed }
    }
}

/// Bytes of payload in an ATM cell.
const ATM_PAYLOAD: u64 = 48;
/// Bytes of an ATM cell.
const ATM_CELL: u64 = 53;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_their_standard_sizes() {
        assert_eq!(Overhead::NONE.wire_bytes(1500, 1), Bytes(1500));
        assert_eq!(Overhead::ETHERNET.wire_bytes(1500, 1), Bytes(1538));
        assert_eq!(Overhead::ETHERNET.wire_bytes(40, 1), Bytes(84));
        assert_eq!(Overhead::ATM.wire_bytes(1500, 1), Bytes(33 * 53));
        assert_eq!(Overhead::DOCSIS.wire_bytes(40, 1), Bytes(64));
        assert_eq!(Overhead::PPP.wire_bytes(1500, 1), Bytes(1507));
    }

    #[test]
    fn a_train_costs_what_its_packets_cost() {
        assert_eq!(Overhead::ETHERNET.wire_bytes(3000, 2), Bytes(2 * 1538));
        assert_eq!(Overhead::ETHERNET.wire_bytes(1500 + 40, 2), Bytes(2 * (770 + 38)));
    }

    #[test]
    fn a_negative_overhead_stops_at_zero() {
        let overhead = Overhead { per_packet: -100, ..Overhead::NONE };
        assert_eq!(overhead.wire_bytes(40, 1), Bytes(0));
    }
}
