//! The common part of QFQ and QFQ+: virtual time, groups of members with similar timestamps, and
//! the bitmaps that keep groups in order.
//!
//! A *member* is the unit of scheduling: a flow in QFQ, an aggregate of flows in QFQ+.
//!
//! # Symbols
//! - `V` virtual time: the bytes that the fluid has served per unit of weight.
//! - `S` the virtual time at which a member's head packet starts. The next packet starts at the
//!   finish of the head packet.
//! - `i` a member's group: the least for which `σ_i = 2^(22+i)` is at least `lmax / w` in virtual
//!   time. There are 32 groups.
//! - `S_i` the group's start: the least start of its members, rounded down to a multiple of `σ_i`.
//!   `F_i = S_i + 2 σ_i`.
//! - A group is *eligible* (E) when `S_i ≤ V`, else ineligible (I). It is *blocked* (B) when an
//!   eligible group of higher number has a lower `F`, else *ready* (R). Each group with members is
//!   in one of the sets `ER`, `EB`, `IR`, `IB`. A set is a machine word with one bit for each
//!   group.
//!
//! The lowest group of `ER` has the least `F` of all eligible groups, because among ready groups
//! `F` rises with the group number.
//!
//! # Virtual time
//! ```text
//! 63          54 53                         32 31                   0
//! |  carries     |  bytes per unit of weight  |  fraction           |      wraps around; compared by the sign of a difference
//! ```
//! `1 / w` has 32 bits of fraction and is rounded up. `1 / W` has 48 bits of fraction and is
//! rounded down. Rounding therefore never moves `V` ahead of the fluid. If `V` falls behind, it
//! jumps to the next start as soon as no group is eligible.
//!
//! Three properties hold for all weights, lengths and changes; the algorithm relies on them:
//! - A head packet advances its member's start by at most `σ_i`, and is served only when `S_i ≤ V`.
//!   No start therefore lies beyond the first multiple of `σ_i` above `V`, and every ineligible
//!   group `i` starts at that multiple. The lowest of these groups becomes eligible first, and the
//!   highest changed bit of `V` shows the groups for which `V` passes a multiple.
//! - A group that becomes eligible, or is no longer empty, has a higher `F` than all groups below
//!   it, so that it blocks none of them.
//! - In all other cases a group's `F` can only rise. A blocked group below it can become ready only
//!   when this `F` rises, so that the blocked groups below are tested at that time.
//!
//! # The sum of weights
//! `W` is the sum of the weights of all members that the fluid still serves: members with packets,
//! and every other member until `V` reaches its finish, rounded up to a multiple of `σ_i`. That
//! multiple is at most the second from `V`, so that a group needs two sums of leaving weights. When
//! `V` passes a multiple, the sum that is due is subtracted from `W`. A division is necessary only
//! when a member joins or a weight leaves.

mod fluid;
mod units;

use alloc::boxed::Box;
use core::num::NonZeroU32;

use units::{GROUPS, MIN_SHIFT, SLOTS, after, bits, charged, floor, shift, slot_of, width};
pub(super) use units::{LARGEST, group_of, inverse};

use crate::slab::Lines;

/// A member's timestamps and its neighbours in its slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamps {
    /// `S` of the head packet; for a member without packets, the finish of the last packet.
    pub(super) start: u64,
    /// `1 / w`.
    pub(super) inverse: u64,
    next: u32,
    previous: u32,
    pub(super) group: u8,
}

impl Stamps {
    /// Advances the start by a packet of `len` bytes that leaves; returns the bits of the start
    /// that change.
    #[inline]
    pub(super) fn charge(&mut self, len: u32) -> u64 {
        let old = self.start;
        self.start = old.wrapping_add(u64::from(charged(len)) * self.inverse);
        old ^ self.start
    }

    /// Moves the start later by `time`, at most by `σ`.
    #[inline]
    pub(super) fn advance(&mut self, time: u64) {
        self.start = self.start.wrapping_add(time.min(width(self.group)));
    }

