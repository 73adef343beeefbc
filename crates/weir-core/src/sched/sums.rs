//! A balanced search tree of flows with sums over its subtrees.
//!
//! This is an AVL tree: the heights of two siblings differ by at most one, so with N flows no path
//! down is longer than 1.44 log2 N. The nodes are in an array, indexed by the slots of the flows.
//! Each node has the sum over its subtree, so that one path down gives the sum over any range of
//! flows.
//!
//! # Reference
//! Adelson-Velsky and Landis, "An algorithm for the organization of information", Soviet
//! Mathematics Doklady 3, 1962.

use alloc::vec::Vec;
use core::fmt::Debug;

/// The value that a flow adds to a sum.
pub(super) trait Sum: Copy + Debug + Default {
    /// The sum of two values; the [`Default`] value is zero.
    fn plus(self, other: Self) -> Self;
}

/// Flows sorted by a key; among equal keys, the lower slot is first.
#[derive(Debug)]
pub(super) struct SumTree<S> {
    nodes: Vec<Node<S>>,
    root: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node<S> {
    key: u128,
    /// The flow's value.
    own: S,
    /// The sum over the node's subtree.
    sum: S,
    left: u32,
    right: u32,
    /// The height of the node's subtree; 0 if the flow is not in the tree.
    height: u8,
}

impl<S> Default for SumTree<S> {
    fn default() -> Self {
        Self { nodes: Vec::new(), root: NONE }
    }
}

/// A node on a path down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<S> {
    pub(super) key: u128,
    /// The value of the node's flow.
    pub(super) own: S,
    /// The sum over the flows before this node in its subtree.
    pub(super) before: S,
    pub(super) left: u32,
    pub(super) right: u32,
}

impl<S: Sum> SumTree<S> {
    /// Allocates a node for the flow at `slot`.
    pub(super) fn make_room(&mut self, slot: u32) {
        if self.nodes.len() <= slot as usize {
            let absent = Node {
                key: 0,
                own: S::default(),
                sum: S::default(),
                left: NONE,
                right: NONE,
                height: 0,
            };
            self.nodes.resize(slot as usize + 1, absent);
        }
    }

    /// Whether the flow at `slot` is in the tree.
    pub(super) fn has(&self, slot: u32) -> bool {
        self.nodes[slot as usize].height > 0
    }

    /// Inserts the flow at `slot` with `key`, or replaces its key and value. There must be room for
    /// it.
    pub(super) fn set(&mut self, slot: u32, key: u128, own: S) {
        self.clear(slot);
        self.nodes[slot as usize] = Node { key, own, sum: own, left: NONE, right: NONE, height: 1 };
        self.root = self.insert(self.root, slot);
    }

    /// Removes the flow at `slot`, if it is in the tree.
    pub(super) fn clear(&mut self, slot: u32) {
        if self.has(slot) {
            self.root = self.remove(self.root, slot);
            self.nodes[slot as usize].height = 0;
        }
    }

    /// The first flow and its key.
    pub(super) fn first(&self) -> Option<(u128, u32)> {
        self.end(|node| node.left)
    }

    /// The last flow and its key.
    pub(super) fn last(&self) -> Option<(u128, u32)> {
        self.end(|node| node.right)
    }

    /// The key and the flow at the end of the path on which `next` selects each child.
    fn end(&self, next: impl Fn(&Node<S>) -> u32) -> Option<(u128, u32)> {
        let (mut at, mut found) = (self.root, None);
        while let Some(node) = self.nodes.get(at as usize) {
            found = Some((node.key, at));
            at = next(node);
        }
        found
    }

    /// The sum over all flows.
    pub(super) fn sum(&self) -> S {
        self.sum_below(self.root)
    }

    /// The sum over the subtree of node `at`; zero for [`NONE`].
    pub(super) fn sum_below(&self, at: u32) -> S {
        self.nodes.get(at as usize).map_or_else(S::default, |node| node.sum)
    }

    /// The root, at which a path down begins; `None` for an empty tree.
    pub(super) fn top(&self) -> Option<Step<S>> {
        self.step(self.root)
    }

    /// The node `at` on a path down, or `None` at the end of the path.
    pub(super) fn step(&self, at: u32) -> Option<Step<S>> {
        let &Node { key, own, left, right, .. } = self.nodes.get(at as usize)?;
        Some(Step { key, own, before: self.sum_below(left), left, right })
    }

    /// The number of nodes on the longest path down.
    pub(super) fn height(&self) -> u64 {
        u64::from(self.height_of(self.root))
    }

    fn height_of(&self, at: u32) -> u8 {
        self.nodes.get(at as usize).map_or(0, |node| node.height)
    }

    fn comes_before(&self, a: u32, b: u32) -> bool {
        (self.nodes[a as usize].key, a) < (self.nodes[b as usize].key, b)
    }

    /// Inserts the node `slot` into the subtree `at`; returns the new root of the subtree.
    fn insert(&mut self, at: u32, slot: u32) -> u32 {
        if at == NONE {
            return slot;
        }
        if self.comes_before(slot, at) {
            self.nodes[at as usize].left = self.insert(self.nodes[at as usize].left, slot);
        } else {
            self.nodes[at as usize].right = self.insert(self.nodes[at as usize].right, slot);
        }
        self.balance(at)
    }

