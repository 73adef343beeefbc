//! Where a directory of results appears, and what it may replace.
//!
//! Results may replace an empty directory, or a directory that has results and nothing else. This
//! protects the files of the user.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::directory::{FILES, SUMMARY, SWEEP, SWEEP_FILES};

/// The reason why a directory of results cannot have a path.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The path ends with `.`, `..` or `/`.
    #[error("{} cannot be replaced: name a directory in it, such as {}", path.display(),
            path.join("results").display())]
    NoName {
        /// The path.
        path: PathBuf,
    },
    /// The directory in which the results would be is missing.
    #[error("{}: there is no directory {}; make it first", path.display(), parent.display())]
    NoParent {
        /// The path.
        path: PathBuf,
        /// The missing directory.
        parent: PathBuf,
    },
    /// The directory in which the results would be is not writable.
    #[error("nothing can be written in {}: {source}; name a directory elsewhere", parent.display())]
    Closed {
        /// The directory.
        parent: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The path exists, and replacing it was not requested.
    #[error("{} is already there: name another directory, or replace it with --force",
            path.display())]
    Taken {
        /// The path.
        path: PathBuf,
    },
    /// The path is a symbolic link.
    #[error("{} is a symbolic link, which results do not replace: name the directory itself, or \
             another one", path.display())]
    Link {
        /// The path.
        path: PathBuf,
    },
    /// The path is a file.
    #[error("{} is no directory: name another place, or remove it", path.display())]
    File {
        /// The path.
        path: PathBuf,
    },
    /// The path is the root of a mounted file system.
    #[error("{} is a mount point, which cannot be replaced: name a directory in it, such as {}",
            path.display(), path.join("results").display())]
    MountPoint {
        /// The path.
        path: PathBuf,
    },
    /// The directory has no valid summary.
    #[error("{} is no directory of results, because it has no valid {SUMMARY}: name another \
             directory, or remove this one", path.display())]
    NoResults {
        /// The path.
        path: PathBuf,
    },
    /// The directory has results and something else.
    #[error("{} is not replaced, because {} is not a part of the results: name another directory, \
             or move it elsewhere", path.display(), foreign.display())]
    Foreign {
        /// The path.
        path: PathBuf,
        /// The file or directory that is no part of the results.
        foreign: PathBuf,
    },
    /// The path could not be read, created or renamed.
    #[error("{}: {source}", path.display())]
    System {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The path could not be used at the end, although it could at the start.
    #[error("{why}; the new results are in {}", kept.display())]
    Kept {
        /// Why the path could not be used.
        why: Box<PlaceError>,
        /// The directory that has the results.
        kept: PathBuf,
    },
}

/// Checks that results can have this path. With `replace`, an empty directory and a directory of
/// results are accepted.
///
/// # Errors
/// The path cannot be used.
pub fn check_place(path: &Path, replace: bool) -> Result<(), PlaceError> {
    let exact = exact(path)?;
    let parent = parent(path);
    if !parent.is_dir() {
        return Err(PlaceError::NoParent { path: path.to_owned(), parent: parent.to_owned() });
    }
    access(parent, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|errno| PlaceError::Closed { parent: parent.to_owned(), source: errno.into() })?;
    let system = |source| PlaceError::System { path: path.to_owned(), source };
    match fs::symlink_metadata(&exact) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(system(error)),
        Ok(meta) => {
            check_old(path, parent, &meta)?;
            if replace { Ok(()) } else { Err(PlaceError::Taken { path: path.to_owned() }) }
        }
    }
}

