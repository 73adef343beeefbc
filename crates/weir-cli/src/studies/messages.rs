//! Messages between the page's server and the process of a study: a kind, a length and bytes.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A part of a request; [`END`] follows the last part.
pub(super) const PART: u8 = b'+';
/// The end of a request or of an answer.
pub(super) const END: u8 = b'.';
/// In JSON: the progress of a simulation or, from a study that reads the kernel's queues, their
/// state during one interval.
pub(super) const PROGRESS: u8 = b'p';
/// The report.
pub(super) const REPORT: u8 = b'r';
/// In JSON: the results of a simulation, the answer to a request that one message answers, or the
/// first message of a study that reads the kernel's queues.
pub(super) const RESULTS: u8 = b'j';
/// The tables that `weir sim` prints.
pub(super) const TABLES: u8 = b't';
/// Why there is no result.
pub(super) const REFUSAL: u8 = b'!';

/// Writes a message.
pub(super) fn send(mut stream: &UnixStream, kind: u8, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut head = [kind, 0, 0, 0, 0];
    head[1..].copy_from_slice(&length.to_le_bytes());
    stream.write_all(&head)?;
    stream.write_all(bytes)
}

/// Why there is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The other side has closed the socket.
    Ended,
    /// The message did not arrive in time.
    Late,
    /// The message is longer than permitted.
    TooLong,
}

/// Reads a message with at most `most` bytes of content. Gives up at `deadline`, if there is one.
pub(super) fn receive(
    stream: &UnixStream,
    most: usize,
    deadline: Option<Instant>,
) -> Result<(u8, Vec<u8>), Missing> {
    let mut head = [0; 5];
    fill(stream, &mut head, deadline)?;
    let [kind, length @ ..] = head;
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(|_| Missing::TooLong)?;
    if length > most {
        return Err(Missing::TooLong);
    }
    let mut bytes = vec![0; length];
    fill(stream, &mut bytes, deadline)?;
    Ok((kind, bytes))
}

fn fill(
    mut stream: &UnixStream,
    mut rest: &mut [u8],
    deadline: Option<Instant>,
) -> Result<(), Missing> {
    while !rest.is_empty() {
        if let Some(deadline) = deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Missing::Late);
            }
            let wait = left.max(Duration::from_millis(1));
            stream.set_read_timeout(Some(wait)).map_err(|_| Missing::Ended)?;
        }
        match stream.read(rest) {
            Ok(0) => return Err(Missing::Ended),
            Ok(count) => rest = &mut rest[count..],
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => {}
                _ => return Err(Missing::Ended),
            },
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_or_not_at_all() {
        let (left, right) = UnixStream::pair().unwrap();
        send(&left, PROGRESS, b"half").unwrap();
        send(&left, RESULTS, &[7; 100]).unwrap();
        assert_eq!(receive(&right, 4, None), Ok((PROGRESS, b"half".to_vec())));
        assert_eq!(receive(&right, 99, None), Err(Missing::TooLong));
        let (left, right) = UnixStream::pair().unwrap();
        (&left).write_all(&[END, 1, 0]).unwrap();
        let now = Some(Instant::now());
        assert_eq!(receive(&right, 4, now), Err(Missing::Late));
        drop(left);
        assert_eq!(receive(&right, 4, None), Err(Missing::Ended));
    }
}
