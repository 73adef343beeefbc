//! Tail drop: a packet that finds the queue full is dropped.
//!
//! # Model
//! Only the queue's limit decides about a packet. A queue without an AQM behaves in the same
//! manner.
//!
//! # Reference
//! Common practice in routers; RFC 7567 describes its cost in delay.
//!
//! # Parameters
//! None; `queue` sets the limit.
//!
//! # Complexity
//! O(1).
//!
//! # Guarantees
//! No packet is dropped while there is room.
//!
//! # Differences from Linux/FreeBSD
//! There is no difference from Linux's `pfifo` and `bfifo`. Linux's `pfifo_fast` has one such queue
//! for each of three bands.
//!
//! # Validation
//! A test sends the same random packets through a pipe with droptail and through one without an
//! AQM, and compares the fate of each packet.

use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::units::Nanos;

/// Tail drop.
#[derive(Debug)]
pub struct DropTail;

impl DropTail {
    /// A new AQM.
    pub fn new(_policy: &Policy, _setup: &Setup) -> Self {
        Self
    }
}

impl Aqm for DropTail {
    #[inline]
    fn arrive(&mut self, _now: Nanos, _packet: &Seen, _queue: &QueueState) -> Verdict {
        Verdict::Pass
    }

    #[inline]
    fn leave(&mut self, _now: Nanos, _packet: &Seen, _queue: &QueueState) -> Verdict {
        Verdict::Pass
    }
}

pub(super) const ROW: Row = Row {
    name: "droptail",
    aliases: &["taildrop"],
    summary: "a packet that finds the queue full is dropped",
    source: "practice",
    traits: Traits { marks: false, classifies: false },
    parameters: &[],
};
