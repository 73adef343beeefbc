//! Reads the files that a command refers to, and keeps their contents, because the contents are
//! sent together with the command.

use std::cell::RefCell;
use std::collections::BTreeMap;

use weir_rules::Files;

/// Reads files from `source`, and keeps the content of every file that is read.
#[derive(Debug)]
pub(crate) struct Recorded<F> {
    source: F,
    contents: RefCell<BTreeMap<String, String>>,
}

impl<F> Recorded<F> {
    /// Records the files that are read from `source`.
    pub(crate) fn new(source: F) -> Self {
        Self { source, contents: RefCell::default() }
    }

    /// The files that were read, by their names.
    pub(crate) fn into_contents(self) -> BTreeMap<String, String> {
        self.contents.into_inner()
    }
}

impl<F: Files> Files for Recorded<F> {
    fn read(&self, path: &str) -> std::io::Result<String> {
        Ok(self.read_quotable(path)?.0)
    }

    fn read_quotable(&self, path: &str) -> std::io::Result<(String, bool)> {
        let (content, quotable) = self.source.read_quotable(path)?;
        // If a file changes between two reads, the content of the first read is sent.
        let content = self.contents.borrow_mut().entry(path.to_owned()).or_insert(content).clone();
        Ok((content, quotable))
    }
}
