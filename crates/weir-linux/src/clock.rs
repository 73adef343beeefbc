//! The clocks: monotonic time for the engine, and its offset to wall-clock time for captures.

use rustix::time::{ClockId, clock_gettime};
use weir_core::Nanos;

/// Reads the monotonic clock. The kernel maps this clock into the process, so the function makes no
/// system call.
pub fn now() -> Nanos {
    read(ClockId::Monotonic)
}

/// The current difference between wall-clock time and monotonic time: added to a time of [`now`],
/// it gives the time since 1970 (UTC).
pub fn wall_offset() -> Nanos {
    // The wall clock is read between two readings of the monotonic clock. The middle of these two
    // is off by at most half their distance.
    let before = now();
    let wall = self::wall();
    let after = now();
    wall.since(Nanos(before.0 + after.since(before).0 / 2))
}

/// Reads the wall clock: the time since 1970 (UTC).
pub(crate) fn wall() -> Nanos {
    read(ClockId::Realtime)
}

/// Sleeps for at least `span`. Timer slack and the machine's load make the sleep longer.
pub fn sleep(span: Nanos) {
    std::thread::sleep(std::time::Duration::from_nanos(span.0));
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    Nanos(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back_and_wall_time_is_after_2020() {
        let first = now();
        assert!(now() >= first);
        assert!(first.saturating_add(wall_offset()) > Nanos::from_secs(1_577_836_800));
    }
}
