//! Environments for reinforcement learning: a simulation that runs in steps, and an agent whose
//! decision holds until the next step.
//!
//! The agent is an algorithm in the engine's tables with the name `gym.agent`. It is not Python
//! code: it applies the last action to every packet or acknowledgement, and sums what happens until
//! the environment takes the sums. A simulation belongs to its environment alone, so a process can
//! have any number of environments, in any threads.

mod aqm;
mod control;
mod scheduler;
mod state;

use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use weir_core::Nanos;
use weir_sim::build::{Built, build};
use weir_sim::scenario::Scenario;
use weir_sim::world::World;

use crate::load::{Loaded, Refused, Source, refused};
use state::{Agent, Shared, during, lock};

/// Adds the agents to the tables.
pub(crate) fn add() {
    static ADDED: Once = Once::new();
    ADDED.call_once(|| {
        let added = [
            weir_core::sched::ADDED.add(&scheduler::Factory),
            weir_core::aqm::ADDED.add(&aqm::Factory),
            weir_sim::tcp::cc::ADDED.add(&control::Factory),
        ];
        debug_assert!(added.iter().all(Result::is_ok), "the name is used once in each table");
    });
}

/// A simulation with an agent.
#[pyclass(frozen, module = "weirlab._native")]
pub(crate) struct Environment {
    scenario: Scenario,
    state: Mutex<State>,
}

struct State {
    world: Option<World>,
    agent: Shared,
    now: Nanos,
}

#[pymethods]
impl Environment {
    /// A simulation of a scenario without a sweep.
    #[new]
    fn new(py: Python<'_>, source: Source) -> PyResult<Self> {
        let loaded = py.detach(|| source.load());
        let Loaded { mut points, .. } = loaded.map_err(|error| refused(py, &error))?;
        let (Some(point), true) = (points.pop(), points.is_empty()) else {
            let message = "an environment has one scenario, without a sweep".to_owned();
            return Err(refused(py, &Refused::Words(message)));
        };
        let state = State { world: None, agent: Shared::default(), now: Nanos::ZERO };
        Ok(Self { scenario: point.scenario, state: Mutex::new(state) })
    }

    /// The rate of the slowest link, bit/s; `None` if no link has a rate.
    #[getter]
    fn rate_bps(&self) -> Option<u64> {
        let directions = self.scenario.links.iter().flat_map(|link| &link.directions);
        let rates = directions.map(|direction| direction.spec.pipe.link.capacity.mean_bps());
        rates.filter(|&bps| bps > 0).min()
    }

    /// Length of an episode, ns.
    #[getter]
    fn duration_ns(&self) -> u64 {
        self.scenario.duration.0
    }

    /// Simulated time, ns.
    #[getter]
    fn now_ns(&self) -> u64 {
        self.state().now.0
    }

    /// Begins an episode and simulates the warm-up of the scenario. Returns what happened.
    fn reset(&self, py: Python<'_>, seed: u64, action: Vec<f64>) -> PyResult<Vec<f64>> {
        let made = py.detach(|| {
            let mut state = self.state();
            let agent = Shared::default();
            lock(&agent).action = action;
            let built = during(&agent, || build(&self.scenario, seed));
            let Built { world, .. } = built.map_err(|error| error.to_string())?;
            *state = State { world: Some(world), agent, now: Nanos::ZERO };
            state.run(self.scenario.warmup);
            if !lock(&state.agent).present {
                return Err("no link or flow of the scenario uses `gym.agent`".to_owned());
            }
            Ok(state.take())
        });
        made.map_err(PyValueError::new_err)
    }

    /// Simulates `ns` with an action. Returns what happened, and whether the episode is over.
    fn step(&self, py: Python<'_>, action: Vec<f64>, ns: u64) -> PyResult<(Vec<f64>, bool)> {
        py.detach(|| {
            let mut state = self.state();
            if state.world.is_none() {
                return Err("an environment is reset before its first step");
            }
            lock(&state.agent).action = action;
            let end = state.now.saturating_add(Nanos(ns)).min(self.scenario.duration);
            state.run(end);
            Ok((state.take(), state.now >= self.scenario.duration))
        })
        .map_err(PyRuntimeError::new_err)
    }

    /// Ends the episode and frees its memory.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.state().world = None);
    }
}

impl Environment {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn run(&mut self, end: Nanos) {
        if let Some(world) = &mut self.world {
            during(&self.agent, || world.run(end));
            self.now = end;
        }
    }

    /// What has happened since the last call.
    fn take(&self) -> Vec<f64> {
        let Agent { control, aqm, scheduler, .. } = &mut *lock(&self.agent);
        let mut all = control.take().to_vec();
        all.extend(aqm.take());
        all.extend(scheduler.take(self.now));
        all
    }
}
