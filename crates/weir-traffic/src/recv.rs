//! The receiver: takes packets with the kernel's receive timestamps and hands them to the
//! statistics.

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;

use crate::clock::{nanos, now};
use crate::send::headers;
use crate::stats::{Known, Receipt, Reception, reception};
use crate::{Context, LoadError, payload};

/// What to receive, and until when.
#[derive(Clone, Copy, Debug)]
pub struct Listen {
    /// Where.
    pub bind: SocketAddr,
    /// Stop after this many packets.
    pub count: u64,
    /// Stop so long after the first packet, ns.
    pub span_ns: u64,
    /// Stop when no packet came for so long after the first, ns.
    pub idle_ns: u64,
    /// Give up when no packet came at all for so long, ns.
    pub wait_ns: u64,
    /// What the statistics should know and list.
    pub known: Known,
}

/// Receives, and says what came.
///
/// # Errors
/// An address that cannot be bound; a socket that fails.
pub fn recv(listen: &Listen) -> Result<Reception, LoadError> {
    let socket = UdpSocket::bind(listen.bind).when("bind the receiving address")?;
    let (receipts, drops) = collect(&socket, listen)?;
    Ok(Reception { socket_drops: drops, ..reception(&receipts, listen.known) })
}

/// Receives on a bound socket; packets without an undamaged stamp are not ours and are passed over.
///
/// # Errors
/// A socket that fails.
pub fn collect(socket: &UdpSocket, listen: &Listen) -> Result<(Vec<Receipt>, u64), LoadError> {
    // Without the privilege the usual bound applies; what does not fit shows up as socket drops.
    if setsockopt(socket, sockopt::RcvBufForce, &BUFFER).is_err() {
        let _ = setsockopt(socket, sockopt::RcvBuf, &BUFFER);
    }
    setsockopt(socket, sockopt::ReceiveTimestampns, &true).when("ask for receive timestamps")?;
    if listen.bind.is_ipv4() {
        setsockopt(socket, sockopt::IpRecvTos, &true).when("ask for ECN fields")?;
    } else {
        setsockopt(socket, sockopt::Ipv6RecvTClass, &true).when("ask for ECN fields")?;
    }
    socket.set_read_timeout(Some(TICK)).when("set a timeout")?;
    let overhead = headers(listen.bind);
    let mut receipts = Vec::new();
    let mut buffer = vec![0; MESSAGES * LARGEST];
    let mut messages = MultiHeaders::<SockaddrStorage>::preallocate(
        MESSAGES,
        Some(nix::cmsg_space!(TimeSpec, i32)),
    );
    let begun = now();
    while (receipts.len() as u64) < listen.count.min(MOST) {
        let here = receipts.len();
        receive(socket, &mut buffer, &mut messages, overhead, &mut receipts)?;
        let Some(first) = receipts.first() else {
            if now() - begun > listen.wait_ns {
                break;
            }
            continue;
        };
        if receipts.len() - here < MESSAGES {
            // The socket is empty. Whoever waits in it makes the sender wake it for every packet,
            // which costs the sender more than the packet; the kernel notes the times of arrival,
            // so there is no hurry.
            std::thread::sleep(NAP);
        }
        let last = receipts[receipts.len() - 1].arrived_ns;
        if last.saturating_sub(first.arrived_ns) >= listen.span_ns
            || (receipts.len() == here && now() > last + listen.idle_ns)
        {
            break;
        }
    }
    Ok((receipts, socket_drops(socket)))
}

