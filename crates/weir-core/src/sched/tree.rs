//! Schedulers with schedulers as their flows: hierarchical sharing of a link.
//!
//! # Model
//! A tree of schedulers of any type. The root decides for the link. Each of its flows is either a
//! flow of packets or another scheduler, a *node*, which decides among its own flows. A node with
//! packets *offers* its next two packets to its parent, where the node is a flow. To the parent,
//! this flow has packets as long as the node has packets, so that weights, deficits and timestamps
//! work as for any flow. When one of the two packets leaves, the node offers another.
//!
//! # Reference
//! Bennett and Zhang, "Hierarchical packet fair queueing algorithms", IEEE/ACM Transactions on
//! Networking 5(5), 1997. In that publication a node offers one packet. The second packet keeps the
//! flow from becoming empty between a departure and the next offer. Schedulers that reset an empty
//! flow, such as round robin, can therefore be parents.
//!
//! # Complexity
//! The sum of the costs of the schedulers on the path from the root to the flow, and a look-up at
//! each of these levels.
//!
//! # Guarantees
//! Each node divides its own service among its flows as its type guarantees. A node cannot take
//! back the packets that it offers: a later packet of any priority waits for up to two packets at
//! each level. A parent with an exact fluid (`wfq`, `l-wf2q`) has only these two packets of a node,
//! and its fluid may finish them early, so that the parent's shares hold only to within a few per
//! cent. Packets of a flow leave in order. A node is removed with its last flow.
//!
//! # Validation
//! Tests compare the shares at each level with exact proportions, and run random sequences of all
//! operations.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hashbrown::HashTable;

use super::{AnyScheduler, Discipline, FlowSlot, FlowSpec, Scheduler};
use crate::key::FlowKey;
use crate::lookup::LookupKey;
use crate::packet::{Header, PacketId, PacketList, Store};
use crate::slab::Slab;
use crate::stats::{DropReason, MarkReason};
use crate::units::Nanos;

/// A tree of schedulers.
#[derive(Debug)]
pub struct Tree {
    /// The schedulers, indexed by the numbers of their nodes.
    schedulers: Vec<AnyScheduler>,
    places: Places,
    leaves: Slab<Leaf>,
    /// The nodes below the root with schedulers that are not work-conserving.
    shaped: Vec<u32>,
    /// Packets that a scheduler of the tree dropped and that the caller has not yet collected.
    refused: VecDeque<(PacketId, DropReason)>,
    /// Nodes that may offer other packets, because a scheduler above dropped packets that they
    /// offered.
    depleted: Vec<u32>,
    /// The latest time of a call.
    now: Nanos,
    len: usize,
    backlog: u64,
}

/// A scheduler in a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeNode(u32);

/// The identity of a node: the number of a scheduler, and the masked key of its instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeName {
    id: u16,
    key: FlowKey,
    hash: u64,
}

/// The structure of the tree.
#[derive(Debug)]
struct Places {
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// The leaf and the node of each flow of packets, by the number of the flow.
    owners: HashTable<Owner>,
    /// The nodes with names, by name.
    named: HashTable<u32>,
}

/// The position of a scheduler in the tree.
#[derive(Debug)]
struct Node {
    /// The number of the parent, or [`NONE`].
    parent: u32,
    /// The description of the node as a flow of its parent.
    spec: FlowSpec,
    /// The slot of the node as a flow of its parent.
    slot: FlowSlot,
    /// The number of packets that the node offers to its parent.
    offered: u32,
    /// The number of flows and nodes that are children of this node.
    members: u32,
    name: Option<NodeName>,
}

/// The leaf of a flow of packets, and the node of the leaf.
#[derive(Debug)]
struct Owner {
    flow: u32,
    leaf: u32,
    node: u32,
}

/// A flow of packets.
#[derive(Debug)]
struct Leaf {
    /// The node that serves the flow.
    node: u32,
    /// The flow's slot in the node's scheduler.
    slot: FlowSlot,
    spec: FlowSpec,
    /// The number of the flow's packets in schedulers above its node.
    above: u32,
}

