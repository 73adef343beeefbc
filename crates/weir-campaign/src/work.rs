//! Carries out runs and puts their results into a store.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use weir_report::sim::{Results, Table, TableError, TraceTable, tables};
use weir_sim::build::BuildError;
use weir_sim::measure::{Names, Outcome, Record, Sink};
use weir_sim::run::{Job, Progress, run};
use weir_sim::scenario::{self, Checked, Scenario};

use crate::canonical::{self, with_seed};
use crate::engine;
use crate::inputs::Stored;
use crate::key::{Key, Made, Runner};
use crate::live::{LiveError, LiveRun};
use crate::store::{Committed, Facts, Store, StoreError};

/// The runs of one point of a campaign that a worker carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The number of the point. The reports of its runs have the same number.
    pub point: u64,
    /// The scenario in canonical form, without a seed.
    pub body: String,
    /// The files that the scenario names, and the keys of their contents in the store.
    pub inputs: Vec<(String, Key)>,
    /// The seeds of the runs.
    pub seeds: TaskSeeds,
    /// The program that carries out the runs.
    pub by: Runner,
}

/// The seeds of a task, in the order of its runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskSeeds {
    /// Consecutive seeds.
    Consecutive {
        /// The first seed.
        first: u64,
        /// Number of seeds.
        count: u64,
    },
    /// These seeds.
    List(Vec<u64>),
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The number of the point.
    pub point: u64,
    /// The seed.
    pub seed: u64,
    /// The key of the run.
    pub key: Key,
    /// The time that the run took.
    pub took: Duration,
    /// How the run ended.
    pub end: End,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub enum End {
    /// It was carried out and stored.
    Made,
    /// It was in the store already.
    There,
    /// It failed.
    Failed {
        /// The reason.
        reason: String,
        /// Whether another attempt may succeed.
        again: bool,
        /// Whether all other runs would fail as well.
        lasting: bool,
    },
}

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The scenario is refused.
    #[error("{0}")]
    Scenario(String),
    /// The network cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A table cannot be made.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The trace cannot be made.
    #[error("the trace cannot be made")]
    Trace,
    /// The run took too long.
    #[error("the run took longer than {0:?}")]
    Late(Duration),
    /// The run was stopped.
    #[error("the run was stopped")]
    Stopped,
    /// The store refuses the result.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The live run failed.
    #[error("{0}")]
    Live(LiveError),
    /// There is no command for live runs.
    #[error("a live run needs the command `weir`, which this worker does not have")]
    NoCommand,
    /// A live run cannot be carried out again.
    #[error("a live run cannot be carried out again: each execution gives other results")]
    OnlyOnce,
    /// The store has the run with other bytes.
    #[error("{0} is in the store with other bytes: `weir sweep verify` shows which are wrong")]
    Differs(Key),
}

/// Limits of each run.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The longest time that a run may take; `None` for no limit.
    pub time: Option<Duration>,
    /// The path of the command `weir`; `None` if live runs cannot be carried out.
    pub weir: Option<PathBuf>,
}

/// The files of a run, by name, as they are stored.
pub type Files = Vec<(String, Vec<u8>)>;

