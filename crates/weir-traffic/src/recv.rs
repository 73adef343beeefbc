//! The receiving side: UDP packets with the kernel's times of arrival.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::arrival::Arrival;
use crate::clock::{KernelTime, now};
use crate::payload::{self, Stamp};
use crate::send::headers;
use crate::stats::{Known, Reception, reception};
use crate::{Context, TrafficError};

/// The flow to receive, and when to stop.
#[derive(Clone, Copy, Debug)]
pub struct Listen {
    /// Address and port to receive on.
    pub bind: SocketAddr,
    /// Stop after this many packets.
    pub count: u64,
    /// Stop this long after the first packet, ns.
    pub span_ns: u64,
    /// Stop when no packet arrived for this time after the last one, ns.
    pub idle_ns: u64,
    /// Stop when no packet arrived at all for this time, ns.
    pub wait_ns: u64,
    /// Parameters of the statistics.
    pub known: Known,
}

/// Receives one flow and computes its statistics.
///
/// # Errors
/// The address cannot be bound, or the socket fails.
pub fn recv(listen: &Listen) -> Result<Reception, TrafficError> {
    let inlet = Inlet::bind(listen.bind)?;
    let (arrivals, drops) = collect(&inlet, listen)?;
    Ok(Reception { socket_drops: drops, ..reception(&arrivals, listen.known) })
}

/// Receives one flow. Returns its packets in order of arrival, and the number of packets dropped
/// because the socket's buffer was full.
///
/// # Errors
/// The socket fails.
pub fn collect(inlet: &Inlet, listen: &Listen) -> Result<(Vec<Arrival>, u64), TrafficError> {
    let mut arrivals = Vec::new();
    let mut receiver = Receiver::new(std::slice::from_ref(inlet));
    let begun = now();
    while (arrivals.len() as u64) < listen.count.min(MOST) {
        let before = arrivals.len();
        receiver.turn(&mut |_, datagram| arrivals.push(datagram.arrival))?;
        let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
            if now() - begun > listen.wait_ns {
                break;
            }
            continue;
        };
        if last.at_ns.saturating_sub(first.at_ns) >= listen.span_ns
            || (arrivals.len() == before && now() > last.at_ns + listen.idle_ns)
        {
            break;
        }
    }
    Ok((arrivals, inlet.drops()))
}

/// A socket that receives packets.
#[derive(Debug)]
pub struct Inlet {
    socket: UdpSocket,
    /// Bytes of the IP and UDP headers of a packet.
    headers: u8,
}

impl Inlet {
    /// Opens an inlet at an address.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(at: SocketAddr) -> Result<Self, TrafficError> {
        Self::on(UdpSocket::bind(at).context("bind the receiving address")?)
    }

    /// Makes an inlet of a bound socket.
    ///
    /// # Errors
    /// The kernel does not report times of arrival or ECN fields.
    pub fn on(socket: UdpSocket) -> Result<Self, TrafficError> {
        // Without CAP_NET_ADMIN, the system's maximum limits the buffer. Packets for which the
        // buffer has no room count as drops.
        if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).is_err() {
            let _ = setsockopt(&socket, sockopt::RcvBuf, &BUFFER);
        }
        let own = socket.local_addr().context("ask for the socket's address")?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)
            .context("ask for receive timestamps")?;
        if own.is_ipv4() {
            setsockopt(&socket, sockopt::IpRecvTos, &true).context("ask for ECN fields")?;
        } else {
            setsockopt(&socket, sockopt::Ipv6RecvTClass, &true).context("ask for ECN fields")?;
        }
        Ok(Self { socket, headers: headers(own) as u8 })
    }

    /// The number of packets dropped because the socket's buffer was full, from the kernel's table
    /// of sockets. 0 if the table of this process's namespace does not contain the socket.
    pub fn drops(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let fd = self.socket.as_raw_fd();
        let Ok(inode) =
            std::fs::metadata(format!("/proc/self/fd/{fd}")).map(|m| m.ino().to_string())
        else {
            return 0;
        };
        ["/proc/self/net/udp", "/proc/self/net/udp6"]
            .iter()
            .filter_map(|path| std::fs::read_to_string(path).ok())
            .find_map(|table| drops_of(&table, &inode))
            .unwrap_or(0)
    }
}

/// A received packet.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The sender's address.
    pub from: SocketAddr,
    /// The payload, with an undamaged stamp.
    pub payload: &'a [u8],
    /// Time of arrival and contents of the stamp.
    pub arrival: Arrival,
    socket: &'a UdpSocket,
}

impl Datagram<'_> {
    /// Sends the packet back, with the time since its arrival as the stamp's turn-round.
    pub fn send_back(&self) {
        let mut payload = self.payload.to_vec();
        let turned = now().saturating_sub(self.arrival.at_ns);
        let turned_ns = u32::try_from(turned).unwrap_or(u32::MAX);
        payload::stamp(&mut payload, Stamp { turned_ns, ..self.arrival.stamp });
        // If the echo cannot be sent, the other end counts it as lost.
        let _ = self.socket.send_to(&payload, self.from);
    }
}

/// Receives from several inlets on one thread.
#[derive(Debug)]
pub struct Receiver<'a> {
    inlets: &'a [Inlet],
    buffer: Vec<u8>,
    messages: MultiHeaders<SockaddrStorage>,
    time: KernelTime,
}

