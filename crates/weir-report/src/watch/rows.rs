//! Reads records in CSV while they are written: text that arrives in pieces becomes tables.

use std::collections::HashMap;

use weir_measure::watch::QueueId;

use super::text::HEAD;
use crate::sim::{Column, Table};

/// Reads a record in CSV. Its rows become tables with the columns of the Parquet file.
///
/// The text is given in pieces of any length, such as the bytes that a pipe holds. Memory is
/// bounded by the rows of a piece and by the names of all queues.
#[derive(Debug, Default)]
pub struct CsvRows {
    /// The beginning of a line that is not yet complete.
    partial: Vec<u8>,
    /// Whether the header line has been read.
    headed: bool,
    /// The distinct names in each column with names of a queue.
    names: [Names; NAMED],
    /// The cells with the names of each queue, as text, and the index of each name in `names`.
    queues: HashMap<QueueId, (Vec<u8>, [u32; NAMED])>,
}

/// The error for text that is not a record in CSV.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no row of a record: {line}")]
pub struct RowError {
    /// The line, or its beginning.
    pub line: String,
}

/// The distinct names of a column, in the order of their appearance.
#[derive(Debug, Default)]
struct Names {
    all: Vec<String>,
    /// The index of each name in `all`.
    numbers: HashMap<String, u32>,
}

/// The columns of the rows of a piece.
#[derive(Default)]
struct Rows {
    what: Vec<u32>,
    /// `time_ns`, `until_ns`, `queue`.
    first: [Vec<u64>; 3],
    /// For each column with names, the indices of the rows' names in [`CsvRows::names`].
    named: [Vec<u32>; NAMED],
    /// `samples`, `qlen`, `backlog_bytes`.
    lengths: [Vec<u64>; 3],
    /// `packets`, `bytes`, `drops`, `cpu`, `after_gap`.
    change: [Vec<Option<u64>>; 5],
}

impl CsvRows {
    /// A reader at the beginning of a record.
    pub fn new() -> Self {
        Self::default()
    }

    /// The rows that `text` completes.
    ///
    /// # Errors
    /// The text is not a record in CSV.
    pub fn read(&mut self, text: &[u8]) -> Result<Table, RowError> {
        let mut rows = Rows::default();
        let mut rest = text;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            rest = after;
            if self.partial.is_empty() {
                self.line(line, &mut rows)?;
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(line);
                self.line(&whole, &mut rows)?;
            }
        }
        self.partial.extend_from_slice(rest);
        if self.partial.len() > LONGEST_LINE {
            return Err(refused(&self.partial));
        }
        Ok(rows.table(&self.names))
    }

    fn line(&mut self, line: &[u8], rows: &mut Rows) -> Result<(), RowError> {
        if !self.headed {
            self.headed = line == HEAD.as_bytes();
            return if self.headed { Ok(()) } else { Err(refused(line)) };
        }
        self.row(line, rows).ok_or_else(|| refused(line))
    }

    fn row(&mut self, line: &[u8], rows: &mut Rows) -> Option<()> {
        let mut cells = Cells(Some(line));
        let what = cells.next()?;
        let what = WHAT.iter().position(|name| name.as_bytes() == what)?;
        let first = [number(cells.next()?)?, number(cells.next()?)?, number(cells.next()?)?];
        let queue = QueueId::try_from(first[2]).ok()?;
        let named = self.named(queue, &mut cells)?;
        let lengths = [number(cells.next()?)?, number(cells.next()?)?, number(cells.next()?)?];
        let mut change = [None; 5];
        for value in &mut change {
            let cell = cells.next()?;
            *value = if cell.is_empty() { None } else { Some(number(cell)?) };
        }
        if cells.0.is_some() {
            return None;
        }
        rows.what.push(what as u32);
        push(&mut rows.first, first);
        push(&mut rows.named, named);
        push(&mut rows.lengths, lengths);
        push(&mut rows.change, change);
        Some(())
    }

    /// The indices of a queue's names. The names are the same in all rows of the queue, so their
    /// cells are first compared with those of an earlier row.
    fn named(&mut self, queue: QueueId, cells: &mut Cells<'_>) -> Option<[u32; NAMED]> {
        if let Some((text, numbers)) = self.queues.get(&queue)
            && let Some(rest) = cells.0?.strip_prefix(text.as_slice())
            && let Some(rest) = rest.strip_prefix(b",")
        {
            cells.0 = Some(rest);
            return Some(*numbers);
        }
        let before = cells.0?;
        let mut numbers = [0; NAMED];
        for (place, names) in numbers.iter_mut().zip(&mut self.names) {
            *place = names.number(cells.name()?);
        }
        // The names' cells, without the comma after them.
        let text = before.get(..before.len().checked_sub(cells.0?.len() + 1)?)?;
        self.queues.insert(queue, (text.to_vec(), numbers));
        Some(numbers)
    }
}

