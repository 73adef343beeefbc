//! Campaigns: their points and runs, the work of carrying out runs, and the results in a store.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use weir_campaign::key::{Key, NoRunner, Runner};
use weir_campaign::plan::{Axis, Plan, PlanError, PlanOrStore, Seeds, Settings};
use weir_campaign::store::{Store, StoreError};
use weir_campaign::work::{End, Limits, Task, TaskSeeds, carry_out};
use weir_campaign::{check, export, figure, file, plan};
use weir_measure::estimate::Estimate;
use weir_report::sim::to_html;

use crate::load::{Refused, Source, refused, to_list};

/// A task in the form that is sent to workers: the number of the point, the scenario, its inputs,
/// the seeds, and the name of the [`Runner`].
type PlainTask = (u64, String, Vec<(String, String)>, Vec<u64>, String);

/// The report of a run: point, seed, key, seconds, how the run ended, the reason of a failure,
/// whether another attempt may succeed, and whether all other runs would fail too.
type PlainReport = (u64, u64, String, f64, &'static str, String, bool, bool);

/// The seeds of each point: their number, or a list of them.
#[derive(FromPyObject)]
pub(crate) enum SeedsArgument {
    Count(u64),
    List(Vec<u64>),
}

/// The runs of a campaign.
#[pyclass(frozen, module = "weirlab._native")]
pub(crate) struct Campaign {
    plan: Plan,
    /// Warnings and notes of the scenarios.
    diagnostics: Py<PyList>,
}

/// A flag that ends work in other threads.
#[pyclass(frozen, module = "weirlab._native")]
#[derive(Default)]
pub(crate) struct Stop(AtomicBool);

/// Runs Python's handlers of signals during work without the interpreter's lock.
#[derive(Default)]
struct Signals {
    /// The error that a handler raised, which ends the work.
    error: Option<PyErr>,
}

impl Signals {
    /// Runs the handlers of the signals that have arrived. Returns whether the work goes on.
    fn go_on(&mut self) -> bool {
        if self.error.is_none() {
            self.error = Python::attach(|py| py.check_signals()).err();
        }
        self.error.is_none()
    }

    /// The error that ended the work.
    fn error(self) -> PyErr {
        self.error.unwrap_or_else(|| PyKeyboardInterrupt::new_err(()))
    }
}

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A campaign of scenarios, each with its labels.
#[pyfunction]
pub(crate) fn campaign(
    py: Python<'_>,
    sources: Vec<(Source, Settings)>,
    axes: Vec<(String, Vec<String>)>,
    points: Vec<Settings>,
    seeds: Option<SeedsArgument>,
    live: bool,
) -> PyResult<Campaign> {
    let by = if live { Runner::Live } else { Runner::Sim };
    let made = py.detach(|| {
        let source = |(source, labels): (Source, Settings)| plan::Source {
            text: source.text,
            name: source.name,
            directory: source.directory.into(),
            default_name: source.default_name,
            settings: source.settings.into_iter().map(|(key, value, _)| (key, value)).collect(),
            labels,
            by,
        };
        let axes = axes.into_iter().map(|(key, values)| Axis { key, values }).collect();
        let sources = sources.into_iter().map(source).collect();
        Plan::new(sources, axes, points, to_seeds(seeds))
    });
    Campaign::of(py, made)
}

/// The campaign of a file. `points` are drawn from the file's table `sample`.
#[pyfunction]
pub(crate) fn campaign_file(
    py: Python<'_>,
    path: &str,
    points: Option<Vec<Settings>>,
) -> PyResult<Campaign> {
    let path = Path::new(path);
    let text = file::read(path)
        .map_err(|error| PyOSError::new_err(format!("{}: {error}", path.display())))?;
    let mut file = file::parse(&text, path).map_err(|error| words(py, &error.to_string()))?;
    if let Some(points) = points {
        file.points = points;
        file.is_sampled = false;
    }
    let made = py.detach(|| file.plan(path));
    Campaign::of(py, made)
}

impl Campaign {
    fn of(
        py: Python<'_>,
        made: Result<(Plan, weir_rules::Diagnostics), PlanError>,
    ) -> PyResult<Self> {
        let (plan, diagnostics) = made.map_err(|error| refused_plan(py, error))?;
        Ok(Self { plan, diagnostics: to_list(py, &diagnostics)?.unbind() })
    }
}

#[pymethods]
impl Campaign {
    /// Warnings and notes of the scenarios.
    #[getter]
    fn diagnostics(&self, py: Python<'_>) -> Py<PyList> {
        self.diagnostics.clone_ref(py)
    }

    /// Number of points.
    #[getter]
    fn points(&self) -> u64 {
        self.plan.points()
    }

    /// Number of runs.
    #[getter]
    fn runs(&self) -> u64 {
        self.plan.runs()
    }

    /// Whether some runs are live.
    #[getter]
    fn is_live(&self) -> bool {
        self.plan.is_live()
    }

    /// The names of the axes.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.plan.names()
    }

    /// The settings of a point, as TOML.
    fn settings(&self, py: Python<'_>, point: u64) -> PyResult<Settings> {
        self.plan.settings(point).map_err(|error| refused_plan(py, error))
    }

    /// The seed and the key of each run of a point.
    fn keys(&self, py: Python<'_>, point: u64) -> PyResult<Vec<(u64, String)>> {
        let task = py.detach(|| self.plan.point(point)).map_err(|e| refused_plan(py, e))?.task;
        Ok(task.seeds.iter().map(|seed| (seed, task.key(seed).to_string())).collect())
    }

    /// All runs of a point, as a task.
    fn task(&self, py: Python<'_>, point: u64) -> PyResult<PlainTask> {
        let found = py.detach(|| self.plan.point(point)).map_err(|e| refused_plan(py, e))?;
        Ok(plain(found.task))
    }

    /// Collects the runs that a store lacks, point by point from `from` on, until it has collected
    /// `most` runs or more. Returns the tasks, the next point to examine, and the number of runs of
    /// the examined points that the store has.
    fn missing(
        &self,
        py: Python<'_>,
        store: &str,
        from: u64,
        most: u64,
    ) -> PyResult<(Vec<PlainTask>, u64, u64)> {
        let mut signals = Signals::default();
        let found = py.detach(|| {
            let store = Store::open(Path::new(store))?;
            let (mut tasks, mut next, mut there, mut runs) = (Vec::new(), from, 0, 0);
            while next < self.plan.points() && runs < most {
                let found = self.plan.missing_at(&store, next, &mut || signals.go_on())?;
                next += 1;
                there += found.there;
                runs += found.task.as_ref().map_or(0, |task| task.seeds.count());
                tasks.extend(found.task.map(plain));
            }
            Ok((tasks, next, there))
        });
        found.map_err(|error| match error {
            PlanOrStore::Plan(error) => refused_plan(py, error),
            PlanOrStore::Store(error) => os_error(&error),
            PlanOrStore::Stopped => signals.error(),
        })
    }

    /// Number of runs of the campaign that a store has.
    fn done(&self, py: Python<'_>, store: &str) -> PyResult<u64> {
        let store = Store::open(Path::new(store)).map_err(|error| os_error(&error))?;
        let count = py.detach(|| {
            (0..self.plan.points()).try_fold(0, |sum, number| {
                let task = self.plan.point(number)?.task;
                let has = |seed: &u64| store.has(task.key(*seed));
                Ok(sum + task.seeds.iter().filter(has).count() as u64)
            })
        });
        count.map_err(|error| refused_plan(py, error))
    }

    /// Writes a table of all runs that a store has, with the axes as columns. Returns the number of
    /// runs.
    fn export(&self, py: Python<'_>, store: &str, table: &str, path: &str) -> PyResult<u64> {
        let runs = py.detach(|| {
            let store = Store::open(Path::new(store)).map_err(export::ExportError::Store)?;
            let path = Path::new(path);
            let out = File::create(path)
                .map_err(|source| StoreError::Io { path: path.to_owned(), source })?;
            export::table(&self.plan, &store, table, BufWriter::new(out))
        });
        runs.map_err(|error| match error {
            export::ExportError::Plan(error) => refused_plan(py, error),
            export::ExportError::Nothing => PyValueError::new_err(error.to_string()),
            error => PyOSError::new_err(error.to_string()),
        })
    }

    /// The report of a run as one HTML page. A simulated run is carried out again; the page of a
    /// live run is in the store.
    fn html(&self, py: Python<'_>, store: &str, point: u64, seed: u64) -> PyResult<String> {
        let store = Store::open(Path::new(store)).map_err(|error| os_error(&error))?;
        let found = py.detach(|| self.plan.point(point)).map_err(|e| refused_plan(py, e))?;
        if found.task.by == Runner::Live {
            let path = store.path(found.task.key(seed)).join("report.html");
            let read = std::fs::read_to_string(&path);
            return read
                .map_err(|error| PyOSError::new_err(format!("{}: {error}", path.display())));
        }
        let made = py.detach(|| {
            self.plan.put_inputs(&store, &found.task)?;
            found.task.results(&store, seed).map(|results| to_html(&results))
        });
        made.map_err(|error| PyOSError::new_err(error.to_string()))
    }
}

