//! Reads a recording from a file or from memory, entry by entry: once for the kernel's row, and
//! once for each discipline to replay.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use weir_measure::packets::{Decoder, ENTRY, Entry, FormatError, Head, MAX_HEAD};

/// Where a recording is.
#[derive(Clone, Debug)]
pub enum Recording {
    /// In a file.
    File(PathBuf),
    /// In memory.
    Bytes(Vec<u8>),
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The path does not name a file.
    #[error("{} is not a regular file, and a replay reads it several times: store the recording \
             in a file", .0.display())]
    NotAFile(PathBuf),
    /// The content is not a recording.
    #[error("{}: {error}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: FormatError,
    },
    /// The file has changed since the first pass.
    #[error("{} changed while it was read: replay it again when it is complete", .0.display())]
    Changed(PathBuf),
    /// There are no packets.
    #[error("{} has no packets: record while packets pass", .0.display())]
    Empty(PathBuf),
    /// There are more flows than a replay follows.
    #[error("the recording has more than {MAX_FLOWS} flows: record a shorter time")]
    Flows,
    /// More packets are inside at a time than a replay follows.
    #[error(
        "more than {MAX_INSIDE} packets are in the kernel's queue at a time: the recording is \
         damaged, or record a shorter time"
    )]
    Inside,
}

impl Recording {
    /// The path for messages.
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Bytes(_) => PathBuf::from("the recording"),
        }
    }

    /// Begins a pass over the recording.
    pub(super) fn pass(&self) -> Result<Pass<'_>, RecordingError> {
        let read = |source| RecordingError::Read { path: self.path(), source };
        let input: Box<dyn Read + '_> = match self {
            Self::File(path) => Box::new(regular(path)?),
            Self::Bytes(bytes) => Box::new(Cursor::new(bytes)),
        };
        let mut input = BufReader::with_capacity(BUFFER, input);
        let mut line = Vec::new();
        input.by_ref().take(MAX_HEAD as u64).read_until(b'\n', &mut line).map_err(read)?;
        let format = |error| RecordingError::Format { path: self.path(), error };
        if line.last() != Some(&b'\n') {
            let reason = format!("its first line has no end within {MAX_HEAD} bytes");
            return Err(format(FormatError::Head(reason)));
        }
        let (head, decoder) = Decoder::begin(&line).map_err(format)?;
        Ok(Pass { recording: self, head, decoder, input })
    }
}

/// Opens a regular file. Anything else could be endless, or could not be read twice.
fn regular(path: &Path) -> Result<File, RecordingError> {
    let read = |source| RecordingError::Read { path: path.to_owned(), source };
    // The check comes first, because opening a pipe would wait for a writer.
    if !std::fs::metadata(path).map_err(read)?.is_file() {
        return Err(RecordingError::NotAFile(path.to_owned()));
    }
    File::open(path).map_err(read)
}

pub(super) struct Pass<'a> {
    recording: &'a Recording,
    pub(super) head: Head,
    decoder: Decoder,
    input: BufReader<Box<dyn Read + 'a>>,
}

impl Pass<'_> {
    /// The next entry; `None` after the last one. The last entry is the end of the recording.
    pub(super) fn next(&mut self) -> Result<Option<Entry>, RecordingError> {
        let path = || self.recording.path();
        let format = |error| RecordingError::Format { path: path(), error };
        let mut bytes = [0; ENTRY];
        let mut filled = 0;
        while filled < ENTRY {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(RecordingError::Read { path: path(), source }),
            }
        }
        if filled == ENTRY {
            return self.decoder.entry(&bytes).map(Some).map_err(format);
        }
        self.decoder.finish().map_err(format)?;
        if filled == 0 {
            return Ok(None);
        }
        Err(format(self.decoder.surplus()))
    }
}

/// Number of bytes that one read requests.
const BUFFER: usize = 1 << 16;

/// Maximum number of flows in a recording.
pub(super) const MAX_FLOWS: usize = 1 << 18;
/// Maximum number of packets that are inside at a time.
pub(super) const MAX_INSIDE: usize = 1 << 20;