    /// The next member in the slot; any number for the last member of the slot.
    #[inline]
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// The stamps of a member without packets.
    pub(super) fn new(inverse: u64, group: u8) -> Self {
        Self { inverse, group, ..Self::default() }
    }
}

/// The first member of a group, with its group and slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) id: u32,
    group: u32,
    /// The index of its slot among the slots of all groups.
    slot: usize,
}

impl Place {
    pub(super) const NONE: Self = Self { id: NONE, group: 0, slot: 0 };

    /// Whether a member leaves its slot when the bits `changed` of its start change.
    #[inline]
    pub(super) fn leaves_slot(&self, changed: u64) -> bool {
        changed >> (MIN_SHIFT + self.group) != 0
    }
}

/// The slot of the first member of the first group, and the slot after it. While no group changes
/// its state, the members move one after another to the later slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// `σ`.
    width: u64,
    slot: usize,
    after: usize,
    /// The groups of lower number, one bit each.
    below: u32,
}

impl Step {
    pub(super) fn at(place: Place) -> Self {
        let Place { group, slot, .. } = place;
        let after = slot / SLOTS * SLOTS + (slot + 1) % SLOTS;
        Self { width: 1 << (MIN_SHIFT + group), slot, after, below: (1 << group) - 1 }
    }

    #[inline]
    pub(super) fn is_at(&self, place: Place) -> bool {
        self.slot == place.slot
    }

    /// The start of a member after a service that takes `time`.
    #[inline]
    pub(super) fn start_after(&self, start: u64, time: u64) -> u64 {
        start.wrapping_add(time.min(self.width))
    }

    /// Whether two starts, which differ by `σ` at most, are in different slots.
    #[inline]
    pub(super) fn divides(&self, start: u64, other: u64) -> bool {
        start ^ other >= self.width
    }
}

pub(super) trait Stamped {
    fn stamps(&self) -> &Stamps;
    fn stamps_mut(&mut self) -> &mut Stamps;
}

/// Groups of members, and virtual time.
#[derive(Debug)]
pub(super) struct Groups {
    virtual_time: u64,
    /// `ER`, `IR`, `EB`, `IB`.
    eligible_ready: u32,
    ineligible_ready: u32,
    eligible_blocked: u32,
    ineligible_blocked: u32,
    /// The groups with weights that will leave.
    leaving: u32,
    /// `W`.
    weights: u64,
    /// `1 / W`; see [`units::rate`].
    rate: u64,
    /// A number that grows when virtual time restarts or enters the next quarter of its range.
    /// Times of an era that is lower by 2 or more are past.
    era: u64,
    /// The virtual time before which no group becomes eligible and no weight leaves.
    due: u64,
    /// The virtual time at which each busy period starts.
    epoch: u64,
    groups: Box<Tables>,
}

#[derive(Debug)]
struct Tables {
    /// `S_i`.
    start: [u64; GROUPS],
    /// The slots with members, one bit each.
    full: [u32; GROUPS],
    /// The slot of `S_i`, see [`slot_of`].
    first: [u32; GROUPS],
    /// The sums of weights that leave when `V` reaches an even and an odd multiple of `σ_i`.
    leaving: [[u64; 2]; GROUPS],
    /// The slots of all groups, sorted by group.
    slots: [Slot; GROUPS * SLOTS],
}

/// Members with the same rounded start, in the order of their insertion.
#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    /// [`NONE`] when the slot has no members.
    tail: u32,
}

impl Default for Slot {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl Groups {
    pub(super) fn new(epoch: u64) -> Self {
        let groups = Tables {
            start: [0; GROUPS],
            full: [0; GROUPS],
            first: [0; GROUPS],
            leaving: [[0; 2]; GROUPS],
            slots: [Slot::default(); GROUPS * SLOTS],
        };
        Self {
            virtual_time: epoch,
            eligible_ready: 0,
            ineligible_ready: 0,
            eligible_blocked: 0,
            ineligible_blocked: 0,
            leaving: 0,
            weights: 0,
            rate: units::rate(0),
            era: FORGOTTEN + 2,
            due: epoch,
            epoch,
            groups: Box::new(groups),
        }
    }

