//! Rewrites the DSCP field of a frame.

use crate::checksum;
use crate::header::{IpVersion, Parsed};
use crate::view::{put, u16_at};

/// Writes `dscp` (6 bits) into the IP header of `frame` and into `parsed`, and updates the checksum
/// of an IPv4 header. The ECN field is unchanged. Returns whether the frame has the code point
/// afterwards, which is false for protocols other than IP.
#[inline]
pub fn set_dscp(frame: &mut [u8], parsed: &mut Parsed, dscp: u8) -> bool {
    let at = parsed.network_offset();
    let Some(old) = u16_at(frame, at) else { return false };
    let dscp = dscp & 0x3f;
    let written = match parsed.ip {
        IpVersion::V4 => {
            let Some(check) = u16_at(frame, at + IPV4_CHECKSUM) else { return false };
            let new = (old & 0xff03) | u16::from(dscp) << 2;
            let check = checksum::update(check, old, new);
            put(frame, at, new.to_be_bytes())
                .and_then(|()| put(frame, at + IPV4_CHECKSUM, check.to_be_bytes()))
        }
        // The word begins with the version and the traffic class; the upper six bits of the traffic
        // class are the DSCP.
        IpVersion::V6 => put(frame, at, ((old & 0xf03f) | u16::from(dscp) << 6).to_be_bytes()),
        IpVersion::None => None,
    };
    if written.is_some() {
        parsed.dscp = dscp;
    }
    written.is_some()
}

/// Offset of the checksum in an IPv4 header.
const IPV4_CHECKSUM: usize = 10;
