//! Records as text, one line per entry: JSON, or comma-separated values.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use weir_measure::watch::{Queue, QueueId};

use crate::file::TemporaryFile;

use super::entry::{Change, Entry, Readings};

/// A file of complete lines. After a failed write it is truncated to its last complete line.
#[derive(Debug)]
pub(super) struct Lines {
    /// None after the file has its name.
    file: Option<TemporaryFile>,
    /// Lines that are not written yet.
    waiting: Vec<u8>,
    /// The number of bytes in the file.
    written: u64,
    /// The complete lines in the file: their bytes, and their number.
    whole: (u64, u64),
}

impl Lines {
    /// Creates a file that replaces an existing one when it is complete. Pipes and devices are
    /// written directly.
    pub(super) fn create(path: &Path) -> io::Result<Lines> {
        Ok(Lines {
            file: Some(TemporaryFile::create(path)?),
            waiting: Vec::with_capacity(2 * BUFFER),
            written: 0,
            whole: (0, 0),
        })
    }

    /// Adds a line, including the line break.
    fn line(&mut self, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> io::Result<()> {
        write(&mut self.waiting)?;
        if self.waiting.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let mut rest = self.waiting.as_slice();
        let Some(file) = self.file.as_mut().map(TemporaryFile::file) else { return Ok(()) };
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(0) => return self.cut(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    if let Some(end) = rest[..n].iter().rposition(|&byte| byte == b'\n') {
                        let lines = rest[..n].iter().filter(|&&byte| byte == b'\n').count();
                        self.whole = (self.written + end as u64 + 1, self.whole.1 + lines as u64);
                    }
                    self.written += n as u64;
                    rest = &rest[n..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.cut(error),
            }
        }
        self.waiting.clear();
        Ok(())
    }

    /// The number of lines in the file; `None` without lines.
    fn kept(&self) -> Option<u64> {
        Some(self.whole.1).filter(|&lines| lines > 0)
    }

    /// Gives the file its name.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.file.take().map_or(Ok(()), TemporaryFile::put_in_place)
    }

    /// After an error, gives the file its name, if it has complete lines. Returns the number of
    /// these lines; `None` if there are none or the renaming fails.
    pub(super) fn salvage(&mut self) -> Option<u64> {
        let kept = self.kept()?;
        self.finish().ok().map(|()| kept)
    }

    /// Truncates the file to its complete lines. Returns `error`.
    fn cut(&mut self, error: io::Error) -> io::Result<()> {
        if let Some(file) = self.file.as_mut().filter(|file| file.is_regular()) {
            // If truncating fails too, the last line may be incomplete; the error already reports
            // that the file ends early.
            let _ = file.file().set_len(self.whole.0);
        }
        Err(error)
    }
}

#[derive(Debug)]
pub(super) struct JsonLines(pub(super) Lines);

impl JsonLines {
    pub(super) fn put(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        self.0.line(|out| {
            serde_json::to_writer(&mut *out, entry)?;
            out.push(b'\n');
            Ok(())
        })
    }
}

/// Comma-separated values: a row for each run of equal readings, and for each enqueue or dequeue.
#[derive(Debug)]
pub(super) struct Csv {
    lines: Lines,
    /// The cells that identify a queue.
    names: BTreeMap<QueueId, String>,
}

impl Csv {
    pub(super) fn new(mut lines: Lines) -> io::Result<Csv> {
        lines.line(|out| writeln!(out, "{HEAD}"))?;
        Ok(Csv { lines, names: BTreeMap::new() })
    }

    pub(super) fn put(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        match entry {
            Entry::Queue { id, queue, .. } => {
                self.names.insert(*id, names(queue));
                Ok(())
            }
            Entry::Gone { id, .. } => {
                self.names.remove(id);
                Ok(())
            }
            Entry::Readings(readings) => {
                let Readings { queue, time_ns, until_ns, samples, qlen, backlog_bytes } = readings;
                let name = self.names.get(queue).map_or(",,,,,", String::as_str);
                self.lines.line(|out| writeln!(out, "readings,{time_ns},{until_ns},{queue},{name},{samples},{qlen},{backlog_bytes},,,,,"))
            }
            Entry::Enqueue(change) => self.change("enqueue", change),
            Entry::Dequeue(change) => self.change("dequeue", change),
            Entry::Watch { .. }
            | Entry::Counters { .. }
            | Entry::Transmission { .. }
            | Entry::Remark { .. } => Ok(()),
        }
    }

    fn change(&mut self, what: &str, change: &Change) -> io::Result<()> {
        let Change { queue, time_ns, packets, bytes, qlen, backlog_bytes, drops, cpu, after_gap } =
            change;
        let name = self.names.get(queue).map_or(",,,,,", String::as_str);
        let gap = u8::from(*after_gap);
        self.lines.line(|out| {
            writeln!(out, "{what},{time_ns},{time_ns},{queue},{name},1,{qlen},{backlog_bytes},{packets},{bytes},{drops},{cpu},{gap}")
        })
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.lines.flush()
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.lines.finish()
    }

    /// As [`Lines::salvage`], but returns the number of rows, without the header line.
    pub(super) fn salvage(&mut self) -> Option<u64> {
        self.lines.kept().filter(|&lines| lines > 1)?;
        self.lines.salvage().map(|lines| lines - 1)
    }
}

fn names(queue: &Queue) -> String {
    let band = queue.band.map(|band| band.to_string()).unwrap_or_default();
    let netns = queue.netns.clone().unwrap_or_default();
    let cells = [
        queue.device.clone(),
        netns,
        queue.kind.clone(),
        queue.handle.to_string(),
        queue.parent.to_string(),
        band,
    ];
    cells.map(|cell| quoted(&cell)).join(",")
}

/// Quotes a cell according to RFC 4180.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

pub(super) const HEAD: &str = "what,time_ns,until_ns,queue,device,netns,kind,handle,parent,band,\
                               samples,qlen,backlog_bytes,packets,bytes,drops,cpu,after_gap";
/// Size of the write buffer in bytes.
const BUFFER: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::{HEAD, quoted};

    #[test]
    fn odd_names_are_quoted() {
        assert_eq!(
            [quoted("eth0"), quoted("a,b"), quoted("\"x\"")],
            ["eth0", "\"a,b\"", "\"\"\"x\"\"\""]
        );
        assert_eq!(HEAD.split(',').count(), 18);
    }
}
