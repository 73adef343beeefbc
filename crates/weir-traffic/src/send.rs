//! The sender: UDP packets at a rate, at a number per second, or as fast as the machine can.

use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::sys::socket::{
    ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg, setsockopt, sockopt,
};
use serde::{Deserialize, Serialize};

use crate::clock::{SECOND, now, precise_sleeps, spin_until};
use crate::payload::{STAMP, Stamp, fill, stamp};
use crate::{Context, LoadError};

/// How fast to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Network-layer bits per second.
    Bits(u64),
    /// Packets per second.
    Packets(u64),
    /// As fast as the machine can.
    Flood,
}

/// What to send.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Where to.
    pub to: SocketAddr,
    /// Network-layer bytes of each packet.
    pub size: usize,
    /// How fast.
    pub pace: Pace,
    /// Stop after this many packets.
    pub count: u64,
    /// Stop after this time, ns.
    pub span_ns: u64,
    /// Packets in one offload train (UDP GSO); 1 sends each by itself.
    pub train: usize,
    /// Wait so long before the first packet, ns.
    pub after_ns: u64,
    /// DSCP and ECN field.
    pub tos: u8,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Packets.
    pub packets: u64,
    /// Network-layer bytes.
    pub bytes: u64,
    /// From the first to after the last, ns.
    pub span_ns: u64,
    /// Calls that the kernel refused for want of a buffer; their packets were not sent again.
    pub refused: u64,
}

/// Sends what the plan says.
///
/// # Errors
/// A size that holds no stamp or that UDP does not take; a socket that cannot be made.
pub fn send(plan: &Plan) -> Result<Sent, LoadError> {
    let payload = payload_size(plan.to, plan.size)?;
    let socket = connect(plan.to)?;
    if plan.tos != 0 {
        let tos = i32::from(plan.tos);
        let set = if plan.to.is_ipv4() {
            setsockopt(&socket, sockopt::Ipv4Tos, &tos)
        } else {
            setsockopt(&socket, sockopt::Ipv6TClass, &tos)
        };
        set.when("set the ECN field")?;
    }
    precise_sleeps();
    let train = plan.train.clamp(1, MOST_TRAIN).min((MOST_DATAGRAM / payload).max(1));
    let mut batch = Batch::new(payload, train);
    let start = now() + plan.after_ns;
    spin_until(start);
    let mut sent = Sent::default();
    let mut tried = 0;
    while tried < plan.count && now() < start.saturating_add(plan.span_ns) {
        let left = plan.count - tried;
        let whole = (train as u64).min(left);
        // A train leaves when its last packet is due.
        let due = match interval(plan.pace, plan.size, tried + whole - 1) {
            None => left,
            Some(at) => {
                spin_until(start + at);
                let due = due_until(plan.pace, plan.size, now() - start)
                    .saturating_sub(tried)
                    .clamp(whole, left);
                if due == left { due } else { due - due % whole }
            }
        };
        let n = batch.send(&socket, tried, due, &mut sent)?;
        tried += n;
    }
    sent.bytes = sent.packets * plan.size as u64;
    sent.span_ns = now() - start;
    Ok(sent)
}

/// Payload bytes of a packet of `size` network-layer bytes to `to`.
///
/// # Errors
/// A size that holds no stamp or that UDP does not take.
pub fn payload_size(to: SocketAddr, size: usize) -> Result<usize, LoadError> {
    let headers = headers(to);
    let (least, most) = (headers + STAMP, headers + MOST_DATAGRAM);
    if !(least..=most).contains(&size) {
        return Err(LoadError::Size { given: size, least, most });
    }
    Ok(size - headers)
}

/// Bytes of IP and UDP header in packets to `to`.
pub fn headers(to: SocketAddr) -> usize {
    if to.is_ipv4() || to.ip().to_canonical().is_ipv4() { 28 } else { 48 }
}

/// A UDP socket with a large buffer, connected to `to`.
pub(crate) fn connect(to: SocketAddr) -> Result<UdpSocket, LoadError> {
    let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).when("make a UDP socket")?;
    // Without the privilege the usual bound applies; the sender then blocks sooner.
    if setsockopt(&socket, sockopt::SndBufForce, &BUFFER).is_err() {
        let _ = setsockopt(&socket, sockopt::SndBuf, &BUFFER);
    }
    socket.connect(to).when("connect to the receiver")?;
    Ok(socket)
}

/// When packet `n` is due, ns after the start; `None` while flooding. Exact for every `n`: no
/// interval is rounded and summed.
fn interval(pace: Pace, size: usize, n: u64) -> Option<u64> {
    let nanos = |numerator: u128, denominator: u64| {
        u64::try_from(numerator / u128::from(denominator.max(1))).unwrap_or(u64::MAX)
    };
    match pace {
        Pace::Bits(rate) => {
            Some(nanos(u128::from(n) * size as u128 * 8 * u128::from(SECOND), rate))
        }
        Pace::Packets(rate) => Some(nanos(u128::from(n) * u128::from(SECOND), rate)),
        Pace::Flood => None,
    }
}

