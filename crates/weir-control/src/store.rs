//! The state directory: one configuration that survives any end of the daemon.
//!
//! ```text
//! config.weir      the configuration as commands; its first line has revision and checksum
//! revision-7.weir  an earlier configuration, in the same form
//! files/           the files that commands name (profiles, traces, schedules, jitter tables)
//! web-history/     the past of the web page's objects, which the page's server writes
//! damaged.weir     the last configuration that could not be read, for its repair
//! lock             held by the daemon that uses the directory
//! ```
//!
//! A configuration is written to a temporary file, synced, and renamed to its final name; then the
//! directory is synced. A reader of `config.weir`, at any moment and after any crash, finds a
//! complete configuration: the last saved one, or the one before.
//!
//! The rename is the point of no return. A failure before the rename leaves the configuration as it
//! was. If only the last sync fails, the new configuration is in force, and a crash may bring back
//! the previous one. Both are complete, and so are the files of both.
//!
//! **Invariant:** a file under `files/` exists before the first configuration that names it, and is
//! removed only when neither `config.weir` nor a kept revision nor a damaged configuration names
//! it.
//!
//! **Invariant:** a saved configuration names files by paths relative to the directory, so the
//! directory can be moved.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Gid, Mode, OFlags, Uid, chownat, fchown, flock,
    openat, statat,
};

mod disk;
mod files;
mod form;

pub use disk::{Disk, RealDisk};
pub use files::StoredFiles;
pub use form::Unsound;

use files::{FILES, names_in};

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory cannot be created or opened.
    #[error(
        "the state directory {} cannot be used: {source}; name another one with --state",
        path.display()
    )]
    Open {
        /// The directory or a file in it.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Another daemon uses the directory.
    #[error("another daemon uses the state directory {}; stop it, or name another directory with \
             --state", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A saved configuration cannot be read.
    #[error("the saved configuration {} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A saved configuration is not what was written.
    #[error("the saved configuration {} is not sound: {source}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: Unsound,
    },
    /// The configuration could not be saved.
    #[error(
        "the configuration cannot be saved in {}: {source}; nothing was changed",
        path.display()
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl StoreError {
    /// Whether the disk, or the user's quota, is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let Self::Write { source, .. } = self else { return false };
        matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// Whether the file itself is damaged, so that another configuration may replace it. All other
    /// errors come from the environment: missing rights or descriptors, or a file of a newer
    /// version.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { source, .. } => !matches!(source, Unsound::Newer(_)),
            Self::Read { source, .. } => {
                source.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
                    || matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound)
            }
            _ => false,
        }
    }
}

/// Whether a configuration that was just saved is known to survive a crash. It is in force in both
/// cases.
#[derive(Debug)]
pub enum Durability {
    /// The configuration survives a crash.
    OnDisk,
    /// The system reported an error when it was asked to confirm. After a crash, the daemon finds
    /// this configuration or the previous one.
    Unknown(io::Error),
}

/// A saved configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The revision of the configuration.
    pub revision: u64,
    /// The text of the file: the line that identifies the configuration, then its commands.
    pub script: String,
    /// Its file.
    pub path: PathBuf,
}

/// A configuration in a state directory, sound or not.
#[derive(Debug)]
pub struct Entry {
    /// Its file.
    pub path: PathBuf,
    /// The number in the file's name; none for `config.weir`.
    pub number: Option<u64>,
    /// When the file was written.
    pub written: Option<SystemTime>,
    /// The configuration, or why it cannot be used.
    pub saved: Result<Saved, StoreError>,
}

/// A state directory that this process has locked.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    files: StoredFiles,
    disk: Arc<dyn Disk>,
    // The handles stay open, so that a save opens no file after its rename. A process without free
    // descriptors therefore fails before the rename.
    root_handle: File,
    files_handle: File,
    ledger: Mutex<Ledger>,
    _lock: File,
}

