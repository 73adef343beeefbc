//! Reads one value from a table of a run: the value of one column in the row of a flow or link.

use std::fs::File;

use weir_report::sim::{Column, Table};

use crate::export::ExportError;
use crate::key::Key;
use crate::store::{Store, StoreError};

/// The value of `column` in the row `name` of a run's table; `None` if there is no such row or
/// column, or no number in it.
///
/// # Errors
/// The store does not have the run, or its table cannot be read.
pub fn read(
    store: &Store,
    key: Key,
    table: &str,
    name: &str,
    column: &str,
) -> Result<Option<f64>, ExportError> {
    let path = store.path(key).join(format!("{table}.parquet"));
    let file = File::open(&path).map_err(|source| StoreError::Io { path, source })?;
    let table = Table::<String>::read(file)?;
    let of = |wanted: &str| {
        let found = table.columns.iter().find(|(name, _)| name == wanted);
        found.map(|(_, column)| column)
    };
    let Some(Column::Name(names, rows)) = of("name") else { return Ok(None) };
    let is_wanted = |row: &u32| names.get(*row as usize).is_some_and(|known| known == name);
    let (Some(row), Some(values)) = (rows.iter().position(is_wanted), of(column)) else {
        return Ok(None);
    };
    Ok(match values {
        Column::Int(values) => values.get(row).map(|&value| value as f64),
        Column::SomeInt(values) => values.get(row).copied().flatten().map(|value| value as f64),
        Column::Float(values) => values.get(row).copied(),
        Column::SomeFloat(values) => values.get(row).copied().flatten(),
        Column::Name(..) => None,
    })
}
