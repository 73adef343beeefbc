//! Results of a watch of queues: files with all readings and events, written during the watch, and
//! a report.
//!
//! | format | content |
//! |---|---|
//! | JSON lines (`.jsonl`) | everything: new and vanished queues, readings, events, counters, transmission queues, remarks |
//! | CSV (`.csv`) | readings and events |
//! | Parquet (`.parquet`) | the same columns as CSV |
//!
//! Consecutive equal readings are one entry, with the times of the first and the last reading and
//! their number. The readings and events of each queue are in the order of time. Entries of
//! different queues or of other types are in the order in which they ended.
//!
//! A record has a temporary name in the same directory until it is complete; a pipe or device is
//! written directly. After an error, such as a full disk, the file ends at its last complete line
//! or group of rows. The watch continues, and [`Recorder::finish`] reports the error.

mod entry;
mod packets;
mod parquet;
mod rows;
mod text;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use weir_measure::watch::{Counters, Event, Queue, QueueId, Run, Sink, Transmission};

pub use crate::html::watch::{About, html};
use entry::{Entry, Merger};
pub use packets::PacketFile;
use parquet::ParquetRecord;
pub use rows::{CsvRows, RowError};
use text::{Csv, JsonLines, Lines};

/// A format of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line.
    JsonLines,
    /// Comma-separated values.
    Csv,
    /// A Parquet table.
    Parquet,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 3] = [Format::JsonLines, Format::Csv, Format::Parquet];

    /// The file name extension.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Format::JsonLines => "jsonl",
            Format::Csv => "csv",
            Format::Parquet => "parquet",
        }
    }

    /// The format for the extension of a file name.
    #[must_use]
    pub fn of(path: &Path) -> Option<Format> {
        path.extension()?.to_str()?.parse().ok()
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        let found = Format::ALL.into_iter().find(|format| format.extension() == text);
        found.ok_or_else(|| {
            format!(
                "'{text}' is not a format of records; allowed: {}",
                Format::ALL.map(Format::extension).join(", ")
            )
        })
    }
}

/// The reason why a record is missing or incomplete.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file could not be created.
    #[error("cannot create the record {}: {source}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Writing failed, for example on a full disk or a closed pipe. The earlier entries are in the
    /// file.
    #[error("the record {} ends early, with {entries} entries: {source}", path.display())]
    Early {
        /// The file.
        path: PathBuf,
        /// The number of entries in the file.
        entries: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// Writing failed, and the file has no entries.
    #[error("cannot write the record {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// Writes everything that a source reports to a file.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    file: RecordFile,
    merger: Merger,
    /// The number of entries with readings or events.
    entries: u64,
    error: Option<RecordError>,
    /// For each queue, the counters that were written last.
    counters: BTreeMap<QueueId, Counters>,
    /// For each transmission queue, the state that was written last.
    rings: Vec<Transmission>,
}

#[derive(Debug)]
enum RecordFile {
    JsonLines(JsonLines),
    Csv(Csv),
    Parquet(Box<ParquetRecord>),
}

impl Recorder {
    /// Starts a record at `path`: a file, which is replaced when the record ends, or a pipe such as
    /// `/dev/stdout`. A record in JSON lines contains `version`, the version of the program.
    ///
    /// # Errors
    /// [`RecordError::Create`] if the file cannot be created.
    pub fn create(path: &Path, format: Format, version: &str) -> Result<Recorder, RecordError> {
        let file = match format {
            Format::JsonLines => Lines::create(path).map(JsonLines).map(RecordFile::JsonLines),
            Format::Csv => Lines::create(path).and_then(Csv::new).map(RecordFile::Csv),
            Format::Parquet => ParquetRecord::create(path).map(Box::new).map(RecordFile::Parquet),
        };
        let file = file.map_err(|source| RecordError::Create { path: path.to_owned(), source })?;
        let mut recorder = Recorder {
            path: path.to_owned(),
            file,
            merger: Merger::default(),
            entries: 0,
            error: None,
            counters: BTreeMap::new(),
            rings: Vec::new(),
        };
        recorder.put(&Entry::Watch { version, clock: "CLOCK_MONOTONIC" });
        Ok(recorder)
    }

