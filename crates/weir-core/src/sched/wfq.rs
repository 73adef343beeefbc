//! WFQ: weighted fair queueing, also called packet-by-packet generalised processor sharing.
//!
//! # Model
//! Think of a fluid that serves all flows with packets at once, each at a rate by its weight.
//! Packets leave in the order in which the fluid would finish them, as far as it is known when one
//! has to be chosen. The fluid is computed exactly: at each arrival its progress and the flows that
//! it still serves are known.
//!
//! # Reference
//! Demers, Keshav and Shenker, "Analysis and simulation of a fair queueing algorithm", SIGCOMM
//! 1989; Parekh and Gallager, "A generalized processor sharing approach to flow control in
//! integrated services networks", IEEE/ACM Transactions on Networking 1(3), 1993.
//!
//! # Symbols
//! `S = max(V, F of the one before)` when a packet of `L` bytes arrives, `F = S + L / w` with `w`
//! the flow's weight. `V` is the fluid's time; it grows by a byte over the sum of the weights of
//! those flows that the fluid still has something of. The fluid is served as many bytes as packets
//! have left, so its rate is the link's, whatever that is, and it rests when the link does. Times
//! have 40 bits of fraction, of which 20 count when they are compared. Of equal finishes that of
//! the flow with the lower place goes first. A new weight holds at once: the fluid serves what it
//! still has of the flow at the new rate, and waiting packets get new stamps that end with it.
//!
//! # Parameters
//! `weight` 1..65536, default 1.
//!
//! # Complexity
//! O(log N) for each packet and N flows: a tournament among the heads, and a tree of sums for the
//! fluid, in which any number of flows may end at once. Changing a flow looks at its packets.
//!
//! # Guarantees
//! A packet leaves at most one largest packet of the link later than the fluid would have finished
//! with it. It may leave far earlier: a flow can get ahead of the fluid by as many packets as there
//! are other flows, over two, and then has to wait as long. WF2Q and WF2Q+ avoid that.
//!
//! # Differences from Linux/FreeBSD
//! Neither has it. Schedulers of this name elsewhere are often SCFQ, which needs no fluid.
//!
//! # Validation
//! The order of packets against plain loops over all flows that follow the fluid from end to end,
//! and the bound above, in property tests.

use super::fluid_clocked::{FluidClocked, Heads};
use super::stamp::LIMIT;
use super::tournament::Tournament;
use super::{Row, Traits, WEIGHT};

/// Weighted fair queueing.
pub type Wfq = FluidClocked<ByFinish>;

/// Heads by finish.
#[derive(Debug, Default)]
pub struct ByFinish {
    heads: Tournament,
    /// What times in the tournament count from.
    origin: u128,
}

impl Heads for ByFinish {
    fn make_room(&mut self, slot: u32) {
        self.heads.make_room(slot);
    }

    fn set(&mut self, slot: u32, _start: u128, finish: u128) {
        while finish.saturating_sub(self.origin) > u128::from(LIMIT) {
            self.heads.set_back(STEP, |_| {});
            self.origin += u128::from(STEP);
        }
        self.heads.set(slot, finish.saturating_sub(self.origin) as u64);
    }

    fn clear(&mut self, slot: u32) {
        self.heads.clear(slot);
    }

    fn next(&self, _now: u128) -> Option<Result<u32, u128>> {
        self.heads.first().map(|(_, slot)| Ok(slot))
    }

    fn depth(&self) -> u64 {
        self.heads.depth()
    }
}

/// What the origin moves on by: half of the range, since flows may be far from the fluid and from
/// each other.
const STEP: u64 = LIMIT / 2;

pub(super) const ROW: Row = Row {
    name: "wfq",
    aliases: &["pgps"],
    summary: "weighted fair queueing: packets leave in the order in which a fluid would finish with them",
    source: "Demers, Keshav and Shenker 1989; Parekh and Gallager 1993",
    parameters: &[],
    traits: Traits {
        complexity: "O(log N)",
        weighted: true,
        work_conserving: true,
        classifies: false,
        flow: &[WEIGHT],
    },
};
