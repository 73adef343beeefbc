//! The sending side: a thread sends the UDP packets of several outlets (sending sockets) in bursts,
//! at the times of a schedule.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg, setsockopt, sockopt,
};
use serde::{Deserialize, Serialize};
use weir_linux::sys::thread::Policy;

use crate::clock::{Pacer, SECOND, now};
use crate::payload::{LEAST, LONG, Stamp, fill, stamp};
use crate::schedule::{Even, Pace, Schedule};
use crate::span::{Point, Span};
use crate::{Context, TrafficError};

/// A flow of packets of one size to one receiver.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The receiver.
    pub to: SocketAddr,
    /// Network-layer bytes of each packet.
    pub size: usize,
    /// The rate at which packets are sent.
    pub pace: Pace,
    /// Stop after this many packets.
    pub count: u64,
    /// Stop after this time, ns.
    pub span_ns: u64,
    /// Packets in one offload train (UDP GSO); 1 sends each packet on its own.
    pub train: usize,
    /// Time to wait before the first packet, ns.
    pub after_ns: u64,
    /// DSCP and ECN field.
    pub tos: u8,
}

/// Statistics of a flow that was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Packets.
    pub packets: u64,
    /// Network-layer bytes.
    pub bytes: u64,
    /// Time from the scheduled start until the last packet was sent, ns.
    pub span_ns: u64,
    /// Packets that the kernel refused because it had no buffer. They were not sent again.
    pub refused: u64,
}

/// Sends the flow that the plan describes.
///
/// # Errors
/// The size is too small for a stamp or too large for UDP, or a socket cannot be opened or fails.
pub fn send(plan: &Plan) -> Result<Sent, TrafficError> {
    let payload_len = payload_size(plan.to, plan.size)?;
    // The packets of a train must fit into one datagram.
    let train = plan.train.clamp(1, MOST_TRAIN).min((MOST_DATAGRAM / payload_len).max(1));
    let mut outlets = [Outlet::connect(None, plan.to, plan.tos)?];
    let schedule = Even {
        pace: plan.pace,
        bytes: plan.size as u32,
        train: train as u64,
        remaining: plan.count,
        span_ns: plan.span_ns,
        next: 0,
    };
    let span = Span::open(now() + plan.after_ns);
    let sending =
        Sending { span, pacer: Pacer::DEDICATED, train, realtime: false, fails_fast: true };
    sending.run(&mut outlets, schedule);
    let span_ns = now() - span.start;
    let [outlet] = outlets;
    let out = outlet.finish();
    if let Some(source) = out.cause.filter(|error| !is_out_of_buffers(error)) {
        return Err(TrafficError::System { what: "send", source });
    }
    Ok(Sent { packets: out.packets, bytes: out.bytes, span_ns, refused: out.refused })
}

/// Payload bytes of a packet of `size` network-layer bytes to `to`.
///
/// # Errors
/// The size is too small for a stamp or too large for UDP.
pub fn payload_size(to: SocketAddr, size: usize) -> Result<usize, TrafficError> {
    let headers = headers(to);
    let (least, most) = (headers + LEAST, headers + MOST_DATAGRAM);
    if !(least..=most).contains(&size) {
        return Err(TrafficError::Size { given: size, least, most });
    }
    Ok(size - headers)
}

/// Bytes of the IP and UDP headers of packets to `to`.
pub fn headers(to: SocketAddr) -> usize {
    if to.is_ipv4() || to.ip().to_canonical().is_ipv4() { 28 } else { 48 }
}

/// The sending socket of one flow, with the statistics of what it has sent.
#[derive(Debug)]
pub struct Outlet {
    socket: UdpSocket,
    /// Bytes of the IP and UDP headers of a packet.
    headers: usize,
    /// The sequence number of the next packet.
    sequence: u64,
    sent: Departures,
}

/// The statistics of an outlet.
#[derive(Debug, Default)]
pub struct Departures {
    /// Packets in the measured part of the run.
    pub packets: u64,
    /// Network-layer bytes of these packets.
    pub bytes: u64,
    /// Packets sent before the end of the warm-up, which are not part of `packets`.
    pub early: u64,
    /// The packets and bytes that were sent in each interval of the run.
    pub series: Vec<Point>,
    /// Packets that the kernel refused. They were not sent again.
    pub refused: u64,
    /// The error of the kernel's most recent refusal.
    pub cause: Option<io::Error>,
}

