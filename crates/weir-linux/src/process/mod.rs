//! Programs in their own PID namespaces, the signals of this process, and waiting for both at
//! once; also the confinement of this process, and the spawner.
//!
//! A program is started through an init process: this executable again, as process 1 of a new PID
//! namespace (see [`crate::helper`]). When the init process ends, the kernel kills all processes of
//! its namespace, daemons included. The init process ends when the socket to this process closes.
//! The kernel closes the socket even if this process is killed.

mod confine;
mod error;
mod filter;
mod inside;
mod job;
mod protocol;
mod signals;
mod spawner;
mod terminal;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::UnshareFlags;

pub use confine::{CapabilitySet as Capabilities, ConfineError, Confinement, User, give_up};
pub use error::SpawnError;
pub use filter::filter_system_calls;
pub(crate) use inside::{Task, TaskSpec, descriptor_of};
pub use job::{Job, JobEvent};
pub(crate) use protocol::{
    Event, NETNS_FILE, Order, Request, RootOrder, VolumeOrder, receive, send,
};
pub use signals::{Signal, Signals, Stopper};
pub use spawner::{Bounds, End, Spawned, Spawner, spawner_main};
pub(crate) use terminal::Terminal;

use crate::helper;
use crate::netns::{NetNs, on_a_thread};
use crate::sys;

/// The program to run, and the environment in which it runs. [`Order`] describes the fields that
/// have the same names there.
#[derive(Debug)]
pub(crate) struct ProgramSpec {
    pub(crate) command: Vec<OsString>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) hosts: Option<String>,
    pub(crate) resolv: Option<String>,
    pub(crate) own_proc: bool,
    pub(crate) without_stdin: bool,
    pub(crate) keep_capabilities: bool,
    /// The network namespace of [`Order::netns`].
    pub(crate) target: Option<RawFd>,
    /// Receives the program's standard error. Without `input` and `output`, standard input is then
    /// empty and standard output is discarded. The terminal's signals do not reach the program.
    pub(crate) quiet: Option<UnixStream>,
    /// Standard input and output, if they differ from those of this process.
    pub(crate) input: Option<OwnedFd>,
    pub(crate) output: Option<OwnedFd>,
    /// Whether the init process leaves this process's group, so that the terminal's signals do not
    /// reach it.
    pub(crate) own_group: bool,
    /// Host name, root file system and mounts of the new namespaces, which other processes may
    /// enter.
    pub(crate) hostname: Option<String>,
    pub(crate) root: Option<RootOrder>,
    pub(crate) volumes: Vec<VolumeOrder>,
}

impl ProgramSpec {
    pub(crate) fn new(command: &[OsString]) -> ProgramSpec {
        ProgramSpec {
            command: command.to_vec(),
            environment: Vec::new(),
            hosts: None,
            resolv: None,
            own_proc: false,
            without_stdin: false,
            keep_capabilities: false,
            target: None,
            quiet: None,
            input: None,
            output: None,
            own_group: false,
            hostname: None,
            root: None,
            volumes: Vec::new(),
        }
    }

    fn name(&self) -> String {
        self.command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn order(&self) -> Order {
        Order {
            command: self.command.iter().map(|word| word.as_bytes().to_vec()).collect(),
            environment: self.environment.clone(),
            hosts: self.hosts.clone(),
            resolv: self.resolv.clone(),
            own_proc: self.own_proc,
            without_stdin: self.without_stdin,
            keep_capabilities: self.keep_capabilities,
            netns: self.target,
            grace_ms: u64::try_from(BACKGROUND_GRACE.as_millis()).unwrap_or(u64::MAX),
            hostname: self.hostname.clone(),
            root: self.root.clone(),
            volumes: self.volumes.clone(),
        }
    }
}

/// A running program, controlled through its init process. Dropping this kills the program and
/// everything that it started.
#[derive(Debug)]
pub(crate) struct Program {
    init: Child,
    socket: UnixStream,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// The exit code; 128 + n when signal n ended the program.
    pub(crate) code: u8,
    /// The number of background processes that the init process ended.
    pub(crate) background: u32,
}

/// An init process without a program. Dropping this ends it.
#[derive(Debug)]
pub(crate) struct Waiting(Program);

impl Waiting {
    /// Makes new PID and mount namespaces, in `netns`, with an init process that waits for its
    /// program. The process gets ready while the caller does other work.
    pub(crate) fn start(netns: &NetNs) -> io::Result<Waiting> {
        Self::start_for(&ProgramSpec::new(&[]), Some(netns))
    }

    fn start_for(spec: &ProgramSpec, netns: Option<&NetNs>) -> io::Result<Waiting> {
        let (socket, theirs) = UnixStream::pair()?;
        let init = on_a_thread(|| {
            if let Some(netns) = netns {
                netns.join()?;
            }
            sys::process::unshare(UnshareFlags::NEWPID | UnshareFlags::NEWNS)?;
            let mut command = helper::command(helper::Role::Init, theirs.as_raw_fd());
            if let Some(fd) = spec.target {
                sys::process::keep_open(&mut command, fd);
            }
            if spec.quiet.is_some() {
                command.stdin(Stdio::null()).stdout(Stdio::null());
            }
            if let Some(input) = &spec.input {
                command.stdin(Stdio::from(input.try_clone()?));
            }
            if let Some(output) = &spec.output {
                command.stdout(Stdio::from(output.try_clone()?));
            }
            if spec.own_group {
                command.process_group(0);
            }
            if let Some(errors) = &spec.quiet {
                command.stderr(Stdio::from(OwnedFd::from(errors.try_clone()?)));
                command.process_group(0);
            }
            command.spawn()
        })?;
        Ok(Waiting(Program { init, socket }))
    }

