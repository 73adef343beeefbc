//! The files that scenarios name. Each is read when it is first used, and its content decides the
//! keys of the runs that use it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use weir_rules::Files;
use weir_sim::disk::Beside;

use crate::key::Key;
use crate::store::Store;

/// The contents of all files that were read.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    /// The contents by path.
    read: Mutex<BTreeMap<PathBuf, Content>>,
}

/// The content of a file, and its hash.
#[derive(Clone, Debug)]
struct Content {
    key: Key,
    bytes: Arc<[u8]>,
    /// Whether messages may quote the content.
    quotable: bool,
}

/// Reads files relative to the directory of a scenario, and records which files are used.
pub(crate) struct Recorded<'a> {
    inputs: &'a Inputs,
    directory: &'a Path,
    /// The names of the files that were used, and the hashes of their contents.
    used: RefCell<BTreeMap<String, Key>>,
}

impl Inputs {
    /// A reader for the files of one scenario in `directory`.
    pub(crate) fn beside<'a>(&'a self, directory: &'a Path) -> Recorded<'a> {
        Recorded { inputs: self, directory, used: RefCell::default() }
    }

    /// Puts the contents with these keys into a store.
    pub(crate) fn put(&self, store: &Store, keys: &[(String, Key)]) -> io::Result<()> {
        let contents: Vec<Content> = {
            let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            let wanted = |content: &&Content| keys.iter().any(|(_, key)| *key == content.key);
            read.values().filter(wanted).cloned().collect()
        };
        contents.iter().try_for_each(|content| store.put_input(content.key, &content.bytes))
    }

    fn content(&self, directory: &Path, name: &str) -> io::Result<Content> {
        let path = directory.join(name);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = read.get(&path) {
            return Ok(content.clone());
        }
        let files = Beside(directory);
        let bytes: Arc<[u8]> = files.read_bytes(name)?.into();
        let quotable = files.read_quotable(name).is_ok_and(|(_, quotable)| quotable);
        let content = Content { key: Key::of(&bytes), bytes, quotable };
        read.insert(path, content.clone());
        Ok(content)
    }
}

impl Recorded<'_> {
    /// The names of the files that were used, and the keys of their contents, in the order of the
    /// names.
    pub(crate) fn used(self) -> Vec<(String, Key)> {
        self.used.into_inner().into_iter().collect()
    }

    fn used_content(&self, name: &str) -> io::Result<Content> {
        let content = self.inputs.content(self.directory, name)?;
        self.used.borrow_mut().insert(name.to_owned(), content.key);
        Ok(content)
    }
}

impl Files for Recorded<'_> {
    fn read(&self, path: &str) -> io::Result<String> {
        Ok(self.read_quotable(path)?.0)
    }

    fn read_quotable(&self, path: &str) -> io::Result<(String, bool)> {
        let content = self.used_content(path)?;
        Ok((text(content.bytes.to_vec())?, content.quotable))
    }

    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        Ok(self.used_content(path)?.bytes.to_vec())
    }
}

/// Reads the inputs of a run from a store.
pub(crate) struct Stored<'a> {
    pub(crate) store: &'a Store,
    pub(crate) inputs: &'a [(String, Key)],
}

impl Files for Stored<'_> {
    fn read(&self, path: &str) -> io::Result<String> {
        text(self.read_bytes(path)?)
    }

    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        let found = self.inputs.iter().find(|(name, _)| name == path);
        let (_, key) = found.ok_or(io::ErrorKind::NotFound)?;
        self.store.input(*key)
    }
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}
