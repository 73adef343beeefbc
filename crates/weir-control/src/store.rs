//! The state directory: one configuration that survives any end of the daemon.
//!
//! ```text
//! config.weir     the configuration as commands, with its revision in the first line; `weir check` reads it
//! files/          the files that commands name (profiles, traces, schedules, jitter tables), each under the hash of its content
//! lock            held by the daemon that uses the directory
//! ```
//!
//! A configuration is written to a temporary file, synced, and renamed to its final name; then the
//! directory is synced. A reader of `config.weir`, at any moment and after any crash, finds a
//! complete configuration: the last saved one, or the one before.
//!
//! **Invariant:** a file under `files/` exists before the first configuration that names it and is
//! removed after the last one.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Gid, Mode, OFlags, Uid, chownat, fchown, flock,
    openat, statat,
};
use sha2::{Digest as _, Sha256};
use weir_rules::Files;

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory cannot be created or opened.
    #[error("the state directory {} cannot be used: {source}; name another one with --state", path.display())]
    Open {
        /// The directory or a file in it.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Another daemon uses the directory.
    #[error("another daemon uses the state directory {}; stop it, or name another directory with --state", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The saved configuration cannot be read.
    #[error("the saved configuration {} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The configuration could not be saved.
    #[error("the configuration cannot be saved in {}: {source}; nothing was changed", path.display())]
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
}

/// A state directory that this process has locked.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    _lock: File,
}

/// A saved configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The revision of the configuration.
    pub revision: u64,
    /// The commands.
    pub script: String,
}

impl Store {
    /// Opens a directory, and creates it if it is missing, readable only by its owner.
    ///
    /// # Errors
    /// The directory cannot be created or written, or another daemon uses it.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
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
        Ok(Self { directory, _lock: lock })
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

    /// The configuration that was saved last; `None` if none was ever saved.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn load(&self) -> Result<Option<Saved>, StoreError> {
        let path = self.configuration();
        match fs::read_to_string(&path) {
            Ok(script) => Ok(Some(Saved { revision: revision_of(&script), script })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError::Read { path, source }),
        }
    }

    /// Saves a configuration. When this returns, the configuration is on disk and survives a crash.
    pub fn save(&self, revision: u64, script: &str) -> Result<(), StoreError> {
        self.replace(&self.configuration(), &format!("{HEAD}{revision}\n{script}"))
    }

    /// The path under which a file with this content is stored. The path keeps the last component
    /// of `name`, which identifies the kind of file.
    #[must_use]
    pub fn place_of(&self, name: &str, content: &str) -> PathBuf {
        let hash: String = Sha256::digest(content)
            .iter()
            .take(HASH_BYTES)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' }
        };
        let last = Path::new(name)
            .file_name()
            .map(|last| last.to_string_lossy().into_owned())
            .unwrap_or_default();
        // Do not add a second hash to the name of a stored file.
        let last = last.strip_prefix(&format!("{hash}-")).unwrap_or(&last);
        let last: Vec<char> = last.chars().map(plain).collect();
        let last: String = last[last.len().saturating_sub(LONGEST_NAME)..].iter().collect();
        self.directory.join(FILES).join(format!("{hash}-{last}"))
    }

    /// Stores a file at its path. The file is on disk when this returns.
    pub fn keep(&self, place: &Path, content: &str) -> Result<(), StoreError> {
        if fs::read(place).is_ok_and(|there| there == content.as_bytes()) {
            return Ok(());
        }
        self.replace(place, content)
    }

    /// Removes the stored files that are not in `named`.
    pub fn forget_others(&self, named: &BTreeSet<PathBuf>) {
        let Ok(entries) = fs::read_dir(self.directory.join(FILES)) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            if !named.contains(&path) {
                // A file that remains only takes space; the next call tries again.
                let _ = fs::remove_file(path);
            }
        }
    }

    fn replace(&self, path: &Path, content: &str) -> Result<(), StoreError> {
        let parent = path.parent().unwrap_or(&self.directory);
        // Only one thread of one process writes here, so the name is free or left over from a
        // crash.
        let temporary = parent.join(TEMPORARY);
        let write = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&temporary)?;
            file.write_all(content.as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, path)?;
            File::open(parent)?.sync_all()
        };
        write().map_err(|source| {
            let _ = fs::remove_file(&temporary);
            StoreError::Write { path: path.to_owned(), source }
        })
    }
}

