//! Interfaces, addresses and routes through the kernel's netlink socket, one request at a time.
//! Public functions show no types of the netlink crates, because these types change often.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd as _;
use std::os::fd::BorrowedFd;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::neighbour_table::{
    NeighbourTableAttribute, NeighbourTableMessage, NeighbourTableParameter,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// A request that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}")]
pub struct NetlinkError {
    /// The requested operation.
    pub what: String,
    /// The kernel's error.
    pub source: io::Error,
}

/// An Ethernet address.
pub type Mac = [u8; 6];

/// An interface as the kernel lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The interface's number in its namespace.
    pub index: u32,
    /// The interface's name.
    pub name: String,
    /// Largest packet above the link layer, in bytes.
    pub mtu: u32,
    /// The Ethernet address, if the interface has one.
    pub mac: Option<Mac>,
    /// Whether the interface is switched on.
    pub up: bool,
    /// Whether the interface can carry frames: it is switched on and has a carrier.
    pub running: bool,
    /// Whether the interface is the loopback interface.
    pub loopback: bool,
    /// Index of the bridge, bond or team to which the interface belongs.
    pub master: Option<u32>,
    /// Index of the interface on which this interface is based, such as a VLAN's parent. `None` for
    /// the ends of a veth pair.
    pub base: Option<u32>,
    /// The interface's description, which `ip link` shows.
    pub alias: Option<String>,
}

/// A route of any table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destination; `None` for a default route.
    pub to: Option<IpAddr>,
    /// Length of the destination prefix in bits.
    pub prefix: u8,
    /// Whether the route is an IPv6 route.
    pub ipv6: bool,
    /// Outgoing interface.
    pub interface: Option<u32>,
    /// Whether the route forwards packets, rather than delivering them locally or refusing them.
    pub unicast: bool,
}

/// A subscription to changes of the interfaces of the network namespace in which it was opened.
pub struct LinkNews {
    socket: Socket,
}

impl LinkNews {
    /// Receives notifications about the calling thread's network namespace from now on.
    ///
    /// # Errors
    /// The kernel refuses the socket.
    pub fn open() -> Result<LinkNews, NetlinkError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, libc::RTMGRP_LINK as u32))?;
            socket.set_non_blocking(true)?;
            Ok(LinkNews { socket })
        };
        open().map_err(|source| NetlinkError { what: "open a netlink socket".into(), source })
    }

    /// Whether an interface may have appeared, changed or vanished since the previous call. The
    /// call does not wait.
    pub fn any(&mut self) -> bool {
        let mut any = false;
        loop {
            match self.socket.recv_from_full() {
                Ok(_) => any = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return any,
                // The error may mean that notifications were lost.
                Err(_) => return true,
            }
        }
    }
}

