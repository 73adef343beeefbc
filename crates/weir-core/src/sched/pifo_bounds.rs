//! Bounds in a tree of PIFOs: holding packets back by token buckets, releasing them, and
//! withdrawing a removed flow.
//!
//! When there are enough tokens for the best packet of a node, the packet moves from the node's
//! PIFO to the node's list of passed packets, and the bucket loses tokens for the length of this
//! packet. A turn of the node in the nodes above always serves the first packet of this list. Flows
//! have no such list: their packets stay in the flow's queue, in order.

use alloc::vec::Vec;

use super::PifoTree;
use super::pifo_node::{Content, NONE};
use super::rank::Facts;
use super::turns;
use crate::packet::{PacketId, PacketList, Store};
use crate::units::Nanos;

impl PifoTree {
    /// Sets the timer of a node to the time at which it releases the next packet.
    pub(super) fn set_timer<P: Store>(&mut self, store: &P, node: u32) {
        let release = self.release_time(store, node).map(|time| turns::key(time.0, 0));
        self.timers.set(&mut self.timer_places, node, release);
    }

    /// The time at which there are enough tokens for the next packet that a node holds back; `None`
    /// if the node holds no packet back.
    fn release_time<P: Store>(&self, store: &P, node: u32) -> Option<Nanos> {
        let shaper = self.nodes.at(node).shaper.as_deref().filter(|shaper| !shaper.is_idle())?;
        let len = match shaper.queue.front() {
            Some(facts) => facts.len,
            None => self.best_len(store, node)?,
        };
        Some(shaper.bucket.allows_at(len))
    }

    /// The length of the packet that the PIFO of `node` would serve now; `None` if it is empty.
    fn best_len<P: Store>(&self, store: &P, mut node: u32) -> Option<u32> {
        loop {
            match &self.nodes.at(node).content {
                Content::Flow { list, .. } => return (!list.is_empty()).then(|| list.front_len()),
                Content::Inner { children, .. } => node = children.first()?.1,
            }
            if let Some(&packet) =
                self.nodes.at(node).shaper.as_deref().and_then(|shaper| shaper.passed.front())
            {
                return Some(store.len(packet));
            }
        }
    }

    /// Passes a packet upwards from `node`, to the root or to the next bound that holds it back,
    /// because tokens are missing or other packets already wait there. With `free`, tokens are
    /// neither needed nor taken.
    pub(super) fn climb<P: Store>(&mut self, store: &P, mut node: u32, facts: &Facts, free: bool) {
        while let Some(below) = self.nodes.get_mut(node).filter(|below| below.parent != NONE) {
            let is_flow = matches!(below.content, Content::Flow { .. });
            if let Some(shaper) = &mut below.shaper {
                shaper.bucket.fill(self.now);
                if !shaper.is_idle() || !free && !shaper.bucket.allows(facts.len) {
                    if is_flow {
                        shaper.queue.push_back(*facts);
                    } else {
                        shaper.held.insert(facts.packet, *facts);
                    }
                    self.shaped += 1;
                    return self.set_timer(store, node);
                }
                if !free {
                    shaper.bucket.take(facts.len);
                }
                if !is_flow {
                    self.pass(store, node);
                }
            }
            node = self.push_turn(node, facts);
        }
    }

    /// Moves the best packet of a bounded node from its PIFO to its list of passed packets.
    fn pass<P: Store>(&mut self, store: &P, node: u32) -> Option<PacketId> {
        let packet = self.take_best(store, node)?;
        self.nodes.at_mut(node).shaper.as_deref_mut()?.passed.push_back(packet);
        Some(packet)
    }

    /// Releases the next packet that a node holds back. The caller has checked that there are
    /// enough tokens; with `free`, tokens are neither needed nor taken.
    fn release<P: Store>(&mut self, store: &P, node: u32, free: bool) {
        let now = self.now;
        let Some(shaper) = &mut self.nodes.at_mut(node).shaper else { return };
        shaper.bucket.fill(now);
        let facts = match shaper.queue.pop_front() {
            Some(facts) => Some(facts),
            None => self.pass(store, node).and_then(|packet| {
                self.nodes.at_mut(node).shaper.as_deref_mut()?.held.remove(&packet)
            }),
        };
        if let (Some(facts), false, Some(shaper)) =
            (&facts, free, &mut self.nodes.at_mut(node).shaper)
        {
            shaper.bucket.take(facts.len);
        }
        self.set_timer(store, node);
        if let Some(facts) = facts {
            let parent = self.push_turn(node, &facts);
            self.climb(store, parent, &facts, free);
        }
    }

