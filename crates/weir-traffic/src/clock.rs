//! The monotonic clock, which both ends of a flow share, and functions that wait until a time.
//!
//! All processes of a machine read the same monotonic clock, in every network namespace, and it is
//! never set. The kernel stamps received packets with the wall clock, and [`KernelTime`] converts
//! these timestamps.

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use weir_linux::sys::thread::exact_timers;

/// The current time on the monotonic clock, ns.
pub fn now() -> u64 {
    weir_linux::clock::now().0
}

/// Sleeps until `deadline`, in ns on the clock. Returns at once if the deadline has passed.
pub fn sleep_until(deadline: u64) {
    let at = TimeSpec::new((deadline / SECOND) as i64, (deadline % SECOND) as i64);
    // A signal ends the sleep early; the loop then sleeps for the rest.
    while now() < deadline
        && clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at)
            .is_err()
    {}
}

/// Waits until a time on the clock, usually with an error of less than a microsecond. A sleeping
/// thread wakes late, so the pacer sleeps until shortly before that time and then spins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacer {
    /// How long before the deadline the pacer starts to spin, ns.
    spin_ns: u64,
}

impl Pacer {
    /// For a thread that has a processor to itself. It spins for the usual lateness of a wake-up.
    pub const DEDICATED: Self = Self { spin_ns: 60_000 };
    /// For a thread that shares processors with the link under test. It spins for a shorter time,
    /// because spinning delays the link.
    pub const SHARED: Self = Self { spin_ns: 20_000 };

    /// Asks the kernel not to round up this thread's sleeps. If the kernel refuses, a sleep may be
    /// 50 us longer: packets are sent later, but no result is wrong.
    pub fn prepare_thread() {
        let _ = exact_timers();
    }

    /// Waits until `deadline`, in ns on the clock.
    pub fn wait_until(self, deadline: u64) {
        sleep_until(deadline.saturating_sub(self.spin_ns));
        while now() < deadline {
            std::hint::spin_loop();
        }
    }
}

/// Converts the kernel's receive timestamps to the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelTime {
    /// The wall clock minus the monotonic clock, ns.
    ahead: u64,
}

impl KernelTime {
    /// A conversion with the present difference of the clocks.
    pub(crate) fn current() -> Self {
        Self { ahead: weir_linux::clock::wall_offset().0 }
    }

    /// Follows the wall clock after it was set or slewed. Changes within the error of measurement
    /// are ignored, so that they do not appear as gaps between packets.
    pub(crate) fn refresh(&mut self) {
        let ahead = weir_linux::clock::wall_offset().0;
        if ahead.abs_diff(self.ahead) > TOLERANCE {
            self.ahead = ahead;
        }
    }

    /// Converts a kernel timestamp to nanoseconds of [`now`].
    pub(crate) fn convert(self, time: TimeSpec) -> u64 {
        let wall = time.tv_sec() as u64 * SECOND + time.tv_nsec() as u64;
        wall.saturating_sub(self.ahead)
    }
}

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;
/// Uncertainty of the measured difference between the two clocks, ns.
const TOLERANCE: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_soon_after_its_deadline() {
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
