//! Schedules: changes of a link's rate, delay and loss over time.
//!
//! When the rate changes, the rest of the packet on the wire continues at the new rate, so that a
//! rate that changes often is integrated exactly.

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use super::Step;
use super::sums::Totals;
use crate::fingerprint::Fingerprint;
use crate::units::Nanos;

/// Changes in ascending order of time, which repeat if there is a period.
#[derive(Clone, Debug)]
pub struct Schedule {
    fingerprint: Fingerprint,
    steps: Vec<(Nanos, Step)>,
    /// For each step, the steps of one period that determine the values in force after this step.
    setters: Vec<Setters>,
    period: Option<Nanos>,
    totals: Totals,
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        // The other fields follow from these.
        (self.fingerprint, self.period, &self.steps)
            == (other.fingerprint, other.period, &other.steps)
    }
}

impl Eq for Schedule {}

impl Hash for Schedule {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fingerprint.hash(state);
    }
}

/// For each value, the last step of a period that set it; `None` if no step has set it yet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Setters {
    capacity: Option<u32>,
    delay: Option<u32>,
    loss: Option<u32>,
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
    /// This step (counted from 0) follows the previous one in less than [`MIN_STEP`].
    #[error("step {0} follows the one before it in less than 1 us")]
    TooClose(usize),
    /// The period ends less than [`MIN_STEP`] after the last step.
    #[error("the schedule repeats before its last step, or less than 1 us after it")]
    PeriodTooShort,
}

impl Schedule {
    /// Makes a schedule from steps at ascending times, repeated every `period` if there is one.
    ///
    /// # Errors
    /// No step, times that do not ascend, steps that are closer than [`MIN_STEP`], or a period
    /// that ends less than [`MIN_STEP`] after the last step.
    pub fn new(steps: Vec<(Nanos, Step)>, period: Option<Nanos>) -> Result<Self, ScheduleError> {
        let Some((last, _)) = steps.last() else {
            return Err(ScheduleError::Empty);
        };
        if let Some(i) = steps.windows(2).position(|w| w[1].0 <= w[0].0) {
            return Err(ScheduleError::NotAscending(i + 1));
        }
        if let Some(i) = steps.windows(2).position(|w| w[1].0.since(w[0].0) < MIN_STEP) {
            return Err(ScheduleError::TooClose(i + 1));
        }
        if period.is_some_and(|period| period.since(*last) < MIN_STEP) {
            return Err(ScheduleError::PeriodTooShort);
        }
        let mut setter = Setters::default();
        let setters = steps.iter().zip(0..).map(|((_, step), number)| {
            setter.capacity = step.capacity.as_ref().map(|_| number).or(setter.capacity);
            setter.delay = step.delay.map(|_| number).or(setter.delay);
            setter.loss = step.loss.map(|_| number).or(setter.loss);
            setter
        });
        let setters = setters.collect();
        let (fingerprint, totals) = (Fingerprint::of(&steps), Totals::of(&steps, period));
        Ok(Self { fingerprint, steps, setters, period, totals })
    }

    /// The steps of one period.
    pub fn steps(&self) -> &[(Nanos, Step)] {
        &self.steps
    }

    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The bytes that a step takes in memory.
    pub const ROW: usize = size_of::<(Nanos, Step)>() + size_of::<Setters>();

    /// The bytes that the steps take in memory.
    pub fn memory(&self) -> usize {
        self.steps.len() * Self::ROW
    }

    /// Whether a step changes the capacity.
    pub fn has_capacity(&self) -> bool {
        self.setters.last().is_some_and(|all| all.capacity.is_some())
    }

    /// Whether a step changes the delay.
    pub fn has_delay(&self) -> bool {
        self.setters.last().is_some_and(|all| all.delay.is_some())
    }

    /// The time after which the schedule repeats; `None` if it does not repeat.
    pub fn period(&self) -> Option<Nanos> {
        self.period
    }