/// How many packets are due `elapsed` ns after the start.
pub(crate) fn due_until(pace: Pace, size: usize, elapsed: u64) -> u64 {
    let (rate, unit) = match pace {
        Pace::Bits(rate) => (rate, size as u128 * 8),
        Pace::Packets(rate) => (rate, 1),
        Pace::Flood => return u64::MAX,
    };
    (u128::from(elapsed) * u128::from(rate) / (unit * u128::from(SECOND)) + 1) as u64
}

/// Buffers for one system call.
struct Batch {
    bytes: Vec<u8>,
    payload: usize,
    train: usize,
    headers: MultiHeaders<SockaddrStorage>,
}

impl Batch {
    fn new(payload: usize, train: usize) -> Self {
        let mut bytes = vec![0; payload * train * MESSAGES];
        bytes.chunks_mut(payload).for_each(fill);
        let space = (train > 1).then(|| nix::cmsg_space!(u16));
        Self { bytes, payload, train, headers: MultiHeaders::preallocate(MESSAGES, space) }
    }

    /// Sends up to `due` packets numbered from `first` in one call and says how many it dealt with.
    fn send(
        &mut self,
        socket: &UdpSocket,
        first: u64,
        due: u64,
        sent: &mut Sent,
    ) -> Result<u64, LoadError> {
        let packets = due.min((self.train * MESSAGES) as u64) as usize;
        let bytes = &mut self.bytes[..packets * self.payload];
        let sent_ns = now();
        for (i, payload) in bytes.chunks_mut(self.payload).enumerate() {
            stamp(payload, Stamp { sequence: (first + i as u64) as u32, sent_ns });
        }
        let slices: Vec<[IoSlice<'_>; 1]> =
            bytes.chunks(self.payload * self.train).map(|c| [IoSlice::new(c)]).collect();
        let segment = self.payload as u16;
        let control = [ControlMessage::UdpGsoSegments(&segment)];
        let control = if self.train > 1 { control.as_slice() } else { &[] };
        let nowhere = vec![None; slices.len()];
        match sendmmsg(
            socket.as_raw_fd(),
            &mut self.headers,
            &slices,
            nowhere.as_slice(),
            control,
            MsgFlags::empty(),
        ) {
            Ok(results) => {
                let messages = results.count();
                let done = (messages * self.train).min(packets) as u64;
                sent.packets += done;
                Ok(done)
            }
            // The news that nobody listens, from an earlier packet; this call sent nothing, and its
            // packets are still to go.
            Err(nix::errno::Errno::ECONNREFUSED) => Ok(0),
            Err(nix::errno::Errno::ENOBUFS | nix::errno::Errno::EAGAIN) => {
                sent.refused += 1;
                Ok(packets as u64)
            }
            Err(e) => Err(e).when("send"),
        }
    }
}

/// Messages in one system call.
const MESSAGES: usize = 32;
/// Most segments that the kernel takes in one train.
const MOST_TRAIN: usize = 64;
/// Largest UDP payload over IPv4.
const MOST_DATAGRAM: usize = 65_507;
/// Socket buffer: the sender is to be limited by the link, not by this.
const BUFFER: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_due_at_exact_times() {
        let pace = Pace::Bits(10_000_000);
        assert_eq!(interval(pace, 1500, 1), Some(1_200_000));
        assert_eq!(interval(pace, 1500, 1_000_000), Some(1_200_000_000_000));
        assert_eq!(interval(Pace::Packets(3), 1500, 3), Some(SECOND));
        assert_eq!(interval(Pace::Flood, 1500, 3), None);
    }

    #[test]
    fn what_is_due_agrees_with_when_it_is_due() {
        for pace in [Pace::Bits(9_999_991), Pace::Packets(7)] {
            for n in 1..200 {
                let at = interval(pace, 1337, n).unwrap();
                assert!(
                    due_until(pace, 1337, at + 1) == n + 1 && due_until(pace, 1337, at - 1) == n,
                    "{pace:?} {n}"
                );
            }
        }
    }

    #[test]
    fn sizes_include_the_headers() {
        let v4: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let v6: SocketAddr = "[::1]:9".parse().unwrap();
        assert_eq!(payload_size(v4, 1500).unwrap(), 1472);
        assert_eq!(payload_size(v6, 1500).unwrap(), 1452);
        assert!(payload_size(v4, 43).is_err() && payload_size(v4, 70_000).is_err());
    }
}
