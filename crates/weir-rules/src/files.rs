//! The source of the files that a text names. The crate itself opens no file.

use std::collections::BTreeMap;
use std::io;

use crate::parsed::ParsedFiles;

/// The source of the files that a specification names.
pub trait Files {
    /// The text of the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read; the message is shown to the user.
    fn read(&self, path: &str) -> io::Result<String>;

    /// The text of the file at `path`, and whether messages may quote it. By default they may not:
    /// a text from another author may name any file that the user of the program can read.
    ///
    /// # Errors
    /// As with [`Self::read`].
    fn read_quotable(&self, path: &str) -> io::Result<(String, bool)> {
        Ok((self.read(path)?, false))
    }

    /// The bytes of the file at `path`, for files that are not text.
    ///
    /// # Errors
    /// As with [`Self::read`].
    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        self.read(path).map(String::into_bytes)
    }

    /// The values of files. All texts that are read with this source share them. `None` if each
    /// text reads its files again.
    fn parsed(&self) -> Option<&ParsedFiles> {
        None
    }
}

/// No files: every name is refused as not found.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &str) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Files in memory, by name.
impl Files for BTreeMap<String, String> {
    fn read(&self, path: &str) -> io::Result<String> {
        self.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn read_quotable(&self, path: &str) -> io::Result<(String, bool)> {
        Ok((self.read(path)?, true))
    }
}
