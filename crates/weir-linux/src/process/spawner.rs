//! The spawner: a process that forks processes for its client. The client may be unable to do so:
//! a daemon has given up the right to start programs, and a session has entered namespaces of its
//! own.
//!
//! The spawner is this executable again, with one thread. It starts before its client gives up
//! rights, stays in the client's first namespaces, and waits for requests. For each request it
//! forks a copy of itself that has one end of a socket and runs a function of the executable. The
//! copy executes no file, so a confined spawner needs no access to files that it could execute. The
//! spawner ends when its client ends, in whatever manner.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{
    PidfdFlags, Resource, Rlimit, WaitId, WaitIdOptions, getpriority_process, pidfd_open,
    setpriority_process, setrlimit, waitid,
};

use super::confine::{CapabilitySet, Confinement, User};
use crate::sys::process::{Forked, fork_alone, inherited_descriptor, keep_open, unblock_signals};

/// The client's side of a spawner. Dropping it ends the spawner.
#[derive(Debug)]
pub struct Spawner {
    control: OwnedFd,
    child: Child,
}

/// A process that a spawner has started.
#[derive(Debug)]
pub struct Spawned {
    /// The socket to the process. Closing it tells the process that the result is no longer wanted.
    pub stream: UnixStream,
    /// The socket on which the spawner reports the end of the process.
    status: UnixStream,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process ended with this exit code.
    Code(u8),
    /// This signal ended the process.
    Signal(u8),
    /// The spawner has ended, or has started no process: too many ran already, or the kernel
    /// refused.
    Unknown,
}

/// The bounds on the resources of a process.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of address space.
    pub memory: u64,
    /// Seconds of processor time.
    pub processor_s: u64,
    /// Minimum nice value: 0 is the value of other programs, and 19 is the lowest priority.
    pub nice: i32,
}

impl Bounds {
    /// Limits this process. Afterwards the process can extend no file and leaves no dump of its
    /// memory, and a signal ends it when its processor time is used up.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn apply(&self) -> io::Result<()> {
        let limits = [
            (Resource::As, self.memory, self.memory),
            (Resource::Cpu, self.processor_s, self.processor_s + 2),
            (Resource::Fsize, 0, 0),
            (Resource::Core, 0, 0),
        ];
        for (resource, current, maximum) in limits {
            setrlimit(resource, Rlimit { current: Some(current), maximum: Some(maximum) })?;
        }
        // The priority is only lowered: raising it would need a privilege.
        if getpriority_process(None)? < self.nice {
            setpriority_process(None, self.nice)?;
        }
        Ok(())
    }
}

