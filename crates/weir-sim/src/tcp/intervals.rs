//! Data that has arrived out of order: a set of byte ranges. A selective acknowledgement reports
//! the ranges that grew last, so their order is kept.

use std::collections::VecDeque;

/// A range of bytes: the first byte, and the first byte after the range.
pub(super) type Range = (u64, u64);

/// Disjoint ranges in sequence order, with gaps between them, and the ranges that grew last.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    ranges: VecDeque<Range>,
    /// The first byte of each of the ranges that grew last, the latest range first.
    latest: [u64; LATEST],
    latest_len: usize,
}

impl Intervals {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds a range and returns how many of its bytes are new.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> u64 {
        // Only ranges that end at `start` or later can be joined.
        let first = match self.ranges.back() {
            None => 0,
            Some(&(_, last)) if last < start => self.ranges.len(),
            Some(_) => self.ranges.partition_point(|range| range.1 < start),
        };
        let (mut low, mut high, mut known, mut joined) = (start, end, 0, 0);
        while let Some(&(s, e)) = self.ranges.get(first + joined).filter(|range| range.0 <= end) {
            (low, high) = (low.min(s), high.max(e));
            known += e.min(end).saturating_sub(s.max(start));
            self.forget(s);
            joined += 1;
        }
        if joined == 0 {
            self.ranges.insert(first, (low, high));
        } else {
            self.ranges[first] = (low, high);
            self.ranges.drain(first + 1..first + joined);
        }
        self.latest.copy_within(..LATEST - 1, 1);
        self.latest[0] = low;
        self.latest_len = (self.latest_len + 1).min(LATEST);
        end - start - known
    }

    /// Removes the ranges that begin at or before `next`. Returns the end of the last of them, or
    /// `next` if all bytes of these ranges are before `next`.
    pub(super) fn take(&mut self, next: u64) -> u64 {
        let mut reached = next;
        while let Some(&(start, end)) = self.ranges.front().filter(|range| range.0 <= reached) {
            reached = reached.max(end);
            self.forget(start);
            self.ranges.pop_front();
        }
        reached
    }

    /// Whether the set contains all bytes of a range.
    pub(super) fn contains(&self, start: u64, end: u64) -> bool {
        let index = self.ranges.partition_point(|range| range.1 < end);
        self.ranges.get(index).is_some_and(|range| range.0 <= start && end <= range.1)
    }

    /// The ranges that grew last, the latest first.
    pub(super) fn latest(&self) -> impl Iterator<Item = Range> + '_ {
        self.latest[..self.latest_len].iter().filter_map(|&start| {
            let index = self.ranges.partition_point(|range| range.0 < start);
            self.ranges.get(index).copied()
        })
    }

    fn forget(&mut self, start: u64) {
        if let Some(index) = self.latest[..self.latest_len].iter().position(|&s| s == start) {
            self.latest.copy_within(index + 1..self.latest_len, index);
            self.latest_len -= 1;
        }
    }
}

/// Number of latest ranges that are remembered.
const LATEST: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_range_that_grew_last_is_reported_first() {
        let mut set = Intervals::default();
        set.insert(10, 20);
        set.insert(30, 40);
        set.insert(50, 60);
        set.insert(20, 25);
        assert_eq!(set.latest().collect::<Vec<_>>(), [(10, 25), (50, 60), (30, 40)]);
        set.insert(25, 30);
        assert_eq!(set.latest().collect::<Vec<_>>(), [(10, 40), (50, 60)]);
        assert_eq!(set.take(10), 40);
        assert_eq!(set.latest().collect::<Vec<_>>(), [(50, 60)]);
    }

    #[test]
    fn the_oldest_of_too_many_ranges_is_not_reported() {
        let mut set = Intervals::default();
        for n in 0..6 {
            set.insert(n * 10, n * 10 + 5);
        }
        assert_eq!(set.latest().map(|range| range.0).collect::<Vec<_>>(), [50, 40, 30, 20]);
    }

    proptest! {
        #[test]
        fn intervals_are_a_set_of_bytes(inserts in prop::collection::vec((1u64..200, 1u64..30), 1..60)) {
            let mut set = Intervals::default();
            let mut bytes = std::collections::BTreeSet::new();
            for (start, len) in inserts {
                let new = (start..start + len).filter(|&byte| bytes.insert(byte)).count() as u64;
                prop_assert_eq!(set.insert(start, start + len), new);
                prop_assert!(set.contains(start, start + len));
                prop_assert!(
                    set.latest().next().is_some_and(|(s, e)| s <= start && start + len <= e)
                );
                let total: u64 = set.ranges.iter().map(|range| range.1 - range.0).sum();
                prop_assert_eq!(total, bytes.len() as u64);
                prop_assert!(
                    set.ranges.iter().zip(set.ranges.iter().skip(1)).all(|(a, b)| a.1 < b.0)
                );
            }
            let first = *bytes.first().unwrap();
            let end = (first..).find(|byte| !bytes.contains(byte)).unwrap();
            prop_assert_eq!(set.take(first), end);
        }
    }
}
