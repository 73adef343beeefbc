//! Access to the files on disk that specifications and scenarios name.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use weir_rules::Files;

/// Opens files by the names that a specification gives.
#[derive(Clone, Copy, Debug)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &str) -> io::Result<String> {
        let bytes = self.read_bytes(path)?;
        String::from_utf8(bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
    }

    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LARGEST_FILE {
            return Err(io::Error::other(
                "the file is larger than 256 MB, which no trace or profile is",
            ));
        }
        Ok(bytes)
    }
}

/// Opens files by names relative to a directory, usually that of the scenario.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'a>(pub &'a Path);

impl Files for Beside<'_> {
    fn read(&self, path: &str) -> io::Result<String> {
        Disk.read(&self.0.join(path).to_string_lossy())
    }

    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        Disk.read_bytes(&self.0.join(path).to_string_lossy())
    }
}

/// Size in bytes of the largest file that a specification may name. The limit prevents a device or
/// a wrong name from exhausting the memory.
const LARGEST_FILE: u64 = 256_000_000;
