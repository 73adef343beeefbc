//! The TCP connections of the forwarder.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::entrance::Entrance;
use super::poll::Poll;
use crate::helper::relay::{Relay, SCRATCH, Turn, reset_on_close};

/// All connections.
pub(super) struct Streams {
    pending: HashMap<u64, Pending>,
    relays: HashMap<u64, Relay>,
    /// Relays that need a turn without an event: new ones, and those that used up their reads of a
    /// turn.
    busy: Vec<u64>,
    scratch: Box<[u8; SCRATCH]>,
    /// Maximum number of connections.
    limit: usize,
}

/// A client, and the connection to its destination, which is not established yet.
struct Pending {
    client: OwnedFd,
    server: OwnedFd,
    /// Destinations to try if the current one refuses.
    others: Vec<SocketAddr>,
}

impl Streams {
    /// An empty set of at most `limit` connections.
    pub(super) fn new(limit: usize) -> Streams {
        Streams {
            pending: HashMap::new(),
            relays: HashMap::new(),
            busy: Vec::new(),
            scratch: Box::new([0; SCRATCH]),
            limit,
        }
    }

    #[cfg(test)]
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Whether bytes can move without an event.
    pub(super) fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Accepts clients, at most [`BATCH`] at a time.
    pub(super) fn accept(&mut self, entrance: &Entrance, poll: &mut Poll) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        for _ in 0..BATCH {
            let Ok((client, peer)) = rustix::net::acceptfrom_with(&entrance.socket, flags) else {
                return;
            };
            let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
            let permitted = peer.is_some_and(|peer| entrance.permits(peer));
            if permitted && self.pending.len() + self.relays.len() < self.limit {
                self.connect(client, entrance.targets.clone(), poll);
            } else {
                reset_on_close(&client);
            }
        }
    }

    /// Starts the connection to the first of these destinations that does not fail at once.
    fn connect(&mut self, client: OwnedFd, mut targets: Vec<SocketAddr>, poll: &mut Poll) {
        while !targets.is_empty() {
            let target = targets.remove(0);
            let number = poll.number();
            if let Ok(server) = connecting(target)
                && poll.watch(&server, number, EventFlags::OUT).is_ok()
            {
                self.pending.insert(number, Pending { client, server, others: targets });
                return;
            }
        }
        reset_on_close(&client);
    }

    /// Handles an event of the connection with this number. Returns `false` if there is no such
    /// connection.
    pub(super) fn advance(&mut self, number: u64, flags: EventFlags, poll: &mut Poll) -> bool {
        if let Some(pending) = self.pending.remove(&number) {
            self.finish_connect(pending, poll);
            return true;
        }
        if !self.relays.contains_key(&number) {
            return false;
        }
        self.turn(number, flags.contains(EventFlags::ERR));
        true
    }

    /// Joins a client with its established connection, or tries the next destination.
    fn finish_connect(&mut self, pending: Pending, poll: &mut Poll) {
        let Pending { client, server, others } = pending;
        let error = rustix::net::sockopt::socket_error(&server).unwrap_or(Err(Errno::IO));
        if error.is_err() {
            return self.connect(client, others, poll);
        }
        let number = poll.number();
        let events = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let unwatched = poll.forget(&server);
        let relay = Relay::new(client, server);
        if unwatched.is_err()
            || relay.ends().iter().any(|end| poll.watch(end, number, events).is_err())
        {
            return relay.abort();
        }
        self.relays.insert(number, relay);
        // The first turn moves data that has already arrived.
        self.busy.push(number);
    }

    /// Gives relays that can move more bytes another turn.
    pub(super) fn continue_busy(&mut self) {
        for number in std::mem::take(&mut self.busy) {
            self.turn(number, false);
        }
    }

    fn turn(&mut self, number: u64, failed: bool) {
        let Some(relay) = self.relays.get_mut(&number) else { return };
        let turn = if failed {
            Err(io::ErrorKind::ConnectionReset.into())
        } else {
            relay.turn(&mut self.scratch)
        };
        match turn {
            Ok(Turn::Waiting) => return,
            Ok(Turn::Busy) => return self.busy.push(number),
            Ok(Turn::Over) | Err(_) => {}
        }
        if let Some(relay) = self.relays.remove(&number)
            && turn.is_err()
        {
            relay.abort();
        }
    }
}

/// A socket that connects to `target`.
fn connecting(target: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &target) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

/// Maximum number of clients that are accepted before other events are handled.
const BATCH: usize = 64;
