//! The runs of a campaign, and their keys. The plan computes a point only when the point is asked
//! for, so a campaign of millions of runs takes no more memory than one of ten.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use weir_report::format::count;
use weir_rules::Diagnostics;
use weir_sim::scenario::{self, Checked, EditError, Edited};

pub use weir_sim::scenario::Axis;

use crate::canonical;
use crate::inputs::Inputs;
use crate::key::Runner;
use crate::store::{Store, StoreError};
use crate::work::{Task, TaskSeeds};

/// Keys of a scenario, and their values as TOML. A value that is not TOML is taken as a string.
pub type Settings = Vec<(String, String)>;

/// The seeds of each point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seeds {
    /// The seeds of the scenario.
    #[default]
    OfScenario,
    /// This number of consecutive seeds, beginning with the scenario's seed.
    Count(u64),
    /// These seeds.
    List(Vec<u64>),
}

/// A scenario of a campaign.
#[derive(Clone, Debug)]
pub struct Source {
    /// The text.
    pub text: String,
    /// The name of the text, for messages.
    pub name: String,
    /// The directory of the files that the text names.
    pub directory: PathBuf,
    /// The name of the scenario if its text gives none.
    pub default_name: String,
    /// Keys to change in all runs.
    pub settings: Settings,
    /// Columns of the results, and their values, that distinguish this scenario from the campaign's
    /// other scenarios.
    pub labels: Settings,
    /// The program that carries out the runs.
    pub by: Runner,
}

/// The runs of a campaign.
#[derive(Debug)]
pub struct Plan {
    bases: Vec<Base>,
    /// The axes of the campaign, which all scenarios share.
    axes: Vec<Axis>,
    /// The listed points. Each is combined with every combination of the axes' values.
    points: Vec<Settings>,
    seeds: Seeds,
    inputs: Inputs,
}

/// A scenario with the changes that apply to all its runs.
#[derive(Debug)]
struct Base {
    name: String,
    directory: PathBuf,
    default_name: String,
    labels: Settings,
    edited: Edited,
    /// The axes of the scenario's own sweep.
    axes: Vec<Axis>,
    by: Runner,
    seed: u64,
    /// Number of runs that the scenario itself asks for.
    runs: u64,
    /// The number of the scenario's first point.
    first: u64,
    count: u64,
}

/// A point of a campaign: a scenario with its settings.
#[derive(Clone, Debug)]
pub struct Point {
    /// The settings of the point, with which the results are labelled.
    pub settings: Settings,
    /// All runs of the point.
    pub task: Task,
}

/// Why a campaign is refused.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The text of a scenario, or of one of its points, is refused.
    #[error("{}", .0.render(false).trim_end())]
    Scenario(Diagnostics),
    /// A key cannot be set.
    #[error("{key} = {value}: {source}")]
    Key {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The reason.
        source: EditError,
    },
    /// The key sets the number of runs or their seeds, which only `seeds` may do.
    #[error("`{0}` is no axis: `seeds` says how many runs a point has, and with which seeds")]
    Seeds(String),
    /// The scenario runs programs.
    #[error(
        "`{0}` is or runs a program, which the simulator cannot run: a live campaign can \
         (`live = true`)"
    )]
    Live(String),
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The points of the campaign file are drawn at random.
    #[error(
        "{}: `[sample]` is drawn by SciPy: use `weirlab.sweep` in Python, whose `write` makes a \
         campaign file that lists the points",
        .0.display()
    )]
    Sampled(PathBuf),
    /// The campaign has no such point.
    #[error("the campaign has no such point")]
    Range,
    /// The campaign has more than [`MAX_RUNS`] runs.
    #[error(
        "the campaign has more than {} runs: give fewer seeds or values, or make several campaigns \
         of it, which may share a store",
        count(MAX_RUNS)
    )]
    Runs,
}