impl Outlet {
    /// Opens a socket with a large buffer and the given DSCP and ECN field, binds it to `from` if
    /// given, and connects it to `to`.
    ///
    /// # Errors
    /// The kernel refuses to open, configure or connect the socket.
    pub fn connect(
        from: Option<SocketAddr>,
        to: SocketAddr,
        tos: u8,
    ) -> Result<Self, TrafficError> {
        let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(from.unwrap_or(any)).context("make a UDP socket")?;
        // Without CAP_NET_ADMIN, the kernel limits the buffer to the system's maximum. The sender
        // then blocks sooner.
        if setsockopt(&socket, sockopt::SndBufForce, &BUFFER).is_err() {
            let _ = setsockopt(&socket, sockopt::SndBuf, &BUFFER);
        }
        if tos != 0 {
            let tos = i32::from(tos);
            let set = if to.is_ipv4() {
                setsockopt(&socket, sockopt::Ipv4Tos, &tos)
            } else {
                setsockopt(&socket, sockopt::Ipv6TClass, &tos)
            };
            set.context("set the DSCP and ECN field")?;
        }
        socket.connect(to).context("connect to the receiver")?;
        Ok(Self { socket, headers: headers(to), sequence: 0, sent: Departures::default() })
    }

    /// Another handle to the socket.
    ///
    /// # Errors
    /// The process has too many open files.
    pub fn socket(&self) -> Result<UdpSocket, TrafficError> {
        self.socket.try_clone().context("share the socket")
    }

    /// Closes the socket and returns the statistics.
    pub fn finish(self) -> Departures {
        self.sent
    }

    /// Whether the kernel's most recent refusal has a reason other than a missing buffer.
    fn has_failed(&self) -> bool {
        self.sent.cause.as_ref().is_some_and(|error| !is_out_of_buffers(error))
    }

    fn count(&mut self, span: &Span, at: u64, packets: u64, bytes: u64) {
        let point = span.point(&mut self.sent.series, at);
        point.packets += packets;
        point.bytes += bytes;
        if span.is_measured(at) {
            self.sent.packets += packets;
            self.sent.bytes += bytes;
        } else if at < span.end() {
            self.sent.early += packets;
        }
    }
}

/// The settings of a sending thread.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// When sending starts, and which part of it is measured.
    pub span: Span,
    /// How the thread waits for the next burst.
    pub pacer: Pacer,
    /// Packets in one offload train (UDP GSO), 1 to 64.
    pub train: usize,
    /// Whether to ask for real-time priority, which the thread of the emulated link has too.
    /// Without it, a packet may wait until other threads have used up their time slices.
    pub realtime: bool,
    /// Whether to end at the first error other than a missing buffer.
    pub fails_fast: bool,
}

impl Sending {
    /// Sends from the outlets, on this thread, until the schedule ends or, with `fails_fast`, a
    /// socket fails. [`Outlet::finish`] returns what was sent and what the kernel refused.
    pub fn run(&self, outlets: &mut [Outlet], mut schedule: impl Schedule) {
        Pacer::prepare_thread();
        // The policy to return to if the sender is overloaded; `None` without real-time priority.
        let mut usual_policy = Policy::current()
            .ok()
            .filter(|_| self.realtime && Policy::realtime(PRIORITY).apply().is_ok());
        let mut batch = Batch::new(self.train);
        let start = self.span.start;
        self.pacer.wait_until(start);
        while let Some(burst) = schedule.next(now().saturating_sub(start)) {
            let due = start.saturating_add(burst.at);
            self.pacer.wait_until(due);
            if now().saturating_sub(due) > OVERLOADED_NS
                && let Some(policy) = usual_policy.take()
            {
                // The schedule asks for more than the machine can send. At real-time priority this
                // thread would never sleep, and other threads would not run.
                let _ = policy.apply();
            }
            let Some(outlet) = outlets.get_mut(burst.outlet) else { continue };
            let payload_len = (burst.bytes as usize).saturating_sub(outlet.headers).max(LEAST);
            let mut remaining = burst.count;
            while remaining > 0 {
                remaining -= batch.send(outlet, payload_len, remaining, &self.span);
                if self.fails_fast && outlet.has_failed() {
                    return;
                }
            }
        }
    }
}

/// Buffers for one system call.
struct Batch {
    train: usize,
    /// The size of the payloads for which `bytes` holds the pattern.
    payload_len: usize,
    bytes: Vec<u8>,
    messages: MultiHeaders<SockaddrStorage>,
}

impl Batch {
    fn new(train: usize) -> Self {
        let space = (train > 1).then(|| nix::cmsg_space!(u16));
        let messages = MultiHeaders::preallocate(MESSAGES, space);
        Self { train, payload_len: 0, bytes: Vec::new(), messages }
    }

