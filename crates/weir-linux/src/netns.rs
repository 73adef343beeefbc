//! Network namespaces without names: they live until the last process or descriptor that refers to
//! them is gone.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::sys::process::unshare;

/// A network namespace.
#[derive(Debug)]
pub struct NetNs {
    file: File,
}

impl NetNs {
    /// Makes an empty namespace that has only the loopback interface, down. The calling thread
    /// stays in its own namespace.
    ///
    /// # Errors
    /// The kernel's error; `EPERM` without `CAP_SYS_ADMIN`.
    pub fn create() -> io::Result<NetNs> {
        on_a_thread(|| {
            unshare(UnshareFlags::NEWNET)?;
            NetNs::current()
        })
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub fn current() -> io::Result<NetNs> {
        Ok(NetNs { file: File::open("/proc/thread-self/ns/net")? })
    }

    /// The namespace that a descriptor refers to.
    #[must_use]
    pub fn of(descriptor: OwnedFd) -> NetNs {
        NetNs { file: descriptor.into() }
    }

    /// Runs `work` on a thread of its own inside the namespace and returns its result. Sockets made
    /// there stay there.
    ///
    /// # Errors
    /// When the namespace cannot be entered; what `work` returns.
    pub fn enter<T: Send, E: Send + From<io::Error>>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send,
    ) -> Result<T, E> {
        on_a_thread(|| {
            self.join()?;
            work()
        })
    }

    /// Moves the calling thread into the namespace for good.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn join(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// The descriptor that keeps it alive.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The number of that descriptor.
    #[must_use]
    pub fn raw(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// Runs `work` on a new thread and waits for it. Namespaces belong to threads, so the change of the
/// namespace ends with the thread.
///
/// # Errors
/// When no thread can be started; what `work` returns.
pub(crate) fn on_a_thread<T: Send, E: Send + From<io::Error>>(
    work: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    thread::scope(|scope| {
        let handle = thread::Builder::new().name("weir-netns".into()).spawn_scoped(scope, work)?;
        match handle.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Reads a network setting of the calling thread's namespace, such as `ipv4/ip_forward`.
///
/// # Errors
/// `NotFound` when the kernel does not have it.
pub fn read_setting(path: &str) -> io::Result<String> {
    Ok(std::fs::read_to_string(format!("/proc/sys/net/{path}"))?.trim().to_owned())
}

/// Writes a network setting of the calling thread's namespace.
///
/// # Errors
/// `NotFound` when the kernel does not have it, `PermissionDenied` or `ReadOnlyFilesystem` where
/// containers forbid it.
pub fn write_setting(path: &str, value: &str) -> io::Result<()> {
    std::fs::write(format!("/proc/sys/net/{path}"), value)
}