impl Plan {
    /// Makes a campaign. Checks each value of each axis, and the first thousand of the listed
    /// `points`.
    ///
    /// # Errors
    /// A scenario, a key or a value is refused, or there are more than [`MAX_RUNS`] runs.
    pub fn new(
        sources: Vec<Source>,
        axes: Vec<Axis>,
        points: Vec<Settings>,
        seeds: Seeds,
    ) -> Result<(Self, Diagnostics), PlanError> {
        let inputs = Inputs::default();
        let mut warnings = Diagnostics::default();
        let mut bases: Vec<Base> = Vec::with_capacity(sources.len());
        let product = |axes: &[Axis]| {
            let lengths = axes.iter().map(|axis| axis.values.len() as u64);
            lengths.fold(1, u64::saturating_mul)
        };
        let shared = product(&axes).saturating_mul(points.len().max(1) as u64);
        for source in sources {
            let (mut base, found) = Base::new(source, &inputs)?;
            warnings.append(found, |_| {});
            base.first = bases.last().map_or(0, |last| last.first.saturating_add(last.count));
            base.count = product(&base.axes).saturating_mul(shared);
            bases.push(base);
        }
        let mut all_axes = axes.iter().chain(bases.iter().flat_map(|base| &base.axes));
        let mut keys_of_points = points.iter().flatten().map(|(key, _)| key);
        let is_reserved = |key: &str| ["seed", "runs"].contains(&key.trim());
        let wrong = all_axes.find(|axis| is_reserved(&axis.key)).map(|axis| &axis.key);
        if let Some(key) = wrong.or_else(|| keys_of_points.find(|key| is_reserved(key))) {
            return Err(PlanError::Seeds(key.clone()));
        }
        let plan = Self { bases, axes, points, seeds, inputs };
        if plan.runs() > MAX_RUNS {
            return Err(PlanError::Runs);
        }
        plan.check()?;
        Ok((plan, warnings))
    }

    /// Number of points.
    #[must_use]
    pub fn points(&self) -> u64 {
        self.bases.last().map_or(0, |last| last.first.saturating_add(last.count))
    }

    /// Number of runs.
    #[must_use]
    pub fn runs(&self) -> u64 {
        let of_base = |base: &Base| base.count.saturating_mul(self.seeds_of(base));
        self.bases.iter().map(of_base).fold(0, u64::saturating_add)
    }

