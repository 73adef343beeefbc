//! The event queue: the next event of every link, in the order of time, for any number of links.
//!
//! The queue is a hierarchical timing wheel with a small heap in front. The heap holds the events
//! up to the current tick and some later ones, or all events while there are few, in their exact
//! order: by time, then by link number. All other events are in lists, one for each slot of the
//! wheel, where adding, moving and removing an event takes constant time. An idle link has no entry
//! and costs nothing.
//!
//! ```text
//! tick of an event   … | 8 bits, level 2 | 8 bits, level 1 | 8 bits, level 0 |  2^12 ns below: order within the heap
//! ```
//! The level of an event is the level of the highest digit in which its tick differs from the
//! wheel's position. The value of that digit selects the slot. All events of a level therefore
//! precede the events of higher levels, and the lowest slot of the lowest level contains the
//! earliest event. When the heap's first event is not before that slot, the position moves to the
//! start of the slot, and the slot's events move to a lower level or to the heap.
//!
//! **Invariant:** the heap's first event precedes every event of the wheel, and the heap is empty
//! only if the wheel is empty.
//!
//! # Why not only a heap
//! With only a heap, a packet through one of 1,000 links takes 2,052 instructions instead of 1,944,
//! and through one of 10,000 links 1,606 instead of 1,374 (`engine_cost` under callgrind, without
//! link-time optimisation).
//!
//! # Reference
//! Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", SOSP 1987.

use alloc::vec::Vec;

use crate::heap::{Entry, Heap};
use crate::units::Nanos;

/// The next events of up to 2^31 links.
#[derive(Debug)]
pub(crate) struct EventQueue {
    heap: Front,
    /// Nodes, indexed by link.
    nodes: Vec<Node>,
    /// First tick of the earliest occupied slot; [`NEVER`] if the wheel is empty.
    earliest: u64,
    /// The position in ticks. Every event of the wheel is later.
    position: u64,
    /// Levels with occupied slots, one bit each.
    levels: u32,
    /// Occupied slots of each level, one bit each.
    slots: [Flags; LEVELS],
    /// First link in the list of each slot.
    heads: [u32; LEVELS * SLOTS],
}

/// A link's node in a slot's list.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// Time of the link's event.
    time: Nanos,
    /// The next link in the list, or [`NONE`].
    next: u32,
    /// The previous link, or [`FIRST`] plus the slot; [`NONE`] if the link is not in the wheel.
    previous: u32,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self {
            heap: Front::default(),
            nodes: Vec::new(),
            earliest: NEVER,
            position: 0,
            levels: 0,
            slots: [[0; WORDS]; LEVELS],
            heads: [NONE; LEVELS * SLOTS],
        }
    }
}

