//! Entries that Python adds to the tables of the engine.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weir_core::Nanos;
use weir_core::aqm::{self, Aqm, Policy, QueueState, Seen, Verdict};
use weir_core::sched::{self, Discipline};
use weir_core::settings::{Factory, Row};
use weir_sim::tcp::cc;

use super::aqm::PythonAqm;
use super::control::PythonControl;
use super::instance::error;
use super::run::Run;
use super::scheduler::PythonScheduler;

/// An entry of a table: a name, and the class to which the name refers at present.
#[pyclass(frozen, module = "weirlab._native")]
pub(crate) struct Slot {
    class: &'static Class,
}

/// A weak reference to a class, or to another object that makes instances.
#[derive(Default)]
struct Class(Mutex<Option<Py<PyAny>>>);

impl Class {
    fn get<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let reference = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reference = reference.as_ref().map(|reference| reference.clone_ref(py));
        let found = reference.map(|reference| reference.bind(py).call0()).transpose()?;
        found.filter(|class| !class.is_none()).ok_or_else(|| {
            error(py, "AlgorithmError", "the class of this algorithm does not exist any more")
        })
    }
}

/// The factory of an entry. It lives as long as the program.
struct Entry<T: 'static> {
    row: &'static Row<T>,
    class: &'static Class,
}

impl<T: Sync + 'static> Entry<T> {
    fn leak(name: &'static str, class: &'static Class, traits: T) -> &'static Self {
        let row = Row {
            name,
            aliases: &[],
            summary: "an algorithm in Python",
            source: "this program",
            parameters: &[],
            traits,
        };
        Box::leak(Box::new(Self { row: Box::leak(Box::new(row)), class }))
    }
}

impl<T: Sync + 'static> Factory for Entry<T> {
    type Traits = T;

    fn row(&self) -> &'static Row<T> {
        self.row
    }
}

impl sched::ExternalFactory for Entry<sched::Traits> {
    fn make(&self, discipline: &Discipline) -> Box<dyn sched::External> {
        let made = Python::attach(|py| {
            let class = self.class.get(py)?;
            PythonScheduler::new(py, &class, discipline.seed())
        });
        Box::new(made.unwrap_or_else(|error| {
            Run::current().fail(error);
            PythonScheduler::failed()
        }))
    }
}

impl aqm::ExternalFactory for Entry<aqm::Traits> {
    fn make(&self, _policy: &Policy, setup: &aqm::Setup) -> Box<dyn aqm::External> {
        let made = Python::attach(|py| PythonAqm::new(py, &self.class.get(py)?, setup));
        match made {
            Ok(made) => Box::new(made),
            Err(error) => {
                Run::current().fail(error);
                Box::new(NoAqm)
            }
        }
    }
}

impl cc::ExternalFactory for Entry<cc::Traits> {
    fn make(&self, _choice: &cc::Choice, setup: &cc::Setup) -> Box<dyn cc::External> {
        let made = Python::attach(|py| PythonControl::new(py, &self.class.get(py)?, setup));
        Box::new(made.unwrap_or_else(|error| {
            Run::current().fail(error);
            PythonControl::failed(setup)
        }))
    }
}

/// Takes the place of an AQM that could not be made, until the run has ended.
#[derive(Debug)]
struct NoAqm;

impl Aqm for NoAqm {
    fn arrive(&mut self, _now: Nanos, _packet: &Seen, _queue: &QueueState) -> Verdict {
        Verdict::Pass
    }

    fn leave(&mut self, _now: Nanos, _packet: &Seen, _queue: &QueueState) -> Verdict {
        Verdict::Pass
    }
}

#[pymethods]
impl Slot {
    /// Adds an entry to the table of `kind`. `flags` are the traits `work_conserving` and
    /// `classifies` of a scheduler, `marks` and `classifies` of an AQM, or `ecn` and `paces` of a
    /// congestion control.
    #[new]
    fn new(kind: &str, name: String, flags: (bool, bool)) -> PyResult<Self> {
        let class: &'static Class = Box::leak(Box::default());
        let name: &'static str = name.leak();
        let added = match kind {
            "Scheduler" => {
                let (work_conserving, classifies) = flags;
                let complexity = "that of the class";
                let traits = sched::Traits {
                    complexity,
                    weighted: false,
                    work_conserving,
                    classifies,
                    flow: &[],
                };
                sched::ADDED.add(Entry::leak(name, class, traits))
            }
            "Aqm" => {
                let (marks, classifies) = flags;
                aqm::ADDED.add(Entry::leak(name, class, aqm::Traits { marks, classifies }))
            }
            _ => {
                let (ecn, paces) = flags;
                let feedback = cc::Feedback::Accurate;
                cc::ADDED.add(Entry::leak(name, class, cc::Traits { feedback, ecn, paces }))
            }
        };
        added.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { class })
    }

    /// Makes the entry refer to the class behind this weak reference.
    fn bind(&self, class: Py<PyAny>) {
        *self.class.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(class);
    }
}
