//! The frames of the protocol. A multiplexer joins two connections on one socket: each frame begins
//! with the connection's number and a length, 32 bits each. The payloads of a connection's frames
//! form a sequence of ttrpc messages, each with a length, a stream, a kind and flags. A message may
//! begin and end anywhere in a frame.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// One of the two connections that share the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// The runtime calls the plugin.
    ToPlugin,
    /// The plugin calls the runtime.
    ToRuntime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    Response,
    /// Part of a ttrpc stream. The plugin uses no streams.
    Other,
}

/// A message of ttrpc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// The number that a request and its response have in common.
    pub(super) stream: u32,
    pub(super) kind: Kind,
    pub(super) payload: Vec<u8>,
}

/// Why the socket cannot be used any more.
#[derive(Debug)]
pub(super) enum Broken {
    Closed,
    /// The runtime sends a frame or a message of this many bytes.
    TooLong(usize),
    Io(io::Error),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Closed => f.write_str("it closed the connection"),
            Broken::TooLong(length) => write!(f, "its message of {length} bytes is too long"),
            Broken::Io(error) => write!(f, "{error}"),
        }
    }
}

/// The socket to the runtime, with its two connections.
#[derive(Debug)]
pub(super) struct Trunk {
    stream: UnixStream,
    /// Received bytes, from the start of the next frame.
    frame: Vec<u8>,
    /// The bytes of each connection, from the start of its next message.
    messages: [Vec<u8>; 2],
}

impl Trunk {
    /// Takes over a socket. A wait for data lasts at most `patience`.
    pub(super) fn new(stream: UnixStream, patience: Duration) -> Result<Self, Broken> {
        stream.set_read_timeout(Some(patience)).map_err(Broken::Io)?;
        stream.set_write_timeout(Some(WRITTEN_WITHIN)).map_err(Broken::Io)?;
        Ok(Self { stream, frame: Vec::new(), messages: [const { Vec::new() }; 2] })
    }

    /// The next message; `None` if no whole message has arrived and no data arrives for `patience`.
    pub(super) fn next(&mut self) -> Result<Option<(Connection, Message)>, Broken> {
        loop {
            for connection in [Connection::ToPlugin, Connection::ToRuntime] {
                if let Some(message) = take_message(&mut self.messages[connection.place()])? {
                    return Ok(Some((connection, message)));
                }
            }
            if self.take_frame()? {
                continue;
            }
            let mut bytes = [0; 16 << 10];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(Broken::Closed),
                Ok(count) => self.frame.extend_from_slice(&bytes[..count]),
                Err(error) if is_wait(&error) => return Ok(None),
                Err(error) => return Err(Broken::Io(error)),
            }
        }
    }

    /// Sends a message in one frame.
    pub(super) fn send(
        &mut self,
        connection: Connection,
        stream: u32,
        kind: Kind,
        payload: &[u8],
    ) -> Result<(), Broken> {
        let (length, kind) = (payload.len() as u32, if kind == Kind::Request { 1 } else { 2 });
        let number = connection.place() as u32 + 1;
        let mut bytes = Vec::with_capacity(FRAME_HEADER + MESSAGE_HEADER + payload.len());
        bytes.extend(number.to_be_bytes());
        bytes.extend((length + MESSAGE_HEADER as u32).to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(stream.to_be_bytes());
        bytes.extend([kind, 0]);
        bytes.extend_from_slice(payload);
        self.stream.write_all(&bytes).map_err(Broken::Io)
    }

    /// Moves a whole frame to its connection. Returns whether there was a whole frame.
    fn take_frame(&mut self) -> Result<bool, Broken> {
        let Some((header, rest)) = self.frame.split_at_checked(FRAME_HEADER) else {
            return Ok(false);
        };
        let (number, length) = (word(header, 0), word(header, 4) as usize);
        if length > LONGEST_MESSAGE + MESSAGE_HEADER {
            return Err(Broken::TooLong(length));
        }
        let Some(payload) = rest.get(..length) else { return Ok(false) };
        // Other connections do not concern this plugin.
        if let Some(message) =
            (number as usize).checked_sub(1).and_then(|n| self.messages.get_mut(n))
        {
            message.extend_from_slice(payload);
        }
        self.frame.drain(..FRAME_HEADER + length);
        Ok(true)
    }
}

