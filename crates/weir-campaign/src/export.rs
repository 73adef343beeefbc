//! Writes a table of a campaign as one Parquet file, with the rows of all runs and the axes as
//! columns.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use toml::Value;
use weir_report::sim::{Column, Table, TableError, TableWriter};

use crate::canonical::inline;
use crate::plan::{Plan, PlanError, Settings};
use crate::store::{Store, StoreError};

/// Why a table cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The campaign is refused.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A table cannot be read or written.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A run has a column of another type than the other runs, or lacks one that cannot be empty.
    #[error(
        "{}: its column `{column}` is not that of the other runs; `weir sweep verify` finds damage",
        path.display()
    )]
    Column {
        /// The table of the run.
        path: PathBuf,
        /// The name of the column.
        column: String,
    },
    /// No run is in the store.
    #[error("no run of the campaign is in the store")]
    Nothing,
}

/// Writes the table `name` of all runs that are in the store: first a column for each axis, then
/// the columns of the runs' own tables. A column that some runs lack is empty in their rows.
/// Returns the number of runs. The memory use does not grow with the number of runs.
///
/// # Errors
/// The campaign is refused, the store has no run of it, the tables of the runs do not fit together,
/// or a file cannot be read or written.
pub fn table<W: Write + Send>(
    plan: &Plan,
    store: &Store,
    name: &str,
    out: W,
) -> Result<u64, ExportError> {
    let file = format!("{name}.parquet");
    let path_of = |key| store.path(key).join(&file);
    let open = |key| {
        let path = path_of(key);
        File::open(&path).map_err(|source| ExportError::Store(StoreError::Io { path, source }))
    };
    let axes = axes(plan)?;
    // A first pass over the runs collects their columns. A second pass writes the rows.
    let mut columns: Vec<(String, Column)> = Vec::new();
    each_stored(plan, store, |_, key| {
        let empty = Table::<String>::read_columns(open(key)?)?;
        merge(&mut columns, empty);
        Ok(())
    })?;
    if columns.is_empty() {
        return Err(ExportError::Nothing);
    }
    let mut all: Vec<(String, Column)> =
        axes.iter().map(|(name, kind)| (name.clone(), kind.empty())).collect();
    all.extend(columns.clone());
    let mut writer = TableWriter::new(out, &Table { columns: all.clone() })?;
    let mut block = Table { columns: all.clone() };
    let (mut rows, mut runs) = (0, 0);
    each_stored(plan, store, |settings, key| {
        let mut table = Table::<String>::read(open(key)?)?;
        let count = table.columns.first().map_or(0, |(_, column)| column.len());
        for (at, (name, kind)) in axes.iter().enumerate() {
            let value = settings.iter().find(|(key, _)| key == name).map(|(_, value)| value);
            kind.fill(&mut block.columns[at].1, value, count);
        }
        for (name, target) in block.columns.iter_mut().skip(axes.len()) {
            let found = table.columns.iter().position(|(other, _)| other == name);
            let column = found.map(|at| table.columns.swap_remove(at).1);
            if !append(target, column, count) {
                return Err(ExportError::Column { path: path_of(key), column: name.clone() });
            }
        }
        rows += count;
        runs += 1;
        if rows >= GROUP {
            writer.write(&block)?;
            block.columns.clone_from(&all);
            rows = 0;
        }
        Ok(())
    })?;
    if rows > 0 {
        writer.write(&block)?;
    }
    writer.finish()?;
    Ok(runs)
}

/// Calls `visit` for each run that is in the store, in the order of the campaign.
fn each_stored(
    plan: &Plan,
    store: &Store,
    mut visit: impl FnMut(&Settings, crate::key::Key) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    for number in 0..plan.points() {
        let point = plan.point(number)?;
        for seed in point.task.seeds.iter() {
            let key = point.task.key(seed);
            if store.has(key) {
                visit(&point.settings, key)?;
            }
        }
    }
    Ok(())
}

/// The type of the column of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// All values are whole numbers from 0.
    Int,
    /// All values are numbers.
    Float,
    /// Some value is not a number, so all values are stored as text.
    Name,
}

