//! Namespaces, signals, and the state that a child keeps over `exec`: the system calls of
//! `process`, `netns` and `helper`.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};

use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

/// Moves the calling thread into new namespaces. For a new user namespace the process must have
/// only one thread.
///
/// # Errors
/// The kernel's error, and `EINVAL` for `FILES`, which this wrapper refuses.
pub fn unshare(flags: UnshareFlags) -> io::Result<()> {
    if flags.contains(UnshareFlags::FILES) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: the only hazard of unshare is a thread with its own descriptor table, excluded
    // above.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Blocks `signals` in the calling thread (and in threads that it starts later) and returns a
/// non-blocking descriptor that reads them.
///
/// # Errors
/// The kernel's error.
pub fn signal_descriptor(signals: &[i32]) -> io::Result<OwnedFd> {
    // SAFETY: an all-zero sigset_t is a valid object; sigemptyset initialises it in any case.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a live local.
    unsafe { libc::sigemptyset(&raw mut set) };
    for &signal in signals {
        // SAFETY: `set` is a live, initialised local.
        if unsafe { libc::sigaddset(&raw mut set, signal) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: `set` is initialised, and the old mask is not requested.
    let error =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    // SAFETY: `set` is initialised; -1 requests a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: signalfd returned a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A signal read from a [`signal_descriptor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalInfo {
    /// The signal's number.
    pub number: i32,
    /// Whether the kernel itself sent the signal. A terminal's signals come from the kernel and go
    /// to the whole foreground group.
    pub from_kernel: bool,
}

/// The next pending signal; `None` when there is none.
///
/// # Errors
/// The kernel's error.
pub fn read_signal(fd: BorrowedFd<'_>) -> io::Result<Option<SignalInfo>> {
    let mut info = std::mem::MaybeUninit::<libc::signalfd_siginfo>::uninit();
    let size = size_of::<libc::signalfd_siginfo>();
    // SAFETY: the buffer has `size` bytes, and the kernel writes whole records only.
    let got = unsafe { libc::read(fd.as_raw_fd(), info.as_mut_ptr().cast(), size) };
    if got == isize::try_from(size).unwrap_or(isize::MAX) {
        // SAFETY: the kernel filled the whole record.
        let info = unsafe { info.assume_init() };
        let number = i32::try_from(info.ssi_signo).unwrap_or(0);
        return Ok(Some(SignalInfo { number, from_kernel: info.ssi_code == libc::SI_KERNEL }));
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        _ if got >= 0 => Ok(None),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
        _ => Err(error),
    }
}

/// Makes this process ignore `signal`.
pub fn ignore_signal(signal: i32) {
    // SAFETY: SIG_IGN installs no handler.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Keeps `fd` open in the child of `command`, although it closes on exec otherwise.
pub fn keep_open(command: &mut Command, fd: RawFd) {
    let keep = move || {
        // SAFETY: fcntl on a descriptor number touches no memory; a stale number only gives an
        // error.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: the closure makes one async-signal-safe call and allocates nothing.
    unsafe { command.pre_exec(keep) };
}

/// Starts the child of `command` with no signal blocked, even if this process reads signals from a
/// [`signal_descriptor`].
pub fn unblock_signals(command: &mut Command) {
    let unblock = || {
        // SAFETY: an all-zero sigset_t is a valid object; sigemptyset initialises it in any case.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is a live local.
        unsafe { libc::sigemptyset(&raw mut set) };
        // SAFETY: `set` is initialised, and the old mask is not requested.
        match unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut())
        } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    };
    // SAFETY: the closure makes async-signal-safe calls on its own stack and allocates nothing.
    unsafe { command.pre_exec(unblock) };
}

/// Lets the child of `command` keep the capabilities of this process over `exec`. Otherwise an
/// ordinary user loses them, even inside the user's own user namespace.
pub fn keep_capabilities(command: &mut Command) {
    let keep = || {
        let mut sets = rustix::thread::capabilities(None)?;
        sets.inheritable = sets.permitted;
        rustix::thread::set_capabilities(None, sets)?;
        for capability in sets.permitted.iter() {
            // This fails for a capability outside the bounding set, which is not needed either.
            let _ = rustix::thread::configure_capability_in_ambient_set(capability, true);
        }
        Ok(())
    };
    // SAFETY: the closure makes raw system calls only and allocates nothing.
    unsafe { command.pre_exec(keep) };
}

/// Removes every capability of the calling thread, so that programs inherit none from it.
///
/// # Errors
/// The kernel's error.
pub fn drop_own_capabilities() -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    Ok(rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?)
}

/// Starts the child of `command` without the capabilities that [`keep_capabilities`] passed on.
pub fn drop_capabilities(command: &mut Command) {
    let drop_all = || {
        rustix::thread::clear_ambient_capability_set()?;
        let mut sets = rustix::thread::capabilities(None)?;
        sets.inheritable = CapabilitySet::empty();
        Ok(rustix::thread::set_capabilities(None, sets)?)
    };
    // SAFETY: the closure makes raw system calls only and allocates nothing.
    unsafe { command.pre_exec(drop_all) };
}

/// Sends `signal` to every process of the calling process's PID namespace except itself and the
/// init process. Returns `false` when there is no other process.
#[must_use]
pub fn signal_all(signal: i32) -> bool {
    // SAFETY: kill touches no memory.
    unsafe { libc::kill(-1, signal) == 0 }
}

/// Sends `signal` to the process `pid`. Does nothing if `pid` is not positive.
pub fn signal_process(pid: i32, signal: i32) {
    if pid > 0 {
        // SAFETY: kill touches no memory.
        unsafe { libc::kill(pid, signal) };
    }
}

/// The process in which [`fork_alone`] has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    /// The new process.
    Child,
    /// The calling process, with the number of the new process.
    Parent(rustix::process::Pid),
}

/// Copies this process, which must have only one thread.
///
/// # Errors
/// The kernel's error, and `EINVAL` if there are several threads.
pub fn fork_alone() -> io::Result<Forked> {
    // The lock of another thread, such as that of the allocator, would stay locked in the copy.
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: there is no other thread, so the copy finds all memory and locks as the only thread
    // left them.
    match unsafe { libc::fork() } {
        0 => Ok(Forked::Child),
        pid => rustix::process::Pid::from_raw(pid)
            .filter(|_| pid > 0)
            .map(Forked::Parent)
            .ok_or_else(io::Error::last_os_error),
    }
}

/// Maps a page of memory that is executable, as an attacker would, and unmaps it.
#[cfg(test)]
pub(crate) fn map_executable() -> io::Result<()> {
    let rights = libc::PROT_READ | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice affects no other memory.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, rights, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping was made above, and nothing refers to it.
    unsafe { libc::munmap(page, PAGE) };
    Ok(())
}

#[cfg(test)]
const PAGE: usize = 4096;

/// The supplementary groups of the process at the other end of a Unix socket, at the time when it
/// connected.
///
/// # Errors
/// The kernel's error; `ERANGE` for more than 1024 groups.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0 as libc::gid_t; 1024];
    let mut length = libc::socklen_t::try_from(size_of_val(groups.as_slice())).unwrap_or(0);
    // SAFETY: the kernel writes at most `length` bytes into the vector's elements, which are valid
    // and ours for the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    groups.truncate(length as usize / size_of::<libc::gid_t>());
    Ok(groups)
}

