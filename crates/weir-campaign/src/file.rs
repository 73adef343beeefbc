//! Campaign files: the scenarios, axes and seeds of a campaign.
//!
//! ```toml
//! scenario = "two-hosts.toml"      # or scenarios = ["a.toml", "b.toml"]
//! seeds = 20                       # the number of runs of each point, or a list of seeds: [1, 2]
//! set = { duration = "5s" }        # keys that have these values in every run
//! live = false                     # whether the runs are live, on real frames
//!
//! [axes]                           # every combination; the last axis changes fastest
//! "link.bottleneck.spec.bw" = ["5M", "10M", "20M"]
//! "link.bottleneck.scheduler" = ["fifo", "fq_codel"]
//!
//! [[point]]                        # single points, each with every combination of the axes
//! "traffic.video.rate" = "2Mbit/s"
//! ```

use std::path::{Path, PathBuf};
use std::{fs, io};

use toml::de::{DeTable, DeValue};
use weir_rules::{Diagnostics, Files as _, closest};
use weir_sim::disk::Disk;

use crate::canonical::quoted;
use crate::key::Runner;
use crate::plan::{Axis, MAX_RUNS, Plan, PlanError, Seeds, Settings, Source};

/// The content of a campaign file. The paths of the scenarios include the directory of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// The paths of the scenarios.
    pub scenarios: Vec<PathBuf>,
    /// The seeds.
    pub seeds: Seeds,
    /// Keys of the scenario that are changed for all runs, and their values as TOML.
    pub set: Settings,
    /// The axes, in the order of the file.
    pub axes: Vec<Axis>,
    /// The points that are given one by one.
    pub points: Vec<Settings>,
    /// Whether the runs are live, on real frames.
    pub live: bool,
    /// Whether the file has a table `sample`, from which the Python package draws points.
    pub is_sampled: bool,
}

impl File {
    /// The campaign that the file describes, and warnings about its scenarios. `path` names the
    /// file in an error.
    ///
    /// # Errors
    /// The file has a table `sample`, a scenario cannot be read, or [`Plan::new`] refuses the
    /// campaign.
    pub fn plan(self, path: &Path) -> Result<(Plan, Diagnostics), PlanError> {
        if self.is_sampled {
            return Err(PlanError::Sampled(path.to_owned()));
        }
        let several = self.scenarios.len() > 1;
        let source = |path: &PathBuf| {
            let text =
                read(path).map_err(|source| PlanError::Read { path: path.clone(), source })?;
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let label = ("scenario".to_owned(), quoted(&stem));
            Ok(Source {
                text,
                name: path.display().to_string(),
                directory: path.parent().unwrap_or(Path::new("")).to_owned(),
                default_name: stem,
                settings: self.set.clone(),
                labels: if several { vec![label] } else { Vec::new() },
                by: if self.live { Runner::Live } else { Runner::Sim },
            })
        };
        let sources = self.scenarios.iter().map(source).collect::<Result<_, PlanError>>()?;
        Plan::new(sources, self.axes, self.points, self.seeds)
    }
}

/// Why a campaign file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}:{line}: {problem}")]
pub struct FileError {
    /// The name of the file.
    pub name: String,
    /// The line, from 1.
    pub line: usize,
    /// The mistake.
    pub problem: Problem,
}

/// A mistake in a campaign file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The text is not TOML.
    #[error("{0}")]
    Toml(String),
    /// There is no such key.
    #[error("`{name}` is not a key of a campaign file{meant}")]
    Unknown {
        /// The key.
        name: String,
        /// The end of the message: a question that suggests a similar key, or nothing.
        meant: String,
    },
    /// A value has the wrong type or is not allowed.
    #[error("`{name}` must be {expected}")]
    Type {
        /// The key.
        name: String,
        /// The expected value, in words.
        expected: &'static str,
    },
    /// No scenario is named.
    #[error("no scenario is named; for example scenario = \"two-hosts.toml\"")]
    NoScenario,
}