    /// Whether some runs are live.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.bases.iter().any(|base| base.by == Runner::Live)
    }

    /// The keys that the settings of points have, each once: first the labels, then the axes of the
    /// scenarios, the keys of listed points, and the axes of the campaign.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let labels = self.bases.iter().flat_map(|base| base.labels.iter().map(|(key, _)| key));
        let own = self.bases.iter().flat_map(|base| base.axes.iter().map(|axis| &axis.key));
        let listed = self.points.iter().flatten().map(|(key, _)| key);
        let shared = self.axes.iter().map(|axis| &axis.key);
        for name in labels.chain(own).chain(listed).chain(shared) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// The settings of a point.
    ///
    /// # Errors
    /// There is no such point.
    pub fn settings(&self, number: u64) -> Result<Settings, PlanError> {
        let base = self.base(number)?;
        let mut settings = base.labels.clone();
        settings.extend(self.keys(base, number));
        Ok(settings)
    }

    /// A point with all its runs.
    ///
    /// # Errors
    /// There is no such point, or its scenario is refused.
    pub fn point(&self, number: u64) -> Result<Point, PlanError> {
        let base = self.base(number)?;
        let keys = self.keys(base, number);
        let mut point = self.resolve(base, &keys)?;
        point.task.point = number;
        Ok(point)
    }

    /// Puts the files that a task needs into a store.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn put_inputs(&self, store: &Store, task: &Task) -> Result<(), StoreError> {
        let path = store.root().to_owned();
        self.inputs.put(store, &task.inputs).map_err(|source| StoreError::Io { path, source })
    }

    fn base(&self, number: u64) -> Result<&Base, PlanError> {
        let after = self.bases.partition_point(|base| base.first <= number);
        let base = after.checked_sub(1).map(|at| &self.bases[at]);
        base.filter(|base| number - base.first < base.count).ok_or(PlanError::Range)
    }

    /// The keys that a point sets: those of the scenario's own axes, then those of the list of
    /// points, then those of the campaign's axes.
    fn keys(&self, base: &Base, number: u64) -> Settings {
        let mut rest = number - base.first;
        let shared = pick(&self.axes, &mut rest);
        let listed = match self.points.len() as u64 {
            0 => Settings::new(),
            count => self.points[digit(&mut rest, count) as usize].clone(),
        };
        let own = pick(&base.axes, &mut rest);
        own.into_iter().chain(listed).chain(shared).collect()
    }

    /// The point of a scenario with these settings. The caller sets its number.
    fn resolve(&self, base: &Base, keys: &[(String, String)]) -> Result<Point, PlanError> {
        let mut edited = base.edited.clone();
        for (key, value) in keys {
            set(&mut edited, key, value)?;
        }
        let files = self.inputs.beside(&base.directory);
        let Checked { scenario, diagnostics } =
            scenario::parse_edited(&edited, &base.name, &words(keys), &files);
        let scenario = scenario.ok_or(PlanError::Scenario(diagnostics))?;
        if let (Runner::Sim, Some(name)) = (base.by, scenario.live_only()) {
            return Err(PlanError::Live(name.to_owned()));
        }
        // The text has just been parsed, so this cannot fail.
        let body =
            canonical::body(&edited.text, &base.default_name).map_err(|_| PlanError::Range)?;
        let seeds = match &self.seeds {
            Seeds::List(seeds) => TaskSeeds::List(seeds.clone()),
            _ => TaskSeeds::Consecutive { first: base.seed, count: self.seeds_of(base) },
        };
        let mut settings = base.labels.clone();
        settings.extend_from_slice(keys);
        let task = Task { point: 0, body, inputs: files.used(), seeds, by: base.by };
        Ok(Point { settings, task })
    }

    /// Checks each value of each axis, and the first [`CHECKED`] of the listed points.
    fn check(&self) -> Result<(), PlanError> {
        for base in &self.bases {
            let first = self.keys(base, base.first);
            self.resolve(base, &first)?;
            for axis in base.axes.iter().chain(&self.axes) {
                for value in axis.values.iter().skip(1) {
                    let mut keys = first.clone();
                    keys.iter_mut()
                        .filter(|(key, _)| *key == axis.key)
                        .for_each(|(_, old)| old.clone_from(value));
                    self.resolve(base, &keys)?;
                }
            }
            // The other points of a long list are checked when their runs are looked up.
            let (shared, own) = (pick(&self.axes, &mut 0), pick(&base.axes, &mut 0));
            for point in self.points.iter().take(CHECKED) {
                self.resolve(base, &[&own[..], point, &shared].concat())?;
            }
        }
        Ok(())
    }

    /// Number of seeds of each point of a scenario.
    fn seeds_of(&self, base: &Base) -> u64 {
        match &self.seeds {
            Seeds::OfScenario => base.runs,
            Seeds::Count(count) => *count,
            Seeds::List(seeds) => seeds.len() as u64,
        }
    }

    /// The runs of a point that a store does not have. Their inputs are in the store afterwards.
    /// `go_on` is called before each group of look-ups, and ends the search when it returns false.
    ///
    /// # Errors
    /// There is no such point, its scenario is refused, an input cannot be stored, or `go_on` ended
    /// the search.
    pub fn missing_at(
        &self,
        store: &Store,
        number: u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Missing, PlanOrStore> {
        let mut task = self.point(number)?.task;
        let mut seeds = Vec::new();
        for (at, seed) in task.seeds.iter().enumerate() {
            if at.is_multiple_of(LOOKED_UP) && !go_on() {
                return Err(PlanOrStore::Stopped);
            }
            if !store.has(task.key(seed)) {
                seeds.push(seed);
            }
        }
        let there = task.seeds.count() - seeds.len() as u64;
        if seeds.is_empty() {
            return Ok(Missing { task: None, there });
        }
        task.seeds = TaskSeeds::List(seeds);
        self.put_inputs(store, &task)?;
        Ok(Missing { task: Some(task), there })
    }
}

