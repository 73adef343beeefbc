//! A recording of packets in a file. The file gets its name when the recording is complete.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use weir_measure::packets::{Encoder, End, Entry, Head};

use crate::file::TemporaryFile;

use super::RecordError;

/// Writes a recording of packets.
#[derive(Debug)]
pub struct PacketFile {
    path: PathBuf,
    file: TemporaryFile,
    encoder: Encoder,
    /// Encoded bytes that are not written yet.
    waiting: Vec<u8>,
}

impl PacketFile {
    /// Begins a recording that replaces the file at `path` when it is complete.
    ///
    /// # Errors
    /// [`RecordError::Create`] if no file can be created there.
    pub fn create(path: &Path, head: &Head) -> Result<Self, RecordError> {
        let path = path.to_owned();
        let file = match TemporaryFile::create(&path) {
            Ok(file) => file,
            Err(source) => return Err(RecordError::Create { path, source }),
        };
        let mut waiting = Vec::with_capacity(2 * BUFFER);
        let encoder = Encoder::begin(head, &mut waiting);
        Ok(Self { path, file, encoder, waiting })
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// The temporary file cannot be written. It is removed when this `PacketFile` is dropped.
    pub fn put(&mut self, entry: &Entry) -> Result<(), RecordError> {
        self.encoder.put(entry, &mut self.waiting);
        if self.waiting.len() >= BUFFER { self.write() } else { Ok(()) }
    }

    /// Ends the recording and gives the file its name.
    ///
    /// # Errors
    /// The file cannot be written or named.
    pub fn finish(mut self, end: End) -> Result<(), RecordError> {
        self.put(&Entry::End(end))?;
        self.write()?;
        let Self { path, file, .. } = self;
        file.put_in_place().map_err(|source| RecordError::Write { path, source })
    }

    fn write(&mut self) -> Result<(), RecordError> {
        let written = self.file.file().write_all(&self.waiting);
        self.waiting.clear();
        written.map_err(|source| RecordError::Write { path: self.path.clone(), source })
    }
}

/// Size of the write buffer in bytes.
const BUFFER: usize = 1 << 16;
