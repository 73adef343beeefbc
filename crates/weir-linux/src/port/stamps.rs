//! Converts the kernel's timestamps of frames, which are wall-clock times, to monotonic times.
//!
//! The wall clock may be set or slewed at any time, and a delay that starts at a wrong arrival time
//! is shortened or lengthened. The offset between the clocks is therefore checked for every batch
//! of frames. After a step it is unknown whether a frame was stamped before or after the step;
//! frames then count as arriving when they are read.

use weir_core::Nanos;

/// Both clocks at nearly the same moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) wall: Nanos,
    /// Monotonic time, read after `wall`. A pause between the two readings makes the offset too
    /// small and the arrival times too late, which shortens no delay.
    pub(super) monotonic: Nanos,
}

impl Reading {
    fn offset(self) -> Nanos {
        self.wall.since(self.monotonic)
    }
}

#[derive(Debug)]
pub(super) struct Stamps {
    /// Wall-clock time minus monotonic time.
    offset: Nanos,
    /// The monotonic time until which timestamps may be from before a step of the wall clock.
    doubtful_until: Nanos,
    /// The monotonic time of the last check.
    checked: Nanos,
}

impl Stamps {
    /// Measures the offset; `read` reads the clocks.
    pub(super) fn new(read: impl FnMut() -> Reading) -> Self {
        let mut new =
            Self { offset: Nanos::ZERO, doubtful_until: Nanos::ZERO, checked: Nanos::ZERO };
        new.offset = new.measure(read);
        new
    }

    /// Checks the offset after a batch of frames was received and before they are converted.
    #[inline]
    pub(super) fn check(&mut self, mut read: impl FnMut() -> Reading) {
        let reading = read();
        self.checked = reading.monotonic;
        if reading.offset().0.abs_diff(self.offset.0) > TOLERANCE.0 {
            self.follow(read);
        }
    }

    /// Measures the offset again, and notices a step.
    #[cold]
    pub(super) fn follow(&mut self, read: impl FnMut() -> Reading) {
        let offset = self.measure(read);
        if offset.0.abs_diff(self.offset.0) > LEAST_STEP.0 {
            self.doubtful_until = self.checked.saturating_add(LONGEST_QUEUED);
        }
        self.offset = offset;
    }

    /// The arrival time of a frame, from its timestamp (0 for a frame without one). `None` if the
    /// arrival time is unknown.
    #[inline]
    pub(super) fn arrival(&self, wall_ns: u64) -> Option<Nanos> {
        let known = wall_ns != 0 && self.checked >= self.doubtful_until;
        known.then(|| Nanos(wall_ns).since(self.offset))
    }

    /// The largest offset of several readings. A pause within a reading only makes the offset
    /// smaller.
    fn measure(&mut self, mut read: impl FnMut() -> Reading) -> Nanos {
        let readings: [Reading; READINGS] = std::array::from_fn(|_| read());
        self.checked = readings[READINGS - 1].monotonic;
        readings.into_iter().map(Reading::offset).max().unwrap_or_default()
    }
}

/// Number of readings in one measurement of the offset.
const READINGS: usize = 3;
/// A check measures the offset again if the offset differs from the known one by more than this.
/// The thread was then preempted, or the wall clock was slewed or set.
const TOLERANCE: Nanos = Nanos::from_micros(20);
/// The least change of the offset that counts as a step. At 500 ppm, slewing takes two seconds to
/// change the offset by this much.
const LEAST_STEP: Nanos = Nanos::from_millis(1);
/// The longest time for which a frame is assumed to wait in a socket's buffer. Older timestamps are
/// not trusted.
pub(crate) const LONGEST_QUEUED: Nanos = Nanos::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Clocks that a test sets.
    struct Clocks {
        monotonic: u64,
        wall: u64,
    }

    impl Clocks {
        fn read(&self) -> Reading {
            Reading { wall: Nanos(self.wall), monotonic: Nanos(self.monotonic) }
        }

        fn pass(&mut self, ns: u64) {
            self.monotonic += ns;
            self.wall += ns;
        }
    }

    fn started() -> (Clocks, Stamps) {
        let clocks = Clocks { monotonic: 5 * SECOND, wall: 1_000_000 * SECOND };
        let stamps = Stamps::new(|| clocks.read());
        (clocks, stamps)
    }

    /// A frame arrives at a step of the wall clock by `step` ns and is read `wait` ns later.
    /// Returns the true arrival time, and the arrival time from the timestamp.
    fn read_after_step(step: i64, wait: u64) -> (u64, Option<Nanos>) {
        let (mut clocks, mut stamps) = started();
        clocks.pass(SECOND / 2);
        clocks.wall = clocks.wall.saturating_add_signed(step);
        let (arrived, stamp) = (clocks.monotonic, clocks.wall);
        clocks.pass(wait);
        stamps.check(|| clocks.read());
        (arrived, stamps.arrival(stamp))
    }

    #[test]
    fn no_step_of_the_wall_clock_moves_an_arrival_into_the_past() {
        for step in [-99_000_000, -50_000_000, -2_000_000, 2_000_000, 50_000_000, 3_000_000_000] {
            let (arrived, seen) = read_after_step(step, 20_000);
            assert!(
                seen.is_none_or(|seen| seen.0 >= arrived),
                "a step by {step} ns moves an arrival from {arrived} to {seen:?}"
            );
        }
    }

    #[test]
    fn frames_from_before_a_step_do_not_arrive_in_the_past() {
        let (mut clocks, mut stamps) = started();
        let stamp = clocks.wall;
        clocks.pass(10_000);
        clocks.wall += 60_000_000;
        // The check of one batch notices the step; the frame is in the next batch.
        stamps.check(|| clocks.read());
        clocks.pass(10_000);
        stamps.check(|| clocks.read());
        assert_eq!(stamps.arrival(stamp), None);
        clocks.pass(LONGEST_QUEUED.0);
        let (arrived, stamp) = (clocks.monotonic, clocks.wall);
        clocks.pass(10_000);
        stamps.check(|| clocks.read());
        assert_eq!(stamps.arrival(stamp), Some(Nanos(arrived)));
    }

    #[test]
    fn without_a_step_arrivals_are_exact_and_slewing_is_followed() {
        assert_eq!(
            read_after_step(0, 70_000),
            (5 * SECOND + SECOND / 2, Some(Nanos(5_500_000_000)))
        );
        let (mut clocks, mut stamps) = started();
        // A clock that runs 0.1 % slow.
        for _ in 0..10_000 {
            clocks.pass(100_000);
            clocks.wall -= 100;
            let (arrived, stamp) = (clocks.monotonic, clocks.wall);
            stamps.check(|| clocks.read());
            let seen = stamps.arrival(stamp).expect("slewing is no step");
            assert!(seen.0.abs_diff(arrived) <= TOLERANCE.0);
        }
    }

    #[test]
    fn a_pause_between_the_readings_is_no_step() {
        let (mut clocks, mut stamps) = started();
        clocks.pass(1_000);
        let mut first = true;
        stamps.check(|| {
            let mut reading = clocks.read();
            if std::mem::take(&mut first) {
                reading.monotonic.0 += 5_000_000;
            }
            reading
        });
        assert_eq!(stamps.arrival(clocks.wall), Some(Nanos(clocks.monotonic)));
    }
}
