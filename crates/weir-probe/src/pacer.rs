//! The clock and the schedule of readings, for the methods that keep their pace outside the kernel.

use rustix::time::{ClockId, Timespec, clock_gettime};

use weir_measure::watch::Pace;

/// Maximum sleep of a turn, in ns, so that the caller can stop.
pub(crate) const NAP: u64 = 20_000_000;
/// Below this interval between readings, in ns, a wait spins: a sleeping thread would wake too
/// late.
const SPIN_BELOW: u64 = 100_000;
/// A reader makes up for all readings if it is late by less than this number of intervals.
const CATCH_UP: u64 = 8;

/// The scheduled moments of the readings, and how punctual the readings were.
#[derive(Debug)]
pub(crate) struct Pacer {
    /// The time between two readings in ns; 0 without a rate.
    interval: u64,
    /// The next scheduled moment in ns; 0 before the first wait.
    next: u64,
    /// The time of the last reading in ns; 0 before the first reading.
    last: u64,
    pace: Pace,
}

impl Pacer {
    /// Creates a pacer for `rate` readings per second, or for as many as possible if `rate` is
    /// `None`. `interval` is the time between two readings in ns; 0 without a rate.
    pub(crate) fn new(rate: Option<u64>, interval: u64) -> Pacer {
        Pacer { interval, next: 0, last: 0, pace: Pace { asked: rate, ..Pace::default() } }
    }

    /// Waits for the next scheduled moment, at most for [`NAP`], and returns the time; `None` if
    /// the moment has not been reached by then.
    pub(crate) fn wait(&mut self) -> Option<u64> {
        let mut now = monotonic();
        if self.interval == 0 {
            return Some(now);
        }
        if self.next == 0 {
            self.next = now;
        }
        if self.next > now {
            if self.interval < SPIN_BELOW {
                while now < self.next {
                    std::hint::spin_loop();
                    now = monotonic();
                }
            } else {
                let until = self.next.min(now + NAP);
                sleep_until(until);
                now = monotonic();
                // Either a signal woke the thread early or the moment lies beyond the nap.
                if now < self.next {
                    return None;
                }
            }
        }
        self.step(now);
        Some(now)
    }

    /// Advances to the next scheduled moment. Moments that are skipped count as missed.
    fn step(&mut self, now: u64) {
        let late = now - self.next;
        if late < CATCH_UP * self.interval {
            self.next += self.interval;
        } else {
            let passed = late / self.interval;
            self.pace.missed += passed;
            self.next += (passed + 1) * self.interval;
        }
    }

    pub(crate) fn record_reading(&mut self, time: u64) {
        if self.last != 0 {
            self.pace.gaps.record(time.saturating_sub(self.last));
        }
        self.last = time;
        self.pace.readings += 1;
    }

    /// Records a failed reading. With a rate, it counts as missed.
    pub(crate) fn record_failure(&mut self) {
        self.pace.missed += u64::from(self.interval > 0);
    }

    pub(crate) fn pace(&self) -> Pace {
        self.pace.clone()
    }
}

/// The clock of all readings (`CLOCK_MONOTONIC`), in ns.
pub(crate) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps until `time` or until a signal arrives, so the caller must check the clock again.
pub(crate) fn sleep_until(time: u64) {
    let request =
        Timespec { tv_sec: (time / 1_000_000_000) as i64, tv_nsec: (time % 1_000_000_000) as i64 };
    let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &request);
}

#[cfg(test)]
mod tests {
    use super::Pacer;

    #[test]
    fn a_short_delay_is_made_up_for_and_a_long_one_misses_readings() {
        let mut pacer = Pacer::new(Some(1_000), 1_000_000);
        pacer.next = 10_000_000;
        pacer.step(17_999_999);
        assert_eq!((pacer.next, pacer.pace.missed), (11_000_000, 0));
        pacer.step(31_500_000);
        assert_eq!((pacer.next, pacer.pace.missed), (32_000_000, 20));
    }

    #[test]
    fn gaps_are_counted_only_between_readings() {
        let mut pacer = Pacer::new(None, 0);
        for time in [5, 12, 29] {
            pacer.record_reading(time);
        }
        let pace = pacer.pace();
        assert_eq!((pace.readings, pace.gaps.count(), pace.gaps.longest()), (3, 2, 17));
    }
}
