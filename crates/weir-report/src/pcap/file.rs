//! A capture in a file.
//!
//! The file gets its name when it is complete; until then it has a temporary name in the same
//! directory. Records are collected in memory and written about 256 KiB at a time. After an error,
//! such as a full disk, the file is truncated to the records of earlier writes, the error is kept
//! for the report, and further records are only counted. Writing may wait for the disk, so it
//! belongs on a thread that moves no packets.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::file::TemporaryFile;

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
#[derive(Debug, Default)]
pub struct CaptureReport {
    /// Records in the file: one for each arrival, departure and drop of a packet.
    pub written: u64,
    /// Records left out because the writer was too slow or had failed.
    pub dropped: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// The reason why the capture ends early; `None` if it is complete.
    pub error: Option<CaptureError>,
}

/// A capture file that is being written.
pub struct CaptureFile {
    path: PathBuf,
    /// None after the capture has ended.
    file: Option<TemporaryFile>,
    snaplen: usize,
    encoder: CaptureWriter<Vec<u8>>,
    /// The number of packets in the encoder's buffer.
    buffered: u64,
    report: CaptureReport,
}

impl CaptureFile {
    /// Starts a capture at `path`: a file, which is replaced when the capture ends, or a pipe such
    /// as `/dev/stdout`. The file names `application` as the capturing program. At most `snaplen`
    /// bytes of each packet are stored; 0 stores all bytes.
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
        let file = Some(TemporaryFile::create(path).map_err(failed)?);
        Ok(Self {
            path: path.to_owned(),
            file,
            snaplen: if snaplen == 0 { usize::MAX } else { snaplen },
            encoder: CaptureWriter::new(Vec::new(), application, interfaces).map_err(failed)?,
            buffered: 0,
            report: CaptureReport::default(),
        })
    }

    /// The path at which flushed packets can be read before the capture ends.
    #[must_use]
    pub fn growing(&self) -> &Path {
        self.file.as_ref().and_then(TemporaryFile::temporary).unwrap_or(&self.path)
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
        let Some(file) = self.file.as_mut().map(TemporaryFile::file) else { return };
        if buffer.is_empty() || self.report.error.is_some() {
            return;
        }
        match file.write_all(buffer) {
            Ok(()) => {
                self.report.bytes += buffer.len() as u64;
                self.report.written += self.buffered;
            }
            Err(source) => {
                // Remove the part of the buffer that was written. A pipe cannot be truncated.
                let _ = file.set_len(self.report.bytes);
                self.report.dropped += self.buffered;
                self.report.error = Some(CaptureError::Write { path: self.path.clone(), source });
            }
        }
        buffer.clear();
        self.buffered = 0;
    }

    /// Writes the buffered packets, ends the capture and gives the file its name. `missed` is the
    /// number of records that did not reach [`Self::write`].
    pub fn finish(mut self, missed: u64) -> CaptureReport {
        self.close();
        self.report.dropped += missed;
        std::mem::take(&mut self.report)
    }

    /// Writes the buffered packets and gives the file its name. After an error, a file without
    /// packets gets no name.
    fn close(&mut self) {
        self.flush();
        let Some(file) = self.file.take() else { return };
        let report = &mut self.report;
        if report.error.is_some() && report.written == 0 {
            return;
        }
        if let Err(source) = file.put_in_place() {
            report.dropped += std::mem::take(&mut report.written);
            report.bytes = 0;
            report.error = Some(CaptureError::Write { path: self.path.clone(), source });
        }
    }
}

/// The file of a capture that ends without [`CaptureFile::finish`] also gets its name.
impl Drop for CaptureFile {
    fn drop(&mut self) {
        self.close();
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
