//! The messages between this process and the init process of a program's namespaces, over a socket
//! pair.
//!
//! Each message is its length (four bytes, little endian) and that many bytes of JSON. When one of
//! the processes has ended, even by SIGKILL, the other process reads an end of file. The messages
//! to other helpers have the same format.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The first message to the init process: the namespaces to set up and the command to run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The command's words as bytes, because file names need not be UTF-8. Without any, the
    /// namespaces stay until the socket closes, for processes that enter them.
    pub(crate) command: Vec<Vec<u8>>,
    /// Variables to add to the environment.
    pub(crate) environment: Vec<(String, String)>,
    /// Text that the program sees as `/etc/hosts`.
    pub(crate) hosts: Option<String>,
    /// Text that the program sees as `/etc/resolv.conf`.
    pub(crate) resolv: Option<String>,
    /// Whether to mount a `/proc` and a `/sys` that show the new namespaces.
    pub(crate) own_proc: bool,
    /// Whether standard input is empty.
    pub(crate) without_stdin: bool,
    /// Whether the command keeps capabilities that its caller has only inside a user namespace.
    pub(crate) keep_capabilities: bool,
    /// The number of an inherited descriptor of a network namespace that the program sees as the
    /// file [`NETNS_FILE`].
    pub(crate) netns: Option<i32>,
    /// Milliseconds between SIGTERM and SIGKILL for background processes.
    pub(crate) grace_ms: u64,
    /// The host name; the caller's if `None`.
    #[serde(default)]
    pub(crate) hostname: Option<String>,
    /// The root file system; the caller's if `None`.
    #[serde(default)]
    pub(crate) root: Option<RootOrder>,
    /// Directories and files of the caller that are mounted elsewhere.
    #[serde(default)]
    pub(crate) volumes: Vec<VolumeOrder>,
}

/// A directory that becomes the root file system. It is never written to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RootOrder {
    /// The directory's path as bytes.
    pub(crate) path: Vec<u8>,
    /// Whether writes fail; otherwise they go to memory.
    pub(crate) read_only: bool,
}

/// A directory or file that is mounted elsewhere.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct VolumeOrder {
    /// The path in the caller's file system, as bytes.
    pub(crate) from: Vec<u8>,
    /// The absolute path at which it appears.
    pub(crate) to: String,
    /// Whether writes fail.
    pub(crate) read_only: bool,
}

/// Later messages to the init process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Send this signal to the command.
    Signal(i32),
}

/// Messages from the init process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    /// The command is running, or the namespaces without a command are ready. The warnings describe
    /// optional steps that failed.
    Started {
        /// One sentence for each failed step.
        warnings: Vec<String>,
    },
    /// The command cannot be executed.
    ExecFailed {
        /// The error number.
        errno: i32,
    },
    /// The namespaces cannot be set up.
    SetupFailed {
        /// The step that failed.
        what: String,
        /// The error number.
        errno: i32,
    },
    /// The command and its background processes have ended.
    Ended {
        /// Exit code; 128 + n when signal n ended the command.
        code: u8,
        /// The number of background processes that the init process ended.
        background: u32,
    },
}

/// Writes one message.
pub(crate) fn send(mut to: impl Write, message: &impl Serialize) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length =
        u32::try_from(body.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut frame = length.to_le_bytes().to_vec();
    frame.extend_from_slice(&body);
    to.write_all(&frame)
}

/// Reads one message.
///
/// # Errors
/// `UnexpectedEof` when the other end is closed.
pub(crate) fn receive<T: DeserializeOwned>(mut from: impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MAX_MESSAGE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}

/// Where a program with [`Order::netns`] finds that network namespace.
pub(crate) const NETNS_FILE: &str = "/tmp/weir-netns";
/// The longest accepted message, in bytes. By default the kernel allows 2 MiB of arguments, which
/// grow fourfold as JSON numbers.
const MAX_MESSAGE: u32 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_unchanged_and_a_truncated_one_is_an_error() {
        let order = Order {
            command: vec![vec![b'l', 0xff]],
            hosts: Some("127.0.0.1 a\n".into()),
            ..Order::default()
        };
        let mut bytes = Vec::new();
        send(&mut bytes, &order).unwrap();
        let back: Order = receive(&bytes[..]).unwrap();
        assert_eq!((back.command, back.hosts), (order.command, order.hosts));
        assert!(receive::<Order>(&bytes[..bytes.len() - 1]).is_err());
        assert_eq!(receive::<Order>(&bytes[..3]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn absurd_length_is_refused_before_it_is_allocated() {
        assert_eq!(
            receive::<Event>(&u32::MAX.to_le_bytes()[..]).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
