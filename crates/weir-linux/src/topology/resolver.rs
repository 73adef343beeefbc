//! The connection of root's sessions to a resolver of the machine that listens on loopback only.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use super::Note;
use super::address::Range;
use super::names;
use super::publish::open;
use crate::helper::{Entrance, Kind};

/// The program's resolver file (`None` for the machine's own file), with entrances at the machine's
/// end of the link if queries must be forwarded to the machine's loopback resolver.
pub(super) fn resolver(range: Range) -> (Option<String>, Vec<Entrance>, Option<Note>) {
    let server = names::loopback_server().filter(|&server| answers(server));
    let end = IpAddr::from(range.ipv4(1).0);
    let (resolv, note) = names::resolver(server.map(|_| end));
    let asks_end =
        resolv.as_ref().is_some_and(|text| text.contains(&format!("nameserver {end}\n")));
    let Some(server) = server.filter(|_| asks_end) else {
        return (resolv, Vec::new(), note.map(Note::serious));
    };
    match entrances(end, range.ipv4(0).0, server) {
        Ok(entrances) => (resolv, entrances, None),
        Err(error) => {
            let note = Note::new(format!(
                "names may not resolve inside: queries cannot be passed on to {server}, because \
                 port {DNS} of {end} cannot be opened ({error}); a server that listens on all \
                 addresses gets them instead"
            ));
            (resolv, Vec::new(), Some(note.serious()))
        }
    }
}

/// Sockets at the machine's end of the link, for the program's queries over UDP and TCP.
fn entrances(end: IpAddr, program: Ipv4Addr, server: IpAddr) -> std::io::Result<Vec<Entrance>> {
    let entrance = |kind| {
        let socket = open(SocketAddr::new(end, DNS), kind)?;
        let targets = vec![SocketAddr::new(server, DNS)];
        Ok(Entrance { socket, kind, targets, only_client: Some(program.into()) })
    };
    [Kind::Datagrams, Kind::Stream].into_iter().map(entrance).collect()
}

/// Whether a program of this machine receives queries at this loopback address. On loopback, the
/// kernel refuses a datagram to a closed port at once, so `recv` already returns the error.
fn answers(server: IpAddr) -> bool {
    let ask = || {
        let socket = UdpSocket::bind(if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
        socket.set_nonblocking(true)?;
        socket.connect((server, DNS))?;
        socket.send(&[])?;
        socket.recv(&mut [0; 1])
    };
    // Nothing answers an empty datagram to an open port, so `recv` would block.
    ask().err().is_none_or(|error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock)
}

/// The port of the Domain Name System.
const DNS: u16 = 53;
