//! The generators and programs on the hosts: started, told what to do, and heard.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use weir_linux::topology::{Launch, Network, ProgramId};

use crate::output::Failure;
use weir_traffic::host::order::{Order, Ready, Report, Start};

/// A generator at work.
#[derive(Debug)]
pub(super) struct Agent {
    /// The program that it is.
    pub(super) id: ProgramId,
    /// Its host's name.
    name: String,
    input: File,
    lines: Receiver<String>,
}

impl Agent {
    /// Starts one on the host with this number, and gives it its order.
    pub(super) fn start(
        network: &mut Network,
        host: usize,
        order: &Order,
    ) -> Result<Self, Failure> {
        let name = network.ends()[host].name.clone();
        let failed = |error: std::io::Error| {
            Failure::own(format!("cannot start the traffic of {name}: {error}"))
        };
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()));
        let ((theirs_in, ours_in), (ours_out, theirs_out)) = (pipe()?, pipe()?);
        let command = vec!["/proc/self/exe".into(), "traffic".into()];
        let launch = Launch { command, input: Some(theirs_in), output: Some(theirs_out) };
        let id = network.spawn(host, launch).map_err(Failure::own)?;
        let lines = hear(ours_out).map_err(failed)?;
        let mut input = File::from(ours_in);
        tell(&mut input, order).map_err(failed)?;
        Ok(Self { id, name, input, lines })
    }

    /// Waits until its sockets are there.
    pub(super) fn ready(&self) -> Result<(), Failure> {
        self.hear::<Ready>(LONGEST_START).map(|Ready {}| ())
    }

    /// Tells it when to start.
    pub(super) fn begin(&mut self, start: Start) -> Result<(), Failure> {
        let name = &self.name;
        tell(&mut self.input, &start)
            .map_err(|error| Failure::own(format!("the traffic of {name} has ended: {error}")))
    }

    /// What it has seen, when it is over.
    pub(super) fn report(&self) -> Result<Report, Failure> {
        self.hear(LONGEST_REPORT)
    }

    fn hear<T: serde::de::DeserializeOwned>(&self, longest: Duration) -> Result<T, Failure> {
        let why = match self.lines.recv_timeout(longest) {
            Ok(line) => match serde_json::from_str(&line) {
                Ok(message) => return Ok(message),
                Err(error) => error.to_string(),
            },
            // What it has to say about that is on standard error.
            Err(RecvTimeoutError::Disconnected) => "its process has ended".to_owned(),
            Err(RecvTimeoutError::Timeout) => {
                format!("it has said nothing for {} seconds", longest.as_secs())
            }
        };
        Err(Failure::own(format!("the traffic of {} failed: {why}", self.name)))
    }
}

/// Reads lines on a thread: a report is longer than a pipe holds.
fn hear(from: OwnedFd) -> std::io::Result<Receiver<String>> {
    let (lines, heard) = channel();
    std::thread::Builder::new().name("weir-hear".into()).spawn(move || {
        // The end of the process is the end of its lines; a line that nobody waits for any more is
        // dropped.
        for line in BufReader::new(File::from(from)).lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                break;
            }
        }
    })?;
    Ok(heard)
}

fn tell(to: &mut File, message: &impl serde::Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// A program of the user's at work.
#[derive(Debug)]
pub(super) struct Program {
    /// The program that it is.
    pub(super) id: ProgramId,
    output: File,
}

impl Program {
    /// Starts a shell command on the host with this number; what it prints is kept.
    pub(super) fn start(
        network: &mut Network,
        host: usize,
        command: &str,
    ) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::own(format!("cannot keep what {command} prints: {error}"))
        };
        let output = File::from(
            memfd_create("weir-output", MemfdFlags::CLOEXEC)
                .map_err(|errno| failed(errno.into()))?,
        );
        let theirs = output.try_clone().map_err(failed)?.into();
        let command = vec!["/bin/sh".into(), "-c".into(), command.into()];
        let id = network
            .spawn(host, Launch { command, input: None, output: Some(theirs) })
            .map_err(|error| Failure::new(error.exit_code(), error))?;
        Ok(Self { id, output })
    }

    /// What it has printed.
    pub(super) fn output(mut self) -> Vec<u8> {
        let mut text = Vec::new();
        // The file is memory of this process; what cannot be read is not there.
        let _ = self.output.rewind().and_then(|()| self.output.read_to_end(&mut text));
        text
    }
}

/// When an experiment starts, counted from when everything is ready: the orders have to be read.
pub(super) fn soon() -> (Start, Instant) {
    let now = Instant::now();
    let at_ns = weir_linux::clock::now().0 + HEAD_START.as_nanos() as u64;
    (Start { at_ns }, now + HEAD_START)
}

/// Between the word that all are ready and the start.
const HEAD_START: Duration = Duration::from_millis(100);
/// Until a generator has its sockets. It has to read the scenario first, which may be large.
const LONGEST_START: Duration = Duration::from_secs(30);
/// From the end of a run until a generator's report: the drain, and reading what has come.
const LONGEST_REPORT: Duration = Duration::from_secs(30);