/// A connection to the kernel that acts in the network namespace in which it was opened.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a connection in the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel refuses the socket.
    pub fn open() -> Result<Netlink, NetlinkError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(Netlink { socket, sequence: 0 })
        };
        open().map_err(|source| NetlinkError { what: "open a netlink socket".into(), source })
    }

    /// All interfaces of the namespace.
    ///
    /// # Errors
    /// The kernel refuses the dump.
    pub fn links(&mut self) -> Result<Vec<Link>, NetlinkError> {
        let answers = self
            .dump(&RouteNetlinkMessage::GetLink(LinkMessage::default()), "list the interfaces")?;
        Ok(answers
            .into_iter()
            .filter_map(|answer| match answer {
                RouteNetlinkMessage::NewLink(message) => Some(link(&message)),
                _ => None,
            })
            .collect())
    }

    /// The interface called `name`.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    pub fn link(&mut self, name: &str) -> Result<Link, NetlinkError> {
        let found = self.links()?.into_iter().find(|link| link.name == name);
        found.ok_or_else(|| NetlinkError {
            what: format!("find interface {name}"),
            source: io::ErrorKind::NotFound.into(),
        })
    }

    /// All routes of all tables.
    ///
    /// # Errors
    /// The kernel refuses the dump.
    pub fn routes(&mut self) -> Result<Vec<Route>, NetlinkError> {
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let answers = self.dump(&RouteNetlinkMessage::GetRoute(message), "list the routes")?;
            routes.extend(answers.iter().filter_map(|answer| match answer {
                RouteNetlinkMessage::NewRoute(message) => Some(route(message)),
                _ => None,
            }));
        }
        Ok(routes)
    }

    /// The addresses of the interface with this index, each with its prefix length.
    ///
    /// # Errors
    /// The kernel refuses the dump.
    pub fn addresses(&mut self, index: u32) -> Result<Vec<(IpAddr, u8)>, NetlinkError> {
        let answers = self.dump(
            &RouteNetlinkMessage::GetAddress(AddressMessage::default()),
            "list the addresses",
        )?;
        let address_of = |message: &AddressMessage| {
            let found = own_address(&message.attributes)?;
            (message.header.index == index).then_some((found, message.header.prefix_len))
        };
        Ok(answers
            .iter()
            .filter_map(|answer| match answer {
                RouteNetlinkMessage::NewAddress(message) => address_of(message),
                _ => None,
            })
            .collect())
    }

    /// Creates a veth pair: `near` in this namespace with the interface index `index`, and `far` in
    /// the namespace of the descriptor, with the Ethernet address `mac`. If the indexes of the two
    /// ends differ, the ends are ready at once. Otherwise they are ready after up to a second: the
    /// kernel treats an interface with its peer's index like one without a peer, and may handle a
    /// change of the carrier late.
    ///
    /// # Errors
    /// `AlreadyExists` when a name is taken; `PermissionDenied` without `CAP_NET_ADMIN` in both
    /// namespaces.
    pub fn create_veth(
        &mut self,
        (near, index): (&str, u32),
        far: &str,
        far_namespace: BorrowedFd<'_>,
        mac: Mac,
        mtu: u32,
    ) -> Result<(), NetlinkError> {
        let mut peer = LinkMessage::default();
        peer.attributes = vec![
            LinkAttribute::IfName(far.into()),
            LinkAttribute::Address(mac.to_vec()),
            LinkAttribute::Mtu(mtu),
            LinkAttribute::NetNsFd(far_namespace.as_raw_fd()),
        ];
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes = vec![
            LinkAttribute::IfName(near.into()),
            LinkAttribute::Mtu(mtu),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
            ]),
        ];
        self.create(RouteNetlinkMessage::NewLink(message), || {
            format!("make the interface pair {near}, {far}")
        })
    }

    /// Sets an interface's Ethernet address and MTU.
    ///
    /// # Errors
    /// `InvalidInput` for an MTU that the interface does not allow.
    pub fn set_link(&mut self, index: u32, mac: Mac, mtu: u32) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes = vec![LinkAttribute::Address(mac.to_vec()), LinkAttribute::Mtu(mtu)];
        self.change(RouteNetlinkMessage::SetLink(message), || {
            format!("set interface {index}'s address and MTU of {mtu}")
        })
    }

    /// Sets an interface's MTU and its description.
    ///
    /// # Errors
    /// `InvalidInput` for an MTU that the interface does not allow.
    pub fn describe_link(&mut self, index: u32, mtu: u32, alias: &str) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes = vec![LinkAttribute::Mtu(mtu), LinkAttribute::IfAlias(alias.into())];
        self.change(RouteNetlinkMessage::SetLink(message), || {
            format!("set interface {index}'s MTU of {mtu} and its description")
        })
    }

    /// Deletes an interface. It is gone when this returns.
    ///
    /// # Errors
    /// The kernel's error; `ENODEV` when there is no such interface.
    pub fn delete_link(&mut self, index: u32) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        self.change(RouteNetlinkMessage::DelLink(message), || format!("delete interface {index}"))
    }

    /// Switches an interface on.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_up(&mut self, index: u32) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.change(RouteNetlinkMessage::SetLink(message), || {
            format!("switch interface {index} on")
        })
    }

    /// Gives an interface an address that is usable at once: the kernel does not check whether
    /// another host on the link has the same address.
    ///
    /// # Errors
    /// The kernel's error; `EADDRNOTAVAIL`, `EACCES` or `EOPNOTSUPP` for IPv6 where it is switched
    /// off.
    pub fn add_address(
        &mut self,
        index: u32,
        address: IpAddr,
        prefix: u8,
    ) -> Result<(), NetlinkError> {
        let mut message = AddressMessage::default();
        message.header.family =
            if address.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
        message.header.prefix_len = prefix;
        message.header.index = index;
        message.attributes =
            vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        if address.is_ipv6() {
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        self.create(RouteNetlinkMessage::NewAddress(message), || {
            format!("give interface {index} the address {address}/{prefix}")
        })
    }

    /// Adds a default route through `gateway` on an interface.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn add_default_route(&mut self, index: u32, gateway: IpAddr) -> Result<(), NetlinkError> {
        let mut message = RouteMessage::default();
        message.header.address_family =
            if gateway.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.attributes =
            vec![RouteAttribute::Gateway(RouteAddress::from(gateway)), RouteAttribute::Oif(index)];
        self.create(RouteNetlinkMessage::NewRoute(message), || {
            format!("route everything through {gateway}")
        })
    }

    /// Adds a permanent entry for a neighbour's Ethernet address, so that the kernel never resolves
    /// it on the link.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn add_neighbour(
        &mut self,
        index: u32,
        address: IpAddr,
        mac: Mac,
    ) -> Result<(), NetlinkError> {
        let mut message = NeighbourMessage::default();
        message.header.family =
            if address.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
        message.header.ifindex = index;
        message.header.state = NeighbourState::Permanent;
        message.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::from(address)),
            NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
        ];
        self.create(RouteNetlinkMessage::NewNeighbour(message), || {
            format!("make {address} a neighbour of interface {index}")
        })
    }

    /// Keeps resolved neighbours of an interface valid for about a day. The kernel still resolves
    /// neighbours that have no entry.
    ///
    /// # Errors
    /// The kernel's error; `NotFound` if `ipv6` is true and the interface has no IPv6.
    pub fn trust_neighbours(&mut self, index: u32, ipv6: bool) -> Result<(), NetlinkError> {
        let mut message = NeighbourTableMessage::default();
        message.header.family = if ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
        let parameters = vec![
            NeighbourTableParameter::Ifindex(index),
            NeighbourTableParameter::BaseReachableTime(A_DAY_MS),
            NeighbourTableParameter::DelayProbeTime(A_DAY_MS),
        ];
        let table = if ipv6 { "ndisc_cache" } else { "arp_cache" };
        message.attributes = vec![
            NeighbourTableAttribute::Name(table.into()),
            NeighbourTableAttribute::Parms(parameters),
        ];
        self.change(RouteNetlinkMessage::SetNeighbourTable(message), || {
            format!("set the neighbour times of interface {index}")
        })
    }

    fn create(
        &mut self,
        message: RouteNetlinkMessage,
        what: impl Fn() -> String,
    ) -> Result<(), NetlinkError> {
        self.request(message, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)
            .map(drop)
            .map_err(|source| NetlinkError { what: what(), source })
    }

    fn change(
        &mut self,
        message: RouteNetlinkMessage,
        what: impl Fn() -> String,
    ) -> Result<(), NetlinkError> {
        self.request(message, NLM_F_ACK)
            .map(drop)
            .map_err(|source| NetlinkError { what: what(), source })
    }

    fn dump(
        &mut self,
        message: &RouteNetlinkMessage,
        what: &str,
    ) -> Result<Vec<RouteNetlinkMessage>, NetlinkError> {
        for _ in 0..DUMP_ATTEMPTS {
            match self.request(message.clone(), NLM_F_DUMP) {
                // The tables changed during the dump, so the dump is repeated.
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                result => {
                    return result.map_err(|source| NetlinkError { what: what.into(), source });
                }
            }
        }
        Err(NetlinkError { what: what.into(), source: io::ErrorKind::Interrupted.into() })
    }

    /// Sends one request and collects the answers up to the acknowledgement or the end of the dump.
    fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answers = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            if collect(&bytes, self.sequence, &mut answers)? {
                return Ok(answers);
            }
        }
    }
}

