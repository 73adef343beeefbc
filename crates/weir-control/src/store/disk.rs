//! The system calls that change the state directory, as a trait: a test replaces them to make each
//! one fail.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The system calls of a save. The default methods are the real calls.
pub trait Disk: Debug + Send + Sync {
    /// Creates a file that only its owner can read, or empties an existing one.
    ///
    /// # Errors
    /// Those of `open`.
    fn create(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
    }

    /// Writes all of `content` to a file.
    ///
    /// # Errors
    /// Those of `write`; part of the content may be written.
    fn write(&self, file: &mut File, content: &[u8]) -> io::Result<()> {
        file.write_all(content)
    }

    /// Waits until a file's content, or a directory's entries, are on disk.
    ///
    /// # Errors
    /// Those of `fsync`.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    /// Gives a file another name. An existing file of that name is replaced.
    ///
    /// # Errors
    /// Those of `rename`; nothing is renamed.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Gives a file a second name, which must be free.
    ///
    /// # Errors
    /// Those of `link`.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }
}

/// The disk of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {}
