//! Reads scenarios, changes their keys, and returns diagnostics as plain values.

use std::path::Path;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use weir_rules::{Diagnostic, Diagnostics, Severity};
use weir_sim::disk::Beside;
use weir_sim::scenario::{self, Checked, EditError, Edited, Point, Scenario};

/// A scenario as Python gives it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Source {
    /// The text, in TOML.
    pub(crate) text: String,
    /// The name of the text, for diagnostics.
    pub(crate) name: String,
    /// The directory of the files to which the text refers.
    pub(crate) directory: String,
    /// The name of the scenario if the text gives none.
    pub(crate) default_name: String,
    /// Keys to change, each with its new value and the option that gives the value.
    pub(crate) settings: Vec<(String, String, String)>,
}

/// A scenario that can be run.
pub(crate) struct Loaded {
    /// The points of its sweep.
    pub(crate) points: Vec<Point>,
    /// Warnings and notes.
    pub(crate) diagnostics: Diagnostics,
}

/// Why a scenario cannot be run.
pub(crate) enum Refused {
    /// Errors in the text.
    Text(Diagnostics),
    /// Another reason, such as a key that cannot be changed.
    Words(String),
}

impl Source {
    pub(crate) fn load(&self) -> Result<Loaded, Refused> {
        let edited = self.edited()?;
        let files = Beside(Path::new(&self.directory));
        let Checked { scenario, diagnostics } =
            scenario::parse_edited(&edited, &self.name, ARGUMENTS, &files);
        let Some(mut scenario) = scenario else { return Err(Refused::Text(diagnostics)) };
        if scenario.name.is_empty() {
            scenario.name.clone_from(&self.default_name);
        }
        if let Some(name) = scenario.live_only() {
            let message = format!("`{name}` is or runs a program, which the simulator cannot run");
            return Err(Refused::Words(message));
        }
        let mut points =
            scenario::points(&edited, &scenario, &self.name, &files).map_err(Refused::Text)?;
        points.iter_mut().for_each(|point| point.scenario.name.clone_from(&scenario.name));
        Ok(Loaded { points, diagnostics })
    }

    fn edited(&self) -> Result<Edited, Refused> {
        let mut edited = Edited::new(&self.text);
        for (key, value, option) in &self.settings {
            match edited.set(key, value) {
                // The parser reports errors in the text.
                Ok(()) | Err(EditError::Text) => {}
                Err(error) => return Err(Refused::Words(format!("{option}: {error}"))),
            }
        }
        Ok(edited)
    }

    fn check(&self) -> Result<(Option<Scenario>, Diagnostics), Refused> {
        let edited = self.edited()?;
        let files = Beside(Path::new(&self.directory));
        let Checked { scenario, mut diagnostics } =
            scenario::parse_edited(&edited, &self.name, ARGUMENTS, &files);
        let points = scenario
            .as_ref()
            .map(|scenario| scenario::points(&edited, scenario, &self.name, &files));
        if let Some(Err(errors)) = points {
            diagnostics.append(errors, |_| {});
        }
        Ok((scenario, diagnostics))
    }
}

/// Checks a scenario. Returns a summary, and warnings and notes.
#[pyfunction]
pub(crate) fn check(py: Python<'_>, source: Source) -> PyResult<(String, Py<PyList>)> {
    let checked = py.detach(|| source.check());
    match checked {
        Ok((Some(scenario), diagnostics)) if !diagnostics.has_errors() => {
            Ok((scenario::summary(&scenario), to_list(py, &diagnostics)?.unbind()))
        }
        Ok((_, diagnostics)) => Err(refused(py, &Refused::Text(diagnostics))),
        Err(error) => Err(refused(py, &error)),
    }
}

/// The JSON schema of scenarios.
#[pyfunction]
pub(crate) fn schema() -> String {
    scenario::schema()
}

pub(crate) fn refused(py: Python<'_>, refused: &Refused) -> PyErr {
    match exception(py, refused) {
        Ok(value) => PyErr::from_value(value),
        Err(error) => error,
    }
}

fn exception<'py>(py: Python<'py>, refused: &Refused) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import("weirlab._errors")?.getattr("ScenarioError")?;
    match refused {
        Refused::Text(diagnostics) => {
            let text = diagnostics.render(false);
            class.call1((text.trim_end(), to_list(py, diagnostics)?))
        }
        Refused::Words(message) => class.call1((message, PyList::empty(py))),
    }
}

pub(crate) fn to_list<'py>(
    py: Python<'py>,
    diagnostics: &Diagnostics,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for diagnostic in diagnostics.iter() {
        list.append(to_dict(py, diagnostic)?)?;
    }
    Ok(list)
}

fn to_dict<'py>(py: Python<'py>, diagnostic: &Diagnostic) -> PyResult<Bound<'py, PyDict>> {
    let severity = match diagnostic.code.severity() {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    // Columns count characters from 1.
    let column = |at: usize| diagnostic.text.get(..at).map_or(at, |text| text.chars().count()) + 1;
    let dict = PyDict::new(py);
    dict.set_item("severity", severity)?;
    dict.set_item("code", diagnostic.code.name())?;
    dict.set_item("message", &diagnostic.message)?;
    dict.set_item("file", diagnostic.file.as_deref())?;
    dict.set_item("line", diagnostic.line)?;
    dict.set_item("column", column(diagnostic.span.start))?;
    dict.set_item("end_column", column(diagnostic.span.end))?;
    dict.set_item("text", &diagnostic.text)?;
    dict.set_item("label", &diagnostic.label)?;
    dict.set_item("help", diagnostic.help.clone())?;
    Ok(dict)
}

/// The name that diagnostics give to the place of changed keys.
const ARGUMENTS: &str = "the arguments";