/// Reads one datagram of the kernel, and appends those answers in it that belong to request
/// `sequence`. Returns whether the request is complete: acknowledged, or at the end of the dump.
///
/// # Errors
/// The kernel's error, or `InvalidData` for a message with an impossible length.
pub(crate) fn collect(
    bytes: &[u8],
    sequence: u32,
    answers: &mut Vec<RouteNetlinkMessage>,
) -> io::Result<bool> {
    let mut rest = bytes;
    while rest.len() >= HEADER {
        let length = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
        let one = rest
            .get(..length)
            .filter(|one| one.len() >= HEADER)
            .ok_or(io::ErrorKind::InvalidData)?;
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        if u32::from_ne_bytes([one[8], one[9], one[10], one[11]]) != sequence {
            continue;
        }
        // The crate cannot read some attributes of exotic interfaces and routes, which Weir does
        // not use. Messages with such attributes are skipped.
        let Ok(answer) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(one) else {
            continue;
        };
        match answer.payload {
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => {
                // The crate's `to_io` overflows for the smallest number.
                return error.code.map_or(Ok(true), |code| {
                    Err(io::Error::from_raw_os_error(code.get().saturating_neg()))
                });
            }
            NetlinkPayload::InnerMessage(inner) => answers.push(inner),
            _ => {}
        }
    }
    Ok(false)
}

