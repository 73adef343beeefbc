//! The server's side of studies: asks the spawner for processes, follows them, and keeps their
//! results.

use std::collections::VecDeque;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_control::dashboard::{
    CurveChoice, Example, KernelView, NewStudy, Studies, StudyError, StudyLimits, StudyPart,
    StudyState, StudyView,
};
use weir_linux::process::{End, Spawned, Spawner, User};

use super::curves;
use super::messages::{self, END, Missing, PART, PROGRESS, REFUSAL, REPORT, RESULTS, TABLES};
use super::scenario::{MOST_RUNS, StudyProgress, Wanted};
use super::task::{MEMORY, PROCESSOR_S, SHORT_MEMORY, SHORT_S, Task, WORD};
use super::watches::Watches;

/// Carries out one study at a time, one short request at a time (a check, a comparison, a list of
/// devices, or service curves), and watches of kernel queues.
#[derive(Debug)]
pub(crate) struct Workshop {
    spawner: Spawner,
    shelf: Arc<Mutex<Shelf>>,
    /// Held during a short request, so that only one is carried out at a time.
    short: Mutex<()>,
    watches: Watches,
    /// Whether the spawner has given up its rights.
    is_confined: bool,
}

/// The studies that are kept, oldest first.
#[derive(Debug, Default)]
struct Shelf {
    studies: VecDeque<Kept>,
    /// The number of the newest study.
    count: u64,
}

/// A study and, once it is done, its results.
#[derive(Debug)]
struct Kept {
    view: StudyView,
    began: Instant,
    /// The socket of the process, while it runs.
    stream: Option<UnixStream>,
    report: Option<Arc<[u8]>>,
    results: Option<Arc<[u8]>>,
}

impl Kept {
    fn bytes(&self) -> usize {
        [&self.report, &self.results].into_iter().flatten().map(|part| part.len()).sum()
    }
}

impl Shelf {
    fn find(&mut self, number: u64) -> Result<&mut Kept, StudyError> {
        let found = self.studies.iter_mut().find(|kept| kept.view.number == number);
        found.ok_or_else(|| {
            StudyError::Unknown(format!("there is no study {number}; it may be too old"))
        })
    }

    /// Forgets studies that have ended, oldest first, until those that remain and `more` new ones
    /// are within the bounds.
    fn tidy(&mut self, more: usize) {
        let is_full = |studies: &VecDeque<Kept>| {
            let bytes: usize = studies.iter().map(Kept::bytes).sum();
            studies.len() + more > KEPT || (studies.len() > 1 && bytes > KEPT_BYTES)
        };
        while is_full(&self.studies) {
            let ended = |kept: &Kept| kept.view.state != StudyState::Running;
            let Some(oldest) = self.studies.iter().position(ended) else { return };
            self.studies.remove(oldest);
        }
    }
}

impl Workshop {
    /// Starts the spawner. Call this before the process gives up rights or enters namespaces. With
    /// `confine`, the spawner gives up its own rights too, and becomes the given user, if any.
    ///
    /// # Errors
    /// The system has no process or descriptor left.
    pub(crate) fn start(confine: Option<Option<User>>) -> std::io::Result<Self> {
        let spawner = Spawner::start(WORD, confine)?;
        Ok(Self {
            spawner,
            shelf: Arc::default(),
            short: Mutex::default(),
            watches: Watches::default(),
            is_confined: confine.is_some(),
        })
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        lock(&self.shelf)
    }

    fn spawn(&self, task: Task) -> Result<Spawned, StudyError> {
        self.spawner.spawn(task.number()).map_err(|error| {
            StudyError::Failed(format!("the process that starts studies has ended: {error}"))
        })
    }

    /// Carries out `task` in a process, and returns its answer in JSON.
    fn ask(&self, task: Task, parts: &[&[u8]]) -> Result<String, StudyError> {
        let _turn = lock(&self.short);
        let spawned = self.spawn(task)?;
        let mut answer = None;
        exchange(&spawned, task, parts, Instant::now() + SHORT_WALL, |kind, bytes| {
            if kind == RESULTS {
                answer = String::from_utf8(bytes).ok();
            }
        })
        .map_err(StudyError::Failed)?;
        answer.ok_or_else(|| StudyError::Failed("the process has given no answer".to_owned()))
    }
}

