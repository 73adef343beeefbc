//! A file to which records are appended. Its first line says what the file is; then come records,
//! each with its length and a checksum. A full file is renamed and replaces the older file, so the
//! two files together have a bounded size.
//!
//! A record is written with one call. A killed process may leave an incomplete record at the end of
//! a file; the next writer cuts it off.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use crate::store::Disk;

/// The two files of a level, to which records are added.
#[derive(Debug)]
pub(super) struct Segments {
    /// The file with the newest records.
    path: PathBuf,
    /// The first line of a file.
    head: String,
    /// The greatest length of a file, in bytes.
    most: u64,
    /// The open file with its length.
    open: Option<(File, u64)>,
}

/// The content of a file.
#[derive(Debug, Default)]
pub(super) struct Content {
    bytes: Vec<u8>,
    /// The start and the end of each record.
    records: Vec<(usize, usize)>,
    /// Where the last sound record ends.
    sound: u64,
    pub(super) fault: Option<String>,
}

impl Content {
    pub(super) fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.records.iter().filter_map(|&(begin, end)| self.bytes.get(begin..end))
    }
}

impl Segments {
    /// `name` is the name of the file with the newest records; `what` describes the records.
    pub(super) fn new(directory: &Path, name: &str, what: &str, most: u64) -> Self {
        let head = format!("weir history, format {FORMAT}, {what}\n");
        Self { path: directory.join(name), head, most, open: None }
    }

    /// The file with the older records.
    fn before(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".before");
        name.into()
    }

    /// Reads both files, the older one first. Nothing is changed.
    pub(super) fn read(&self) -> [Content; 2] {
        [self.before(), self.path.clone()].map(|path| match self.read_one(&path) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Content::default(),
            Err(error) => {
                let fault = format!("{} cannot be read: {error}", path.display());
                Content { fault: Some(fault), ..Content::default() }
            }
        })
    }

    fn read_one(&self, path: &Path) -> io::Result<Content> {
        let file = regular(OpenOptions::new().read(true), path)?;
        let mut bytes = Vec::new();
        file.take(self.most + 1).read_to_end(&mut bytes)?;
        let fault = |what: &str| Some(format!("{} {what}", path.display()));
        if bytes.len() as u64 > self.most {
            let what = format!("is longer than the {} bytes that it may have", self.most);
            return Ok(Content { fault: fault(&what), ..Content::default() });
        }
        let Some(rest) = bytes.strip_prefix(self.head.as_bytes()) else {
            let cut = self.head.as_bytes().starts_with(&bytes);
            let other = "is no history of this version of Weir";
            return Ok(Content {
                fault: (!cut).then(|| fault(other)).flatten(),
                ..Content::default()
            });
        };
        let (mut at, mut records) = (bytes.len() - rest.len(), Vec::new());
        let mut damage = None;
        while let Some(record) = record(&bytes[at..]) {
            let Ok(length) = record else {
                damage = fault(&format!("is damaged after {at} bytes"));
                break;
            };
            records.push((at + RECORD_HEAD, at + RECORD_HEAD + length));
            at += RECORD_HEAD + length;
        }
        Ok(Content { sound: at as u64, bytes, records, fault: damage })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// Those of the system. The written part of the record is removed.
    pub(super) fn add(&mut self, disk: &dyn Disk, record: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(RECORD_HEAD + record.len());
        bytes.extend(u32::try_from(record.len()).map_err(io::Error::other)?.to_le_bytes());
        bytes.extend(checksum(record));
        bytes.extend(record);
        let (mut file, length) = match self.open.take() {
            Some(open) => open,
            None => self.continued()?,
        };
        let (mut file, length) = if length + bytes.len() as u64 > self.most {
            drop(file);
            fs::rename(&self.path, self.before())?;
            self.begun(disk)?
        } else if length == 0 {
            disk.write(&mut file, self.head.as_bytes())?;
            (file, self.head.len() as u64)
        } else {
            (file, length)
        };
        if let Err(error) = disk.write(&mut file, &bytes) {
            // If this fails too, the next call cuts the rest off.
            let _ = file.set_len(length);
            return Err(error);
        }
        self.open = Some((file, length + bytes.len() as u64));
        Ok(())
    }

    /// Opens the newest file and removes what follows its last sound record. A file of another
    /// version, or one that is too long, is emptied.
    fn continued(&self) -> io::Result<(File, u64)> {
        let sound = match self.read_one(&self.path) {
            Ok(content) => content.sound,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        let mut file =
            regular(OpenOptions::new().write(true).create(true).mode(0o600), &self.path)?;
        file.set_len(sound)?;
        file.seek(SeekFrom::Start(sound))?;
        Ok((file, sound))
    }

    /// Creates the file with its first line.
    fn begun(&self, disk: &dyn Disk) -> io::Result<(File, u64)> {
        let mut file = disk.create(&self.path)?;
        disk.write(&mut file, self.head.as_bytes())?;
        Ok((file, self.head.len() as u64))
    }
}

/// Opens a regular file: no symbolic link, and nothing on which a reader would wait.
fn regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits() as i32).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    Ok(file)
}

