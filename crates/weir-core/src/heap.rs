//! A 4-ary heap with the least entry on top, in which entries can be moved.
//!
//! Each entry belongs to an owner, such as a link or a flow. The users of the heap are the event
//! queue and the schedulers that rank packets. They change the key of an existing owner far more
//! often than they add an owner. A vector of the caller stores the index of each owner's entry;
//! several heaps can share the vector if no owner is in two of them.
//!
//! `std`'s heap cannot move an entry. This heap compares the children of a node without branches,
//! which saves 40 % of the instructions per packet in `pifo` with 1,000 flows (1,080 instead of
//! 1,795).

use alloc::vec::Vec;

/// A key with the number of its owner. No two entries of a heap are equal.
pub(crate) trait Entry: Copy + Ord {
    fn owner(self) -> u32;
}

/// A heap of up to 2^32 − 1 owners.
#[derive(Debug)]
pub(crate) struct Heap<E> {
    entries: Vec<E>,
}

impl<E> Default for Heap<E> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<E: Entry> Heap<E> {
    #[inline]
    pub(crate) fn first(&self) -> Option<E> {
        self.entries.first().copied()
    }

    #[inline]
    pub(crate) fn second(&self) -> Option<E> {
        let below = self.entries.get(1..)?;
        match below.first_chunk::<ARITY>() {
            Some(children) => Some(least_of(children).1),
            None => below.iter().copied().min(),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry, if there is exactly one. Its key can be changed in place.
    #[inline]
    pub(crate) fn single_mut(&mut self) -> Option<&mut E> {
        match &mut self.entries[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Sets the entry of `owner`; `None` removes it.
    #[inline]
    pub(crate) fn set(&mut self, indices: &mut Vec<u32>, owner: u32, entry: Option<E>) {
        let index = indices.get(owner as usize).copied().unwrap_or(ABSENT);
        match (entry, self.entries.get(index as usize).copied()) {
            (Some(entry), Some(old)) if entry < old => self.sift_up(indices, index as usize, entry),
            (Some(entry), Some(_)) => self.sift_down(indices, index as usize, entry),
            (Some(entry), None) => self.insert(indices, entry),
            (None, Some(_)) => self.remove(indices, index as usize),
            (None, None) => {}
        }
    }

    /// Adds the entry of an owner that has no entry yet.
    #[inline]
    pub(crate) fn insert(&mut self, indices: &mut Vec<u32>, entry: E) {
        if indices.len() <= entry.owner() as usize {
            indices.resize(entry.owner() as usize + 1, ABSENT);
        }
        self.entries.push(entry);
        self.sift_up(indices, self.entries.len() - 1, entry);
    }

    fn remove(&mut self, indices: &mut [u32], index: usize) {
        let old = self.entries[index];
        indices[old.owner() as usize] = ABSENT;
        let Some(last) = self.entries.pop() else { return };
        if index < self.entries.len() {
            if last < old {
                self.sift_up(indices, index, last);
            } else {
                self.sift_down(indices, index, last);
            }
        }
    }

    /// Puts `entry` at the free `index`, or moves it up to where it belongs.
    fn sift_up(&mut self, indices: &mut [u32], mut index: usize, entry: E) {
        while index > 0 {
            let parent = (index - 1) / ARITY;
            let above = self.entries[parent];
            if above <= entry {
                break;
            }
            self.put(indices, index, above);
            index = parent;
        }
        self.put(indices, index, entry);
    }

    /// Puts `entry` at the free `index`, or moves it down to where it belongs.
    fn sift_down(&mut self, indices: &mut [u32], mut index: usize, entry: E) {
        loop {
            let first = index * ARITY + 1;
            let below = match self.entries.get(first..) {
                Some(below) if !below.is_empty() => below,
                _ => break,
            };
            let (child, least) = match below.first_chunk::<ARITY>() {
                Some(children) => least_of(children),
                None => least_of_last(below),
            };
            if entry <= least {
                break;
            }
            self.put(indices, index, least);
            index = first + child;
        }
        self.put(indices, index, entry);
    }

    /// Stores `entry` at `index`, and the index in `indices`.
    #[inline]
    fn put(&mut self, indices: &mut [u32], index: usize, entry: E) {
        self.entries[index] = entry;
        indices[entry.owner() as usize] = index as u32;
    }
}

/// The least child of a node, and its index. The children are compared in pairs, without branches,
/// because a processor can hardly predict which child is the least.
#[inline]
fn least_of<E: Entry>(children: &[E; ARITY]) -> (usize, E) {
    let [a, b, c, d] = *children;
    let (left, l) = if b < a { (1, b) } else { (0, a) };
    let (right, r) = if d < c { (3, d) } else { (2, c) };
    if r < l { (right, r) } else { (left, l) }
}

/// The least child of the last node with children, which has fewer children than other nodes.
#[inline]
fn least_of_last<E: Entry>(children: &[E]) -> (usize, E) {
    let (mut child, mut least) = (0, children[0]);
    for (i, &other) in children.iter().enumerate().skip(1) {
        if other < least {
            (child, least) = (i, other);
        }
    }
    (child, least)
}

/// Number of children of a node. Four children fit into one or two cache lines.
const ARITY: usize = 4;
/// The index of an owner without an entry in the heap.
const ABSENT: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    impl Entry for (u64, u32) {
        fn owner(self) -> u32 {
            self.1
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(
            operations in proptest::collection::vec(
                (0u32..40, proptest::option::of(0u64..90)),
                1..300,
            ),
        ) {
            let (mut heap, mut indices, mut model) = (Heap::default(), Vec::new(), BTreeMap::new());
            for (owner, key) in operations {
                heap.set(&mut indices, owner, key.map(|key| (key, owner)));
                match key {
                    Some(key) => model.insert(owner, key),
                    None => model.remove(&owner),
                };
                let mut sorted: Vec<_> = model.iter().map(|(&owner, &key)| (key, owner)).collect();
                sorted.sort_unstable();
                prop_assert_eq!(heap.first(), sorted.first().copied());
                prop_assert_eq!(heap.second(), sorted.get(1).copied());
                prop_assert_eq!(heap.len(), sorted.len());
            }
        }
    }
}