    /// The member to serve next. Advances virtual time when no group is eligible.
    #[inline]
    pub(super) fn first(&mut self) -> Option<Place> {
        self.ready().or_else(|| self.next_eligible())
    }

    /// The member to serve next, if a group is eligible.
    #[inline]
    pub(super) fn ready(&self) -> Option<Place> {
        let group = NonZeroU32::new(self.eligible_ready)?.trailing_zeros();
        let slot = self.groups.first[group as usize % GROUPS] as usize % (GROUPS * SLOTS);
        Some(Place { id: self.groups.slots[slot].head, group, slot })
    }

    /// Advances virtual time until the next group is eligible; returns the first member of that
    /// group.
    #[cold]
    #[inline(never)]
    fn next_eligible(&mut self) -> Option<Place> {
        let next = NonZeroU32::new(self.ineligible_ready)?.trailing_zeros();
        self.pass(self.groups.start[next as usize % GROUPS]);
        self.ready()
    }

    /// Advances virtual time until the only member with packets, which is in no slot, is eligible.
    #[inline]
    pub(super) fn reach(&mut self, stamps: &Stamps) {
        let start = floor(stamps.start, stamps.group);
        if after(start, self.virtual_time) {
            self.pass(start);
        }
    }

    /// Removes the member at `place`, which must be alone in its slot, if no other slot has
    /// members; returns whether it was removed.
    #[inline]
    pub(super) fn take_out_only(&mut self, place: Place) -> bool {
        let only = self.has_no_others(place);
        if only {
            self.groups.clear(place.group, place.slot);
            self.eligible_ready = 0;
        }
        only
    }

    /// Moves the first member of a group to the slot of its new start, if other members are behind
    /// it in the old slot. Returns whether it moved.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    pub(super) fn rotate<T: Stamped>(&mut self, members: &mut [T], place: Place) -> bool {
        let tables = &mut *self.groups;
        let Stamps { start, next, .. } = *members[place.id as usize].stamps();
        let slot = &mut tables.slots[place.slot];
        if slot.tail == place.id {
            return false;
        }
        slot.head = next;
        tables.append(members, place.id, start, place.group);
        true
    }

    /// Whether no group before the group of `step` is in `ER`.
    #[inline]
    pub(super) fn is_first(&self, step: &Step) -> bool {
        self.eligible_ready & step.below == 0
    }

    /// Moves the first member of a slot to the slot after it, in which `start` lies, if other
    /// members are behind it. Returns the new first member.
    #[inline(always)] // A part of its only caller.
    pub(super) fn step<T: Stamped>(
        &mut self,
        members: &mut [T],
        step: &Step,
        id: u32,
        start: u64,
    ) -> Option<u32> {
        let tables = &mut *self.groups;
        let slot = &mut tables.slots[step.slot % (GROUPS * SLOTS)];
        if slot.tail == id {
            return None;
        }
        let stamps = members.get_mut(id as usize)?.stamps_mut();
        stamps.start = start;
        let next = stamps.next;
        slot.head = next;
        tables.append_to(members, id, step.after % (GROUPS * SLOTS));
        Some(next)
    }

    /// Moves the first member of a group to the slot of its new start, after the start has left the
    /// old slot.
    #[inline]
    pub(super) fn relocate<T: Stamped>(&mut self, members: &mut Lines<T>, place: Place) {
        if !self.rotate(members.all_mut(), place) {
            self.relocate_alone(members, place);
        }
    }

    /// [`Self::relocate_last`] as a separate function that is not inlined into its callers.
    #[inline(never)]
    fn relocate_alone<T: Stamped>(&mut self, members: &mut Lines<T>, place: Place) {
        self.relocate_last(members, place);
    }

    /// Removes the first member of a group, which has no more packets, from its slot.
    #[inline]
    pub(super) fn remove<T: Stamped>(&mut self, members: &mut Lines<T>, place: Place) {
        let slot = &mut self.groups.slots[place.slot];
        if slot.tail == place.id {
            self.groups.clear(place.group, place.slot);
            self.move_on(place.group);
        } else {
            slot.head = members.at(place.id).stamps().next;
        }
    }

