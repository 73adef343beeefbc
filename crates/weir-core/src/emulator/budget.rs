//! Bounds on the events of one poll, and on the steps of schedules between two polls, so that no
//! configuration keeps the engine from returning.

use crate::units::Nanos;

/// The steps of schedules that may still be applied one by one before the next poll.
#[derive(Debug)]
pub(super) struct StepBudget {
    left: u32,
    /// The time of the current call. A link skips its steps up to this time when its wire is idle
    /// or the budget is used up.
    now: Nanos,
    skipped: u64,
}

impl Default for StepBudget {
    fn default() -> Self {
        Self { left: STEPS_PER_POLL, now: Nanos::ZERO, skipped: 0 }
    }
}

impl StepBudget {
    /// Notes the time of a call of the driver.
    #[inline]
    pub(super) fn begin_call(&mut self, now: Nanos) {
        self.now = now;
    }

    #[inline]
    pub(super) fn refill(&mut self) {
        self.left = STEPS_PER_POLL;
    }

    /// Takes one step from the budget; `false` if none is left.
    pub(super) fn take(&mut self) -> bool {
        let taken = self.left > 0;
        self.left -= u32::from(taken);
        taken
    }

    /// The time up to which a link skips its steps.
    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    pub(super) fn count_skipped(&mut self, steps: u64) {
        self.skipped += steps;
    }

    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }
}

/// The most events that one poll handles: packets that leave a wire or a delay line, steps of
/// schedules, timers of schedulers and events of devices. All events of one link at one time count
/// as one. The bound keeps a poll within some tens of milliseconds, even if more events are due;
/// the driver then sends the departures and polls again.
pub const EVENTS_PER_POLL: usize = 131_072;

/// The most steps that the schedules of all links together apply one by one from one poll to the
/// next. At some tens of nanoseconds each they take about a millisecond. One link alone exceeds
/// this number only if the time between two polls is longer than its steps together: 16 ms with the
/// shortest steps that are allowed, 16 s with steps of 1 ms.
pub const STEPS_PER_POLL: u32 = 16_384;