impl Names {
    fn number(&mut self, name: String) -> u32 {
        if let Some(&number) = self.numbers.get(&name) {
            return number;
        }
        let number = self.all.len() as u32;
        self.all.push(name.clone());
        self.numbers.insert(name, number);
        number
    }
}

impl Rows {
    fn table(self, names: &[Names; NAMED]) -> Table {
        let [time, until, queue] = self.first.map(Column::Int);
        let [samples, qlen, backlog] = self.lengths.map(Column::Int);
        let [packets, bytes, drops, cpu, after_gap] = self.change.map(Column::SomeInt);
        let mut numbers = self.named.into_iter();
        let mut names = names.iter();
        let mut named = || {
            let all = names.next().map(|names| names.all.clone()).unwrap_or_default();
            Column::Name(all, numbers.next().unwrap_or_default())
        };
        Table {
            columns: vec![
                ("what", Column::Name(WHAT.map(str::to_owned).into(), self.what)),
                ("time_ns", time),
                ("until_ns", until),
                ("queue", queue),
                ("device", named()),
                ("netns", named()),
                ("kind", named()),
                ("handle", named()),
                ("parent", named()),
                ("band", named()),
                ("samples", samples),
                ("qlen", qlen),
                ("backlog_bytes", backlog),
                ("packets", packets),
                ("bytes", bytes),
                ("drops", drops),
                ("cpu", cpu),
                ("after_gap", after_gap),
            ],
        }
    }
}

/// The rest of a line; `None` after the last cell.
struct Cells<'a>(Option<&'a [u8]>);

impl<'a> Cells<'a> {
    /// The next cell, which has no quotes.
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        let end = rest.iter().position(|&byte| byte == b',').unwrap_or(rest.len());
        self.0 = rest.get(end + 1..);
        Some(&rest[..end])
    }

    /// The next cell, which may have quotes (RFC 4180).
    fn name(&mut self) -> Option<String> {
        let Some(mut rest) = self.0?.strip_prefix(b"\"") else {
            return String::from_utf8(self.next()?.to_vec()).ok();
        };
        let mut name = Vec::new();
        loop {
            let end = rest.iter().position(|&byte| byte == b'"')?;
            name.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            match rest.first() {
                Some(b'"') => name.push(b'"'),
                Some(b',') => break,
                _ => return None,
            }
            rest = &rest[1..];
        }
        self.0 = Some(&rest[1..]);
        String::from_utf8(name).ok()
    }
}

fn push<T, const N: usize>(columns: &mut [Vec<T>; N], values: [T; N]) {
    columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
}

fn number(cell: &[u8]) -> Option<u64> {
    std::str::from_utf8(cell).ok()?.parse().ok()
}

fn refused(line: &[u8]) -> RowError {
    let shown = &line[..line.len().min(SHOWN)];
    RowError { line: String::from_utf8_lossy(shown).into_owned() }
}

/// The values of the first column.
const WHAT: [&str; 3] = ["readings", "enqueue", "dequeue"];
/// Number of columns with names of a queue.
const NAMED: usize = 6;
/// Maximum length of an incomplete line in bytes. The longest names, those of namespaces, have at
/// most 255 bytes.
const LONGEST_LINE: usize = 16 << 10;
/// Bytes of a faulty line that an error shows.
const SHOWN: usize = 80;

#[cfg(test)]
mod tests {
    use std::fs;

    use weir_measure::watch::{Event, EventKind, Handle, Queue, Run, Sink as _};

    use super::*;
    use crate::watch::{Format, Recorder};