/// The runs of a point that a store does not have.
#[derive(Clone, Debug)]
pub struct Missing {
    /// The missing runs; `None` if the store has all runs of the point.
    pub task: Option<Task>,
    /// Number of runs of the point that the store has.
    pub there: u64,
}

/// Why missing runs cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum PlanOrStore {
    /// The campaign is refused.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The search was stopped.
    #[error("the search for missing runs was stopped")]
    Stopped,
}

impl Base {
    fn new(source: Source, inputs: &Inputs) -> Result<(Self, Diagnostics), PlanError> {
        let mut edited = Edited::new(&source.text);
        for (key, value) in &source.settings {
            set(&mut edited, key, value)?;
        }
        let files = inputs.beside(&source.directory);
        let Checked { scenario, diagnostics } =
            scenario::parse_edited(&edited, &source.name, &words(&source.settings), &files);
        let Some(scenario) = scenario else { return Err(PlanError::Scenario(diagnostics)) };
        let base = Self {
            name: source.name,
            directory: source.directory,
            default_name: source.default_name,
            labels: source.labels,
            edited,
            axes: scenario.sweep,
            by: source.by,
            seed: scenario.seed,
            runs: u64::from(scenario.runs),
            first: 0,
            count: 0,
        };
        Ok((base, diagnostics))
    }
}

/// Takes one value of each axis. The number `rest` has a digit for each axis, and the digit selects
/// the value. The lowest digit belongs to the last axis. The digits are taken off `rest`.
fn pick(axes: &[Axis], rest: &mut u64) -> Settings {
    let last_first = axes.iter().rev().map(|axis| {
        let at = digit(rest, axis.values.len() as u64);
        (axis.key.clone(), axis.values[at as usize].clone())
    });
    let mut settings: Settings = last_first.collect();
    settings.reverse();
    settings
}

/// Takes a digit with base `count` off a number.
fn digit(number: &mut u64, count: u64) -> u64 {
    let digit = *number % count;
    *number /= count;
    digit
}

fn set(edited: &mut Edited, key: &str, value: &str) -> Result<(), PlanError> {
    match edited.set(key, &unquoted(value)) {
        // Errors in the scenario's text are reported by the parser, which reads it next.
        Ok(()) | Err(EditError::Text) => Ok(()),
        Err(source) => Err(PlanError::Key { key: key.to_owned(), value: value.to_owned(), source }),
    }
}

/// Removes the quotes from a TOML string if its text alone is not a TOML value. A key takes such a
/// text as a string, so `"20Mbit/s"` and `20Mbit/s` give the same run, even if the key is that of a
/// word in a link's specification.
fn unquoted(value: &str) -> Cow<'_, str> {
    let read = |text: &str| {
        let table: Result<toml::Table, _> = format!("value = {text}").parse();
        table.ok().and_then(|mut table| table.remove("value"))
    };
    match read(value) {
        Some(toml::Value::String(text))
            if !text.is_empty()
                && text.trim() == text
                && !text.contains(['\n', '\r', '#'])
                && read(&text).is_none() =>
        {
            Cow::Owned(text)
        }
        _ => Cow::Borrowed(value),
    }
}

/// The changed keys with their values, which locate an error in messages.
fn words(keys: &[(String, String)]) -> String {
    let words: Vec<String> = keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    if words.is_empty() { "the campaign".to_owned() } else { words.join(", ") }
}

/// Number of runs that are looked up in a store between two reports of progress, or between two
/// checks for a request to stop.
pub(crate) const LOOKED_UP: usize = 256;

/// Maximum number of runs of a campaign.
pub const MAX_RUNS: u64 = 10_000_000;

/// Maximum number of listed points that are checked before the first run.
const CHECKED: usize = 1000;
