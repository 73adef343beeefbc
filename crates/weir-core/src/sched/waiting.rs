//! The set of flows that wait until virtual time reaches their start.
//!
//! Most flows are inserted in the order of their starts: the flows of one class are served in the
//! order of their finishes, and a served flow starts again at its finish. These flows wait in one
//! chain for each class (see [`super::chains`]), all other flows in a tournament.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::chains::{CLASSES, Chains, NONE};
use super::tournament::Tournament;

/// The waiting flows, by start.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The flows that were inserted in the order of their starts, one chain for each class.
    in_order: Option<Box<Chains<CLASSES>>>,
    /// All other flows.
    others: Tournament,
    /// A time no later than the least start of all flows.
    due: u64,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { in_order: None, others: Tournament::default(), due: NONE }
    }
}

impl Waiting {
    pub(super) fn make_room(&mut self, slot: u32) {
        self.others.make_room(slot);
    }

    #[inline]
    pub(super) fn put(&mut self, slot: u32, start: u64) {
        self.due = self.due.min(self.others.rounded(start));
        self.others.set(slot, start);
    }

    /// Adds a flow of class `class` that has just been served.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    pub(super) fn put_served(&mut self, slot: u32, class: u8, start: u64) {
        let (start_rounded, key) = (self.others.rounded(start), self.others.key(slot, start));
        let in_order = self.in_order.get_or_insert_default();
        if !in_order.fits(class.into(), start_rounded, key) {
            return self.put(slot, start);
        }
        in_order.push(class.into(), start_rounded, key);
        self.due = self.due.min(start_rounded);
    }

    /// Whether there may be a flow with a start no later than `now`.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    pub(super) fn may_be_due(&self, now: u64) -> bool {
        self.due <= now
    }

    /// Removes and returns a flow with a start no later than `now`.
    #[inline]
    pub(super) fn take_due(&mut self, now: u64) -> Option<u32> {
        if let Some(in_order) = self.in_order.as_mut() {
            let (key, chain) = in_order.first(now);
            if key != NONE {
                in_order.pop(chain);
                return Some(self.others.slot(key));
            }
        }
        match self.others.first() {
            Some((start, slot)) if start <= now => {
                self.others.clear(slot);
                Some(slot)
            }
            _ => {
                self.due = self.first();
                None
            }
        }
    }

    /// The part of the least start that counts in comparisons; [`NONE`] when no flow waits.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        let in_order = self.in_order.as_ref().map_or(NONE, |in_order| in_order.least_start());
        in_order.min(self.others.first().map_or(NONE, |(start, _)| start))
    }

    /// Removes the flow at `slot`, if it waits.
    pub(super) fn remove(&mut self, slot: u32, start: u64) {
        let key = self.others.key(slot, start);
        if !self.in_order.as_mut().is_some_and(|in_order| in_order.remove(key)) {
            self.others.clear(slot);
        }
    }

    /// Subtracts `by` from all starts, and calls `f` with each flow. The keys in the chains have
    /// the slot of the flow in the bits `bits`.
    pub(super) fn set_back(&mut self, by: u64, bits: u64, mut f: impl FnMut(u32)) {
        let in_order = self.in_order.as_mut().map_or_else(Vec::new, |in_order| in_order.take_all());
        self.others.set_back(by, &mut f);
        for key in in_order {
            let slot = (key & bits) as u32;
            self.others.set(slot, (key & !bits).saturating_sub(by));
            f(slot);
        }
        self.due = self.first();
    }
}
