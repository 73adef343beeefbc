//! Functions through which the fuzz targets call private parsers. These parsers read bytes from
//! outside this process: answers of the kernel, messages between Weir's processes, and first
//! packets of connections.

use netlink_packet_route::RouteNetlinkMessage;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::helper::{first_packet, proxy_order};
use crate::netlink::{collect, link, route};
use crate::nftables;
use crate::process::{Event, Order, Request, receive, send};

/// Parses a datagram of the kernel as answers to request `sequence`. Returns the number of answers.
pub fn netlink_answers(bytes: &[u8], sequence: u32) -> usize {
    let mut answers = Vec::new();
    // An error is an answer too: the kernel refused, or the datagram is malformed.
    let _ = collect(bytes, sequence, &mut answers);
    for answer in &answers {
        match answer {
            RouteNetlinkMessage::NewLink(message) => drop(link(message)),
            RouteNetlinkMessage::NewRoute(message) => drop(route(message)),
            _ => {}
        }
    }
    answers.len()
}

/// Parses a datagram of the kernel as answers about nftables. Returns the number of answers.
pub fn nftables_answers(bytes: &[u8]) -> usize {
    nftables::read_answers(bytes)
}

/// Parses `bytes` as each kind of message to or from the init of a program, and as the message that
/// starts the proxy.
///
/// # Panics
/// An accepted message is a different message after it was sent and received again.
pub fn helper_messages(bytes: &[u8]) {
    repeats::<Order>(bytes);
    repeats::<Event>(bytes);
    repeats::<Request>(bytes);
    proxy_order(bytes);
}

/// Parses a frame as the first packet of a connection.
///
/// # Panics
/// The refusal of the packet is malformed or does not come from the server's port.
pub fn opening_frame(frame: &[u8]) {
    first_packet(frame);
}

fn repeats<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(message) = receive::<T>(bytes) else { return };
    let (mut sent, mut again) = (Vec::new(), Vec::new());
    send(&mut sent, &message).expect("memory takes every message");
    let same: T = receive(&sent[..]).expect("a sent message can be received");
    send(&mut again, &same).expect("memory takes every message");
    assert_eq!(sent, again, "a message is the same after it was sent");
}
