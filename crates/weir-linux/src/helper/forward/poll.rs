//! The sockets that the forwarder waits for, each with a number.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::process::timespec;

/// A set of sockets to wait for.
pub(super) struct Poll {
    epoll: OwnedFd,
    first: u64,
    /// The next number of a connection or of a client that sends datagrams. Numbers are never
    /// reused, so a late event of a closed connection matches no other connection.
    next: u64,
    events: Vec<Event>,
}

impl Poll {
    /// An empty set. [`Poll::number`] returns numbers from `first` on.
    pub(super) fn new(first: u64) -> io::Result<Poll> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Poll { epoll, first, next: first, events: Vec::with_capacity(EVENTS) })
    }

    /// The first number that [`Poll::number`] returns.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// A number for a new connection or for a new client that sends datagrams.
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Adds this socket to the set, with its number.
    pub(super) fn watch(&self, socket: &OwnedFd, number: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(number), flags)?)
    }

    /// Removes this socket from the set.
    pub(super) fn forget(&self, socket: &OwnedFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    /// Waits for events, for at most `timeout`. Returns numbers with their events.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Vec<(u64, EventFlags)>> {
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, spare, timeout.map(timespec).as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let token = |event: &Event| (event.data.u64(), event.flags);
        Ok(self.events.iter().map(token).collect())
    }
}

/// Maximum number of events that one wait returns.
const EVENTS: usize = 256;
