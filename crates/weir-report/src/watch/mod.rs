//! Results of a watch of queues: files of all that was seen, written while it goes on, and a
//! report.
//!
//! | format | what is in it |
//! |---|---|
//! | JSON lines (`.jsonl`) | everything: queues that come and go, readings, events, counters, transmission queues, remarks |
//! | CSV (`.csv`) | readings and events |
//! | Parquet (`.parquet`) | the same columns |
//!
//! Readings that are equal and follow each other are one entry, with the time of the first and of
//! the last and their number. The entries of each queue are in the order of time; between queues
//! they are in the order in which they ended.
//!
//! Text is written in place, so what was read is there whatever happens. A disk that is full ends
//! the file at its last whole line, or group of rows; the watch goes on, and [`Recorder::finish`]
//! says so.

mod entry;
mod parquet;
mod text;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use weir_measure::watch::{Counters, Event, Queue, QueueId, Run, Sink, Transmission};

pub use crate::html::watch::{About, html};
use entry::{Entry, Merger};
use parquet::ParquetRecord;
use text::{Csv, JsonLines, Lines};

/// A form of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An object in each line.
    JsonLines,
    /// A table as text.
    Csv,
    /// A table as Parquet.
    Parquet,
}

impl Format {
    /// Every form.
    pub const ALL: [Format; 3] = [Format::JsonLines, Format::Csv, Format::Parquet];

    /// What the names of its files end with.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Format::JsonLines => "jsonl",
            Format::Csv => "csv",
            Format::Parquet => "parquet",
        }
    }

    /// The form that a file's name asks for.
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
                "'{text}' is no form of record; allowed: {}",
                Format::ALL.map(Format::extension).join(", ")
            )
        })
    }
}

/// Why a record is not, or not wholly, in its file.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file could not be made.
    #[error("cannot create the record {}: {source}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It took no more: a full disk, a closed pipe. What came before is there.
    #[error("the record {} ends early, with {entries} entries: {source}", path.display())]
    Early {
        /// The file.
        path: PathBuf,
        /// How many entries are in it.
        entries: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// It took no more, and nothing could be kept.
    #[error("cannot write the record {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// Writes all that a source tells into a file.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    file: RecordFile,
    merger: Merger,
    entries: u64,
    error: Option<RecordError>,
    counters: BTreeMap<QueueId, Counters>,
    rings: Vec<Transmission>,
}

#[derive(Debug)]
enum RecordFile {
    JsonLines(JsonLines),
    Csv(Csv),
    Parquet(Box<ParquetRecord>),
}

impl Recorder {
    /// Begins a record at `path`: a file, which is replaced, or a pipe such as `/dev/stdout`.
    /// `version` names the program in it.
    ///
    /// # Errors
    /// [`RecordError::Create`] when the file cannot be made.
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

    /// Why the record has ended early, if it has: nothing is added any more.
    #[must_use]
    pub fn error(&self) -> Option<&RecordError> {
        self.error.as_ref()
    }

    /// Writes what waits, so that a reader of the file sees it. Parquet waits until the end.
    pub fn flush(&mut self) {
        let flushed = match &mut self.file {
            _ if self.error.is_some() => Ok(()),
            RecordFile::JsonLines(lines) => lines.0.flush(),
            RecordFile::Csv(csv) => csv.flush(),
            RecordFile::Parquet(_) => Ok(()),
        };
        self.check(flushed);
    }

    /// Ends the record; gives the number of its entries.
    ///
    /// # Errors
    /// When it has ended before, or cannot be ended.
    pub fn finish(mut self) -> Result<u64, RecordError> {
        for readings in self.merger.end_all() {
            self.put(&Entry::Readings(readings));
        }
        self.flush();
        if self.error.is_none()
            && let RecordFile::Parquet(record) = &mut self.file
        {
            let finished = record.finish();
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
            RecordFile::JsonLines(lines) => lines.0.kept(),
            RecordFile::Csv(csv) => csv.kept(),
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