    /// Starts the program. Returns it, and a sentence for each optional step that failed. A spec
    /// with descriptors or a group of its own needs [`Program::start`].
    pub(crate) fn launch(self, spec: &ProgramSpec) -> Result<(Program, Vec<String>), SpawnError> {
        let Waiting(program) = self;
        let name = spec.name();
        let failed = |source| SpawnError::Namespace { command: name.clone(), source };
        send(&program.socket, &spec.order()).map_err(failed)?;
        match receive(&program.socket).map_err(failed)? {
            Event::Started { warnings } => Ok((program, warnings)),
            Event::ExecFailed { errno } if errno == libc::ENOENT => {
                Err(SpawnError::NotFound { command: name })
            }
            Event::ExecFailed { errno } => Err(SpawnError::NotExecutable {
                command: name,
                source: io::Error::from_raw_os_error(errno),
            }),
            Event::SetupFailed { what, errno } => {
                let source = io::Error::from_raw_os_error(errno);
                Err(SpawnError::Namespace {
                    command: name,
                    source: io::Error::new(source.kind(), format!("{what}: {source}")),
                })
            }
            Event::Ended { .. } => Err(failed(io::ErrorKind::InvalidData.into())),
        }
    }
}

impl Program {
    /// Starts a program in new PID and mount namespaces, in `netns` or the caller's network
    /// namespace. Returns the program, and a sentence for each optional step that failed.
    pub(crate) fn start(
        spec: &ProgramSpec,
        netns: Option<&NetNs>,
    ) -> Result<(Program, Vec<String>), SpawnError> {
        let waiting = Waiting::start_for(spec, netns);
        let failed = |source| SpawnError::Namespace { command: spec.name(), source };
        waiting.map_err(failed)?.launch(spec)
    }

    /// Sends a signal to the program itself; without effect after the program has ended.
    pub(crate) fn signal(&self, number: i32) {
        // If the program has ended, the next read finds the end of file, so the error is ignored.
        let _ = send(&self.socket, &Request::Signal(number));
    }

    /// How the program ended, if the next message says so. Waits for that message.
    pub(crate) fn report(&mut self) -> Option<Report> {
        let report = match receive(&self.socket) {
            Ok(Event::Ended { code, background }) => Report { code, background },
            Ok(_) => return None,
            // The init process itself was killed, and the kernel has killed the program with it.
            Err(_) => Report { code: 128 + 9, background: 0 },
        };
        self.reap();
        Some(report)
    }

    /// The number of the init process.
    pub(crate) fn init(&self) -> u32 {
        self.init.id()
    }

    pub(crate) fn is_over(&mut self) -> bool {
        !matches!(self.init.try_wait(), Ok(None))
    }

    /// Kills the program and everything that it started, and waits until all are gone.
    pub(crate) fn kill(mut self) {
        self.reap();
    }

    fn reap(&mut self) {
        // Both calls fail only if the child was already reaped.
        let _ = self.init.kill();
        let _ = self.init.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.reap();
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The event that ended [`wait_any`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The program with this index has sent a message, or ended.
    Program(usize),
    /// This process received a signal.
    Signal(Signal),
    /// [`Stopper::stop`] was called.
    Stopped,
    /// The time `until` was reached.
    Timeout,
}

/// Waits for the first of these: a program's message or end, a signal, the stopper, a point in
/// time.
pub(crate) fn wait_any<P: AsFd>(
    programs: &[&P],
    signals: Option<&Signals>,
    stopper: Option<&Stopper>,
    until: Option<Instant>,
) -> io::Result<Wake> {
    loop {
        let mut fds: Vec<PollFd<'_>> =
            programs.iter().map(|program| PollFd::new(*program, PollFlags::IN)).collect();
        let signal_at = signals.map(|signals| {
            fds.push(PollFd::new(signals, PollFlags::IN));
            fds.len() - 1
        });
        let stop_at = stopper.map(|stopper| {
            fds.push(PollFd::new(stopper, PollFlags::IN));
            fds.len() - 1
        });
        let remaining = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = remaining.map(timespec);
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => return Ok(Wake::Timeout),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let ready = |at: usize| !fds[at].revents().is_empty();
        if let (Some(at), Some(signals)) = (signal_at, signals)
            && ready(at)
            && let Some(signal) = signals.next()?
        {
            return Ok(Wake::Signal(signal));
        }
        if let Some(index) = (0..programs.len()).find(|&index| ready(index)) {
            return Ok(Wake::Program(index));
        }
        if stop_at.is_some_and(ready) {
            return Ok(Wake::Stopped);
        }
    }
}

pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// The path of the executable file `name` in a directory of PATH, or in one of the directories
/// where Debian has administration tools.
#[must_use]
pub fn find_tool(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin", "/usr/bin", "/usr/local/bin", "/usr/local/sbin"]
        .map(std::path::PathBuf::from);
    std::env::split_paths(&path)
        .chain(usual)
        .map(|dir| dir.join(name))
        .find(|file| is_executable(file.as_os_str()))
}

fn is_executable(path: &OsStr) -> bool {
    std::path::Path::new(path).is_file()
        && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Time between SIGTERM and SIGKILL for background processes, after their program has ended.
const BACKGROUND_GRACE: Duration = Duration::from_millis(500);
