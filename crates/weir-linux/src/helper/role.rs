//! The kinds of helper processes, and the command that starts one.

use std::os::fd::RawFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::sys::process::{ignore_signal, keep_capabilities, keep_open, unblock_signals};

/// A kind of helper process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Process 1 of a program's PID namespace.
    Init,
    /// Restores the machine's settings.
    Janitor,
    /// Carries TCP connections between a link and the machine's network.
    Proxy,
    /// Forwards connections and datagrams from the sockets of one network to addresses of another.
    Forward,
    /// Runs commands when the main process asks for them, or has ended.
    Guard,
}

impl Role {
    pub(super) const ALL: [Self; 5] =
        [Self::Init, Self::Janitor, Self::Proxy, Self::Forward, Self::Guard];

    /// The hidden first argument that selects this helper.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Init => "__weir-init",
            Self::Janitor => "__weir-janitor",
            Self::Proxy => "__weir-proxy",
            Self::Forward => "__weir-forward",
            Self::Guard => "__weir-guard",
        }
    }
}

/// The command that starts a helper which inherits `socket`.
pub(crate) fn command(role: Role, socket: RawFd) -> Command {
    // This symbolic link works even after the executable was replaced or removed.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("weir").arg(role.word()).arg(socket.to_string());
    keep_open(&mut command, socket);
    unblock_signals(&mut command);
    // Root keeps its capabilities over exec without this call.
    if !rustix::process::geteuid().is_root() {
        keep_capabilities(&mut command);
    }
    command
}

/// Makes a helper ignore the signals that end the main process or that a terminal sends to the
/// whole group. A helper ends when its socket shows that the main process has ended.
pub(super) fn ignore_signals() {
    for signal in [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGPIPE,
        libc::SIGUSR1,
        libc::SIGUSR2,
    ] {
        ignore_signal(signal);
    }
}
