//! Paths through the network: by default those with the fewest links.
//!
//! If several paths have the fewest links, the path is the first of them that a breadth-first
//! search from the source finds. The search visits each node's links in the order of the file.
//! Hosts do not forward: a path starts and ends at a host and passes through none. A route in the
//! file applies to its direction only; the path back is searched separately.

use std::collections::{BTreeMap, VecDeque};

use crate::scenario::{Link, Node, NodeKind, Route};

/// The nodes, the links between them, and the paths that are already known.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The links of each node, in the order of the file: the port that leads away from the node,
    /// and the node at the other end.
    neighbours: Vec<Vec<(u32, u32)>>,
    is_host: Vec<bool>,
    /// The ports of each route of the file, by source and destination.
    routes: BTreeMap<(u32, u32), Vec<u32>>,
    /// For each source with computed paths: the port through which each node is reached, and the
    /// node before it.
    trees: BTreeMap<u32, Vec<(u32, u32)>>,
}

/// Why there is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Source and destination are the same.
    #[error("source and destination are the same node")]
    Same,
    /// No chain of links connects them.
    #[error("no chain of links leads there")]
    NoLinks,
    /// Every path leads through a host; this is one such host.
    #[error("every path leads through a host")]
    OverHost(usize),
}

/// The port of one direction of a link: forward ports are even.
pub fn port_of(link: usize, direction: usize) -> usize {
    2 * link + direction
}

impl Topology {
    /// The topology of a scenario's nodes and links.
    pub fn new(nodes: &[Node], links: &[Link]) -> Self {
        let mut neighbours = vec![Vec::new(); nodes.len()];
        for (number, link) in links.iter().enumerate() {
            for direction in 0..2 {
                let (from, to) = (link.ends[direction], link.ends[1 - direction]);
                neighbours[from].push((port_of(number, direction) as u32, to as u32));
            }
        }
        let is_host = nodes.iter().map(|node| node.kind == NodeKind::Host).collect();
        Self { neighbours, is_host, routes: BTreeMap::new(), trees: BTreeMap::new() }
    }

    /// Adds routes. Where two nodes have several links, a route takes the first.
    #[must_use]
    pub fn with_routes(mut self, routes: &[Route]) -> Self {
        for route in routes {
            let hop = |pair: &[usize]| {
                self.neighbours[pair[0]]
                    .iter()
                    .find(|&&(_, to)| to as usize == pair[1])
                    .map(|&(port, _)| port)
            };
            let ports: Option<Vec<u32>> = route.nodes.windows(2).map(hop).collect();
            if let (Some(ports), [from, .., to]) = (ports, route.nodes.as_slice()) {
                self.routes.insert((*from as u32, *to as u32), ports);
            }
        }
        self
    }

    /// The ports from one node to another, in order.
    ///
    /// # Errors
    /// There is no path.
    pub fn path(&mut self, from: usize, to: usize) -> Result<Vec<usize>, PathError> {
        if let Some(ports) = self.routes.get(&(from as u32, to as u32)) {
            return Ok(ports.iter().map(|&port| port as usize).collect());
        }
        if !self.trees.contains_key(&(from as u32)) {
            if self.trees.len() * self.is_host.len() > MAX_KEPT {
                self.trees.clear();
            }
            let tree = self.tree(from, false);
            self.trees.insert(from as u32, tree);
        }
        let tree = &self.trees[&(from as u32)];
        self.follow(tree, from, to)
            .map(|hops| hops.into_iter().map(|(port, _)| port as usize).collect())
    }

    /// The nodes on the path with the fewest links between two nodes, which may be routers. Both
    /// ends are included.
    ///
    /// # Errors
    /// There is no path.
    pub fn nodes_between(&self, from: usize, to: usize) -> Result<Vec<usize>, PathError> {
        let hops = self.follow(&self.tree(from, false), from, to)?;
        Ok(std::iter::once(from).chain(hops.into_iter().map(|(_, node)| node as usize)).collect())
    }

    /// For each node, the port through which it is reached and the node before it.
    fn tree(&self, from: usize, over_hosts: bool) -> Vec<(u32, u32)> {
        let mut tree = vec![(NONE, NONE); self.neighbours.len()];
        let mut open = VecDeque::from([from]);
        while let Some(node) = open.pop_front() {
            if node != from && self.is_host[node] && !over_hosts {
                continue;
            }
            for &(port, next) in &self.neighbours[node] {
                if next as usize != from && tree[next as usize].0 == NONE {
                    tree[next as usize] = (port, node as u32);
                    open.push_back(next as usize);
                }
            }
        }
        tree
    }

    /// Follows the tree back from a node. Returns the ports of the path, and the nodes to which
    /// they lead.
    fn follow(
        &self,
        tree: &[(u32, u32)],
        from: usize,
        to: usize,
    ) -> Result<Vec<(u32, u32)>, PathError> {
        if from == to {
            return Err(PathError::Same);
        }
        let mut hops = Vec::new();
        let mut at = to;
        while at != from {
            let (port, before) = tree[at];
            if port == NONE {
                return Err(self.why_not(from, to));
            }
            hops.push((port, at as u32));
            at = before as usize;
        }
        hops.reverse();
        Ok(hops)
    }

    /// Determines whether a path would exist if hosts forwarded.
    fn why_not(&self, from: usize, to: usize) -> PathError {
        let tree = self.tree(from, true);
        let mut at = to;
        while tree[at].0 != NONE {
            at = tree[at].1 as usize;
            if at == from {
                break;
            }
            if self.is_host[at] {
                return PathError::OverHost(at);
            }
        }
        PathError::NoLinks
    }
}

const NONE: u32 = u32::MAX;
/// If the trees have more entries than this, they are discarded before a new one is computed.
const MAX_KEPT: usize = 16_000_000;