    /// Removes the node `slot` from the subtree `at`; returns the new root of the subtree.
    fn remove(&mut self, at: u32, slot: u32) -> u32 {
        let Node { left, right, .. } = self.nodes[at as usize];
        if at != slot {
            if self.comes_before(slot, at) {
                self.nodes[at as usize].left = self.remove(left, slot);
            } else {
                self.nodes[at as usize].right = self.remove(right, slot);
            }
            return self.balance(at);
        }
        if left == NONE || right == NONE {
            return if left == NONE { right } else { left };
        }
        let (rest, next) = self.take_first(right);
        (self.nodes[next as usize].left, self.nodes[next as usize].right) = (left, rest);
        self.balance(next)
    }

    /// Removes the first node of the subtree `at`; returns the new root of the subtree, and the
    /// removed node.
    fn take_first(&mut self, at: u32) -> (u32, u32) {
        let Node { left, right, .. } = self.nodes[at as usize];
        if left == NONE {
            return (right, at);
        }
        let (rest, first) = self.take_first(left);
        self.nodes[at as usize].left = rest;
        (self.balance(at), first)
    }

    /// Recomputes the sums of a node after a change of its children, and rotates it if one side is
    /// too high; returns the new root of the subtree.
    fn balance(&mut self, at: u32) -> u32 {
        let Node { left, right, .. } = self.nodes[at as usize];
        if self.height_of(left) > self.height_of(right) + 1 {
            let Node { left: outer, right: inner, .. } = self.nodes[left as usize];
            if self.height_of(outer) < self.height_of(inner) {
                self.nodes[at as usize].left = self.turn_left(left);
            }
            return self.turn_right(at);
        }
        if self.height_of(right) > self.height_of(left) + 1 {
            let Node { left: inner, right: outer, .. } = self.nodes[right as usize];
            if self.height_of(outer) < self.height_of(inner) {
                self.nodes[at as usize].right = self.turn_right(right);
            }
            return self.turn_left(at);
        }
        self.sum_up(at);
        at
    }

    /// Rotates a subtree to the right: the left child becomes its root, which is returned.
    fn turn_right(&mut self, at: u32) -> u32 {
        let up = self.nodes[at as usize].left;
        self.nodes[at as usize].left = core::mem::replace(&mut self.nodes[up as usize].right, at);
        self.sum_up(at);
        self.sum_up(up);
        up
    }

    /// Rotates a subtree to the left: the right child becomes its root, which is returned.
    fn turn_left(&mut self, at: u32) -> u32 {
        let up = self.nodes[at as usize].right;
        self.nodes[at as usize].right = core::mem::replace(&mut self.nodes[up as usize].left, at);
        self.sum_up(at);
        self.sum_up(up);
        up
    }

    /// Recomputes the sum and the height of a node from its children.
    fn sum_up(&mut self, at: u32) {
        let Node { left, right, own, .. } = self.nodes[at as usize];
        let sum = self.sum_below(left).plus(own).plus(self.sum_below(right));
        let height = 1 + self.height_of(left).max(self.height_of(right));
        let node = &mut self.nodes[at as usize];
        (node.sum, node.height) = (sum, height);
    }
}

/// No node.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    impl Sum for u64 {
        fn plus(self, other: Self) -> Self {
            self + other
        }
    }

    /// Checks the balance and the sums of a subtree, and appends its nodes to `order` from left to
    /// right; returns the number of nodes.
    fn check(tree: &SumTree<u64>, at: u32, order: &mut Vec<(u128, u32)>) -> u64 {
        let Some(step) = tree.step(at) else { return 0 };
        let left = check(tree, step.left, order);
        order.push((step.key, at));
        let right = check(tree, step.right, order);
        assert!(tree.height_of(step.left).abs_diff(tree.height_of(step.right)) <= 1);
        assert_eq!(
            tree.sum_below(at),
            tree.sum_below(step.left) + step.own + tree.sum_below(step.right)
        );
        left + right + 1
    }

    proptest! {
        #[test]
        fn is_sorted_balanced_and_summed_after_every_operation(
            operations in proptest::collection::vec((0u32..80, 0u64..40), 1..400),
        ) {
            let (mut tree, mut model) = (SumTree::default(), BTreeMap::new());
            tree.make_room(80);
            for (slot, key) in operations {
                if key < 12 {
                    tree.clear(slot);
                    model.remove(&slot);
                } else {
                    tree.set(slot, u128::from(key), key * 3);
                    model.insert(slot, u128::from(key));
                }
                let mut order = Vec::new();
                prop_assert_eq!(check(&tree, tree.root, &mut order), model.len() as u64);
                let mut expected: Vec<_> = model.iter().map(|(&slot, &key)| (key, slot)).collect();
                expected.sort_unstable();
                prop_assert_eq!(tree.first(), expected.first().copied());
                prop_assert_eq!(tree.last(), expected.last().copied());
                prop_assert_eq!(order, expected);
            }
        }
    }

    #[test]
    fn sorted_keys_do_not_unbalance_the_tree() {
        let mut tree = SumTree::default();
        tree.make_room(65_535);
        for slot in 0..65_536 {
            tree.set(slot, u128::from(slot), 1);
        }
        assert!(tree.height() <= 17, "{}", tree.height());
        // Half of the flows are removed, from one end.
        for slot in 0..32_768 {
            tree.clear(slot);
        }
        assert_eq!(tree.sum(), 32_768);
        assert!(tree.height() <= 22, "{}", tree.height());
    }
}
