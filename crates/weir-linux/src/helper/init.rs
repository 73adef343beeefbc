//! Process 1 of a program's PID namespace. It sets up the mounts, starts the program, reaps
//! processes, forwards signals, and ends the background processes of the program.
//!
//! The kernel kills every process of a PID namespace when process 1 ends. Process 1 ends when the
//! program has ended, or when the socket to the main process closes, so no process survives.
//! Process 1 and the program stay in the process group of the main process, so a terminal's signals
//! and job control work as they do without Weir. Process 1 itself ignores those signals.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{WaitOptions, wait};
use rustix::thread::UnshareFlags;

use super::mounts;
use crate::process::{Event, Order, Request, receive, send, timespec};
use crate::sys::process::{
    drop_capabilities, exit_code, read_signal, signal_all, signal_descriptor, signal_process,
    unblock_signals, unshare,
};

/// Runs as init until the program or the main process has ended.
pub(super) fn run(socket: OwnedFd) -> ExitCode {
    let socket = UnixStream::from(socket);
    // The name only appears in process lists, so a failure does not matter.
    let _ = rustix::thread::set_name(c"weir-init");
    let Ok(order) = receive::<Order>(&socket) else {
        return ExitCode::FAILURE;
    };
    match Init::start(socket, &order) {
        Some(Ok(init)) => init.watch(),
        Some(Err(_)) | None => ExitCode::FAILURE,
    }
}

struct Init {
    /// The socket to the main process.
    socket: UnixStream,
    /// Becomes readable when a child process has ended.
    children: OwnedFd,
    /// The process number of the program; 0 without a program.
    program: i32,
    /// The time between SIGTERM and SIGKILL for background processes.
    grace: Duration,
}

impl Init {
    /// Sets up the mounts and starts the program; `None` after a failure that this function has
    /// reported to the main process.
    fn start(socket: UnixStream, order: &Order) -> Option<io::Result<Init>> {
        let tell = |event: &Event| {
            // Sending fails only if the main process has ended, and then this process ends too.
            let _ = send(&socket, event);
        };
        let children = match signal_descriptor(&[libc::SIGCHLD]) {
            Ok(fd) => fd,
            Err(error) => return Some(Err(error)),
        };
        let renamed = order.hostname.as_deref().map_or(Ok(()), rename);
        let warnings = match mounts::set_up(order) {
            Ok(mut warnings) => {
                warnings.extend(renamed.err().map(|error| {
                    format!("the host name is the machine's: it could not be changed ({error})")
                }));
                warnings
            }
            Err((what, error)) => {
                tell(&Event::SetupFailed {
                    what,
                    errno: error.raw_os_error().unwrap_or(libc::EIO),
                });
                return None;
            }
        };
        let words: Vec<OsString> = order.command.iter().cloned().map(OsString::from_vec).collect();
        let Some((first, rest)) = words.split_first() else {
            tell(&Event::Started { warnings });
            return Some(Ok(Init { socket, children, program: 0, grace: Duration::ZERO }));
        };
        let mut command = Command::new(first);
        command.args(rest).envs(order.environment.iter().map(|(name, value)| (name, value)));
        if order.without_stdin {
            command.stdin(Stdio::null());
        }
        if !order.keep_capabilities {
            drop_capabilities(&mut command);
        }
        unblock_signals(&mut command);
        match command.spawn() {
            Ok(child) => {
                tell(&Event::Started { warnings });
                let program = i32::try_from(child.id()).unwrap_or(0);
                Some(Ok(Init {
                    socket,
                    children,
                    program,
                    grace: Duration::from_millis(order.grace_ms),
                }))
            }
            Err(error) => {
                tell(&Event::ExecFailed { errno: error.raw_os_error().unwrap_or(libc::EIO) });
                None
            }
        }
    }

    /// Reaps processes and forwards signals until the program has ended.
    fn watch(self) -> ExitCode {
        loop {
            let mut fds = [
                PollFd::new(&self.socket, PollFlags::IN),
                PollFd::new(&self.children, PollFlags::IN),
            ];
            if poll(&mut fds, None).is_err_and(|error| error != rustix::io::Errno::INTR) {
                return ExitCode::FAILURE;
            }
            let (message, child) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
            if child && let (Some(status), _) = self.reap() {
                let background = self.end_background();
                // Sending fails only if the main process has ended.
                let _ = send(&self.socket, &Event::Ended { code: exit_code(status), background });
                return ExitCode::SUCCESS;
            }
            if message {
                match receive(&self.socket) {
                    Ok(Request::Signal(number)) => signal_process(self.program, number),
                    Err(_) => return ExitCode::FAILURE,
                }
            }
        }
    }

    /// Reaps ended processes. Returns the status of the program, if the program is one of them, and
    /// the number of other processes.
    fn reap(&self) -> (Option<ExitStatus>, u32) {
        while let Ok(Some(_)) = read_signal(self.children.as_fd()) {}
        let (mut status, mut others) = (None, 0);
        while let Ok(Some((pid, ended))) = wait(WaitOptions::NOHANG) {
            if pid.as_raw_nonzero().get() == self.program {
                status = Some(ExitStatus::from_raw(ended.as_raw()));
            } else {
                others += 1;
            }
        }
        (status, others)
    }

    /// Ends the background processes of the program: SIGTERM, a grace period, SIGKILL. Returns
    /// their number.
    fn end_background(&self) -> u32 {
        let mut ended = 0;
        let deadline = Instant::now() + self.grace;
        let mut signal = libc::SIGTERM;
        // A stopped process handles SIGTERM only after SIGCONT.
        while signal_all(signal) && (signal != libc::SIGTERM || signal_all(libc::SIGCONT)) {
            let remaining = deadline.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(&self.children, PollFlags::IN)];
            // The next iteration checks again, so an interruption does not matter.
            let _ = poll(&mut fds, Some(&timespec(remaining.max(KILL_POLL))));
            ended += self.reap().1;
            signal = if Instant::now() >= deadline { libc::SIGKILL } else { 0 };
        }
        ended
    }
}

/// Gives this process a UTS namespace with this host name.
fn rename(name: &str) -> io::Result<()> {
    unshare(UnshareFlags::NEWUTS)?;
    Ok(rustix::system::sethostname(name.as_bytes())?)
}

/// Interval between checks after SIGKILL, because the kernel needs a moment to end a process.
const KILL_POLL: Duration = Duration::from_millis(5);
