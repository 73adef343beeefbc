//! The clock that both ends of a stream share, and waiting for a point on it.
//!
//! It is the monotonic clock: every process of a machine reads the same one, in whatever network
//! namespace it is, and the clock is never set. The kernel stamps received packets with the wall
//! clock; [`KernelTime`] converts its stamps.

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use weir_linux::sys::thread::exact_timers;

/// Nanoseconds of the monotonic clock.
pub fn now() -> u64 {
    weir_linux::clock::now().0
}

/// Sleeps until a point on the clock, in ns; returns at once when it is past.
pub fn sleep_until(deadline: u64) {
    let at = TimeSpec::new((deadline / SECOND) as i64, (deadline % SECOND) as i64);
    // A signal ends the sleep early: sleep again for the rest.
    while now() < deadline
        && clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at)
            .is_err()
    {}
}

/// Waits for points on the clock to within a microsecond: it sleeps to shortly before, then spins,
/// because a sleeping thread wakes late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacer {
    spin_ns: u64,
}

impl Pacer {
    /// For a thread that has a processor to itself: spins for the usual lateness of a wake-up.
    pub const DEDICATED: Self = Self { spin_ns: 60_000 };
    /// For a thread that shares processors with the link under test, which a longer spin delays.
    pub const SHARED: Self = Self { spin_ns: 20_000 };

    /// Asks the kernel not to round this thread's sleeps up. Without that, sleeps are 50 us longer:
    /// the thread is later, but no result is wrong.
    pub fn prepare_thread() {
        let _ = exact_timers();
    }

    /// Waits until a point on the clock, in ns.
    pub fn wait_until(self, deadline: u64) {
        sleep_until(deadline.saturating_sub(self.spin_ns));
        while now() < deadline {
            std::hint::spin_loop();
        }
    }
}

/// Converts the kernel's receive timestamps to this clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelTime {
    /// How far the wall clock is ahead of the monotonic one, in ns.
    ahead: u64,
}

impl KernelTime {
    /// The conversion as of now.
    pub(crate) fn current() -> Self {
        Self { ahead: weir_linux::clock::wall_offset().0 }
    }

    /// Follows the wall clock when it was set or slewed. A difference that the two readings of the
    /// clocks explain is ignored, so that it does not show in the gaps between packets.
    pub(crate) fn refresh(&mut self) {
        let ahead = weir_linux::clock::wall_offset().0;
        if ahead.abs_diff(self.ahead) > TOLERANCE {
            self.ahead = ahead;
        }
    }

    /// A kernel timestamp as nanoseconds of [`now`].
    pub(crate) fn convert(self, time: TimeSpec) -> u64 {
        let wall = time.tv_sec() as u64 * SECOND + time.tv_nsec() as u64;
        wall.saturating_sub(self.ahead)
    }
}

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;
/// Uncertainty of a comparison of the two clocks, in ns.
const TOLERANCE: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_end_after_their_deadline_and_not_much_later() {
        let deadline = now() + 3_000_000;
        Pacer::SHARED.wait_until(deadline);
        let late = now() - deadline;
        assert!(late < SECOND, "{late} ns late");
    }

    #[test]
    fn kernel_timestamps_are_on_the_monotonic_clock() {
        let kernel = KernelTime::current();
        let before = now();
        let wall = nix::time::clock_gettime(ClockId::CLOCK_REALTIME).unwrap();
        let converted = kernel.convert(wall);
        assert!(converted + TOLERANCE >= before && converted <= now() + TOLERANCE);
    }
}
