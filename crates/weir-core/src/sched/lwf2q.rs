//! L-WF2Q: worst-case fair weighted fair queueing with an exact fluid, in logarithmic time.
//!
//! # Model
//! Think of a fluid that serves all flows with packets simultaneously, each at a rate in proportion
//! to its weight. Of the packets that the fluid has started (`S ≤ V`, *eligible*), the scheduler
//! serves the packet that the fluid finishes first. No flow therefore gets ahead of the fluid by
//! more than a packet, and no flow falls behind by more than a packet. WF2Q+ uses a clock that is
//! cheaper to compute; L-WF2Q uses the fluid's exact time.
//!
//! # Reference
//! Bennett and Zhang, "WF2Q: worst-case fair weighted fair queueing", IEEE INFOCOM 1996; Valente,
//! "Exact GPS simulation and optimal fair scheduling with logarithmic complexity", IEEE/ACM
//! Transactions on Networking 15(6), 2007, of which only the abstract was available. It states
//! O(log N), and the least deviation from the fluid, one packet. The data structures are our own.
//! The search on one path down a tree sorted by start, which finds the least finish among the
//! eligible packets, is due to Stoica and Abdel-Wahab, "Earliest eligible virtual deadline first",
//! Old Dominion University, 1995.
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
//! has served these bytes. When a flow with packets is removed or changed, the fluid may have fewer
//! bytes than the waiting packets; if no packet is eligible as a result, `V` advances to the next
//! start.
//!
//! # Parameters
//! `weight` 1..65536, default 1.
//!
//! # Complexity
//! O(log N) for each packet and N flows in the worst case, not only on average. There are two
//! trees. A tree of sums represents the fluid, in which any number of flows may end at the same
//! time. A tree of head packets, sorted by start, has the least finish of each subtree; any number
//! of head packets may become eligible at once. Changing a flow visits its packets.
//!
//! # Guarantees
//! Let `L_k` be the flow's largest packet, `L` the largest packet of all flows, and `φ` the flow's
//! share. The flow's bytes since it became busy are at least `φ` of all bytes less
//! `L_k + φ (L − L_k)`, and the flow is never ahead by more than `(1 − φ) L_k`. A packet leaves at
//! most one transmission of `L` bytes later than the fluid would have finished it. These bounds are
//! the least possible. They hold while the fluid also has bytes of the flow; `docs/guarantees.md`
//! shows arrivals for which no bound holds over a whole backlogged period.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements L-WF2Q.
//!
//! # Validation
//! Tests compare the order of packets with that of a model that visits all flows and simulates the
//! fluid from the end of one flow to the next end, check the bounds above in exact arithmetic, and
//! check the depth of the trees with 65,536 flows.

use super::fluid_clocked::{FluidClocked, Heads};
use super::sums::{Sum, SumTree};
use super::{Row, Traits, WEIGHT};

/// The L-WF2Q scheduler.
pub type LWf2q = FluidClocked<ByStart>;

/// Head packets sorted by start, with the least finish of each subtree.
#[derive(Debug, Default)]
pub struct ByStart {
    heads: SumTree<LeastFinish>,
}

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

/// The part of a time that counts in comparisons (see [`super::tournament`]).
fn compared(time: u128) -> u128 {
    time >> IGNORED << IGNORED
}

/// The number of low bits of a time that do not count in comparisons.
const IGNORED: u32 = 20;

pub(super) const ROW: Row = Row {
    name: "l-wf2q",
    aliases: &["lwf2q"],
    summary: "worst-case fair weighted fair queueing with an exact fluid: each flow gets its \
              share to within one packet",
    source: "Bennett and Zhang 1996; Valente 2007",
    parameters: &[],
    traits: Traits {
        complexity: "O(log N)",
        weighted: true,
        work_conserving: true,
        classifies: false,
        flow: &[WEIGHT],
    },
};