    /// Sends up to `limit` packets in one system call. Returns how many of them need no further
    /// attempt, because they were sent or refused by the kernel.
    fn send(&mut self, outlet: &mut Outlet, payload_len: usize, limit: u64, span: &Span) -> u64 {
        let packets = limit.min((self.train * MESSAGES) as u64) as usize;
        self.fill_pattern(payload_len, packets);
        let bytes = &mut self.bytes[..packets * payload_len];
        let sent_ns = now();
        for (sequence, payload) in (outlet.sequence..).zip(bytes.chunks_mut(payload_len)) {
            stamp(payload, Stamp { sequence: sequence as u32, sent_ns, turned_ns: 0 });
        }
        let slices: Vec<[IoSlice<'_>; 1]> =
            bytes.chunks(payload_len * self.train).map(|c| [IoSlice::new(c)]).collect();
        let segment = payload_len as u16;
        let control = [ControlMessage::UdpGsoSegments(&segment)];
        let control = if self.train > 1 { control.as_slice() } else { &[] };
        let addresses = vec![None; slices.len()];
        let result = sendmmsg(
            outlet.socket.as_raw_fd(),
            &mut self.messages,
            &slices,
            addresses.as_slice(),
            control,
            MsgFlags::empty(),
        );
        let done = match result {
            Ok(results) => {
                let done = (results.count() * self.train).min(packets) as u64;
                outlet.count(span, sent_ns, done, done * (payload_len + outlet.headers) as u64);
                done
            }
            // ECONNREFUSED reports an ICMP error: the receiver refused an earlier packet, because
            // it does not listen yet. EINTR means that a signal interrupted the call. In both
            // cases this call sent nothing, and its packets must still be sent.
            Err(Errno::ECONNREFUSED | Errno::EINTR) => 0,
            Err(errno) => {
                outlet.sent.refused += packets as u64;
                outlet.sent.cause = Some(errno.into());
                packets as u64
            }
        };
        outlet.sequence += done;
        done
    }

    /// Fills the buffer with the pattern of `packets` payloads of `payload_len` bytes each.
    fn fill_pattern(&mut self, payload_len: usize, packets: usize) {
        if packets == 1 && payload_len < self.payload_len {
            // The pattern depends only on the offset in the payload, so the buffer already contains
            // the pattern of the shorter payload, except in bytes 12 to 15. These end the stamp of
            // a payload of at least 16 bytes, but belong to the pattern of a shorter payload.
            fill(&mut self.bytes[..payload_len.min(LONG)]);
            return;
        }
        if self.payload_len != payload_len {
            (self.payload_len, self.bytes) = (payload_len, Vec::new());
        }
        let filled = self.bytes.len();
        if filled < packets * payload_len {
            self.bytes.resize(packets * payload_len, 0);
            self.bytes[filled..].chunks_mut(payload_len).for_each(fill);
        }
    }
}

/// Whether the kernel had no buffer for a packet. It may have one for the next packet.
fn is_out_of_buffers(error: &io::Error) -> bool {
    [Errno::ENOBUFS, Errno::EAGAIN]
        .map(|errno| errno as i32)
        .map(Some)
        .contains(&error.raw_os_error())
}

/// Messages in one system call.
const MESSAGES: usize = 32;
/// Maximum number of packets in one train. Older kernels accept no more.
const MOST_TRAIN: usize = 64;
/// Largest UDP payload over IPv4.
const MOST_DATAGRAM: usize = 65_507;
/// Size of the socket buffer in bytes: large, so that the link and not the buffer limits the
/// sender.
const BUFFER: usize = 4 << 20;
/// The lowest real-time priority.
const PRIORITY: i32 = 1;
/// A sender that is later than this is overloaded, ns.
const OVERLOADED_NS: u64 = SECOND / 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_include_the_headers() {
        let v4: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let v6: SocketAddr = "[::1]:9".parse().unwrap();
        assert_eq!(payload_size(v4, 1500).unwrap(), 1472);
        assert_eq!(payload_size(v6, 1500).unwrap(), 1452);
        assert!(payload_size(v4, 39).is_err() && payload_size(v4, 70_000).is_err());
    }

    #[test]
    fn payloads_of_changing_sizes_keep_their_pattern() {
        let mut batch = Batch::new(1);
        for (payload_len, packets) in [(1472, 1), (12, 1), (14, 1), (300, 1), (15, 2), (40, 3)] {
            batch.fill_pattern(payload_len, packets);
            for payload in batch.bytes[..payload_len * packets].chunks_mut(payload_len) {
                stamp(payload, Stamp { sequence: 9, sent_ns: 5, turned_ns: 0 });
                assert_eq!(crate::payload::bit_errors(payload), 0, "{}", payload.len());
            }
        }
    }

    #[test]
    fn a_failing_socket_ends_the_run_only_with_fails_fast() {
        // The packets are larger than UDP permits, so the kernel refuses each of them.
        let to = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let stream = |fails_fast| {
            let mut outlets = [Outlet::connect(None, to, 0).unwrap()];
            let (bytes, remaining, span_ns) = (65_600, 5, u64::MAX);
            let even = Even { pace: Pace::Flood, bytes, train: 1, remaining, span_ns, next: 0 };
            let span = Span::open(now());
            Sending { span, pacer: Pacer::SHARED, train: 1, realtime: false, fails_fast }
                .run(&mut outlets, even);
            let [outlet] = outlets;
            outlet.finish()
        };
        let (with, without) = (stream(true), stream(false));
        assert_eq!((with.packets, without.packets, without.refused), (0, 0, 5));
        assert!(with.cause.is_some());
    }
}
