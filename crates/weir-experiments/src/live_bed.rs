//! The network of experiments on live links: sender, Weir and receiver, each in a namespace of its
//! own.

use std::io;
use std::net::Ipv4Addr;

use weir_linux::netlink::Netlink;
use weir_linux::netns::NetNs;
use weir_linux::port::{AnyPort, PacketPort};
use weir_traffic::recv::Inlet;

use crate::namespaces::{address, join, quiet};

/// The namespaces. They vanish when the value is dropped.
pub(crate) struct Bed {
    pub(crate) sender: NetNs,
    weir: NetNs,
    receiver: NetNs,
}

impl Bed {
    /// Makes the namespaces and connects them.
    pub(crate) fn make() -> io::Result<Self> {
        let [sender, weir, receiver] = [quiet()?, quiet()?, quiet()?];
        join(&sender, ("eth0", 10, MTU), &weir, "in")?;
        join(&receiver, ("eth0", 11, MTU), &weir, "on")?;
        let to = receiver.enter(|| address("eth0", RECEIVER, None))?;
        sender.enter(|| {
            address("eth0", SENDER, None)?;
            let mut net = Netlink::open().map_err(io::Error::other)?;
            net.add_neighbour(10, RECEIVER.into(), to).map_err(io::Error::other)
        })?;
        Ok(Self { sender, weir, receiver })
    }

    /// Opens the two ports of a link: one to the sender, and one to the receiver.
    pub(crate) fn ports(&self) -> io::Result<Vec<AnyPort>> {
        let open = |net: &mut Netlink, name| {
            let link = net.link(name).map_err(io::Error::other)?;
            net.set_up(link.index).map_err(io::Error::other)?;
            PacketPort::open(name).map(AnyPort::from).map_err(io::Error::other)
        };
        self.weir.enter(|| {
            let mut net = Netlink::open().map_err(io::Error::other)?;
            Ok::<_, io::Error>(vec![open(&mut net, "in")?, open(&mut net, "on")?])
        })
    }

    /// Opens a socket of the receiver.
    pub(crate) fn inlet(&self, port: u16) -> io::Result<Inlet> {
        self.receiver.enter(|| Inlet::bind((RECEIVER, port).into()).map_err(io::Error::other))
    }
}

const SENDER: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 1);
pub(crate) const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 2);
pub(crate) const PROBE_PORT: u16 = 5001;
pub(crate) const TRAFFIC_PORT: u16 = 5002;
const MTU: u32 = 1500;
