//! The clocks: monotonic time for the engine, and how it stands to wall time for captures.

use rustix::time::{ClockId, clock_gettime};
use weir_core::Nanos;

/// The monotonic clock; no system call, the kernel maps it into the process.
pub fn now() -> Nanos {
    read(ClockId::Monotonic)
}

/// What to add to a time of [`now`] for the time since 1970 (UTC), as it stands at the call.
pub fn wall_offset() -> Nanos {
    // The wall clock is read between two readings of ours: the middle of them is within half the
    // gap of the truth.
    let before = now();
    let wall = read(ClockId::Realtime);
    let after = now();
    wall.since(Nanos(before.0 + after.since(before).0 / 2))
}

/// Sleeps for about `span`; the thread's timer slack and the machine decide how much longer.
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
    fn the_clock_does_not_go_back_and_wall_time_is_after_2020() {
        let first = now();
        assert!(now() >= first);
        assert!(first.saturating_add(wall_offset()) > Nanos::from_secs(1_577_836_800));
    }
}