pub(crate) fn link(message: &LinkMessage) -> Link {
    let flags = message.header.flags;
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        mtu: 0,
        mac: None,
        up: flags.contains(LinkFlags::Up),
        running: flags.contains(LinkFlags::Up) && flags.contains(LinkFlags::Running),
        loopback: flags.contains(LinkFlags::Loopback),
        master: None,
        base: None,
        alias: None,
    };
    let veth = LinkInfo::Kind(InfoKind::Veth);
    let is_veth = message.attributes.iter().any(
        |attribute| matches!(attribute, LinkAttribute::LinkInfo(info) if info.contains(&veth)),
    );
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Address(address) => link.mac = address.as_slice().try_into().ok(),
            LinkAttribute::Controller(index) => link.master = Some(*index),
            LinkAttribute::Link(index) if !is_veth => link.base = Some(*index),
            LinkAttribute::IfAlias(alias) => link.alias = Some(alias.clone()),
            _ => {}
        }
    }
    link
}

pub(crate) fn route(message: &RouteMessage) -> Route {
    let mut route = Route {
        to: None,
        prefix: message.header.destination_prefix_length,
        ipv6: message.header.address_family == AddressFamily::Inet6,
        interface: None,
        unicast: message.header.kind == RouteType::Unicast,
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(ip)) => route.to = Some((*ip).into()),
            RouteAttribute::Destination(RouteAddress::Inet6(ip)) => route.to = Some((*ip).into()),
            RouteAttribute::Oif(index) => route.interface = Some(*index),
            _ => {}
        }
    }
    route
}

/// The interface's own address. `Address` is that of the peer where the interface has one; the
/// interface's own address is then `Local`.
fn own_address(attributes: &[AddressAttribute]) -> Option<IpAddr> {
    let local = attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(ip) => Some(*ip),
        _ => None,
    });
    local.or_else(|| {
        attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(ip) => Some(*ip),
            _ => None,
        })
    })
}

const A_DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// Length of a netlink message header in bytes.
const HEADER: usize = 16;
/// Maximum number of attempts at a dump.
const DUMP_ATTEMPTS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_listed_with_its_address() {
        let mut netlink = Netlink::open().unwrap();
        let links = netlink.links().unwrap();
        let loopback = links
            .iter()
            .find(|link| link.loopback)
            .expect("every namespace has a loopback interface");
        assert_eq!(netlink.link(&loopback.name).unwrap().index, loopback.index);
        if loopback.up {
            assert!(
                netlink
                    .addresses(loopback.index)
                    .unwrap()
                    .contains(&("127.0.0.1".parse().unwrap(), 8))
            );
        }
    }

    #[test]
    fn the_address_of_a_peer_is_not_the_interfaces_own() {
        let [own, peer] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        // The kernel's order.
        let attributes = [AddressAttribute::Address(peer), AddressAttribute::Local(own)];
        assert_eq!(own_address(&attributes), Some(own));
        let v6 = "2001:db8::1".parse().unwrap();
        assert_eq!(own_address(&[AddressAttribute::Address(v6)]), Some(v6));
    }

    #[test]
    fn missing_interface_is_not_found() {
        let error = Netlink::open().unwrap().link("no-such-if0").unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
    }
}
