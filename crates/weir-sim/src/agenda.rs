//! The agenda: for everybody who waits for a time, that time; and who is next.
//!
//! A tournament: the times stand side by side in groups of four, and above each group the earliest of it, up to one group at the
//! top. A change plays only the matches above it that it decides, at most the logarithm of how many wait; of equal times the one
//! with the lower number wins, so the order is total. A few dozen waiters fill some cache lines, where a heap would move its
//! entries about.

use weir_core::Nanos;

/// Times by number.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Group 0 is the top; below place `j` of group `g` stands group `4g + j + 1`. The lowest level has the waiters' own times.
    groups: Vec<[u64; ARITY]>,
    /// First group of the lowest level.
    lowest: usize,
    earliest: u64,
}

impl Default for Agenda {
    fn default() -> Self {
        Self { groups: vec![[NEVER; ARITY]], lowest: 0, earliest: NEVER }
    }
}

impl Agenda {
    /// The earliest time, [`Nanos::MAX`] when nobody waits.
    #[inline]
    pub(crate) fn earliest(&self) -> Nanos {
        Nanos(self.earliest)
    }

    /// Who is next: the lowest number of those with the earliest time.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        let mut group = 0;
        loop {
            let place = first(&self.groups[group], self.earliest);
            if group >= self.lowest {
                return ((group - self.lowest) * ARITY + place) as u32;
            }
            group = group * ARITY + place + 1;
        }
    }

    /// Sets the time that a number waits for; [`Nanos::MAX`] for none.
    #[inline]
    pub(crate) fn set(&mut self, number: u32, time: Nanos) {
        let mut group = self.lowest + number as usize / ARITY;
        let mut place = number as usize % ARITY;
        if group >= self.groups.len() {
            group = self.grow(number);
        }
        let mut winner = time.0;
        loop {
            let times = &mut self.groups[group];
            if std::mem::replace(&mut times[place], winner) == winner {
                return;
            }
            winner = times[0].min(times[1]).min(times[2].min(times[3]));
            if group == 0 {
                self.earliest = winner;
                return;
            }
            (group, place) = ((group - 1) / ARITY, (group - 1) % ARITY);
        }
    }

    /// Makes room for a number, and says which group it is in.
    #[cold]
    fn grow(&mut self, number: u32) -> usize {
        let old = self.groups.split_off(self.lowest);
        let (mut lowest, mut groups) = (0, 1);
        while groups * ARITY <= number as usize {
            lowest = lowest * ARITY + 1;
            groups *= ARITY;
        }
        *self = Self { groups: vec![[NEVER; ARITY]; lowest + groups], lowest, earliest: NEVER };
        for (number, &time) in old.iter().flatten().enumerate() {
            self.set(number as u32, Nanos(time));
        }
        lowest + number as usize / ARITY
    }
}

/// The first place that has `time`; one has.
#[inline]
fn first(times: &[u64; ARITY], time: u64) -> usize {
    let not = |place: usize| usize::from(times[place] != time);
    not(0) + not(0) * not(1) + not(0) * not(1) * not(2)
}

/// Times in a group.
const ARITY: usize = 4;
/// No time.
const NEVER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_next_is_the_earliest_and_of_equals_the_lowest(changes in prop::collection::vec((0u32..70, 0u64..20), 1..300)) {
            let mut agenda = Agenda::default();
            let mut model = std::collections::BTreeMap::new();
            for (number, time) in changes {
                // Now and then nobody waits there any more.
                let time = if time == 19 { u64::MAX } else { time };
                agenda.set(number, Nanos(time));
                model.insert(number, time);
                let earliest = model.iter().map(|(&n, &t)| (t, n)).min().filter(|&(t, _)| t != u64::MAX);
                prop_assert_eq!(agenda.earliest(), Nanos(earliest.map_or(u64::MAX, |(t, _)| t)));
                if let Some((_, number)) = earliest {
                    prop_assert_eq!(agenda.next(), number);
                }
            }
        }
    }
}