    /// Moves the only member of a slot to the slot of its new start.
    #[inline]
    pub(super) fn relocate_last<T: Stamped>(&mut self, members: &mut Lines<T>, place: Place) {
        let start = members.at(place.id).stamps().start;
        if self.has_no_others(place) {
            return self.move_the_only_one(place, start);
        }
        self.groups.clear(place.group, place.slot);
        self.groups.append(members.all_mut(), place.id, start, place.group);
        self.move_on(place.group);
    }

    /// Whether this slot is the only slot with members.
    #[inline]
    fn has_no_others(&self, place: Place) -> bool {
        self.groups.full[place.group as usize % GROUPS] == 1 << (place.slot % SLOTS)
            && self.eligible_ready == 1 << place.group
            && self.eligible_blocked | self.ineligible_ready | self.ineligible_blocked == 0
    }

    /// Moves the only member of all groups to the slot of its new start.
    #[inline]
    fn move_the_only_one(&mut self, place: Place, start: u64) {
        let i = place.group as usize % GROUPS;
        let at = slot_of(start, place.group);
        self.groups.slots[place.slot] = Slot::default();
        self.groups.full[i] = 1 << (at % SLOTS);
        self.groups.slots[at] = Slot { head: place.id, tail: place.id };
        let start = floor(start, place.group as u8);
        (self.groups.start[i], self.groups.first[i]) = (start, at as u32);
        if after(start, self.virtual_time) {
            (self.eligible_ready, self.ineligible_ready) = (0, 1 << place.group);
            self.expect(start);
        }
    }

    /// Inserts a member that has packets again. Its start must not be before virtual time.
    #[inline]
    pub(super) fn insert<T: Stamped>(&mut self, members: &mut Lines<T>, id: u32) {
        let members = members.all_mut();
        let stamps = members[id as usize].stamps_mut();
        let i = stamps.group;
        let index = usize::from(i) % GROUPS;
        let (start, first) = (floor(stamps.start, i), self.groups.start[index]);
        let empty = self.groups.full[index] == 0;
        if empty || after(first, start) {
            if !empty {
                // The group starts after `V`, so that it is in neither eligible set.
                self.ineligible_ready &= !(1 << i);
                self.ineligible_blocked &= !(1 << i);
            }
            (self.groups.start[index], self.groups.first[index]) =
                (start, slot_of(start, u32::from(i)) as u32);
            self.groups.append(members, id, start, u32::from(i));
            self.classify(u32::from(i));
            return;
        }
        // The start is beyond the group's slots only if the group's first member waits for the
        // transmission of much longer packets.
        let most = (SLOTS as u64 - 2) << shift(i);
        if start.wrapping_sub(first) > most {
            stamps.start = first.wrapping_add(most);
        }
        let start = stamps.start;
        self.groups.append(members, id, start, u32::from(i));
    }

    /// Finds a group's new first slot after the old one has become empty.
    #[inline]
    fn move_on(&mut self, i: u32) {
        let bit = 1u32 << i;
        let old_finish = self.finish(i);
        self.eligible_ready &= !bit;
        if self.find_first(i) {
            self.classify(i);
        }
        if (self.eligible_blocked | self.ineligible_blocked) & (bit - 1) != 0 {
            self.unblock(i, old_finish);
        }
    }

    /// Advances a group's start to its first slot with members; returns whether there is one.
    #[inline]
    fn find_first(&mut self, i: u32) -> bool {
        let start = &mut self.groups.start[i as usize % GROUPS];
        let full = self.groups.full[i as usize % GROUPS];
        let ahead = full.rotate_right((*start >> (MIN_SHIFT + i)) as u32).trailing_zeros();
        *start = start.wrapping_add(u64::from(ahead % 32) << (MIN_SHIFT + i));
        self.groups.first[i as usize % GROUPS] = slot_of(*start, i) as u32;
        full != 0
    }

