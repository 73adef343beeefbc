//! Decides how the loop waits for the next event: it sleeps while the event is far away, and spins
//! while it is near.
//!
//! A sleeping thread wakes 20 to 300 us late, depending on the machine and its load. A spinning
//! thread is on time but occupies a processor. The loop therefore sleeps until a margin before the
//! event. The adaptive margin follows the observed lateness of sleeps. After a sleep that was later
//! than the margin, the margin rises by a quarter of the difference. After any other sleep, it
//! shrinks by 1/256 of the difference.
//!
//! The kernel throttles a real-time thread that never sleeps: it gives the processor to other
//! threads for up to 50 ms of every second (by `sched_rt_runtime_us`, or by the fair server). The
//! loop therefore rests voluntarily, for 70 us at a time, at least once a millisecond. Some packets
//! are then 70 us late. Without the rests, some packets would be 50 ms late once a second.

use weir_core::Nanos;

use super::config::Spin;

/// The next wait of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Check again at once, without waiting.
    Spin,
    /// Sleep until this time, or until a frame arrives.
    Sleep(Nanos),
}

/// Chooses how to wait, and adapts the margin to past sleeps.
#[derive(Debug)]
pub(super) struct Pacer {
    spin: Spin,
    margin: Nanos,
    /// The end of the last sleep of at least [`REST`].
    rested: Nanos,
}

impl Pacer {
    pub(super) fn new(spin: Spin) -> Self {
        let margin = match spin {
            Spin::Adaptive => START,
            Spin::Fixed(margin) => margin,
            Spin::Off => Nanos::ZERO,
        };
        Self { spin, margin, rested: Nanos::ZERO }
    }

    /// How to wait at `now` for an event at `next`.
    pub(super) fn plan(&self, now: Nanos, next: Nanos) -> Wait {
        let until = next.saturating_sub(self.margin);
        if until <= now.saturating_add(SHORTEST) && !(self.spin == Spin::Off && next > now) {
            Wait::Spin
        } else {
            Wait::Sleep(until)
        }
    }

    /// Adapts the margin after a sleep that no frame ended. The sleep should have ended at `wanted`
    /// and ended at `woke`.
    pub(super) fn overslept(&mut self, wanted: Nanos, woke: Nanos) {
        if self.spin != Spin::Adaptive {
            return;
        }
        let late = woke.since(wanted).0.min(MOST.0);
        let margin = self.margin.0;
        let next = if late > margin {
            margin + (late - margin) / 4 + 1
        } else {
            margin - (margin - late) / 256
        };
        self.margin = Nanos(next).clamp(LEAST, MOST);
    }

    /// Whether a loop with real-time priority must rest at `now`, when the next event is at `next`.
    /// After [`LONG_AWAKE`] it rests if nothing is due soon. After [`LONGEST_AWAKE`] it rests in
    /// any case.
    pub(super) fn must_rest(&self, now: Nanos, next: Nanos) -> bool {
        let awake = now.since(self.rested);
        awake >= LONGEST_AWAKE || (awake >= LONG_AWAKE && next.since(now) >= ROOM_TO_REST)
    }

    /// Records a sleep of at least [`REST`] that ended at `now`.
    pub(super) fn rested(&mut self, now: Nanos) {
        self.rested = now;
    }

    /// How long before an event the loop starts to spin.
    pub(super) fn margin(&self) -> Nanos {
        self.margin
    }
}

/// The length of a rest.
pub(super) const REST: Nanos = Nanos::from_micros(70);
/// After this time awake, the loop rests if nothing is due for [`ROOM_TO_REST`].
const LONG_AWAKE: Nanos = Nanos::from_micros(500);
/// After this time awake, the loop rests in any case. [`REST`] is then more than a twentieth of the
/// time, which is the kernel's demand.
const LONGEST_AWAKE: Nanos = Nanos::from_micros(850);
/// A rest fits before the next event if the event is at least this far away.
const ROOM_TO_REST: Nanos = Nanos::from_micros(120);
/// The margin before the first sleep.
const START: Nanos = Nanos::from_micros(80);
/// The range of the adaptive margin.
const LEAST: Nanos = Nanos::from_micros(20);
const MOST: Nanos = Nanos::from_micros(300);
/// The shortest sleep, except with [`Spin::Off`]. The system call alone takes about as long.
const SHORTEST: Nanos = Nanos::from_micros(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_sleeps_before_far_events_and_spins_before_near_ones() {
        let pacer = Pacer::new(Spin::Fixed(Nanos(60_000)));
        assert_eq!(pacer.plan(Nanos(0), Nanos(1_000_000)), Wait::Sleep(Nanos(940_000)));
        assert_eq!(pacer.plan(Nanos(950_000), Nanos(1_000_000)), Wait::Spin);
        assert_eq!(pacer.plan(Nanos(2_000_000), Nanos(1_000_000)), Wait::Spin);
        let off = Pacer::new(Spin::Off);
        assert_eq!(off.plan(Nanos(999_999), Nanos(1_000_000)), Wait::Sleep(Nanos(1_000_000)));
        assert_eq!(off.plan(Nanos(1_000_000), Nanos(1_000_000)), Wait::Spin);
    }

    #[test]
    fn the_loop_rests_before_far_events_and_after_a_long_time_in_any_case() {
        let mut pacer = Pacer::new(Spin::Adaptive);
        pacer.rested(Nanos::from_millis(10));
        let at = |us| Nanos::from_millis(10) + Nanos::from_micros(us);
        assert!(!pacer.must_rest(at(400), Nanos::MAX));
        assert!(pacer.must_rest(at(600), Nanos::MAX));
        assert!(!pacer.must_rest(at(600), at(620)));
        assert!(pacer.must_rest(at(900), at(901)));
        pacer.rested(at(900));
        assert!(!pacer.must_rest(at(901), Nanos::MAX));
    }

    #[test]
    fn the_margin_follows_the_lateness_within_its_bounds() {
        let mut pacer = Pacer::new(Spin::Adaptive);
        for _ in 0..200 {
            pacer.overslept(Nanos(0), Nanos(150_000));
        }
        assert!((145_000..=155_000).contains(&pacer.margin().0), "{}", pacer.margin());
        for _ in 0..100 {
            pacer.overslept(Nanos(0), Nanos(50_000_000));
        }
        assert!(pacer.margin() <= MOST);
        for _ in 0..10_000 {
            pacer.overslept(Nanos(0), Nanos(1_000));
        }
        assert_eq!(pacer.margin(), LEAST);
    }
}