impl Tree {
    /// The scheduler of the link.
    pub const ROOT: TreeNode = TreeNode(0);

    /// A tree with a single scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        Self::above(AnyScheduler::new(discipline))
    }

    /// A tree with the scheduler `root`, which may have flows and packets. The caller adds each of
    /// its flows with [`Self::adopt`].
    pub(super) fn above(root: AnyScheduler) -> Self {
        let (len, backlog) = (root.len(), root.backlog());
        let node = Node {
            parent: NONE,
            spec: FlowSpec::default(),
            slot: FlowSlot(0),
            offered: 0,
            members: 0,
            name: None,
        };
        let places = Places {
            nodes: Vec::from([node]),
            free: Vec::new(),
            owners: HashTable::new(),
            named: HashTable::new(),
        };
        Self {
            schedulers: Vec::from([root]),
            places,
            leaves: Slab::default(),
            shaped: Vec::new(),
            refused: VecDeque::new(),
            depleted: Vec::new(),
            now: Nanos::ZERO,
            len,
            backlog,
        }
    }

    /// Adds a flow that the root already has at `slot`; returns its slot in the tree.
    pub(crate) fn adopt(&mut self, slot: FlowSlot, spec: &FlowSpec) -> FlowSlot {
        self.insert_leaf(Self::ROOT, slot, spec)
    }

    /// Adds a scheduler as a flow of `parent`. `spec` describes this flow; its flow number is
    /// ignored.
    pub fn add_node(
        &mut self,
        now: Nanos,
        parent: TreeNode,
        spec: &FlowSpec,
        discipline: &Discipline,
    ) -> TreeNode {
        let number = self.places.free.pop().unwrap_or(self.places.nodes.len() as u32);
        let spec = FlowSpec { flow: NODE | number, ..*spec };
        let slot = self.schedulers[parent.0 as usize].add_flow(now, &spec);
        self.places.nodes[parent.0 as usize].members += 1;
        let node = Node { parent: parent.0, spec, slot, offered: 0, members: 0, name: None };
        let scheduler = AnyScheduler::new(discipline);
        match self.places.nodes.get_mut(number as usize) {
            Some(free) => {
                *free = node;
                self.schedulers[number as usize] = scheduler;
            }
            None => {
                self.places.nodes.push(node);
                self.schedulers.push(scheduler);
            }
        }
        if !discipline.row().traits.work_conserving {
            self.shaped.push(number);
        }
        TreeNode(number)
    }

    /// The node with this name, if there is one.
    pub(crate) fn node(&self, name: &NodeName) -> Option<TreeNode> {
        let nodes = &self.places.nodes;
        let is_it = |&node: &u32| nodes[node as usize].name.as_ref() == Some(name);
        self.places.named.find(name.hash, is_it).map(|&node| TreeNode(node))
    }

    /// Gives a node a name, by which [`Self::node`] finds it.
    pub(crate) fn name(&mut self, node: TreeNode, name: NodeName) {
        self.places.nodes[node.0 as usize].name = Some(name);
        let nodes = &self.places.nodes;
        let hash_of = |&node: &u32| nodes[node as usize].name.as_ref().map_or(0, |name| name.hash);
        self.places.named.insert_unique(name.hash, node.0, hash_of);
    }

    /// Removes the names of the nodes of scheduler `id`. The nodes and their flows stay.
    pub(crate) fn forget(&mut self, id: u16) {
        let nodes = &self.places.nodes;
        self.places
            .named
            .retain(|&mut node| nodes[node as usize].name.is_none_or(|name| name.id != id));
    }

    /// Changes the settings that the nodes of scheduler `id` have as flows of their parents.
    /// Packets stay.
    pub(crate) fn change_nodes(
        &mut self,
        now: Nanos,
        store: &mut dyn Store,
        id: u16,
        spec: &FlowSpec,
    ) {
        for number in 1..self.places.nodes.len() {
            if self.places.nodes[number].name.is_some_and(|name| name.id == id) {
                self.change_node(now, store, TreeNode(number as u32), spec);
            }
        }
    }

    /// Changes the settings that a node has as a flow of its parent. Packets stay.
    pub fn change_node(
        &mut self,
        now: Nanos,
        store: &mut dyn Store,
        node: TreeNode,
        spec: &FlowSpec,
    ) {
        let Some(state) =
            self.places.nodes.get_mut(node.0 as usize).filter(|state| state.parent != NONE)
        else {
            return;
        };
        state.spec = FlowSpec { flow: state.spec.flow, ..*spec };
        let (at, slot, spec) = (state.parent, state.slot, state.spec);
        self.schedulers[at as usize].change_flow(
            now,
            &mut Level { store, places: &self.places, at },
            slot,
            &spec,
        );
    }

    /// Adds a flow of packets to a node; returns its slot in the tree.
    pub fn add_flow_in(&mut self, now: Nanos, node: TreeNode, spec: &FlowSpec) -> FlowSlot {
        let slot = self.schedulers[node.0 as usize].add_flow(now, spec);
        self.insert_leaf(node, slot, spec)
    }

    /// Records a flow of packets with `slot` in the scheduler of `node`. Returns the flow's slot in
    /// the tree.
    fn insert_leaf(&mut self, node: TreeNode, slot: FlowSlot, spec: &FlowSpec) -> FlowSlot {
        self.places.nodes[node.0 as usize].members += 1;
        let leaf = self.leaves.insert(Leaf { node: node.0, slot, spec: *spec, above: 0 });
        let owner = Owner { flow: spec.flow, leaf, node: node.0 };
        self.places
            .owners
            .insert_unique(flow_hash(spec.flow), owner, |owner| flow_hash(owner.flow));
        FlowSlot(leaf)
    }

    /// Replaces the scheduler at the root. The tree must hold no packets.
    pub(crate) fn replace_root(&mut self, now: Nanos, discipline: &Discipline) {
        let mut root = AnyScheduler::new(discipline);
        for leaf in 0..self.leaves.bound() {
            if let Some(leaf) = self.leaves.get_mut(leaf).filter(|leaf| leaf.node == Self::ROOT.0) {
                leaf.slot = root.add_flow(now, &leaf.spec);
            }
        }
        for node in &mut self.places.nodes {
            if node.parent == Self::ROOT.0 {
                node.slot = root.add_flow(now, &node.spec);
            }
        }
        self.schedulers[0] = root;
    }

    /// Removes and returns the next packet of the scheduler `at`. If a child node offered this
    /// packet, the child offers its next packet, if it has one.
    fn take(&mut self, at: u32, now: Nanos, store: &mut dyn Store) -> Option<PacketId> {
        let packet = self.schedulers[at as usize]
            .dequeue(now, &mut Level { store, places: &self.places, at });
        self.collect_dropped(at, store);
        let packet = packet?;
        let Some(&Owner { leaf, node, .. }) = self.places.owner(store.flow(packet)) else {
            return Some(packet);
        };
        if node != at {
            let child = self.places.below(at, node);
            self.places.nodes[child as usize].offered -= 1;
            self.refill(child, now, store);
        }
        // The packet leaves its own node's scheduler for those above, or leaves the root.
        match (at == Self::ROOT.0, node == at) {
            (true, false) => self.leaves.at_mut(leaf).above -= 1,
            (false, true) => self.leaves.at_mut(leaf).above += 1,
            _ => {}
        }
        Some(packet)
    }

    /// Enqueues a packet in the scheduler `at`.
    fn put(
        &mut self,
        at: u32,
        now: Nanos,
        slot: FlowSlot,
        packet: PacketId,
        store: &mut dyn Store,
    ) {
        let mut level = Level { store, places: &self.places, at };
        if let Some(refused) = self.schedulers[at as usize].enqueue(now, &mut level, slot, packet) {
            self.refuse(at, refused, DropReason::Scheduler, store);
        }
        self.collect_dropped(at, store);
    }

    /// Collects the packets that the scheduler `at` has dropped.
    fn collect_dropped(&mut self, at: u32, store: &mut dyn Store) {
        while let Some((dropped, reason)) =
            self.schedulers[at as usize].pop_refused(&mut Level { store, places: &self.places, at })
        {
            self.refuse(at, dropped, reason, store);
        }
    }

    /// Moves packets from a node to its parent until the node offers [`OFFERED`] packets or has no
    /// more.
    fn refill(&mut self, node: u32, now: Nanos, store: &mut dyn Store) {
        while self.places.nodes[node as usize].offered < OFFERED {
            let Some(packet) = self.take(node, now, store) else { return };
            let Node { parent: at, slot, .. } = self.places.nodes[node as usize];
            self.places.nodes[node as usize].offered += 1;
            self.put(at, self.now, slot, packet, store);
        }
    }

    /// Calls [`Self::refill`] for a node and all nodes above it.
    fn lift(&mut self, mut node: u32, now: Nanos, store: &mut dyn Store) {
        while node != Self::ROOT.0 {
            self.refill(node, now, store);
            node = self.places.nodes[node as usize].parent;
        }
    }

    /// Refills the nodes in `depleted`, and the nodes above them.
    fn feed(&mut self, now: Nanos, store: &mut dyn Store) {
        while let Some(depleted) = self.depleted.pop() {
            self.lift(depleted, now, store);
        }
    }

    /// Records a packet that the scheduler `at` has dropped. If a child node offered the packet,
    /// the child may offer another one.
    fn refuse(&mut self, at: u32, packet: PacketId, reason: DropReason, store: &mut dyn Store) {
        self.len -= 1;
        self.backlog -= u64::from(store.len(packet));
        if let Some(&Owner { leaf, node, .. }) = self.places.owner(store.flow(packet))
            && node != at
        {
            let child = self.places.below(at, node);
            self.places.nodes[child as usize].offered -= 1;
            if let Some(leaf) = self.leaves.get_mut(leaf) {
                leaf.above -= 1;
            }
            self.depleted.push(child);
        }
        self.refused.push_back((packet, reason));
    }

    /// Makes the nodes in `shaped` offer the packets that may leave by `now`.
    fn wake(&mut self, now: Nanos, store: &mut dyn Store) {
        for n in 0..self.shaped.len() {
            let node = self.shaped[n];
            if now == Nanos::MAX || self.next_of(node).is_some_and(|time| time <= now) {
                self.lift(node, now, store);
            }
        }
        self.feed(now, store);
    }

    /// The time at which a node that holds packets back can offer the next packet; `None` if the
    /// node has no packets to offer or offers enough.
    fn next_of(&self, node: u32) -> Option<Nanos> {
        let (state, scheduler) =
            (&self.places.nodes[node as usize], &self.schedulers[node as usize]);
        if scheduler.is_empty() || state.offered >= OFFERED { None } else { scheduler.next_event() }
    }

    /// Removes the packets of a flow from the schedulers above its node; returns them with the
    /// oldest first.
    fn withdraw(&mut self, now: Nanos, store: &mut dyn Store, node: u32, flow: u32) -> PacketList {
        let path = core::iter::successors(Some(node), |&node| {
            Some(self.places.nodes[node as usize].parent)
        });
        let path: Vec<u32> = path.take_while(|&node| node != Self::ROOT.0).collect();
        let mut withdrawn = PacketList::default();
        for &child in path.iter().rev() {
            let Node { parent: at, slot, spec, .. } = self.places.nodes[child as usize];
            let mut level = Level { store, places: &self.places, at };
            let scheduler = &mut self.schedulers[at as usize];
            let mut offered = scheduler.remove_flow(now, &mut level, slot, spec.flow);
            let slot = scheduler.add_flow(now, &spec);
            self.places.nodes[child as usize].slot = slot;
            while let Some(packet) = offered.pop_front(&Plain(store)) {
                if store.flow(packet) == flow {
                    self.places.nodes[child as usize].offered -= 1;
                    withdrawn.push_back(&mut Plain(store), packet);
                    continue;
                }
                self.put(at, now, slot, packet, store);
            }
        }
        withdrawn
    }

    /// Removes `node` and the nodes above it that have no members left.
    fn prune(&mut self, now: Nanos, store: &mut dyn Store, mut node: u32) {
        while node != Self::ROOT.0 && self.places.nodes[node as usize].members == 0 {
            let Node { parent: at, slot, spec, .. } = self.places.nodes[node as usize];
            self.schedulers[at as usize].remove_flow(
                now,
                &mut Level { store, places: &self.places, at },
                slot,
                spec.flow,
            );
            self.schedulers[node as usize] = AnyScheduler::Fifo(super::Fifo::default());
            self.places.nodes[at as usize].members -= 1;
            self.shaped.retain(|&shaped| shaped != node);
            self.depleted.retain(|&depleted| depleted != node);
            self.places.remove(node);
            node = at;
        }
    }
}

