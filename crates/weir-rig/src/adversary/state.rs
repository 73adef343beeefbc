//! The state of a search, in a file that is whole at any moment.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::pattern::Pattern;

/// All that a search needs to go on as if it had not been interrupted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// Of this layout.
    pub(super) version: u32,
    /// The search in words; a file of another search is refused.
    pub(super) what: String,
    /// Patterns tried.
    pub(super) evaluations: u64,
    /// Where the search is, and the worst that it has found.
    pub(super) here: Scored,
    pub(super) best: Scored,
}

/// A pattern and how bad it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Scored {
    pub(super) pattern: Pattern,
    /// In millionths.
    pub(super) score: i64,
    pub(super) worst: (u64, u64),
}

/// Why the state of a search was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file could not be read or written.
    #[error("{}: {source}; give a file in a directory that may be written", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is not the state of a search.
    #[error("{}: this is not the state of a search ({reason}); give another file, or remove this one to begin anew", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: serde_json::Error,
    },
    /// It is the state of another search.
    #[error("{}: this is the state of a search for {found}, not for {wanted}; give the same options, or another file", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// What its search is for.
        found: String,
        /// What this one is for.
        wanted: String,
    },
}

impl State {
    /// Reads a state; `None` when there is no such file.
    pub(super) fn load(path: &Path, what: &str) -> Result<Option<Self>, StateError> {
        let text = match fs::read_to_string(path) {
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StateError::File { path: path.to_owned(), source }),
            Ok(text) => text,
        };
        let state: Self = serde_json::from_str(&text)
            .map_err(|reason| StateError::Text { path: path.to_owned(), reason })?;
        if state.version != VERSION || state.what != what {
            return Err(StateError::Other {
                path: path.to_owned(),
                found: state.what,
                wanted: what.to_owned(),
            });
        }
        Ok(Some(state))
    }

    /// Writes the state to a new file that then replaces the old one, so that an interruption
    /// leaves either.
    pub(super) fn save(&self, path: &Path) -> Result<(), StateError> {
        let error = |source| StateError::File { path: path.to_owned(), source };
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let text = serde_json::to_string_pretty(self)
            .map_err(|reason| StateError::Text { path: path.to_owned(), reason })?;
        let mut file = fs::File::create(&beside).map_err(error)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(error)?;
        fs::rename(&beside, path).map_err(error)
    }
}

/// Layout of the file.
pub(super) const VERSION: u32 = 1;
