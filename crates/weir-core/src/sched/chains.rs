//! Flows in queues that need no sorting: within each, a later flow starts later and finishes later.
//!
//! The scheduler looks for the flow that finishes first among those whose start has come. Within
//! such a queue, a *chain*, only the first flow can be it, since the flows behind it neither start
//! nor finish earlier. A search therefore inspects one place of each chain, no matter how many
//! flows are in it.
//!
//! [`Classes`] assigns flows to chains. A class contains flows whose heads take equally long,
//! `L / w`, as their predecessors did. They are served in the order in which they finish, and start
//! again when they finish, so the order of service is that of their new starts, and they can be
//! appended to a chain. Flows that had no packets start at the present, which also only grows; they
//! can be appended to a second chain. Some flows find no place: those whose packets vary in length,
//! and those of more classes than there are chains. [`Classes::put`] reports that, and its caller
//! keeps them elsewhere.
//!
//! A flow that leaves from the middle of a chain is struck out; its entry stays until it reaches
//! the front or the chain is full. A full chain first drops such entries, and doubles only if more
//! than half of them remain. This costs one step for each arrival.
//!
//! # Layout
//! ```text
//! a chain      … | first | … | last | …      a ring of entries, of which there are 2^n
//! an entry     start   63 ............ 0   as it is compared; all ones: struck out
//!              key     63 ............ 0   finish as it is compared, and the flow's place in its low bits
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Chains of flows with packets, two for each class. They take memory from when the first class is
/// made.
#[derive(Debug, Default)]
pub(super) struct Classes {
    chains: Option<Box<Chains<HEADS>>>,
    /// What the heads in the chains of a class take of their flow's time.
    services: [u64; CLASSES],
}

impl Classes {
    /// The least key among flows whose start is not after `now`, and its chain; [`NONE`] without
    /// such a flow.
    #[inline(always)] // Measured: see the module of schedulers.
    pub(super) fn first(&self, now: u64) -> (u64, usize) {
        self.chains.as_ref().map_or((NONE, 0), |chains| chains.first(now))
    }

    /// The least start; [`NONE`] when all chains are empty.
    pub(super) fn least_start(&self) -> u64 {
        self.chains.as_ref().map_or(NONE, |chains| chains.least_start())
    }

    /// The chains of flows whose heads take this long, of which `class` may be a guess; [`HEADS`]
    /// without one.
    #[inline(always)] // Measured: see the module of schedulers.
    pub(super) fn chain_of(&mut self, service: u64, class: u8) -> usize {
        let known = self.services[class as usize % CLASSES] == service;
        if known { 2 * (class as usize % CLASSES) } else { self.find(service) }
    }

    /// Finds the class of flows whose heads take this long, or makes one.
    #[inline(never)]
    fn find(&mut self, service: u64) -> usize {
        let chains = self.chains.get_or_insert_default();
        let empty = |class: &usize| chains.is_empty(2 * class) && chains.is_empty(2 * class + 1);
        let known = self.services.iter().position(|&known| known == service);
        let Some(class) = known.or_else(|| (0..CLASSES).find(empty)) else { return HEADS };
        self.services[class] = service;
        2 * class
    }

    /// Puts a flow into the chain or the one beside it, which are those of its class; says whether
    /// it has a place there.
    #[inline(always)] // Measured: see the module of schedulers.
    pub(super) fn put(&mut self, chain: usize, start: u64, key: u64) -> bool {
        let Some(chains) = self.chains.as_mut() else { return false };
        if chains.fits(chain, start, key) {
            chains.push(chain, start, key);
            return true;
        }
        let fits = chains.fits(chain ^ 1, start, key);
        if fits {
            chains.push(chain ^ 1, start, key);
        }
        fits
    }

    /// Takes the first of a chain out, which the caller knows to have one.
    #[inline(always)] // Measured: see the module of schedulers.
    pub(super) fn pop(&mut self, chain: usize) {
        if let Some(chains) = self.chains.as_mut() {
            chains.pop(chain);
        }
    }

