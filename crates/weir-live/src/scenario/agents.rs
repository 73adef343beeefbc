//! The processes on the hosts: generators, which receive orders and send reports, and programs of
//! the user.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use weir_linux::topology::{Launch, Network, ProgramId};
use weir_traffic::host::order::{Order, Ready, Report, Start};

use super::error::{ScenarioError, TrafficError};
use crate::session::LiveSession;

/// A running generator process.
#[derive(Debug)]
pub(super) struct Agent {
    id: ProgramId,
    host: String,
    /// The pipe for orders to the generator.
    input: File,
    /// The messages of the generator, one in each line.
    lines: Receiver<String>,
}

impl Agent {
    /// Starts a generator on the host with this number, and sends `order` to it. `command` runs
    /// [`weir_traffic::host::run`] on standard input and output.
    pub(super) fn start(
        session: &mut LiveSession<Network>,
        host: usize,
        command: &[OsString],
        order: &Order,
    ) -> Result<Self, ScenarioError> {
        let name = session.ends()[host].name.clone();
        let failed = |source| ScenarioError::Generator { host: name.clone(), source };
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()));
        let ((theirs_in, ours_in), (ours_out, theirs_out)) = (pipe()?, pipe()?);
        let launch =
            Launch { command: command.to_vec(), input: Some(theirs_in), output: Some(theirs_out) };
        let id = session.launch(host, launch).map_err(ScenarioError::GeneratorSpawn)?;
        let lines = read_lines(ours_out).map_err(failed)?;
        let mut input = File::from(ours_in);
        write(&mut input, order).map_err(failed)?;
        Ok(Self { id, host: name, input, lines })
    }

    pub(super) fn id(&self) -> ProgramId {
        self.id
    }

    /// Waits until the generator has opened its sockets.
    pub(super) fn ready(&self) -> Result<(), ScenarioError> {
        self.message::<Ready>(LONGEST_START).map(|Ready {}| ())
    }

    /// Sends the start time to the generator.
    pub(super) fn begin(&mut self, start: Start) -> Result<(), ScenarioError> {
        write(&mut self.input, &start)
            .map_err(|source| ScenarioError::TrafficEnded { host: self.host.clone(), source })
    }

    /// Waits for the generator's report, after the end of the run.
    pub(super) fn report(&self) -> Result<Report, ScenarioError> {
        self.message(LONGEST_REPORT)
    }

    /// The next message of the generator, which must arrive within the time `longest`.
    fn message<T: serde::de::DeserializeOwned>(
        &self,
        longest: Duration,
    ) -> Result<T, ScenarioError> {
        let line = self.lines.recv_timeout(longest).map_err(|error| match error {
            RecvTimeoutError::Disconnected => TrafficError::Ended,
            RecvTimeoutError::Timeout => TrafficError::Silent(longest),
        });
        line.and_then(|line| Ok(serde_json::from_str(&line)?))
            .map_err(|source| ScenarioError::Traffic { host: self.host.clone(), source })
    }
}

/// Reads lines on a thread. Without the thread, a report that is larger than the pipe would block
/// the writer.
fn read_lines(from: OwnedFd) -> io::Result<Receiver<String>> {
    let (lines, received) = channel();
    std::thread::Builder::new().name("weir-hear".into()).spawn(move || {
        for line in BufReader::new(File::from(from)).lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                break;
            }
        }
    })?;
    Ok(received)
}

fn write(to: &mut File, message: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// A running program of the user.
#[derive(Debug)]
pub(super) struct Program {
    id: ProgramId,
    /// The file in memory that receives the program's output.
    output: File,
}

impl Program {
    /// Starts a shell command on the host with this number, and stores its output.
    pub(super) fn start(
        session: &mut LiveSession<Network>,
        host: usize,
        command: &str,
    ) -> Result<Self, ScenarioError> {
        let failed = |source| ScenarioError::Output { command: command.to_owned(), source };
        let output = File::from(
            memfd_create("weir-output", MemfdFlags::CLOEXEC)
                .map_err(|errno| failed(errno.into()))?,
        );
        let theirs = output.try_clone().map_err(failed)?.into();
        let command = vec!["/bin/sh".into(), "-c".into(), command.into()];
        let id = session
            .launch(host, Launch { command, input: None, output: Some(theirs) })
            .map_err(ScenarioError::Program)?;
        Ok(Self { id, output })
    }

    pub(super) fn id(&self) -> ProgramId {
        self.id
    }

    /// The program's output so far.
    pub(super) fn output(mut self) -> Vec<u8> {
        let mut text = Vec::new();
        // The file is in memory, so reading it does not fail.
        let _ = self.output.rewind().and_then(|()| self.output.read_to_end(&mut text));
        text
    }
}

/// The start time of the run, on the monotonic clock and as an [`Instant`]. Called when all
/// processes are ready. The time is in the future, because the generators must read it first.
pub(super) fn soon() -> (Start, Instant) {
    let now = Instant::now();
    let at_ns = weir_linux::clock::now().0 + HEAD_START.as_nanos() as u64;
    (Start { at_ns }, now + HEAD_START)
}

/// Time between the moment at which all generators are ready and the start.
const HEAD_START: Duration = Duration::from_millis(100);
/// The longest time that a generator may take to open its sockets. It first reads the scenario,
/// which may be large.
const LONGEST_START: Duration = Duration::from_secs(30);
/// The longest time from the end of a run to a generator's report. Generators first receive the
/// packets that were inside at the end.
const LONGEST_REPORT: Duration = Duration::from_secs(30);
