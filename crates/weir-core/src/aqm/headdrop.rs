//! Head drop: the oldest packet makes room for one that finds the queue full.
//!
//! # Model
//! A packet that finds the queue full enters it, and the packet that has waited longest is dropped
//! for it. Senders learn of the drop earlier than with tail drop, by the time that a packet takes
//! through the queue, and what is delivered is younger.
//!
//! The dropped packet is taken out when its turn comes, which takes no time; until then it is not
//! counted as waiting by the limit. While a queue is not served at all, up to as many such packets
//! as its limit are kept; from then on packets that come are dropped.
//!
//! # Reference
//! Yin and Hluchyj, "Implication of dropping packets from the front of a queue", IEEE Transactions
//! on Communications 41(6), 1993.
//!
//! # Parameters
//! None of its own; `queue` sets the limit.
//!
//! # Complexity
//! O(1) for each packet, beside those that it takes out for one that is longer than the oldest.
//! Four bytes for each packet that waits.
//!
//! # Guarantees
//! A packet that leaves is the oldest of the youngest `limit` packets that have come.
//!
//! # Differences from Linux/FreeBSD
//! The result is that of Linux's `pfifo_head_drop`, which takes the oldest packet out at once.
//!
//! # Validation
//! Against a list from which the front is taken.

use alloc::collections::VecDeque;

use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::stats::DropReason;
use crate::units::Nanos;

/// Head drop.
#[derive(Debug)]
pub struct HeadDrop {
    limit_packets: u32,
    limit_bytes: u64,
    /// Lengths of the packets that wait and will be served, the oldest first.
    alive: VecDeque<u32>,
    alive_bytes: u64,
    /// Packets in front of them that are as good as dropped.
    owed: u32,
}

impl HeadDrop {
    /// One with nothing owed.
    pub fn new(_policy: &Policy, setup: &Setup) -> Self {
        let Setup { limit_packets, limit_bytes, .. } = *setup;
        Self { limit_packets, limit_bytes, alive: VecDeque::new(), alive_bytes: 0, owed: 0 }
    }

    /// Whether a packet of `len` bytes fits. An empty queue takes any.
    fn fits(&self, len: u32) -> bool {
        let packets = self.alive.len();
        packets == 0
            || packets < self.limit_packets as usize
                && self.alive_bytes + u64::from(len) <= self.limit_bytes
    }

    /// Gives up the oldest packet that was to be served.
    fn give_up(&mut self) {
        if let Some(len) = self.alive.pop_front() {
            self.alive_bytes -= u64::from(len);
            self.owed += 1;
        }
    }
}

impl Aqm for HeadDrop {
    fn arrive(&mut self, _now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        // What waited before this AQM was there is beyond its knowledge, and leaves in front.
        let known = self.owed as usize + self.alive.len();
        if queue.packets == 0 && known > 0 {
            (self.owed, self.alive_bytes) = (0, 0);
            self.alive.clear();
        }
        if self.owed as usize > self.alive.len().max(MOST_OWED) {
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
    fn admit(&mut self, len: u32) -> Verdict {
        self.alive.push_back(len);
        self.alive_bytes += u64::from(len);
        Verdict::Admit
    }
}

/// Packets that may be owed by a queue whose limit is smaller.
const MOST_OWED: usize = 64;

pub(super) const ROW: Row = Row {
    name: "headdrop",
    aliases: &["drophead"],
    summary: "the oldest packet makes room for one that finds the queue full",
    source: "Yin and Hluchyj, IEEE Transactions on Communications 41(6), 1993",
    traits: Traits { marks: false, classifies: false },
    parameters: &[],
};
