//! A directory with the results of a scenario, in readable and machine-readable files.
//!
//! | file | content |
//! |---|---|
//! | `summary.json` | statistics of every flow and link, per run and over all runs |
//! | `report.html` | tables and plots, one file |
//! | `flows.parquet`, `links.parquet` | a row for each flow or link of each run |
//! | `series.parquet` | a row for each interval of each flow and link |
//! | `delays.parquet` | distributions: a row for each bin |
//! | `scenario.toml` | the text of the scenario, with the settings of the command line and point |
//!
//! Traces are in the same directory if the scenario requests them. A [`Draft`](super::Draft)
//! creates the directory, and gives it its final name when it is complete.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::parquet::{Table, TableError};
use super::{Results, tables, to_html, to_json};

/// The files to write besides the summary and the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Whether to write the report.
    pub report: bool,
    /// Whether to write the Parquet tables.
    pub tables: bool,
}

impl Default for Contents {
    fn default() -> Self {
        Self { report: true, tables: true }
    }
}

/// The reason why results could not be written.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A table could not be created.
    #[error("{file}: {source}")]
    Table {
        /// The file.
        file: &'static str,
        /// The error.
        source: TableError,
    },
}

type MakeTable = fn(&Results) -> Table;

/// Writes results into `dir`, which must exist. Equal results give equal bytes.
///
/// # Errors
/// A file cannot be written. The files written before it remain.
pub fn write(dir: &Path, results: &Results, contents: Contents) -> Result<(), DirectoryError> {
    let put = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        fs::write(&path, bytes).map_err(|source| DirectoryError::Write { path, source })
    };
    put(SUMMARY, to_json(results).as_bytes())?;
    if !results.scenario.is_empty() {
        put("scenario.toml", results.scenario.as_bytes())?;
    }
    if contents.tables {
        let all: [(&'static str, MakeTable); 4] = [
            ("flows.parquet", tables::flows),
            ("links.parquet", tables::links),
            ("series.parquet", tables::series),
            ("delays.parquet", tables::delays),
        ];
        for (file, make) in all {
            let bytes = make(results)
                .to_bytes()
                .map_err(|source| DirectoryError::Table { file, source })?;
            put(file, &bytes)?;
        }
    }
    if contents.report {
        put("report.html", to_html(results).as_bytes())?;
    }
    Ok(())
}

/// The file with the summary, which every directory of results has.
pub(super) const SUMMARY: &str = "summary.json";
/// The file with the results of all points of a sweep.
pub(super) const SWEEP: &str = "sweep.json";
/// The files of a directory of results, apart from the output of programs.
pub(super) const FILES: [&str; 9] = [
    SUMMARY,
    "report.html",
    "flows.parquet",
    "links.parquet",
    "series.parquet",
    "delays.parquet",
    "scenario.toml",
    "trace.parquet",
    "trace.pcapng",
];
/// The files of a directory of a sweep, apart from the directories of its points.
pub(super) const SWEEP_FILES: [&str; 2] = [SWEEP, "sweep.html"];
