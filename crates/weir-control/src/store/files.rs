//! The files that saved commands name: traces, profiles, schedules and tables of jitter.
//!
//! Each file is stored in the directory `files` under the hash of its content. Commands name a file
//! by its path relative to the state directory, so that the state directory can be moved.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};
use weir_rules::Files;

use super::form::digits;

/// The stored files of a state directory. A configuration cannot make the daemon read any other
/// file.
#[derive(Clone, Debug)]
pub struct StoredFiles {
    state: PathBuf,
}

impl StoredFiles {
    pub(super) fn new(state: &Path) -> Self {
        Self { state: state.to_owned() }
    }

    /// The name by which commands refer to a stored file with this content. It keeps the last
    /// component of `name`, which identifies the kind of file.
    #[must_use]
    pub fn name_of(name: &str, content: &str) -> String {
        let hash = digits(Sha256::digest(content), HASH_BYTES);
        let last = Path::new(name)
            .file_name()
            .map(|last| last.to_string_lossy().into_owned())
            .unwrap_or_default();
        // Do not add a second hash to the name of a stored file.
        let last = last.strip_prefix(&format!("{hash}-")).unwrap_or(&last);
        let last: Vec<char> = last.chars().map(|c| if plain(c) { c } else { '_' }).collect();
        let last: String = last[last.len().saturating_sub(LONGEST_NAME)..].iter().collect();
        format!("{FILES}/{hash}-{last}")
    }

    /// The name of the stored file that a path means. The path is relative to the state directory,
    /// or absolute as earlier versions saved it. An absolute path is valid even if the state
    /// directory has been moved since.
    #[must_use]
    pub fn stored_name(path: &str) -> Option<String> {
        let mut parts = Path::new(path).components().rev();
        let (Some(Component::Normal(name)), Some(Component::Normal(parent))) =
            (parts.next(), parts.next())
        else {
            return None;
        };
        let name = name.to_str()?;
        let prefix_ok = Path::new(path).is_absolute() || parts.next().is_none();
        (prefix_ok && parent == FILES && is_stored_name(name)).then(|| format!("{FILES}/{name}"))
    }

    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.state.join(name)
    }
}

impl Files for StoredFiles {
    fn read(&self, path: &str) -> io::Result<String> {
        match Self::stored_name(path) {
            Some(name) => {
                let content = fs::read_to_string(self.path_of(&name))?;
                if Self::name_of(&name, &content) != name {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "the stored file is damaged: its content does not match the hash in its \
                         name",
                    ));
                }
                Ok(content)
            }
            None => Err(io::Error::new(
                io::ErrorKind::NotFound,
                "it was not sent along; the daemon reads no files of its own",
            )),
        }
    }
}

/// The names of stored files in a configuration. A name in a comment counts too: a file that is
/// kept needlessly is harmless, and a missing file is not.
pub(super) fn names_in(script: &str) -> BTreeSet<String> {
    let directory = format!("{FILES}/");
    let below = script.split(&directory).skip(1);
    let names = below.map(|rest| rest.split(|c| !plain(c)).next().unwrap_or_default());
    names.filter(|name| is_stored_name(name)).map(|name| format!("{FILES}/{name}")).collect()
}

fn is_stored_name(name: &str) -> bool {
    name.split_once('-').is_some_and(|(hash, _)| {
        hash.len() == 2 * HASH_BYTES && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

fn plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')
}

/// The directory of stored files in the state directory.
pub(super) const FILES: &str = "files";
/// Bytes of the hash: with 128 bits, collisions do not occur by chance.
const HASH_BYTES: usize = 16;
/// Maximum number of characters that are kept of a file's own name.
const LONGEST_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_commands_of_this_version_and_of_earlier_ones() {
        let (a, b) = ("a".repeat(32), "b".repeat(32));
        let script = format!(
            "pipe 1 config trace files/{a}-up.csv delay 5ms\npipe 2 config profile \
             \"/old/place/files/{b}-p\"\npipe 3 config trace files/other\n"
        );
        assert_eq!(
            names_in(&script).into_iter().collect::<Vec<_>>(),
            [format!("files/{a}-up.csv"), format!("files/{b}-p")]
        );
        assert_eq!(
            StoredFiles::stored_name(&format!("/old/files/{b}-p")),
            Some(format!("files/{b}-p"))
        );
        for other in [format!("x/files/{a}-up"), format!("files/../{a}-up"), "files/up".into()] {
            assert_eq!(StoredFiles::stored_name(&other), None, "{other}");
        }
    }

    #[test]
    fn a_name_follows_the_content_and_contains_no_directory() {
        let name = StoredFiles::name_of("../a dir/tr ace.csv", "1,2\n");
        assert!(name.starts_with("files/") && name.ends_with("-tr_ace.csv"), "{name}");
        assert_ne!(name, StoredFiles::name_of("../a dir/tr ace.csv", "1,3\n"));
        assert_eq!(StoredFiles::name_of(&name, "1,2\n"), name, "a stored file keeps its name");
    }
}
