//! Ports of the machine that lead to a server behind the link.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::SetupError;
use crate::helper::{Entrance, Kind};

/// A port of the machine that leads to a port of the program, over the emulated link.
///
/// The machine's kernel accepts the client, and a process of Weir passes its data on. The program
/// therefore sees connections from `host`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish {
    /// The machine's address; `None` for all its addresses.
    pub address: Option<IpAddr>,
    /// The machine's port.
    pub outside: u16,
    /// The program's port.
    pub inside: u16,
    /// TCP or UDP.
    pub protocol: Protocol,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Connections.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
}

/// An open port of the machine.
#[derive(Debug)]
pub(super) struct OpenPort {
    publish: Publish,
    socket: OwnedFd,
}

impl OpenPort {
    /// The entrance that leads clients of this port to the program's port at these addresses.
    pub(super) fn leading_to(self, inside: &[IpAddr]) -> Entrance {
        let port = self.publish.inside;
        let targets = inside.iter().map(|&address| (address, port).into()).collect();
        Entrance { socket: self.socket, kind: self.publish.kind(), targets, only_client: None }
    }
}

impl Publish {
    /// Opens the port on the machine.
    pub(super) fn open(self) -> Result<OpenPort, SetupError> {
        let all: &[IpAddr] = &[Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
        let addresses = self.address.as_ref().map_or(all, std::slice::from_ref);
        let mut result = Err(Errno::ADDRNOTAVAIL.into());
        for &address in addresses {
            result = open((address, self.outside).into(), self.kind());
            // A machine without IPv6 has no such sockets, or no such address.
            if !result.as_ref().is_err_and(lacks_ipv6) {
                break;
            }
        }
        match result {
            Ok(socket) => Ok(OpenPort { publish: self, socket }),
            Err(source) => {
                Err(SetupError::Publish { port: self.to_string(), why: self.explain(&source) })
            }
        }
    }

    fn kind(self) -> Kind {
        match self.protocol {
            Protocol::Tcp => Kind::Stream,
            Protocol::Udp => Kind::Datagrams,
        }
    }

    fn explain(self, error: &io::Error) -> String {
        match error.kind() {
            io::ErrorKind::AddrInUse => {
                let kind = if self.protocol == Protocol::Tcp { "-lt" } else { "-lu" };
                format!(
                    "it is in use; 'ss {kind}np sport = :{}' shows by which program",
                    self.outside
                )
            }
            io::ErrorKind::PermissionDenied => {
                "only root may open a port with such a low number".to_owned()
            }
            io::ErrorKind::AddrNotAvailable => {
                "the machine does not have this address; 'ip address' lists its addresses"
                    .to_owned()
            }
            _ => error.to_string(),
        }
    }
}

impl std::fmt::Display for Publish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let protocol = if self.protocol == Protocol::Tcp { "tcp" } else { "udp" };
        match self.address {
            Some(address) => write!(f, "{}/{protocol}", SocketAddr::new(address, self.outside)),
            None => write!(f, "{}/{protocol}", self.outside),
        }
    }
}

fn lacks_ipv6(error: &io::Error) -> bool {
    [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Opens a socket that accepts clients at `address`. The unspecified IPv6 address accepts clients
/// with IPv4 too.
pub(super) fn open(address: SocketAddr, kind: Kind) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let sort = if kind == Kind::Stream { SocketType::STREAM } else { SocketType::DGRAM };
    let socket = rustix::net::socket_with(family, sort, flags, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    if kind == Kind::Stream {
        // Connections of an earlier session that are still closing do not occupy the port.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    if kind == Kind::Stream {
        rustix::net::listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}

/// Maximum number of connections that wait for the forwarder to accept them.
const BACKLOG: i32 = 1024;

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn a_port_in_use_is_an_error_with_the_command_that_shows_its_user() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ports = [
            (tcp.local_addr().unwrap().port(), Protocol::Tcp),
            (udp.local_addr().unwrap().port(), Protocol::Udp),
        ];
        for (outside, protocol) in ports {
            for address in [None, Some("127.0.0.1".parse().unwrap())] {
                let error = Publish { address, outside, inside: 80, protocol }.open().unwrap_err();
                let text = error.to_string();
                assert!(text.contains(&format!("{outside}/")), "{text}");
                assert!(text.contains("in use") && text.contains("ss -l"), "{text}");
            }
        }
    }

    #[test]
    fn an_address_of_another_machine_is_refused() {
        let address = Some("192.0.2.77".parse().unwrap());
        let publish = Publish { address, outside: 8080, inside: 80, protocol: Protocol::Tcp };
        let text = publish.open().unwrap_err().to_string();
        assert!(text.contains("192.0.2.77:8080/tcp") && text.contains("ip address"), "{text}");
    }
}
