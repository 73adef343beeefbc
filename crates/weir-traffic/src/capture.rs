//! The raw receiver: it captures frames, including those that UDP would drop, and counts packets
//! with inverted bits.
//!
//! Every frame that contains an IP packet of the expected size is counted, so that damaged packets
//! are counted whichever field is damaged. A packet is damaged if its IPv4 header checksum, its
//! payload pattern, its UDP length or its UDP checksum is wrong. A partial UDP checksum counts as
//! correct: between namespaces, the kernel leaves the rest of the computation to hardware that does
//! not exist. In an IPv6 header, only version, length, next header and addresses are checked.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, setsockopt, socket,
    sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use serde::{Deserialize, Serialize};

use crate::clock::now;
use crate::payload::bit_errors;
use crate::{Context, TrafficError};

/// The packets to capture.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The interface to listen on.
    pub interface: String,
    /// Network-layer bytes of each packet of the flow.
    pub size: usize,
    /// Stop after this many packets.
    pub count: u64,
    /// Stop when no packet arrived for this time after the last one, ns.
    pub idle_ns: u64,
    /// Stop when no packet arrived at all for this time, ns.
    pub wait_ns: u64,
}

/// The packets that were captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// Packets of the expected size.
    pub packets: u64,
    /// Packets with at least one inverted bit.
    pub damaged: u64,
    /// Packets with exactly one inverted bit in the payload.
    pub single_bit: u64,
    /// Packets with more than one inverted bit in the payload.
    pub several_bits: u64,
    /// Packets with damaged headers and an undamaged payload.
    pub in_headers: u64,
}

/// Captures packets and counts the damaged ones.
///
/// # Errors
/// The process may not open raw sockets, the interface does not exist, or the socket fails.
pub fn capture(watch: &Watch) -> Result<Capture, TrafficError> {
    let index = nix::net::if_::if_nametoindex(watch.interface.as_str())
        .map_err(|_| TrafficError::NoInterface(watch.interface.clone()))?;
    let socket =
        socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)
            .context("open a raw socket")?;
    if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).is_err() {
        let _ = setsockopt(&socket, sockopt::RcvBuf, &BUFFER);
    }
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::milliseconds(20))
        .context("set a timeout")?;
    let mut seen = Capture::default();
    let mut buffer = vec![0; 65_536];
    let (start, mut last) = (now(), None);
    while seen.packets < watch.count {
        match next(&socket, &mut buffer, index as usize)? {
            Some(frame) if has_expected_size(frame, watch.size) => {
                count_packet(&frame[ETHERNET..], frame[12] == 0x86, &mut seen);
                last = Some(now());
            }
            _ => {
                let over =
                    last.map_or(now() - start > watch.wait_ns, |t| now() - t > watch.idle_ns);
                if over {
                    break;
                }
            }
        }
    }
    Ok(seen)
}

/// The next frame that arrived. `None` if no frame arrived in time, or if the frame arrived on
/// another interface.
fn next<'a>(
    socket: &OwnedFd,
    buffer: &'a mut [u8],
    index: usize,
) -> Result<Option<&'a [u8]>, TrafficError> {
    match recvfrom::<LinkAddr>(socket.as_raw_fd(), buffer) {
        Ok((len, Some(from))) if from.ifindex() == index => Ok(Some(&buffer[..len])),
        Ok(_) | Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => Ok(None),
        Err(e) => Err(e).context("receive frames"),
    }
}

/// Whether the frame contains an IP packet of `size` bytes.
fn has_expected_size(frame: &[u8], size: usize) -> bool {
    frame.len() == ETHERNET + size && matches!(frame[12..14], [0x08, 0x00] | [0x86, 0xdd])
}

/// Counts one packet. `v6` comes from the frame's type, because the first byte of the packet may be
/// damaged.
fn count_packet(packet: &[u8], v6: bool, seen: &mut Capture) {
    let headers = if v6 { 48 } else { 28 };
    if packet.len() < headers {
        return;
    }
    seen.packets += 1;
    let bits = packet.get(headers..).map_or(0, bit_errors);
    let bad_headers = !headers_are_intact(packet, headers, bits == 0);
    seen.single_bit += u64::from(bits == 1);
    seen.several_bits += u64::from(bits > 1);
    seen.in_headers += u64::from(bits == 0 && bad_headers);
    seen.damaged += u64::from(bits > 0 || bad_headers);
}

