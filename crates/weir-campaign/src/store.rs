//! The store: a directory with one directory for each run, named by the run's key.
//!
//! ```text
//! weir-store.json      the format of the store
//! runs/<key>/          the files of a run, and meta.json with their lengths and hashes
//! inputs/<hash>        the files that scenarios name
//! tmp/                 runs and files that are being written
//! ```
//!
//! A run is written into a directory below `tmp` and renamed when it is complete. The rename fails
//! if a directory with files has the new name already. If several writers write one run, the store
//! therefore keeps the run that is complete first, and the other writers compare their bytes with
//! it. Writers need neither locks nor a server, and none of this depends on clocks, so hosts may
//! share the directory over NFS.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::key::Key;

/// A store of runs.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// The content of a run's `meta.json`. It has no times and no names of hosts, so that simulated
/// runs with the same key have the same file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The format of this file.
    pub format: u32,
    /// The key of the run.
    pub key: String,
    /// The version of the engine.
    pub engine: String,
    /// The program that carried out the run: `sim` or `live`.
    pub source: String,
    /// The name of the scenario.
    pub name: String,
    /// The seed.
    pub seed: u64,
    /// Number of events of the simulation, or of packets that arrived at the live loop.
    pub events: u64,
    /// The files that the scenario names, and the hashes of their contents.
    pub inputs: BTreeMap<String, String>,
    /// The run's files except `meta.json`, by name.
    pub files: BTreeMap<String, FileMeta>,
}

/// The length and the hash of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMeta {
    /// Length, bytes.
    pub bytes: u64,
    /// SHA-256 of the content, in hexadecimal form.
    pub sha256: String,
}

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory is not a store.
    #[error("{} is no store: `weir sweep` makes one in a new or empty directory", .0.display())]
    NoStore(PathBuf),
    /// The path is that of a file.
    #[error("{} is no directory, so it cannot be a store: name a directory", .0.display())]
    NoDirectory(PathBuf),
    /// The directory has other files.
    #[error("{} has other files and is no store: name a new directory", .0.display())]
    OtherFiles(PathBuf),
    /// The store has a format of another version of Weir.
    #[error("{} has format {found}, and this version of Weir has {FORMAT}", path.display())]
    Format {
        /// The store.
        path: PathBuf,
        /// The format of the store.
        found: u32,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl StoreError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// Whether any other file would be refused too, for example because the disk is full or
    /// read-only.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        let Self::Io { source, .. } = self else { return true };
        let lasting = [Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::ACCESS, Errno::PERM];
        source.raw_os_error().is_some_and(|code| lasting.iter().any(|e| e.raw_os_error() == code))
    }
}

/// The outcome of writing a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// The run was not in the store before, and is in it now.
    New,
    /// The store already had the run, with the same bytes.
    Same,
    /// The store already had the run, with other bytes. For a simulated run, one of the two results
    /// is wrong.
    Differs,
}

impl Store {
    /// Opens a store, and makes it if the directory is missing or empty.
    ///
    /// # Errors
    /// The path is no directory, or the directory has other files or another format, or cannot be
    /// written.
    pub fn create(root: &Path) -> Result<Self, StoreError> {
        Self::refuse_file(root)?;
        let marker = root.join(MARKER);
        if !marker.exists() {
            fs::create_dir_all(root).map_err(StoreError::io(root))?;
            let mut entries = fs::read_dir(root).map_err(StoreError::io(root))?;
            // These entries are allowed, because another process may be making the same store.
            let ours =
                |name: &std::ffi::OsStr| [RUNS, INPUTS, TMP, MARKER].iter().any(|n| name == *n);
            if entries.any(|entry| entry.is_ok_and(|entry| !ours(&entry.file_name()))) {
                return Err(StoreError::OtherFiles(root.to_owned()));
            }
            for part in [RUNS, INPUTS, TMP] {
                let path = root.join(part);
                fs::create_dir_all(&path).map_err(StoreError::io(&path))?;
            }
            let content = format!("{{\"format\": {FORMAT}}}\n");
            let store = Self { root: root.to_owned() };
            store.put(&marker, content.as_bytes()).map_err(StoreError::io(&marker))?;
        }
        Self::open(root)
    }

