//! Carries out a run on real frames: the command `weir live`, in place of the simulator.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use weir_report::Late;
use weir_report::sim::{Column, Table, TableError};

use crate::key::Key;
use crate::store::{Store, StoreError};

/// A run to carry out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveRun<'a> {
    /// The path of the command `weir`.
    pub(crate) weir: &'a Path,
    /// The scenario, with its seed.
    pub(crate) text: &'a str,
    /// The files that the scenario names, and their keys in the store.
    pub(crate) inputs: &'a [(String, Key)],
}

/// Why a live run has no result.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The run was stopped.
    #[error("the run was stopped")]
    Stopped,
    /// A file of the scenario is not below the scenario's directory.
    #[error(
        "a live campaign needs the files of its scenario below the scenario's directory: `{0}`"
    )]
    Outside(String),
    /// The command cannot be started, or the system does not report its end.
    #[error("{}: {source}", path.display())]
    Command {
        /// The command.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The command failed.
    #[error("weir live: {words}")]
    Failed {
        /// The message of the command.
        words: String,
        /// Whether the command refused the scenario, so that another attempt is useless.
        refused: bool,
    },
    /// Too many packets departed late, so the times of the run are not reliable.
    #[error("{0} departed more than 1 ms late: this machine was too slow or too busy")]
    Late(String),
    /// A file cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The results cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// The files of a run by name, and its number of events.
pub(crate) type LiveFiles = (Vec<(String, Vec<u8>)>, u64);

impl LiveRun<'_> {
    /// Carries out the run in a temporary directory of the store, which is removed afterwards. The
    /// run is ended when `stop` is set.
    pub(crate) fn carry_out(
        self,
        store: &Store,
        stop: &AtomicBool,
    ) -> Result<LiveFiles, LiveError> {
        let folder = Folder(store.scratch()?);
        let io_error = |path: &Path| {
            let path = path.to_owned();
            move |source| LiveError::Store(StoreError::Io { path, source })
        };
        // The inputs have a directory of their own, apart from the results. The scenario gets a
        // name that no input has.
        let files = folder.0.join("files");
        fs::create_dir(&files).map_err(io_error(&files))?;
        let mut name = SCENARIO.to_owned();
        while self.inputs.iter().any(|(input, _)| *input == name) {
            name.insert(0, '_');
        }
        let scenario = files.join(name);
        fs::write(&scenario, self.text).map_err(io_error(&scenario))?;
        for (name, key) in self.inputs {
            let is_normal = |part: Component<'_>| matches!(part, Component::Normal(_));
            if !Path::new(name).components().all(is_normal) {
                return Err(LiveError::Outside(name.clone()));
            }
            let path = files.join(name);
            let parent = path.parent().unwrap_or(&files);
            let written = fs::create_dir_all(parent)
                .and_then(|()| store.input(*key))
                .and_then(|content| fs::write(&path, content));
            written.map_err(io_error(&path))?;
        }
        let (out, errors) = (folder.0.join("out"), folder.0.join("errors"));
        let file = File::create(&errors).map_err(io_error(&errors))?;
        let mut command = Command::new(self.weir);
        command.arg("live").arg(&scenario).arg("--quiet").arg("--out").arg(&out);
        // The command has a process group of its own. ^C in a terminal then reaches only the
        // campaign, which ends the run.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let failed = |source| LiveError::Command { path: self.weir.to_owned(), source };
        let mut child = command.spawn().map_err(failed)?;
        let status = wait(&mut child, stop).map_err(failed)?.ok_or(LiveError::Stopped)?;
        if !status.success() {
            let words = said(&errors).unwrap_or_else(|| format!("it ended with {status}"));
            return Err(LiveError::Failed { words, refused: status.code() == Some(REFUSED) });
        }
        let links = out.join("links.parquet");
        check(&Table::read(File::open(&links).map_err(io_error(&links))?)?)?;
        let mut files = Vec::new();
        for entry in fs::read_dir(&out).map_err(io_error(&out))? {
            let path = entry.map_err(io_error(&out))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push((name, fs::read(&path).map_err(io_error(&path))?));
        }
        // The store gets the text from which the key is computed, not the command's copy of it.
        files.retain(|(name, _)| name != "scenario.toml");
        files.push(("scenario.toml".to_owned(), self.text.as_bytes().to_vec()));
        files.sort();
        let events = events(&files);
        Ok((files, events))
    }
}

/// Waits for the end of the command. Returns `None` if the run was stopped.
fn wait(child: &mut Child, stop: &AtomicBool) -> io::Result<Option<ExitStatus>> {
    // When the command was asked to end.
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(asked.is_none().then_some(status));
        }
        match asked {
            None if stop.load(Ordering::Relaxed) => {
                asked = Some(Instant::now());
                // The command may have ended a moment ago.
                let _ = kill_process(Pid::from_child(child), Signal::TERM);
            }
            Some(since) if since.elapsed() > GRACE => child.kill()?,
            _ => {}
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
}

/// The end of the text that the command wrote to its standard error.
fn said(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_ERROR_BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_ERROR_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim().trim_start_matches("weir: ").to_owned();
    (!text.is_empty()).then_some(text)
}

/// Refuses a run in which too many packets departed late.
fn check(links: &Table<String>) -> Result<(), LiveError> {
    // Each row repeats the two counts of the whole run.
    let first = |wanted: &str| {
        let column = links.columns.iter().find(|(name, _)| name == wanted);
        match column.map(|(_, column)| column) {
            Some(Column::SomeInt(values)) => values.first().copied().flatten().unwrap_or(0),
            _ => 0,
        }
    };
    let late = Late { packets: first("run_late"), departed: first("run_departed").max(1) };
    if late.is_too_much() { Err(LiveError::Late(late.in_words())) } else { Ok(()) }
}

/// The number of events in `summary.json`; 0 if there is none.
fn events(files: &[(String, Vec<u8>)]) -> u64 {
    let summary = files.iter().find(|(name, _)| name == "summary.json");
    let read = summary.and_then(|(_, text)| serde_json::from_slice::<serde_json::Value>(text).ok());
    read.and_then(|summary| summary.get("events")?.as_u64()).unwrap_or(0)
}

/// A directory. Dropping this removes it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // The garbage collection of the store removes what remains.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The name of the scenario's file. The name of the session is derived from it.
const SCENARIO: &str = "campaign.toml";
/// The exit code of `weir` for a refused scenario.
const REFUSED: i32 = 2;
/// Maximum number of bytes that are kept of the command's standard error.
const MAX_ERROR_BYTES: u64 = 2000;
/// Time between two checks of the command and of the request to stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// The time that a stopped command is given to remove its hosts before it is killed.
const GRACE: Duration = Duration::from_secs(10);
