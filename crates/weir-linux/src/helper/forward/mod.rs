//! The process that forwards connections and datagrams. It serves published ports, which lead from
//! the machine to a server behind the link. At the machine's end of the link, it also forwards the
//! program's DNS queries to the machine's loopback resolver.
//!
//! The process runs in the network namespace from which the destinations are reached. The sockets
//! that accept clients may belong to another namespace. The main process opens these sockets, so a
//! port that is in use is an error before any program starts.
//!
//! A forwarded connection consists of two TCP connections. One leads from the client to this
//! process. The other leads from this process to the destination; it belongs to the namespace of
//! this process and uses the congestion control of that namespace.
//!
//! The process forwards at most half of [`LIMIT`](super::limit::LIMIT) connections, and serves at
//! most as many clients that send datagrams. Both limits are smaller if the process may open fewer
//! descriptors. Above the limit, the process resets new connections, and a new client that sends
//! datagrams replaces the client that has been silent the longest. The process forgets a client
//! that neither sends nor receives datagrams for a minute.

mod datagrams;
mod entrance;
mod poll;
mod streams;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use serde::{Deserialize, Serialize};

use self::datagrams::Datagrams;
pub(crate) use self::entrance::{Entrance, Kind};
use self::poll::Poll;
use self::streams::Streams;
use super::limit::{RESERVED, raise_descriptor_limit};
use super::role::{Role, command, ignore_signals};
use crate::netns::NetNs;
use crate::process::{receive, send};
use crate::sys::process::{drop_own_capabilities, inherited_descriptor, keep_open};

/// An [`Entrance`] in the message that starts the forwarder.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    /// The number of the descriptor that the forwarder inherits.
    socket: RawFd,
    kind: Kind,
    targets: Vec<SocketAddr>,
    only_client: Option<IpAddr>,
}

/// The forwarder process, as the main process sees it. Dropping it closes the entrances.
#[derive(Debug)]
pub(crate) struct Forward {
    child: Child,
    /// The process ends when this socket closes.
    lifeline: Option<UnixStream>,
}

impl Forward {
    /// Starts the forwarder in `netns`.
    pub(crate) fn start(entrances: &[Entrance], netns: &NetNs) -> io::Result<Forward> {
        let (lifeline, helper_end) = UnixStream::pair()?;
        let mut command = command(Role::Forward, helper_end.as_raw_fd());
        let entries: Vec<Entry> = entrances
            .iter()
            .map(|entrance| Entry {
                socket: entrance.socket.as_raw_fd(),
                kind: entrance.kind,
                targets: entrance.targets.clone(),
                only_client: entrance.only_client,
            })
            .collect();
        for entry in &entries {
            keep_open(&mut command, entry.socket);
        }
        // A separate process group, because ^C is meant for the user's program.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .current_dir("/");
        let child = netns.enter(|| command.spawn())?;
        drop(helper_end);
        let forward = Forward { child, lifeline: Some(lifeline) };
        if let Some(lifeline) = &forward.lifeline {
            send(lifeline, &entries)?;
        }
        Ok(forward)
    }
}

impl Drop for Forward {
    /// Gives the forwarder a moment to forward pending data, and waits for it to end.
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.child.wait();
    }
}

