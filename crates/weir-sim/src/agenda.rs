//! The agenda: for everybody who waits for a time, that time; and who is next.
//!
//! A tournament: waiters stand side by side, and above each two of them the one that is earlier, up to the one at the top, who is next.
//! Of equal times the lower number wins, so the order is total. A change plays the matches on its way to the top: what it plays against
//! is known beforehand, so a processor has it at hand, and there is nothing to guess. Only far down, where a tree of thousands of waiters
//! is too large for that, a change stops at the first match that it does not decide.

use weir_core::Nanos;

/// Times by number.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Node 1 is the top; below node `n` are `2n` and `2n + 1`. An entry is a time in the upper half and a number in the lower.
    nodes: Vec<u128>,
    /// Where waiter 0 stands: behind it the others, in their order.
    leaves: usize,
}

impl Default for Agenda {
    fn default() -> Self {
        Self { nodes: vec![entry(Nanos::MAX, 0); 2], leaves: 1 }
    }
}

impl Agenda {
    /// The earliest time, [`Nanos::MAX`] when nobody waits.
    #[inline]
    pub(crate) fn earliest(&self) -> Nanos {
        Nanos((self.nodes[1] >> 64) as u64)
    }

    /// Who is next: the lowest number of those with the earliest time.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.nodes[1] as u32
    }

    /// Sets the time that a number waits for; [`Nanos::MAX`] for none.
    #[inline]
    pub(crate) fn set(&mut self, number: u32, time: Nanos) {
        if number as usize >= self.leaves {
            self.grow(number);
        }
        let mut node = self.leaves + number as usize;
        let mut winner = entry(time, number);
        self.nodes[node] = winner;
        while node >= NEAR {
            winner = winner.min(self.nodes[node ^ 1]);
            node /= 2;
            if std::mem::replace(&mut self.nodes[node], winner) == winner {
                return;
            }
        }
        while node > 1 {
            winner = winner.min(self.nodes[node ^ 1]);
            node /= 2;
            self.nodes[node] = winner;
        }
    }

    /// Makes room for a number.
    #[cold]
    fn grow(&mut self, number: u32) {
        let old = self.nodes.split_off(self.leaves);
        self.leaves = (number as usize + 1).next_power_of_two();
        self.nodes = vec![entry(Nanos::MAX, 0); self.leaves];
        self.nodes.extend(old);
        self.nodes.resize(2 * self.leaves, entry(Nanos::MAX, 0));
        for node in (1..self.leaves).rev() {
            self.nodes[node] = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
        }
    }
}

fn entry(time: Nanos, number: u32) -> u128 {
    u128::from(time.0) << 64 | u128::from(number)
}

/// Nodes from here on are far from the top.
const NEAR: usize = 256;

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
