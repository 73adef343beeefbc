//! The length of a queue over time: its minimum, maximum and mean in each period, over the whole
//! watch and over its last seconds.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::series::{Envelope, Period, Periods};

/// The state of a queue during a period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueuePeriod {
    /// Number of waiting packets. Each value has as its weight the number of readings that found it
    /// or, if events report every change, the ns for which it lasted.
    pub packets: Envelope,
    /// Waiting bytes, weighted like `packets`.
    pub bytes: Envelope,
    /// Packets dropped within the period, according to the counters.
    pub drops: u64,
}

impl QueuePeriod {
    /// Includes a queue length with a weight.
    pub fn include(&mut self, packets: u32, bytes: u32, weight: u64) {
        self.packets.include(packets.into(), weight);
        self.bytes.include(bytes.into(), weight);
    }
}

impl Period for QueuePeriod {
    fn merge(&mut self, next: &Self) {
        self.packets.merge(&next.packets);
        self.bytes.merge(&next.bytes);
        self.drops += next.drops;
    }
}

/// An empty sequence of periods for a queue over a whole watch. It begins at `origin_ns` and has at
/// most `capacity` periods.
pub(super) fn periods(origin_ns: u64, capacity: usize) -> Periods<QueuePeriod> {
    Periods::new(origin_ns, FIRST_WIDTH, capacity)
}

/// A queue over the last seconds, for a live view: periods of 100 ms.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// The number of the last period.
    slot: u64,
    /// The last length: packets and bytes.
    level: (u32, u32),
    periods: VecDeque<QueuePeriod>,
}

impl Recent {
    /// Length of a period, ns.
    pub const WIDTH: u64 = 100_000_000;
    /// Number of periods kept.
    pub const KEPT: usize = 128;

    /// The periods, the oldest first. Each period but the first begins with the last length of the
    /// period before it, with a weight of 0. The last period is unfinished.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &QueuePeriod> + ExactSizeIterator {
        self.periods.iter()
    }

    /// Packets dropped per second over the last ten finished periods, which are one second, or over
    /// fewer periods at the start; 0 before the first period has ended.
    #[must_use]
    pub fn drops_per_second(&self) -> f64 {
        let finished: Vec<u64> =
            self.periods.iter().rev().skip(1).take(10).map(|period| period.drops).collect();
        let seconds = finished.len() as f64 * (Recent::WIDTH as f64 / 1e9);
        if finished.is_empty() { 0.0 } else { finished.iter().sum::<u64>() as f64 / seconds }
    }

    pub(super) fn include(&mut self, time: u64, packets: u32, bytes: u32, weight: u64) {
        self.reach(time).include(packets, bytes, weight);
        self.level = (packets, bytes);
    }

    pub(super) fn count_drops(&mut self, time: u64, drops: u64) {
        self.reach(time).drops += drops;
    }

    /// The period that contains `time`; adds the periods up to it.
    fn reach(&mut self, time: u64) -> &mut QueuePeriod {
        let slot = time / Recent::WIDTH;
        if self.periods.is_empty() {
            self.slot = slot;
            self.periods.push_back(QueuePeriod::default());
        }
        let passed = slot.saturating_sub(self.slot);
        self.slot += passed;
        for _ in 0..passed.min(Recent::KEPT as u64) {
            if self.periods.len() == Recent::KEPT {
                self.periods.pop_front();
            }
            let mut held = QueuePeriod::default();
            held.include(self.level.0, self.level.1, 0);
            self.periods.push_back(held);
        }
        self.periods.back_mut().expect("one was pushed above if there was none")
    }
}

/// Width of a period before any are merged, ns: close to the shortest interval between readings.
const FIRST_WIDTH: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_periods_hold_the_length_where_nothing_was_read() {
        let mut recent = Recent::default();
        recent.include(0, 7, 700, 1);
        recent.include(3 * Recent::WIDTH, 1, 100, 1);
        recent.count_drops(3 * Recent::WIDTH + 1, 4);
        recent.include(4 * Recent::WIDTH, 1, 100, 1);
        let most: Vec<u64> = recent.iter().map(|period| period.packets.max()).collect();
        assert_eq!(most, [7, 7, 7, 7, 1]);
        assert_eq!(recent.drops_per_second(), 10.0);
        recent.include(u64::MAX / 2, 2, 200, 1);
        assert_eq!(recent.iter().len(), Recent::KEPT);
    }
}