/// One value of each run: `None` where the store lacks the run, or the run lacks the value.
#[pyfunction]
pub(crate) fn figures(
    py: Python<'_>,
    store: &str,
    keys: Vec<String>,
    table: &str,
    name: &str,
    column: &str,
) -> PyResult<Vec<Option<f64>>> {
    let store = Store::open(Path::new(store)).map_err(|error| os_error(&error))?;
    let read = |key: &String| {
        let key = key.parse::<Key>().ok().filter(|key| store.has(*key));
        key.map_or(Ok(None), |key| figure::read(&store, key, table, name, column))
    };
    let read: Result<Vec<_>, _> = py.detach(|| keys.iter().map(read).collect());
    read.map_err(|error| PyOSError::new_err(error.to_string()))
}

/// The mean of values, and half the width of its 95 % confidence interval.
#[pyfunction]
pub(crate) fn estimate(values: Vec<f64>) -> (f64, Option<f64>) {
    let estimate = Estimate::of(&values);
    (estimate.mean, estimate.half_width)
}

/// The version of the engine.
#[pyfunction]
pub(crate) fn engine() -> &'static str {
    weir_campaign::engine()
}

/// Creates a store, or opens an existing one.
#[pyfunction]
pub(crate) fn create_store(path: &str) -> PyResult<()> {
    Store::create(Path::new(path)).map(drop).map_err(|error| os_error(&error))
}

