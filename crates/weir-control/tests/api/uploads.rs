//! Bodies that do not end: all of them together take a bounded amount of memory, and only for a
//! while.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::{Lab, send};

#[test]
fn unfinished_bodies_share_a_budget() {
    let lab = Lab::new();
    let held: Vec<UnixStream> = (0..BODIES).map(|_| begin(&lab, 20 * MIB, 20 * MIB - 1)).collect();
    let refused: Vec<String> =
        held.iter().map(answer).filter(|answer| !answer.is_empty()).collect();
    assert!(!refused.is_empty(), "{BODIES} unfinished bodies of 20 MiB were all accepted");
    assert!(refused.len() < BODIES, "none was accepted");
    for answer in &refused {
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("MiB"), "{answer}");
    }
    // There is still memory for the small requests of other clients.
    assert!(lab.client().health().is_ok());
    drop(held);
    // The connections' memory is free again: the longest body that is permitted arrives in full.
    let deadline = std::time::Instant::now() + 10 * PATIENCE;
    loop {
        let answer = answer(&begin(&lab, 32 * MIB, 32 * MIB));
        if answer.starts_with("HTTP/1.1 400") {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{answer}");
    }
    assert!(send(&lab.client(), "pipe 1 config bw 1Mbit/s").applied);
}

/// Sends a request head that announces `length` bytes, and `sent` bytes of the body.
fn begin(lab: &Lab, length: usize, sent: usize) -> UnixStream {
    let mut stream = UnixStream::connect(lab.socket()).unwrap();
    write!(
        stream,
        "POST /v1/commands HTTP/1.1\r\nHost: weir\r\nContent-Type: \
         application/json\r\nContent-Length: {length}\r\n\r\n"
    )
    .unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    // The server may refuse before it has read everything.
    let _ = stream.write_all(&vec![b'x'; sent]);
    stream
}

/// The beginning of the answer; empty if there is none.
fn answer(mut stream: &UnixStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = [0; 1024];
    let n = stream.read(&mut bytes).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..n]).into_owned()
}

const MIB: usize = 1 << 20;
/// Number of unfinished bodies. Together they are far larger than the budget.
const BODIES: usize = 8;
/// Time for an answer, and for the server to accept data.
const PATIENCE: Duration = Duration::from_secs(2);