impl EventQueue {
    /// The earliest event, and its link.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Nanos, u32)> {
        self.heap.first()
    }

    /// A lower bound on the times of all events except the earliest.
    #[inline]
    pub(crate) fn others_from(&self) -> Nanos {
        let wheel =
            if self.earliest == NEVER { Nanos::MAX } else { Nanos(self.earliest << TICK_BITS) };
        self.heap.second_time().min(wheel)
    }

    /// Sets a link's next event; [`Nanos::MAX`] removes it.
    #[inline(always)] // Measured: see the emulator's module.
    pub(crate) fn set(&mut self, link: u32, time: Nanos) {
        if self.earliest == NEVER && self.heap.len() < FEW {
            return self.heap.set(link, time);
        }
        self.set_among_many(link, time);
    }

    /// As `set`, when the wheel has events or the heap has at least [`FEW`].
    #[inline(never)]
    fn set_among_many(&mut self, link: u32, time: Nanos) {
        let was_in_wheel = self.nodes.get(link as usize).is_some_and(|node| node.previous != NONE);
        if was_in_wheel {
            self.unlink(link);
        }
        if self.belongs_to_heap(link, time) {
            self.heap.set_among_others(link, time);
        } else {
            if !was_in_wheel {
                self.heap.remove(link);
            }
            self.put(link, time);
        }
        if self.heap.first().is_none_or(|(first, _)| tick(first) >= self.earliest) {
            self.refill();
        }
    }

    /// Whether an event belongs to the heap: it is not after the current tick, or it precedes the
    /// heap's first event, or `time` is [`Nanos::MAX`], which removes the event.
    fn belongs_to_heap(&self, link: u32, time: Nanos) -> bool {
        time == Nanos::MAX
            || tick(time) <= self.position
            || self.heap.first().is_some_and(|first| (time, link) < first)
    }

    /// Moves the position until the heap's first event precedes every event of the wheel.
    fn refill(&mut self) {
        while self.earliest != NEVER
            && self.heap.first().is_none_or(|(first, _)| tick(first) >= self.earliest)
        {
            let level = self.levels.trailing_zeros() as usize;
            let slot = level * SLOTS + first_of(&self.slots[level]);
            self.position = self.earliest;
            let mut link = core::mem::replace(&mut self.heads[slot], NONE);
            self.empty(slot);
            while link != NONE {
                let Node { time, next, .. } =
                    core::mem::replace(&mut self.nodes[link as usize], NOWHERE);
                if tick(time) <= self.position {
                    self.heap.add(link, time);
                } else {
                    self.put(link, time);
                }
                link = next;
            }
        }
    }

    /// Puts a link, with an event after the position, into its slot.
    fn put(&mut self, link: u32, time: Nanos) {
        let tick = tick(time);
        let level = ((tick ^ self.position).ilog2() / DIGIT_BITS) as usize;
        let shift = level as u32 * DIGIT_BITS;
        let digit = (tick >> shift) as usize % SLOTS;
        let slot = level * SLOTS + digit;
        if self.nodes.len() <= link as usize {
            self.nodes.resize(link as usize + 1, NOWHERE);
        }
        let next = core::mem::replace(&mut self.heads[slot], link);
        self.nodes[link as usize] = Node { time, next, previous: FIRST | slot as u32 };
        if let Some(next) = self.nodes.get_mut(next as usize) {
            next.previous = link;
        }
        self.slots[level][digit / WORD] |= 1 << (digit % WORD);
        self.levels |= 1 << level;
        self.earliest = self.earliest.min(tick >> shift << shift);
    }

    /// Removes a link from its slot.
    fn unlink(&mut self, link: u32) {
        let Node { next, previous, .. } =
            core::mem::replace(&mut self.nodes[link as usize], NOWHERE);
        if let Some(next) = self.nodes.get_mut(next as usize) {
            next.previous = previous;
        }
        if previous & FIRST == 0 {
            self.nodes[previous as usize].next = next;
            return;
        }
        let slot = (previous & !FIRST) as usize;
        self.heads[slot] = next;
        if next == NONE {
            self.empty(slot);
        }
    }

    /// Marks a slot as empty.
    fn empty(&mut self, slot: usize) {
        let (level, digit) = (slot / SLOTS, slot % SLOTS);
        self.slots[level][digit / WORD] &= !(1 << (digit % WORD));
        if self.slots[level] == [0; WORDS] {
            self.levels &= !(1 << level);
        }
        if self.levels == 0 {
            self.earliest = NEVER;
            return;
        }
        let level = self.levels.trailing_zeros();
        let digit = first_of(&self.slots[level as usize]) as u64;
        let (shift, above) = (level * DIGIT_BITS, (level + 1) * DIGIT_BITS);
        self.earliest = self.position >> above << above | digit << shift;
    }
}

/// The heap in front of the wheel.
#[derive(Debug, Default)]
struct Front {
    heap: Heap<Event>,
    /// The index of each link's event in the heap.
    indices: Vec<u32>,
}

/// An event: the time in the upper half and the link in the lower half, so that one integer
/// comparison orders both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event(u128);

impl Event {
    fn new(time: Nanos, link: u32) -> Self {
        Self(u128::from(time.0) << 64 | u128::from(link))
    }

    fn time(self) -> Nanos {
        Nanos((self.0 >> 64) as u64)
    }
}

impl Entry for Event {
    #[inline]
    fn owner(self) -> u32 {
        self.0 as u32
    }
}

impl Front {
    /// The earliest event, and its link.
    #[inline]
    fn first(&self) -> Option<(Nanos, u32)> {
        self.heap.first().map(|event| (event.time(), event.owner()))
    }

    /// Time of the second event in the heap; [`Nanos::MAX`] if there is none.
    #[inline]
    fn second_time(&self) -> Nanos {
        self.heap.second().map_or(Nanos::MAX, Event::time)
    }

    #[inline]
    fn len(&self) -> usize {
        self.heap.len()
    }

    /// Sets a link's next event; [`Nanos::MAX`] removes it.
    #[inline(always)] // Measured: see the emulator's module.
    fn set(&mut self, link: u32, time: Nanos) {
        // If only one link is busy, its event is the whole heap.
        if time != Nanos::MAX
            && let Some(only) = self.heap.single_mut().filter(|only| only.owner() == link)
        {
            *only = Event::new(time, link);
            return;
        }
        self.set_among_others(link, time);
    }

    /// As `set`, for any number of events in the heap.
    #[inline(never)]
    fn set_among_others(&mut self, link: u32, time: Nanos) {
        let event = (time != Nanos::MAX).then(|| Event::new(time, link));
        self.heap.set(&mut self.indices, link, event);
    }

    /// Adds the event of a link that has none in the heap.
    #[inline]
    fn add(&mut self, link: u32, time: Nanos) {
        self.heap.insert(&mut self.indices, Event::new(time, link));
    }

    /// Removes a link's event, if it is in the heap.
    #[inline]
    fn remove(&mut self, link: u32) {
        self.heap.set(&mut self.indices, link, None);
    }
}