impl Connection {
    /// The index in [`Trunk::messages`]. The connection's number in frames is larger by 1.
    fn place(self) -> usize {
        match self {
            Connection::ToPlugin => 0,
            Connection::ToRuntime => 1,
        }
    }
}

/// Takes a whole message off the front of a connection's bytes.
fn take_message(bytes: &mut Vec<u8>) -> Result<Option<Message>, Broken> {
    let Some((header, rest)) = bytes.split_at_checked(MESSAGE_HEADER) else { return Ok(None) };
    let (length, stream) = (word(header, 0) as usize, word(header, 4));
    if length > LONGEST_MESSAGE {
        return Err(Broken::TooLong(length));
    }
    let kind = match header[8] {
        1 => Kind::Request,
        2 => Kind::Response,
        _ => Kind::Other,
    };
    let Some(payload) = rest.get(..length) else { return Ok(None) };
    let message = Message { stream, kind, payload: payload.to_vec() };
    bytes.drain(..MESSAGE_HEADER + length);
    Ok(Some(message))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn is_wait(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// The number of bytes before the payload of a frame, and before the payload of a message.
const FRAME_HEADER: usize = 8;
const MESSAGE_HEADER: usize = 10;
/// Maximum length of a message in bytes, as ttrpc defines it.
const LONGEST_MESSAGE: usize = 4 << 20;
/// The longest wait for the runtime to read.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_may_be_split_over_frames_and_frames_over_reads() {
        let (mut far, near) = UnixStream::pair().expect("a pair");
        let mut trunk = Trunk::new(near, Duration::from_millis(10)).expect("a socket");
        assert!(trunk.next().expect("it is open").is_none());
        let (mut mirror, other) = UnixStream::pair().expect("a pair");
        let mut sender = Trunk::new(other, Duration::from_millis(10)).expect("a socket");
        sender.send(Connection::ToPlugin, 7, Kind::Request, b"payload").expect("it is open");
        let mut bytes = [0; FRAME_HEADER + MESSAGE_HEADER + 7];
        mirror.read_exact(&mut bytes).expect("it was sent");
        // The same message in frames of one byte each, between frames of an unknown connection.
        for byte in &bytes[FRAME_HEADER..] {
            far.write_all(&[0, 0, 0, 1, 0, 0, 0, 1, *byte]).expect("it is open");
            far.write_all(&[0, 0, 0, 9, 0, 0, 0, 2, 1, 2]).expect("it is open");
        }
        let (connection, message) = trunk.next().expect("it is open").expect("a message");
        assert_eq!(connection, Connection::ToPlugin);
        assert_eq!(
            (message.stream, message.kind, &*message.payload),
            (7, Kind::Request, &b"payload"[..])
        );
        drop(far);
        assert!(matches!(trunk.next(), Err(Broken::Closed)));
    }

    #[test]
    fn lengths_are_bounded() {
        for header in [
            // A frame of 2^32 - 1 bytes.
            [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0],
            // A frame with a message that is one byte too long.
            [0, 0, 0, 1, 0, 0, 0, 10, 0, 0x40, 0, 1, 0, 0, 0, 0, 1, 0],
        ] {
            let (mut far, near) = UnixStream::pair().expect("a pair");
            let mut trunk = Trunk::new(near, Duration::from_millis(10)).expect("a socket");
            far.write_all(&header).expect("it is open");
            assert!(matches!(trunk.next(), Err(Broken::TooLong(_))));
        }
    }
}