/// Carries out the runs of `tasks` in order, and returns the outcome of each. `go_on` is called at
/// least every 20 ms, and ends the work when it returns false.
pub fn carry_out(
    store: &Store,
    tasks: &[Task],
    limits: &Limits,
    go_on: &mut dyn FnMut() -> bool,
) -> Vec<Report> {
    let stopping = AtomicBool::new(false);
    let mut reports = Vec::new();
    std::thread::scope(|scope| {
        let (sender, events) = mpsc::channel();
        let stopping = &stopping;
        scope.spawn(move || all(store, tasks, limits, stopping, &sender));
        let mut current: Option<(Arc<Progress>, Instant)> = None;
        loop {
            match events.recv_timeout(CHECK_INTERVAL) {
                Ok(Event::Started(progress)) => current = Some((progress, Instant::now())),
                Ok(Event::Ended(report)) => {
                    current = None;
                    reports.push(report);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            if !go_on() {
                stopping.store(true, Ordering::Relaxed);
            }
            if let Some((progress, began)) = &current
                && (stopping.load(Ordering::Relaxed)
                    || limits.time.is_some_and(|most| began.elapsed() > most))
            {
                progress.stop.store(true, Ordering::Relaxed);
            }
        }
    });
    reports
}

/// A message from the thread that carries out the runs.
enum Event {
    Started(Arc<Progress>),
    Ended(Report),
}

/// Carries out the runs of all tasks, on a thread of its own.
fn all(
    store: &Store,
    tasks: &[Task],
    limits: &Limits,
    stopping: &AtomicBool,
    events: &mpsc::Sender<Event>,
) {
    for task in tasks {
        let work = Work::new(store, task, limits);
        for seed in task.seeds.iter() {
            if stopping.load(Ordering::Relaxed) {
                return;
            }
            let began = Instant::now();
            let key = task.key(seed);
            let end = if store.has(key) {
                End::There
            } else {
                let progress = Arc::new(Progress::default());
                // The receiver lives as long as this thread.
                let _ = events.send(Event::Started(Arc::clone(&progress)));
                let made = work.run_and_store(store, task, seed, &progress);
                if stopping.load(Ordering::Relaxed) && matches!(made, Err(WorkError::Stopped)) {
                    return;
                }
                match made {
                    Ok(()) => End::Made,
                    Err(error) => failed(error, limits),
                }
            };
            let took = began.elapsed();
            let report = Report { point: task.point, seed, key, took, end };
            let _ = events.send(Event::Ended(report));
        }
    }
}

/// The outcome of a failed run. If there is a time limit, a stopped run has exceeded it.
fn failed(error: WorkError, limits: &Limits) -> End {
    let error = match (error, limits.time) {
        (WorkError::Stopped, Some(most)) => WorkError::Late(most),
        (error, _) => error,
    };
    let (again, lasting) = match &error {
        WorkError::Store(error) => (!error.is_lasting(), error.is_lasting()),
        WorkError::Late(_) => (true, false),
        WorkError::Live(LiveError::Store(error)) => (!error.is_lasting(), error.is_lasting()),
        // A live run may fail because the machine is too busy. Another attempt may then succeed.
        WorkError::Live(LiveError::Failed { refused, .. }) => (!refused, false),
        WorkError::Live(LiveError::Outside(_)) => (false, false),
        WorkError::Live(_) => (true, false),
        _ => (false, false),
    };
    End::Failed { reason: error.to_string(), again, lasting }
}

impl TaskSeeds {
    /// Number of seeds.
    #[must_use]
    pub fn count(&self) -> u64 {
        match self {
            Self::Consecutive { count, .. } => *count,
            Self::List(seeds) => seeds.len() as u64,
        }
    }

    /// The seed at an index; `None` after the last one.
    #[must_use]
    pub fn get(&self, at: u64) -> Option<u64> {
        match self {
            Self::Consecutive { first, count } => (at < *count).then(|| first.wrapping_add(at)),
            Self::List(seeds) => seeds.get(usize::try_from(at).ok()?).copied(),
        }
    }

    /// The seeds in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.count()).filter_map(|at| self.get(at))
    }
}

impl Task {
    /// The same task with only this seed.
    #[must_use]
    pub fn only(&self, seed: u64) -> Self {
        let (body, inputs) = (self.body.clone(), self.inputs.clone());
        let seeds = TaskSeeds::List(vec![seed]);
        Self { point: self.point, body, inputs, seeds, by: self.by }
    }

    /// The key of the run with a seed.
    #[must_use]
    pub fn key(&self, seed: u64) -> Key {
        let text = with_seed(&self.body, seed);
        let (source, inputs) = (self.by.name(), &self.inputs[..]);
        Key::of_run(&Made { engine: engine(), source, text: &text, inputs })
    }

    /// Carries out the run with a seed, and returns its files and its number of events.
    ///
    /// # Errors
    /// The run is live, cannot be carried out, or was stopped.
    pub fn simulate(
        &self,
        store: &Store,
        seed: u64,
        progress: &Progress,
    ) -> Result<(Files, u64), WorkError> {
        self.refuse_live()?;
        let prepared = Prepared::new(store, self).map_err(WorkError::Scenario)?;
        prepared.files(self, seed, progress)
    }

    /// Carries out the run with a seed, and returns its results.
    ///
    /// # Errors
    /// The run is live, cannot be carried out, or was stopped.
    pub fn results(&self, store: &Store, seed: u64) -> Result<Results, WorkError> {
        self.refuse_live()?;
        let prepared = Prepared::new(store, self).map_err(WorkError::Scenario)?;
        let job = Job { scenario: &prepared.scenario, seed };
        let outcome = run(job, &Progress::default(), &|_| None)?.ok_or(WorkError::Stopped)?;
        Ok(results(with_seed(&self.body, seed), outcome))
    }

    /// Refuses a live run, because a second execution gives other results.
    fn refuse_live(&self) -> Result<(), WorkError> {
        match self.by {
            Runner::Sim => Ok(()),
            Runner::Live => Err(WorkError::OnlyOnce),
        }
    }
}

/// How the runs of a task are carried out.
enum Work<'a> {
    Sim(Prepared),
    Live(&'a Path),
    /// The scenario is refused, so the runs fail.
    Refused(String),
    /// The runs are live, and there is no command for them, so they fail.
    NoCommand,
}

impl<'a> Work<'a> {
    fn new(store: &Store, task: &Task, limits: &'a Limits) -> Self {
        match task.by {
            Runner::Sim => Prepared::new(store, task).map_or_else(Self::Refused, Self::Sim),
            Runner::Live => limits.weir.as_deref().map_or(Self::NoCommand, Self::Live),
        }
    }

    fn run_and_store(
        &self,
        store: &Store,
        task: &Task,
        seed: u64,
        progress: &Progress,
    ) -> Result<(), WorkError> {
        let text = with_seed(&task.body, seed);
        let (files, events, name) = match self {
            Self::Sim(prepared) => {
                let (files, events) = prepared.files(task, seed, progress)?;
                (files, events, prepared.scenario.name.clone())
            }
            Self::Live(weir) => {
                let run = LiveRun { weir, text: &text, inputs: &task.inputs };
                let (files, events) =
                    run.carry_out(store, &progress.stop).map_err(|error| match error {
                        LiveError::Stopped => WorkError::Stopped,
                        error => WorkError::Live(error),
                    })?;
                (files, events, canonical::name(&task.body))
            }
            Self::Refused(words) => return Err(WorkError::Scenario(words.clone())),
            Self::NoCommand => return Err(WorkError::NoCommand),
        };
        let key = task.key(seed);
        let mut draft = store.begin(key)?;
        for (name, content) in &files {
            draft.put(name, content)?;
        }
        let (source, inputs) = (task.by.name(), &task.inputs[..]);
        let facts = Facts { engine: engine(), source, name: &name, seed, events, inputs };
        match draft.commit(&facts)? {
            Committed::New | Committed::Same => Ok(()),
            // Another worker has already stored the same live run, and the store keeps that result.
            Committed::Differs if task.by == Runner::Live => Ok(()),
            Committed::Differs => Err(WorkError::Differs(key)),
        }
    }
}

/// The parsed scenario of a task.
struct Prepared {
    scenario: Scenario,
}

impl Prepared {
    fn new(store: &Store, task: &Task) -> Result<Self, String> {
        let files = Stored { store, inputs: &task.inputs };
        let Checked { scenario, diagnostics } =
            scenario::parse(&task.body, "scenario.toml", &files);
        let scenario = scenario.ok_or_else(|| diagnostics.render(false).trim_end().to_owned())?;
        Ok(Self { scenario })
    }

    fn files(
        &self,
        task: &Task,
        seed: u64,
        progress: &Progress,
    ) -> Result<(Files, u64), WorkError> {
        let trace = Trace::default();
        let tap = |names: &Names| Some(trace.sink(names));
        let job = Job { scenario: &self.scenario, seed };
        let outcome = run(job, progress, &tap)?.ok_or(WorkError::Stopped)?;
        let events = outcome.events;
        let text = with_seed(&task.body, seed);
        let mut files = vec![("scenario.toml".to_owned(), text.clone().into_bytes())];
        let results = results(text, outcome);
        for (name, make) in TABLES {
            files.push((format!("{name}.parquet"), make(&results).to_bytes()?));
        }
        if self.scenario.measure.trace {
            files.push(("trace.parquet".to_owned(), trace.into_bytes()?));
        }
        Ok((files, events))
    }
}

fn results(scenario: String, outcome: Outcome) -> Results {
    Results {
        source: Runner::Sim.name().to_owned(),
        scenario,
        runs: vec![outcome],
        nodes: Vec::new(),
    }
}

/// The trace of a run as a Parquet file in memory.
#[derive(Default)]
struct Trace {
    /// The writer; `None` before the run starts and after an error.
    table: Arc<Mutex<Option<TraceTable<Shared>>>>,
    /// The content of the file.
    bytes: Shared,
}

/// An output in memory. The writer of the table has a clone, which writes to the same bytes. The
/// bytes are read after the writer has finished.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Trace {
    fn sink(&self, names: &Names) -> Sink {
        let table = Arc::clone(&self.table);
        // Writing to memory does not fail.
        *table.lock().unwrap_or_else(PoisonError::into_inner) =
            TraceTable::new(self.bytes.clone(), names).ok();
        Box::new(move |records: &[Record]| {
            let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(writer) = &mut *table
                && writer.write(records).is_err()
            {
                *table = None;
            }
        })
    }

    fn into_bytes(self) -> Result<Vec<u8>, WorkError> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner).take();
        table.ok_or(WorkError::Trace)?.finish()?;
        Ok(std::mem::take(&mut self.bytes.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

type MakeTable = fn(&Results) -> Table;

/// The tables of a run, each in a file of its own.
const TABLES: [(&str, MakeTable); 4] = [
    ("flows", tables::flows),
    ("links", tables::links),
    ("series", tables::series),
    ("delays", tables::delays),
];
/// Time between two checks of limits and of the request to stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
