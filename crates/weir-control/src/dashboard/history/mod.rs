//! Keeps the past of the page's objects on disk, so that graphs do not start empty after a restart.
//!
//! ```text
//! 10s, 10s.before    points of ten seconds: some hours
//! 60s, 60s.before    points of a minute: a day
//! ```
//!
//! Points are appended to a file, some kilobytes each time, and the oldest points disappear with
//! their file. A history is a convenience: no fault of it stops the daemon. Damaged records are
//! left out, failed writes are tried again, and both are reported once.
//!
//! **Invariant:** the files together have at most [`MOST_BYTES`], and the points that are read from
//! them take no more memory than those that a running daemon keeps.

mod bytes;
mod segment;

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::clock::{self, Moment};
use super::kept::SPANS;
use super::{Kept, Object, Point};
use crate::store::{Disk, RealDisk};
use bytes::{Bytes, put, put_point, put_text};
use segment::{Content, MOST_RECORD, Segments};

/// The files of a history.
#[derive(Debug)]
pub struct History {
    directory: PathBuf,
    disk: Arc<dyn Disk>,
    /// The files of each level: those with points of ten seconds, and those with points of a
    /// minute.
    levels: [Segments; LEVELS],
    /// When the newest stored point of each object ends, in ns of the page's clock.
    written: BTreeMap<Object, [u64; LEVELS]>,
    /// Tells the user of faults.
    say: fn(&str),
    /// Whether the last attempt to write has failed.
    failed: bool,
}

/// New points of an object by level, shortest spans first.
pub type Fresh = [Vec<Point>; LEVELS];

impl History {
    /// The history in a directory, which is created when the first points are written. `say` tells
    /// the user of faults.
    #[must_use]
    pub fn new(directory: &Path, say: fn(&str)) -> Self {
        Self::with_disk(directory, say, Arc::new(RealDisk))
    }

    fn with_disk(directory: &Path, say: fn(&str), disk: Arc<dyn Disk>) -> Self {
        let levels = FILES.map(|(name, what, most)| Segments::new(directory, name, what, most));
        let written = BTreeMap::new();
        Self { directory: directory.to_owned(), disk, levels, written, say, failed: false }
    }

    /// Reads the past of the objects for which `has` is true.
    pub fn restore(&mut self, has: impl Fn(&Object) -> bool) -> BTreeMap<Object, Kept> {
        let now = Moment::now();
        let mut all = BTreeMap::<Object, Kept>::new();
        if !fs::symlink_metadata(&self.directory).is_ok_and(|there| there.is_dir()) {
            return all;
        }
        for level in 0..LEVELS {
            let contents = self.levels[level].read();
            let mut past = Past { now, has: &has, objects: BTreeMap::new(), unsound: 0, later: 0 };
            past.take(&contents, level);
            let mut faults: Vec<String> =
                contents.into_iter().filter_map(|one| one.fault).collect();
            if past.unsound > 0 {
                faults.push(format!("{} records are damaged", past.unsound));
            }
            if past.later > 0 {
                faults.push("some of it is of a later time than now".to_owned());
            }
            for fault in faults {
                (self.say)(&format!("the past of the page: {fault}; the page shows what is left"));
            }
            for (object, points) in past.objects {
                let Some(newest) = points.back().map(|point| point.at_ns) else { continue };
                self.written.entry(object.clone()).or_default()[level] = newest;
                let kept = all.entry(object).or_default();
                points.into_iter().for_each(|point| kept.restore(level, point));
            }
        }
        all
    }

    /// The new points of an object. With `unfinished`, they include the points that would still
    /// grow; these are written when the server stops.
    #[must_use]
    pub fn fresh(&self, object: &Object, kept: &Kept, unfinished: bool) -> Fresh {
        let written = self.written.get(object).copied().unwrap_or_default();
        std::array::from_fn(|level| {
            kept.merged(level, written[level], unfinished).cloned().collect()
        })
    }

    /// Adds points to the files. `objects` has all objects whose counters are read; the past of all
    /// other objects is removed.
    pub fn add(&mut self, objects: &BTreeMap<Object, Fresh>) {
        let added = self.create().and_then(|()| self.try_add(objects));
        let directory = self.directory.display();
        match &added {
            Ok(()) if self.failed => {
                (self.say)(&format!("the past of the page is kept in {directory} again"));
            }
            Err(error) if !self.failed => {
                (self.say)(&format!(
                    "the past of the page cannot be kept in {directory}: {error}; what it shows \
                     now is not affected, and Weir tries again"
                ));
            }
            _ => {}
        }
        self.failed = added.is_err();
    }