    /// A record of readings and events, with a queue that has names in quotes. Each test gives
    /// another `name` for the file, since tests run at the same time.
    fn record(name: &str) -> Vec<u8> {
        let file = format!("weir-rows-{name}-{}.csv", std::process::id());
        let path = std::env::temp_dir().join(file);
        let mut recorder = Recorder::create(&path, Format::Csv, "1").expect("a file");
        for (id, netns) in [(0, None), (7, Some("a \"b\",c"))] {
            let queue = Queue {
                device: "eth0".into(),
                netns: netns.map(str::to_owned),
                kind: "tbf".into(),
                handle: Handle((id + 1) << 16),
                parent: Handle::ROOT,
                band: None,
                root: true,
            };
            recorder.appeared(0, id, &queue);
        }
        let run = |queue, first, qlen| Run {
            queue,
            first,
            last: first + 4,
            count: 5,
            qlen,
            backlog: qlen * 100,
        };
        recorder.runs(&[run(0, 10, 3), run(7, 12, 1), run(0, 20, 4)]);
        let kind = EventKind::Enqueue;
        let (packets, bytes, qlen, backlog, drops) = (1, 100, 5, 500, 9);
        recorder.events(&[Event {
            queue: 0,
            time: 30,
            kind,
            packets,
            bytes,
            qlen,
            backlog,
            drops,
            cpu: 2,
            after_gap: true,
        }]);
        recorder.finish().expect("a complete record");
        let text = fs::read(&path).expect("the record");
        fs::remove_file(path).expect("it was written");
        text
    }

    fn ints(table: &Table, name: &str) -> Vec<Option<u64>> {
        let column = table.columns.iter().find(|(known, _)| *known == name);
        match &column.expect("a column").1 {
            Column::Int(values) => values.iter().copied().map(Some).collect(),
            Column::SomeInt(values) => values.clone(),
            other => panic!("{name}: {other:?}"),
        }
    }

    fn names(table: &Table, name: &str) -> Vec<String> {
        let column = table.columns.iter().find(|(known, _)| *known == name);
        let Column::Name(names, rows) = &column.expect("a column").1 else { panic!("{name}") };
        rows.iter().map(|&row| names[row as usize].clone()).collect()
    }

    #[test]
    fn what_a_recorder_writes_is_read_back() {
        let table = CsvRows::new().read(&record("all")).expect("rows");
        assert_eq!(names(&table, "what"), ["readings", "readings", "enqueue", "readings"]);
        assert_eq!(ints(&table, "time_ns"), [10, 20, 30, 12].map(Some));
        assert_eq!(ints(&table, "queue"), [0, 0, 0, 7].map(Some));
        assert_eq!(names(&table, "netns"), ["", "", "", "a \"b\",c"]);
        assert_eq!(names(&table, "handle"), ["1:", "1:", "1:", "8:"]);
        assert_eq!(ints(&table, "qlen"), [3, 4, 5, 1].map(Some));
        assert_eq!(ints(&table, "drops"), [None, None, Some(9), None]);
        assert_eq!(ints(&table, "after_gap"), [None, None, Some(1), None]);
    }

    #[test]
    fn pieces_of_any_length_give_the_same_rows() {
        let text = record("pieces");
        let whole = ints(&CsvRows::new().read(&text).expect("rows"), "time_ns");
        for length in [1, 2, 7, 64] {
            let mut reader = CsvRows::new();
            let mut pieces = Vec::new();
            for piece in text.chunks(length) {
                pieces.extend(ints(&reader.read(piece).expect("rows"), "time_ns"));
            }
            assert_eq!(pieces, whole, "pieces of {length} bytes");
        }
    }

    #[test]
    fn other_text_is_refused() {
        assert!(CsvRows::new().read(b"a,b\n").is_err());
        assert!(CsvRows::new().read(&[b'x'; LONGEST_LINE + 1]).is_err());
        let good = "readings,1,2,0,eth0,,tbf,1:,root,,1,2,3,,,,,";
        let bad = [
            "",
            "else,1,2,0,eth0,,tbf,1:,root,,1,2,3,,,,,",
            "readings,-1,2,0,eth0,,tbf,1:,root,,1,2,3,,,,,",
            "readings,1,2,9999999999,eth0,,tbf,1:,root,,1,2,3,,,,,",
            "readings,1,2,0,\"eth0,,tbf,1:,root,,1,2,3,,,,,",
            "readings,1,2,0,\"eth\"0,,tbf,1:,root,,1,2,3,,,,,",
            "readings,1,2,0,eth0,,tbf,1:,root,,1,2,3",
            "readings,1,2,0,eth0,,tbf,1:,root,,1,2,3,,,,,,,",
        ];
        let read = |line: &str| CsvRows::new().read(format!("{HEAD}\n{line}\n").as_bytes());
        assert_eq!(ints(&read(good).expect("a row"), "qlen"), [Some(2)]);
        for line in bad {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
