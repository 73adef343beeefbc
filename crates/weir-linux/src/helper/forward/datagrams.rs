//! The clients of the forwarder that send datagrams. Each client has its own socket towards its
//! destination, so that answers can be assigned to the client.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::net::{RecvFlags, SendFlags};

use super::entrance::Entrance;
use super::poll::Poll;

/// All clients.
pub(super) struct Datagrams {
    clients: HashMap<u64, Client>,
    /// The number of each client, by its entrance and address.
    numbers: HashMap<(usize, SocketAddr), u64>,
    buffer: Vec<u8>,
    /// Maximum number of clients.
    limit: usize,
    /// The time of the last search for silent clients.
    swept: Option<Instant>,
}

/// A client, with its socket towards the destination.
struct Client {
    /// The index of the client's entrance.
    entrance: usize,
    address: SocketAddr,
    socket: OwnedFd,
    /// The number of refusals. Each refusal moves the client to the next destination of its
    /// entrance, and from the last destination to the first.
    refused: usize,
    /// The time of the last datagram in either direction.
    last: Instant,
}

impl Datagrams {
    /// An empty set of at most `limit` clients.
    pub(super) fn new(limit: usize) -> Datagrams {
        let (clients, numbers) = (HashMap::new(), HashMap::new());
        Datagrams { clients, numbers, buffer: vec![0; LARGEST], limit, swept: None }
    }

    pub(super) fn count(&self) -> usize {
        self.clients.len()
    }

    #[cfg(test)]
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Forwards datagrams of clients, at most [`BATCH`] at a time.
    pub(super) fn take(
        &mut self,
        index: usize,
        entrance: &Entrance,
        poll: &mut Poll,
        now: Instant,
    ) {
        for _ in 0..BATCH {
            let taken =
                rustix::net::recvfrom(&entrance.socket, &mut self.buffer[..], RecvFlags::DONTWAIT);
            let Ok((length, _, from)) = taken else { return };
            let Some(from) = from.and_then(|from| SocketAddr::try_from(from).ok()) else {
                continue;
            };
            if !entrance.permits(from) {
                continue;
            }
            let Some(number) = self.client(index, from, entrance, poll, now) else { continue };
            if let Some(client) = self.clients.get_mut(&number) {
                client.last = now;
                let datagram = &self.buffer[..length.min(LARGEST)];
                let send = |client: &Client| {
                    rustix::net::send(&client.socket, datagram, SendFlags::DONTWAIT)
                };
                // The error belongs to an earlier datagram, and this one was not sent. After any
                // other error, the datagram is lost, as can happen on every path.
                if send(client) == Err(rustix::io::Errno::CONNREFUSED) {
                    client.refuse(number, entrance, poll);
                    let _ = send(client);
                }
            }
        }
    }

    /// The number of the client with this address. Adds the client if it is new; `None` if that
    /// fails.
    fn client(
        &mut self,
        index: usize,
        address: SocketAddr,
        entrance: &Entrance,
        poll: &mut Poll,
        now: Instant,
    ) -> Option<u64> {
        if let Some(&number) = self.numbers.get(&(index, address)) {
            return Some(number);
        }
        if self.clients.len() >= self.limit {
            let oldest = self.clients.iter().min_by_key(|(_, client)| client.last);
            if let Some(number) = oldest.map(|(&number, _)| number) {
                self.forget(number);
            }
        }
        let socket = connected(*entrance.targets.first()?).ok()?;
        let number = poll.number();
        poll.watch(&socket, number, EventFlags::IN).ok()?;
        let client = Client { entrance: index, address, socket, refused: 0, last: now };
        self.clients.insert(number, client);
        self.numbers.insert((index, address), number);
        Some(number)
    }

    /// Forwards answers to a client, at most [`BATCH`] at a time.
    pub(super) fn answer(
        &mut self,
        number: u64,
        entrances: &[Option<Entrance>],
        poll: &Poll,
        now: Instant,
    ) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        let Some(Some(entrance)) = entrances.get(client.entrance) else { return };
        for _ in 0..BATCH {
            match rustix::net::recv(&client.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    client.last = now;
                    let answer = &self.buffer[..length.min(LARGEST)];
                    let flags = SendFlags::DONTWAIT;
                    // A datagram may be lost, as on every path.
                    let _ = rustix::net::sendto(&entrance.socket, answer, flags, &client.address);
                }
                Err(rustix::io::Errno::CONNREFUSED) => {
                    client.refuse(number, entrance, poll);
                    return;
                }
                Err(_) => return,
            }
        }
    }

    /// Forgets clients that have been silent for too long.
    pub(super) fn forget_silent(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now.duration_since(swept) < SWEEP) {
            return;
        }
        self.swept = Some(now);
        let silent = |client: &Client| now.duration_since(client.last) >= SILENT;
        let old: Vec<u64> =
            self.clients.iter().filter(|(_, c)| silent(c)).map(|(&number, _)| number).collect();
        old.into_iter().for_each(|number| self.forget(number));
    }

    fn forget(&mut self, number: u64) {
        if let Some(client) = self.clients.remove(&number) {
            self.numbers.remove(&(client.entrance, client.address));
        }
    }
}

impl Client {
    /// Counts a refused datagram. The client's next datagram goes to the next destination.
    fn refuse(&mut self, number: u64, entrance: &Entrance, poll: &Poll) {
        self.refused += 1;
        let next = entrance.targets.get(self.refused % entrance.targets.len());
        if let Some(&target) = next
            && let Ok(socket) = connected(target)
            && poll.watch(&socket, number, EventFlags::IN).is_ok()
        {
            self.socket = socket;
        }
    }
}

/// A socket that sends to `target`.
fn connected(target: SocketAddr) -> io::Result<OwnedFd> {
    let any: SocketAddr = if target.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(target)?;
    Ok(socket.into())
}

/// The longest datagram, in bytes.
const LARGEST: usize = 65_535;
/// Maximum number of datagrams that are read from one socket before other events are handled.
const BATCH: usize = 64;
/// The interval between two searches for silent clients.
const SWEEP: Duration = Duration::from_secs(5);
/// How long a client may be silent: longer than the half minute after which the kernel's address
/// translation forgets a client that gets no answer.
const SILENT: Duration = Duration::from_secs(60);
