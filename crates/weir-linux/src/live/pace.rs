//! Waiting for the next event: asleep while it is far, spinning while it is near.
//!
//! A sleeping thread wakes 20 to 300 us late, depending on the machine and what else it does; a
//! spinning one is on time but costs a processor. The loop therefore sleeps until a margin before
//! the event. The adaptive margin follows the lateness that sleeps have shown: it rises by a
//! quarter of what was missing and shrinks by 1/256 of its surplus, which settles where about one
//! sleep in sixty or fewer is later than the margin.
//!
//! With real-time priority a loop that never sleeps is punished: the kernel takes its processor
//! away for 50 ms of every second, so that others live (`sched_rt_runtime_us`, or the fair server,
//! which makes up for what others did not get of their 50 ms). The loop therefore rests by itself,
//! 70 us in somewhat less than a millisecond: some packets leave that much late, instead of a
//! second's worth of 50 ms.

use weir_core::Nanos;

use super::config::Spin;

/// How to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Not at all: look again.
    Spin,
    /// Asleep until this time, unless a frame comes.
    Sleep(Nanos),
}

/// Decides how to wait, and learns.
#[derive(Debug)]
pub(super) struct Pacer {
    spin: Spin,
    margin: Nanos,
    /// When the loop slept last.
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
        // A sleep shorter than a system call takes is none.
        if until <= now.saturating_add(SHORTEST) && !(self.spin == Spin::Off && next > now) {
            Wait::Spin
        } else {
            Wait::Sleep(until)
        }
    }

    /// Learns from a sleep that was to end at `wanted` and, with no frame to end it, did at `woke`.
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

    /// Whether a loop with real-time priority must rest at `now`, with the next event at `next`:
    /// soon where nothing is due, at once when it has been awake for too long.
    pub(super) fn must_rest(&self, now: Nanos, next: Nanos) -> bool {
        let awake = now.since(self.rested);
        awake >= LONGEST_AWAKE || (awake >= LONG_AWAKE && next.since(now) >= ROOM_TO_REST)
    }

    /// Takes note of a sleep that ended at `now`.
    pub(super) fn rested(&mut self, now: Nanos) {
        self.rested = now;
    }

    /// How long before an event the loop spins.
    pub(super) fn margin(&self) -> Nanos {
        self.margin
    }
}

/// How long a rest is.
pub(super) const REST: Nanos = Nanos::from_micros(70);
/// After this long awake the loop rests when nothing is due for [`ROOM_TO_REST`].
const LONG_AWAKE: Nanos = Nanos::from_micros(500);
/// After this long awake it rests in any case: with [`REST`], and what switching takes of it, well
/// over a twentieth of the time, which is what the kernel wants.
const LONGEST_AWAKE: Nanos = Nanos::from_micros(850);
const ROOM_TO_REST: Nanos = Nanos::from_micros(120);
/// Margin before anything was learnt.
const START: Nanos = Nanos::from_micros(80);
const LEAST: Nanos = Nanos::from_micros(20);
const MOST: Nanos = Nanos::from_micros(300);
const SHORTEST: Nanos = Nanos::from_micros(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sleeps_while_far_and_spins_while_near() {
        let pacer = Pacer::new(Spin::Fixed(Nanos(60_000)));
        assert_eq!(pacer.plan(Nanos(0), Nanos(1_000_000)), Wait::Sleep(Nanos(940_000)));
        assert_eq!(pacer.plan(Nanos(950_000), Nanos(1_000_000)), Wait::Spin);
        assert_eq!(pacer.plan(Nanos(2_000_000), Nanos(1_000_000)), Wait::Spin);
        let never = Pacer::new(Spin::Off);
        assert_eq!(never.plan(Nanos(999_999), Nanos(1_000_000)), Wait::Sleep(Nanos(1_000_000)));
        assert_eq!(never.plan(Nanos(1_000_000), Nanos(1_000_000)), Wait::Spin);
    }

    #[test]
    fn it_rests_where_there_is_room_and_soon_in_any_case() {
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
