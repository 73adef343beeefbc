//! The event heap: for every link its next event, the earliest on top.
//!
//! A 4-ary heap with positions, so that a link's event can be moved in place. Links without an event are not in it, so idle
//! links cost nothing. Equal times are served in the order of link numbers, which makes the order of events total.

use alloc::vec::Vec;

use crate::units::Nanos;

/// Next events of up to 2^32 − 1 links.
#[derive(Debug, Default)]
pub(crate) struct EventHeap {
    entries: Vec<(Nanos, u32)>,
    /// Place of each link in `entries`, or [`ABSENT`].
    places: Vec<u32>,
}

impl EventHeap {
    /// The earliest event and its link.
    pub(crate) fn first(&self) -> Option<(Nanos, u32)> {
        self.entries.first().copied()
    }

    /// Time of the earliest event of any link but the first.
    pub(crate) fn second_time(&self) -> Nanos {
        let children = self.entries.get(1..).unwrap_or_default();
        children.iter().take(ARITY).map(|e| e.0).min().unwrap_or(Nanos::MAX)
    }

    /// Sets a link's next event; [`Nanos::MAX`] removes it.
    pub(crate) fn set(&mut self, link: u32, time: Nanos) {
        if self.places.len() <= link as usize {
            self.places.resize(link as usize + 1, ABSENT);
        }
        let place = self.places[link as usize];
        if place == ABSENT {
            if time != Nanos::MAX {
                self.entries.push((time, link));
                self.sift_up(self.entries.len() - 1);
            }
            return;
        }
        let place = place as usize;
        if time == Nanos::MAX {
            return self.remove(place);
        }
        let old = self.entries[place].0;
        self.entries[place].0 = time;
        if time < old {
            self.sift_up(place);
        } else if time > old {
            self.sift_down(place);
        }
    }

    fn remove(&mut self, place: usize) {
        self.places[self.entries[place].1 as usize] = ABSENT;
        let Some(last) = self.entries.pop() else { return };
        if place < self.entries.len() {
            let smaller = last < self.entries[place];
            self.entries[place] = last;
            if smaller { self.sift_up(place) } else { self.sift_down(place) }
        }
    }

    fn sift_up(&mut self, mut place: usize) {
        let entry = self.entries[place];
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.entries[parent] <= entry {
                break;
            }
            self.put(place, self.entries[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn sift_down(&mut self, mut place: usize) {
        let entry = self.entries[place];
        loop {
            let first = place * ARITY + 1;
            let end = (first + ARITY).min(self.entries.len());
            let Some(least) = (first..end).min_by_key(|&i| self.entries[i]) else { break };
            if entry <= self.entries[least] {
                break;
            }
            self.put(place, self.entries[least]);
            place = least;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (Nanos, u32)) {
        self.entries[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}

/// Children of a node. Four keep a node's children within one cache line.
const ARITY: usize = 4;
/// Not in the heap.
const ABSENT: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(operations in proptest::collection::vec((0u32..40, 0u64..100), 1..300)) {
            let (mut heap, mut model) = (EventHeap::default(), BTreeMap::new());
            for (link, time) in operations {
                let time = if time > 90 { Nanos::MAX } else { Nanos(time) };
                heap.set(link, time);
                if time == Nanos::MAX { model.remove(&link); } else { model.insert(link, time); }
                let expected = model.iter().map(|(&l, &t)| (t, l)).min();
                prop_assert_eq!(heap.first(), expected);
                let second = expected.and_then(|(_, first)| model.iter().filter(|&(&l, _)| l != first).map(|(_, &t)| t).min());
                prop_assert_eq!(heap.second_time(), second.unwrap_or(Nanos::MAX));
            }
        }
    }
}
