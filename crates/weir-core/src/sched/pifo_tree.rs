//! A tree of PIFOs: one rank for classes, another for the flows within a class, and bounds on the
//! rates of flows.
//!
//! # Model
//! Each node of the tree is a queue sorted by ranks. An arriving packet puts a turn of its flow
//! into the node above the flow, a turn of that node into the next node above, and so on up to the
//! root; each node computes the rank by its own rule. Service takes the best turn of the root, then
//! the best turn of the child to which that turn belongs, and so on down to a flow; the flow's
//! oldest packet is served. A turn of a class is not tied to the packet that created the turn: the
//! class selects a packet when it is served.
//!
//! A node or a flow may have a bound, a token bucket. The bucket holds turns back from the node
//! above until there are enough tokens, so that the tree may have packets and serve none of them.
//! When there are enough tokens for the node's best packet at that time, the packet passes: the
//! bucket loses tokens for the length of this packet, and no later packet of the node overtakes it.
//!
//! The scheduler of the table has two levels: the root ranks classes, and a class contains the
//! flows of one priority and ranks them. A class's weight is the sum of the weights of its flows.
//! Capacity that a flow does not use therefore goes first to other flows of its class. Rust code
//! can create trees of any shape ([`TreeSpec`]).
//!
//! # Reference
//! Sivaraman et al., "Programmable packet scheduling at line rate", SIGCOMM 2016. With `stfq` at
//! all nodes the tree is the hierarchical packet fair queueing of Bennett and Zhang, IEEE/ACM
//! Transactions on Networking 5(5), 1997, with start-time fair queueing in the nodes.
//!
//! # Parameters
//! `rank` of the root and `class-rank` of the classes, both by default `stfq`: see `pifo`.
//! `rank prio` serves classes in strict order of their priorities; with the default `class-rank`,
//! the flows of a class then share by weight. Labels and deadlines are those of packets and their
//! flows at both levels.
//!
//! `pri` 0..63, default 0: the class. `weight` 1..65536, default 1. `deadline` up to eleven days,
//! default 0. `ceil` in bit/s, default 0 for none: the rate that the flow never exceeds. `burst` in
//! bytes: the depth of the bucket, at least `lmax`; by default the bytes of 10 ms at `ceil` plus
//! two packets of `lmax`.
//!
//! # Complexity
//! O(log N) at each level for each packet. Removing or moving a flow costs as much for each packet
//! of the flow.
//!
//! # Guarantees
//! Packets of a flow leave in order. No node has inversions: no turn in a node is better than the
//! turn that the node serves. With `stfq`, consider two flows of a class that always have packets:
//! their bytes, each divided by the flow's weight, differ by at most one largest packet of each
//! flow, divided by its weight. Between classes the same holds for turns, each with the length of
//! the packet that created it. The packet that leaves in a turn may be another packet of the class.
//! With mixed packet sizes, the bytes of two classes can therefore differ more for a moment, by the
//! differences between the packets inside; this does not accumulate. In any time `t` a bound passes
//! at most `ceil · t` plus the depth of its bucket, exactly. This holds at the bound: packets that
//! have passed and then wait further up may leave closer together.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements a tree of PIFOs. Linux's `hfsc` and `htb` have hierarchies with other rules.
//!
//! # Validation
//! Tests compare one node with `pifo` and two levels with plain lists, and check the shares at each
//! level, bounds in every window and over hours, and that random changes lose no packet.

use alloc::vec::Vec;

use super::htb::{BURST, CEIL};
use super::pifo_node::{Content, NONE, Node, flow_depth};
use super::prio::PRIORITY;
use super::rank::{DEADLINE, Facts, Ranker};
use super::turns::{self, TurnHeap};
use super::{
    Discipline, FlowSlot, FlowSpec, LMAX, MAX_PRIORITY, NodeId, NodeSpec, Ranking, Row, Scheduler,
    Traits, TreeSpec, WEIGHT,
};
use crate::packet::{PacketId, PacketList, Store};
use crate::settings;
use crate::slab::Slab;
use crate::units::Nanos;

