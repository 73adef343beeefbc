//! Measures how far the order of service differs from the order of ranks: a sorted set of the ranks
//! inside, and counts that each service updates.

use alloc::vec::Vec;

use crate::rng::{Purpose, Stream};

/// The counters of a scheduler that serves packets approximately by rank.
///
/// A served packet forms an inverted pair with each packet inside that has a lower rank.
/// `unpifoness` is the sum of the differences of ranks over all such pairs of a run, as SP-PIFO's
/// authors define it.
#[derive(Debug, Default)]
pub struct Inversions {
    /// The ranks of the packets inside.
    inside: Ranks,
    /// Inverted pairs.
    pairs: u64,
    /// Services during which a packet of lower rank was inside.
    services: u64,
    unpifoness: u64,
}

impl Inversions {
    /// Records that a packet of `rank` enters the scheduler.
    pub fn enter(&mut self, rank: u64) {
        self.inside.insert(rank);
    }

    /// Records that a packet of `rank` leaves without service.
    pub fn leave(&mut self, rank: u64) {
        self.inside.remove(rank);
    }

    /// Records the service of a packet of `rank`.
    pub fn serve(&mut self, rank: u64) {
        self.inside.remove(rank);
        let (packets, sum) = self.inside.below(rank);
        let apart = u128::from(packets) * u128::from(rank) - sum;
        self.pairs += packets;
        self.services += u64::from(packets > 0);
        self.unpifoness = self.unpifoness.saturating_add(u64::try_from(apart).unwrap_or(u64::MAX));
    }

    /// Reduces all ranks by `by`.
    pub fn set_back(&mut self, by: u64) {
        self.inside.set_back(by);
    }

    /// The counters by name. `inversions`: the inverted pairs. `inverted`: the services during
    /// which a packet of lower rank was inside. `unpifoness`: the sum of the differences of ranks
    /// over all inverted pairs.
    pub fn variables(&self) -> [(&'static str, u64); 3] {
        [("inversions", self.pairs), ("inverted", self.services), ("unpifoness", self.unpifoness)]
    }
}

/// A multiset of ranks with the number and the sum of the ranks below a given rank: a search tree
/// balanced by random numbers (a treap), O(log n) for each call except [`Ranks::set_back`].
#[derive(Debug)]
pub(super) struct Ranks {
    nodes: Vec<Node>,
    root: u32,
    free: Vec<u32>,
    random: Stream,
}

#[derive(Debug)]
struct Node {
    rank: u64,
    /// The number of times that the rank is in the set.
    copies: u32,
    /// A random number that is at least as large as those of the children.
    priority: u32,
    left: u32,
    right: u32,
    /// The number of ranks in the subtree.
    count: u64,
    /// The sum of the ranks in the subtree.
    sum: u128,
}

impl Default for Ranks {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            root: NONE,
            free: Vec::new(),
            random: Stream::new(0, 0, Purpose::Scheduler),
        }
    }
}

impl Ranks {
    pub(super) fn insert(&mut self, rank: u64) {
        self.root = self.insert_below(self.root, rank);
    }

    /// Removes one copy of a rank.
    pub(super) fn remove(&mut self, rank: u64) {
        self.root = self.remove_below(self.root, rank);
    }

    /// The number of ranks lower than `rank`, and their sum.
    pub(super) fn below(&self, rank: u64) -> (u64, u128) {
        let (mut at, mut count, mut sum) = (self.root, 0, 0);
        while let Some(node) = self.nodes.get(at as usize) {
            if rank <= node.rank {
                at = node.left;
                continue;
            }
            let right = self.totals(node.right);
            count += node.count - right.0;
            sum += node.sum - right.1;
            at = node.right;
        }
        (count, sum)
    }

    /// Reduces all ranks by `by`, to no less than 0.
    pub(super) fn set_back(&mut self, by: u64) {
        let old = core::mem::take(self);
        let mut pending = Vec::from_iter(old.nodes.get(old.root as usize));
        while let Some(node) = pending.pop() {
            pending.extend(old.nodes.get(node.left as usize));
            pending.extend(old.nodes.get(node.right as usize));
            for _ in 0..node.copies {
                self.insert(node.rank.saturating_sub(by));
            }
        }
    }

    fn totals(&self, at: u32) -> (u64, u128) {
        self.nodes.get(at as usize).map_or((0, 0), |node| (node.count, node.sum))
    }

    fn priority(&self, at: u32) -> u32 {
        self.nodes.get(at as usize).map_or(0, |node| node.priority)
    }

    /// Recomputes a node's sums from its children.
    fn sum_up(&mut self, at: u32) {
        let Node { rank, copies, left, right, .. } = self.nodes[at as usize];
        let (left, right) = (self.totals(left), self.totals(right));
        let node = &mut self.nodes[at as usize];
        node.count = left.0 + right.0 + u64::from(copies);
        node.sum = left.1 + right.1 + u128::from(rank) * u128::from(copies);
    }