/// The length of the record at the start of `bytes`; an error if the record is damaged, and `None`
/// if `bytes` ends before the record does.
fn record(bytes: &[u8]) -> Option<Result<usize, ()>> {
    let (head, rest) = bytes.split_at_checked(RECORD_HEAD)?;
    let (length, sum) = head.split_at(4);
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    if length > MOST_RECORD {
        return Some(Err(()));
    }
    let content = rest.get(..length)?;
    Some(if checksum(content) == sum { Ok(length) } else { Err(()) })
}

fn checksum(content: &[u8]) -> [u8; 8] {
    let hash = Sha256::digest(content);
    std::array::from_fn(|at| hash[at])
}

/// The version of the files.
const FORMAT: u32 = 1;
/// The number of bytes before the content of a record: its length, and eight bytes of the SHA-256
/// of its content.
const RECORD_HEAD: usize = 12;
/// The longest record, in bytes.
pub(super) const MOST_RECORD: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::RealDisk;
    use crate::testing::Scratch;

    fn segments(scratch: &Scratch) -> Segments {
        Segments::new(scratch.path(), "part", "for a test", 1000)
    }

    fn all(segments: &Segments) -> Vec<Vec<u8>> {
        let contents = segments.read();
        contents.iter().flat_map(Content::records).map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn two_files_have_a_bounded_length_and_hold_the_newest_records() {
        let scratch = Scratch::new();
        let mut some = segments(&scratch);
        let record = |n: u8| vec![n; 100];
        for n in 0..100 {
            some.add(&RealDisk, &record(n)).unwrap();
            let newest = all(&some);
            assert_eq!(newest.last(), Some(&record(n)));
            let length = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.len());
            assert!(length(&some.path) <= 1000 && length(&some.before()) <= 1000);
            assert!(newest.len() > usize::from(n).min(8), "the last ones are there");
            // Another process goes on where this one ended.
            if n % 7 == 0 {
                some = segments(&scratch);
            }
        }
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_damaged_record_does_not_affect_earlier_records() {
        let scratch = Scratch::new();
        let mut some = segments(&scratch);
        for n in 0..3 {
            some.add(&RealDisk, &[n; 50]).unwrap();
        }
        let whole = fs::read(&some.path).unwrap();
        let each = RECORD_HEAD + 50;
        for length in 0..=whole.len() {
            fs::write(&some.path, &whole[..length]).unwrap();
            let [_, content] = some.read();
            let sound = length.saturating_sub(some.head.len()) / each;
            assert_eq!(content.records().count(), sound, "{length} bytes");
            assert_eq!(content.fault, None, "a cut end is what kill -9 leaves");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            fs::write(&some.path, &damaged).unwrap();
            let [_, content] = some.read();
            let sound = at.checked_sub(some.head.len()).map_or(0, |at| at / each);
            assert_eq!(content.records().count(), sound, "{at}");
            // If the damage makes a record's length greater, the record can look incomplete.
            assert!(content.fault.is_some() || content.sound < whole.len() as u64, "{at}");
            // New records can be read after the sound records.
            let mut next = segments(&scratch);
            next.add(&RealDisk, b"new").unwrap();
            assert_eq!(all(&next).last().unwrap(), b"new");
            assert_eq!(all(&next).len(), sound + 1);
        }
    }

    #[test]
    fn files_of_other_versions_are_not_read() {
        let scratch = Scratch::new();
        let some = segments(&scratch);
        let fault = || some.read()[1].fault.clone().unwrap_or_default();
        fs::write(&some.path, "weir history, format 2, for a test\n").unwrap();
        assert!(fault().contains("of this version"), "{}", fault());
        fs::write(&some.path, vec![b'x'; 1_000_000]).unwrap();
        assert!(fault().contains("longer than the 1000 bytes"), "{}", fault());
        fs::remove_file(&some.path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &some.path).unwrap();
        assert!(fault().contains("cannot be read"), "{}", fault());
        assert!(segments(&scratch).add(&RealDisk, b"x").is_err(), "a link is not followed");
        fs::remove_file(&some.path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &some.path,
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        assert!(fault().contains("it is no file"), "a pipe does not block: {}", fault());
        fs::remove_file(&some.path).unwrap();
        fs::create_dir(&some.path).unwrap();
        assert!(!fault().is_empty());
        assert!(segments(&scratch).add(&RealDisk, b"x").is_err());
    }
}
