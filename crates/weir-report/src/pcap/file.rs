//! A capture in a file.
//!
//! Packets are gathered in memory and written some hundred kilobytes at a time, each of them whole.
//! On an error, a full disk above all, the file is cut back to its last whole packet, the error is
//! kept for the end, and the packets that follow are counted. Writing may wait for the disk, so it
//! belongs on a thread that moves no packets.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{CaptureWriter, Interface, Meta};

/// Why a capture is not, or not wholly, in its file.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file could not be opened.
    #[error("cannot create the capture {}: {source}", path.display())]
    Create {
        /// The capture file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Writing stopped: a full disk, a closed pipe.
    #[error("the capture {} ends early: {source}", path.display())]
    Write {
        /// The capture file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// What became of a capture.
#[derive(Debug)]
pub struct CaptureReport {
    /// Packets in the file.
    pub written: u64,
    /// Packets left out: the writer was too slow, or had failed.
    pub dropped: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// Why the capture ends early, if it does.
    pub error: Option<CaptureError>,
}

/// A capture file that is being written.
pub struct CaptureFile {
    path: PathBuf,
    file: File,
    snaplen: usize,
    encoder: CaptureWriter<Vec<u8>>,
    /// Packets in the encoder's memory.
    buffered: u64,
    report: CaptureReport,
}

impl CaptureFile {
    /// Opens `path` (a file, which is replaced, or a pipe such as `/dev/stdout`). `application`
    /// names the program in the file. `snaplen` bounds the bytes stored of each packet; 0 stores
    /// all.
    ///
    /// # Errors
    /// [`CaptureError::Create`] with the system's reason.
    pub fn create(
        path: &Path,
        application: &str,
        interfaces: &[Interface],
        snaplen: usize,
    ) -> Result<Self, CaptureError> {
        let failed = |source| CaptureError::Create { path: path.to_owned(), source };
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            snaplen: if snaplen == 0 { usize::MAX } else { snaplen },
            encoder: CaptureWriter::new(Vec::new(), application, interfaces).map_err(failed)?,
            buffered: 0,
            report: CaptureReport { written: 0, dropped: 0, bytes: 0, error: None },
        })
    }

    /// Takes a packet, and may wait for the disk. After an error the packet is only counted.
    pub fn write(&mut self, meta: &Meta, frame: &[u8]) {
        let frame = &frame[..frame.len().min(self.snaplen)];
        if self.report.error.is_some() || self.encoder.write(meta, frame).is_err() {
            self.report.dropped += 1;
            return;
        }
        self.buffered += 1;
        if self.encoder.get_mut().len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    /// Writes what is in memory, for programs that follow the file.
    pub fn flush(&mut self) {
        let buffer = self.encoder.get_mut();
        if buffer.is_empty() || self.report.error.is_some() {
            return;
        }
        match self.file.write_all(buffer) {
            Ok(()) => {
                self.report.bytes += buffer.len() as u64;
                self.report.written += self.buffered;
            }
            Err(source) => {
                // Cut off what is not whole. On a pipe this fails, and the reader sees the end
                // anyway.
                let _ = self.file.set_len(self.report.bytes);
                self.report.dropped += self.buffered;
                self.report.error = Some(CaptureError::Write { path: self.path.clone(), source });
            }
        }
        buffer.clear();
        self.buffered = 0;
    }

    /// Writes the rest. `missed` packets were to be captured and did not reach this file.
    pub fn finish(mut self, missed: u64) -> CaptureReport {
        self.flush();
        self.report.dropped += missed;
        self.report
    }
}

impl std::fmt::Debug for CaptureFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureFile")
            .field("path", &self.path)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

/// Bytes written at once.
const BUFFER_BYTES: usize = 256 << 10;
