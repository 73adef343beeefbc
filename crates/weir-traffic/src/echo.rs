//! Measures round-trip times: one end sends stamped packets at a fixed interval, and the other end
//! sends every packet back.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Pacer, SECOND, now};
use crate::icmp;
use crate::payload::{Stamp, fill, read, stamp};
use crate::send::{Outlet, payload_size};
use crate::stats::Spread;
use crate::{Context, TrafficError};

/// The packets to send.
#[derive(Clone, Copy, Debug)]
pub struct Ping {
    /// The address of the end that sends packets back.
    pub to: SocketAddr,
    /// Network-layer bytes of each packet.
    pub size: usize,
    /// Number of packets.
    pub count: u32,
    /// Time between packets, ns. The sender does not wait for answers.
    pub interval_ns: u64,
    /// How long to wait for answers after the last packet, ns.
    pub timeout_ns: u64,
    /// Whether to send ICMP echo requests, which the kernel answers, instead of UDP packets to an
    /// echo program. ICMP works over IPv4 only and needs CAP_NET_RAW.
    pub icmp: bool,
}

/// The result of [`ping`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answers {
    /// Packets sent.
    pub sent: u64,
    /// Answers, including further answers to the same packet.
    pub received: u64,
    /// Packets that were not answered.
    pub lost: u64,
    /// Round-trip time of each answered packet, ns, as a program measures it. For a packet with
    /// several answers, the first counts.
    pub rtt_ns: Spread,
}

/// Sends packets and measures their answers.
///
/// # Errors
/// The size is too small for a stamp or too large for UDP, or the socket fails.
pub fn ping(plan: &Ping) -> Result<Answers, TrafficError> {
    let size = payload_size(plan.to, plan.size)?;
    let socket = if plan.icmp {
        icmp::connect(plan.to)?
    } else {
        Outlet::connect(None, plan.to, 0)?.socket()?
    };
    let sender = socket.try_clone().context("share the socket")?;
    let copy = *plan;
    // Finds the payload in a received packet; `None` if the packet is no answer.
    let content: fn(&[u8]) -> Option<&[u8]> =
        if plan.icmp { icmp::answer } else { |packet| Some(packet) };
    let end = now() + u64::from(plan.count) * plan.interval_ns + plan.timeout_ns;
    let sending = std::thread::spawn(move || send_all(&sender, &copy, size));
    let mut first_times = vec![None; plan.count as usize];
    let mut received = 0;
    let mut buffer = vec![0; size.max(2048) + icmp::MOST_HEADERS];
    let mut missing = plan.count;
    while missing > 0 && now() < end {
        let left = Duration::from_nanos(end.saturating_sub(now()).clamp(1000, SECOND / 5));
        socket.set_read_timeout(Some(left)).context("set a timeout")?;
        let len = match socket.recv(&mut buffer) {
            Ok(len) => len,
            // The other end does not listen yet, or no answer has arrived.
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused
                ) =>
            {
                continue;
            }
            Err(e) => return Err(e).context("receive"),
        };
        let arrived = now();
        let Some(s) = content(&buffer[..len]).and_then(|payload| read(payload, arrived)) else {
            continue;
        };
        received += 1;
        if let Some(slot @ None) = first_times.get_mut(s.sequence as usize) {
            *slot = Some(arrived.saturating_sub(s.sent_ns));
            missing -= 1;
        }
    }
    let sent = sending.join().unwrap_or(0);
    let times: Vec<u64> = first_times.into_iter().flatten().collect();
    Ok(Answers {
        sent,
        received,
        lost: sent - (times.len() as u64).min(sent),
        rtt_ns: Spread::of(times),
    })
}

/// Sends packets back to their senders until `count` packets were sent back or `span_ns` ns passed.
/// Returns the number of packets sent back.
///
/// # Errors
/// The address cannot be bound, or the socket fails.
pub fn echo(bind: SocketAddr, count: u64, span_ns: u64) -> Result<u64, TrafficError> {
    let socket = UdpSocket::bind(bind).context("bind the echo address")?;
    socket.set_read_timeout(Some(Duration::from_millis(50))).context("set a timeout")?;
    let mut buffer = vec![0; 65_536];
    let (begun, mut answered) = (now(), 0);
    while answered < count && now() - begun < span_ns {
        match socket.recv_from(&mut buffer) {
            Ok((len, from)) => {
                // If the answer cannot be sent, the other end counts it as lost.
                let _ = socket.send_to(&buffer[..len], from);
                answered += 1;
            }
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused
                ) => {}
            Err(e) => return Err(e).context("receive"),
        }
    }
    Ok(answered)
}

fn send_all(socket: &UdpSocket, plan: &Ping, size: usize) -> u64 {
    Pacer::prepare_thread();
    let header = if plan.icmp { icmp::HEADER } else { 0 };
    let mut packet = vec![0; header + size];
    fill(&mut packet[header..]);
    let start = now();
    for sequence in 0..plan.count {
        Pacer::DEDICATED.wait_until(start + u64::from(sequence) * plan.interval_ns);
        stamp(&mut packet[header..], Stamp { sequence, sent_ns: now(), turned_ns: 0 });
        if plan.icmp {
            icmp::request(&mut packet, sequence);
        }
        // A packet that cannot be sent gets no answer and counts as lost.
        let _ = socket.send(&packet);
    }
    u64::from(plan.count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ping_over_loopback_is_answered() {
        let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let echoing = std::thread::spawn(move || echo(address, 20, 20 * SECOND).unwrap());
        // The echo thread may start late. Pings are sent again until one is answered.
        let mut answers = Answers::default();
        for _ in 0..50 {
            answers = ping(&Ping {
                to: address,
                size: 100,
                count: 20,
                interval_ns: 1_000_000,
                timeout_ns: SECOND / 5,
                icmp: false,
            })
            .unwrap();
            if answers.received > 0 {
                break;
            }
        }
        assert_eq!(answers.sent, 20);
        assert!(answers.received > 0 && answers.rtt_ns.min > 0, "{answers:?}");
        drop(echoing);
    }

    #[test]
    fn unanswered_pings_are_lost() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let plan = Ping {
            to: silent.local_addr().unwrap(),
            size: 100,
            count: 3,
            interval_ns: 1000,
            timeout_ns: SECOND / 20,
            icmp: false,
        };
        let answers = ping(&plan).unwrap();
        assert_eq!((answers.sent, answers.received, answers.lost), (3, 0, 3));
    }
}
