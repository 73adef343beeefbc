//! Writes the results of simulations to files: JSON, the report, and a directory that appears only
//! when it is complete.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use weir_report::finding::Finding;
use weir_report::sim::{
    Contents, Draft, Results, TraceCapture, TraceTable, check_place, point_names, sweep_finding,
    sweep_to_json, to_html, to_json_with, write,
};
use weir_report::{finding_to_html, write_atomic};
use weir_sim::measure::{Names, Record, Sink};
use weir_sim::run::Ran;
use weir_sim::scenario::Point;

use super::SimArgs;
use crate::output::{Failure, USAGE, check_files, print, say};

/// Checks the paths of the results before the runs.
pub(crate) fn check_destinations(args: &SimArgs) -> Result<(), Failure> {
    check_files(
        &[("--json", args.json.as_deref()), ("--report", args.report.as_deref())],
        &["--json"],
    )?;
    let Some(path) = &args.out else { return Ok(()) };
    if path.as_os_str() == "-" {
        let message = "--out needs the name of a directory (./- is a directory named -)";
        return Err(Failure::new(USAGE, message));
    }
    check_place(path, args.force).map_err(|error| Failure::new(USAGE, error))
}

/// Writes the requested results other than the directory.
pub(crate) fn write_files(args: &SimArgs, all: &[Ran], cpu_s: f64) -> Result<(), Failure> {
    if let Some(path) = &args.json {
        let text = json(all, Some(cpu_s));
        if path.as_os_str() == "-" {
            print(&text)?;
        } else {
            write_atomic(path, text.as_bytes()).map_err(Failure::of_weir)?;
        }
    }
    if let Some(path) = &args.report {
        write_atomic(path, page(all).as_bytes()).map_err(Failure::of_weir)?;
        if !args.quiet {
            say(format_args!("report: {}\n", path.display()));
        }
    }
    Ok(())
}

/// The report as an HTML page: of the runs, or of the points of a sweep side by side.
pub(crate) fn page(all: &[Ran]) -> String {
    match all {
        [only] => to_html(&results(only)),
        all => finding_to_html(&overview(all)),
    }
}

fn results(ran: &Ran) -> Results {
    Results {
        source: "sim".to_owned(),
        scenario: ran.point.text.clone(),
        runs: ran.outcomes.clone(),
        nodes: Vec::new(),
    }
}

fn overview(all: &[Ran]) -> Finding {
    let name = all.first().map_or("", |ran| ran.point.scenario.name.as_str());
    let points: Vec<_> =
        all.iter().map(|ran| (ran.point.settings.as_slice(), results(ran))).collect();
    sweep_finding(name, &points)
}

/// All results as one JSON object, which contains the points of a sweep as a list.
pub(crate) fn json(all: &[Ran], cpu_s: Option<f64>) -> String {
    if let [only] = all
        && only.point.settings.is_empty()
    {
        return to_json_with(&results(only), cpu_s);
    }
    let points: Vec<_> =
        all.iter().map(|ran| (ran.point.settings.as_slice(), results(ran))).collect();
    sweep_to_json(&points, cpu_s)
}

/// A directory of results that is being written.
#[derive(Debug)]
pub(crate) struct Directory {
    draft: Draft,
    /// The names of the subdirectories of a sweep's points; empty if there is only one point.
    points: Vec<String>,
    /// The first error of a trace.
    failed: Arc<Mutex<Option<String>>>,
}

impl Directory {
    /// Creates the temporary directory that will become `path`. With `force`, it may replace an
    /// existing directory of results.
    pub(crate) fn new(path: &Path, force: bool, points: &[Point]) -> Result<Self, Failure> {
        let draft = Draft::new(path, force).map_err(Failure::of_weir)?;
        let points = match points {
            [_] => Vec::new(),
            several => point_names(several.iter().map(|point| point.settings.as_slice())),
        };
        Ok(Self { draft, points, failed: Arc::default() })
    }

    /// The directory for the results of a point: the directory itself or, with several points, a
    /// subdirectory.
    fn point(&self, number: usize) -> PathBuf {
        match self.points.get(number) {
            Some(name) => self.draft.path().join(name),
            None => self.draft.path().to_owned(),
        }
    }

    /// The sink for the records of the first run of a point; `None` for its other runs, and if the
    /// files of the trace cannot be created.
    pub(crate) fn tap(&self, number: usize, run: u32, names: &Names) -> Option<Sink> {
        if run > 0 {
            return None;
        }
        let directory = self.point(number);
        let failed = Arc::clone(&self.failed);
        let fail = move |error: String| {
            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        };
        match Trace::new(&directory, names) {
            Ok(trace) => {
                let mut trace = Ending { trace: Some(trace), fail };
                Some(Box::new(move |records: &[Record]| trace.write(records)))
            }
            Err(error) => {
                fail(error);
                None
            }
        }
    }

    /// Writes the results, and renames the directory to its final path.
    pub(crate) fn finish(self, all: &[Ran]) -> Result<(), Failure> {
        for (number, ran) in all.iter().enumerate() {
            let directory = self.point(number);
            fs::create_dir_all(&directory)
                .map_err(|error| Failure::of_weir(format!("{}: {error}", directory.display())))?;
            write(&directory, &results(ran), Contents::default()).map_err(Failure::of_weir)?;
        }
        if all.len() > 1 {
            let path = self.draft.path().join("sweep.json");
            let failed =
                |path: &Path, error| Failure::of_weir(format!("{}: {error}", path.display()));
            fs::write(&path, json(all, None)).map_err(|error| failed(&path, error))?;
            let path = self.draft.path().join("sweep.html");
            let page = finding_to_html(&overview(all));
            fs::write(&path, page).map_err(|error| failed(&path, error))?;
        }
        if let Some(error) = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(Failure::of_weir(format!("the trace cannot be written: {error}")));
        }
        self.draft.finish().map_err(Failure::of_weir)
    }
}

/// A trace in its two files: a Parquet table, and a capture in pcapng.
struct Trace {
    table: TraceTable<BufWriter<File>>,
    capture: TraceCapture<BufWriter<File>>,
}

impl Trace {
    fn new(directory: &Path, names: &Names) -> Result<Self, String> {
        fs::create_dir_all(directory).map_err(|error| error.to_string())?;
        let file = |name: &str| {
            File::create(directory.join(name))
                .map(BufWriter::new)
                .map_err(|error| error.to_string())
        };
        let table =
            TraceTable::new(file("trace.parquet")?, names).map_err(|error| error.to_string())?;
        let capture =
            TraceCapture::new(file("trace.pcapng")?, names).map_err(|error| error.to_string())?;
        Ok(Self { table, capture })
    }

    fn write(&mut self, records: &[Record]) -> Result<(), String> {
        self.table.write(records).map_err(|error| error.to_string())?;
        self.capture.write(records).map_err(|error| error.to_string())
    }

    fn finish(self) -> Result<(), String> {
        self.table.finish().map_err(|error| error.to_string())?;
        std::io::Write::flush(&mut self.capture.into_inner()).map_err(|error| error.to_string())
    }
}

/// A trace that is completed when its run ends, and that reports failures.
struct Ending<F: Fn(String)> {
    trace: Option<Trace>,
    fail: F,
}

impl<F: Fn(String)> Ending<F> {
    fn write(&mut self, records: &[Record]) {
        if let Some(Err(error)) = self.trace.as_mut().map(|trace| trace.write(records)) {
            self.trace = None;
            (self.fail)(error);
        }
    }
}

impl<F: Fn(String)> Drop for Ending<F> {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.trace.take().map(Trace::finish) {
            (self.fail)(error);
        }
    }
}
