//! Access to the files on disk that specifications and scenarios name.
//!
//! The message about an error in such a file may quote the faulty line. A specification, script or
//! scenario may be from another author, and may name any file of the user who reads it. Therefore a
//! message quotes only a file that the user named on the command line, or a file below the
//! directory of the text that names it. A file of the second kind is not quoted if it belongs to
//! root and other users cannot read it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use weir_rules::Files;

/// Opens files by the names that the user gives.
#[derive(Clone, Copy, Debug)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &str) -> io::Result<String> {
        text(self.read_bytes(path)?)
    }

    fn read_quotable(&self, path: &str) -> io::Result<(String, bool)> {
        Ok((self.read(path)?, true))
    }

    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        content(&File::open(path)?)
    }
}

/// Opens files by names relative to a directory, usually that of the scenario.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'a>(pub &'a Path);

impl Files for Beside<'_> {
    fn read(&self, path: &str) -> io::Result<String> {
        text(self.read_bytes(path)?)
    }

    fn read_quotable(&self, path: &str) -> io::Result<(String, bool)> {
        quotable(&File::open(self.0.join(path))?, self.0)
    }

    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        content(&File::open(self.0.join(path))?)
    }
}

/// Opens files that a script names: relative to the current directory or, if no such file is there,
/// relative to the directory of the script.
#[derive(Clone, Copy, Debug)]
pub struct ScriptFiles<'a>(pub &'a Path);

impl ScriptFiles<'_> {
    /// The directory of the script; none for standard input, `-`.
    fn directory(&self) -> Option<&Path> {
        let parent = self.0.parent().filter(|_| self.0.as_os_str() != "-")?;
        Some(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
    }

    fn open(&self, path: &str) -> io::Result<File> {
        match (File::open(path), self.directory()) {
            (Err(error), Some(directory)) if error.kind() == io::ErrorKind::NotFound => {
                File::open(directory.join(path)).map_err(|_| error)
            }
            (opened, _) => opened,
        }
    }
}

impl Files for ScriptFiles<'_> {
    fn read(&self, path: &str) -> io::Result<String> {
        text(self.read_bytes(path)?)
    }

    fn read_quotable(&self, path: &str) -> io::Result<(String, bool)> {
        let file = self.open(path)?;
        match self.directory() {
            Some(directory) => quotable(&file, directory),
            None => Ok((text(content(&file)?)?, false)),
        }
    }

    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        content(&self.open(path)?)
    }
}

/// Reads the text of a regular file. Other files are refused without opening them, because opening
/// a named pipe would wait for a writer.
///
/// # Errors
/// The file cannot be read, is not regular, or is too large.
pub fn read_regular(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    text(content(&File::open(path)?)?)
}

/// Reads standard input, with the limit of a file.
///
/// # Errors
/// Standard input cannot be read, is too long, or is not UTF-8.
pub fn read_stdin() -> io::Result<String> {
    text(bounded(io::stdin().lock(), "standard input")?)
}

/// The text of a file that a text in `directory` names, and whether messages may quote it.
fn quotable(file: &File, directory: &Path) -> io::Result<(String, bool)> {
    // Uses the path of the open file instead of the name, because a symbolic link may change
    // between two look-ups of a name.
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let is_below = match (path, directory.canonicalize()) {
        (Ok(path), Ok(directory)) => path.starts_with(directory),
        _ => false,
    };
    let meta = file.metadata()?;
    let is_secret_of_root = meta.uid() == 0 && meta.mode() & READ_BY_OTHERS == 0;
    Ok((text(content(file)?)?, is_below && !is_secret_of_root))
}

fn content(file: &File) -> io::Result<Vec<u8>> {
    bounded(file, "the file")
}

fn bounded(source: impl io::Read, name: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_FILE {
        let message = format!("{name} is larger than 256 MB, the limit for files");
        return Err(io::Error::other(message));
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// Size in bytes of the largest file that is read. The limit prevents a device or a wrong name from
/// exhausting the memory.
const LARGEST_FILE: u64 = 256_000_000;
const READ_BY_OTHERS: u32 = 0o004;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_about_a_file_that_is_too_large_suits_every_kind_of_file() {
        let error = Disk.read("/dev/zero").unwrap_err().to_string();
        assert!(error.contains("larger than 256 MB") && !error.contains("trace"), "{error}");
    }

    #[test]
    fn only_regular_files_are_read_where_no_other_makes_sense() {
        let path = std::env::temp_dir().join(format!("weir-disk-{}", std::process::id()));
        for special in ["/dev/zero", "/dev/null", "/proc"] {
            let error = read_regular(Path::new(special)).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{special}: {error}");
        }
        assert_eq!(read_regular(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(&path, "text").unwrap();
        assert_eq!(read_regular(&path).unwrap(), "text");
        // A sparse file: nothing is allocated on the disk.
        File::options().write(true).open(&path).unwrap().set_len(LARGEST_FILE + 1).unwrap();
        assert!(read_regular(&path).unwrap_err().to_string().contains("larger than 256 MB"));
        fs::remove_file(path).unwrap();
    }
}
