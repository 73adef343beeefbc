//! *Chains*: lists of flows that need no sorting. Within a chain, every flow starts and finishes no
//! earlier than the flow in front of it.
//!
//! The scheduler needs the flow that finishes first among the flows that have started. Within a
//! chain, this can only be the first flow, since the flows behind it neither start nor finish
//! earlier. A search therefore inspects one entry of each chain, regardless of the number of flows
//! in the chain.
//!
//! [`Classes`] assigns flows to chains. The first packet of each flow of a class takes the same
//! virtual time `L / w`: the packet's length divided by the flow's weight. The previous packet of
//! each of these flows took that time too. The scheduler serves these flows in the order of their
//! finishes, and a flow starts again at its finish. The order of service is therefore the order of
//! the new starts, and each served flow can be appended to a chain. A flow that had no packets
//! starts at the current virtual time, which never decreases, and can be appended to the second
//! chain of its class. The caller stores all other flows elsewhere: flows with packets of varying
//! length, flows of further classes when all chains are in use ([`Classes::chain_of`] returns
//! [`HEADS`]), and flows that neither chain of their class accepts ([`Classes::put`] returns
//! false).
//!
//! A flow that leaves from the middle of a chain is struck out: its entry stays until it reaches
//! the front or the ring is full. A full ring first removes the entries that are struck out, and
//! doubles its size only if at least half of the entries remain. The average cost is one step for
//! each arrival.
//!
//! # Layout
//! ```text
//! a chain      … | first | … | last | …      a ring of 2^n entries
//! an entry     start   63 ............ 0   the part of the start that is compared; all ones: struck out
//!                           key     63 ............ 0   the part of the finish that is compared, and the flow's slot in the low bits
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Chains of flows with packets, two for each class. Memory is allocated when the first class is
/// created.
#[derive(Debug, Default)]
pub(super) struct Classes {
    chains: Option<Box<Chains<HEADS>>>,
    /// For each class, the virtual time that the first packet of each of its flows takes, `L / w`.
    services: [u64; CLASSES],
}

impl Classes {
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    pub(super) fn first(&self, now: u64) -> (u64, usize) {
        self.chains.as_ref().map_or((NONE, 0), |chains| chains.first(now))
    }

    pub(super) fn least_start(&self) -> u64 {
        self.chains.as_ref().map_or(NONE, |chains| chains.least_start())
    }

    /// The first chain of the class for the virtual time `service`; [`HEADS`] if there is neither
    /// such a class nor a free class. Tries `class` first.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    pub(super) fn chain_of(&mut self, service: u64, class: u8) -> usize {
        let known = self.services[class as usize % CLASSES] == service;
        if known { 2 * (class as usize % CLASSES) } else { self.find(service) }
    }

    /// Finds or creates the class for the virtual time `service`. Returns the same as
    /// [`Self::chain_of`].
    #[inline(never)]
    fn find(&mut self, service: u64) -> usize {
        let chains = self.chains.get_or_insert_default();
        let empty = |class: &usize| chains.is_empty(2 * class) && chains.is_empty(2 * class + 1);
        let known = self.services.iter().position(|&known| known == service);
        let Some(class) = known.or_else(|| (0..CLASSES).find(empty)) else { return HEADS };
        self.services[class] = service;
        2 * class
    }

    /// Appends a flow to `chain` or to the other chain of the same class; returns whether it fits
    /// into either.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
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

    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    pub(super) fn pop(&mut self, chain: usize) {
        if let Some(chains) = self.chains.as_mut() {
            chains.pop(chain);
        }
    }

    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    pub(super) fn behind(&self, chain: usize, places: usize) -> u64 {
        self.chains.as_ref().map_or(NONE, |chains| chains.behind(chain, places))
    }

    pub(super) fn remove(&mut self, key: u64) -> bool {
        self.chains.as_mut().is_some_and(|chains| chains.remove(key))
    }

    pub(super) fn take_all(&mut self) -> Vec<u64> {
        self.chains.as_mut().map_or_else(Vec::new, |chains| chains.take_all())
    }
}

/// `N` chains, a power of two.
#[derive(Debug)]
pub(super) struct Chains<const N: usize> {
    /// The first entry of each chain; [`EMPTY`] for an empty one.
    heads: [Entry; N],
    /// The last entry of each chain; [`ORIGIN`] for an empty one.
    tails: [Entry; N],
    rings: [Ring; N],
    /// The number of chains to inspect; chains with this index or a higher one are empty.
    used: usize,
}

/// A flow in a chain (see the layout in the module).
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    key: u64,
}