impl Scheduler for Tree {
    fn add_flow(&mut self, now: Nanos, spec: &FlowSpec) -> FlowSlot {
        self.add_flow_in(now, Self::ROOT, spec)
    }

    fn change_flow<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        let Some(leaf) = self.leaves.get_mut(slot.0) else { return };
        leaf.spec = *spec;
        let (at, slot) = (leaf.node, leaf.slot);
        self.schedulers[at as usize].change_flow(
            now,
            &mut Level { store, places: &self.places, at },
            slot,
            spec,
        );
    }

    fn remove_flow<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        flow: u32,
    ) -> PacketList {
        let Some(Leaf { node: at, slot, above, .. }) = self.leaves.remove(slot.0) else {
            return PacketList::default();
        };
        let mut removed =
            if above > 0 { self.withdraw(now, store, at, flow) } else { PacketList::default() };
        let mut of_leaf = self.schedulers[at as usize].remove_flow(
            now,
            &mut Level { store, places: &self.places, at },
            slot,
            flow,
        );
        while let Some(packet) = of_leaf.pop_front(store) {
            removed.push_back(store, packet);
        }
        if let Ok(owner) =
            self.places.owners.find_entry(flow_hash(flow), |owner| owner.flow == flow)
        {
            owner.remove();
        }
        let (packets, bytes) = removed.measure(store);
        self.len -= packets;
        self.backlog -= bytes;
        self.places.nodes[at as usize].members -= 1;
        self.lift(at, now, store);
        self.feed(now, store);
        self.prune(now, store, at);
        removed
    }

    fn enqueue<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        self.now = self.now.max(now);
        self.len += 1;
        self.backlog += u64::from(store.len(packet));
        let &Leaf { node: at, slot, .. } = self.leaves.at(slot.0);
        self.put(at, self.now, slot, packet, store);
        self.lift(at, self.now, store);
        self.feed(self.now, store);
        // `pop_refused` returns dropped packets with their reasons.
        None
    }

    fn dequeue<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<PacketId> {
        if now != Nanos::MAX {
            self.now = self.now.max(now);
        }
        self.wake(now, store);
        let first = self.take(Self::ROOT.0, now, store);
        self.feed(now, store);
        let packet = first.or_else(|| self.take(Self::ROOT.0, now, store))?;
        self.len -= 1;
        self.backlog -= u64::from(store.len(packet));
        Some(packet)
    }

    fn pop_refused<P: Store>(&mut self, _store: &mut P) -> Option<(PacketId, DropReason)> {
        self.refused.pop_front()
    }

    fn next_event(&self) -> Option<Nanos> {
        let root =
            if self.schedulers[0].is_empty() { None } else { self.schedulers[0].next_event() };
        self.shaped.iter().filter_map(|&node| self.next_of(node)).chain(root).min()
    }

    fn accepts_all(&self) -> bool {
        false
    }

    fn len(&self) -> usize {
        self.len
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        self.schedulers[0].variables()
    }
}

