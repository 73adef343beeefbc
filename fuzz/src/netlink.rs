//! Answers of the kernel about interfaces, routes, addresses, queues and nftables: no bytes make a
//! reader panic, and a reader finds no more answers than fit into the bytes.

/// The bytes are one datagram. The sequence number of its first message counts as that of the
/// request.
pub fn run(data: &[u8]) {
    let sequence = data.get(8..12).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
    let most = data.len() / HEADER;
    assert!(weir_linux::fuzzing::netlink_answers(data, sequence.unwrap_or(0)) <= most);
    assert!(weir_linux::fuzzing::nftables_answers(data) <= most);
    assert!(weir_probe::fuzzing::queue_answers(data) <= most);
}

/// Bytes of a message's header.
const HEADER: usize = 16;
