//! A source of files that shares the values that were read from them.

use crate::files::Files;
use crate::parsed::ParsedFiles;

/// Files with values that all readers of this source share.
pub struct SharedFiles<'a> {
    source: &'a dyn Files,
    parsed: &'a ParsedFiles,
}

impl<'a> SharedFiles<'a> {
    /// The files of `source`. Their values are kept in `parsed`, unless `source` keeps them itself.
    #[must_use]
    pub fn new(source: &'a dyn Files, parsed: &'a ParsedFiles) -> Self {
        Self { source, parsed: source.parsed().unwrap_or(parsed) }
    }
}

impl Files for SharedFiles<'_> {
    fn read(&self, path: &str) -> std::io::Result<String> {
        self.source.read(path)
    }

    fn read_quotable(&self, path: &str) -> std::io::Result<(String, bool)> {
        self.source.read_quotable(path)
    }

    fn read_bytes(&self, path: &str) -> std::io::Result<Vec<u8>> {
        self.source.read_bytes(path)
    }

    fn parsed(&self) -> Option<&ParsedFiles> {
        Some(self.parsed)
    }
}
