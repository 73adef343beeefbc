//! The fluid's state: virtual time and the sum of weights.

use super::units::{
    ERA_SHIFT, GROUPS, LARGEST, LEN_BITS, MIN_SHIFT, after, bits, charged, rate, shift, upper,
    width,
};
use super::{FORGOTTEN, Groups};

impl Groups {
    /// Advances virtual time for a packet of `len` bytes that leaves.
    #[inline]
    pub(in super::super) fn transmit(&mut self, len: u32) {
        if !self.try_transmit(len) {
            self.pass(self.time_after(charged(len).into()));
        }
    }

    /// Advances virtual time for a packet of `len` bytes, unless a group becomes eligible, a weight
    /// leaves or an era ends at or before the new time. Returns whether it advanced.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    pub(in super::super) fn try_transmit(&mut self, len: u32) -> bool {
        self.try_transmit_bytes(charged(len).into())
    }

    /// Like [`Self::try_transmit`], for a service of at most [`LARGEST`] bytes.
    #[inline(always)] // A part of `try_transmit`.
    pub(in super::super) fn try_transmit_bytes(&mut self, bytes: u64) -> bool {
        debug_assert!(bytes <= LARGEST.into(), "{bytes} bytes");
        let to = self.time_after(bytes);
        let quiet = after(self.due, to);
        if quiet {
            self.virtual_time = to;
        }
        quiet
    }

    /// The virtual time after a service of at most [`LARGEST`] bytes.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    fn time_after(&self, bytes: u64) -> u64 {
        self.virtual_time.wrapping_add(upper(bytes << LEN_BITS, self.rate))
    }

    /// Sets the sum of weights and computes its inverse.
    #[inline]
    fn set_weights(&mut self, weights: u64) {
        self.weights = weights;
        self.rate = rate(weights);
    }

    /// Advances virtual time to `to`. Handles the groups that become eligible and the weights that
    /// leave until then.
    #[inline(never)]
    pub(super) fn pass(&mut self, to: u64) {
        let from = core::mem::replace(&mut self.virtual_time, to);
        let changed = from ^ to;
        // `V` passes a multiple of `σ_i` for all groups up to the highest changed bit.
        let bits = (changed >> MIN_SHIFT).checked_ilog2().map_or(0, |highest| highest + 1);
        let passed = ((1u64 << bits) - 1) as u32;
        self.eligible_ready |= self.ineligible_ready & passed;
        self.ineligible_ready &= !passed;
        self.eligible_blocked |= self.ineligible_blocked & passed;
        self.ineligible_blocked &= !passed;
        if passed & self.leaving != 0 || changed >> ERA_SHIFT != 0 {
            self.let_go(from, passed);
        }
        // The next multiple is that of the lowest group that is ineligible or has leaving weights.
        // Without such a group, the next event is the end of the era.
        let waiting = self.ineligible_ready | self.ineligible_blocked | self.leaving;
        let shift = if waiting == 0 { ERA_SHIFT } else { MIN_SHIFT + waiting.trailing_zeros() };
        self.due = ((to >> shift) + 1) << shift;
    }

    /// Removes the weights that are due. If virtual time has entered a new era, increments the era.
    #[cold]
    #[inline(never)]
    fn let_go(&mut self, from: u64, passed: u32) {
        if (from ^ self.virtual_time) >> ERA_SHIFT != 0 {
            self.era += 1;
        }
        for i in bits(passed & self.leaving) {
            let shift = MIN_SHIFT + i;
            let to = self.virtual_time >> shift;
            let sums = &mut self.groups.leaving[i as usize % GROUPS];
            let gone = if (from >> shift).wrapping_add(1) & (u64::MAX >> shift) == to {
                core::mem::take(&mut sums[to as usize % 2])
            } else {
                core::mem::take(sums).iter().sum()
            };
            if *sums == [0; 2] {
                self.leaving &= !(1 << i);
            }
            self.weights -= gone;
        }
        self.set_weights(self.weights);
    }

    /// Adds the weight of a flow that has packets again. Its member belongs to group `i` and left
    /// in `era` with the finish `finish`. Returns the flow's start.
    #[inline]
    pub(in super::super) fn join(&mut self, era: u64, finish: u64, weight: u32, i: u8) -> u64 {
        // The first multiple of `σ_i` after the finish.
        let multiple = (finish >> shift(i)).wrapping_add(1);
        // A processor can hardly predict whether the weight still counts, so the code branches on
        // this condition only to save the division.
        let counts = (self.era - era < 2) & after(multiple << shift(i), self.virtual_time);
        let counted = if counts { u64::from(weight) } else { 0 };
        self.groups.leaving[usize::from(i) % GROUPS][multiple as usize % 2] -= counted;
        if counted != u64::from(weight) {
            self.set_weights(self.weights + u64::from(weight));
        }
        if counts & after(finish, self.virtual_time) { finish } else { self.virtual_time }
    }

    /// Schedules the removal of the weight of a flow that has no more packets. The fluid finishes
    /// the flow at the time `finish`, and the weight leaves at the next multiple of `σ_i` after
    /// that; it leaves at once if `finish` has passed. Returns the era for [`Self::join`].
    #[inline]
    pub(in super::super) fn leave(&mut self, finish: u64, weight: u32, i: u8) -> u64 {
        if after(finish, self.virtual_time) {
            let multiple = (finish >> shift(i)).wrapping_add(1);
            self.groups.leaving[usize::from(i) % GROUPS][multiple as usize % 2] +=
                u64::from(weight);
            // If other weights of the group are already due to leave, the next multiple is already
            // expected.
            if self.leaving & 1 << i == 0 {
                self.leaving |= 1 << i;
                self.expect(((self.virtual_time >> shift(i)) + 1) << shift(i));
            }
            return self.era;
        }
        self.set_weights(self.weights - u64::from(weight));
        FORGOTTEN
    }

    /// Records that a group becomes eligible or a weight leaves at this virtual time.
    #[inline]
    pub(super) fn expect(&mut self, time: u64) {
        if after(self.due, time) {
            self.due = time;
        }
    }

    /// Replaces the weight `old` of a counted flow with `new`.
    pub(in super::super) fn reweigh(&mut self, old: u32, new: u32) {
        self.set_weights(self.weights + u64::from(new) - u64::from(old));
    }

    /// Ends a busy period: the fluid is empty, and virtual time restarts.
    #[inline]
    pub(in super::super) fn rest(&mut self) {
        for i in bits(core::mem::take(&mut self.leaving)) {
            self.groups.leaving[i as usize % GROUPS] = [0; 2];
        }
        (self.virtual_time, self.due) = (self.epoch, self.epoch);
        self.set_weights(0);
        self.era += 2;
    }

    /// The start nearest to `start` that a new member of group `i` may have.
    pub(in super::super) fn within(&self, start: u64, i: u8) -> u64 {
        let most = self.virtual_time.wrapping_add(width(i));
        if after(start, most) {
            most
        } else if after(self.virtual_time, start) {
            self.virtual_time
        } else {
            start
        }
    }
}
