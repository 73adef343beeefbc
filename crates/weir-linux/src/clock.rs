//! The clocks: monotonic time for the engine, and its offset to wall-clock time for captures.

use rustix::time::{ClockId, clock_gettime};
use weir_core::Nanos;

/// Reads the monotonic clock. The kernel maps this clock into the process, so the function makes no
/// system call.
pub fn now() -> Nanos {
    read(ClockId::Monotonic)
}

/// The current difference between wall-clock time and monotonic time. A time of [`now`] plus this
/// difference is the time since 1970 (UTC).
pub fn wall_offset() -> Nanos {
    offset_by(now, wall)
}

/// The offset from the best of several readings. Each reading takes the time of the wall clock
/// between two times of the monotonic clock. The middle of the two times is wrong by at most half
/// of the interval between them. An interruption lengthens the interval, so the function uses the
/// reading with the shortest interval.
fn offset_by(mut now: impl FnMut() -> Nanos, mut wall: impl FnMut() -> Nanos) -> Nanos {
    let mut reading = || {
        let before = now();
        let wall = wall();
        let distance = now().since(before);
        (distance, wall.since(Nanos(before.0 + distance.0 / 2)))
    };
    let readings: [_; READINGS] = std::array::from_fn(|_| reading());
    readings.into_iter().min().map_or(Nanos::ZERO, |(_, offset)| offset)
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

/// Number of readings in one measurement of the offset.
const READINGS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_does_not_change_the_offset() {
        // The clocks advance by 40 ns with each reading. An interruption of 46 us follows one
        // reading of the wall clock.
        let interrupted_at = [1, 2, 5];
        for interrupted in interrupted_at {
            let time = std::cell::Cell::new(1_000_000);
            let step = |ns| Nanos(time.replace(time.get() + ns));
            let mut readings = 0;
            let wall = || {
                readings += 1;
                let wall = step(40).0 + 7_000_000_000;
                time.set(time.get() + if readings == interrupted { 46_000 } else { 0 });
                Nanos(wall)
            };
            assert_eq!(offset_by(|| step(40), wall), Nanos(7_000_000_000), "{interrupted}");
        }
    }

    #[test]
    fn the_clock_never_goes_back_and_wall_time_is_after_2020() {
        let first = now();
        assert!(now() >= first);
        assert!(first.saturating_add(wall_offset()) > Nanos::from_secs(1_577_836_800));
    }
}
