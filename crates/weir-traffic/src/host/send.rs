//! The sending end: datagrams of all flows from this host, each at the moment at which the
//! scenario's source sends it.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddrV4, UdpSocket};

use nix::sys::socket::{setsockopt, sockopt};
use weir_linux::clock;
use weir_linux::sys::thread::Policy;

use super::datagram::{HEADERS, LEAST, Stamp};
use super::order::EndReport;
use super::pace::{exact_sleeps, spin_until, wait_until};
use super::schedule::{Departure, Schedule};
use super::span::Span;

/// A socket that datagrams of one flow are sent from.
#[derive(Debug)]
pub(crate) struct Outlet {
    socket: UdpSocket,
    report: EndReport,
    sequence: u32,
    /// Datagrams that the kernel did not take, and why it last refused one.
    refused: u64,
    cause: Option<io::Error>,
}

impl Outlet {
    /// A new one from one address to another.
    pub(crate) fn connect(
        flow: u32,
        from: SocketAddrV4,
        to: SocketAddrV4,
        tos: u8,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind(from)?;
        // Without the privilege the usual bound applies; the sender then waits sooner.
        if setsockopt(&socket, sockopt::SndBufForce, &BUFFER).is_err() {
            let _ = setsockopt(&socket, sockopt::SndBuf, &BUFFER);
        }
        if tos != 0 {
            setsockopt(&socket, sockopt::Ipv4Tos, &i32::from(tos))?;
        }
        socket.connect(to)?;
        Ok(Self {
            socket,
            report: EndReport { flow, ..EndReport::default() },
            sequence: 0,
            refused: 0,
            cause: None,
        })
    }

    /// Another handle on its socket.
    pub(crate) fn socket(&self) -> io::Result<UdpSocket> {
        self.socket.try_clone()
    }

    /// What was sent, and what should be known about it.
    pub(crate) fn finish(self) -> (EndReport, Option<String>) {
        let cause = self.cause.map(|error| error.to_string()).unwrap_or_default();
        let note = (self.refused > 0)
            .then(|| format!("{} datagrams could not be sent: {cause}", self.refused));
        (self.report, note)
    }

    fn send(&mut self, len: u32, span: &Span, buffer: &mut Vec<u8>) {
        let payload = (len.saturating_sub(HEADERS) as usize).max(LEAST);
        buffer.resize(payload, 0);
        let sent_ns = clock::now().0;
        Stamp { sequence: self.sequence, sent_ns, turned_ns: 0 }.write(buffer);
        let mut result = self.socket.send(buffer);
        // The news that an earlier datagram was not wanted; this one has not been sent yet.
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            result = self.socket.send(buffer);
        }
        self.sequence = self.sequence.wrapping_add(1);
        match result {
            Ok(_) => {
                let len = payload as u64 + u64::from(HEADERS);
                let point = span.point(&mut self.report.series, sent_ns);
                point.packets += 1;
                point.bytes += len;
                if span.measured(sent_ns) {
                    self.report.sent += 1;
                    self.report.sent_bytes += len;
                }
            }
            Err(error) => {
                self.refused += 1;
                self.cause = Some(error);
            }
        }
    }
}

/// Sends what the schedule says, until the end.
pub(crate) fn send(outlets: &mut [Outlet], mut schedule: Schedule, span: &Span, realtime: bool) {
    exact_sleeps();
    // The links' thread has it too; without it a packet waits for others' time slices before it is
    // even sent.
    let mut usual =
        Policy::current().ok().filter(|_| realtime && Policy::realtime(PRIORITY).apply().is_ok());
    let mut buffer = Vec::new();
    let places: BTreeMap<u32, usize> =
        outlets.iter().enumerate().map(|(place, outlet)| (outlet.report.flow, place)).collect();
    while let Some(Departure { at, flow, len }) = schedule.next() {
        if at >= span.duration {
            break;
        }
        let due = span.start.saturating_add(at);
        spin_until(due);
        if clock::now().0.saturating_sub(due) > OVERLOADED_NS
            && let Some(usual) = usual.take()
        {
            // More is to be sent than can be: others must not starve for it.
            let _ = usual.apply();
        }
        if let Some(&place) = places.get(&flow) {
            outlets[place].send(len, span, &mut buffer);
        }
    }
    wait_until(span.end());
}

/// The least real-time priority.
const PRIORITY: i32 = 1;
/// Who is so late does not keep up.
const OVERLOADED_NS: u64 = 20_000_000;
/// Socket buffer: the sender is to be limited by the link, not by this.
const BUFFER: usize = 4 << 20;
