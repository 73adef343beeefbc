//! The Unix socket. Its permissions are final before the first client can connect.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown,
};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use tokio::net::UnixStream;

use crate::client::visible_peer;

/// Why the socket cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another process listens on the socket.
    #[error(
        "another daemon listens on {}; stop it, or name another socket with --socket",
        path.display()
    )]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The path names a file that is not a socket.
    #[error(
        "{} exists and is no socket; remove it, or name another socket with --socket",
        path.display()
    )]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot listen on {}: {source}; name another socket with --socket", path.display())]
    System {
        /// The socket.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// A bound socket with a name in the file system. Dropping this value removes the name.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    listener: Option<UnixListener>,
    /// Device and inode of the name, so that `remove` does not delete a name that another process
    /// has taken over.
    identity: (u64, u64),
}

impl ControlSocket {
    /// Binds a socket to which its owner and, if given, the group `group` may connect. A socket
    /// that a killed daemon left is replaced. The name appears with its final owner and mode in one
    /// step.
    ///
    /// # Errors
    /// A process already listens there, the path names another file, or the system refuses.
    pub fn bind(path: &Path, group: Option<u32>) -> Result<Self, SocketError> {
        Self::bind_with(path, group, 0o660)
    }

    /// Binds a socket to which only its owner may connect. Otherwise as [`Self::bind`].
    ///
    /// # Errors
    /// See [`Self::bind`].
    pub fn bind_private(path: &Path) -> Result<Self, SocketError> {
        Self::bind_with(path, None, 0o600)
    }

    fn bind_with(path: &Path, group: Option<u32>, mode: u32) -> Result<Self, SocketError> {
        let system = |source| SocketError::System { path: path.to_owned(), source };
        let parent =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(system)?;
        // The lock ensures that two processes that start at the same time check the old socket one
        // after the other.
        let directory = File::open(parent).map_err(system)?;
        flock(&directory, FlockOperation::LockExclusive).map_err(|errno| system(errno.into()))?;
        match fs::symlink_metadata(path) {
            Ok(metadata) if !metadata.file_type().is_socket() => {
                return Err(SocketError::NotASocket { path: path.to_owned() });
            }
            Ok(_) if is_listening(path) => {
                return Err(SocketError::InUse { path: path.to_owned() });
            }
            _ => {}
        }
        let temporary = parent.join(format!(".weir-{}.sock", std::process::id()));
        // A process with the same number may have left this name.
        let _ = fs::remove_file(&temporary);
        let bound = bind_at(&temporary, path, group, mode);
        if bound.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        let (listener, identity) = bound.map_err(system)?;
        Ok(Self { path: path.to_owned(), listener: Some(listener), identity })
    }

    /// The path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn take_listener(&mut self) -> io::Result<UnixListener> {
        self.listener.take().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Removes the name, unless another process has taken it over.
    pub(super) fn remove(&self) {
        if fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity)
        {
            // If the directory is no longer writable, the name stays, and the next daemon replaces
            // it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Whether a process listens on a socket. A process that does not accept connections counts, and so
/// does one that this user may not reach. The call does not wait.
#[must_use]
pub fn is_listening(path: &Path) -> bool {
    let connected = SocketAddrUnix::new(path).and_then(|address| {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &address)
    });
    !matches!(connected, Err(Errno::CONNREFUSED | Errno::NOENT))
}

/// The ID of the process that listens on a socket; `None` if this user cannot connect to the
/// socket, or if the process has no ID in this process's PID namespace. The call does not wait.
#[must_use]
pub fn listener(path: &Path) -> Option<u32> {
    let address = SocketAddrUnix::new(path).ok()?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    connect(&socket, &address).ok()?;
    // The credentials of rustix cannot represent a process without an ID; those of tokio can.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().ok()?;
    let _inside = runtime.enter();
    visible_peer(&UnixStream::from_std(socket.into()).ok()?)
}

/// Binds a socket at `temporary`, and renames it to `path` once it has its group and mode. Also
/// returns its device and inode.
fn bind_at(
    temporary: &Path,
    path: &Path,
    group: Option<u32>,
    mode: u32,
) -> io::Result<(UnixListener, (u64, u64))> {
    let listener = UnixListener::bind(temporary)?;
    // No client knows the temporary name, but the mode is restrictive until the group is set.
    fs::set_permissions(temporary, Permissions::from_mode(0o600))?;
    if group.is_some() {
        chown(temporary, None, group)?;
    }
    fs::set_permissions(temporary, Permissions::from_mode(mode))?;
    listener.set_nonblocking(true)?;
    let metadata = fs::symlink_metadata(temporary)?;
    fs::rename(temporary, path)?;
    Ok((listener, (metadata.dev(), metadata.ino())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn a_stale_socket_is_replaced_and_one_in_use_is_refused() {
        let scratch = Scratch::new();
        let path = scratch.path().join("dir/weir.sock");
        let first = ControlSocket::bind(&path, None).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        assert!(matches!(ControlSocket::bind(&path, None), Err(SocketError::InUse { .. })));
        // The state after kill -9: the name exists but no process listens.
        let mut first = first;
        drop(first.take_listener());
        let second = ControlSocket::bind(&path, None).unwrap();
        drop(first);
        assert!(path.exists(), "the first one's end must not take the second one's name");
        drop(second);
        assert!(!path.exists());
        assert_eq!(fs::read_dir(scratch.path().join("dir")).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_is_no_socket_is_not_replaced() {
        let scratch = Scratch::new();
        let path = scratch.path().join("precious");
        fs::write(&path, "text").unwrap();
        assert!(matches!(ControlSocket::bind(&path, None), Err(SocketError::NotASocket { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
    }
}
