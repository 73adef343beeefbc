//! Head drop: a packet that finds the queue full displaces the oldest packet.
//!
//! # Model
//! A packet that finds the queue full enters it, and the packet that has waited longest is dropped
//! instead. Compared with tail drop, senders notice the drop earlier by one queueing delay, and the
//! delivered packets are younger.
//!
//! The dropped packet stays in the queue until its turn to be served comes, but does not count
//! towards the limit. Its departure takes no transmission time. While the queue holds more than 64
//! such packets, and they outnumber the other packets, it drops arriving packets that do not fit.
//!
//! # Reference
//! Yin and Hluchyj, "Implication of dropping packets from the front of a queue", IEEE Transactions
//! on Communications 41(6), 1993.
//!
//! # Parameters
//! None; `queue` sets the limit.
//!
//! # Complexity
//! O(1) for each packet, and O(1) for each additional packet that a long packet displaces. Each
//! packet that waits takes four bytes of memory.
//!
//! # Guarantees
//! Each delivered packet is among the latest `limit` packets that entered the queue.
//!
//! # Differences from Linux/FreeBSD
//! Linux's `pfifo_head_drop` removes the oldest packet at once. The result is the same, except when
//! so many dropped packets wait that the queue drops arriving packets.
//!
//! # Validation
//! A test compares the queue with a list that drops from its front.

use alloc::collections::VecDeque;

use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::stats::DropReason;
use crate::units::Nanos;

/// Head drop.
#[derive(Debug)]
pub struct HeadDrop {
    limit_packets: u32,
    limit_bytes: u64,
    /// The lengths of the packets that will be served, from the oldest to the newest.
    alive: VecDeque<u32>,
    alive_bytes: u64,
    /// The number of packets that will be dropped. These packets wait in front of the packets in
    /// `alive`.
    owed: u32,
}

impl HeadDrop {
    /// A new AQM with nothing to drop.
    pub fn new(_policy: &Policy, setup: &Setup) -> Self {
        let Setup { limit_packets, limit_bytes, .. } = *setup;
        Self { limit_packets, limit_bytes, alive: VecDeque::new(), alive_bytes: 0, owed: 0 }
    }

    /// Whether a packet of `len` bytes fits. Any packet fits into an empty queue.
    fn fits(&self, len: u32) -> bool {
        let packets = self.alive.len();
        packets == 0
            || packets < self.limit_packets as usize
                && self.alive_bytes + u64::from(len) <= self.limit_bytes
    }

    /// Moves the oldest packet of `alive` to the packets that will be dropped.
    fn give_up(&mut self) {
        if let Some(len) = self.alive.pop_front() {
            self.alive_bytes -= u64::from(len);
            self.owed += 1;
        }
    }
}

impl Aqm for HeadDrop {
    fn arrive(&mut self, _now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        // A change of configuration removes packets without calling `leave`.
        let known = self.owed as usize + self.alive.len();
        if queue.packets == 0 && known > 0 {
            (self.owed, self.alive_bytes) = (0, 0);
            self.alive.clear();
        }
        if self.owed as usize > self.alive.len().max(MAX_OWED) {
            return if self.fits(packet.len) {
                self.admit(packet.len)
            } else {
                Verdict::Drop(DropReason::QueueFull)
            };
        }
        while !self.fits(packet.len) {
            self.give_up();
        }
        self.admit(packet.len)
    }

    fn leave(&mut self, _now: Nanos, _packet: &Seen, queue: &QueueState) -> Verdict {
        // Packets that waited before this AQM existed are not counted here, and leave first.
        if queue.packets as usize + 1 > self.owed as usize + self.alive.len() {
            return Verdict::Pass;
        }
        if self.owed > 0 {
            self.owed -= 1;
            return Verdict::Drop(DropReason::QueueFull);
        }
        if let Some(len) = self.alive.pop_front() {
            self.alive_bytes -= u64::from(len);
        }
        Verdict::Pass
    }
}

impl HeadDrop {
    /// Counts an accepted packet among those that will be sent.
    fn admit(&mut self, len: u32) -> Verdict {
        self.alive.push_back(len);
        self.alive_bytes += u64::from(len);
        Verdict::Admit
    }
}

/// Up to this many packets that will be dropped may wait, even if they outnumber other packets.
const MAX_OWED: usize = 64;

pub(super) const ROW: Row = Row {
    name: "headdrop",
    aliases: &["drophead"],
    summary: "a packet that finds the queue full displaces the oldest packet",
    source: "Yin and Hluchyj, IEEE Transactions on Communications 41(6), 1993",
    traits: Traits { marks: false, classifies: false },
    parameters: &[],
};