/// Checks whether the file or directory that has this path may be replaced.
fn check_old(path: &Path, parent: &Path, meta: &Metadata) -> Result<(), PlaceError> {
    let system = |source| PlaceError::System { path: path.to_owned(), source };
    let path = path.to_owned();
    if meta.is_symlink() {
        return Err(PlaceError::Link { path });
    }
    if !meta.is_dir() {
        return Err(PlaceError::File { path });
    }
    if fs::metadata(parent).map_err(system)?.dev() != meta.dev() {
        return Err(PlaceError::MountPoint { path });
    }
    let entries = entries(&path).map_err(system)?;
    if entries.is_empty() {
        return Ok(());
    }
    let Some(is_sweep) = is_sweep(&path, &entries) else {
        return check_results(&path, &entries);
    };
    if !is_sweep {
        return Err(PlaceError::NoResults { path });
    }
    for entry in &entries {
        let name = entry.file_name();
        let is_known = SWEEP_FILES.iter().any(|known| name == *known);
        let kind = entry.file_type().map_err(system)?;
        if kind.is_dir() && !is_known {
            check_results(&entry.path(), &self::entries(&entry.path()).map_err(system)?)?;
        } else if !kind.is_file() || !is_known {
            return Err(PlaceError::Foreign { path, foreign: entry.path() });
        }
    }
    Ok(())
}

/// Checks that a directory has the results of one scenario, and nothing else.
fn check_results(path: &Path, entries: &[DirEntry]) -> Result<(), PlaceError> {
    let summary: Option<ScenarioNames> = read(path, entries, SUMMARY);
    let Some(summary) = summary else {
        return Err(PlaceError::NoResults { path: path.to_owned() });
    };
    let programs: BTreeSet<&str> = summary
        .runs
        .iter()
        .flat_map(|run| run.flows.iter().chain(&run.nodes))
        .map(|object| object.name.as_str())
        .collect();
    let is_known = |name: &str| {
        FILES.contains(&name)
            || [".txt", ".log"].iter().filter_map(|end| name.strip_suffix(end)).any(|stem| {
                // With several runs, the name of an output contains the seed.
                let of_run = stem
                    .rsplit_once('.')
                    .filter(|(_, seed)| seed.bytes().all(|byte| byte.is_ascii_digit()));
                programs.contains(stem) || of_run.is_some_and(|(name, _)| programs.contains(name))
            })
    };
    let foreign = entries.iter().find(|entry| {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        !is_file || !entry.file_name().to_str().is_some_and(is_known)
    });
    match foreign {
        Some(entry) => Err(PlaceError::Foreign { path: path.to_owned(), foreign: entry.path() }),
        None => Ok(()),
    }
}

/// Whether the document of a sweep is valid; `None` if there is none.
fn is_sweep(path: &Path, entries: &[DirEntry]) -> Option<bool> {
    let has = entries.iter().any(|entry| entry.file_name() == SWEEP);
    has.then(|| {
        read::<SweepPoints>(path, entries, SWEEP).is_some_and(|sweep| !sweep.sweep.is_empty())
    })
}

/// Reads a JSON document from a regular file of a directory; `None` if this is not possible.
fn read<T: for<'de> Deserialize<'de>>(path: &Path, entries: &[DirEntry], name: &str) -> Option<T> {
    let entry = entries.iter().find(|entry| entry.file_name() == name)?;
    entry.file_type().ok().filter(fs::FileType::is_file)?;
    serde_json::from_str(&weir_sim::disk::read_regular(&path.join(name)).ok()?).ok()
}

fn entries(path: &Path) -> io::Result<Vec<DirEntry>> {
    let mut all = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    all.sort_by_key(DirEntry::file_name);
    Ok(all)
}

