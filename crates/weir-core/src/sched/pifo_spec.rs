//! The specification of a tree of PIFOs: its nodes, and the node of each flow.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{MAX_PRIORITY, Ranking};

/// The specification of a tree of PIFOs. It begins with a root, and each further node is added
/// below an existing node.
#[derive(Clone, Debug)]
pub struct TreeSpec {
    /// The nodes with their parents, the root first.
    pub(super) nodes: Vec<(NodeId, NodeSpec)>,
    /// The parents of flows by the priority of the flow.
    by_priority: BTreeMap<u32, NodeId>,
    /// The parents of flows by the number of the flow; these take precedence.
    by_flow: BTreeMap<u32, NodeId>,
}

/// A node of a [`TreeSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

/// A node: the rank of its children, and its settings in the node above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSpec {
    /// The method by which the node ranks its children, which are nodes and flows.
    pub rank: Ranking,
    /// The weight in the node above; 0 means the sum of the weights of the node's flows.
    pub weight: u32,
    /// The priority in the node above; 0 is served first.
    pub priority: u32,
    /// The rate in bit/s that all flows below the node together may not exceed; 0 for no bound.
    pub ceil: u64,
    /// Number of bytes that the node may send in one burst after a pause; 0 means 10 ms at `ceil`
    /// plus two packets of 1500 bytes.
    pub burst: u32,
}

impl TreeSpec {
    /// The root of every tree. Flows without an assigned node are its children.
    pub const ROOT: NodeId = NodeId(0);

    /// A tree of a root alone, which ranks its children by `rank`.
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
    /// Panics if `parent` is a node of another tree.
    pub fn add(&mut self, parent: NodeId, node: NodeSpec) -> NodeId {
        self.check(parent);
        self.nodes.push((parent, node));
        NodeId((self.nodes.len() - 1) as u32)
    }

    /// Makes all flows of a priority children of `node`.
    ///
    /// # Panics
    /// Panics if `node` is a node of another tree.
    pub fn assign_priority(&mut self, priority: u32, node: NodeId) {
        self.check(node);
        self.by_priority.insert(priority.min(MAX_PRIORITY), node);
    }

    /// Makes flow number `flow` a child of `node`, whatever its priority.
    ///
    /// # Panics
    /// Panics if `node` is a node of another tree.
    pub fn assign_flow(&mut self, flow: u32, node: NodeId) {
        self.check(node);
        self.by_flow.insert(flow, node);
    }

    /// Makes all flows of a priority children of a node that the tree itself has created.
    pub(super) fn assign_class(&mut self, priority: u32, node: NodeId) {
        self.by_priority.insert(priority, node);
    }

    /// The parent node of a flow, if one was assigned.
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