impl Places {
    fn owner(&self, flow: u32) -> Option<&Owner> {
        self.owners.find(flow_hash(flow), |owner| owner.flow == flow)
    }

    /// The child of `at` that is `node` or an ancestor of `node`.
    fn below(&self, at: u32, mut node: u32) -> u32 {
        loop {
            match self.nodes[node as usize].parent {
                parent if parent == at || parent == NONE => return node,
                parent => node = parent,
            }
        }
    }

    /// Removes a node and its name.
    fn remove(&mut self, node: u32) {
        if let Some(name) = self.nodes[node as usize].name.take()
            && let Ok(entry) = self.named.find_entry(name.hash, |&named| named == node)
        {
            entry.remove();
        }
        self.nodes[node as usize].parent = NONE;
        self.free.push(node);
    }
}

impl NodeName {
    /// The name of the instance of scheduler `id` with this masked key.
    pub(crate) fn new(lookup: &LookupKey, id: u16, key: FlowKey) -> Self {
        Self { id, key, hash: lookup.owned(id.into(), lookup.compact(&key)) }
    }
}

/// The packet store for the scheduler of one node. A packet that a child node offers has the
/// child's flow number.
struct Level<'a> {
    store: &'a mut dyn Store,
    places: &'a Places,
    /// The number of the node.
    at: u32,
}