    /// Limits an entry of equal readings to this duration, 1 s by default, so that the growing file
    /// regularly gets an entry for an unchanged queue.
    pub fn end_entries_after(&mut self, longest: Duration) {
        self.merger.end_after(longest);
    }

    /// The error that ended the record early. After it, the record accepts no more entries.
    #[must_use]
    pub fn error(&self) -> Option<&RecordError> {
        self.error.as_ref()
    }

    /// Writes buffered entries, so that a reader of the pipe, or of the growing temporary file,
    /// sees them. For Parquet, it does nothing: such a file is readable only at the end.
    pub fn flush(&mut self) {
        let flushed = match &mut self.file {
            _ if self.error.is_some() => Ok(()),
            RecordFile::JsonLines(lines) => lines.0.flush(),
            RecordFile::Csv(csv) => csv.flush(),
            RecordFile::Parquet(_) => Ok(()),
        };
        self.check(flushed);
    }

    /// Ends the record. Returns the number of its entries with readings or events.
    ///
    /// # Errors
    /// The record has ended early, or cannot be ended.
    pub fn finish(mut self) -> Result<u64, RecordError> {
        for readings in self.merger.end_all() {
            self.put(&Entry::Readings(readings));
        }
        self.flush();
        if self.error.is_none() {
            let finished = match &mut self.file {
                RecordFile::JsonLines(lines) => lines.0.finish(),
                RecordFile::Csv(csv) => csv.finish(),
                RecordFile::Parquet(record) => record.finish(),
            };
            self.check(finished);
        }
        self.error.map_or(Ok(self.entries), Err)
    }

    fn put(&mut self, entry: &Entry<'_>) {
        if self.error.is_some() {
            return;
        }
        let put = match &mut self.file {
            RecordFile::JsonLines(lines) => lines.put(entry),
            RecordFile::Csv(csv) => csv.put(entry),
            RecordFile::Parquet(record) => record.put(entry),
        };
        self.entries +=
            u64::from(matches!(entry, Entry::Readings(_) | Entry::Enqueue(_) | Entry::Dequeue(_)));
        self.check(put);
    }

    fn check(&mut self, result: io::Result<()>) {
        let Err(source) = result else { return };
        let path = self.path.clone();
        let kept = match &mut self.file {
            RecordFile::Parquet(record) => record.salvage(),
            RecordFile::JsonLines(lines) => lines.0.salvage(),
            RecordFile::Csv(csv) => csv.salvage(),
        };
        self.error = Some(match kept {
            Some(entries) => RecordError::Early { path, entries, source },
            None => RecordError::Write { path, source },
        });
    }
}

impl Sink for Recorder {
    fn appeared(&mut self, time: u64, id: QueueId, queue: &Queue) {
        self.put(&Entry::Queue { id, time_ns: time, label: queue.label(), queue });
    }

    fn vanished(&mut self, time: u64, id: QueueId) {
        if let Some(readings) = self.merger.end(id) {
            self.put(&Entry::Readings(readings));
        }
        self.counters.remove(&id);
        self.put(&Entry::Gone { id, time_ns: time });
    }

    fn runs(&mut self, runs: &[Run]) {
        for run in runs {
            if let Some(readings) = self.merger.push(run) {
                self.put(&Entry::Readings(readings));
            }
        }
    }

    fn events(&mut self, events: &[Event]) {
        for event in events {
            if let Some(readings) = self.merger.end(event.queue) {
                self.put(&Entry::Readings(readings));
            }
            self.put(&Entry::of(event));
        }
    }

    fn counters(&mut self, time: u64, id: QueueId, counters: &Counters) {
        if self.counters.insert(id, *counters) != Some(*counters) {
            self.put(&Entry::Counters { queue: id, time_ns: time, counters: *counters });
        }
    }

    fn transmission(&mut self, time: u64, queues: &[Transmission]) {
        for ring in queues {
            let known = self.rings.iter_mut().find(|known| {
                (&known.device, &known.netns, known.queue)
                    == (&ring.device, &ring.netns, ring.queue)
            });
            match known {
                Some(known) if known == ring => continue,
                Some(known) => known.clone_from(ring),
                None => self.rings.push(ring.clone()),
            }
            self.put(&Entry::Transmission { time_ns: time, ring });
        }
    }

    fn remark(&mut self, time: u64, text: &str) {
        self.put(&Entry::Remark { time_ns: time, text });
    }
}
