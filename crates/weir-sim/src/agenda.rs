//! The agenda: for everybody who waits for a time, that time; and who is next.
//!
//! A tournament: the times stand side by side, and above each pair the earlier of both, up to the earliest of all. A change plays
//! only the matches above it that it decides, at most the logarithm of how many there are; of equal times the one with the lower
//! number wins, so the order is total. A few dozen waiters fill some cache lines, where a heap would move its entries about.

use weir_core::Nanos;

/// Times by number.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// `times[1]` is the earliest of all; the children of `n` are `2n` and `2n + 1`; the last half are the waiters' own.
    times: Vec<u64>,
    /// How many can wait: a power of two.
    places: usize,
}

impl Default for Agenda {
    fn default() -> Self {
        Self { times: vec![NEVER; 2], places: 1 }
    }
}

impl Agenda {
    /// The earliest time, [`Nanos::MAX`] when nobody waits.
    #[inline]
    pub(crate) fn earliest(&self) -> Nanos {
        Nanos(self.times[1])
    }

    /// Who is next: the lowest number of those with the earliest time.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        let earliest = self.times[1];
        let mut node = 1;
        while node < self.places {
            node *= 2;
            node += usize::from(self.times[node] != earliest);
        }
        (node - self.places) as u32
    }

    /// Sets the time that a number waits for; [`Nanos::MAX`] for none.
    #[inline]
    pub(crate) fn set(&mut self, number: u32, time: Nanos) {
        if number as usize >= self.places {
            self.grow(number);
        }
        let mut node = self.places + number as usize;
        let mut winner = time.0;
        loop {
            if std::mem::replace(&mut self.times[node], winner) == winner || node == 1 {
                return;
            }
            winner = winner.min(self.times[node ^ 1]);
            node /= 2;
        }
    }

    #[cold]
    fn grow(&mut self, number: u32) {
        let places = (number as usize + 1).next_power_of_two();
        let mut times = vec![NEVER; 2 * places];
        times[places..places + self.places].copy_from_slice(&self.times[self.places..]);
        for node in (1..places).rev() {
            times[node] = times[2 * node].min(times[2 * node + 1]);
        }
        *self = Self { times, places };
    }
}

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