/// Whether a store has each of these runs.
#[pyfunction]
pub(crate) fn has(py: Python<'_>, store: &str, keys: Vec<String>) -> PyResult<Vec<bool>> {
    let store = Store::open(Path::new(store)).map_err(|error| os_error(&error))?;
    let has = |key: &String| key.parse::<Key>().is_ok_and(|key| store.has(key));
    Ok(py.detach(|| keys.iter().map(has).collect()))
}

/// The key of a run of a task.
#[pyfunction]
pub(crate) fn key(task: PlainTask, seed: u64) -> PyResult<String> {
    Ok(to_task(task)?.key(seed).to_string())
}

/// Carries out tasks. The command `weir` carries out live tasks. Signals and `stop` end the work.
#[pyfunction]
pub(crate) fn work(
    py: Python<'_>,
    store: &str,
    tasks: Vec<PlainTask>,
    timeout_s: Option<f64>,
    stop: Option<Py<Stop>>,
    weir: Option<PathBuf>,
) -> PyResult<Vec<PlainReport>> {
    let store = Store::open(Path::new(store)).map_err(|error| os_error(&error))?;
    let tasks = tasks.into_iter().map(to_task).collect::<PyResult<Vec<_>>>()?;
    let time = timeout_s.map(Duration::try_from_secs_f64).transpose();
    let time = time.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let limits = Limits { time, weir };
    let mut signals = Signals::default();
    let reports = py.detach(|| {
        carry_out(&store, &tasks, &limits, &mut || {
            if stop.as_ref().is_some_and(|stop| stop.get().0.load(Ordering::Relaxed)) {
                return false;
            }
            signals.go_on()
        })
    });
    if signals.error.is_some() {
        return Err(signals.error());
    }
    let plain = |report: weir_campaign::work::Report| {
        let (end, reason, again, lasting) = match report.end {
            End::Made => ("made", String::new(), false, false),
            End::There => ("there", String::new(), false, false),
            End::Failed { reason, again, lasting } => ("failed", reason, again, lasting),
        };
        let key = report.key.to_string();
        (report.point, report.seed, key, report.took.as_secs_f64(), end, reason, again, lasting)
    };
    Ok(reports.into_iter().map(plain).collect())
}