    /// The first step that must be applied after an idle time; `elapsed` is the time since the
    /// start of the schedule. All missed periods except the last are skipped, which leads to the
    /// same values.
    pub(crate) fn step_to_resume_at(&self, elapsed: Nanos) -> u64 {
        let rounds = self.period.map_or(0, |period| elapsed.0 / period.0);
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

    /// The number of the last step up to `elapsed`, the time since the start of the schedule.
    pub(crate) fn last_step_until(&self, elapsed: Nanos) -> Option<u64> {
        let (round, rest) = match self.period {
            Some(period) => (elapsed.0 / period.0, elapsed.0 % period.0),
            None => (0, elapsed.0),
        };
        let within = self.steps.partition_point(|(at, _)| at.0 <= rest) as u64;
        (round * self.steps.len() as u64 + within).checked_sub(1)
    }

    /// All values in force after the `n`-th step, as one step.
    pub(crate) fn in_force_after(&self, n: u64) -> Step {
        let count = self.steps.len() as u64;
        let here = self.setters.get((n % count) as usize).copied().unwrap_or_default();
        let before = self.setters.last().copied().filter(|_| n >= count).unwrap_or_default();
        let step = |own: Option<u32>, earlier: Option<u32>| {
            own.or(earlier).and_then(|number| self.steps.get(number as usize)).map(|(_, step)| step)
        };
        Step {
            capacity: step(here.capacity, before.capacity).and_then(|step| step.capacity.clone()),
            delay: step(here.delay, before.delay).and_then(|step| step.delay),
            loss: step(here.loss, before.loss).and_then(|step| step.loss),
        }
    }
}

/// The least time between two steps, also between the last step and the end of the period. Each
/// step costs the engine some tens of nanoseconds, so a link with closer steps in its schedule
/// could fall behind the clock and never catch up.
pub const MIN_STEP: Nanos = Nanos::from_micros(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Loss;
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
    fn after_idle_periods_only_the_last_period_is_applied() {
        let schedule = Schedule::new(vec![at(0), at(10)], Some(Nanos::from_millis(30))).unwrap();
        assert_eq!(schedule.step_to_resume_at(Nanos::from_millis(29)), 0);
        assert_eq!(schedule.step_to_resume_at(Nanos::from_millis(60)), 2);
        assert_eq!(schedule.step_to_resume_at(Nanos::from_millis(3_000_000)), 199_998);
    }

    #[test]
    fn a_schedule_without_a_period_ends() {
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

    #[test]
    fn steps_and_periods_below_a_microsecond_are_refused() {
        let at = |ns: u64| (Nanos(ns), Step::default());
        let new = |times: &[u64], period| {
            Schedule::new(times.iter().map(|&ns| at(ns)).collect(), period).map(|_| ())
        };
        assert_eq!(new(&[0, 1], None), Err(ScheduleError::TooClose(1)));
        assert_eq!(new(&[0, 5_000, 5_999], None), Err(ScheduleError::TooClose(2)));
        assert_eq!(new(&[0], Some(Nanos(999))), Err(ScheduleError::PeriodTooShort));
        assert_eq!(new(&[0, 1_000], Some(Nanos(2_000))), Ok(()));
    }

    #[test]
    fn the_values_in_force_are_those_of_all_steps_before() {
        let delay = |ms| Step { delay: Some(Nanos::from_millis(ms)), ..Step::default() };
        let loss = Step { loss: Some(Loss::None), ..Step::default() };
        let steps = vec![
            (Nanos(1_000), loss.clone()),
            (Nanos(2_000), delay(7)),
            (Nanos(4_000), Step::default()),
        ];
        let schedule = Schedule::new(steps, Some(Nanos(5_000))).unwrap();
        let last =
            [0, 1_000, 3_999, 4_000, 5_999, 6_000].map(|ns| schedule.last_step_until(Nanos(ns)));
        assert_eq!(last, [None, Some(0), Some(1), Some(2), Some(2), Some(3)]);
        assert_eq!(schedule.in_force_after(0), loss);
        let all = Step { loss: Some(Loss::None), ..delay(7) };
        assert_eq!([2, 3, 5].map(|n| schedule.in_force_after(n)), [all.clone(), all.clone(), all]);
    }
}