/// The occupied slots of a level, one bit each.
type Flags = [u64; WORDS];

/// The lowest occupied slot; at least one slot must be occupied.
#[inline]
fn first_of(flags: &Flags) -> usize {
    let word = flags.iter().position(|&word| word != 0).unwrap_or(WORDS - 1);
    word * WORD + flags[word].trailing_zeros() as usize
}

/// The tick that contains a time.
fn tick(time: Nanos) -> u64 {
    time.0 >> TICK_BITS
}

/// Base-2 logarithm of the length of a tick in ns. 4 us are short enough that a busy engine has
/// only a few events in a tick.
const TICK_BITS: u32 = 12;
/// Number of bits of a tick that select the slot of a level. With fewer bits there are more levels,
/// an event moves down more often before its time, and each move waits for memory. With more bits,
/// a level has more flags to search.
const DIGIT_BITS: u32 = 8;
/// Number of slots in a level.
const SLOTS: usize = 1 << DIGIT_BITS;
/// Number of bits in a word of flags.
const WORD: usize = u64::BITS as usize;
/// Number of words of flags in a level.
const WORDS: usize = SLOTS / WORD;
/// Number of levels, enough for every bit of a tick.
const LEVELS: usize = (u64::BITS - TICK_BITS).div_ceil(DIGIT_BITS) as usize;
/// While the wheel is empty, every event goes to the heap until the heap has this many: the heap
/// sorts a few events faster than the wheel.
const FEW: usize = 8;
/// The number for no link.
const NONE: u32 = u32::MAX;
/// Marks the first link of a list in [`Node::previous`].
const FIRST: u32 = 1 << 31;
/// The node of a link that is not in the wheel.
const NOWHERE: Node = Node { time: Nanos::MAX, next: NONE, previous: NONE };
/// A tick after all other ticks.
const NEVER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    /// An operation: set a link's event to a time no earlier than that of the last event taken,
    /// remove the link's event, or take the first event.
    #[derive(Clone, Debug)]
    enum Operation {
        Set(u32, u64),
        Remove(u32),
        Take,
    }

    fn operations() -> impl Strategy<Value = Vec<Operation>> {
        // The time since the last event taken has any scale from 0 ns to years. Small numbers
        // produce equal times.
        let ahead = (0u32..58, any::<u64>()).prop_map(|(bits, x)| x & ((1 << bits) - 1));
        let operation = prop_oneof![
            4 => (0u32..60, ahead).prop_map(|(link, ahead)| Operation::Set(link, ahead)),
            1 => (0u32..60).prop_map(Operation::Remove),
            3 => Just(Operation::Take),
        ];
        proptest::collection::vec(operation, 1..600)
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(
            others in 0..2 * FEW as u32,
            spread in 0u32..40,
            operations in operations(),
        ) {
            let (mut queue, mut model, mut now) = (EventQueue::default(), BTreeMap::new(), 0u64);
            // The number of these links decides whether the wheel is in use.
            for link in 60..60 + others {
                let time = Nanos(u64::from(link.wrapping_mul(2_654_435_761)) << spread >> 20);
                queue.set(link, time);
                model.insert(link, time);
            }
            for operation in operations {
                match operation {
                    Operation::Set(link, ahead) => {
                        queue.set(link, Nanos(now + ahead));
                        model.insert(link, Nanos(now + ahead));
                    }
                    Operation::Remove(link) => {
                        queue.set(link, Nanos::MAX);
                        model.remove(&link);
                    }
                    Operation::Take => {
                        if let Some((time, link)) = queue.first() {
                            now = time.0;
                            queue.set(link, Nanos::MAX);
                            model.remove(&link);
                        }
                    }
                }
                let expected = model.iter().map(|(&l, &t)| (t, l)).min();
                prop_assert_eq!(queue.first(), expected);
                if let Some((first, link)) = expected {
                    let second = model
                        .iter()
                        .filter(|&(&l, _)| l != link)
                        .map(|(_, &t)| t)
                        .min()
                        .unwrap_or(Nanos::MAX);
                    prop_assert!((first..=second).contains(&queue.others_from()));
                    prop_assert!(second != Nanos::MAX || queue.others_from() == Nanos::MAX);
                }
            }
        }
    }

    #[test]
    fn many_events_leave_in_the_order_of_time_and_link() {
        let mut queue = EventQueue::default();
        let time = |link: u32| Nanos(u64::from(link.wrapping_mul(2_654_435_761) >> 8) * 100);
        for link in 0..10_000 {
            queue.set(link, time(link));
        }
        let mut sorted: Vec<(Nanos, u32)> = (0..10_000).map(|link| (time(link), link)).collect();
        sorted.sort_unstable();
        let taken: Vec<(Nanos, u32)> = core::iter::from_fn(|| {
            let first = queue.first()?;
            queue.set(first.1, Nanos::MAX);
            Some(first)
        })
        .collect();
        assert_eq!(taken, sorted);
    }
}