    /// Opens an existing store.
    ///
    /// # Errors
    /// The path is no directory, or the directory is not a store or has another format.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        #[derive(Deserialize)]
        struct Marker {
            format: u32,
        }
        Self::refuse_file(root)?;
        let no_store = || StoreError::NoStore(root.to_owned());
        let text = fs::read(root.join(MARKER)).map_err(|_| no_store())?;
        let marker: Marker = serde_json::from_slice(&text).map_err(|_| no_store())?;
        if marker.format != FORMAT {
            return Err(StoreError::Format { path: root.to_owned(), found: marker.format });
        }
        Ok(Self { root: root.to_owned() })
    }

    fn refuse_file(root: &Path) -> Result<(), StoreError> {
        if root.exists() && !root.is_dir() {
            return Err(StoreError::NoDirectory(root.to_owned()));
        }
        Ok(())
    }

    /// The directory of the store.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of a run, which exists if the run is in the store.
    #[must_use]
    pub fn path(&self, key: Key) -> PathBuf {
        self.root.join(RUNS).join(key.to_string())
    }

    /// The file of an input, whether it exists or not.
    #[must_use]
    pub fn input_path(&self, key: Key) -> PathBuf {
        self.root.join(INPUTS).join(key.to_string())
    }

    /// Whether the store has a run.
    #[must_use]
    pub fn has(&self, key: Key) -> bool {
        self.path(key).join(META).exists()
    }

    /// The keys of all runs, in no particular order.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn keys(&self) -> Result<impl Iterator<Item = Key> + use<>, StoreError> {
        let path = self.root.join(RUNS);
        let entries = fs::read_dir(&path).map_err(StoreError::io(&path))?;
        Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
    }

    /// The content of a run's `meta.json`.
    ///
    /// # Errors
    /// The store does not have the run, or the file is damaged.
    pub fn meta(&self, key: Key) -> Result<Meta, StoreError> {
        let path = self.path(key).join(META);
        let text = fs::read(&path).map_err(StoreError::io(&path))?;
        serde_json::from_slice(&text)
            .map_err(|error| StoreError::Io { path, source: io::Error::other(error) })
    }

    /// The content of an input.
    ///
    /// # Errors
    /// The store does not have the input, or the input is damaged.
    pub fn input(&self, key: Key) -> io::Result<Vec<u8>> {
        let bytes = fs::read(self.input_path(key))?;
        if Key::of(&bytes) == key {
            return Ok(bytes);
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "the input is damaged"))
    }

    /// Puts an input into the store, unless the store has it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put_input(&self, key: Key, content: &[u8]) -> io::Result<()> {
        let path = self.input_path(key);
        if path.exists() { Ok(()) } else { self.put(&path, content) }
    }

    /// Begins to write a run.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn begin(&self, key: Key) -> Result<Draft, StoreError> {
        let path = self.scratch()?;
        Ok(Draft { path, key, files: BTreeMap::new(), target: self.path(key) })
    }

    /// Removes a run. A reader sees the whole run or none.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, key: Key) -> Result<(), StoreError> {
        self.discard(&self.path(key))
    }

    /// Removes an input.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_input(&self, key: Key) -> Result<(), StoreError> {
        self.discard(&self.input_path(key))
    }

    /// The keys of all inputs.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn inputs(&self) -> Result<impl Iterator<Item = Key> + use<>, StoreError> {
        let path = self.root.join(INPUTS);
        let entries = fs::read_dir(&path).map_err(StoreError::io(&path))?;
        Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
    }

    /// The files of writers that no longer exist. A writer on this host is looked up by its
    /// process number. A writer on another host counts as gone when its files are older than
    /// `age`. Ages are computed from times of the file system, since the clocks of hosts may
    /// differ.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn abandoned(&self, age: Duration) -> Result<Vec<PathBuf>, StoreError> {
        let directory = self.root.join(TMP);
        let now = self.now().map_err(StoreError::io(&directory))?;
        let entries = fs::read_dir(&directory).map_err(StoreError::io(&directory))?;
        let host = host();
        let mut found = Vec::new();
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mut parts = name.rsplitn(3, '.');
            let (_, pid, writer) = (parts.next(), parts.next(), parts.next());
            let is_gone = match (writer == Some(host.as_str()), pid.and_then(|p| p.parse().ok())) {
                (true, Some(pid)) => !is_running(pid),
                _ => fs::metadata(&path)
                    .and_then(|meta| meta.modified())
                    .is_ok_and(|then| now.duration_since(then).is_ok_and(|elapsed| elapsed > age)),
            };
            if is_gone {
                found.push(path);
            }
        }
        Ok(found)
    }

    /// Removes a file or directory of the store. The path is first renamed into `tmp`, so that a
    /// writer that still uses the path fails instead of storing a part of a run.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn discard(&self, path: &Path) -> Result<(), StoreError> {
        let moved = self.temporary();
        fs::rename(path, &moved).map_err(StoreError::io(path))?;
        let removed =
            if moved.is_dir() { fs::remove_dir_all(&moved) } else { fs::remove_file(&moved) };
        removed.map_err(StoreError::io(path))
    }

    /// Makes a directory below `tmp`, which the caller removes.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn scratch(&self) -> Result<PathBuf, StoreError> {
        let path = self.temporary();
        fs::create_dir(&path).map_err(StoreError::io(&path))?;
        Ok(path)
    }

    /// The time of the file system that has the store.
    fn now(&self) -> io::Result<SystemTime> {
        let path = self.temporary();
        let modified = File::create(&path)?.metadata()?.modified();
        fs::remove_file(&path)?;
        modified
    }

    fn put(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let temporary = self.temporary();
        fs::write(&temporary, content)
            .and_then(|()| fs::rename(&temporary, path))
            .inspect_err(|_| drop(fs::remove_file(&temporary)))
    }

    /// A path below `tmp` that no other writer uses: it contains the host, the process and a
    /// number.
    fn temporary(&self) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.root.join(TMP).join(format!("{}.{}.{number}", host(), std::process::id()))
    }
}

