//! Schedules: changes of a link's rate, delay and loss over time.
//!
//! When the rate changes, the rest of the packet on the wire continues at the new rate, so that a
//! rate that changes often is integrated exactly.

use alloc::vec::Vec;

use super::{Capacity, Loss};
use crate::units::Nanos;

/// The changes at one time; `None` keeps the previous value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// New capacity.
    pub capacity: Option<Capacity>,
    /// New propagation delay, for packets that enter the delay line from now on.
    pub delay: Option<Nanos>,
    /// New loss on the link.
    pub loss: Option<Loss>,
}

/// Changes in ascending order of time, which repeat if there is a period.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    steps: Vec<(Nanos, Step)>,
    period: Option<Nanos>,
}

/// Why steps do not form a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The schedule has no steps.
    #[error("the schedule has no step")]
    Empty,
    /// The times do not ascend at this step (counted from 0).
    #[error("step {0} is not later than the one before it")]
    NotAscending(usize),
    /// The period ends before the last step.
    #[error("the schedule repeats before its last step")]
    PeriodTooShort,
}

impl Schedule {
    /// Makes a schedule from steps at ascending times, repeated every `period` if there is one.
    ///
    /// # Errors
    /// No step, times that do not ascend, or a period that does not reach beyond the last step.
    pub fn new(steps: Vec<(Nanos, Step)>, period: Option<Nanos>) -> Result<Self, ScheduleError> {
        let Some((last, _)) = steps.last() else {
            return Err(ScheduleError::Empty);
        };
        if let Some(i) = steps.windows(2).position(|w| w[1].0 <= w[0].0) {
            return Err(ScheduleError::NotAscending(i + 1));
        }
        if period.is_some_and(|period| period <= *last) {
            return Err(ScheduleError::PeriodTooShort);
        }
        Ok(Self { steps, period })
    }

    /// The steps of one period.
    pub fn steps(&self) -> &[(Nanos, Step)] {
        &self.steps
    }

    /// The time after which the schedule repeats; `None` if it does not repeat.
    pub fn period(&self) -> Option<Nanos> {
        self.period
    }

    /// The first step that must be applied after an idle time; `behind` is the time since the start
    /// of the schedule. All missed periods except the last are skipped, which leads to the same
    /// values.
    pub(crate) fn step_to_resume_at(&self, behind: Nanos) -> u64 {
        let rounds = self.period.map_or(0, |period| behind.0 / period.0);
        rounds.saturating_sub(1) * self.steps.len() as u64
    }

    /// The time of the `n`-th step (counted over all repetitions) since the start of the schedule,
    /// and its changes.
    pub fn step(&self, n: u64) -> Option<(Nanos, &Step)> {
        let count = self.steps.len() as u64;
        let (at, step) = self.steps.get((n % count) as usize)?;
        match (n / count, self.period) {
            (0, _) => Some((*at, step)),
            (round, Some(period)) => {
                Some((Nanos(period.0.checked_mul(round)?.checked_add(at.0)?), step))
            }
            (_, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn at(ms: u64) -> (Nanos, Step) {
        (Nanos::from_millis(ms), Step::default())
    }

    #[test]
    fn steps_repeat_with_the_period() {
        let schedule = Schedule::new(vec![at(0), at(10)], Some(Nanos::from_millis(30))).unwrap();
        let times: Vec<u64> = (0..5).map(|n| schedule.step(n).unwrap().0.0 / 1_000_000).collect();
        assert_eq!(times, [0, 10, 30, 40, 60]);
    }

    #[test]
    fn after_idle_rounds_one_round_is_played() {
        let schedule = Schedule::new(vec![at(0), at(10)], Some(Nanos::from_millis(30))).unwrap();
        assert_eq!(schedule.step_to_resume_at(Nanos::from_millis(29)), 0);
        assert_eq!(schedule.step_to_resume_at(Nanos::from_millis(60)), 2);
        assert_eq!(schedule.step_to_resume_at(Nanos::from_millis(3_000_000)), 199_998);
    }

    #[test]
    fn without_a_period_it_ends() {
        let schedule = Schedule::new(vec![at(5)], None).unwrap();
        assert!(schedule.step(0).is_some() && schedule.step(1).is_none());
    }

    #[test]
    fn bad_schedules_are_refused() {
        assert_eq!(Schedule::new(vec![], None), Err(ScheduleError::Empty));
        assert_eq!(Schedule::new(vec![at(1), at(1)], None), Err(ScheduleError::NotAscending(1)));
        assert_eq!(
            Schedule::new(vec![at(5)], Some(Nanos::from_millis(5))),
            Err(ScheduleError::PeriodTooShort)
        );
    }
}