/// The scheduler that is a tree of PIFOs.
#[derive(Debug)]
pub struct PifoTree {
    pub(super) nodes: Slab<Node>,
    /// The position of each node in the heap of the node above.
    pub(super) places: Vec<u32>,
    /// The nodes that hold packets back, by the time at which they release the next one.
    pub(super) timers: TurnHeap,
    /// The position of each node in `timers`.
    pub(super) timer_places: Vec<u32>,
    pub(super) spec: TreeSpec,
    /// The rank that orders the flows of a class, if the tree creates classes as flows are added;
    /// `None` if the specification has all nodes.
    pub(super) class_rank: Option<Ranking>,
    pub(super) epoch: u64,
    /// The latest time of a call.
    pub(super) now: Nanos,
    /// The number of turns so far, which orders turns of equal rank.
    pub(super) arrivals: u64,
    pub(super) len: usize,
    pub(super) backlog: u64,
    /// The number of times that a packet had to wait for tokens.
    pub(super) shaped: u64,
    /// The turns that [`Self::take_best`] follows, from its node down to the packet.
    pub(super) path: Vec<(u32, u128)>,
}

settings! {
    /// Settings of a tree of PIFOs.
    struct Settings {
        rank: Ranking =
            Ranking::setting(Ranking::Stfq, "rank of classes; the least is served first"),
        class_rank as "class-rank": Ranking = Ranking::setting(
            Ranking::Stfq,
            "rank of the flows of a class; the least is served first",
        ),
    }
}

impl PifoTree {
    /// An empty tree of two levels.
    pub fn new(discipline: &Discipline) -> Self {
        let settings = Settings::of(discipline);
        let spec = TreeSpec::new(settings.rank);
        Self::build(spec, Some(settings.class_rank), discipline.epoch())
    }

    /// An empty tree with the shape of `spec`.
    pub fn with_tree(spec: TreeSpec) -> Self {
        Self::build(spec, None, 0)
    }

    fn build(spec: TreeSpec, class_rank: Option<Ranking>, epoch: u64) -> Self {
        let mut nodes = Slab::default();
        for (number, (parent, node)) in spec.nodes.iter().enumerate() {
            let parent = if number == 0 { NONE } else { parent.0 };
            nodes.insert(Node::inner(Nanos::ZERO, parent, node, epoch));
        }
        Self {
            nodes,
            places: Vec::new(),
            timers: TurnHeap::default(),
            timer_places: Vec::new(),
            spec,
            class_rank,
            epoch,
            now: Nanos::ZERO,
            arrivals: 0,
            len: 0,
            backlog: 0,
            shaped: 0,
            path: Vec::new(),
        }
    }

    /// The parent node of a flow. In a tree of two levels, creates a missing class.
    fn parent_of(&mut self, spec: &FlowSpec) -> u32 {
        let priority = spec.priority.min(MAX_PRIORITY);
        if let Some(node) = self.spec.parent_of(spec.flow, priority) {
            return node.0;
        }
        let Some(rank) = self.class_rank else { return ROOT };
        let class = NodeSpec { rank, priority, ..NodeSpec::default() };
        let number = self.nodes.insert(Node::inner(self.now, ROOT, &class, self.epoch));
        self.spec.assign_class(priority, NodeId(number));
        number
    }

    /// Adds `added` to a node's weight and subtracts `removed`, if the weight is the sum over the
    /// node's flows.
    fn weigh(&mut self, node: u32, added: u64, removed: u64) {
        let node = self.nodes.at_mut(node);
        if matches!(node.content, Content::Inner { sums: true, .. }) {
            node.standing.set_weight(node.standing.weight + added - removed);
        }
    }