impl Store for Level<'_> {
    fn len(&self, id: PacketId) -> u32 {
        self.store.len(id)
    }

    fn flow(&self, id: PacketId) -> u32 {
        let flow = self.store.flow(id);
        match self.places.owner(flow) {
            Some(owner) if owner.node != self.at => NODE | self.places.below(self.at, owner.node),
            _ => flow,
        }
    }

    fn label(&self, id: PacketId) -> u64 {
        self.store.label(id)
    }

    fn header(&self, id: PacketId) -> Header {
        self.store.header(id)
    }

    fn hosts(&self, id: PacketId) -> [u32; 2] {
        self.store.hosts(id)
    }

    fn arrived(&self, id: PacketId) -> Nanos {
        self.store.arrived(id)
    }

    fn mark(&mut self, id: PacketId, reason: MarkReason) {
        self.store.mark(id, reason);
    }

    fn next(&self, id: PacketId) -> (u32, u32) {
        self.store.next(id)
    }

    fn set_next(&mut self, id: PacketId, next: u32, len: u32) {
        self.store.set_next(id, next, len);
    }

    fn prefetch(&self, id: PacketId) {
        self.store.prefetch(id);
    }
}

/// A sized wrapper of a reference to a store, for packet lists.
struct Plain<'a>(&'a mut dyn Store);

