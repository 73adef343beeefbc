//! Records as Parquet: a row for each run of equal readings, and for each enqueue or dequeue.
//!
//! A Parquet file is readable only with its footer. It is therefore written under a temporary name
//! and renamed when it is complete. After an error, such as a full disk, the footer follows the
//! last complete group of rows. If the footer does not fit, groups of rows are removed from the end
//! until it fits.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;

use weir_measure::watch::{Queue, QueueId};

use super::entry::{Change, Entry, Readings};
use crate::file::TemporaryFile;
use crate::sim::parquet::{Column, Table, TableError, TableWriter};

/// A Parquet file that is being written.
#[derive(Debug)]
pub(super) struct ParquetRecord {
    writer: TableWriter<Vec<u8>>,
    file: Option<TemporaryFile>,
    /// The end offset of each group of rows, and the number of rows up to it. The first entry is
    /// the end of the magic number at the start of the file.
    ends: Vec<(u64, u64)>,
    /// The queues that the buffered rows may refer to.
    queues: BTreeMap<QueueId, Queue>,
    /// The queues that vanished since the last group was written.
    gone: Vec<QueueId>,
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    /// The kind of row: 0 for readings, 1 for an enqueue, 2 for a dequeue.
    what: u32,
    /// The readings; for an enqueue or dequeue, its time and the state of the queue after it, as a
    /// single reading.
    readings: Readings,
    change: Option<Change>,
}

impl ParquetRecord {
    pub(super) fn create(path: &Path) -> io::Result<ParquetRecord> {
        let file = TemporaryFile::create(path)?;
        let writer =
            TableWriter::new(Vec::new(), &table(&[], &BTreeMap::new())).map_err(io_error)?;
        let mut record = ParquetRecord {
            writer,
            file: Some(file),
            ends: Vec::new(),
            queues: BTreeMap::new(),
            gone: Vec::new(),
            rows: Vec::new(),
        };
        record.store(0)?;
        Ok(record)
    }

    pub(super) fn put(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let row = match entry {
            Entry::Queue { id, queue, .. } => {
                self.queues.insert(*id, (*queue).clone());
                return Ok(());
            }
            Entry::Gone { id, .. } => {
                self.gone.push(*id);
                return Ok(());
            }
            Entry::Readings(readings) => Row { what: 0, readings: *readings, change: None },
            Entry::Enqueue(change) => Row::of(1, change),
            Entry::Dequeue(change) => Row::of(2, change),
            Entry::Watch { .. }
            | Entry::Counters { .. }
            | Entry::Transmission { .. }
            | Entry::Remark { .. } => return Ok(()),
        };
        self.rows.push(row);
        if self.rows.len() >= GROUP { self.group() } else { Ok(()) }
    }

    /// Writes the buffered rows as a group.
    fn group(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        if !rows.is_empty() {
            self.writer.write(&table(&rows, &self.queues)).map_err(io_error)?;
            self.store(rows.len() as u64)?;
        }
        for id in self.gone.drain(..) {
            self.queues.remove(&id);
        }
        Ok(())
    }

    fn store(&mut self, rows: u64) -> io::Result<()> {
        let bytes = self.writer.take().map_err(io_error)?;
        let (end, before) = self.ends.last().copied().unwrap_or_default();
        let Some(file) = &mut self.file else { return Ok(()) };
        file.file().write_all(&bytes)?;
        self.ends.push((end + bytes.len() as u64, before + rows));
        Ok(())
    }

    /// Writes the buffered rows and the footer, and gives the file its final name.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.group()?;
        let footer = self.writer.footer(self.ends.len().saturating_sub(1)).map_err(io_error)?;
        let Some(file) = &mut self.file else { return Ok(()) };
        file.file().write_all(&footer)?;
        self.file.take().map_or(Ok(()), TemporaryFile::put_in_place)
    }

    /// Completes the file with the data written before an error, and gives it its final name.
    /// Returns the number of rows; `None` if this fails, in which case no file remains.
    pub(super) fn salvage(&mut self) -> Option<u64> {
        let mut temporary = self.file.take()?;
        while let Some((end, rows)) = self.ends.pop().filter(|&(_, rows)| rows > 0) {
            let footer = self.writer.footer(self.ends.len()).ok()?;
            let file = temporary.file();
            let ended = file
                .set_len(end)
                .and_then(|()| io::Seek::seek(file, io::SeekFrom::Start(end)))
                .and_then(|_| file.write_all(&footer));
            if ended.is_ok() {
                return temporary.put_in_place().ok().map(|()| rows);
            }
        }
        None
    }
}

impl Row {
    fn of(what: u32, change: &Change) -> Row {
        let &Change { queue, time_ns, qlen, backlog_bytes, .. } = change;
        Row {
            what,
            readings: Readings {
                queue,
                time_ns,
                until_ns: time_ns,
                samples: 1,
                qlen,
                backlog_bytes,
            },
            change: Some(*change),
        }
    }
}

fn table(rows: &[Row], queues: &BTreeMap<QueueId, Queue>) -> Table {
    let int =
        |of: fn(&Readings) -> u64| Column::Int(rows.iter().map(|row| of(&row.readings)).collect());
    let some = |of: fn(&Change) -> u32| {
        Column::SomeInt(rows.iter().map(|row| row.change.as_ref().map(|c| of(c).into())).collect())
    };
    let name = |of: fn(&Queue) -> String| {
        let (mut names, mut places) = (Vec::new(), BTreeMap::new());
        let mut place = |row: &Row| {
            *places.entry(row.readings.queue).or_insert_with_key(|id| {
                let name = queues.get(id).map(of).unwrap_or_default();
                names.iter().position(|known| *known == name).unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                }) as u32
            })
        };
        let places = rows.iter().map(&mut place).collect();
        Column::Name(names, places)
    };
    let what = Column::Name(
        ["readings", "enqueue", "dequeue"].map(str::to_owned).into(),
        rows.iter().map(|row| row.what).collect(),
    );
    Table {
        columns: vec![
            ("what", what),
            ("time_ns", int(|r| r.time_ns)),
            ("until_ns", int(|r| r.until_ns)),
            ("queue", int(|r| r.queue.into())),
            ("device", name(|queue| queue.device.clone())),
            ("netns", name(|queue| queue.netns.clone().unwrap_or_default())),
            ("kind", name(|queue| queue.kind.clone())),
            ("handle", name(|queue| queue.handle.to_string())),
            ("parent", name(|queue| queue.parent.to_string())),
            ("band", name(|queue| queue.band.map(|band| band.to_string()).unwrap_or_default())),
            ("samples", int(|r| r.samples)),
            ("qlen", int(|r| r.qlen.into())),
            ("backlog_bytes", int(|r| r.backlog_bytes.into())),
            ("packets", some(|c| c.packets)),
            ("bytes", some(|c| c.bytes)),
            ("drops", some(|c| c.drops)),
            ("cpu", some(|c| c.cpu)),
            ("after_gap", some(|c| c.after_gap.into())),
        ],
    }
}

/// Converts an error of the Parquet writer. It writes only to memory, so an error is a bug.
fn io_error(error: TableError) -> io::Error {
    io::Error::other(error)
}

/// Number of rows of a group: enough to make the cost of names negligible, and few enough for a
/// small buffer.
const GROUP: usize = 1 << 16;
