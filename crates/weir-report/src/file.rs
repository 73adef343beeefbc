//! Result files that are either complete or absent: each file is written under a temporary name,
//! synced, then renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The reason why a result file could not be written. No partial file remains under the path.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file could not be created, for example in a missing directory or without permission.
    #[error("cannot create {}: {source}", path.display())]
    Create {
        /// The path of the result file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The content could not be stored, for example on a full disk or beyond a quota.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The path of the result file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The finished file could not be renamed.
    #[error("cannot replace {}: {source}", path.display())]
    Replace {
        /// The path of the result file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// Writes `content` to `path`, replacing an existing file in one step. A reader sees the complete
/// old file or the complete new one, even after a crash. A device or pipe (`/dev/stdout`) is
/// written directly. A symbolic link stays, and its target is replaced. A link of another user in a
/// directory such as `/tmp` is refused.
pub fn write_atomic(path: &Path, content: &[u8]) -> Result<(), WriteError> {
    let mut temporary = TemporaryFile::create(path)
        .map_err(|source| WriteError::Create { path: path.to_owned(), source })?;
    temporary
        .file()
        .write_all(content)
        .map_err(|source| WriteError::Write { path: path.to_owned(), source })?;
    temporary.store().map_err(|source| WriteError::Write { path: path.to_owned(), source })?;
    temporary.rename().map_err(|source| WriteError::Replace { path: path.to_owned(), source })
}

/// A file that gets its final name when it is complete. Until then it has a temporary name in the
/// same directory. Dropping the value removes the temporary file.
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    file: File,
    /// The temporary and the final path; none for a device or a pipe.
    places: Option<(RemoveOnDrop, PathBuf)>,
}

impl TemporaryFile {
    pub(crate) fn create(path: &Path) -> io::Result<TemporaryFile> {
        refuse_strangers_link(path)?;
        let existing = fs::metadata(path).ok();
        if existing.as_ref().is_some_and(|m| !m.is_file()) {
            return Ok(TemporaryFile {
                file: OpenOptions::new().write(true).open(path)?,
                places: None,
            });
        }
        let target = if existing.is_some() { fs::canonicalize(path)? } else { path.to_owned() };
        let (temporary, file) = create_temporary(&target)?;
        let temporary = RemoveOnDrop(Some(temporary));
        if let Some(old) = existing {
            file.set_permissions(old.permissions())?;
        }
        Ok(TemporaryFile { file, places: Some((temporary, target)) })
    }

    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// The temporary path of the incomplete file; none for a device or a pipe.
    pub(crate) fn temporary(&self) -> Option<&Path> {
        self.places.as_ref().and_then(|(temporary, _)| temporary.0.as_deref())
    }

    /// Whether this is a regular file, which gets a name, and not a device or a pipe.
    pub(crate) fn is_regular(&self) -> bool {
        self.places.is_some()
    }

    /// Syncs the file and gives it its final name.
    pub(crate) fn put_in_place(mut self) -> io::Result<()> {
        self.store()?;
        self.rename()
    }

    fn store(&mut self) -> io::Result<()> {
        if self.places.is_some() { self.file.sync_all() } else { Ok(()) }
    }

    fn rename(self) -> io::Result<()> {
        let TemporaryFile { file, places } = self;
        drop(file);
        let Some((mut temporary, target)) = places else { return Ok(()) };
        if let Some(path) = &temporary.0 {
            fs::rename(path, &target)?;
        }
        temporary.0 = None;
        // The rename is durable once the directory is synced. A file system that cannot sync
        // directories still has the complete file.
        let _ = File::open(directory_of(&target)).and_then(|d| d.sync_all());
        Ok(())
    }
}

/// Refuses a symbolic link of another user in a directory such as `/tmp`: it may lead to any file
/// that this process may replace. The kernel has the same rule, unless `fs.protected_symlinks` is
/// off. The kernel applies the rule only to links that it follows, but this process resolves the
/// link.
fn refuse_strangers_link(path: &Path) -> io::Result<()> {
    let Ok(link) = fs::symlink_metadata(path) else { return Ok(()) };
    let directory = fs::metadata(directory_of(path))?;
    let is_public =
        directory.mode() & STICKY_AND_WRITABLE_BY_OTHERS == STICKY_AND_WRITABLE_BY_OTHERS;
    let is_own = link.uid() == rustix::process::geteuid().as_raw();
    if link.is_symlink() && is_public && !is_own && link.uid() != directory.uid() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is a symbolic link of another user in a directory that everybody may write to; \
             remove it, or name another file",
        ));
    }
    Ok(())
}

/// A new file in the directory of `target`, so that the rename stays within one file system.
fn create_temporary(target: &Path) -> io::Result<(PathBuf, File)> {
    let name = target.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
    let mut attempt = 0u32;
    loop {
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{attempt}.tmp", std::process::id()));
        let path = directory_of(target).join(hidden);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && attempt < MAX_ATTEMPTS => {
                attempt += 1;
            }
            Err(e) => return Err(e),
        }
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes the temporary file when it is dropped; `None` after the file got its final name.
#[derive(Debug)]
struct RemoveOnDrop(Option<PathBuf>);

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

/// The mode of a directory like `/tmp`.
const STICKY_AND_WRITABLE_BY_OTHERS: u32 = 0o1002;
/// The maximum number of temporary names to try after the first one. Killed processes with the same
/// process id may have left files with these names.
const MAX_ATTEMPTS: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("weir-report-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let dir = scratch("replace");
        let path = dir.join("r.json");
        write_atomic(&path, b"first, and longer").unwrap();
        write_atomic(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_missing_directory_is_named() {
        let path = std::env::temp_dir().join("weir-report-no-such-directory/r.json");
        let error = write_atomic(&path, b"x").unwrap_err();
        assert!(matches!(error, WriteError::Create { .. }));
        assert!(error.to_string().contains("weir-report-no-such-directory/r.json"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_are_written_to_and_a_full_one_is_an_error() {
        let error = write_atomic(Path::new("/dev/full"), b"x").unwrap_err();
        assert!(matches!(error, WriteError::Write { .. }), "{error}");
        write_atomic(Path::new("/dev/null"), b"x").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[cfg(unix)]
    #[test]
    fn a_symbolic_link_stays_and_the_mode_is_kept() {
        use std::os::unix::fs::PermissionsExt;
        let dir = scratch("link");
        let (real, link) = (dir.join("real"), dir.join("link"));
        fs::write(&real, b"old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_atomic(&link, b"new").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_dir_all(dir).unwrap();
    }
}
