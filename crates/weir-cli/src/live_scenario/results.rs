//! Writes the results of a live run in the same form as those of a simulated run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use weir_report::sim::{Contents, Results, to_json};
use weir_report::write_atomic;
use weir_sim::measure::Outcome;

use super::LiveArgs;
use super::load::Source;
use crate::output::{Failure, USAGE, print, say};
use crate::sim::outcome_tables;

/// The output of the user's programs, by the names of their flows.
pub(super) type Printed = Vec<(String, Vec<u8>)>;

/// Checks, before the run, that its results can be written.
pub(super) fn check(args: &LiveArgs) -> Result<(), Failure> {
    let json = args.json.as_deref().filter(|path| path.as_os_str() != "-");
    if let Some(path) = json.filter(|path| path.is_dir()) {
        return Err(Failure::new(USAGE, format!("{} is a directory; name a file", path.display())));
    }
    if let Some(path) = args.out.as_deref().filter(|path| path.exists() && !args.force) {
        let what = format!(
            "{} is already there: name another directory, or replace it with --force",
            path.display()
        );
        return Err(Failure::new(USAGE, what));
    }
    for path in [json, args.out.as_deref()].into_iter().flatten() {
        let parent = parent(path);
        if !parent.is_dir() {
            return Err(Failure::new(
                USAGE,
                format!(
                    "{}: there is no directory {}; make it first",
                    path.display(),
                    parent.display()
                ),
            ));
        }
    }
    Ok(())
}

/// Writes the results to every requested destination.
pub(super) fn write(
    args: &LiveArgs,
    source: &Source,
    runs: Vec<Outcome>,
    printed: &Printed,
) -> Result<ExitCode, Failure> {
    let results = Results { source: "live".to_owned(), scenario: source.text.clone(), runs };
    if let Some(path) = &args.out {
        directory(path, args.force, &results, printed)?;
    } else {
        for (name, text) in printed.iter().filter(|(_, text)| !args.quiet && !text.is_empty()) {
            say(format_args!("\n{name}:\n{}\n", String::from_utf8_lossy(text).trim_end()));
        }
    }
    match args.json.as_deref() {
        Some(path) if path.as_os_str() == "-" => return print(&to_json(&results)),
        Some(path) => write_atomic(path, to_json(&results).as_bytes()).map_err(Failure::of_weir)?,
        None => {}
    }
    if args.quiet {
        Ok(ExitCode::SUCCESS)
    } else {
        print(&format!("{}, live\n{}", source.scenario.name, outcome_tables(&results.runs)))
    }
}

/// Writes the directory under a temporary name in the same place, and renames it when it is
/// complete.
fn directory(
    path: &Path,
    replace: bool,
    results: &Results,
    printed: &Printed,
) -> Result<(), Failure> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = parent(path).join(name);
    let failed = |error: std::io::Error| {
        Failure::of_weir(format!("cannot write {}: {error}", path.display()))
    };
    let fill = || {
        fs::create_dir(&beside).map_err(failed)?;
        weir_report::sim::write(&beside, results, Contents::default()).map_err(Failure::of_weir)?;
        for (name, text) in printed {
            fs::write(beside.join(format!("{name}.txt")), text).map_err(failed)?;
        }
        if replace && path.exists() {
            fs::remove_dir_all(path).map_err(failed)?;
        }
        fs::rename(&beside, path).map_err(failed)
    };
    let filled = fill();
    if filled.is_err() {
        // The failure is reported, and the incomplete directory is useless.
        let _ = fs::remove_dir_all(&beside);
    }
    filled
}

fn parent(path: &Path) -> PathBuf {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
