//! Sends raw frames from an interface to many destination addresses in turn, as a router in front
//! of many customers does.

use std::io::IoSlice;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, MultiHeaders, SockFlag, SockProtocol, SockType, bind,
    sendmmsg, setsockopt, socket, sockopt,
};
use weir_wire::checksum::checksum;

use crate::clock::{Pacer, SECOND, now, sleep_until};
use crate::schedule::Pace;
use crate::send::Sent;
use crate::{Context, TrafficError};

/// The frames to send.
#[derive(Clone, Debug)]
pub struct Spray {
    /// The interface that sends the frames.
    pub interface: String,
    /// Number of destination addresses, counted up from 10.2.0.0. The packets use them in turn.
    pub customers: u32,
    /// Network-layer bytes of each packet.
    pub size: usize,
    /// The rate at which packets are sent.
    pub pace: Pace,
    /// How long to send, ns.
    pub span_ns: u64,
}

/// Sends UDP packets in frames to the MAC address of a station that does not exist.
///
/// # Errors
/// The size is out of range, the interface does not exist, or the process may not send raw frames.
pub fn spray(plan: &Spray) -> Result<Sent, TrafficError> {
    let least = FRAME - ETHERNET;
    if !(least..=MOST).contains(&plan.size) {
        return Err(TrafficError::Size { given: plan.size, least, most: MOST });
    }
    let out =
        socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None::<SockProtocol>)
            .context("make a raw socket")?;
    // Without CAP_NET_ADMIN, the buffer keeps its usual size.
    let _ = setsockopt(&out, sockopt::SndBufForce, &(4 << 20));
    let address = nix::ifaddrs::getifaddrs()
        .context("list the interfaces")?
        .filter(|i| i.interface_name == plan.interface)
        .find_map(|i| i.address?.as_link_addr().copied());
    let address: LinkAddr = address.ok_or(Errno::ENODEV).context("find the interface")?;
    bind(out.as_raw_fd(), &address).context("bind to the interface")?;
    Pacer::prepare_thread();
    let gap_ns = SECOND / plan.pace.due_by(plan.size as u32, SECOND).max(1);
    let mut frames = vec![frame(plan.size); MESSAGES];
    let mut headers = MultiHeaders::<LinkAddr>::preallocate(MESSAGES, None);
    let (start, mut sent, mut next) = (now(), Sent::default(), 0u32);
    while now() < start + plan.span_ns {
        let due = plan
            .pace
            .due_by(plan.size as u32, now() - start)
            .saturating_sub(sent.packets + sent.refused)
            .min(MESSAGES as u64) as usize;
        if due == 0 {
            if gap_ns > SPARSE {
                sleep_until(now() + gap_ns / 2);
            } else {
                Pacer::DEDICATED.wait_until(now() + PAUSE);
            }
            continue;
        }
        for (n, frame) in (0u32..).zip(&mut frames[..due]) {
            set_destination(frame, (next + n) % plan.customers.max(1));
        }
        let slices: Vec<[IoSlice<'_>; 1]> =
            frames[..due].iter().map(|frame| [IoSlice::new(frame)]).collect();
        let no_addresses = vec![None; due];
        match sendmmsg(
            out.as_raw_fd(),
            &mut headers,
            &slices,
            no_addresses.as_slice(),
            [],
            MsgFlags::empty(),
        ) {
            Ok(results) => {
                let taken = results.count() as u32;
                sent.packets += u64::from(taken);
                next = (next + taken) % plan.customers.max(1);
            }
            Err(Errno::ENOBUFS | Errno::EAGAIN) => sent.refused += due as u64,
            Err(Errno::EINTR) => {}
            Err(e) => return Err(e).context("send"),
        }
    }
    sent.bytes = sent.packets * plan.size as u64;
    sent.span_ns = now() - start;
    Ok(sent)
}

/// A complete frame except for the destination IP address and the checksum of the IP header.
fn frame(size: usize) -> Vec<u8> {
    let mut frame = vec![0; ETHERNET + size];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    let ip = &mut frame[ETHERNET..];
    ip[..12].copy_from_slice(&[
        0x45,
        0,
        (size >> 8) as u8,
        size as u8,
        0,
        0,
        0x40,
        0,
        64,
        17,
        0,
        0,
    ]);
    ip[12..16].copy_from_slice(&[10, 1, 1, 1]);
    let udp_length = (size - 20) as u16;
    ip[20..24].copy_from_slice(&[0x03, 0xe8, 0x07, 0xd0]);
    ip[24..26].copy_from_slice(&udp_length.to_be_bytes());
    frame
}

fn set_destination(frame: &mut [u8], customer: u32) {
    let ip = &mut frame[ETHERNET..];
    ip[16..20].copy_from_slice(&(FIRST + customer).to_be_bytes());
    ip[10..12].fill(0);
    let check = checksum(&ip[..20]);
    ip[10..12].copy_from_slice(&check.to_be_bytes());
}

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Bytes of the smallest Ethernet frame, without its check sequence.
const FRAME: usize = 60;
/// Maximum size of a packet in bytes.
const MOST: usize = 1500;
/// The first destination address, 10.2.0.0.
const FIRST: u32 = 0x0a02_0000;
/// Frames sent by one system call.
const MESSAGES: usize = 32;
/// Time to wait while no packet is due, if the gaps are at most [`SPARSE`], ns.
const PAUSE: u64 = 5_000;
/// If the gap between packets is longer than this, the thread sleeps and does not spin, ns.
const SPARSE: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ip_stack_accepts_the_frames() {
        let mut frame = frame(64);
        set_destination(&mut frame, 258);
        let parsed = weir_wire::parse(&frame).unwrap();
        assert_eq!(weir_wire::checksum::verify_ipv4_header(&frame, &parsed), Some(true));
        let key = weir_wire::flow_key(&frame, &parsed);
        assert_eq!(
            (key.dst, key.src_port, key.dst_port, parsed.network_len),
            (0x0a02_0102, 1000, 2000, 64)
        );
    }
}
