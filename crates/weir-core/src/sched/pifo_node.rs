//! Nodes of a tree of PIFOs, and the token buckets that bound them.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use super::bucket::Bucket;
use super::rank::{Facts, Ranker, Standing};
use super::turns::{self, TurnHeap, Turns};
use super::{FlowSpec, MAX_PACKET, MIN_PACKET, NodeSpec};
use crate::packet::{PacketId, PacketList};
use crate::units::{Nanos, Rate};

/// A node: a flow, or a PIFO of nodes.
#[derive(Debug)]
pub(super) struct Node {
    /// The node above, or [`NONE`].
    pub(super) parent: u32,
    /// The state that the node above uses to compute ranks.
    pub(super) standing: Standing,
    /// The bound that holds packets of this node back from the node above.
    pub(super) shaper: Option<Box<Shaper>>,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    /// A flow: its packets, and their turns in the node above.
    Flow { list: PacketList, turns: Turns },
    /// A PIFO: its children by their first turns, and its own turns in the node above. These turns
    /// form a set, because they are not tied to packets.
    Inner {
        ranker: Ranker,
        children: TurnHeap,
        turns: BTreeSet<u128>,
        /// Whether the node's weight is the sum of the weights of its flows.
        sums: bool,
    },
}

/// A token bucket, the packets that wait for tokens, and the packets that have passed.
#[derive(Debug)]
pub(super) struct Shaper {
    pub(super) bucket: Bucket,
    /// For a flow: the packets that wait, the oldest first.
    pub(super) queue: VecDeque<Facts>,
    /// For a PIFO: the packets in the PIFO that wait for tokens. When there are tokens, the PIFO
    /// selects the next of these packets.
    pub(super) held: BTreeMap<PacketId, Facts>,
    /// For a PIFO: the packets that have passed the bound and left the PIFO, in order. Each has a
    /// turn in the node above.
    pub(super) passed: VecDeque<PacketId>,
}

impl Shaper {
    fn new(bucket: Bucket) -> Self {
        Self { bucket, queue: VecDeque::new(), held: BTreeMap::new(), passed: VecDeque::new() }
    }

    /// Whether no packet waits for tokens.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.held.is_empty()
    }
}

impl Node {
    /// A flow without packets, below `parent`.
    pub(super) fn flow(now: Nanos, parent: u32, spec: &FlowSpec) -> Self {
        let content = Content::Flow { list: PacketList::default(), turns: Turns::default() };
        let mut node = Self { parent, standing: Standing::new(spec), shaper: None, content };
        if spec.ceil > 0 {
            node.shape(now, spec.ceil, flow_depth(spec));
        }
        node
    }

    /// A PIFO without children.
    pub(super) fn inner(now: Nanos, parent: u32, spec: &NodeSpec, epoch: u64) -> Self {
        let content = Content::Inner {
            ranker: Ranker::new(spec.rank, epoch),
            children: TurnHeap::default(),
            turns: BTreeSet::new(),
            sums: spec.weight == 0,
        };
        let flow = FlowSpec { weight: spec.weight, priority: spec.priority, ..FlowSpec::default() };
        let mut node = Self { parent, standing: Standing::new(&flow), shaper: None, content };
        if spec.weight == 0 {
            node.standing.set_weight(0);
        }
        if spec.ceil > 0 {
            node.shape(now, spec.ceil, depth(spec.ceil, spec.burst, 1500));
        }
        node
    }

    /// Sets a bound. An existing bucket keeps its tokens; a new one is full.
    pub(super) fn shape(&mut self, now: Nanos, rate: u64, depth: u64) {
        let rate = rate.min(Rate::MAX.bps());
        match &mut self.shaper {
            Some(shaper) => shaper.bucket.configure(now, rate, depth),
            None => self.shaper = Some(Box::new(Shaper::new(Bucket::new(now, rate, depth)))),
        }
    }

    /// The node's first turn in the node above.
    pub(super) fn first_turn(&self) -> Option<u128> {
        match &self.content {
            Content::Flow { turns, .. } => turns.first(),
            Content::Inner { turns, .. } => turns.first().copied(),
        }
    }

    /// Adds a turn that the node has in the node above.
    pub(super) fn push_turn(&mut self, key: u128) {
        match &mut self.content {
            Content::Flow { turns, .. } => turns.push(key),
            Content::Inner { turns, .. } => {
                turns.insert(key);
            }
        }
    }

    pub(super) fn pop_first_turn(&mut self) -> Option<u128> {
        match &mut self.content {
            Content::Flow { turns, .. } => turns.pop_first(),
            Content::Inner { turns, .. } => turns.pop_first(),
        }
    }

    pub(super) fn pop_last_turn(&mut self) -> Option<u128> {
        match &mut self.content {
            Content::Flow { turns, .. } => turns.pop_last(),
            Content::Inner { turns, .. } => turns.pop_last(),
        }
    }

    /// Reduces the node's turns and times, because the node above has set its virtual time back.
    pub(super) fn set_back(&mut self, by: u64) {
        self.standing.set_back(by);
        match &mut self.content {
            Content::Flow { turns, .. } => turns.set_back(by),
            Content::Inner { turns, .. } => {
                *turns = turns.iter().map(|&key| turns::set_back(key, by)).collect();
            }
        }
    }
}

/// The depth of a flow's bucket in bytes, as in `htb`.
pub(super) fn flow_depth(spec: &FlowSpec) -> u64 {
    depth(spec.ceil.min(Rate::MAX.bps()), spec.burst, spec.max_packet.clamp(MIN_PACKET, MAX_PACKET))
}

/// The depth of a bucket in bytes: at least one packet, so that a packet can pass at its arrival.
fn depth(rate: u64, burst: u32, packet: u32) -> u64 {
    match burst {
        0 => 2 * u64::from(packet) + rate / 800,
        burst => u64::from(burst.max(packet)),
    }
}

/// No node.
pub(super) const NONE: u32 = u32::MAX;
