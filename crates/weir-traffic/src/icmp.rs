//! ICMP echo, which the kernel answers without waking a program.

use std::net::{SocketAddr, UdpSocket};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, SockaddrIn, connect as connect_socket, socket,
};

use weir_wire::checksum::checksum;

use crate::{Context, TrafficError};

/// Bytes of an echo request's header.
pub(crate) const HEADER: usize = 8;
/// The largest number of bytes before an answer's payload: an IPv4 header with options and the ICMP
/// header.
pub(crate) const MOST_HEADERS: usize = 60 + HEADER;

/// Opens a raw ICMP socket that sends to and receives from `to` only. The standard library has no
/// type for raw sockets; a connected raw socket sends and receives like a connected UDP socket.
pub(crate) fn connect(to: SocketAddr) -> Result<UdpSocket, TrafficError> {
    let SocketAddr::V4(to) = to else {
        let source = std::io::Error::new(
            std::io::ErrorKind::Unsupported,
            "ICMP round trips are measured over IPv4: give -4",
        );
        return Err(TrafficError::System { what: "make an ICMP socket", source });
    };
    let icmp =
        socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Icmp)
            .context("make an ICMP socket")?;
    let to = SockaddrIn::from(to);
    connect_socket(std::os::fd::AsRawFd::as_raw_fd(&icmp), &to)
        .context("connect the ICMP socket")?;
    Ok(UdpSocket::from(icmp))
}

/// Writes the header of an echo request in front of its payload.
pub(crate) fn request(packet: &mut [u8], sequence: u32) {
    packet[..HEADER].fill(0);
    packet[0] = ECHO_REQUEST;
    packet[4..6].copy_from_slice(&identity().to_be_bytes());
    packet[6..8].copy_from_slice(&(sequence as u16).to_be_bytes());
    let sum = checksum(packet);
    packet[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// The payload of an echo reply to this process; `None` for any other packet. `packet` begins with
/// the IPv4 header.
pub(crate) fn answer(packet: &[u8]) -> Option<&[u8]> {
    let icmp = packet.get(usize::from(packet.first()? & 15) * 4..)?;
    let ours = icmp.first() == Some(&ECHO_REPLY) && icmp.get(4..6)? == identity().to_be_bytes();
    icmp.get(HEADER..).filter(|_| ours)
}

/// The ICMP identifier by which this process recognises its replies.
fn identity() -> u16 {
    std::process::id() as u16
}

const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_valid_checksum_and_only_its_reply_is_recognised() {
        let mut packet = vec![7; HEADER + 21];
        request(&mut packet, 3);
        assert_eq!(checksum(&packet), 0);
        packet[0] = ECHO_REPLY;
        let mut reply = vec![0x45; 20];
        reply.extend_from_slice(&packet);
        assert_eq!(answer(&reply).map(<[u8]>::len), Some(21));
        reply[24] ^= 1;
        assert_eq!(answer(&reply), None);
        assert_eq!(answer(&[0x45; 10]), None);
    }
}