/// Runs as the forwarder until the main process has ended.
pub(super) fn run(socket: OwnedFd) -> ExitCode {
    ignore_signals();
    let _ = rustix::thread::set_name(c"weir-forward");
    let lifeline = UnixStream::from(socket);
    let work = || {
        let entries: Vec<Entry> = receive(&lifeline)?;
        let entrances = entries.into_iter().map(|entry| {
            Ok(Entrance {
                socket: inherited_descriptor(entry.socket)?,
                kind: entry.kind,
                targets: entry.targets,
                only_client: entry.only_client,
            })
        });
        let entrances = entrances.collect::<io::Result<Vec<_>>>()?;
        drop_own_capabilities()?;
        Forwarder::new(entrances, lifeline.try_clone()?.into())?.serve()
    };
    if work().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Forwarder {
    /// The entrances by index; `None` after an entrance was closed.
    entrances: Vec<Option<Entrance>>,
    /// The socket to the main process. It becomes readable when the main process closes it or ends.
    lifeline: OwnedFd,
    poll: Poll,
    streams: Streams,
    datagrams: Datagrams,
    /// The end of the drain time, which starts when `lifeline` becomes readable.
    until: Option<Instant>,
}

impl Forwarder {
    fn new(entrances: Vec<Entrance>, lifeline: OwnedFd) -> io::Result<Forwarder> {
        let limit = raise_descriptor_limit(RESERVED + entrances.len()) / 2;
        let poll = Poll::new(FIRST_ENTRANCE + entrances.len() as u64)?;
        poll.watch(&lifeline, LIFELINE, EventFlags::IN)?;
        for (token, entrance) in (FIRST_ENTRANCE..).zip(&entrances) {
            poll.watch(&entrance.socket, token, EventFlags::IN)?;
        }
        let entrances = entrances.into_iter().map(Some).collect();
        let (streams, datagrams) = (Streams::new(limit.max(1)), Datagrams::new(limit.max(1)));
        Ok(Forwarder { entrances, lifeline, poll, streams, datagrams, until: None })
    }

    fn serve(mut self) -> io::Result<()> {
        while !self.step(None)? {}
        Ok(())
    }

    /// Waits for events, at most for `longest` if given, and handles them. Returns whether the
    /// forwarder's work is over.
    fn step(&mut self, longest: Option<Duration>) -> io::Result<bool> {
        let wait = if self.streams.is_busy() {
            Some(Duration::ZERO)
        } else if self.until.is_some() {
            Some(QUIET)
        } else if self.datagrams.count() > 0 {
            Some(longest.unwrap_or(SWEEP))
        } else {
            longest
        };
        let events = self.poll.wait(wait)?;
        let now = Instant::now();
        let is_quiet = events.is_empty() && !self.streams.is_busy();
        if self.until.is_some_and(|until| now > until || is_quiet) {
            return Ok(true);
        }
        for (token, flags) in events {
            match token {
                LIFELINE => {
                    self.close_entrances()?;
                    self.until = Some(now + DRAIN_TIME);
                }
                token if token < self.poll.first() => self.enter(token, now),
                token => {
                    if !self.streams.advance(token, flags, &mut self.poll) {
                        self.datagrams.answer(token, &self.entrances, &self.poll, now);
                    }
                }
            }
        }
        self.streams.continue_busy();
        self.datagrams.forget_silent(now);
        Ok(false)
    }

    /// Accepts clients of the entrance with this token, or forwards their datagrams.
    fn enter(&mut self, token: u64, now: Instant) {
        let index = usize::try_from(token - FIRST_ENTRANCE).unwrap_or(usize::MAX);
        let Some(Some(entrance)) = self.entrances.get(index) else { return };
        match entrance.kind {
            Kind::Stream => self.streams.accept(entrance, &mut self.poll),
            Kind::Datagrams => self.datagrams.take(index, entrance, &mut self.poll, now),
        }
    }

    /// Stops accepting clients. The sockets for datagrams stay open, because answers leave through
    /// them.
    fn close_entrances(&mut self) -> io::Result<()> {
        self.poll.forget(&self.lifeline)?;
        for entrance in &mut self.entrances {
            if let Some(open) = entrance.take_if(|open| open.kind == Kind::Stream) {
                drop(open);
            } else if let Some(open) = entrance {
                self.poll.forget(&open.socket)?;
            }
        }
        Ok(())
    }
}

/// The longest time for which the forwarder forwards data after the end of the session.
const DRAIN_TIME: Duration = Duration::from_secs(1);
/// After the end of the session, a pause of this length means that no more data will arrive.
const QUIET: Duration = Duration::from_millis(20);
/// Interval between two checks for silent clients.
const SWEEP: Duration = Duration::from_secs(5);

/// The tokens of the lifeline and of the first entrance, in the events of [`Poll`].
const LIFELINE: u64 = 0;
const FIRST_ENTRANCE: u64 = 1;

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    /// Runs steps of the loop until a condition holds. Panics if it does not hold after 500 steps.
    fn until(forwarder: &mut Forwarder, mut holds: impl FnMut(&Forwarder) -> bool) {
        for _ in 0..500 {
            if holds(forwarder) {
                return;
            }
            assert!(forwarder.step(Some(Duration::from_millis(10))).is_ok_and(|over| !over));
        }
        panic!("the condition does not hold after 500 steps");
    }

    /// A forwarder with one entrance at a loopback address, and the main process's socket.
    fn forwarder(
        socket: OwnedFd,
        kind: Kind,
        targets: Vec<SocketAddr>,
        only_client: Option<IpAddr>,
    ) -> (Forwarder, UnixStream) {
        let (lifeline, theirs) = UnixStream::pair().unwrap();
        let entrance = Entrance { socket, kind, targets, only_client };
        (Forwarder::new(vec![entrance], theirs.into()).unwrap(), lifeline)
    }

    fn listen() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[test]
    fn a_connection_goes_to_the_first_accepting_destination_and_above_the_limit_is_reset() {
        let (entrance, address) = listen();
        let (server, open) = listen();
        let closed = listen().1;
        let (mut forwarder, _lifeline) =
            forwarder(entrance.into(), Kind::Stream, vec![closed, open], None);
        forwarder.streams.set_limit(1);
        let mut first = TcpStream::connect(address).unwrap();
        first.write_all(b"question").unwrap();
        let mut accepted = None;
        until(&mut forwarder, |_| {
            accepted = accepted.take().or_else(|| server.accept().ok());
            accepted.is_some()
        });
        let (mut inner, _) = accepted.unwrap();
        inner.set_nonblocking(true).unwrap();
        let mut received = Vec::new();
        until(&mut forwarder, |_| {
            let mut buffer = [0; 8];
            let length = inner.read(&mut buffer).unwrap_or(0);
            received.extend_from_slice(&buffer[..length]);
            received == b"question"
        });
        inner.write_all(b"answer").unwrap();
        first.set_nonblocking(true).unwrap();
        received.clear();
        until(&mut forwarder, |_| {
            let mut buffer = [0; 8];
            let length = first.read(&mut buffer).unwrap_or(0);
            received.extend_from_slice(&buffer[..length]);
            received == b"answer"
        });
        let mut second = TcpStream::connect(address).unwrap();
        second.set_nonblocking(true).unwrap();
        until(&mut forwarder, |_| {
            second.read(&mut [0; 1]).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionReset)
        });
    }

    #[test]
    fn a_client_that_is_not_permitted_is_reset() {
        let (entrance, address) = listen();
        let (_server, open) = listen();
        let only_client = Some("127.0.0.2".parse().unwrap());
        let (mut forwarder, _lifeline) =
            forwarder(entrance.into(), Kind::Stream, vec![open], only_client);
        let mut client = TcpStream::connect(address).unwrap();
        client.set_nonblocking(true).unwrap();
        until(&mut forwarder, |_| {
            client.read(&mut [0; 1]).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionReset)
        });
    }

    #[test]
    fn clients_of_datagrams_get_their_answers_and_the_longest_silent_client_makes_room() {
        let entrance = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = entrance.local_addr().unwrap();
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let targets = vec![server.local_addr().unwrap()];
        let (mut forwarder, lifeline) = forwarder(entrance.into(), Kind::Datagrams, targets, None);
        forwarder.datagrams.set_limit(2);
        for text in [&b"one"[..], b"two", b"three"] {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.set_nonblocking(true).unwrap();
            client.send_to(text, address).unwrap();
            let mut buffer = [0; 99];
            until(&mut forwarder, |_| {
                server
                    .recv_from(&mut buffer)
                    .is_ok_and(|(length, from)| server.send_to(&buffer[..length], from).is_ok())
            });
            let mut received = [0; 99];
            until(&mut forwarder, |_| {
                client.recv(&mut received).is_ok_and(|length| &received[..length] == text)
            });
            assert!(forwarder.datagrams.count() <= 2);
        }
        drop(lifeline);
        let over = (0..100).any(|_| forwarder.step(None).unwrap());
        assert!(over, "the forwarder ends soon after the main process");
    }

    #[test]
    fn a_datagram_that_follows_a_refused_one_goes_to_the_next_destination() {
        let entrance = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = entrance.local_addr().unwrap();
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let targets = vec![nobody, server.local_addr().unwrap()];
        let (mut forwarder, _lifeline) = forwarder(entrance.into(), Kind::Datagrams, targets, None);
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        // Both wait at the entrance before the forwarder reads them.
        client.send_to(b"refused", address).unwrap();
        client.send_to(b"second", address).unwrap();
        let mut buffer = [0; 99];
        until(&mut forwarder, |_| server.recv(&mut buffer).is_ok_and(|length| length == 6));
        assert_eq!(&buffer[..6], b"second");
    }
}
