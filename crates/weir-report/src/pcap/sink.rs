//! A capture file written by a thread of its own, so that a slow disk never delays a packet.
//!
//! The sender copies a frame into a recycled buffer and goes on; when the writer is behind by more
//! than a bounded amount, the frame is left out and counted. On an error, a full disk above all,
//! the file is cut back to its last whole packet, the error is kept for the end, and traffic goes
//! on.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

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
    /// The writer's thread could not be started, or ended by a panic.
    #[error("the writer of the capture {} failed", path.display())]
    Thread {
        /// The capture file.
        path: PathBuf,
    },
}

/// What became of a capture.
#[derive(Debug)]
pub struct CaptureReport {
    /// Packets in the file.
    pub written: u64,
    /// Packets left out: the writer was behind, or had failed.
    pub dropped: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// Why the capture ends early, if it does.
    pub error: Option<CaptureError>,
}

/// The sending end of a capture.
#[derive(Debug)]
pub struct CaptureSink {
    path: PathBuf,
    snaplen: usize,
    sender: Option<SyncSender<(Meta, Vec<u8>)>>,
    spare: Receiver<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
    thread: Option<JoinHandle<CaptureReport>>,
}

/// Opens `path` (a file, which is replaced, or a pipe such as `/dev/stdout`) and starts its writer.
/// `snaplen` bounds the bytes stored of each packet; 0 stores all. `application` names the program
/// in the file.
pub fn spawn_writer(
    path: &Path,
    application: &str,
    interfaces: &[Interface],
    snaplen: usize,
) -> Result<CaptureSink, CaptureError> {
    let create = |source| CaptureError::Create { path: path.to_owned(), source };
    let file =
        OpenOptions::new().write(true).create(true).truncate(true).open(path).map_err(create)?;
    let encoder = CaptureWriter::new(Vec::new(), application, interfaces).map_err(create)?;
    let (sender, receiver) = sync_channel(MAX_WAITING_PACKETS);
    let (give_back, spare) = sync_channel(SPARE_BUFFERS);
    let waiting = Arc::new(AtomicUsize::new(0));
    let writer = FileWriter {
        path: path.to_owned(),
        file,
        encoder,
        buffered_packets: 0,
        report: CaptureReport { written: 0, dropped: 0, bytes: 0, error: None },
    };
    let thread = std::thread::Builder::new()
        .name("weir-capture".to_owned())
        .spawn({
            let waiting = Arc::clone(&waiting);
            move || writer.run(&receiver, &give_back, &waiting)
        })
        .map_err(create)?;
    Ok(CaptureSink {
        path: path.to_owned(),
        snaplen: if snaplen == 0 { usize::MAX } else { snaplen },
        sender: Some(sender),
        spare,
        waiting,
        dropped: Arc::default(),
        thread: Some(thread),
    })
}

impl CaptureSink {
    /// Hands a frame over, or leaves it out when the writer is too far behind. Never waits. Says
    /// whether it was taken.
    pub fn offer(&self, meta: &Meta, frame: &[u8]) -> bool {
        let frame = &frame[..frame.len().min(self.snaplen)];
        let taken = self.waiting.load(Ordering::Relaxed) + frame.len() <= MAX_WAITING_BYTES
            && self.send(meta, frame);
        if !taken {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Packets left out so far because the writer was behind.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until everything handed over is in the file, and says what became of it.
    pub fn finish(mut self) -> CaptureReport {
        drop(self.sender.take());
        let lost = || {
            let error = Some(CaptureError::Thread { path: self.path.clone() });
            CaptureReport { written: 0, dropped: 0, bytes: 0, error }
        };
        let mut report = self.thread.take().and_then(|t| t.join().ok()).unwrap_or_else(lost);
        report.dropped += self.dropped.load(Ordering::Relaxed);
        report
    }

    fn send(&self, meta: &Meta, frame: &[u8]) -> bool {
        let Some(sender) = &self.sender else {
            return false;
        };
        let mut buffer = self.spare.try_recv().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(frame);
        self.waiting.fetch_add(frame.len(), Ordering::Relaxed);
        match sender.try_send((*meta, buffer)) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.waiting.fetch_sub(frame.len(), Ordering::Relaxed);
                false
            }
        }
    }
}

impl Drop for CaptureSink {
    fn drop(&mut self) {
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by its own hook; there is no one left to tell.
            let _ = thread.join();
        }
    }
}

/// The writer's side: encodes into memory, and writes whole packets only.
struct FileWriter {
    path: PathBuf,
    file: File,
    encoder: CaptureWriter<Vec<u8>>,
    buffered_packets: u64,
    report: CaptureReport,
}

impl FileWriter {
    fn run(
        mut self,
        packets: &Receiver<(Meta, Vec<u8>)>,
        give_back: &SyncSender<Vec<u8>>,
        waiting: &AtomicUsize,
    ) -> CaptureReport {
        loop {
            match packets.recv_timeout(FLUSH_AFTER) {
                Ok((meta, frame)) => {
                    self.take(&meta, &frame);
                    waiting.fetch_sub(frame.len(), Ordering::Relaxed);
                    // When enough spare buffers wait already, this one is simply freed.
                    let _ = give_back.try_send(frame);
                }
                // Nothing new: show what there is to whoever follows the file.
                Err(RecvTimeoutError::Timeout) => self.flush(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.flush();
        self.report
    }

    fn take(&mut self, meta: &Meta, frame: &[u8]) {
        if self.report.error.is_some() || self.encoder.write(meta, frame).is_err() {
            self.report.dropped += 1;
            return;
        }
        self.buffered_packets += 1;
        if self.encoder.get_mut().len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let buffer = self.encoder.get_mut();
        if buffer.is_empty() || self.report.error.is_some() {
            return;
        }
        match self.file.write_all(buffer) {
            Ok(()) => {
                self.report.bytes += buffer.len() as u64;
                self.report.written += self.buffered_packets;
            }
            Err(source) => {
                // Cut off what is not whole. On a pipe this fails, and the reader sees the end
                // anyway.
                let _ = self.file.set_len(self.report.bytes);
                self.report.dropped += self.buffered_packets;
                self.report.error = Some(CaptureError::Write { path: self.path.clone(), source });
            }
        }
        buffer.clear();
        self.buffered_packets = 0;
    }
}

/// Packets that may wait for the writer.
const MAX_WAITING_PACKETS: usize = 32_768;
/// Bytes that may wait for the writer: a second of 500 Mbit/s.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Buffers kept for use again.
const SPARE_BUFFERS: usize = 1024;
/// Bytes written at once.
const BUFFER_BYTES: usize = 256 << 10;
/// How long a packet may wait in memory while no other comes.
const FLUSH_AFTER: Duration = Duration::from_millis(200);
