//! The receiving end: every datagram of all flows to this host, with the kernel's times of arrival;
//! and the echoes that come back.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_linux::clock;

use super::arrivals::{Arrival, Arrivals};
use super::datagram::{HEADERS, Stamp};
use super::order::EndReport;
use super::span::Span;

/// A socket that datagrams arrive at, and the flows that they may belong to.
#[derive(Debug)]
pub(crate) struct Inlet {
    socket: UdpSocket,
    flows: BTreeMap<SocketAddrV4, Arrivals>,
}

impl Inlet {
    /// One at an address.
    pub(crate) fn bind(at: SocketAddrV4) -> io::Result<Self> {
        Self::on(UdpSocket::bind(at)?)
    }

    /// One on a socket that there is.
    pub(crate) fn on(socket: UdpSocket) -> io::Result<Self> {
        // Without the privilege the usual bound applies; what does not fit shows as dropped by the
        // socket.
        if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).is_err() {
            let _ = setsockopt(&socket, sockopt::RcvBuf, &BUFFER);
        }
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        setsockopt(&socket, sockopt::IpRecvTos, &true)?;
        Ok(Self { socket, flows: BTreeMap::new() })
    }

    /// Expects datagrams of a flow from this address.
    pub(crate) fn expect(&mut self, from: SocketAddrV4, arrivals: Arrivals) {
        self.flows.insert(from, arrivals);
    }

    /// What arrived, and how much the socket could not hold.
    pub(crate) fn finish(self) -> (Vec<EndReport>, u64) {
        let dropped = drops(&self.socket);
        (self.flows.into_values().map(Arrivals::finish).collect(), dropped)
    }
}

/// Receives on all of them until the end of the drain.
pub(crate) fn receive(inlets: &mut [Inlet], span: &Span) -> io::Result<()> {
    let mut buffer = vec![0; MESSAGES * LARGEST];
    let mut messages =
        MultiHeaders::<SockaddrIn>::preallocate(MESSAGES, Some(nix::cmsg_space!(TimeSpec, i32)));
    while clock::now().0 < span.drained() {
        let mut fds: Vec<PollFd<'_>> =
            inlets.iter().map(|inlet| PollFd::new(&inlet.socket, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&TICK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (inlet, _) in inlets.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            while take(inlet, span, &mut buffer, &mut messages)? == MESSAGES {}
        }
        // Who waits in a socket makes the sender wake it for every datagram. The kernel notes when
        // they arrive: there is no hurry.
        std::thread::sleep(NAP);
    }
    Ok(())
}

/// One system call's worth of datagrams; gives how many.
fn take(
    inlet: &mut Inlet,
    span: &Span,
    buffer: &mut [u8],
    messages: &mut MultiHeaders<SockaddrIn>,
) -> io::Result<usize> {
    let mut slices: Vec<[IoSliceMut<'_>; 1]> =
        buffer.chunks_mut(LARGEST).map(|c| [IoSliceMut::new(c)]).collect();
    let results = match recvmmsg(
        inlet.socket.as_raw_fd(),
        messages,
        slices.iter_mut(),
        MsgFlags::MSG_DONTWAIT,
        None,
    ) {
        Ok(results) => results,
        // The last is the news that nobody listens any more.
        Err(
            nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR | nix::errno::Errno::ECONNREFUSED,
        ) => return Ok(0),
        Err(errno) => return Err(errno.into()),
    };
    let ahead = wall_clock().saturating_sub(clock::now().0);
    let mut count = 0;
    for message in results {
        count += 1;
        let (mut at, mut marked) = (None, false);
        for control in message.cmsgs()? {
            match control {
                ControlMessageOwned::ScmTimestampns(time) => {
                    at = Some(nanos(time).saturating_sub(ahead))
                }
                ControlMessageOwned::Ipv4Tos(tos) => marked = tos & CE == CE,
                _ => {}
            }
        }
        let (Some(payload), Some(from)) = (message.iovs().next(), message.address) else {
            continue;
        };
        let from = SocketAddrV4::new(from.ip(), from.port());
        let (Some(stamp), Some(flow)) = (Stamp::read(payload), inlet.flows.get_mut(&from)) else {
            continue;
        };
        let at = at.unwrap_or_else(|| clock::now().0);
        let payload_len = message.bytes as u64;
        flow.count(
            span,
            &Arrival {
                at,
                stamp,
                payload: payload_len,
                len: payload_len + u64::from(HEADERS),
                marked,
            },
        );
        if flow.echoes() {
            send_back(&inlet.socket, from, payload, &stamp, at);
        }
    }
    Ok(count)
}

fn send_back(socket: &UdpSocket, to: SocketAddrV4, payload: &[u8], stamp: &Stamp, at: u64) {
    let mut payload = payload.to_vec();
    let turned = clock::now().0.saturating_sub(at);
    Stamp { turned_ns: u32::try_from(turned).unwrap_or(u32::MAX), ..*stamp }.write(&mut payload);
    // What cannot be answered is a packet that was lost.
    let _ = socket.send_to(&payload, to);
}

/// Datagrams that found a socket's buffer full, from the kernel's table of sockets; 0 when that
/// cannot be read.
fn drops(socket: &UdpSocket) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let inode = std::fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd()))
        .map(|file| file.ino().to_string());
    let (Ok(inode), Ok(table)) = (inode, std::fs::read_to_string("/proc/self/net/udp")) else {
        return 0;
    };
    let mut lines = table.lines().skip(1);
    let line = lines.find(|line| line.split_whitespace().nth(9) == Some(&*inode));
    line.and_then(|line| line.split_whitespace().last()?.parse().ok()).unwrap_or(0)
}

/// Nanoseconds of the wall clock, which the kernel's times of arrival are on.
fn wall_clock() -> u64 {
    // It cannot be missing.
    clock_gettime(ClockId::CLOCK_REALTIME).map_or(0, nanos)
}

fn nanos(time: TimeSpec) -> u64 {
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Congestion experienced, in the ECN field.
const CE: u8 = 3;
/// Datagrams in one system call.
const MESSAGES: usize = 64;
/// Largest datagram.
const LARGEST: usize = 65_536;
/// Socket buffer: the receiver must not be what loses packets.
const BUFFER: usize = 16 << 20;
/// How long to stay away from the sockets.
const NAP: Duration = Duration::from_micros(500);
/// How often to look at the clock while nothing comes.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