/// The axes with the types of their columns.
fn axes(plan: &Plan) -> Result<Vec<(String, Kind)>, ExportError> {
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    for number in 0..plan.points() {
        for (name, value) in plan.settings(number)? {
            let kind = match read(&value) {
                Value::Integer(number) if number >= 0 => Kind::Int,
                Value::Integer(_) | Value::Float(_) => Kind::Float,
                _ => Kind::Name,
            };
            let known = kinds.entry(name).or_insert(kind);
            *known = match (*known, kind) {
                (Kind::Name, _) | (_, Kind::Name) => Kind::Name,
                (Kind::Float, _) | (_, Kind::Float) => Kind::Float,
                _ => Kind::Int,
            };
        }
    }
    let typed = |name: String| {
        let kind = kinds.get(&name).copied().unwrap_or(Kind::Name);
        (name, kind)
    };
    Ok(plan.names().into_iter().map(typed).collect())
}

impl Kind {
    fn empty(self) -> Column {
        match self {
            Self::Int => Column::SomeInt(Vec::new()),
            Self::Float => Column::SomeFloat(Vec::new()),
            Self::Name => Column::Name(Vec::new(), Vec::new()),
        }
    }

    /// Appends the value of an axis for `count` rows.
    fn fill(self, column: &mut Column, value: Option<&String>, count: usize) {
        let value = value.map(|value| read(value));
        match column {
            Column::SomeInt(values) => {
                let number = value.and_then(|value| value.as_integer());
                let number = number.and_then(|number| u64::try_from(number).ok());
                values.extend(std::iter::repeat_n(number, count));
            }
            Column::SomeFloat(values) => {
                let number = value.and_then(|value| {
                    value.as_float().or_else(|| value.as_integer().map(|number| number as f64))
                });
                values.extend(std::iter::repeat_n(number, count));
            }
            Column::Name(names, rows) => {
                let word = match value {
                    None => String::new(),
                    Some(Value::String(word)) => word,
                    Some(other) => inline(&other),
                };
                append_name(names, rows, &word, count);
            }
            // An axis has one of the three types above.
            _ => {}
        }
    }
}

/// The value of an axis. A text that is not TOML is taken as a string, as in [`Settings`].
fn read(text: &str) -> Value {
    let parsed: Result<toml::Table, _> = format!("value = {text}").parse();
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Appends a name `count` times. Each name is stored once.
fn append_name(names: &mut Vec<String>, rows: &mut Vec<u32>, word: &str, count: usize) {
    let at = names.iter().rposition(|known| known == word).unwrap_or_else(|| {
        names.push(word.to_owned());
        names.len() - 1
    });
    rows.extend(std::iter::repeat_n(at as u32, count));
}

/// Adds the columns that are not known yet.
fn merge(all: &mut Vec<(String, Column)>, more: Table<String>) {
    for (name, column) in more.columns {
        if !all.iter().any(|(known, _)| *known == name) {
            all.push((name, column));
        }
    }
}

/// Appends a run's values of one column; empty values if the run lacks the column. Returns whether
/// this is possible: the types are equal, or the column may be empty.
#[must_use]
fn append(target: &mut Column, more: Option<Column>, count: usize) -> bool {
    match (target, more) {
        (Column::Int(all), Some(Column::Int(more))) => all.extend(more),
        (Column::SomeInt(all), Some(Column::SomeInt(more))) => all.extend(more),
        (Column::SomeInt(all), None) => all.extend(std::iter::repeat_n(None, count)),
        (Column::Float(all), Some(Column::Float(more))) => all.extend(more),
        (Column::SomeFloat(all), Some(Column::SomeFloat(more))) => all.extend(more),
        (Column::SomeFloat(all), None) => all.extend(std::iter::repeat_n(None, count)),
        (Column::Name(names, rows), Some(Column::Name(more, at))) => {
            for row in at {
                let word = more.get(row as usize).map_or("", String::as_str);
                append_name(names, rows, word, 1);
            }
        }
        (Column::Name(names, rows), None) => append_name(names, rows, "", count),
        _ => return false,
    }
    true
}

/// The approximate number of rows in a row group of the file.
const GROUP: usize = 100_000;
