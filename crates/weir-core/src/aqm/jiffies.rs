//! The periods of Linux's timers, for the variants that follow Linux.
//!
//! Linux counts time in ticks, `HZ` per second, and keeps timers in a wheel. The wheel has levels
//! of 64 slots each. The slots of a level are 8 times as long as the slots of the level below. A
//! timer goes to the lowest level that reaches its time, and runs at the first end of a slot that
//! is later than its time. A timer that starts itself again after `n` ticks therefore has a period
//! of `n + 1` ticks if `n` is at most 63. For a larger `n`, the period is the next larger multiple
//! of the level's slot length.

use crate::settings::Count;
use crate::units::NANOS_PER_SEC;

/// The period in ns of a timer that starts itself again after `time` ns, with `hz` ticks per
/// second. Linux rounds the time up to whole ticks.
pub(crate) fn period(time: u64, hz: u32) -> u64 {
    let ticks = (u128::from(time) * u128::from(hz)).div_ceil(u128::from(NANOS_PER_SEC));
    span(on_the_wheel(u64::try_from(ticks).unwrap_or(u64::MAX)), hz)
}

/// The time of `ticks` ticks in ns.
pub(crate) fn span(ticks: u64, hz: u32) -> u64 {
    let nanos = u128::from(ticks) * u128::from(NANOS_PER_SEC) / u128::from(hz.max(1));
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

/// The ticks from one run of a timer to the next, if each run starts it again for `ticks` ticks.
fn on_the_wheel(ticks: u64) -> u64 {
    let reached = |level: u32| ticks <= LAST_SLOT << (LEVEL_BITS * level);
    let level = (0..LAST_LEVEL).find(|&level| reached(level)).unwrap_or(LAST_LEVEL);
    let slot = 1 << (LEVEL_BITS * level);
    (ticks / slot + 1).saturating_mul(slot)
}

/// The number of the last slot of a level.
const LAST_SLOT: u64 = 63;
/// The slots of a level are `2^LEVEL_BITS` times as long as the slots of the level below.
const LEVEL_BITS: u32 = 3;
/// The number of the highest level.
const LAST_LEVEL: u32 = 8;

/// The setting `hz`.
pub(crate) const HZ: Count =
    Count::new(100, 1000, "ticks/s", 250, "for `linux`: the kernel's ticks per second (HZ)");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_runs_at_the_next_end_of_a_slot() {
        const MS: u64 = 1_000_000;
        for (time, hz, expected) in [
            (15 * MS, 250, 20 * MS),
            (16 * MS, 250, 20 * MS),
            (8 * MS, 250, 12 * MS),
            (15 * MS, 1000, 16 * MS),
            (1_000, 1000, 2 * MS),
            // 63 ticks are the last of the first level, 504 the last of the second.
            (63 * MS, 1000, 64 * MS),
            (64 * MS, 1000, 72 * MS),
            (500 * MS, 250, 512 * MS),
            (504 * MS, 1000, 512 * MS),
            (505 * MS, 1000, 512 * MS),
            (10_000 * MS, 300, 3008 * 1_000_000_000 / 300),
        ] {
            assert_eq!(period(time, hz), expected, "{time} {hz}");
        }
        assert!(period(u64::MAX, 1000) > u64::MAX / 2);
    }
}