    /// Adds a group that is in none of the four sets to its set.
    #[inline]
    fn classify(&mut self, i: u32) {
        let start = self.groups.start[i as usize % GROUPS];
        let bit = 1u32 << i;
        let blocked = if self.is_blocked(i) { bit } else { 0 };
        if after(start, self.virtual_time) {
            self.ineligible_ready |= bit & !blocked;
            self.ineligible_blocked |= blocked;
            self.expect(start);
        } else {
            self.eligible_ready |= bit & !blocked;
            self.eligible_blocked |= blocked;
        }
    }

    /// Whether a ready and eligible group of higher number has a lower `F`.
    #[inline]
    fn is_blocked(&self, i: u32) -> bool {
        let above = self.eligible_ready & (u32::MAX - 1) << i;
        above != 0 && after(self.finish(i), self.finish(above.trailing_zeros()))
    }

    /// After the finish of group `i` has changed from `old`, makes the groups ready that it no
    /// longer blocks.
    #[inline(never)]
    fn unblock(&mut self, i: u32, old: u64) {
        let above = self.eligible_ready & (u32::MAX - 1) << i;
        if above != 0 && !after(self.finish(above.trailing_zeros()), old) {
            return;
        }
        // The highest group comes first, since a group that becomes ready may block the groups
        // below it.
        for k in bits((self.eligible_blocked | self.ineligible_blocked) & ((1 << i) - 1)) {
            if !self.is_blocked(k) {
                self.eligible_ready |= self.eligible_blocked & 1 << k;
                self.ineligible_ready |= self.ineligible_blocked & 1 << k;
                self.eligible_blocked &= !(1 << k);
                self.ineligible_blocked &= !(1 << k);
            }
        }
    }

    /// Removes a member from any position of its slot, and updates its group and the sets.
    pub(super) fn take_out<T: Stamped>(&mut self, members: &mut Lines<T>, id: u32) {
        let Stamps { start, next, previous, group, .. } = *members.at(id).stamps();
        let i = u32::from(group);
        let at = slot_of(start, i);
        let slot = &mut self.groups.slots[at];
        if slot.head == slot.tail {
            self.groups.clear(i, at);
            self.find_first(i);
            self.classify_all();
        } else if slot.head == id {
            slot.head = next;
        } else if slot.tail == id {
            slot.tail = previous;
        } else {
            members.at_mut(previous).stamps_mut().next = next;
            members.at_mut(next).stamps_mut().previous = previous;
        }
    }

    /// Computes the sets of all groups anew.
    fn classify_all(&mut self) {
        (
            self.eligible_ready,
            self.eligible_blocked,
            self.ineligible_ready,
            self.ineligible_blocked,
        ) = (0, 0, 0, 0);
        for i in (0..GROUPS).rev() {
            if self.groups.full[i] != 0 {
                self.classify(i as u32);
            }
        }
    }

    /// `F_i`.
    #[inline]
    fn finish(&self, i: u32) -> u64 {
        self.groups.start[i as usize % GROUPS].wrapping_add(2 << (MIN_SHIFT + i))
    }
}

impl Tables {
    #[inline]
    fn append<T: Stamped>(&mut self, members: &mut [T], id: u32, start: u64, i: u32) {
        self.append_to(members, id, slot_of(start, i));
    }

    #[inline(always)] // A part of its callers.
    fn append_to<T: Stamped>(&mut self, members: &mut [T], id: u32, at: usize) {
        let slot = &mut self.slots[at];
        let before = core::mem::replace(&mut slot.tail, id);
        if let Some(before) = members.get_mut(before as usize) {
            before.stamps_mut().next = id;
        } else {
            slot.head = id;
            self.full[at / SLOTS % GROUPS] |= 1 << (at % SLOTS);
        }
        members[id as usize].stamps_mut().previous = before;
    }

    /// Marks a slot of group `i` as empty.
    #[inline]
    fn clear(&mut self, i: u32, slot: usize) {
        self.slots[slot] = Slot::default();
        self.full[i as usize % GROUPS] &= !(1 << (slot % SLOTS));
    }
}

/// No member.
const NONE: u32 = u32::MAX;

/// An era long past, for a flow that the fluid has finished.
pub(super) const FORGOTTEN: u64 = 0;

#[cfg(test)]
mod tests;
