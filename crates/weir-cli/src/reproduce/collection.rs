//! The page of all experiments of a command, with a chapter for each. The chapter of an experiment
//! that was not skipped is also stored in a separate file, so that a later command with --resume
//! can keep it.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use weir_report::{Chapter, chapters_to_html, write_atomic};

use super::experiment::Settings;
use crate::output::Failure;

/// The chapters of a directory, stored one by one as they are done.
pub(super) struct Collection {
    directory: PathBuf,
    /// The program and the options. A stored chapter is kept only if they are unchanged.
    key: String,
    chapters: Vec<Chapter>,
}

/// A chapter in a file.
#[derive(Serialize, Deserialize)]
struct Stored {
    key: String,
    chapter: Chapter,
}

impl Collection {
    pub(super) fn new(directory: &Path, settings: &Settings) -> Self {
        let Settings { quick, full, seconds, clients, .. } = settings;
        let key = format!("{} {:?}", program(), (quick, full, seconds, clients));
        Self { directory: directory.to_owned(), key, chapters: Vec::new() }
    }

    /// Adds the chapter that an earlier command stored, if the same program made it with the same
    /// options. Returns whether it was added.
    pub(super) fn keep(&mut self, name: &str) -> bool {
        let Ok(text) = std::fs::read(self.file(name)) else { return false };
        let stored: Option<Stored> = serde_json::from_slice(&text).ok();
        let kept = stored.filter(|stored| stored.key == self.key && stored.chapter.name() == name);
        let is_kept = kept.is_some();
        self.chapters.extend(kept.map(|stored| stored.chapter));
        is_kept
    }

    /// Adds a chapter. If the experiment was not skipped, also stores the chapter in its file.
    pub(super) fn add(&mut self, chapter: Chapter) -> Result<(), Failure> {
        if chapter.is_done() {
            let file = self.file(chapter.name());
            let stored = Stored { key: self.key.clone(), chapter: chapter.clone() };
            let text = serde_json::to_vec(&stored).map_err(Failure::of_weir)?;
            if let Some(directory) = file.parent() {
                std::fs::create_dir_all(directory).map_err(Failure::of_weir)?;
            }
            write_atomic(&file, &text).map_err(Failure::of_weir)?;
        }
        self.chapters.push(chapter);
        Ok(())
    }

    /// Writes the page with the chapters so far and returns its path.
    pub(super) fn write(&self, quick: bool) -> Result<PathBuf, Failure> {
        let path = self.directory.join("index.html");
        let entries = [
            ("Version", env!("CARGO_PKG_VERSION").to_owned()),
            ("Runs", if quick { "short, 3 seeds" } else { "whole, 10 seeds" }.to_owned()),
            ("Intervals", "95 %, Student".to_owned()),
        ];
        let page = chapters_to_html(&entries, &self.chapters);
        write_atomic(&path, page.as_bytes()).map_err(Failure::of_weir)?;
        Ok(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(STORE).join(format!("{name}.json"))
    }
}

/// The version of this program, and the size and modification time of its file.
fn program() -> String {
    let file = std::env::current_exe().and_then(std::fs::metadata).ok();
    let changed = file.as_ref().and_then(|file| file.modified().ok());
    let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!(
        "{} {} {}",
        env!("CARGO_PKG_VERSION"),
        file.map_or(0, |file| file.len()),
        changed.map_or(0, |time| time.as_nanos())
    )
}

/// The directory of stored chapters.
const STORE: &str = "chapters";
