//! The environment of an emulated link: namespaces, interfaces, addresses, names, and the programs
//! that run behind the link.
//!
//! [`run`], [`pair`] and [`bridge`] set up the two ends of a link and return a [`Session`]. The
//! live loop drives the session's two ports. [`Session::spawn`] starts programs inside;
//! [`Session::wait`] forwards signals and returns how the session ended. When the session is
//! dropped or closed, or this process is killed by any signal, the machine is as before.
//! [`network`] does the same for up to [`MOST_HOSTS`] hosts that one loop joins.
//!
//! For an ordinary user this process enters a user namespace, in which the same is possible. The
//! kernel allows that only while the process has one thread, so call these functions before
//! starting another thread.

mod address;
mod bridge;
mod error;
mod inside;
mod names;
mod network;
mod outside;
mod pair;
mod place;
mod publish;
mod reports;
mod resolver;
mod router;
mod run;
mod session;
mod wait;

use std::net::{Ipv4Addr, Ipv6Addr};

pub use crate::process::SpawnError;
pub use bridge::bridge;
pub use error::SetupError;
pub use inside::{EnterError, run_inside};
pub use network::{
    Happened, Hold, HostSetup, Launch, MOST_HOSTS, Network, NetworkSetup, ProgramId, Shown, Task,
    link_local, network,
};
pub use pair::pair;
pub use publish::{Protocol, Publish};
pub use run::run;
pub use session::{CloseReport, EndedBy, FAREWELL, GRACE, Outcome, ProgramEnd, Session};
pub use wait::wait;

/// How frames are exchanged with the interfaces of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// Packet sockets. They have timestamps of the kernel, so delays start at the exact arrival.
    #[default]
    Auto,
    /// A TAP device that this process holds. Each frame is copied once less than with a veth pair.
    Tap,
    /// A veth pair with an `AF_PACKET` socket on the far end.
    Packet,
}

/// How the two ends of a link learn each other's Ethernet addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Neighbours {
    /// Both ends have permanent entries before a program starts, so the first packet between them
    /// is like all others.
    #[default]
    Static,
    /// The kernels resolve the addresses by ARP and neighbour discovery, over the link.
    Emulated,
}

/// The configuration of [`run`].
#[derive(Clone, Debug)]
pub struct RunSetup {
    /// Largest IP packet of the emulated link, in bytes (576–65521; 1500 by default).
    pub mtu: u32,
    /// How frames are exchanged.
    pub backend: Backend,
    /// Whether the program reaches the networks beyond the machine: by address translation for
    /// root, through Weir's proxy (TCP) and `pasta` for other users.
    pub outside: bool,
    /// How the ends learn each other's Ethernet addresses.
    pub neighbours: Neighbours,
    /// Ports of the machine that lead to the program.
    pub publish: Vec<Publish>,
}

impl Default for RunSetup {
    fn default() -> Self {
        RunSetup {
            mtu: DEFAULT_MTU,
            backend: Backend::Auto,
            outside: true,
            neighbours: Neighbours::Static,
            publish: Vec::new(),
        }
    }
}

/// The configuration of [`pair`].
#[derive(Clone, Debug)]
pub struct PairSetup {
    /// Largest IP packet of the emulated link, in bytes (576–65521; 1500 by default).
    pub mtu: u32,
    /// How frames are exchanged.
    pub backend: Backend,
    /// How the ends learn each other's Ethernet addresses.
    pub neighbours: Neighbours,
}

impl Default for PairSetup {
    fn default() -> Self {
        PairSetup { mtu: DEFAULT_MTU, backend: Backend::Auto, neighbours: Neighbours::Static }
    }
}

/// The configuration of [`bridge`]: two interfaces of the caller's namespace.
#[derive(Clone, Debug)]
pub struct BridgeSetup {
    /// The interface of port 0.
    pub left: String,
    /// The interface of port 1.
    pub right: String,
}

/// An end of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Port 0: the program's side of [`run`], the left side of [`pair`] and [`bridge`].
    Left,
    /// Port 1: the machine's side of [`run`], the right side of [`pair`] and [`bridge`].
    Right,
}

impl Side {
    /// Index of this side's port and end in a session.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Side::Left => 0,
            Side::Right => 1,
        }
    }
}

/// One end of the link as programs see it.
#[derive(Clone, Debug)]
pub struct End {
    /// The end's name in `/etc/hosts` of the namespaces: `inside`, `host`, `left`, `right`; with
    /// [`network`], the host's name; with [`bridge`], the interface's own name.
    pub name: String,
    /// The interface that carries the address.
    pub interface: String,
    /// The end's IPv4 address, if the session gave it one.
    pub ipv4: Option<Ipv4Addr>,
    /// The end's IPv6 address, if the session gave it one.
    pub ipv6: Option<Ipv6Addr>,
}

/// A limitation of a working session that the user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// A description of the limitation.
    pub what: String,
    /// The remedy, if there is one; a command where possible.
    pub remedy: Option<String>,
    /// Whether programs will probably fail because of the limitation.
    pub serious: bool,
}

impl Note {
    pub(crate) fn new(what: impl Into<String>) -> Note {
        Note { what: what.into(), remedy: None, serious: false }
    }

    /// A note that the user should see even if the command is to print little.
    pub(crate) fn serious(self) -> Note {
        Note { serious: true, ..self }
    }

    pub(crate) fn with_remedy(what: impl Into<String>, remedy: impl Into<String>) -> Note {
        Note { what: what.into(), remedy: Some(remedy.into()), serious: false }
    }
}

/// Ethernet's usual payload, which is also the MTU of most real paths.
pub const DEFAULT_MTU: u32 = 1500;
/// The size up to which every IPv4 host must accept packets. Below 1280 a link carries no IPv6.
pub const MIN_MTU: u32 = 576;
/// 65,535 bytes minus an Ethernet header: the largest packet that a TAP device takes.
pub const MAX_MTU: u32 = 65_521;