impl Store {
    /// Opens a directory, and creates it if it is missing, readable only by its owner.
    ///
    /// # Errors
    /// The directory cannot be created or written, or another daemon uses it.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Self::open_on(directory, Arc::new(RealDisk))
    }

    /// Opens a directory and makes all changes to it through `disk`.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_on(directory: &Path, disk: Arc<dyn Disk>) -> Result<Self, StoreError> {
        let open = |path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::Open { path, source }
        };
        let files = directory.join(FILES);
        DirBuilder::new().recursive(true).mode(0o700).create(&files).map_err(open(&files))?;
        let directory = fs::canonicalize(directory).map_err(open(directory))?;
        let path = directory.join("lock");
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(open(&path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(StoreError::InUse { path: directory });
            }
            Err(errno) => return Err(open(&path)(errno.into())),
        }
        // Remove a partial file that a killed daemon left.
        for half in [directory.join(TEMPORARY), directory.join(FILES).join(TEMPORARY)] {
            let _ = fs::remove_file(half);
        }
        let store = Self {
            root_handle: File::open(&directory).map_err(open(&directory))?,
            files_handle: File::open(&files).map_err(open(&files))?,
            files: StoredFiles::new(&directory),
            ledger: Mutex::new(Ledger::read(&directory)),
            directory,
            disk,
            _lock: lock,
        };
        Ok(store)
    }

    /// Gives the directory and its files to another user, which the daemon becomes after its start.
    ///
    /// # Errors
    /// The system refuses.
    pub fn give_to(&self, uid: u32, gid: u32) -> Result<(), StoreError> {
        for directory in [self.directory.join(FILES), self.directory.clone()] {
            give_directory(&directory, uid, gid).map_err(|errno| StoreError::Open {
                path: directory.clone(),
                source: errno.into(),
            })?;
        }
        // The daemon also works without the page's past.
        let _ = give_directory(&self.directory.join(HISTORY), uid, gid);
        Ok(())
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of the configuration file.
    #[must_use]
    pub fn configuration(&self) -> PathBuf {
        self.directory.join(CONFIGURATION)
    }

    /// The files that commands name.
    #[must_use]
    pub fn files(&self) -> &StoredFiles {
        &self.files
    }

    /// The configuration that was saved last; `None` if there is none.
    ///
    /// # Errors
    /// The file exists and cannot be read, or is not sound.
    pub fn load(&self) -> Result<Option<Saved>, StoreError> {
        match read_saved(&self.configuration()) {
            Err(StoreError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// An earlier configuration.
    ///
    /// # Errors
    /// It is not kept, cannot be read, or is not sound.
    pub fn load_kept(&self, revision: u64) -> Result<Saved, StoreError> {
        read_saved(&self.directory.join(name_of_revision(revision)))
    }

    /// The revisions of the earlier configurations, the newest first.
    #[must_use]
    pub fn kept(&self) -> Vec<u64> {
        self.ledger().kept.keys().rev().copied().collect()
    }

    /// Saves a configuration, with the files in `sent` (name, content) that the configuration
    /// names. The previous configuration becomes a kept revision.
    ///
    /// # Errors
    /// The configuration is not saved, and the previous one is unchanged.
    pub fn save(
        &self,
        revision: u64,
        script: &str,
        sent: &[(&str, &str)],
    ) -> Result<Durability, StoreError> {
        let mut ledger = self.ledger();
        let content = form::seal(revision, script);
        let named = names_in(script);
        let saved = self.keep_files(&mut ledger, &named, sent).and_then(|()| {
            if let Some((before, _)) = &ledger.current {
                self.duplicate(&name_of_revision(*before))?;
            }
            self.replace(&self.configuration(), &content)
        });
        if saved.is_ok() {
            let next = Listed { bytes: content.len() as u64, files: Arc::new(named) };
            ledger.advance(revision, next);
        }
        self.tidy(&mut ledger);
        saved?;
        Ok(match self.disk.sync(&self.root_handle) {
            Ok(()) => Durability::OnDisk,
            Err(error) => Durability::Unknown(error),
        })
    }

    /// Keeps a copy of a configuration that is not sound, before another one replaces it.
    ///
    /// # Errors
    /// The copy cannot be made.
    pub fn set_aside(&self) -> Result<(), StoreError> {
        if self.configuration().exists() { self.duplicate(DAMAGED) } else { Ok(()) }
    }

    /// Removes stored files that no configuration names.
    pub fn forget_unnamed(&self) {
        self.tidy(&mut self.ledger());
    }

    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the files of `sent` that are in `named`; they are on disk when this returns.
    fn keep_files(
        &self,
        ledger: &mut Ledger,
        named: &BTreeSet<String>,
        sent: &[(&str, &str)],
    ) -> Result<(), StoreError> {
        for (name, content) in sent.iter().filter(|(name, _)| named.contains(*name)) {
            let path = self.files.path_of(name);
            if !fs::read(&path).is_ok_and(|stored| stored == content.as_bytes()) {
                ledger.files_synced = false;
                ledger.sizes.insert((*name).to_owned(), content.len() as u64);
                self.replace(&path, content)?;
            }
        }
        if !named.is_empty() && !ledger.files_synced {
            let failed = |source| StoreError::Write { path: self.directory.join(FILES), source };
            self.disk.sync(&self.files_handle).map_err(failed)?;
            ledger.files_synced = true;
        }
        Ok(())
    }

    /// Gives the configuration file a second name, or copies it if hard links are not possible. An
    /// existing file of that name is replaced.
    fn duplicate(&self, name: &str) -> Result<(), StoreError> {
        let (from, path) = (self.configuration(), self.directory.join(name));
        let link = || {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            match self.disk.link(&from, &path) {
                // Some file systems have no hard links, and some confinements allow none.
                Err(error) if is_unsupported(&error) => {
                    let text = fs::read(&from)?;
                    self.write_and_rename(&path, &text)
                }
                other => other,
            }
        };
        link().map_err(|source| StoreError::Write { path: path.clone(), source })
    }

    /// Writes a file under a temporary name, and renames it to `path`. The directory is not synced.
    fn replace(&self, path: &Path, content: &str) -> Result<(), StoreError> {
        self.write_and_rename(path, content.as_bytes())
            .map_err(|source| StoreError::Write { path: path.to_owned(), source })
    }

    fn write_and_rename(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        // Only one thread of one process writes here, so the name is free or left over from a
        // crash.
        let temporary = path.with_file_name(TEMPORARY);
        let write = || {
            let mut file = self.disk.create(&temporary)?;
            self.disk.write(&mut file, content)?;
            self.disk.sync(&file)?;
            self.disk.rename(&temporary, path)
        };
        write().inspect_err(|_| {
            let _ = fs::remove_file(&temporary);
        })
    }

    /// Removes revisions beyond the limits, and files that no configuration names. A file that
    /// cannot be removed only takes space; the next call tries again.
    fn tidy(&self, ledger: &mut Ledger) {
        while ledger.has_too_much() {
            let Some((oldest, _)) = ledger.kept.pop_first() else { break };
            let _ = fs::remove_file(self.directory.join(name_of_revision(oldest)));
        }
        let unnamed = ledger.unnamed();
        for name in unnamed {
            match fs::remove_file(self.files.path_of(&name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                _ => {
                    ledger.sizes.remove(&name);
                }
            }
        }
    }
}

/// Changes the owner of a directory and of the files in it. The directory may belong to that user
/// already, so symbolic links that the user has made are not followed.
fn give_directory(directory: &Path, uid: u32, gid: u32) -> rustix::io::Result<()> {
    let (user, group) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat(CWD, directory, flags, Mode::empty())?;
    for entry in Dir::read_from(&handle)? {
        let name = entry?.file_name().to_owned();
        let status = statat(&handle, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
        // A file with several names may belong to another directory, too.
        if is_file && status.st_nlink == 1 && status.st_uid != uid {
            chownat(&handle, &name, user, group, AtFlags::SYMLINK_NOFOLLOW)?;
        }
    }
    fchown(&handle, user, group)
}

/// The configurations in a state directory, the current one first, then from new to old. The
/// directory is not locked, so a daemon may use it meanwhile.
///
/// # Errors
/// The directory cannot be read.
pub fn entries(directory: &Path) -> Result<Vec<Entry>, StoreError> {
    let entry = |path: PathBuf, number| Entry {
        written: fs::metadata(&path).and_then(|meta| meta.modified()).ok(),
        saved: read_saved(&path),
        path,
        number,
    };
    let open = |source| StoreError::Open { path: directory.to_owned(), source };
    let mut numbers: Vec<u64> = fs::read_dir(directory)
        .map_err(open)?
        .flatten()
        .filter_map(|entry| number_in(&entry.file_name().to_string_lossy()))
        .collect();
    numbers.sort_unstable();
    let kept = numbers.iter().rev().map(|&n| entry(directory.join(name_of_revision(n)), Some(n)));
    let current = directory.join(CONFIGURATION);
    let current = current.exists().then(|| entry(current, None));
    Ok(current.into_iter().chain(kept).collect())
}

/// The stored files of a state directory, which need not be locked.
#[must_use]
pub fn files_of(directory: &Path) -> StoredFiles {
    StoredFiles::new(directory)
}

fn read_saved(path: &Path) -> Result<Saved, StoreError> {
    let script = fs::read_to_string(path)
        .map_err(|source| StoreError::Read { path: path.to_owned(), source })?;
    let revision = form::unseal(&script)
        .map_err(|source| StoreError::Damaged { path: path.to_owned(), source })?;
    Ok(Saved { revision, script, path: path.to_owned() })
}

fn name_of_revision(revision: u64) -> String {
    format!("{REVISION}{revision}{SUFFIX}")
}

fn number_in(name: &str) -> Option<u64> {
    name.strip_prefix(REVISION)?.strip_suffix(SUFFIX)?.parse().ok()
}

/// Whether an error means that hard links are not possible.
fn is_unsupported(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let none = [Errno::PERM, Errno::ACCESS, Errno::NOTSUP, Errno::NOSYS, Errno::MLINK, Errno::XDEV];
    error.raw_os_error().is_some_and(|code| none.iter().any(|e| e.raw_os_error() == code))
}

/// The content of a state directory, kept so that a save need not read the directory.
#[derive(Debug, Default)]
struct Ledger {
    /// The revision, size and files of `config.weir`, if that file is sound.
    current: Option<(u64, Listed)>,
    /// The earlier configurations, by revision.
    kept: BTreeMap<u64, Listed>,
    /// The files that damaged configurations name; they are kept for the repair.
    damaged: BTreeSet<String>,
    /// Bytes of each stored file.
    sizes: BTreeMap<String, u64>,
    /// Whether the entries of `files/` are known to be on disk. A killed predecessor may have left
    /// files that are not on disk.
    files_synced: bool,
}

/// A configuration's size, and the files that it names.
#[derive(Clone, Debug)]
struct Listed {
    bytes: u64,
    files: Arc<BTreeSet<String>>,
}

impl Ledger {
    fn read(directory: &Path) -> Self {
        let mut ledger = Self::default();
        // A directory that cannot be listed cannot be opened either, so an error needs no handling
        // here.
        let names = |text: &[u8]| names_in(&String::from_utf8_lossy(text));
        ledger.damaged = names(&fs::read(directory.join(DAMAGED)).unwrap_or_default());
        for entry in entries(directory).unwrap_or_default() {
            let text = fs::read(&entry.path).unwrap_or_default();
            let listed = Listed { bytes: text.len() as u64, files: Arc::new(names(&text)) };
            match (entry.number, &entry.saved) {
                (Some(number), _) => {
                    ledger.kept.insert(number, listed);
                }
                (None, Ok(saved)) => ledger.current = Some((saved.revision, listed)),
                (None, Err(_)) => ledger.damaged.extend(listed.files.iter().cloned()),
            }
        }
        let stored = fs::read_dir(directory.join(FILES)).into_iter().flatten().flatten();
        ledger.sizes = stored
            .filter_map(|file| {
                let name = format!("{FILES}/{}", file.file_name().to_str()?);
                Some((name, file.metadata().ok()?.len()))
            })
            .collect();
        ledger
    }

    /// Makes the current configuration a kept one, and another one current.
    fn advance(&mut self, revision: u64, mut next: Listed) {
        if let Some((before, listed)) = self.current.take() {
            // Most changes name the same files. Both configurations then share one set.
            if listed.files == next.files {
                next.files = Arc::clone(&listed.files);
            }
            self.kept.insert(before, listed);
        }
        self.current = Some((revision, next));
    }

    /// Whether the oldest kept revision must be deleted. The newest kept revision stays, whatever
    /// its size.
    fn has_too_much(&self) -> bool {
        let scripts: u64 = self.kept.values().map(|listed| listed.bytes).sum();
        let stored: u64 = self.sizes.values().sum();
        self.kept.len() > KEPT_REVISIONS
            || (self.kept.len() > 1 && scripts + stored > KEPT_BYTES && {
                let of_current = self.current.iter().flat_map(|(_, listed)| &*listed.files);
                let needed: BTreeSet<&String> = of_current.collect();
                let named: BTreeSet<&String> =
                    self.kept.values().flat_map(|listed| &*listed.files).collect();
                let size = |name: &&String| self.sizes.get(*name).copied().unwrap_or(0);
                scripts + named.difference(&needed).map(size).sum::<u64>() > KEPT_BYTES
            })
    }

    /// The stored files that no configuration names.
    fn unnamed(&self) -> Vec<String> {
        let current = self.current.iter().map(|(_, listed)| listed);
        let mut sets: Vec<&Arc<BTreeSet<String>>> =
            current.chain(self.kept.values()).map(|listed| &listed.files).collect();
        sets.dedup_by(|a, b| Arc::ptr_eq(a, b));
        let is_named =
            |name: &String| self.damaged.contains(name) || sets.iter().any(|s| s.contains(name));
        self.sizes.keys().filter(|name| !is_named(name)).cloned().collect()
    }
}

/// The name of the configuration file.
const CONFIGURATION: &str = "config.weir";
/// The start of the file name of a kept revision.
const REVISION: &str = "revision-";
/// The end of the file name of a kept revision.
const SUFFIX: &str = ".weir";
/// The file name of the last configuration that could not be read.
const DAMAGED: &str = "damaged.weir";
/// The name of a file that is being written.
const TEMPORARY: &str = ".writing";
/// The directory of the past of the web page's objects.
pub const HISTORY: &str = "web-history";
/// Number of earlier configurations that are kept: enough to undo a wrong script, and few enough to
/// choose from.
pub const KEPT_REVISIONS: usize = 16;
/// Bytes that earlier configurations, and files that only they name, may take. A single request may
/// contain 32 MiB of files.
pub const KEPT_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use weir_rules::Files as _;

    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn a_saved_configuration_is_loaded_with_its_revision() {
        let scratch = Scratch::new();
        let store = Store::open(scratch.path()).unwrap();
        assert_eq!(store.load().unwrap(), None);
        store.save(7, "pipe 1 config bw 1Mbit/s\n", &[]).unwrap();
        let saved = store.load().unwrap().unwrap();
        assert_eq!(saved.revision, 7);
        assert!(saved.script.ends_with("\npipe 1 config bw 1Mbit/s\n"), "{}", saved.script);
        assert!(!store.directory().join(TEMPORARY).exists());
    }

    #[test]
    fn a_second_daemon_is_refused_until_the_first_has_ended() {
        let scratch = Scratch::new();
        let first = Store::open(scratch.path()).unwrap();
        assert!(matches!(Store::open(scratch.path()), Err(StoreError::InUse { .. })));
        drop(first);
        Store::open(scratch.path()).unwrap();
    }

    #[test]
    fn files_are_stored_by_content_and_no_other_file_is_read() {
        let scratch = Scratch::new();
        let store = Store::open(scratch.path()).unwrap();
        let name = StoredFiles::name_of("../a dir/tr ace.csv", "1,2\n");
        store.save(1, &format!("# {name}\n"), &[(&name, "1,2\n"), ("files/other", "x")]).unwrap();
        assert_eq!(store.files().read(&name).unwrap(), "1,2\n");
        let absolute = store.directory().join(&name).display().to_string();
        assert_eq!(store.files().read(&absolute).unwrap(), "1,2\n", "as earlier versions saved it");
        assert!(!store.directory().join("files/other").exists(), "no command names it");
        for other in [
            "/etc/hostname",
            "config.weir",
            &format!("{}/files/../config.weir", store.directory().display()),
            "",
        ] {
            let error = store.files().read(other).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{other}");
        }
        fs::write(store.directory().join(&name), "1,3\n").unwrap();
        let error = store.files().read(&name).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "its content is not that of its name");
    }

    #[test]
    fn revisions_are_kept_within_their_number_and_size_with_their_files() {
        let scratch = Scratch::new();
        let store = Store::open(scratch.path()).unwrap();
        let mut names = Vec::new();
        for revision in 1..=20u64 {
            let content = revision.to_string();
            let name = StoredFiles::name_of("trace", &content);
            store.save(revision, &format!("# {name}\n"), &[(&name, &content)]).unwrap();
            names.push(name);
        }
        let exists = |name: &String| store.directory().join(name).exists();
        assert_eq!(store.kept(), (4..=19).rev().collect::<Vec<u64>>());
        assert_eq!(
            names.iter().map(exists).collect::<Vec<_>>(),
            [vec![false; 3], vec![true; 17]].concat()
        );
        assert_eq!(store.load_kept(4).unwrap().revision, 4);
        assert!(!store.directory().join("revision-3.weir").exists());
        let large = "x".repeat(usize::try_from(KEPT_BYTES / 2 + 1).unwrap());
        for (revision, end) in [(21u64, "a"), (22, "b"), (23, "c")] {
            let content = format!("{large}{end}");
            let name = StoredFiles::name_of("large", &content);
            store.save(revision, &format!("# {name}\n"), &[(&name, &content)]).unwrap();
        }
        assert_eq!(store.kept(), [22], "two large ones are too much beside the current one");
    }
}
