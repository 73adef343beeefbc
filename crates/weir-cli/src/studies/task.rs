//! The process of a study: what it does, and what it gives up before it reads its request.

use std::io::Read as _;
use std::os::unix::net::UnixStream;

use weir_linux::process::{Bounds, Capabilities, Confinement, filter_system_calls};

use super::messages::{self, END, PART, REFUSAL};
use super::{comparison, curves, kernel, scenario};

/// The hidden first argument of the spawner.
pub(super) const WORD: &str = "__weir-studies";

/// The task of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Checks the text of a scenario.
    Check,
    /// Simulates a scenario.
    Simulate,
    /// Compares the results of two scenarios.
    Compare,
    /// Lists the network devices.
    Devices,
    /// Reads the kernel's queues of a device.
    Watch,
    /// Computes service curves.
    Curves,
}

impl Task {
    const ALL: [Self; 6] =
        [Self::Check, Self::Simulate, Self::Compare, Self::Devices, Self::Watch, Self::Curves];

    /// The number of the task in a request to the spawner.
    pub(super) fn number(self) -> u8 {
        self as u8
    }

    pub(super) fn bounds(self) -> Bounds {
        match self {
            Self::Check | Self::Compare | Self::Devices | Self::Curves => {
                Bounds { memory: SHORT_MEMORY, processor_s: SHORT_S, nice: 10 }
            }
            Self::Simulate => Bounds { memory: MEMORY, processor_s: PROCESSOR_S, nice: 19 },
            Self::Watch => Bounds { memory: SHORT_MEMORY, processor_s: WATCH_S, nice: 5 },
        }
    }
}

/// Carries out the task with this number in the process of a study. Returns the exit code.
pub(super) fn carry_out(number: u8, stream: UnixStream) -> u8 {
    let Some(task) = Task::ALL.into_iter().find(|task| task.number() == number) else {
        return FAILED;
    };
    if let Err(why) = confine(task) {
        // The client may have gone.
        let _ = messages::send(&stream, REFUSAL, why.as_bytes());
        return FAILED;
    }
    let Ok(request) = request(&stream) else { return FAILED };
    if !ends_with_its_client(&stream) {
        return FAILED;
    }
    let done = match task {
        Task::Check => scenario::check(&request, &stream),
        Task::Simulate => scenario::simulate(&request, &stream),
        Task::Compare => comparison::compare(&request, &stream),
        Task::Devices => kernel::devices(&stream),
        Task::Watch => kernel::watch(&request, &stream),
        Task::Curves => curves::compute(&request, &stream),
    };
    let sent = match done {
        Ok(()) => messages::send(&stream, END, b""),
        Err(why) => messages::send(&stream, REFUSAL, why.as_bytes()),
    };
    drop(stream);
    if sent.is_ok() { 0 } else { FAILED }
}

/// Gives up files, capabilities and most system calls, since the text of a scenario may come from
/// another user. A reader of queues keeps the rights of the spawner, because its programs inside
/// the kernel need them.
fn confine(task: Task) -> Result<(), String> {
    let failed = |why: &dyn std::fmt::Display| format!("the process cannot be confined: {why}");
    task.bounds().apply().map_err(|error| failed(&error))?;
    if task == Task::Watch {
        return Ok(());
    }
    Confinement::default().apply(Capabilities::empty()).map_err(|error| failed(&error))?;
    filter_system_calls().map_err(|error| failed(&error))
}

fn request(stream: &UnixStream) -> Result<Vec<Vec<u8>>, messages::Missing> {
    let mut parts = Vec::new();
    loop {
        match messages::receive(stream, MOST_REQUEST, None)? {
            (PART, bytes) => parts.push(bytes),
            _ => return Ok(parts),
        }
    }
}

/// Starts a thread that ends this process when its client closes the socket. Returns whether the
/// thread was started.
fn ends_with_its_client(stream: &UnixStream) -> bool {
    let Ok(stream) = stream.try_clone() else { return false };
    let wait = move || {
        // The client sends nothing more, so this call returns only when the socket is closed.
        let _ = (&stream).read(&mut [0]);
        std::process::exit(i32::from(FAILED));
    };
    std::thread::Builder::new().name("weir-client".to_owned()).spawn(wait).is_ok()
}

/// The exit code of a process without a result.
const FAILED: u8 = 1;
/// Maximum number of bytes of a part of a request. The largest parts are results to compare.
const MOST_REQUEST: usize = 16 << 20;
/// The bounds of a simulation: bytes of memory, and seconds of processor time.
pub(super) const MEMORY: u64 = 768 << 20;
pub(super) const PROCESSOR_S: u64 = 300;
/// The bounds of the process of a short request. A reader of queues has the same bound of memory.
pub(super) const SHORT_MEMORY: u64 = 512 << 20;
pub(super) const SHORT_S: u64 = 10;
/// The bound on the processor time of a reader, which may run for days.
pub(super) const WATCH_S: u64 = 86_400;