impl Store for Plain<'_> {
    fn len(&self, id: PacketId) -> u32 {
        self.0.len(id)
    }

    fn flow(&self, id: PacketId) -> u32 {
        self.0.flow(id)
    }

    fn label(&self, id: PacketId) -> u64 {
        self.0.label(id)
    }

    fn header(&self, id: PacketId) -> Header {
        self.0.header(id)
    }

    fn hosts(&self, id: PacketId) -> [u32; 2] {
        self.0.hosts(id)
    }

    fn arrived(&self, id: PacketId) -> Nanos {
        self.0.arrived(id)
    }

    fn mark(&mut self, id: PacketId, reason: MarkReason) {
        self.0.mark(id, reason);
    }

    fn next(&self, id: PacketId) -> (u32, u32) {
        self.0.next(id)
    }

    fn set_next(&mut self, id: PacketId, next: u32, len: u32) {
        self.0.set_next(id, next, len);
    }

    fn prefetch(&self, id: PacketId) {
        self.0.prefetch(id);
    }
}

fn flow_hash(flow: u32) -> u64 {
    u64::from(flow).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

/// The number of packets that a node offers to its parent.
const OFFERED: u32 = 2;
/// The bit that distinguishes the number of a node from that of a flow.
const NODE: u32 = 1 << 31;
/// No node.
const NONE: u32 = u32::MAX;