    /// The key of the flow at this distance behind the first of a chain. In a shorter chain, any
    /// key or [`NONE`].
    #[inline(always)] // Measured: see the module of schedulers.
    pub(super) fn behind(&self, chain: usize, places: usize) -> u64 {
        self.chains.as_ref().map_or(NONE, |chains| chains.behind(chain, places))
    }

    /// Takes the flow with this key out, if it is in; says whether it was.
    pub(super) fn remove(&mut self, key: u64) -> bool {
        self.chains.as_mut().is_some_and(|chains| chains.remove(key))
    }

    /// Removes all flows and returns their keys.
    pub(super) fn take_all(&mut self) -> Vec<u64> {
        self.chains.as_mut().map_or_else(Vec::new, |chains| chains.take_all())
    }
}

/// `N` chains, a power of two.
#[derive(Debug)]
pub(super) struct Chains<const N: usize> {
    /// The first entry of each chain; [`EMPTY`] for an empty one.
    heads: [Entry; N],
    /// The last that came to each chain; [`ORIGIN`] of an empty one.
    tails: [Entry; N],
    rings: [Ring; N],
    /// No chain from this one on has anybody.
    used: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    key: u64,
}

#[derive(Debug, Default)]
struct Ring {
    entries: Box<[Entry]>,
    /// Where the first entry is, and where the next one goes; both go round.
    first: usize,
    end: usize,
}

impl<const N: usize> Default for Chains<N> {
    fn default() -> Self {
        Self {
            heads: [EMPTY; N],
            tails: [ORIGIN; N],
            rings: core::array::from_fn(|_| Ring::default()),
            used: 0,
        }
    }
}

impl<const N: usize> Chains<N> {
    /// The least key among flows whose start is not after `now`, and its chain; [`NONE`] without
    /// such a flow.
    #[inline(always)] // Measured: see the module of schedulers.
    pub(super) fn first(&self, now: u64) -> (u64, usize) {
        let mut first = (NONE, 0);
        for (chain, head) in self.heads.iter().take(self.used).enumerate() {
            let key = if head.start <= now { head.key } else { NONE };
            first = if key < first.0 { (key, chain) } else { first };
        }
        first
    }

    /// The least start; [`NONE`] when all chains are empty.
    #[inline(always)] // Measured: see the module of schedulers.
    pub(super) fn least_start(&self) -> u64 {
        self.heads.iter().take(self.used).fold(NONE, |least, head| least.min(head.start))
    }

    /// Whether a chain is empty.
    #[inline]
    fn is_empty(&self, chain: usize) -> bool {
        self.heads[chain % N].key == NONE
    }

    /// Whether a flow with this start and key can be appended to a chain.
    #[inline(always)] // Measured: see the module of schedulers.
    pub(super) fn fits(&self, chain: usize, start: u64, key: u64) -> bool {
        let tail = self.tails[chain % N];
        (tail.start <= start) & (tail.key <= key)
    }

    /// Appends a flow that fits.
    #[inline(always)] // Measured: see the module of schedulers.
    pub(super) fn push(&mut self, chain: usize, start: u64, key: u64) {
        let (entry, chain) = (Entry { start, key }, chain % N);
        let (ring, head) = (&mut self.rings[chain], &mut self.heads[chain]);
        if ring.end.wrapping_sub(ring.first) == ring.entries.len() {
            ring.make_room();
        }
        self.tails[chain] = entry;
        if head.key == NONE {
            *head = entry;
            self.used = self.used.max(chain + 1);
        }
        let last = ring.entries.len() - 1;
        ring.entries[ring.end & last] = entry;
        ring.end = ring.end.wrapping_add(1);
    }