impl Spawner {
    /// Starts a spawner: this executable with `word` as its first argument. With this argument, the
    /// executable must call [`spawner_main`]. With `confine`, the spawner gives up all capabilities
    /// and access to files outside `/proc` before it handles a request, and changes to the given
    /// user, if any.
    ///
    /// # Errors
    /// The system has no process or descriptor left.
    pub fn start(word: &str, confine: Option<Option<User>>) -> io::Result<Self> {
        let (control, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        // This link works even after the executable was replaced or removed.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("weir").arg(word).arg(theirs.as_raw_fd().to_string());
        match confine {
            None => {}
            Some(None) => {
                command.arg("confined");
            }
            Some(Some(User { uid, gid })) => {
                command.arg("confined").arg(uid.to_string()).arg(gid.to_string());
            }
        }
        keep_open(&mut command, theirs.as_raw_fd());
        unblock_signals(&mut command);
        // A separate process group, because the terminal's signals are for the client.
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn()?;
        Ok(Self { control, child })
    }

    /// Starts a process for the request with the number `what`.
    ///
    /// # Errors
    /// The spawner has ended, or the system has no descriptor left.
    pub fn spawn(&self, what: u8) -> io::Result<Spawned> {
        let (stream, theirs) = UnixStream::pair()?;
        let (status, reports) = UnixStream::pair()?;
        let ends = [theirs.as_fd(), reports.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        rights.push(SendAncillaryMessage::ScmRights(&ends));
        sendmsg(&self.control, &[IoSlice::new(&[what])], &mut rights, SendFlags::NOSIGNAL)?;
        Ok(Spawned { stream, status })
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        // The spawner's socket is still open here, so the spawner would not end on its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Spawned {
    /// Waits for the end of the process.
    #[must_use]
    pub fn end(&self) -> End {
        let mut report = [0; 2];
        match (&self.status).read_exact(&mut report) {
            Ok(()) if report[0] == CODE => End::Code(report[1]),
            Ok(()) => End::Signal(report[1]),
            Err(_) => End::Unknown,
        }
    }
}

/// Runs as a spawner. `arguments` are the arguments after the `word` of [`Spawner::start`]. Each
/// process that the spawner forks runs `body` with the number of the request and the socket; `body`
/// returns the exit code.
#[must_use]
pub fn spawner_main(
    mut arguments: impl Iterator<Item = std::ffi::OsString>,
    body: fn(u8, UnixStream) -> u8,
) -> ExitCode {
    let mut next_word = || arguments.next().and_then(|word| word.to_str().map(str::to_owned));
    let socket = next_word().and_then(|word| word.parse().ok());
    let Some(Ok(control)) = socket.map(inherited_descriptor) else {
        eprintln!("weir: this command is for weir's own use");
        return ExitCode::from(2);
    };
    if next_word().is_some() {
        let mut id = || next_word().and_then(|word| word.parse().ok());
        // The spawner reads its number of threads from /proc before each fork.
        let mut confinement = Confinement::default().read("/proc");
        if let (Some(uid), Some(gid)) = (id(), id()) {
            confinement = confinement.user(User { uid, gid });
        }
        if confinement.apply(CapabilitySet::empty()).is_err() {
            return ExitCode::FAILURE;
        }
    }
    match serve(&control) {
        Ok(Some((what, stream))) => {
            drop(control);
            ExitCode::from(body(what, stream))
        }
        Ok(None) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Forks a process for each request. Returns the request in the new process, and `None` in the
/// spawner when its client has ended.
fn serve(control: &OwnedFd) -> io::Result<Option<(u8, UnixStream)>> {
    let mut running: Vec<Running> = Vec::new();
    loop {
        let asked = {
            let mut fds = vec![PollFd::new(control, PollFlags::IN)];
            fds.extend(running.iter().map(|one| PollFd::new(&one.process, PollFlags::IN)));
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            !fds[0].revents().is_empty()
        };
        running.retain_mut(|one| !one.has_ended());
        if !asked {
            continue;
        }
        let Some((what, stream, status)) = receive(control)? else { return Ok(None) };
        // Above the limit, the request's sockets are closed without a report.
        if running.len() >= MOST {
            continue;
        }
        match fork_alone() {
            Ok(Forked::Child) => {
                drop((running, status));
                return Ok(Some((what, stream)));
            }
            Ok(Forked::Parent(pid)) => {
                let process = pidfd_open(pid, PidfdFlags::empty())?;
                running.push(Running { process, status });
            }
            // The sockets are closed without a report, which the client notices.
            Err(_) => {}
        }
    }
}

struct Running {
    /// The process's descriptor, which is readable when the process has ended.
    process: OwnedFd,
    /// The socket for the report of the end.
    status: UnixStream,
}

impl Running {
    /// Whether the process has ended. Reports the end to the client.
    fn has_ended(&mut self) -> bool {
        let id = WaitId::PidFd(self.process.as_fd());
        let Ok(ended) = waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) else {
            return true;
        };
        let Some(status) = ended else { return false };
        let byte = |number: Option<i32>| number.and_then(|number| u8::try_from(number).ok());
        let report = match (byte(status.exit_status()), byte(status.terminating_signal())) {
            (Some(code), _) => [CODE, code],
            (None, signal) => [SIGNAL, signal.unwrap_or(0)],
        };
        // This fails if the client no longer waits.
        let _ = self.status.write_all(&report);
        true
    }
}

/// Receives a request with its two sockets: one for the process, and one for the report of its end.
/// `None` after the client's end.
fn receive(control: &OwnedFd) -> io::Result<Option<(u8, UnixStream, UnixStream)>> {
    loop {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = match recvmsg(control, &mut [IoSliceMut::new(&mut byte)], &mut rights, flags)
        {
            Err(Errno::INTR) => continue,
            received => received?,
        };
        if received.bytes == 0 {
            return Ok(None);
        }
        let mut sockets = rights.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => fds.map(UnixStream::from).collect(),
            _ => Vec::new(),
        });
        let (stream, status) = (sockets.next(), sockets.next());
        if let (Some(stream), Some(status)) = (stream, status) {
            return Ok(Some((byte[0], stream, status)));
        }
    }
}

const MOST: usize = 16;
/// The kinds of reports about an end.
const CODE: u8 = 0;
const SIGNAL: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// This process cannot be a spawner, because a spawner has one thread and a test has several.
    #[test]
    fn a_process_with_threads_is_not_forked() {
        let forked = std::thread::spawn(fork_alone).join().unwrap();
        assert_eq!(forked.map_err(|error| error.raw_os_error()), Err(Some(libc::EINVAL)));
    }

    #[test]
    fn a_spawner_that_has_ended_is_noticed() {
        let (control, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        let spawner = Spawner { control, child: Command::new("true").spawn().unwrap() };
        let spawned = spawner.spawn(0).unwrap();
        drop(theirs);
        assert_eq!(spawned.end(), End::Unknown);
        assert!(spawner.spawn(0).is_err());
    }
}