impl Studies for Workshop {
    fn examples(&self) -> &'static [Example] {
        EXAMPLES
    }

    fn limits(&self) -> StudyLimits {
        StudyLimits {
            text_bytes: MOST_TEXT,
            runs: MOST_RUNS,
            processor_s: PROCESSOR_S,
            memory_bytes: MEMORY,
            result_bytes: MOST_RESULT,
            kept: KEPT,
        }
    }

    fn check(&self, text: &str) -> Result<String, StudyError> {
        bounded(text)?;
        self.ask(Task::Check, &[text.as_bytes()])
    }

    fn start(&self, study: NewStudy) -> Result<u64, StudyError> {
        bounded(&study.text)?;
        let NewStudy { text, runs, seed } = study;
        if runs.is_some_and(|runs| runs == 0 || u64::from(runs) > MOST_RUNS) {
            return Err(StudyError::Wrong(format!("`runs` is a number from 1 to {MOST_RUNS}")));
        }
        if seed.is_some_and(|seed| seed > i64::MAX as u64) {
            return Err(StudyError::Wrong(format!("`seed` is at most {}", i64::MAX)));
        }
        let wanted = serde_json::to_vec(&Wanted { text, runs, seed })
            .map_err(|error| StudyError::Wrong(error.to_string()))?;
        let mut shelf = self.shelf();
        if let Some(running) =
            shelf.studies.iter().find(|kept| kept.view.state == StudyState::Running)
        {
            return Err(StudyError::Busy(format!(
                "study {} still runs, and there is one at a time; wait for its end, or end it",
                running.view.number
            )));
        }
        shelf.tidy(1);
        let spawned = self.spawn(Task::Simulate)?;
        let stream = spawned.stream.try_clone().map_err(|error| {
            StudyError::Failed(format!("no descriptor is left for it: {error}"))
        })?;
        shelf.count += 1;
        let number = shelf.count;
        let all = Arc::clone(&self.shelf);
        let follow = move || follow(&spawned, &wanted, number, &all);
        std::thread::Builder::new()
            .name("weir-study".to_owned())
            .spawn(follow)
            .map_err(|error| StudyError::Failed(format!("no thread can be started: {error}")))?;
        shelf.studies.push_back(Kept {
            view: StudyView { number, ..StudyView::default() },
            began: Instant::now(),
            stream: Some(stream),
            report: None,
            results: None,
        });
        Ok(number)
    }

    fn list(&self) -> Vec<StudyView> {
        let shelf = self.shelf();
        let view = |kept: &Kept| {
            let mut view = kept.view.clone();
            if view.state == StudyState::Running {
                view.seconds = kept.began.elapsed().as_secs_f64();
            }
            view
        };
        shelf.studies.iter().map(view).collect()
    }

    fn remove(&self, number: u64) -> Result<(), StudyError> {
        let mut shelf = self.shelf();
        let kept = shelf.find(number)?;
        if kept.view.state != StudyState::Running {
            shelf.studies.retain(|kept| kept.view.number != number);
            return Ok(());
        }
        kept.view.state = StudyState::Cancelled;
        kept.view.seconds = kept.began.elapsed().as_secs_f64();
        if let Some(stream) = kept.stream.take() {
            // The process ends when its socket is closed.
            let _ = stream.shutdown(Shutdown::Both);
        }
        Ok(())
    }

    fn part(&self, number: u64, part: StudyPart) -> Result<Arc<[u8]>, StudyError> {
        let mut shelf = self.shelf();
        let kept = shelf.find(number)?;
        let bytes = match part {
            StudyPart::Report => &kept.report,
            StudyPart::Results => &kept.results,
        };
        bytes.clone().ok_or_else(|| StudyError::Unknown(format!("study {number} has no result")))
    }

    fn compare(&self, left: u64, right: u64) -> Result<String, StudyError> {
        let results = |number| {
            let StudyView { state, comparable, .. } = self.shelf().find(number)?.view;
            if state == StudyState::Done && !comparable {
                return Err(StudyError::Wrong(format!(
                    "study {number} is a sweep, whose points its report compares"
                )));
            }
            self.part(number, StudyPart::Results)
        };
        let (left, right) = (results(left)?, results(right)?);
        self.ask(Task::Compare, &[&left, &right])
    }

    fn devices(&self) -> Result<String, StudyError> {
        self.ask(Task::Devices, &[])
    }

    fn kernel(&self, device: &str, after: u64) -> Result<KernelView, StudyError> {
        let remark = self.is_confined.then_some(CONFINED);
        self.watches.view(device, after, remark, || self.spawn(Task::Watch))
    }

    fn curve_choice(&self) -> CurveChoice {
        CurveChoice {
            algorithms: curves::algorithms(),
            most_algorithms: curves::MOST_ALGORITHMS,
            most_flows: curves::MOST_FLOWS,
            most_packets: curves::MOST_PACKETS,
        }
    }

    fn curves(&self, wanted: &str) -> Result<String, StudyError> {
        bounded(wanted)?;
        self.ask(Task::Curves, &[wanted.as_bytes()])
    }
}

