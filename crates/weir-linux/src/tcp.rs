//! The kernel's statistics and settings of TCP connections.

use std::io;
use std::os::fd::AsFd;

/// The number of segments that a connection has retransmitted.
///
/// # Errors
/// The kernel's error, for a descriptor that is not a TCP socket.
pub fn retransmitted(socket: &impl AsFd) -> io::Result<u32> {
    Ok(crate::sys::process::tcp_info(socket.as_fd())?.tcpi_total_retrans)
}

/// The congestion controls that this process may choose, the machine's default first.
pub fn congestion_controls() -> Vec<String> {
    let read = |name: &str| {
        std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default()
    };
    let first = read("tcp_congestion_control").trim().to_owned();
    // Root may choose any available congestion control. Other users may choose only those that are
    // permitted to every user.
    let list = if rustix::process::geteuid().is_root() {
        "tcp_available_congestion_control"
    } else {
        "tcp_allowed_congestion_control"
    };
    let others = read(list);
    let others = others.split_whitespace().filter(|name| *name != first).map(str::to_owned);
    std::iter::once(first.clone()).filter(|name| !name.is_empty()).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn a_connection_without_loss_has_no_retransmissions() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(retransmitted(&stream).unwrap(), 0);
        assert!(retransmitted(&UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }

    #[test]
    fn every_kernel_has_a_congestion_control() {
        assert!(!congestion_controls().is_empty());
    }
}