/// One system call's worth of packets.
fn receive(
    socket: &UdpSocket,
    buffer: &mut [u8],
    messages: &mut MultiHeaders<SockaddrStorage>,
    overhead: usize,
    receipts: &mut Vec<Receipt>,
) -> Result<(), LoadError> {
    let mut slices: Vec<[IoSliceMut<'_>; 1]> =
        buffer.chunks_mut(LARGEST).map(|c| [IoSliceMut::new(c)]).collect();
    let results = match recvmmsg(
        socket.as_fd().as_raw_fd(),
        messages,
        slices.iter_mut(),
        MsgFlags::MSG_WAITFORONE,
        None,
    ) {
        Ok(results) => results,
        Err(
            nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR | nix::errno::Errno::ECONNREFUSED,
        ) => return Ok(()),
        Err(e) => return Err(e).when("receive"),
    };
    for message in results {
        let (mut stamped, mut marked) = (None, false);
        for control in message.cmsgs().when("read the receive timestamp")? {
            match control {
                ControlMessageOwned::ScmTimestampns(t) => stamped = Some(nanos(t)),
                ControlMessageOwned::Ipv4Tos(tos) => marked = tos & CE == CE,
                ControlMessageOwned::Ipv6TClass(class) => marked = class as u8 & CE == CE,
                _ => {}
            }
        }
        let Some(stamp) = message.iovs().next().and_then(payload::read) else {
            continue;
        };
        let bytes = (message.bytes + overhead) as u32;
        receipts.push(Receipt {
            sequence: stamp.sequence,
            bytes,
            sent_ns: stamp.sent_ns,
            arrived_ns: stamped.unwrap_or_else(now),
            marked,
        });
    }
    Ok(())
}

/// Packets that found the socket's buffer full, from the kernel's table of sockets; 0 when that
/// cannot be read.
fn socket_drops(socket: &UdpSocket) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let fd = socket.as_raw_fd();
    let Ok(inode) = std::fs::metadata(format!("/proc/self/fd/{fd}")).map(|m| m.ino().to_string())
    else {
        return 0;
    };
    ["/proc/self/net/udp", "/proc/self/net/udp6"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .find_map(|table| drops_of(&table, &inode))
        .unwrap_or(0)
}

/// The last column of the line whose tenth column is the inode.
fn drops_of(table: &str, inode: &str) -> Option<u64> {
    table
        .lines()
        .skip(1)
        .find(|line| line.split_whitespace().nth(9) == Some(inode))?
        .split_whitespace()
        .last()?
        .parse()
        .ok()
}

/// Congestion experienced, in the ECN field.
const CE: u8 = 3;
/// Packets in one system call.
const MESSAGES: usize = 64;
/// Largest payload that is taken whole: more than a jumbo frame's.
const LARGEST: usize = 10_240;
/// Packets kept at most, to bound memory (half a gigabyte).
const MOST: u64 = 20_000_000;
/// Socket buffer: the receiver must not be what loses packets.
const BUFFER: usize = 64 << 20;
/// How long to stay away from an empty socket; its buffer holds 80 ms at a million packets a
/// second.
const NAP: Duration = Duration::from_micros(500);
/// How often to look at the clock while nothing comes.
const TICK: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;
    use crate::send::{Pace, Plan, send};

    fn over_loopback(bind: &str, train: usize) -> Reception {
        let socket = UdpSocket::bind(bind).unwrap();
        let to = socket.local_addr().unwrap();
        let known = Known { sent: Some(500), list_arrivals: true, ..Known::default() };
        let listen = Listen {
            bind: to,
            count: 500,
            span_ns: u64::MAX,
            idle_ns: SECOND,
            wait_ns: 5 * SECOND,
            known,
        };
        let plan = Plan {
            to,
            size: 300,
            pace: Pace::Packets(20_000),
            count: 500,
            span_ns: u64::MAX,
            train,
            after_ns: 0,
            tos: 0,
        };
        let sender = std::thread::spawn(move || send(&plan).unwrap());
        let (receipts, drops) = collect(&socket, &listen).unwrap();
        let sent = sender.join().unwrap();
        assert_eq!((sent.packets, sent.bytes, drops), (500, 150_000, 0));
        reception(&receipts, known)
    }

    #[test]
    fn everything_sent_over_loopback_is_received_once_and_in_order() {
        for (bind, train) in [("127.0.0.1:0", 1), ("[::1]:0", 1), ("127.0.0.1:0", 8)] {
            let r = over_loopback(bind, train);
            assert_eq!(
                (r.received, r.bytes, r.lost, r.duplicated, r.reordered),
                (500, 150_000, 0, 0, 0),
                "{bind}"
            );
            assert!(r.arrivals.iter().enumerate().all(|(i, a)| a.0 as usize == i));
            assert!(
                r.delay_ns.max < 10 * SECOND,
                "both ends must read one clock: {:?}",
                r.delay_ns
            );
        }
    }

    #[test]
    fn drops_are_read_from_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
                     1: 0100007F:1F90 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0 42\n";
        assert_eq!(drops_of(table, "4711"), Some(42));
        assert_eq!(drops_of(table, "471"), None);
    }
}