/// Follows a study until it ends, on a thread of its own.
fn follow(spawned: &Spawned, wanted: &[u8], number: u64, shelf: &Mutex<Shelf>) {
    let (mut report, mut results, mut tables) = (None, None, None);
    let until = Instant::now() + WALL;
    let done = exchange(spawned, Task::Simulate, &[wanted], until, |kind, bytes| match kind {
        PROGRESS => {
            let study: StudyProgress = serde_json::from_slice(&bytes).unwrap_or_default();
            if let Ok(kept) = lock(shelf).find(number) {
                let view = &mut kept.view;
                (view.part, view.events) = (study.part, study.events);
                (view.finished, view.runs) = (study.finished, study.runs);
                (view.name, view.comparable) = (study.name, study.comparable);
            }
        }
        REPORT => report = Some(bytes.into()),
        RESULTS => results = Some(bytes.into()),
        TABLES => tables = Some(String::from_utf8_lossy(&bytes).into_owned()),
        _ => {}
    });
    let mut shelf = lock(shelf);
    // A study that a client has cancelled and then removed is no longer there.
    let Ok(kept) = shelf.find(number) else { return };
    kept.stream = None;
    if kept.view.state == StudyState::Cancelled {
        return;
    }
    kept.view.seconds = kept.began.elapsed().as_secs_f64();
    match done {
        Ok(()) => {
            (kept.view.state, kept.view.part, kept.view.tables) = (StudyState::Done, 1.0, tables);
            (kept.report, kept.results) = (report, results);
        }
        Err(why) => {
            kept.view.state = StudyState::Failed;
            kept.view.error = Some(why);
        }
    }
    shelf.tidy(0);
}

/// Sends a request to a process and takes its messages until the last one.
fn exchange(
    spawned: &Spawned,
    task: Task,
    parts: &[&[u8]],
    until: Instant,
    mut take: impl FnMut(u8, Vec<u8>),
) -> Result<(), String> {
    let stream = &spawned.stream;
    let _ = stream.set_write_timeout(Some(SEND_WITHIN));
    // A failed send is ignored, because the process's own message gives a better reason.
    let _ = parts
        .iter()
        .try_for_each(|part| messages::send(stream, PART, part))
        .and_then(|()| messages::send(stream, END, b""));
    let missing = loop {
        match messages::receive(stream, MOST_RESULT, Some(until)) {
            Ok((END, _)) => return Ok(()),
            Ok((REFUSAL, why)) => return Err(String::from_utf8_lossy(&why).into_owned()),
            Ok((kind, bytes)) => take(kind, bytes),
            Err(missing) => break missing,
        }
    };
    let _ = stream.shutdown(Shutdown::Both);
    Err(match missing {
        Missing::Late => "it took too long".to_owned(),
        Missing::TooLong => format!(
            "its result has more than {} MiB; use `weir sim`, which writes files",
            MOST_RESULT >> 20
        ),
        Missing::Ended => ended(task, spawned.end()),
    })
}

/// Why a process has ended without an answer.
fn ended(task: Task, end: End) -> String {
    let (memory, seconds) = match task {
        Task::Simulate => (MEMORY, PROCESSOR_S),
        _ => (SHORT_MEMORY, SHORT_S),
    };
    match end {
        End::Signal(ABORTED | SEGMENT) => format!(
            "it needed more than {} MiB of memory; shorten it, or use `weir sim`",
            memory >> 20
        ),
        End::Signal(PROCESSOR | KILLED) => format!(
            "it needed more than {seconds} s of processor time; shorten it, or use `weir sim`"
        ),
        End::Code(PANICKED) => "it has panicked; please report this as a bug".to_owned(),
        End::Unknown => "no process could be started for it".to_owned(),
        End::Code(code) => format!("its process has ended with code {code}"),
        End::Signal(number) => format!("its process was ended by signal {number}"),
    }
}

