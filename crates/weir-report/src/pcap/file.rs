//! A capture in a file.
//!
//! Complete packets are collected in memory and written some hundred kilobytes at a time. After an
//! error, such as a full disk, the file is truncated to its last complete packet, the error is kept
//! for the report, and further packets are only counted. Writing may wait for the disk, so it
//! belongs on a thread that moves no packets.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{CaptureWriter, Interface, Meta};

/// The reason why a capture is missing or incomplete.
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
    /// Writing failed, for example on a full disk or a closed pipe.
    #[error("the capture {} ends early: {source}", path.display())]
    Write {
        /// The capture file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// The outcome of a capture.
#[derive(Debug)]
pub struct CaptureReport {
    /// Packets in the file.
    pub written: u64,
    /// Packets left out because the writer was too slow or had failed.
    pub dropped: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// The reason why the capture ends early; `None` if it is complete.
    pub error: Option<CaptureError>,
}

/// A capture file that is being written.
pub struct CaptureFile {
    path: PathBuf,
    file: File,
    snaplen: usize,
    encoder: CaptureWriter<Vec<u8>>,
    /// The number of packets in the encoder's buffer.
    buffered: u64,
    report: CaptureReport,
}

impl CaptureFile {
    /// Opens `path`: a file, which is replaced, or a pipe such as `/dev/stdout`. The file names
    /// `application` as the capturing program. At most `snaplen` bytes of each packet are stored; 0
    /// stores all bytes.
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

    /// Adds a packet. The call may wait for the disk. After an error the packet is only counted.
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

    /// Writes the buffered packets, for programs that read the growing file.
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
                // Remove the incomplete packet. A pipe cannot be truncated; its reader notices the
                // early end.
                let _ = self.file.set_len(self.report.bytes);
                self.report.dropped += self.buffered;
                self.report.error = Some(CaptureError::Write { path: self.path.clone(), source });
            }
        }
        buffer.clear();
        self.buffered = 0;
    }

    /// Writes the buffered packets and ends the capture. `missed` is the number of packets that
    /// should have been captured and did not reach this file.
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

/// The size of the buffer in bytes.
const BUFFER_BYTES: usize = 256 << 10;
