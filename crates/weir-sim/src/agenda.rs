//! The agenda: the time of each waiter's next event, and the earliest of these times.
//!
//! The agenda is a tournament tree. Waiters form groups of four. The earliest of each group moves
//! up one level, where four winners form a group again, and so on up to the top, which is the next
//! waiter. Of equal times the lower number wins, so the order is total. A change replays the
//! matches from the changed waiter to the top. Far from the top, where a tree of thousands of
//! waiters no longer fits into the cache, a change stops at the first match with an unchanged
//! winner.
//!
//! A heap costs more: in `examples/sim_cost.rs` a packet took 2,030 instructions with a 4-ary heap
//! and 1,664 with the first version of this tree (see `docs/adr/0007-simulator.md`).
//!
//! # Keys
//! A match compares the waiters' keys. A key is one number. Its high bits are the time since a
//! base. Its low bits are the waiter's number, in as many bits as the highest number needs, rounded
//! up to an even number.
//!
//! ```text
//! time since the base, or `far`, or `none`   number
//! 63                              bits      bits − 1          0
//! ```
//!
//! A time too far from the base to fit is stored as `far`. Its exact value is needed only when all
//! nearer times have passed; the base then moves to the earliest remaining time. With a million
//! waiters that happens every five hours, with 64 waiters every nine years.

use weir_core::Nanos;

/// The time of each waiter, by number.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Group 0 is the top. The winner of group `g > 0` is a member of group `(g − 1) / 4`, at index
    /// `(g − 1) mod 4`.
    groups: Vec<[u64; 4]>,
    /// The group of waiter 0. The groups of the other waiters follow in order.
    leaves: usize,
    /// The winner of group 0.
    top: u64,
    /// Number of bits of a key that hold the waiter's number.
    bits: u32,
    /// The time that is 0 in the keys.
    base: Nanos,
    /// The exact time of each waiter.
    times: Vec<Nanos>,
}

impl Default for Agenda {
    fn default() -> Self {
        let mut agenda = Self {
            groups: Vec::new(),
            leaves: 0,
            top: 0,
            bits: 0,
            base: Nanos::ZERO,
            times: Vec::new(),
        };
        agenda.grow(0);
        agenda
    }
}

impl Agenda {
    /// The earliest time; [`Nanos::MAX`] if nothing waits.
    #[inline]
    pub(crate) fn earliest(&mut self) -> Nanos {
        let offset = self.top >> self.bits;
        if offset < self.far() {
            return Nanos(self.base.0 + offset);
        }
        self.earliest_far()
    }

    /// The waiter with the time that [`Self::earliest`] returned; of several, the lowest number.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        (self.top & ((1 << self.bits) - 1)) as u32
    }

    /// Sets the time of a waiter; [`Nanos::MAX`] if it does not wait.
    #[inline]
    pub(crate) fn set(&mut self, number: u32, time: Nanos) {
        if number as usize >= self.times.len() {
            self.grow(number);
        }
        self.times[number as usize] = time;
        if time < self.base {
            return self.rebuild(time);
        }
        let mut winner = self.key(number, time);
        let (mut group, mut index) = (self.leaves + number as usize / 4, number as usize % 4);
        while group >= FIRST_FAR {
            winner = self.play(group, index, winner);
            (group, index) = above(group);
            if self.groups[group][index] == winner {
                return;
            }
        }
        while group > 0 {
            winner = self.play(group, index, winner);
            (group, index) = above(group);
        }
        self.top = self.play(0, index, winner);
    }

    /// Stores a key at an index of a group. Returns the winner of the group.
    #[inline(always)] // Measured: see `network::path`.
    fn play(&mut self, group: usize, index: usize, key: u64) -> u64 {
        let group = &mut self.groups[group];
        let others = group[index ^ 1].min(group[index ^ 2]).min(group[index ^ 3]);
        group[index] = key;
        key.min(others)
    }

    #[inline]
    fn key(&self, number: u32, time: Nanos) -> u64 {
        let offset = if time == Nanos::MAX {
            self.far() + 1
        } else {
            time.since(self.base).0.min(self.far())
        };
        offset << self.bits | u64::from(number)
    }

    /// The high bits of the keys of times that are too far from the base. The next larger value
    /// belongs to waiters that do not wait.
    #[inline]
    fn far(&self) -> u64 {
        (u64::MAX >> self.bits) - 1
    }

    /// Handles a top that is `far` or `none`: moves the base if a waiter has a time.
    #[cold]
    fn earliest_far(&mut self) -> Nanos {
        if self.top >> self.bits > self.far() {
            return Nanos::MAX;
        }
        let earliest = self.times.iter().min().copied().unwrap_or(Nanos::MAX);
        self.rebuild(earliest);
        earliest
    }

    #[cold]
    fn grow(&mut self, number: u32) {
        self.leaves = 0;
        self.bits = 2;
        while number >> self.bits > 0 {
            self.leaves = 4 * self.leaves + 1;
            self.bits += 2;
        }
        self.times.resize(1 << self.bits, Nanos::MAX);
        self.groups = vec![[0; 4]; self.leaves + self.times.len() / 4];
        self.rebuild(self.base);
    }

    /// Replays all matches, with times since `base`.
    #[cold]
    fn rebuild(&mut self, base: Nanos) {
        self.base = base;
        for number in 0..self.times.len() {
            self.groups[self.leaves + number / 4][number % 4] =
                self.key(number as u32, self.times[number]);
        }
        for group in (1..self.groups.len()).rev() {
            let (upper, index) = above(group);
            self.groups[upper][index] = winner(&self.groups[group]);
        }
        self.top = winner(&self.groups[0]);
    }
}

/// Where a group's winner is stored one level up: the group, and the index within that group.
#[inline]
fn above(group: usize) -> (usize, usize) {
    ((group - 1) / 4, (group - 1) % 4)
}

fn winner(&[a, b, c, d]: &[u64; 4]) -> u64 {
    a.min(b).min(c).min(d)
}

/// Groups from this number on are far from the top. They exist only with more than 256 waiters.
const FIRST_FAR: usize = 85;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Times that are near and far, ascending and descending, and sometimes no waiter at all.
        #[test]
        fn the_next_waiter_is_the_earliest_and_of_equal_times_the_lowest(
            most in prop::sample::select(vec![3u32, 70, 3000]),
            changes in prop::collection::vec((any::<u32>(), 0u64..20, prop::sample::select(vec![0u32, 0, 30, 58, 63])), 1..300),
        ) {
            let mut agenda = Agenda::default();
            let mut model = std::collections::BTreeMap::new();
            for (number, time, shift) in changes {
                let number = number % most;
                let time = if time == 19 { u64::MAX } else { time << shift };
                agenda.set(number, Nanos(time));
                model.insert(number, time);
                let earliest =
                    model.iter().map(|(&n, &t)| (t, n)).min().filter(|&(t, _)| t != u64::MAX);
                prop_assert_eq!(agenda.earliest(), Nanos(earliest.map_or(u64::MAX, |(t, _)| t)));
                if let Some((_, number)) = earliest {
                    prop_assert_eq!(agenda.next(), number);
                }
            }
        }
    }
}
