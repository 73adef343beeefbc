//! Generalised processor sharing: the fluid that serves all flows at once by their weights,
//! followed exactly.
//!
//! # Model
//! The fluid is served as fast as the packets are: when a packet has left, the fluid has had as
//! many bytes. At each moment it divides them by weight among the flows of which it still has
//! bytes. In its virtual time `V` a flow of weight `w` is served `w` bytes for each unit, so a flow
//! ends at the finish of its last packet, its `end`; `V` itself grows by a byte over the sum of the
//! weights of flows whose end it has not reached.
//!
//! # Method
//! A tree holds the flows by their ends, and for each part of it the sums of `w` and of `w × end`.
//! From these follows how many bytes take `V` to any flow's end, so one path down the tree finds
//! where a number of bytes takes `V`, no matter how many flows end meanwhile. A flow that has ended
//! no longer counts; each step removes a few. The remainder of the division is carried to the next
//! step: no byte is lost, and `V` is exact except that it is rounded down.
//!
//! Times are those of [`super::stamp`], in 128 bits: the end of a long queue is far away, and `V`
//! never goes back.
//!
//! # Reference
//! Parekh and Gallager, "A generalized processor sharing approach to flow control in integrated
//! services networks", IEEE/ACM Transactions on Networking 1(3), 1993. That the fluid can be
//! followed in logarithmic time is due to Valente, "Exact GPS simulation and optimal fair
//! scheduling with logarithmic complexity", IEEE/ACM Transactions on Networking 15(6), 2007; the
//! tree here is our own.

use super::stamp::{FRACTION, LARGEST};
use super::sums::{Sum, SumTree};

/// The fluid and its clock.
#[derive(Debug, Default)]
pub(super) struct Fluid {
    /// Flows by their ends. Some may have ended.
    flows: SumTree<Weights>,
    /// `V`.
    now: u128,
    /// Bytes that `V` has not moved for yet, with 40 bits of fraction.
    left_over: u128,
}

/// Sums of weights, and of weights times ends. The latter come round at the end of their range, but
/// differences are right.
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
    /// A fluid with virtual time `now`.
    pub(super) fn starting_at(now: u128) -> Self {
        Self { now, ..Self::default() }
    }

    /// `V`.
    #[inline]
    pub(super) fn now(&self) -> u128 {
        self.now
    }

    /// Makes room for a flow.
    pub(super) fn make_room(&mut self, slot: u32) {
        self.flows.make_room(slot);
    }

    /// Says that the fluid has something of the flow at `slot` until its time `end`.
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

    /// Takes a flow out, with whatever the fluid had of it.
    pub(super) fn remove(&mut self, slot: u32) {
        self.flows.clear(slot);
    }

    /// Serves the fluid as many bytes as a packet has.
    pub(super) fn serve(&mut self, len: u32) {
        self.left_over += u128::from(len.min(LARGEST)) << FRACTION;
        let (all, ended) = (self.flows.sum(), self.ended());
        // The flows that will have ended, the last end among them, and the bytes that take V there.
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
        // Bytes beyond the ends of all flows belong to no flow.
        self.now += u128::from(left_over.checked_div(weights).unwrap_or(0));
        self.left_over = u128::from(left_over.checked_rem(weights).unwrap_or(0));
        self.tidy();
    }

    /// Bytes that take `V` to the end `end`, when the flows summed up in `passed` have ended by
    /// then, and those in `ended` had before.
    fn bytes_to(&self, end: u128, all: Weights, ended: Weights, passed: Weights) -> u128 {
        let moments = passed.moments.wrapping_sub(ended.moments);
        let of_passed =
            moments.wrapping_sub(self.now.wrapping_mul(u128::from(passed.weights - ended.weights)));
        of_passed + (end - self.now) * u128::from(all.weights - passed.weights)
    }

    /// The sum over flows that have ended.
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

    /// Takes out some of the flows that have ended: as many as a packet can bring back, and one
    /// more.
    fn tidy(&mut self) {
        for _ in 0..2 {
            if let Some((end, slot)) = self.flows.first()
                && end <= self.now
            {
                self.flows.clear(slot);
            }
        }
    }

    /// Moves `V` on to `to`, if that is later.
    pub(super) fn skip_to(&mut self, to: u128) {
        if to > self.now {
            (self.now, self.left_over) = (to, 0);
        }
    }

    /// There is no packet left, so the fluid has nothing either: all flows have ended.
    pub(super) fn rest(&mut self) {
        let last = self.flows.last().map_or(0, |(end, _)| end);
        (self.now, self.left_over) = (self.now.max(last), 0);
    }

    /// Nodes on the longest path down its tree.
    pub(super) fn depth(&self) -> u64 {
        self.flows.height()
    }
}
