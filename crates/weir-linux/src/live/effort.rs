//! Measures how long a worker spins before events, and how long its longest turn takes.

use weir_core::Nanos;

#[derive(Debug, Default)]
pub(super) struct Effort {
    /// When the thread last woke or recorded a turn.
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
        // The worker sends the packets that were due at 150 until 1,150.
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
