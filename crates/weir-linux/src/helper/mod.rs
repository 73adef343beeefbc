//! The processes that Weir starts from its own executable: the init of a program's namespaces, the
//! janitor, and the proxy.
//!
//! All run this executable under a hidden first argument, so that no second file must be installed
//! and found. Each holds one end of a socket whose other end belongs to the main process: its end
//! of file is the one message that even SIGKILL sends.

mod init;
mod janitor;
mod mounts;
mod proxy;

use std::os::fd::RawFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use crate::sys::process::{
    ignore_signal, inherited_descriptor, keep_capabilities, keep_open, unblock_signals,
};

pub(crate) use janitor::{Janitor, State, clean_up, list_states, state_directory, with_lock};
pub(crate) use proxy::{FIRST_PACKETS, NOTHING, Proxy, ProxySockets};

/// The kind of helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Process 1 of a program's PID namespace.
    Init,
    /// Restores the machine's settings.
    Janitor,
    /// Carries TCP connections between a link and the machine's network.
    Proxy,
}

/// Runs as a helper process when the arguments say so; `None` in a process that a user started.
///
/// Every executable that uses [`crate::topology`] calls this first in `main`.
#[must_use]
pub fn main_if_helper() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let role = match arguments.next()?.to_str()? {
        INIT => Role::Init,
        JANITOR => Role::Janitor,
        PROXY => Role::Proxy,
        _ => return None,
    };
    let number = arguments.next().and_then(|word| word.to_str()?.parse().ok());
    let Some(Ok(socket)) = number.map(inherited_descriptor) else {
        eprintln!("weir: {INIT}, {JANITOR} and {PROXY} are for weir's own use");
        return Some(ExitCode::from(2));
    };
    Some(match role {
        Role::Init => init::run(socket),
        Role::Janitor => janitor::run(socket),
        Role::Proxy => proxy::run(socket),
    })
}

/// The command that starts a helper holding `socket`.
pub(crate) fn command(role: Role, socket: RawFd) -> Command {
    // The link to the process itself works even if the file has been replaced or removed since.
    let mut command = Command::new("/proc/self/exe");
    let word = match role {
        Role::Init => INIT,
        Role::Janitor => JANITOR,
        Role::Proxy => PROXY,
    };
    command.arg0("weir").arg(word).arg(socket.to_string());
    keep_open(&mut command, socket);
    unblock_signals(&mut command);
    // Root keeps its capabilities over exec without help.
    if !rustix::process::geteuid().is_root() {
        keep_capabilities(&mut command);
    }
    command
}

/// Makes a helper ignore the signals that end the main process or are sent to both. It ends when
/// its socket shows that the main process is gone.
fn ignore_signals() {
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

const INIT: &str = "__weir-init";
const JANITOR: &str = "__weir-janitor";
const PROXY: &str = "__weir-proxy";