    fn leaf(&mut self, rank: u64) -> u32 {
        let node = Node {
            rank,
            copies: 1,
            priority: self.random.bits32(),
            left: NONE,
            right: NONE,
            count: 1,
            sum: u128::from(rank),
        };
        if let Some(at) = self.free.pop() {
            self.nodes[at as usize] = node;
            return at;
        }
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    /// Inserts a rank into the subtree `at`, and returns the new root of the subtree.
    fn insert_below(&mut self, at: u32, rank: u64) -> u32 {
        let Some(node) = self.nodes.get_mut(at as usize) else { return self.leaf(rank) };
        if rank == node.rank {
            node.copies += 1;
        } else if rank < node.rank {
            let old = node.left;
            let left = self.insert_below(old, rank);
            self.nodes[at as usize].left = left;
            if self.priority(left) > self.priority(at) {
                self.nodes[at as usize].left = self.nodes[left as usize].right;
                self.nodes[left as usize].right = at;
                self.sum_up(at);
                self.sum_up(left);
                return left;
            }
        } else {
            let old = node.right;
            let right = self.insert_below(old, rank);
            self.nodes[at as usize].right = right;
            if self.priority(right) > self.priority(at) {
                self.nodes[at as usize].right = self.nodes[right as usize].left;
                self.nodes[right as usize].left = at;
                self.sum_up(at);
                self.sum_up(right);
                return right;
            }
        }
        self.sum_up(at);
        at
    }

    /// Removes a rank from the subtree `at`, and returns the new root of the subtree.
    fn remove_below(&mut self, at: u32, rank: u64) -> u32 {
        let Some(node) = self.nodes.get_mut(at as usize) else { return NONE };
        let (left, right) = (node.left, node.right);
        if rank == node.rank {
            node.copies -= 1;
            if node.copies == 0 {
                self.free.push(at);
                return self.join(left, right);
            }
        } else if rank < node.rank {
            let left = self.remove_below(left, rank);
            self.nodes[at as usize].left = left;
        } else {
            let right = self.remove_below(right, rank);
            self.nodes[at as usize].right = right;
        }
        self.sum_up(at);
        at
    }

    /// Joins two trees; all ranks of the first are lower than those of the second.
    fn join(&mut self, low: u32, high: u32) -> u32 {
        if low == NONE || high == NONE {
            return low.min(high);
        }
        if self.priority(low) > self.priority(high) {
            let right = self.join(self.nodes[low as usize].right, high);
            self.nodes[low as usize].right = right;
            self.sum_up(low);
            return low;
        }
        let left = self.join(low, self.nodes[high as usize].left);
        self.nodes[high as usize].left = left;
        self.sum_up(high);
        high
    }
}

/// No node; larger than the index of any node.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pair_counts_once_and_by_the_difference_of_its_ranks() {
        let mut inversions = Inversions::default();
        for rank in [5, 3, 9, 3] {
            inversions.enter(rank);
        }
        inversions.leave(9);
        inversions.serve(5);
        inversions.serve(3);
        inversions.serve(3);
        assert_eq!(inversions.variables().map(|f| f.1), [2, 1, 4]);
    }

    proptest! {
        #[test]
        fn ranks_agree_with_a_sorted_list(
            operations in proptest::collection::vec(
                (any::<bool>(), prop_oneof![0u64..20, any::<u64>()], 0usize..99),
                1..400,
            ),
        ) {
            let (mut ranks, mut model) = (Ranks::default(), Vec::<u64>::new());
            for (n, (insert, rank, which)) in operations.into_iter().enumerate() {
                if insert || model.is_empty() {
                    ranks.insert(rank);
                    model.push(rank);
                } else {
                    ranks.remove(model.swap_remove(which % model.len()));
                }
                if n % 64 == 63 {
                    ranks.set_back(7);
                    model.iter_mut().for_each(|r| *r = r.saturating_sub(7));
                }
                let below = model.iter().filter(|&&r| r < rank);
                prop_assert_eq!(
                    ranks.below(rank),
                    (below.clone().count() as u64, below.map(|&r| u128::from(r)).sum())
                );
            }
        }

        #[test]
        fn the_tree_stays_shallow_in_any_order(ascending in any::<bool>()) {
            let mut ranks = Ranks::default();
            for n in 0..10_000 {
                ranks.insert(if ascending { n } else { 10_000 - n });
            }
            fn depth(ranks: &Ranks, at: u32) -> usize {
                ranks
                    .nodes
                    .get(at as usize)
                    .map_or(0, |node| 1 + depth(ranks, node.left).max(depth(ranks, node.right)))
            }
            // A search tree in random order has a depth of about twice the logarithm of its size.
            prop_assert!(depth(&ranks, ranks.root) < 50);
        }
    }
}