    /// The PIFO of a node.
    pub(super) fn pifo(&mut self, node: u32) -> Option<(&mut Ranker, &mut TurnHeap)> {
        match &mut self.nodes.get_mut(node)?.content {
            Content::Inner { ranker, children, .. } => Some((ranker, children)),
            Content::Flow { .. } => None,
        }
    }

    /// Updates the position of a node in the heap of the node above, by its first turn.
    pub(super) fn place(&mut self, node: u32) {
        let Self { nodes, places, .. } = self;
        let (parent, turn) = (nodes.at(node).parent, nodes.at(node).first_turn());
        let Some(Node { content: Content::Inner { ranker, children, .. }, .. }) =
            nodes.get_mut(parent)
        else {
            return;
        };
        children.set(places, node, turn);
        if children.first().is_none() {
            ranker.rest();
        }
    }

    /// Adds a turn of a node to the node above, for a packet that passes upwards. Returns the node
    /// above.
    pub(super) fn push_turn(&mut self, node: u32, facts: &Facts) -> u32 {
        let parent = self.nodes.at(node).parent;
        if self.pifo(parent).is_some_and(|(ranker, _)| ranker.must_set_back()) {
            self.set_back(parent);
        }
        let Some(mut ranker) = self.pifo(parent).map(|(ranker, _)| *ranker) else { return NONE };
        let child = self.nodes.at_mut(node);
        let rank = ranker.rank(&child.standing, facts);
        ranker.accept(&mut child.standing, rank, facts.len);
        let first = child.first_turn();
        child.push_turn(turns::key(rank, self.arrivals));
        let same = first == child.first_turn();
        self.arrivals += 1;
        if let Some((kept, _)) = self.pifo(parent) {
            *kept = ranker;
        }
        if !same {
            self.place(node);
        }
        parent
    }

    /// Reduces the virtual times of a node, so that they stay within their range.
    #[cold]
    #[inline(never)]
    fn set_back(&mut self, parent: u32) {
        let Some(by) = self.pifo(parent).map(|(ranker, _)| ranker.set_back()) else { return };
        for number in 0..self.nodes.bound() {
            if let Some(node) = self.nodes.get_mut(number).filter(|node| node.parent == parent) {
                node.set_back(by);
                self.place(number);
            }
        }
    }

    /// Removes and returns the best packet of a node, and removes the turns on the path to it.
    pub(super) fn take_best<P: Store>(&mut self, store: &P, node: u32) -> Option<PacketId> {
        let packet = self.descend(store, node)?;
        let len = store.len(packet);
        let mut parent = node;
        for step in 0..self.path.len() {
            let (child, key) = self.path[step];
            if let Some(mut ranker) = self.pifo(parent).map(|(ranker, _)| *ranker) {
                let node = self.nodes.at_mut(child);
                node.pop_first_turn();
                ranker.serve(&mut node.standing, turns::rank(key), len);
                if let Some((kept, _)) = self.pifo(parent) {
                    *kept = ranker;
                }
            }
            self.place(child);
            parent = child;
        }
        Some(packet)
    }

    /// Follows the best turns from `at` downwards, records them in [`Self::path`], and removes the
    /// packet at the end of the path.
    fn descend<P: Store>(&mut self, store: &P, mut at: u32) -> Option<PacketId> {
        self.path.clear();
        loop {
            match &mut self.nodes.at_mut(at).content {
                Content::Flow { list, .. } => return list.pop_front(store),
                Content::Inner { children, .. } => {
                    let (key, child) = children.first()?;
                    self.path.push((child, key));
                    at = child;
                }
            }
            if let Some(packet) = self
                .nodes
                .at_mut(at)
                .shaper
                .as_deref_mut()
                .and_then(|shaper| shaper.passed.pop_front())
            {
                return Some(packet);
            }
        }
    }
}