fn bounded(text: &str) -> Result<(), StudyError> {
    if text.len() <= MOST_TEXT {
        return Ok(());
    }
    Err(StudyError::Wrong(format!("a scenario here has at most {} KiB", MOST_TEXT >> 10)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The examples that the page offers, from simple to large.
const EXAMPLES: &[Example] = &[
    Example { name: "two-hosts", text: include_str!("../../../../experiments/two-hosts.toml") },
    Example { name: "busy-line", text: include_str!("../../../../experiments/busy-line.toml") },
    Example {
        name: "tcp-dumbbell",
        text: include_str!("../../../../experiments/examples/tcp-dumbbell.toml"),
    },
    Example {
        name: "calls-behind-uploads",
        text: include_str!("../../../../experiments/examples/calls-behind-uploads.toml"),
    },
    Example {
        name: "parking-lot",
        text: include_str!("../../../../experiments/examples/parking-lot.toml"),
    },
    Example {
        name: "two-ways",
        text: include_str!("../../../../experiments/examples/two-ways.toml"),
    },
    Example {
        name: "wifi-anomaly",
        text: include_str!("../../../../experiments/examples/wifi-anomaly.toml"),
    },
    Example { name: "switch", text: include_str!("../../../../experiments/examples/switch.toml") },
];

/// Why a confined reader can use only netlink.
const CONFINED: &str = "the daemon gave up its rights after its start; --keep-privileges keeps \
                        them, and the queues are then read inside the kernel";
/// Maximum number of bytes of a scenario's text.
const MOST_TEXT: usize = 256 << 10;
/// Maximum number of bytes of a report, and of results.
const MOST_RESULT: usize = 8 << 20;
/// Maximum number of studies that are kept, and of bytes of all their reports and results.
const KEPT: usize = 8;
const KEPT_BYTES: usize = 48 << 20;
/// The time that a study may take; its processor time is bounded too.
const WALL: Duration = Duration::from_secs(1800);
/// The time that a short request may take.
const SHORT_WALL: Duration = Duration::from_secs(60);
/// The longest wait for a process to take a part of its request.
const SEND_WITHIN: Duration = Duration::from_secs(60);
/// The exit code after a panic.
const PANICKED: u8 = 101;
/// Signals that end a process at its bounds: SIGABRT if an allocation fails, SIGSEGV if the stack
/// overflows, SIGXCPU and SIGKILL if the processor time is used up.
const ABORTED: u8 = 6;
const SEGMENT: u8 = 11;
const PROCESSOR: u8 = 24;
const KILLED: u8 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(number: u64, state: StudyState, bytes: usize) -> Kept {
        let view = StudyView { number, state, ..StudyView::default() };
        let report = Some(vec![0; bytes].into());
        Kept { view, began: Instant::now(), stream: None, report, results: None }
    }

    #[test]
    fn old_studies_make_room_for_new_ones() {
        let mut shelf = Shelf::default();
        shelf.studies.push_back(kept(1, StudyState::Running, 0));
        shelf.studies.extend((2..=8).map(|number| kept(number, StudyState::Done, 10)));
        shelf.tidy(1);
        let numbers: Vec<u64> = shelf.studies.iter().map(|kept| kept.view.number).collect();
        assert_eq!(numbers, [1, 3, 4, 5, 6, 7, 8], "the running study is kept");
        shelf.studies.push_back(kept(9, StudyState::Done, KEPT_BYTES));
        shelf.tidy(0);
        let numbers: Vec<u64> = shelf.studies.iter().map(|kept| kept.view.number).collect();
        assert_eq!(numbers, [1, 9]);
    }

    #[test]
    fn messages_state_the_bound_that_was_reached() {
        let memory = ended(Task::Simulate, End::Signal(ABORTED));
        assert!(memory.contains("768 MiB"), "{memory}");
        let time = ended(Task::Check, End::Signal(PROCESSOR));
        assert!(time.contains("10 s of processor time"), "{time}");
        assert!(bounded(&"x".repeat(MOST_TEXT + 1)).is_err() && bounded("").is_ok());
    }
}
