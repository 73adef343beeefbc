//! Timed plans of the page: steps over time, carried out by the server, one plan at a time.
//!
//! A plan continues even if no tab is open, and ends when the command that serves the page ends. A
//! step that fails ends the plan.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::api::DiagnosticView;

/// A checked step of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanStep {
    /// The time after the start of the plan.
    pub at: Duration,
    /// The links that change, with commas between them; none for all, or for commands.
    pub link: Option<String>,
    /// The words of the change; `None` for a step that returns to the state at the start of the
    /// plan.
    pub words: Option<String>,
    /// The line of the plan.
    pub line: usize,
}

/// A plan as the page shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlanView {
    /// The plan as it was written; empty for a plan of the command line.
    pub text: String,
    /// Its steps, in the order of their times.
    pub steps: Vec<StepView>,
    /// The state of the plan.
    pub state: PlanState,
    /// When the plan began, in ns of the monotonic clock; 0 if no plan has begun.
    #[serde(skip)]
    pub began_ns: u64,
    /// When the plan began, in ms since 1970, as the page's server sets it.
    pub began_ms: Option<i64>,
    /// Remarks about the words of the plan.
    pub diagnostics: Vec<DiagnosticView>,
}

/// A step as the page shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StepView {
    /// The time after the start, in ms.
    pub at_ms: f64,
    /// The links that change; none for all, or for commands.
    pub link: Option<String>,
    /// The words of the change, or `reset`.
    pub action: String,
    /// The line of the plan.
    pub line: usize,
    /// When the step was made, in ms after the start; none before that.
    pub done_ms: Option<f64>,
    /// Why the step was not made.
    pub error: Option<String>,
}

/// The state of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// No plan was started.
    #[default]
    None,
    /// Some steps are not made yet.
    Running,
    /// All steps are made.
    Done,
    /// The plan was stopped.
    Stopped,
    /// A step could not be made.
    Failed,
}

/// Why a plan does not start.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A step is wrong.
    #[error("line {line}: {message}")]
    Step {
        /// The line of the plan.
        line: usize,
        /// What is wrong, what is allowed, and what to do.
        message: String,
        /// The places of wrong words.
        diagnostics: Vec<DiagnosticView>,
    },
    /// The plan as a whole is not allowed.
    #[error("{0}")]
    Whole(String),
    /// Another plan runs.
    #[error("a plan runs already; stop it first")]
    Busy,
    /// The links do not answer, there are none, or no thread can be started.
    #[error("{0}")]
    Impossible(String),
}

/// Carries out plans, one at a time. Dropping the planner ends the plan.
#[derive(Debug, Default)]
pub struct Planner {
    /// The plan that runs, or the last one.
    shown: Arc<Mutex<PlanView>>,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    /// Dropping the sender ends the thread.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Planner {
    /// Starts a plan: `act` makes a step. `now_ns` is the present on the monotonic clock.
    ///
    /// # Errors
    /// [`PlanError::Busy`] while another plan runs, [`PlanError::Impossible`] if no thread can be
    /// started.
    pub fn start(
        &self,
        text: &str,
        steps: Vec<PlanStep>,
        now_ns: u64,
        mut act: impl FnMut(&PlanStep) -> Result<(), String> + Send + 'static,
    ) -> Result<PlanView, PlanError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.as_ref().is_some_and(|plan| !plan.thread.is_finished()) {
            return Err(PlanError::Busy);
        }
        let view = PlanView {
            text: text.to_owned(),
            steps: views(&steps),
            state: PlanState::Running,
            began_ns: now_ns,
            ..PlanView::default()
        };
        let (stop, stopped) = channel::<()>();
        let shown = Arc::clone(&self.shown);
        *lock(&shown) = view.clone();
        let began = Instant::now();
        let work = move || {
            let end = |state| lock(&shown).state = state;
            for (number, step) in steps.iter().enumerate() {
                let wait = (began + step.at).saturating_duration_since(Instant::now());
                if !matches!(stopped.recv_timeout(wait), Err(RecvTimeoutError::Timeout)) {
                    return end(PlanState::Stopped);
                }
                let done = catch_unwind(AssertUnwindSafe(|| act(step)))
                    .unwrap_or_else(|_| Err("a fault of Weir ended this step".to_owned()));
                let mut view = lock(&shown);
                if let Some(shown) = view.steps.get_mut(number) {
                    shown.done_ms = done.is_ok().then(|| began.elapsed().as_secs_f64() * 1e3);
                    shown.error = done.as_ref().err().cloned();
                }
                drop(view);
                if done.is_err() {
                    return end(PlanState::Failed);
                }
            }
            end(PlanState::Done);
        };
        let thread = std::thread::Builder::new().name("weir-page-plan".to_owned()).spawn(work);
        match thread {
            Ok(thread) => *running = Some(Running { stop, thread }),
            Err(error) => {
                lock(&self.shown).state = PlanState::Stopped;
                return Err(PlanError::Impossible(format!("no thread could be started: {error}")));
            }
        }
        Ok(view)
    }

    /// Stops the plan that runs, if any; a step that is being made is finished first.
    pub fn stop(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running { stop, thread }) = running {
            drop(stop);
            // The plan's state is shown; the thread has no other result.
            let _ = thread.join();
        }
    }

    /// The plan that runs, or the last one.
    #[must_use]
    pub fn view(&self) -> PlanView {
        lock(&self.shown).clone()
    }
}

