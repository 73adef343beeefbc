//! Generalised processor sharing: an exact simulation of the fluid that serves all flows
//! simultaneously by their weights.
//!
//! # Model
//! The fluid advances with the packets: for each packet that leaves, the fluid serves as many bytes
//! as the packet has. At each moment it divides its service by weight among the flows that still
//! have bytes in the fluid. Per unit of virtual time `V`, it serves `w` bytes of a flow of weight
//! `w`. The fluid has finished a flow at the flow's `end`, the finish of its last packet. For each
//! byte of service, `V` grows by one divided by the sum of the weights of all flows with an `end`
//! after `V`.
//!
//! # Method
//! A tree holds the flows sorted by `end`, and for each subtree the sums of `w` and of `w × end`.
//! These sums give the number of bytes that move `V` to the end of any flow. One path down the tree
//! therefore finds the value of `V` after a number of bytes, no matter how many flows end
//! meanwhile. A flow that has ended no longer counts; each step removes a few such flows from the
//! tree. The remainder of the division is carried to the next step, so that no byte is lost and the
//! only error of `V` is that it is rounded down.
//!
//! Times have the fraction of [`super::stamp`] but 128 bits, since the end of a long queue is far
//! away and `V` is never set back.
//!
//! # Reference
//! Parekh and Gallager, "A generalized processor sharing approach to flow control in integrated
//! services networks", IEEE/ACM Transactions on Networking 1(3), 1993. The simulation in
//! logarithmic time is due to Valente, "Exact GPS simulation and optimal fair scheduling with
//! logarithmic complexity", IEEE/ACM Transactions on Networking 15(6), 2007; the tree here is our
//! own.

use super::stamp::{FRACTION, LARGEST};
use super::sums::{Sum, SumTree};

/// The fluid and its virtual time.
#[derive(Debug, Default)]
pub(super) struct Fluid {
    /// Flows sorted by their ends. Some flows may have ended.
    flows: SumTree<Weights>,
    /// `V`.
    now: u128,
    /// Served bytes that have not yet moved `V`, with 40 bits of fraction.
    left_over: u128,
}

/// Sums of weights, and of weights times ends. The second sum wraps around at the end of its range,
/// but differences are correct.
#[derive(Clone, Copy, Debug, Default)]
struct Weights {
    weights: u64,
    moments: u128,
}

impl Sum for Weights {
    fn plus(self, other: Self) -> Self {
        Self {
            weights: self.weights + other.weights,
            moments: self.moments.wrapping_add(other.moments),
        }
    }
}

impl Fluid {
    /// An empty fluid with virtual time `now`.
    pub(super) fn starting_at(now: u128) -> Self {
        Self { now, ..Self::default() }
    }

    #[inline]
    pub(super) fn now(&self) -> u128 {
        self.now
    }

    pub(super) fn make_room(&mut self, slot: u32) {
        self.flows.make_room(slot);
    }

    /// Records that the fluid has bytes of the flow at `slot` until virtual time `end`.
    pub(super) fn set(&mut self, slot: u32, weight: u32, end: u128) {
        if end > self.now {
            self.flows.set(
                slot,
                end,
                Weights {
                    weights: u64::from(weight),
                    moments: end.wrapping_mul(u128::from(weight)),
                },
            );
        } else {
            self.flows.clear(slot);
        }
    }

    /// Removes a flow and its bytes from the fluid.
    pub(super) fn remove(&mut self, slot: u32) {
        self.flows.clear(slot);
    }

    /// Lets the fluid serve `len` bytes.
    pub(super) fn serve(&mut self, len: u32) {
        self.left_over += u128::from(len.min(LARGEST)) << FRACTION;
        let (all, ended) = (self.flows.sum(), self.ended());
        // The sums of the flows that will have ended, the last end of these flows, and the bytes
        // that move `V` to that end.
        let (mut passed, mut end, mut bytes) = (ended, self.now, 0);
        let mut at = self.flows.top();
        let mut before = Weights::default();
        while let Some(here) = at {
            let with_it = before.plus(here.before).plus(here.own);
            let to_here =
                if here.key > self.now { self.bytes_to(here.key, all, ended, with_it) } else { 0 };
            if to_here > self.left_over {
                at = self.flows.step(here.left);
                continue;
            }
            before = with_it;
            if here.key > self.now {
                (passed, end, bytes) = (with_it, here.key, to_here);
            }
            at = self.flows.step(here.right);
        }
        self.now = end;
        self.left_over -= bytes;
        let (weights, left_over) = (all.weights - passed.weights, self.left_over as u64);
        // Bytes that remain after the ends of all flows belong to no flow and are discarded.
        self.now += u128::from(left_over.checked_div(weights).unwrap_or(0));
        self.left_over = u128::from(left_over.checked_rem(weights).unwrap_or(0));
        self.tidy();
    }

    /// The bytes that move `V` to `end`. `passed` sums up the flows that will have ended by `end`,
    /// and `ended` the flows that have ended now.
    fn bytes_to(&self, end: u128, all: Weights, ended: Weights, passed: Weights) -> u128 {
        let moments = passed.moments.wrapping_sub(ended.moments);
        let of_passed =
            moments.wrapping_sub(self.now.wrapping_mul(u128::from(passed.weights - ended.weights)));
        of_passed + (end - self.now) * u128::from(all.weights - passed.weights)
    }

    /// The sums over the flows that have ended.
    fn ended(&self) -> Weights {
        let (mut sum, mut at) = (Weights::default(), self.flows.top());
        while let Some(here) = at {
            if here.key <= self.now {
                sum = sum.plus(here.before).plus(here.own);
                at = self.flows.step(here.right);
            } else {
                at = self.flows.step(here.left);
            }
        }
        sum
    }

    /// Removes up to two flows that have ended: one more than a packet can add.
    fn tidy(&mut self) {
        for _ in 0..2 {
            if let Some((end, slot)) = self.flows.first()
                && end <= self.now
            {
                self.flows.clear(slot);
            }
        }
    }

    pub(super) fn skip_to(&mut self, to: u128) {
        if to > self.now {
            (self.now, self.left_over) = (to, 0);
        }
    }

    /// Ends all flows in the fluid, because no packet is left.
    pub(super) fn rest(&mut self) {
        let last = self.flows.last().map_or(0, |(end, _)| end);
        (self.now, self.left_over) = (self.now.max(last), 0);
    }

    /// The number of nodes on the longest path down the tree.
    pub(super) fn depth(&self) -> u64 {
        self.flows.height()
    }
}
