//! Commands of a lab, which enter the namespaces of a host or stay in those of this process.
//!
//! Process 1 of the host holds the namespaces. When it ends, the kernel ends every process in its
//! PID namespace.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces};

use super::error::SpawnError;
use crate::netns::on_a_thread;
use crate::sys::process::{drop_capabilities, exit_code, signal_process, unblock_signals, unshare};

/// A command to start.
#[derive(Debug, Default)]
pub(crate) struct TaskSpec {
    pub(crate) command: Vec<OsString>,
    pub(crate) environment: Vec<(String, String)>,
    /// The current directory. If `None`: the root directory of the namespaces that the command
    /// enters, or this process's directory if it enters none.
    pub(crate) directory: Option<PathBuf>,
    /// Whether the command reads this process's standard input and receives the terminal's signals.
    pub(crate) in_foreground: bool,
    /// The command's standard output and standard error; this process's own if `None`.
    pub(crate) output: Option<OwnedFd>,
    pub(crate) errors: Option<OwnedFd>,
}

/// A running command. Dropping this value kills the command and the process group that it leads, if
/// any.
#[derive(Debug)]
pub(crate) struct Task {
    child: Child,
    /// Whether the command leads a process group of its own.
    leads: bool,
    descriptor: OwnedFd,
}

impl Task {
    /// Starts a command in the namespaces of the process behind the descriptor `init`, or in those
    /// of this process.
    pub(crate) fn start(spec: TaskSpec, init: Option<BorrowedFd<'_>>) -> Result<Self, SpawnError> {
        let Some((first, rest)) = spec.command.split_first() else {
            return Err(SpawnError::Empty);
        };
        let name = first.to_string_lossy().into_owned();
        let leads = !spec.in_foreground;
        let mut command = Command::new(first);
        command.args(rest).envs(spec.environment);
        if let Some(directory) = spec.directory {
            command.current_dir(directory);
        }
        if !spec.in_foreground {
            command.stdin(Stdio::null()).process_group(0);
        }
        if let Some(output) = spec.output {
            command.stdout(output);
        }
        if let Some(errors) = spec.errors {
            command.stderr(errors);
        }
        if init.is_some() {
            drop_capabilities(&mut command);
        }
        unblock_signals(&mut command);
        let failed = |source| SpawnError::Namespace { command: name.clone(), source };
        // The outer result is that of entering the namespaces; the inner result is that of the
        // command. Both errors may be `NotFound`, and only the inner error is about the command.
        let spawned = on_a_thread(|| {
            if let Some(init) = init {
                unshare(UnshareFlags::FS)?;
                move_into_thread_name_spaces(init, NAMESPACES)?;
            }
            Ok::<_, io::Error>(command.spawn())
        });
        let child = match spawned.map_err(failed)? {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(SpawnError::NotFound { command: name });
            }
            Err(error) if init.is_some() && error.raw_os_error() == Some(libc::ENOMEM) => {
                return Err(SpawnError::Ended { command: name });
            }
            Err(source) => return Err(SpawnError::NotExecutable { command: name, source }),
        };
        let descriptor = descriptor_of(child.id()).map_err(failed)?;
        Ok(Self { child, leads, descriptor })
    }

    /// The exit code, if the command has ended; 128 + n after signal n.
    pub(crate) fn report(&mut self) -> Option<u8> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(exit_code(status)),
            // Other code has reaped the command.
            Err(_) => Some(255),
        }
    }

    /// Sends a signal to the command, whose end must not have been reported yet.
    pub(crate) fn signal(&self, number: i32) {
        signal_process(i32::try_from(self.child.id()).unwrap_or(0), number);
    }

    fn kill(&mut self) {
        // The number of the group is valid until the command is reaped.
        if self.leads
            && let Ok(None) = self.child.try_wait()
            && let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        // Both calls fail only if the command was already reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl AsFd for Task {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A descriptor of a process, which is readable when the process has ended.
pub(crate) fn descriptor_of(process: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// The namespaces that a host has for itself.
const NAMESPACES: ThreadNameSpaceType = ThreadNameSpaceType::NETWORK
    .union(ThreadNameSpaceType::MOUNT)
    .union(ThreadNameSpaceType::PROCESS_ID)
    .union(ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME);
