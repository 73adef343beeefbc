//! The clocks: monotonic time for the engine, and its offset to wall-clock time for captures.

use rustix::time::{ClockId, clock_gettime};
use weir_core::Nanos;

/// The monotonic clock. The kernel maps it into the process, so this makes no system call.
pub fn now() -> Nanos {
    read(ClockId::Monotonic)
}

/// The offset that turns a time of [`now`] into the time since 1970 (UTC), as of this call.
pub fn wall_offset() -> Nanos {
    // The wall clock is read between two readings of the monotonic clock. Their middle is at most
    // half their distance off.
    let before = now();
    let wall = read(ClockId::Realtime);
    let after = now();
    wall.since(Nanos(before.0 + after.since(before).0 / 2))
}

/// Sleeps for about `span`; timer slack and the machine make it somewhat longer.
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