    /// Takes the first of a chain out, which the caller knows to have one.
    #[inline(always)] // Measured: see the module of schedulers.
    pub(super) fn pop(&mut self, chain: usize) {
        let chain = chain % N;
        let ring = &mut self.rings[chain];
        ring.first = ring.first.wrapping_add(1);
        let head = ring.entries[ring.first & (ring.entries.len() - 1)];
        self.heads[chain] = head;
        if ring.first == ring.end || head.start == NONE {
            self.settle(chain);
        }
    }

    /// Brings the first that is not struck out to the front.
    fn settle(&mut self, chain: usize) {
        let ring = &mut self.rings[chain];
        while ring.first != ring.end && ring.at(ring.first).start == NONE {
            ring.first = ring.first.wrapping_add(1);
        }
        if ring.first != ring.end {
            self.heads[chain] = ring.at(ring.first);
            return;
        }
        (self.heads[chain], self.tails[chain]) = (EMPTY, ORIGIN);
        while self.used > 0 && self.is_empty(self.used - 1) {
            self.used -= 1;
        }
    }

    /// Takes the flow with this key out, if it is in; says whether it was.
    pub(super) fn remove(&mut self, key: u64) -> bool {
        let found = self.rings.iter_mut().position(|ring| ring.strike_out(key));
        if let Some(chain) = found {
            self.settle(chain);
        }
        found.is_some()
    }

    /// The key of the flow at this distance behind the first of a chain. In a shorter chain, any
    /// key or [`NONE`].
    #[inline(always)] // Measured: see the module of schedulers.
    fn behind(&self, chain: usize, places: usize) -> u64 {
        let ring = &self.rings[chain % N];
        ring.at(ring.first.wrapping_add(places)).key
    }

    /// Removes all flows and returns their keys.
    pub(super) fn take_all(&mut self) -> Vec<u64> {
        let all = core::mem::take(self);
        let entries = all.rings.iter().flat_map(Ring::iter);
        entries.filter(|entry| entry.start != NONE).map(|entry| entry.key).collect()
    }
}

impl Ring {
    #[inline(always)] // Measured: see the module of schedulers.
    fn at(&self, position: usize) -> Entry {
        self.entries.get(position & self.entries.len().wrapping_sub(1)).copied().unwrap_or(EMPTY)
    }

    fn iter(&self) -> impl Iterator<Item = Entry> {
        (0..self.end.wrapping_sub(self.first)).map(|n| self.at(self.first.wrapping_add(n)))
    }

    /// Finds the entry with this key, by which they are in order, and strikes it out; says whether
    /// there is one.
    fn strike_out(&mut self, key: u64) -> bool {
        let (mut from, mut entries) = (self.first, self.end.wrapping_sub(self.first));
        while entries > 0 {
            let half = entries / 2;
            if self.at(from.wrapping_add(half)).key < key {
                from = from.wrapping_add(half + 1);
                entries -= half + 1;
            } else {
                entries = half;
            }
        }
        // Some with the same key may have been struck out before.
        while from != self.end && self.at(from).key == key {
            if self.at(from).start != NONE {
                let last = self.entries.len() - 1;
                self.entries[from & last].start = NONE;
                return true;
            }
            from = from.wrapping_add(1);
        }
        false
    }

    /// Forgets those struck out, and takes more memory if the others fill half of what there is.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        let mut entries: Vec<Entry> = self.iter().filter(|entry| entry.start != NONE).collect();
        let taken = entries.len();
        let size = if 2 * taken >= self.entries.len() {
            2 * self.entries.len()
        } else {
            self.entries.len()
        };
        entries.resize(size.max(LEAST), EMPTY);
        (self.entries, self.first, self.end) = (entries.into_boxed_slice(), 0, taken);
    }
}