/// Reads a campaign file, or a scenario that it names. Only a regular file of a limited size is
/// read, because anything else could be endless.
///
/// # Errors
/// The file cannot be read, is not a regular file or is too large, or its path is not UTF-8.
pub fn read(path: &Path) -> io::Result<String> {
    let refused = |reason| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    // The check comes first, because opening a pipe would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return refused("it is no regular file, as campaigns and scenarios must be");
    }
    path.to_str().map_or_else(|| refused("its path is not UTF-8"), |name| Disk.read(name))
}

/// Parses the text of the campaign file at `path`. Messages name the path, and paths in the text
/// are relative to its directory.
///
/// # Errors
/// The first mistake.
pub fn parse(text: &str, path: &Path) -> Result<File, FileError> {
    let at = |place: usize, problem: Problem| FileError {
        name: path.display().to_string(),
        line: text[..place.min(text.len())].matches('\n').count() + 1,
        problem,
    };
    let root = DeTable::parse(text).map_err(|error| {
        let place = error.span().map_or(0, |span| span.start);
        at(place, Problem::Toml(error.message().to_owned()))
    })?;
    let reader = Reader { text, directory: path.parent().unwrap_or(Path::new("")) };
    let mut file = File::default();
    for (name, place, value) in entries(root.get_ref()) {
        let wrong = |expected| at(place, Problem::Type { name: name.clone(), expected });
        match name.as_str() {
            "scenario" => {
                let one = value.as_str().ok_or_else(|| wrong("the path of a scenario"))?;
                file.scenarios.push(reader.directory.join(one));
            }
            "scenarios" => {
                let paths = value.as_array().and_then(|list| {
                    let texts = list.iter().map(|item| item.get_ref().as_str());
                    texts.collect::<Option<Vec<_>>>()
                });
                let paths = paths.ok_or_else(|| wrong("a list of the paths of scenarios"))?;
                file.scenarios.extend(paths.into_iter().map(|one| reader.directory.join(one)));
            }
            "seeds" => file.seeds = seeds(value).ok_or_else(|| wrong(SEEDS))?,
            "set" => file.set = reader.settings(value).ok_or_else(|| wrong(SETTINGS))?,
            "axes" => file.axes = reader.axes(value).ok_or_else(|| wrong(AXES))?,
            "point" => {
                let tables = value.as_array().and_then(|list| {
                    list.iter().map(|item| reader.settings(item.get_ref())).collect()
                });
                file.points = tables.ok_or_else(|| wrong(POINTS))?;
            }
            "live" => file.live = value.as_bool().ok_or_else(|| wrong("true or false"))?,
            "sample" if value.is_table() => file.is_sampled = true,
            _ => {
                let meant = closest(&name, KEYS)
                    .map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
                return Err(at(place, Problem::Unknown { name, meant }));
            }
        }
    }
    if file.scenarios.is_empty() {
        return Err(at(0, Problem::NoScenario));
    }
    Ok(file)
}

/// The entries of a table in the order of the file: key, byte offset of the key, and value.
fn entries<'a>(table: &'a DeTable<'_>) -> Vec<(String, usize, &'a DeValue<'a>)> {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| (key.get_ref().to_string(), key.span().start, value.get_ref()))
        .collect();
    entries.sort_by_key(|(_, place, _)| *place);
    entries
}

/// A number of seeds, or a list of seeds; `None` for any other value.
fn seeds(value: &DeValue<'_>) -> Option<Seeds> {
    let whole = |value: &DeValue<'_>| {
        let number = value.as_integer()?;
        u64::from_str_radix(number.as_str(), number.radix()).ok().filter(|n| *n <= i64::MAX as u64)
    };
    if let Some(list) = value.as_array() {
        let all: Option<Vec<u64>> = list.iter().map(|item| whole(item.get_ref())).collect();
        return all.filter(|all| !all.is_empty()).map(Seeds::List);
    }
    whole(value).filter(|n| (1..=MAX_RUNS).contains(n)).map(Seeds::Count)
}

/// Takes settings and axes from the text of a file.
struct Reader<'a> {
    text: &'a str,
    directory: &'a Path,
}

