//! Plays conformance cases.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weir_measure::document::{Document, Kind};
use weir_rig::conformance::{Case, Subject};

/// Plays the case in a text. Returns the result as a JSON document.
#[pyfunction]
pub(crate) fn play_case(py: Python<'_>, text: &str, name: &str) -> PyResult<String> {
    let outcome = py.detach(|| {
        let case = Case::read(text).map_err(|error| {
            let line = text.lines().nth(error.line.saturating_sub(1)).unwrap_or_default();
            format!("{name}, {error}\n  {} | {line}", error.line)
        })?;
        if let Subject::Missing(cause) = &case.subject {
            return Err(format!("{name} cannot be played: {cause}"));
        }
        Ok(Document::new(Kind::Case, &case.run()).to_json())
    });
    outcome.map_err(PyValueError::new_err)
}
