//! L-WF2Q: worst-case fair weighted fair queueing by the exact fluid, in logarithmic time.
//!
//! # Model
//! Think of a fluid that serves all flows with packets at once, each at a rate by its weight. Of
//! the packets that the fluid has started (`S ≤ V`, *eligible*), the one that it finishes first
//! goes. No flow therefore gets ahead of the fluid by more than a packet, and none falls behind by
//! more than one. WF2Q+ does the same with a clock that is cheaper to compute; this discipline uses
//! the fluid's own.
//!
//! # Reference
//! Bennett and Zhang, "WF2Q: worst-case fair weighted fair queueing", IEEE INFOCOM 1996; Valente,
//! "Exact GPS simulation and optimal fair scheduling with logarithmic complexity", IEEE/ACM
//! Transactions on Networking 15(6), 2007. The data structures are our own: what they compute is
//! the same. Finding the least finish among the eligible packets by one path down a tree sorted by
//! start is due to Stoica and Abdel-Wahab, "Earliest eligible virtual deadline first", Old Dominion
//! University, 1995.
//!
//! # Symbols
//! `S = max(V, F of the one before)` when a packet of `L` bytes arrives, `F = S + L / w` with `w`
//! the flow's weight. `V` is the fluid's time; it grows by a byte over the sum of the weights of
//! those flows that the fluid still has something of. The fluid is served as many bytes as packets
//! have left, so its rate is the link's, whatever that is, and it rests when the link does. Times
//! have 40 bits of fraction, of which 20 count when they are compared. Of equal finishes that of
//! the flow with the lower place goes first. A new weight holds at once: the fluid serves what it
//! still has of the flow at the new rate, and waiting packets get new stamps that end with it. When
//! flows with packets are removed or change, the fluid may be left with less than there are
//! packets; should nothing be eligible then, `V` moves on to the next start.
//!
//! # Parameters
//! `weight` 1..65536, default 1.
//!
//! # Complexity
//! O(log N) for each packet and N flows in the worst case, not only on the average: a tree of sums
//! for the fluid, in which any number of flows may end at once, and a tree of heads by start that
//! knows the least finish of each part, in which any number may become eligible at once. Changing a
//! flow looks at its packets.
//!
//! # Guarantees
//! With `L_k` the flow's largest packet, `L` the largest of all and `φ` the flow's share: its bytes
//! since it has had packets are at least `φ` of all bytes less `L_k + φ (L − L_k)`, and it is never
//! ahead by more than `(1 − φ) L_k`. A packet leaves at most one `L` later than the fluid would
//! have finished with it. This is the least possible.
//!
//! # Differences from Linux/FreeBSD
//! Neither has it.
//!
//! # Validation
//! The order of packets against plain loops over all flows that follow the fluid from end to end;
//! the bounds above against exact arithmetic; the depth of its trees with 65,536 flows.

use super::fluid_clocked::{FluidClocked, Heads};
use super::sums::{Sum, SumTree};
use super::{Row, Traits, WEIGHT};

/// L-WF2Q.
pub type LWf2q = FluidClocked<ByStart>;

/// Heads by start, with the least finish of each part.
#[derive(Debug, Default)]
pub struct ByStart {
    heads: SumTree<LeastFinish>,
}

/// The least finish and its flow.
#[derive(Clone, Copy, Debug)]
struct LeastFinish {
    finish: u128,
    slot: u32,
}

impl Default for LeastFinish {
    fn default() -> Self {
        Self { finish: u128::MAX, slot: u32::MAX }
    }
}

impl Sum for LeastFinish {
    fn plus(self, other: Self) -> Self {
        if (other.finish, other.slot) < (self.finish, self.slot) { other } else { self }
    }
}

impl Heads for ByStart {
    fn make_room(&mut self, slot: u32) {
        self.heads.make_room(slot);
    }

    fn set(&mut self, slot: u32, start: u128, finish: u128) {
        self.heads.set(slot, compared(start), LeastFinish { finish: compared(finish), slot });
    }

    fn clear(&mut self, slot: u32) {
        self.heads.clear(slot);
    }

    fn next(&self, now: u128) -> Option<Result<u32, u128>> {
        let (first, _) = self.heads.first()?;
        if first > now {
            return Some(Err(first));
        }
        let (mut least, mut at) = (LeastFinish::default(), self.heads.top());
        while let Some(here) = at {
            if here.key <= now {
                least = least.plus(here.before).plus(here.own);
                at = self.heads.step(here.right);
            } else {
                at = self.heads.step(here.left);
            }
        }
        Some(Ok(least.slot))
    }

    fn depth(&self) -> u64 {
        self.heads.height()
    }
}

/// The part of a time that counts when it is compared (see [`super::tournament`]).
fn compared(time: u128) -> u128 {
    time >> IGNORED << IGNORED
}

/// Bits of a time that do not count when it is compared.
const IGNORED: u32 = 20;

pub(super) const ROW: Row = Row {
    name: "l-wf2q",
    aliases: &["lwf2q"],
    summary: "worst-case fair weighted fair queueing by an exact fluid: each flow gets its share to within one packet",
    source: "Bennett and Zhang 1996; Valente 2004",
    parameters: &[],
    traits: Traits {
        complexity: "O(log N)",
        weighted: true,
        work_conserving: true,
        classifies: false,
        flow: &[WEIGHT],
    },
};