/// The entries of one chain.
#[derive(Debug, Default)]
struct Ring {
    entries: Box<[Entry]>,
    /// The position of the first entry, modulo the length of the ring.
    first: usize,
    /// The position of the next entry to append, modulo the length of the ring.
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
    /// The least key of the flows with a start no later than `now`, and its chain; [`NONE`] if
    /// there is no such flow.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    pub(super) fn first(&self, now: u64) -> (u64, usize) {
        let mut first = (NONE, 0);
        for (chain, head) in self.heads.iter().take(self.used).enumerate() {
            let key = if head.start <= now { head.key } else { NONE };
            first = if key < first.0 { (key, chain) } else { first };
        }
        first
    }

    /// The least start; [`NONE`] when all chains are empty.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    pub(super) fn least_start(&self) -> u64 {
        self.heads.iter().take(self.used).fold(NONE, |least, head| least.min(head.start))
    }

    #[inline]
    fn is_empty(&self, chain: usize) -> bool {
        self.heads[chain % N].key == NONE
    }

    /// Whether a flow with this start and key can be appended to a chain.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    pub(super) fn fits(&self, chain: usize, start: u64, key: u64) -> bool {
        let tail = self.tails[chain % N];
        (tail.start <= start) & (tail.key <= key)
    }

    /// Appends a flow for which [`Self::fits`] is true.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
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

    /// Removes the first flow of a chain, which must not be empty.
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
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

    /// Removes entries that are struck out from the front of a chain.
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

    /// Removes the flow with this key; returns whether there was one.
    pub(super) fn remove(&mut self, key: u64) -> bool {
        let found = self.rings.iter_mut().position(|ring| ring.strike_out(key));
        if let Some(chain) = found {
            self.settle(chain);
        }
        found.is_some()
    }

    /// The key of the flow `places` entries behind the first of a chain. For a shorter chain, any
    /// key or [`NONE`].
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
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
    #[inline(always)] // Measured: see "Inlining" in sched/mod.rs.
    fn at(&self, position: usize) -> Entry {
        self.entries.get(position & self.entries.len().wrapping_sub(1)).copied().unwrap_or(EMPTY)
    }

    fn iter(&self) -> impl Iterator<Item = Entry> {
        (0..self.end.wrapping_sub(self.first)).map(|n| self.at(self.first.wrapping_add(n)))
    }

    /// Strikes out the entry with this key; returns whether there is one. Entries are sorted by
    /// key.
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
        // Entries with the same key may already be struck out.
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

    /// Removes the entries that are struck out, and doubles the memory if the remaining entries
    /// fill at least half of it.
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

/// The number of classes. For each packet, a search inspects every class in use.
pub(super) const CLASSES: usize = 8;
/// The number of chains of all classes.
pub(super) const HEADS: usize = 2 * CLASSES;
/// The start and the key of an entry without a flow.
pub(super) const NONE: u64 = u64::MAX;
/// The first entry of an empty chain.
const EMPTY: Entry = Entry { start: NONE, key: NONE };
/// An entry to which any flow can be appended.
const ORIGIN: Entry = Entry { start: 0, key: 0 };
/// The number of entries of a new ring.
const LEAST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        /// Compares chains with a map of the flows inside, by key.
        #[test]
        fn the_first_started_flow_is_found_after_every_operation(
            operations in proptest::collection::vec((0u8..8, 0usize..4, 0u64..9, 0u64..9), 1..600),
        ) {
            let (mut chains, mut model) = (Chains::<4>::default(), BTreeMap::new());
            let (mut start, mut finish) = (0, 0);
            for (number, (operation, chain, a, b)) in operations.into_iter().enumerate() {
                match operation {
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
                        // Some flows start slightly before the latest, so that one chain may refuse
                        // them and another accept them.
                        let entry = (
                            start.saturating_sub(3 * b),
                            ((finish.saturating_sub(3 * a)) << 20) | number as u64,
                        );
                        if chains.fits(chain, entry.0, entry.1) {
                            chains.push(chain, entry.0, entry.1);
                            model.insert(entry.1, entry.0);
                        }
                    }
                }
                for now in [start.saturating_sub(9), start, start + 99] {
                    let expected = model
                        .iter()
                        .find(|&(_, &start)| start <= now)
                        .map_or(NONE, |(&key, _)| key);
                    prop_assert_eq!(chains.first(now).0, expected);
                }
                prop_assert_eq!(
                    chains.least_start(),
                    model.values().copied().min().unwrap_or(NONE)
                );
            }
        }
    }

    #[test]
    fn entries_struck_out_do_not_pile_up() {
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
        assert!(chains.fits(0, 0, 0), "an empty chain accepts every flow");
    }

    #[test]
    fn a_class_owns_its_chains_until_they_are_empty() {
        let mut classes = Classes::default();
        for service in 1..=CLASSES as u64 {
            let chain = classes.chain_of(service, 0);
            assert!(
                classes.put(chain, 5, service << 20) && classes.put(chain, 4, service << 20 | 1),
                "the second flow fits into the other chain"
            );
            assert!(!classes.put(chain, 3, service << 20 | 2), "the flow fits behind neither tail");
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