/// Reads stored files only: a configuration cannot make the daemon read any other file.
impl Files for Store {
    fn read(&self, path: &str) -> io::Result<String> {
        let inside = Path::new(path).strip_prefix(self.directory.join(FILES)).ok();
        let mut parts = inside.into_iter().flat_map(Path::components);
        match (parts.next(), parts.next()) {
            (Some(Component::Normal(name)), None) => {
                fs::read_to_string(self.directory.join(FILES).join(name))
            }
            _ => Err(io::Error::new(
                io::ErrorKind::NotFound,
                "it was not sent along; the daemon reads no files of its own",
            )),
        }
    }
}

/// Changes the owner of a directory and of the files in it. The directory may belong to that user
/// already, so links that the user has made are not followed.
fn give_directory(directory: &Path, uid: u32, gid: u32) -> rustix::io::Result<()> {
    let (user, group) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat(CWD, directory, flags, Mode::empty())?;
    for entry in Dir::read_from(&handle)? {
        let name = entry?.file_name().to_owned();
        let there = statat(&handle, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_file = FileType::from_raw_mode(there.st_mode) == FileType::RegularFile;
        // A file with several names may belong to another directory, too.
        if is_file && there.st_nlink == 1 && there.st_uid != uid {
            chownat(&handle, &name, user, group, AtFlags::SYMLINK_NOFOLLOW)?;
        }
    }
    fchown(&handle, user, group)
}

/// The revision in a configuration's first line; 0 if there is none, as in a file that was written
/// by hand.
fn revision_of(script: &str) -> u64 {
    let first = script.lines().next().unwrap_or_default();
    first.strip_prefix(HEAD).and_then(|number| number.parse().ok()).unwrap_or(0)
}

const CONFIGURATION: &str = "config.weir";
const FILES: &str = "files";
const TEMPORARY: &str = ".writing";
const HEAD: &str = "# Saved by weir serve; change it with weir's commands. Revision ";
/// Bytes of the hash: with 128 bits, collisions do not occur by chance.
const HASH_BYTES: usize = 16;
/// Maximum number of characters that are kept of a file's own name.
const LONGEST_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn a_saved_configuration_is_loaded_with_its_revision() {
        let scratch = Scratch::new();
        let store = Store::open(scratch.path()).unwrap();
        assert_eq!(store.load().unwrap(), None);
        store.save(7, "pipe 1 config bw 1Mbit/s\n").unwrap();
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
        let place = store.place_of("../a dir/tr ace.csv", "1,2\n");
        assert_eq!(place.parent().unwrap(), store.directory().join("files"));
        assert!(place.to_string_lossy().ends_with("-tr_ace.csv"));
        assert_ne!(place, store.place_of("../a dir/tr ace.csv", "1,3\n"));
        store.keep(&place, "1,2\n").unwrap();
        let name = place.to_string_lossy().into_owned();
        assert_eq!(store.read(&name).unwrap(), "1,2\n");
        assert_eq!(store.place_of(&name, "1,2\n"), place, "a kept file keeps its name");
        for other in [
            "/etc/hostname",
            "config.weir",
            &format!("{}/files/../config.weir", store.directory().display()),
            "",
        ] {
            assert_eq!(store.read(other).unwrap_err().kind(), io::ErrorKind::NotFound, "{other}");
        }
        store.forget_others(&BTreeSet::new());
        assert!(store.read(&name).is_err());
    }
}
