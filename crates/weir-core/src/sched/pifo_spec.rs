//! What a tree of PIFOs looks like: its nodes, and which flows belong to which.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{MAX_PRIORITY, Ranking};

/// A tree of PIFOs: it begins with a root, and each node is added to one that is there.
#[derive(Clone, Debug)]
pub struct TreeSpec {
    /// The root first.
    pub(super) nodes: Vec<(NodeId, NodeSpec)>,
    by_priority: BTreeMap<u32, NodeId>,
    by_flow: BTreeMap<u32, NodeId>,
}

/// A node of a [`TreeSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

/// A node: how it ranks its children, and its settings in the node above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSpec {
    /// How it ranks its children: nodes and flows.
    pub rank: Ranking,
    /// Its weight in the node above; 0 for the sum of the weights of its own flows.
    pub weight: u32,
    /// Its priority in the node above, 0 first.
    pub priority: u32,
    /// Rate that everything below it together may not exceed, in bit/s; 0 for no bound.
    pub ceil: u64,
    /// Bytes that it may send at once after a pause; 0 for 10 ms at its rate and two packets of
    /// 1500 bytes.
    pub burst: u32,
}

impl TreeSpec {
    /// The root of every tree. Flows that are not assigned are its children.
    pub const ROOT: NodeId = NodeId(0);

    /// A root alone, which ranks its children by `rank`.
    pub fn new(rank: Ranking) -> Self {
        let root = NodeSpec { rank, ..NodeSpec::default() };
        Self {
            nodes: alloc::vec![(Self::ROOT, root)],
            by_priority: BTreeMap::new(),
            by_flow: BTreeMap::new(),
        }
    }

    /// Adds a node below `parent`.
    ///
    /// # Panics
    /// When `parent` is a node of another tree.
    pub fn add(&mut self, parent: NodeId, node: NodeSpec) -> NodeId {
        self.check(parent);
        self.nodes.push((parent, node));
        NodeId((self.nodes.len() - 1) as u32)
    }

    /// Makes flows of a priority children of `node`.
    ///
    /// # Panics
    /// When `node` is one of another tree.
    pub fn assign_priority(&mut self, priority: u32, node: NodeId) {
        self.check(node);
        self.by_priority.insert(priority.min(MAX_PRIORITY), node);
    }

    /// Makes flow number `flow` a child of `node`, whatever its priority.
    ///
    /// # Panics
    /// When `node` is one of another tree.
    pub fn assign_flow(&mut self, flow: u32, node: NodeId) {
        self.check(node);
        self.by_flow.insert(flow, node);
    }

    /// Makes flows of a priority children of a node that the tree has made itself.
    pub(super) fn assign_class(&mut self, priority: u32, node: NodeId) {
        self.by_priority.insert(priority, node);
    }

    /// The node that a flow belongs to, if it was assigned.
    pub(super) fn parent_of(&self, flow: u32, priority: u32) -> Option<NodeId> {
        self.by_flow
            .get(&flow)
            .or_else(|| self.by_priority.get(&priority.min(MAX_PRIORITY)))
            .copied()
    }

    fn check(&self, node: NodeId) {
        assert!((node.0 as usize) < self.nodes.len(), "a node of another tree");
    }
}
