//! WFQ: weighted fair queueing, also called packet-by-packet generalised processor sharing.
//!
//! # Model
//! Think of a fluid that serves all flows with packets simultaneously, each at a rate in proportion
//! to its weight. Packets leave in the order in which the fluid would finish them, as far as the
//! arrivals are known when a packet must be chosen. The fluid is simulated exactly: at each arrival
//! its progress and the flows that it still serves are known.
//!
//! # Reference
//! Demers, Keshav and Shenker, "Analysis and simulation of a fair queueing algorithm", SIGCOMM
//! 1989; Parekh and Gallager, "A generalized processor sharing approach to flow control in
//! integrated services networks", IEEE/ACM Transactions on Networking 1(3), 1993.
//!
//! # Symbols
//! When a packet of `L` bytes arrives, `S = max(V, F of the flow's previous packet)` and
//! `F = S + L / w`, with `w` the flow's weight. `V` is the fluid's time; for each byte of service,
//! it grows by one divided by the sum of the weights of all flows that still have bytes in the
//! fluid. The fluid serves as many bytes as have left in packets, so that its rate is that of the
//! link, and it stops when the link is idle. Times have 40 bits of fraction, of which 20 count in
//! comparisons. If finishes are equal, the flow with the lower index in the scheduler is served
//! first. A new weight takes effect at once: the fluid serves the remaining bytes of the flow at
//! the new rate, and waiting packets get new times, so that the last packet finishes when the fluid
//! has served these bytes.
//!
//! # Parameters
//! `weight` 1..65536, default 1.
//!
//! # Complexity
//! O(log N) for each packet and N flows: a tournament among the head packets, and a tree of sums
//! for the fluid, in which any number of flows may end at the same time. Changing a flow visits its
//! packets.
//!
//! # Guarantees
//! A packet leaves at most one transmission of the link's largest packet later than the fluid would
//! have finished it. It may leave far earlier: a flow can get ahead of the fluid by half as many
//! packets as there are other flows, and then has to wait correspondingly long. WF2Q and WF2Q+
//! avoid this.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements WFQ. Schedulers of this name elsewhere are often SCFQ, which needs no fluid.
//!
//! # Validation
//! Property tests compare the order of packets with that of a model that visits all flows and
//! simulates the fluid from the end of one flow to the next end, and check the bound above.

use super::fluid_clocked::{FluidClocked, Heads};
use super::stamp::LIMIT;
use super::tournament::Tournament;
use super::{Row, Traits, WEIGHT};

/// The WFQ scheduler.
pub type Wfq = FluidClocked<ByFinish>;

/// Head packets sorted by finish.
#[derive(Debug, Default)]
pub struct ByFinish {
    heads: Tournament,
    /// The time that counts as 0 in the tournament.
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

/// The step by which the origin advances. It is half of the range, so that finishes at most one
/// step before the latest finish keep their order.
const STEP: u64 = LIMIT / 2;

pub(super) const ROW: Row = Row {
    name: "wfq",
    aliases: &["pgps"],
    summary: "weighted fair queueing: packets leave in the order in which a fluid would finish \
              them",
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
