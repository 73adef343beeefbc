//! Commands in the hosts of another process's network: `weir exec`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

use crate::process::{
    Signals, SpawnError, Task, TaskSpec, Terminal, Wake, descriptor_of, wait_any,
};

/// Why a command could not run in a host.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// The host's process cannot be opened.
    #[error("the host has ended, or is not yours: {0}")]
    Gone(#[source] io::Error),
    /// The host's user namespace cannot be entered.
    #[error("cannot enter the user namespace of the host: {0}")]
    User(#[source] io::Error),
    /// The command could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The signals cannot be taken, or waiting failed.
    #[error("cannot wait for the command: {0}")]
    Wait(#[source] io::Error),
}

/// Runs a command in the namespaces of process `init`, with the terminal and the signals of this
/// process, and returns its exit code. If `init` is in another user namespace, this process enters
/// that namespace permanently, for which it must have only one thread.
///
/// # Errors
/// See [`EnterError`].
pub fn run_inside(
    init: u32,
    command: Vec<OsString>,
    directory: Option<PathBuf>,
) -> Result<u8, EnterError> {
    let descriptor = descriptor_of(init).map_err(EnterError::Gone)?;
    let namespace_id = |path: String| fs::metadata(path).map(|link| link.ino());
    let theirs = namespace_id(format!("/proc/{init}/ns/user")).map_err(EnterError::Gone)?;
    if namespace_id("/proc/self/ns/user".to_owned()).map_err(EnterError::User)? != theirs {
        move_into_thread_name_spaces(descriptor.as_fd(), ThreadNameSpaceType::USER)
            .map_err(|error| EnterError::User(error.into()))?;
    }
    let signals = Signals::take().map_err(EnterError::Wait)?;
    let terminal = Terminal::in_foreground();
    let spec = TaskSpec { command, directory, in_foreground: true, ..TaskSpec::default() };
    let mut task = Task::start(spec, Some(descriptor.as_fd()))?;
    let code = loop {
        match wait_any(&[&task], Some(&signals), None, None).map_err(EnterError::Wait)? {
            Wake::Program(_) => {
                if let Some(code) = task.report() {
                    break code;
                }
            }
            // A signal of the terminal has already reached the command; others are passed on.
            Wake::Signal(signal) if !signal.from_terminal => task.signal(signal.number),
            Wake::Signal(_) | Wake::Stopped | Wake::Timeout => {}
        }
    };
    if let Some(terminal) = terminal {
        terminal.take_back();
    }
    Ok(code)
}