/// A run that is being written. Dropping it removes the files that were written.
#[derive(Debug)]
pub struct Draft {
    /// The directory below `tmp` in which the run is written.
    path: PathBuf,
    key: Key,
    files: BTreeMap<String, FileMeta>,
    /// The directory of the complete run.
    target: PathBuf,
}

/// The values that [`Draft::commit`] writes into `meta.json`.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The version of the engine.
    pub engine: &'a str,
    /// The program that carried out the run.
    pub source: &'a str,
    /// The name of the scenario.
    pub name: &'a str,
    /// The seed.
    pub seed: u64,
    /// Number of events of the simulation, or of packets that arrived at the live loop.
    pub events: u64,
    /// The files that the scenario names, and the hashes of their contents.
    pub inputs: &'a [(String, Key)],
}

impl Draft {
    /// Adds a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&mut self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let path = self.path.join(name);
        fs::write(&path, content).map_err(StoreError::io(&path))?;
        let sha256 = Key::of(content).to_string();
        self.files.insert(name.to_owned(), FileMeta { bytes: content.len() as u64, sha256 });
        Ok(())
    }

    /// Adds `meta.json` and moves the run to the directory that its key names.
    ///
    /// # Errors
    /// A file cannot be written. Nothing remains of the run.
    pub fn commit(mut self, facts: &Facts<'_>) -> Result<Committed, StoreError> {
        let inputs = facts.inputs.iter();
        let meta = Meta {
            format: FORMAT,
            key: self.key.to_string(),
            engine: facts.engine.to_owned(),
            source: facts.source.to_owned(),
            name: facts.name.to_owned(),
            seed: facts.seed,
            events: facts.events,
            inputs: inputs.map(|(name, key)| (name.clone(), key.to_string())).collect(),
            files: std::mem::take(&mut self.files),
        };
        let path = self.path.join(META);
        let text = to_text(&meta);
        let written = File::create(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(StoreError::io(&path))?;
        match fs::rename(&self.path, &self.target) {
            Ok(()) => Ok(Committed::New),
            Err(error) if exists_already(&error) => {
                let stored =
                    fs::read(self.target.join(META)).map_err(StoreError::io(&self.target))?;
                Ok(if stored == text.as_bytes() { Committed::Same } else { Committed::Differs })
            }
            Err(error) => Err(StoreError::io(&self.target)(error)),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After the rename there is nothing to remove.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The text of `meta.json`.
pub(crate) fn to_text(meta: &Meta) -> String {
    let mut text = serde_json::to_string_pretty(meta).expect("the types are plain data");
    text.push('\n');
    text
}

fn exists_already(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty)
}

/// The name of this host. Characters other than letters, digits and `-` are replaced by `_`,
/// because a dot separates the parts of a temporary name.
fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// Whether a process with the number `pid` runs on this host.
fn is_running(pid: i32) -> bool {
    rustix::process::Pid::from_raw(pid).is_some_and(|pid| {
        // Another user's process refuses the signal, but exists.
        rustix::process::test_kill_process(pid) != Err(Errno::SRCH)
    })
}

/// The format of stores and of `meta.json`.
pub const FORMAT: u32 = 1;
/// The file of a run that lists the run's other files.
pub const META: &str = "meta.json";
const MARKER: &str = "weir-store.json";
const RUNS: &str = "runs";
const INPUTS: &str = "inputs";
const TMP: &str = "tmp";
