//! A Python object with the methods of an algorithm.

use std::fmt;
use std::sync::Arc;

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weir_core::Nanos;

use super::run::Run;

/// The kind of an algorithm. Each kind has its own table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Scheduler,
    Aqm,
    Control,
}

impl Kind {
    /// The base class in Python.
    pub(super) fn base(self) -> &'static str {
        match self {
            Self::Scheduler => "Scheduler",
            Self::Aqm => "Aqm",
            Self::Control => "CongestionControl",
        }
    }
}

/// A method of an instance, with its name for messages.
pub(super) struct Method {
    pub(super) call: Py<PyAny>,
    pub(super) name: &'static str,
}

pub(super) struct Instance {
    pub(super) object: Py<PyAny>,
    /// The name of its class.
    pub(super) class: String,
    pub(super) run: Arc<Run>,
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.class)
    }
}

impl Instance {
    /// Makes an instance from its class, and passes `setup`, the properties of its link, queue or
    /// connection, to the instance.
    pub(super) fn new(
        py: Python<'_>,
        factory: &Bound<'_, PyAny>,
        kind: Kind,
        setup: &[(&str, Option<u64>)],
    ) -> PyResult<Self> {
        let object = factory.call0()?;
        let base = py.import("weirlab._algorithms")?.getattr(kind.base())?;
        let class = object.get_type().name()?.to_string();
        if !object.is_instance(&base)? {
            return Err(wrong_type(
                py,
                &format!("expected a weirlab.{}, not {class}", kind.base()),
            ));
        }
        let given = PyDict::new(py);
        for (key, value) in setup {
            given.set_item(key, value)?;
        }
        object.call_method("start", (), Some(&given))?;
        Ok(Self { object: object.unbind(), class, run: Run::current() })
    }

    pub(super) fn method(&self, py: Python<'_>, name: &'static str) -> PyResult<Method> {
        Ok(Method { call: self.object.getattr(py, name)?, name })
    }

    pub(super) fn flag(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.object.getattr(py, name)?.is_truthy(py)
    }

    /// Whether the class overrides a method of its base.
    pub(super) fn overrides(&self, py: Python<'_>, kind: Kind, name: &str) -> PyResult<bool> {
        let base = py.import("weirlab._algorithms")?.getattr(kind.base())?.getattr(name)?;
        let own = self.object.bind(py).get_type().getattr(name)?;
        Ok(!own.is(&base))
    }

    /// Calls a method, and evaluates its result with `read`. Returns `None` if the call or `read`
    /// fails.
    #[inline]
    pub(super) fn call<'py, A, T>(
        &self,
        py: Python<'py>,
        now: Nanos,
        method: &Method,
        arguments: A,
        read: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> Option<T>
    where
        A: PyCallArgs<'py>,
    {
        let result = method.call.bind(py).call1(arguments).and_then(|result| read(&result));
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.fail(py, now, method.name, error);
                None
            }
        }
    }

    /// Ends the run with an error, and adds a note with the method and the time to the error.
    #[cold]
    pub(super) fn fail(&self, py: Python<'_>, now: Nanos, method: &str, error: PyErr) {
        let seconds = now.0 as f64 / 1e9;
        let note = format!("in {}.{method}, {seconds} s after the start", self.class);
        // The note only explains the error, so a failure to add it is ignored.
        let _ = error.value(py).call_method1("add_note", (note,));
        self.run.fail(error);
    }

    /// The error for a method that breaks its contract.
    pub(super) fn broken(&self, py: Python<'_>, method: &str, what: &str) -> PyErr {
        error(py, "AlgorithmError", &format!("{}.{method} {what}", self.class))
    }
}

/// The error for a result of a wrong type.
pub(super) fn wrong_type(py: Python<'_>, message: &str) -> PyErr {
    error(py, "AlgorithmTypeError", message)
}

/// An exception of the package.
pub(super) fn error(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made = py
        .import("weirlab._errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((message,)));
    match made {
        Ok(value) => PyErr::from_value(value),
        Err(error) => error,
    }
}