/// The path without a final slash. With the slash, it would name the target of a symbolic link.
fn exact(path: &Path) -> Result<PathBuf, PlaceError> {
    match path.file_name() {
        Some(name) => Ok(parent(path).join(name)),
        None => Err(PlaceError::NoName { path: path.to_owned() }),
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The names in the summary of a scenario.
#[derive(Debug, Deserialize)]
struct ScenarioNames {
    runs: Vec<RunNames>,
}

#[derive(Debug, Deserialize)]
struct RunNames {
    flows: Vec<Named>,
    #[serde(default)]
    nodes: Vec<Named>,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
}

/// The number of points in the document of a sweep.
#[derive(Debug, Deserialize)]
struct SweepPoints {
    sweep: Vec<IgnoredAny>,
}

/// A directory of results that is being written. It has a temporary name until it is complete. If
/// this value is dropped before that, the directory is removed.
#[derive(Debug)]
pub struct Draft {
    /// The path of the complete directory.
    path: PathBuf,
    /// The temporary path; `None` once the directory must stay.
    building: Option<PathBuf>,
    replace: bool,
}

impl Draft {
    /// Creates the temporary directory that will become `path`.
    ///
    /// # Errors
    /// The path cannot be used, or the directory cannot be created.
    pub fn new(path: &Path, replace: bool) -> Result<Self, PlaceError> {
        check_place(path, replace)?;
        let building = hidden(&exact(path)?, "tmp");
        fs::create_dir(&building)
            .map_err(|source| PlaceError::Closed { parent: parent(path).to_owned(), source })?;
        Ok(Self { path: path.to_owned(), building: Some(building), replace })
    }

    /// The path of the temporary directory.
    pub fn path(&self) -> &Path {
        self.building.as_deref().unwrap_or(&self.path)
    }

    /// Gives the directory its final path. The path is checked again, because files may have been
    /// put there since.
    ///
    /// # Errors
    /// The path cannot be used. The results then stay at the temporary path.
    pub fn finish(mut self) -> Result<(), PlaceError> {
        let Some(building) = self.building.take() else { return Ok(()) };
        self.rename(&building)
            .map_err(|why| PlaceError::Kept { why: Box::new(why), kept: building })
    }

    fn rename(&self, building: &Path) -> Result<(), PlaceError> {
        check_place(&self.path, self.replace)?;
        let exact = exact(&self.path)?;
        let system = |source| PlaceError::System { path: self.path.clone(), source };
        if fs::symlink_metadata(&exact).is_err() {
            return fs::rename(building, &exact).map_err(system);
        }
        // The old directory is renamed first, so that a complete directory has this name at all
        // times except between the two renames.
        let old = hidden(&exact, "old");
        fs::rename(&exact, &old).map_err(system)?;
        if let Err(error) = fs::rename(building, &exact) {
            // If possible, the old directory gets its name back.
            let _ = fs::rename(&old, &exact);
            return Err(system(error));
        }
        // The new results are in place, so an old directory that stays is no failure.
        let _ = fs::remove_dir_all(&old);
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(building) = &self.building {
            // Nothing can be done if the removal fails.
            let _ = fs::remove_dir_all(building);
        }
    }
}

/// A hidden name next to `path`, for this process.
fn hidden(path: &Path, end: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.{end}", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that is removed at the end of a test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("weir-draft-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn directory(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(&path).unwrap();
            files.iter().for_each(|(file, text)| fs::write(path.join(file), text).unwrap());
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const LIVE: &str =
        r#"{"runs": [{"flows": [{"name": "echo", "x": 1}], "nodes": [{"name": "web.1"}]}]}"#;

    /// Replaces the directory by an empty one.
    fn replace(path: &Path) -> Result<(), PlaceError> {
        Draft::new(path, true)?.finish()
    }

    #[test]
    fn an_empty_directory_and_results_are_replaced() {
        let scratch = Scratch::new("replaced");
        let flat = scratch.directory(
            "flat",
            &[
                (SUMMARY, LIVE),
                ("flows.parquet", ""),
                ("trace.pcapng", ""),
                ("echo.txt", ""),
                ("echo.17.txt", ""),
                ("web.1.log", ""),
            ],
        );
        let sweep = scratch.directory("sweep", &[(SWEEP, r#"{"sweep": [{}]}"#)]);
        scratch.directory("sweep/rate=1M", &[(SUMMARY, LIVE), ("report.html", "")]);
        let bare = scratch.directory("bare", &[(SUMMARY, LIVE)]);
        for path in [flat, sweep, bare, scratch.directory("empty", &[])] {
            assert!(matches!(check_place(&path, false), Err(PlaceError::Taken { .. })));
            replace(&path).unwrap();
            assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "{}", path.display());
        }
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 4, "nothing else stays");
    }

    #[test]
    fn a_directory_with_anything_else_stays() {
        let scratch = Scratch::new("stays");
        let summary = (SUMMARY, LIVE);
        let sweep = (SWEEP, r#"{"sweep": [{}]}"#);
        let mut paths = vec![
            scratch.directory("thesis", &[("thesis.txt", "important")]),
            scratch.directory("notes", &[summary, ("notes.txt", "important")]),
            scratch.directory("other", &[summary, ("web.1.x.log", "important")]),
            scratch.directory("hidden", &[summary, (".hidden", "important")]),
            scratch.directory("broken", &[(SUMMARY, "{")]),
            scratch.directory("coverage", &[(SUMMARY, r#"{"total": {}}"#)]),
            scratch.directory("no-sweep", &[(SWEEP, "{}")]),
            scratch.directory("among", &[sweep, ("notes.txt", "important")]),
        ];
        for parent in ["sub", "points"] {
            let files = if parent == "sub" { summary } else { sweep };
            paths.push(scratch.directory(parent, &[files]));
            scratch.directory(&format!("{parent}/src"), &[("main.rs", "important")]);
        }
        let linked = scratch.directory("linked", &[summary]);
        std::os::unix::fs::symlink("/etc/hostname", linked.join("report.html")).unwrap();
        paths.push(linked);
        for path in paths {
            let before = fs::read_dir(&path).unwrap().count();
            for force in [true, false] {
                let error = check_place(&path, force).unwrap_err();
                let is_refused =
                    matches!(error, PlaceError::NoResults { .. } | PlaceError::Foreign { .. });
                assert!(is_refused && !error.to_string().contains("--force"), "{error}");
            }
            assert!(replace(&path).is_err());
            assert_eq!(fs::read_dir(&path).unwrap().count(), before, "{}", path.display());
        }
    }

    #[test]
    fn links_files_and_places_without_a_name_are_refused() {
        let scratch = Scratch::new("refused");
        scratch.directory("results", &[(SUMMARY, LIVE)]);
        let link = scratch.0.join("link");
        std::os::unix::fs::symlink("results", &link).unwrap();
        for path in [link.clone(), PathBuf::from(format!("{}/", link.display()))] {
            assert!(matches!(check_place(&path, true), Err(PlaceError::Link { .. })));
        }
        let file = scratch.0.join("file");
        fs::write(&file, "important").unwrap();
        assert!(matches!(check_place(&file, true), Err(PlaceError::File { .. })));
        for path in [".", "..", "/", "results/.."] {
            let error = check_place(Path::new(path), true).unwrap_err();
            assert!(matches!(error, PlaceError::NoName { .. }), "{path}: {error}");
        }
        let missing = scratch.0.join("missing/results");
        assert!(matches!(check_place(&missing, true), Err(PlaceError::NoParent { .. })));
        assert!(matches!(
            check_place(Path::new("/proc"), true),
            Err(PlaceError::MountPoint { .. })
        ));
        check_place(&scratch.0.join("new"), false).unwrap();
        assert!(link.is_symlink() && file.is_file());
    }

    #[test]
    fn results_stay_if_their_path_is_taken_meanwhile() {
        let scratch = Scratch::new("meanwhile");
        let path = scratch.0.join("results");
        let draft = Draft::new(&path, true).unwrap();
        fs::write(draft.path().join(SUMMARY), LIVE).unwrap();
        scratch.directory("results", &[("thesis.txt", "important")]);
        let PlaceError::Kept { kept, .. } = draft.finish().unwrap_err() else {
            panic!("the results are kept")
        };
        assert!(kept.join(SUMMARY).is_file() && path.join("thesis.txt").is_file());
        fs::remove_dir_all(&path).unwrap();
        drop(Draft::new(&scratch.0.join("other"), false).unwrap());
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1, "only the kept directory");
    }
}
