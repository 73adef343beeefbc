//! The clock that sender and receiver share, and waiting for a point on it.

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

/// Nanoseconds of the wall clock: the clock of the kernel's receive timestamps.
pub fn now() -> u64 {
    // The wall clock cannot be missing; 0 would show at once in every result.
    clock_gettime(ClockId::CLOCK_REALTIME).map_or(0, nanos)
}

/// A `TimeSpec` in nanoseconds.
pub fn nanos(t: TimeSpec) -> u64 {
    t.tv_sec() as u64 * SECOND + t.tv_nsec() as u64
}

/// Sleeps until a point on the clock; returns at once when it is past.
pub fn sleep_until(deadline: u64) {
    let at = TimeSpec::new((deadline / SECOND) as i64, (deadline % SECOND) as i64);
    // A signal ends the sleep early: go on with what is left.
    while now() < deadline
        && clock_nanosleep(ClockId::CLOCK_REALTIME, ClockNanosleepFlags::TIMER_ABSTIME, &at)
            .is_err()
    {}
}

/// Sleeps to shortly before a point on the clock, then spins, so that the wake-up of an idle
/// processor does not add to it.
pub fn spin_until(deadline: u64) {
    sleep_until(deadline.saturating_sub(SPIN));
    while now() < deadline {
        std::hint::spin_loop();
    }
}

/// Asks the kernel not to round this thread's sleeps up.
pub fn precise_sleeps() {
    // Without it sleeps are 50 us longer: worse, not wrong.
    let _ = nix::sys::prctl::set_timerslack(1);
}

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;
/// How long before a deadline to stop sleeping: the usual lateness of a wake-up.
const SPIN: u64 = 60_000;
