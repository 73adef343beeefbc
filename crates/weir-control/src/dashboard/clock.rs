//! The clock of the page: the machine's monotonic clock plus two days, so that moments up to two
//! days before the start of the machine have a time on it too.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// The time of the page's clock, in ns.
#[must_use]
pub fn now_ns() -> u64 {
    on_page(monotonic_ns())
}

/// Converts a time of the monotonic clock to the page's clock, both in ns.
#[must_use]
pub fn on_page(monotonic_ns: u64) -> u64 {
    monotonic_ns + AHEAD_NS
}

/// A moment on the clocks of a machine. Its time on the page's clock can still be computed after a
/// restart of the process or of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// The kernel's boot ID at the moment; zeros if it is unknown.
    pub(super) boot: [u8; 16],
    /// The monotonic clock, in ns.
    pub(super) monotonic_ns: u64,
    /// The time since 1970, in ms.
    pub(super) wall_ms: u64,
}

impl Moment {
    pub(super) fn now() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            boot: boot().unwrap_or_default(),
            monotonic_ns: monotonic_ns(),
            wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The time of `earlier` on the page's clock, in ns; `self` is the present. `known` is the
    /// newest known moment with the boot ID of `earlier`. The monotonic clock gives the time
    /// between these two moments, so steps of the wall clock do not change it. `None` for a moment
    /// after the present or before the page's clock begins.
    pub(super) fn place(&self, earlier: &Self, known: &Self) -> Option<u64> {
        let now = on_page(self.monotonic_ns);
        if earlier.boot == self.boot && self.boot != [0; 16] {
            // Distances on the monotonic clock are true, however the wall clock was set.
            let is_past = earlier.monotonic_ns <= self.monotonic_ns;
            return is_past.then(|| on_page(earlier.monotonic_ns));
        }
        let before = known.monotonic_ns.checked_sub(earlier.monotonic_ns)?;
        let ago = self.wall_ms.checked_sub(known.wall_ms)?.checked_mul(1_000_000)?;
        now.checked_sub(ago.checked_add(before)?)
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

fn boot() -> Option<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

/// How far the page's clock is ahead of the monotonic clock: two days, in ns.
const AHEAD_NS: u64 = 2 * 86_400_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn moment(boot: u8, seconds: u64, wall_s: u64) -> Moment {
        let monotonic_ns = seconds * SECOND;
        Moment { boot: [boot; 16], monotonic_ns, wall_ms: wall_s * 1000 }
    }

    #[test]
    fn moments_of_the_same_start_have_their_distance_whatever_the_clock_says() {
        let now = moment(1, 5_000, 1_000_000);
        for wall_s in [0, 999_990, 2_000_000] {
            let earlier = moment(1, 4_990, wall_s);
            assert_eq!(now.place(&earlier, &earlier), Some(on_page(4_990 * SECOND)));
        }
        let later = moment(1, 5_001, 1_000_000);
        assert_eq!(now.place(&later, &later), None);
    }

    #[test]
    fn moments_before_the_start_of_the_machine_have_a_time() {
        let now = moment(2, 60, 1_000_000);
        let known = moment(1, 90_000, 999_900);
        // The wall clock was wrong at the placed moments.
        let place = |seconds| now.place(&moment(1, seconds, 5), &known);
        assert_eq!(place(90_000), Some(on_page(60 * SECOND) - 100 * SECOND));
        assert_eq!(place(89_990), Some(on_page(60 * SECOND) - 110 * SECOND));
        assert_eq!(place(90_001), None);
        // A clock that was set back puts the known moment after the present.
        assert_eq!(now.place(&known, &moment(1, 90_000, 1_000_001)), None);
        let early = moment(1, 90_000, 0);
        assert_eq!(now.place(&early, &early), None, "before the page's clock begins");
        for boot in [2, 3] {
            let hostile = Moment { boot: [boot; 16], monotonic_ns: u64::MAX, wall_ms: 0 };
            assert_eq!(now.place(&hostile, &hostile), None);
        }
        assert!(now.place(&moment(0, 1, 999_999), &moment(0, 1, 999_999)).is_some());
    }

    #[test]
    fn the_present_is_a_moment_of_this_start() {
        let (one, two) = (Moment::now(), Moment::now());
        assert_eq!(one.boot, two.boot);
        assert!(two.place(&one, &one).is_some_and(|at| at <= now_ns()));
    }
}