/// Whether the headers are undamaged. The UDP checksum is checked only if the payload is undamaged,
/// because it also covers the payload.
fn headers_are_intact(packet: &[u8], headers: usize, payload_is_intact: bool) -> bool {
    let (ip, udp) = packet.split_at(headers - 8);
    let length = u16::from_be_bytes([udp[4], udp[5]]);
    let ip_is_intact = if headers == 48 {
        ip[0] >> 4 == 6
            && ip[6] == UDP
            && usize::from(u16::from_be_bytes([ip[4], ip[5]])) == udp.len()
    } else {
        ip[0] == 0x45 && fold(sum(ip)) == 0xffff
    };
    ip_is_intact
        && usize::from(length) == udp.len()
        && (!payload_is_intact || checksum_is_correct(ip, udp))
}

/// Whether the UDP checksum is correct, either complete or partial.
fn checksum_is_correct(ip: &[u8], udp: &[u8]) -> bool {
    let addresses = if ip.len() == 40 { &ip[8..40] } else { &ip[12..20] };
    let pseudo = sum(addresses) + u64::from(UDP) + udp.len() as u64;
    let field = u16::from_be_bytes([udp[6], udp[7]]);
    field == fold(pseudo) || fold(pseudo + sum(udp)) == 0xffff
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.chunks(2).map(|w| u64::from(w[0]) << 8 | u64::from(*w.get(1).unwrap_or(&0))).sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Protocol number of UDP.
const UDP: u8 = 17;
/// Size of the socket buffer in bytes: large, so that the capture itself loses no packets.
const BUFFER: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{Stamp, fill, stamp};

    fn packet(v6: bool, partial: bool) -> Vec<u8> {
        let headers = if v6 { 48 } else { 28 };
        let mut p = vec![0; 120];
        fill(&mut p[headers..]);
        stamp(&mut p[headers..], Stamp { sequence: 5, sent_ns: 77, turned_ns: 0 });
        let udp_length = (120 - headers + 8) as u16;
        if v6 {
            p[..8].copy_from_slice(&[0x60, 1, 2, 3, 0, udp_length as u8, UDP, 64]);
            p[8..40].iter_mut().enumerate().for_each(|(i, b)| *b = i as u8);
        } else {
            p[..12].copy_from_slice(&[0x45, 0, 0, 120, 0x12, 0x34, 0x40, 0, 64, UDP, 0, 0]);
            p[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
            let c = !fold(sum(&p[..20]));
            p[10..12].copy_from_slice(&c.to_be_bytes());
        }
        let at = headers - 8;
        p[at..at + 6].copy_from_slice(&[0x12, 0x34, 0x56, 0x78, 0, udp_length as u8]);
        let addresses = if v6 { 8..40 } else { 12..20 };
        let pseudo = sum(&p[addresses]) + u64::from(UDP) + u64::from(udp_length);
        let c = if partial { fold(pseudo) } else { !fold(pseudo + sum(&p[at..])) };
        p[at + 6..at + 8].copy_from_slice(&c.to_be_bytes());
        p
    }

    #[test]
    fn undamaged_packets_pass_with_a_complete_or_partial_checksum() {
        for (v6, partial) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut seen = Capture::default();
            count_packet(&packet(v6, partial), v6, &mut seen);
            assert_eq!(seen, Capture { packets: 1, ..Capture::default() }, "{v6} {partial}");
        }
    }

    #[test]
    fn any_one_inverted_bit_of_an_ipv4_packet_is_found() {
        let whole = packet(false, false);
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let mut seen = Capture::default();
            count_packet(&damaged, false, &mut seen);
            assert_eq!((seen.damaged, seen.several_bits), (1, 0), "bit {bit}");
            assert_eq!(seen.single_bit == 1, bit >= 28 * 8, "bit {bit}");
        }
    }
}
