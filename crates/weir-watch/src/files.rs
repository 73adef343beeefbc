//! The files of a watch that hold every reading, written while it lasts.

use std::path::Path;
use std::time::{Duration, Instant};

use weir_report::watch::{Format, Recorder};

use super::WatchError;
use super::reader::Seen;

/// The files that hold every reading.
pub(crate) struct Files {
    files: Vec<File>,
    flushed: Instant,
}

struct File {
    recorder: Recorder,
    /// Whether its failure was reported.
    told: bool,
}

impl Files {
    /// Creates a file of each form, with the version of the program that writes it.
    ///
    /// # Errors
    /// A file that cannot be made.
    pub(crate) fn create(wanted: &[(&Path, Format)], version: &str) -> Result<Self, WatchError> {
        let mut files = Vec::new();
        for &(path, format) in wanted {
            files.push(File { recorder: Recorder::create(path, format, version)?, told: false });
        }
        Ok(Self { files, flushed: Instant::now() })
    }

    /// Writes a batch; returns what failed. A file that cannot be written is reported once, and
    /// left as it is.
    pub(crate) fn take(&mut self, seen: &[Seen]) -> Vec<String> {
        let flush = self.flushed.elapsed() >= FLUSH_EVERY;
        if flush {
            self.flushed = Instant::now();
        }
        let mut failures = Vec::new();
        for file in &mut self.files {
            seen.iter().for_each(|seen| seen.tell(&mut file.recorder));
            if flush {
                file.recorder.flush();
            }
            if let Some(error) = file.recorder.error().filter(|_| !file.told) {
                failures.push(error.to_string());
                file.told = true;
            }
        }
        failures
    }

    /// Completes all files; returns what failed.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        let end = |file: File| {
            let told = file.told;
            file.recorder.finish().err().filter(|_| !told).map(|error| error.to_string())
        };
        self.files.drain(..).filter_map(end).collect()
    }
}

impl Default for Files {
    fn default() -> Self {
        Self { files: Vec::new(), flushed: Instant::now() }
    }
}

/// Time between two flushes of the files.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
