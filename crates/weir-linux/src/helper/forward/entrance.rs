//! A socket that accepts clients.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

/// A socket that accepts clients, with the destinations of their data.
#[derive(Debug)]
pub(crate) struct Entrance {
    /// A listening TCP socket or a bound UDP socket. It does not block.
    pub(crate) socket: OwnedFd,
    /// Whether clients send a stream or datagrams.
    pub(crate) kind: Kind,
    /// The destinations. If one refuses, the forwarder tries the next one.
    pub(crate) targets: Vec<SocketAddr>,
    /// The only permitted client; `None` permits all.
    pub(crate) only_client: Option<IpAddr>,
}

/// The kind of data that clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// TCP connections.
    Stream,
    /// UDP datagrams.
    Datagrams,
}

impl Entrance {
    /// Whether a client with this address may enter.
    pub(super) fn permits(&self, client: SocketAddr) -> bool {
        self.only_client.is_none_or(|only| only == client.ip().to_canonical())
    }
}
