//! The state of a search, in a file that is complete at every moment.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::pattern::Pattern;

/// Everything that a search needs in order to continue after an interruption.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// The version of this file format.
    pub(super) version: u32,
    /// The description of the search; the file of another search is refused.
    pub(super) what: String,
    /// The number of patterns tried.
    pub(super) evaluations: u64,
    /// The current pattern, and the worst pattern found so far.
    pub(super) here: Scored,
    pub(super) best: Scored,
}

/// A pattern and its score.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Scored {
    pub(super) pattern: Pattern,
    /// The score in millionths of the objective's unit.
    pub(super) score: i64,
    /// The interval of the worst flow's B-WFI, whatever the objective, in bytes of the link.
    pub(super) worst: (u64, u64),
}

/// The reason why the state of a search could not be read or written.
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
    #[error("{}: this is not the state of a search ({reason}); give another file, or remove this \
             one to begin anew", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// The parser's reason.
        reason: serde_json::Error,
    },
    /// The file is the state of another search, or has another version of the format.
    #[error("{}: this is the state of a search for {found}, not for {wanted}; give the same \
             options, or another file", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// The search that the file belongs to.
        found: String,
        /// The search that was requested.
        wanted: String,
    },
}

impl State {
    /// Reads a state; `None` when the file does not exist.
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

    /// Writes the state to a new file and then renames it over the old one. After an interruption,
    /// the path holds either the complete old state or the complete new one.
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

/// The version of the file format.
pub(super) const VERSION: u32 = 1;
