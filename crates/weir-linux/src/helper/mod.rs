//! The processes that Weir starts from its own executable: the init of a program's namespaces, the
//! janitor, the proxy, the forwarder, and the guard.
//!
//! A hidden first argument selects the helper, so that no second file must be installed and found.
//! Each helper holds one end of a socket; the main process holds the other. When the main process
//! ends, even by SIGKILL, the helper reads an end of file.

mod forward;
mod guard;
mod init;
mod janitor;
mod limit;
mod mounts;
mod proxy;
mod relay;
mod role;
mod root;
mod volume;

use std::process::ExitCode;

use crate::sys::process::inherited_descriptor;

pub use guard::{Duty, Guard, Held};

pub(crate) use forward::{Entrance, Forward, Kind};
pub(crate) use janitor::{
    Janitor, State, clean_up, list_states, may_keep_state, state_directory, with_lock,
};
pub(crate) use proxy::{FIRST_PACKETS, NOTHING, Proxy, ProxySockets, first_packet, proxy_order};
pub(crate) use role::{Role, command};

/// If the first argument selects a helper, runs as this helper and returns its exit code. Returns
/// `None` in a process that a user started.
///
/// Every executable that uses [`crate::topology`] calls this first in `main`.
#[must_use]
pub fn main_if_helper() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let word = arguments.next()?;
    let role = Role::ALL.into_iter().find(|role| word == role.word())?;
    if role == Role::Init && !rustix::process::getpid().is_init() {
        // Init ends every process that it can signal. In its own PID namespace, these are the
        // program's background processes. Elsewhere, they would be all processes of the user.
        eprintln!(
            "weir: {} runs only as process 1 of a PID namespace; 'weir run' starts it there",
            role.word()
        );
        return Some(ExitCode::from(2));
    }
    let number = arguments.next().and_then(|word| word.to_str()?.parse().ok());
    let Some(Ok(socket)) = number.map(inherited_descriptor) else {
        eprintln!("weir: {} are for weir's own use", Role::ALL.map(Role::word).join(", "));
        return Some(ExitCode::from(2));
    };
    Some(match role {
        Role::Init => init::run(socket),
        Role::Janitor => janitor::run(socket),
        Role::Proxy => proxy::run(socket),
        Role::Forward => forward::run(socket),
        Role::Guard => guard::run(socket),
    })
}