impl Scheduler for PifoTree {
    fn add_flow(&mut self, now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let parent = self.parent_of(spec);
        // A bucket cannot begin at [`Nanos::MAX`].
        let began = if now == Nanos::MAX { self.now } else { self.now.max(now) };
        let node = Node::flow(began, parent, spec);
        self.weigh(parent, node.standing.weight, 0);
        FlowSlot(self.nodes.insert(node))
    }

    fn change_flow<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        self.advance(store, now);
        let (slot, parent) = (slot.0, self.parent_of(spec));
        let (old_parent, old_weight) =
            (self.nodes.at(slot).parent, self.nodes.at(slot).standing.weight);
        let moved =
            if parent == old_parent { Vec::new() } else { self.detach(store, slot, spec.flow) };
        let node = self.nodes.at_mut(slot);
        node.parent = parent;
        if parent != old_parent {
            node.standing = Default::default();
        }
        node.standing.change(spec);
        let weight = node.standing.weight;
        let mut freed = None;
        if spec.ceil > 0 {
            node.shape(self.now, spec.ceil, flow_depth(spec));
        } else {
            freed = node.shaper.take();
        }
        self.weigh(old_parent, 0, old_weight);
        self.weigh(parent, weight, 0);
        self.set_timer(store, slot);
        for facts in moved.into_iter().chain(freed.into_iter().flat_map(|shaper| shaper.queue)) {
            let above = self.push_turn(slot, &facts);
            self.climb(store, above, &facts, false);
        }
    }

    fn remove_flow<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        flow: u32,
    ) -> PacketList {
        let slot = slot.0;
        if !self.nodes.get(slot).is_some_and(|node| matches!(node.content, Content::Flow { .. })) {
            return PacketList::default();
        }
        self.advance(store, now);
        self.detach(store, slot, flow);
        self.timers.set(&mut self.timer_places, slot, None);
        let Some(Node { parent, standing, content: Content::Flow { list, .. }, .. }) =
            self.nodes.remove(slot)
        else {
            return PacketList::default();
        };
        self.weigh(parent, 0, standing.weight);
        let (packets, bytes) = list.measure(store);
        self.len -= packets;
        self.backlog -= bytes;
        list
    }

    fn enqueue<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        self.advance(store, now);
        let node = self.nodes.at_mut(slot.0);
        let facts = node.standing.facts(self.now, store, packet);
        if let Content::Flow { list, .. } = &mut node.content {
            list.push_back_of(store, packet, facts.len);
        }
        self.len += 1;
        self.backlog += u64::from(facts.len);
        self.climb(store, slot.0, &facts, false);
        None
    }

    fn dequeue<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<PacketId> {
        if now == Nanos::MAX {
            self.release_all(store);
        } else {
            self.advance(store, now);
        }
        let packet = self.take_best(store, ROOT)?;
        self.len -= 1;
        self.backlog -= u64::from(store.len(packet));
        Some(packet)
    }

    fn next_event(&self) -> Option<Nanos> {
        let ready = matches!(
            &self.nodes.at(ROOT).content,
            Content::Inner { children, .. } if children.first().is_some()
        );
        if ready {
            Some(self.now)
        } else {
            self.timers.first().map(|(time, _)| Nanos(turns::rank(time)).max(self.now))
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    /// `shaped`: the number of times that a packet had to wait for tokens.
    fn variables(&self) -> Vec<(&'static str, u64)> {
        alloc::vec![("shaped", self.shaped)]
    }
}

const ROOT: u32 = TreeSpec::ROOT.0;

pub(super) const ROW: Row = Row {
    name: "pifo-tree",
    aliases: &[],
    summary: "a tree of PIFOs: classes of flows by priority, a rank for classes, a rank for \
              flows, and bounds on the rates of flows",
    source: "Sivaraman et al. 2016",
    parameters: Settings::PARAMETERS,
    traits: Traits {
        complexity: "O(log N) at each level",
        weighted: true,
        work_conserving: false,
        classifies: false,
        flow: &[WEIGHT, PRIORITY, DEADLINE, CEIL, BURST, LMAX],
    },
};
