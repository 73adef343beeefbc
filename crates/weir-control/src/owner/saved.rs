//! Reads a configuration back from the state directory: the last saved configuration or, if that is
//! damaged, the last good one.

use std::path::{Path, PathBuf};

use weir_rules::ruleset::Ruleset;
use weir_rules::{Budget, Files};

use super::request::Prepared;
use crate::api::CommandRequest;
use crate::store::{Durability, Entry, Saved, Store, StoreError, entries, files_of};

/// Why a daemon cannot start from its saved state.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The state directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No saved configuration is valid.
    #[error(
        "the saved configuration {} is damaged:\n{problem}\nrepair it, or choose an earlier one: \
         'weir serve --recover' lists them, and '--recover empty' starts with none",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        problem: String,
    },
    /// The chosen revision cannot be used.
    #[error(
        "revision {revision} cannot be used: {problem}; 'weir serve --recover' lists the \
         revisions that can"
    )]
    NotUsable {
        /// The chosen revision.
        revision: u64,
        /// The fault.
        problem: String,
    },
    /// The system cannot start a thread.
    #[error("cannot start the configuration's thread: {0}")]
    Thread(std::io::Error),
}

/// The configuration to start with, when the user chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A revision, current or kept.
    Revision(u64),
    /// The empty configuration.
    Empty,
}

/// A configuration in a state directory that the user can choose.
#[derive(Debug)]
pub struct Candidate {
    /// The file.
    pub entry: Entry,
    /// The revision, where it is known.
    pub revision: Option<u64>,
    /// The number of commands, or why the configuration cannot be used.
    pub commands: Result<usize, String>,
}

/// A configuration that was read.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) revision: u64,
    pub(super) ruleset: Ruleset,
    /// Whether the store has this configuration.
    pub(super) saved: bool,
    /// Whether the disk has confirmed that the configuration is saved; true if none was saved.
    pub(super) durable: bool,
    /// A remark for the user about the choice.
    pub(super) notice: Option<String>,
}

/// The configurations of a state directory, the current one first, then from new to old. A daemon
/// may use the directory meanwhile.
///
/// # Errors
/// The directory cannot be read.
pub fn candidates(directory: &Path) -> Result<Vec<Candidate>, StoreError> {
    let files = files_of(directory);
    let candidate = |entry: Entry| {
        let read = match &entry.saved {
            Ok(saved) => execute(saved, &files).map(|(_, commands)| commands),
            Err(error) => Err(error.to_string()),
        };
        let revision = entry.saved.as_ref().map_or(entry.number, |saved| Some(saved.revision));
        Candidate { revision, commands: read, entry }
    };
    Ok(entries(directory)?.into_iter().map(candidate).collect())
}

/// Reads the configuration that was saved last or, if that is damaged, the last good one. If none
/// was saved, the configuration is empty.
pub(super) fn resume(store: &Store) -> Result<Loaded, ResumeError> {
    let problem = match store.load() {
        Ok(None) if store.kept().is_empty() => {
            return Ok(Loaded { durable: true, ..Loaded::default() });
        }
        Ok(None) => "it is missing".to_owned(),
        Ok(Some(saved)) => match execute(&saved, store.files()) {
            Ok((ruleset, _)) => {
                let revision = saved.revision;
                return Ok(Loaded { revision, ruleset, saved: true, durable: true, notice: None });
            }
            Err(problem) => problem,
        },
        Err(error) if error.is_damage() => reason(&error),
        Err(error) => return Err(error.into()),
    };
    for revision in store.kept() {
        let good = store.load_kept(revision).ok();
        if let Some((ruleset, _)) = good.and_then(|saved| execute(&saved, store.files()).ok()) {
            let mut loaded = adopt(store, ruleset)?;
            loaded.notice = Some(format!(
                "the saved configuration {} is damaged: {problem}; the last good one, revision \
                 {revision}, is in force as revision {}. The damaged one is kept beside it; \
                 'weir serve --recover' lists all revisions",
                store.configuration().display(),
                loaded.revision
            ));
            return Ok(loaded);
        }
    }
    Err(ResumeError::Damaged { path: store.configuration(), problem })
}

/// Reads the configuration that the user chose, and saves it as the newest one.
pub(super) fn recover(store: &Store, choice: Choice) -> Result<Loaded, ResumeError> {
    let (ruleset, what) = match choice {
        Choice::Empty => (Ruleset::default(), "the empty configuration".to_owned()),
        Choice::Revision(revision) => {
            let unusable = |problem| ResumeError::NotUsable { revision, problem };
            let current = store.load().ok().flatten().filter(|saved| saved.revision == revision);
            let saved = match current {
                Some(saved) => saved,
                None => store.load_kept(revision).map_err(|error| unusable(error.to_string()))?,
            };
            let (ruleset, _) = execute(&saved, store.files()).map_err(unusable)?;
            (ruleset, format!("revision {revision}"))
        }
    };
    let mut loaded = adopt(store, ruleset)?;
    loaded.notice = Some(format!("{what} is in force again, as revision {}", loaded.revision));
    Ok(loaded)
}

/// Saves a configuration under a new revision. If the current file is not sound, it is set aside.
fn adopt(store: &Store, ruleset: Ruleset) -> Result<Loaded, ResumeError> {
    let current = store.load();
    if current.is_err() {
        store.set_aside()?;
    }
    let current = current.ok().flatten().map_or(0, |saved| saved.revision);
    let newest = store.kept().first().copied().unwrap_or(0).max(current);
    // A configuration that cannot be read may have had the number after the newest known number.
    let revision = newest + 2;
    let durable = matches!(store.save(revision, &ruleset.script(), &[])?, Durability::OnDisk);
    Ok(Loaded { revision, ruleset, saved: true, durable, notice: None })
}

/// Executes saved commands. Returns the configuration and the number of commands, or the fault.
fn execute(saved: &Saved, files: &dyn Files) -> Result<(Ruleset, usize), String> {
    let mut ruleset = Ruleset::default();
    let request = CommandRequest {
        script: saved.script.clone(),
        name: Some(saved.path.display().to_string()),
        ..Default::default()
    };
    let (reply, _) =
        Prepared::new(&request, files, &Budget::default().into()).execute(&mut ruleset);
    if reply.applied {
        return Ok((ruleset, reply.outcomes.len()));
    }
    let lines = reply.diagnostics.iter().map(|d| format!("line {}: {}", d.line, d.message));
    Err(lines.collect::<Vec<_>>().join("\n"))
}

/// An error without the name of the file.
fn reason(error: &StoreError) -> String {
    match error {
        StoreError::Damaged { source, .. } => source.to_string(),
        StoreError::Read { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}