/// The number of runs, the number of runs that were carried out again, and the key and the damage
/// of each damaged run.
type Verified = (u64, u64, Vec<(String, String)>);

/// Looks for damaged runs: compares all files with their hashes, and carries out again up to
/// `sample` runs that `seed` selects. Removes the damaged runs if `remove` is true.
#[pyfunction]
pub(crate) fn verify(
    py: Python<'_>,
    store: &str,
    sample: u64,
    seed: u64,
    remove: bool,
) -> PyResult<Verified> {
    let found = py.detach(|| {
        let store = Store::open(Path::new(store))?;
        let found = check::verify(&store, sample, seed)?;
        for (key, _) in found.damaged.iter().filter(|_| remove) {
            store.remove(*key)?;
        }
        Ok(found)
    });
    let found = found.map_err(|error: StoreError| os_error(&error))?;
    let damaged = found.damaged.iter().map(|(key, damage)| (key.to_string(), damage.to_string()));
    Ok((found.runs, found.again, damaged.collect()))
}

fn to_seeds(seeds: Option<SeedsArgument>) -> Seeds {
    match seeds {
        None => Seeds::OfScenario,
        Some(SeedsArgument::Count(count)) => Seeds::Count(count),
        Some(SeedsArgument::List(seeds)) => Seeds::List(seeds),
    }
}

fn plain(task: Task) -> PlainTask {
    let inputs = task.inputs.into_iter().map(|(name, key)| (name, key.to_string())).collect();
    let seeds = task.seeds.iter().collect();
    (task.point, task.body, inputs, seeds, task.by.name().to_owned())
}

fn to_task((point, body, inputs, seeds, by): PlainTask) -> PyResult<Task> {
    let parse = |(name, key): (String, String)| {
        let key = key.parse::<Key>();
        key.map(|key| (name, key)).map_err(|error| PyValueError::new_err(error.to_string()))
    };
    let inputs = inputs.into_iter().map(parse).collect::<PyResult<_>>()?;
    let by = by.parse().map_err(|error: NoRunner| PyValueError::new_err(error.to_string()))?;
    Ok(Task { point, body, inputs, seeds: TaskSeeds::List(seeds), by })
}

fn refused_plan(py: Python<'_>, error: PlanError) -> PyErr {
    match error {
        PlanError::Scenario(diagnostics) => refused(py, &Refused::Text(diagnostics)),
        PlanError::Read { .. } => PyOSError::new_err(error.to_string()),
        PlanError::Range | PlanError::Runs => PyValueError::new_err(error.to_string()),
        error => words(py, &error.to_string()),
    }
}

fn words(py: Python<'_>, message: &str) -> PyErr {
    refused(py, &Refused::Words(message.to_owned()))
}

fn os_error(error: &StoreError) -> PyErr {
    PyOSError::new_err(error.to_string())
}