impl Reader<'_> {
    fn settings(&self, value: &DeValue<'_>) -> Option<Settings> {
        let table = value.as_table()?;
        let mut all: Vec<_> = table.iter().collect();
        all.sort_by_key(|(key, _)| key.span().start);
        Some(
            all.into_iter()
                .map(|(key, value)| (key.get_ref().to_string(), self.text[value.span()].to_owned()))
                .collect(),
        )
    }

    fn axes(&self, value: &DeValue<'_>) -> Option<Vec<Axis>> {
        let table = value.as_table()?;
        let mut all: Vec<_> = table.iter().collect();
        all.sort_by_key(|(key, _)| key.span().start);
        all.into_iter()
            .map(|(key, value)| {
                let list = value.get_ref().as_array()?;
                let values: Vec<String> =
                    list.iter().map(|item| self.text[item.span()].to_owned()).collect();
                let key = key.get_ref().to_string();
                (!values.is_empty()).then_some(Axis { key, values })
            })
            .collect()
    }
}

const KEYS: [&str; 8] =
    ["scenario", "scenarios", "seeds", "set", "axes", "point", "sample", "live"];
const SEEDS: &str = "a number of runs from 1 to 10,000,000, or a list of seeds";
const SETTINGS: &str = "a table of keys of the scenario and their values";
const AXES: &str = "a table of keys of the scenario, each with a list of values";
const POINTS: &str = "a list of tables: [[point]]";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<File, String> {
        parse(text, Path::new("dir/c.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_read_in_its_order() {
        let file = parsed(
            "scenario = \"a.toml\"\nseeds = [3, 1]\nset = { duration = \"5s\" }\n[axes]\n\
             z = [\"5M\", 2]\n\"a.b\" = [true]\n[[point]]\nx = 0.5\n[[point]]\nx = 1\n",
        )
        .unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(file.scenarios, [Path::new("dir/a.toml")]);
        assert_eq!(file.seeds, Seeds::List(vec![3, 1]));
        assert_eq!(file.set, [pair("duration", "\"5s\"")]);
        assert_eq!(file.axes[0].key, "z");
        assert_eq!(file.axes[0].values, ["\"5M\"", "2"]);
        assert_eq!(file.axes[1].key, "a.b");
        assert_eq!(file.points, [vec![pair("x", "0.5")], vec![pair("x", "1")]]);
        assert!(!file.is_sampled && !file.live);
        assert!(parsed("scenario = \"a.toml\"\nlive = true\n").unwrap().live);
    }

    #[test]
    fn only_regular_files_are_read() {
        for path in ["/dev/zero", "/dev/null", "/proc/self/fd"] {
            let error = read(Path::new(path)).unwrap_err().to_string();
            assert!(error.starts_with("it is no regular file"), "{path}: {error}");
        }
        assert!(read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))).is_ok());
        let path = Path::new("/dev/c.toml");
        let file = parse("scenario = \"zero\"\n", path).unwrap();
        let error = file.plan(path).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("/dev/zero: it is no regular file"), "{error}");
    }

    #[test]
    fn the_most_seeds_of_a_file_are_the_most_runs_of_a_campaign() {
        let file = parsed(&format!("scenario = \"a.toml\"\nseeds = {MAX_RUNS}\n")).unwrap();
        assert_eq!(file.seeds, Seeds::Count(MAX_RUNS));
        assert!(SEEDS.contains(&weir_report::format::count(MAX_RUNS)));
    }

    #[test]
    fn mistakes_are_named_with_their_lines() {
        for (text, message) in [
            ("seeds = 3\n", "dir/c.toml:1: no scenario is named; for example scenario"),
            ("scenario = 1\n", "dir/c.toml:1: `scenario` must be the path of a scenario"),
            (
                "scenario = \"a\"\nseed = 3\n",
                "dir/c.toml:2: `seed` is not a key of a campaign file; did you \
              mean `seeds`?",
            ),
            ("scenario = \"a\"\nseeds = 0\n", "dir/c.toml:2: `seeds` must be a number of runs"),
            (
                "scenario = \"a\"\nseeds = 10_000_001\n",
                "dir/c.toml:2: `seeds` must be a number of runs from 1 to 10,000,000",
            ),
            ("scenario = \"a\"\n[axes]\nx = 1\n", "dir/c.toml:2: `axes` must be a table of keys"),
            ("scenario = \"a\"\nlive = 1\n", "dir/c.toml:2: `live` must be true or false"),
            ("scenario = \"a\"\npoint = 1\n", "dir/c.toml:2: `point` must be a list of tables"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
