//! The output of a program, bounded in size: the first and the last bytes are kept.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};

/// The log of a program. Clones share the same log.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    kept: Mutex<Kept>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    /// The first bytes.
    head: Vec<u8>,
    /// The last bytes after those in `head`.
    tail: VecDeque<u8>,
    /// Maximum number of bytes in `head`, and in `tail`.
    most: usize,
    /// The number of bytes that were printed.
    bytes: u64,
    /// Whether all writers have closed the pipe.
    has_ended: bool,
}

/// The content of a log at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text {
    /// The text, with a line in place of the bytes that were not kept.
    pub(crate) text: Vec<u8>,
    /// The number of bytes that were printed.
    pub(crate) bytes: u64,
    /// The number of bytes that were not kept.
    pub(crate) cut: u64,
}

impl Log {
    /// A log of at most `limit` bytes, and the descriptors for the program's standard output and
    /// standard error.
    pub(crate) fn new(limit: usize) -> io::Result<(Self, OwnedFd, OwnedFd)> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        let errors = theirs.try_clone()?;
        let kept = Kept { most: limit / 2, ..Kept::default() };
        let log =
            Self { shared: Arc::new(Shared { kept: Mutex::new(kept), ended: Condvar::new() }) };
        let reader = log.clone();
        std::thread::Builder::new()
            .name("weir-log".into())
            .spawn(move || reader.read(&mut File::from(ours)))?;
        Ok((log, theirs, errors))
    }

    /// Reads until all writers have closed the pipe.
    fn read(&self, from: &mut File) {
        let mut buffer = vec![0; BUFFER];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => self.kept().add(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.kept().has_ended = true;
        self.shared.ended.notify_all();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The content. Waits for the end of the log, but only briefly: another process may keep the
    /// pipe open.
    pub(crate) fn text(&self) -> Text {
        let waited =
            self.shared.ended.wait_timeout_while(self.kept(), PATIENCE, |kept| !kept.has_ended);
        waited.map_or_else(|error| error.into_inner().0.text(), |(kept, _)| kept.text())
    }

    pub(crate) fn last_lines(&self) -> String {
        let text = self.text().text;
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LINES)..];
        last.iter()
            .map(|line| line.chars().take(LONGEST_LINE).collect::<String>())
            .collect::<Vec<_>>()
            .join("\n  ")
    }
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let room = (self.most - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        // Only the last bytes of a long piece can be kept.
        let rest = &bytes[room..];
        self.tail.extend(&rest[rest.len().saturating_sub(self.most)..]);
        let excess = self.tail.len().saturating_sub(self.most);
        self.tail.drain(..excess);
    }

    fn text(&self) -> Text {
        let cut = self.bytes - (self.head.len() + self.tail.len()) as u64;
        let mut text = self.head.clone();
        if cut > 0 {
            text.extend(format!("\n[weir: {cut} bytes were not kept here]\n").bytes());
        }
        text.extend(&self.tail);
        Text { text, bytes: self.bytes, cut }
    }
}

/// Number of bytes that are read at once.
const BUFFER: usize = 64 << 10;
/// The longest wait for the end of a log.
const PATIENCE: Duration = Duration::from_millis(500);
/// Maximum number of lines that a message quotes.
const LINES: usize = 5;
/// Maximum number of characters that a message quotes from a line.
const LONGEST_LINE: usize = 300;

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_first_and_last_bytes_are_kept_and_the_cut_is_reported() {
        let (log, out, errors) = Log::new(20).expect("a pipe");
        let mut out = File::from(out);
        for piece in ["0123456", "789abcdefghijklmnop", "q", "rstuvwxyz"] {
            out.write_all(piece.as_bytes()).expect("the log reads the pipe");
        }
        drop((out, errors));
        let text = log.text();
        assert_eq!((text.bytes, text.cut), (36, 16));
        let shown = String::from_utf8(text.text).expect("text");
        assert_eq!(shown, "0123456789\n[weir: 16 bytes were not kept here]\nqrstuvwxyz");
    }

    #[test]
    fn a_short_log_is_complete() {
        let (log, out, errors) = Log::new(20).expect("a pipe");
        let mut file = File::from(errors);
        file.write_all(b"one\n\ntwo\n").expect("the log reads the pipe");
        drop((out, file));
        assert_eq!(log.text(), Text { text: b"one\n\ntwo\n".to_vec(), bytes: 9, cut: 0 });
        assert_eq!(log.last_lines(), "one\n  two");
    }
}