impl Drop for Planner {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Steps as the page shows them before they are made.
#[must_use]
pub fn views(steps: &[PlanStep]) -> Vec<StepView> {
    let view = |step: &PlanStep| StepView {
        at_ms: step.at.as_secs_f64() * 1e3,
        link: step.link.clone(),
        action: step.words.clone().unwrap_or_else(|| "reset".to_owned()),
        line: step.line,
        ..StepView::default()
    };
    steps.iter().map(view).collect()
}

fn lock(shown: &Mutex<PlanView>) -> MutexGuard<'_, PlanView> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum number of steps of a plan of the page.
pub const MOST_STEPS: usize = 200;
/// The latest time of a step.
pub const LONGEST_PLAN: Duration = Duration::from_secs(24 * 3600);
/// Maximum length of the text of a plan, in bytes.
pub const MOST_PLAN_TEXT: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn step(ms: u64, words: &str) -> PlanStep {
        let words = Some(words.to_owned());
        PlanStep { at: Duration::from_millis(ms), link: None, words, line: 1 }
    }

    fn ended(planner: &Planner) -> PlanView {
        while planner.view().state == PlanState::Running {
            std::thread::sleep(Duration::from_millis(1));
        }
        planner.view()
    }

    #[test]
    fn steps_are_made_in_order_and_reported() {
        let planner = Planner::default();
        let (told, made) = channel();
        let act = move |step: &PlanStep| told.send(step.words.clone()).map_err(|e| e.to_string());
        planner.start("x", vec![step(0, "a"), step(5, "b")], 7, act).unwrap();
        let view = ended(&planner);
        assert_eq!(view.state, PlanState::Done);
        assert!(view.steps.iter().all(|step| step.done_ms.is_some_and(|ms| ms >= step.at_ms)));
        assert_eq!(made.into_iter().flatten().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((view.text.as_str(), view.began_ns), ("x", 7));
    }

    #[test]
    fn a_step_that_panics_ends_the_plan() {
        let planner = Planner::default();
        planner.start("", vec![step(0, "a"), step(0, "b")], 0, |_| panic!("on purpose")).unwrap();
        let view = ended(&planner);
        assert_eq!(view.state, PlanState::Failed);
        assert!(view.steps[0].error.is_some() && view.steps[1].error.is_none());
    }

    #[test]
    fn there_is_one_plan_at_a_time_and_it_can_be_stopped() {
        let planner = Planner::default();
        let hour = vec![step(3_600_000, "late")];
        planner.start("", hour.clone(), 0, |_| Ok(())).unwrap();
        assert_eq!(planner.start("", hour.clone(), 0, |_| Ok(())), Err(PlanError::Busy));
        planner.stop();
        assert_eq!(planner.view().state, PlanState::Stopped);
        assert_eq!(planner.view().steps[0].done_ms, None);
        planner.start("", hour, 0, |_| Ok(())).unwrap();
        // Dropping the planner ends the thread and waits for it.
    }

    #[test]
    fn a_step_that_fails_ends_the_plan() {
        let planner = Planner::default();
        let act = |step: &PlanStep| match step.words.as_deref() {
            Some("b") => Err("no".to_owned()),
            _ => Ok(()),
        };
        planner.start("", vec![step(0, "a"), step(0, "b"), step(0, "c")], 0, act).unwrap();
        let view = ended(&planner);
        assert_eq!(view.state, PlanState::Failed);
        assert_eq!(view.steps[1].error.as_deref(), Some("no"));
        assert_eq!((view.steps[0].done_ms.is_some(), view.steps[2].done_ms), (true, None));
    }
}