impl<'a> Receiver<'a> {
    /// A receiver for these inlets.
    pub fn new(inlets: &'a [Inlet]) -> Self {
        Self {
            inlets,
            buffer: vec![0; MESSAGES * LARGEST],
            messages: MultiHeaders::preallocate(MESSAGES, Some(nix::cmsg_space!(TimeSpec, i32))),
            time: KernelTime::current(),
        }
    }

    /// Waits up to 20 ms for packets, takes a batch from each socket that has some, and calls
    /// `take` with each packet and the index of its inlet. Packets with a missing or damaged stamp
    /// are ignored.
    ///
    /// # Errors
    /// A socket fails.
    pub fn turn(&mut self, take: &mut dyn FnMut(usize, &Datagram<'_>)) -> Result<(), TrafficError> {
        let mut fds: Vec<PollFd<'_>> =
            self.inlets.iter().map(|inlet| PollFd::new(&inlet.socket, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&TICK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(io::Error::from(errno)).context("wait for packets"),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        self.time.refresh();
        let mut is_any_full = false;
        for (place, _) in ready.iter().enumerate().filter(|(_, ready)| **ready) {
            is_any_full |= self.batch(place, take)? == MESSAGES;
        }
        if !is_any_full {
            // All sockets are empty. If the receiver waited in `poll`, the sender would have to
            // wake it for every packet, which costs the sender more than sending the packet. The
            // kernel records the times of arrival, so the receiver may read them late.
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    /// Receives packets from the inlet at index `place` with one system call. Returns their number.
    fn batch(
        &mut self,
        place: usize,
        take: &mut dyn FnMut(usize, &Datagram<'_>),
    ) -> Result<usize, TrafficError> {
        let inlet = &self.inlets[place];
        let mut slices: Vec<[IoSliceMut<'_>; 1]> =
            self.buffer.chunks_mut(LARGEST).map(|c| [IoSliceMut::new(c)]).collect();
        let results = match recvmmsg(
            inlet.socket.as_raw_fd(),
            &mut self.messages,
            slices.iter_mut(),
            MsgFlags::MSG_DONTWAIT,
            None,
        ) {
            Ok(results) => results,
            // ECONNREFUSED reports that the destination of an earlier echo no longer listens.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => return Ok(0),
            Err(e) => return Err(e).context("receive"),
        };
        let mut count = 0;
        for message in results {
            count += 1;
            let (mut at, mut marked) = (None, false);
            for control in message.cmsgs().context("read the receive timestamp")? {
                match control {
                    ControlMessageOwned::ScmTimestampns(time) => at = Some(self.time.convert(time)),
                    ControlMessageOwned::Ipv4Tos(tos) => marked = tos & CE == CE,
                    ControlMessageOwned::Ipv6TClass(class) => marked = class as u8 & CE == CE,
                    _ => {}
                }
            }
            let at_ns = at.unwrap_or_else(now);
            let (Some(payload), Some(from)) =
                (message.iovs().next(), message.address.as_ref().and_then(address))
            else {
                continue;
            };
            let Some(stamp) = payload::read(payload, at_ns) else { continue };
            let bytes = (message.bytes + usize::from(inlet.headers)) as u32;
            let arrival = Arrival { stamp, at_ns, bytes, headers: inlet.headers, marked };
            take(place, &Datagram { from, payload, arrival, socket: &inlet.socket });
        }
        Ok(count)
    }
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    match (storage.as_sockaddr_in(), storage.as_sockaddr_in6()) {
        (Some(v4), _) => Some((v4.ip(), v4.port()).into()),
        (_, Some(v6)) => Some((v6.ip(), v6.port()).into()),
        _ => None,
    }
}

/// The number of drops: the last column of the line that has `inode` in its tenth column.
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

/// The ECN field's codepoint for congestion experienced.
const CE: u8 = 3;
/// Packets received by one system call.
const MESSAGES: usize = 64;
/// Bytes of the buffer for one packet, which has room for the largest payload.
const LARGEST: usize = 65_536;
/// Maximum number of packets kept, 640 MB.
const MOST: u64 = 20_000_000;
/// Size of the socket buffer in bytes: large, so that the receiver itself loses no packets.
const BUFFER: usize = 64 << 20;
/// How long to sleep when all sockets are empty. At a million packets per second, a socket buffer
/// holds the packets of 80 ms.
const NAP: Duration = Duration::from_micros(500);
/// Interval at which the caller can check the clock while no packet arrives.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;
    use crate::schedule::Pace;
    use crate::send::{Plan, send};

    fn over_loopback(bind: &str, train: usize) -> Reception {
        let inlet = Inlet::bind(bind.parse().unwrap()).unwrap();
        let to = inlet.socket.local_addr().unwrap();
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
        let (arrivals, drops) = collect(&inlet, &listen).unwrap();
        let sent = sender.join().unwrap();
        assert_eq!((sent.packets, sent.bytes, drops), (500, 150_000, 0));
        reception(&arrivals, known)
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
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
                     uid  timeout inode ref pointer drops\n\
                     1: 0100007F:1F90 00000000:0000 07 00000000:00000000 00:00000000 00000000     \
                     0        0 4711 2 0 42\n";
        assert_eq!(drops_of(table, "4711"), Some(42));
        assert_eq!(drops_of(table, "471"), None);
    }
}
