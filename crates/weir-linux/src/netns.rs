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
    /// Creates a namespace that has only the loopback interface, switched off. The calling thread
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
    /// `/proc` is not mounted.
    pub fn current() -> io::Result<NetNs> {
        Ok(NetNs { file: File::open("/proc/thread-self/ns/net")? })
    }

    /// The namespace that a descriptor refers to.
    #[must_use]
    pub fn of(descriptor: OwnedFd) -> NetNs {
        NetNs { file: descriptor.into() }
    }

    /// The namespace of a process.
    ///
    /// # Errors
    /// The process has ended, or the caller may not inspect it.
    pub fn of_process(process: u32) -> io::Result<NetNs> {
        Ok(NetNs { file: File::open(format!("/proc/{process}/ns/net"))? })
    }

    /// Another descriptor of the same namespace.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn try_clone(&self) -> io::Result<NetNs> {
        Ok(NetNs { file: self.file.try_clone()? })
    }

    /// Runs `work` on a new thread inside the namespace and returns its result. Sockets made there
    /// belong to the namespace.
    ///
    /// # Errors
    /// The namespace cannot be entered, or `work` fails.
    pub fn enter<T: Send, E: Send + From<io::Error>>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send,
    ) -> Result<T, E> {
        on_a_thread(|| {
            self.join()?;
            work()
        })
    }

    /// Moves the calling thread into the namespace permanently.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn join(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// The descriptor that keeps the namespace alive.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The number of the descriptor that keeps the namespace alive.
    #[must_use]
    pub fn raw(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// Runs `work` on a new thread and waits for it. A thread's change of namespace ends with the
/// thread.
///
/// # Errors
/// No thread can be started, or `work` fails.
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
/// `NotFound` when the kernel does not have the setting.
pub fn read_setting(path: &str) -> io::Result<String> {
    Ok(std::fs::read_to_string(format!("/proc/sys/net/{path}"))?.trim().to_owned())
}

/// Writes a network setting of the calling thread's namespace.
///
/// # Errors
/// `NotFound` when the kernel does not have the setting, `PermissionDenied` or `ReadOnlyFilesystem`
/// where containers forbid the change.
pub fn write_setting(path: &str, value: &str) -> io::Result<()> {
    std::fs::write(format!("/proc/sys/net/{path}"), value)
}
