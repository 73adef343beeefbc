//! The files of readings, which a watch writes while it runs.

use std::path::Path;
use std::time::{Duration, Instant};

use weir_measure::packets::Head;
use weir_report::watch::{Format, Recorder};

use super::WatchError;
use super::packets::PacketRecord;
use super::reader::Observation;

pub(crate) struct Files {
    files: Vec<File>,
    packets: Option<PacketRecord>,
    /// When the files were last flushed.
    flushed: Instant,
    /// Time between two flushes.
    every: Duration,
}

struct File {
    recorder: Recorder,
    /// Whether a failure of this file was reported.
    is_reported: bool,
}

impl Files {
    /// Creates a file at each path, in its format, and the recording of packets, if there is one.
    /// `version` is that of the program. Once in every interval `every`, the files are flushed and
    /// an unchanged queue gets an entry.
    ///
    /// # Errors
    /// A file cannot be created.
    pub(crate) fn create(
        outputs: &[(&Path, Format)],
        packets: Option<(&Path, Head)>,
        version: &str,
        every: Duration,
    ) -> Result<Self, WatchError> {
        let mut files = Vec::new();
        for &(path, format) in outputs {
            let mut recorder = Recorder::create(path, format, version)?;
            recorder.end_entries_after(every);
            // A program that reads the file through a Unix pipe gets the head at once, and knows
            // that the sources are open.
            recorder.flush();
            files.push(File { recorder, is_reported: false });
        }
        let packets = packets.map(|(path, head)| PacketRecord::create(path, &head)).transpose()?;
        Ok(Self { files, packets, flushed: Instant::now(), every })
    }

    /// Writes a batch to all files, and returns new failures. A file that cannot be written is
    /// reported once and then no longer written.
    pub(crate) fn take(&mut self, seen: &[Observation]) -> Vec<String> {
        let flush = self.flushed.elapsed() >= self.every;
        if flush {
            self.flushed = Instant::now();
        }
        let mut failures = Vec::new();
        if let Some(packets) = &mut self.packets {
            seen.iter().for_each(|seen| seen.report_to(packets));
            failures.extend(packets.take_error().map(|error| error.to_string()));
        }
        for file in &mut self.files {
            seen.iter().for_each(|seen| seen.report_to(&mut file.recorder));
            if flush {
                file.recorder.flush();
            }
            if let Some(error) = file.recorder.error().filter(|_| !file.is_reported) {
                failures.push(error.to_string());
                file.is_reported = true;
            }
        }
        failures
    }

    /// Completes all files. Returns the number of packets in the recording, if there is one, and
    /// new failures.
    pub(crate) fn finish(&mut self) -> (Option<u64>, Vec<String>) {
        let end = |file: File| {
            let is_reported = file.is_reported;
            file.recorder.finish().err().filter(|_| !is_reported).map(|error| error.to_string())
        };
        let mut failures: Vec<String> = self.files.drain(..).filter_map(end).collect();
        let recorded = self.packets.take().map(PacketRecord::finish).transpose();
        let recorded = recorded.unwrap_or_else(|error| {
            failures.push(error.to_string());
            None
        });
        (recorded.flatten(), failures)
    }
}

impl Default for Files {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            packets: None,
            flushed: Instant::now(),
            every: Duration::from_secs(1),
        }
    }
}
