//! Turns the CSV text of `weir watch` into tables.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use weir_report::watch::CsvRows;

use crate::columns::to_batch;
use crate::table::Table;

/// The rows of a watch, whose CSV text is given in pieces.
#[pyclass(frozen, module = "weirlab._native")]
pub(crate) struct Readings {
    rows: Mutex<CsvRows>,
}

#[pymethods]
impl Readings {
    #[new]
    fn new() -> Self {
        Self { rows: Mutex::default() }
    }

    /// The rows that a piece of text completes.
    fn feed(&self, py: Python<'_>, text: &[u8]) -> PyResult<Table> {
        let batch = py.detach(|| {
            let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            rows.read(text).map(to_batch)
        });
        let batch = batch.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Table::new(batch.map_err(|error| PyRuntimeError::new_err(error.to_string()))?))
    }
}