    /// Creates the directory if it is missing.
    fn create(&self) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // A symbolic link is not followed.
        if fs::symlink_metadata(&self.directory)?.is_dir() {
            Ok(())
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    /// As [`Self::add`], without messages to the user.
    fn try_add(&mut self, objects: &BTreeMap<Object, Fresh>) -> io::Result<()> {
        let now = Moment::now();
        let gone: Vec<Object> =
            self.written.keys().filter(|object| !objects.contains_key(*object)).cloned().collect();
        for level in 0..LEVELS {
            let mut record = Record::new(now);
            for object in &gone {
                record.forget(object);
            }
            for (object, fresh) in objects {
                for points in fresh[level].chunks(POINTS_AT_ONCE) {
                    record.add(object, points);
                    if record.bytes.len() >= MOST_RECORD / 2 {
                        self.write(level, std::mem::replace(&mut record, Record::new(now)))?;
                    }
                }
            }
            self.write(level, record)?;
        }
        gone.iter().for_each(|object| {
            self.written.remove(object);
        });
        Ok(())
    }

    /// Appends a record to the newest file of a level.
    fn write(&mut self, level: usize, record: Record) -> io::Result<()> {
        if record.is_empty() {
            return Ok(());
        }
        self.levels[level].add(&*self.disk, &record.bytes)?;
        for (object, at_ns) in record.newest {
            self.written.entry(object).or_default()[level] = at_ns;
        }
        Ok(())
    }
}

/// A record that is being made: the moment, then objects with their points. An object without
/// points no longer exists.
struct Record {
    bytes: Vec<u8>,
    /// The number of bytes that the moment takes at the start of the record.
    head: usize,
    /// The moment on the page's clock, in ns.
    now_ns: u64,
    /// When the newest point of each object in the record ends.
    newest: BTreeMap<Object, u64>,
}

impl Record {
    fn new(now: Moment) -> Self {
        let mut bytes = now.boot.to_vec();
        put(&mut bytes, now.monotonic_ns);
        put(&mut bytes, now.wall_ms);
        let now_ns = clock::on_page(now.monotonic_ns);
        Self { head: bytes.len(), bytes, now_ns, newest: BTreeMap::new() }
    }

    fn is_empty(&self) -> bool {
        self.bytes.len() == self.head
    }

    fn forget(&mut self, object: &Object) {
        put_text(&mut self.bytes, &object.to_string());
        put(&mut self.bytes, 0);
    }

    fn add(&mut self, object: &Object, points: &[Point]) {
        let Some(last) = points.last() else { return };
        put_text(&mut self.bytes, &object.to_string());
        put(&mut self.bytes, points.len() as u64);
        for point in points {
            put_point(&mut self.bytes, point, self.now_ns);
        }
        self.newest.insert(object.clone(), last.at_ns);
    }
}

/// The past of one level while it is read.
struct Past<'a, H> {
    now: Moment,
    /// Whether an object still exists.
    has: &'a H,
    /// The newest points of each object that were read so far.
    objects: BTreeMap<Object, VecDeque<Point>>,
    /// Number of damaged records.
    unsound: usize,
    /// Number of records of a time after the present.
    later: usize,
}

impl<H: Fn(&Object) -> bool> Past<'_, H> {
    /// Reads the points of a level from the contents of its files.
    fn take(&mut self, contents: &[Content], level: usize) {
        let records = || contents.iter().flat_map(Content::records);
        // The newest moment of each start of the machine.
        let mut known = BTreeMap::new();
        for (moment, _) in records().filter_map(head) {
            known.insert(moment.boot, moment);
        }
        let (_, most) = SPANS[level];
        for record in records() {
            let Some((moment, mut rest)) = head(record) else {
                self.unsound += 1;
                continue;
            };
            let Some(at_ns) = self.now.place(&moment, &known[&moment.boot]) else {
                self.later += usize::from(known[&moment.boot].wall_ms > self.now.wall_ms);
                continue;
            };
            while !rest.is_empty() {
                if self.entry(&mut rest, at_ns, most).is_none() {
                    self.unsound += 1;
                    break;
                }
            }
        }
    }

    /// Reads the points of an object, and keeps the newest `most`.
    fn entry(&mut self, rest: &mut Bytes<'_>, record_ns: u64, most: usize) -> Option<()> {
        let object: Object = rest.text()?.parse().ok()?;
        let points = rest.number()?;
        if points == 0 {
            self.objects.remove(&object);
            return Some(());
        }
        let known = self.objects.contains_key(&object)
            || (self.objects.len() < MOST_OBJECTS && (self.has)(&object));
        for _ in 0..points {
            let point = rest.point()?;
            let Some(at_ns) = record_ns.checked_sub(point.at_ns).filter(|_| known) else {
                continue;
            };
            let kept = self.objects.entry(object.clone()).or_default();
            // The times of an object's points only grow, even if a clock was set back.
            let newest = kept.back().map_or(0, |last| last.at_ns);
            let is_old = at_ns + DAY_NS < clock::on_page(self.now.monotonic_ns);
            if at_ns <= newest || at_ns < point.span_ns || is_old {
                continue;
            }
            kept.push_back(Point { at_ns, ..point });
            if kept.len() > most {
                kept.pop_front();
            }
        }
        Some(())
    }
}

/// The moment of a record, and the bytes after it.
fn head(record: &[u8]) -> Option<(Moment, Bytes<'_>)> {
    let mut rest = Bytes(record);
    let boot = rest.take(16)?.try_into().ok()?;
    let (monotonic_ns, wall_ms) = (rest.number()?, rest.number()?);
    Some((Moment { boot, monotonic_ns, wall_ms }, rest))
}

const LEVELS: usize = SPANS.len();
/// The name, the description and the greatest length of the newest file of each level.
const FILES: [(&str, &str, u64); LEVELS] =
    [("10s", "points of ten seconds", 2 << 20), ("60s", "points of a minute", 6 << 20)];
/// The greatest length of all files together, in bytes.
pub const MOST_BYTES: u64 = 2 * (FILES[0].2 + FILES[1].2);
/// The time for which points are kept, in ns.
const DAY_NS: u64 = 86_400_000_000_000;
/// Maximum number of objects that are restored.
const MOST_OBJECTS: usize = 128;
/// Maximum number of points of an object in one part of a record.
const POINTS_AT_ONCE: usize = 256;

#[cfg(test)]
mod tests;
