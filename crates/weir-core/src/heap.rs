//! The event heap: next events of links, the earliest on top. It stands in front of the wheel,
//! which has the rest.
//!
//! A 4-ary heap with positions, so that a link's event can be moved in place. Equal times are
//! served in the order of link numbers, which makes the order of events total.

use alloc::vec::Vec;

use crate::units::Nanos;

/// Next events of up to 2^32 − 1 links.
///
/// An entry is the time in the upper half and the link in the lower: one comparison of integers
/// orders both, and each half is read as it was written, in one piece.
#[derive(Debug, Default)]
pub(crate) struct EventHeap {
    entries: Vec<u128>,
    /// Place of each link in `entries`, or [`ABSENT`].
    places: Vec<u32>,
}

impl EventHeap {
    /// The earliest event and its link.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Nanos, u32)> {
        self.entries.first().map(|&e| (time(e), link(e)))
    }

    /// Events in it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Time of the earliest event of any link but the first.
    #[inline]
    pub(crate) fn second_time(&self) -> Nanos {
        let children = self.entries.get(1..).unwrap_or_default();
        children.iter().take(ARITY).min().map_or(Nanos::MAX, |&e| time(e))
    }

    /// Sets a link's next event; [`Nanos::MAX`] removes it.
    #[inline(always)]
    pub(crate) fn set(&mut self, link: u32, time: Nanos) {
        // The whole heap where there is one busy link.
        if let [only] = &mut self.entries[..]
            && self::link(*only) == link
            && time != Nanos::MAX
        {
            *only = entry(time, link);
            return;
        }
        self.set_among_others(link, time);
    }

    #[inline(never)]
    fn set_among_others(&mut self, link: u32, time: Nanos) {
        let place = self.places.get(link as usize).copied().unwrap_or(ABSENT);
        let Some(old) = self.entries.get_mut(place as usize) else {
            if time != Nanos::MAX {
                self.insert(link, time);
            }
            return;
        };
        if time == Nanos::MAX {
            return self.remove(place as usize);
        }
        let (old, new) = (core::mem::replace(old, entry(time, link)), entry(time, link));
        if new < old {
            self.sift_up(place as usize, new);
        } else {
            self.sift_down(place as usize, new);
        }
    }

    fn insert(&mut self, link: u32, time: Nanos) {
        if self.places.len() <= link as usize {
            self.places.resize(link as usize + 1, ABSENT);
        }
        let new = entry(time, link);
        self.entries.push(new);
        self.sift_up(self.entries.len() - 1, new);
    }

    fn remove(&mut self, place: usize) {
        let old = self.entries[place];
        self.places[link(old) as usize] = ABSENT;
        let Some(last) = self.entries.pop() else { return };
        if place < self.entries.len() {
            if last < old { self.sift_up(place, last) } else { self.sift_down(place, last) }
        }
    }

    /// Puts `entry` at the free `place`, or as far above it as it belongs.
    fn sift_up(&mut self, mut place: usize, entry: u128) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            let above = self.entries[parent];
            if above <= entry {
                break;
            }
            self.put(place, above);
            place = parent;
        }
        self.put(place, entry);
    }

    /// Puts `entry` at the free `place`, or as far below it as it belongs.
    fn sift_down(&mut self, mut place: usize, entry: u128) {
        loop {
            let first = place * ARITY + 1;
            let below = self.entries.get(first..).unwrap_or_default();
            let (child, least) = match below.first_chunk::<ARITY>() {
                Some(children) => least_of(children),
                None => match below.iter().copied().enumerate().min_by_key(|c| c.1) {
                    Some(least) => least,
                    None => break,
                },
            };
            if entry <= least {
                break;
            }
            self.put(place, least);
            place = first + child;
        }
        self.put(place, entry);
    }

    #[inline]
    fn put(&mut self, place: usize, entry: u128) {
        self.entries[place] = entry;
        self.places[link(entry) as usize] = place as u32;
    }
}

/// The least of a node's children and which it is, as a tournament: which child wins is as good as
/// random, so that a processor would guess wrong; here there is nothing to guess.
#[inline]
fn least_of(children: &[u128; ARITY]) -> (usize, u128) {
    let [a, b, c, d] = *children;
    let (left, l) = if b < a { (1, b) } else { (0, a) };
    let (right, r) = if d < c { (3, d) } else { (2, c) };
    if r < l { (right, r) } else { (left, l) }
}

fn entry(time: Nanos, link: u32) -> u128 {
    u128::from(time.0) << 64 | u128::from(link)
}

fn time(entry: u128) -> Nanos {
    Nanos((entry >> 64) as u64)
}

fn link(entry: u128) -> u32 {
    entry as u32
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