/// How many classes there are. Each that is in use costs a look for each packet.
pub(super) const CLASSES: usize = 8;
/// How many chains they have.
pub(super) const HEADS: usize = 2 * CLASSES;
/// No start and no key.
pub(super) const NONE: u64 = u64::MAX;
/// The first entry of an empty chain.
const EMPTY: Entry = Entry { start: NONE, key: NONE };
/// An entry to which any flow can be appended.
const ORIGIN: Entry = Entry { start: 0, key: 0 };
/// Entries that a ring begins with.
const LEAST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        /// Against a map of those inside, by key.
        #[test]
        fn the_first_whose_start_has_come_is_found_whoever_comes_and_goes(
            operations in proptest::collection::vec((0u8..8, 0usize..4, 0u64..9, 0u64..9), 1..600),
        ) {
            let (mut chains, mut model) = (Chains::<4>::default(), BTreeMap::new());
            let (mut start, mut finish) = (0, 0);
            for (number, (what, chain, a, b)) in operations.into_iter().enumerate() {
                match what {
                    0 if !model.is_empty() => {
                        let key = *model.keys().nth(a as usize * 7 % model.len()).unwrap();
                        prop_assert!(chains.remove(key) && !chains.remove(key));
                        model.remove(&key);
                    }
                    1 | 2 => {
                        let (key, chain) = chains.first(start);
                        if key != NONE {
                            chains.pop(chain);
                            model.remove(&key);
                        }
                    }
                    3 if a == 0 && b == 0 => {
                        let mut all = chains.take_all();
                        all.sort_unstable();
                        prop_assert!(all.iter().eq(model.keys()));
                        model.clear();
                    }
                    _ => {
                        (start, finish) = (start + a, (finish + b).max(start));
                        // A bit behind the latest now and then, which one chain may refuse and
                        // another take.
                        let entry = (start.saturating_sub(3 * b), ((finish.saturating_sub(3 * a)) << 20) | number as u64);
                        if chains.fits(chain, entry.0, entry.1) {
                            chains.push(chain, entry.0, entry.1);
                            model.insert(entry.1, entry.0);
                        }
                    }
                }
                for now in [start.saturating_sub(9), start, start + 99] {
                    let expected = model.iter().find(|&(_, &start)| start <= now).map_or(NONE, |(&key, _)| key);
                    prop_assert_eq!(chains.first(now).0, expected);
                }
                prop_assert_eq!(chains.least_start(), model.values().copied().min().unwrap_or(NONE));
            }
        }
    }

    #[test]
    fn a_chain_takes_no_more_memory_for_those_who_left_from_within() {
        let mut chains = Chains::<1>::default();
        chains.push(0, 1, 1);
        for key in 2..10_000 {
            chains.push(0, 1, key);
            if key > 2 {
                assert!(chains.remove(key - 1));
            }
        }
        assert!(chains.rings[0].entries.len() <= 2 * LEAST);
        assert_eq!(chains.first(1), (1, 0));
        chains.pop(0);
        assert_eq!(chains.first(1), (9_999, 0));
        chains.pop(0);
        assert_eq!(chains.first(1).0, NONE);
        assert!(chains.fits(0, 0, 0), "an empty chain takes everybody");
    }

    #[test]
    fn a_class_has_its_chains_to_itself_until_they_are_empty() {
        let mut classes = Classes::default();
        for service in 1..=CLASSES as u64 {
            let chain = classes.chain_of(service, 0);
            assert!(
                classes.put(chain, 5, service << 20) && classes.put(chain, 4, service << 20 | 1),
                "the second goes beside the first"
            );
            assert!(!classes.put(chain, 3, service << 20 | 2), "behind neither");
        }
        assert_eq!(classes.chain_of(99, 0), HEADS);
        let (key, chain) = classes.first(4);
        assert_eq!(key, 1 << 20 | 1);
        classes.pop(chain);
        assert_eq!(classes.chain_of(99, 0), HEADS, "its other chain is in use");
        classes.pop(chain ^ 1);
        assert_eq!(classes.chain_of(99, 0), chain & !1);
    }
}
