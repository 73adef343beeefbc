//! Simulates scenarios and keeps their results.

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyIndexError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt as _;
use pyo3::types::PyList;
use weir_measure::scenario::Outcome;
use weir_report::plot::{Axis, Curve, Plot, Shape, Size, Unit};
use weir_report::sim::{self, Column, tables};
use weir_report::write_atomic;
use weir_sim::run::Job;

use crate::columns::{append, len, to_batch};
use crate::load::{Loaded, Source, refused, to_list};
use crate::runs::{Task, run_all};
use crate::table::Table;
use crate::trace::Trace;

/// The results of a scenario: one point, or the points of a sweep.
#[pyclass(frozen, module = "weirlab._native")]
pub(crate) struct Results {
    points: Vec<Ran>,
    /// Warnings and notes of the scenario.
    diagnostics: Py<PyList>,
    cpu_s: f64,
    /// Tables that were made already, by their names.
    made: Mutex<Vec<(String, Py<Table>)>>,
}

/// The results of a point.
struct Ran {
    settings: Vec<(String, String)>,
    results: sim::Results,
    /// The trace, until it is moved into its Arrow table.
    trace: Mutex<Option<sim::Table>>,
}

/// Simulates a scenario with each seed; without seeds, with those of the scenario.
#[pyfunction]
#[pyo3(signature = (source, seeds, threads, trace, progress))]
pub(crate) fn simulate(
    py: Python<'_>,
    source: Source,
    seeds: Option<Vec<u64>>,
    threads: usize,
    trace: Option<bool>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Results> {
    let loaded = py.detach(|| source.load());
    let Loaded { mut points, diagnostics } = loaded.map_err(|error| refused(py, &error))?;
    let diagnostics = to_list(py, &diagnostics)?.unbind();
    if let Some(trace) = trace {
        points.iter_mut().for_each(|point| point.scenario.measure.trace = trace);
    }
    let traces: Vec<Trace> = points.iter().map(|_| Trace::default()).collect();
    let mut tasks = Vec::new();
    let mut counts = Vec::with_capacity(points.len());
    for (point, trace) in points.iter().zip(&traces) {
        let scenario = &point.scenario;
        let seeds: Cow<'_, [u64]> = match &seeds {
            Some(seeds) => seeds.into(),
            None => weir_sim::run::jobs(scenario).map(|job| job.seed).collect::<Vec<_>>().into(),
        };
        counts.push(seeds.len());
        for (n, &seed) in seeds.iter().enumerate() {
            let trace = (n == 0 && scenario.measure.trace).then(|| trace.clone());
            tasks.push(Task { job: Job { scenario, seed }, trace });
        }
    }
    let begin = cpu_seconds();
    let mut outcomes = run_all(py, &tasks, threads, progress.as_ref())?.into_iter();
    drop(tasks);
    let points = points.into_iter().zip(traces).zip(counts).map(|((point, trace), count)| Ran {
        results: sim::Results {
            source: "sim".to_owned(),
            scenario: point.text,
            runs: outcomes.by_ref().take(count).collect(),
            nodes: Vec::new(),
        },
        settings: point.settings,
        trace: Mutex::new(trace.take()),
    });
    let points = points.collect();
    Ok(Results { points, diagnostics, cpu_s: cpu_seconds() - begin, made: Mutex::default() })
}

#[pymethods]
impl Results {
    /// Whether a point has several runs, all with the same results.
    #[getter]
    fn equal(&self, py: Python<'_>) -> bool {
        py.detach(|| self.points.iter().any(|point| Outcome::all_equal(&point.results.runs)))
    }