    /// Releases the packets that bounds have held back until `now`, each at its own time. Does
    /// nothing at [`Nanos::MAX`].
    pub(super) fn advance<P: Store>(&mut self, store: &P, now: Nanos) {
        if now == Nanos::MAX {
            return;
        }
        while let Some((time, node)) = self.timers.first() {
            let time = Nanos(turns::rank(time));
            if time > now {
                break;
            }
            self.now = self.now.max(time);
            self.release(store, node, false);
        }
        self.now = self.now.max(now);
    }

    /// Releases all packets regardless of tokens, and takes no tokens.
    pub(super) fn release_all<P: Store>(&mut self, store: &P) {
        while let Some((_, node)) = self.timers.first() {
            self.release(store, node, true);
        }
    }

    /// Withdraws a packet that has left the PIFO of `node`: removes the worst turn of `node` and of
    /// each node above, up to the bound that holds the packet back or to the root. Removes the
    /// packet from that bound.
    fn withdraw<P: Store>(&mut self, store: &P, mut node: u32, packet: PacketId) {
        while self.nodes.at(node).parent != NONE {
            let below = self.nodes.at_mut(node);
            if below
                .shaper
                .as_deref_mut()
                .is_some_and(|shaper| shaper.held.remove(&packet).is_some())
            {
                return self.set_timer(store, node);
            }
            node = self.take_back_turn(node, store.len(packet));
        }
    }

    /// Removes the worst turn that a node has in the node above, and returns the node above.
    fn take_back_turn(&mut self, node: u32, len: u32) -> u32 {
        let below = self.nodes.at_mut(node);
        let parent = below.parent;
        let key = below.pop_last_turn();
        if let Some(ranker) = self.pifo(parent).map(|(ranker, _)| *ranker)
            && let Some(key) = key
        {
            ranker.withdraw(&mut self.nodes.at_mut(node).standing, turns::rank(key), len);
        }
        self.place(node);
        parent
    }

    /// Removes a flow's turns from all nodes above it, and returns the facts of their packets.
    /// Packets that have passed bounds above return to the front of the flow's list. Packets that
    /// the flow's own bound holds back are not affected.
    pub(super) fn detach<P: Store>(&mut self, store: &mut P, slot: u32, flow: u32) -> Vec<Facts> {
        let parent = self.nodes.at(slot).parent;
        let mut packets = self.recall(store, parent, flow);
        let node = self.nodes.at_mut(slot);
        let Content::Flow { list, turns } = &mut node.content else { return Vec::new() };
        let (mut rest, passed_count) = (*list, packets.len());
        while turns.pop_last().is_some() {
            packets.extend(rest.pop_front(store));
        }
        self.place(slot);
        for &packet in &packets[passed_count..] {
            self.withdraw(store, parent, packet);
        }
        let node = self.nodes.at_mut(slot);
        if let (Content::Flow { list, .. }, true) = (&mut node.content, passed_count > 0) {
            let mut combined = PacketList::default();
            for &packet in &packets[..passed_count] {
                combined.push_back(store, packet);
            }
            while let Some(packet) = list.pop_front(store) {
                combined.push_back(store, packet);
            }
            *list = combined;
        }
        packets.iter().map(|&packet| node.standing.facts(self.now, store, packet)).collect()
    }

    /// Takes back the packets of a flow that have passed bounds from `node` upwards, and removes
    /// their turns from the nodes above. Returns the packets, the oldest first.
    fn recall<P: Store>(&mut self, store: &P, mut node: u32, flow: u32) -> Vec<PacketId> {
        let mut recalled = Vec::new();
        while self.nodes.at(node).parent != NONE {
            let parent = self.nodes.at(node).parent;
            if let Some(shaper) = self.nodes.at_mut(node).shaper.as_deref_mut() {
                let (own, others) = shaper
                    .passed
                    .iter()
                    .partition::<Vec<PacketId>, _>(|&&packet| store.flow(packet) == flow);
                shaper.passed = others.into();
                for &packet in &own {
                    self.take_back_turn(node, store.len(packet));
                    self.withdraw(store, parent, packet);
                }
                // Packets that passed a higher bound are older.
                recalled.splice(0..0, own);
            }
            node = parent;
        }
        recalled
    }
}
