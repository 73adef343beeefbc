//! A tree of PIFOs: classes that are ranked by one rule, flows within them by another, and bounds
//! on what flows may send.
//!
//! # Model
//! Each node of the tree is a queue sorted by ranks. An arriving packet puts a turn of its flow
//! into the node above the flow, a turn of that node into the one above it, and so on up to the
//! root; each node computes the rank by its own rule. Service takes the best turn of the root, then
//! the best of the node that it names, and so on down to a flow; the flow's oldest packet goes. The
//! packet that brought a turn of a class no longer matters: the class decides again when it is
//! served.
//!
//! A node or a flow may have a bound, a token bucket. It holds turns back from the node above until
//! there are tokens, so that the tree may have packets and give none. When there are tokens for the
//! best packet of the node at that time, the packet passes: it is charged its own length, and no
//! later packet goes before it within the node.
//!
//! In the table there are two levels: the root ranks classes, a class has the flows of one priority
//! and ranks them. A class's weight is the sum of the weights of its flows. Capacity that a flow
//! does not use therefore goes first to others of its class. Trees of any shape are made in Rust
//! ([`TreeSpec`]).
//!
//! # Reference
//! Sivaraman et al., "Programmable packet scheduling at line rate", SIGCOMM 2016. With `stfq`
//! throughout it is the packet fair queueing by hierarchies of Bennett and Zhang, IEEE/ACM
//! Transactions on Networking 5(5), 1997, with start-time fair queueing in the nodes.
//!
//! # Parameters
//! `rank` of the root and `class-rank` of the classes, both by default `stfq`: see `pifo`.
//! `rank prio` serves classes strictly in the order of their priorities, and with the default below
//! it shares each by weight. Labels and deadlines are those of packets and their flows at both
//! levels.
//!
//! `pri` 0..63, default 0: the class. `weight` 1..65536, default 1. `deadline` up to eleven days,
//! default 0. `ceil` in bit/s, default 0, none: rate that the flow never exceeds. `burst` in bytes,
//! the depth of the bucket, at least `lmax`; default what `ceil` gives in 10 ms and two packets of
//! `lmax`.
//!
//! # Complexity
//! O(log N) at each level for each packet. Removing or moving a flow takes as long for each of its
//! packets.
//!
//! # Guarantees
//! Order within a flow. No inversions at any node: no turn there is better than the one that is
//! served. With `stfq`, the bytes of two flows of a class that always have packets differ, each
//! divided by its weight, by at most one largest packet of each. Between classes this holds for
//! their turns, each as long as the packet that brought it. What leaves in a turn may be another
//! packet of the class, so that at any moment classes of mixed sizes are apart by as much more as
//! the packets inside differ; over time they are not. In any time `t` a bound lets at most
//! `ceil · t` and the depth of its bucket pass, exactly. It does so where it stands: packets that
//! have passed and wait for others further up may leave closer together.
//!
//! # Differences from Linux/FreeBSD
//! Neither has one. Linux's `hfsc` and `htb` have hierarchies with other rules.
//!
//! # Validation
//! One node against `pifo`; two levels against plain lists; shares at each level; bounds in every
//! window and over hours; random changes with nothing lost.

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

/// A tree of PIFOs.
#[derive(Debug)]
pub struct PifoTree {
    pub(super) nodes: Slab<Node>,
    /// The place of each node among the children of the node above.
    pub(super) places: Vec<u32>,
    /// Nodes that hold packets back, by when they let the next one go on.
    pub(super) timers: TurnHeap,
    pub(super) timer_places: Vec<u32>,
    pub(super) spec: TreeSpec,
    /// How classes that are made as flows come rank them; `None` when all nodes are in the
    /// specification.
    pub(super) class_rank: Option<Ranking>,
    pub(super) epoch: u64,
    pub(super) now: Nanos,
    pub(super) arrivals: u64,
    pub(super) len: usize,
    pub(super) backlog: u64,
    /// Packets that had to wait for tokens.
    pub(super) shaped: u64,
    /// The turns that are being served, from the root down.
    pub(super) path: Vec<(u32, u128)>,
}

settings! {
    /// Settings of a tree of PIFOs.
    struct Settings {
        rank: Ranking =
            Ranking::setting(Ranking::Stfq, "what classes are sorted by, the least first"),
        class_rank as "class-rank": Ranking = Ranking::setting(
            Ranking::Stfq,
            "what the flows of a class are sorted by, the least first",
        ),
    }
}

impl PifoTree {
    /// An empty one of two levels, as the table has it.
    pub fn new(discipline: &Discipline) -> Self {
        let settings = Settings::of(discipline);
        let spec = TreeSpec::new(settings.rank);
        Self::build(spec, Some(settings.class_rank), discipline.epoch())
    }

    /// An empty one of any shape.
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

    /// The node that a flow belongs to. Classes of the table's tree are made here.
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

    /// Changes the weight of a node whose weight is the sum over its flows.
    fn weigh(&mut self, node: u32, more: u64, less: u64) {
        let node = self.nodes.at_mut(node);
        if matches!(node.content, Content::Inner { sums: true, .. }) {
            node.standing.set_weight(node.standing.weight + more - less);
        }
    }

    /// The PIFO of a node.
    pub(super) fn pifo(&mut self, node: u32) -> Option<(&mut Ranker, &mut TurnHeap)> {
        match &mut self.nodes.get_mut(node)?.content {
            Content::Inner { ranker, children, .. } => Some((ranker, children)),
            Content::Flow { .. } => None,
        }
    }

    /// Puts a node where it belongs among the children of the one above, by its first turn.
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

    /// Gives a node a turn in the one above, for a packet that goes on from it, and says which that
    /// is.
    pub(super) fn push_turn(&mut self, node: u32, facts: &Facts) -> u32 {
        let parent = self.nodes.at(node).parent;
        if self.pifo(parent).is_some_and(|(ranker, _)| ranker.is_late()) {
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

    /// Sets the times of a node back, so that they stay within their range.
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

    /// Takes the best packet of a node, and the turns that lead to it.
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

    /// Takes the best turns from `at` down into [`Self::path`], and the packet that they lead to.
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
        // The end of time is no time at which a bucket could begin.
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
        let ready = matches!(&self.nodes.at(ROOT).content, Content::Inner { children, .. } if children.first().is_some());
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

    /// `shaped`: how often a packet had to wait for tokens.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        alloc::vec![("shaped", self.shaped)]
    }
}

/// The root's number.
const ROOT: u32 = TreeSpec::ROOT.0;

pub(super) const ROW: Row = Row {
    name: "pifo-tree",
    aliases: &[],
    summary: "a tree of PIFOs: classes of flows by priority, a rank for classes, one for flows, and bounds on what a flow sends",
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