    /// A table: `flows`, `links`, `series`, `delays` or `trace`.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Py<Table>> {
        // Each table is made once. A thread that waits for the lock does not hold the interpreter.
        let mut made = self.made.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        if let Some((_, table)) = made.iter().find(|(known, _)| known == name) {
            return Ok(table.clone_ref(py));
        }
        let batch = py.detach(|| self.rows(name).map(to_batch))?;
        let batch = batch.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let table = Py::new(py, Table::new(batch))?;
        made.push((name.to_owned(), table.clone_ref(py)));
        Ok(table)
    }

    /// The results document, as JSON.
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| match self.points.as_slice() {
            [only] if only.settings.is_empty() => {
                sim::to_json_with(&only.results, Some(self.cpu_s))
            }
            points => {
                let points: Vec<_> = points
                    .iter()
                    .map(|ran| (ran.settings.as_slice(), ran.results.clone()))
                    .collect();
                sim::sweep_to_json(&points, Some(self.cpu_s))
            }
        })
    }

    /// The report of a point, as one HTML page.
    fn html(&self, py: Python<'_>, point: usize) -> PyResult<String> {
        let ran = self.point(point)?;
        Ok(py.detach(|| sim::to_html(&ran.results)))
    }

    /// Writes the report of a point to a file.
    fn report(&self, py: Python<'_>, path: &str, point: usize) -> PyResult<()> {
        let ran = self.point(point)?;
        let written =
            py.detach(|| write_atomic(Path::new(path), sim::to_html(&ran.results).as_bytes()));
        written.map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// A small plot of a point's first run, as SVG: the goodput of the flows over time.
    fn svg(&self, point: usize) -> PyResult<String> {
        let ran = self.point(point)?;
        Ok(goodput(&ran.results).standalone(Size { width: 560, height: 240 }))
    }

    /// The keys that the sweep sets at each point, and their values as TOML.
    #[getter]
    fn settings(&self) -> Vec<Vec<(String, String)>> {
        self.points.iter().map(|ran| ran.settings.clone()).collect()
    }

    /// The seeds of the runs.
    #[getter]
    fn seeds(&self) -> Vec<u64> {
        let first = self.points.first();
        first.map_or_else(Vec::new, |ran| ran.results.runs.iter().map(|run| run.seed).collect())
    }

    /// The name of the scenario.
    #[getter]
    fn name(&self) -> &str {
        let run = self.points.first().and_then(|ran| ran.results.runs.first());
        run.map_or("", |run| &run.scenario)
    }

    /// The text of the scenario at a point.
    fn text(&self, point: usize) -> PyResult<&str> {
        Ok(&self.point(point)?.results.scenario)
    }

    /// Simulated time of a run, and the warm-up at its start, s.
    #[getter]
    fn duration_s(&self) -> (f64, f64) {
        let run = self.points.first().and_then(|ran| ran.results.runs.first());
        run.map_or((0.0, 0.0), |run| (run.end_ns as f64 / 1e9, run.warmup_ns as f64 / 1e9))
    }

    /// Events of all runs.
    #[getter]
    fn events(&self) -> u64 {
        self.points.iter().flat_map(|ran| &ran.results.runs).map(|run| run.events).sum()
    }

    /// Processor time of all runs, s.
    #[getter]
    fn cpu_s(&self) -> f64 {
        self.cpu_s
    }

    /// Warnings and notes of the scenario.
    #[getter]
    fn diagnostics(&self, py: Python<'_>) -> Py<PyList> {
        self.diagnostics.clone_ref(py)
    }
}

impl Results {
    fn point(&self, number: usize) -> PyResult<&Ran> {
        self.points.get(number).ok_or_else(|| PyIndexError::new_err("there is no such point"))
    }

    /// The rows of a table, of all points. In a sweep, the first column is the number of the point.
    fn rows(&self, name: &str) -> PyResult<sim::Table> {
        let mut all: Option<sim::Table> = None;
        for (number, ran) in self.points.iter().enumerate() {
            let mut table = match name {
                "flows" => tables::flows(&ran.results),
                "links" => tables::links(&ran.results),
                "series" => tables::series(&ran.results),
                "delays" => tables::delays(&ran.results),
                "trace" => {
                    let mut trace = ran.trace.lock().unwrap_or_else(PoisonError::into_inner);
                    trace.take().ok_or_else(|| PyValueError::new_err(NO_TRACE))?
                }
                _ => return Err(PyValueError::new_err(format!("there is no table {name}"))),
            };
            if !ran.settings.is_empty() {
                let rows = table.columns.first().map_or(0, |(_, column)| len(column));
                table.columns.insert(0, ("point", Column::Int(vec![number as u64; rows])));
            }
            match &mut all {
                Some(all) => append(all, table),
                none => *none = Some(table),
            }
        }
        Ok(all.unwrap_or_default())
    }
}

/// The plot of goodput over time in the first run, for the flows with the most goodput.
fn goodput(results: &sim::Results) -> Plot {
    let mut plot = Plot {
        title: "Goodput".to_owned(),
        description: "Goodput of the flows over time.".to_owned(),
        x: Axis::linear("time", Unit::Seconds),
        y: Axis::linear("goodput", Unit::BitsPerSecond),
        curves: Vec::new(),
    };
    let Some(run) = results.runs.first() else { return plot };
    let mut flows: Vec<_> = run.flows.iter().zip(&run.series.flows).collect();
    flows.sort_by_key(|(flow, _)| std::cmp::Reverse(flow.goodput_bytes));
    // With few points, the file of the picture stays small.
    let every = run.series.len().div_ceil(POINTS).max(1);
    for (colour, (flow, samples)) in (0..CURVES).zip(flows) {
        let mut points: Vec<[f64; 2]> = Vec::new();
        for (n, part) in samples.chunks(every).enumerate() {
            let first = n * every;
            let ns: u64 = (first..first + part.len()).map(|n| run.series.span_ns(n)).sum();
            let bytes: u64 = part.iter().map(|sample| sample.goodput_bytes).sum();
            let bps = if ns == 0 { 0.0 } else { bytes as f64 * 8e9 / ns as f64 };
            points.push([first as f64 * run.series.interval_ns as f64 / 1e9, bps]);
        }
        if let Some(&[_, last]) = points.last() {
            points.push([run.series.end_ns as f64 / 1e9, last]);
        }
        plot.curves.push(Curve::new(&flow.name, colour, Shape::Steps(points)));
    }
    plot
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

const NO_TRACE: &str = "the runs were not traced: simulate with trace=True, or set `trace` in the \
                        scenario's [measure]";
/// The most points of a curve.
const POINTS: usize = 140;
/// The most curves in the plot.
const CURVES: u8 = 6;
