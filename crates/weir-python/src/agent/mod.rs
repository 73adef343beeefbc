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
use std::time::{Duration, Instant};

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

/// The current episode, if there is one.
struct State {
    /// The simulated network; `None` outside an episode.
    world: Option<World>,
    agent: Shared,
    /// Simulated time.
    now: Nanos,
}

#[pymethods]
impl Environment {
    /// Makes an environment from a scenario without a sweep.
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

    /// Begins an episode and simulates the warm-up of the scenario. Returns the agent's sums. If a
    /// signal interrupts the warm-up, no episode has begun.
    fn reset(&self, py: Python<'_>, seed: u64, action: Vec<f64>) -> PyResult<Vec<f64>> {
        let made = py.detach(|| {
            let agent = Shared::default();
            lock(&agent).action = action;
            let built = during(&agent, || build(&self.scenario, seed));
            let Built { world, .. } = built.map_err(|error| error.to_string())?;
            *self.state() = State { world: Some(world), agent, now: Nanos::ZERO };
            Ok(())
        });
        made.map_err(PyValueError::new_err::<String>)?;
        self.run(py, self.scenario.warmup).inspect_err(|_| self.state().world = None)?;
        let state = self.state();
        if !lock(&state.agent).present {
            return Err(PyValueError::new_err("no link or flow of the scenario uses `gym.agent`"));
        }
        Ok(state.take())
    }

    /// Simulates `ns` with an action. Returns the agent's sums, and whether the episode is over. If
    /// a signal interrupts the step, the next step continues at that moment.
    fn step(&self, py: Python<'_>, action: Vec<f64>, ns: u64) -> PyResult<(Vec<f64>, bool)> {
        let end = {
            let state = self.state();
            if state.world.is_none() {
                let message = "an environment is reset before its first step";
                return Err(PyRuntimeError::new_err(message));
            }
            lock(&state.agent).action = action;
            state.now.saturating_add(Nanos(ns)).min(self.scenario.duration)
        };
        self.run(py, end)?;
        let state = self.state();
        Ok((state.take(), state.now >= self.scenario.duration))
    }

    /// Ends the episode and frees its memory.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.state().world = None);
    }
}

impl Environment {
    /// Simulates until `end`, in slices between which Python handles signals. The slices change
    /// nothing in the simulation.
    fn run(&self, py: Python<'_>, end: Nanos) -> PyResult<()> {
        let mut slice = FIRST_SLICE;
        loop {
            let (now, took) = py.detach(|| {
                let began = Instant::now();
                let mut state = self.state();
                let until = state.now.saturating_add(slice).min(end);
                state.run(until);
                (state.now, began.elapsed())
            });
            if now >= end {
                return Ok(());
            }
            py.check_signals()?;
            // The next slice should take between SHORT and LONG of real time, so that a person
            // hardly notices the wait.
            slice = match took {
                took if took < SHORT => Nanos(slice.0.saturating_mul(2)),
                took if took > LONG => Nanos((slice.0 / 2).max(1)),
                _ => slice,
            };
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn run(&mut self, end: Nanos) {
        if let Some(world) = &mut self.world {
            during(&self.agent, || world.run(end));
        }
        // Another thread may have ended the episode: nothing is left to do then.
        self.now = end.max(self.now);
    }

    /// The agent's sums since the last call.
    fn take(&self) -> Vec<f64> {
        let Agent { control, aqm, scheduler, .. } = &mut *lock(&self.agent);
        let mut all = control.take().to_vec();
        all.extend(aqm.take());
        all.extend(scheduler.take(self.now));
        all
    }
}

/// The simulated time after which Python handles signals for the first time: longer than a usual
/// step, which then is one slice.
const FIRST_SLICE: Nanos = Nanos(1_000_000_000);
/// The bounds of a slice's real time.
const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_millis(80);