/// The kernel's report about a TCP connection. Fields that an older kernel does not report stay 0.
///
/// # Errors
/// The kernel's error.
pub fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<libc::tcp_info> {
    // SAFETY: an all-zero tcp_info is a valid object: it has numbers only.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).unwrap_or(0);
    // SAFETY: the kernel writes at most `length` bytes into `info`, which is ours for the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(info) }
}

/// Takes ownership of a descriptor that this process inherited under a known number, and makes it
/// close on exec.
///
/// # Errors
/// No such descriptor is open.
pub fn inherited_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_SETFD touches no memory.
    if number <= 2 || unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the descriptor is open. Only the start of the helper process claims it, once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The kernel's `MOUNT_ATTR_RDONLY`.
const MOUNT_ATTR_RDONLY: u64 = 1;

/// Makes a detached mount, and all that is mounted below it, read-only.
///
/// # Errors
/// The kernel's error; `ENOSYS` before Linux 5.12.
pub fn make_read_only(tree: BorrowedFd<'_>) -> io::Result<()> {
    /// The kernel's `struct mount_attr`.
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let attributes =
        Attributes { set: MOUNT_ATTR_RDONLY, clear: 0, propagation: 0, user_namespace: 0 };
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: the path is an empty C string, and `attributes` lives during the call, which reads
    // as many bytes of it as the last argument says.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The exit code that a shell gives for a status.
#[must_use]
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|number| 128 + number));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_becomes_a_shells_exit_code() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
    }
}
