//! Reads the ECN field of a frame, and sets it to "congestion experienced".

use weir_core::packet::Ecn;

use crate::checksum;
use crate::header::{IpVersion, Parsed, ecn_of};
use crate::view::{bytes, put, u16_at};

/// The current ECN field of `frame` ([`Parsed::ecn`] is its value at the time of parsing).
#[inline]
pub fn ecn(frame: &[u8], parsed: &Parsed) -> Ecn {
    let Some([first, second]) = bytes(frame, parsed.network_offset()) else { return Ecn::NotEct };
    match parsed.ip {
        IpVersion::V4 => ecn_of(second),
        // The traffic class spans the first two bytes.
        IpVersion::V6 => ecn_of((first << 4) | (second >> 4)),
        IpVersion::None => Ecn::NotEct,
    }
}

/// Marks `frame` with congestion experienced, and updates the checksum of an IPv4 header. Returns
/// whether the frame is marked afterwards. The frame of a sender that does not support ECN is left
/// unchanged, because the mark would have no effect (RFC 3168, section 5).
#[inline]
pub fn set_ce(frame: &mut [u8], parsed: &Parsed) -> bool {
    match ecn(frame, parsed) {
        Ecn::NotEct => return false,
        Ecn::Ce => return true,
        Ecn::Ect0 | Ecn::Ect1 => {}
    }
    let at = parsed.network_offset();
    let Some(old) = u16_at(frame, at) else { return false };
    match parsed.ip {
        IpVersion::V4 => {
            let Some(check) = u16_at(frame, at + IPV4_CHECKSUM) else { return false };
            let new = old | 0x0003;
            let check = checksum::update(check, old, new);
            put(frame, at, new.to_be_bytes())
                .and_then(|()| put(frame, at + IPV4_CHECKSUM, check.to_be_bytes()))
                .is_some()
        }
        IpVersion::V6 => put(frame, at, (old | 0x0030).to_be_bytes()).is_some(),
        IpVersion::None => false,
    }
}

/// Offset of the checksum in an IPv4 header.
const IPV4_CHECKSUM: usize = 10;
