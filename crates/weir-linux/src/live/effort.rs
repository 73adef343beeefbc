//! Measures how a worker spends its time: how long it spins before events, and how long its longest
//! turn takes. The loop reads the clock once a turn anyway, so this costs only a comparison.

use weir_core::Nanos;

/// The time that a worker spent spinning, and its longest turn.
#[derive(Debug, Default)]
pub(super) struct Effort {
    /// When the thread last woke or last read the clock in a turn, whichever was later.
    since: Nanos,
    /// Whether packets were due at `since`.
    active: bool,
    /// The time spent spinning since the start.
    spun: Nanos,
    /// The longest turn since [`Self::take_longest`].
    longest: Nanos,
}

impl Effort {
    /// Records the time `now` in the middle of a turn: after the worker received frames and before
    /// it sends packets. `busy` says whether it received any, and `due` whether any are due.
    #[inline]
    pub(super) fn turn(&mut self, now: Nanos, busy: bool, due: bool) {
        let span = now.since(self.since);
        if self.active || busy {
            self.longest = self.longest.max(span);
        } else {
            self.spun += span;
        }
        (self.since, self.active) = (now, due);
    }

    /// Records that the thread begins to sleep at `now`.
    pub(super) fn sleeps(&mut self, now: Nanos) {
        if self.active {
            self.longest = self.longest.max(now.since(self.since));
        }
    }

    /// Records that the thread woke at `now`.
    pub(super) fn woke(&mut self, now: Nanos) {
        (self.since, self.active) = (now, false);
    }

    /// The time spent spinning since the start.
    pub(super) fn spun(&self) -> Nanos {
        self.spun
    }

    /// The longest turn since the last call.
    pub(super) fn take_longest(&mut self) -> Nanos {
        std::mem::take(&mut self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_is_told_apart_from_work_and_sleep() {
        let mut effort = Effort::default();
        effort.woke(Nanos(100));
        effort.turn(Nanos(110), false, false);
        effort.turn(Nanos(150), false, true);
        // Packets that were due at 150 were sent until the next reading of the clock.
        effort.turn(Nanos(1_150), false, false);
        effort.sleeps(Nanos(1_160));
        effort.woke(Nanos(9_000));
        effort.turn(Nanos(9_500), true, false);
        assert_eq!((effort.spun(), effort.take_longest()), (Nanos(50), Nanos(1_000)));
        effort.turn(Nanos(9_600), false, true);
        effort.sleeps(Nanos(12_000));
        assert_eq!((effort.spun(), effort.take_longest()), (Nanos(150), Nanos(2_400)));
        assert_eq!(effort.take_longest(), Nanos::ZERO);
    }
}
