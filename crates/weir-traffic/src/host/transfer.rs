//! Transfers over the kernel's TCP.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, setsockopt, socket, sockopt,
};
use weir_linux::tcp;

use super::order::{EndReport, Task, Transfer};
use crate::clock::{now, sleep_until};
use crate::span::Span;

/// Sends the bytes of a transfer until all are sent or the time of the transfer ends. Reports the
/// number of retransmissions after the warm-up.
pub(crate) fn send(task: &Task, transfer: &Transfer, span: &Span) -> io::Result<Vec<EndReport>> {
    sleep_until(span.start.saturating_add(transfer.start_ns));
    let until = span.start.saturating_add(transfer.stop_ns).min(span.end());
    let mut stream = open(task, transfer)?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let chunk = vec![0; CHUNK];
    let mut remaining = transfer.bytes.unwrap_or(u64::MAX);
    // The number of retransmissions in the warm-up; `None` until the warm-up has ended.
    let mut warmup_count = None;
    while remaining > 0 && now() < until {
        if warmup_count.is_none() && now() >= span.start.saturating_add(span.warmup) {
            warmup_count = Some(tcp::retransmitted(&stream)?);
        }
        let len = usize::try_from(remaining).unwrap_or(CHUNK).min(CHUNK);
        match stream.write(&chunk[..len]) {
            Ok(count) => remaining -= count as u64,
            Err(error) if must_retry(&error) => {}
            // The receiver closes its socket at the end of the run, which may be before the sender
            // notices that the run has ended.
            Err(error) if is_closed(&error) && now() >= until => break,
            Err(error) => return Err(error),
        }
    }
    let retransmitted = after_warmup(tcp::retransmitted(&stream)?, warmup_count);
    Ok(vec![EndReport { flow: task.flow, retransmitted, ..EndReport::default() }])
}

/// The number of retransmissions after the warm-up. `warmup_count` is `None` if the transfer
/// ended within the warm-up.
fn after_warmup(retransmitted: u32, warmup_count: Option<u32>) -> u64 {
    warmup_count.map_or(0, |earlier| u64::from(retransmitted.saturating_sub(earlier)))
}

/// Connects to the receiver, with the transfer's congestion control, segment size and TOS byte.
fn open(task: &Task, transfer: &Transfer) -> io::Result<TcpStream> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::TcpCongestion, &transfer.congestion.clone().into())?;
    setsockopt(&socket, sockopt::TcpMaxSeg, &transfer.segment)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    setsockopt(&socket, sockopt::Ipv4Tos, &i32::from(transfer.tos))?;
    bind(socket.as_raw_fd(), &SockaddrIn::from(task.from))?;
    connect(socket.as_raw_fd(), &SockaddrIn::from(task.to))?;
    Ok(TcpStream::from(socket))
}

/// Sets whether the connections that this host opens negotiate ECN (RFC 3168). The setting belongs
/// to the host's network namespace.
pub(crate) fn negotiate_ecn(ecn: bool) -> io::Result<()> {
    weir_linux::netns::write_setting("ipv4/tcp_ecn", if ecn { OFFERED } else { ACCEPTED })
}

/// Opens a listening socket for transfers.
pub(crate) fn listen(at: SocketAddrV4) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Accepts the transfers of `tasks` and receives them until they are complete or the run ends.
pub(crate) fn receive_all(
    listener: &TcpListener,
    tasks: &[Task],
    span: &Span,
) -> io::Result<Vec<EndReport>> {
    thread::scope(|scope| {
        let mut threads = Vec::new();
        while threads.len() < tasks.len() && now() < span.end() {
            match listener.accept() {
                Ok((stream, SocketAddr::V4(from))) => {
                    if let Some(task) = tasks.iter().find(|task| task.from == from) {
                        threads.push(scope.spawn(move || receive(stream, task.flow, span)));
                    }
                }
                Ok(_) => {}
                Err(error) if must_retry(&error) => thread::sleep(ACCEPT_INTERVAL),
                Err(error) => return Err(error),
            }
        }
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// Receives one transfer until it is complete or the run ends.
fn receive(mut stream: TcpStream, flow: u32, span: &Span) -> io::Result<EndReport> {
    let mut report = EndReport { flow, ..EndReport::default() };
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut buffer = vec![0; CHUNK];
    while now() < span.end() {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                let at = now();
                if span.is_measured(at) {
                    report.goodput_bytes += count as u64;
                }
                if span.is_running(at) {
                    span.point(&mut report.series, at).payload += count as u64;
                }
            }
            Err(error) if must_retry(&error) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        }
    }
    Ok(report)
}

/// Whether a call failed only temporarily and must be repeated.
fn must_retry(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// Whether the other end has closed the connection.
fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Value of `tcp_ecn`: the host requests ECN for the connections that it opens, and accepts
/// requests for ECN.
const OFFERED: &str = "1";
/// Value of `tcp_ecn`: the host only accepts requests for ECN.
const ACCEPTED: &str = "2";
/// Bytes per call of `read` or `write`.
const CHUNK: usize = 256 << 10;
/// Timeout of a read or write, after which the clock is checked.
const TIMEOUT: Duration = Duration::from_millis(20);
/// Time between two checks for a new connection.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::after_warmup;

    #[test]
    fn retransmissions_in_the_warmup_are_not_reported() {
        assert_eq!(after_warmup(7, Some(3)), 4);
        assert_eq!(after_warmup(7, Some(0)), 7);
        assert_eq!(after_warmup(7, None), 0, "the transfer ended within the warm-up");
    }
}
